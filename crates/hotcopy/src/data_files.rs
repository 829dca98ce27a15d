//! The files of a server: where they are, what they are, and whether one still is the file that was read.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use block::tree::{ConcurrentUse, Node, Part};
use block::{BLOCK, ChunkSource};
use disk::{Entry, Kind};
use host::Machine;
use innodb::page_check::PageFormat;

use crate::file::{self, Names, When};
use crate::file_places::Places;
use crate::listing::{FileState, ListedFiles};

/// Where a page has the number of its tablespace.
const SPACE_ID: u64 = 34;
/// So much of the first page tells how large pages are.
const FLAGS_BYTES: usize = 1024;

/// The files of a server.
pub(crate) struct DataFiles<'a> {
    pub machine: &'a Machine,
    pub places: Places,
    pub names: Names,
}

impl DataFiles<'_> {
    /// The files and folders that there are now.
    pub(crate) fn list(&mut self) -> io::Result<ListedFiles> {
        self.places.list(self.machine)
    }

    /// Bytes of a page of InnoDB.
    pub(crate) fn page_bytes(&self) -> usize {
        usize::try_from(self.names.page_bytes).unwrap_or(BLOCK)
    }

    /// Reads parts of a volume of `len` bytes.
    pub(crate) fn scan(
        &self,
        len: u64,
        parts: Vec<(Range<u64>, Part<'_>)>,
    ) -> io::Result<Box<dyn ChunkSource>> {
        let concurrent_use = |path: &Path| match self.names.when(path) {
            When::Pages => ConcurrentUse::PageWrites(self.names.page_bytes),
            When::Closed => ConcurrentUse::Removal,
            _ => ConcurrentUse::Unchanging,
        };
        self.machine.scan_parts(len, parts, &|path| (self.places.real(path), concurrent_use(path)))
    }

    /// What is at a path now.
    pub(crate) fn entry(&self, path: &Path) -> io::Result<Entry> {
        self.machine.tree().entry(&self.places.real(path))
    }

    /// The contents of a small file; none if it does not exist.
    pub(crate) fn contents(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self.machine.disk().open(&self.places.real(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.read_to_end(&mut bytes)?,
        };
        Ok(Some(bytes))
    }

    /// The files in some folders that are read while nobody commits.
    pub(crate) fn read_without_commits<'b>(
        &self,
        folders: impl IntoIterator<Item = &'b Path>,
    ) -> io::Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for folder in folders {
            let entries = self.places.entries(self.machine, folder)?;
            let is_read =
                |node: &Node| node.kind == Kind::File && self.names.when(&node.path) == When::NoCommit;
            nodes.extend(entries.into_iter().filter(is_read));
        }
        Ok(nodes)
    }

    /// The number of a file's tablespace; none if the file is gone or empty.
    pub(crate) fn space(&self, path: &Path) -> io::Result<Option<u32>> {
        let mut number = [0; 4];
        let filled = self.read_direct(path, SPACE_ID, &mut number)?;
        Ok((filled == number.len()).then_some(u32::from_be_bytes(number)))
    }

    /// Whether the first page of a tablespace says that its pages are as large as the server's others.
    pub(crate) fn has_usual_pages(&self, path: &Path) -> io::Result<bool> {
        let mut first = [0; FLAGS_BYTES];
        let filled = self.read_direct(path, 0, &mut first)?;
        let format = PageFormat::of_first_page(&first[..filled], self.page_bytes());
        Ok(format.is_ok_and(|format| format.is_known() && format.page_bytes() == self.page_bytes()))
    }

    /// Reads from a file, or nothing if it is gone.
    fn read_direct(&self, path: &Path, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // Around the page cache, as everything that the server writes in this way.
        let file = self.machine.disk().open_direct(&self.places.real(path));
        match file.and_then(|file| file.read_full_at(at, buffer)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            read => read,
        }
    }

    /// Whether the file of this name still is the one that was read.
    pub(crate) fn is_same(&self, path: &Path, then: FileState, now: FileState) -> io::Result<bool> {
        if (then.device, then.inode, then.born_ns) != (now.device, now.inode, now.born_ns) {
            return Ok(false);
        }
        // Whoever makes another file of it writes to it.
        if self.names.when(path) == When::Closed || then.modified_ns == now.modified_ns {
            return Ok(then.modified_ns == now.modified_ns);
        }
        // Without a birth time, a table that was imported meanwhile could have everything else in common.
        Ok(then.born_ns != 0 && then.space != 0 && self.space(path)? == Some(then.space)
            || self.is_system(path))
    }

    /// Whether it is a file of the system tablespace, whose number is 0, or an undo tablespace.
    pub(crate) fn is_system(&self, path: &Path) -> bool {
        !file::is_table(path) && self.names.when(path) == When::Pages
    }
}
