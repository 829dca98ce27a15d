//! A generation together with its ancestors: where each block is.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use crate::Error;
use crate::chunk_source::BlockSet;
use crate::file::{File, Index};
use crate::format::{
    BlockLocation, CHUNK_BLOCKS, Change, Group, Hash, IndexEntry, UNKNOWN, ZERO, chunk_hash, chunks_of,
};
use crate::notes::{DamageEntry, KnownDamage};

/// A generation and its ancestors down to a full one.
#[derive(Clone)]
pub(crate) struct Chain {
    /// The newest first.
    files: Vec<Arc<File>>,
    /// Whether the parent of the oldest of them is missing.
    cut: bool,
}

/// The contents of a chunk.
#[derive(Clone)]
pub(crate) struct Chunk {
    /// Hash of its content; [`UNKNOWN`] if it is not recorded anywhere.
    pub(crate) content: Hash,
    /// Where each block is; `None` for zeros, and for unknown blocks.
    pub(crate) blocks: Vec<Option<BlockLocation>>,
    /// Blocks whose content is unknown because their records are damaged; usually none.
    pub(crate) unknown: Option<BlockSet>,
}

impl Chunk {
    pub(crate) fn zeros() -> Chunk {
        Chunk { content: ZERO, blocks: vec![None; CHUNK_BLOCKS], unknown: None }
    }

    /// Whether the content of a block is unknown.
    pub(crate) fn is_unknown(&self, block: usize) -> bool {
        self.unknown.as_ref().is_some_and(|unknown| unknown.get(block) == Some(&true))
    }

    /// The chunk itself if all of its blocks are known, else the first damage.
    fn known(self, number: u64, damages: Vec<Error>) -> Result<Chunk, Error> {
        match self.unknown {
            None => Ok(self),
            Some(_) => Err(damages
                .into_iter()
                .next()
                .unwrap_or_else(|| Error::corrupt(format!("chunk {number}"), "its records can't be read"))),
        }
    }

    /// Fails if the blocks do not match the chunk's hash.
    pub(crate) fn check(&self, number: u64) -> Result<(), Error> {
        if self.unknown.is_none() && chunk_hash(&self.hashes()) != self.content {
            let what = "the chunk's blocks do not match its hash";
            return Err(Error::corrupt(format!("chunk {number}"), what));
        }
        Ok(())
    }

    /// The hashes of the blocks; [`UNKNOWN`] for unknown blocks.
    pub(crate) fn hashes(&self) -> Vec<Hash> {
        let known = self.blocks.iter().map(|place| place.as_ref().map_or(ZERO, |place| place.hash));
        let mut hashes: Vec<Hash> = known.collect();
        let unknown = self.unknown.iter().flat_map(|unknown| unknown.iter());
        hashes.iter_mut().zip(unknown).filter(|(_, unknown)| **unknown).for_each(|(hash, _)| *hash = UNKNOWN);
        hashes
    }

    /// Applies changes. An empty list means that all is zeros.
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            self.blocks.fill(None);
            self.unknown = None;
        }
        for (block, place) in changes {
            if let Some(known) = self.blocks.get_mut(usize::from(*block)) {
                *known = *place;
            }
            if let Some(unknown) = self.unknown.as_mut().and_then(|all| all.get_mut(usize::from(*block))) {
                *unknown = false;
            }
        }
        self.unknown.take_if(|unknown| !unknown.contains(&true));
    }

    /// A copy in which those of these blocks are unknown that depend on a group which can't be read.
    pub(crate) fn without_group(&self, (number, group): (u64, &Group), of: impl Fn(usize) -> bool) -> Chunk {
        let bad =
            KnownDamage::new([DamageEntry { chunk: number, file: group.file, group: Some(group.offset) }]);
        let mut chunk = self.clone();
        chunk.mark_damaged(number, &bad);
        let unknown = chunk.unknown.iter_mut().flat_map(|unknown| unknown.iter_mut());
        for ((block, unknown), (place, was)) in unknown
            .enumerate()
            .zip(chunk.blocks.iter_mut().zip(&self.blocks))
            .filter(|((block, _), _)| !of(*block))
        {
            (*unknown, *place) = (self.is_unknown(block), *was);
        }
        chunk
    }

    /// Marks blocks as unknown whose stored copies are known to be damaged.
    pub(crate) fn mark_damaged(&mut self, number: u64, damage: &KnownDamage) {
        if !damage.touches(number) {
            return;
        }
        let mut unknown = self.unknown.take().unwrap_or_else(|| Box::new([false; CHUNK_BLOCKS]));
        for (place, unknown) in self.blocks.iter_mut().zip(unknown.iter_mut()) {
            if place.take_if(|place| damage.hits(number, place)).is_some() {
                *unknown = true;
            }
        }
        self.unknown = Some(unknown).filter(|unknown| unknown.contains(&true));
    }
}

