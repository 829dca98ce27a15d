//! Policies: how many tries a row has, how long it waits between them, and where it goes when none is left.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::faults::{FaultDisk, Unsynced};
use queue::{
    Definition, Engine, Error, Histogram, LeasedRow, Options, Queue, RetryPolicy, Session, Sync, Token,
    WaitOptions,
};

use crate::support::{
    DEAD, FOLDER, all, altered, definition, ends, limited, pass_ms, poll, put, rows, seen, session, timed,
};

const SECOND: Duration = Duration::from_secs(1);

/// An engine with the queue and the one for rows without tries left.
struct QueueAndDeadLetters {
    disk: FaultDisk,
    engine: Engine,
    queue: Arc<Queue>,
    dead: Arc<Queue>,
}

impl QueueAndDeadLetters {
    fn new(policy: RetryPolicy) -> QueueAndDeadLetters {
        let disk = FaultDisk::default();
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        let of = |policy| Definition { policy, ..definition(Sync::Always) };
        engine.create(Path::new(FOLDER), &of(policy)).unwrap();
        engine
            .create(Path::new(DEAD), &of(RetryPolicy { shows_delivery_info: true, ..RetryPolicy::default() }))
            .unwrap();
        QueueAndDeadLetters::opened(disk, engine)
    }

    fn opened(disk: FaultDisk, engine: Engine) -> QueueAndDeadLetters {
        let (queue, dead) = (engine.open(Path::new(FOLDER)).unwrap(), engine.open(Path::new(DEAD)).unwrap());
        QueueAndDeadLetters { disk, engine, queue, dead }
    }

    fn reopened(self) -> QueueAndDeadLetters {
        let QueueAndDeadLetters { disk, engine, queue, dead } = self;
        drop((queue, dead, engine));
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        QueueAndDeadLetters::opened(disk, engine)
    }

    /// The rows without tries left, with what is known of each.
    fn dead_lettered(&self) -> Vec<(String, u64, String)> {
        let mut cursor = session(7).cursor(&self.dead);
        let mut found = Vec::new();
        while let Some((_, row)) = cursor.advance().unwrap() {
            let row = String::from_utf8(row.to_vec()).unwrap();
            found.push((row, cursor.delivery_info().failed, cursor.delivery_info().why.to_string()));
        }
        found
    }
}

fn lease(queue: &Arc<Queue>) -> Option<LeasedRow> {
    let (_, leased) = session(9).lease(&[all(queue)], &mut poll(1), 10 * SECOND).unwrap();
    leased.map(|leased| leased.rows()[0])
}

fn token(queue: &Arc<Queue>) -> Token {
    lease(queue).expect("a row waits").token
}

fn dead_lettered(row: &str, failed: u64, why: &str) -> (String, u64, String) {
    (row.to_owned(), failed, why.to_owned())
}

/// `(waiting, leased, delayed, dead)`.
fn counts(queue: &Queue) -> (u64, u64, u64, u64) {
    let status = queue.status();
    (status.waiting, status.leased, status.delayed, status.dead)
}

#[test]
fn what_fails_so_often_goes_to_the_dead_with_its_reason() {
    let mut both = QueueAndDeadLetters::new(limited(3, "0,1,0", true));
    both.queue.publish(&[b"a", b"b"], None).unwrap();
    assert_eq!(both.queue.nack(&[token(&both.queue)], None, "first").unwrap(), 1);
    assert_eq!(lease(&both.queue).unwrap().tries, 2);
    pass_ms(10_000);
    both = both.reopened();
    both.queue.end_due().unwrap();
    assert_eq!(seen(&session(1), &both.queue).len(), 2, "that was the second");
    let last = lease(&both.queue).unwrap();
    assert_eq!(last.tries, 3);
    assert_eq!(both.queue.nack(&[last.token], Some(5 * SECOND), "x").unwrap(), 1, "no delay saves it");
    assert_eq!(both.queue.nack(&[last.token], None, "").unwrap(), 0, "it has another owner");
    assert_eq!(both.dead_lettered(), [dead_lettered("a", 3, "x")]);
    assert_eq!(rows(&session(1), &both.queue), ["b"]);
    assert_eq!(both.queue.status().counters.dead_lettered, 1);
    assert_eq!(both.queue.status().counters.worked, Histogram::default(), "that work did not end");
    both = both.reopened();
    both.dead.maintain().unwrap();
    both = both.reopened();
    assert_eq!(both.dead_lettered(), [dead_lettered("a", 3, "x")], "what is known of it survives");
    assert_eq!(lease(&both.dead).unwrap().tries, 1, "its tries there are others");
}

