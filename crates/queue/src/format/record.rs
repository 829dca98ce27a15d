//! The records of a batch: rows, acknowledgements, moved rows, transactions, leases. Bytes in, bytes out;
//! docs/formats/queue.md has the table.

use crate::format::dedupe::{DEDUPE, DedupeEntry};
use crate::format::lease_record::Lease;
use crate::format::origin::Origin;
use crate::format::readers::READERS;
use crate::format::retention::KEEP;
use crate::format::retry_policy::{FailureInfo, POLICIES};
use crate::format::transaction::{Prepared, TRANSACTIONS};
pub use crate::format::wire::RowId;
use crate::format::wire::{ByteReader, checksum, put_varint};

const ROW: u8 = 1;
const ACKNOWLEDGE: u8 = 2;
const RELAYED: u8 = 3;
const MOVED: u8 = 4;
const PREPARE: u8 = 17;
const COMMIT: u8 = 18;
const ROLLBACK: u8 = 19;
const LEASE: u8 = 20;
const FAILURE: u8 = 21;
const DISCARD: u8 = 22;
const KEY: u8 = 24;
const READER_END: u8 = 25;
const REPLAY: u8 = 26;
const READER_REOPEN: u8 = 27;

const SHORT: &str = "a truncated record";
const UNKNOWN: &str = "a record of an unknown type";
const WITHOUT_ROWS: &str = "a transaction with missing rows";

/// Bytes of the checksum in front of a row.
pub(crate) const ROW_SUM: usize = 4;

/// The most bytes that a row without an origin takes in a batch besides its own: kind, length, checksum.
pub(crate) const ROW_OVERHEAD_MAX: usize = 1 + 5 + ROW_SUM;

/// The most bytes that the record of a key takes.
pub(crate) const KEY_RECORD_MAX: usize = 1 + 1 + 16 + 10;

/// A decoded record.
#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    /// A row: its id, the offset of its checksum within the body, the length of checksum and row, and, for a
    /// moved row, the time when it was inserted.
    Row { id: RowId, at: usize, len: usize, time_ms: Option<u64>, origin: Option<Origin> },
    /// This many rows from `first` on were ended: they are gone, or kept where the queue keeps such rows.
    Acknowledge { first: RowId, count: u64 },
    /// This many rows from `first` on are gone, and are not kept.
    Discard { first: RowId, count: u64 },
    /// A reader has ended this many rows from `first` on.
    ReaderEnd { reader: usize, first: RowId, count: u64 },
    /// A reader has not ended this many rows from `first` on any more; another one has not ended them either.
    ReaderReopen { reader: usize, first: RowId, count: u64 },
    /// This many rows from `first` on, which were kept, wait again: for this reader, or for all.
    Replay { reader: Option<usize>, first: RowId, count: u64 },
    /// A transaction is prepared; its rows follow.
    Prepare { tx: u64, prepared: Prepared },
    /// A prepared transaction is committed or rolled back.
    Decide { tx: u64, commit: bool },
    /// What is known of the leases of a row from here on.
    Lease(Lease),
    /// What is known of a row besides.
    Failure { row: RowId, failure: FailureInfo },
    /// A row with this key came.
    Key(DedupeEntry),
}

/// A row with its checksum, as it lies in a segment.
fn put_row(out: &mut Vec<u8>, id: RowId, row: &[u8]) {
    out.extend(checksum(&[&id.0.to_le_bytes(), row]).to_le_bytes());
    out.extend(row);
}

/// The row in bytes that begin with its checksum; `None` when the checksum does not match this row.
pub(crate) fn checked_row(id: RowId, bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = ByteReader::new(bytes);
    let sum = reader.u32()?;
    let row = reader.rest();
    (sum == checksum(&[&id.0.to_le_bytes(), row])).then_some(row)
}

