//! Rows that say from when on they may be given.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use condition::Kind;
use disk::faults::FaultDisk;
use queue::{Cursor, Definition, Engine, Error, Options, Order, RowId, Sync, WaitOptions, WaitOutcome};

use crate::support::{
    FOLDER, TestQueue, WHOLE, all, altered, ends, log_bytes, options, ordered, ordered_row, pass_ms, poll,
    prepared, session, set_wall, texts, timed, wall, whole_row, xid,
};

const DUE: Order =
    Order { due: Some(0), priority: None, fifo: None, concurrency: 0, age_s: 0, rate_key: None };

fn due(sync: Sync) -> Definition {
    ordered(sync, WHOLE, DUE)
}

impl TestQueue {
    /// Publishes a row that is due in so many seconds.
    fn put(&self, seconds: i64, text: &str) {
        self.queue.publish(&[&whole_row(Some(in_seconds(seconds)), None, text)], None).unwrap();
    }

    /// What is there now, after the time that was let pass.
    fn there(&self) -> Vec<String> {
        self.queue.end_due().unwrap();
        texts(&session(90), &self.queue)
    }
}

fn in_seconds(seconds: i64) -> i64 {
    i64::try_from(wall() / 1000).unwrap() + seconds
}

#[test]
fn a_row_is_given_when_it_is_due_in_its_place() {
    set_wall(1_700_000_000_000);
    let opened = TestQueue::new(&due(Sync::Always));
    opened.put(10, "ten");
    opened
        .queue
        .publish(&[&whole_row(None, None, "null"), &whole_row(Some(-5), None, "past")], None)
        .unwrap();
    opened.put(5, "five");
    opened.put(0, "now");
    let mut taker = session(1);
    assert_eq!(opened.there(), ["null", "past", "now"]);
    let status = opened.queue.status();
    assert_eq!((status.waiting, status.owned, status.delayed), (3, 2, 2));
    pass_ms(4999);
    assert_eq!(opened.there(), ["null", "past", "now"]);
    pass_ms(1);
    // Whoever looks for a row needs nobody to look before.
    assert_eq!(taker.wait(&[all(&opened.queue)], &mut poll(9)).unwrap(), WaitOutcome::Taken(0));
    assert_eq!(texts(&taker, &opened.queue), ["null", "past", "five", "now"]);
    pass_ms(5000);
    taker.abort().unwrap();
    assert_eq!(opened.there(), ["ten", "null", "past", "five", "now"]);
    let status = opened.queue.status();
    assert_eq!((status.waiting, status.owned, status.delayed), (5, 0, 0));
    assert_eq!(session(2).count(&opened.queue), 5);
}

#[test]
fn a_time_of_any_kind_is_never_too_early() {
    // 2023-11-14 22:13:20 and a fraction.
    let second = 1_700_000_000u32.to_be_bytes();
    let packed = 0x80_0000_0000u64 + ((((2023 * 13 + 11) << 5 | 14) << 17) | (22 << 12 | 13 << 6 | 20));
    let packed = &packed.to_be_bytes()[3..];
    let unsigned = (Kind::Integer { signed: false }, 4);
    for (kind, bytes, due_ms) in [
        (unsigned, 1_700_000_000u32.to_le_bytes().to_vec(), 1_700_000_000_000),
        ((Kind::Timestamp(0), 4), second.to_vec(), 1_700_000_000_000),
        ((Kind::Timestamp(2), 5), [&second[..], &[12]].concat(), 1_700_000_000_120),
        ((Kind::Timestamp(6), 7), [&second[..], &[0x01, 0xe2, 0x41]].concat(), 1_700_000_000_124),
        ((Kind::DateTime(0), 5), packed.to_vec(), 1_700_000_000_000),
        ((Kind::DateTime(6), 8), [packed, &[0x01, 0xe2, 0x40]].concat(), 1_700_000_000_124),
    ] {
        let opened = TestQueue::new(&ordered(Sync::Always, kind, DUE));
        let len = bytes.len();
        set_wall(due_ms - 1);
        opened
            .queue
            .publish(
                &[&ordered_row((Some(&bytes), len), None, "x"), &ordered_row((None, len), None, "n")],
                None,
            )
            .unwrap();
        let opened = opened.reopened();
        assert_eq!(opened.queue.status().waiting, 1, "{kind:?}");
        pass_ms(1);
        opened.queue.end_due().unwrap();
        assert_eq!(opened.queue.status().waiting, 2, "{kind:?}");
        // A time that was never: at once.
        opened.queue.publish(&[&ordered_row((Some(&vec![0; len]), len), None, "0")], None).unwrap();
        assert_eq!(opened.queue.status().waiting, 3, "{kind:?}");
    }
}

