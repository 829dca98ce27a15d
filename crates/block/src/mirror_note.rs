//! A mirror's own note about its files: which of them contain generations, whatever its source has removed
//! since, and which the source still has.
//!
//! A mirror may be made without the key of an encrypted repository. So the note has only file numbers, is not
//! encrypted, and refers to the catalogue that the source had when a file was copied.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::Catalogue;
use crate::store::Store;
use crate::{Error, number_file};

/// The note.
pub(crate) const NAME: &str = "mirror.note";
const MAGIC: [u8; 8] = *b"remomir\n";
/// The lowest number of a file that a prune of a mirror writes. Sources never assign such high numbers, so
/// the two do not collide.
pub(crate) const MIRROR_NUMBERS: u64 = 1 << 52;
/// Each mirror has this many bits of numbers of its own.
const OWN_BITS: u32 = 20;
/// Different mirrors most probably have different numbers.
const PLACES: u64 = 1 << 31;
/// Stored in the note instead of the number of a catalogue.
const BLOCKS: u64 = u64::MAX;
const IF_WHOLE: u64 = u64::MAX - 1;

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileContents {
    /// A generation.
    Generation,
    /// A generation, if this catalogue lists it.
    ByCatalogue(u64),
    /// Blocks that generations may need.
    Blocks,
    /// A generation, if all of its ancestors exist. Nothing more is known.
    IfComplete,
}

impl FileContents {
    /// The contents of a file that comes from a place with this newest catalogue; 0 for none.
    fn at(through: u64, number: u64) -> FileContents {
        if number > through { FileContents::Generation } else { FileContents::ByCatalogue(through) }
    }

    fn encode(self) -> u64 {
        match self {
            FileContents::Generation => 0,
            FileContents::ByCatalogue(through) => through,
            FileContents::Blocks => BLOCKS,
            FileContents::IfComplete => IF_WHOLE,
        }
    }

    fn decode(number: u64) -> FileContents {
        match number {
            0 => FileContents::Generation,
            BLOCKS => FileContents::Blocks,
            IF_WHOLE => FileContents::IfComplete,
            through => FileContents::ByCatalogue(through),
        }
    }
}

/// The note's entry for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) contents: FileContents,
    /// Whether the source had it at the last run: then it would be copied again if it were removed.
    pub(crate) is_at_source: bool,
}

/// The note of a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorNote {
    /// The first of its own numbers.
    base: u64,
    pub(crate) files: BTreeMap<u64, Entry>,
}

impl MirrorNote {
    fn decode(bytes: Option<Vec<u64>>) -> Option<MirrorNote> {
        let numbers = bytes?;
        let (base, rest) = numbers.split_first()?;
        let (triples, []) = rest.as_chunks::<3>() else { return None };
        let entry = |[number, contents, at]: &[u64; 3]| {
            (*number, Entry { contents: FileContents::decode(*contents), is_at_source: *at == 1 })
        };
        Some(MirrorNote { base: *base, files: triples.iter().map(entry).collect() })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = self
            .files
            .iter()
            .flat_map(|(number, entry)| [*number, entry.contents.encode(), u64::from(entry.is_at_source)]);
        number_file::encode(&MAGIC, std::iter::once(self.base).chain(entries))
    }

    /// Reads the note of a place; `None`: it has never been a mirror.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged.
    pub(crate) fn read(store: &dyn Store) -> Result<Option<MirrorNote>, Error> {
        let shown = store.shown(NAME);
        let Some(found) = number_file::read_opened(&shown, &MAGIC, store.open_plain(NAME))? else {
            return Ok(None);
        };
        MirrorNote::decode(found).map(Some).ok_or_else(|| {
            let what = "the mirror's note is damaged; the next 'remora mirror' rewrites it";
            Error::corrupt(shown, what)
        })
    }

    /// Writes it and replaces the former one.
    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        store.put_plain(NAME, &self.encode()).map_err(Error::store(store.shown(NAME)))
    }

    /// Decodes a note; `None` if it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<MirrorNote> {
        MirrorNote::decode(number_file::decode(&MAGIC, bytes))
    }

    /// The note of a new mirror.
    pub(crate) fn new(shown: &str) -> MirrorNote {
        let hash = blake3::hash(shown.as_bytes());
        let place = hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) % PLACES;
        MirrorNote { base: MIRROR_NUMBERS + (place << OWN_BITS), files: BTreeMap::new() }
    }

    /// Updates the note after a run: `from` is the source's own note, `through` its newest catalogue, and
    /// `source` its files. `before` are the files that existed here, `now` those that exist now.
    pub(crate) fn update(
        &mut self,
        (from, through, source): (Option<&MirrorNote>, u64, &BTreeSet<u64>),
        (before, now): (&BTreeSet<u64>, &BTreeSet<u64>),
    ) {
        // Lost files stay listed, so that they are reported as missing.
        let is_missed =
            |entry: &Entry| !matches!(entry.contents, FileContents::Blocks | FileContents::IfComplete);
        self.files.retain(|number, entry| now.contains(number) || is_missed(entry));
        for number in now {
            let is_at_source = source.contains(number);
            let came = match from {
                // A file that is not in the source's note was written by the source itself.
                Some(from) => from.files.get(number).map_or(FileContents::Generation, |entry| entry.contents),
                None => FileContents::at(through, *number),
            };
            let contents = match came {
                // It was copied without a note.
                _ if !is_at_source => FileContents::IfComplete,
                FileContents::ByCatalogue(_) if before.contains(number) => FileContents::IfComplete,
                came => came,
            };
            self.files.entry(*number).or_insert(Entry { contents, is_at_source }).is_at_source = is_at_source;
        }
    }

    /// The numbers of the catalogues that entries refer to.
    pub(crate) fn catalogues(&self) -> BTreeSet<u64> {
        let of = |entry: &Entry| match entry.contents {
            FileContents::ByCatalogue(through) => Some(through),
            _ => None,
        };
        self.files.values().filter_map(of).collect()
    }

    /// Replaces references to catalogues by what these say. A missing catalogue says nothing.
    pub(crate) fn resolve(&mut self, store: &dyn Store, names: &[String]) -> Result<(), Error> {
        let mut lists: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for through in self.catalogues() {
            if names.contains(&Catalogue::name(through)) {
                lists.insert(through, Catalogue::read(store, through)?.files.into_iter().collect());
            }
        }
        for (number, entry) in &mut self.files {
            let FileContents::ByCatalogue(through) = entry.contents else { continue };
            entry.contents = match lists.get(&through) {
                None => FileContents::IfComplete,
                Some(listed) if listed.contains(number) => FileContents::Generation,
                Some(_) => FileContents::Blocks,
            };
        }
        Ok(())
    }

    /// The number for the next file that a prune writes here.
    pub(crate) fn next_own(&self, known: impl Iterator<Item = u64>) -> u64 {
        let own = self.base..self.base + (1 << OWN_BITS);
        known.filter(|number| own.contains(number)).max().unwrap_or(self.base) + 1
    }

    /// The files that the source still has.
    pub(crate) fn at_source(&self) -> BTreeSet<u64> {
        self.files.iter().filter(|(_, entry)| entry.is_at_source).map(|(number, _)| *number).collect()
    }

    /// Makes this place independent of its source. Returns whether it had one.
    pub(crate) fn leave_source(&mut self) -> bool {
        let has_one = self.files.values().any(|entry| entry.is_at_source);
        self.files.values_mut().for_each(|entry| entry.is_at_source = false);
        has_one
    }
}
