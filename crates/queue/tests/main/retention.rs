//! Rows that were ended and are kept for a time (KEEP), and given again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use queue::{Dedupe, Definition, Error, Order, Queue, RetainedFilter, RowId, Sync, WaitOutcome};

use crate::support::{
    DEAD, FOLDER, TestQueue, WHOLE, all, altered, definition, end, ends, kept, limited, ordered, pass_ms,
    poll, put, rows, session, set_wall, texts, timed, wall, whole_row, xid,
};

const KEEP_MS: u64 = 60_000;

/// A queue that keeps rows for a minute.
fn keeping(sync: Sync) -> Definition {
    Definition { keep_ms: KEEP_MS, transactional: true, ..definition(sync) }
}

fn waiting(queue: &Arc<Queue>) -> Vec<String> {
    rows(&session(99), queue)
}

/// Continues by a tenth of a second with each look.
fn running_ms() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1_700_000_000_000);
    NOW.fetch_add(100, Ordering::Relaxed)
}

fn segments(opened: &TestQueue) -> usize {
    opened.disk.names().iter().filter(|name| name.extension().is_some_and(|end| end == "seg")).count()
}

#[test]
fn a_row_that_was_ended_is_read_for_its_time_and_then_gone() {
    for sync in [Sync::Always, Sync::Never] {
        set_wall(1_700_000_000_000);
        let mut opened = TestQueue::new(&keeping(sync));
        for number in 0..60 {
            put(&opened.queue, &format!("{number:040}"));
        }
        let ended = end(&opened.queue, 40);
        for _ in 0..2 {
            assert_eq!(kept(&opened.queue), ended);
            let status = opened.queue.status();
            assert_eq!((status.waiting, status.kept, opened.queue.rows()), (20, 40, 20));
            assert_eq!((status.live_bytes, status.kept_bytes), (20 * 44, 40 * 44));
            assert_eq!(waiting(&opened.queue).len(), 20);
            opened.queue.sync().unwrap();
            opened = opened.reopened();
            opened.queue.compact().unwrap();
            opened = opened.reopened();
        }
        pass_ms(KEEP_MS - 1);
        opened.queue.end_due().unwrap();
        assert_eq!(opened.queue.status().kept, 40);
        let before = segments(&opened);
        pass_ms(1);
        opened.queue.end_due().unwrap();
        assert_eq!((kept(&opened.queue).len(), opened.queue.status().kept), (0, 0));
        opened.queue.maintain().unwrap();
        assert!(segments(&opened) * 2 < before, "{} of {before}", segments(&opened));
        opened = opened.reopened();
        assert_eq!((kept(&opened.queue).len(), waiting(&opened.queue).len()), (0, 20));
    }
}

