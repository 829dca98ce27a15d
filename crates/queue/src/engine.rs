//! All queues of a server: which are open, the threads that tidy up behind them, and creating, dropping,
//! renaming.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use disk::Disk;

use crate::batch::{Incarnation, SegmentName};
use crate::checkpoint::{self, Checkpoint};
use crate::files::Files;
use crate::folder::Folder;
use crate::log::Log;
use crate::origin::Journal;
use crate::queue::Queue;
use crate::record::RowId;
use crate::recovery;
use crate::sync::{Condvar, Mutex, lock, wait, wait_for};
use crate::{Counters, Definition, Error, Status};

/// How an engine works. The defaults are right for a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes after which a segment is sealed. An opening reads about so much.
    pub segment_bytes: u64,
    /// Threads that compact, write checkpoints, and write and sync what was put off. With none, nothing of
    /// this happens by itself.
    pub threads: usize,
    /// How long what was written to a queue with [`crate::Sync::Interval`] may stay unsynced, and an
    /// acknowledgement unwritten without [`crate::Sync::Always`].
    pub interval: Duration,
    /// A checkpoint is written, and their files are removed, when so many segments are empty.
    pub emptied_max: usize,
    /// A queue that nobody used for so long, or up to twice as long, closes its files until it is used again.
    pub idle: Duration,
    /// Files that may be open at once for all queues together, or some more; when there are too many, those
    /// that were used longest ago are closed until they are used again.
    pub files_max: usize,
    /// The time, milliseconds since 1970.
    pub now_ms: fn() -> u64,
    /// Random bytes: the incarnation of a new queue.
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
            random,
        }
    }
}

/// What all queues of an engine share.
pub(crate) struct Shared {
    disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) files: Arc<Files>,
    numbers: AtomicU64,
    jobs: Mutex<Jobs>,
    bell: Condvar,
    past: Mutex<Past>,
}

/// What happened since the start, whatever became of the queue that it happened in.
#[derive(Default)]
struct Past {
    /// In queues that nobody uses any more.
    counters: Counters,
    /// All other queues, open or not.
    alive: BTreeMap<u64, Weak<Queue>>,
}

#[derive(Default)]
struct Jobs {
    maintain: BTreeMap<u64, Weak<Queue>>,
    settle: BTreeMap<u64, Weak<Queue>>,
    /// When the queues in `settle` are due.
    due: Option<Instant>,
    /// Queues with open files.
    used: BTreeMap<u64, Weak<Queue>>,
    /// When the queues in `used` are looked at.
    look: Option<Instant>,
    stop: bool,
}

enum Job {
    Maintain(Weak<Queue>),
    Settle(Vec<Weak<Queue>>),
    Rest(Vec<Weak<Queue>>),
    Stop,
}

impl Shared {
    pub(crate) fn note_opened(&self, number: u64, queue: &Weak<Queue>) {
        lock(&self.past).alive.insert(number, queue.clone());
    }

    pub(crate) fn note_gone(&self, number: u64, counters: &Counters) {
        let mut past = lock(&self.past);
        past.alive.remove(&number);
        past.counters = past.counters.and(counters);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.options.now_ms)()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Closes the files of queues that were used longest ago, when there are too many. Who calls holds no
    /// queue's lock.
    pub(crate) fn make_room(&self) {
        if !self.files.is_full() {
            return;
        }
        let mut open: Vec<Arc<Queue>> = lock(&self.past).alive.values().filter_map(Weak::upgrade).collect();
        open.retain(|queue| queue.is_open());
        open.sort_by_key(|queue| queue.used());
        for queue in open {
            if self.files.surplus() == 0 {
                break;
            }
            // One that can't be closed is told of by its next use.
            queue.rest().ok();
        }
    }

    /// Has a queue compacted as far as it is sparse, and a checkpoint of it written.
    pub(crate) fn schedule(&self, queue: &Queue) {
        if self.options.threads > 0 {
            lock(&self.jobs).maintain.insert(queue.number, queue.me.clone());
            self.bell.notify_one();
        }
    }

