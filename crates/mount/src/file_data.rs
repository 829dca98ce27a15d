//! The bytes of a file: those of the backup, and over them, block by block, what was written since.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use block::{BLOCK, GenerationReader};
use rustix::io::Errno;

const BLOCK_U64: u64 = BLOCK as u64;

/// What to do about a part of a backup that can't be read.
pub(crate) type Tell<'a> = &'a dyn Fn(&block::Error);

/// A file.
pub(crate) struct FileData {
    /// Its blocks in the volume of the backup.
    below: Vec<Range<u64>>,
    /// Its length in the backup.
    below_len: u64,
    now: RwLock<Current>,
}

/// How it is now.
struct Current {
    len: u64,
    /// As many bytes of the backup are still those of the file, where nothing was written.
    kept: u64,
    written: Option<Written>,
}

/// What was written. The file has no name: nothing is left of it, however we end.
struct Written {
    file: File,
    /// By number of the block in the file.
    blocks: Vec<bool>,
}

impl Written {
    fn has(&self, block: u64) -> bool {
        self.blocks.get(index(block)) == Some(&true)
    }

    fn add(&mut self, block: u64) {
        let at = index(block);
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, false);
        }
        self.blocks.get_mut(at).into_iter().for_each(|block| *block = true);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn failed(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl FileData {
    /// A file of the backup; without blocks, a new one.
    pub(crate) fn new(below: Vec<Range<u64>>, len: u64) -> FileData {
        FileData { below, below_len: len, now: RwLock::new(Current { len, kept: len, written: None }) }
    }

    pub(crate) fn len(&self) -> u64 {
        self.now.read().unwrap_or_else(PoisonError::into_inner).len
    }

    /// Reads; fewer bytes only at the end.
    pub(crate) fn read(
        &self,
        content: &GenerationReader,
        at: u64,
        len: usize,
        tell: Tell<'_>,
    ) -> Result<Vec<u8>, Errno> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let count = index(now.len.saturating_sub(at)).min(len);
        let mut out = vec![0; count];
        let mut done = 0;
        while done < count {
            let place = at + done as u64;
            let is_written = |block| now.written.as_ref().filter(|written| written.has(block));
            // As many blocks as are in the same place.
            let here = is_written(place / BLOCK_U64);
            let mut end = place / BLOCK_U64 + 1;
            while end * BLOCK_U64 < at + count as u64 && is_written(end).is_some() == here.is_some() {
                end += 1;
            }
            let len = index(end * BLOCK_U64 - place).min(count - done);
            let part = out.get_mut(done..done + len).unwrap_or_default();
            match here {
                Some(written) => read_full(&written.file, place, part)?,
                None => self.read_below(content, now.kept, (place, part), tell)?,
            }
            done += len;
        }
        Ok(out)
    }

    /// Bytes of the backup; zeros from `kept` on.
    fn read_below(
        &self,
        content: &GenerationReader,
        kept: u64,
        (at, out): (u64, &mut [u8]),
        tell: Tell<'_>,
    ) -> Result<(), Errno> {
        let count = index(kept.min(self.below_len).saturating_sub(at)).min(out.len());
        let mut done = 0;
        while done < count {
            let part = out.get_mut(done..count).unwrap_or_default();
            let read = content.read(&self.below, self.below_len, at + done as u64, part);
            match read.map_err(|error| tell(&error)) {
                Ok(0) | Err(()) => return Err(Errno::IO),
                Ok(read) => done += read,
            }
        }
        Ok(())
    }

    /// Writes. A block that is written in part is completed with the bytes of the backup first.
    pub(crate) fn write(
        &self,
        content: &GenerationReader,
        write_folder: &WriteFolder,
        (at, bytes): (u64, &[u8]),
        tell: Tell<'_>,
    ) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let (kept, end) = (now.kept, at + bytes.len() as u64);
        let written = now.written(write_folder)?;
        for block in at / BLOCK_U64..end.div_ceil(BLOCK_U64) {
            let start = block * BLOCK_U64;
            let rest = (start + BLOCK_U64).min(kept);
            let is_partial = start < kept && (start < at || rest > end);
            if !written.has(block) && is_partial {
                let mut old = vec![0; index(rest - start)];
                self.read_below(content, kept, (start, &mut old), tell)?;
                written.file.write_all_at(&old, start).map_err(|error| failed(&error))?;
            }
        }
        written.file.write_all_at(bytes, at).map_err(|error| failed(&error))?;
        for block in at / BLOCK_U64..end.div_ceil(BLOCK_U64) {
            written.add(block);
        }
        now.len = now.len.max(end);
        Ok(())
    }

    /// Sets the length. What is added is zeros.
    pub(crate) fn set_len(&self, len: u64) -> Result<(), Errno> {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // What is cut off must not come back when the file grows again.
        if let Some(written) = now.written.as_ref().filter(|_| len < now.len) {
            written.file.set_len(len).map_err(|error| failed(&error))?;
        }
        now.kept = now.kept.min(len);
        now.len = len;
        Ok(())
    }

    /// Gives the space back: nobody can read the file any more.
    pub(crate) fn drop_written(&self) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        *now = Current { len: 0, kept: 0, written: None };
    }
}

impl Current {
    fn written(&mut self, write_folder: &WriteFolder) -> Result<&mut Written, Errno> {
        if self.written.is_none() {
            let file = tempfile::tempfile_in(&write_folder.0).map_err(|error| failed(&error))?;
            self.written = Some(Written { file, blocks: Vec::new() });
        }
        self.written.as_mut().ok_or(Errno::IO)
    }
}

/// The folder for what is written.
#[derive(Debug, Clone)]
pub struct WriteFolder(PathBuf);

impl WriteFolder {
    /// Writes go into unnamed files in this folder.
    pub fn new(folder: &Path) -> WriteFolder {
        WriteFolder(folder.to_owned())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }
}

/// What is behind the end of the file is zeros.
fn read_full(file: &File, at: u64, out: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(())
}
