//! Where the files of a repository are, behind an interface that object stores can implement.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use disk::{Disk, Guard, Output, Share, Source};
use seal::BlockSealer;

use crate::Error;
use crate::file_kind::never_changes;

/// The lock of the single run that writes.
pub const WRITER_LOCK: &str = "writer";

/// The result of removing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The file no longer exists.
    Removed,
    /// The store retains it: it is append-only, or keeps earlier versions.
    Retained {
        /// Until when nobody can remove it, in seconds since the epoch, if that is known.
        until_s: Option<i64>,
    },
}

/// Files that are written once: they appear complete, are read at any offset, and are removed.
pub trait Store: Send + Sync {
    /// Names of all complete files.
    ///
    /// # Errors
    /// Errors of the store. A place that does not exist has no files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise errors of the store.
    fn open(&self, name: &str) -> io::Result<Box<dyn Source>>;

    /// Starts a file. It gets its name only with [`Upload::finish`]; if dropped before, it is gone.
    ///
    /// # Errors
    /// Errors of the store.
    fn create(&self, name: &str) -> io::Result<Box<dyn Upload + '_>>;

    /// Writes a short file atomically: a numbered one only if none of its name exists; any other replaces an
    /// existing one.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a numbered one of that name; otherwise errors of the store.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if never_changes(name) {
            match self.open(name) {
                Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut upload = self.create(name)?;
        upload.write_all(bytes)?;
        upload.finish()
    }

    /// What an earlier run has left of an unfinished file, if the store keeps that. It can still be read
    /// after the file was started again.
    ///
    /// # Errors
    /// Errors of the store.
    fn leftover(&self, name: &str) -> io::Result<Option<Box<dyn Source>>>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise errors of the store.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes a file if it exists, and says what became of it.
    ///
    /// # Errors
    /// Errors of the store.
    fn try_remove(&self, name: &str) -> io::Result<Removal> {
        match self.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(Removal::Retained { until_s: None })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::Removed),
            removed => removed.map(|()| Removal::Removed),
        }
    }

    /// Opens a file that is never encrypted.
    ///
    /// # Errors
    /// As [`Store::open`].
    fn open_plain(&self, name: &str) -> io::Result<Box<dyn Source>> {
        self.open(name)
    }

    /// Writes a short file that is never encrypted, as [`Store::put`] does.
    ///
    /// # Errors
    /// As [`Store::put`].
    fn put_plain(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes)
    }

    /// Prevents anybody from removing a file, for as long as this run was asked to retain what it writes. It
    /// never shortens a retention, and does nothing if no retention was requested.
    ///
    /// # Errors
    /// Errors of the store.
    fn retain(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    /// Until when nobody can remove a file, in seconds since the epoch. `None`: it is not retained.
    ///
    /// # Errors
    /// Errors of the store.
    fn retained_until(&self, _: &str) -> io::Result<Option<i64>> {
        Ok(None)
    }

    /// The key files, without which the others can't be opened.
    ///
    /// # Errors
    /// Errors of the store.
    fn key_files(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Makes the names of existing files durable: a killed run may have created one without syncing it.
    /// Required before building on files of another run.
    ///
    /// # Errors
    /// Errors of the store.
    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    /// Takes a lock without waiting; `None` when another run holds it. Locks are not files.
    ///
    /// # Errors
    /// Errors of the store.
    fn lock(&self, name: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>>;

    /// A file's name in messages.
    fn shown(&self, name: &str) -> String;

    /// The place, for messages that another run is using it.
    fn in_use(&self) -> String {
        self.shown("")
    }

    /// Seals and opens blocks, if the store is encrypted.
    fn sealer(&self) -> Option<&BlockSealer> {
        None
    }

    /// Whether blocks can be read, and not only stored. A put key can't read them.
    fn reads_blocks(&self) -> bool {
        self.sealer().is_none_or(|sealer| sealer.keyring().reads_data())
    }
}

/// Takes the lock for writing.
pub(crate) fn lock_writer(store: &dyn Store) -> Result<Box<dyn Guard>, Error> {
    let guard = store.lock(WRITER_LOCK, Share::Exclusive).map_err(Error::store(store.shown("")))?;
    guard.ok_or_else(|| Error::Busy(store.in_use()))
}

/// A file that is being written to a store.
pub trait Upload: Write + Send {
    /// Makes it complete and durable.
    ///
    /// # Errors
    /// Errors of the store; the file does not exist then.
    fn finish(self: Box<Self>) -> io::Result<()>;

    /// Replaces the first bytes, which were written before.
    ///
    /// # Errors
    /// Errors of the store; the file is of no use then.
    fn begin_anew(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Gives up, but keeps what was written for [`Store::leftover`].
    fn leave(self: Box<Self>);
}

/// A store that is a folder.
pub struct Folder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Folder {
    /// The store in this folder, which is created at the first write.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Folder {
        Folder { disk, path }
    }
}

impl Upload for Output<'_> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        Output::finish(*self)
    }

    fn begin_anew(&mut self, bytes: &[u8]) -> io::Result<()> {
        Output::begin_anew(self, bytes)
    }

    fn leave(self: Box<Self>) {
        Output::leave(*self);
    }
}

impl Store for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = match self.disk.list(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        let whole = |name: &String| !name.ends_with(".partial") && !name.ends_with(".lock");
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).filter(whole).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        self.disk.open(&self.path.join(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Upload + '_>> {
        self.disk.make_folder(&self.path)?;
        Ok(Box::new(Output::create(&*self.disk, &self.path.join(name))?))
    }

    fn leftover(&self, name: &str) -> io::Result<Option<Box<dyn Source>>> {
        match self.disk.open(&Output::partial(&self.path.join(name))) {
            Ok(source) => Ok(Some(source)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(&self.path.join(name))?;
        self.disk.sync_folder(&self.path)
    }

    fn sync_names(&self) -> io::Result<()> {
        // Its own name is in the folder above, and so are the keys of an archive beside backups.
        self.path.ancestors().take(2).try_for_each(|folder| self.disk.sync_folder(folder))
    }

    fn lock(&self, name: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.disk.make_folder(&self.path)?;
        self.disk.lock(&self.path.join(format!("{name}.lock")), share)
    }

    fn shown(&self, name: &str) -> String {
        match name {
            "" => self.path.display().to_string(),
            name => self.path.join(name).display().to_string(),
        }
    }
}
