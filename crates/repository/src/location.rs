//! Where the backups of a name are: in a folder, or in an object store.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use binlog::archive::{FOLDER, segment};
use block::mirror::MirrorSide;
use block::{Error, Folder, Store};
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

    /// Whether its backups, and the segments of its log, are encrypted.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they are and their key file is missing: nothing may be added to them as if they
    /// were in clear, or with a new key file. Errors of the store.
    pub fn is_encrypted(&self) -> Result<bool, Error> {
        let store = self.store();
        if block::is_encrypted(&*store)? {
            return Ok(true);
        }
        if !is_encrypted_log(&*self.log().store())? {
            return Ok(false);
        }
        let what = "the log that is archived beside it is encrypted, but this key file is missing; without it no \
                    key opens the log. Restore it from another copy of the repository: 'remora mirror COPY REPO' \
                    does that, or copy 000001.keys by itself; until then remove nothing, and start nothing new here";
        Err(Error::Corrupt { what: what.to_owned(), place: store.shown("000001.keys") })
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

/// Whether the newest segment of an archived log is encrypted.
fn is_encrypted_log(log: &dyn Store) -> Result<bool, Error> {
    let failed = |name: &str| {
        let name = log.shown(name);
        |source| Error::Store { name, source }
    };
    let names = log.list().map_err(failed(""))?;
    // Numbers have leading zeros, so the last name is the newest.
    let Some(newest) = names.iter().filter(|name| segment::numbers(name).is_some()).max() else {
        return Ok(false);
    };
    let mut begin = Vec::new();
    let read = log.open(newest).and_then(|file| file.take(seal::HEADER_BYTES as u64).read_to_end(&mut begin));
    read.map_err(failed(newest))?;
    Ok(seal::is_sealed(&begin))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use seal::{FullKey, Key};

    use super::*;
    use crate::{log_archive, names};

    /// What comes next would else be in clear, or have a key of its own that does not open what is there.
    #[test]
    fn an_encrypted_log_without_its_key_file_is_not_taken_for_one_in_clear() {
        let root = tempfile::tempdir().unwrap();
        let (home, key) =
            (Location::new(root.path(), "db").unwrap(), Key::Full(FullKey::generate().unwrap()));
        assert!(!home.is_encrypted().unwrap());
        let place = log_archive::place(&home, Some(&key)).unwrap();
        let mut upload = place.store.create(&segment::name((1, 1))).unwrap();
        upload.write_all(b"events").unwrap();
        upload.finish().unwrap();
        assert!(home.is_encrypted().unwrap());
        std::fs::remove_file(root.path().join("db/000001.keys")).unwrap();
        for key in [None, Some(&key)] {
            let placed = log_archive::place(&home, key).err().map(|error| error.to_string());
            let named = names::named(root.path(), home.clone(), key).err().map(|error| error.to_string());
            for error in [placed, named] {
                assert!(error.as_ref().is_some_and(|text| text.contains("key file is missing")), "{error:?}");
            }
        }
    }
}
