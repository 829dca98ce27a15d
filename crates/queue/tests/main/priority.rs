//! Rows that say before which others they are given.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use condition::Kind;
use disk::faults::FaultDisk;
use queue::{Engine, Error, Order, Queue, Session, Sync, Target, WaitOptions, WaitOutcome};

use crate::support::{
    Begins, FOLDER, TestQueue, WHOLE, all, ends, ordered, ordered_row, pass_ms, poll, session, set_wall,
    text_of, texts, timed, whole_row,
};

const PRIORITY: Order =
    Order { due: None, priority: Some(0), fifo: None, concurrency: 0, age_s: 0, rate_key: None };

fn put(queue: &Queue, rows: &[(Option<i64>, &str)]) {
    let rows: Vec<Vec<u8>> = rows.iter().map(|(priority, text)| whole_row(*priority, None, text)).collect();
    queue.publish(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
}

/// Takes up to so many rows.
fn take(taker: &mut Session, queue: &Arc<Queue>, rows_max: usize) -> Vec<String> {
    taker.wait(&[all(queue)], &mut poll(rows_max)).unwrap();
    texts(taker, queue)
}

#[test]
fn the_lowest_number_comes_first_and_then_the_row_that_was_inserted_first() {
    let mut opened = TestQueue::new(&ordered(Sync::Always, WHOLE, PRIORITY));
    put(
        &opened.queue,
        &[(Some(5), "f"), (None, "c"), (Some(-1), "b"), (Some(0), "d"), (Some(i64::MAX), "g")],
    );
    put(&opened.queue, &[(Some(i64::MIN), "a"), (Some(1), "e")]);
    let order = ["a", "b", "c", "d", "e", "f", "g"];
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 9), order);
    taker.abort().unwrap();
    for text in order {
        assert_eq!(take(&mut taker, &opened.queue, 1), [text]);
        taker.abort().unwrap();
        opened.queue.maintain().unwrap();
        opened = opened.reopened();
        taker = session(1);
        assert_eq!(take(&mut taker, &opened.queue, 1), [text], "also when it came back, and after a restart");
        taker.end().unwrap();
    }
    assert_eq!(opened.queue.rows(), 0);
    put(&opened.queue, &[(Some(2), "y"), (Some(1), "x")]);
    opened.queue.truncate().unwrap();
    put(&opened.queue, &[(Some(2), "z"), (Some(1), "w")]);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["w", "z"]);
}

#[test]
fn numbers_without_a_sign_are_in_order() {
    let unsigned = (Kind::Integer { signed: false }, 8);
    let opened = TestQueue::new(&ordered(Sync::Always, unsigned, PRIORITY));
    let row = |number: u64, text| ordered_row((Some(&number.to_le_bytes()), 8), None, text);
    opened.queue.publish(&[&row(u64::MAX, "b"), &row(1 << 63, "c"), &row(7, "a")], None).unwrap();
    assert_eq!(
        take(&mut session(1), &opened.queue, 9),
        ["a", "b", "c"],
        "beyond a signed number all are equal"
    );
    let other = ordered(Sync::Always, (Kind::Timestamp(0), 4), PRIORITY);
    let error = opened.engine.create(Path::new("/db/other"), &other).unwrap_err();
    assert!(matches!(error, Error::Column { column: 0 }), "{error}");
}

