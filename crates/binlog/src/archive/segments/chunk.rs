//! The chunks of a segment.

use std::io;

use block::Store;
use disk::Source;

use super::Entry;
use crate::archive::segment::Chunk;

/// A chunk of a segment, with its offset in the server's file and in the segment.
pub(super) fn chunks(entry: &Entry) -> impl Iterator<Item = (u64, u64, &Chunk)> {
    let (mut start, mut at) = (entry.header.segment.start, entry.at);
    entry.header.chunks.iter().map(move |chunk| {
        let place = (start, at, chunk);
        start += u64::from(chunk.len);
        at += u64::from(chunk.stored);
        place
    })
}

/// Reads a chunk as it is stored, and checks it against its hash.
pub(super) fn read_stored(
    store: &dyn Store,
    source: &dyn Source,
    (entry, at, chunk): (&Entry, u64, &Chunk),
) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; chunk.stored as usize];
    let count = source.read_full_at(at, &mut bytes)?;
    bytes.truncate(count);
    if *blake3::hash(&bytes).as_bytes() == chunk.hash {
        return Ok(bytes);
    }
    let text = format!("{}: the chunk at byte {at} does not match its hash", store.shown(&entry.name()));
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// The bytes of the log in a stored chunk.
pub(super) fn decrypt(store: &dyn Store, name: &str, stored: Vec<u8>, chunk: &Chunk) -> io::Result<Vec<u8>> {
    let Some(sealer) = store.sealer() else { return Ok(stored) };
    let invalid =
        |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", store.shown(name)));
    let bytes = sealer.open(&stored).map_err(|error| invalid(error.to_string()))?;
    if bytes.len() != chunk.len as usize {
        return Err(invalid("a chunk's length differs from the segment header".to_owned()));
    }
    Ok(bytes)
}
