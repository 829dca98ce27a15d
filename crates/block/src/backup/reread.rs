//! Reads a sample a second time: did anybody write to the volume meanwhile?
//!
//! A file shows writes by its timestamps and its length. A block device does not, nor does a file that is
//! written through a memory mapping on file systems that update timestamps late. So a sample of the chunks is
//! read again. Finding no difference proves nothing, and the report says so.

use std::collections::BTreeMap;

use disk::Stat;

use super::{Request, RunContext, bytes_of, sample};
use crate::chunk_source::{ChunkRequest, ChunkSource};
use crate::format::{BLOCK, CHUNK, CHUNK_BLOCKS, Hash, ZERO, block_hash, chunks_of};
use crate::{ChunkRead, Error};

/// One in this many chunks is read again.
const SAMPLE: u64 = 256;
/// The least number of chunks that are read again.
const SAMPLE_MIN: u64 = 2;

/// Which chunks are read again.
pub(super) struct Sample {
    /// One in this many; 0 for none.
    every: u64,
    seed: u64,
}

impl Sample {
    pub(super) fn new(request: &Request<'_>, len: u64) -> Sample {
        let asked = !request.is_frozen && !request.live && request.changed.is_none();
        let every = if asked { SAMPLE.min(chunks_of(len) / SAMPLE_MIN).max(1) } else { 0 };
        Sample { every, seed: request.taken_s.cast_unsigned() }
    }

    pub(super) fn has(&self, chunk: u64) -> bool {
        self.every > 0 && sample::is_drawn(self.seed, chunk, self.every)
    }
}

/// Fails if the volume has visibly changed, and warns if that can't be determined.
pub(super) fn check_unchanged(
    source: &mut dyn ChunkSource,
    before: &Stat,
    sample: &BTreeMap<u64, Vec<Hash>>,
    (request, context): (&Request<'_>, RunContext<'_>),
) -> Result<(), Error> {
    if request.is_frozen {
        return Ok(());
    }
    let failed = |source| Error::Source { name: request.name.to_owned(), source };
    let name = request.name;
    let after = source.stat().map_err(failed)?;
    if request.live {
        if after.len != before.len {
            let (was, is) = (before.len, after.len);
            context
                .progress
                .warn(&format!("{name} had {was} bytes at first and has {is} now; the copy has {was}"));
        }
        return Ok(());
    }
    if before.regular && after != *before {
        return Err(Error::Changed { name: name.to_owned() });
    }
    let mut buffer = Vec::new();
    for (chunk, was) in sample {
        let failed =
            |source| Error::Source { name: format!("{name} at byte {}", chunk * CHUNK as u64), source };
        let zeros = || vec![ZERO; CHUNK_BLOCKS];
        let was = if was.is_empty() { zeros() } else { was.clone() };
        // Unchanged blocks need not be sent by another machine.
        let want = ChunkRequest::All(Some(was.clone()));
        source.expect(*chunk, bytes_of(*chunk, before.len), want).map_err(failed)?;
        let same = match source.read(&mut buffer).map_err(failed)? {
            ChunkRead::Hole => was == zeros(),
            ChunkRead::Whole => buffer.chunks(BLOCK).map(block_hash).eq(was),
            ChunkRead::Blocks(blocks) => !blocks.contains(&true),
        };
        if !same {
            return Err(Error::Changed { name: name.to_owned() });
        }
    }
    if before.regular && source.is_written_to() == Some(true) {
        context.progress.warn(&format!(
            "{name} is open for writing elsewhere: its timestamps and a sample read twice show no writes \
             during the backup, but that is no proof; back up a snapshot of it to be sure"
        ));
    }
    Ok(())
}
