//! Rows with the same key are given one after the other (FIFO).

use std::path::Path;
use std::sync::Arc;
use std::thread::scope;
use std::time::Duration;

use condition::{Column, Kind, Schema};
use disk::faults::FaultDisk;
use queue::{
    Definition, Engine, Error, Filter, Order, Queue, RowId, Session, Sync, Target, Token, WaitOptions,
    WaitOutcome,
};

use crate::support::{
    Begins, DEAD, FOLDER, TestQueue, WHOLE, all, altered, ends, limited, ordered, ordered_row, pass_ms, poll,
    session, text_of, texts, timed, whole_row, xid,
};

pub(crate) const FIFO: Order =
    Order { due: None, priority: None, fifo: Some(0), concurrency: 0, age_s: 0, rate_key: None };

const SECOND: Duration = Duration::from_secs(1);

fn fifo(sync: Sync) -> Definition {
    ordered(sync, WHOLE, FIFO)
}

/// The key is the number in a text, and NULL without one: `a1` and `b1` have the same one.
fn row(text: &str) -> Vec<u8> {
    whole_row(text[1..].parse().ok(), None, text)
}

pub(crate) fn put(queue: &Queue, rows: &[&str]) {
    let rows: Vec<Vec<u8>> = rows.iter().map(|text| row(text)).collect();
    queue.publish(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
}

/// Takes up to so many rows.
pub(crate) fn take(taker: &mut Session, queue: &Arc<Queue>, rows_max: usize) -> Vec<String> {
    taker.wait(&[all(queue)], &mut poll(rows_max)).unwrap();
    texts(taker, queue)
}

/// Leases up to so many rows.
fn lease(queue: &Arc<Queue>, rows_max: usize) -> Vec<(String, Token)> {
    let (_, leased) = session(9).lease(&[all(queue)], &mut poll(rows_max), 10 * SECOND).unwrap();
    let Some(mut leased) = leased else { return Vec::new() };
    let mut cursor = leased.cursor();
    let next = || cursor.advance().unwrap().map(|(_, row)| text_of(row));
    std::iter::from_fn(next).zip(leased.rows().iter().map(|leased| leased.token)).collect()
}

/// Leases one row.
pub(crate) fn lease_one(queue: &Arc<Queue>) -> Token {
    lease(queue, 1)[0].1
}

#[test]
fn a_row_waits_until_those_of_its_key_before_it_are_gone() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let opened = TestQueue::new(&fifo(sync));
        put(&opened.queue, &["a1", "b1", "a2", "c1", "a-", "b2", "b-"]);
        let (mut one, mut two) = (session(1), session(2));
        assert_eq!(take(&mut one, &opened.queue, 9), ["a1", "a2", "a-", "b-"], "one of each key");
        assert_eq!(opened.queue.status().behind, 3);
        assert_eq!(opened.queue.status().keys_busy, 2, "a row without a key keeps none");
        assert_eq!(take(&mut two, &opened.queue, 9), [""; 0], "its rows are in flight");
        assert_eq!(texts(&session(3), &opened.queue), ["b1", "c1", "b2"], "they are seen all the same");
        one.abort().unwrap();
        assert_eq!(take(&mut two, &opened.queue, 1), ["a1"]);
        assert_eq!(take(&mut one, &opened.queue, 9), ["a2", "a-", "b-"]);
        two.end().unwrap();
        assert_eq!(take(&mut two, &opened.queue, 9), ["b1"]);
        two.close().unwrap();
        assert_eq!(
            take(&mut one, &opened.queue, 9),
            ["b1", "b2"],
            "also for who ends the row before by a wait"
        );
        assert_eq!(take(&mut one, &opened.queue, 9), ["c1"]);
        one.end().unwrap();
        assert_eq!((opened.queue.rows(), opened.queue.status().behind), (0, 0));
        assert_eq!(opened.queue.status().keys_busy, 0);
        put(&opened.queue, &["a1", "b1"]);
        opened.queue.truncate().unwrap();
        put(&opened.queue, &["c1", "d1"]);
        assert_eq!(take(&mut one, &opened.queue, 9), ["c1"]);
    }
}