#[test]
fn a_thread_removes_what_was_kept_long_enough() {
    ends(|| {
        let disk = disk::faults::FaultDisk::default();
        let options = queue::Options { threads: 2, now_ms: running_ms, ..timed(700) };
        let engine = queue::Engine::start(Arc::new(disk), options).unwrap();
        let folder = std::path::Path::new(FOLDER);
        engine.create(folder, &Definition { keep_ms: 1, ..definition(Sync::Always) }).unwrap();
        let queue = engine.open(folder).unwrap();
        put(&queue, "row");
        end(&queue, 1);
        while queue.status().counters.rows_removed < 1 || queue.status().kept > 0 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn what_was_never_there_is_not_kept() {
    let opened = TestQueue::new(&keeping(Sync::Always));
    let TestQueue { queue, .. } = &opened;
    // A statement that failed.
    let mut one = session(1);
    one.publish_in_statement(queue, &[b"failed"]).unwrap();
    one.end_statement(false).unwrap();
    // A transaction that was rolled back, and one that was committed.
    for (number, commit) in [(1, false), (2, true)] {
        put(queue, &format!("ended {commit}"));
        let mut transaction = one.begin(queue).unwrap();
        transaction.publish(&[b"added"]).unwrap();
        one.wait(&[all(queue)], &mut poll(1)).unwrap();
        assert!(one.end_within(&mut transaction));
        let prepared = transaction.prepare(&xid(number)).unwrap();
        assert!(prepared.decide(commit));
    }
    let expected = ["ended false".to_owned()];
    assert_eq!(kept(queue), expected, "of the two only the second was committed");
    let opened = opened.reopened();
    assert_eq!(kept(&opened.queue), expected);
    assert_eq!(waiting(&opened.queue), ["ended true", "added"]);
    // Deleting is an end.
    let mut cursor = session(2).cursor(&opened.queue);
    let (id, _) = cursor.advance().unwrap().unwrap();
    assert_eq!(session(2).delete(&opened.queue, &[id]).unwrap(), 1);
    assert_eq!(kept(&opened.queue), ["ended false", "ended true"]);
    opened.queue.truncate().unwrap();
    assert_eq!((kept(&opened.queue).len(), opened.queue.status().kept), (0, 0));
    assert_eq!(opened.reopened().queue.status().kept, 0);
}

#[test]
fn a_row_that_moved_to_another_queue_is_not_kept() {
    let policy = limited(1, "0,1,0", true);
    let opened = TestQueue::new(&Definition { policy, ..keeping(Sync::Always) });
    opened.engine.create(std::path::Path::new(DEAD), &definition(Sync::Always)).unwrap();
    put(&opened.queue, "row");
    let mut one = session(1);
    one.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    one.close().unwrap();
    opened.queue.move_dead_letters().unwrap();
    let dead = opened.engine.open(std::path::Path::new(DEAD)).unwrap();
    assert_eq!((waiting(&dead), kept(&opened.queue)), (vec!["row".to_owned()], vec![]));
    assert_eq!(kept(&opened.reopened().queue), [""; 0]);
}

#[test]
fn a_double_is_not_kept() {
    let dedupe = Some(Dedupe { column: 0, for_ms: 1000 });
    let definition = ordered(Sync::Always, WHOLE, Order::default());
    let opened = TestQueue::new(&Definition { dedupe, keep_ms: KEEP_MS, transactional: true, ..definition });
    let mut one = session(1);
    one.publish_in_statement(
        &opened.queue,
        &[&whole_row(Some(1), None, "a"), &whole_row(Some(1), None, "b")],
    )
    .unwrap();
    assert_eq!(one.end_statement(true).unwrap(), 1);
    let mut transaction = one.begin(&opened.queue).unwrap();
    transaction.publish(&[&whole_row(Some(1), None, "c")]).unwrap();
    assert!(transaction.prepare(&xid(1)).unwrap().decide(true));
    assert_eq!((opened.queue.status().counters.left_out, opened.queue.status().kept), (2, 0));
    assert_eq!(opened.reopened().queue.status().kept, 0);
}

#[test]
fn rows_are_given_again_by_number_and_by_time() {
    set_wall(1_700_000_000_000);
    for sync in [Sync::Always, Sync::Never] {
        let mut opened = TestQueue::new(&keeping(sync));
        let begin_ms = wall();
        for number in 1..=50 {
            put(&opened.queue, &format!("{number:040}"));
        }
        for _ in 0..4 {
            end(&opened.queue, 10);
            pass_ms(2000);
        }
        let numbers =
            |texts: Vec<String>| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<u64>>();
        let some = |rows: std::ops::Range<u64>| RetainedFilter {
            rows: RowId(rows.start)..RowId(rows.end),
            ..RetainedFilter::all()
        };
        assert_eq!(opened.queue.replay(&some(8..13)).unwrap(), 5);
        assert_eq!(opened.queue.replay(&some(8..13)).unwrap(), 0, "they wait");
        assert_eq!(numbers(end(&opened.queue, 7)), [8, 9, 10, 11, 12, 41, 42], "in their former places");
        let late = RetainedFilter { within_ms: begin_ms + 2000..=begin_ms + 4000, ..RetainedFilter::all() };
        assert_eq!(opened.queue.replay(&late).unwrap(), 18, "those of the second and the third time");
        let expected: Vec<u64> = (13..=30).chain(43..=50).collect();
        for _ in 0..2 {
            assert_eq!(numbers(waiting(&opened.queue)), expected);
            assert_eq!(opened.queue.status().kept, 24);
            opened.queue.sync().unwrap();
            opened = opened.reopened();
        }
        opened.queue.maintain().unwrap();
        opened = opened.reopened();
        assert_eq!(opened.queue.replay(&RetainedFilter::all()).unwrap(), 24);
        assert_eq!(numbers(waiting(&opened.queue)), (1..=50).collect::<Vec<u64>>());
        // Ended again, each is kept from then on.
        pass_ms(KEEP_MS);
        end(&opened.queue, 50);
        opened.queue.end_due().unwrap();
        assert_eq!(opened.queue.status().kept, 50);
    }
    let without = TestQueue::new(&definition(Sync::Always));
    assert!(matches!(without.queue.replay(&RetainedFilter::all()), Err(Error::NotKept)));
}

#[test]
fn replay_twice() {
    for sync in [Sync::Always, Sync::Never] {
        let mut opened = TestQueue::new(&keeping(sync));
        (1..=3).for_each(|number| put(&opened.queue, &number.to_string()));
        for _ in 0..2 {
            assert_eq!(end(&opened.queue, 9), ["1", "2", "3"]);
            assert_eq!(opened.queue.replay(&RetainedFilter::all()).unwrap(), 3);
            let mut taker = session(1);
            taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
            assert_eq!(
                opened.queue.replay(&RetainedFilter::all()).unwrap(),
                0,
                "somebody has one, and two wait"
            );
            assert_eq!(waiting(&opened.queue), ["2", "3"]);
            opened.queue.sync().unwrap();
            drop(taker);
            opened = opened.reopened();
            assert_eq!(opened.queue.replay(&RetainedFilter::all()).unwrap(), 0);
            assert_eq!((waiting(&opened.queue).len(), opened.queue.status().kept), (3, 0));
        }
    }
}

#[test]
fn a_row_that_is_given_again_goes_to_who_waits_in_its_order() {
    let order = Order { priority: Some(0), fifo: Some(1), ..Order::default() };
    let opened = TestQueue::new(&Definition { keep_ms: KEEP_MS, ..ordered(Sync::Always, WHOLE, order) });
    for (priority, line, text) in [(2, 7, "a"), (1, 7, "b"), (1, 8, "c"), (0, 9, "d")] {
        opened.queue.publish(&[&whole_row(Some(priority), Some(line), text)], None).unwrap();
    }
    let mut taker = session(1);
    let mut order = Vec::new();
    for _ in 0..4 {
        taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
        order.extend(texts(&taker, &opened.queue));
    }
    taker.end().unwrap();
    assert_eq!(order, ["d", "c", "a", "b"]);
    let queue = opened.queue.clone();
    ends(move || {
        let waiter = std::thread::spawn({
            let queue = queue.clone();
            move || {
                let mut taker = session(2);
                let waited = taker.wait(&[all(&queue)], &mut queue::WaitOptions::forever()).unwrap();
                assert_eq!(waited, WaitOutcome::Taken(0));
                texts(&taker, &queue)
            }
        });
        while queue.status().waiters == 0 {
            std::thread::yield_now();
        }
        assert_eq!(queue.replay(&RetainedFilter::all()).unwrap(), 4);
        assert_eq!(waiter.join().unwrap(), ["d"]);
    });
}

#[test]
fn a_row_is_kept_by_the_copy_of_its_queue() {
    set_wall(1_700_000_000_000);
    let opened = TestQueue::new(&keeping(Sync::Always));
    for number in 1..=6 {
        put(&opened.queue, &format!("{number}"));
    }
    end(&opened.queue, 2);
    pass_ms(5000);
    assert_eq!(
        opened.queue.replay(&RetainedFilter { rows: RowId(1)..RowId(2), ..RetainedFilter::all() }).unwrap(),
        1
    );
    let mut taker = session(1);
    taker.wait(&[crate::support::only(&opened.queue, "4")], &mut poll(1)).unwrap();
    let copy = altered(&opened.engine, &opened.queue, &keeping(Sync::Always)).unwrap();
    taker.end().unwrap();
    assert_eq!((kept(&copy), waiting(&copy).len()), (vec!["2".to_owned(), "4".to_owned()], 4));
    pass_ms(KEEP_MS - 5000);
    copy.end_due().unwrap();
    assert_eq!(kept(&copy), ["4"], "2 was ended before the copy was made");
    copy.maintain().unwrap();
    let opened = TestQueue { queue: copy, ..opened }.reopened();
    assert_eq!(kept(&opened.queue), ["4"]);
    let copy = altered(&opened.engine, &opened.queue, &definition(Sync::Always)).unwrap();
    assert_eq!((copy.status().kept, waiting(&copy)), (0, ["1", "3", "5", "6"].map(str::to_owned).to_vec()));
}

#[test]
fn rows_that_could_not_be_given_again_are_kept_on() {
    let opened = TestQueue::new(&keeping(Sync::Always));
    put(&opened.queue, "row");
    end(&opened.queue, 1);
    opened.disk.limit(0);
    assert!(matches!(opened.queue.replay(&RetainedFilter::all()), Err(Error::Disk { .. })));
    assert_eq!((kept(&opened.queue).len(), waiting(&opened.queue).len()), (1, 0));
    opened.disk.limit(u64::MAX);
    assert_eq!(opened.queue.replay(&RetainedFilter::all()).unwrap(), 1);
    assert_eq!(waiting(&opened.reopened().queue), ["row"]);
}

#[test]
fn a_queue_that_keeps_rows_has_a_flag_of_its_own() {
    let opened = TestQueue::new(&keeping(Sync::Always));
    let flags =
        |opened: &TestQueue| opened.disk.bytes(&std::path::Path::new(FOLDER).join("checkpoint")).unwrap()[16];
    assert_eq!(flags(&opened), 0x81, "an older version refuses it");
    assert_eq!(flags(&TestQueue::new(&definition(Sync::Always))), 0);
}
