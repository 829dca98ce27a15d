//! The checkpoint: the queue's definition, its segments, and the live rows at a position of the log.

use std::io::{self, Read, Write};
use std::path::Path;

use disk::{Disk, Output};

use crate::Error;
use crate::format::batch::IndexLocation;
use crate::format::batch::{Incarnation, KNOWN_FEATURES, SegmentName};
use crate::format::dedupe::{DEDUPE, Dedupe, DedupeEntry, decode_dedupe_entries, encode_dedupe_entries};
use crate::format::delivery_rate::{DeliveryRate, RATE};
use crate::format::lease_record::{LEASES, Leases};
use crate::format::order::{DUE, Order};
use crate::format::origin::Journal;
use crate::format::paused_keys::PAUSED_KEYS;
use crate::format::readers::{READERS, RowIdSet, decode_ended, decode_names, encode_ended, encode_names};
use crate::format::record::RowId;
use crate::format::retention::{KEEP, RetainedRun, decode_kept, encode_kept};
use crate::format::retry_policy::{FailureInfo, POLICIES, RetryPolicy, decode_failures, encode_failures};
use crate::format::transaction::{TRANSACTIONS, Transactions};
use crate::format::wire::{ByteReader, checksum, put_varint};

/// Its name in the queue's folder.
pub(crate) const FILE: &str = "checkpoint";

/// The file beside it in the folder of a queue that is paused. It is empty.
pub(crate) const PAUSED: &str = "paused";

const MAGIC: [u8; 8] = *b"RMQCHECK";
const VERSION: u16 = 1;

/// Bytes before those that the checksum covers.
const PREFIX: usize = 16;

/// What is durable when an INSERT or an acknowledgement returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Everything: a power failure loses nothing that has returned.
    #[default]
    Always,
    /// Nothing: a power failure loses up to a second; a crash of the server loses nothing.
    Interval,
    /// Nothing: a power failure loses the end of the log; a crash of the server loses nothing.
    Never,
}

/// The definition of a queue, fixed when it is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// When rows become durable.
    pub sync: Sync,
    /// The encoded row layout, for conditions; the log does not interpret it.
    pub schema: Vec<u8>,
    /// Whether the queue takes part in two-phase transactions.
    pub transactional: bool,
    /// Retries and the dead letter queue.
    pub policy: RetryPolicy,
    /// Which columns decide when a row is delivered.
    pub order: Order,
    /// Which duplicate rows are discarded.
    pub dedupe: Option<Dedupe>,
    /// How long acknowledged rows are kept and can be replayed, in milliseconds; 0 for not at all.
    pub keep_ms: u64,
    /// How many rows may be given within a time; none: as many as are taken.
    pub rate: Option<DeliveryRate>,
    /// The readers, each of which gets every row; none: each row is delivered once.
    pub readers: Vec<String>,
}

impl Definition {
    /// Whether acknowledged rows are kept.
    #[must_use]
    pub fn is_keeping(&self) -> bool {
        self.keep_ms > 0
    }

    /// The number of the reader with this name.
    ///
    /// # Errors
    /// [`Error::Reader`] when there is none.
    pub fn reader(&self, name: &str) -> Result<usize, Error> {
        let found = self.readers.iter().position(|reader| reader == name);
        found.ok_or_else(|| self.wrong_reader(name))
    }

    /// Returns an error when the queue has readers and none is named, or the other way round.
    pub(crate) fn check_reader(&self, reader: Option<usize>) -> Result<(), Error> {
        match reader {
            None if self.readers.is_empty() => Ok(()),
            Some(reader) if reader < self.readers.len() => Ok(()),
            _ => Err(self.wrong_reader("")),
        }
    }

    fn wrong_reader(&self, name: &str) -> Error {
        Error::Reader { name: name.to_owned(), readers: self.readers.join(", ") }
    }

