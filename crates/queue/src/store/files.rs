//! How many files are open at once. A server limits them, and its own tables need some: when queues have too
//! many open, the least recently used are closed until they are used again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::sync::{Mutex, lock};

/// A file that may be open for reading.
pub(crate) trait Readable: Send + Sync {
    fn is_open(&self) -> bool;

    /// When it was last used, by the clock of [`OpenFiles`].
    fn used(&self) -> u64;

    /// Closes the file as soon as nobody reads it.
    fn close(&self);
}

/// The files of all queues of an engine.
#[derive(Default)]
pub(crate) struct OpenFiles {
    /// How many may be open for reading, and also how many for writing.
    max: usize,
    reading: AtomicUsize,
    writing: AtomicUsize,
    /// The number of openings so far: the clock that orders uses.
    clock: AtomicU64,
    /// The files that may be open for reading.
    sources: Mutex<Vec<Weak<dyn Readable>>>,
}

/// Counts a file as open, as long as this value lives.
pub(crate) struct OpenFilePermit {
    files: Arc<OpenFiles>,
    count: fn(&OpenFiles) -> &AtomicUsize,
}

impl Drop for OpenFilePermit {
    fn drop(&mut self) {
        (self.count)(&self.files).fetch_sub(1, Ordering::Relaxed);
    }
}

impl OpenFiles {
    pub(crate) fn new(max: usize) -> Arc<OpenFiles> {
        Arc::new(OpenFiles { max: (max / 2).max(1), ..OpenFiles::default() })
    }

    fn permit(self: &Arc<OpenFiles>, count: fn(&OpenFiles) -> &AtomicUsize) -> OpenFilePermit {
        count(self).fetch_add(1, Ordering::Relaxed);
        self.clock.fetch_add(1, Ordering::Relaxed);
        OpenFilePermit { files: self.clone(), count }
    }

    pub(crate) fn permit_writing(self: &Arc<OpenFiles>) -> OpenFilePermit {
        self.permit(|files| &files.writing)
    }

    pub(crate) fn permit_reading(self: &Arc<OpenFiles>) -> OpenFilePermit {
        self.permit(|files| &files.reading)
    }

    /// The time, which advances when a file is opened.
    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Whether another file for writing would be too many.
    pub(crate) fn is_full(&self) -> bool {
        self.writing.load(Ordering::Relaxed) >= self.max
    }

    /// How many files for writing to close when there are too many: several, so that not every opening has to
    /// close one.
    pub(crate) fn surplus(&self) -> usize {
        let open = self.writing.load(Ordering::Relaxed);
        open.saturating_sub(self.max - self.max.div_ceil(8))
    }

    /// Notes that a file was opened for reading, and closes others when there are too many. A reader of a
    /// file that is closed here can go on reading.
    pub(crate) fn note(&self, file: &Arc<dyn Readable>) {
        let mut sources = lock(&self.sources);
        sources.push(Arc::downgrade(file));
        if sources.len() <= self.max {
            return;
        }
        let mut open: Vec<_> =
            sources.iter().filter_map(Weak::upgrade).filter(|file| file.is_open()).collect();
        open.sort_by_key(|file| file.used());
        let surplus = open.len().saturating_sub(self.max - self.max.div_ceil(8));
        open.drain(..surplus)
            .filter(|closing| !std::ptr::addr_eq(Arc::as_ptr(closing), Arc::as_ptr(file)))
            .for_each(|file| file.close());
        *sources = open.iter().map(Arc::downgrade).collect();
    }
}