#[test]
fn priority_after_abort() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, PRIORITY));
    put(&opened.queue, &[(Some(2), "c"), (Some(1), "a"), (Some(1), "b"), (Some(3), "d")]);
    let (mut one, mut two) = (session(1), session(2));
    assert_eq!(take(&mut one, &opened.queue, 2), ["a", "b"]);
    assert_eq!(take(&mut two, &opened.queue, 1), ["c"]);
    one.abort().unwrap();
    two.close().unwrap();
    assert_eq!(take(&mut one, &opened.queue, 3), ["a", "b", "c"]);
    one.abort().unwrap();
    // A lease that is given back, and one of which the work failed.
    let second = Duration::from_secs(1);
    let (_, leased) = two.lease(&[all(&opened.queue)], &mut poll(3), second).unwrap();
    let mut leased = leased.unwrap();
    let mut cursor = leased.cursor();
    let mut shown = Vec::new();
    while let Some((id, row)) = cursor.advance().unwrap() {
        shown.push((id, text_of(row)));
    }
    let rows: Vec<_> =
        leased.rows().iter().map(|leased| leased.row).zip(["a", "b", "c"].map(String::from)).collect();
    assert_eq!(shown, rows, "as its tokens are");
    opened.queue.release(&[leased.rows()[2].token, leased.rows()[0].token]).unwrap();
    opened.queue.nack(&[leased.rows()[1].token], None, "").unwrap();
    for text in ["a", "b", "c", "d"] {
        assert_eq!(take(&mut one, &opened.queue, 1), [text]);
    }
}

#[test]
fn who_waits_is_given_the_rows_that_come_first() {
    ends(|| {
        let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, PRIORITY));
        let queue = opened.queue.clone();
        let waiter = std::thread::spawn({
            let queue = queue.clone();
            move || {
                let mut taker = session(1);
                let mut patience = WaitOptions { rows_max: 2, ..WaitOptions::forever() };
                assert_eq!(taker.wait(&[all(&queue)], &mut patience).unwrap(), WaitOutcome::Taken(0));
                texts(&taker, &queue)
            }
        });
        while queue.status().waiters == 0 {
            std::thread::yield_now();
        }
        put(&opened.queue, &[(Some(3), "c"), (Some(4), "d"), (Some(2), "b"), (Some(1), "a")]);
        assert_eq!(waiter.join().unwrap(), ["a", "b"]);
        assert_eq!(queue.status().counters.handed_over, 2);
    });
}

#[test]
fn a_condition_finds_a_row_that_came_before_those_it_has_looked_at() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, PRIORITY));
    let target = Target { queue: opened.queue.clone(), filter: Some(Arc::new(Begins("x"))), reader: None };
    let mut taker = session(1);
    let mut take = |rows_max: usize| {
        taker.wait(std::slice::from_ref(&target), &mut poll(rows_max)).unwrap();
        texts(&taker, &opened.queue)
    };
    put(&opened.queue, &[(Some(5), "x5"), (Some(6), "a"), (Some(7), "a"), (Some(8), "x8")]);
    assert_eq!(take(1), ["x5"]);
    assert!(take(2) == ["x8"] && take(1).is_empty());
    put(&opened.queue, &[(Some(9), "x9"), (Some(3), "x3"), (Some(1), "a"), (Some(2), "x2")]);
    assert_eq!(take(2), ["x2", "x3"]);
    assert_eq!(take(2), ["x9"]);
    // More than are remembered.
    let many: Vec<(Option<i64>, &str)> = (0..5000).map(|number| (Some(-number), "a")).collect();
    put(&opened.queue, &many);
    put(&opened.queue, &[(Some(-2000), "x")]);
    assert_eq!(take(1), ["x"]);
}

#[test]
fn many_rows_are_shown_in_the_order_in_which_they_were_taken() {
    let opened = TestQueue::new(&ordered(Sync::Never, WHOLE, PRIORITY));
    let texts: Vec<String> = (0..300).map(|number| format!("{number:03}")).collect();
    let rows: Vec<(Option<i64>, &str)> =
        texts.iter().rev().map(|text| (text.parse().ok(), text.as_str())).collect();
    rows.chunks(7).for_each(|rows| put(&opened.queue, rows));
    opened.queue.maintain().unwrap();
    let opened = opened.reopened();
    assert_eq!(take(&mut session(1), &opened.queue, 1000), texts);
}

#[test]
fn a_walk_does_not_end_with_the_row_that_was_inserted_last() {
    let opened = TestQueue::new(&ordered(Sync::Never, WHOLE, PRIORITY));
    // The last of the first rows that the walk looks up at once.
    let order = (0..63).chain(64..100).chain([63]);
    order.for_each(|priority| put(&opened.queue, &[(Some(priority), "x")]));
    assert_eq!(take(&mut session(1), &opened.queue, 1000).len(), 100);
}

