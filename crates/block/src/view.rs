//! All generations at once, a chunk at a time.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use crate::Error;
use crate::chain::Chunk;
use crate::file::{File, Index};
use crate::format::{Change, ZERO};

/// Goes through the chunks of all generations in ascending order; each record is read once.
pub(crate) struct Views<'a> {
    cursors: Vec<(&'a Arc<File>, Peekable<Index<'a>>)>,
}

/// What a chunk is in a generation, and whether that generation has a record of its own for it.
pub(crate) struct View {
    pub(crate) chunk: Chunk,
    pub(crate) own: bool,
}

impl<'a> Views<'a> {
    /// Of these generations, by number; parents are among them.
    pub(crate) fn new(generations: &'a BTreeMap<u64, Arc<File>>) -> Views<'a> {
        Views { cursors: generations.values().map(|file| (file, file.index().peekable())).collect() }
    }

    /// A chunk as it is in each generation that has it, by the generation's number. None but a later chunk
    /// may be asked for after it.
    pub(crate) fn chunk(&mut self, number: u64) -> Result<BTreeMap<u64, View>, Error> {
        let mut views: BTreeMap<u64, View> = BTreeMap::new();
        for (file, index) in &mut self.cursors {
            if number >= file.chunks() {
                continue;
            }
            let entry = index.next_if(|entry| entry.as_ref().map_or(true, |entry| entry.chunk <= number));
            let parent = views.get(&file.header.parent);
            let mut chunk = parent.map_or_else(Chunk::zeros, |view| Chunk {
                content: view.chunk.content,
                blocks: view.chunk.blocks.clone(),
            });
            let own = entry.is_some();
            if let Some(entry) = entry.transpose()? {
                let record = file.record(&entry)?;
                chunk.apply(&record.changes);
                chunk.content = record.content;
            }
            views.insert(file.header.generation, View { chunk, own });
        }
        Ok(views)
    }
}

impl Chunk {
    /// Makes changes. None at all mean zeros.
    fn apply(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            self.blocks.fill(None);
        }
        for (block, place) in changes {
            if let Some(known) = self.blocks.get_mut(usize::from(*block)) {
                *known = *place;
            }
        }
    }

    /// What has to change in `parent` for it to become this.
    pub(crate) fn changes_to(&self, parent: &Chunk) -> Option<Vec<Change>> {
        if self.content == parent.content {
            return None;
        }
        if self.content == ZERO {
            return Some(Vec::new());
        }
        let pairs = self.blocks.iter().zip(&parent.blocks).zip(0u8..=u8::MAX);
        let differing = pairs.filter(|((new, old), _)| {
            new.as_ref().map(|place| place.hash) != old.as_ref().map(|place| place.hash)
        });
        Some(differing.map(|((new, _), block)| (block, *new)).collect())
    }
}