#[test]
fn a_column_that_is_no_time_is_refused() {
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
    for (kind, column) in [((Kind::Date, 3), 0), ((Kind::Opaque, 8), 0), (WHOLE, 2), (WHOLE, 3)] {
        let definition = ordered(Sync::Always, kind, Order { due: Some(column), ..Order::default() });
        let error = engine.create(Path::new(FOLDER), &definition).unwrap_err();
        assert!(matches!(error, Error::Column { column: wrong } if wrong == column), "{error}");
    }
    assert!(disk.names().is_empty());
}

#[test]
fn rows_that_are_due_later_survive_sealing_and_compaction() {
    let mut opened = TestQueue::new(&due(Sync::Interval));
    let mut known = Vec::new();
    for number in 0..60 {
        let seconds = i64::from(number * 7 % 60);
        let text = format!("{number:030}");
        opened.put(seconds, &text);
        known.push((seconds, text));
    }
    let mut gone = session(1);
    for second in 0..60i64 {
        let expected: Vec<&String> =
            known.iter().filter(|(at, _)| *at <= second).map(|(_, text)| text).collect();
        assert_eq!(opened.there(), expected.iter().map(|text| text.as_str()).collect::<Vec<_>>());
        assert_eq!(opened.queue.status().delayed, (known.len() - expected.len()) as u64);
        match second % 4 {
            0 => opened = opened.reopened(),
            1 => opened.queue.maintain().unwrap(),
            2 => {
                // Those that are taken and ended leave sparse segments.
                gone.wait(&[all(&opened.queue)], &mut poll(2)).unwrap();
                let ended = texts(&gone, &opened.queue);
                gone.end().unwrap();
                known.retain(|(_, text)| !ended.contains(text));
                opened.queue.compact().unwrap();
            }
            _ => {}
        }
        pass_ms(1000);
    }
}

#[test]
fn a_waiting_session_is_woken_when_a_row_is_due() {
    fn now_ms() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let since = START.get_or_init(Instant::now).elapsed();
        1_700_000_000_000 + u64::try_from(since.as_millis()).unwrap()
    }
    ends(|| {
        let options = Options { threads: 1, now_ms, ..options(1 << 20) };
        let engine =
            Engine::start(Arc::new(FaultDisk::default()), Options { up_ms: now_ms, ..options }).unwrap();
        engine.create(Path::new(FOLDER), &ordered(Sync::Always, (Kind::Timestamp(2), 5), DUE)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        let at = |ms: u64| {
            let second = u32::try_from(ms / 1000).unwrap();
            let hundredths = u8::try_from(ms % 1000 / 10).unwrap();
            ordered_row((Some(&[&second.to_be_bytes()[..], &[hundredths]].concat()), 5), None, "x")
        };
        // Somebody waits when the rows come.
        let woken_by = |due_ms: u64, add: &dyn Fn()| {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    let mut taker = session(1);
                    let waited = taker.wait(&[all(&queue)], &mut WaitOptions::forever()).unwrap();
                    assert_eq!(waited, WaitOutcome::Taken(0));
                    assert!(now_ms() >= due_ms, "too early");
                    taker.end().unwrap();
                });
                while queue.status().waiters == 0 {
                    std::thread::yield_now();
                }
                add();
                waits.join().unwrap();
            });
        };
        let soon = || now_ms() / 10 * 10 + 200;
        let first = soon();
        woken_by(first, &|| {
            queue.publish(&[&at(first + 3_600_000), &at(first), &at(first + 100)], None).unwrap();
        });
        woken_by(first + 100, &|| {});
        // One that a statement adds, and one that is due before it.
        let mut adder = session(2);
        let later = soon();
        adder.publish_in_statement(&queue, &[&at(later)]).unwrap();
        let adder = std::cell::RefCell::new(adder);
        woken_by(later, &|| adder.borrow_mut().end_statement(true).map(drop).unwrap());
        let (one, other) = (soon() + 200, soon());
        woken_by(other, &|| {
            queue.publish(&[&at(one)], None).unwrap();
            queue.publish(&[&at(other)], None).unwrap();
        });
        woken_by(one, &|| {});
        assert_eq!(queue.status().delayed, 1);
    });
}

