//! Leases: rows that are ended, kept and given back with tokens, without a connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use queue::{Engine, Error, LeasedRow, Options, Queue, RowId, Sync, Target, Token, WaitOptions, WaitOutcome};

use crate::support::{
    FOLDER, all, definition, ends, only, options, pass_ms, poll, put, rows, session, set_wall, timed, wall,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn start(disk: &FaultDisk) -> Engine {
    Engine::start(Arc::new(disk.clone()), timed(700)).unwrap()
}

pub(crate) fn fresh(disk: &FaultDisk) -> (Engine, Arc<Queue>) {
    let engine = start(disk);
    engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (engine, queue)
}

pub(crate) fn reopened(disk: &FaultDisk, (engine, queue): (Engine, Arc<Queue>)) -> (Engine, Arc<Queue>) {
    drop((queue, engine));
    let engine = start(disk);
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (engine, queue)
}

pub(crate) fn leased_from(target: Target, count: usize, length: Duration) -> Vec<LeasedRow> {
    let (_, leased) = session(9).lease(&[target], &mut poll(count), length).unwrap();
    leased.map(|leased| leased.rows().to_vec()).unwrap_or_default()
}

/// Leases up to so many rows for ten seconds.
pub(crate) fn lease(queue: &Arc<Queue>, count: usize) -> Vec<LeasedRow> {
    leased_from(all(queue), count, 10 * SECOND)
}

pub(crate) fn tokens(leased: &[LeasedRow]) -> Vec<Token> {
    leased.iter().map(|leased| leased.token).collect()
}

pub(crate) fn waiting(queue: &Arc<Queue>) -> Vec<String> {
    rows(&session(8), queue)
}

/// `(waiting, leased, delayed)`.
pub(crate) fn counts(queue: &Queue) -> (u64, u64, u64) {
    let status = queue.status();
    (status.waiting, status.leased, status.delayed)
}

#[test]
fn a_leased_row_is_nobodys_until_its_token_ends_it_or_gives_it_back() {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh(&disk);
    queue.publish(&[b"a", b"b", b"c", b"d"], None).unwrap();
    let mut session = session(1);
    session.wait(&[all(&queue)], &mut poll(1)).unwrap();
    let (waited, leased) = session.lease(&[all(&queue)], &mut poll(2), SECOND).unwrap();
    let mut leased = leased.unwrap();
    assert_eq!(waited, WaitOutcome::Taken(0));
    assert_eq!(leased.rows().iter().map(|leased| leased.row).collect::<Vec<_>>(), [RowId(2), RowId(3)]);
    assert_eq!(session.owned_rows().unwrap().1, [RowId(1)], "what it owned stays its own");
    assert_eq!(rows(&session, &queue), ["a"], "and it sees nothing else");
    let mut cursor = leased.cursor();
    assert_eq!(cursor.advance().unwrap().unwrap().1, b"b");
    assert_eq!(waiting(&queue), ["d"]);
    session.end().unwrap();
    session.close().unwrap();
    assert_eq!(counts(&queue), (1, 2, 0), "leases need no connection");
    let [b, c] = tokens(leased.rows())[..] else { panic!("two tokens") };
    assert!(c.number > b.number);
    let other: Token = format!("{}-{:016x}", b.number, 5).parse().unwrap();
    assert_eq!(queue.ack(&[other]).unwrap(), 0, "a wrong secret");
    assert_eq!(queue.ack(&[b, b]).unwrap(), 1);
    assert_eq!(queue.ack(&[b]).unwrap(), 0);
    assert_eq!(queue.release(&[c]).unwrap(), 1);
    assert_eq!((queue.release(&[c]).unwrap(), queue.ack(&[c]).unwrap()), (0, 0), "it gave the row back");
    assert_eq!(waiting(&queue), ["c", "d"]);
    let again = lease(&queue, 1);
    assert_eq!((again[0].row, again[0].tries), (RowId(3), 1), "released is not failed");
    assert!(again[0].token.number > c.number);
    assert_eq!(queue.status().counters.leases, 3);
    drop((queue, engine));
}

#[test]
fn stale_token() {
    let disk = FaultDisk::default();
    let (_engine, queue) = fresh(&disk);
    put(&queue, "a");
    let old = lease(&queue, 1);
    pass_ms(10_000);
    let new = lease(&queue, 1);
    assert_eq!((new[0].row, new[0].tries), (RowId(1), 2));
    assert!(new[0].token.number > old[0].token.number);
    let old = tokens(&old);
    assert_eq!(queue.ack(&old).unwrap(), 0);
    assert_eq!(queue.extend(&old, SECOND).unwrap(), 0);
    assert_eq!(queue.nack(&old, None, "").unwrap(), 0);
    assert_eq!(queue.release(&old).unwrap(), 0);
    assert_eq!(queue.status().counters.leases_refused, 4);
    assert_eq!(counts(&queue), (0, 1, 0));
    assert_eq!(queue.ack(&tokens(&new)).unwrap(), 1);
    assert_eq!(queue.rows(), 0);
}

#[test]
fn extend_after_expiry() {
    let disk = FaultDisk::default();
    let (_engine, queue) = fresh(&disk);
    queue.publish(&[b"a", b"b"], None).unwrap();
    let leased = lease(&queue, 2);
    let tokens = tokens(&leased);
    pass_ms(9000);
    assert_eq!(queue.extend(&tokens[..1], 10 * SECOND).unwrap(), 1);
    pass_ms(9000);
    queue.end_due().unwrap();
    assert_eq!(counts(&queue), (1, 1, 0), "the one that was extended continues");
    pass_ms(1000);
    queue.end_due().unwrap();
    assert_eq!(counts(&queue), (2, 0, 0));
    assert_eq!(queue.extend(&tokens, 10 * SECOND).unwrap(), 2, "nobody has taken them");
    assert_eq!(counts(&queue), (0, 2, 0));
    pass_ms(10_000);
    queue.end_due().unwrap();
    let mut taker = session(3);
    taker.wait(&[all(&queue)], &mut poll(1)).unwrap();
    assert_eq!(queue.extend(&tokens, SECOND).unwrap(), 1, "somebody owns the first one now");
    assert_eq!(queue.ack(&tokens[..1]).unwrap(), 0);
    taker.abort().unwrap();
    assert_eq!(queue.ack(&tokens).unwrap(), 2, "expired and not taken, and leased");
    assert_eq!(queue.status().counters.leases_expired, 4);
    assert_eq!(queue.rows(), 0);
}

#[test]
fn a_row_that_comes_back_knows_its_tries_over_restarts() {
    let disk = FaultDisk::default();
    let mut both = fresh(&disk);
    put(&both.1, "a");
    let mut last = 0;
    for tries in 1..6 {
        let leased = lease(&both.1, 1);
        assert_eq!(leased[0].tries, tries);
        assert!(leased[0].token.number > last, "numbers only grow");
        last = leased[0].token.number;
        match tries {
            1 => pass_ms(10_000),
            2 => assert_eq!(both.1.nack(&tokens(&leased), None, "").unwrap(), 1),
            3 => {
                assert_eq!(both.1.nack(&tokens(&leased), Some(5 * SECOND), "").unwrap(), 1);
                assert_eq!(counts(&both.1), (0, 0, 1));
                assert_eq!(both.1.ack(&tokens(&leased)).unwrap(), 0, "a delayed row has no holder");
                both = reopened(&disk, both);
                pass_ms(4999);
                both.1.end_due().unwrap();
                assert_eq!(counts(&both.1), (0, 0, 1));
                pass_ms(1);
            }
            _ => {
                both = reopened(&disk, both);
                assert_eq!(counts(&both.1), (0, 1, 0), "a restart is no failed try");
                pass_ms(10_000);
            }
        }
        both = reopened(&disk, both);
        both.1.maintain().unwrap();
        both = reopened(&disk, both);
    }
}

#[test]
fn clock_jumps() {
    let disk = FaultDisk::default();
    let mut both = fresh(&disk);
    put(&both.1, "a");
    let token = tokens(&lease(&both.1, 1));
    let (hour, now) = (3_600_000, wall());
    // While the queue is open the wall clock does not count.
    for jump in [now + hour, now - hour, 0, now] {
        set_wall(jump);
        both.1.end_due().unwrap();
        assert_eq!(counts(&both.1), (0, 1, 0));
    }
    // Set back while it is closed: no more is left than there was.
    set_wall(now - hour);
    both = reopened(&disk, both);
    assert_eq!(counts(&both.1), (0, 1, 0));
    pass_ms(9999);
    both.1.end_due().unwrap();
    assert_eq!(counts(&both.1), (0, 1, 0));
    pass_ms(1);
    both.1.end_due().unwrap();
    assert_eq!(counts(&both.1), (1, 0, 0));
    assert_eq!(both.1.extend(&token, 10 * SECOND).unwrap(), 1);
    // Set forward: it ends early, and the row comes back once.
    set_wall(now + 24 * hour);
    both = reopened(&disk, both);
    let leased = lease(&both.1, 5);
    assert_eq!((leased.len(), leased[0].tries), (1, 3));
    assert_eq!(both.1.ack(&token).unwrap(), 0);
    assert_eq!(both.1.ack(&tokens(&leased)).unwrap(), 1);
}

#[test]
fn lease_lost_in_crash() {
    let disk = FaultDisk::default();
    let (engine, queue) = fresh(&disk);
    queue.publish(&[b"a", b"b"], None).unwrap();
    let first = lease(&queue, 1);
    put(&queue, "c");
    let second = lease(&queue, 1);
    let after = disk.after_crash(Unsynced::Drop);
    let again = start(&after);
    let found = again.open(Path::new(FOLDER)).unwrap();
    assert_eq!(counts(&found), (2, 1, 0), "the first one was written with the row that came after it");
    assert_eq!(found.ack(&tokens(&second)).unwrap(), 0);
    let new = lease(&found, 1);
    assert_eq!(new[0].row, second[0].row);
    assert!(new[0].token.number > second[0].token.number, "no number comes twice");
    assert_eq!(found.ack(&tokens(&first)).unwrap(), 1);
    drop((queue, engine));
}

#[test]
fn a_lease_wakes_waiters_when_it_is_over_and_not_before() {
    ends(|| {
        let engine = Engine::start(
            Arc::new(FaultDisk::default()),
            Options { threads: 1, ..Options::new(|| 7, || [3; 16]) },
        );
        let engine = engine.unwrap();
        engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        put(&queue, "a");
        let old = leased_from(all(&queue), 1, Duration::from_millis(40));
        let mut taker = session(2);
        assert_eq!(
            taker.wait(&[only(&queue, "a")], &mut WaitOptions::forever()).unwrap(),
            WaitOutcome::Taken(0)
        );
        assert_eq!(queue.status().counters.wait_delayed, 1);
        taker.abort().unwrap();
        // A later deadline is not looked at first; an earlier one is.
        let late = leased_from(all(&queue), 1, Duration::from_secs(3000));
        assert!(late[0].token.number > old[0].token.number);
        put(&queue, "b");
        leased_from(all(&queue), 1, Duration::from_millis(40));
        assert_eq!(taker.wait(&[all(&queue)], &mut WaitOptions::forever()).unwrap(), WaitOutcome::Taken(0));
        assert_eq!(rows(&taker, &queue), ["b"]);
    });
}

#[test]
fn nack_delay_wakes_waiter() {
    ends(|| {
        let engine = Engine::start(
            Arc::new(FaultDisk::default()),
            Options { threads: 1, ..Options::new(|| 7, || [3; 16]) },
        );
        let engine = engine.unwrap();
        engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        put(&queue, "a");
        let leased = leased_from(all(&queue), 1, Duration::from_secs(3000));
        assert_eq!(queue.nack(&tokens(&leased), Some(Duration::from_millis(40)), "").unwrap(), 1);
        let mut taker = session(2);
        assert_eq!(taker.wait(&[all(&queue)], &mut WaitOptions::forever()).unwrap(), WaitOutcome::Taken(0));
        assert_eq!(rows(&taker, &queue), ["a"]);
    });
}

#[test]
fn without_leases_a_queue_stays_as_it_was() {
    let run = |leases: bool| {
        let disk = FaultDisk::default();
        let engine =
            Engine::start(Arc::new(disk.clone()), Options { random: || [1; 16], ..timed(700) }).unwrap();
        engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        for number in 0..30 {
            put(&queue, &format!("row {number:030}"));
        }
        let mut taker = session(1);
        if leases {
            queue.ack(&tokens(&lease(&queue, 12))).unwrap();
        } else {
            taker.wait(&[all(&queue)], &mut poll(12)).unwrap();
            taker.end().unwrap();
        }
        queue.maintain().unwrap();
        put(&queue, "one more");
        drop((queue, engine));
        let flags = |name: &Path, at: u64| {
            let mut bytes = [0; 8];
            disk.open(name).unwrap().read_full_at(at, &mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        };
        let checkpoint = Path::new(FOLDER).join("checkpoint");
        let names = disk.names().into_iter().filter(|name| name.to_string_lossy().ends_with(".seg"));
        let last = names.max().unwrap();
        (flags(&checkpoint, 16), flags(&last, 16))
    };
    assert_eq!(run(false), (0, 0));
    // The last segment was begun before the first lease.
    assert_eq!(run(true), (2, 0));
}

#[test]
fn truncate_ends_all_leases_and_no_token_fits_later() {
    let disk = FaultDisk::default();
    let mut both = fresh(&disk);
    put(&both.1, "a");
    let (_, leased) = session(9).lease(&[all(&both.1)], &mut poll(1), SECOND).unwrap();
    let mut leased = leased.unwrap();
    let old = tokens(leased.rows());
    both.1.truncate().unwrap();
    assert_eq!(counts(&both.1), (0, 0, 0));
    assert_eq!(
        leased.cursor().advance().unwrap().unwrap().1,
        b"a",
        "where it was is known since it was leased"
    );
    assert_eq!(leased.cursor().advance().unwrap(), None);
    drop(leased);
    both = reopened(&disk, both);
    put(&both.1, "b");
    let new = tokens(&lease(&both.1, 1));
    assert!(new[0].number > old[0].number);
    assert_eq!((both.1.ack(&old).unwrap(), both.1.ack(&new).unwrap()), (0, 1));
}

#[test]
fn leased_rows_move_with_compaction() {
    let disk = FaultDisk::default();
    let mut both = fresh(&disk);
    for group in 0..8 {
        let texts: Vec<String> = (0..5).map(|nth| format!("{:01000}", group * 5 + nth)).collect();
        both.1.publish(&texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(), None).unwrap();
    }
    let leased = leased_from(only(&both.1, &format!("{:01000}", 3)), 1, 10 * SECOND);
    let doomed: Vec<RowId> = (1..36).filter(|id| *id != 4).map(RowId).collect();
    session(2).delete(&both.1, &doomed).unwrap();
    both.1.compact().unwrap();
    assert!(both.1.status().counters.compacted > 0);
    assert_eq!(counts(&both.1), (5, 1, 0));
    both = reopened(&disk, both);
    assert_eq!(counts(&both.1), (5, 1, 0));
    assert_eq!(both.1.ack(&tokens(&leased)).unwrap(), 1);
    both = reopened(&disk, both);
    assert_eq!(counts(&both.1), (5, 0, 0));
}

/// Copies a queue as ALTER TABLE does.
fn copied(engine: &Engine, old: &Arc<Queue>, during: impl FnOnce(), before_end: impl FnOnce()) -> Arc<Queue> {
    let (copy, away) = (Path::new("/db/copy"), Path::new("/db/away"));
    engine.create(copy, &definition(Sync::Always)).unwrap();
    let new = engine.open(copy).unwrap();
    old.begin_copy().unwrap();
    let mut cursor = old.copy_cursor(true);
    while let Some((_, row)) = cursor.advance().unwrap() {
        new.publish(&[row], None).unwrap();
    }
    during();
    old.copied_to(&new).unwrap();
    before_end();
    engine.rename(Path::new(FOLDER), away).unwrap();
    old.replaced_by(&new, || engine.rename(copy, Path::new(FOLDER))).unwrap();
    old.end_copy();
    engine.remove(away).unwrap();
    new
}

#[test]
fn alter_with_leases() {
    let disk = FaultDisk::default();
    let (engine, old) = fresh(&disk);
    old.publish(&[b"gone", b"a", b"b", b"c", b"d", b"e", b"f"], None).unwrap();
    session(2).delete(&old, &[RowId(1)]).unwrap();
    let leased = tokens(&lease(&old, 6));
    assert_eq!(old.nack(&leased[4..5], None, "").unwrap(), 1);
    assert_eq!(old.nack(&leased[5..6], Some(5 * SECOND), "").unwrap(), 1);
    let queue = old.clone();
    let two = (leased[0], leased[1]);
    let during = move || assert_eq!(queue.ack(&[two.0]).unwrap(), 1);
    let queue = old.clone();
    let before_end = move || assert_eq!(queue.ack(&[two.1]).unwrap(), 1);
    let new = copied(&engine, &old, during, before_end);
    assert_eq!(counts(&new), (1, 2, 1));
    assert_eq!(old.ack(&leased[2..3]).unwrap(), 1, "also by who has not noticed yet");
    drop(old);
    let both = reopened(&disk, (engine, new));
    let new = both.1.clone();
    assert_eq!(counts(&new), (1, 1, 1));
    assert_eq!(new.extend(&leased[3..4], SECOND).unwrap(), 1, "tokens stay good");
    let e = lease(&new, 1);
    assert_eq!(e[0].tries, 2, "so do tries");
    assert!(e[0].token.number > leased[5].number, "and numbers grow");
    pass_ms(5000);
    assert_eq!(lease(&new, 9).len(), 2);
}

#[test]
fn a_row_whose_end_can_not_be_written_stays_leased() {
    let disk = FaultDisk::default();
    let (_engine, queue) = fresh(&disk);
    put(&queue, "a");
    let token = tokens(&lease(&queue, 1));
    disk.limit(1);
    assert!(matches!(queue.ack(&token), Err(Error::Disk { .. })));
    disk.limit(u64::MAX);
    assert_eq!(counts(&queue), (0, 1, 0));
    assert_eq!(queue.ack(&token).unwrap(), 1);
    assert_eq!(queue.rows(), 0);
}

#[test]
fn leases_without_syncs_are_written_with_what_comes_next() {
    let disk = FaultDisk::default();
    let engine = Engine::start(Arc::new(disk.clone()), options(1 << 20)).unwrap();
    engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    queue.publish(&[b"a", b"b"], None).unwrap();
    lease(&queue, 1);
    let before = queue.status().counters;
    let token = tokens(&lease(&queue, 1));
    assert_eq!(queue.extend(&token, SECOND).unwrap(), 1);
    let after = queue.status().counters;
    assert_eq!((after.writes, after.syncs), (before.writes, before.syncs));
    assert_eq!(queue.ack(&token).unwrap(), 1);
    let after = queue.status().counters;
    assert_eq!((after.writes, after.syncs), (before.writes + 1, before.syncs + 1));
    // Many are written at once, and not synced either.
    queue.publish(&vec![b"row".as_slice(); 2000], None).unwrap();
    let before = queue.status().counters;
    assert_eq!(lease(&queue, 2000).len(), 2000);
    let after = queue.status().counters;
    assert_eq!((after.writes, after.syncs), (before.writes + 1, before.syncs));
}

#[test]
fn a_lease_that_could_not_be_written_is_written_later() {
    let disk = FaultDisk::default();
    let both = fresh(&disk);
    put(&both.1, "a");
    let token = tokens(&lease(&both.1, 1));
    disk.limit(1);
    both.1.sync().unwrap_err();
    assert_eq!(both.1.extend(&token, 20 * SECOND).unwrap(), 1, "it is in effect all the same");
    both.1.sync().unwrap_err();
    disk.limit(u64::MAX);
    put(&both.1, "b");
    let after = disk.after_crash(Unsynced::Drop);
    let engine = start(&after);
    let found = engine.open(Path::new(FOLDER)).unwrap();
    pass_ms(15_000);
    found.end_due().unwrap();
    assert_eq!(counts(&found), (1, 1, 0), "the later one counts");
}
