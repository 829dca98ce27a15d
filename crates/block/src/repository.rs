//! The generations of one volume, and the locks that protect them.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use disk::{Guard, Share};

use crate::Error;
use crate::catalogue::Catalogue;
use crate::chain::Chain;
use crate::file::{self, File};
use crate::format::NUMBER_MAX;
use crate::inventory::Inventory;
use crate::mirror_note::{self, FileContents, MIRROR_NUMBERS};
use crate::notes::{BootResults, KnownDamage, NEWEST, NewestNote};
use crate::store::{self, Store};

/// The lock that keeps files from being removed while somebody reads them.
pub const READER_LOCK: &str = "reader";

/// Backups of one volume in a store.
pub struct Repository {
    store: Box<dyn Store>,
    /// The lock for writing, if it was taken by [`Repository::hold`].
    held: Option<Box<dyn Guard>>,
}

/// A generation as `list` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// Its parent generation; 0 for a full one.
    pub parent: u64,
    /// Hash of the volume in this state.
    pub content: [u8; 32],
    /// When it was taken, seconds since the epoch.
    pub taken_s: i64,
    /// Length of the volume in bytes.
    pub len: u64,
    /// Blocks in its records.
    pub blocks: u64,
    /// Bytes of blocks in its own file.
    pub stored: u64,
    /// Bytes of its own file.
    pub file_bytes: u64,
    /// The file.
    pub file: String,
    /// The note that was stored with it: JSON.
    pub note: String,
    /// Whether all of its ancestors exist. Only [`verify()`](crate::verify()) tells whether the blocks are
    /// undamaged.
    pub is_whole: bool,
    /// Whether it was sound when a server was started on it after it was created; `None` if that was not
    /// tried. See [`Repository::note_boot`].
    pub booted: Option<bool>,
}

/// The contents of a repository.
#[derive(Debug, Default)]
pub struct Listing {
    /// In order.
    pub generations: Vec<Generation>,
    /// Files that can't be used, and why.
    pub broken: Vec<Error>,
    /// Bytes of all usable files, including those that only have blocks that generations need.
    pub file_bytes: u64,
}

/// Whether a file of this name shows that a place has, or had, backups.
#[must_use]
pub fn is_backup_file(name: &str) -> bool {
    name.ends_with(".blk") || name == NEWEST
}

/// All files of a repository, opened.
pub(crate) struct RepositoryState {
    /// The file of each generation.
    pub(crate) generations: BTreeMap<u64, Arc<File>>,
    /// All usable files, by number.
    pub(crate) files: BTreeMap<u64, Arc<File>>,
    /// Files that can't be used.
    pub(crate) broken: BTreeMap<u64, Error>,
    /// The newest generation that ever existed, if that was recorded.
    pub(crate) noted: Option<NewestNote>,
    /// Generations whose parent is missing.
    pub(crate) orphans: Vec<Error>,
    /// Set if the newest generation and its file are missing.
    pub(crate) missing_newest: Option<Error>,
    /// The damage that the last verification has found.
    pub(crate) damage: KnownDamage,
    /// Which files contain generations.
    pub(crate) inventory: Inventory,
}

impl RepositoryState {
    /// Number for the next file, never used before.
    pub(crate) fn next_file(&self) -> u64 {
        let noted = self.noted.map(|noted| noted.file);
        let known = self.numbers().chain(noted).chain([self.inventory.through]);
        let next = known.filter(|number| *number < MIRROR_NUMBERS).max().unwrap_or(0) + 1;
        // Higher numbers are for the files of mirrors.
        if next < MIRROR_NUMBERS { next } else { NUMBER_MAX + 1 }
    }

    /// Number for the next file that a prune writes: in a mirror none that its source may assign to another
    /// file.
    pub(crate) fn next_rewritten(&self) -> u64 {
        match &self.inventory.mirror_note {
            Some(note) => note.next_own(self.numbers()),
            None => self.next_file(),
        }
    }

