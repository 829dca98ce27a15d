//! What a redo log says of tablespaces, and where their files are in a copy.
//!
//! Facts: `mtr0types.h` and `recv_sys_t::parse` of MariaDB's source.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChangedPages, FILE_CREATE, FILE_DELETE, FILE_RENAME, dictionary, number, record_bytes};

/// The bit of a record's first byte that says that it is about the same page as the one before; without one
/// before it, that it is about a file.
const SAME_PAGE: u8 = 0x80;
/// The bits of a record with its type, and the types for a file and for a page.
const KIND: u8 = 0xF0;
const FILE_MODIFY: u8 = 0xB0;
const INIT_PAGE: u8 = 0x10;
const EXTENDED: u8 = 0x20;
/// The types whose records have a file name.
const NAMES: [u8; 4] = [FILE_CREATE, FILE_DELETE, FILE_RENAME, FILE_MODIFY];
/// What a path begins with in a copy instead of `/`.
const OUTSIDE: &[u8] = b".";

/// What a log says about tablespaces: which it deletes and which it initializes.
#[derive(Clone, Debug, Default)]
pub struct Tablespaces {
    deleted: BTreeSet<u32>,
    /// Those whose first page is written from nothing.
    initialized: BTreeSet<u32>,
    /// The names that the log gives to their files.
    named: BTreeMap<Vec<u8>, BTreeSet<u32>>,
    /// The tables whose rows in the dictionary it changes, each with the LSN at which it did so last.
    redefined: BTreeMap<Vec<u8>, u64>,
    /// The pages that it changes, if that is asked for.
    changed_pages: Option<ChangedPages>,
}

impl Tablespaces {
    /// Also notes which pages the log changes.
    pub(super) fn with_pages() -> Tablespaces {
        Tablespaces { changed_pages: Some(ChangedPages::default()), ..Tablespaces::default() }
    }

    pub(super) fn changed_pages(&self) -> Option<&ChangedPages> {
        self.changed_pages.as_ref()
    }

    /// The numbers of the tablespaces that the log deletes. Recovery does nothing to a tablespace with such a
    /// number: if there is one nevertheless, it was imported after that.
    #[must_use]
    pub fn deleted(&self) -> &BTreeSet<u32> {
        &self.deleted
    }

    /// Whether recovery initializes the first page of this file, such as `./database/table.ibd`. If it does
    /// not, that page must be in the file. The name is the one in the copy.
    #[must_use]
    pub fn initializes(&self, name: &str) -> bool {
        self.named.get(name.as_bytes()).is_some_and(|spaces| !spaces.is_disjoint(&self.initialized))
    }

    /// Whether the log gives this name to a file of this tablespace.
    #[must_use]
    pub fn has_name(&self, name: &str, space: u32) -> bool {
        self.named.get(name.as_bytes()).is_some_and(|spaces| spaces.contains(&space))
    }

    /// Whether the log changes the row in the dictionary of the table of this file, such as
    /// `./database/table.ibd`, after the LSN. `IMPORT TABLESPACE` does, and the log has nothing else of it.
    #[must_use]
    pub fn redefines(&self, name: &str, after: u64) -> bool {
        self.redefined.get(dictionary::table_of(name).as_bytes()).is_some_and(|lsn| *lsn > after)
    }

    /// Takes the records of the mini-transaction at an LSN. Names of files outside of the data folder become
    /// those that they have in a copy. Returns whether there are any.
    pub(super) fn take(&mut self, records: &mut [u8], lsn: u64) -> bool {
        let (mut at, mut has_page, mut changed) = (0, false, false);
        while let Some((first, rest)) = records.get(at..).and_then(<[u8]>::split_first) {
            let (first, Some(len)) = (*first, record_bytes(*first, rest)) else { break };
            // The length takes no more bytes than those in which it is not told by the first one.
            let skipped = if first & 15 > 0 { 0 } else { number(rest).map_or(0, |(_, taken)| taken) };
            let Some(record) = records.get_mut(at..at + len) else { break };
            at += len;
            let is_of_file = first & SAME_PAGE != 0;
            let body = record.get_mut(1 + skipped..).unwrap_or_default();
            // Once a record has named a page, those with this bit are about the same page.
            let is_same_page = is_of_file && has_page;
            if first & KIND & !SAME_PAGE == EXTENDED && (is_same_page || !is_of_file) {
                self.extended(if is_same_page { body } else { behind_page(body) }, lsn);
            }
            if is_same_page {
                continue;
            }
            has_page |= !is_of_file;
            // A checkpoint is a record of this kind, too, and has an LSN.
            if is_of_file && NAMES.contains(&(first & KIND)) {
                changed |= relocate(body);
            }
            if is_of_file || first & KIND == INIT_PAGE {
                self.record(first & KIND, body);
            }
            match &mut self.changed_pages {
                Some(changed_pages) if is_of_file => changed_pages.file(first & KIND, body),
                Some(changed_pages) => changed_pages.page(body),
                None => {}
            }
        }
        changed
    }

