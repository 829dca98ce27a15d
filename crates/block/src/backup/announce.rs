//! What is read next, and how much of it.

use std::collections::VecDeque;

use super::changed_ranges::{ReadPlan, ReadScope};
use super::{Pipeline, bytes_of};
use crate::Error;
use crate::chain::{Chain, Chunk, ChunkCursor};
use crate::chunk_source::{BlockSet, ChunkRequest, ChunkSource};
use crate::format::{BLOCK, Hash, chunks_of};

/// The most chunks that are announced ahead of the one that is read.
const ANNOUNCED_MAX: usize = 256;

/// A chunk, and whether it will be read.
pub(super) enum Announced {
    Unchanged(Hash),
    Read {
        prior: Option<Chunk>,
        /// The blocks that may have changed, if this chunk is part of the sample that checks that.
        claimed: Option<BlockSet>,
        /// How many bytes of it will be read.
        bytes: usize,
    },
}

/// Announces chunks to the source, as far ahead as it wants.
pub(super) struct Announcer<'a> {
    walk: Option<ChunkCursor<'a>>,
    plan: Option<ReadPlan>,
    /// The next chunk to announce.
    next: u64,
    /// Chunks that were announced but not read yet.
    reading: u64,
    announced: VecDeque<Announced>,
}

impl<'a> Announcer<'a> {
    pub(super) fn new(chain: Option<&'a Chain>, plan: Option<ReadPlan>) -> Announcer<'a> {
        let walk = chain.map(Chain::walk);
        Announcer { walk, plan, next: 0, reading: 0, announced: VecDeque::new() }
    }

    /// The next chunk. If it will be read, it was announced.
    pub(super) fn chunk(
        &mut self,
        source: &mut dyn ChunkSource,
        pipeline: &Pipeline<'_>,
    ) -> Result<Announced, Error> {
        while self.next < chunks_of(pipeline.len())
            && (self.reading <= source.ahead() || self.announced.is_empty())
            && self.announced.len() < ANNOUNCED_MAX
        {
            let announced = self.announce(source, pipeline)?;
            self.reading += u64::from(matches!(announced, Announced::Read { .. }));
            self.announced.push_back(announced);
            self.next += 1;
        }
        let chunk = self.announced.pop_front().ok_or(Error::Worker)?;
        self.reading -= u64::from(matches!(chunk, Announced::Read { .. }));
        Ok(chunk)
    }

    fn announce(
        &mut self,
        source: &mut dyn ChunkSource,
        pipeline: &Pipeline<'_>,
    ) -> Result<Announced, Error> {
        let number = self.next;
        let mut scope = self.plan.as_mut().map_or(ReadScope::All, |plan| plan.scope(number));
        if let (ReadScope::Nothing, Some(walk), false) =
            (&scope, &mut self.walk, pipeline.damage.touches(number))
        {
            return walk.content(number).map(Announced::Unchanged);
        }
        let mut damages = Vec::new();
        let mut prior =
            self.walk.as_mut().map(|walk| walk.chunk_as_known(number, &mut damages)).transpose()?;
        prior.iter_mut().for_each(|prior| prior.mark_damaged(number, pipeline.damage));
        if prior.as_ref().is_some_and(|prior| prior.unknown.is_some()) {
            // This chunk must be stored again, even if nothing changed.
            scope = ReadScope::All;
            pipeline.meet(damages);
        }
        let known = prior.as_ref().map(Chunk::hashes);
        let (want, claimed) = match scope {
            ReadScope::Blocks(blocks) => (ChunkRequest::Blocks(blocks), None),
            ReadScope::Sample(claimed) => (ChunkRequest::All(known), Some(claimed)),
            ReadScope::All | ReadScope::Nothing => (ChunkRequest::All(known), None),
        };
        let all = bytes_of(number, pipeline.len());
        let bytes = match &want {
            ChunkRequest::All(_) => all,
            ChunkRequest::Blocks(blocks) => blocks.iter().filter(|wanted| **wanted).count() * BLOCK,
        };
        source.expect(number, all, want).map_err(|error| pipeline.failed(number, error))?;
        Ok(Announced::Read { prior, claimed, bytes })
    }
}
