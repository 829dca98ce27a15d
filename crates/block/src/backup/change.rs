//! Finds what changed in a chunk, and stores it.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use disk::Source;

use crate::backup::SuspectCheck;
use crate::backup::salvage::Salvaged;
use crate::chain::Chunk;
use crate::chunk_source::ChunkRead;
use crate::compress::{Compressor, DeltaCompressor};
use crate::fetch::Fetcher;
use crate::format::{
    BLOCK, BlockLocation, CHUNK_BLOCKS, Change, GROUP_BLOCKS, Group, Hash, UNKNOWN, ZERO, block_hash,
    chunk_hash,
};
use crate::{CHUNK, Error};

/// After this many deltas without benefit in a chunk no more are tried.
const VAIN_MAX: usize = 4;

/// Finds and stores changes.
pub(super) struct Changer<'a> {
    fetcher: &'a Fetcher<'a>,
    /// The volume as it was, if a snapshot of that exists.
    before: Option<&'a dyn Source>,
    compressor: io::Result<Compressor<'a>>,
    /// Damage found during this run.
    damage_seen: &'a Mutex<BTreeSet<String>>,
    /// The check for suspect blocks, and where these are collected.
    is_suspect: Option<(SuspectCheck<'a>, &'a Mutex<BTreeSet<u64>>)>,
}

/// The result for a chunk.
pub(super) struct ChunkResult {
    /// Hash of its content.
    pub(super) content: Hash,
    /// Hashes of its blocks; none if it was not read or is a hole.
    pub(super) hashes: Vec<Hash>,
    /// Its changes and the bytes of their groups, if there are any.
    pub(super) changes: Option<(Vec<Change>, Vec<u8>)>,
    /// Whether an interrupted run had stored them.
    pub(super) reused: bool,
    /// How many of them are stored again because their stored copies are damaged, whether they changed or
    /// not.
    pub(super) healed: u64,
}

impl ChunkResult {
    /// An unchanged chunk.
    pub(super) fn unread(content: Hash) -> ChunkResult {
        ChunkResult { content, hashes: Vec::new(), changes: None, reused: false, healed: 0 }
    }

    /// A chunk of zeros.
    pub(super) fn hole(prior: Option<&Chunk>) -> ChunkResult {
        let was_zeros = prior.is_none_or(|prior| prior.content == ZERO && prior.unknown.is_none());
        ChunkResult { changes: (!was_zeros).then(|| (Vec::new(), Vec::new())), ..ChunkResult::unread(ZERO) }
    }
}

/// A group that can't be decompressed, and why.
type BadBase = (Group, Error);

/// A block to store.
#[derive(Clone, Copy)]
struct NewBlock {
    block: usize,
    hash: Hash,
}

fn packing(source: io::Error) -> Error {
    Error::Store { name: "compressing".to_owned(), source }
}

