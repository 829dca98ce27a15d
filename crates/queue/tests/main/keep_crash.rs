//! A queue that keeps rows is stopped at every sync, and what was not synced is dropped, kept, torn or
//! scattered. A row that came waits, is kept, or was kept long enough, and no other is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use queue::{Cursor, Definition, Ended, Error, Queue, RowId, Sync};

use crate::support::{
    all, definition, end, log_bytes, pass_ms, poll, put, rows, session, set_wall, states_of_cuts,
    stopped_at_each_sync, xid,
};

const BEGIN_MS: u64 = 1_700_000_000_000;
const KEEP_MS: u64 = 20_000;

/// What clients know when the queue stops.
#[derive(Default)]
struct Known {
    waiting: BTreeSet<String>,
    kept: BTreeSet<String>,
    /// Rows that may wait, be kept, or not be there.
    unsure: BTreeSet<String>,
}

impl Known {
    /// Says that something is being done with rows.
    fn doubt(&mut self, rows: &[String]) {
        for row in rows {
            self.waiting.remove(row);
            self.kept.remove(row);
            self.unsure.insert(row.clone());
        }
    }

    /// Says what became of rows.
    fn settle(&mut self, rows: &[String], ended: bool) {
        for row in rows {
            self.unsure.remove(row);
            if ended { &mut self.kept } else { &mut self.waiting }.insert(row.clone());
        }
    }
}

fn still_kept(queue: &Arc<Queue>) -> Result<Vec<String>, Error> {
    let mut cursor = Cursor::of_kept(queue);
    let mut there = Vec::new();
    while let Some((_, row)) = cursor.advance()? {
        there.push(String::from_utf8(row.to_vec()).unwrap());
    }
    Ok(there)
}

fn run(queue: &Arc<Queue>, known: &mut Known) -> Result<(), Error> {
    for round in 0..8u64 {
        let new: Vec<String> = (0..4).map(|nth| format!("{:020}", round * 10 + nth)).collect();
        known.doubt(&new);
        let bytes: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
        queue.publish(&bytes, None)?;
        known.settle(&new, false);
        let mut taker = session(1);
        taker.wait(&[all(queue)], &mut poll(3))?;
        let taken = rows(&taker, queue);
        known.doubt(&taken);
        if round % 2 == 0 {
            taker.end()?;
        } else {
            let mut transaction = taker.begin(queue)?;
            assert!(taker.end_within(&mut transaction));
            let prepared = transaction.prepare(&xid(round))?;
            queue.maintain()?;
            prepared.commit()?;
        }
        known.settle(&taken, true);
        // After a crash it may be there, but it was never ended.
        known.unsure.insert("taken back".to_owned());
        taker.publish_unsettled(queue, &[b"taken back"])?;
        taker.settle(false)?;
        if round == 3 || round == 5 {
            let asked = still_kept(queue)?;
            known.doubt(&asked);
            let replayed = queue.replay(&Ended { rows: RowId(0)..RowId(5 * round), ..Ended::all() })?;
            assert!(replayed > 0);
            let there = still_kept(queue)?;
            let back: Vec<String> = asked.into_iter().filter(|row| !there.contains(row)).collect();
            known.settle(&there, true);
            known.settle(&back, false);
        }
        pass_ms(4000);
        // What goes with its time may be back when the queue stops before it is written.
        if round == 6 {
            known.doubt(&still_kept(queue)?);
            queue.end_due()?;
            let there = still_kept(queue)?;
            known.settle(&there, true);
        }
        if round % 3 == 2 { queue.compact()? } else { queue.maintain()? }
    }
    Ok(())
}

fn compare(queue: &Arc<Queue>, known: &Known) -> Result<(), Error> {
    for xid in queue.recover() {
        queue.rollback_by_xid(&xid)?;
    }
    let there: BTreeSet<String> = rows(&session(3), queue).into_iter().collect();
    let ended: BTreeSet<String> = still_kept(queue)?.into_iter().collect();
    assert_eq!(queue.status().kept, ended.len() as u64);
    assert!(there.is_disjoint(&ended) && !ended.contains("taken back"));
    let (sure, sure_ended) = (known.waiting.difference(&there), known.kept.difference(&ended));
    assert_eq!((sure.count(), sure_ended.count()), (0, 0), "{there:?} {ended:?}");
    for row in there.difference(&known.waiting).chain(ended.difference(&known.kept)) {
        assert!(known.unsure.contains(row), "{row} is back");
    }
    queue.replay(&Ended::all())?;
    let all: BTreeSet<String> = rows(&session(3), queue).into_iter().collect();
    assert_eq!(all, there.union(&ended).cloned().collect());
    Ok(())
}

#[test]
fn rows_are_kept_and_given_again_over_crashes() {
    let definition = Definition { keep_ms: KEEP_MS, transactional: true, ..definition(Sync::Always) };
    let run = |queue: &Arc<Queue>, known: &mut Known| {
        set_wall(BEGIN_MS);
        run(queue, known)
    };
    let whole = stopped_at_each_sync(&definition, run, compare);
    assert!(whole.kept.len() > 3 && whole.unsure.len() < 12, "{:?}", whole.unsure);
}

/// The log ends after each of its bytes: then a prefix of what was done is there.
#[test]
fn a_log_that_is_cut_at_any_byte_has_what_came_before() {
    set_wall(BEGIN_MS);
    let place = crate::support::Ranked::new(&Definition { keep_ms: KEEP_MS, ..definition(Sync::Always) });
    let begin = log_bytes(&place.disk).1.len();
    put(&place.queue, "a");
    put(&place.queue, "b");
    end(&place.queue, 2);
    place.queue.replay(&Ended { rows: RowId(2)..RowId(3), ..Ended::all() }).unwrap();
    let states = states_of_cuts(&place.disk, begin, |found| (found.waiting, found.kept));
    assert_eq!(states, [(0, 0), (1, 0), (2, 0), (0, 2), (1, 1)]);
}
