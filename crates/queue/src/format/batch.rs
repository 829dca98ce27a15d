//! Segment headers and batches: what one write carries, and how a reader knows that it is complete.

use std::path::Path;

use crate::Error;
use crate::format::dedupe::DEDUPE;
use crate::format::delivery_rate::RATE;
use crate::format::lease_record::LEASES;
use crate::format::order::{AGE, CONCURRENCY, DUE, FIFO, PRIORITY, RATE_KEY};
use crate::format::readers::READERS;
use crate::format::record::RowId;
use crate::format::retention::KEEP;
use crate::format::retry_policy::POLICIES;
use crate::format::transaction::TRANSACTIONS;
use crate::format::wire::{ByteReader, checksum};

/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER: usize = 64;

/// Bytes of a batch's header.
pub(crate) const BATCH_HEADER: usize = 40;

const SEGMENT_MAGIC: [u8; 8] = *b"RMQUEUE\n";
const BATCH_MAGIC: [u8; 4] = *b"QBat";
const VERSION: u16 = 1;

/// Where the checksum of the segment's header is.
const HEADER_SUM: std::ops::Range<usize> = 12..16;

/// One life of a queue: it begins again when the queue is created and each time it is emptied.
pub(crate) type Incarnation = [u8; 16];

/// A segment file's name within its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    /// Its place in the order of segments.
    pub(crate) number: u64,
    /// How often it was rewritten.
    pub(crate) generation: u32,
}

impl SegmentName {
    pub(crate) fn file(self) -> String {
        format!("{:016x}.{:x}.seg", self.number, self.generation)
    }

    pub(crate) fn parse(file: &str) -> Option<SegmentName> {
        let mut parts = file.split('.');
        let number = parts.next().filter(|part| part.len() == 16)?;
        let number = u64::from_str_radix(number, 16).ok()?;
        let generation = u32::from_str_radix(parts.next()?, 16).ok()?;
        let name = SegmentName { number, generation };
        (name.file() == file).then_some(name)
    }
}

/// The feature flags that this version knows.
pub(crate) const KNOWN_FEATURES: u64 = TRANSACTIONS
    | LEASES
    | POLICIES
    | DUE
    | PRIORITY
    | FIFO
    | DEDUPE
    | KEEP
    | READERS
    | CONCURRENCY
    | AGE
    | RATE
    | RATE_KEY;

/// Those that a queue may get after its first segment.
const LATER_FEATURES: u64 = LEASES;

/// Which segment it is: the checksums depend on it besides the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentId {
    pub(crate) incarnation: Incarnation,
    /// The feature flags of the queue that a reader must know.
    pub(crate) features: u64,
    pub(crate) name: SegmentName,
}

impl SegmentId {
    /// A segment of the log as it is first written.
    pub(crate) fn active(incarnation: Incarnation, features: u64, number: u64) -> SegmentId {
        SegmentId { incarnation, features, name: SegmentName { number, generation: 0 } }
    }

    fn checksum(&self, offset: u64, rest: &[u8]) -> u32 {
        let (number, generation) = (self.name.number.to_le_bytes(), self.name.generation.to_le_bytes());
        checksum(&[&self.incarnation, &number, &generation, &offset.to_le_bytes(), rest])
    }
}