    /// Has a queue write and sync what it put off, when the interval is over.
    pub(crate) fn schedule_settling(&self, queue: &Queue) {
        if self.options.threads > 0 {
            let mut jobs = lock(&self.jobs);
            jobs.settle.insert(queue.number, queue.me.clone());
            jobs.due.get_or_insert_with(|| Instant::now() + self.options.interval);
            self.bell.notify_one();
        }
    }

    /// Has a queue close its files when it is not used for a while.
    pub(crate) fn schedule_rest(&self, queue: &Queue) {
        if self.options.threads > 0 {
            let mut jobs = lock(&self.jobs);
            jobs.used.insert(queue.number, queue.me.clone());
            jobs.look.get_or_insert_with(|| Instant::now() + self.options.idle);
            self.bell.notify_one();
        }
    }

    fn next_job(&self) -> Job {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.stop {
                return Job::Stop;
            }
            let now = Instant::now();
            if jobs.due.is_some_and(|due| due <= now) {
                jobs.due = None;
                return Job::Settle(std::mem::take(&mut jobs.settle).into_values().collect());
            }
            if jobs.look.is_some_and(|look| look <= now) {
                jobs.look = None;
                return Job::Rest(std::mem::take(&mut jobs.used).into_values().collect());
            }
            let next = jobs.due.into_iter().chain(jobs.look).min();
            let left = next.map(|next| next.saturating_duration_since(now));
            if let Some((_, queue)) = jobs.maintain.pop_first() {
                return Job::Maintain(queue);
            }
            jobs = wait_for(&self.bell, jobs, left);
        }
    }

    fn work(&self) {
        loop {
            match self.next_job() {
                Job::Stop => return,
                // Failures are counted by the queue; one that must stop it has put it out of service.
                Job::Maintain(queue) => queue.upgrade().into_iter().for_each(|queue| {
                    queue.maintain().ok();
                }),
                Job::Settle(queues) => queues.iter().filter_map(Weak::upgrade).for_each(|queue| {
                    queue.settle().ok();
                }),
                Job::Rest(queues) => queues.iter().filter_map(Weak::upgrade).for_each(|queue| {
                    queue.rest_if_idle().ok();
                }),
            }
        }
    }
}

/// All queues of a server.
pub struct Engine {
    shared: Arc<Shared>,
    queues: Mutex<BTreeMap<PathBuf, Slot>>,
    /// A reservation ended.
    freed: Condvar,
    threads: Vec<JoinHandle<()>>,
}

/// What is known of a folder.
enum Slot {
    Open(Arc<Queue>),
    Reserved,
}

impl Engine {
    /// An engine over a disk. Only one may work on a folder at a time.
    ///
    /// # Errors
    /// When its threads can't be started.
    pub fn start(disk: Arc<dyn Disk>, options: Options) -> io::Result<Engine> {
        let threads = options.threads;
        let (numbers, jobs, bell) = (AtomicU64::new(1), Mutex::default(), Condvar::default());
        let (files, past) = (Files::new(options.files_max), Mutex::default());
        let shared = Arc::new(Shared { disk, options, files, numbers, jobs, bell, past });
        let (queues, freed) = (Mutex::default(), Condvar::default());
        let mut engine = Engine { shared, queues, freed, threads: Vec::new() };
        for _ in 0..threads {
            let shared = engine.shared.clone();
            let thread = std::thread::Builder::new().name("queue".into()).spawn(move || shared.work())?;
            engine.threads.push(thread);
        }
        Ok(engine)
    }

