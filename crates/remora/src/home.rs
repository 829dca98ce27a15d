//! Where the backups of a name are: in a folder, or in an object store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use binlog::archive::FOLDER;
use block::mirror::MirrorSide;
use block::{Folder, Store};
use bucket::Bucket;
use disk::RealDisk;

use crate::address::{self, Address};

/// Where the files of a name are.
#[derive(Clone)]
pub(crate) enum Home {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// The files in a folder.
pub(crate) fn folder(path: PathBuf) -> Folder {
    Folder::new(Arc::new(RealDisk), path)
}

impl Home {
    /// That of a name, which an argument names as a whole.
    pub(crate) fn of(path: &Path) -> Result<Home> {
        Ok(match address::of(path)? {
            Address::Folder(path) => Home::Folder(path),
            Address::Bucket(bucket) => Home::Bucket(bucket),
        })
    }

    /// That of a name in a repository, which may be its first.
    pub(crate) fn new(root: &Path, name: &str) -> Result<Home> {
        Ok(match address::of(root)? {
            Address::Folder(root) => Home::Folder(root.join(name)),
            Address::Bucket(bucket) => Home::Bucket(bucket.below(name)),
        })
    }

    /// That of the archive of its binary log.
    pub(crate) fn log(&self) -> Home {
        match self {
            Home::Folder(path) => Home::Folder(path.join(FOLDER)),
            Home::Bucket(bucket) => Home::Bucket(bucket.below(FOLDER)),
        }
    }

    pub(crate) fn store(&self) -> Box<dyn Store> {
        match self {
            Home::Folder(path) => Box::new(folder(path.clone())),
            Home::Bucket(bucket) => Box::new(bucket.clone()),
        }
    }

    /// As a side of a mirror.
    pub(crate) fn place(&self) -> Box<dyn MirrorSide> {
        match self {
            Home::Folder(path) => Box::new(folder(path.clone())),
            Home::Bucket(bucket) => Box::new(bucket.clone()),
        }
    }

    /// The folder, in which an archive of a binary log can be, too.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Home::Folder(path) => Some(path),
            Home::Bucket(_) => None,
        }
    }

    /// In messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Home::Folder(path) => path.display().to_string(),
            Home::Bucket(bucket) => bucket.shown("").trim_end_matches('/').to_owned(),
        }
    }
}
