//! All generations of a repository as one tree, `NAME/N/...`, with a number for each thing in it. The kernel
//! knows things by these numbers only.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{GenerationReader, RepositoryReader};
use disk::Attributes;
use rustix::io::Errno;
use seal::Key;

use super::branch::{Branch, Change, Form, Known, TOP};
use super::data::Room;
use crate::home::Home;
use crate::{repository, shown};

/// The number of the top.
pub(super) const ROOT: u64 = 1;
/// The number of the first name's folder.
const FIRST_NAME: u64 = 2;
/// Bits of the number of a node in its generation.
const NODE_BITS: u32 = 32;
/// The most generations whose lists of files are kept.
const BRANCHES_MAX: usize = 16;
/// The most damages that are told.
const TOLD_MAX: usize = 1000;
/// How often a store is looked at for new generations.
const LOOK: Duration = Duration::from_secs(10);

type Answer<Value> = Result<Value, Errno>;

/// Says what can't be read.
pub(crate) type Say = Box<dyn Fn(&str) + Send + Sync>;

/// The whole.
pub(crate) struct Shelf {
    names: Vec<Name>,
    /// Each generation that was asked for so far: the place of its name, and its number. Its own place is a
    /// part of the numbers of its things.
    places: Mutex<Vec<(usize, u64)>>,
    /// What was used last, the latest last. Those that can be written to stay.
    branches: Mutex<Vec<(usize, Arc<Branch>)>>,
    /// Where writes go; none: nothing can be written.
    room: Option<Room>,
    /// What opens encrypted backups.
    key: Option<Key>,
    told: Mutex<BTreeSet<String>>,
    say: Say,
    /// Of the folders that we make up.
    own: Attributes,
}

/// The backups of a name.
struct Name {
    name: String,
    home: Home,
    /// With the files that there were when it was opened.
    library: Mutex<Option<Looked>>,
}

/// What was seen of a name.
struct Looked {
    files: Option<Vec<String>>,
    at: Instant,
    library: Arc<RepositoryReader>,
}

/// A thing in a folder.
pub(super) struct Item {
    pub(super) number: u64,
    pub(super) name: OsString,
    pub(super) form: Form,
}

/// A thing, with its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thing {
    pub(super) number: u64,
    pub(super) known: Known,
}

/// Where a number leads to.
enum Place {
    Root,
    /// By its place.
    Name(usize),
    Node(usize, Arc<Branch>, usize),
}