    /// Makes an empty queue in a new folder; the folder's parent exists.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Disk`].
    pub fn create(&self, folder: &Path, definition: &Definition) -> Result<(), Error> {
        let reserved = self.reserve(folder);
        let disk = &self.shared.disk;
        if reserved.queue.is_some() || disk.stat(&folder.join(checkpoint::FILE)).is_ok() {
            return Err(Error::Exists { folder: folder.to_owned() });
        }
        match disk.create_folder(folder) {
            // What an earlier attempt left when it was stopped.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => empty_folder(&**disk, folder)?,
            other => other.map_err(Error::disk(folder))?,
        }
        let incarnation = (self.shared.options.random)();
        let place = Folder::new(disk.clone(), self.shared.files.clone(), folder);
        Log::create(&place, incarnation, 1, RowId(1))?;
        first_checkpoint(incarnation, 1, definition.clone())
            .write(&**disk, folder)
            .map_err(Error::disk(folder))?;
        disk.sync_folder(folder.parent().unwrap_or(folder)).map_err(Error::disk(folder))
    }

    /// The queue in a folder; it stays open until it is closed, dropped, or the engine ends. Others are
    /// opened at the same time.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Corrupt`], [`Error::Version`], [`Error::Disk`].
    pub fn open(&self, folder: &Path) -> Result<Arc<Queue>, Error> {
        if let Some(Slot::Open(queue)) = lock(&self.queues).get(folder) {
            return Ok(queue.clone());
        }
        let mut reserved = self.reserve(folder);
        let queue = match &reserved.queue {
            Some(queue) => queue.clone(),
            None => {
                self.shared.make_room();
                recovery::open(&self.shared, &self.shared.disk, folder)?
            }
        };
        queue.touch(&mut queue.lock());
        reserved.set(Some(queue.clone()));
        Ok(queue)
    }

    /// Keeps everybody else from opening, making or removing a queue in this folder.
    fn reserve<'engine>(&'engine self, folder: &Path) -> Reserved<'engine> {
        let mut queues = lock(&self.queues);
        while let Some(Slot::Reserved) = queues.get(folder) {
            queues = wait(&self.freed, queues);
        }
        let queue = match queues.insert(folder.to_owned(), Slot::Reserved) {
            Some(Slot::Open(queue)) => Some(queue),
            Some(Slot::Reserved) | None => None,
        };
        Reserved { engine: self, folder: folder.to_owned(), queue }
    }

    /// What is in the open queues together, and what happened since the start in these and in those that were
    /// closed or dropped.
    #[must_use]
    pub fn total(&self) -> Status {
        let open: BTreeSet<u64> = self.queues().iter().map(|queue| queue.number).collect();
        // Under one lock: a queue that goes meanwhile is in one of the two.
        let (counters, alive): (Counters, Vec<Arc<Queue>>) = {
            let past = lock(&self.shared.past);
            (past.counters, past.alive.values().filter_map(Weak::upgrade).collect())
        };
        alive.iter().fold(Status { counters, ..Status::default() }, |sum, queue| {
            let counters = sum.counters.and(&queue.counters());
            let now = if open.contains(&queue.number) { queue.status() } else { Status::default() };
            Status { counters, ..sum.and(&now) }
        })
    }

    /// All open queues.
    #[must_use]
    pub fn queues(&self) -> Vec<Arc<Queue>> {
        let queues = lock(&self.queues);
        queues
            .values()
            .filter_map(|slot| if let Slot::Open(queue) = slot { Some(queue.clone()) } else { None })
            .collect()
    }

    /// Closes a queue that nobody uses, after syncing it; false when it is in use or not open.
    ///
    /// # Errors
    /// [`Error::Disk`].
    pub fn close(&self, folder: &Path) -> Result<bool, Error> {
        let mut reserved = self.reserve(folder);
        match &reserved.queue {
            // Who gets another one has to come here first.
            Some(queue) if Arc::strong_count(queue) == 1 => queue.rest()?,
            _ => return Ok(false),
        }
        reserved.set(None);
        Ok(true)
    }

    /// Removes a queue and all that is in it. Who still uses it gets [`Error::Dropped`]; waits end with
    /// [`crate::Waited::Dropped`]. It is no error if a part of it was removed before.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Disk`].
    pub fn remove(&self, folder: &Path) -> Result<(), Error> {
        let mut reserved = self.reserve(folder);
        if let Some(queue) = reserved.queue.take() {
            queue.drop_rows();
        }
        let disk = &*self.shared.disk;
        match disk.remove(&folder.join(checkpoint::FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(Error::disk(folder))?,
        }
        empty_folder(disk, folder)?;
        disk.remove_folder(folder).map_err(Error::disk(folder))?;
        disk.sync_folder(folder.parent().unwrap_or(folder)).map_err(Error::disk(folder))
    }

    /// Gives a queue another folder; it stays in use.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Exists`], [`Error::Disk`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let disk = &*self.shared.disk;
        if disk.stat(to).is_ok() {
            return Err(Error::Exists { folder: to.to_owned() });
        }
        // In one order, so that two that rename do not wait for each other.
        let first = self.reserve(from.min(to));
        let second = self.reserve(from.max(to));
        let (mut old, mut new) = if from < to { (first, second) } else { (second, first) };
        let moved = || match disk.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Missing { folder: from.to_owned() })
            }
            other => other.map_err(Error::disk(from)),
        };
        match old.queue.take() {
            // Its copy is not to have its place after all: who opens it again begins with what is on disk.
            Some(queue) if queue.successor.get().is_some() => moved()?,
            Some(queue) => {
                let done = queue.undisturbed(|| moved().map(|()| queue.folder.moved(to)));
                old.queue = Some(queue);
                done?;
            }
            None => moved()?,
        }
        new.set(old.queue.take());
        for folder in [from.parent(), to.parent()].into_iter().flatten() {
            disk.sync_folder(folder).map_err(Error::disk(folder))?;
        }
        Ok(())
    }
}