impl Chain {
    /// The chain that ends in generation `newest`, built from the files of the generations.
    pub(crate) fn new(files: &BTreeMap<u64, Arc<File>>, newest: u64) -> Result<Chain, Error> {
        let mut chain: Vec<Arc<File>> = Vec::new();
        let mut wanted = newest;
        while wanted != 0 {
            let Some(file) = files.get(&wanted) else {
                return Err(match chain.last() {
                    None => Error::Missing(format!("there is no generation {newest}")),
                    Some(child) => {
                        let text = format!("its parent, generation {wanted}, is missing or damaged");
                        Error::corrupt(&child.shown, text)
                    }
                });
            };
            if let Some(child) =
                chain.last().filter(|child| !file.may_have_content(&child.header.parent_content))
            {
                return Err(Error::corrupt(
                    &child.shown,
                    format!("its parent is another generation {wanted} than {}", file.shown),
                ));
            }
            wanted = file.header.parent;
            chain.push(Arc::clone(file));
        }
        Ok(Chain { files: chain, cut: false })
    }

    /// As much as exists of the chain that ends in generation `newest`, and why it is incomplete. `None` if
    /// that generation itself is missing.
    pub(crate) fn partial(files: &BTreeMap<u64, Arc<File>>, newest: u64) -> Option<(Chain, Option<Error>)> {
        let why = match Chain::new(files, newest) {
            Ok(chain) => return Some((chain, None)),
            Err(why) => why,
        };
        let mut chain: Vec<Arc<File>> = Vec::new();
        let mut wanted = newest;
        while let Some(file) = files.get(&wanted) {
            if chain.last().is_some_and(|child| !file.may_have_content(&child.header.parent_content)) {
                break;
            }
            wanted = file.header.parent;
            chain.push(Arc::clone(file));
        }
        (!chain.is_empty()).then_some((Chain { files: chain, cut: wanted != 0 }, Some(why)))
    }

    /// The file of the generation itself.
    pub(crate) fn newest(&self) -> Option<&Arc<File>> {
        self.files.first()
    }

    /// Whether the chain is complete, and the frames of its files are undamaged.
    pub(crate) fn is_sound(&self) -> bool {
        !self.cut && self.files.iter().all(|file| file.is_sound())
    }

    /// Whether a file is part of it.
    pub(crate) fn includes_file(&self, number: u64) -> bool {
        self.files.iter().any(|file| file.number == number)
    }

    /// The same chain with another file instead of the newest.
    pub(crate) fn with(&self, newest: File) -> Chain {
        let files = std::iter::once(Arc::new(newest)).chain(self.files.iter().skip(1).cloned()).collect();
        Chain { files, cut: self.cut }
    }

    /// Hash of the volume, according to the indexes.
    pub(crate) fn content(&self) -> Result<[u8; 32], Error> {
        let (mut content, mut walk) = (ContentHasher::new(self.len()), self.walk());
        for number in 0..chunks_of(self.len()) {
            content.add(&walk.content(number)?);
        }
        Ok(content.finish())
    }

    /// Length of the volume in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.newest().map_or(0, |file| file.header.len)
    }

    /// A single chunk, searched in the index of each file. To read all chunks, use [`Chain::walk`].
    pub(crate) fn chunk(&self, number: u64) -> Result<Chunk, Error> {
        let files = self.files.iter().map(|file| (&**file, || file.entry(number)));
        let mut damages = Vec::new();
        Entries::gather(files, self.cut, number)?.chunk(&mut damages)?.known(number, damages)
    }

    /// A cursor over the chunks, in order.
    pub(crate) fn walk(&self) -> ChunkCursor<'_> {
        let cursors = self.files.iter().map(|file| (file, file.index().peekable())).collect();
        ChunkCursor { cursors, cut: self.cut }
    }
}

