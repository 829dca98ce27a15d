//! Tests of checkpoints.

use std::path::Path;

use super::{
    ByteReader, Checkpoint, CheckpointSegment, DUE, Definition, KNOWN_FEATURES, Order, PREFIX, RetainedRun,
    RowIdSet, Sync, checksum, encode_ended, encode_kept, encode_names, put_varint,
};
use crate::Error;
use crate::format::batch::IndexLocation;
use crate::format::batch::SegmentName;
use crate::format::dedupe::{Dedupe, DedupeEntry, encode_dedupe_entries};
use crate::format::delivery_rate::DeliveryRate;
use crate::format::lease_record::{Lease, Leases, Phase, Span};
use crate::format::origin::{Journal, Origin, Source};
use crate::format::record::RowId;
use crate::format::retry_policy::{Backoff, FailureInfo, RetryPolicy, encode_failures};
use crate::format::transaction::{Prepared, Transactions, Xid};

fn example() -> Checkpoint {
    let mut journal = Journal::default();
    journal.add(&Origin { source: Source::Slot(1), row: 300, floor: 0, overwrite: false });
    journal.add(&Origin { source: Source::Incarnation([3; 16]), row: 9, floor: 4, overwrite: false });
    let listed = CheckpointSegment {
        name: SegmentName { number: 4, generation: 2 },
        stored: IndexLocation { offset: 900, len: 100, file_len: 1000 },
        live_bytes: 17,
        oldest_ms: 1_700_000_000_000,
        runs: vec![(70, 2), (80, 1)],
        live: 3,
        scheduled: true,
        kept: 2,
    };
    let xid = Xid::new(-1, b"global", b"branch").unwrap();
    let prepared = Prepared { xid, coordinator: [2; 16], rows: (88, 2), ended: vec![(70, 1), (80, 1)] };
    let transactions = Transactions { next: 9, open: [(7, prepared)].into() };
    let backoff = Backoff { first_ms: 10, factor: 1500, max_ms: 900 };
    let policy = RetryPolicy {
        tries: 3,
        backoff,
        dead_letter_folder: Some("./db/dead.queue".into()),
        shows_delivery_info: true,
    };
    let (sync, schema) = (Sync::Interval, b"columns".to_vec());
    let order = Order {
        due: Some(300),
        priority: Some(7),
        fifo: Some(2),
        concurrency: 5,
        age_s: 600,
        rate_key: Some(2),
    };
    let dedupe = Some(Dedupe { column: 200, for_ms: 5000 });
    let dedupe_entries = vec![DedupeEntry { key: u128::MAX - 5, until_ms: 1_700_000_000_000 }];
    let keep_ms = 3_600_000;
    let kept = vec![RetainedRun { first: 70, count: 2, ended_s: 1_700_000_000 }];
    let readers = vec!["audit".to_owned(), "mail".to_owned()];
    let mut ended = vec![RowIdSet::default(), RowIdSet::default()];
    ended[1].add(70, 71);
    let rate = Some(DeliveryRate { rows: 7, span_ms: 9000 });
    let definition =
        Definition { sync, schema, transactional: true, policy, order, dedupe, keep_ms, rate, readers };
    let span = Span { since_ms: 1_700_000_000_000, for_ms: 3000 };
    let lease = Lease { row: RowId(71), number: 40, secret: 6, failed: 1, phase: Phase::Leased(span) };
    let leases = Leases { ceiling: 64, rows: vec![lease] };
    let failures = vec![(RowId(71), FailureInfo::new(2, "it broke"))];
    let (incarnation, replay_from, next, segments) = ([7; 16], 5, RowId(91), vec![listed]);
    Checkpoint {
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
    }
}

#[test]
fn a_checkpoint_comes_back() {
    let checkpoint = example();
    assert_eq!(Checkpoint::decode(Path::new("c"), &checkpoint.encode()).unwrap(), checkpoint);
}

#[test]
fn any_changed_byte_is_noticed() {
    let bytes = example().encode();
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            let error = Checkpoint::decode(Path::new("c"), &changed).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. } | Error::Version { .. }), "{at}");
        }
        Checkpoint::decode(Path::new("c"), &bytes[..at]).unwrap_err();
    }
}

