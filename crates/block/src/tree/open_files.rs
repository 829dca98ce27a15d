//! Open files of a tree.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lru::LruCache;

/// The most files that are open at a time.
const OPEN_MAX: usize = 100;

/// The most recently used files. A tree may have more files than a process may open.
pub(super) struct OpenFiles<File: ?Sized>(Mutex<LruCache<PathBuf, Arc<File>>>);

impl<File: ?Sized> OpenFiles<File> {
    pub(super) fn new() -> Self {
        OpenFiles(Mutex::new(LruCache::new(OPEN_MAX)))
    }

    /// The file with this path, opened if it is not.
    pub(super) fn get(
        &self,
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<Box<File>>,
    ) -> io::Result<Arc<File>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(path) {
            return Ok(file);
        }
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file: Arc<File> = Arc::from(open(path).map_err(named)?);
        files.put(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}
