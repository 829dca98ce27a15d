//! Requests to servers of Kafka, and their answers.
//!
//! Each is of one version: the oldest that has what is needed, without the newer forms of fields. All of them
//! are known from Kafka 2.8 on, which gives topics ids. The format: <https://kafka.apache.org/protocol>.

use crate::kafka::record::{Aborted, Batches};
use crate::kafka::wire::{Reader, Writer};

/// A kind of request, and its version.
pub(crate) struct Kind {
    pub(crate) key: i16,
    pub(crate) version: i16,
    /// Whether its header has the newer form.
    pub(crate) flexible: bool,
}

const fn kind(key: i16, version: i16) -> Kind {
    Kind { key, version, flexible: false }
}

pub(crate) const PRODUCE: Kind = kind(0, 8);
pub(crate) const FETCH: Kind = kind(1, 10);
pub(crate) const OFFSETS: Kind = kind(2, 2);
pub(crate) const METADATA: Kind = Kind { key: 3, version: 10, flexible: true };
pub(crate) const COMMIT: Kind = kind(8, 5);
pub(crate) const COMMITTED: Kind = kind(9, 2);
pub(crate) const COORDINATOR: Kind = kind(10, 1);
pub(crate) const HANDSHAKE: Kind = kind(17, 1);
pub(crate) const AUTHENTICATE: Kind = kind(36, 0);
pub(crate) const INIT_PRODUCER_ID: Kind = kind(22, 1);
/// The versions that a server knows of each kind.
pub(crate) const VERSIONS: Kind = kind(18, 0);
/// Those that a server must know.
pub(crate) const NEEDED: [Kind; 5] = [PRODUCE, FETCH, OFFSETS, METADATA, INIT_PRODUCER_ID];

/// How much of a partition, and of all, is fetched at once. A larger batch comes whole.
const FETCHED: i32 = 1 << 20;
const FETCHED_IN_ALL: i32 = 8 << 20;

/// The kinds, with the lowest and the highest version.
pub(crate) fn versions(answer: &[u8]) -> Option<(i16, Vec<[i16; 3]>)> {
    let mut reader = Reader(answer);
    let error = reader.i16()?;
    let count = reader.length()?;
    let mut kind = || Some([reader.i16()?, reader.i16()?, reader.i16()?]);
    let kinds = (0..count).map(|_| kind()).collect::<Option<_>>()?;
    Some((error, kinds))
}

pub(crate) fn metadata_request(topic: &str) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.uvarint(2);
    asked.0.extend([0; 16]);
    asked.uvarint(topic.len() as u64 + 1);
    asked.0.extend(topic.as_bytes());
    // No fields of newer servers; the topic is not made; no rights are listed; no such fields again.
    asked.0.extend([0, 0, 0, 0, 0]);
    asked.0
}

/// A partition, and the server that leads it: a negative number if none does.
pub(crate) struct Partition {
    pub(crate) index: i32,
    pub(crate) leader: i32,
}

/// What a server knows of the cluster and of a topic.
pub(crate) struct Metadata {
    pub(crate) servers: Vec<(i32, String, u16)>,
    pub(crate) error: i16,
    pub(crate) id: [u8; 16],
    pub(crate) partitions: Vec<Partition>,
}

impl Metadata {
    pub(crate) fn read(answer: &[u8]) -> Option<Metadata> {
        let mut reader = Reader(answer);
        let _throttled = reader.i32()?;
        let mut servers = Vec::new();
        for _ in 0..reader.compact()? {
            let (id, host, port) = (reader.i32()?, reader.compact_text()?, reader.i32()?);
            let _rack = reader.compact_text()?;
            reader.tags()?;
            servers.push((id, host, u16::try_from(port).ok()?));
        }
        let _cluster = (reader.compact_text()?, reader.i32()?);
        let _topics = reader.compact().filter(|topics| *topics == 1)?;
        let (error, _name, id, _internal) =
            (reader.i16()?, reader.compact_text()?, reader.uuid()?, reader.i8()?);
        let mut partitions = Vec::new();
        for _ in 0..reader.compact()? {
            // Its error also says that a replica is away.
            let (_error, index, leader, _epoch) =
                (reader.i16()?, reader.i32()?, reader.i32()?, reader.i32()?);
            for _list in ["replicas", "in sync", "offline"] {
                for _ in 0..reader.compact()? {
                    reader.i32()?;
                }
            }
            reader.tags()?;
            partitions.push(Partition { index, leader });
        }
        Some(Metadata { servers, error, id, partitions })
    }
}

