//! Records, and the batches in which they are stored.
//!
//! The format, which is that of Kafka 0.11 and later: <https://kafka.apache.org/documentation/#recordbatch>.

use std::io::Read;

use crate::kafka::snappy;
use crate::kafka::wire::{Reader, Writer};

/// The header of a record that says which row it is.
pub(crate) const ORIGIN: &str = "remora-origin";
/// The format of batches.
const MAGIC: i8 = 2;
/// Bits of a batch's attributes.
const COMPRESSION: i16 = 7;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
/// A batch is a message for its server, which takes a megabyte as a rule. Compressed zeros can be many more.
const UNPACKED_MAX: usize = 256 << 20;
/// The bytes of a batch before its length ends, and of a batch without records.
const LENGTH_END: usize = 12;

/// A record of a partition.
#[derive(Debug, Default, PartialEq)]
pub struct Record {
    /// Its partition.
    pub partition: i32,
    /// Its number in the partition, from 0.
    pub offset: i64,
    /// What it says; none in the record that says that a key is gone.
    pub body: Option<Vec<u8>>,
    /// Which row it is, if it was made of one.
    pub(crate) origin: Option<String>,
}

/// Who sends a batch, so that the server drops one that it has already.
#[derive(Clone, Copy)]
pub(crate) struct ProducerId {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    /// The number of the record among those that this one sends to the partition.
    pub(crate) sequence: i32,
}

/// A batch with one record. `time_ms` is since 1970.
pub(crate) fn batch(
    sender: ProducerId,
    time_ms: i64,
    origin: &str,
    [key, body]: [Option<&[u8]>; 2],
) -> Vec<u8> {
    let mut record = Writer::default();
    record.i8(0);
    record.varint(0);
    record.varint(0);
    record.part(key);
    record.part(body);
    record.varint(1);
    record.part(Some(ORIGIN.as_bytes()));
    record.part(Some(origin.as_bytes()));
    let mut summed = Writer::default();
    summed.i16(0);
    summed.i32(0);
    summed.i64(time_ms);
    summed.i64(time_ms);
    summed.i64(sender.id);
    summed.i16(sender.epoch);
    summed.i32(sender.sequence);
    summed.length(1);
    summed.part(Some(&record.0));
    sealed(0, &summed.0)
}

/// A batch that begins at this offset, of the part of it that has a checksum.
pub(crate) fn sealed(base: i64, summed: &[u8]) -> Vec<u8> {
    let mut rest = Writer::default();
    rest.i32(-1);
    rest.i8(MAGIC);
    rest.0.extend(sum(summed).to_be_bytes());
    rest.0.extend(summed);
    let mut batch = Writer::default();
    batch.i64(base);
    batch.bytes(&rest.0);
    batch.0
}

/// CRC-32C. Messages are few and short: that of the library would be as much code as all the rest of this
/// file.
fn sum(bytes: &[u8]) -> u32 {
    let next = |sum: u32, byte: &u8| SUMS[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8);
    !bytes.iter().fold(!0, next)
}

/// The sum of each byte.
static SUMS: [u32; 256] = {
    let mut sums = [0; 256];
    let (mut byte, mut number) = (0, 0);
    while byte < 256 {
        let (mut sum, mut bit) = (number, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        sums[byte] = sum;
        (byte, number) = (byte + 1, number + 1);
    }
    sums
};

/// Transactions that were aborted: who sent each, and the offset of its first record.
pub(crate) type Aborted = Vec<(i64, i64)>;

/// What a server sent of a partition.
pub(crate) struct Batches<'a> {
    pub(crate) partition: i32,
    /// The offset that was asked for. The first batch may begin before it.
    pub(crate) from: i64,
    pub(crate) bytes: &'a [u8],
    pub(crate) aborted: Aborted,
}

impl Batches<'_> {
    /// The records, without those of aborted transactions and without the marks where transactions end, and
    /// the offset behind them. The last batch may have been cut off.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the bytes, or why they can't be read.
    pub(crate) fn read(self) -> Result<(Vec<Record>, i64), &'static str> {
        let Batches { partition, from, mut bytes, mut aborted } = self;
        let (mut records, mut next, mut rolled_back) = (Vec::new(), from, Vec::new());
        while let Some(whole) = cut(&mut bytes)? {
            let batch = Batch::read(whole)?;
            if batch.last < from {
                continue;
            }
            aborted.retain(|&(sender, first)| {
                let begun = first <= batch.last;
                if begun {
                    rolled_back.push(sender);
                }
                !begun
            });
            next = batch.last.checked_add(1).ok_or(CORRUPT)?;
            if batch.attributes & CONTROL != 0 {
                if batch.ends_aborted()? {
                    rolled_back.retain(|sender| *sender != batch.sender);
                }
                continue;
            }
            if batch.attributes & TRANSACTIONAL != 0 && rolled_back.contains(&batch.sender) {
                continue;
            }
            batch.records(|record| {
                if record.offset >= from {
                    records.push(Record { partition, ..record });
                }
            })?;
        }
        Ok((records, next))
    }
}

