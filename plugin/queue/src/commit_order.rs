//! Commits that the server's coordinator remembers, so that queues need not sync them one by one.
//!
//! From time to time the coordinator asks whether it may forget them. It is answered when all that were in
//! order by then are done, and their queues are synced.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use queue::{Error, Queue};

use crate::abi::{RQ_DISK, RQ_OK, RqCheckpointDone, RqError};
use crate::guard::{Fault, guard};
use crate::pending_decisions::{decide_again, is_any};

/// Whoever answers has it, so that nobody finds the queues synced that another one is about to sync.
static ANSWERING: Mutex<()> = Mutex::new(());

static REMEMBERED: Mutex<CommitLog> = Mutex::new(CommitLog {
    last: 0,
    running: BTreeSet::new(),
    queues: Vec::new(),
    asked: Vec::new(),
    failed: None,
});

struct CommitLog {
    /// The number of the last commit.
    last: u64,
    /// Commits that the coordinator has put in order and that are not done in all queues.
    running: BTreeSet<u64>,
    /// Queues with commits that may not be durable.
    queues: Vec<Arc<Queue>>,
    asked: Vec<CheckpointRequest>,
    /// Why questions are not answered any more.
    failed: Option<Error>,
}

/// What the coordinator has asked.
struct CheckpointRequest {
    /// It is about the commits before this one.
    before: u64,
    forget: RqCheckpointDone,
    cookie: Cookie,
}

/// What the coordinator knows its question by.
struct Cookie(*mut c_void);

// SAFETY: only the server looks at it, and it allows every thread to hand it back.
unsafe impl Send for Cookie {}

fn remembered() -> MutexGuard<'static, CommitLog> {
    REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A commit that the coordinator remembers.
pub(crate) struct Commit {
    number: u64,
}

impl Commit {
    /// Notes that the coordinator remembers it from now on.
    pub(crate) fn begin() -> Commit {
        let mut all = remembered();
        all.last += 1;
        let number = all.last;
        all.running.insert(number);
        Commit { number }
    }

    /// Notes that it is done in these queues.
    pub(crate) fn end(self, queues: Vec<Arc<Queue>>) {
        let mut all = remembered();
        all.running.remove(&self.number);
        for queue in queues {
            if !all.queues.iter().any(|known| Arc::ptr_eq(known, &queue)) {
                all.queues.push(queue);
            }
        }
        let asked = !all.asked.is_empty();
        drop(all);
        if asked {
            answer();
        }
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        let mut all = remembered();
        if all.running.contains(&self.number) {
            let why = "an internal error in a commit that the server may have recorded";
            all.failed.get_or_insert(Error::Failed { why: why.into() });
        }
    }
}

/// Why no further commit can be remembered: the coordinator could not forget it.
pub(crate) fn failed() -> Result<(), Error> {
    remembered().failed.clone().map_or(Ok(()), Err)
}

/// Answers what can be answered.
fn answer() {
    let answering = ANSWERING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = remembered();
    let first = all.running.first().copied().unwrap_or(u64::MAX);
    let ready: Vec<CheckpointRequest> =
        all.asked.extract_if(.., |question| question.before <= first).collect();
    drop(all);
    if ready.is_empty() {
        return;
    }
    match sync(&answering) {
        Ok(()) => {
            drop(answering);
            ready.into_iter().for_each(|question| (question.forget)(question.cookie.0));
        }
        Err(_) => remembered().asked.extend(ready),
    }
}

/// Makes the commits that are done durable.
fn sync(_answering: &MutexGuard<'_, ()>) -> Result<(), Fault> {
    let queues = std::mem::take(&mut remembered().queues);
    let mut result = Ok(());
    for queue in queues {
        let Err(why) = queue.sync() else { continue };
        if matches!(why, Error::Dropped) {
            continue;
        }
        let mut all = remembered();
        all.queues.push(queue);
        // A full disk may have room the next time.
        if !matches!(why, Error::Disk { .. }) {
            all.failed.get_or_insert(why.clone());
        }
        result = Err(why);
    }
    // A decision that the disk did not take is known to the coordinator only.
    decide_again();
    if is_any() {
        let why = "the decision about a transaction could not be written";
        return Err(Fault::Other(RQ_DISK, why.to_owned()));
    }
    Ok(result?)
}

/// Makes the commits that the coordinator remembers durable, but for those that are under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_sync_commits(error: *mut RqError) -> c_int {
    guard(error, None, || {
        sync(&ANSWERING.lock().unwrap_or_else(PoisonError::into_inner))?;
        failed()?;
        Ok(RQ_OK)
    })
}