/// Asks for a number by which servers know the batches of a producer.
pub(crate) fn init_producer_id_request() -> Vec<u8> {
    let mut asked = Writer::default();
    // No transactions, and so no time limit for them.
    asked.i16(-1);
    asked.i32(0);
    asked.0
}

/// An error, the number, and its epoch.
pub(crate) fn sender(answer: &[u8]) -> Option<(i16, i64, i16)> {
    let mut reader = Reader(answer);
    let _throttled = reader.i32()?;
    Some((reader.i16()?, reader.i64()?, reader.i16()?))
}

/// Sends a batch. The answer comes when all replicas that are in sync have it.
pub(crate) fn produce(topic: &str, partition: i32, limit_ms: i32, batch: &[u8]) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.i16(-1);
    asked.i16(-1);
    asked.i32(limit_ms);
    one_topic(&mut asked, topic, 1);
    asked.i32(partition);
    asked.bytes(batch);
    asked.0
}

/// An error, the offset that a batch has got, and what is wrong with it.
pub(crate) fn produced(answer: &[u8]) -> Option<(i16, i64, String)> {
    let mut reader = Reader(answer);
    only_topic(&mut reader)?;
    let (_index, error, offset) = (reader.i32()?, reader.i16()?, reader.i64()?);
    let _times = (reader.i64()?, reader.i64()?);
    let mut why = String::new();
    for _ in 0..reader.length()? {
        let _number = reader.i32()?;
        why = reader.text()?;
    }
    let whole = reader.text()?;
    Some((error, offset, if why.is_empty() { whole } else { why }))
}

/// The first or the last offset of a partition.
#[derive(Clone, Copy)]
pub(crate) enum OffsetAt {
    Earliest = -2,
    /// The one that the next record will have.
    Latest = -1,
}

pub(crate) fn list_offsets_request(topic: &str, partitions: &[i32], end: OffsetAt) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.i32(-1);
    asked.i8(0);
    one_topic(&mut asked, topic, partitions.len());
    for partition in partitions {
        asked.i32(*partition);
        asked.i64(end as i64);
    }
    asked.0
}

/// Partitions, errors and offsets.
pub(crate) fn offsets(answer: &[u8]) -> Option<Vec<(i32, i16, i64)>> {
    let mut reader = Reader(answer);
    let _throttled = reader.i32()?;
    let count = only_topic(&mut reader)?;
    let mut partition = || {
        let (index, error, _time) = (reader.i32()?, reader.i16()?, reader.i64()?);
        Some((index, error, reader.i64()?))
    };
    (0..count).map(|_| partition()).collect()
}

/// Which records of a topic are asked for.
pub(crate) struct FetchRequest<'a> {
    pub(crate) topic: &'a str,
    /// Partitions, and the offsets from which on.
    pub(crate) from: &'a [(i32, i64)],
    /// Without those of transactions that are not committed.
    pub(crate) committed: bool,
    /// How long the server waits for the first one.
    pub(crate) wait_ms: i32,
}

pub(crate) fn fetch_request(wanted: &FetchRequest<'_>) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.i32(-1);
    asked.i32(wanted.wait_ms);
    asked.i32(1);
    asked.i32(FETCHED_IN_ALL);
    asked.i8(i8::from(wanted.committed));
    // No session: each request says all.
    asked.i32(0);
    asked.i32(-1);
    one_topic(&mut asked, wanted.topic, wanted.from.len());
    for (partition, offset) in wanted.from {
        asked.i32(*partition);
        asked.i32(-1);
        asked.i64(*offset);
        asked.i64(-1);
        asked.i32(FETCHED);
    }
    asked.length(0);
    asked.0
}

/// The result for a partition.
pub(crate) struct Fetched<'a> {
    pub(crate) partition: i32,
    pub(crate) error: i16,
    /// The offset up to which all replicas have records.
    pub(crate) high: i64,
    /// The one up to which no transaction is open.
    pub(crate) stable: i64,
    aborted: Aborted,
    bytes: &'a [u8],
}

impl<'a> Fetched<'a> {
    /// The records, from the offset on that was asked for.
    pub(crate) fn batches(self, from: i64) -> Batches<'a> {
        let Fetched { partition, aborted, bytes, .. } = self;
        Batches { partition, from, bytes, aborted }
    }
}

