//! A disk in memory that can be stopped at any sync, for crash tests.
//!
//! It models what a journalling file system promises and nothing more: bytes survive when the file was
//! synced; a name survives when its folder was synced; between two syncs any prefix of either may have
//! reached the platter. The crash model has three variants, see [`Unsynced`].

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Disk, Sink, Source, Stat};

/// What a crash does to bytes and names that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// They are gone.
    Drop,
    /// They all reached the disk.
    Keep,
    /// Names reached it, and half of the bytes of each file, the last of them garbled.
    Tear,
}

impl Unsynced {
    /// All variants, for the loop of a crash test.
    pub const ALL: [Unsynced; 3] = [Unsynced::Drop, Unsynced::Keep, Unsynced::Tear];
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
    capacity: Option<u64>,
    stopped: bool,
}

#[derive(Clone, Default)]
struct Node {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    version: i128,
}

struct Handle {
    disk: FaultDisk,
    node: usize,
    at: u64,
}

fn power_lost() -> io::Error {
    io::Error::other("the disk was stopped")
}

impl FaultDisk {
    /// A disk that stops at its `sync`-th sync (counted from 0, files and folders together): that sync
    /// and everything after it fails, as if the power had gone.
    #[must_use]
    pub fn stopping_at(sync: u64) -> FaultDisk {
        let disk = FaultDisk::default();
        disk.state().stop_at = Some(sync);
        disk
    }

    /// Lets writes fail with `StorageFull` when the files together exceed `bytes`.
    pub fn limit(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// Syncs so far: a run without a fault tells a crash test how often it has to stop.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// The disk as it is found after the crash.
    #[must_use]
    pub fn after_crash(&self, unsynced: Unsynced) -> FaultDisk {
        let old = self.state();
        let names = if unsynced == Unsynced::Drop { &old.synced_names } else { &old.names };
        let nodes = old.nodes.iter().map(|node| {
            let bytes = match unsynced {
                Unsynced::Drop => node.synced.clone(),
                Unsynced::Keep => node.bytes.clone(),
                Unsynced::Tear => torn(node),
            };
            Node { synced: bytes.clone(), bytes, version: node.version + 1 }
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

fn torn(node: &Node) -> Vec<u8> {
    if node.bytes == node.synced {
        return node.bytes.clone();
    }
    let mut bytes = node.bytes.clone();
    bytes.truncate(node.bytes.len() / 2);
    if let Some(last) = bytes.last_mut() {
        *last ^= 0x5a;
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
        Ok(())
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn stat(&self, node: usize) -> io::Result<Stat> {
        let node = self.nodes.get(node).ok_or_else(power_lost)?;
        Ok(Stat { len: node.bytes.len() as u64, modified_ns: node.version, regular: true })
    }
}

impl Disk for FaultDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let node = self.running()?.find(path)?;
        Ok(Box::new(Handle { disk: self.clone(), node, at: 0 }))
    }

    /// Folders are not part of the model: every one is there, from the start and after a crash.
    fn create_folder(&self, _: &Path) -> io::Result<()> {
        self.running().map(drop)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let mut state = self.running()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.nodes.push(Node::default());
        let node = state.nodes.len() - 1;
        state.names.insert(path.to_owned(), node);
        Ok(Box::new(Handle { disk: self.clone(), node, at: 0 }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        let node = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        state.find(path)?;
        state.names.remove(path);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.running()?;
        state.sync()?;
        let inside = |path: &Path| path.parent() == Some(folder);
        state.synced_names.retain(|path, _| !inside(path));
        let now: Vec<_> =
            state.names.iter().filter(|(path, _)| inside(path)).map(|(p, n)| (p.clone(), *n)).collect();
        state.synced_names.extend(now);
        Ok(())
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let state = self.running()?;
        state.stat(state.find(path)?)
    }
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.running()?;
        let node = state.nodes.get(self.node).ok_or_else(power_lost)?;
        let at = usize::try_from(self.at).unwrap_or(usize::MAX).min(node.bytes.len());
        let count = (&node.bytes[at..]).read(buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self.disk.running()?.stat(self.node)?.len;
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Source for Handle {
    fn stat(&self) -> io::Result<Stat> {
        self.disk.running()?.stat(self.node)
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.running()?;
        let used: usize = state.nodes.iter().map(|node| node.bytes.len()).sum();
        if state.capacity.is_some_and(|capacity| (used + bytes.len()) as u64 > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let node = state.nodes.get_mut(self.node).ok_or_else(power_lost)?;
        node.bytes.extend_from_slice(bytes);
        node.version += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Handle {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.running()?;
        state.sync()?;
        let node = state.nodes.get_mut(self.node).ok_or_else(power_lost)?;
        node.synced = node.bytes.clone();
        Ok(())
    }
}
