//! How long rows wait and are worked on.

use std::time::Duration;

use queue::{Definition, Histogram, Order, Published, Queue, Sync, WaitOutcome};

use crate::support::{
    TestQueue, WHOLE, all, definition, limited, ordered, pass_ms, poll, session, set_wall, transactional,
    wall, whole_row, xid,
};

/// The histogram of these spans.
fn of(classes: &[usize]) -> Histogram {
    let mut histogram = Histogram::default();
    classes.iter().for_each(|class| histogram.0[*class] += 1);
    histogram
}

#[track_caller]
fn are(queue: &Queue, waited: &[usize], worked: &[usize]) {
    let counters = queue.status().counters;
    assert_eq!((counters.waited, counters.worked), (of(waited), of(worked)));
}

#[test]
fn rows_count_when_they_are_given_and_when_they_are_ended() {
    for sync in [Sync::Always, Sync::Never] {
        let mut opened = TestQueue::new(&definition(sync));
        opened.queue.publish(&[b"old"], None).unwrap();
        pass_ms(50);
        opened.queue.publish(&[b"new", b"newer"], None).unwrap();
        pass_ms(5);
        let mut taker = session(1);
        assert_eq!(taker.wait(&[all(&opened.queue)], &mut poll(2)).unwrap(), WaitOutcome::Taken(0));
        are(&opened.queue, &[2, 1], &[]);
        pass_ms(2000);
        taker.abort().unwrap();
        are(&opened.queue, &[2, 1], &[]);
        taker.wait(&[all(&opened.queue)], &mut poll(2)).unwrap();
        pass_ms(500);
        taker.end().unwrap();
        are(&opened.queue, &[2, 1, 4, 4], &[3, 3]);
        // A DELETE ends no work.
        let Published::New(first) = opened.queue.publish(&[b"deleted"], None).unwrap() else { panic!() };
        taker.delete(&opened.queue, &[first]).unwrap();
        are(&opened.queue, &[2, 1, 4, 4], &[3, 3]);
        // Nor does a lease that ends by itself.
        let lease = Duration::from_secs(60);
        let (_, leased) = taker.lease(&[all(&opened.queue)], &mut poll(1), lease).unwrap();
        pass_ms(5);
        opened.queue.extend(&[leased.unwrap().rows()[0].token], lease).unwrap();
        pass_ms(70_000);
        opened.queue.end_due().unwrap();
        are(&opened.queue, &[2, 1, 4, 4, 4], &[3, 3]);

        // Numbers begin again.
        opened.queue.truncate().unwrap();
        opened.queue.publish(&[b"one", b"two", b"three"], None).unwrap();
        taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
        are(&opened.queue, &[2, 1, 4, 4, 4, 0], &[3, 3]);
        // What arrived before the queue was opened is not known.
        drop(taker);
        opened = opened.reopened();
        pass_ms(5);
        opened.queue.publish(&[b"four"], None).unwrap();
        let mut taker = session(1);
        while taker.wait(&[all(&opened.queue)], &mut poll(9)).unwrap() != WaitOutcome::TimedOut {
            pass_ms(20);
            taker.end().unwrap();
        }
        let worked = opened.queue.status().counters.worked.0[2];
        assert_eq!(opened.queue.status().counters.waited, of(&[0]));
        assert!(worked >= 3, "{worked}");
    }
}

#[test]
fn a_row_that_came_later_waits_since_then() {
    set_wall(1_700_000_000_000);
    let order = Order { due: Some(0), ..Order::default() };
    let opened = TestQueue::new(&Definition {
        policy: limited(9, "5,1,0", false),
        ..ordered(Sync::Always, WHOLE, order)
    });
    let due = i64::try_from(wall() / 1000).unwrap() + 60;
    opened.queue.publish(&[&whole_row(Some(due), None, "late")], None).unwrap();
    pass_ms(60_000);
    opened.queue.end_due().unwrap();
    pass_ms(5);
    let (mut taker, lease) = (session(1), Duration::from_secs(60));
    let (_, leased) = taker.lease(&[all(&opened.queue)], &mut poll(1), lease).unwrap();
    are(&opened.queue, &[1], &[]);
    // The work fails, and the row waits for its next try.
    opened.queue.nack(&[leased.unwrap().rows()[0].token], None, "").unwrap();
    pass_ms(5000);
    opened.queue.end_due().unwrap();
    pass_ms(50);
    taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    are(&opened.queue, &[1, 2], &[]);
    // It comes back at once, and continues to wait.
    taker.abort().unwrap();
    pass_ms(5);
    taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    taker.end().unwrap();
    are(&opened.queue, &[1, 2, 2], &[0]);
}

#[test]
fn a_transaction_that_is_prepared_keeps_the_time() {
    for commits in [true, false] {
        let opened = TestQueue::new(&transactional(Sync::Always));
        opened.queue.publish(&[b"row"], None).unwrap();
        let mut taker = session(1);
        let mut transaction = taker.begin(&opened.queue).unwrap();
        taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
        assert!(taker.end_within(&mut transaction));
        pass_ms(5);
        let prepared = transaction.prepare(&xid(1)).unwrap();
        pass_ms(500);
        if commits { prepared.commit() } else { prepared.rollback() }.unwrap();
        are(&opened.queue, &[0], if commits { &[3] } else { &[] });
    }
}
