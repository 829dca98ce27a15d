//! The record of a chunk: which of its blocks changed, and where they are stored now.

use std::collections::BTreeMap;

use super::wire::Fields;
use super::{BLOCK, CHUNK_BLOCKS, Corrupt, GROUP_BLOCKS, Hash, ZERO, hash};

const MAGIC: [u8; 4] = *b"chnk";
const FIXED: usize = 40;
const CHANGE_BYTES: usize = 24;
const GROUP_BYTES: usize = 40;
const SUM_BYTES: usize = 16;
const NONE: u16 = u16::MAX;

/// How a group is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Uncompressed.
    Raw,
    /// One zstd frame.
    Zstd,
    /// One block as a zstd frame whose prefix is another block, its base.
    Delta,
}

/// Blocks that are stored together, and their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Number of the file.
    pub file: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u32,
    /// How it is stored.
    pub method: Method,
    /// Number of blocks in it.
    pub blocks: u8,
    /// Hash of the stored bytes.
    pub sum: Hash,
}

/// Where the content of a block is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLocation {
    /// Hash of the content.
    pub hash: Hash,
    /// The group that contains it.
    pub group: Group,
    /// Its index in the group, from 0.
    pub slot: u8,
    /// The block that this one is a delta to: its group and its index there. That group is not a delta
    /// itself.
    pub base: Option<(Group, u8)>,
}

/// A block that differs from the parent's, by its index in the chunk. `None`: it is zeros now.
pub type Change = (u8, Option<BlockLocation>);

/// The changes in one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number of the chunk.
    pub chunk: u64,
    /// Hash of the whole chunk's content after the changes.
    pub content: Hash,
    /// The changes in the order of the blocks. If empty, the whole chunk is zeros.
    pub changes: Vec<Change>,
}

impl Record {
    /// Encodes the record. Its last 16 bytes are the hash of the bytes before.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut table = GroupTable::default();
        let mut changes = Vec::with_capacity(self.changes.len() * CHANGE_BYTES);
        for (block, place) in &self.changes {
            let Some(place) = place else {
                changes.extend_from_slice(&[*block, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
                changes.extend_from_slice(&ZERO);
                continue;
            };
            let group = table.number(&place.group);
            let (kind, base_slot, base) = match &place.base {
                Some((base, slot)) => (2, *slot, table.number(base)),
                None => (1, 0, NONE),
            };
            changes.extend_from_slice(&[*block, kind, place.slot, base_slot]);
            changes.extend_from_slice(&group.to_le_bytes());
            changes.extend_from_slice(&base.to_le_bytes());
            changes.extend_from_slice(&place.hash);
        }
        let len = FIXED + changes.len() + table.bytes.len() + SUM_BYTES;
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&self.chunk.to_le_bytes());
        out.extend_from_slice(&u16::try_from(self.changes.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&u16::try_from(table.numbers.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.content);
        out.extend_from_slice(&changes);
        out.extend_from_slice(&table.bytes);
        let sum = hash(&out);
        out.extend_from_slice(&sum);
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// When the bytes are not a record, or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Record, Corrupt> {
        let (covered, sum) = bytes.split_at(bytes.len().saturating_sub(SUM_BYTES));
        let mut fields = Fields::new(covered);
        if record_len(bytes)? != bytes.len() {
            return Err(fields.wrong("a record whose length does not match"));
        }
        if hash(covered) != sum {
            return Err(fields.wrong("a damaged record"));
        }
        fields.bytes(8)?;
        let chunk = fields.u64()?;
        let (count, groups) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
        fields.zero(4)?;
        let content = fields.hash()?;
        let mut rest = Fields::new(fields.bytes(count * CHANGE_BYTES)?);
        let groups = (0..groups).map(|_| group(&mut fields)).collect::<Result<Vec<_>, _>>()?;
        fields.end()?;
        let mut named = GroupList { groups: &groups, first: GroupTable::default() };
        let mut changes: Vec<Change> = Vec::with_capacity(count);
        for _ in 0..count {
            let change = change(&mut rest, &mut named)?;
            if changes.last().is_some_and(|(before, _)| *before >= change.0) {
                return Err(fields.wrong("blocks out of order"));
            }
            changes.push(change);
        }
        if changes.is_empty() && content != ZERO {
            return Err(fields.wrong("a chunk of zeros with a content hash"));
        }
        if named.first.numbers.len() != groups.len() {
            return Err(fields.wrong("a group without blocks"));
        }
        Ok(Record { chunk, content, changes })
    }
}

/// Bytes at the start of a record that give its length.
pub const RECORD_FRAME_BYTES: usize = 8;

/// The length of a record, from its first bytes.
///
/// # Errors
/// When no record begins with these bytes.
pub fn record_len(bytes: &[u8]) -> Result<usize, Corrupt> {
    const LEN_MAX: usize = FIXED + CHUNK_BLOCKS * (CHANGE_BYTES + 2 * GROUP_BYTES) + SUM_BYTES;
    let mut fields = Fields::new(bytes);
    if fields.array::<4>()? != MAGIC {
        return Err(fields.wrong("no record begins here"));
    }
    let len = fields.u32()? as usize;
    if (FIXED + SUM_BYTES..=LEN_MAX).contains(&len) {
        Ok(len)
    } else {
        Err(fields.wrong("invalid record length"))
    }
}

/// The groups of a record that is being decoded, in the order in which blocks first refer to them, each once.
struct GroupList<'a> {
    groups: &'a [Group],
    /// Those that were referred to.
    first: GroupTable,
}

impl GroupList<'_> {
    fn get(&mut self, number: u16, slot: u8) -> Option<Group> {
        let group = *self.groups.get(usize::from(number)).filter(|group| slot < group.blocks)?;
        (self.first.number(&group) == number).then_some(group)
    }
}