/// An error of all, and the result for each partition.
pub(crate) fn fetched(answer: &[u8]) -> Option<(i16, Vec<Fetched<'_>>)> {
    let mut reader = Reader(answer);
    let _throttled = reader.i32()?;
    let error = reader.i16()?;
    let _session = reader.i32()?;
    let mut all = Vec::new();
    for _ in 0..reader.length()? {
        let _topic = reader.text()?;
        for _ in 0..reader.length()? {
            let (partition, error) = (reader.i32()?, reader.i16()?);
            let (high, stable, _start) = (reader.i64()?, reader.i64()?, reader.i64()?);
            let count = reader.length()?;
            let mut transaction = || Some((reader.i64()?, reader.i64()?));
            let aborted = (0..count).map(|_| transaction()).collect::<Option<Aborted>>()?;
            let bytes = reader.bytes()?;
            all.push(Fetched { partition, error, high, stable, aborted, bytes });
        }
    }
    Some((error, all))
}

/// Asks which server knows how far a group has come.
pub(crate) fn find_coordinator_request(group: &str) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.text(group);
    asked.i8(0);
    asked.0
}

/// An error, and the server.
pub(crate) fn coordinator(answer: &[u8]) -> Option<(i16, i32)> {
    let mut reader = Reader(answer);
    let _throttled = reader.i32()?;
    let (error, _why) = (reader.i16()?, reader.text()?);
    Some((error, reader.i32()?))
}

pub(crate) fn offset_fetch_request(group: &str, topic: &str, partitions: &[i32]) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.text(group);
    one_topic(&mut asked, topic, partitions.len());
    partitions.iter().for_each(|partition| asked.i32(*partition));
    asked.0
}

/// What is known of a group in a partition.
#[derive(Clone, Default)]
pub(crate) struct Committed {
    pub(crate) partition: i32,
    pub(crate) error: i16,
    /// The offset that it has come to, or a negative number.
    pub(crate) offset: i64,
    /// What was noted with it.
    pub(crate) note: String,
}

/// How far a group has come in each partition.
pub(crate) fn committed(answer: &[u8]) -> Option<Vec<Committed>> {
    let mut reader = Reader(answer);
    let mut all = Vec::new();
    for _ in 0..reader.length()? {
        let _topic = reader.text()?;
        for _ in 0..reader.length()? {
            let (partition, offset, note) = (reader.i32()?, reader.i64()?, reader.text()?);
            all.push(Committed { partition, error: reader.i16()?, offset, note });
        }
    }
    match reader.i16()? {
        0 => Some(all),
        error => Some(vec![Committed { error, ..Committed::default() }]),
    }
}

/// Tells how far a group has come, which has no members, with a note for each partition.
pub(crate) fn commit(group: &str, topic: &str, done: &[(i32, i64)], note: &str) -> Vec<u8> {
    let mut asked = Writer::default();
    asked.text(group);
    asked.i32(-1);
    asked.text("");
    one_topic(&mut asked, topic, done.len());
    for (partition, offset) in done {
        asked.i32(*partition);
        asked.i64(*offset);
        asked.text(note);
    }
    asked.0
}

/// The errors of the partitions.
pub(crate) fn commit_errors(answer: &[u8]) -> Option<Vec<i16>> {
    let mut reader = Reader(answer);
    let _throttled = reader.i32()?;
    let count = only_topic(&mut reader)?;
    let mut error = || {
        let _partition = reader.i32()?;
        reader.i16()
    };
    (0..count).map(|_| error()).collect()
}

/// An error, and the mechanisms of login that a server knows.
pub(crate) fn mechanisms(answer: &[u8]) -> Option<(i16, Vec<String>)> {
    let mut reader = Reader(answer);
    let error = reader.i16()?;
    let count = reader.length()?;
    let names = (0..count).map(|_| reader.text()).collect::<Option<_>>()?;
    Some((error, names))
}

/// An error, its words, and what the server says in a login.
pub(crate) fn authenticated(answer: &[u8]) -> Option<(i16, String, &[u8])> {
    let mut reader = Reader(answer);
    Some((reader.i16()?, reader.text()?, reader.bytes()?))
}

/// Begins a list of topics with the only one, and the list of its partitions.
fn one_topic(asked: &mut Writer, topic: &str, partitions: usize) {
    asked.length(1);
    asked.text(topic);
    asked.length(partitions);
}

/// The same of an answer: how many partitions follow.
fn only_topic(reader: &mut Reader<'_>) -> Option<usize> {
    let _topics = reader.length().filter(|topics| *topics == 1)?;
    let _name = reader.text()?;
    reader.length()
}

/// What can be done about an error.
pub(crate) struct ErrorInfo {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether the request may succeed some time later.
    pub(crate) is_transient: bool,
    /// What to do, or nothing more.
    pub(crate) advice: &'static str,
}