/// The header of a segment whose first row, if any, will have the id `next`.
pub(crate) fn encode_segment_header(segment_id: &SegmentId, next: RowId) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEGMENT_HEADER);
    out.extend(SEGMENT_MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend(64u16.to_le_bytes());
    out.extend([0; 4]);
    out.extend(segment_id.features.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend(segment_id.incarnation);
    out.extend(segment_id.name.number.to_le_bytes());
    out.extend(next.0.to_le_bytes());
    let sum = checksum(&[&out]);
    out.splice(HEADER_SUM, sum.to_le_bytes());
    out
}

/// Reads a segment's header: the id of its first row. `file` is for messages.
pub(crate) fn decode_segment_header(
    file: &Path,
    bytes: &[u8],
    segment_id: &SegmentId,
) -> Result<RowId, Error> {
    let corrupt = |what: &str| Error::Corrupt { file: file.to_owned(), what: what.to_owned(), offset: 0 };
    let version = |what: String| Error::Version { file: file.to_owned(), what };
    let mut header = bytes.get(..SEGMENT_HEADER).ok_or_else(|| corrupt("a truncated header"))?.to_vec();
    let mut reader = ByteReader::new(bytes);
    let mut read = || {
        let magic: [u8; 8] = reader.array()?;
        let (version, _, sum) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let (must, _) = (reader.u64()?, reader.u64()?);
        let incarnation: Incarnation = reader.array()?;
        Some((magic, version, sum, must, incarnation, reader.u64()?, reader.u64()?))
    };
    let (magic, format, sum, must, incarnation, number, next) =
        read().ok_or_else(|| corrupt("an invalid header"))?;
    if magic != SEGMENT_MAGIC {
        return Err(corrupt("not a segment of a queue"));
    }
    if format != VERSION {
        return Err(version(format!("segment of version {format}")));
    }
    header.splice(HEADER_SUM, [0; 4]);
    if sum != checksum(&[&header]) {
        return Err(corrupt("a header with a wrong checksum"));
    }
    let unknown = must & !KNOWN_FEATURES;
    if unknown != 0 {
        return Err(version(format!("segment with the unknown features {unknown:#x}")));
    }
    let missing = segment_id.features & !must & !LATER_FEATURES;
    if must & !segment_id.features != 0 || missing != 0 {
        return Err(corrupt("a header with other features than the checkpoint's"));
    }
    if incarnation != segment_id.incarnation || number != segment_id.name.number {
        return Err(corrupt("the header of another segment"));
    }
    Ok(RowId(next))
}

/// What a batch carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records.
    Records,
    /// The index that seals a segment.
    Index,
}

/// A batch's header, without the part that depends on its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) first: RowId,
    pub(crate) synced: u64,
    pub(crate) time_ms: u64,
}