fn change(fields: &mut Fields<'_>, named: &mut GroupList<'_>) -> Result<Change, Corrupt> {
    let [block, kind, slot, base_slot] = fields.array()?;
    let (group, base) = (fields.u16()?, fields.u16()?);
    let hash = fields.hash()?;
    if kind == 0 {
        let zero = (slot, base_slot, group, base, hash) == (0, 0, NONE, NONE, ZERO);
        return if zero { Ok((block, None)) } else { Err(fields.wrong("a block of zeros with content")) };
    }
    let group = named.get(group, slot).ok_or(fields.wrong("a block without a group"))?;
    let base = match (kind, group.method) {
        (1, Method::Raw | Method::Zstd) if base == NONE && base_slot == 0 => None,
        (2, Method::Delta) => {
            let base = named.get(base, base_slot).filter(|base| base.method != Method::Delta);
            Some((base.ok_or(fields.wrong("a delta without a base"))?, base_slot))
        }
        _ => return Err(fields.wrong("a block of unknown kind")),
    };
    if hash == ZERO {
        return Err(fields.wrong("a block without a hash"));
    }
    Ok((block, Some(BlockLocation { hash, group, slot, base })))
}

fn group(fields: &mut Fields<'_>) -> Result<Group, Corrupt> {
    let (file, offset, stored) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let (method, blocks) = (fields.u8()?, fields.u8()?);
    fields.zero(2)?;
    let sum = fields.hash()?;
    let (method, most) = match method {
        0 => (Method::Raw, GROUP_BLOCKS),
        1 => (Method::Zstd, GROUP_BLOCKS),
        2 => (Method::Delta, 1),
        _ => return Err(fields.wrong("a group of unknown kind")),
    };
    let raw = usize::from(blocks) * BLOCK;
    // Sealing adds a little.
    let (stored_bytes, sealed) = (stored as usize, raw + seal::DATA_OVERHEAD);
    let fits = (1..=most).contains(&usize::from(blocks)) && stored_bytes <= sealed;
    let fits = fits && (method != Method::Raw || stored_bytes == raw || stored_bytes == sealed);
    if !fits || offset.checked_add(u64::from(stored)).is_none() {
        return Err(fields.wrong("invalid group size"));
    }
    Ok(Group { file, offset, stored, method, blocks, sum })
}

/// The groups of a record, each once.
#[derive(Default)]
struct GroupTable {
    bytes: Vec<u8>,
    numbers: BTreeMap<(u64, u64), u16>,
}

impl GroupTable {
    fn number(&mut self, group: &Group) -> u16 {
        let next = u16::try_from(self.numbers.len()).unwrap_or(NONE);
        *self.numbers.entry((group.file, group.offset)).or_insert_with(|| {
            self.bytes.extend_from_slice(&group.file.to_le_bytes());
            self.bytes.extend_from_slice(&group.offset.to_le_bytes());
            self.bytes.extend_from_slice(&group.stored.to_le_bytes());
            let method = match group.method {
                Method::Raw => 0,
                Method::Zstd => 1,
                Method::Delta => 2,
            };
            self.bytes.extend_from_slice(&[method, group.blocks, 0, 0]);
            self.bytes.extend_from_slice(&group.sum);
            next
        })
    }
}
