//! Readers, each of whom is given every row once.

use std::sync::Arc;
use std::time::Duration;

use queue::{Error, Queue, RetainedFilter, RowId, Sync, Target, WaitOptions, WaitOutcome};

use crate::support::{
    Prefix, TestQueue, all, altered, ends, for_reader, kept, pass_ms, poll, put, read, read_by, rows,
    session, set_wall, xid,
};

/// What each reader has before it: how many rows wait, how many it has, and its first row.
fn lag(queue: &Queue) -> Vec<(u64, u64, u64)> {
    queue.readers().unwrap().into_iter().map(|of| (of.waiting, of.owned, of.next.0)).collect()
}

fn put_all(queue: &Queue, texts: &[&str]) {
    texts.iter().for_each(|text| put(queue, text));
}

#[test]
fn each_reader_is_given_every_row_and_the_last_one_ends_it() {
    for sync in [Sync::Always, Sync::Never] {
        set_wall(1_700_000_000_000);
        let mut opened = TestQueue::new(&read_by(sync, &["a", "b"]));
        put_all(&opened.queue, &["1", "2", "3"]);
        let (mut one, mut two) = (session(1), session(2));
        assert_eq!(read(&mut one, &opened.queue, "a", 2), ["1", "2"]);
        assert_eq!(read(&mut two, &opened.queue, "a", 9), ["3"], "a reader may have several connections");
        assert_eq!(lag(&opened.queue), [(0, 3, 1), (3, 0, 1)]);
        one.end().unwrap();
        two.abort().unwrap();
        for _ in 0..2 {
            assert_eq!(lag(&opened.queue), [(1, 0, 3), (3, 0, 1)]);
            assert_eq!((opened.queue.rows(), kept(&opened.queue).len()), (3, 0));
            opened.queue.sync().unwrap();
            opened = opened.reopened();
            opened.queue.compact().unwrap();
            opened = opened.reopened();
        }
        assert_eq!(read(&mut two, &opened.queue, "b", 9), ["1", "2", "3"]);
        two.end().unwrap();
        opened.queue.sync().unwrap();
        assert_eq!(kept(&opened.queue), ["1", "2"], "they are kept from then on");
        pass_ms(60_000);
        opened.queue.end_due().unwrap();
        assert_eq!(
            (opened.queue.rows(), kept(&opened.queue).len()),
            (1, 0),
            "the reader that lags holds its row"
        );
        assert_eq!(read(&mut one, &opened.queue, "a", 9), ["3"]);
        one.end().unwrap();
        assert_eq!((opened.queue.rows(), kept(&opened.queue)), (0, vec!["3".to_owned()]));
        opened.queue.sync().unwrap();
        let opened = opened.reopened();
        opened.queue.end_due().unwrap();
        assert_eq!((opened.queue.rows(), kept(&opened.queue)), (0, vec!["3".to_owned()]));
        assert_eq!(lag(&opened.queue), [(0, 0, 4), (0, 0, 4)]);
    }
}

#[test]
fn a_row_that_is_seen_late_is_given_to_all() {
    let opened = TestQueue::new(&read_by(Sync::Always, &["a", "b"]));
    let mut transaction = session(1).begin(&opened.queue).unwrap();
    transaction.publish(&[b"late"]).unwrap();
    let prepared = transaction.prepare(&xid(1)).unwrap();
    put(&opened.queue, "early");
    let (mut one, mut two) = (session(1), session(2));
    let only = |name: &str| Target {
        filter: Some(Arc::new(Prefix(String::new()))),
        ..for_reader(&opened.queue, name)
    };
    one.wait(&[only("a")], &mut poll(9)).unwrap();
    assert_eq!(rows(&one, &opened.queue), ["early"]);
    one.end().unwrap();
    assert!(prepared.decide(true));
    one.wait(&[only("a")], &mut poll(9)).unwrap();
    assert_eq!(rows(&one, &opened.queue), ["late"]);
    assert_eq!(read(&mut two, &opened.queue, "b", 9), ["late", "early"]);
    two.end().unwrap();
    assert_eq!(kept(&opened.queue), ["early"]);
}