/// Fills the header at the start of `batch`; its body follows [`BATCH_HEADER`] bytes that were left free.
pub(crate) fn seal(batch: &mut [u8], segment_id: &SegmentId, offset: u64, header: &Header) {
    let body = u32::try_from(batch.len() - BATCH_HEADER).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(BATCH_HEADER);
    out.extend(BATCH_MAGIC);
    out.extend([0; 4]);
    out.extend(body.to_le_bytes());
    out.extend([u8::from(header.kind == Kind::Index), 0, 0, 0]);
    out.extend(header.first.0.to_le_bytes());
    out.extend(header.synced.to_le_bytes());
    out.extend(header.time_ms.to_le_bytes());
    batch[..BATCH_HEADER].copy_from_slice(&out);
    let sum = segment_id.checksum(offset, &batch[8..]);
    batch[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Reads the batch at the start of `bytes`, which lie at `offset` of the segment: its header and body, or
/// `None` when it is incomplete.
pub(crate) fn open<'bytes>(
    bytes: &'bytes [u8],
    segment_id: &SegmentId,
    offset: u64,
) -> Option<(Header, &'bytes [u8])> {
    let mut reader = ByteReader::new(bytes);
    let magic: [u8; 4] = reader.array()?;
    let (sum, body) = (reader.u32()?, usize::try_from(reader.u32()?).ok()?);
    let kind: [u8; 4] = reader.array()?;
    let (first, synced, time_ms) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let body = reader.take(body)?;
    let whole = bytes.get(8..reader.at())?;
    let kind = match kind {
        [0, 0, 0, 0] => Kind::Records,
        [1, 0, 0, 0] => Kind::Index,
        _ => return None,
    };
    if magic != BATCH_MAGIC || sum != segment_id.checksum(offset, whole) {
        return None;
    }
    Some((Header { kind, first: RowId(first), synced, time_ms }, body))
}

/// Whether a valid batch after the invalid bytes at `from` says that the file had been synced beyond them:
/// then the bytes are damaged, and not the end of the log.
pub(crate) fn was_synced(bytes: &[u8], segment_id: &SegmentId, from: usize) -> bool {
    let tail = bytes.get(from + 1..).unwrap_or_default();
    tail.windows(BATCH_MAGIC.len()).enumerate().any(|(skip, window)| {
        let at = from + 1 + skip;
        window == BATCH_MAGIC
            && open(&bytes[at..], segment_id, at as u64)
                .is_some_and(|(header, _)| header.synced > from as u64)
    })
}

/// Where the index of a sealed segment lies, and how long its file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexLocation {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) file_len: u64,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{
        BATCH_HEADER, Header, KNOWN_FEATURES, Kind, LEASES, SEGMENT_HEADER, SegmentId, SegmentName,
        decode_segment_header, encode_segment_header, open, seal, was_synced,
    };
    use crate::Error;
    use crate::format::record::RowId;

    #[test]
    fn a_segment_with_features_that_are_unknown_or_not_the_queues_is_refused() {
        let segment_id = |features| SegmentId::active([5; 16], features, 3);
        let read = |written: u64, expected: u64| {
            let header = encode_segment_header(&segment_id(written), RowId(9));
            decode_segment_header(Path::new("s"), &header, &segment_id(expected))
        };
        for features in [0, KNOWN_FEATURES] {
            assert_eq!(read(features, features).unwrap(), RowId(9));
        }
        for bit in 0..64 {
            let unknown = KNOWN_FEATURES | 1 << bit;
            if unknown != KNOWN_FEATURES {
                let error = read(unknown, unknown).unwrap_err();
                assert!(matches!(&error, Error::Version { .. }), "{error}");
                assert!(error.to_string().contains(&format!("{:#x};", 1u64 << bit)), "{error}");
            }
        }
        assert!(matches!(read(KNOWN_FEATURES, 0), Err(Error::Corrupt { .. })));
        assert!(matches!(read(0, KNOWN_FEATURES), Err(Error::Corrupt { .. })));
        // The first lease came after this segment was begun.
        assert_eq!(read(KNOWN_FEATURES & !LEASES, KNOWN_FEATURES).unwrap(), RowId(9));
        assert!(matches!(read(LEASES, 0), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_segment_s_header_is_proven_bit_by_bit() {
        let segment_id = SegmentId::active([5; 16], 0, 3);
        let whole = encode_segment_header(&segment_id, RowId(9));
        let read = |bytes: &[u8], segment_id: &SegmentId| {
            decode_segment_header(Path::new("s"), bytes, segment_id).map_err(|error| error.to_string())
        };
        assert_eq!((whole.len(), read(&whole, &segment_id)), (SEGMENT_HEADER, Ok(RowId(9))));
        assert_eq!(read(&[&whole[..], b"a batch"].concat(), &segment_id), Ok(RowId(9)));
        for end in 0..whole.len() {
            assert!(read(&whole[..end], &segment_id).unwrap_err().contains("a truncated header"), "{end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let said = read(&bytes, &segment_id).unwrap_err();
            let expected = match bit / 8 {
                0..8 => "not a segment of a queue",
                8..10 => "segment of version ",
                _ => "a header with a wrong checksum",
            };
            assert!(said.contains(expected), "bit {bit}: {said}");
        }
        for other in [SegmentId::active([6; 16], 0, 3), SegmentId::active([5; 16], 0, 4)] {
            assert!(read(&whole, &other).unwrap_err().contains("the header of another segment"));
        }
    }

    #[test]
    fn a_segment_s_name_is_written_in_one_way() {
        let name = SegmentName { number: 0x1F, generation: 10 };
        assert_eq!(name.file(), "000000000000001f.a.seg");
        assert_eq!(SegmentName::parse(&name.file()), Some(name));
        for other in [
            "000000000000001F.a.seg",
            "00000000000001f.a.seg",
            "0000000000000001f.a.seg",
            "000000000000001f.0a.seg",
            "000000000000001f.a.seg.tmp",
            "000000000000001f.a",
            "000000000000001f.seg",
            "+00000000000001f.a.seg",
            "",
        ] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    /// A batch with this body, at this place of the segment.
    fn batch(segment_id: &SegmentId, offset: u64, synced: u64, body: &[u8]) -> Vec<u8> {
        let mut batch = [&[0; BATCH_HEADER], body].concat();
        let header = Header { kind: Kind::Records, first: RowId(7), synced, time_ms: 99 };
        seal(&mut batch, segment_id, offset, &header);
        batch
    }

    #[test]
    fn a_batch_is_whole_only_as_it_was_written_and_where() {
        let segment_id = SegmentId::active([5; 16], 0, 3);
        let whole = batch(&segment_id, 64, 40, b"rows");
        let (header, body) = open(&whole, &segment_id, 64).unwrap();
        let Header { kind, first, synced, time_ms } = header;
        assert_eq!((kind, first, synced, time_ms, body), (Kind::Records, RowId(7), 40, 99, &b"rows"[..]));
        assert_eq!(open(&[&whole[..], b"next"].concat(), &segment_id, 64).unwrap().1, b"rows");
        for end in 0..whole.len() {
            assert!(open(&whole[..end], &segment_id, 64).is_none(), "{end}");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&bytes, &segment_id, 64).is_none(), "bit {bit}");
        }
        assert!(open(&whole, &segment_id, 65).is_none(), "another place");
        let rewritten = SegmentName { number: 3, generation: 1 };
        for other in [
            SegmentId::active([6; 16], 0, 3),
            SegmentId::active([5; 16], 0, 4),
            SegmentId { name: rewritten, ..segment_id },
        ] {
            assert!(open(&whole, &other, 64).is_none(), "another segment");
        }
        let mut index = vec![0; BATCH_HEADER];
        seal(&mut index, &segment_id, 9, &Header { kind: Kind::Index, ..header });
        let (header, body) = open(&index, &segment_id, 9).unwrap();
        assert_eq!((header.kind, body), (Kind::Index, &b""[..]));
        // Kinds of later versions.
        for at in [12, 13, 15] {
            let mut bytes = whole.clone();
            bytes[at] = 2;
            let sum = segment_id.checksum(64, &bytes[8..]);
            bytes[4..8].copy_from_slice(&sum.to_le_bytes());
            assert!(open(&bytes, &segment_id, 64).is_none(), "{at}");
        }
    }

    /// The end of a log is torn after a crash; bytes that had been synced are damaged.
    #[test]
    fn a_batch_behind_says_whether_what_is_before_it_had_been_synced() {
        let segment_id = SegmentId::active([5; 16], 0, 3);
        let torn = b"torn";
        let with = |synced: u64| [&b"before"[..], torn, &batch(&segment_id, 10, synced, b"rows")].concat();
        for (synced, is_damage) in [(0, false), (6, false), (7, true), (10, true)] {
            assert_eq!(was_synced(&with(synced), &segment_id, 6), is_damage, "{synced}");
        }
        // What is invalid itself is not behind, and half a batch says nothing.
        let first = batch(&segment_id, 6, 50, b"rows");
        assert!(!was_synced(&[b"before", &first[..]].concat(), &segment_id, 6));
        let cut = with(10);
        assert!(!was_synced(&cut[..cut.len() - 1], &segment_id, 6));
        assert!(!was_synced(b"before", &segment_id, 6) && !was_synced(b"before", &segment_id, 5));
    }
}