#[test]
fn a_transaction_adds_rows_that_are_due_later() {
    let mut opened = TestQueue::new(&Definition { transactional: true, ..due(Sync::Interval) });
    let prepare = |opened: &TestQueue, number: u64, texts: [&str; 2]| {
        let mut transaction = session(number).begin(&opened.queue).unwrap();
        let rows = [whole_row(Some(in_seconds(10)), None, texts[0]), whole_row(None, None, texts[1])];
        transaction.publish(&[&rows[0], &rows[1]]).unwrap();
        transaction.prepare(&xid(number)).unwrap();
    };
    prepare(&opened, 1, ["a", "b"]);
    prepare(&opened, 2, ["c", "d"]);
    prepare(&opened, 3, ["e", "f"]);
    opened.queue.commit_by_xid(&xid(1)).unwrap();
    assert_eq!(opened.there(), ["b"]);
    // Sealed, and listed by a checkpoint.
    for number in 0..20 {
        opened.put(-1, &format!("{number:030}"));
    }
    opened.queue.maintain().unwrap();
    opened = opened.reopened();
    assert_eq!(prepared(&opened.queue), [2, 3]);
    opened.queue.rollback_by_xid(&xid(2)).unwrap();
    opened.queue.commit_by_xid(&xid(3)).unwrap();
    let there = opened.there();
    assert_eq!((&there[..2], opened.queue.status().delayed), (&["b".to_owned(), "f".to_owned()][..], 2));
    pass_ms(10_000);
    assert_eq!(opened.there()[..4], ["a", "b", "e", "f"]);
    // One phase, and one that is decided when its rows are due.
    let mut transaction = session(7).begin(&opened.queue).unwrap();
    transaction.publish(&[&whole_row(Some(in_seconds(1)), None, "g")]).unwrap();
    transaction.commit_one_phase().unwrap();
    prepare(&opened, 4, ["h", "i"]);
    assert_eq!(opened.queue.status().delayed, 1);
    pass_ms(10_000);
    opened.queue.commit_by_xid(&xid(4)).unwrap();
    let there = opened.there();
    assert_eq!(there[there.len() - 3..], ["g", "h", "i"]);
}

#[test]
fn a_statement_that_fails_leaves_nothing_for_later() {
    let opened = TestQueue::new(&due(Sync::Always));
    let mut adder = session(1);
    let row = whole_row(Some(in_seconds(10)), None, "x");
    adder.publish_in_statement(&opened.queue, &[&row]).unwrap();
    adder.end_statement(false).unwrap();
    adder.publish_in_statement(&opened.queue, &[&row]).unwrap();
    assert_eq!((opened.queue.status().owned, opened.queue.status().delayed), (1, 0));
    adder.end_statement(true).unwrap();
    assert_eq!((opened.queue.status().owned, opened.queue.status().delayed), (1, 1));
    pass_ms(10_000);
    assert_eq!(opened.there(), ["x"]);
    opened.put(10, "y");
    opened.queue.truncate().unwrap();
    // Rows with the numbers of those before.
    (0..4).for_each(|_| opened.put(20, "z"));
    pass_ms(10_000);
    assert_eq!((opened.there(), opened.queue.status().delayed), (vec![], 4));
}

#[test]
fn a_row_can_be_deleted_before_it_is_due_and_is_not_early_if_that_fails() {
    let mut opened = TestQueue::new(&Definition { transactional: true, ..due(Sync::Always) });
    opened.put(10, "a");
    opened.put(10, "b");
    opened.put(0, "c");
    let mut one = session(1);
    assert_eq!(one.delete(&opened.queue, &[RowId(1)]).unwrap(), 1);
    opened.disk.limit(0);
    one.delete(&opened.queue, &[RowId(2), RowId(3)]).unwrap_err();
    opened.disk.limit(u64::MAX);
    assert_eq!((opened.there(), opened.queue.status().delayed), (vec!["c".to_owned()], 1));
    let delete = |opened: &TestQueue, number: u64| {
        let mut session = session(number);
        let mut transaction = session.begin(&opened.queue).unwrap();
        assert_eq!(session.delete_within(&mut transaction, &[RowId(2)]).unwrap(), 1);
        transaction
    };
    delete(&opened, 1).rollback().unwrap();
    delete(&opened, 2).prepare(&xid(7)).unwrap();
    // Sealed while somebody owns it.
    for number in 0..20 {
        opened.put(-1, &format!("{number:030}"));
    }
    opened.queue.maintain().unwrap();
    opened = opened.reopened();
    opened.queue.rollback_by_xid(&xid(7)).unwrap();
    assert_eq!((opened.there()[0].as_str(), opened.queue.status().delayed), ("c", 1));
    let mut cursor = Cursor::of_unowned(&opened.queue);
    assert_eq!(cursor.advance().unwrap().unwrap().0, RowId(2), "who deletes can see it");
    pass_ms(10_000);
    assert_eq!(opened.there()[..2], ["b", "c"]);
    one.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    assert_eq!(Cursor::of_unowned(&opened.queue).advance().unwrap().unwrap().0, RowId(3));
}

