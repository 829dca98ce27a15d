//! A queue with a rate for each key gives only so many rows of a key within a time. Other keys are not held
//! up by one that is at its rate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use disk::faults::FaultDisk;
use queue::{
    Definition, DeliveryRate, Engine, Options, Order, Queue, Session, Sync, Target, WaitOptions, WaitOutcome,
};

use crate::fifo::{put, take};
use crate::rate::clock;
use crate::support::{
    Begins, FOLDER, TestQueue, WHOLE, all, altered, ordered, pass_ms, poll, session, text_of, whole_row,
};

/// Two rows of a key in any ten seconds. The key is the number in a text.
const RATE: DeliveryRate = DeliveryRate { rows: 2, span_ms: 10_000 };

const KEYED: Order =
    Order { due: None, priority: None, fifo: None, concurrency: 0, age_s: 0, rate_key: Some(0) };

fn limited(sync: Sync, order: Order) -> Definition {
    Definition { rate: Some(RATE), ..ordered(sync, WHOLE, order) }
}

#[test]
fn so_many_rows_of_a_key_are_given_within_a_time_and_others_go_on() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let opened = TestQueue::new(&limited(sync, KEYED));
        let queue = &opened.queue;
        put(queue, &["a1", "b1", "c1", "d1", "e1", "a2", "x-", "y-", "z-"]);
        let (mut one, mut two) = (session(1), session(2));
        assert_eq!(queue.status().behind, 3);
        assert_eq!(take(&mut one, queue, 1), ["a1"]);
        pass_ms(4000);
        assert_eq!(
            take(&mut two, queue, 9),
            ["b1", "a2", "x-", "y-", "z-"],
            "without a key there is no limit"
        );
        one.abort().unwrap();
        assert_eq!(take(&mut one, queue, 9), [""; 0], "what comes back is given again only at the rate");
        pass_ms(5999);
        assert_eq!(take(&mut one, queue, 9), [""; 0]);
        pass_ms(1);
        // A lease counts as well.
        let (_, leased) = one.lease(&[all(queue)], &mut poll(9), Duration::from_secs(60)).unwrap();
        assert_eq!(leased.unwrap().rows().len(), 1);
        two.end().unwrap();
        assert_eq!(take(&mut one, queue, 9), [""; 0], "what is ended changes nothing");
        pass_ms(4000);
        assert_eq!(take(&mut one, queue, 9), ["c1"]);
        one.end().unwrap();
        assert_eq!(queue.status().behind, 2);
        // A deleted row was given to nobody.
        one.delete(queue, &[queue::RowId(4)]).unwrap();
        queue.truncate().unwrap();
        put(queue, &["f1", "g1"]);
        assert_eq!(take(&mut one, queue, 9), [""; 0], "truncating does not begin a new span");
        let opened = opened.reopened();
        assert_eq!(opened.queue.definition().rate, Some(RATE));
        assert_eq!(take(&mut session(3), &opened.queue, 9), ["f1", "g1"], "a restart does");
    }
}

#[test]
fn within_a_key_rows_are_given_in_the_order_of_the_queue() {
    let order = Order { priority: Some(1), ..KEYED };
    let opened = TestQueue::new(&limited(Sync::Always, order));
    let row = |priority, text: &str| whole_row(text[1..].parse().ok(), Some(priority), text);
    let rows = [row(5, "a1"), row(3, "b1"), row(9, "c1"), row(4, "a2"), row(1, "d1"), row(2, "e1")];
    opened.queue.publish(&rows.each_ref().map(Vec::as_slice), None).unwrap();
    assert_eq!(take(&mut session(1), &opened.queue, 9), ["d1", "e1", "a2"]);
    pass_ms(RATE.span_ms);
    let opened = opened.reopened();
    assert_eq!(take(&mut session(2), &opened.queue, 2), ["d1", "e1"]);
    pass_ms(RATE.span_ms);
    assert_eq!(take(&mut session(3), &opened.queue, 9), ["b1", "a2", "a1"]);
}

