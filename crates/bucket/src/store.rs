//! A folder of an object store as the place of a repository.

use std::io;
use std::sync::atomic::Ordering;

use block::mirror::never_changes;
use block::{Freed, Store, Upload};
use disk::{Guard, Share, Source};

use crate::client::Bucket;
use crate::retain;
use crate::upload::Parts;

impl Store for Bucket {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.own_files()?.into_keys().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        Ok(Box::new(self.reader(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Upload + '_>> {
        Ok(Box::new(Parts::new(self, name, never_changes(name))?))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_short(name, bytes, never_changes(name))
    }

    fn leftover(&self, _: &str) -> io::Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        // The store does not tell whether there was one.
        self.look_at(name)?.ok_or(io::ErrorKind::NotFound)?;
        self.delete(name)
    }

    fn free(&self, name: &str) -> io::Result<Freed> {
        let Some(about) = self.look_at(name)? else { return Ok(Freed::Gone) };
        let kept = Freed::Kept { until_s: retain::told(&about) };
        match self.delete(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(kept),
            Ok(()) if self.held.keeps_removed.load(Ordering::Relaxed) => Ok(kept),
            deleted => deleted.map(|()| Freed::Gone),
        }
    }

    fn retain(&self, name: &str) -> io::Result<()> {
        self.extend(name)
    }

    fn retained_until(&self, name: &str) -> io::Result<Option<i64>> {
        Ok(self.ask_retention(name)?.map(|(_, until_s)| until_s))
    }

    fn lock(&self, name: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.lease(name, share)
    }

    fn shown(&self, name: &str) -> String {
        Bucket::shown(self, name)
    }

    fn in_use(&self) -> String {
        let shown = Bucket::shown(self, "");
        self.other().map_or_else(|| shown.clone(), |other| format!("{shown} ({other})"))
    }
}