/// The errors: <https://kafka.apache.org/protocol#protocol_error_codes>.
pub(crate) fn error_info(error: i16) -> ErrorInfo {
    let (name, is_transient, advice) = match error {
        1 => ("OFFSET_OUT_OF_RANGE", false, ""),
        2 => ("CORRUPT_MESSAGE", true, ""),
        3 => ("UNKNOWN_TOPIC_OR_PARTITION", true, ""),
        5 => ("LEADER_NOT_AVAILABLE", true, ""),
        6 => ("NOT_LEADER_OR_FOLLOWER", true, ""),
        7 => ("REQUEST_TIMED_OUT", true, ""),
        8 => ("BROKER_NOT_AVAILABLE", true, ""),
        9 => ("REPLICA_NOT_AVAILABLE", true, ""),
        10 => ("MESSAGE_TOO_LARGE", false, ": a higher max.message.bytes of the topic lets it in"),
        13 => ("NETWORK_EXCEPTION", true, ""),
        14 => ("COORDINATOR_LOAD_IN_PROGRESS", true, ""),
        15 => ("COORDINATOR_NOT_AVAILABLE", true, ""),
        16 => ("NOT_COORDINATOR", true, ""),
        17 => ("INVALID_TOPIC_EXCEPTION", false, ""),
        18 => ("RECORD_LIST_TOO_LARGE", false, ": a higher segment.bytes of the topic lets it in"),
        19 => ("NOT_ENOUGH_REPLICAS", true, ": fewer are in sync than min.insync.replicas asks for"),
        20 => ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", true, ""),
        22 | 25 | 27 => (
            "the group has members",
            false,
            ": another program reads under this name; take another one with --consumer",
        ),
        29 => (
            "TOPIC_AUTHORIZATION_FAILED",
            false,
            ": the user needs READ on the topic, and to send also WRITE",
        ),
        30 => {
            ("GROUP_AUTHORIZATION_FAILED", false, ": the user needs READ on the group that --consumer names")
        }
        31 => ("CLUSTER_AUTHORIZATION_FAILED", false, ": the user needs IDEMPOTENT_WRITE on the cluster"),
        32 => ("INVALID_TIMESTAMP", false, ": the clocks of this machine and of the server differ"),
        35 => ("UNSUPPORTED_VERSION", false, ""),
        45 => ("OUT_OF_ORDER_SEQUENCE_NUMBER", true, ""),
        46 => ("DUPLICATE_SEQUENCE_NUMBER", false, ""),
        47 => ("INVALID_PRODUCER_EPOCH", true, ""),
        56 => ("KAFKA_STORAGE_ERROR", true, ""),
        58 => ("SASL_AUTHENTICATION_FAILED", false, ""),
        59 => ("UNKNOWN_PRODUCER_ID", true, ""),
        74 => ("FENCED_LEADER_EPOCH", true, ""),
        75 => ("UNKNOWN_LEADER_EPOCH", true, ""),
        78 => ("OFFSET_NOT_AVAILABLE", true, ""),
        87 => (
            "INVALID_RECORD",
            false,
            ": a compacted topic takes no message without a key; name one with --key",
        ),
        89 => ("THROTTLING_QUOTA_EXCEEDED", true, ""),
        _ => ("", false, ""),
    };
    ErrorInfo { name, is_transient, advice }
}

/// The partition of a key, as the producers of Kafka choose it.
pub(crate) fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// MurmurHash2 with the seed of Kafka.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = word.iter().rev().fold(0u32, |k, byte| k << 8 | u32::from(*byte)).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0u32, |k, byte| k << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::{Metadata, fetched, murmur2, partition_of, produced};

    /// The values are those of Kafka's own test (UtilsTest).
    #[test]
    fn keys_have_the_partitions_that_others_choose() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(partition_of(b"abc", 10), 7);
        assert_eq!(partition_of(b"21", 10), 0);
    }

    #[test]
    fn answers_that_are_cut_off_are_none() {
        // One server, and a topic with a partition.
        let metadata = [
            &[0, 0, 0, 0, 2, 0, 0, 0, 1, 2, b'h', 0x00, 0x00, 0x23, 0x84, 0, 0][..],
            &[0, 0, 0, 0, 1, 2, 0, 0, 2, b't'],
            &[7; 16],
            &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 0],
        ]
        .concat();
        let read = Metadata::read(&metadata).unwrap();
        assert_eq!(read.servers, [(1, "h".to_owned(), 9092)]);
        assert_eq!((read.error, read.id, read.partitions.len()), (0, [7; 16], 1));
        assert_eq!((read.partitions[0].index, read.partitions[0].leader), (0, 1));
        for length in 0..metadata.len() {
            assert!(Metadata::read(&metadata[..length]).is_none(), "{length}");
        }
        assert!(produced(&[]).is_none());
        assert!(fetched(&[0; 9]).is_none());
        assert!(fetched(&[0; 14]).is_some());
    }
}