#[test]
fn message_groups_keep_their_order_at_the_rate() {
    let order = Order { fifo: Some(0), ..KEYED };
    let opened = TestQueue::new(&limited(Sync::Always, order));
    put(&opened.queue, &["a1", "b1", "c1", "d1", "a2"]);
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["a1", "a2"]);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["b1"]);
    assert_eq!(take(&mut taker, &opened.queue, 9), [""; 0]);
    pass_ms(RATE.span_ms);
    assert_eq!(take(&mut taker, &opened.queue, 9), ["c1"]);
    // Two at once, of which the rate leaves one.
    let two = limited(Sync::Always, Order { concurrency: 2, ..order });
    let new = altered(&opened.engine, &opened.queue, &two).unwrap();
    put(&new, &["e1", "f1", "g1"]);
    taker.end().unwrap();
    assert_eq!(take(&mut taker, &new, 1), ["d1"], "ALTER TABLE begins a new span");
    assert_eq!(take(&mut session(2), &new, 9), ["e1"]);
    pass_ms(RATE.span_ms);
    taker.end().unwrap();
    assert_eq!(take(&mut taker, &new, 9), ["f1"], "two are owned, this one and e1");
    let new = altered(&opened.engine, &new, &ordered(Sync::Always, WHOLE, Order::default())).unwrap();
    assert_eq!(take(&mut session(3), &new, 9), ["g1"]);
}

/// Keys are forgotten when none of their rows was given for a span, though nobody uses the queue.
#[test]
fn a_key_takes_memory_only_while_it_is_busy() {
    let opened = TestQueue::new(&limited(Sync::Always, KEYED));
    let rows: Vec<String> = (0..2000).map(|key| format!("a{key}")).collect();
    put(&opened.queue, &rows.iter().map(String::as_str).collect::<Vec<_>>());
    let mut taker = session(1);
    assert_eq!(take(&mut taker, &opened.queue, 2000).len(), 2000);
    taker.end().unwrap();
    let busy = opened.queue.status().memory;
    pass_ms(RATE.span_ms - 1);
    opened.queue.end_due().unwrap();
    assert!(opened.queue.status().memory.abs_diff(busy) < 10_000);
    pass_ms(1);
    opened.queue.end_due().unwrap();
    let quiet = opened.queue.status().memory;
    assert!(quiet + 2000 * 30 < busy, "{quiet} of {busy}");
    // Rows without a key are not counted.
    let rows = vec!["a-"; 5000];
    put(&opened.queue, &rows);
    assert_eq!(take(&mut taker, &opened.queue, 5000).len(), 5000);
    taker.end().unwrap();
    let none = opened.queue.status().memory;
    assert!(none < quiet + 5000 * 8, "{none}, {quiet}");
}

/// A queue with this rate for each key, whose clock goes by itself.
fn in_real_time(rate: DeliveryRate) -> (Engine, Arc<Queue>) {
    let options = Options { threads: 1, ..Options::new(clock, || [7; 16]) };
    let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
    let definition = Definition { rate: Some(rate), ..ordered(Sync::Never, WHOLE, KEYED) };
    engine.create(FOLDER.as_ref(), &definition).unwrap();
    let queue = engine.open(FOLDER.as_ref()).unwrap();
    (engine, queue)
}

/// A consumer looks once; another one sleeps all the time, and wants a row behind the one that was taken.
#[test]
fn who_waits_for_a_row_behind_one_that_somebody_took_is_given_it_in_time() {
    let rate = DeliveryRate { rows: 1, span_ms: 100 };
    let (_engine, queue) = in_real_time(rate);
    put(&queue, &["a1", "x1"]);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let target = Target { filter: Some(Arc::new(Begins("x"))), ..all(&queue) };
            let mut options = WaitOptions { timeout: Some(Duration::from_secs(60)), ..WaitOptions::poll() };
            session(1).wait(&[target], &mut options).unwrap()
        });
        while queue.status().waiters < 1 {
            std::thread::yield_now();
        }
        assert_eq!(take(&mut session(2), &queue, 1), ["a1"]);
        let begun = Instant::now();
        assert_eq!(waiter.join().unwrap(), WaitOutcome::Taken(0));
        assert!(begun.elapsed() < Duration::from_secs(50));
    });
}

