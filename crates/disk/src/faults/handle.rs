//! Open files and locks of the disk in memory.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;

use super::{FaultDisk, power_lost};
use crate::{Guard, Sink, Source, Stat, Volume};

/// A file that is open.
pub(super) struct Handle {
    pub(super) disk: FaultDisk,
    pub(super) node: usize,
    pub(super) at: u64,
}

/// A lock that is held.
pub(super) struct Lock {
    pub(super) disk: FaultDisk,
    pub(super) path: PathBuf,
}

impl Guard for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        match state.locks.get(&self.path).copied() {
            Some(others @ 2..) => state.locks.insert(self.path.clone(), others - 1),
            _ => state.locks.remove(&self.path),
        };
    }
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = Source::read_at(self, self.at, buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self.disk.running()?.stat(self.node)?.len;
        self.at = crate::seek(self.at, to, || Ok(len))?;
        Ok(self.at)
    }
}

impl Source for Handle {
    fn stat(&self) -> io::Result<Stat> {
        self.disk.running()?.stat(self.node)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.running()?;
        let node = state.nodes.get(self.node).ok_or_else(power_lost)?;
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(node.bytes.len());
        let count = (&node.bytes[start..]).read(buffer)?;
        let touched = |bad: &u64| (at..at + count as u64).contains(bad);
        let damaged = state
            .unreadable
            .iter()
            .any(|(path, bad)| state.names.get(path) == Some(&self.node) && touched(bad));
        if damaged { Err(rustix::io::Errno::IO.into()) } else { Ok(count) }
    }

    fn absent(&self, _: u64, _: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < Source::stat(self)?.len).then_some(at))
    }

    fn prefetch(&self, _: u64, _: u64) {}

    fn forget(&self, _: u64, _: u64) {}
}

impl Handle {
    /// Changes the bytes in place, if they still fit on the disk.
    fn change(&self, len: u64, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.disk.running()?;
        let named: BTreeSet<usize> = state.names.values().copied().collect();
        let bytes = named.iter().filter_map(|node| state.nodes.get(*node)).map(|node| node.bytes.len());
        let used: usize = bytes.sum();
        let capacity = state.capacity;
        let node = state.nodes.get_mut(self.node).ok_or_else(power_lost)?;
        let grown = usize::try_from(len).unwrap_or(usize::MAX).saturating_sub(node.bytes.len());
        if capacity.is_some_and(|capacity| (used + grown) as u64 > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change(&mut node.bytes);
        node.version += 1;
        Ok(())
    }
}

impl Volume for Handle {
    fn stat(&self) -> io::Result<Stat> {
        Source::stat(self)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Source::read_at(self, at, buffer)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(at).map_err(io::Error::other)?;
        let end = start + bytes.len();
        self.change(end as u64, |all| {
            all.resize(all.len().max(end), 0);
            all[start..end].copy_from_slice(bytes);
        })
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        let (start, len) =
            (usize::try_from(at).map_err(io::Error::other)?, usize::try_from(len).unwrap_or(usize::MAX));
        self.change(0, |all| {
            let end = all.len().min(start.saturating_add(len));
            all[start.min(end)..end].fill(0);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(len, |all| all.resize(usize::try_from(len).unwrap_or(usize::MAX), 0))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.running()?;
        let synced = state.sync();
        let node = state.nodes.get_mut(self.node).ok_or_else(power_lost)?;
        node.lost |= synced.is_err();
        if !node.lost {
            node.synced = node.bytes.clone();
        }
        synced
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = Source::stat(self)?.len + bytes.len() as u64;
        self.change(len, |all| all.extend_from_slice(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Handle {
    fn sync(&mut self) -> io::Result<()> {
        Volume::sync(self)
    }
}