    /// The numbers of all files.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.files.keys().chain(self.broken.keys()).copied()
    }

    /// The files that the source of this mirror still has.
    pub(crate) fn at_source(&self) -> BTreeSet<u64> {
        self.inventory.mirror_note.as_ref().map(mirror_note::MirrorNote::at_source).unwrap_or_default()
    }

    /// Number for the next generation, never used before. A file that can't be read may have been a
    /// generation.
    pub(crate) fn next_generation(&self) -> u64 {
        let known = self.files.values().map(|file| file.header.generation);
        let noted = self.noted.map(|noted| noted.generation);
        // A file that a prune of a mirror has written is not a new generation.
        let broken = self.broken.keys().copied().filter(|number| *number < MIRROR_NUMBERS);
        known.chain(broken).chain(noted).max().unwrap_or(0) + 1
    }

    /// Whether a file contains a generation, as far as that is known.
    pub(crate) fn is_listed(&self, number: u64) -> bool {
        self.inventory.contents(number) != FileContents::Blocks
    }

    /// Whether a file contains no current generation, only blocks that some may need.
    pub(crate) fn is_left(&self, number: u64) -> bool {
        let contents = self.files.get(&number).map(|file| file.header.generation);
        let current = contents.and_then(|generation| self.generations.get(&generation));
        current.is_none_or(|file| file.number != number)
    }

    /// The files that say which generations there are.
    pub(crate) fn catalogues(&self) -> Vec<String> {
        let note = self.inventory.mirror_note.as_ref().map(|_| mirror_note::NAME.to_owned());
        let newest = (self.inventory.through > 0).then(|| Catalogue::name(self.inventory.through));
        note.into_iter().chain(newest).collect()
    }

    /// Damage of the repository, as far as it shows without reading all of it.
    pub(crate) fn damages(&self) -> impl Iterator<Item = &Error> {
        self.broken.values().chain(&self.orphans).chain(&self.missing_newest)
    }

    /// The parent of the next generation: the newest complete one.
    pub(crate) fn parent(&self) -> Result<Option<u64>, Error> {
        let whole = |number: &&u64| Chain::new(&self.generations, **number).is_ok();
        if let Some(number) = self.generations.keys().rev().find(whole) {
            return Ok(Some(*number));
        }
        let newest = self.generations.keys().next_back();
        let why = match (self.first_damage(), newest) {
            (Some(damage), _) => damage.to_string(),
            (None, Some(newest)) => match Chain::new(&self.generations, *newest) {
                Err(error) => error.to_string(),
                Ok(_) => return Ok(Some(*newest)),
            },
            (None, None) => return Ok(None),
        };
        let text =
            "no remaining generation can be a parent; start a new chain with --full, and see 'remora verify'";
        Err(Error::corrupt(why, text))
    }

    /// Damage that may hide a generation newer than this one. A generation never has a higher number than its
    /// file, so a damaged file with a lower number is not it.
    fn damage_since(&self, newest: u64) -> Option<&Error> {
        self.broken.range(newest + 1..).map(|(_, error)| error).chain(&self.missing_newest).next()
    }

    /// A file that can't be used, or a recorded generation that is missing.
    pub(crate) fn first_damage(&self) -> Option<&Error> {
        self.broken.values().chain(&self.missing_newest).next()
    }
}

/// Adds the ancestors of the generations: a mirror may have removed a generation before its source created a
/// child of it, and then still has the file.
fn add_parents(generations: &mut BTreeMap<u64, Arc<File>>, files: &BTreeMap<u64, Arc<File>>) {
    let mut wanted: Vec<Arc<File>> = generations.values().cloned().collect();
    while let Some(child) = wanted.pop() {
        let header = &child.header;
        let is_parent = |file: &&Arc<File>| {
            file.header.generation == header.parent && file.trailer.content == header.parent_content
        };
        if header.parent != 0
            && !generations.contains_key(&header.parent)
            && let Some(parent) = files.values().rev().find(is_parent)
        {
            generations.insert(header.parent, Arc::clone(parent));
            wanted.push(Arc::clone(parent));
        }
    }
}