#[test]
fn rows_keep_their_priorities_when_most_of_their_segment_is_gone() {
    let engine = Engine::start(Arc::new(FaultDisk::default()), timed(1 << 20)).unwrap();
    engine.create(Path::new(FOLDER), &ordered(Sync::Never, WHOLE, PRIORITY)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let texts: Vec<String> = (0..600).map(|number| format!("{number:03}")).collect();
    let shuffled = (0..600).map(|number| texts[number * 7 % 600].as_str());
    let rows: Vec<(Option<i64>, &str)> = shuffled.map(|text| (text.parse().ok(), text)).collect();
    put(&queue, &rows);
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &queue, 450), texts[..450]);
    taker.end().unwrap();
    assert_eq!(take(&mut taker, &queue, 100), texts[450..550]);
    taker.abort().unwrap();
    assert_eq!(take(&mut taker, &queue, 1000), texts[450..]);
}

#[test]
fn downgrade_refused() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, PRIORITY));
    put(&opened.queue, &[(Some(1), "x")]);
    opened.queue.maintain().unwrap();
    drop((opened.queue, opened.engine));
    let names = opened.disk.names().into_iter().filter(|name| name.starts_with(FOLDER));
    let files: Vec<Vec<u8>> = names.map(|name| opened.disk.bytes(&name).unwrap()).collect();
    let flags = files.iter().filter(|bytes| !bytes.is_empty()).map(|bytes| bytes[16..24].to_vec());
    assert!(flags.collect::<Vec<_>>().iter().all(|flags| *flags == 16u64.to_le_bytes()));
}

#[test]
fn a_priority_that_ages_lets_no_row_wait_forever() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let order = Order { age_s: 10, ..PRIORITY };
        let mut opened = TestQueue::new(&ordered(sync, WHOLE, order));
        put(&opened.queue, &[(Some(3), "waits")]);
        pass_ms(29_000);
        put(&opened.queue, &[(None, "before it")]);
        pass_ms(2_000);
        put(&opened.queue, &[(Some(0), "after it"), (Some(-1), "urgent")]);
        let expected = ["urgent", "before it", "waits", "after it"];
        for round in 0..3 {
            let mut taker = session(1);
            assert_eq!(take(&mut taker, &opened.queue, 9), expected, "{sync:?} {round}");
            taker.abort().unwrap();
            match round {
                0 => opened.queue.compact().unwrap(),
                _ => opened = opened.reopened(),
            }
        }
        assert_eq!(opened.queue.definition().order, order);
    }
}

/// Times of insertion are kept to the second only; the place of a row is not computed from them again.
#[test]
fn a_row_that_is_moved_keeps_its_place_among_rows_that_age() {
    let order = Order { age_s: 1, ..PRIORITY };
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), timed(8192)).unwrap();
    engine.create(Path::new(FOLDER), &ordered(Sync::Always, WHOLE, order)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let opened = TestQueue { disk, engine, queue };
    set_wall(1_700_000_000_900);
    put(&opened.queue, &[(Some(0), "first"), (Some(1), "second")]);
    pass_ms(600);
    put(&opened.queue, &[(Some(0), "third")]);
    // Enough that the segment is sealed, and rewritten when they are gone.
    let long = "x".repeat(120);
    (0..80).for_each(|_| put(&opened.queue, &[(Some(-9), &long)]));
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 80).len(), 80);
    taker.end().unwrap();
    opened.queue.compact().unwrap();
    assert!(opened.queue.status().counters.compacted > 0);
    let expected = ["first", "second", "third"];
    assert_eq!(take(&mut taker, &opened.queue, 3), expected);
    taker.abort().unwrap();
    assert_eq!(take(&mut taker, &opened.queue, 3), expected);
    taker.close().unwrap();
    let opened = opened.reopened();
    assert_eq!(take(&mut taker, &opened.queue, 3), expected);
}
