//! Commits that the server's coordinator remembers, so that queues need not sync them one by one.
//!
//! From time to time the coordinator asks whether it may forget them. It is answered when all that were in
//! order by then are done, and their queues are synced.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use queue::{Error, Queue};

use crate::abi::{RQ_OK, RqForget};
use crate::guard::guard;

/// Whoever answers has it, so that nobody finds the queues synced that another one is about to sync.
static ANSWERING: Mutex<()> = Mutex::new(());

static REMEMBERED: Mutex<Remembered> = Mutex::new(Remembered {
    next: 0,
    running: BTreeSet::new(),
    queues: Vec::new(),
    asked: Vec::new(),
    failed: None,
});

struct Remembered {
    /// The number of the next commit.
    next: u64,
    /// Commits that the coordinator has put in order and that are not done in all queues.
    running: BTreeSet<u64>,
    /// Queues with commits that may not be durable.
    queues: Vec<Arc<Queue>>,
    asked: Vec<Question>,
    /// Why questions are not answered any more.
    failed: Option<Error>,
}

/// What the coordinator has asked.
struct Question {
    /// It is about the commits before this one.
    before: u64,
    forget: RqForget,
    cookie: Cookie,
}

/// What the coordinator knows its question by.
struct Cookie(*mut c_void);

// SAFETY: only the server looks at it, and it allows every thread to hand it back.
unsafe impl Send for Cookie {}

fn remembered() -> MutexGuard<'static, Remembered> {
    REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the coordinator remembers a commit from now on, and returns the commit's number.
pub(crate) fn begin() -> u64 {
    let mut all = remembered();
    all.next += 1;
    let number = all.next;
    all.running.insert(number);
    number
}

/// Notes that a commit is done in these queues.
pub(crate) fn end(number: u64, queues: Vec<Arc<Queue>>) {
    let mut all = remembered();
    all.running.remove(&number);
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

/// Why no further commit can be remembered: the coordinator could not forget it.
pub(crate) fn failed() -> Result<(), Error> {
    remembered().failed.clone().map_or(Ok(()), Err)
}

/// Answers what can be answered.
fn answer() {
    let answering = ANSWERING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = remembered();
    let first = all.running.first().copied().unwrap_or(u64::MAX);
    let ready: Vec<Question> = all.asked.extract_if(.., |question| question.before <= first).collect();
    let queues = if ready.is_empty() { Vec::new() } else { std::mem::take(&mut all.queues) };
    drop(all);
    let mut left = Vec::new();
    for queue in queues {
        match queue.sync() {
            Ok(()) | Err(Error::Dropped) => {}
            Err(why) => left.push((queue, why)),
        }
    }
    if left.is_empty() {
        drop(answering);
        ready.into_iter().for_each(|question| (question.forget)(question.cookie.0));
        return;
    }
    let mut all = remembered();
    all.asked.extend(ready);
    for (queue, why) in left {
        all.queues.push(queue);
        // A full disk may have room the next time.
        if !matches!(why, Error::Disk { .. }) {
            all.failed.get_or_insert(why);
        }
    }
}

/// The coordinator asks whether it may forget what is in order by now. `forget` is called with the cookie
/// when it may: before this returns, or later by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rq_ask_to_forget(forget: RqForget, cookie: *mut c_void) {
    guard(std::ptr::null_mut(), None, || {
        let mut all = remembered();
        let before = all.next + 1;
        all.asked.push(Question { before, forget, cookie: Cookie(cookie) });
        drop(all);
        answer();
        Ok(RQ_OK)
    });
}
