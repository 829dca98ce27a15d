//! Rows that were deleted and are still in the pages of a table's file.

use std::io::Write;
use std::sync::atomic::Ordering;

use innodb::index::IndexPage;
use innodb::leaf::{self, Row};
use innodb::page::{self, Kind, PAGE_BYTES, Page, Pages as _};
use innodb::space::{EXTENT_PAGES, Extents};
use innodb::tree::Scratch;

use crate::read::{Opened, Writer};
use crate::{Counts, Error, File, Rows};

/// How a row was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It is marked as deleted and not purged yet.
    Marked,
    /// It is on the list of free records of a page in use: purged, or moved to another page.
    Freed,
    /// It is in a page that is free.
    Page,
}

impl Found {
    fn word(self) -> &'static [u8] {
        match self {
            Found::Marked => b"marked",
            Found::Freed => b"freed",
            Found::Page => b"page",
        }
    }
}

impl Rows<'_> {
    /// Writes what is left of deleted rows: how each was found and on which page, then its values. Those that
    /// were found other than by their mark may be earlier copies of rows that are there. Pages and rows that
    /// make no sense are passed over: where a page is free nothing promises that any does.
    ///
    /// # Errors
    /// As those of [`Rows::write`].
    pub fn write_deleted(&self, file: &File, out: &mut dyn Write) -> Result<Counts, Error> {
        self.scan(file, out).map_err(|error| error.of(file.path()))
    }

    fn scan(&self, file: &File, out: &mut dyn Write) -> Result<Counts, Error> {
        let opened = Opened::new(self.table, file)?;
        let mut pages = file.clone();
        let extents = Extents::read(file.space(), &mut pages)?;
        let mut writer = Writer::new(&opened, self.format);
        let mut scratch = Scratch::default();
        let mut counts = Counts::default();
        let mut text = Vec::new();
        let limit = file.space().free_limit.min(file.count());
        for first in (0..limit).step_by(EXTENT_PAGES as usize) {
            let count = EXTENT_PAGES.min(limit - first);
            pages.read(first, count as usize)?;
            for number in first..first + count {
                let Some(bytes) = pages.held(number) else { break };
                let is_free = extents.is_free(number);
                let Some(page) = leaf_of(&opened, bytes, number) else { continue };
                let mut emit = |found, row: &Row<'_>| {
                    counts.rows += u64::from(line(&mut writer, found, number, row, &mut text));
                };
                if is_free {
                    leaf::rows(&page, &opened.layout, &mut scratch, |row| {
                        emit(Found::Page, row);
                        Ok::<(), Error>(())
                    })
                    .ok();
                } else {
                    leaf::rows(&page, &opened.layout, &mut scratch, |row| {
                        if row.deleted {
                            emit(Found::Marked, row);
                        }
                        Ok::<(), Error>(())
                    })
                    .ok();
                    leaf::freed(&page, &opened.layout, &mut scratch, |row| emit(Found::Freed, row));
                }
            }
            counts.bytes += text.len() as u64;
            out.write_all(&text).map_err(Error::Output)?;
            text.clear();
            self.progress.read(u64::from(count) * PAGE_BYTES as u64);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
        }
        Ok(counts)
    }
}

/// A page that is, or was, a leaf of the table's tree.
fn leaf_of<'a>(opened: &Opened<'_>, bytes: &'a Page, number: u32) -> Option<IndexPage<'a>> {
    if ![Kind::INDEX, Kind::INSTANT].contains(&page::kind(bytes)) {
        return None;
    }
    opened.file.space().sums.check(bytes, number).ok()?;
    let page = IndexPage::parse(bytes, number).ok()?;
    (page.level == 0 && page.index_id == opened.tree.index_id).then_some(page)
}

/// Appends a row, with how and where it was found. One that can't be decoded leaves nothing.
fn line(writer: &mut Writer<'_>, found: Found, page: u32, row: &Row<'_>, out: &mut Vec<u8>) -> bool {
    let from = out.len();
    let between = writer.between();
    out.extend_from_slice(found.word());
    out.push(between);
    out.extend_from_slice(page.to_string().as_bytes());
    out.push(between);
    let is_whole = writer.row(row, out).is_ok();
    if !is_whole {
        out.truncate(from);
    }
    is_whole
}