/// Adds these generations if all of their ancestors exist.
fn add_if_whole<'a>(
    generations: &mut BTreeMap<u64, Arc<File>>,
    doubted: impl Iterator<Item = &'a Arc<File>>,
) {
    let mut doubted: Vec<&Arc<File>> = doubted.collect();
    // Parents first; of two files of a generation the later one counts.
    doubted.sort_by_key(|file| (file.header.generation, Reverse(file.number)));
    for file in doubted {
        let number = file.header.generation;
        let Entry::Vacant(place) = generations.entry(number) else { continue };
        place.insert(Arc::clone(file));
        if Chain::new(generations, number).is_err() {
            generations.remove(&number);
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

    /// Keeps other runs from writing until this is dropped, not only during [`backup()`](crate::backup()).
    ///
    /// # Errors
    /// [`Error::Busy`] when another run writes.
    pub fn hold(&mut self) -> Result<(), Error> {
        if self.held.is_none() {
            self.held = self.lock_writer()?;
        }
        Ok(())
    }

    /// Keeps other runs from writing; `None` if this repository already does.
    pub(crate) fn lock_writer(&self) -> Result<Option<Box<dyn Guard>>, Error> {
        if self.held.is_some() {
            return Ok(None);
        }
        store::lock_writer(&*self.store).map(Some)
    }

    /// Records the result of starting a server on a generation.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such generation, [`Error::Busy`] while another run writes, and
    /// errors of the store.
    pub fn note_boot(&self, generation: u64, is_sound: bool) -> Result<(), Error> {
        let _alone = self.lock_writer()?;
        let loaded = self.load()?;
        let missing = || self.no_generation(&loaded, generation);
        let file = loaded.generations.get(&generation).ok_or_else(missing)?;
        let mut booted = BootResults::read(self.store())?;
        booted.add(generation, &file.trailer.content, is_sound);
        booted.write(self.store())
    }

    /// Keeps files from being removed. `None` if the repository is read-only, where nothing is removed
    /// anyway.
    pub(crate) fn lock_reader(&self) -> Result<Option<Box<dyn Guard>>, Error> {
        match self.store.lock(READER_LOCK, Share::Shared) {
            Ok(Some(guard)) => Ok(Some(guard)),
            Ok(None) => Err(Error::Busy(self.store.in_use())),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(Error::Store { name: self.store.shown(""), source }),
        }
    }

    /// The lock for removing files, if nobody is reading.
    pub(crate) fn lock_for_removal(&self) -> Result<Option<Box<dyn Guard>>, Error> {
        self.store.lock(READER_LOCK, Share::Exclusive).map_err(Error::store(self.store.shown("")))
    }

    /// Opens all files; those that can't be used are listed separately.
    pub(crate) fn load(&self) -> Result<RepositoryState, Error> {
        self.load_with(|_| None)
    }

    /// Opens all files; damaged ones as far as their records can be verified.
    pub(crate) fn load_damaged(&self) -> Result<RepositoryState, Error> {
        self.load_with(|number| File::rebuild(&*self.store, number, None))
    }

    fn load_with(&self, rebuild: impl Fn(u64) -> Option<File>) -> Result<RepositoryState, Error> {
        let names = self.store.list().map_err(Error::store(self.store.shown("")))?;
        let (mut files, mut broken) = (BTreeMap::new(), BTreeMap::new());
        let mut rebuilt: BTreeMap<u64, Arc<File>> = BTreeMap::new();
        for number in names.iter().filter_map(|name| file::number(name)) {
            match File::open(&*self.store, number) {
                Ok(file) => drop(files.insert(number, Arc::new(file))),
                Err(error) if error.is_away() => return Err(error),
                Err(error) => {
                    broken.insert(number, error);
                    rebuild(number).map(|file| rebuilt.insert(number, Arc::new(file)));
                }
            }
        }
        let inventory = Inventory::read(&*self.store, &names)?;
        let mut generations: BTreeMap<u64, Arc<File>> = BTreeMap::new();
        let contents = |file: &&Arc<File>| inventory.contents(file.number) == FileContents::Generation;
        // In the order of numbers: a later file of a generation replaces an earlier one.
        for file in files.values().filter(contents) {
            generations.insert(file.header.generation, Arc::clone(file));
        }
        for file in rebuilt.values().filter(contents) {
            generations.entry(file.header.generation).or_insert_with(|| Arc::clone(file));
        }
        if inventory.mirror_note.is_some() {
            add_parents(&mut generations, &files);
        }
        let doubted =
            files.values().filter(|file| inventory.contents(file.number) == FileContents::IfComplete);
        add_if_whole(&mut generations, doubted);
        files.append(&mut rebuilt);
        for number in inventory.expected().into_iter().filter(|number| !files.contains_key(number)) {
            broken.entry(number).or_insert_with(|| {
                Error::corrupt(self.store.shown(&file::name(number)), "the file is missing")
            });
        }
        let is_cut = |file: &&Arc<File>| {
            let parent = file.header.parent;
            parent != 0 && !generations.contains_key(&parent) && !broken.contains_key(&parent)
        };
        let why = |file: &Arc<File>| Chain::new(&generations, file.header.generation).err();
        let orphans = generations.values().filter(is_cut).filter_map(why).collect();
        let (noted, missing_newest) = self.newest(&generations, &broken)?;
        let damage = KnownDamage::read(&*self.store)?;
        Ok(RepositoryState { generations, files, broken, noted, orphans, missing_newest, damage, inventory })
    }

    /// The recorded newest generation, and an error if it is missing.
    fn newest(
        &self,
        generations: &BTreeMap<u64, Arc<File>>,
        broken: &BTreeMap<u64, Error>,
    ) -> Result<(Option<NewestNote>, Option<Error>), Error> {
        let noted = match NewestNote::read(&*self.store) {
            // The note mostly repeats what is known otherwise; 'verify' reports the damage.
            Err(Error::Corrupt { .. }) => None,
            noted => noted?,
        };
        let there = |noted: &NewestNote| {
            let newest = generations.keys().next_back();
            newest.is_some_and(|newest| *newest >= noted.generation) || broken.contains_key(&noted.file)
        };
        let missing_newest = noted.filter(|noted| !there(noted)).map(|noted| {
            let text = format!("generation {} existed, but its file is missing", noted.generation);
            Error::corrupt(self.store.shown(&file::name(noted.file)), text)
        });
        Ok((noted, missing_newest))
    }

    /// The error for a generation that is not there.
    pub(crate) fn no_generation(&self, loaded: &RepositoryState, number: u64) -> Error {
        let mut text = format!("there is no generation {number} in {}", self.store.shown(""));
        let mut numbers = loaded.generations.keys();
        match (numbers.next(), numbers.next_back()) {
            (Some(oldest), Some(newest)) => text += &format!("; the oldest is {oldest}, the newest {newest}"),
            (Some(only), None) => text += &format!("; there is only {only}"),
            (None, _) => {}
        }
        Error::Missing(text)
    }

    /// The chain of a generation, or of the newest one.
    pub(crate) fn chain(&self, loaded: &RepositoryState, generation: Option<u64>) -> Result<Chain, Error> {
        let newest = loaded.generations.keys().next_back().copied();
        let damage = match generation {
            Some(_) => loaded.first_damage(),
            None => loaded.damage_since(newest.unwrap_or(0)),
        };
        match (generation, newest, damage) {
            (None, None, None) => {
                Err(Error::Missing(format!("there is no backup in {}", self.store.shown(""))))
            }
            // No number was given, so it must really be the newest one.
            (None, _, Some(damage)) => Err(Error::corrupt(
                damage.to_string(),
                "this may be the newest generation; choose another one with @NUMBER, or use --keep-going",
            )),
            (Some(number), _, Some(damage)) if !loaded.generations.contains_key(&number) => {
                let text = format!(
                    "there is no generation {number}, but this file may be it; --keep-going restores what \
                     can be verified"
                );
                Err(Error::corrupt(damage.to_string(), text))
            }
            (Some(number), Some(_), None) if !loaded.generations.contains_key(&number) => {
                Err(self.no_generation(loaded, number))
            }
            (None, Some(number), None) | (Some(number), ..) => Chain::new(&loaded.generations, number),
        }
    }

    /// The contents of the repository.
    ///
    /// # Errors
    /// When the store can't be read. Unusable files are part of the answer.
    pub fn list(&self) -> Result<Listing, Error> {
        let loaded = self.load()?;
        // A note that can't be read counts as none: then no generation counts as tested.
        let booted = BootResults::read(self.store()).unwrap_or_default();
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
            is_whole: Chain::new(&loaded.generations, file.header.generation).is_ok(),
            booted: booted.of(file.header.generation, &file.trailer.content),
        };
        Ok(Listing {
            generations: loaded.generations.values().map(tell).collect(),
            broken: loaded.broken.into_values().chain(loaded.orphans).chain(loaded.missing_newest).collect(),
            file_bytes: loaded.files.values().map(|file| file.len).sum(),
        })
    }
}