/// Goes through the chunks of a chain in ascending order.
pub(crate) struct ChunkCursor<'a> {
    cursors: Vec<(&'a Arc<File>, Peekable<Index<'a>>)>,
    cut: bool,
}

/// What a chain says about a chunk.
#[derive(Default)]
struct Entries<'a> {
    /// The newest first, as far back as needed.
    entries: Vec<(&'a File, IndexEntry)>,
    /// Whether anything older is unknown.
    cut: bool,
}

impl<'a> Entries<'a> {
    /// The index entries for a chunk in these files, the newest first, each with a function that finds its
    /// entry. `cut`: whether anything older than the oldest is unknown.
    fn gather<Find>(
        files: impl Iterator<Item = (&'a File, Find)>,
        cut: bool,
        chunk: u64,
    ) -> Result<Entries<'a>, Error>
    where
        Find: FnOnce() -> Result<Option<IndexEntry>, Error>,
    {
        let mut found = Entries { entries: Vec::new(), cut };
        for (file, find) in files {
            // The volume was shorter in this generation, so older contents were discarded.
            if chunk >= file.chunks() {
                found.cut = false;
                break;
            }
            found.entries.extend(find()?.map(|entry| (file, entry)));
            if !file.knows(chunk) {
                found.cut = true;
                break;
            }
        }
        Ok(found)
    }

    /// The chunk, even if its records are damaged: then some of its blocks are unknown, and `damages` says
    /// why.
    fn chunk(self, damages: &mut Vec<Error>) -> Result<Chunk, Error> {
        let mut chunk = Chunk::zeros();
        let Entries { entries, mut cut } = self;
        chunk.content = match entries.first() {
            Some((_, entry)) => entry.content,
            None if cut => UNKNOWN,
            None => ZERO,
        };
        let (mut known, mut left) = ([false; CHUNK_BLOCKS], CHUNK_BLOCKS);
        for (file, entry) in entries {
            if left == 0 || entry.content == ZERO {
                cut = false;
                break;
            }
            let record = match file.record(&entry) {
                Ok(record) => record,
                Err(error) if error.is_damage() => {
                    damages.push(error);
                    cut = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            for (block, change) in record.changes {
                let block = usize::from(block);
                if let (Some(place), Some(known)) = (chunk.blocks.get_mut(block), known.get_mut(block))
                    && !*known
                {
                    (*place, *known) = (change, true);
                    left -= 1;
                }
            }
        }
        if cut && left > 0 {
            chunk.unknown = Some(Box::new(known.map(|known| !known)));
        }
        Ok(chunk)
    }
}

impl ChunkCursor<'_> {
    /// The index entries for a chunk.
    fn entries(&mut self, chunk: u64) -> Result<Entries<'_>, Error> {
        let cut = self.cut;
        let files = self.cursors.iter_mut().map(|(file, index)| {
            let find = move || {
                let mut found = None;
                while let Some(entry) =
                    index.next_if(|entry| entry.as_ref().map_or(true, |entry| entry.chunk <= chunk))
                {
                    found = Some(entry?).filter(|entry| entry.chunk == chunk);
                }
                Ok(found)
            };
            (&***file, find)
        });
        Entries::gather(files, cut, chunk)
    }

    /// The hash of a chunk's content, without its blocks. Chunks must be asked for in ascending order.
    pub(crate) fn content(&mut self, number: u64) -> Result<Hash, Error> {
        let found = self.entries(number)?;
        let nothing = if found.cut { UNKNOWN } else { ZERO };
        Ok(found.entries.first().map_or(nothing, |(_, entry)| entry.content))
    }

    /// A chunk. Chunks must be asked for in ascending order.
    pub(crate) fn chunk(&mut self, number: u64) -> Result<Chunk, Error> {
        let mut damages = Vec::new();
        self.chunk_as_known(number, &mut damages)?.known(number, damages)
    }

    /// The same, even if its records are damaged: then some of its blocks are unknown, and `damages` says
    /// why.
    pub(crate) fn chunk_as_known(&mut self, number: u64, damages: &mut Vec<Error>) -> Result<Chunk, Error> {
        self.entries(number)?.chunk(damages)
    }
}

/// Computes the hash of a volume from its length and the hashes of its chunks.
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
