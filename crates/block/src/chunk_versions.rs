//! The chunks of all generations together.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use crate::Error;
use crate::chain::Chunk;
use crate::file::{File, Index};
use crate::format::{CHUNK_BLOCKS, Change, UNKNOWN, ZERO};
use crate::notes::KnownDamage;

/// Goes through the chunks of all generations in ascending order; each record is read once.
pub(crate) struct ChunkVersions<'a> {
    generations: &'a BTreeMap<u64, Arc<File>>,
    cursors: Vec<(&'a Arc<File>, Peekable<Index<'a>>)>,
}

/// A chunk as it is in one generation.
pub(crate) struct ChunkVersion {
    pub(crate) chunk: Chunk,
    /// Whether that generation has its own record for it.
    pub(crate) own: bool,
    /// The number of the file whose damage makes blocks unknown. Also `None` if a file is missing.
    pub(crate) cause: Option<u64>,
}

impl ChunkVersion {
    fn unknown(cause: Option<u64>) -> ChunkVersion {
        let chunk =
            Chunk { content: UNKNOWN, unknown: Some(Box::new([true; CHUNK_BLOCKS])), ..Chunk::zeros() };
        ChunkVersion { chunk, own: false, cause }
    }
}

impl<'a> ChunkVersions<'a> {
    /// For these generations, by number. If a parent is not among them, only the generation's own records
    /// count.
    pub(crate) fn new(generations: &'a BTreeMap<u64, Arc<File>>) -> ChunkVersions<'a> {
        let cursors = generations.values().map(|file| (file, file.index().peekable())).collect();
        ChunkVersions { generations, cursors }
    }

    /// A chunk as it is in each generation that has it, by the generation's number. Chunks must be asked for
    /// in ascending order. Errors of reading are added to `damages`.
    pub(crate) fn chunk(
        &mut self,
        number: u64,
        damages: &mut Vec<Error>,
    ) -> Result<BTreeMap<u64, ChunkVersion>, Error> {
        let mut views: BTreeMap<u64, ChunkVersion> = BTreeMap::new();
        for (file, index) in &mut self.cursors {
            if number >= file.chunks() {
                continue;
            }
            let above = file.header.parent;
            let mut view = match views.get(&above) {
                Some(parent) => ChunkVersion { chunk: parent.chunk.clone(), own: false, cause: parent.cause },
                // The volume was shorter in that generation.
                None if above == 0 || self.generations.contains_key(&above) => {
                    ChunkVersion { chunk: Chunk::zeros(), own: false, cause: None }
                }
                None => ChunkVersion::unknown(None),
            };
            let mut found = None;
            while let Some(entry) =
                index.next_if(|entry| entry.as_ref().map_or(true, |entry| entry.chunk <= number))
            {
                found = Some(entry?).filter(|entry| entry.chunk == number);
            }
            if !file.knows(number) {
                view = ChunkVersion::unknown(Some(file.number));
            }
            if let Some(entry) = found {
                view.own = true;
                match file.record(&entry) {
                    Ok(record) => view.chunk.apply(&record.changes),
                    // This much is known from the index.
                    Err(error) if error.is_damage() && entry.content == ZERO => {
                        damages.push(error);
                        view.chunk.apply(&[]);
                    }
                    Err(error) if error.is_damage() => {
                        damages.push(error);
                        view = ChunkVersion { own: true, ..ChunkVersion::unknown(Some(file.number)) };
                    }
                    Err(error) => return Err(error),
                }
                view.chunk.content = entry.content;
            }
            if view.chunk.unknown.is_none() {
                view.cause = None;
            }
            views.insert(file.header.generation, view);
        }
        Ok(views)
    }
}

impl Chunk {
    /// The changes that turn `parent` into this chunk: blocks that differ, and blocks that can't be read
    /// where the parent has them.
    pub(crate) fn changes_to(
        &self,
        number: u64,
        parent: &Chunk,
        damage: &KnownDamage,
    ) -> Option<Vec<Change>> {
        let sound = parent.unknown.is_none() && !damage.touches(number);
        if self.content == parent.content && (sound || self.content == ZERO) {
            return None;
        }
        if self.content == ZERO {
            return Some(Vec::new());
        }
        let hash = |place: &Option<crate::format::BlockLocation>| place.as_ref().map(|place| place.hash);
        let differs = |block: usize, new: &Option<_>, old: &Option<_>| {
            let lost = |place: &Option<_>| place.as_ref().is_some_and(|place| damage.hits(number, place));
            hash(new) != hash(old) || parent.is_unknown(block) || (new != old && lost(old) && !lost(new))
        };
        let pairs = self.blocks.iter().zip(&parent.blocks).zip(0u8..=u8::MAX);
        let differing = pairs.filter(|((new, old), block)| differs(usize::from(*block), new, old));
        let changes: Vec<Change> = differing.map(|((new, _), block)| (block, *new)).collect();
        (!changes.is_empty()).then_some(changes)
    }
}