/// Appends a row and returns the offset of its checksum.
pub(crate) fn encode_row(out: &mut Vec<u8>, id: RowId, row: &[u8], origin: Option<&Origin>) -> usize {
    let mut source = Vec::new();
    out.push(if origin.is_some() { RELAYED } else { ROW });
    origin.into_iter().for_each(|origin| origin.encode(&mut source));
    put_varint(out, (source.len() + ROW_SUM + row.len()) as u64);
    out.extend(source);
    let at = out.len();
    put_row(out, id, row);
    at
}

/// Appends an acknowledgement of `count` rows from `first` on.
pub(crate) fn encode_acknowledge(out: &mut Vec<u8>, first: RowId, count: u64) {
    encode_run(out, ACKNOWLEDGE, first, count);
}

/// Appends that `count` rows from `first` on are gone, in a queue that keeps those that are ended.
pub(crate) fn encode_discard(out: &mut Vec<u8>, first: RowId, count: u64) {
    encode_run(out, DISCARD, first, count);
}

/// Appends that `count` rows from `first` on wait again; for this reader, or for all.
pub(crate) fn encode_replay(out: &mut Vec<u8>, reader: Option<usize>, first: RowId, count: u64) {
    encode_reading(out, REPLAY, reader.map_or(0, |reader| reader + 1), (first, count));
}

/// Appends that a reader has ended `count` rows from `first` on.
pub(crate) fn encode_reader_end(out: &mut Vec<u8>, reader: usize, first: RowId, count: u64) {
    encode_reading(out, READER_END, reader, (first, count));
}

/// Appends that a reader has not ended `count` rows from `first` on any more.
pub(crate) fn encode_reader_reopen(out: &mut Vec<u8>, reader: usize, first: RowId, count: u64) {
    encode_reading(out, READER_REOPEN, reader, (first, count));
}

fn encode_reading(out: &mut Vec<u8>, kind: u8, reader: usize, (first, count): (RowId, u64)) {
    let mut payload = Vec::new();
    put_varint(&mut payload, reader as u64);
    put_varint(&mut payload, first.0);
    put_varint(&mut payload, count.saturating_sub(1));
    append(out, kind, &payload);
}

/// Payloads of numbers have fewer bytes.
const PAYLOAD_ROOM: usize = 64;

fn encode_run(out: &mut Vec<u8>, kind: u8, first: RowId, count: u64) {
    let mut payload = Vec::with_capacity(PAYLOAD_ROOM);
    put_varint(&mut payload, first.0);
    put_varint(&mut payload, count.saturating_sub(1));
    append(out, kind, &payload);
}

