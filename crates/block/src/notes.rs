//! What a repository records besides its generations: the newest one, known damage, and test boots.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{BlockLocation, Group, NUMBER_MAX};
use crate::store::Store;
use crate::{Error, number_file};

/// Names the newest generation and its file, so that its absence is noticed.
pub(crate) const NEWEST: &str = "newest.note";
const NEWEST_MAGIC: [u8; 8] = *b"remonew\n";
/// Lists the damage that the last verification has found.
const DAMAGE: &str = "damage.note";
const DAMAGE_MAGIC: [u8; 8] = *b"remodmg\n";
/// Lists the generations on which a server was started.
const BOOTED: &str = "booted.note";
const BOOTED_MAGIC: [u8; 8] = *b"remoboo\n";
/// Replaces a group's offset when the record itself is damaged.
const RECORD: u64 = u64::MAX;

/// The newest generation that ever existed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewestNote {
    pub(crate) generation: u64,
    /// The number of its file when it was made.
    pub(crate) file: u64,
}

impl NewestNote {
    pub(crate) fn write(self, store: &dyn Store) -> Result<(), Error> {
        number_file::write(store, NEWEST, &NEWEST_MAGIC, [self.generation, self.file])
    }

    /// Reads the note. `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged.
    pub(crate) fn read(store: &dyn Store) -> Result<Option<NewestNote>, Error> {
        let Some(numbers) = number_file::read(store, NEWEST, &NEWEST_MAGIC)? else { return Ok(None) };
        match numbers.as_deref() {
            Some([generation, file]) if *generation.max(file) <= NUMBER_MAX => {
                Ok(Some(NewestNote { generation: *generation, file: *file }))
            }
            _ => Err(Error::corrupt(
                store.shown(NEWEST),
                "the note of the newest generation is damaged; the next backup rewrites it",
            )),
        }
    }
}

/// Damage in a file: the chunk, and the offset of the group. Without an offset the record itself is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DamageEntry {
    pub(crate) chunk: u64,
    pub(crate) file: u64,
    pub(crate) group: Option<u64>,
}

/// The known damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownDamage(BTreeMap<u64, BTreeSet<DamageEntry>>);

impl KnownDamage {
    pub(crate) fn new(all: impl IntoIterator<Item = DamageEntry>) -> KnownDamage {
        let mut damage = KnownDamage::default();
        for bad in all {
            damage.0.entry(bad.chunk).or_default().insert(bad);
        }
        damage
    }

    /// Whether anything of a chunk is damaged.
    pub(crate) fn touches(&self, chunk: u64) -> bool {
        self.0.contains_key(&chunk)
    }

    /// Chunks with damage, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// The numbers of the files with damage.
    pub(crate) fn files(&self) -> BTreeSet<u64> {
        self.0.values().flatten().map(|bad| bad.file).collect()
    }

    /// Whether this damage is known.
    pub(crate) fn contains(&self, bad: &DamageEntry) -> bool {
        self.0.get(&bad.chunk).is_some_and(|all| all.contains(bad))
    }

    fn has(&self, chunk: u64, group: &Group) -> bool {
        let bad = DamageEntry { chunk, file: group.file, group: Some(group.offset) };
        self.contains(&bad)
    }

    /// Whether a block can't be read from its location.
    pub(crate) fn hits(&self, chunk: u64, place: &BlockLocation) -> bool {
        self.touches(chunk)
            && (self.has(chunk, &place.group)
                || place.base.as_ref().is_some_and(|(base, _)| self.has(chunk, base)))
    }

    /// Writes the list, replacing the former one.
    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        let all = self.0.values().flatten();
        let numbers = all.flat_map(|bad| [bad.chunk, bad.file, bad.group.unwrap_or(RECORD)]);
        number_file::write(store, DAMAGE, &DAMAGE_MAGIC, numbers)
    }

    /// The list of the last verification. A damaged list counts as empty.
    pub(crate) fn read(store: &dyn Store) -> Result<KnownDamage, Error> {
        let numbers = number_file::read(store, DAMAGE, &DAMAGE_MAGIC)?.flatten().unwrap_or_default();
        let (triples, _) = numbers.as_chunks::<3>();
        let bad = |[chunk, file, offset]: &[u64; 3]| DamageEntry {
            chunk: *chunk,
            file: *file,
            group: (*offset != RECORD).then_some(*offset),
        };
        Ok(KnownDamage::new(triples.iter().map(bad)))
    }

    /// When the list was written, in seconds since 1970; `None` if the store does not know.
    pub(crate) fn written_s(store: &dyn Store) -> Option<i64> {
        let modified_ns = store.open(DAMAGE).ok()?.stat().ok()?.modified_ns;
        i64::try_from(modified_ns / 1_000_000_000).ok().filter(|seconds| *seconds > 0)
    }
}

/// Results of starting servers on generations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BootResults(BTreeMap<u64, (u64, bool)>);

impl BootResults {
    /// Whether a generation with this number and content was sound when a server was started on it. `None`:
    /// that was not tried.
    pub(crate) fn of(&self, generation: u64, content: &[u8; 32]) -> Option<bool> {
        self.0.get(&generation).filter(|(known, _)| *known == begin_of(content)).map(|(_, sound)| *sound)
    }

    /// Adds a result.
    pub(crate) fn add(&mut self, generation: u64, content: &[u8; 32], sound: bool) {
        self.0.insert(generation, (begin_of(content), sound));
    }

    /// Writes the list, replacing the former one.
    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        let numbers =
            self.0.iter().flat_map(|(number, (content, sound))| [*number, *content, u64::from(*sound)]);
        number_file::write(store, BOOTED, &BOOTED_MAGIC, numbers)
    }

    /// Reads the list. A damaged list counts as empty.
    pub(crate) fn read(store: &dyn Store) -> Result<BootResults, Error> {
        let numbers = number_file::read(store, BOOTED, &BOOTED_MAGIC)?.flatten().unwrap_or_default();
        let (triples, _) = numbers.as_chunks::<3>();
        Ok(BootResults(
            triples.iter().map(|[number, content, sound]| (*number, (*content, *sound == 1))).collect(),
        ))
    }
}

/// Enough of a hash to distinguish a generation from a later one with the same number.
fn begin_of(content: &[u8; 32]) -> u64 {
    content.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
