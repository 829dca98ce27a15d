//! What a stopped copy has left in a table, compared with the snapshot of this run.

use server::Session;

use crate::load::{Load, Sent, Settled};
use crate::manifest::Chunk;
use crate::verify::{self, ChunkOf};
use crate::{Error, select};

/// The sum of a chunk's rows on the source.
pub(super) type SourceSum<'a> = &'a dyn Fn(usize, &Chunk) -> Result<Sent, Error>;

/// Tells chunks that are to be written from those that the target has. A chunk with other rows than the
/// source is emptied on the target; one without rows is not read on the source.
pub(super) fn settle(
    load: &Load<'_>,
    (session, reader): (&mut Session, &mut Session),
    pieces: Vec<(usize, Chunk)>,
    source_sum: SourceSum<'_>,
) -> Result<Settled, Error> {
    let mut found = Settled { missing: Vec::new(), there: Vec::new() };
    for (at, mut chunk) in pieces {
        let entry = &load.manifest.tables[at];
        if !load.kept.contains(&at) {
            found.missing.push((at, chunk));
            continue;
        }
        let part = ChunkOf { entry, chunk: &chunk, condition: None };
        let sum = verify::sum(load.context, reader, &part, &mut |_, _, _| {})?;
        if sum.rows == 0 {
            found.missing.push((at, chunk));
            continue;
        }
        let wanted = source_sum(at, &chunk)?;
        if wanted.sum == sum {
            (chunk.sum, chunk.text_bytes) = (wanted.sum, wanted.text_bytes);
            found.there.push((at, chunk));
        } else {
            session.execute(&select::delete(entry, &chunk))?;
            found.missing.push((at, chunk));
        }
    }
    Ok(found)
}
