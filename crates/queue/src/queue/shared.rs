//! What all queues of an engine share, and the jobs of the background threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use disk::Disk;

use crate::queue::Queue;
use crate::queue::lease_table::Clock;
use crate::store::files::OpenFiles;
use crate::sync::{Condvar, Mutex, lock, wait, wait_for};
use crate::{Counters, Error};

/// Options of an engine. The defaults suit a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Segment size in bytes. Opening a queue reads about this much.
    pub segment_bytes: u64,
    /// Background threads for compaction, checkpoints and deferred writes. With none, these happen only
    /// on request.
    pub threads: usize,
    /// Maximum delay before rows of a queue with [`crate::Sync::Interval`] are synced, and before an
    /// acknowledgement is written without [`crate::Sync::Always`].
    pub interval: Duration,
    /// Number of empty segments that triggers a checkpoint, which removes their files.
    pub emptied_max: usize,
    /// Idle time after which a queue closes its files; it may take up to twice as long.
    pub idle: Duration,
    /// Approximate maximum number of open files of all queues. The least recently used are closed first.
    pub files_max: usize,
    /// The time, milliseconds since 1970.
    pub now_ms: fn() -> u64,
    /// A monotonic clock in milliseconds.
    pub up_ms: fn() -> u64,
    /// Random bytes, for the incarnation id of a new queue.
    pub random: fn() -> [u8; 16],
}

impl Options {
    /// The defaults, with a clock and a source of random bytes.
    #[must_use]
    pub fn new(now_ms: fn() -> u64, random: fn() -> [u8; 16]) -> Options {
        Options {
            segment_bytes: 16 << 20,
            threads: 2,
            interval: Duration::from_secs(1),
            emptied_max: 4,
            idle: Duration::from_secs(30),
            files_max: 512,
            now_ms,
            up_ms,
            random,
        }
    }
}

/// Milliseconds since the first call.
fn up_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What all queues of an engine share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) files: Arc<OpenFiles>,
    opener: OnceLock<Weak<dyn Opener>>,
    numbers: AtomicU64,
    jobs: Mutex<Jobs>,
    job_added: Condvar,
    registry: Mutex<Registry>,
    moves: Mutex<MoveCounter>,
    moved: Condvar,
}

/// Counts moves of rows between queues.
#[derive(Default)]
struct MoveCounter {
    /// Whether new moves are refused.
    paused: bool,
    /// Moves in progress.
    busy: usize,
}

/// Counts a move as long as this value lives.
pub(crate) struct MoveGuard<'shared>(&'shared Shared);

impl Drop for MoveGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.moves).busy -= 1;
        self.0.moved.notify_all();
    }
}

/// Opens the queue in a folder, for a queue that hands rows on.
pub(crate) trait Opener: Send + Sync {
    fn open(&self, folder: &Path) -> Result<Arc<Queue>, Error>;
}

/// What happened since the start, including queues that no longer exist.
#[derive(Default)]
struct Registry {
    /// The sum over queues that nobody uses any more.
    counters: Counters,
    /// All other queues, open or not.
    alive: BTreeMap<u64, Weak<Queue>>,
}

#[derive(Default)]
struct Jobs {
    maintain: BTreeMap<u64, Weak<Queue>>,
    /// Threads that compact or write a checkpoint, which may take long.
    maintaining: usize,
    flush: BTreeMap<u64, Weak<Queue>>,
    /// When the queues in `flush` are due.
    flush_at: Option<Instant>,
    /// Queues with open files.
    open: BTreeMap<u64, Weak<Queue>>,
    /// When to look at the queues in `open`.
    idle_check_at: Option<Instant>,
    /// Queues with leases, by when the next one is over.
    timers: BTreeMap<(Instant, u64), Weak<Queue>>,
    stop: bool,
}

/// The next job for a background thread.
pub(crate) enum Job<'shared> {
    Maintain(Weak<Queue>, MaintenanceSlot<'shared>),
    Flush(Vec<Weak<Queue>>),
    CloseIdle(Vec<Weak<Queue>>),
    EndDue(Weak<Queue>),
    Stop,
}

/// Counts a thread that compacts or writes a checkpoint, as long as this value lives.
pub(crate) struct MaintenanceSlot<'shared>(&'shared Shared);