#[test]
fn one_that_waits_is_given_a_row_beside_the_others() {
    ends(|| {
        let opened = TestQueue::new(&read_by(Sync::Always, &["a", "b"]));
        let wait = |name: &'static str, prefix: &'static str| {
            let queue = opened.queue.clone();
            std::thread::spawn(move || {
                let mut taker = session(name.len() as u64 + u64::from(name.as_bytes()[0]));
                let filter: Option<Arc<dyn queue::Filter>> = Some(Arc::new(Prefix(prefix.to_owned())));
                let target = Target { filter, ..for_reader(&queue, name) };
                assert_eq!(
                    taker.wait(&[target], &mut WaitOptions::forever()).unwrap(),
                    WaitOutcome::Taken(0)
                );
                let taken = rows(&taker, &queue);
                taker.end().unwrap();
                taken
            })
        };
        let (a, b) = (wait("a", "x"), wait("b", ""));
        while opened.queue.status().waiters < 2 {
            std::thread::yield_now();
        }
        put(&opened.queue, "y1");
        assert_eq!(b.join().unwrap(), ["y1"]);
        put(&opened.queue, "x2");
        assert_eq!(a.join().unwrap(), ["x2"]);
        assert_eq!(lag(&opened.queue), [(1, 0, 1), (1, 0, 2)]);
        assert_eq!(opened.queue.status().counters.handed_over, 2);
        // One that is given back goes to the reader's next connection, and to no other reader.
        let mut one = session(1);
        assert_eq!(read(&mut one, &opened.queue, "a", 9), ["y1"]);
        let next = wait("a", "");
        while opened.queue.status().waiters < 1 {
            std::thread::yield_now();
        }
        one.close().unwrap();
        assert_eq!(next.join().unwrap(), ["y1"]);
        assert_eq!(kept(&opened.queue), ["y1"]);
    });
}

#[test]
fn a_reader_must_be_named_and_have_no_lease() {
    let opened = TestQueue::new(&read_by(Sync::Always, &["a", "b"]));
    put(&opened.queue, "row");
    let error = session(1).wait(&[all(&opened.queue)], &mut poll(1)).unwrap_err();
    assert_eq!(error.to_string(), "the queue has readers: name one after an @ (a, b)");
    let error = opened.queue.definition().reader("c").unwrap_err();
    assert_eq!(error.to_string(), "the queue has no reader 'c'; it has a, b");
    let leased = session(1).lease(&[for_reader(&opened.queue, "a")], &mut poll(1), Duration::from_secs(9));
    assert!(matches!(leased, Err(Error::ReaderLease)));
    let plain = TestQueue::new(&crate::support::definition(Sync::Always));
    let error = plain.queue.definition().reader("a").unwrap_err();
    assert_eq!(error.to_string(), "the queue has no reader 'a': it was created without READERS");
    let flags =
        |opened: &TestQueue| opened.disk.bytes(std::path::Path::new("/db/jobs/checkpoint")).unwrap()[17];
    assert_eq!((flags(&opened), flags(&plain)), (1, 0), "an older version refuses it");
}

#[test]
fn a_deleted_row_is_gone_for_all_but_not_while_one_has_it() {
    let opened = TestQueue::new(&read_by(Sync::Always, &["a", "b"]));
    put_all(&opened.queue, &["1", "2"]);
    let mut one = session(1);
    assert_eq!(read(&mut one, &opened.queue, "a", 1), ["1"]);
    assert_eq!(session(2).delete(&opened.queue, &[RowId(1), RowId(2)]).unwrap(), 1);
    assert_eq!(lag(&opened.queue), [(0, 1, 1), (1, 0, 1)]);
    one.end().unwrap();
    assert_eq!(session(2).delete(&opened.queue, &[RowId(1)]).unwrap(), 1);
    let opened = opened.reopened();
    assert_eq!(lag(&opened.queue), [(0, 0, 3), (0, 0, 3)]);
    put(&opened.queue, "3");
    assert_eq!(read(&mut one, &opened.queue, "b", 9), ["3"]);
    // TRUNCATE: rows begin again, for all, also for one that has a row.
    opened.queue.truncate().unwrap();
    put(&opened.queue, "4");
    one.end().unwrap();
    assert_eq!(lag(&opened.queue), [(1, 0, 1), (1, 0, 1)]);
}