#[test]
fn order_is_kept_over_sealing_compaction_and_restarts() {
    let mut opened = TestQueue::new(&fifo(Sync::Always));
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for letter in letters {
        let batch: Vec<String> = (0..6).map(|key| format!("{letter}{key}")).collect();
        put(&opened.queue, &batch.iter().map(String::as_str).collect::<Vec<_>>());
    }
    for letter in letters {
        let expected: Vec<String> = (0..6).map(|key| format!("{letter}{key}")).collect();
        assert_eq!(take(&mut session(1), &opened.queue, 100), expected);
        opened.queue.compact().unwrap();
        opened = opened.reopened();
        let mut taker = session(1);
        assert_eq!(take(&mut taker, &opened.queue, 100), expected, "nobody has ended them");
        taker.end().unwrap();
    }
    assert_eq!(opened.queue.rows(), 0);
}

#[test]
fn who_waits_is_given_the_next_row_of_a_key_however_the_one_before_goes() {
    type How = fn(&mut Session, &Arc<Queue>);
    let hows: [How; 3] = [
        |owner, _| owner.end().unwrap(),
        |owner, queue| assert_eq!(owner.delete(queue, &[RowId(1)]).unwrap(), 1),
        |owner, queue| {
            let mut transaction = owner.begin(queue).unwrap();
            assert!(owner.end_within(&mut transaction));
            transaction.commit_one_phase().unwrap();
        },
    ];
    for (sync, how) in [Sync::Always, Sync::Never].into_iter().flat_map(|sync| hows.map(|how| (sync, how))) {
        ends(move || {
            let opened = TestQueue::new(&Definition { transactional: true, ..fifo(sync) });
            put(&opened.queue, &["a1", "b1", "c1"]);
            let mut owner = session(1);
            assert_eq!(take(&mut owner, &opened.queue, 9), ["a1"]);
            scope(|scope| {
                let waits = scope.spawn(|| {
                    let mut taker = session(2);
                    let mut patience = WaitOptions { rows_max: 9, ..WaitOptions::forever() };
                    taker.wait(&[all(&opened.queue)], &mut patience).unwrap();
                    texts(&taker, &opened.queue)
                });
                while opened.queue.status().waiters == 0 {
                    std::thread::yield_now();
                }
                how(&mut owner, &opened.queue);
                assert_eq!(waits.join().unwrap(), ["b1"]);
            });
            assert_eq!(opened.queue.status().counters.handed_over, 1);
        });
    }
}

#[test]
fn a_statement_that_fails_lets_the_rows_behind_its_own_come() {
    let opened = TestQueue::new(&fifo(Sync::Always));
    let mut adder = session(1);
    adder.publish_in_statement(&opened.queue, &[&row("a1"), &row("b2")]).unwrap();
    put(&opened.queue, &["c1", "d3"]);
    let mut taker = session(2);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["d3"], "an earlier one of its key may still come");
    adder.end_statement(false).unwrap();
    assert_eq!(take(&mut taker, &opened.queue, 9), ["c1"]);
    adder.publish_in_statement(&opened.queue, &[&row("e1"), &row("f1")]).unwrap();
    put(&opened.queue, &["g1"]);
    taker.end().unwrap();
    adder.end_statement(true).unwrap();
    assert_eq!(take(&mut taker, &opened.queue, 9), ["e1"]);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["f1"]);
}

#[test]
fn who_waits_is_not_given_what_a_statement_may_take_back() {
    ends(|| {
        let opened = TestQueue::new(&fifo(Sync::Always));
        scope(|scope| {
            let waits = scope.spawn(|| {
                let mut taker = session(1);
                taker.wait(&[all(&opened.queue)], &mut WaitOptions::forever()).unwrap();
                texts(&taker, &opened.queue)
            });
            while opened.queue.status().waiters == 0 {
                std::thread::yield_now();
            }
            let mut adder = session(2);
            adder.publish_in_statement(&opened.queue, &[&row("a1"), &row("a-")]).unwrap();
            assert_eq!(opened.queue.status().counters.handed_over, 0);
            adder.end_statement(true).unwrap();
            assert_eq!(waits.join().unwrap(), ["a1"]);
        });
    });
}

#[test]
fn a_transaction_holds_the_keys_of_what_it_adds_and_ends() {
    let mut opened = TestQueue::new(&Definition { transactional: true, ..fifo(Sync::Always) });
    put(&opened.queue, &["a1", "b1", "c2"]);
    let mut owner = session(1);
    let mut transaction = owner.begin(&opened.queue).unwrap();
    assert_eq!(take(&mut owner, &opened.queue, 1), ["a1"]);
    assert!(owner.end_within(&mut transaction));
    assert_eq!(take(&mut owner, &opened.queue, 9), ["c2"], "nor is who has claimed the key given more of it");
    owner.abort().unwrap();
    transaction.publish(&[&row("d3"), &row("f3")]).unwrap();
    let prepared = transaction.prepare(&xid(7)).unwrap();
    assert_eq!(opened.queue.status().keys_busy, 2, "however many rows it has of a key");
    put(&opened.queue, &["e3"]);
    drop(prepared);
    opened = opened.reopened();
    let mut taker = session(2);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["c2"]);
    taker.abort().unwrap();
    opened.queue.rollback_by_xid(&xid(7)).unwrap();
    assert_eq!(take(&mut taker, &opened.queue, 9), ["a1", "c2", "e3"]);
    taker.end().unwrap();
    assert_eq!(take(&mut taker, &opened.queue, 9), ["b1"]);
}

