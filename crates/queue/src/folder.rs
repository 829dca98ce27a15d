//! Where a queue lives: its folder, which may be renamed while it is in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Disk;

use crate::sync::{Mutex, lock};

/// A queue's folder on its disk.
pub(crate) struct Folder {
    disk: Arc<dyn Disk>,
    path: Mutex<PathBuf>,
}

impl Folder {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: &Path) -> Arc<Folder> {
        Arc::new(Folder { disk, path: Mutex::new(path.to_owned()) })
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn path(&self) -> PathBuf {
        lock(&self.path).clone()
    }

    /// The folder has another name from now on.
    pub(crate) fn moved(&self, path: &Path) {
        path.clone_into(&mut lock(&self.path));
    }
}
