//! Recovers deleted rows that are still in the pages of a table's file.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::sync::atomic::Ordering;

use innodb::index_page::IndexPage;
use innodb::leaf::{self, Row};
use innodb::page::{self, Kind, Page, Pages as _};
use innodb::space::{EXTENT_PAGES, Extents};
use innodb::tree::Scratch;

use crate::row_reader::{OpenTable, RowWriter};
use crate::row_text::Values;
use crate::{Counts, Error, File, RowReader};

/// Where the remains of a deleted row were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remainder {
    /// It is marked as deleted and not purged yet.
    Marked,
    /// It is in the list of free records of a page in use: it was purged, or moved to another page.
    Freed,
    /// It is in a free page.
    Page,
}

impl Remainder {
    fn word(self) -> &'static [u8] {
        match self {
            Remainder::Marked => b"marked",
            Remainder::Freed => b"freed",
            Remainder::Page => b"page",
        }
    }
}

impl RowReader<'_> {
    /// Writes the remains of deleted rows: how and on which page each was found, then its values. A remainder
    /// whose values all equal those of an existing row is left out, because splits and merges of pages leave
    /// such copies. Invalid pages and rows are skipped: in a free page nothing is guaranteed to be valid.
    ///
    /// # Errors
    /// Those of [`RowReader::write`].
    pub fn write_deleted(&self, file: &File, out: &mut dyn Write) -> Result<Counts, Error> {
        self.scan(file, out).map_err(|error| error.of(file.path()))
    }

    fn scan(&self, file: &File, out: &mut dyn Write) -> Result<Counts, Error> {
        let opened = OpenTable::new(self.table, file)?;
        let mut remains = BTreeSet::new();
        let mut copies = BTreeSet::new();
        let mut line = Vec::new();
        let mut writer = RowWriter::new(&opened, self.format);
        let mut text = |row: &Row<'_>, line: &mut Vec<u8>| {
            line.clear();
            writer.row(row, line).is_ok()
        };
        self.each(&opened, &mut |found, _, row| {
            if matches!(found, Some(Remainder::Freed | Remainder::Page)) && text(row, &mut line) {
                remains.insert(hash(&line));
            }
            Ok(())
        })?;
        if !remains.is_empty() {
            self.each(&opened, &mut |found, _, row| {
                if found.is_none() && text(row, &mut line) && remains.contains(&hash(&line)) {
                    copies.insert(hash(&line));
                }
                Ok(())
            })?;
        }
        let between = Values::new(self.format).between();
        let mut counts = Counts::default();
        self.each(&opened, &mut |found, number, row| {
            let Some(found) = found.filter(|_| text(row, &mut line)) else { return Ok(()) };
            if found != Remainder::Marked && copies.contains(&hash(&line)) {
                return Ok(());
            }
            let number = number.to_string();
            for part in [found.word(), &[between], number.as_bytes(), &[between], &line] {
                out.write_all(part).map_err(Error::Output)?;
                counts.bytes += part.len() as u64;
            }
            counts.rows += 1;
            Ok(())
        })?;
        self.progress.read(file.len());
        Ok(counts)
    }

    /// Goes through all leaves in the file, including free ones, in the order of pages. Existing rows are
    /// passed on with `None`.
    fn each(&self, opened: &OpenTable<'_>, give: &mut Visitor<'_>) -> Result<(), Error> {
        let mut pages = opened.file.clone();
        let extents = Extents::read(&opened.file.space().clone(), &mut pages)?;
        let mut scratch = Scratch::default();
        let limit = pages.space().free_limit.min(pages.count());
        for first in (0..limit).step_by(EXTENT_PAGES as usize) {
            let count = EXTENT_PAGES.min(limit - first);
            pages.read(first, count as usize)?;
            for number in first..first + count {
                let Some(bytes) = pages.buffered(number) else { break };
                let Some(page) = leaf_of(opened, bytes, number) else { continue };
                let is_free = extents.is_free(number);
                let mut failed = Ok(());
                let read = leaf::rows(&page, &opened.layout, &mut scratch, |row| {
                    let found = match row.deleted {
                        _ if is_free => Some(Remainder::Page),
                        true => Some(Remainder::Marked),
                        false => None,
                    };
                    give(found, number, row)
                });
                if !is_free {
                    leaf::freed(&page, &opened.layout, &mut scratch, |row| {
                        if failed.is_ok() {
                            failed = give(Some(Remainder::Freed), number, row);
                        }
                    });
                }
                // Invalid rows are skipped; failures of writing are not.
                failed?;
                read.or_else(|error| if error.is_damage() { Ok(()) } else { Err(error) })?;
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
        }
        Ok(())
    }
}

/// Receives a row, with how and on which page it was found.
type Visitor<'a> = dyn FnMut(Option<Remainder>, u32, &Row<'_>) -> Result<(), Error> + 'a;

fn hash(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(line);
    hasher.finish()
}

/// A page that is, or was, a leaf of the table's tree.
fn leaf_of<'a>(opened: &OpenTable<'_>, bytes: &'a Page, number: u32) -> Option<IndexPage<'a>> {
    if ![Kind::INDEX, Kind::INSTANT].contains(&page::kind(bytes)) {
        return None;
    }
    opened.file.space().sums.check(bytes, number).ok()?;
    let page = IndexPage::parse(bytes, number).ok()?;
    (page.level == 0 && page.index_id == opened.tree.index_id).then_some(page)
}