/// A row that waits for its next try keeps its key, and one that is due later does not.
#[test]
fn fifo_delay_extend() {
    let mut opened = TestQueue::new(&fifo(Sync::Always));
    put(&opened.queue, &["a1", "b1", "a2"]);
    let leased = lease(&opened.queue, 9);
    assert_eq!(leased.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), ["a1", "a2"]);
    assert_eq!(opened.queue.nack(&[leased[0].1], Some(20 * SECOND), "").unwrap(), 1);
    assert_eq!(opened.queue.extend(&[leased[1].1], 60 * SECOND).unwrap(), 1);
    for _ in 0..2 {
        assert_eq!(take(&mut session(1), &opened.queue, 9), [""; 0]);
        opened.queue.sync().unwrap();
        opened = opened.reopened();
    }
    pass_ms(20_000);
    opened.queue.end_due().unwrap();
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["a1"], "in its opened");
    taker.abort().unwrap();
    // Released, expired, and ended.
    let token = lease_one(&opened.queue);
    assert_eq!(opened.queue.release(&[token]).unwrap(), 1);
    let token = lease_one(&opened.queue);
    pass_ms(10_000);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["a1"], "its lease is over");
    assert_eq!(opened.queue.ack(&[token]).unwrap(), 0, "somebody has taken it meanwhile");
    taker.abort().unwrap();
    let token = lease_one(&opened.queue);
    assert_eq!(opened.queue.ack(&[token]).unwrap(), 1);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["b1"]);
}

/// An earlier row of its key has come and is in flight: a lease that is over is not made longer.
#[test]
fn a_lease_that_is_over_is_not_renewed_beside_another_row_of_its_key() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, Order { due: Some(1), ..FIFO }));
    let due = |ms: u64| Some(i64::try_from((crate::support::wall() + ms) / 1000).unwrap());
    let rows = [whole_row(Some(1), due(15_000), "later"), whole_row(Some(1), None, "now")];
    opened.queue.publish(&[&rows[0], &rows[1]], None).unwrap();
    let token = lease_one(&opened.queue);
    assert_eq!(opened.queue.status().delayed, 1, "the row that is due later lets the next one pass");
    pass_ms(12_000);
    opened.queue.end_due().unwrap();
    assert_eq!(opened.queue.extend(&[token], 10 * SECOND).unwrap(), 1, "nobody has its key");
    pass_ms(12_000);
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["later"]);
    assert_eq!(opened.queue.extend(&[token], 10 * SECOND).unwrap(), 0);
    assert_eq!(opened.queue.status().owned, 1);
    assert_eq!(opened.queue.ack(&[token]).unwrap(), 1, "that the work is done is heard");
    taker.end().unwrap();
    assert_eq!(opened.queue.rows(), 0);
}

#[test]
fn a_row_without_tries_left_lets_the_next_one_go_on() {
    for buries in [false, true] {
        let opened =
            TestQueue::new(&Definition { policy: limited(1, "0,1,0", buries), ..fifo(Sync::Always) });
        if buries {
            opened.engine.create(Path::new(DEAD), &fifo(Sync::Always)).unwrap();
        }
        put(&opened.queue, &["a1", "b1", "c1", "d1"]);
        let mut taker = session(1);
        assert_eq!(opened.queue.nack(&[lease_one(&opened.queue)], None, "").unwrap(), 1);
        assert_eq!(take(&mut taker, &opened.queue, 9), ["b1"]);
        taker.close().unwrap();
        opened.queue.sync().unwrap();
        let opened = opened.reopened();
        assert_eq!(
            take(&mut taker, &opened.queue, 9),
            ["c1"],
            "nor after a restart, nor when a connection ends"
        );
        taker.abort().unwrap();
        lease_one(&opened.queue);
        pass_ms(10_000);
        assert_eq!(take(&mut taker, &opened.queue, 9), ["d1"]);
        taker.end().unwrap();
        opened.queue.end_due().unwrap();
        assert_eq!((opened.queue.rows(), opened.queue.status().dead), if buries { (0, 0) } else { (3, 3) });
    }
}

