//! Files of this machine, and of object stores by their addresses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use bucket::BucketDisk;
use disk::{Batch, Disk, Guard, RealDisk, Share, Sink, Source, Stat, Volume};
use failure::usage;
use glob::{MatchOptions, Pattern};

use crate::address::{self, Address};

/// As a shell matches names.
const AS_A_SHELL: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A disk whose paths may be addresses, such as `s3://bucket/folder/file`.
#[derive(Default)]
pub struct AnyDisk {
    /// By the addresses of their roots.
    buckets: Mutex<BTreeMap<PathBuf, Arc<BucketDisk>>>,
}

impl AnyDisk {
    /// Checks an address, so that a wrong one or a missing key is told before any work. A path is fine.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, path: &Path) -> Result<()> {
        self.bucket(path).map(|_| ())
    }

    /// The files that match a pattern, as a shell matches it, in order.
    ///
    /// # Errors
    /// A wrong pattern, or an error of the place.
    pub fn matching(&self, pattern: &str) -> Result<Vec<PathBuf>> {
        let wrong = |error: glob::PatternError| usage(format!("{pattern}: {error}"));
        let Some(bucket) = self.bucket(Path::new(pattern))? else {
            let found = glob::glob_with(pattern, AS_A_SHELL).map_err(wrong)?;
            let mut found = found.collect::<Result<Vec<_>, _>>()?;
            found.sort();
            return Ok(found);
        };
        let wanted = Pattern::new(pattern).map_err(wrong)?;
        let certain = pattern.split(['*', '?', '[']).next().unwrap_or_default();
        let mut found = bucket.all(Path::new(certain))?;
        found.retain(|path| wanted.matches_path_with(path, AS_A_SHELL));
        Ok(found)
    }

    /// The disk for a path.
    fn of(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        match self.bucket(path) {
            Ok(Some(bucket)) => Ok(bucket),
            Ok(None) => Ok(Arc::new(RealDisk)),
            Err(error) => Err(io::Error::other(format!("{error:#}"))),
        }
    }

    /// The bucket of a path that is an address of one.
    fn bucket(&self, path: &Path) -> Result<Option<Arc<BucketDisk>>> {
        let Some(bucket) = address::bucket_of(path) else { return Ok(None) };
        let root = PathBuf::from(&bucket);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = buckets.get(&root) {
            return Ok(Some(Arc::clone(known)));
        }
        let Address::Bucket(bucket) = Address::new(&bucket)? else { bail!("{bucket} is no bucket") };
        let made = Arc::new(BucketDisk::new(bucket, &root));
        buckets.insert(root, Arc::clone(&made));
        Ok(Some(made))
    }
}

impl Disk for AnyDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.of(path)?.open(path)
    }

    fn open_direct(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.of(path)?.open_direct(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        self.of(path)?.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from)?.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.of(path)?.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder)?.sync_folder(folder)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.of(path)?.stat(path)
    }

    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        self.of(path)?.append(path, len)
    }

    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>> {
        self.of(path)?.volume(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.of(folder)?.list(folder)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder)?.make_folder(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder)?.create_folder(folder)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder)?.remove_folder(folder)
    }

    fn batch(&self, folder: &Path) -> io::Result<Option<Box<dyn Batch>>> {
        self.of(folder)?.batch(folder)
    }

    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.of(path)?.lock(path, share)
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.of(path)?.is_locked(path)
    }

    fn holder(&self, path: &Path) -> Option<String> {
        self.of(path).ok()?.holder(path)
    }
}