    /// Takes a record that begins with the numbers of a tablespace and of a page.
    fn record(&mut self, kind: u8, body: &[u8]) {
        let Some((space, taken)) = number(body) else { return };
        let rest = &body[taken..];
        if kind == FILE_DELETE {
            self.deleted.insert(space);
        }
        let Some((page, taken)) = number(rest) else { return };
        let rest = &rest[taken..];
        match kind {
            INIT_PAGE if page == 0 => {
                self.initialized.insert(space);
            }
            FILE_CREATE | FILE_MODIFY => self.name(rest, space),
            // The old name, a zero byte, the new one.
            FILE_RENAME => rest.split(|byte| *byte == 0).for_each(|name| self.name(name, space)),
            _ => {}
        }
    }

    /// Takes an extended record about a page; `body` is what follows the page number.
    fn extended(&mut self, body: &[u8], lsn: u64) {
        let Some(table) = dictionary::table(body) else { return };
        self.redefined.insert(table.to_vec(), lsn);
        if let Some(changed_pages) = &mut self.changed_pages {
            changed_pages.table(table);
        }
    }

    fn name(&mut self, name: &[u8], space: u32) {
        self.named.entry(name.to_vec()).or_default().insert(space);
    }
}

/// What follows the numbers of a tablespace and of a page.
fn behind_page(body: &[u8]) -> &[u8] {
    let rest = number(body).and_then(|(_, space)| body.get(space..)).unwrap_or_default();
    number(rest).and_then(|(_, page)| rest.get(page..)).unwrap_or_default()
}

/// The path in a copy, relative to the data folder, of a file that is outside of that folder. It is as long
/// as the absolute path: another length would move everything that follows in the log. No database has a
/// folder whose name begins with a dot.
///
/// None for a path that is not absolute, or has parts without a meaning.
#[must_use]
pub fn path_in_copy(absolute: &[u8]) -> Option<Vec<u8>> {
    let rest = absolute.strip_prefix(b"/")?;
    let is_plain = |part: &[u8]| !part.is_empty() && part != b"." && part != b"..";
    rest.split(|byte| *byte == b'/').all(is_plain).then(|| [OUTSIDE, rest].concat())
}