/// Appends a record: its type, its length, and its payload.
fn append(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.push(kind);
    put_varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

/// Appends that a transaction is prepared; the caller appends its rows next.
pub(crate) fn encode_prepare(out: &mut Vec<u8>, tx: u64, prepared: &Prepared) {
    let mut payload = Vec::new();
    prepared.encode(tx, &mut payload);
    append(out, PREPARE, &payload);
}

/// Appends that a prepared transaction is committed or rolled back.
pub(crate) fn encode_decide(out: &mut Vec<u8>, tx: u64, commit: bool) {
    let mut payload = Vec::new();
    put_varint(&mut payload, tx);
    append(out, if commit { COMMIT } else { ROLLBACK }, &payload);
}

/// Appends what is known of the leases of a row.
pub(crate) fn encode_lease(out: &mut Vec<u8>, lease: &Lease) {
    let mut payload = Vec::with_capacity(PAYLOAD_ROOM);
    lease.encode(&mut payload);
    append(out, LEASE, &payload);
}

/// Appends what is known of a row besides.
pub(crate) fn encode_failure(out: &mut Vec<u8>, row: RowId, failure: &FailureInfo) {
    let mut payload = Vec::new();
    failure.encode(row, &mut payload);
    append(out, FAILURE, &payload);
}

/// Appends that a row with a key came.
pub(crate) fn encode_key(out: &mut Vec<u8>, entry: &DedupeEntry) {
    let mut payload = Vec::new();
    entry.encode(&mut payload);
    append(out, KEY, &payload);
}

/// Appends a row that compaction moved here; `before` is the row moved before it, or the batch's first.
pub(crate) fn encode_moved(out: &mut Vec<u8>, id: RowId, before: RowId, time_ms: u64, row: &[u8]) -> usize {
    let mut head = Vec::new();
    put_varint(&mut head, id.0 - before.0);
    put_varint(&mut head, time_ms);
    out.push(MOVED);
    put_varint(out, (head.len() + ROW_SUM + row.len()) as u64);
    out.extend(head);
    let at = out.len();
    put_row(out, id, row);
    at
}

/// The records of a body, in order; `features` are the flags of its segment. An error says what is wrong and
/// where.
pub(crate) fn decode(body: &[u8], first: RowId, features: u64) -> Result<Vec<Record>, (&'static str, usize)> {
    let mut reader = ByteReader::new(body);
    let mut records = Vec::new();
    let (mut next, mut moved) = (first.0, first.0);
    // How many rows of a transaction must follow.
    let mut due = 0u64;
    while !reader.is_empty() {
        let at = reader.at();
        let record = decode_one(&mut reader, &mut next, &mut moved).map_err(|what| (what, at))?;
        match &record {
            Record::Prepare { .. } | Record::Decide { .. } if features & TRANSACTIONS == 0 => {
                return Err((UNKNOWN, at));
            }
            Record::Lease(lease) if features & lease.features() == 0 => return Err((UNKNOWN, at)),
            Record::Failure { .. } if features & POLICIES == 0 => return Err((UNKNOWN, at)),
            Record::Key(_) if features & DEDUPE == 0 => return Err((UNKNOWN, at)),
            Record::Discard { .. } | Record::Replay { .. } if features & KEEP == 0 => {
                return Err((UNKNOWN, at));
            }
            Record::ReaderEnd { .. } | Record::ReaderReopen { .. } if features & READERS == 0 => {
                return Err((UNKNOWN, at));
            }
            Record::Row { time_ms: None, origin: None, .. } => due = due.saturating_sub(1),
            _ if due > 0 => return Err((WITHOUT_ROWS, at)),
            Record::Prepare { prepared, .. } => due = prepared.rows.1,
            _ => {}
        }
        records.push(record);
    }
    if due > 0 { Err((WITHOUT_ROWS, reader.at())) } else { Ok(records) }
}

fn decode_one(reader: &mut ByteReader<'_>, next: &mut u64, moved: &mut u64) -> Result<Record, &'static str> {
    let kind = reader.u8().ok_or(SHORT)?;
    let len = reader.count().ok_or(SHORT)?;
    let payload = reader.take(len).ok_or(SHORT)?;
    let start = reader.at() - len;
    let mut inside = ByteReader::new(payload);
    let (mut time_ms, mut origin) = (None, None);
    let id = match kind {
        ROW | RELAYED => {
            if kind == RELAYED {
                origin = Some(Origin::decode(&mut inside).ok_or("a relayed row without a source")?);
            }
            *next = next.checked_add(1).ok_or("a row id out of range")?;
            *next - 1
        }
        MOVED => {
            let gap = inside.varint().ok_or(SHORT)?;
            time_ms = Some(inside.varint().ok_or(SHORT)?);
            *moved = moved.checked_add(gap).ok_or("a row id out of range")?;
            *moved
        }
        ACKNOWLEDGE | DISCARD | READER_END | REPLAY | READER_REOPEN => {
            let numbered = matches!(kind, READER_END | REPLAY | READER_REOPEN);
            let reader = if numbered { inside.count().ok_or(SHORT)? } else { 0 };
            let (first, more) = inside.varint().zip(inside.varint()).ok_or(SHORT)?;
            let count = more.checked_add(1).filter(|count| first.checked_add(*count).is_some());
            let count = count.ok_or("an acknowledgement of rows out of range")?;
            let first = RowId(first);
            return Ok(match kind {
                DISCARD => Record::Discard { first, count },
                READER_END => Record::ReaderEnd { reader, first, count },
                READER_REOPEN => Record::ReaderReopen { reader, first, count },
                REPLAY => Record::Replay { reader: reader.checked_sub(1), first, count },
                _ => Record::Acknowledge { first, count },
            });
        }
        PREPARE => {
            let decoded = Prepared::decode(&mut inside, *next).filter(|_| inside.is_empty());
            let (tx, prepared) = decoded.ok_or("an invalid prepared transaction")?;
            return Ok(Record::Prepare { tx, prepared });
        }
        COMMIT | ROLLBACK => {
            let tx = inside.varint().filter(|_| inside.is_empty()).ok_or("an invalid decision")?;
            return Ok(Record::Decide { tx, commit: kind == COMMIT });
        }
        LEASE => {
            let lease = Lease::decode(&mut inside).filter(|_| inside.is_empty()).ok_or("an invalid lease")?;
            return Ok(Record::Lease(lease));
        }
        FAILURE => {
            let failure = FailureInfo::decode(&mut inside).filter(|_| inside.is_empty());
            let (row, failure) = failure.ok_or("an invalid failure record")?;
            return Ok(Record::Failure { row, failure });
        }
        KEY => {
            let entry = DedupeEntry::decode(&mut inside).filter(|_| inside.is_empty());
            return Ok(Record::Key(entry.ok_or("an invalid deduplication key")?));
        }
        _ => return Err(UNKNOWN),
    };
    let at = inside.at();
    if len - at < ROW_SUM {
        return Err(SHORT);
    }
    Ok(Record::Row { id: RowId(id), at: start + at, len: len - at, time_ms, origin })
}

#[cfg(test)]
mod tests {
    use super::{
        DEDUPE, DedupeEntry, FailureInfo, KEEP, KEY_RECORD_MAX, Lease, POLICIES, Prepared, READERS,
        ROW_OVERHEAD_MAX, Record, RowId, SHORT, TRANSACTIONS, UNKNOWN, WITHOUT_ROWS, checked_row, decode,
        encode_acknowledge, encode_decide, encode_discard, encode_failure, encode_key, encode_lease,
        encode_moved, encode_prepare, encode_reader_end, encode_reader_reopen, encode_replay, encode_row,
    };
    use crate::format::lease_record::{LEASES, Phase, Span};
    use crate::format::transaction::Xid;

    /// A row begins with the checksum of its bytes, which may be none.
    #[test]
    fn a_row_has_at_least_its_checksum() {
        let mut whole = Vec::new();
        encode_row(&mut whole, RowId(5), b"", None);
        assert!(decode(&whole, RowId(5), 0).is_ok());
        for fewer in 1..=4 {
            let mut cut = whole[..whole.len() - fewer].to_vec();
            cut[1] -= u8::try_from(fewer).unwrap();
            assert_eq!(decode(&cut, RowId(5), 0), Err((SHORT, 0)), "{fewer}");
        }
    }

    #[test]
    fn a_row_takes_no_more_than_is_said() {
        for len in [0, 1, 127, 128, 1 << 14, 1 << 21, 1 << 28] {
            let mut out = Vec::new();
            encode_row(&mut out, RowId(u64::MAX), &vec![0; len], None);
            assert!(out.len() <= len + ROW_OVERHEAD_MAX, "{len}: {}", out.len());
        }
    }

    #[test]
    fn what_is_known_of_a_row_is_told_when_it_is_cut_or_changed() {
        let span = Span { since_ms: 1_700_000_000_000, for_ms: 30_000 };
        let lease = |phase| Record::Lease(Lease { row: RowId(7), number: 300, secret: 5, failed: 2, phase });
        let failure = Record::Failure { row: RowId(7), failure: FailureInfo::new(3, "it broke") };
        let key = Record::Key(DedupeEntry { key: 5 << 90, until_ms: 1_700_000_000_000 });
        for record in
            [lease(Phase::Leased(span)), lease(Phase::ExpiredDelayed(span)), lease(Phase::Dead), failure, key]
        {
            let mut body = Vec::new();
            let needs = match &record {
                Record::Failure { row, failure } => {
                    encode_failure(&mut body, *row, failure);
                    POLICIES
                }
                Record::Lease(lease) => {
                    encode_lease(&mut body, lease);
                    lease.features()
                }
                Record::Key(entry) => {
                    encode_key(&mut body, entry);
                    assert!(body.len() <= KEY_RECORD_MAX);
                    DEDUPE
                }
                _ => 0,
            };
            let all = POLICIES | DEDUPE;
            let whole = decode(&body, RowId(0), all).unwrap();
            assert_eq!(whole, [record]);
            assert_eq!(decode(&body, RowId(0), DEDUPE).is_ok(), needs & DEDUPE != 0);
            assert_eq!(decode(&body, RowId(0), LEASES).is_ok(), needs & LEASES != 0);
            assert_eq!(decode(&body, RowId(0), TRANSACTIONS), Err((UNKNOWN, 0)));
            for at in 1..body.len() {
                decode(&body[..at], RowId(0), all).unwrap_err();
                for bit in 0..8 {
                    let mut changed = body.clone();
                    changed[at] ^= 1 << bit;
                    assert_ne!(decode(&changed, RowId(0), all).as_ref(), Ok(&whole), "{at}.{bit}");
                }
            }
            // More bytes in a record than its fields have.
            body[1] += 1;
            body.push(0);
            decode(&body, RowId(0), all).unwrap_err();
        }
    }

    fn prepared(rows: u64) -> Prepared {
        let xid = Xid::new(1, b"g", b"b").unwrap();
        Prepared { xid, coordinator: [0; 16], rows: (7, rows), ended: vec![(2, 1), (4, 2)] }
    }

    #[test]
    fn a_transaction_is_followed_by_its_rows() {
        let mut body = Vec::new();
        encode_prepare(&mut body, 3, &prepared(2));
        let one = body.len();
        encode_row(&mut body, RowId(7), b"one", None);
        let two = body.len();
        encode_row(&mut body, RowId(8), b"two", None);
        encode_decide(&mut body, 300, true);
        encode_decide(&mut body, 2, false);
        let records = decode(&body, RowId(7), TRANSACTIONS).unwrap();
        assert_eq!(records[0], Record::Prepare { tx: 3, prepared: prepared(2) });
        assert!(matches!(records[2], Record::Row { id: RowId(8), .. }));
        assert_eq!(records[3], Record::Decide { tx: 300, commit: true });
        assert_eq!(records[4], Record::Decide { tx: 2, commit: false });
        assert_eq!(decode(&body[..two], RowId(7), TRANSACTIONS), Err((WITHOUT_ROWS, two)));
        let mut other = body[..one].to_vec();
        encode_acknowledge(&mut other, RowId(1), 1);
        assert_eq!(decode(&other, RowId(7), TRANSACTIONS), Err((WITHOUT_ROWS, one)));
        assert_eq!(decode(&body, RowId(7), 0), Err((UNKNOWN, 0)));
        // More bytes in a record than its fields have.
        let mut long = Vec::new();
        encode_decide(&mut long, 2, true);
        long[1] += 1;
        long.push(0);
        decode(&long, RowId(7), TRANSACTIONS).unwrap_err();
    }

    #[test]
    fn a_transaction_that_is_cut_or_changed_is_told_or_another() {
        let mut body = Vec::new();
        encode_prepare(&mut body, 3, &prepared(0));
        let whole = decode(&body, RowId(7), TRANSACTIONS).unwrap();
        for at in 1..body.len() {
            decode(&body[..at], RowId(7), TRANSACTIONS).unwrap_err();
            for bit in 0..8 {
                let mut changed = body.clone();
                changed[at] ^= 1 << bit;
                assert_ne!(decode(&changed, RowId(7), TRANSACTIONS).as_ref(), Ok(&whole), "{at}.{bit}");
            }
        }
    }

    /// A way to write that a run of rows is ended or waits again.
    type EncodeRun = fn(&mut Vec<u8>, RowId, u64);

    #[test]
    fn runs_of_rows_come_back_and_end_before_the_last_number() {
        let out_of_range = "an acknowledgement of rows out of range";
        let last = u64::MAX;
        let kinds: [(EncodeRun, u64); 6] = [
            (encode_acknowledge, 0),
            (encode_discard, KEEP),
            (|out, first, count| encode_replay(out, None, first, count), KEEP),
            (|out, first, count| encode_replay(out, Some(2), first, count), KEEP),
            (|out, first, count| encode_reader_end(out, 2, first, count), READERS),
            (|out, first, count| encode_reader_reopen(out, 2, first, count), READERS),
        ];
        for (kind, (encode, needs)) in kinds.into_iter().enumerate() {
            let read = |first: u64, count: u64, features: u64| {
                let mut body = Vec::new();
                encode(&mut body, RowId(first), count);
                decode(&body, RowId(0), features)
            };
            for (first, count) in [(0, 1), (300, 2), (last - 1, 1), (0, last)] {
                let run = (RowId(first), count);
                let expected = match kind {
                    0 => Record::Acknowledge { first: run.0, count },
                    1 => Record::Discard { first: run.0, count },
                    2 => Record::Replay { reader: None, first: run.0, count },
                    3 => Record::Replay { reader: Some(2), first: run.0, count },
                    4 => Record::ReaderEnd { reader: 2, first: run.0, count },
                    _ => Record::ReaderReopen { reader: 2, first: run.0, count },
                };
                assert_eq!(read(first, count, needs), Ok(vec![expected]));
                let others = (KEEP | READERS | TRANSACTIONS | POLICIES | DEDUPE) & !needs;
                assert_eq!(read(first, count, others).is_ok(), needs == 0, "without the feature it needs");
            }
            assert_eq!(read(last, 1, needs), Err((out_of_range, 0)));
            assert_eq!(read(last - 1, 2, needs), Err((out_of_range, 0)));
        }
    }

    #[test]
    fn a_moved_row_has_its_number_and_its_time() {
        let mut body = Vec::new();
        let first = encode_moved(&mut body, RowId(1000), RowId(900), 77, b"one");
        let second = encode_moved(&mut body, RowId(1300), RowId(1000), 78, b"");
        let row = |id, at, len, time_ms| Record::Row { id: RowId(id), at, len, time_ms, origin: None };
        let expected = [row(1000, first, 7, Some(77)), row(1300, second, 4, Some(78))];
        assert_eq!(decode(&body, RowId(900), 0).unwrap(), expected);
        let range = "a row id out of range";
        assert_eq!(decode(&body, RowId(u64::MAX - 99), 0), Err((range, 0)));
        assert_eq!(checked_row(RowId(1000), &body[first..][..7]), Some(&b"one"[..]));
        assert_eq!(checked_row(RowId(1001), &body[first..][..7]), None, "another row's");
        assert_eq!(checked_row(RowId(1000), &body[first..][..6]), None);
        // A row's number, and a checksum that is cut.
        let mut body = Vec::new();
        encode_row(&mut body, RowId(5), b"", None);
        assert!(decode(&body, RowId(5), 0).is_ok());
        assert_eq!(decode(&body, RowId(u64::MAX), 0), Err((range, 0)));
        assert_eq!(decode(&[1, 3, 0, 0, 0], RowId(5), 0), Err((SHORT, 0)));
    }
}