/// A folder in which somebody opens, makes or removes a queue: others wait. What is in `queue` at the end is
/// open then.
struct Reserved<'engine> {
    engine: &'engine Engine,
    folder: PathBuf,
    queue: Option<Arc<Queue>>,
}

impl Reserved<'_> {
    fn set(&mut self, queue: Option<Arc<Queue>>) {
        self.queue = queue;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.engine.queues);
        match self.queue.take() {
            Some(queue) => queues.insert(std::mem::take(&mut self.folder), Slot::Open(queue)),
            None => queues.remove(&self.folder),
        };
        self.engine.freed.notify_all();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        lock(&self.shared.jobs).stop = true;
        self.shared.bell.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has left its queue out of service; there is nobody to tell.
            thread.join().ok();
        }
        for slot in std::mem::take(&mut *lock(&self.queues)).into_values() {
            if let Slot::Open(queue) = slot {
                queue.rest().ok();
            }
        }
    }
}

/// The checkpoint of an empty queue whose log begins with this segment.
pub(crate) fn first_checkpoint(incarnation: Incarnation, segment: u64, definition: Definition) -> Checkpoint {
    let (segments, journal) = (Vec::new(), Journal::default());
    Checkpoint { incarnation, replay_from: segment, next: RowId(1), definition, segments, journal }
}

/// Removes the files of a queue, and nothing that is none.
fn empty_folder(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    let names = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing { folder: folder.to_owned() });
        }
        other => other.map_err(Error::disk(folder))?,
    };
    for name in names.into_iter().map(PathBuf::from) {
        if is_ours(&name) {
            let file = folder.join(name);
            disk.remove(&file).map_err(Error::disk(&file))?;
        }
    }
    Ok(())
}

/// Whether a queue makes files of this name.
pub(crate) fn is_ours(name: &Path) -> bool {
    let name = name.to_string_lossy();
    SegmentName::parse(name.trim_end_matches(".partial")).is_some()
        || name.trim_end_matches(".partial") == checkpoint::FILE
}
