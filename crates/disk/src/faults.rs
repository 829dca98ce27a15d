//! A disk in memory that can be stopped at any sync, for crash tests.
//!
//! It models only what a journalling file system promises: bytes survive once the file was synced, a name
//! survives once its folder was synced. Between two syncs any prefix of either may have reached the disk, or
//! its end without its beginning. The variants of a crash are in [`Unsynced`].

mod handle;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::handle::{Handle, Lock};
use crate::{Disk, Guard, Share, Sink, Source, Stat, Volume};

/// What a crash does to bytes and names that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// They are gone.
    Drop,
    /// They all reached the disk.
    Keep,
    /// Names reached the disk, and half of the unsynced bytes of each file, with the last byte garbled.
    Tear,
    /// Names reached the disk, and the second half of the unsynced bytes of each file; before them are zeros.
    /// Of bytes that were overwritten every second sector reached it.
    Scatter,
}

impl Unsynced {
    /// All variants, for the loop of a crash test.
    pub const ALL: [Unsynced; 4] = [Unsynced::Drop, Unsynced::Keep, Unsynced::Tear, Unsynced::Scatter];
}

/// A disk in memory. Clones share the same files.
#[derive(Clone, Default)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    nodes: Vec<Node>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    syncs: u64,
    stop_at: Option<u64>,
    fail_at: Option<u64>,
    capacity: Option<u64>,
    stopped: bool,
    unreadable: BTreeMap<PathBuf, u64>,
    denied: BTreeSet<PathBuf>,
    /// The holders of each lock: 0 for an exclusive one, else how many share it.
    locks: BTreeMap<PathBuf, u32>,
}

#[derive(Clone, Default)]
struct Node {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    version: i128,
    folder: bool,
    /// Whether a program has set its modification time.
    back_dated: bool,
    /// Whether a sync failed: unsynced bytes then never reach the disk, whatever later syncs return.
    lost: bool,
}

fn power_lost() -> io::Error {
    io::Error::other("the disk was stopped")
}

impl FaultDisk {
    /// A disk that stops at sync number `sync` (counted from 0, files and folders together): that sync and
    /// everything after it fails, as after a power failure.
    #[must_use]
    pub fn stopping_at(sync: u64) -> FaultDisk {
        let disk = FaultDisk::default();
        disk.state().stop_at = Some(sync);
        disk
    }

    /// A disk whose sync number `sync` fails once. From then on it pretends: later syncs of that file succeed
    /// and store nothing, as Linux does with pages that it could not write.
    #[must_use]
    pub fn failing_at(sync: u64) -> FaultDisk {
        let disk = FaultDisk::default();
        disk.state().fail_at = Some(sync);
        disk
    }

    /// Stops this disk too, `syncs` syncs from now.
    pub fn stop_in(&self, syncs: u64) {
        let mut state = self.state();
        state.stop_at = Some(state.syncs + syncs);
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Changes one byte of a file, also on the disk.
    pub fn corrupt(&self, path: &Path, at: usize, mask: u8) {
        let mut state = self.state();
        let Some(node) = state.names.get(path).copied() else { return };
        if let Some(node) = state.nodes.get_mut(node) {
            for bytes in [&mut node.bytes, &mut node.synced] {
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= mask);
            }
        }
    }

    /// Sets a file's modification time to a fixed value.
    pub fn back_date(&self, path: &Path) {
        let mut state = self.state();
        let node = state.names.get(path).copied().and_then(|node| state.nodes.get_mut(node));
        node.into_iter().for_each(|node| node.back_dated = true);
    }

    /// Changes a byte of a file without changing its times, as a write through a mapping may.
    pub fn change_unseen(&self, path: &Path, at: usize, mask: u8) {
        self.corrupt(path, at, mask);
    }