const CORRUPT: &str = "a batch of records that is damaged";

/// The first batch of what arrived; none if it is not whole.
fn cut<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    let mut reader = Reader(bytes);
    let Some(length) = reader.i64().and_then(|_| reader.i32()) else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| CORRUPT)?;
    let Some((whole, rest)) = bytes.split_at_checked(LENGTH_END + length) else { return Ok(None) };
    *bytes = rest;
    Ok(Some(whole))
}

struct Batch<'a> {
    base: i64,
    /// The offset of its last record, also if that is gone by compaction.
    last: i64,
    attributes: i16,
    sender: i64,
    count: usize,
    packed: &'a [u8],
}

impl<'a> Batch<'a> {
    fn read(whole: &'a [u8]) -> Result<Batch<'a>, &'static str> {
        let mut reader = Reader(whole);
        let head = || -> Option<_> {
            let base = reader.i64()?;
            let _length = reader.i32()?;
            let _epoch = reader.i32()?;
            Some((base, reader.i8()?, reader.u32()?, reader))
        };
        let (base, magic, wanted, mut reader) = head().ok_or(CORRUPT)?;
        if magic != MAGIC {
            return Err("messages in the format before Kafka 0.11, which remora does not read");
        }
        if sum(reader.0) != wanted {
            return Err("a batch of records whose checksum is wrong");
        }
        let mut rest = || -> Option<Batch<'a>> {
            let attributes = reader.i16()?;
            let last = base.checked_add(i64::from(reader.i32()?))?;
            let _times = (reader.i64()?, reader.i64()?);
            let sender = reader.i64()?;
            let _sequence = (reader.i16()?, reader.i32()?);
            let count = reader.length()?;
            (base >= 0 && last >= base).then_some(Batch {
                base,
                last,
                attributes,
                sender,
                count,
                packed: reader.0,
            })
        };
        rest().ok_or(CORRUPT)
    }

    fn unpack(&self) -> Result<Vec<u8>, &'static str> {
        let unpacker: Box<dyn Read + 'a> = match self.attributes & COMPRESSION {
            0 => Box::new(self.packed),
            1 => Box::new(flate2::read::MultiGzDecoder::new(self.packed)),
            2 => return snappy::unpack(self.packed, UNPACKED_MAX).ok_or(CORRUPT),
            3 => Box::new(lz4_flex::frame::FrameDecoder::new(self.packed)),
            4 => Box::new(zstd::stream::read::Decoder::new(self.packed).map_err(|_| CORRUPT)?),
            _ => return Err("messages in a compression that remora does not know"),
        };
        let mut unpacked = Vec::new();
        unpacker.take(UNPACKED_MAX as u64 + 1).read_to_end(&mut unpacked).map_err(|_| CORRUPT)?;
        if unpacked.len() > UNPACKED_MAX {
            return Err("a batch of records of more than 256 MiB");
        }
        Ok(unpacked)
    }

    fn records(&self, mut found: impl FnMut(Record)) -> Result<(), &'static str> {
        let unpacked = self.unpack()?;
        let mut reader = Reader(&unpacked);
        for _ in 0..self.count {
            let record = reader.part().flatten().and_then(|bytes| record(self.base, bytes)).ok_or(CORRUPT)?;
            if record.offset > self.last {
                return Err(CORRUPT);
            }
            found(record);
        }
        Ok(())
    }

    /// Whether this mark ends a transaction that was aborted.
    fn ends_aborted(&self) -> Result<bool, &'static str> {
        let unpacked = self.unpack()?;
        let mut reader = Reader(&unpacked);
        let mut mark = || -> Option<i16> {
            let mut record = Reader(reader.part()??);
            record.i8()?;
            let _place = (record.varint()?, record.varint()?);
            let mut key = Reader(record.part()??);
            let _version = key.i16()?;
            key.i16()
        };
        // A log that was compacted has such batches without their record.
        Ok(self.count != 0 && mark().ok_or(CORRUPT)? == 0)
    }
}

