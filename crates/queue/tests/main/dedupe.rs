//! Rows that are left out because another one with their key came before (DEDUPE).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::{FaultDisk, Unsynced};
use queue::{
    Dedupe, Definition, Engine, Error, Options, Order, Origin, PUBLISH_BYTES_MAX, Queue, RowId, Session,
    Source, Sync,
};

use crate::support::{
    DEAD, FOLDER, TestQueue, WHOLE, all, altered, ends, limited, ordered, pass_ms, poll, prepared, session,
    set_wall, texts, timed, wall, whole_row, xid,
};

const MINUTE_MS: u64 = 60_000;

/// A queue whose first column is the key, for so long.
fn dedupe(sync: Sync, for_ms: u64) -> Definition {
    let dedupe = Some(Dedupe { column: 0, for_ms });
    Definition { dedupe, transactional: true, ..ordered(sync, WHOLE, Order::default()) }
}

/// The key is the number in a text, and NULL without one.
fn row(text: &str) -> Vec<u8> {
    whole_row(text[1..].parse().ok(), None, text)
}

/// Returns how many were left out.
fn put(queue: &Queue, rows: &[&str]) -> u64 {
    let rows: Vec<Vec<u8>> = rows.iter().map(|text| row(text)).collect();
    queue.publish_once(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
}

fn there(queue: &Arc<Queue>) -> Vec<String> {
    texts(&session(99), queue)
}

/// Takes up to so many rows.
fn take(taker: &mut Session, queue: &Arc<Queue>, rows_max: usize) -> Vec<String> {
    taker.wait(&[all(queue)], &mut poll(rows_max)).unwrap();
    texts(taker, queue)
}

#[test]
fn a_row_is_left_out_for_a_time_after_one_with_its_key() {
    for sync in [Sync::Always, Sync::Never] {
        let mut opened = TestQueue::new(&dedupe(sync, MINUTE_MS));
        assert_eq!(put(&opened.queue, &["a1", "a2", "b1", "a-", "b-"]), 1, "also in one statement");
        assert_eq!(there(&opened.queue), ["a1", "a2", "a-", "b-"]);
        let mut taker = session(1);
        take(&mut taker, &opened.queue, 9);
        taker.end().unwrap();
        pass_ms(MINUTE_MS - 1);
        for _ in 0..2 {
            assert_eq!(put(&opened.queue, &["c1", "c2"]), 2, "though they are gone");
            opened.queue.sync().unwrap();
            drop(taker);
            opened = opened.reopened();
            taker = session(1);
            opened.queue.maintain().unwrap();
        }
        assert_eq!(opened.queue.status().written_per_s, 0);
        pass_ms(1);
        assert_eq!(put(&opened.queue, &["d1", "d3"]), 0, "doubles have not made it longer");
        assert_eq!(put(&opened.queue, &["e1", "e3"]), 2);
        assert_eq!(there(&opened.queue), ["d1", "d3"]);
        let counters = opened.queue.status().counters;
        assert_eq!((counters.left_out, counters.rows_written), (2, 2));
        opened.queue.truncate().unwrap();
        assert_eq!(put(&opened.queue, &["f1"]), 0);
    }
}

#[test]
fn with_no_time_a_row_is_left_out_while_another_one_waits() {
    for sync in [Sync::Always, Sync::Never] {
        let definition = Definition { order: Order { due: Some(1), ..Order::default() }, ..dedupe(sync, 0) };
        let mut opened = TestQueue::new(&definition);
        let later = |text: &str| {
            whole_row(text[1..].parse().ok(), Some(i64::try_from(wall() / 1000 + 60).unwrap()), text)
        };
        assert_eq!(opened.queue.publish_once(&[&row("a1"), &later("a2"), &row("a-")]).unwrap(), 0);
        assert_eq!(put(&opened.queue, &["b1", "b2", "b-"]), 2, "a row that is due later waits, too");
        for _ in 0..2 {
            opened.queue.maintain().unwrap();
            opened.queue.sync().unwrap();
            opened = opened.reopened();
            assert_eq!(put(&opened.queue, &["b1", "b2"]), 2);
        }
        let mut taker = session(1);
        assert_eq!(take(&mut taker, &opened.queue, 1), ["a1"]);
        assert_eq!(put(&opened.queue, &["c1", "d1"]), 1, "one that is worked on leaves none out");
        taker.abort().unwrap();
        assert_eq!(take(&mut taker, &opened.queue, 1), ["a1"]);
        assert_eq!(put(&opened.queue, &["e1"]), 1);
        taker.end().unwrap();
        assert_eq!(take(&mut taker, &opened.queue, 9), ["a-", "b-", "c1"]);
        taker.end().unwrap();
        assert_eq!(put(&opened.queue, &["f1"]), 0);
    }
}

#[test]
fn dedupe_winner_rolls_back() {
    for for_ms in [0, MINUTE_MS] {
        let opened = TestQueue::new(&dedupe(Sync::Always, for_ms));
        let begin = |text: &str| {
            let mut transaction = session(1).begin(&opened.queue).unwrap();
            transaction.publish(&[&row(text)]).unwrap();
            transaction
        };
        // Whoever commits first is there.
        let (one, two, three) = (begin("a1"), begin("b1"), begin("c1"));
        let one = one.prepare(&xid(1)).unwrap();
        let two = two.prepare(&xid(2)).unwrap();
        one.rollback().unwrap();
        assert_eq!(there(&opened.queue), [""; 0]);
        two.commit().unwrap();
        three.commit_one_phase().unwrap();
        assert_eq!(there(&opened.queue), ["b1"]);
        assert_eq!(opened.queue.status().counters.left_out, 1);
        begin("a8").commit_one_phase().unwrap();
        assert_eq!(put(&opened.queue, &["b8"]), 1);
        session(3).delete(&opened.queue, &[RowId(3), RowId(4)]).unwrap();
        assert_eq!(there(&opened.queue), ["b1"]);
        // A row that is added meanwhile is there, and the transaction's own is left out.
        let four = begin("a2").prepare(&xid(4)).unwrap();
        assert_eq!(put(&opened.queue, &["b2"]), 0);
        four.commit().unwrap();
        assert_eq!(there(&opened.queue), ["b1", "b2"]);
        // A statement that fails.
        let mut adder = session(2);
        adder.publish_in_statement(&opened.queue, &[&row("a3"), &row("b3")]).unwrap();
        assert_eq!(adder.end_statement(false).unwrap(), 0);
        adder.publish_in_statement(&opened.queue, &[&row("c3"), &row("d3")]).unwrap();
        assert_eq!(adder.end_statement(true).unwrap(), 1);
        assert_eq!(put(&opened.queue, &["e3"]), 1);
        assert_eq!(there(&opened.queue), ["b1", "b2", "c3"]);
        let opened = opened.reopened();
        assert_eq!(there(&opened.queue), ["b1", "b2", "c3"], "what was left out does not come back");
        assert_eq!(put(&opened.queue, &["f1", "f2", "f3"]), 3);
    }
}

#[test]
fn dedupe_after_restart() {
    for for_ms in [0, MINUTE_MS] {
        for tidies in [false, true] {
            let mut opened = TestQueue::new(&dedupe(Sync::Always, for_ms));
            let mut transaction = session(1).begin(&opened.queue).unwrap();
            transaction.publish(&[&row("a1"), &row("a2"), &row("b1")]).unwrap();
            let open = transaction.prepare(&xid(1)).unwrap();
            assert_eq!(put(&opened.queue, &["b2"]), 0);
            // It is in a sealed segment.
            (0..40).for_each(|key| assert_eq!(put(&opened.queue, &[&format!("c{}", 1000 + key)]), 0));
            if tidies {
                opened.queue.compact().unwrap();
            }
            drop(open);
            opened = opened.reopened();
            assert_eq!(prepared(&opened.queue), [1]);
            assert_eq!(put(&opened.queue, &["d2", "d1005"]), 2);
            opened.queue.commit_by_xid(&xid(1)).unwrap();
            let rows = there(&opened.queue);
            assert_eq!((rows.len(), rows[0].as_str(), rows[1].as_str()), (42, "a1", "b2"));
            pass_ms(MINUTE_MS / 2);
            if tidies {
                opened.queue.compact().unwrap();
            }
            opened = opened.reopened();
            assert_eq!(put(&opened.queue, &["e1", "e2", "e1010"]), 3);
            assert_eq!(there(&opened.queue), rows);
            // The time of each began when it came, and not with the restart.
            pass_ms(MINUTE_MS / 2);
            let left_out = if for_ms == 0 { 3 } else { 0 };
            assert_eq!(put(&opened.queue, &["f1", "f2", "f1010"]), left_out);
        }
    }
}

#[test]
fn rows_that_are_moved_come_and_their_keys_count() {
    let opened = TestQueue::new(&dedupe(Sync::Always, MINUTE_MS));
    let relayed =
        |number| Origin { source: Source::Incarnation([3; 16]), row: number, floor: 0, overwrite: false };
    put(&opened.queue, &["a1"]);
    opened.queue.publish(&[&row("b1")], Some(&relayed(1))).unwrap();
    opened.queue.publish(&[&row("b2")], Some(&relayed(2))).unwrap();
    assert_eq!(put(&opened.queue, &["c2"]), 1);
    assert_eq!(there(&opened.queue), ["a1", "b1", "b2"]);
    // So do those that have no tries left.
    let policy = limited(1, "0,1,0", true);
    let from = Path::new("/db/from");
    opened.engine.create(Path::new(DEAD), &dedupe(Sync::Always, MINUTE_MS)).unwrap();
    opened
        .engine
        .create(from, &Definition { policy, ..ordered(Sync::Always, WHOLE, Order::default()) })
        .unwrap();
    let (queue, dead) = (opened.engine.open(from).unwrap(), opened.engine.open(Path::new(DEAD)).unwrap());
    queue.publish(&[&row("d1"), &row("e1")], None).unwrap();
    let (_, leased) = session(1).lease(&[all(&queue)], &mut poll(2), Duration::from_secs(9)).unwrap();
    let tokens: Vec<_> = leased.unwrap().rows().iter().map(|leased| leased.token).collect();
    queue.nack(&tokens, None, "").unwrap();
    assert_eq!(there(&dead), ["d1", "e1"]);
    assert_eq!(put(&dead, &["f1"]), 1);
}

#[test]
fn a_copy_has_all_rows_and_knows_the_keys_of_those_that_are_gone() {
    let opened = TestQueue::new(&dedupe(Sync::Always, MINUTE_MS));
    put(&opened.queue, &["a1", "a2"]);
    opened.queue.publish(&[&row("b2")], None).unwrap();
    let mut taker = session(1);
    take(&mut taker, &opened.queue, 1);
    taker.end().unwrap();
    let new = altered(&opened.engine, &opened.queue, opened.queue.definition()).unwrap();
    drop((taker, new));
    let opened = opened.reopened();
    assert_eq!(there(&opened.queue), ["a2", "b2"]);
    assert_eq!(put(&opened.queue, &["c1", "c2"]), 2);
}

#[test]
fn a_row_that_could_not_be_written_leaves_none_out() {
    for for_ms in [0, MINUTE_MS] {
        ends(move || {
            let opened = TestQueue::new(&dedupe(Sync::Always, for_ms));
            put(&opened.queue, &["a2"]);
            opened.disk.limit(0);
            let error = opened.queue.publish_once(&[&row("a1"), &row("b2")]).unwrap_err();
            assert!(matches!(error, Error::Disk { .. }), "{error}");
            assert_eq!(opened.queue.status().counters.left_out, 0, "the statement has failed");
            opened.disk.limit(u64::MAX);
            assert_eq!(put(&opened.queue, &["b1", "b2"]), 1);
            assert_eq!(there(&opened.queue), ["a2", "b1"]);
        });
    }
}

#[test]
fn keys_of_a_statement_are_written_though_nobody_writes_anything_else() {
    ends(|| {
        let disk = FaultDisk::default();
        let options = Options { threads: 1, interval: Duration::from_millis(1), ..timed(1 << 20) };
        let engine = Engine::start(Arc::new(disk.clone()), options).unwrap();
        engine.create(Path::new(FOLDER), &dedupe(Sync::Always, MINUTE_MS)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        let mut adder = session(1);
        adder.publish_in_statement(&queue, &[&row("a1")]).unwrap();
        let batches = queue.status().counters.batches;
        adder.end_statement(true).unwrap();
        while queue.status().counters.batches == batches {
            std::thread::yield_now();
        }
        let engine = Engine::start(Arc::new(disk.after_crash(Unsynced::Keep)), timed(1 << 20)).unwrap();
        assert_eq!(put(&engine.open(Path::new(FOLDER)).unwrap(), &["b1"]), 1);
    });
}

#[test]
fn keys_take_memory_until_their_time_is_over() {
    let opened = TestQueue::new(&dedupe(Sync::Never, MINUTE_MS));
    let texts: Vec<String> = (0..5000).map(|key| format!("a{key}")).collect();
    put(&opened.queue, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut taker = session(1);
    take(&mut taker, &opened.queue, 5000);
    taker.end().unwrap();
    opened.queue.maintain().unwrap();
    let memory = opened.queue.status().memory;
    assert!(memory > 5000 * 64, "{memory}");
    pass_ms(MINUTE_MS);
    put(&opened.queue, &["b-"]);
    let memory = opened.queue.status().memory;
    assert!(memory < 20_000, "{memory}");
}

#[test]
fn a_clock_that_is_set_back_leaves_no_row_out_for_longer() {
    set_wall(1_700_000_000_000);
    let opened = TestQueue::new(&dedupe(Sync::Always, MINUTE_MS));
    set_wall(1_900_000_000_000);
    put(&opened.queue, &["a1"]);
    set_wall(1_700_000_000_000);
    assert_eq!(put(&opened.queue, &["b1"]), 0);
    assert_eq!(put(&opened.queue, &["c1"]), 1);
    let opened = opened.reopened();
    assert_eq!(put(&opened.queue, &["d1"]), 1);
}

/// Keys are kept when most rows of their segment are gone.
#[test]
fn keys_of_a_segment_with_few_rows() {
    let engine = Engine::start(Arc::new(FaultDisk::default()), timed(1 << 20)).unwrap();
    engine.create(Path::new(FOLDER), &dedupe(Sync::Never, 0)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let texts: Vec<String> = (0..600).map(|key| format!("a{key}")).collect();
    assert_eq!(put(&queue, &texts.iter().map(String::as_str).collect::<Vec<_>>()), 0);
    let mut taker = session(1);
    take(&mut taker, &queue, 450);
    taker.end().unwrap();
    take(&mut taker, &queue, 1);
    assert_eq!(put(&queue, &["b450", "b451", "b3"]), 1);
}

#[test]
fn refused() {
    let opened = TestQueue::new(&dedupe(Sync::Always, MINUTE_MS));
    let dedupe = Some(Dedupe { column: 3, for_ms: 0 });
    let other = Definition { dedupe, ..ordered(Sync::Always, WHOLE, Order::default()) };
    let error = opened.engine.create(Path::new("/db/other"), &other).unwrap_err();
    assert!(matches!(error, Error::Column { column: 3 }), "{error}");
    // Its key is written too.
    let error = opened.queue.publish_once(&[&vec![0; PUBLISH_BYTES_MAX - 12]]).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    put(&opened.queue, &["a1"]);
    opened.queue.maintain().unwrap();
    drop((opened.queue, opened.engine));
    let names = opened.disk.names().into_iter().filter(|name| name.starts_with(FOLDER));
    let files: Vec<Vec<u8>> = names.map(|name| opened.disk.bytes(&name).unwrap()).collect();
    let flags = files.iter().filter(|bytes| !bytes.is_empty()).map(|bytes| bytes[16..24].to_vec());
    assert!(flags.collect::<Vec<_>>().iter().all(|flags| *flags == 0x41u64.to_le_bytes()));
}
