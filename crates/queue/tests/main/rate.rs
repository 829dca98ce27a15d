//! A queue with a rate gives only so many rows within a time, to whoever takes or waits.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use disk::faults::FaultDisk;
use queue::{
    Definition, DeliveryRate, Engine, Interrupter, Options, Order, Queue, Session, Sync, Target, WaitOptions,
    WaitOutcome,
};

use crate::support::{
    Begins, FOLDER, TestQueue, WHOLE, all, altered, ordered, pass_ms, poll, session, texts, whole_row,
};

const RATE: DeliveryRate = DeliveryRate { rows: 3, span_ms: 10_000 };

fn limited(sync: Sync, order: Order) -> Definition {
    Definition { rate: Some(RATE), ..ordered(sync, WHOLE, order) }
}

fn put(queue: &Queue, rows: &[&str]) {
    let rows: Vec<Vec<u8>> = rows.iter().map(|text| whole_row(None, None, text)).collect();
    queue.publish(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
}

fn take(taker: &mut Session, queue: &Arc<Queue>, rows_max: usize) -> Vec<String> {
    taker.wait(&[all(queue)], &mut poll(rows_max)).unwrap();
    texts(taker, queue)
}

#[test]
fn so_many_rows_are_given_within_a_time_and_the_others_after_it() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let opened = TestQueue::new(&limited(sync, Order::default()));
        let queue = &opened.queue;
        put(queue, &["a", "b", "c", "d", "e", "f", "g"]);
        let (mut one, mut two) = (session(1), session(2));
        assert_eq!(take(&mut one, queue, 2), ["a", "b"]);
        pass_ms(4000);
        assert_eq!(take(&mut two, queue, 9), ["c"]);
        assert_eq!(take(&mut two, queue, 9), [""; 0], "what is ended or comes back changes nothing");
        one.abort().unwrap();
        assert_eq!(take(&mut one, queue, 9), [""; 0]);
        pass_ms(5999);
        assert_eq!(take(&mut one, queue, 9), [""; 0]);
        pass_ms(1);
        // Leases count as well.
        let (waited, leased) = two.lease(&[all(queue)], &mut poll(9), Duration::from_secs(60)).unwrap();
        assert_eq!((waited, leased.unwrap().rows().len()), (WaitOutcome::Taken(0), 2));
        pass_ms(4000);
        assert_eq!(take(&mut one, queue, 9), ["d"]);
        let opened = opened.reopened();
        assert_eq!(opened.queue.definition().rate, Some(RATE));
        assert_eq!(take(&mut session(1), &opened.queue, 9), ["d", "e", "f"], "a restart begins a new span");
    }
}

#[test]
fn a_queue_that_is_altered_has_the_rate_that_it_is_given() {
    let opened = TestQueue::new(&ordered(Sync::Always, WHOLE, Order::default()));
    put(&opened.queue, &["a", "b", "c", "d", "e"]);
    let definition = limited(Sync::Always, Order { fifo: Some(2), ..Order::default() });
    let new = altered(&opened.engine, &opened.queue, &definition).unwrap();
    assert_eq!(take(&mut session(1), &new, 9), ["a", "b", "c"]);
    let new = altered(&opened.engine, &new, &ordered(Sync::Always, WHOLE, Order::default())).unwrap();
    assert_eq!(take(&mut session(2), &new, 9), ["d", "e"]);
}

/// How many rows there are.
const COUNT: usize = 24;

/// Milliseconds since 1970, as far as the engine knows, by a clock that goes.
pub(crate) fn clock() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_millis()).unwrap() + 1_700_000_000_000
}

/// What a session that waits is given, and when, until it is interrupted.
fn wait_again_and_again(mut taker: Session, target: &Target, taken: &AtomicUsize) -> Vec<(Instant, String)> {
    let mut given = Vec::new();
    // Nobody looks by chance: who is not woken finds nothing.
    let mut options = WaitOptions { timeout: Some(Duration::from_secs(60)), ..WaitOptions::poll() };
    while taker.wait(std::slice::from_ref(target), &mut options).unwrap() == WaitOutcome::Taken(0) {
        given.push((Instant::now(), texts(&taker, &target.queue).remove(0)));
        taken.fetch_add(1, Ordering::Relaxed);
    }
    given
}

/// Sessions wait with and without a condition; each row comes to one of them when its time has come, and not
/// before.
#[test]
fn who_waits_is_given_rows_at_the_rate() {
    for fifo in [None, Some(2)] {
        let (rate, taken) = (DeliveryRate { rows: 4, span_ms: 100 }, AtomicUsize::new(0));
        let options = Options { threads: 1, ..Options::new(clock, || [7; 16]) };
        let engine = Engine::start(Arc::new(FaultDisk::default()), options).unwrap();
        let order = Order { fifo, ..Order::default() };
        let definition = Definition { rate: Some(rate), ..ordered(Sync::Never, WHOLE, order) };
        engine.create(FOLDER.as_ref(), &definition).unwrap();
        let queue = engine.open(FOLDER.as_ref()).unwrap();
        let (began, mut given): (Instant, Vec<_>) = std::thread::scope(|scope| {
            let waiter = |number: u64| {
                let (taker, mut target) = (session(number), all(&queue));
                if number == 0 {
                    target.filter = Some(Arc::new(Begins("x")));
                }
                let (interrupter, taken) = (taker.interrupter(), &taken);
                (scope.spawn(move || wait_again_and_again(taker, &target, taken)), interrupter)
            };
            let waiters: Vec<_> = (0..4).map(waiter).collect();
            while queue.status().waiters < 4 {
                std::thread::yield_now();
            }
            let rows: Vec<String> = (0..COUNT).map(|of| format!("{}{of}", ["x", "y"][of % 2])).collect();
            let began = Instant::now();
            for some in rows.chunks(5) {
                put(&queue, &some.iter().map(String::as_str).collect::<Vec<_>>());
            }
            while taken.load(Ordering::Relaxed) < COUNT && began.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            let end = |(waiter, interrupter): (ScopedJoinHandle<'_, Vec<(Instant, String)>>, Interrupter)| {
                // It may be between two waits.
                while !waiter.is_finished() {
                    interrupter.interrupt();
                    std::thread::yield_now();
                }
                waiter.join().unwrap()
            };
            (began, waiters.into_iter().flat_map(end).collect())
        });
        given.sort();
        let texts: BTreeSet<&String> = given.iter().map(|(_, text)| text).collect();
        assert_eq!((given.len(), texts.len()), (COUNT, COUNT), "each row once");
        // Since before the first was there: a session may look at its row late, and never early.
        let late = Duration::from_millis(rate.span_ms * (COUNT as u64 / rate.rows - 1) * 98 / 100);
        assert!(given[COUNT - 1].0 - began >= late, "{began:?} {given:?}");
    }
}