    /// The feature flags that a reader of the queue's files must know because of its definition.
    pub(crate) fn features(&self) -> u64 {
        let transactions = if self.transactional { TRANSACTIONS } else { 0 };
        let dedupe = if self.dedupe.is_some() { DEDUPE } else { 0 };
        let keep = if self.is_keeping() { KEEP } else { 0 };
        let readers = if self.readers.is_empty() { 0 } else { READERS };
        let rate = if self.rate.is_some() { RATE } else { 0 };
        transactions | self.policy.features() | self.order.features() | dedupe | keep | readers | rate
    }
}

/// A sealed segment, as the checkpoint lists it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckpointSegment {
    pub(crate) name: SegmentName,
    pub(crate) stored: IndexLocation,
    pub(crate) live_bytes: u64,
    pub(crate) oldest_ms: u64,
    /// `(first, count)`: ids that are not gone, and perhaps some that never existed.
    pub(crate) runs: Vec<(u64, u64)>,
    pub(crate) live: u64,
    /// Whether rows of it are due later; only in queues whose rows say when they are due.
    pub(crate) scheduled: bool,
    /// How many of its rows were ended and are kept; they count as live.
    pub(crate) kept: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) incarnation: Incarnation,
    pub(crate) replay_from: u64,
    pub(crate) next: RowId,
    pub(crate) definition: Definition,
    pub(crate) segments: Vec<CheckpointSegment>,
    pub(crate) journal: Journal,
    pub(crate) transactions: Transactions,
    pub(crate) leases: Leases,
    /// What is known of rows besides, in their order.
    pub(crate) failures: Vec<(RowId, FailureInfo)>,
    /// Keys of rows that came a short time ago.
    pub(crate) dedupe_entries: Vec<DedupeEntry>,
    /// Rows that were ended and are kept, in the order in which they were ended.
    pub(crate) kept: Vec<RetainedRun>,
    /// For each reader: the rows that it has ended, and another one has not.
    pub(crate) ended: Vec<RowIdSet>,
}

impl Checkpoint {
    /// The checkpoint of an empty queue whose log begins with this segment.
    pub(crate) fn first(incarnation: Incarnation, segment: u64, definition: Definition) -> Checkpoint {
        let ended = vec![RowIdSet::default(); definition.readers.len()];
        Checkpoint {
            incarnation,
            replay_from: segment,
            next: RowId(1),
            definition,
            segments: Vec::new(),
            journal: Journal::default(),
            transactions: Transactions::default(),
            leases: Leases::default(),
            failures: Vec::new(),
            dedupe_entries: Vec::new(),
            kept: Vec::new(),
            ended,
        }
    }

