//! A generation together with those it builds upon: where each block is.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use crate::Error;
use crate::file::{File, Index};
use crate::format::{CHUNK_BLOCKS, Hash, IndexEntry, Place, ZERO};

/// A generation and its ancestors down to a full one.
#[derive(Clone)]
pub(crate) struct Chain {
    /// The newest first.
    files: Vec<Arc<File>>,
}

/// What a chunk holds.
pub(crate) struct Chunk {
    /// Hash of its content.
    pub(crate) content: Hash,
    /// Where each block is; `None` for zeros.
    pub(crate) blocks: Vec<Option<Place>>,
}

impl Chunk {
    pub(crate) fn zeros() -> Chunk {
        Chunk { content: ZERO, blocks: vec![None; CHUNK_BLOCKS] }
    }

    /// The hashes of the blocks.
    pub(crate) fn hashes(&self) -> Vec<Hash> {
        self.blocks.iter().map(|place| place.as_ref().map_or(ZERO, |place| place.hash)).collect()
    }
}

impl Chain {
    /// The chain that ends in generation `newest`, of the files that hold the generations.
    pub(crate) fn new(files: &BTreeMap<u64, Arc<File>>, newest: u64) -> Result<Chain, Error> {
        let mut chain: Vec<Arc<File>> = Vec::new();
        let mut wanted = newest;
        while wanted != 0 {
            let Some(file) = files.get(&wanted) else {
                let text = match chain.last() {
                    None => format!("there is no generation {newest}"),
                    Some(child) => format!("{}: its parent, generation {wanted}, is missing", child.shown),
                };
                return Err(Error::Missing(text));
            };
            if let Some(child) =
                chain.last().filter(|child| child.header.parent_content != file.trailer.content)
            {
                return Err(Error::corrupt(
                    &child.shown,
                    format!("it builds upon another generation {wanted} than {}", file.shown),
                ));
            }
            wanted = file.header.parent;
            chain.push(Arc::clone(file));
        }
        Ok(Chain { files: chain })
    }

    /// The file of the generation itself.
    pub(crate) fn newest(&self) -> Option<&Arc<File>> {
        self.files.first()
    }

    /// Length of the volume in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.newest().map_or(0, |file| file.header.len)
    }

    /// A way through the chunks, in order.
    pub(crate) fn walk(&self) -> Walk<'_> {
        Walk { cursors: self.files.iter().map(|file| (file, file.index().peekable())).collect() }
    }
}

/// Goes through the chunks of a chain in ascending order.
pub(crate) struct Walk<'a> {
    cursors: Vec<(&'a Arc<File>, Peekable<Index<'a>>)>,
}

impl Walk<'_> {
    /// The index entries for a chunk, the newest first, as far as older ones mean anything.
    fn entries(&mut self, chunk: u64) -> Result<Vec<(&File, IndexEntry)>, Error> {
        let mut found: Vec<(&File, IndexEntry)> = Vec::new();
        for (file, index) in &mut self.cursors {
            let file: &File = file;
            // A generation that was shorter ends it: what is older was cut off.
            if chunk >= file.chunks() {
                break;
            }
            while let Some(entry) =
                index.next_if(|entry| entry.as_ref().map_or(true, |entry| entry.chunk <= chunk))
            {
                let entry = entry?;
                if entry.chunk == chunk {
                    found.push((file, entry));
                }
            }
        }
        Ok(found)
    }

    /// The hash of a chunk's content, without its blocks; none but a later chunk may be asked for after it.
    pub(crate) fn content(&mut self, number: u64) -> Result<Hash, Error> {
        Ok(self.entries(number)?.first().map_or(ZERO, |(_, entry)| entry.content))
    }

    /// A chunk; none but a later one may be asked for after it.
    pub(crate) fn chunk(&mut self, number: u64) -> Result<Chunk, Error> {
        let mut chunk = Chunk::zeros();
        let mut known = [false; CHUNK_BLOCKS];
        for (nth, (file, entry)) in self.entries(number)?.into_iter().enumerate() {
            if nth == 0 {
                chunk.content = entry.content;
            }
            let record = file.record(&entry)?;
            let blocks = chunk.blocks.iter_mut().zip(&mut known);
            if record.changes.is_empty() {
                break;
            }
            let mut changes = record.changes.into_iter().peekable();
            for (block, (place, known)) in blocks.enumerate() {
                if let Some((_, change)) = changes.next_if(|(number, _)| usize::from(*number) == block)
                    && !*known
                {
                    (*place, *known) = (change, true);
                }
            }
        }
        Ok(chunk)
    }
}

/// The hash of a volume: of its length and the contents of its chunks.
pub(crate) struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    pub(crate) fn new(len: u64) -> ContentHasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&len.to_le_bytes());
        ContentHasher(hasher)
    }

    pub(crate) fn add(&mut self, chunk: &Hash) {
        self.0.update(chunk);
    }

    pub(crate) fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}