fn lock<Value>(of: &Mutex<Value>) -> MutexGuard<'_, Value> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Shelf {
    /// The backups of these names, opened with `key`. `room`: where writes go, if there may be any.
    pub(crate) fn new(homes: Vec<(String, Home)>, key: Option<Key>, room: Option<Room>, say: Say) -> Shelf {
        let open = |(name, home): (String, Home)| {
            // The folder may be called '.'.
            let whole = home.folder().and_then(|folder| folder.canonicalize().ok());
            let last = whole.as_ref().and_then(|whole| whole.file_name());
            let name = last.map_or(name, |last| last.to_string_lossy().into_owned());
            Name { name, home, library: Mutex::new(None) }
        };
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Shelf {
            names: homes.into_iter().map(open).collect(),
            places: Mutex::default(),
            branches: Mutex::default(),
            room,
            key,
            told: Mutex::default(),
            say,
            own: Attributes { mode: 0o755, uid, gid, modified_ns: super::branch::now_ns() },
        }
    }

    /// The names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| name.name.as_str())
    }

    /// Bytes that were read from the repository so far.
    pub(crate) fn fetched(&self) -> u64 {
        let known = self.names.iter().map(|name| lock(&name.library));
        known.map(|library| library.as_ref().map_or(0, |known| known.library.fetched())).sum()
    }

    /// Whether something could not be read.
    pub(crate) fn is_damaged(&self) -> bool {
        !lock(&self.told).is_empty()
    }

    /// Says what is wrong, once.
    fn tell(&self, what: &str) {
        let mut told = lock(&self.told);
        if told.len() < TOLD_MAX && told.insert(what.to_owned()) {
            (self.say)(what);
        }
    }

    /// Says that something can't be read, and what that means for the kernel.
    fn damaged(&self, what: &str, error: &block::Error) -> Errno {
        self.tell(&format!("{what}: {error}"));
        Errno::IO
    }

    /// What is there of a name by now.
    fn library(&self, at: usize) -> Answer<Arc<RepositoryReader>> {
        let name = self.names.get(at).ok_or(Errno::NOENT)?;
        let mut library = lock(&name.library);
        let is_recent = |known: &&Looked| known.at.elapsed() < name.pause();
        if let Some(known) = library.as_ref().filter(is_recent) {
            return Ok(Arc::clone(&known.library));
        }
        let files = name.files();
        if let Some(known) = library.as_mut().filter(|known| files.is_none() || files == known.files) {
            known.at = Instant::now();
            return Ok(Arc::clone(&known.library));
        }
        let opened = repository::at(&name.home, self.key.as_ref()).and_then(RepositoryReader::open);
        let opened = match (opened, library.as_ref()) {
            (Ok(opened), _) => opened,
            // It is looked at again the next time.
            (Err(_), Some(known)) => return Ok(Arc::clone(&known.library)),
            (Err(error), None) => return Err(self.damaged(&name.name, &error)),
        };
        for damage in opened.damages() {
            self.tell(&format!("{}: {damage}", name.name));
        }
        *library = Some(Looked { files, at: Instant::now(), library: Arc::clone(&opened) });
        Ok(opened)
    }

    /// The place of a generation.
    fn place(&self, name: usize, generation: u64) -> usize {
        let mut places = lock(&self.places);
        let known = places.iter().position(|place| *place == (name, generation));
        known.unwrap_or_else(|| {
            places.push((name, generation));
            places.len() - 1
        })
    }

    fn branch(&self, place: usize) -> Answer<Arc<Branch>> {
        let mut branches = lock(&self.branches);
        if let Some(at) = branches.iter().position(|(known, _)| *known == place) {
            let found = branches.remove(at);
            let branch = Arc::clone(&found.1);
            branches.push(found);
            return Ok(branch);
        }
        let (name, generation) = *lock(&self.places).get(place).ok_or(Errno::NOENT)?;
        let library = self.library(name)?;
        let branch = open(&library, generation).map_err(|error| {
            let name = self.names.get(name).map(|name| name.name.as_str()).unwrap_or_default();
            self.damaged(&format!("{name}@{generation}"), &error)
        });
        let branch = Arc::new(branch?);
        if branches.len() >= BRANCHES_MAX && self.room.is_none() {
            branches.remove(0);
        }
        branches.push((place, Arc::clone(&branch)));
        Ok(branch)
    }

    fn find(&self, number: u64) -> Answer<Place> {
        let (place, node) = (number >> NODE_BITS, number & ((1 << NODE_BITS) - 1));
        match (place, node) {
            (0, ROOT) => Ok(Place::Root),
            (0, name) => Ok(Place::Name(index(name.checked_sub(FIRST_NAME).ok_or(Errno::NOENT)?))),
            (place, node) => {
                let place = index(place - 1);
                Ok(Place::Node(place, self.branch(place)?, index(node)))
            }
        }
    }

    /// The file that a number leads to.
    fn node(&self, number: u64) -> Answer<(usize, Arc<Branch>, usize)> {
        match self.find(number)? {
            Place::Node(place, branch, node) => Ok((place, branch, node)),
            Place::Root | Place::Name(_) => Err(Errno::ISDIR),
        }
    }

    /// The same, if it may be changed.
    fn changed(&self, number: u64) -> Answer<(usize, Arc<Branch>, usize)> {
        match (&self.room, self.find(number)?) {
            (Some(_), Place::Node(place, branch, node)) => Ok((place, branch, node)),
            _ => Err(Errno::ROFS),
        }
    }

    /// A folder that we make up.
    fn own(&self, number: u64) -> Thing {
        let known = Known { node: TOP, kind: Form::Folder, len: 0, attributes: self.own, names: 2 };
        Thing { number, known }
    }

    pub(super) fn known(&self, number: u64) -> Answer<Thing> {
        match self.find(number)? {
            Place::Root => Ok(self.own(number)),
            Place::Name(name) if name < self.names.len() => Ok(self.own(number)),
            Place::Name(_) => Err(Errno::NOENT),
            Place::Node(place, branch, node) => Ok(thing(place, branch.known(node)?)),
        }
    }

    pub(super) fn lookup(&self, folder: u64, name: &OsStr) -> Answer<Thing> {
        match self.find(folder)? {
            Place::Root => {
                let at = self.names.iter().position(|known| name == known.name.as_str());
                at.map(|at| self.own(FIRST_NAME + at as u64)).ok_or(Errno::NOENT)
            }
            Place::Name(at) => {
                let number: u64 = name.to_str().and_then(|name| name.parse().ok()).ok_or(Errno::NOENT)?;
                let library = self.library(at)?;
                let is_there = library.generations().any(|(known, ..)| known == number);
                if !is_there || name != number.to_string().as_str() {
                    return Err(Errno::NOENT);
                }
                let place = self.place(at, number);
                Ok(thing(place, self.branch(place)?.known(TOP)?))
            }
            Place::Node(place, branch, node) => Ok(thing(place, branch.lookup(node, name)?)),
        }
    }

    /// What is in a folder, the folder itself and the one above it first.
    pub(super) fn list(&self, folder: u64) -> Answer<Vec<Item>> {
        let item = |number, name: &OsStr, form| Item { number, name: name.to_owned(), form };
        let own = |above| {
            vec![item(folder, OsStr::new("."), Form::Folder), item(above, OsStr::new(".."), Form::Folder)]
        };
        match self.find(folder)? {
            Place::Root => {
                let names = self.names.iter().zip(FIRST_NAME..);
                let names = names.map(|(name, number)| item(number, OsStr::new(&name.name), Form::Folder));
                Ok(own(ROOT).into_iter().chain(names).collect())
            }
            Place::Name(at) => {
                let library = self.library(at)?;
                let generations = library.generations().map(|(number, ..)| {
                    item(
                        number_of(self.place(at, number), TOP),
                        OsStr::new(&number.to_string()),
                        Form::Folder,
                    )
                });
                Ok(own(ROOT).into_iter().chain(generations).collect())
            }
            Place::Node(place, branch, node) => {
                let above = match node {
                    TOP => FIRST_NAME + lock(&self.places).get(place).map_or(0, |(name, _)| *name as u64),
                    node => number_of(place, branch.above(node)?),
                };
                let items = branch.list(node)?.into_iter();
                let items = items.map(|(name, known)| item(number_of(place, known.node), &name, known.kind));
                Ok(own(above).into_iter().chain(items).collect())
            }
        }
    }

    pub(super) fn target(&self, number: u64) -> Answer<OsString> {
        let (_, branch, node) = self.node(number)?;
        branch.target(node)
    }

    pub(super) fn extended(&self, number: u64) -> Answer<disk::Extended> {
        match self.find(number)? {
            Place::Node(_, branch, node) => branch.extended(node),
            Place::Root | Place::Name(_) => Ok(disk::Extended::new()),
        }
    }

    pub(super) fn open(&self, number: u64) -> Answer<()> {
        let (_, branch, node) = self.node(number)?;
        branch.data(node)?;
        branch.opened(node);
        Ok(())
    }

    pub(super) fn release(&self, number: u64) {
        if let Ok((_, branch, node)) = self.node(number) {
            branch.released(node);
        }
    }

    pub(super) fn read(&self, number: u64, at: u64, len: usize) -> Answer<Vec<u8>> {
        let (place, branch, node) = self.node(number)?;
        branch.data(node)?.read(&branch.content, at, len, &|error| self.lost(place, &branch, node, error))
    }

    pub(super) fn write(&self, number: u64, at: u64, bytes: &[u8]) -> Answer<()> {
        let (place, branch, node) = self.changed(number)?;
        let room = self.room.as_ref().ok_or(Errno::ROFS)?;
        branch.write(node, room, (at, bytes), &|error| self.lost(place, &branch, node, error))
    }

    /// Says which file can't be read.
    fn lost(&self, place: usize, branch: &Branch, node: usize, error: &block::Error) {
        let (name, generation) = lock(&self.places).get(place).copied().unwrap_or_default();
        let name = self.names.get(name).map(|name| name.name.as_str()).unwrap_or_default();
        self.damaged(&format!("{name}/{generation}/{}", shown::path(&branch.path(node))), error);
    }

    pub(super) fn change(&self, number: u64, change: Change) -> Answer<Thing> {
        let (place, branch, node) = self.changed(number)?;
        Ok(thing(place, branch.change(node, change)?))
    }

    pub(super) fn make(
        &self,
        folder: u64,
        name: &OsStr,
        what: (Form, Option<&OsStr>),
        rights: (u32, u32, u32),
    ) -> Answer<Thing> {
        let (place, branch, node) = self.changed(folder)?;
        Ok(thing(place, branch.make(node, name, what, rights)?))
    }

    pub(super) fn link(&self, number: u64, folder: u64, name: &OsStr) -> Answer<Thing> {
        let (place, branch, node) = self.changed(number)?;
        let (other, _, folder) = self.changed(folder)?;
        if other != place {
            return Err(Errno::XDEV);
        }
        Ok(thing(place, branch.link(node, folder, name)?))
    }

    pub(super) fn remove(&self, folder: u64, name: &OsStr, is_folder: bool) -> Answer<()> {
        let (_, branch, node) = self.changed(folder)?;
        branch.remove(node, name, is_folder)
    }

    pub(super) fn rename(
        &self,
        (from, name): (u64, &OsStr),
        (to, new): (u64, &OsStr),
        may_replace: bool,
    ) -> Answer<()> {
        let (place, branch, from) = self.changed(from)?;
        let (other, _, to) = self.changed(to)?;
        if other != place {
            return Err(Errno::XDEV);
        }
        branch.rename((from, name), (to, new), may_replace)
    }

    /// Where writes go, if there may be any.
    pub(super) fn room(&self) -> Option<&Room> {
        self.room.as_ref()
    }
}

impl Name {
    /// How long what was seen counts as true: a listing of a store takes time, and costs.
    fn pause(&self) -> Duration {
        if self.home.folder().is_some() { Duration::ZERO } else { LOOK }
    }

    /// The names of its files: others tell that there is another generation. None if they can't be listed.
    fn files(&self) -> Option<Vec<String>> {
        let mut names = self.home.store().list().ok()?;
        names.retain(|name| name.ends_with(".blk") || name.ends_with(".catalogue"));
        names.sort();
        Some(names)
    }
}

fn open(library: &Arc<RepositoryReader>, generation: u64) -> Result<Branch, block::Error> {
    let content: GenerationReader = library.content(Some(generation))?;
    let note = library.generations().find(|(number, ..)| *number == generation).map(|(.., note)| note);
    let is_tree = note.and_then(repository::note_says_tree) == Some(true);
    Branch::open(content, is_tree)
}

fn number_of(place: usize, node: usize) -> u64 {
    (place as u64 + 1) << NODE_BITS | node as u64
}

fn thing(place: usize, known: Known) -> Thing {
    Thing { number: number_of(place, known.node), known }
}