#[test]
fn an_expired_lease_and_an_ended_connection_are_failed_tries_and_nothing_else_is() {
    let both = QueueAndDeadLetters::new(limited(2, "0,1,0", true));
    put(&both.queue, "a");
    let tried = |expected: u64| {
        let leased = lease(&both.queue).unwrap();
        assert_eq!(leased.tries, expected);
        leased.token
    };
    assert_eq!(both.queue.release(&[tried(1)]).unwrap(), 1);
    let mut taker = session(1);
    taker.wait(&[all(&both.queue)], &mut poll(1)).unwrap();
    taker.abort().unwrap();
    assert_eq!(both.queue.release(&[tried(1)]).unwrap(), 1, "an abort is none");
    taker.wait(&[all(&both.queue)], &mut poll(1)).unwrap();
    taker.close().unwrap();
    assert_eq!(both.queue.status().counters.tries_cut, 1);
    assert_eq!(both.queue.release(&[tried(2)]).unwrap(), 1);
    taker.wait(&[all(&both.queue)], &mut poll(1)).unwrap();
    taker.close().unwrap();
    both.queue.end_due().unwrap();
    assert_eq!(both.dead_lettered(), [dead_lettered("a", 2, "")]);
    put(&both.queue, "b");
    let mut token = tried(1);
    pass_ms(10_000);
    both.queue.end_due().unwrap();
    assert_eq!(both.queue.extend(&[token], SECOND).unwrap(), 1, "nobody has it yet");
    assert_eq!(both.queue.release(&[token]).unwrap(), 1);
    token = tried(2);
    pass_ms(10_000);
    both.queue.end_due().unwrap();
    assert_eq!(both.queue.ack(&[token]).unwrap(), 0);
    assert_eq!(both.dead_lettered()[1..], [dead_lettered("b", 2, "")]);
}

#[test]
fn a_failed_row_waits_as_long_as_the_policy_says() {
    let mut both = QueueAndDeadLetters::new(limited(0, "1,3,5", false));
    put(&both.queue, "a");
    for (failed, wait) in [(1, 1000), (2, 3000), (3, 5000), (4, 5000)] {
        assert_eq!(both.queue.nack(&[token(&both.queue)], None, "").unwrap(), 1);
        assert_eq!(counts(&both.queue), (0, 0, 1, 0));
        both = both.reopened();
        pass_ms(wait - 1);
        assert!(lease(&both.queue).is_none(), "after {failed}");
        pass_ms(1);
    }
    let leased = token(&both.queue);
    assert_eq!(both.queue.nack(&[leased], Some(Duration::ZERO), "").unwrap(), 1);
    assert_eq!(counts(&both.queue), (1, 0, 0, 0), "who gives it back says more than the policy");
    // A lease that is over: its holder may still end the row while nobody can have it.
    let leased = token(&both.queue);
    pass_ms(10_000);
    both = both.reopened();
    both.queue.end_due().unwrap();
    assert_eq!(counts(&both.queue), (0, 0, 1, 0));
    assert_eq!(both.queue.nack(&[leased], None, "").unwrap(), 0);
    assert_eq!(both.queue.extend(&[leased], SECOND).unwrap(), 1);
    assert_eq!(counts(&both.queue), (0, 1, 0, 0));
    pass_ms(1000);
    both.queue.end_due().unwrap();
    pass_ms(4999);
    both = both.reopened();
    assert!(lease(&both.queue).is_none());
    assert_eq!(both.queue.ack(&[leased]).unwrap(), 1);
    assert_eq!(both.queue.rows(), 0);
}

#[test]
fn a_connection_that_ends_makes_its_row_wait() {
    let both = QueueAndDeadLetters::new(limited(5, "1,1,0", false));
    both.queue.publish(&[b"a", b"b"], None).unwrap();
    let mut taker = session(1);
    taker.wait(&[all(&both.queue)], &mut poll(1)).unwrap();
    taker.close().unwrap();
    assert_eq!(rows(&session(2), &both.queue), ["b"], "the next one is not kept waiting");
    let both = both.reopened();
    pass_ms(1000);
    both.queue.end_due().unwrap();
    assert_eq!(rows(&session(2), &both.queue), ["a", "b"]);
    assert_eq!(lease(&both.queue).unwrap().tries, 2);
}

