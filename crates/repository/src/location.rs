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
pub enum Location {
    /// A folder.
    Folder(PathBuf),
    /// A place in an object store.
    Bucket(Bucket),
}

/// The files in a folder.
pub fn folder(path: PathBuf) -> Folder {
    Folder::new(Arc::new(RealDisk), path)
}

impl Location {
    /// That of a name, which an argument names as a whole.
    pub fn of(path: &Path) -> Result<Location> {
        Ok(match address::of(path)? {
            Address::Folder(path) => Location::Folder(path),
            Address::Bucket(bucket) => Location::Bucket(bucket),
        })
    }

    /// That of a name in a repository, which may be its first.
    pub fn new(root: &Path, name: &str) -> Result<Location> {
        Ok(match address::of(root)? {
            Address::Folder(root) => Location::Folder(root.join(name)),
            Address::Bucket(bucket) => Location::Bucket(bucket.below(name)),
        })
    }

    /// That of the archive of its binary log.
    pub fn log(&self) -> Location {
        match self {
            Location::Folder(path) => Location::Folder(path.join(FOLDER)),
            Location::Bucket(bucket) => Location::Bucket(bucket.below(FOLDER)),
        }
    }

    /// Its files.
    pub fn store(&self) -> Box<dyn Store> {
        match self {
            Location::Folder(path) => Box::new(folder(path.clone())),
            Location::Bucket(bucket) => Box::new(bucket.clone()),
        }
    }

    /// As a side of a mirror.
    pub fn place(&self) -> Box<dyn MirrorSide> {
        match self {
            Location::Folder(path) => Box::new(folder(path.clone())),
            Location::Bucket(bucket) => Box::new(bucket.clone()),
        }
    }

    /// The folder, in which an archive of a binary log can be, too.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Location::Folder(path) => Some(path),
            Location::Bucket(_) => None,
        }
    }

    /// In messages.
    pub fn shown(&self) -> String {
        match self {
            Location::Folder(path) => path.display().to_string(),
            Location::Bucket(bucket) => bucket.shown("").trim_end_matches('/').to_owned(),
        }
    }
}
