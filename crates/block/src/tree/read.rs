//! Reads the files of a tree as one volume.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, Source, Stat};

use super::open_files::OpenFiles;
use super::page_check::{CheckedPages, PageCheck};
use super::part_map::{FilePart, PartMap};
use super::{ConcurrentUse, Layout, Part};

/// A volume made of files and bytes at given offsets, with zeros between them.
pub struct TreeSource {
    disk: Arc<dyn Disk>,
    len: u64,
    parts: PartMap<PartContent>,
    open: OpenFiles<dyn Source>,
    check: Option<Arc<dyn PageCheck>>,
    position: u64,
}

/// The contents of a part.
enum PartContent {
    Bytes(Vec<u8>),
    File(FilePart, ConcurrentUse),
}

impl TreeSource {
    /// A volume of `len` bytes, all zeros.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, len: u64) -> TreeSource {
        TreeSource { disk, len, parts: PartMap::new(), open: OpenFiles::new(), check: None, position: 0 }
    }

    /// A volume with files whose pages can be checked.
    #[must_use]
    pub fn checked(disk: Arc<dyn Disk>, len: u64, check: Arc<dyn PageCheck>) -> TreeSource {
        TreeSource { check: Some(check), ..TreeSource::new(disk, len) }
    }

    /// The volume of a layout, with the files below `top`.
    #[must_use]
    pub fn of(disk: Arc<dyn Disk>, layout: &Layout, top: &Path) -> TreeSource {
        TreeSource::new(disk, layout.volume_len())
            .with(layout.parts(), &|path| (top.join(path), ConcurrentUse::Unchanging))
    }

    /// Adds parts. `find` returns the location of a file by its path in the volume, and what others may do to
    /// it meanwhile.
    #[must_use]
    pub fn with<'a>(
        mut self,
        parts: impl Iterator<Item = (Range<u64>, Part<'a>)>,
        find: &dyn Fn(&Path) -> (PathBuf, ConcurrentUse),
    ) -> TreeSource {
        for (place, what) in parts {
            match what {
                Part::Bytes(bytes) => self.add_bytes(place.start, bytes),
                Part::File(path, offset) => {
                    let (path, care) = find(path);
                    self.add_file(place, path, offset, care);
                }
            }
        }
        self
    }

    /// Adds bytes at a free place.
    pub fn add_bytes(&mut self, at: u64, bytes: Vec<u8>) {
        self.parts.add(at..at + bytes.len() as u64, PartContent::Bytes(bytes));
    }

    /// Adds a part of a file, from `offset` on, at a free place. Reading pages without a check is an error.
    pub fn add_file(&mut self, place: Range<u64>, path: PathBuf, offset: u64, care: ConcurrentUse) {
        self.parts.add(place, PartContent::File(FilePart { path, offset }, care));
    }

    /// The file; `None` if it is missing and that is allowed.
    fn file(&self, path: &Path, care: ConcurrentUse) -> io::Result<Option<Arc<dyn Source>>> {
        let opened = self.open.get(path, |path| match care {
            ConcurrentUse::Unchanging | ConcurrentUse::Removal => self.disk.open(path),
            ConcurrentUse::PageWrites(_) => self.disk.open_direct(path),
        });
        match opened {
            Err(error) if care != ConcurrentUse::Unchanging && error.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            file => file.map(Some),
        }
    }

    fn read_file(&self, path: &Path, care: ConcurrentUse, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let Some(file) = self.file(path, care)? else {
            target.fill(0);
            return Ok(());
        };
        if let ConcurrentUse::PageWrites(page_bytes) = care {
            let check = self.check.as_deref();
            let check = check.ok_or_else(|| io::Error::other("there is no check for these pages"))?;
            return CheckedPages { path, file, check, page_bytes }.read(offset, target);
        }
        let filled = file.read_full_at(offset, target)?;
        if filled < target.len() && care == ConcurrentUse::Unchanging {
            return Err(shorter(path));
        }
        target.get_mut(filled..).unwrap_or_default().fill(0);
        Ok(())
    }

    /// Calls a function for each file that overlaps a range: with the file, the range in it, and the start of
    /// that in the volume.
    fn files(
        &self,
        range: Range<u64>,
        mut act: impl FnMut(&dyn Source, Range<u64>, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for (place, what, within) in self.parts.touched(range) {
            let PartContent::File(FilePart { path, offset }, care) = what else { continue };
            let Some(file) = self.file(path, *care)? else { continue };
            let start = offset + within;
            act(&*file, start..start + (place.end - place.start), place.start)?;
        }
        Ok(())
    }
}

fn shorter(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} is shorter than it was", path.display()))
}

impl Source for TreeSource {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of_volume(self.len))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = (at + buffer.len() as u64).min(self.len);
        let count = usize::try_from(end.saturating_sub(at)).unwrap_or(0);
        // The end of the last part.
        let mut filled = 0;
        for (place, what, within) in self.parts.touched(at..end) {
            let index = |place: u64| usize::try_from(place - at).unwrap_or(usize::MAX);
            buffer.get_mut(filled..index(place.start)).unwrap_or_default().fill(0);
            filled = index(place.end);
            let target = buffer.get_mut(index(place.start)..filled).unwrap_or_default();
            match what {
                PartContent::Bytes(bytes) => {
                    let from = bytes.get(usize::try_from(within).unwrap_or(usize::MAX)..).unwrap_or_default();
                    target.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
                PartContent::File(FilePart { path, offset }, care) => {
                    self.read_file(path, *care, offset + within, target)?;
                }
            }
        }
        buffer.get_mut(filled..).unwrap_or_default().fill(0);
        Ok(count)
    }

    fn absent(&self, at: u64, len: usize) -> io::Result<Vec<Range<u64>>> {
        let mut absent = Vec::new();
        let page = 4096;
        self.files(at..at + len as u64, |file, range, place| {
            let from = range.start - range.start % page;
            let length = usize::try_from(range.end - from).unwrap_or(0);
            for found in file.absent(from, length)? {
                let (start, end) = (found.start.max(range.start), found.end.min(range.end));
                if start < end {
                    absent.push(place + (start - range.start)..place + (end - range.start));
                }
            }
            Ok(())
        })?;
        Ok(absent)
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        for (place, what, within) in self.parts.touched(at..self.len) {
            let PartContent::File(FilePart { path, offset }, care) = what else {
                return Ok(Some(place.start));
            };
            let Some(file) = self.file(path, *care)? else { continue };
            let (start, end) = (offset + within, offset + within + (place.end - place.start));
            match file.skip_hole(start)? {
                Some(data) if data < end => return Ok(Some(place.start + (data - start))),
                Some(_) => {}
                // After the end of a file there is no data either.
                None if *care == ConcurrentUse::Unchanging && file.stat()?.len < end => {
                    return Err(shorter(path));
                }
                None => {}
            }
        }
        Ok(None)
    }

    fn prefetch(&self, at: u64, len: u64) {
        let advise = |file: &dyn Source, range: Range<u64>, _| {
            file.prefetch(range.start, range.end - range.start);
            Ok(())
        };
        // This is only advice: a file that can't be opened is reported when it is read.
        self.files(at..at + len, advise).ok();
    }

    fn forget(&self, at: u64, len: u64) {
        let advise = |file: &dyn Source, range: Range<u64>, _| {
            file.forget(range.start, range.end - range.start);
            Ok(())
        };
        self.files(at..at + len, advise).ok();
    }
}

impl Read for TreeSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for TreeSource {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.len))?;
        Ok(self.position)
    }
}