    /// The feature flags that a reader of the queue's files must know.
    pub(crate) fn features(&self) -> u64 {
        self.definition.features() | self.leases.features()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend(self.features().to_le_bytes());
        body.extend(0u64.to_le_bytes());
        body.extend(self.incarnation);
        put_varint(&mut body, self.replay_from);
        put_varint(&mut body, self.next.0);
        body.push(match self.definition.sync {
            Sync::Always => 0,
            Sync::Interval => 1,
            Sync::Never => 2,
        });
        put_varint(&mut body, self.definition.schema.len() as u64);
        body.extend(&self.definition.schema);
        put_varint(&mut body, self.segments.len() as u64);
        self.segments.iter().for_each(|listed| listed.encode(&mut body, self.features()));
        self.journal.encode(&mut body);
        if self.definition.transactional {
            self.transactions.encode(&mut body);
        }
        if self.features() & (LEASES | POLICIES) != 0 {
            self.leases.encode(&mut body);
        }
        if self.definition.policy.is_set() {
            self.definition.policy.encode(&mut body);
            encode_failures(&self.failures, &mut body);
        }
        self.definition.order.encode(&mut body);
        if let Some(dedupe) = self.definition.dedupe {
            dedupe.encode(&mut body);
            encode_dedupe_entries(&self.dedupe_entries, &mut body);
        }
        if self.definition.is_keeping() {
            put_varint(&mut body, self.definition.keep_ms);
            encode_kept(&self.kept, &mut body);
        }
        if !self.definition.readers.is_empty() {
            encode_names(&self.definition.readers, &mut body);
            self.ended.iter().for_each(|ended| encode_ended(ended, &mut body));
        }
        if let Some(rate) = self.definition.rate {
            rate.encode(&mut body);
        }
        let mut out = Vec::with_capacity(PREFIX + body.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0, 0]);
        out.extend(checksum(&[&body]).to_le_bytes());
        out.extend(body);
        out
    }

    /// Decodes the file; `file` is for messages.
    pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<Checkpoint, Error> {
        let corrupt = |what: &str| Error::Corrupt { file: file.to_owned(), what: what.to_owned(), offset: 0 };
        let version = |what: String| Error::Version { file: file.to_owned(), what };
        let mut reader = ByteReader::new(bytes);
        if reader.array() != Some(MAGIC) {
            return Err(corrupt("no checkpoint of a queue"));
        }
        let format = reader.u16().ok_or_else(|| corrupt("a checkpoint that is cut short"))?;
        if format != VERSION {
            return Err(version(format!("checkpoint of version {format}")));
        }
        let zero = reader.u16();
        let sum = reader.u32();
        let body = reader.rest();
        if sum != Some(checksum(&[body])) || zero != Some(0) {
            return Err(corrupt("a checkpoint with a wrong checksum"));
        }
        let mut reader = ByteReader::new(body);
        let features = reader.u64().ok_or_else(|| corrupt("a checkpoint that is cut short"))?;
        let unknown = features & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(version(format!("checkpoint with the unknown features {unknown:#x}")));
        }
        let decoded = Self::decode_body(&mut reader, features).filter(|_| reader.is_empty());
        decoded.ok_or_else(|| corrupt("a checkpoint that is no checkpoint"))
    }

    fn decode_body(reader: &mut ByteReader<'_>, features: u64) -> Option<Checkpoint> {
        reader.u64()?;
        let incarnation = reader.array()?;
        let (replay_from, next) = (reader.varint()?, RowId(reader.varint()?));
        let sync = match reader.u8()? {
            0 => Sync::Always,
            1 => Sync::Interval,
            2 => Sync::Never,
            _ => return None,
        };
        let len = reader.count()?;
        let schema = reader.take(len)?.to_vec();
        let mut segments = Vec::new();
        for _ in 0..reader.varint()? {
            segments.push(CheckpointSegment::decode(reader, features)?);
        }
        let journal = Journal::decode(reader)?;
        let transactional = features & TRANSACTIONS != 0;
        let transactions =
            if transactional { Transactions::decode(reader)? } else { Transactions::default() };
        let known = features & (LEASES | POLICIES) != 0;
        let leases = if known { Leases::decode(reader, features)? } else { Leases::default() };
        let (mut policy, mut failures) = (RetryPolicy::default(), Vec::new());
        if features & POLICIES != 0 {
            (policy, failures) = (RetryPolicy::decode(reader)?, decode_failures(reader)?);
        }
        let order = Order::decode(reader, features)?;
        let (mut dedupe, mut dedupe_entries) = (None, Vec::new());
        if features & DEDUPE != 0 {
            (dedupe, dedupe_entries) = (Some(Dedupe::decode(reader)?), decode_dedupe_entries(reader)?);
        }
        let (mut keep_ms, mut kept) = (0, Vec::new());
        if features & KEEP != 0 {
            keep_ms = reader.varint().filter(|keep_ms| *keep_ms > 0)?;
            kept = decode_kept(reader)?;
        }
        let (mut readers, mut ended) = (Vec::new(), Vec::new());
        if features & READERS != 0 {
            readers = decode_names(reader)?;
            ended = readers.iter().map(|_| decode_ended(reader)).collect::<Option<_>>()?;
        }
        let rate = if features & RATE != 0 { Some(DeliveryRate::decode(reader)?) } else { None };
        let definition =
            Definition { sync, schema, transactional, policy, order, dedupe, keep_ms, rate, readers };
        Some(Checkpoint {
            incarnation,
            replay_from,
            next,
            definition,
            segments,
            journal,
            transactions,
            leases,
            failures,
            dedupe_entries,
            kept,
            ended,
        })
    }

    /// Replaces the checkpoint in a folder.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        self.begin(disk, folder)?.finish()
    }

    /// Writes a new checkpoint beside the one in a folder, and replaces that one when it is finished.
    pub(crate) fn begin<'disk>(&self, disk: &'disk dyn Disk, folder: &Path) -> io::Result<Output<'disk>> {
        let mut output = Output::create(disk, &folder.join(FILE))?;
        output.write_all(&self.encode())?;
        Ok(output)
    }

    /// Reads the checkpoint in a folder.
    pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Checkpoint, Error> {
        let file = folder.join(FILE);
        let mut source = match disk.open(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Missing { folder: folder.to_owned() });
            }
            other => other.map_err(Error::disk(&file))?,
        };
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).map_err(Error::disk(&file))?;
        Checkpoint::decode(&file, &bytes)
    }
}