#[test]
fn dead_missing() {
    let mut both = QueueAndDeadLetters::new(limited(1, "0,1,0", true));
    drop(both.dead);
    both.engine.remove(Path::new(DEAD)).unwrap();
    put(&both.queue, "a");
    assert_eq!(both.queue.nack(&[token(&both.queue)], None, "why").unwrap(), 1);
    assert!(both.queue.dead_letter_error().unwrap().contains("there is no queue"));
    assert_eq!(counts(&both.queue), (0, 0, 0, 1));
    assert!(lease(&both.queue).is_none());
    assert_eq!(session(3).count(&both.queue), 1, "it is kept");
    let other = Definition { schema: b"others".to_vec(), ..definition(Sync::Always) };
    both.engine.create(Path::new(DEAD), &other).unwrap();
    both.dead = both.engine.open(Path::new(DEAD)).unwrap();
    both.queue.move_dead_letters().unwrap_err();
    assert!(both.queue.dead_letter_error().unwrap().contains("other columns"));
    assert_eq!(both.dead.rows(), 0);
    both = both.reopened();
    assert_eq!(counts(&both.queue), (0, 0, 0, 1));
    drop(both.dead);
    both.engine.remove(Path::new(DEAD)).unwrap();
    both.engine.create(Path::new(DEAD), &definition(Sync::Always)).unwrap();
    both.dead = both.engine.open(Path::new(DEAD)).unwrap();
    pass_ms(2000);
    both.queue.end_due().unwrap();
    assert_eq!(
        both.dead_lettered(),
        [dead_lettered("a", 0, "")],
        "a queue that shows nothing keeps nothing of it"
    );
    assert_eq!((both.queue.rows(), both.queue.dead_letter_error()), (0, None));
}

#[test]
fn a_queue_is_no_place_for_its_own_dead() {
    let both = QueueAndDeadLetters::new(RetryPolicy {
        dead_letter_folder: Some(FOLDER.into()),
        ..limited(1, "0,1,0", false)
    });
    put(&both.queue, "a");
    both.queue.nack(&[token(&both.queue)], None, "").unwrap();
    assert!(matches!(both.queue.move_dead_letters(), Err(Error::DeadLetterQueue { .. })));
    assert_eq!((both.queue.rows(), counts(&both.queue)), (1, (0, 0, 0, 1)));
}

#[test]
fn without_a_place_for_them_rows_without_tries_left_stay() {
    let mut both = QueueAndDeadLetters::new(limited(1, "0,1,0", false));
    put(&both.queue, "a");
    pass_ms(0);
    both.queue.nack(&[token(&both.queue)], None, "").unwrap();
    both.queue.maintain().unwrap();
    both = both.reopened();
    assert_eq!(counts(&both.queue), (0, 0, 0, 1));
    assert!(both.queue.dead_letter_error().unwrap().contains("no DEAD"));
    assert_eq!(seen(&session(1), &both.queue), []);
    both.queue.truncate().unwrap();
    assert_eq!((counts(&both.queue), both.queue.dead_letter_error()), ((0, 0, 0, 0), None));
}

#[test]
fn alter_with_policies() {
    let of = |policy| Definition { policy, ..definition(Sync::Always) };
    let mut both = QueueAndDeadLetters::new(limited(2, "2,1,0", false));
    both.queue.publish(&[b"gone", b"a", b"b", b"c"], None).unwrap();
    both.queue.ack(&[token(&both.queue)]).unwrap();
    for _ in 0..2 {
        both.queue.nack(&[token(&both.queue)], Some(Duration::ZERO), "a is bad").unwrap();
    }
    let late = token(&both.queue);
    pass_ms(10_000);
    both.queue.end_due().unwrap();
    assert_eq!(counts(&both.queue), (1, 0, 1, 1));
    // More tries: the row that had none left is tried again.
    both.queue = altered(&both.engine, &both.queue, &of(limited(3, "2,1,0", true))).unwrap();
    assert_eq!(counts(&both.queue), (2, 0, 1, 0));
    both = both.reopened();
    assert_eq!(counts(&both.queue), (2, 0, 1, 0));
    assert_eq!(both.queue.extend(&[late], SECOND).unwrap(), 1, "tokens stay good");
    assert_eq!(both.queue.release(&[late]).unwrap(), 1);
    let leased = lease(&both.queue).unwrap();
    assert_eq!(leased.tries, 3);
    both.queue.nack(&[leased.token], None, "").unwrap();
    assert_eq!(both.dead_lettered(), [dead_lettered("a", 3, "a is bad")]);
    // No policy any more: what waits longer waits longer, and files have nothing that needs it.
    both.queue.nack(&[token(&both.queue)], Some(100 * SECOND), "").unwrap();
    let late = token(&both.queue);
    pass_ms(10_000);
    both.queue.end_due().unwrap();
    assert_eq!(counts(&both.queue), (0, 0, 2, 0));
    both.queue = altered(&both.engine, &both.queue, &definition(Sync::Always)).unwrap();
    assert_eq!(counts(&both.queue), (1, 0, 1, 0));
    both = both.reopened();
    assert_eq!(counts(&both.queue), (1, 0, 1, 0));
    assert_eq!(both.queue.extend(&[late], SECOND).unwrap(), 1);
    assert_eq!(both.queue.release(&[late]).unwrap(), 1);
    assert_eq!(lease(&both.queue).unwrap().tries, 2);
    assert_eq!(both.queue.definition().policy, RetryPolicy::default());
    pass_ms(100_000);
    both.queue.end_due().unwrap();
    assert_eq!(rows(&session(1), &both.queue), ["b", "c"]);
}

