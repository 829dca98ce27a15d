//! All queues of a server: open, create, drop and rename.

mod copy;
mod maintenance;
mod multi_queue_commit;
mod truncate;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use disk::Disk;

use crate::format::batch::SegmentId;
use crate::format::checkpoint::{self, Checkpoint, Definition};
use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::shared::{Opener, Options, Shared};
use crate::recovery::recover;
use crate::row_attributes::AttributeReader;
use crate::store::folder::Folder;
use crate::store::log::Log;
use crate::sync::{Condvar, Mutex, lock, wait};
use crate::{Error, Status};
pub use multi_queue_commit::commit_multi_queue;
use worker::work;

/// All queues of a server.
pub struct Engine {
    shared: Arc<Shared>,
    folders: Arc<OpenQueues>,
    threads: Vec<JoinHandle<()>>,
}

/// The folders that queues are in.
struct OpenQueues {
    shared: Arc<Shared>,
    queues: Mutex<BTreeMap<PathBuf, Slot>>,
    /// Signals that a reservation ended.
    freed: Condvar,
}

/// The state of a folder.
enum Slot {
    Open(Arc<Queue>),
    Reserved,
}

impl Engine {
    /// Starts an engine. Only one engine may use a folder at a time.
    ///
    /// # Errors
    /// When its threads can't be started.
    pub fn start(disk: Arc<dyn Disk>, options: Options) -> io::Result<Engine> {
        let threads = options.threads;
        let shared = Arc::new(Shared::new(disk, options));
        let (queues, freed) = (Mutex::default(), Condvar::default());
        let folders = Arc::new(OpenQueues { shared: shared.clone(), queues, freed });
        let opener: Arc<dyn Opener> = folders.clone();
        shared.open_with(Arc::downgrade(&opener));
        let mut engine = Engine { shared, folders, threads: Vec::new() };
        for _ in 0..threads {
            let shared = engine.shared.clone();
            let thread = std::thread::Builder::new().name("queue".into()).spawn(move || work(&shared))?;
            engine.threads.push(thread);
        }
        Ok(engine)
    }

    /// Creates an empty queue in a new folder, whose parent must exist.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Disk`]; [`Error::Column`] when a column that the definition names can't be
    /// used.
    pub fn create(&self, folder: &Path, definition: &Definition) -> Result<(), Error> {
        AttributeReader::of(definition)?;
        let reserved = self.folders.reserve(folder);
        let disk = &self.shared.disk;
        if reserved.queue.is_some() || disk.stat(&folder.join(checkpoint::FILE)).is_ok() {
            return Err(Error::Exists { folder: folder.to_owned() });
        }
        match disk.create_folder(folder) {
            // An earlier attempt that was stopped left this folder.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => empty_folder(&**disk, folder)?,
            other => other.map_err(Error::disk(folder))?,
        }
        let incarnation = (self.shared.options.random)();
        let queue_folder = Folder::new(disk.clone(), self.shared.files.clone(), folder);
        Log::create(&queue_folder, SegmentId::active(incarnation, definition.features(), 1), RowId(1))?;
        Checkpoint::first(incarnation, 1, definition.clone())
            .write(&**disk, folder)
            .map_err(Error::disk(folder))?;
        disk.sync_folder(folder.parent().unwrap_or(folder)).map_err(Error::disk(folder))
    }

    /// Opens the queue in a folder. It stays open until it is dropped or the engine ends.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Corrupt`], [`Error::Version`], [`Error::Disk`].
    pub fn open(&self, folder: &Path) -> Result<Arc<Queue>, Error> {
        self.folders.open(folder)
    }

    /// The totals of the open queues; counters include queues that were dropped since the start.
    #[must_use]
    pub fn total(&self) -> Status {
        let open: BTreeSet<u64> = self.queues().iter().map(|queue| queue.number).collect();
        let (counters, alive) = self.shared.counters_and_queues();
        alive.iter().fold(Status { counters, ..Status::default() }, |sum, queue| {
            let counters = sum.counters.and(&queue.counters());
            let now = if open.contains(&queue.number) { queue.status() } else { Status::default() };
            Status { counters, ..sum.and(&now) }
        })
    }

    /// All open queues.
    #[must_use]
    pub fn queues(&self) -> Vec<Arc<Queue>> {
        let queues = lock(&self.folders.queues);
        queues
            .values()
            .filter_map(|slot| if let Slot::Open(queue) = slot { Some(queue.clone()) } else { None })
            .collect()
    }

