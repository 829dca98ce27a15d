//! The generations of one volume, and who may use them at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use disk::{Guard, Share};

use crate::Error;
use crate::catalogue::Catalogue;
use crate::chain::Chain;
use crate::file::{self, File};
use crate::store::Store;

/// The lock of the one run that writes.
const WRITER: &str = "writer";
/// The lock that keeps files from being removed while they are read.
const READER: &str = "reader";

/// Backups of one volume in a store.
pub struct Repository {
    store: Box<dyn Store>,
    /// The right to write, when it was taken before there was something to write.
    held: Option<Box<dyn Guard>>,
}

/// A generation as `list` tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// The generation it tells the changes to; 0 for a full one.
    pub parent: u64,
    /// Hash of the volume as it was.
    pub content: [u8; 32],
    /// When it was taken, seconds since the epoch.
    pub taken_s: i64,
    /// Length of the volume in bytes.
    pub len: u64,
    /// Blocks that it tells of.
    pub blocks: u64,
    /// Bytes of blocks that its own file holds.
    pub stored: u64,
    /// Bytes of its own file.
    pub file_bytes: u64,
    /// The file.
    pub file: String,
    /// What was noted when it was made: JSON.
    pub note: String,
}

/// What a repository holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// In order.
    pub generations: Vec<Generation>,
    /// Files that can't be used, and why.
    pub broken: Vec<Error>,
}

/// All files, opened.
pub(crate) struct Loaded {
    /// The file of each generation.
    pub(crate) generations: BTreeMap<u64, Arc<File>>,
    /// All whole files, by number.
    pub(crate) files: BTreeMap<u64, Arc<File>>,
    /// Files that can't be used.
    pub(crate) broken: BTreeMap<u64, Error>,
    /// Highest number that the catalogue speaks of.
    through: u64,
    /// Catalogues that a later one replaces.
    pub(crate) old_catalogues: Vec<String>,
}

impl Loaded {
    /// Number for the next file, never used before.
    pub(crate) fn next_file(&self) -> u64 {
        let known = self.files.keys().chain(self.broken.keys()).max();
        known.copied().unwrap_or(0).max(self.through) + 1
    }

    /// Number for the next generation, never used before. A file that can't be read may have been one.
    pub(crate) fn next_generation(&self) -> u64 {
        let known = self.files.values().map(|file| file.header.generation);
        known.chain(self.broken.keys().copied()).max().unwrap_or(0) + 1
    }

    /// The newest generation, if all files that may be newer can be read.
    pub(crate) fn newest(&self) -> Result<Option<u64>, Error> {
        match self.broken.values().next() {
            Some(error) => Err(Error::corrupt(
                error.to_string(),
                "this file can't be used; see 'remora verify', or begin a new chain with --full",
            )),
            None => Ok(self.generations.keys().next_back().copied()),
        }
    }
}

impl Repository {
    /// The repository in a store, which may be empty.
    #[must_use]
    pub fn new(store: Box<dyn Store>) -> Repository {
        Repository { store, held: None }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Keeps other runs from writing until this is dropped, and not only while [`backup()`](crate::backup()) is at work.
    ///
    /// # Errors
    /// [`Error::Busy`] when another run writes.
    pub fn hold(&mut self) -> Result<(), Error> {
        if self.held.is_none() {
            self.held = self.writing()?;
        }
        Ok(())
    }

    /// Keeps other runs from writing; `None` when that is done already.
    pub(crate) fn writing(&self) -> Result<Option<Box<dyn Guard>>, Error> {
        if self.held.is_some() {
            return Ok(None);
        }
        let shown = self.store.shown("");
        let guard = self.store.lock(WRITER, Share::Exclusive).map_err(Error::store(&shown))?;
        guard.ok_or(Error::Busy(shown)).map(Some)
    }

    /// Keeps files from being removed. `None` where the repository can't be written to anyway.
    pub(crate) fn reading(&self) -> Result<Option<Box<dyn Guard>>, Error> {
        let shown = self.store.shown("");
        match self.store.lock(READER, Share::Shared) {
            Ok(Some(guard)) => Ok(Some(guard)),
            Ok(None) => Err(Error::Busy(shown)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(Error::Store { name: shown, source }),
        }
    }

    /// The right to remove files, when nobody is reading.
    pub(crate) fn removing(&self) -> Result<Option<Box<dyn Guard>>, Error> {
        self.store.lock(READER, Share::Exclusive).map_err(Error::store(self.store.shown("")))
    }

    /// Opens all files. Those that can't be used are told apart.
    pub(crate) fn load(&self) -> Result<Loaded, Error> {
        let names = self.store.list().map_err(Error::store(self.store.shown("")))?;
        let (mut files, mut broken) = (BTreeMap::new(), BTreeMap::new());
        for number in names.iter().filter_map(|name| file::number(name)) {
            match File::open(&*self.store, number) {
                Ok(file) => drop(files.insert(number, Arc::new(file))),
                Err(error) => drop(broken.insert(number, error)),
            }
        }
        let (catalogue, old_catalogues) = Catalogue::newest(&*self.store, &names)?;
        let mut generations: BTreeMap<u64, Arc<File>> = BTreeMap::new();
        let listed: BTreeSet<u64> = catalogue.files.iter().copied().collect();
        // In the order of numbers: the later file of a generation takes its place.
        for file in
            files.values().filter(|file| file.number > catalogue.through || listed.contains(&file.number))
        {
            generations.insert(file.header.generation, Arc::clone(file));
        }
        for number in listed.into_iter().filter(|number| !files.contains_key(number)) {
            broken.entry(number).or_insert_with(|| {
                Error::corrupt(self.store.shown(&file::name(number)), "the file is missing")
            });
        }
        Ok(Loaded { generations, files, broken, through: catalogue.through, old_catalogues })
    }

    /// The chain of a generation, or of the newest one.
    pub(crate) fn chain(&self, loaded: &Loaded, generation: Option<u64>) -> Result<Chain, Error> {
        let newest = loaded.generations.keys().next_back().copied();
        match (generation.or(newest), loaded.broken.values().next()) {
            (None, None) => Err(Error::Missing(format!("there is no backup in {}", self.store.shown("")))),
            (None, Some(broken)) => Err(Error::corrupt(broken.to_string(), "there is no other file")),
            // Nobody asked for this one by number, so it must be the one that was meant.
            (Some(_), Some(broken)) if generation.is_none() => Err(Error::corrupt(
                broken.to_string(),
                "this may be the newest generation; name one with @NUMBER to take another",
            )),
            (Some(number), _) => Chain::new(&loaded.generations, number),
        }
    }

    /// What there is.
    ///
    /// # Errors
    /// When the store can't be read. Files that can't be used are part of the answer.
    pub fn list(&self) -> Result<Listing, Error> {
        let loaded = self.load()?;
        let tell = |file: &Arc<File>| Generation {
            number: file.header.generation,
            parent: file.header.parent,
            content: file.trailer.content,
            taken_s: file.header.taken_s,
            len: file.header.len,
            blocks: file.trailer.blocks,
            stored: file.trailer.stored,
            file_bytes: file.len,
            file: file.shown.clone(),
            note: file.header.note.clone(),
        };
        Ok(Listing {
            generations: loaded.generations.values().map(tell).collect(),
            broken: loaded.broken.into_values().collect(),
        })
    }
}