impl Drop for MaintenanceSlot<'_> {
    fn drop(&mut self) {
        lock(&self.0.jobs).maintaining -= 1;
    }
}

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, options: Options) -> Shared {
        let (numbers, jobs, job_added) = (AtomicU64::new(1), Mutex::default(), Condvar::default());
        let (files, registry) = (OpenFiles::new(options.files_max), Mutex::default());
        let (opener, moves, moved) = (OnceLock::new(), Mutex::default(), Condvar::default());
        Shared { disk, options, files, opener, numbers, jobs, job_added, registry, moves, moved }
    }

    /// Begins to move rows to another queue.
    ///
    /// # Errors
    /// [`Error::Backup`].
    pub(crate) fn begin_move(&self) -> Result<MoveGuard<'_>, Error> {
        let mut moves = lock(&self.moves);
        if moves.paused {
            return Err(Error::Backup);
        }
        moves.busy += 1;
        Ok(MoveGuard(self))
    }

    /// No row is moved from now on; waits for those that are on their way.
    pub(crate) fn pause_moves(&self) {
        let mut moves = lock(&self.moves);
        moves.paused = true;
        while moves.busy > 0 {
            moves = wait(&self.moved, moves);
        }
    }

    /// Rows may be moved again.
    pub(crate) fn resume_moves(&self) {
        lock(&self.moves).paused = false;
    }

    /// Sets what opens queues.
    pub(crate) fn open_with(&self, opener: Weak<dyn Opener>) {
        self.opener.get_or_init(|| opener);
    }

    /// Opens another queue.
    pub(crate) fn open(&self, folder: &Path) -> Result<Arc<Queue>, Error> {
        let opener = self.opener.get().and_then(Weak::upgrade).ok_or(Error::Dropped)?;
        opener.open(folder)
    }

    /// Tells the threads that there are no more jobs.
    pub(crate) fn stop(&self) {
        lock(&self.jobs).stop = true;
        self.job_added.notify_all();
    }

    /// The counters of queues that are gone, and all other queues, open or not. Both are read under one lock,
    /// so that a queue that goes meanwhile is in exactly one of them.
    pub(crate) fn counters_and_queues(&self) -> (Counters, Vec<Arc<Queue>>) {
        let registry = lock(&self.registry);
        (registry.counters, registry.alive.values().filter_map(Weak::upgrade).collect())
    }

    pub(crate) fn note_opened(&self, number: u64, queue: &Weak<Queue>) {
        lock(&self.registry).alive.insert(number, queue.clone());
    }

    pub(crate) fn note_gone(&self, number: u64, counters: &Counters) {
        let mut registry = lock(&self.registry);
        registry.alive.remove(&number);
        registry.counters = registry.counters.and(counters);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.options.now_ms)()
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock { wall_ms: self.now_ms(), up_ms: (self.options.up_ms)() }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// When too many files are open, closes those of the least recently used queues, except queues in use.
    pub(crate) fn close_surplus_files(&self) {
        if !self.files.is_full() {
            return;
        }
        let mut open: Vec<Arc<Queue>> =
            lock(&self.registry).alive.values().filter_map(Weak::upgrade).collect();
        open.retain(|queue| queue.can_close());
        open.sort_by_key(|queue| queue.used());
        for queue in open {
            if self.files.surplus() == 0 {
                break;
            }
            queue.try_close();
        }
    }

    /// Schedules a queue to be compacted where it is sparse, and its checkpoint to be written.
    pub(crate) fn schedule(&self, queue: &Queue) {
        if self.options.threads > 0 {
            lock(&self.jobs).maintain.insert(queue.number, queue.me.clone());
            self.job_added.notify_one();
        }
    }

    /// Schedules a queue to write and sync, after the interval, what it deferred.
    pub(crate) fn schedule_flush(&self, queue: &Queue) {
        if self.options.threads > 0 {
            let mut jobs = lock(&self.jobs);
            jobs.flush.insert(queue.number, queue.me.clone());
            jobs.flush_at.get_or_insert_with(|| Instant::now() + self.options.interval);
            self.job_added.notify_one();
        }
    }

    /// Schedules a queue to end leases that are over after this time.
    pub(crate) fn schedule_due(&self, queue: &Queue, left: Duration) {
        let due = Instant::now().checked_add(left);
        if let Some(due) = due.filter(|_| self.options.threads > 0) {
            lock(&self.jobs).timers.insert((due, queue.number), queue.me.clone());
            self.job_added.notify_one();
        }
    }

    /// Schedules a queue to close its files when it is not used for a while.
    pub(crate) fn schedule_idle_check(&self, queue: &Queue) {
        if self.options.threads > 0 {
            let mut jobs = lock(&self.jobs);
            jobs.open.insert(queue.number, queue.me.clone());
            jobs.idle_check_at.get_or_insert_with(|| Instant::now() + self.options.idle);
            self.job_added.notify_one();
        }
    }

    /// Waits for a job.
    pub(crate) fn next_job(&self) -> Job<'_> {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.stop {
                return Job::Stop;
            }
            let now = Instant::now();
            if jobs.flush_at.is_some_and(|due| due <= now) {
                jobs.flush_at = None;
                return Job::Flush(std::mem::take(&mut jobs.flush).into_values().collect());
            }
            if jobs.idle_check_at.is_some_and(|look| look <= now) {
                jobs.idle_check_at = None;
                return Job::CloseIdle(std::mem::take(&mut jobs.open).into_values().collect());
            }
            if let Some(due) = jobs.timers.first_entry().filter(|entry| entry.key().0 <= now) {
                return Job::EndDue(due.remove());
            }
            let lease = jobs.timers.first_key_value().map(|((due, _), _)| *due);
            let next = jobs.flush_at.into_iter().chain(jobs.idle_check_at).chain(lease).min();
            let left = next.map(|next| next.saturating_duration_since(now));
            // One thread stays free for jobs with a due time.
            let free = jobs.maintaining == 0 || jobs.maintaining + 1 < self.options.threads;
            if let Some((_, queue)) = free.then(|| jobs.maintain.pop_first()).flatten() {
                jobs.maintaining += 1;
                return Job::Maintain(queue, MaintenanceSlot(self));
            }
            jobs = wait_for(&self.job_added, jobs, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};
    use std::time::Instant;

    use disk::RealDisk;

    use super::{Job, Options, Shared};
    use crate::sync::lock;

    #[test]
    fn one_thread_is_free_for_what_is_due() {
        let shared = Shared::new(Arc::new(RealDisk), Options::new(|| 0, || [0; 16]));
        lock(&shared.jobs).maintain.extend([(1, Weak::new()), (2, Weak::new())]);
        let Job::Maintain(_, first) = shared.next_job() else { panic!("there are queues to compact") };
        lock(&shared.jobs).idle_check_at = Some(Instant::now());
        assert!(matches!(shared.next_job(), Job::CloseIdle(_)));
        lock(&shared.jobs).flush_at = Some(Instant::now() + std::time::Duration::from_millis(20));
        assert!(matches!(shared.next_job(), Job::Flush(_)));
        drop(first);
        assert!(matches!(shared.next_job(), Job::Maintain(..)));
    }
}
