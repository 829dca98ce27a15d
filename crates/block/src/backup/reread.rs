//! A second look at what was read: did anybody write to it meanwhile?
//!
//! A file shows it by its times and its length. A block device shows nothing. Neither does a file that is
//! written through a mapping whose pages were not on the disk yet, on file systems that do not record that.
//! So a sample of the chunks is read again. If it finds nothing, that proves nothing, and the report says
//! what can't be proven.

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

/// Fails if the volume is seen to have changed; reports what can't be seen.
pub(super) fn check_unchanged(
    feed: &mut dyn ChunkSource,
    before: &Stat,
    sample: &BTreeMap<u64, Vec<Hash>>,
    (request, context): (&Request<'_>, RunContext<'_>),
) -> Result<(), Error> {
    if request.is_frozen {
        return Ok(());
    }
    let failed = |source| Error::Source { name: request.name.to_owned(), source };
    let name = request.name;
    let after = feed.stat().map_err(failed)?;
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
        // Unchanged blocks need not come from another machine.
        let want = ChunkRequest::All(Some(was.clone()));
        feed.expect(*chunk, bytes_of(*chunk, before.len), want).map_err(failed)?;
        let same = match feed.read(&mut buffer).map_err(failed)? {
            ChunkRead::Hole => was == zeros(),
            ChunkRead::Whole => buffer.chunks(BLOCK).map(block_hash).eq(was),
            ChunkRead::Blocks(blocks) => !blocks.contains(&true),
        };
        if !same {
            return Err(Error::Changed { name: name.to_owned() });
        }
    }
    if before.regular && feed.is_written_to() == Some(true) {
        context.progress.warn(&format!(
            "{name} is open for writing elsewhere: by its times and a sample nobody wrote to it while it was read, but \
             that is no proof; back up a snapshot of it to be sure"
        ));
    }
    Ok(())
}