#[test]
fn a_row_that_is_in_both_queues_is_ended_before_its_queue_is_copied() {
    let of = |policy| Definition { policy, ..definition(Sync::Always) };
    let mut both = QueueAndDeadLetters::new(limited(1, "0,1,0", true));
    put(&both.queue, "a");
    let leased = token(&both.queue);
    both.queue.sync().unwrap();
    // Room for the row there, and none for its end here.
    let before =
        both.disk.names().into_iter().map(|name| both.disk.bytes(&name).unwrap().len()).sum::<usize>();
    let mut room = 1;
    loop {
        both.disk.limit(before as u64 + room);
        both.queue.nack(&[leased], None, "").unwrap();
        if both.dead.rows() == 1 || both.queue.rows() == 0 {
            break;
        }
        both.queue.move_dead_letters().unwrap_err();
        room += 1;
        if both.dead.rows() == 1 {
            break;
        }
    }
    assert_eq!((both.queue.rows(), both.dead.rows()), (1, 1));
    assert!(matches!(
        altered(&both.engine, &both.queue, &of(limited(1, "0,1,0", true))),
        Err(Error::Disk { .. })
    ));
    both.disk.limit(u64::MAX);
    both.queue = altered(&both.engine, &both.queue, &of(limited(1, "0,1,0", true))).unwrap();
    both.queue.move_dead_letters().unwrap();
    assert_eq!((both.queue.rows(), both.dead.rows()), (0, 1));
}

#[test]
fn nothing_is_moved_to_a_queue_that_is_being_copied() {
    let both = QueueAndDeadLetters::new(limited(1, "0,1,0", true));
    put(&both.queue, "a");
    both.dead.begin_copy().unwrap();
    both.queue.nack(&[token(&both.queue)], None, "").unwrap();
    assert_eq!((counts(&both.queue).3, both.dead.rows()), (1, 0));
    both.dead.end_copy();
    pass_ms(2000);
    both.queue.end_due().unwrap();
    assert_eq!(both.dead_lettered(), [dead_lettered("a", 1, "")]);
}

#[test]
fn nothing_is_moved_while_a_backup_is_made() {
    let both = QueueAndDeadLetters::new(limited(1, "0,1,0", true));
    put(&both.queue, "a");
    both.engine.hold_moves(true);
    both.queue.nack(&[token(&both.queue)], None, "").unwrap();
    assert!(matches!(both.queue.move_dead_letters(), Err(Error::Backup)));
    assert_eq!((counts(&both.queue).3, both.dead.rows()), (1, 0));
    both.engine.hold_moves(false);
    pass_ms(2000);
    both.queue.end_due().unwrap();
    assert_eq!(both.dead_lettered(), [dead_lettered("a", 1, "")]);
}

#[test]
fn downgrade_refused_and_without_options_files_are_as_they_were() {
    let flags = |policy: RetryPolicy| {
        let disk = FaultDisk::default();
        let engine = Engine::start(Arc::new(disk.clone()), Options { random: || [1; 16], ..timed(700) });
        let engine = engine.unwrap();
        engine.create(Path::new(FOLDER), &Definition { policy, ..definition(Sync::Always) }).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        for number in 0..30 {
            put(&queue, &format!("row {number:030}"));
        }
        let mut taker = session(1);
        taker.wait(&[all(&queue)], &mut poll(12)).unwrap();
        taker.close().unwrap();
        queue.maintain().unwrap();
        drop((queue, engine));
        let names = disk.names().into_iter().filter(|name| name.starts_with(FOLDER));
        let bytes = names.map(|name| disk.bytes(&name).unwrap()).filter(|bytes| !bytes.is_empty());
        let bytes: Vec<Vec<u8>> = bytes.collect();
        let flag = |bytes: &Vec<u8>| u64::from_le_bytes(bytes[16..24].try_into().unwrap());
        bytes.iter().map(flag).collect::<Vec<u64>>()
    };
    assert!(flags(RetryPolicy::default()).iter().all(|flag| *flag == 0));
    assert!(flags(limited(5, "0,1,0", false)).iter().all(|flag| *flag == 4));
}