    /// Makes writes fail with `StorageFull` when all files together exceed `bytes`.
    pub fn limit(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// Makes every read of a file that includes byte `at` fail, as with a bad sector.
    pub fn damage(&self, path: &Path, at: u64) {
        self.state().unreadable.insert(path.to_owned(), at);
    }

    /// Makes every attempt to open a file fail, as for somebody who has no right to read it.
    pub fn deny(&self, path: &Path) {
        self.state().denied.insert(path.to_owned());
    }

    /// Stores a file, synced and readable, and replaces an existing one.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        state.nodes.push(Node { bytes: bytes.to_vec(), synced: bytes.to_vec(), ..Node::default() });
        let node = state.nodes.len() - 1;
        state.names.insert(path.to_owned(), node);
        state.synced_names.insert(path.to_owned(), node);
        state.unreadable.remove(path);
        state.denied.remove(path);
    }

    /// A file's current bytes, synced or not.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).and_then(|node| state.nodes.get(*node)).map(|node| node.bytes.clone())
    }

    /// The number of syncs so far: a run without a fault tells a crash test at how many places it must stop.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// The disk as it is after the crash.
    #[must_use]
    pub fn after_crash(&self, unsynced: Unsynced) -> FaultDisk {
        let old = self.state();
        let names = if unsynced == Unsynced::Drop { &old.synced_names } else { &old.names };
        let nodes = old.nodes.iter().map(|node| {
            let bytes = match unsynced {
                Unsynced::Drop => node.synced.clone(),
                Unsynced::Keep => node.bytes.clone(),
                Unsynced::Tear => torn(node),
                Unsynced::Scatter => scattered(node),
            };
            Node { synced: bytes.clone(), bytes, version: node.version + 1, lost: false, ..node.clone() }
        });
        let state = State {
            nodes: nodes.collect(),
            names: names.clone(),
            synced_names: names.clone(),
            ..State::default()
        };
        FaultDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The files' names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.stopped { Err(power_lost()) } else { Ok(state) }
    }
}

/// How many bytes at the beginning are unchanged since the sync.
fn kept(node: &Node) -> usize {
    node.bytes.iter().zip(&node.synced).take_while(|(now, synced)| now == synced).count()
}

fn torn(node: &Node) -> Vec<u8> {
    let kept = kept(node);
    if kept == node.bytes.len() {
        // Nothing new, or a truncation that was not synced and is undone.
        return node.synced.clone();
    }
    if kept < node.synced.len() {
        return in_place(node, 0);
    }
    let mut bytes = node.bytes.clone();
    bytes.truncate(kept + (node.bytes.len() - kept).div_ceil(2));
    if let Some(last) = bytes.last_mut() {
        *last ^= 0x5a;
    }
    bytes
}

fn scattered(node: &Node) -> Vec<u8> {
    let kept = kept(node);
    if kept < node.synced.len() {
        return in_place(node, 1);
    }
    let mut bytes = node.bytes.clone();
    let half = (node.bytes.len() - kept) / 2;
    bytes.get_mut(kept..kept + half).into_iter().for_each(|hole| hole.fill(0));
    bytes
}

/// Overwritten bytes: every second sector of the new bytes reached the disk, from this one on.
fn in_place(node: &Node, first: usize) -> Vec<u8> {
    const SECTOR: usize = 512;
    let mut bytes = node.synced.clone();
    for (number, new) in node.bytes.chunks(SECTOR).enumerate().filter(|(number, _)| number % 2 == first) {
        let start = number * SECTOR;
        bytes.resize(bytes.len().max(start + new.len()), 0);
        bytes[start..start + new.len()].copy_from_slice(new);
    }
    bytes
}

impl State {
    fn sync(&mut self) -> io::Result<()> {
        if self.stop_at == Some(self.syncs) {
            self.stopped = true;
            return Err(power_lost());
        }
        self.syncs += 1;
        if self.fail_at == Some(self.syncs - 1) {
            return Err(io::Error::other("the disk could not write"));
        }
        Ok(())
    }