/// Two sleep, and nobody else uses the queue when both rows have come.
#[test]
fn who_sleeps_is_given_a_row_behind_one_that_another_sleeper_was_given() {
    let rate = DeliveryRate { rows: 1, span_ms: 100 };
    let (_engine, queue) = in_real_time(rate);
    std::thread::scope(|scope| {
        let waiter = |number| {
            let queue = &queue;
            scope.spawn(move || {
                let mut taker = session(number);
                let mut options =
                    WaitOptions { timeout: Some(Duration::from_secs(30)), ..WaitOptions::poll() };
                let waited = taker.wait(&[all(queue)], &mut options).unwrap();
                // It keeps its row.
                (waited, taker)
            })
        };
        let waiters: Vec<_> = (0..2).map(waiter).collect();
        while queue.status().waiters < 2 {
            std::thread::yield_now();
        }
        put(&queue, &["a1", "b1"]);
        let waited: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert!(waited.iter().all(|(waited, _)| *waited == WaitOutcome::Taken(0)));
    });
}

const KEYS: usize = 3;
const EACH: usize = 12;

type Given = Vec<(Instant, String)>;

fn wait_again_and_again(mut taker: Session, queue: &Arc<Queue>) -> Given {
    let mut given = Vec::new();
    // Nobody looks by chance: who is not woken finds nothing.
    let mut options = WaitOptions { timeout: Some(Duration::from_secs(60)), ..WaitOptions::poll() };
    while taker.wait(&[all(queue)], &mut options).unwrap() == WaitOutcome::Taken(0) {
        let now = Instant::now();
        let mut cursor = taker.cursor(queue);
        given.push((now, text_of(cursor.advance().unwrap().unwrap().1)));
    }
    given
}

/// Sessions wait; each row comes to one of them when the rate of its key allows it and not before, though
/// nobody but them uses the queue.
#[test]
fn who_waits_is_given_rows_at_the_rate_of_their_keys() {
    let rate = DeliveryRate { rows: 3, span_ms: 150 };
    let (_engine, queue) = in_real_time(rate);
    let (begun, mut given): (Instant, Given) = std::thread::scope(|scope| {
        let waiter = |number: u64| {
            let (taker, queue) = (session(number), &queue);
            let interrupter = taker.interrupter();
            (scope.spawn(move || wait_again_and_again(taker, queue)), interrupter)
        };
        let waiters: Vec<_> = (0..4).map(waiter).collect();
        while queue.status().waiters < 4 {
            std::thread::yield_now();
        }
        let rows: Vec<String> = (0..KEYS * EACH).map(|of| format!("{}{}", 'a', of % KEYS)).collect();
        let begun = Instant::now();
        put(&queue, &rows.iter().map(String::as_str).collect::<Vec<_>>());
        while queue.rows() > 0 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        let end = |(waiter, interrupter): (ScopedJoinHandle<'_, Given>, queue::Interrupter)| {
            // It may be between two waits.
            while !waiter.is_finished() {
                interrupter.interrupt();
                std::thread::yield_now();
            }
            waiter.join().unwrap()
        };
        (begun, waiters.into_iter().flat_map(end).collect())
    });
    given.sort();
    let mut of_key: BTreeMap<&str, Vec<Instant>> = BTreeMap::new();
    given.iter().for_each(|(at, text)| of_key.entry(text).or_default().push(*at));
    assert_eq!(of_key.values().map(Vec::len).collect::<Vec<_>>(), [EACH; KEYS], "each row once");
    // Since before the first was there: a session may look at its row late, and never early.
    let late = Duration::from_millis(rate.span_ms * (EACH as u64 / rate.rows - 1) * 98 / 100);
    assert!(of_key.values().all(|times| times[EACH - 1] - begun >= late), "{begun:?} {of_key:?}");
}
