//! The file of a table: its pages, each checked when it is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, Source, Stat};
use innodb::index_page;
use innodb::page::{PAGE_BYTES, Page, Pages};
use innodb::space::{self, Space};
use innodb::table::CLUSTERED_ROOT;

use crate::Error;
use crate::error::io;

/// Consecutive pages that are read in one call: a mebibyte.
pub(crate) const RUN_PAGES: usize = 64;

/// An open file of a table. Clones share it, each with its own buffer for pages.
pub struct File {
    path: PathBuf,
    source: Arc<dyn Source>,
    space: Space,
    /// Its state when it was opened.
    stat: Stat,
    /// Consecutive pages, and the number of the first.
    run: Vec<u8>,
    first: u32,
}

impl Clone for File {
    fn clone(&self) -> File {
        File {
            path: self.path.clone(),
            source: Arc::clone(&self.source),
            space: self.space,
            stat: self.stat,
            run: Vec::new(),
            first: 0,
        }
    }
}

impl File {
    /// Opens a file and reads its first page.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`].
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<File, Error> {
        let source: Arc<dyn Source> = Arc::from(disk.open(path).map_err(io(path))?);
        let stat = source.stat().map_err(io(path))?;
        let mut first = [0; PAGE_BYTES];
        let count = source.read_full_at(0, &mut first).map_err(io(path))?;
        let space = if count < PAGE_BYTES {
            let what = format!("the file has {count} bytes, less than a page");
            Err(innodb::Error::Corrupt { what, place: "page 0".to_owned() })
        } else {
            Space::parse(&first)
        };
        let space = space.map_err(|source| Error::from(source).of(path))?;
        Ok(File { path: path.to_owned(), source, space, stat, run: Vec::new(), first: 0 })
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The facts on its first page.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stat.len
    }

    /// Whether it has no pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stat.len == 0
    }

    /// The largest AUTO_INCREMENT value that the table has given; 0 if it has given none, or if its file does
    /// not say it. MySQL 8 and later has it elsewhere.
    ///
    /// # Errors
    /// [`Error::File`] for a damaged page, and errors of reading.
    pub fn last_auto_increment_value(&self) -> Result<u64, Error> {
        let mut file = self.clone();
        if space::sdi_root(file.page(0)?).is_some() {
            return Ok(0);
        }
        let page = file.page(CLUSTERED_ROOT).map_err(|error| error.of(&self.path))?;
        Ok(index_page::last_auto_increment_value(page))
    }

    /// Checks that nobody has written to it since it was opened.
    pub(crate) fn is_what_it_was(&self) -> Result<(), Error> {
        let now = self.source.stat().map_err(io(&self.path))?;
        if now == self.stat { Ok(()) } else { Err(Error::Changed(self.path.clone())) }
    }

    /// Reads the first of these pages and those that follow it both in the list and in the file. Returns how
    /// many. A missing page is noticed when it is used.
    pub(crate) fn fetch(&mut self, numbers: &[u32]) -> Result<usize, Error> {
        let Some(&first) = numbers.first() else { return Ok(0) };
        let follows = |(place, &number): (usize, &u32)| u64::from(number) == u64::from(first) + place as u64;
        let count = numbers.iter().take(RUN_PAGES).enumerate().take_while(|&pair| follows(pair)).count();
        self.read(first, count)?;
        Ok(count)
    }

    /// Reads consecutive pages, from `first` on.
    pub(crate) fn read(&mut self, first: u32, count: usize) -> Result<(), Error> {
        self.run.resize(count * PAGE_BYTES, 0);
        self.first = first;
        let at = u64::from(first) * PAGE_BYTES as u64;
        let filled = self.source.read_full_at(at, &mut self.run);
        // After an error nothing that it holds is a page.
        self.run.truncate(*filled.as_ref().unwrap_or(&0));
        filled.map(drop).map_err(io(&self.path))
    }

    /// The bytes of a page that was read, unchecked.
    pub(crate) fn buffered(&self, number: u32) -> Option<&Page> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.run.get(place.checked_mul(PAGE_BYTES)?..)?.first_chunk()
    }
}

impl Pages for File {
    type Error = Error;

    fn count(&self) -> u32 {
        u32::try_from(self.stat.len / PAGE_BYTES as u64).unwrap_or(u32::MAX)
    }

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        if self.buffered(number).is_none() {
            self.read(number, 1)?;
        }
        let Some(page) = self.buffered(number) else {
            let (what, place) = ("the file ends before this page".to_owned(), format!("page {number}"));
            return Err(innodb::Error::Corrupt { what, place }.into());
        };
        self.space.sums.check(page, number)?;
        Ok(page)
    }
}