#[test]
fn rows_are_given_again_to_one_reader() {
    for sync in [Sync::Always, Sync::Never] {
        let mut opened = TestQueue::new(&read_by(sync, &["a", "b"]));
        put_all(&opened.queue, &["1", "2", "3", "4"]);
        let (mut one, mut two) = (session(1), session(2));
        read(&mut one, &opened.queue, "a", 3);
        one.end().unwrap();
        read(&mut two, &opened.queue, "b", 2);
        two.end().unwrap();
        assert_eq!(kept(&opened.queue), ["1", "2"]);
        let some = |first, end| RetainedFilter { rows: RowId(first)..RowId(end), ..RetainedFilter::all() };
        assert_eq!(opened.queue.replay_to(Some(0), &some(2, 4)).unwrap(), 2, "one is kept, one waits for b");
        for _ in 0..2 {
            assert_eq!(lag(&opened.queue), [(3, 0, 2), (2, 0, 3)]);
            opened.queue.sync().unwrap();
            opened = opened.reopened();
        }
        assert_eq!(read(&mut one, &opened.queue, "a", 9), ["2", "3", "4"]);
        one.end().unwrap();
        assert_eq!(kept(&opened.queue), ["1", "2"]);
        assert_eq!(opened.queue.replay(&some(1, 2)).unwrap(), 1, "for both");
        assert_eq!(lag(&opened.queue), [(1, 0, 1), (3, 0, 1)]);
    }
}

#[test]
fn a_copy_goes_on_where_each_reader_was() {
    let opened = TestQueue::new(&read_by(Sync::Always, &["a", "b"]));
    put_all(&opened.queue, &["1", "2", "3", "4"]);
    let mut one = session(1);
    assert_eq!(read(&mut one, &opened.queue, "a", 3).len(), 3);
    let error = opened.queue.begin_copy().unwrap_err();
    assert!(matches!(error, Error::ReadersActive { rows: 3 }), "{error}");
    one.end().unwrap();
    read(&mut one, &opened.queue, "b", 1);
    one.end().unwrap();
    let copy = altered(&opened.engine, &opened.queue, &read_by(Sync::Always, &["b", "a"])).unwrap();
    assert_eq!(lag(&copy), [(3, 0, 2), (1, 0, 4)], "by their names");
    assert_eq!(kept(&copy), ["1"]);
    let opened = TestQueue { queue: copy, ..opened }.reopened();
    let copy = altered(&opened.engine, &opened.queue, &read_by(Sync::Always, &["a", "new", "b"])).unwrap();
    assert_eq!(
        lag(&copy),
        [(1, 0, 4), (4, 0, 1), (3, 0, 2)],
        "a new one begins with the oldest that is kept"
    );
    let opened = TestQueue { queue: copy, ..opened }.reopened();
    assert_eq!(lag(&opened.queue), [(1, 0, 4), (4, 0, 1), (3, 0, 2)]);
    let copy = altered(&opened.engine, &opened.queue, &read_by(Sync::Always, &["a"])).unwrap();
    assert_eq!(
        (lag(&copy), kept(&copy).len()),
        (vec![(1, 0, 4)], 3),
        "what only those had not ended who left"
    );
    let plain = altered(&opened.engine, &copy, &crate::support::definition(Sync::Always)).unwrap();
    assert_eq!(rows(&session(9), &plain), ["4"]);
}

#[test]
fn many_rows_are_given_again_in_parts() {
    let opened = TestQueue::new(&read_by(Sync::Never, &["a", "b"]));
    let count = 70_000;
    opened.queue.publish(&vec![&b"row"[..]; count], None).unwrap();
    let mut taker = session(1);
    taker.wait(&[for_reader(&opened.queue, "a")], &mut poll(count)).unwrap();
    taker.end().unwrap();
    let batches = || opened.queue.status().counters.batches;
    let before = batches();
    let all = RetainedFilter { rows: RowId(0)..RowId(u64::MAX), within_ms: 0..=u64::MAX };
    assert_eq!(opened.queue.replay_to(Some(0), &all).unwrap(), count as u64);
    assert_eq!(batches(), before + 2);
    assert_eq!(read(&mut taker, &opened.queue, "a", count + 1).len(), count);
}
