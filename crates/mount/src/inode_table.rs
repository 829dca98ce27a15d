//! All generations of a repository as one tree, `NAME/N/...`, with a number for each thing in it. The kernel
//! knows things by these numbers only.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{GenerationReader, RepositoryReader};
use disk::Attributes;
use humanize::text;
use repository::location::Location;
use rustix::io::Errno;
use seal::Key;

use crate::file_data::WriteFolder;
use crate::overlay::{Change, Metadata, NewNode, NodeKind, Overlay, Rights, TOP};

/// The number of the top.
pub(crate) const ROOT: u64 = 1;
/// The number of the first name's folder.
const FIRST_NAME: u64 = 2;
/// Bits of the number of a node in its generation.
const NODE_BITS: u32 = 32;
/// The most generations whose lists of files are kept.
const OVERLAYS_MAX: usize = 16;
/// The most damages that are told.
const TOLD_MAX: usize = 1000;
/// How often a store is looked at for new generations.
const LOOK: Duration = Duration::from_secs(10);

type Reply<Value> = Result<Value, Errno>;

/// Says what can't be read.
pub type Warn = Box<dyn Fn(&str) + Send + Sync>;

/// The whole.
pub struct InodeTable {
    names: Vec<Name>,
    /// Each generation that was asked for so far: the place of its name, and its number. Its own place is a
    /// part of the numbers of its things.
    places: Mutex<Vec<(usize, u64)>>,
    /// What was used last, the latest last. Those that can be written to stay.
    overlays: Mutex<Vec<(usize, Arc<Overlay>)>>,
    /// Where writes go; none: nothing can be written.
    write_folder: Option<WriteFolder>,
    /// What opens encrypted backups.
    key: Option<Key>,
    told: Mutex<BTreeSet<String>>,
    say: Warn,
    /// Of the folders that we make up.
    own: Attributes,
}

/// The backups of a name.
struct Name {
    name: String,
    home: Location,
    /// With the files that there were when it was opened.
    library: Mutex<Option<Opened>>,
}

/// What was seen of a name.
struct Opened {
    files: Option<Vec<String>>,
    at: Instant,
    library: Arc<RepositoryReader>,
}

/// A thing in a folder.
pub struct Item {
    pub number: u64,
    pub name: OsString,
    pub form: NodeKind,
}

/// A thing, with its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inode {
    pub number: u64,
    pub known: Metadata,
}

/// Where a number leads to.
enum Target {
    Root,
    /// By its place.
    Name(usize),
    Node(usize, Arc<Overlay>, usize),
}