#[test]
fn a_row_that_can_not_be_read_is_not_deleted_and_takes_no_other_with_it() {
    let opened = TestQueue::new(&due(Sync::Always));
    opened.put(0, "a");
    opened.put(10, "b");
    let (log, bytes) = log_bytes(&opened.disk);
    opened.disk.corrupt(&log, bytes.len() - 1, 1);
    session(1).delete(&opened.queue, &[RowId(1), RowId(2)]).unwrap_err();
    let status = opened.queue.status();
    assert_eq!((status.waiting, status.delayed), (1, 1));
}

#[test]
fn alter_with_rows_that_are_due_later() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, Order::default()));
    opened.put(10, "a");
    opened.put(10, "b");
    opened.put(0, "c");
    let mut taker = session(1);
    taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    // The column says nothing in the old shape.
    let new = altered(&opened.engine, &opened.queue, &due(Sync::Always)).unwrap();
    assert_eq!(texts(&session(2), &new), ["c"]);
    let status = new.status();
    assert_eq!((status.owned, status.delayed), (2, 1), "the owner keeps its row");
    assert_eq!(texts(&taker, &new), ["a"]);
    taker.end().unwrap();
    pass_ms(10_000);
    new.end_due().unwrap();
    assert_eq!(texts(&session(2), &new), ["b", "c"]);
}

#[test]
fn a_clock_that_is_set_decides_as_it_is() {
    set_wall(1_700_000_000_000);
    let opened = TestQueue::new(&due(Sync::Always));
    opened.put(3600, "x");
    set_wall(wall() - 1000);
    pass_ms(3_600_000);
    assert_eq!(opened.there(), [""; 0]);
    set_wall(wall() + 1000);
    assert_eq!(opened.there(), ["x"]);
}

#[test]
fn all_that_are_due_at_once_come() {
    let opened = TestQueue::new(&due(Sync::Never));
    let row = whole_row(Some(in_seconds(10)), None, "");
    opened.queue.publish(&vec![row.as_slice(); 2000], None).unwrap();
    pass_ms(10_000);
    assert_eq!(opened.there().len(), 2000);
}

#[test]
fn the_floor_of_a_relay_is_below_rows_that_are_due_later() {
    let opened = TestQueue::new(&due(Sync::Always));
    opened.put(10, "later");
    opened.put(0, "now");
    let mut taker = session(1);
    taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    let (_, rows) = taker.owned_rows().unwrap();
    let row = rows[0];
    assert_eq!((row.0, opened.queue.origin(row).unwrap().floor), (2, 1));
}

#[test]
fn a_row_that_is_due_later_takes_little_memory() {
    let opened = {
        let engine = Engine::start(Arc::new(FaultDisk::default()), timed(1 << 24)).unwrap();
        engine.create(Path::new(FOLDER), &due(Sync::Never)).unwrap();
        engine.open(Path::new(FOLDER)).unwrap()
    };
    let count = 1u64 << 16;
    for first in (0..count).step_by(1 << 12) {
        let row = |number: u64| {
            whole_row(Some(in_seconds(i64::try_from(number * 7919 % count).unwrap() + 1)), None, "")
        };
        let rows: Vec<Vec<u8>> = (first..first + (1 << 12)).map(row).collect();
        opened.publish(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
    }
    assert_eq!(opened.status().delayed, count);
    // 12 bytes in the index, 16 until the segment is sealed, 16 in the order in which they are due.
    let each = opened.status().memory / count;
    assert!(each <= 48, "{each} bytes for each row");
    // Rows that are gone do not stay in it.
    let rows: Vec<RowId> = (1..=count / 4 * 3).map(RowId).collect();
    session(1).delete(&opened, &rows).unwrap();
    assert_eq!(opened.status().delayed, count / 4);
    let lists = opened.status().memory - count * 16;
    assert!(lists <= count / 4 * (12 + 12 / 2 + 16) + 1000, "{lists}");
}

#[test]
fn downgrade_refused_and_a_queue_of_before_opens() {
    let flags = |definition: &Definition| {
        let opened = TestQueue::new(definition);
        opened.put(10, "x");
        opened.queue.maintain().unwrap();
        let disk = opened.disk.clone();
        let names = disk.names().into_iter().filter(|name| name.starts_with(FOLDER));
        let bytes = names.map(|name| disk.bytes(&name).unwrap()).filter(|bytes| !bytes.is_empty());
        let flag = |bytes: Vec<u8>| u64::from_le_bytes(bytes[16..24].try_into().unwrap());
        let flags: Vec<u64> = bytes.map(flag).collect();
        assert_eq!(opened.reopened().queue.status().delayed, u64::from(flags[0] != 0));
        flags
    };
    assert!(flags(&due(Sync::Always)).iter().all(|flag| *flag == 8));
    assert!(flags(&ordered(Sync::Always, WHOLE, Order::default())).iter().all(|flag| *flag == 0));
}