/// Changes the absolute names in a record about a file, which begins with the numbers of a tablespace and of
/// a page. Returns whether there were any.
fn relocate(body: &mut [u8]) -> bool {
    let taken = number(body).and_then(|(_, space)| Some(space + number(body.get(space..)?)?.1));
    let mut changed = false;
    // A file that is renamed has two names.
    for name in body.get_mut(taken.unwrap_or(usize::MAX)..).unwrap_or_default().split_mut(|byte| *byte == 0) {
        if let Some(first) = name.first_mut().filter(|first| **first == b'/') {
            (*first, changed) = (OUTSIDE[0], true);
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::{Tablespaces, path_in_copy};

    /// A record with these bytes after its first one and its length.
    fn record(kind: u8, body: &[u8]) -> Vec<u8> {
        let len = u8::try_from(body.len()).unwrap_or(u8::MAX);
        match len {
            0..16 => [&[kind | len], body].concat(),
            // What follows the first 16 bytes.
            _ => [&[kind, len + 2 - 16], body].concat(),
        }
    }

    /// A record about a file, with bytes after its numbers.
    fn file(kind: u8, space: &[u8], name: &[u8]) -> Vec<u8> {
        record(kind, &[space, &[0], name].concat())
    }

    fn taken(records: &[Vec<u8>]) -> Tablespaces {
        let mut spaces = Tablespaces::default();
        spaces.take(&mut records.concat(), 0);
        spaces
    }

    fn deleted(records: &[Vec<u8>]) -> Vec<u32> {
        taken(records).deleted().iter().copied().collect()
    }

    #[test]
    fn tablespaces_that_are_deleted_are_known() {
        let long = b"./database/table_with_a_long_name.ibd".as_slice();
        for (bytes, space) in [
            (&[7][..], 7),
            (&[0x7F], 127),
            (&[0x80, 0], 128),
            (&[0xBF, 0xFF], 0x407F),
            (&[0xC0, 0, 0], 0x4080),
            (&[0xE0, 0, 0, 0], 0x0020_4080),
            (&[0xF0, 0, 0, 0, 1], 0x1020_4081),
        ] {
            for name in [b"a".as_slice(), long] {
                assert_eq!(deleted(&[file(0x90, bytes, name)]), [space], "{bytes:?}");
                // The same about a file that is created, renamed or named.
                for kind in [0x80, 0xA0, 0xB0, 0xF0] {
                    let other = deleted(&[file(kind, bytes, name)]);
                    assert!(other.is_empty(), "{kind:x}");
                    assert_eq!(deleted(&[file(kind, bytes, name), file(0x90, &[9], name)]), [9]);
                }
            }
        }
        // After a record about a page, the bit means another record about that page.
        let page = record(0x30, &[7, 1, 2]);
        assert_eq!(deleted(&[page, file(0x90, &[9], b"a")]), Vec::<u32>::new());
        // Numbers that are cut, or too large.
        assert_eq!(deleted(&[vec![0x92, 0xC0, 0]]), Vec::<u32>::new());
        assert_eq!(deleted(&[vec![0x95, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]]), Vec::<u32>::new());
    }

    #[test]
    fn a_file_begins_if_the_first_page_of_its_tablespace_does() {
        let page = |kind: u8, space: u8, page: u8| record(kind, &[space, page]);
        let name = "./app/a_table_with_a_name.ibd";
        let named = |kind: u8| file(kind, &[7], name.as_bytes());
        let initializes = |records: &[Vec<u8>]| taken(records).initializes(name);
        assert!(initializes(&[named(0x80), page(0x10, 7, 0)]));
        assert!(initializes(&[named(0xB0), page(0x10, 7, 0)]));
        assert!(initializes(&[named(0x80), page(0x30, 7, 3), page(0x10, 7, 0)]), "another page comes first");
        assert!(!initializes(&[named(0x80), page(0x10, 7, 3)]), "another page");
        assert!(!initializes(&[named(0x80), page(0x10, 8, 0)]), "another tablespace");
        assert!(!initializes(&[named(0xB0), page(0x30, 7, 0)]), "a change of the page");
        assert!(!initializes(&[page(0x10, 7, 0), named(0x80)]), "this is about the page");
        assert!(!initializes(&[named(0x90), page(0x10, 7, 0)]), "deleted");
        let renamed = file(0xA0, &[7], b"./app/old.ibd\0./app/new.ibd");
        let spaces = taken(&[renamed, page(0x10, 7, 0)]);
        assert!(spaces.has_name("./app/old.ibd", 7) && spaces.has_name("./app/new.ibd", 7));
        assert!(!spaces.has_name("./app/old.ibd", 8) && !spaces.has_name("./app/other.ibd", 7));
        assert!(spaces.initializes("./app/old.ibd") && spaces.initializes("./app/new.ibd"));
        assert!(!spaces.initializes("./app/other.ibd"));
    }

    #[test]
    fn a_table_whose_row_in_the_dictionary_changes_is_known() {
        let undo = b"\x03\x0C\0\x01\0\0\0\0\0\x23\0\0\0\0\0\x06app/t3";
        let at = |records: &[Vec<u8>]| {
            let mut spaces = Tablespaces::with_pages();
            spaces.take(&mut records.concat(), 50);
            spaces
        };
        let of_page = |body: &[u8]| record(0x20, &[&[0xC0, 0, 0, 0x81, 7], body].concat());
        // The same page as the record before.
        for records in [&[of_page(undo)][..], &[record(0x30, &[7, 1, 2]), record(0xA0, undo)]] {
            let spaces = at(records);
            for name in ["./app/t3.ibd", ".x/y/app/t3.ibd"] {
                assert!(spaces.redefines(name, 49) && !spaces.redefines(name, 50), "{name}");
                assert!(spaces.changed_pages().unwrap().pages(9, name).is_none(), "{name}");
            }
            for name in ["./app/t33.ibd", "./ap/t3.ibd", "ibdata1"] {
                assert!(!spaces.redefines(name, 49), "{name}");
                assert!(spaces.changed_pages().unwrap().pages(9, name).is_some(), "{name}");
            }
        }
        let other = [record(0x30, &[&[7, 1][..], undo].concat()), record(0xB0, undo)];
        assert!(!at(&other).redefines("./app/t3.ibd", 0), "no extended record");
        assert!(!at(&[record(0xA0, undo)]).redefines("./app/t3.ibd", 0), "it is about a file");
    }

    #[test]
    fn changed_pages_are_known_unless_their_file_is_made_anew() {
        let changed = |records: &[Vec<u8>], space: u32, name: &str| {
            let mut spaces = Tablespaces::with_pages();
            spaces.take(&mut records.concat(), 50);
            let pages = spaces.changed_pages().unwrap().pages(space, name);
            pages.map(Iterator::collect::<Vec<u32>>)
        };
        let page = |space: u8, page: &[u8]| record(0x30, &[&[space], page, &[1, 2]].concat());
        // 0, 63, 64, 4095, 4096, 4160, the second time one that is there already.
        let numbers: [&[u8]; 7] = [&[0], &[63], &[64], &[0x8F, 0x7F], &[0x8F, 0x80], &[0x8F, 0xC0], &[63]];
        let mut records: Vec<Vec<u8>> = numbers.iter().map(|number| page(7, number)).collect();
        records.push(page(8, &[5]));
        let (name, all) = ("./app/t.ibd", Some(vec![0, 63, 64, 4095, 4096, 4160]));
        assert_eq!(changed(&records, 7, name), all);
        assert_eq!([8, 9].map(|space| changed(&records, space, name)), [Some(vec![5]), Some(Vec::new())]);
        for (kind, is_known) in [(0x80, false), (0x90, false), (0xA0, false), (0xB0, true)] {
            // After a record about a page, one about a file would be about that page.
            let about_file = file(kind, &[7], name.as_bytes());
            let records = [&[about_file][..], &records].concat();
            assert_eq!(changed(&records, 7, name).is_some(), is_known, "{kind:x}: its number and its name");
            assert_eq!(changed(&records, 7, "./app/u.ibd").is_some(), is_known, "{kind:x}: its number");
            assert_eq!(changed(&records, 9, name).is_some(), is_known, "{kind:x}: its name");
            assert_eq!(changed(&records, 8, "./app/u.ibd"), Some(vec![5]), "{kind:x}: another one");
        }
        let renamed = file(0xA0, &[7], b"./app/t.ibd\0./app/u.ibd");
        let names = ["./app/t.ibd", "./app/u.ibd", "./app/v.ibd"];
        let known = names.map(|name| changed(std::slice::from_ref(&renamed), 9, name).is_some());
        assert_eq!(known, [false, false, true]);
    }

    #[test]
    fn files_outside_have_a_name_in_the_folder() {
        let long = "/some/other disk/app/a_table.ibd";
        let brought = |records: &[Vec<u8>]| {
            let (before, mut spaces) = (records.concat(), Tablespaces::default());
            let mut after = before.clone();
            assert_eq!(spaces.take(&mut after, 0), after != before);
            (String::from_utf8_lossy(&after).into_owned(), spaces)
        };
        for kind in [0x80, 0x90, 0xA0, 0xB0] {
            let (after, _) = brought(&[file(kind, &[0xC0, 0, 0], long.as_bytes())]);
            assert!(after.ends_with(".some/other disk/app/a_table.ibd"), "{kind:x} {after}");
        }
        let (after, spaces) = brought(&[
            file(0xA0, &[7], b"/x/app/old.ibd\0/x/app/new.ibd"),
            file(0xB0, &[8], b"/x/t.ibd"),
            record(0x10, &[7, 0]),
        ]);
        assert!(after.contains(".x/app/old.ibd\0.x/app/new.ibd") && after.contains(".x/t.ibd"), "{after}");
        assert!(spaces.initializes(".x/app/new.ibd") && !spaces.initializes(".x/t.ibd"));
        // What is in the folder stays as it is, and so do pages.
        for same in [
            file(0xB0, &[7], b"./app/a/.ibd"),
            file(0xB0, &[0x80, b'/'], b"./t.ibd"),
            record(0x30, b"\x07\x01/x/y"),
            record(0xF0, b"\0\0\0/LSN/\0/"),
        ] {
            let (after, _) = brought(std::slice::from_ref(&same));
            assert_eq!(after, String::from_utf8_lossy(&same), "as it was");
        }
        let page = record(0x30, &[7, 1, 2]);
        assert!(brought(&[page, file(0xB0, &[7], b"/x/t.ibd")]).0.contains("/x/t.ibd"), "it is about a page");
        assert_eq!(path_in_copy(b"/x/t.ibd").unwrap(), b".x/t.ibd");
        for wrong in ["x/t.ibd", "./t.ibd", "//x/t.ibd", "/x//t.ibd", "/x/../t.ibd", "/./t.ibd", "/x/", ""] {
            assert_eq!(path_in_copy(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
