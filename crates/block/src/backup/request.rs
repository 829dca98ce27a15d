//! What a backup is asked for, and what it returns.

use std::sync::atomic::AtomicBool;

use disk::Source;
use progress::Progress;

use super::ChangedRanges;

/// What to back up, and how.
pub struct Request<'a> {
    /// The volume's name in messages.
    pub name: &'a str,
    /// When the volume was in this state, seconds since the epoch.
    pub taken_s: i64,
    /// The note to store with it: JSON.
    pub note: String,
    /// Store everything, even if a parent generation exists.
    pub full: bool,
    /// The ranges that may have changed, if known: only these are read, and a sample of the rest as a check.
    pub changed: Option<ChangedRanges>,
    /// Whether a block's content shows that it changed after `changed` was listed: then a difference in the
    /// sample is no error. `None` if nobody writes to the volume meanwhile.
    pub is_newer: Option<NewerCheck<'a>>,
    /// The volume as it was at the generation since which `changed` lists the changes, if a snapshot of that
    /// still exists. Former contents of blocks are read from it, which is much faster than decompressing
    /// them.
    pub before: Option<&'a dyn Source>,
    /// Accept a file that changes while it is read.
    pub live: bool,
    /// Nobody can write to it while it is read, as with a snapshot: no check is needed.
    pub is_frozen: bool,
    /// Threads that hash and compress.
    pub jobs: usize,
    /// Maximum read rate in bytes per second.
    pub rate: Option<u64>,
    /// Whether the content of a changed block can't be right, given its former content. That may be older
    /// than the parent generation.
    pub is_suspect: Option<SuspectCheck<'a>>,
}

/// Whether a block's content shows that it changed after some moment.
pub type NewerCheck<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// Whether something is wrong with a block, given its former and its present content.
pub type SuspectCheck<'a> = &'a (dyn Fn(&[u8], &[u8]) -> bool + Sync);

impl<'a> Request<'a> {
    /// A backup with the defaults: incremental, with one thread.
    #[must_use]
    pub fn new(name: &'a str) -> Request<'a> {
        Request {
            name,
            taken_s: 0,
            note: "{}".to_owned(),
            full: false,
            changed: None,
            is_newer: None,
            before: None,
            live: false,
            is_frozen: false,
            jobs: 1,
            rate: None,
            is_suspect: None,
        }
    }
}

/// What a run gets from its caller.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Set when the run must stop.
    pub stop: &'a AtomicBool,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

/// The result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of the new generation.
    pub generation: u64,
    /// The generation relative to which it stores changes; 0 for a full one.
    pub parent: u64,
    /// Length of the volume in bytes.
    pub len: u64,
    /// Blocks that changed. A chunk that became zeros counts as none.
    pub changed: u64,
    /// How many of them an interrupted run had already stored.
    pub reused: u64,
    /// Bytes of the new file.
    pub written: u64,
    /// Hash of the volume's content, as in [`crate::Generation`].
    pub content: [u8; 32],
    /// Blocks that were stored again because their stored copies are damaged, whether they changed or not.
    pub healed: u64,
    /// Damage found in the repository. The new generation is complete nevertheless.
    pub damages: Vec<String>,
    /// The blocks for which [`Request::is_suspect`] returned true, by their numbers in the volume, in order.
    pub suspect_blocks: Vec<u64>,
}
