//! Open files of a tree.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most files that are open at a time.
const OPEN_MAX: usize = 100;

/// The most recently used files. A tree may have more files than a process may open.
pub(super) struct OpenFiles<File: ?Sized>(Mutex<State<File>>);

struct State<File: ?Sized> {
    /// With the time of its last use.
    files: BTreeMap<PathBuf, (u64, Arc<File>)>,
    clock: u64,
}

impl<File: ?Sized> OpenFiles<File> {
    pub(super) fn new() -> Self {
        OpenFiles(Mutex::new(State { files: BTreeMap::new(), clock: 0 }))
    }

    /// The file with this path, opened if it is not.
    pub(super) fn get(
        &self,
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<Box<File>>,
    ) -> io::Result<Arc<File>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let clock = state.clock;
        if let Some((used, file)) = state.files.get_mut(path) {
            *used = clock;
            return Ok(Arc::clone(file));
        }
        if state.files.len() >= OPEN_MAX {
            let oldest = state.files.iter().min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone());
            oldest.and_then(|oldest| state.files.remove(&oldest));
        }
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file: Arc<File> = Arc::from(open(path).map_err(named)?);
        state.files.insert(path.to_owned(), (clock, Arc::clone(&file)));
        Ok(file)
    }
}