#[test]
fn a_row_without_tries_left_moves_by_itself() {
    ends(|| {
        let options = Options { threads: 1, ..Options::new(|| 7, || [3; 16]) };
        let disk = FaultDisk::default();
        let engine = Engine::start(Arc::new(disk), options).unwrap();
        let of = |policy| Definition { policy, ..definition(Sync::Always) };
        engine.create(Path::new(FOLDER), &of(limited(1, "0,1,0", true))).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        queue.publish(&[b"a", b"b"], None).unwrap();
        // Nowhere to go at first.
        session(1).lease(&[all(&queue)], &mut poll(1), Duration::from_millis(1)).unwrap();
        while queue.status().dead == 0 {
            std::thread::yield_now();
        }
        engine.create(Path::new(DEAD), &definition(Sync::Always)).unwrap();
        let dead = engine.open(Path::new(DEAD)).unwrap();
        let mut taker = session(2);
        taker.wait(&[all(&dead)], &mut WaitOptions::forever()).unwrap();
        assert_eq!(rows(&taker, &dead), ["a"]);
        taker.end().unwrap();
        let mut dies: Session = session(3);
        dies.wait(&[all(&queue)], &mut poll(1)).unwrap();
        dies.close().unwrap();
        taker.wait(&[all(&dead)], &mut WaitOptions::forever()).unwrap();
        assert_eq!(rows(&taker, &dead), ["b"]);
    });
}

#[test]
fn what_could_not_be_synced_there_is_not_ended_here() {
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), timed(1 << 20)).unwrap();
    let of = |policy, sync| Definition { policy, ..definition(sync) };
    engine.create(Path::new(FOLDER), &of(limited(1, "0,1,0", true), Sync::Always)).unwrap();
    engine.create(Path::new(DEAD), &definition(Sync::Never)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    put(&queue, "a");
    queue.nack(&[token(&queue)], None, "").unwrap();
    assert_eq!(queue.rows(), 0);
    let after = disk.after_crash(Unsynced::Drop);
    let engine = Engine::start(Arc::new(after), timed(1 << 20)).unwrap();
    assert_eq!(engine.open(Path::new(DEAD)).unwrap().rows(), 1);
}

/// Rows of which a try has failed, and for this reason if there is one.
struct Failed(&'static str);

impl queue::Filter for Failed {
    fn text(&self) -> &str {
        self.0
    }

    fn matches(&self, _: &[u8]) -> bool {
        panic!("it asks for the tries")
    }

    fn asks_tries(&self) -> bool {
        true
    }

    fn matches_tried(&self, _: &[u8], failed: u64, why: &str) -> bool {
        failed > 0 && (self.0.is_empty() || why == self.0)
    }
}

#[test]
fn a_condition_on_tries_finds_a_row_once_it_has_failed() {
    let opened = crate::support::TestQueue::new(&Definition {
        policy: limited(9, "0,1,0", false),
        ..definition(Sync::Always)
    });
    let failed = |why| {
        let filter: Option<Arc<dyn queue::Filter>> = Some(Arc::new(Failed(why)));
        queue::Target { filter, ..all(&opened.queue) }
    };
    put(&opened.queue, "a");
    put(&opened.queue, "b");
    let take = |target: queue::Target| {
        let mut taker = session(7);
        taker.wait(&[target], &mut poll(9)).unwrap();
        let taken = rows(&taker, &opened.queue);
        taker.abort().unwrap();
        taken
    };
    assert_eq!((take(failed("")), take(failed("full"))), (vec![], vec![]));
    let mut one = session(1);
    let (_, leased) = one.lease(&[all(&opened.queue)], &mut poll(1), Duration::from_secs(9)).unwrap();
    opened.queue.nack(&[leased.unwrap().rows()[0].token], None, "full").unwrap();
    assert_eq!((take(failed("")), take(failed("full"))), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(take(failed("other")), [""; 0]);
}
