//! What changed in a chunk, and how it is stored.

use std::io;

use crate::Error;
use crate::backup::salvage::Salvaged;
use crate::chain::Chunk;
use crate::feed::Seen;
use crate::fetch::Fetcher;
use crate::format::{
    BLOCK, CHUNK_BLOCKS, Change, GROUP_BLOCKS, Group, Hash, Place, ZERO, block_hash, chunk_hash,
};
use crate::pack::{DeltaPacker, Packer};

/// Differences that may come to nothing in a chunk before no more are tried.
const VAIN_MAX: usize = 4;

/// Finds and stores changes.
pub(super) struct Changer<'a> {
    fetcher: &'a Fetcher<'a>,
    packer: io::Result<Packer>,
}

/// What was found out about a chunk.
pub(super) struct Found {
    /// Hash of its content.
    pub(super) content: Hash,
    /// Its changes and the bytes of their groups, if there are any.
    pub(super) changes: Option<(Vec<Change>, Vec<u8>)>,
    /// An interrupted run had stored them.
    pub(super) reused: bool,
}

/// A block to be stored.
#[derive(Clone, Copy)]
struct New {
    block: usize,
    hash: Hash,
}

fn packing(source: io::Error) -> Error {
    Error::Store { name: "compressing".to_owned(), source }
}

impl<'a> Changer<'a> {
    pub(super) fn new(fetcher: &'a Fetcher<'a>) -> Changer<'a> {
        Changer { fetcher, packer: Packer::new() }
    }

    /// Looks at the data of a chunk.
    pub(super) fn changes(
        &mut self,
        data: &[u8],
        seen: &Seen,
        prior: Option<&Chunk>,
        salvaged: Option<Salvaged>,
    ) -> Result<Found, Error> {
        let was = |block: usize| prior.and_then(|prior| prior.blocks.get(block)).and_then(Option::as_ref);
        let was_hash = |block: usize| was(block).map_or(ZERO, |place| place.hash);
        let is_read = |block: usize| match seen {
            Seen::Blocks(blocks) => blocks.get(block) == Some(&true),
            Seen::Hole | Seen::Whole => true,
        };
        let hash = |(block, bytes)| if is_read(block) { block_hash(bytes) } else { was_hash(block) };
        let hashes: Vec<Hash> = data.chunks(BLOCK).enumerate().map(hash).collect();
        let content = chunk_hash(&hashes);
        let differing: Vec<New> = hashes
            .iter()
            .enumerate()
            .filter(|(block, hash)| was_hash(*block) != **hash)
            .map(|(block, hash)| New { block, hash: *hash })
            .collect();
        if differing.is_empty() {
            return Ok(Found { content, changes: None, reused: false });
        }
        if content == ZERO {
            return Ok(Found { content, changes: Some((Vec::new(), Vec::new())), reused: false });
        }
        if let Some(found) = salvaged.and_then(|salvaged| salvaged.take(&content)) {
            return Ok(Found { content, changes: Some(found), reused: true });
        }
        let (zeros, new): (Vec<New>, Vec<New>) = differing.into_iter().partition(|new| new.hash == ZERO);
        let mut out = Out { bytes: Vec::new(), places: vec![None; CHUNK_BLOCKS] };
        zeros.iter().for_each(|zero| out.set(zero.block, None));
        let whole = self.differences(data, &new, &was, &mut out)?;
        self.groups(data, &whole, &mut out)?;
        let places = out.places.into_iter().zip(0u8..=u8::MAX);
        let changes = places.filter_map(|(place, block)| Some((block, place?)));
        Ok(Found { content, changes: Some((changes.collect(), out.bytes)), reused: false })
    }

    /// Stores the blocks that were something else before as differences to that, where it pays. Returns the
    /// others.
    fn differences<'p>(
        &self,
        data: &[u8],
        new: &[New],
        was: &dyn Fn(usize) -> Option<&'p Place>,
        out: &mut Out,
    ) -> Result<Vec<New>, Error> {
        let based = |new: &New| Some((*new, base_of(was(new.block)?)));
        let based: Vec<(New, (Group, u8))> = new.iter().filter_map(based).collect();
        let bases = self.bases(based.iter().map(|(_, base)| base))?;
        let mut packer = DeltaPacker::new().map_err(packing)?;
        let (mut stored, mut paid, mut vain) = ([false; CHUNK_BLOCKS], 0, 0);
        for ((new, base_place), base) in based.iter().zip(bases.chunks(BLOCK)) {
            // Where nothing is alike, trying is only slow.
            if vain > VAIN_MAX + paid {
                break;
            }
            let Some(stored) = stored.get_mut(new.block) else { continue };
            match packer.block(base, block_of(data, new.block), &mut out.bytes).map_err(packing)? {
                None => vain += 1,
                Some(group) => {
                    (paid, *stored) = (paid + 1, true);
                    let base = Some(*base_place);
                    out.set(new.block, Some(Place { hash: new.hash, group, slot: 0, base }));
                }
            }
        }
        Ok(new.iter().filter(|new| stored.get(new.block) == Some(&false)).copied().collect())
    }

    /// Blocks, one after the other.
    fn bases<'b>(&self, places: impl ExactSizeIterator<Item = &'b (Group, u8)>) -> Result<Vec<u8>, Error> {
        let mut unpacked: Option<(Group, Vec<u8>)> = None;
        let mut bases = Vec::with_capacity(places.len() * BLOCK);
        for (group, slot) in places {
            let known = unpacked.take().filter(|(known, _)| known == group);
            let raw = match known {
                Some((_, raw)) => raw,
                None => self.fetcher.group(group)?,
            };
            let start = usize::from(*slot) * BLOCK;
            bases.extend_from_slice(raw.get(start..start + BLOCK).unwrap_or_default());
            unpacked = Some((*group, raw));
        }
        Ok(bases)
    }

    /// Stores blocks whole, some together.
    fn groups(&mut self, data: &[u8], new: &[New], out: &mut Out) -> Result<(), Error> {
        let packer = self.packer.as_mut().map_err(|error| packing(io::Error::other(error.to_string())))?;
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
            let group = packer.group(raw, &mut out.bytes).map_err(packing)?;
            for (new, slot) in blocks.iter().zip(0..) {
                out.set(new.block, Some(Place { hash: new.hash, group, slot, base: None }));
            }
        }
        Ok(())
    }
}

/// What is to be stored of a chunk.
struct Out {
    bytes: Vec<u8>,
    /// For each block that changed, its place; `None` in it for zeros.
    places: Vec<Option<Option<Place>>>,
}

impl Out {
    fn set(&mut self, block: usize, place: Option<Place>) {
        if let Some(known) = self.places.get_mut(block) {
            *known = Some(place);
        }
    }
}

/// What a difference to this block is made to: the block itself, or what it is a difference to. So no
/// block needs more than one other.
fn base_of(was: &Place) -> (Group, u8) {
    was.base.unwrap_or((was.group, was.slot))
}

fn block_of(data: &[u8], block: usize) -> &[u8] {
    data.get(block * BLOCK..(block + 1) * BLOCK).unwrap_or_default()
}
