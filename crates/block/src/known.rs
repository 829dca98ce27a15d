//! What a repository knows of itself beside its generations: which one was the last, and what of it is
//! damaged.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{Group, Place};
use crate::store::Store;
use crate::{Error, numbers};

/// Names the newest generation and its file, so that it is missed when that file is gone.
const NEWEST: &str = "newest.note";
const NEWEST_MAGIC: [u8; 8] = *b"remonew\n";
/// Lists what the last look at everything has found damaged.
const DAMAGE: &str = "damage.note";
const DAMAGE_MAGIC: [u8; 8] = *b"remodmg\n";
/// In the place of a group's offset: it is the record that is damaged.
const RECORD: u64 = u64::MAX;

/// The newest generation there ever was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) generation: u64,
    /// The number of its file when it was made.
    pub(crate) file: u64,
}

impl Newest {
    pub(crate) fn write(self, store: &dyn Store) -> Result<(), Error> {
        numbers::write(store, NEWEST, &NEWEST_MAGIC, [self.generation, self.file])
    }

    /// What was noted. `None`: nothing was, as by versions that did not.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged.
    pub(crate) fn read(store: &dyn Store) -> Result<Option<Newest>, Error> {
        let Some(numbers) = numbers::read(store, NEWEST, &NEWEST_MAGIC)? else { return Ok(None) };
        match numbers.as_deref() {
            Some([generation, file]) => Ok(Some(Newest { generation: *generation, file: *file })),
            _ => Err(Error::corrupt(
                store.shown(NEWEST),
                "the note of the newest generation is damaged; the next backup writes it anew",
            )),
        }
    }
}

/// Something damaged in a file: where it begins, and the chunk that it is of. Without an offset it is the
/// record itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bad {
    pub(crate) chunk: u64,
    pub(crate) file: u64,
    pub(crate) group: Option<u64>,
}

/// What is known to be damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Damage(BTreeMap<u64, BTreeSet<Bad>>);

impl Damage {
    pub(crate) fn new(all: impl IntoIterator<Item = Bad>) -> Damage {
        let mut damage = Damage::default();
        for bad in all {
            damage.0.entry(bad.chunk).or_default().insert(bad);
        }
        damage
    }

    /// Whether anything of a chunk is.
    pub(crate) fn touches(&self, chunk: u64) -> bool {
        self.0.contains_key(&chunk)
    }

    /// Chunks of which something is damaged, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Whether this is known.
    pub(crate) fn contains(&self, bad: &Bad) -> bool {
        self.0.get(&bad.chunk).is_some_and(|all| all.contains(bad))
    }

    fn has(&self, chunk: u64, group: &Group) -> bool {
        let bad = Bad { chunk, file: group.file, group: Some(group.offset) };
        self.contains(&bad)
    }

    /// Whether a block can't be had from where it lies.
    pub(crate) fn hits(&self, chunk: u64, place: &Place) -> bool {
        self.touches(chunk)
            && (self.has(chunk, &place.group)
                || place.base.as_ref().is_some_and(|(base, _)| self.has(chunk, base)))
    }

    /// Writes it, in place of what was found before.
    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        let all = self.0.values().flatten();
        let numbers = all.flat_map(|bad| [bad.chunk, bad.file, bad.group.unwrap_or(RECORD)]);
        numbers::write(store, DAMAGE, &DAMAGE_MAGIC, numbers)
    }

    /// What was found last. A list that is damaged itself says nothing.
    pub(crate) fn read(store: &dyn Store) -> Result<Damage, Error> {
        let numbers = numbers::read(store, DAMAGE, &DAMAGE_MAGIC)?.flatten().unwrap_or_default();
        let (triples, _) = numbers.as_chunks::<3>();
        let bad = |[chunk, file, offset]: &[u64; 3]| Bad {
            chunk: *chunk,
            file: *file,
            group: (*offset != RECORD).then_some(*offset),
        };
        Ok(Damage::new(triples.iter().map(bad)))
    }
}