#[test]
fn alter_with_rows_in_flight() {
    let policy = limited(1, "0,1,0", false);
    let opened = TestQueue::new(&Definition {
        policy: policy.clone(),
        ..ordered(Sync::Always, WHOLE, Order::default())
    });
    put(&opened.queue, &["a1", "b1", "a2", "b2", "a3", "c1"]);
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 2), ["a1", "b1"], "without FIFO both");
    let leased = lease(&opened.queue, 1);
    assert_eq!(opened.queue.nack(&[leased[0].1], None, "").unwrap(), 1);
    let new = altered(&opened.engine, &opened.queue, &Definition { policy, ..fifo(Sync::Always) }).unwrap();
    let mut other = session(2);
    assert_eq!(take(&mut other, &new, 9), ["b2", "a3"], "2 has none in flight: a2 is dead");
    taker.end().unwrap();
    assert_eq!(take(&mut other, &new, 9), ["c1"]);
}

#[test]
fn a_condition_is_asked_of_the_first_row_of_a_key_and_finds_the_next_one_later() {
    let opened = TestQueue::new(&fifo(Sync::Always));
    let target = Target { queue: opened.queue.clone(), filter: Some(Arc::new(Begins("x"))), reader: None };
    let mut taker = session(1);
    let mut take_x = || {
        taker.wait(std::slice::from_ref(&target), &mut poll(9)).unwrap();
        texts(&taker, &opened.queue)
    };
    put(&opened.queue, &["a1", "x1", "x1", "x2"]);
    assert_eq!(take_x(), ["x2"]);
    assert_eq!(take_x(), [""; 0], "the first row of 1 does not match");
    let mut other = session(2);
    assert_eq!(take(&mut other, &opened.queue, 9), ["a1"]);
    assert_eq!(take_x(), [""; 0]);
    other.end().unwrap();
    assert_eq!(take_x(), ["x1"], "though rows after it were looked at before");
    assert_eq!(take_x(), ["x1"]);
}

#[test]
fn a_row_that_comes_first_while_nobody_is_given_any_is_found_afterwards() {
    let opened = TestQueue::new(&fifo(Sync::Never));
    let target = Target { queue: opened.queue.clone(), filter: Some(Arc::new(Begins("x"))), reader: None };
    let (mut taker, mut owner) = (session(1), session(2));
    put(&opened.queue, &["a1", "x1", "b2"]);
    assert_eq!(take(&mut owner, &opened.queue, 1), ["a1"]);
    let mut wait = || taker.wait(std::slice::from_ref(&target), &mut poll(1)).unwrap();
    assert_eq!(wait(), WaitOutcome::TimedOut);
    opened.queue.hold().unwrap();
    owner.end().unwrap();
    opened.queue.end_hold();
    assert_eq!(wait(), WaitOutcome::Taken(0));
}

#[test]
fn who_waits_behind_a_condition_is_asked_of_what_is_new_only() {
    ends(|| {
        let opened = TestQueue::new(&fifo(Sync::Always));
        (0..50).for_each(|key| put(&opened.queue, &[&format!("a{key}")]));
        let opened = opened.reopened();
        scope(|scope| {
            let waits = scope.spawn(|| {
                let target =
                    Target { queue: opened.queue.clone(), filter: Some(Arc::new(Begins("x"))), reader: None };
                session(1).wait(&[target], &mut WaitOptions::forever()).unwrap()
            });
            while opened.queue.status().waiters == 0 {
                std::thread::yield_now();
            }
            assert_eq!(opened.queue.status().counters.evaluations, 50);
            put(&opened.queue, &["x77"]);
            assert_eq!(waits.join().unwrap(), WaitOutcome::Taken(0));
        });
        assert_eq!(opened.queue.status().counters.evaluations, 51);
    });
}

/// With a priority the first rows of the keys are given in its order; within a key it changes nothing.
#[test]
fn priority_decides_between_keys() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, Order { priority: Some(1), ..FIFO }));
    let row = |key: i64, priority: i64, text: &str| whole_row(Some(key), Some(priority), text);
    let rows =
        [row(1, 5, "a"), row(1, 0, "b"), row(2, 3, "c"), row(3, 9, "d"), row(3, 1, "e"), row(2, 7, "f")];
    opened.queue.publish(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
    opened.queue.maintain().unwrap();
    let opened = opened.reopened();
    let mut taker = session(1);
    for text in ["c", "a", "b", "f", "d", "e"] {
        assert_eq!(take(&mut taker, &opened.queue, 1), [text]);
    }
}

