//! What a stopped copy has left in a table, compared with the snapshot of this run.

use server::Session;

use super::rows::{ServerRows, SourceSession};
use crate::load::Load;
use crate::manifest::Chunk;
use crate::verify::{self, ChunkOf};
use crate::{Error, select};

/// Chunks, by the numbers of their tables.
type Pieces = Vec<(usize, Chunk)>;

impl ServerRows<'_> {
    /// Tells chunks that are to be written from those that the target has. A chunk with other rows than the
    /// source is emptied on the target; one without rows is not read on the source.
    pub(crate) fn settle(
        &self,
        load: &Load<'_>,
        source: &SourceSession,
        (session, reader): (&mut Session, &mut Session),
        pieces: Pieces,
    ) -> Result<(Pieces, Pieces), Error> {
        let (mut missing, mut there) = (Pieces::new(), Pieces::new());
        for (at, mut chunk) in pieces {
            let entry = &load.manifest.tables[at];
            if !load.kept.contains(&at) {
                missing.push((at, chunk));
                continue;
            }
            let part = ChunkOf { entry, chunk: &chunk, condition: None };
            let found = verify::sum(load.context, reader, &part, &mut |_, _, _| {})?;
            if found.rows == 0 {
                missing.push((at, chunk));
                continue;
            }
            let wanted = self.sum(source, at, &chunk)?;
            if wanted.sum == found {
                (chunk.sum, chunk.text_bytes) = (wanted.sum, wanted.text_bytes);
                there.push((at, chunk));
            } else {
                session.execute(&select::delete(entry, &chunk))?;
                missing.push((at, chunk));
            }
        }
        Ok((missing, there))
    }
}
