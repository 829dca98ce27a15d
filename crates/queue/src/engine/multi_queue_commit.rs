//! Transactions over several queues, and their recovery at the start of the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::consumer::transaction::{PreparedTransaction, Transaction};
use crate::engine::Engine;
use crate::format::checkpoint::Checkpoint;
use crate::format::transaction::Xid;
use crate::queue::Queue;

/// The format id of the XIDs that this engine makes. Those of servers and users are not negative.
const FORMAT: i64 = -0x5251_5458;

/// The branch in the queue that decides, and those in the other queues.
const FIRST: &[u8] = b"first";
const OTHER: &[u8] = b"other";

/// How the name of a queue's folder ends.
const SUFFIX: &str = ".queue";

/// Commits transactions of several queues with all or nothing, also after a crash. Those that change nothing
/// cost nothing, and one alone is [`Transaction::commit_one_phase`].
///
/// Several are prepared, under an XID of the engine's own. Then the commit of the first one decides: a start
/// that finds the first one prepared rolls all of them back, and one that does not commits the others.
///
/// `left` receives the transactions that are decided but whose decision could not be written, with true for
/// commit: decide each of them later, in this order. A start decides them in the same way.
///
/// # Errors
/// Those of [`Transaction::prepare`] and [`crate::Queue::commit_by_xid`]; the transactions are then rolled
/// back, except when the first queue went out of service: then the next start tells what is in its log.
pub fn commit_multi_queue(
    mut transactions: Vec<Transaction>,
    random: fn() -> [u8; 16],
    left: &mut Vec<(PreparedTransaction, bool)>,
) -> Result<(), Error> {
    transactions.retain(|transaction| !transaction.is_empty());
    if transactions.len() < 2 {
        return transactions.pop().map_or(Ok(()), Transaction::commit_one_phase);
    }
    let gtrid = random();
    let mut prepared: Vec<PreparedTransaction> = Vec::new();
    for transaction in transactions {
        let branch = if prepared.is_empty() { FIRST } else { OTHER };
        match engine_xid(&gtrid, branch).and_then(|xid| transaction.prepare(&xid)) {
            Ok(ready) => prepared.push(ready),
            Err(error) => {
                left.extend(roll_back_all(prepared));
                return Err(error);
            }
        }
    }
    match prepared.first().map_or(Ok(()), PreparedTransaction::commit) {
        Ok(()) => {
            let undone = prepared.into_iter().skip(1).filter(|other| !other.decide(true));
            left.extend(undone.map(|other| (other, true)));
            Ok(())
        }
        // It is still prepared: nothing was decided.
        Err(error @ Error::Disk { .. }) => {
            left.extend(roll_back_all(prepared));
            Err(error)
        }
        // Only the next start can tell what is in the log.
        Err(error) => Err(error),
    }
}

/// Rolls all of them back, the first one last: while it is prepared, a start would do the same. Returns those
/// for which this could not be written, in the order in which they must be.
fn roll_back_all(mut prepared: Vec<PreparedTransaction>) -> Vec<(PreparedTransaction, bool)> {
    while prepared.last().is_some_and(|last| last.decide(false)) {
        prepared.pop();
    }
    prepared.into_iter().rev().map(|each| (each, false)).collect()
}

fn engine_xid(gtrid: &[u8], branch: &[u8]) -> Result<Xid, Error> {
    Xid::new(FORMAT, gtrid, branch).ok_or(Error::UnknownTransaction)
}

impl Xid {
    /// Whether the engine has made it for a transaction of several queues, which no coordinator decides.
    #[must_use]
    pub fn is_of_engine(&self) -> bool {
        self.format() == FORMAT
    }
}

impl Engine {
    /// Opens the queues that have transactions: the folders `DATABASE/NAME.queue` below `root`. Then it
    /// decides what [`commit_multi_queue`] had begun; the others wait for their coordinator. Returns the
    /// folders that could not be opened or written, and why: their transactions wait for the next start.
    ///
    /// # Errors
    /// [`Error::Disk`] when `root` can't be listed.
    pub fn open_transactional(&self, root: &Path) -> Result<Vec<(PathBuf, Error)>, Error> {
        let disk = &*self.shared.disk;
        let mut failed = Vec::new();
        for database in disk.list(root).map_err(Error::disk(root))? {
            let database = root.join(database);
            // Files, and folders of others, are no databases with queues.
            let Ok(names) = disk.list(&database) else { continue };
            for folder in names.into_iter().map(|name| database.join(name)) {
                if !folder.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
                    continue;
                }
                match Checkpoint::read(disk, &folder) {
                    Ok(checkpoint) if !checkpoint.definition.transactional => {}
                    // What is left of a CREATE or a DROP that was stopped.
                    Err(Error::Missing { .. }) => {}
                    _ => failed.extend(self.open(&folder).err().map(|error| (folder, error))),
                }
            }
        }
        if failed.is_empty() {
            failed.extend(self.decide_engine_transactions());
        }
        Ok(failed)
    }

    /// Decides the transactions that the engine coordinates; all their queues are open.
    fn decide_engine_transactions(&self) -> Vec<(PathBuf, Error)> {
        let mut own: Vec<(Xid, Arc<Queue>)> = Vec::new();
        for queue in self.queues() {
            let here = queue.recover().into_iter().filter(Xid::is_of_engine);
            own.extend(here.map(|xid| (xid, queue.clone())));
        }
        let undecided: Vec<Vec<u8>> =
            own.iter().filter(|(xid, _)| xid.bqual() == FIRST).map(|(xid, _)| xid.gtrid().to_vec()).collect();
        // The first ones come last, so that a crash in between leaves the same answer.
        own.sort_by_key(|(xid, _)| xid.bqual() == FIRST);
        let mut failed: Vec<(PathBuf, Error)> = Vec::new();
        let mut left: Vec<Vec<u8>> = Vec::new();
        for (xid, queue) in own {
            let back = undecided.iter().any(|gtrid| gtrid == xid.gtrid());
            if xid.bqual() == FIRST && left.iter().any(|gtrid| gtrid == xid.gtrid()) {
                continue;
            }
            let done = if back { queue.rollback_by_xid(&xid) } else { queue.commit_by_xid(&xid) };
            if let Err(error) = done {
                left.push(xid.gtrid().to_vec());
                failed.push((queue.folder(), error));
            }
        }
        failed
    }
}