/// A record of a batch that begins with this offset.
fn record(base: i64, bytes: &[u8]) -> Option<Record> {
    let mut reader = Reader(bytes);
    let _attributes = reader.i8()?;
    let _time = reader.varint()?;
    let offset = base.checked_add(reader.varint()?).filter(|offset| *offset >= base)?;
    let _key = reader.part()?;
    let body = reader.part()?.map(<[u8]>::to_vec);
    let mut origin = None;
    for _ in 0..reader.varint()? {
        let (name, value) = (reader.part()??, reader.part()?);
        if name == ORIGIN.as_bytes() {
            origin = value.and_then(|value| String::from_utf8(value.to_vec()).ok());
        }
    }
    Some(Record { partition: 0, offset, body, origin })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Aborted, Batches, ProducerId, Record, batch, sealed, sum};
    use crate::kafka::wire::Writer;

    fn read(from: i64, bytes: &[u8], aborted: Aborted) -> Result<(Vec<i64>, i64), &'static str> {
        let (records, next) = Batches { partition: 3, from, bytes, aborted }.read()?;
        Ok((records.iter().map(|record| record.offset).collect(), next))
    }

    /// A batch of this sender at this offset, with attributes and records that are packed already.
    fn made(base: i64, attributes: i16, sender: i64, (count, packed): (i32, &[u8])) -> Vec<u8> {
        let mut summed = Writer::default();
        summed.i16(attributes);
        summed.i32(count - 1);
        summed.0.extend([0; 16]);
        summed.i64(sender);
        summed.0.extend([0; 6]);
        summed.i32(count);
        summed.0.extend(packed);
        sealed(base, &summed.0)
    }

    fn records(bodies: &[&str]) -> Vec<u8> {
        let mut all = Writer::default();
        for (delta, body) in (0..).zip(bodies) {
            let mut record = Writer(vec![0, 0]);
            record.varint(delta);
            record.part(None);
            record.part(Some(body.as_bytes()));
            record.varint(0);
            all.part(Some(&record.0));
        }
        all.0
    }

    /// The mark that ends a transaction: 0 aborts it, 1 commits it.
    fn mark(base: i64, sender: i64, kind: u8) -> Vec<u8> {
        let mut record = Writer(vec![0, 0, 0]);
        record.part(Some(&[0, 0, 0, kind]));
        record.part(Some(&[0; 6]));
        record.varint(0);
        let mut packed = Writer::default();
        packed.part(Some(&record.0));
        made(base, 0x30, sender, (1, &packed.0))
    }

    #[test]
    fn a_batch_that_is_written_is_read() {
        let sender = ProducerId { id: 7, epoch: 1, sequence: 9 };
        let bytes = batch(sender, 1_795_643_050_000, "abc:1", [Some(b"k"), Some(b"{}")]);
        let batches = Batches { partition: 3, from: 0, bytes: &bytes, aborted: Vec::new() };
        let record =
            Record { partition: 3, offset: 0, body: Some(b"{}".to_vec()), origin: Some("abc:1".to_owned()) };
        assert_eq!(batches.read(), Ok((vec![record], 1)));
        // Cut off anywhere, it is not there yet; changed anywhere behind the leader's epoch, it is refused.
        for length in 0..bytes.len() {
            assert_eq!(read(0, &bytes[..length], Vec::new()), Ok((Vec::new(), 0)));
        }
        for at in 16..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read(0, &damaged, Vec::new()).is_err(), "{at}");
        }
    }

    #[test]
    fn the_sum_is_that_of_castagnoli() {
        assert_eq!(sum(b"123456789"), 0xe306_9283);
    }

    /// What stands before up to 60 bytes that are not compressed.
    fn snappy_head(length: usize) -> [u8; 2] {
        let length = u8::try_from(length).unwrap();
        [length, (length - 1) << 2]
    }

    #[test]
    fn compressed_batches_are_read() {
        let plain = records(&["one", "two", "three"]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&plain).unwrap();
        let packed = [
            plain.clone(),
            gzip.finish().unwrap(),
            [&snappy_head(plain.len())[..], &plain].concat(),
            lz4.finish().unwrap(),
            zstd::encode_all(&plain[..], 1).unwrap(),
            Vec::new(),
        ];
        for (kind, packed) in (0..).zip(&packed) {
            let batch = made(40, kind, -1, (3, packed));
            let found = read(41, &batch, Vec::new());
            match kind {
                5 => assert!(found.unwrap_err().contains("does not know")),
                _ => assert_eq!(found, Ok((vec![41, 42], 43)), "{kind}"),
            }
        }
    }

    #[test]
    fn only_what_was_committed_is_read() {
        let two = records(&["a", "b"]);
        let bytes = [
            made(10, 0x10, 1, (2, &two)),
            made(12, 0x10, 2, (2, &two)),
            made(14, 0, -1, (2, &two)),
            mark(16, 1, 0),
            mark(17, 2, 1),
            made(18, 0x10, 1, (2, &two)),
            mark(20, 1, 1),
        ]
        .concat();
        assert_eq!(read(10, &bytes, vec![(1, 10)]), Ok((vec![12, 13, 14, 15, 18, 19], 21)));
        // The same sender aborts twice; the second one begins behind what was read first.
        assert_eq!(read(10, &bytes, vec![(1, 10), (1, 18)]), Ok((vec![12, 13, 14, 15], 21)));
        assert_eq!(read(15, &bytes, vec![(1, 10)]), Ok((vec![15, 18, 19], 21)));
    }

    #[test]
    fn other_formats_are_refused() {
        let mut old = made(0, 0, -1, (1, &records(&["a"])));
        old[16] = 1;
        assert!(read(0, &old, Vec::new()).unwrap_err().contains("0.11"));
        // More records than it has, and offsets behind its end.
        assert!(read(0, &made(0, 0, -1, (2, &records(&["a"]))), Vec::new()).is_err());
        assert!(read(0, &made(i64::MAX, 0, -1, (1, &records(&["a"]))), Vec::new()).is_err());
        assert!(read(0, &made(0, 0, -1, (0, &[])), Vec::new()).is_err());
    }
}