/// Whether a queue makes files of this name.
pub(crate) fn is_ours(name: &Path) -> bool {
    let name = name.to_string_lossy();
    let name = name.trim_end_matches(".partial");
    SegmentName::parse(name).is_some() || is_fixed(name)
}

/// Whether a queue has one file of this name, which it replaces or removes by itself.
pub(crate) fn is_fixed(name: &str) -> bool {
    [FILE, PAUSED, PAUSED_KEYS].contains(&name)
}

impl CheckpointSegment {
    fn encode(&self, out: &mut Vec<u8>, features: u64) {
        put_varint(out, self.name.number);
        put_varint(out, u64::from(self.name.generation));
        put_varint(out, self.stored.file_len);
        put_varint(out, self.stored.offset);
        put_varint(out, self.stored.len);
        let first = self.runs.first().map_or(0, |(first, _)| *first);
        put_varint(out, first);
        put_varint(out, self.live);
        put_varint(out, self.live_bytes);
        put_varint(out, self.oldest_ms);
        put_varint(out, self.runs.len() as u64);
        let mut end = first;
        for (first, count) in &self.runs {
            put_varint(out, first - end);
            put_varint(out, *count);
            end = first + count;
        }
        if features & DUE != 0 {
            out.push(u8::from(self.scheduled));
        }
        if features & KEEP != 0 {
            put_varint(out, self.kept);
        }
    }

    fn decode(reader: &mut ByteReader<'_>, features: u64) -> Option<CheckpointSegment> {
        let number = reader.varint()?;
        let generation = u32::try_from(reader.varint()?).ok()?;
        let (file_len, offset, len) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let mut end = reader.varint()?;
        let (live, live_bytes, oldest_ms) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let mut runs = Vec::new();
        for _ in 0..reader.varint()? {
            let first = end.checked_add(reader.varint()?)?;
            let count = reader.varint()?;
            end = first.checked_add(count)?;
            runs.push((first, count));
        }
        let scheduled = match if features & DUE == 0 { 0 } else { reader.u8()? } {
            0 => false,
            1 => true,
            _ => return None,
        };
        let kept = if features & KEEP == 0 { 0 } else { reader.varint()? };
        if kept > live {
            return None;
        }
        let (name, stored) = (SegmentName { number, generation }, IndexLocation { offset, len, file_len });
        Some(CheckpointSegment { name, stored, live_bytes, oldest_ms, runs, live, scheduled, kept })
    }
}

#[cfg(test)]
mod tests;
