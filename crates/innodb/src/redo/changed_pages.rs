//! Which pages a redo log changes.
//!
//! Facts: `mtr0types.h` and `recv_sys_t::parse` of MariaDB's source.

use std::collections::{BTreeMap, BTreeSet};

use super::dictionary::table_of;
use super::{FILE_CREATE, FILE_DELETE, FILE_RENAME, number};

/// Words of the bitmap of a run of pages.
const WORDS: usize = 64;
/// The pages of a run.
const RUN: u32 = 4096;

/// The pages that a log changes, and the tablespaces that it makes, deletes or renames.
#[derive(Clone, Debug, Default)]
pub struct ChangedPages {
    /// By the tablespace and the number of the run.
    runs: BTreeMap<(u32, u32), Box<[u64; WORDS]>>,
    /// The tablespaces that are created, deleted or renamed, and all names of their files.
    remade: BTreeSet<u32>,
    names: BTreeSet<Vec<u8>>,
    /// The tables whose rows in the dictionary change.
    tables: BTreeSet<Vec<u8>>,
}

impl ChangedPages {
    /// The pages of a tablespace that the log changes, in order. None if that is not known for the file with
    /// this name, such as `./database/table.ibd`, because the log creates, deletes or renames a file with its
    /// name or id, or changes the dictionary entry of its table. The name is the one in a copy.
    #[must_use]
    pub fn pages(&self, space: u32, name: &str) -> Option<impl Iterator<Item = u32>> {
        let is_known = !self.remade.contains(&space)
            && !self.names.contains(name.as_bytes())
            && !self.tables.contains(table_of(name).as_bytes());
        is_known.then(|| {
            self.runs.range((space, 0)..=(space, u32::MAX)).flat_map(|((_, run), bits)| of_run(*run, bits))
        })
    }

    /// Takes a record about a page, from the numbers of its tablespace and of the page on.
    pub(super) fn page(&mut self, body: &[u8]) {
        let Some((space, taken)) = number(body) else { return };
        let Some((page, _)) = number(&body[taken..]) else { return };
        let bits = self.runs.entry((space, page / RUN)).or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = place(page);
        if let Some(word) = bits.get_mut(word) {
            *word |= bit;
        }
    }

    /// Takes a table whose row in the dictionary changes: IMPORT does that, and the log has nothing else of
    /// it.
    pub(super) fn table(&mut self, table: &[u8]) {
        self.tables.insert(table.to_vec());
    }

    /// Takes a record about a file, from the numbers of its tablespace and of a page on.
    pub(super) fn file(&mut self, kind: u8, body: &[u8]) {
        if ![FILE_CREATE, FILE_DELETE, FILE_RENAME].contains(&kind) {
            return;
        }
        let Some((space, taken)) = number(body) else { return };
        let Some((_, page)) = number(&body[taken..]) else { return };
        self.remade.insert(space);
        // A file that is renamed has two names.
        self.names.extend(body[taken..][page..].split(|byte| *byte == 0).map(<[u8]>::to_vec));
    }
}

/// The pages of a run that have their bits.
fn of_run(run: u32, bits: &[u64; WORDS]) -> impl Iterator<Item = u32> {
    let is_set = |page: &u32| {
        let (word, bit) = place(*page);
        bits.get(word).is_some_and(|word| word & bit != 0)
    };
    (0..RUN).map(move |page| run * RUN + page).filter(is_set)
}

/// The word of a page in its run, and its bit there.
fn place(page: u32) -> (usize, u64) {
    ((page % RUN / u64::BITS) as usize, 1 << (page % u64::BITS))
}