/// The coordinator asks whether it may forget what is in order by now. `forget` is called with the cookie
/// when it may: before this returns, or later by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_request_checkpoint(forget: RqCheckpointDone, cookie: *mut c_void) {
    guard(std::ptr::null_mut(), None, || {
        let mut all = remembered();
        let before = all.last + 1;
        all.asked.push(CheckpointRequest { before, forget, cookie: Cookie(cookie) });
        drop(all);
        answer();
        Ok(RQ_OK)
    });
}

#[cfg(test)]
mod tests {
    use std::ffi::{c_int, c_void};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use condition::{Column, ColumnLayout, Kind, Schema};
    use disk::faults::FaultDisk;
    use queue::{Dedupe, Definition, Engine, Options, OwnerId, Queue, RealDisk, Session, Xid};

    use super::{Commit, failed, rq_request_checkpoint, rq_sync_commits};
    use crate::abi::{RQ_DISK, RQ_FAILED, RQ_OK};
    use crate::pending_decisions;

    static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn forget(_: *mut c_void) {
        FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    }

    fn asked() -> usize {
        // SAFETY: the function does not look at the pointer.
        unsafe { rq_request_checkpoint(forget, std::ptr::null_mut()) };
        FORGOTTEN.load(Ordering::Relaxed)
    }

    fn synced() -> c_int {
        // SAFETY: null is allowed.
        unsafe { rq_sync_commits(std::ptr::null_mut()) }
    }

    #[test]
    fn a_commit_is_forgotten_when_it_is_done_and_never_if_its_queue_failed() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { threads: 0, ..Options::new(|| 0, || [7; 16]) };
        let engine = Engine::start(Arc::new(RealDisk), options).unwrap();
        let open = |name: &str| {
            let folder = folder.path().join(name);
            engine.create(&folder, &Definition::default()).unwrap();
            engine.open(&folder).unwrap()
        };
        let (one, other) = (open("one"), open("other"));
        assert_eq!(asked(), 1, "nothing is under way");
        let (first, second) = (Commit::begin(), Commit::begin());
        assert_eq!(asked(), 1);
        let third = Commit::begin();
        second.end(vec![one.clone()]);
        assert_eq!(FORGOTTEN.load(Ordering::Relaxed), 1, "one of the two is under way");
        first.end(vec![one.clone()]);
        assert_eq!(FORGOTTEN.load(Ordering::Relaxed), 2, "the third one came later");
        third.end(vec![one.clone(), other]);
        assert_eq!(asked(), 3);

        let disk = FaultDisk::default();
        let (_engine, keyed) = keyed(&disk);
        let mut transaction = Session::new(OwnerId(1)).begin(&keyed).unwrap();
        transaction.publish(&[&[7]]).unwrap();
        let prepared = transaction.prepare(&Xid::new(1, b"one", b"").unwrap()).unwrap();
        disk.limit(0);
        let commit = Commit::begin();
        pending_decisions::commit_remembered(prepared);
        commit.end(vec![keyed.clone()]);
        assert_eq!(asked(), 3, "the disk has not taken what was decided");
        assert_eq!(synced(), RQ_DISK);
        disk.limit(u64::MAX);
        assert_eq!(asked(), 5, "it has room again");
        assert_eq!(synced(), RQ_OK);
        assert_eq!(keyed.recover(), []);

        one.fail("for a test");
        assert_eq!(asked(), 6, "what was decided in it is durable");
        failed().unwrap();
        Commit::begin().end(vec![one]);
        assert_eq!(asked(), 6);
        assert!(failed().unwrap_err().to_string().contains("for a test"));
        assert_eq!(asked(), 6);
        assert_eq!(synced(), RQ_FAILED);
    }

    /// A queue with DEDUPE, which decides at the commit what is left out.
    fn keyed(disk: &FaultDisk) -> (Engine, Arc<Queue>) {
        let (kind, layout) = (Kind::Integer { signed: false }, ColumnLayout::Fixed(0, 1));
        let columns =
            vec![Column { name: "key".to_owned(), kind, layout, null_bit: None, members: Vec::new() }];
        let schema = Schema { null_bytes: 0, fixed_bytes: 1, columns }.encode();
        let dedupe = Some(Dedupe { column: 0, for_ms: 1000 });
        let definition = Definition { schema, dedupe, transactional: true, ..Definition::default() };
        let options = Options { threads: 0, ..Options::new(|| 0, || [7; 16]) };
        let engine = Engine::start(Arc::new(disk.clone()), options).unwrap();
        let folder = std::path::Path::new("/db/keyed");
        engine.create(folder, &definition).unwrap();
        let queue = engine.open(folder).unwrap();
        (engine, queue)
    }
}