    /// Whether dead letters of a queue end up in this folder, directly or through other queues, so that a
    /// cycle would retry them forever.
    #[must_use]
    pub fn leads_to(&self, queue: &Queue, folder: &Path) -> bool {
        let mut next = queue.definition().policy.dead_letter_folder.clone();
        let mut seen = BTreeSet::new();
        while let Some(dead) = next.filter(|dead| seen.insert(dead.clone())) {
            if dead == folder {
                return true;
            }
            next =
                self.open(&dead).ok().and_then(|queue| queue.definition().policy.dead_letter_folder.clone());
        }
        false
    }

    /// Pauses or resumes the moving of dead letters, because a backup copies the queues one after the
    /// other. Pausing waits for moves in progress.
    pub fn hold_moves(&self, hold: bool) {
        if hold {
            self.shared.pause_moves();
        } else {
            self.shared.resume_moves();
        }
    }

    /// Drops a queue with all rows. Callers that still use it get [`Error::Dropped`]; waits end with
    /// [`crate::WaitOutcome::Dropped`]. Files that are already missing are no error.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Disk`]; [`Error::Prepared`] when it is open, and then it stays.
    pub fn remove(&self, folder: &Path) -> Result<(), Error> {
        let mut reserved = self.folders.reserve(folder);
        if let Some(queue) = reserved.queue.take() {
            let dropped = queue.drop_rows();
            if dropped.is_err() {
                reserved.set(Some(queue));
            }
            dropped?;
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

    /// Renames a queue, which stays open.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Exists`], [`Error::Disk`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let disk = &*self.shared.disk;
        if disk.stat(to).is_ok() {
            return Err(Error::Exists { folder: to.to_owned() });
        }
        // Always in the same order, so that two renames do not wait for each other.
        let first = self.folders.reserve(from.min(to));
        let second = self.folders.reserve(from.max(to));
        let (mut old, mut new) = if from < to { (first, second) } else { (second, first) };
        let moved = || match disk.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Missing { folder: from.to_owned() })
            }
            other => other.map_err(Error::disk(from)),
        };
        match old.queue.take() {
            // Its copy does not take its place after all: the next open starts from what is on disk.
            Some(queue) if queue.successor.get().is_some() => moved()?,
            Some(queue) => {
                let done = queue.with_exclusive_lock(|| moved().map(|()| queue.folder.moved(to)));
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

impl Opener for OpenQueues {
    fn open(&self, folder: &Path) -> Result<Arc<Queue>, Error> {
        if let Some(Slot::Open(queue)) = lock(&self.queues).get(folder) {
            return Ok(queue.clone());
        }
        let mut reserved = self.reserve(folder);
        let queue = match &reserved.queue {
            Some(queue) => queue.clone(),
            None => {
                self.shared.close_surplus_files();
                Queue::open(
                    &self.shared,
                    recover(&self.shared.disk, &self.shared.files, folder, self.shared.now_ms())?,
                )
            }
        };
        queue.touch(&mut queue.lock());
        reserved.set(Some(queue.clone()));
        Ok(queue)
    }
}

impl OpenQueues {
    /// Keeps everybody else from opening, creating or removing a queue in this folder.
    fn reserve<'folders>(&'folders self, folder: &Path) -> Reservation<'folders> {
        let mut queues = lock(&self.queues);
        while let Some(Slot::Reserved) = queues.get(folder) {
            queues = wait(&self.freed, queues);
        }
        let queue = match queues.insert(folder.to_owned(), Slot::Reserved) {
            Some(Slot::Open(queue)) => Some(queue),
            Some(Slot::Reserved) | None => None,
        };
        Reservation { folders: self, folder: folder.to_owned(), queue }
    }
}

/// A folder in which somebody opens, creates or removes a queue, while others wait. If `queue` is set at the
/// end, it is open from then on.
struct Reservation<'folders> {
    folders: &'folders OpenQueues,
    folder: PathBuf,
    queue: Option<Arc<Queue>>,
}

impl Reservation<'_> {
    fn set(&mut self, queue: Option<Arc<Queue>>) {
        self.queue = queue;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.folders.queues);
        match self.queue.take() {
            Some(queue) => queues.insert(std::mem::take(&mut self.folder), Slot::Open(queue)),
            None => queues.remove(&self.folder),
        };
        self.folders.freed.notify_all();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has put its queue out of service; there is nobody to tell.
            thread.join().ok();
        }
        for slot in std::mem::take(&mut *lock(&self.folders.queues)).into_values() {
            if let Slot::Open(queue) = slot {
                queue.close().ok();
            }
        }
    }
}

/// Removes the files of a queue, and no other file.
fn empty_folder(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    let names = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing { folder: folder.to_owned() });
        }
        other => other.map_err(Error::disk(folder))?,
    };
    for name in names.into_iter().map(PathBuf::from) {
        if checkpoint::is_ours(&name) {
            let file = folder.join(name);
            disk.remove(&file).map_err(Error::disk(&file))?;
        }
    }
    Ok(())
}
