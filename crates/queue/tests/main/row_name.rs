//! What put a row into a queue finds out by its name whether it is still there.

use std::sync::Arc;

use queue::{Definition, Queue, Sync};

use crate::support::{
    TestQueue, WHOLE, all, altered, limited, ordered, pass_ms, poll, session, whole_row, xid,
};

/// Adds a row in a transaction. Returns its name.
fn add(queue: &Arc<Queue>, number: u64) -> String {
    let mut transaction = session(9).begin(queue).unwrap();
    transaction.publish(&[&whole_row(None, None, "a")]).unwrap();
    let prepared = transaction.prepare(&xid(number)).unwrap();
    let name = prepared.first_row().unwrap();
    assert!(queue.has_row(&name).unwrap(), "it is there and nobody is given it");
    assert!(prepared.decide(true));
    assert_eq!(prepared.first_row(), None, "the transaction is over");
    name
}

#[test]
fn a_row_is_there_until_it_is_ended_or_has_no_tries_left() {
    let order = queue::Order { due: Some(0), ..queue::Order::default() };
    let definition = Definition {
        transactional: true,
        keep_ms: 60_000,
        policy: limited(2, "10,1,0", false),
        ..ordered(Sync::Always, WHOLE, order)
    };
    let opened = TestQueue::new(&definition);
    let (one, two) = (add(&opened.queue, 1), add(&opened.queue, 2));
    let opened = opened.reopened();
    let queue = &opened.queue;
    let there = |queue: &Queue| [&one, &two].map(|name| queue.has_row(name).unwrap());
    assert_eq!(there(queue), [true, true]);
    let mut taker = session(1);
    taker.wait(&[all(queue)], &mut poll(1)).unwrap();
    assert_eq!(there(queue), [true, true], "somebody has it");
    taker.end().unwrap();
    assert_eq!(there(queue), [false, true], "it is kept, and has ended");
    taker.wait(&[all(queue)], &mut poll(1)).unwrap();
    taker.close().unwrap();
    assert_eq!(there(queue), [false, true], "it waits for its next try");
    pass_ms(10_000);
    session(2).wait(&[all(queue)], &mut poll(1)).unwrap();
    assert!(!queue.has_row("").unwrap() && !queue.has_row("00:2").unwrap());
    assert!(!queue.has_row(&two.replace(":2", ":x")).unwrap());
    let new = altered(&opened.engine, queue, &definition).unwrap();
    assert_eq!(there(&new), [false, false], "rows of a copy have other names");
}

#[test]
fn a_row_without_tries_left_and_one_that_was_truncated_are_not_there() {
    let policy = limited(1, "0,1,0", false);
    let definition =
        Definition { transactional: true, policy, ..ordered(Sync::Always, WHOLE, queue::Order::default()) };
    let opened = TestQueue::new(&definition);
    let name = add(&opened.queue, 1);
    let mut taker = session(1);
    taker.wait(&[all(&opened.queue)], &mut poll(1)).unwrap();
    taker.close().unwrap();
    assert_eq!((opened.queue.has_row(&name).unwrap(), opened.queue.status().dead), (false, 1));
    opened.queue.truncate().unwrap();
    let other = add(&opened.queue, 2);
    assert_ne!(name, other);
    assert_eq!([&name, &other].map(|name| opened.queue.has_row(name).unwrap()), [false, true]);
}