#[test]
fn a_key_is_the_bytes_of_a_column() {
    let variable = Order { fifo: Some(2), ..Order::default() };
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, variable));
    let rows = ["x", "X", "", "x", "", "x "].map(|text| whole_row(None, None, text));
    opened.queue.publish(&rows.each_ref().map(Vec::as_slice), None).unwrap();
    assert_eq!(take(&mut session(1), &opened.queue, 9), ["x", "X", "", "x "]);
    // Any type has bytes.
    let opaque = TestQueue::new(&ordered(Sync::Always, (Kind::Opaque, 3), FIFO));
    let rows = [b"abc", b"abd", b"abc"].map(|key| ordered_row((Some(key), 3), None, "x"));
    opaque.queue.publish(&rows.each_ref().map(Vec::as_slice), None).unwrap();
    assert_eq!(opaque.queue.status().behind, 1);
    let error = opened
        .engine
        .create(Path::new("/db/other"), &ordered(Sync::Always, WHOLE, Order { fifo: Some(3), ..FIFO }));
    assert!(matches!(error, Err(Error::Column { column: 3 })), "{error:?}");
}

/// A take does not look at the rows behind others of their key, however many there are.
#[test]
fn fifo_100k_keys_one_hot() {
    let engine = Engine::start(Arc::new(FaultDisk::default()), timed(1 << 24)).unwrap();
    let columns = vec![Column {
        name: "key".to_owned(),
        kind: Kind::Integer { signed: false },
        layout: condition::ColumnLayout::Fixed(0, 4),
        null_bit: None,
        members: Vec::new(),
    }];
    let schema = Schema { null_bytes: 0, fixed_bytes: 4, columns }.encode();
    engine
        .create(
            Path::new(FOLDER),
            &Definition { schema, sync: Sync::Never, order: FIFO, ..Definition::default() },
        )
        .unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let publish = |keys: &mut dyn Iterator<Item = u32>| {
        let rows: Vec<[u8; 4]> = keys.map(u32::to_le_bytes).collect();
        queue.publish(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>(), None).unwrap();
    };
    publish(&mut std::iter::repeat_n(0, 50_000));
    publish(&mut (0..100_000));
    let mut hot = session(1);
    hot.wait(&[all(&queue)], &mut poll(1)).unwrap();
    assert_eq!(queue.status().behind, 50_000);
    struct Last;
    impl Filter for Last {
        fn text(&self) -> &'static str {
            "last"
        }

        fn matches(&self, row: &[u8]) -> bool {
            row > [0; 4].as_slice()
        }
    }
    let mut taker = session(2);
    for _ in 0..100 {
        let target = Target { queue: queue.clone(), filter: Some(Arc::new(Last)), reader: None };
        assert_eq!(taker.wait(&[target], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    }
    assert_eq!(queue.status().counters.evaluations, 100);
    taker.wait(&[all(&queue)], &mut poll(200_000)).unwrap();
    assert_eq!(taker.owned_rows().unwrap().1.len(), 99_999 - 100);
}

#[test]
fn rows_keep_their_keys_when_most_of_their_segment_is_gone() {
    let engine = Engine::start(Arc::new(FaultDisk::default()), timed(1 << 20)).unwrap();
    engine.create(Path::new(FOLDER), &fifo(Sync::Never)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let mut rows = vec!["a-"; 600];
    rows.extend(["b1", "c1", "d1", "e1"]);
    put(&queue, &rows);
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &queue, 600).len(), 600);
    taker.end().unwrap();
    for text in ["b1", "c1", "d1", "e1"] {
        assert_eq!(take(&mut taker, &queue, 9), [text]);
        assert_eq!(take(&mut session(2), &queue, 9), [""; 0]);
    }
}

#[test]
fn downgrade_refused() {
    let opened = TestQueue::new(&fifo(Sync::Always));
    put(&opened.queue, &["a1"]);
    opened.queue.maintain().unwrap();
    drop((opened.queue, opened.engine));
    let names = opened.disk.names().into_iter().filter(|name| name.starts_with(FOLDER));
    let files: Vec<Vec<u8>> = names.map(|name| opened.disk.bytes(&name).unwrap()).collect();
    let flags = files.iter().filter(|bytes| !bytes.is_empty()).map(|bytes| bytes[16..24].to_vec());
    assert!(flags.collect::<Vec<_>>().iter().all(|flags| *flags == 32u64.to_le_bytes()));
}