fn lock<Value>(of: &Mutex<Value>) -> MutexGuard<'_, Value> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl InodeTable {
    /// The backups of these names, opened with `key`. `write_folder`: where writes go, if there may be any.
    pub fn new(
        homes: Vec<(String, Location)>,
        key: Option<Key>,
        write_folder: Option<WriteFolder>,
        say: Warn,
    ) -> InodeTable {
        let open = |(name, home): (String, Location)| {
            // The folder may be called '.'.
            let whole = home.folder().and_then(|folder| folder.canonicalize().ok());
            let last = whole.as_ref().and_then(|whole| whole.file_name());
            let name = last.map_or(name, |last| last.to_string_lossy().into_owned());
            Name { name, home, library: Mutex::new(None) }
        };
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        InodeTable {
            names: homes.into_iter().map(open).collect(),
            places: Mutex::default(),
            overlays: Mutex::default(),
            write_folder,
            key,
            told: Mutex::default(),
            say,
            own: Attributes { mode: 0o755, uid, gid, modified_ns: crate::overlay::now_ns() },
        }
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| name.name.as_str())
    }

    /// Bytes that were read from the repository so far.
    pub fn fetched(&self) -> u64 {
        let known = self.names.iter().map(|name| lock(&name.library));
        known.map(|library| library.as_ref().map_or(0, |known| known.library.fetched())).sum()
    }

    /// Whether something could not be read.
    pub fn is_damaged(&self) -> bool {
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
    fn library(&self, at: usize) -> Reply<Arc<RepositoryReader>> {
        let name = self.names.get(at).ok_or(Errno::NOENT)?;
        let mut library = lock(&name.library);
        let is_recent = |known: &&Opened| known.at.elapsed() < name.pause();
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
        *library = Some(Opened { files, at: Instant::now(), library: Arc::clone(&opened) });
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

    fn overlay(&self, place: usize) -> Reply<Arc<Overlay>> {
        let mut overlays = lock(&self.overlays);
        if let Some(at) = overlays.iter().position(|(known, _)| *known == place) {
            let found = overlays.remove(at);
            let overlay = Arc::clone(&found.1);
            overlays.push(found);
            return Ok(overlay);
        }
        let (name, generation) = *lock(&self.places).get(place).ok_or(Errno::NOENT)?;
        let library = self.library(name)?;
        let overlay = open(&library, generation).map_err(|error| {
            let name = self.names.get(name).map(|name| name.name.as_str()).unwrap_or_default();
            self.damaged(&format!("{name}@{generation}"), &error)
        });
        let overlay = Arc::new(overlay?);
        if overlays.len() >= OVERLAYS_MAX && self.write_folder.is_none() {
            overlays.remove(0);
        }
        overlays.push((place, Arc::clone(&overlay)));
        Ok(overlay)
    }

    fn find(&self, number: u64) -> Reply<Target> {
        let (place, node) = (number >> NODE_BITS, number & ((1 << NODE_BITS) - 1));
        match (place, node) {
            (0, ROOT) => Ok(Target::Root),
            (0, name) => Ok(Target::Name(index(name.checked_sub(FIRST_NAME).ok_or(Errno::NOENT)?))),
            (place, node) => {
                let place = index(place - 1);
                Ok(Target::Node(place, self.overlay(place)?, index(node)))
            }
        }
    }

    /// The file that a number leads to.
    fn node(&self, number: u64) -> Reply<(usize, Arc<Overlay>, usize)> {
        match self.find(number)? {
            Target::Node(place, overlay, node) => Ok((place, overlay, node)),
            Target::Root | Target::Name(_) => Err(Errno::ISDIR),
        }
    }

    /// The same, if it may be changed.
    fn changed(&self, number: u64) -> Reply<(usize, Arc<Overlay>, usize)> {
        match (&self.write_folder, self.find(number)?) {
            (Some(_), Target::Node(place, overlay, node)) => Ok((place, overlay, node)),
            _ => Err(Errno::ROFS),
        }
    }

    /// A folder that we make up.
    fn own(&self, number: u64) -> Inode {
        let known = Metadata { node: TOP, kind: NodeKind::Folder, len: 0, attributes: self.own, names: 2 };
        Inode { number, known }
    }

    pub(crate) fn known(&self, number: u64) -> Reply<Inode> {
        match self.find(number)? {
            Target::Root => Ok(self.own(number)),
            Target::Name(name) if name < self.names.len() => Ok(self.own(number)),
            Target::Name(_) => Err(Errno::NOENT),
            Target::Node(place, overlay, node) => Ok(thing(place, overlay.known(node)?)),
        }
    }

    pub(crate) fn lookup(&self, folder: u64, name: &OsStr) -> Reply<Inode> {
        match self.find(folder)? {
            Target::Root => {
                let at = self.names.iter().position(|known| name == known.name.as_str());
                at.map(|at| self.own(FIRST_NAME + at as u64)).ok_or(Errno::NOENT)
            }
            Target::Name(at) => {
                let number: u64 = name.to_str().and_then(|name| name.parse().ok()).ok_or(Errno::NOENT)?;
                let library = self.library(at)?;
                let is_there = library.generations().any(|(known, ..)| known == number);
                if !is_there || name != number.to_string().as_str() {
                    return Err(Errno::NOENT);
                }
                let place = self.place(at, number);
                Ok(thing(place, self.overlay(place)?.known(TOP)?))
            }
            Target::Node(place, overlay, node) => Ok(thing(place, overlay.lookup(node, name)?)),
        }
    }

    /// What is in a folder, the folder itself and the one above it first.
    pub fn list(&self, folder: u64) -> Reply<Vec<Item>> {
        let item = |number, name: &OsStr, form| Item { number, name: name.to_owned(), form };
        let own = |above| {
            vec![
                item(folder, OsStr::new("."), NodeKind::Folder),
                item(above, OsStr::new(".."), NodeKind::Folder),
            ]
        };
        match self.find(folder)? {
            Target::Root => {
                let names = self.names.iter().zip(FIRST_NAME..);
                let names =
                    names.map(|(name, number)| item(number, OsStr::new(&name.name), NodeKind::Folder));
                Ok(own(ROOT).into_iter().chain(names).collect())
            }
            Target::Name(at) => {
                let library = self.library(at)?;
                let generations = library.generations().map(|(number, ..)| {
                    item(
                        number_of(self.place(at, number), TOP),
                        OsStr::new(&number.to_string()),
                        NodeKind::Folder,
                    )
                });
                Ok(own(ROOT).into_iter().chain(generations).collect())
            }
            Target::Node(place, overlay, node) => {
                let above = match node {
                    TOP => FIRST_NAME + lock(&self.places).get(place).map_or(0, |(name, _)| *name as u64),
                    node => number_of(place, overlay.above(node)?),
                };
                let items = overlay.list(node)?.into_iter();
                let items = items.map(|(name, known)| item(number_of(place, known.node), &name, known.kind));
                Ok(own(above).into_iter().chain(items).collect())
            }
        }
    }

    pub(crate) fn target(&self, number: u64) -> Reply<OsString> {
        let (_, overlay, node) = self.node(number)?;
        overlay.target(node)
    }

    pub(crate) fn extended(&self, number: u64) -> Reply<disk::Extended> {
        match self.find(number)? {
            Target::Node(_, overlay, node) => overlay.extended(node),
            Target::Root | Target::Name(_) => Ok(disk::Extended::new()),
        }
    }

    pub(crate) fn open(&self, number: u64) -> Reply<()> {
        let (_, overlay, node) = self.node(number)?;
        overlay.data(node)?;
        overlay.opened(node);
        Ok(())
    }

    pub(crate) fn release(&self, number: u64) {
        if let Ok((_, overlay, node)) = self.node(number) {
            overlay.released(node);
        }
    }

    pub(crate) fn read(&self, number: u64, at: u64, len: usize) -> Reply<Vec<u8>> {
        let (place, overlay, node) = self.node(number)?;
        overlay.data(node)?.read(&overlay.content, at, len, &|error| self.lost(place, &overlay, node, error))
    }

    pub(crate) fn write(&self, number: u64, at: u64, bytes: &[u8]) -> Reply<()> {
        let (place, overlay, node) = self.changed(number)?;
        let write_folder = self.write_folder.as_ref().ok_or(Errno::ROFS)?;
        overlay.write(node, write_folder, (at, bytes), &|error| self.lost(place, &overlay, node, error))
    }

    /// Says which file can't be read.
    fn lost(&self, place: usize, overlay: &Overlay, node: usize, error: &block::Error) {
        let (name, generation) = lock(&self.places).get(place).copied().unwrap_or_default();
        let name = self.names.get(name).map(|name| name.name.as_str()).unwrap_or_default();
        self.damaged(&format!("{name}/{generation}/{}", text::path(&overlay.path(node))), error);
    }

    pub(crate) fn change(&self, number: u64, change: Change) -> Reply<Inode> {
        let (place, overlay, node) = self.changed(number)?;
        Ok(thing(place, overlay.change(node, change)?))
    }

    pub(crate) fn make(&self, folder: u64, name: &OsStr, new: NewNode<'_>, rights: Rights) -> Reply<Inode> {
        let (place, overlay, node) = self.changed(folder)?;
        Ok(thing(place, overlay.make(node, name, new, rights)?))
    }

    pub(crate) fn link(&self, number: u64, folder: u64, name: &OsStr) -> Reply<Inode> {
        let (place, overlay, node) = self.changed(number)?;
        let (other, _, folder) = self.changed(folder)?;
        if other != place {
            return Err(Errno::XDEV);
        }
        Ok(thing(place, overlay.link(node, folder, name)?))
    }

    pub(crate) fn remove(&self, folder: u64, name: &OsStr, is_folder: bool) -> Reply<()> {
        let (_, overlay, node) = self.changed(folder)?;
        overlay.remove(node, name, is_folder)
    }

    pub(crate) fn rename(
        &self,
        (from, name): (u64, &OsStr),
        (to, new): (u64, &OsStr),
        may_replace: bool,
    ) -> Reply<()> {
        let (place, overlay, from) = self.changed(from)?;
        let (other, _, to) = self.changed(to)?;
        if other != place {
            return Err(Errno::XDEV);
        }
        overlay.rename((from, name), (to, new), may_replace)
    }

    /// Where writes go, if there may be any.
    pub fn write_folder(&self) -> Option<&WriteFolder> {
        self.write_folder.as_ref()
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

fn open(library: &Arc<RepositoryReader>, generation: u64) -> Result<Overlay, block::Error> {
    let content: GenerationReader = library.content(Some(generation))?;
    let note = library.generations().find(|(number, ..)| *number == generation).map(|(.., note)| note);
    let is_tree = note.and_then(repository::note_says_tree) == Some(true);
    Overlay::open(content, is_tree)
}

fn number_of(place: usize, node: usize) -> u64 {
    (place as u64 + 1) << NODE_BITS | node as u64
}

fn thing(place: usize, known: Metadata) -> Inode {
    Inode { number: number_of(place, known.node), known }
}
