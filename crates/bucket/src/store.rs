//! A folder of an object store as a [`Store`].

use std::io;
use std::sync::atomic::Ordering;

use block::mirror::never_changes;
use block::{Removal, Store, Upload};
use disk::{Guard, Share, Source};

use crate::client::Bucket;
use crate::object_lock;
use crate::upload::MultipartUpload;

impl Store for Bucket {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.own_files()?.into_keys().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        Ok(Box::new(self.reader(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Upload + '_>> {
        Ok(Box::new(MultipartUpload::new(self, name, never_changes(name))?))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_short(name, bytes, never_changes(name))
    }

    fn leftover(&self, _: &str) -> io::Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        // The store does not say whether the file existed.
        self.head(name)?.ok_or(io::ErrorKind::NotFound)?;
        self.delete(name)
    }

    fn try_remove(&self, name: &str) -> io::Result<Removal> {
        let Some(about) = self.head(name)? else { return Ok(Removal::Removed) };
        let cached = Removal::Retained { until_s: object_lock::retained_until(&about) };
        match self.delete(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(cached),
            Ok(()) if self.state.keeps_removed.load(Ordering::Relaxed) => Ok(cached),
            deleted => deleted.map(|()| Removal::Removed),
        }
    }

    fn retain(&self, name: &str) -> io::Result<()> {
        self.extend_retention(name)
    }

    fn retained_until(&self, name: &str) -> io::Result<Option<i64>> {
        Ok(self.retention_of(name)?.map(|(_, until_s)| until_s))
    }

    fn lock(&self, name: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.lease(name, share)
    }

    fn shown(&self, name: &str) -> String {
        Bucket::shown(self, name)
    }

    fn in_use(&self) -> String {
        let shown = Bucket::shown(self, "");
        self.other_holder().map_or_else(|| shown.clone(), |other| format!("{shown} ({other})"))
    }
}
