//! What the files of the data folder are, and whether one still is the file that was read.

use std::io::{self, Read};
use std::path::Path;

use disk::Entry;
use innodb::page_check::PageFormat;

use crate::HotFeed;
use crate::file::{self, When};

/// Where a page has the number of its tablespace.
const SPACE_ID: u64 = 34;
/// So much of the first page tells how large pages are.
const FLAGS_BYTES: usize = 1024;

/// A file as it was when its pages were listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Early {
    pub inode: u64,
    pub device: u64,
    /// When it was made: another file may have its inode number now. 0 if that is unknown.
    pub born_ns: i128,
    pub modified_ns: i128,
    /// The number of its tablespace; none in a new file that the server has not written yet.
    pub space: u32,
}

impl Early {
    pub fn of(entry: &Entry) -> Early {
        Early {
            inode: entry.inode,
            device: entry.device,
            born_ns: entry.born_ns,
            modified_ns: entry.attributes.modified_ns,
            space: 0,
        }
    }
}

impl HotFeed<'_> {
    /// The number of a file's tablespace; none if the file is gone or empty.
    pub fn space(&self, path: &Path) -> io::Result<Option<u32>> {
        let mut number = [0; 4];
        let filled = self.read(path, SPACE_ID, &mut number)?;
        Ok((filled == number.len()).then_some(u32::from_be_bytes(number)))
    }

    /// Whether the first page of a tablespace says that its pages are as large as the server's others.
    pub fn is_of_usual_pages(&self, path: &Path) -> io::Result<bool> {
        let mut first = [0; FLAGS_BYTES];
        let filled = self.read(path, 0, &mut first)?;
        let format = PageFormat::of_first_page(&first[..filled], self.page_bytes());
        Ok(format.is_ok_and(|format| format.is_known() && format.page_bytes() == self.page_bytes()))
    }

    /// Reads from a file, or nothing if it is gone.
    fn read(&self, path: &Path, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // Around the page cache, as everything that the server writes in this way.
        let file = self.machine.disk().open_direct(&self.places.real(path));
        match file.and_then(|file| file.read_full_at(at, buffer)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            read => read,
        }
    }

    /// Notes that the copy has this tablespace. `space` is 0 for the system tablespace, and if the first page
    /// was not written yet. What an ALTER TABLE is making may be without its first page, or be deleted,
    /// without harm.
    pub fn note_space(&mut self, space: u32, path: &Path) {
        if file::is_altered(path) {
            return;
        }
        if space != 0 {
            self.spaces.entry(space).or_default().push(path.to_owned());
        } else if !self.is_system(path) {
            self.unwritten.push(path.to_owned());
        }
    }

    /// The contents of a small file; none if it does not exist.
    pub fn contents(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self.machine.disk().open(&self.places.real(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.read_to_end(&mut bytes)?,
        };
        Ok(Some(bytes))
    }

    /// Whether the file of this name still is the one that was read.
    pub fn is_same(&self, path: &Path, then: Early, now: Early, when: When) -> io::Result<bool> {
        if (then.device, then.inode, then.born_ns) != (now.device, now.inode, now.born_ns) {
            return Ok(false);
        }
        // Whoever makes another file of it writes to it.
        if when == When::Closed || then.modified_ns == now.modified_ns {
            return Ok(then.modified_ns == now.modified_ns);
        }
        // Without a birth time, a table that was imported meanwhile could have everything else in common.
        Ok(then.born_ns != 0 && then.space != 0 && self.space(path)? == Some(then.space)
            || self.is_system(path))
    }

    /// Whether it is the system tablespace, whose number is 0.
    fn is_system(&self, path: &Path) -> bool {
        !file::is_table(path) && self.names.when(path) == When::Pages
    }
}
