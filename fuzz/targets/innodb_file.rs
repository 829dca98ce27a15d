//! Any bytes as a file of pages are rows or an error: no panic, no end of memory. Pages come without their
//! checksums proven, as no forged one has the right one: either the bytes themselves, or a real file in which
//! some bytes are changed.
#![no_main]

use std::io::Read;
use std::sync::OnceLock;

use innodb::index_page::IndexPage;
use innodb::off_page::Reference;
use innodb::page::{self, PAGE_BYTES, Page, Pages};
use innodb::record::FieldValue;
use innodb::space::{self, ExtentState, Extents, Space};
use innodb::table::dictionary::Definition;
use innodb::table::{Table, Version, sql};
use innodb::tree::{Scratch, Tree};
use innodb::{Error, instant, leaf, redo, sdi, transaction, value};
use libfuzzer_sys::fuzz_target;

/// Real files, and their tables.
const FILES: [(&[u8], &str); 2] = [
    (
        include_bytes!("../../crates/innodb/tests/pages/moved.ibd.gz"),
        "CREATE TABLE moved (f INT, k VARCHAR(30) NOT NULL, b INT, c INT NOT NULL, e VARCHAR(300), PRIMARY KEY (k)) \
         ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    ),
    (
        include_bytes!("../../crates/innodb/tests/pages/away.ibd.gz"),
        "CREATE TABLE away (id INT NOT NULL, a LONGTEXT, PRIMARY KEY (id)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
    ),
];

struct Memory(Vec<u8>);

impl Pages for Memory {
    type Error = Error;

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        let at = number as usize * PAGE_BYTES;
        let page = self.0.get(at..).and_then(|rest| rest.first_chunk());
        page.ok_or_else(|| Error::Unsupported("no such page".to_owned()))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.len() / PAGE_BYTES).expect("a file of a few pages")
    }
}

fn files() -> &'static [(Vec<u8>, Table)] {
    static FILES_UNPACKED: OnceLock<Vec<(Vec<u8>, Table)>> = OnceLock::new();
    FILES_UNPACKED.get_or_init(|| {
        let unpack = |(packed, statement): (&[u8], &str)| {
            (unpacked(packed), sql::parse(statement, Version(110_806)).expect("a real table"))
        };
        FILES.into_iter().map(unpack).collect()
    })
}

/// Files of MySQL, with their definitions.
const OWN: [&[u8]; 2] = [
    include_bytes!("../../crates/innodb/tests/pages/mysql_versions.ibd.gz"),
    include_bytes!("../../crates/innodb/tests/pages/mysql_parts.ibd.gz"),
];

fn own_files() -> &'static [Vec<u8>] {
    static OWN_UNPACKED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    OWN_UNPACKED.get_or_init(|| OWN.into_iter().map(unpacked).collect())
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("a real file");
    bytes
}

/// Rows by the definitions in the file.
fn read_own(pages: &mut Memory) -> Result<(), Error> {
    let space = Space::parse(pages.page(0)?)?;
    for text in sdi::tables(&space, pages)?.unwrap_or_default() {
        let own = Definition::parse(&text)?;
        own.create_table().ok();
        read(&own.table()?, pages)?;
    }
    Ok(())
}

fn read(table: &Table, pages: &mut Memory) -> Result<(), Error> {
    let id = page::space_id(pages.page(0)?);
    let root = table.root(id)?;
    let layout = instant::layout(table, root, id, pages)?;
    let tree = Tree::read(root, &layout, pages)?;
    let mut leaves = vec![tree.root];
    for parent in 0..tree.parents.len() {
        leaves.extend(tree.leaves(parent, &layout, pages)?);
    }
    let mut scratch = Scratch::default();
    for number in leaves {
        let bytes = *pages.page(number)?;
        let Ok(page) = IndexPage::parse(&bytes, number) else { continue };
        let (mut text, mut long) = (Vec::new(), Vec::new());
        let mut row = |row: &leaf::Row<'_>| {
            for (place, field) in layout.fields().iter().enumerate() {
                let Some(column) = field.column.map(|at| &table.columns()[at]) else { continue };
                text.clear();
                match row.stored(place) {
                    FieldValue::Null => {}
                    FieldValue::Whole(stored) => drop(value::decode(column, stored, &mut text)),
                    FieldValue::External(_, reference) => {
                        long.clear();
                        drop(Reference::parse(reference).read(id, pages, &mut long));
                    }
                }
            }
        };
        leaf::freed(&page, &layout, &mut scratch, &mut row);
        leaf::rows(&page, &layout, &mut scratch, |found| {
            row(found);
            Ok::<(), Error>(())
        })
        .ok();
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    let (file, table) = &files()[usize::from(kind & 1)];
    let is_own = kind & 4 != 0;
    let mut bytes = if is_own { own_files()[usize::from(kind & 1)].clone() } else { file.clone() };
    if kind & 2 == 0 {
        // Four bytes say which page, where in it, and what is to be there.
        for change in data.chunks_exact(4) {
            let pages = bytes.len() / PAGE_BYTES;
            let place = usize::from(change[0]) % pages * PAGE_BYTES;
            let at = usize::from(u16::from_be_bytes([change[1], change[2]])) % PAGE_BYTES;
            bytes[place + at] = change[3];
        }
    } else {
        bytes = data.to_vec();
        bytes.resize(data.len().next_multiple_of(PAGE_BYTES).max(4 * PAGE_BYTES), 0);
    }
    let mut pages = Memory(bytes);
    let first = *pages.page(0).expect("there is one");
    let space = Space::parse(&first).or_else(|_| Space::parse(file.first_chunk().expect("a real file")));
    if let Ok(space) = space {
        if let Ok(extents) = Extents::read(&space, &mut pages) {
            let is_free = |extent: &space::Extent| extent.state == ExtentState::Free;
            std::hint::black_box(extents.all().iter().filter(|extent| is_free(extent)).count());
            assert!(extents.is_free(u32::MAX));
        }
        space::segments(&space, &mut pages).ok();
    }
    read(table, &mut pages).ok();
    read_own(&mut pages).ok();
    if let Ok(log) = redo::blocks::LogFile::parse(&pages.0, pages.0.len() as u64) {
        redo::blocks::is_at_end(log.checkpoint.unwrap_or(log.first), &pages.0).ok();
    }
    transaction::own_rollback_segments(&first).ok();
    if let Ok(log) = redo::Log::parse(&pages.0, pages.0.len() as u64) {
        std::hint::black_box(log.is_at_end(&pages.0));
    }
    transaction::rollback_segments(&first).ok();
    transaction::state(&first, 0).ok();
    std::hint::black_box(transaction::undo_logs(&first));
});