impl<'a> Changer<'a> {
    pub(super) fn new(
        fetcher: &'a Fetcher<'a>,
        before: Option<&'a dyn Source>,
        damage_seen: &'a Mutex<BTreeSet<String>>,
        is_suspect: Option<(SuspectCheck<'a>, &'a Mutex<BTreeSet<u64>>)>,
    ) -> Changer<'a> {
        Changer { fetcher, before, compressor: Compressor::new(fetcher.sealer()), damage_seen, is_suspect }
    }

    /// Examines a chunk, given its number and its data.
    pub(super) fn changes(
        &mut self,
        (chunk, data): (u64, &[u8]),
        seen: &ChunkRead,
        prior: Option<&Chunk>,
        salvaged: Option<Salvaged>,
    ) -> Result<ChunkResult, Error> {
        let was = |block: usize| prior.and_then(|prior| prior.blocks.get(block)).and_then(Option::as_ref);
        let was_hash = |block: usize| match was(block) {
            Some(place) => place.hash,
            None if prior.is_some_and(|prior| prior.is_unknown(block)) => UNKNOWN,
            None => ZERO,
        };
        let is_read = |block: usize| match seen {
            ChunkRead::Blocks(blocks) => blocks.get(block) == Some(&true),
            ChunkRead::Hole | ChunkRead::Whole => true,
        };
        let hash = |(block, bytes)| if is_read(block) { block_hash(bytes) } else { was_hash(block) };
        let hashes: Vec<Hash> = data.chunks(BLOCK).enumerate().map(hash).collect();
        let content = chunk_hash(&hashes);
        let differing: Vec<NewBlock> = hashes
            .iter()
            .enumerate()
            .filter(|(block, hash)| was_hash(*block) != **hash)
            .map(|(block, hash)| NewBlock { block, hash: *hash })
            .collect();
        let again = |new: &&NewBlock| prior.is_some_and(|prior| prior.is_unknown(new.block));
        let healed = differing.iter().filter(again).count() as u64;
        if differing.is_empty() {
            return Ok(ChunkResult { content, hashes, changes: None, reused: false, healed: 0 });
        }
        if content == ZERO {
            return Ok(ChunkResult {
                content,
                hashes,
                changes: Some((Vec::new(), Vec::new())),
                reused: false,
                healed,
            });
        }
        // An interrupted run may have left out blocks whose damage was not known then.
        let salvaged = salvaged.filter(|_| prior.is_none_or(|prior| prior.unknown.is_none()));
        if let Some(found) = salvaged.and_then(|salvaged| salvaged.take(&content)) {
            return Ok(ChunkResult { content, hashes, changes: Some(found), reused: true, healed });
        }
        let (zeros, new): (Vec<NewBlock>, Vec<NewBlock>) =
            differing.into_iter().partition(|new| new.hash == ZERO);
        let mut out = ChunkOutput { bytes: Vec::new(), places: vec![None; CHUNK_BLOCKS] };
        zeros.iter().for_each(|zero| out.set(zero.block, None));
        let whole = match self.differences((chunk, data), &new, &was, &mut out)? {
            Ok(whole) => whole,
            Err((group, error)) => {
                self.damage_seen.lock().unwrap_or_else(PoisonError::into_inner).insert(error.to_string());
                let prior = prior.map(|prior| prior.without_group((chunk, &group), is_read));
                return self.changes((chunk, data), seen, prior.as_ref(), None);
            }
        };
        self.groups(data, &whole, &mut out)?;
        let places = out.places.into_iter().zip(0u8..=u8::MAX);
        let changes = places.filter_map(|(place, block)| Some((block, place?)));
        Ok(ChunkResult {
            content,
            hashes,
            changes: Some((changes.collect(), out.bytes)),
            reused: false,
            healed,
        })
    }

    /// Stores blocks as deltas to their former contents, where that pays. Returns the other blocks; or, if a
    /// base can't be read, its group.
    fn differences<'p>(
        &self,
        (chunk, data): (u64, &[u8]),
        new: &[NewBlock],
        was: &dyn Fn(usize) -> Option<&'p BlockLocation>,
        out: &mut ChunkOutput,
    ) -> Result<Result<Vec<NewBlock>, BadBase>, Error> {
        // Without the full key former contents can't be read, so whole blocks are stored.
        let based = new.iter().filter(|_| self.fetcher.reads());
        let based: Vec<(NewBlock, &BlockLocation)> =
            based.filter_map(|new| Some((*new, was(new.block)?))).collect();
        let bases = match self.bases(chunk, &based)? {
            Ok(bases) => bases,
            Err(bad) => return Ok(Err(bad)),
        };
        if let Some((is_suspect, suspect_blocks)) = self.is_suspect {
            let pairs = based.iter().zip(bases.chunks(BLOCK));
            let bad = pairs.filter(|((new, _), base)| is_suspect(base, block_of(data, new.block)));
            let numbers = bad.map(|((new, _), _)| chunk * CHUNK_BLOCKS as u64 + new.block as u64);
            suspect_blocks.lock().unwrap_or_else(PoisonError::into_inner).extend(numbers);
        }
        let mut compressor = DeltaCompressor::new(self.fetcher.sealer()).map_err(packing)?;
        let (mut stored, mut paid, mut vain) = ([false; CHUNK_BLOCKS], 0, 0);
        for ((new, was), base) in based.iter().zip(bases.chunks(BLOCK)) {
            // Where nothing is similar, trying is only slow.
            if vain > VAIN_MAX + paid {
                break;
            }
            let Some(stored) = stored.get_mut(new.block) else { continue };
            match compressor.block(base, block_of(data, new.block), &mut out.bytes).map_err(packing)? {
                None => vain += 1,
                Some(group) => {
                    (paid, *stored) = (paid + 1, true);
                    let base = Some(base_of(was));
                    out.set(new.block, Some(BlockLocation { hash: new.hash, group, slot: 0, base }));
                }
            }
        }
        Ok(Ok(new.iter().filter(|new| stored.get(new.block) == Some(&false)).copied().collect()))
    }

    /// The bases for the deltas of these blocks of a chunk, one after the other.
    fn bases(
        &self,
        chunk: u64,
        blocks: &[(NewBlock, &BlockLocation)],
    ) -> Result<Result<Vec<u8>, BadBase>, Error> {
        let mut unpacked: Option<(Group, Vec<u8>)> = None;
        let mut bases = vec![0; blocks.len() * BLOCK];
        for ((new, was), target) in blocks.iter().zip(bases.chunks_mut(BLOCK)) {
            if self.read_former(chunk * CHUNK as u64 + (new.block * BLOCK) as u64, was, target) {
                continue;
            }
            let (group, slot) = base_of(was);
            let known = unpacked.take().filter(|(known, _)| *known == group);
            let raw = match known {
                Some((_, raw)) => raw,
                None => match self.fetcher.group(&group) {
                    Err(error) if error.is_damage() => return Ok(Err((group, error))),
                    group => group?,
                },
            };
            target.copy_from_slice(block_of(&raw, usize::from(slot)));
            unpacked = Some((group, raw));
        }
        Ok(Ok(bases))
    }

    /// Reads the former content of a block from the snapshot, if it is the base itself, so that it need not
    /// be decompressed.
    fn read_former(&self, at: u64, was: &BlockLocation, target: &mut [u8]) -> bool {
        let Some(before) = self.before.filter(|_| was.base.is_none()) else { return false };
        let read = before.read_full_at(at, target).is_ok_and(|count| count == BLOCK);
        // Nobody else reads the snapshot.
        before.forget(at, BLOCK as u64);
        read && block_hash(target) == was.hash
    }

    /// Stores whole blocks, several in a group.
    fn groups(&mut self, data: &[u8], new: &[NewBlock], out: &mut ChunkOutput) -> Result<(), Error> {
        let compressor =
            self.compressor.as_mut().map_err(|error| packing(io::Error::other(error.to_string())))?;
        let mut gathered = Vec::new();
        for blocks in new.chunks(GROUP_BLOCKS) {
            let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { continue };
            let raw = if last.block - first.block + 1 == blocks.len() {
                data.get(first.block * BLOCK..(last.block + 1) * BLOCK).unwrap_or_default()
            } else {
                gathered.clear();
                blocks.iter().for_each(|new| gathered.extend_from_slice(block_of(data, new.block)));
                &gathered
            };
            let group = compressor.group(raw, &mut out.bytes).map_err(packing)?;
            for (new, slot) in blocks.iter().zip(0..) {
                out.set(new.block, Some(BlockLocation { hash: new.hash, group, slot, base: None }));
            }
        }
        Ok(())
    }
}

/// What to store of a chunk.
struct ChunkOutput {
    bytes: Vec<u8>,
    /// The place of each changed block; the inner `None` stands for zeros.
    places: Vec<Option<Option<BlockLocation>>>,
}

impl ChunkOutput {
    fn set(&mut self, block: usize, place: Option<BlockLocation>) {
        if let Some(known) = self.places.get_mut(block) {
            *known = Some(place);
        }
    }
}

/// The base for a delta to this block: the block itself, or, if it is a delta, its base. So no block depends
/// on more than one other.
fn base_of(was: &BlockLocation) -> (Group, u8) {
    was.base.unwrap_or((was.group, was.slot))
}

pub(super) fn block_of(data: &[u8], block: usize) -> &[u8] {
    data.get(block * BLOCK..(block + 1) * BLOCK).unwrap_or_default()
}