    fn make(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.nodes.push(node);
        let node = self.nodes.len() - 1;
        self.names.insert(path.to_owned(), node);
        Ok(node)
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn stat(&self, number: usize) -> io::Result<Stat> {
        let node = self.nodes.get(number).ok_or_else(power_lost)?;
        Ok(Stat {
            len: node.bytes.len() as u64,
            modified_ns: if node.back_dated { 0 } else { node.version },
            changed_ns: node.version,
            inode: number as u64 + 1,
            regular: !node.folder,
            block_device: false,
        })
    }
}

impl Disk for FaultDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let state = self.running()?;
        if state.denied.contains(path) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let node = state.find(path)?;
        Ok(Box::new(Handle { disk: self.clone(), node, at: 0 }))
    }

    /// Folders are not part of the model: all of them exist, from the start and after a crash.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let node = self.running()?.make(path, Node::default())?;
        Ok(Box::new(Handle { disk: self.clone(), node, at: 0 }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        let node = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), node);
        move_inside(&mut state.names, from, to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        let node = state.find(path)?;
        if state.nodes.get(node).is_some_and(|node| node.folder) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.names.remove(path);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        state.sync()?;
        let inside = |path: &Path| path.parent() == Some(folder);
        let moved = moved_folders(&state, folder);
        state.synced_names.retain(|path, _| !inside(path));
        for (old, new) in moved {
            move_inside(&mut state.synced_names, &old, &new);
        }
        let now: Vec<_> =
            state.names.iter().filter(|(path, _)| inside(path)).map(|(p, n)| (p.clone(), *n)).collect();
        state.synced_names.extend(now);
        Ok(())
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let state = self.running()?;
        state.stat(state.find(path)?)
    }

    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>> {
        let node = self.running()?.find(path)?;
        Ok(Box::new(Handle { disk: self.clone(), node, at: 0 }))
    }

    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        let mut state = self.running()?;
        let node = state.find(path)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        state.nodes.get_mut(node).into_iter().for_each(|node| node.bytes.truncate(len));
        Ok(Box::new(Handle { disk: self.clone(), node, at: 0 }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let state = self.running()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        let names: Vec<_> = inside.filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect();
        if names.is_empty() { state.find(folder).map(|_| names) } else { Ok(names) }
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.running()?.make(folder, Node { folder: true, ..Node::default() }).map(|_| ())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        state.find(folder)?;
        if state.names.keys().any(|path| path.parent() == Some(folder)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.names.remove(folder);
        Ok(())
    }

    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        let mut state = self.running()?;
        let held = state.locks.get(path).copied();
        let now = match (held, share) {
            (None, Share::Exclusive) => 0,
            (None, Share::Shared) => 1,
            (Some(others @ 1..), Share::Shared) => others + 1,
            _ => return Ok(None),
        };
        state.locks.insert(path.to_owned(), now);
        Ok(Some(Box::new(Lock { disk: self.clone(), path: path.to_owned() })))
    }
}

/// Moves everything in the folder `from` to the folder `to`.
fn move_inside(names: &mut BTreeMap<PathBuf, usize>, from: &Path, to: &Path) {
    let inside = names.keys().filter(|path| path.starts_with(from) && *path != from).cloned();
    for old in inside.collect::<Vec<_>>() {
        if let (Some(node), Ok(rest)) = (names.remove(&old), old.strip_prefix(from)) {
            names.insert(to.join(rest), node);
        }
    }
}

/// Folders in `parent` that would have another name after a crash: both names.
fn moved_folders(state: &State, parent: &Path) -> Vec<(PathBuf, PathBuf)> {
    let is_folder = |node: &usize| state.nodes.get(*node).is_some_and(|node| node.folder);
    let here = state.names.iter().filter(|(path, node)| path.parent() == Some(parent) && is_folder(node));
    here.filter_map(|(new, node)| {
        let (old, _) = state.synced_names.iter().find(|(_, synced)| *synced == node)?;
        (old != new).then(|| (old.clone(), new.clone()))
    })
    .collect()
}