#[test]
fn a_checkpoint_with_unknown_features_is_refused() {
    let mut bytes = example().encode();
    assert_eq!(bytes[PREFIX..PREFIX + 8], KNOWN_FEATURES.to_le_bytes());
    bytes[PREFIX + 7] |= 0x40;
    let sum = checksum(&[&bytes[PREFIX..]]);
    bytes[12..PREFIX].copy_from_slice(&sum.to_le_bytes());
    let error = Checkpoint::decode(Path::new("c"), &bytes).unwrap_err();
    assert!(matches!(&error, Error::Version { .. }), "{error}");
    assert!(error.to_string().contains("0x4000000000000000;"), "{error}");
}

#[test]
fn a_checkpoint_without_features_has_nothing_of_them() {
    let with = example();
    let (policy, order) = (RetryPolicy::default(), Order::default());
    let definition = Definition {
        sync: with.definition.sync,
        schema: with.definition.schema.clone(),
        policy,
        order,
        ..Definition::default()
    };
    let (transactions, leases, failures) = (Transactions::default(), Leases::default(), Vec::new());
    let segments = with
        .segments
        .iter()
        .map(|listed| CheckpointSegment { scheduled: false, kept: 0, ..listed.clone() })
        .collect();
    let (dedupe_entries, kept, ended) = (Vec::new(), Vec::new(), Vec::new());
    let without = Checkpoint {
        definition,
        segments,
        transactions,
        leases,
        failures,
        dedupe_entries,
        kept,
        ended,
        ..with.clone()
    };
    let (mut list, bytes) = (Vec::new(), without.encode());
    with.transactions.encode(&mut list);
    with.leases.encode(&mut list);
    with.definition.policy.encode(&mut list);
    encode_failures(&with.failures, &mut list);
    with.definition.order.encode(&mut list);
    with.definition.dedupe.unwrap().encode(&mut list);
    encode_dedupe_entries(&with.dedupe_entries, &mut list);
    list.push(u8::from(with.segments[0].scheduled));
    put_varint(&mut list, with.segments[0].kept);
    put_varint(&mut list, with.definition.keep_ms);
    encode_kept(&with.kept, &mut list);
    encode_names(&with.definition.readers, &mut list);
    with.ended.iter().for_each(|ended| encode_ended(ended, &mut list));
    with.definition.rate.unwrap().encode(&mut list);
    assert_eq!(bytes.len() + list.len(), with.encode().len());
    assert_eq!(bytes[PREFIX..PREFIX + 8], [0; 8]);
    assert_eq!(Checkpoint::decode(Path::new("c"), &bytes).unwrap(), without);
}

/// No checksum shows what cannot be.
#[test]
fn a_checkpoint_that_contradicts_itself_is_refused() {
    let mut with = example();
    with.definition.keep_ms = 5;
    // What is behind the time that rows are kept.
    let mut behind = Vec::new();
    encode_kept(&with.kept, &mut behind);
    encode_names(&with.definition.readers, &mut behind);
    with.ended.iter().for_each(|ended| encode_ended(ended, &mut behind));
    with.definition.rate.unwrap().encode(&mut behind);
    let mut bytes = with.encode();
    let at = bytes.len() - behind.len() - 1;
    assert_eq!(bytes[at], 5);
    for keep_ms in [0, 1] {
        bytes[at] = keep_ms;
        let sum = checksum(&[&bytes[PREFIX..]]);
        bytes[12..PREFIX].copy_from_slice(&sum.to_le_bytes());
        let decoded = Checkpoint::decode(Path::new("c"), &bytes);
        assert_eq!(decoded.map(|found| found.definition.keep_ms).ok(), (keep_ms > 0).then_some(1));
    }
    // Of a segment's three rows all may be kept, and no more.
    for kept in [3, 4] {
        with.segments[0].kept = kept;
        let decoded = Checkpoint::decode(Path::new("c"), &with.encode());
        assert_eq!(decoded.is_ok(), kept == 3);
    }
    let mut segment = Vec::new();
    with.segments[0].encode(&mut segment, DUE);
    for (scheduled, is_known) in [(0, true), (1, true), (2, false)] {
        *segment.last_mut().unwrap() = scheduled;
        let decoded = CheckpointSegment::decode(&mut ByteReader::new(&segment), DUE);
        assert_eq!(decoded.is_some(), is_known, "{scheduled}");
    }
}
