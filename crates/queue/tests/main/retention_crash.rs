//! A queue that keeps rows is stopped at every sync, and what was not synced is dropped, kept, torn or
//! scattered. A row that came waits, is kept, or was kept long enough, and no other is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use queue::{Cursor, Definition, Error, Queue, RetainedFilter, RowId, Sync};

use crate::support::{
    all, definition, end, log_bytes, pass_ms, poll, put, rows, session, set_wall, states_of_cuts,
    stopped_at_each_sync, xid,
};

const BEGIN_MS: u64 = 1_700_000_000_000;
const KEEP_MS: u64 = 20_000;

/// What clients know when the queue stops.
#[derive(Default)]
struct Expected {
    waiting: BTreeSet<String>,
    kept: BTreeSet<String>,
    /// Rows that may wait, be kept, or not be there.
    unsure: BTreeSet<String>,
}

impl Expected {
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

fn run(queue: &Arc<Queue>, expected: &mut Expected) -> Result<(), Error> {
    for round in 0..8u64 {
        let new: Vec<String> = (0..4).map(|nth| format!("{:020}", round * 10 + nth)).collect();
        expected.doubt(&new);
        let bytes: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
        queue.publish(&bytes, None)?;
        expected.settle(&new, false);
        let mut taker = session(1);
        taker.wait(&[all(queue)], &mut poll(3))?;
        let taken = rows(&taker, queue);
        expected.doubt(&taken);
        if round % 2 == 0 {
            taker.end()?;
        } else {
            let mut transaction = taker.begin(queue)?;
            assert!(taker.end_within(&mut transaction));
            let prepared = transaction.prepare(&xid(round))?;
            queue.maintain()?;
            prepared.commit()?;
        }
        expected.settle(&taken, true);
        // After a crash it may be there, but it was never ended.
        expected.unsure.insert("taken back".to_owned());
        taker.publish_in_statement(queue, &[b"taken back"])?;
        taker.end_statement(false)?;
        if round == 3 || round == 5 {
            let asked = still_kept(queue)?;
            expected.doubt(&asked);
            let replayed = queue
                .replay(&RetainedFilter { rows: RowId(0)..RowId(5 * round), ..RetainedFilter::all() })?;
            assert!(replayed > 0);
            let there = still_kept(queue)?;
            let back: Vec<String> = asked.into_iter().filter(|row| !there.contains(row)).collect();
            expected.settle(&there, true);
            expected.settle(&back, false);
        }
        pass_ms(4000);
        // What goes with its time may be back when the queue stops before it is written.
        if round == 6 {
            expected.doubt(&still_kept(queue)?);
            queue.end_due()?;
            let there = still_kept(queue)?;
            expected.settle(&there, true);
        }
        if round % 3 == 2 { queue.compact()? } else { queue.maintain()? }
    }
    Ok(())
}

fn compare(queue: &Arc<Queue>, expected: &Expected) -> Result<(), Error> {
    for xid in queue.recover() {
        queue.rollback_by_xid(&xid)?;
    }
    let there: BTreeSet<String> = rows(&session(3), queue).into_iter().collect();
    let ended: BTreeSet<String> = still_kept(queue)?.into_iter().collect();
    assert_eq!(queue.status().kept, ended.len() as u64);
    assert!(there.is_disjoint(&ended) && !ended.contains("taken back"));
    let (sure, sure_ended) = (expected.waiting.difference(&there), expected.kept.difference(&ended));
    assert_eq!((sure.count(), sure_ended.count()), (0, 0), "{there:?} {ended:?}");
    for row in there.difference(&expected.waiting).chain(ended.difference(&expected.kept)) {
        assert!(expected.unsure.contains(row), "{row} is back");
    }
    queue.replay(&RetainedFilter::all())?;
    let all: BTreeSet<String> = rows(&session(3), queue).into_iter().collect();
    assert_eq!(all, there.union(&ended).cloned().collect());
    Ok(())
}

#[test]
fn rows_are_kept_and_given_again_over_crashes() {
    let definition = Definition { keep_ms: KEEP_MS, transactional: true, ..definition(Sync::Always) };
    let run = |queue: &Arc<Queue>, expected: &mut Expected| {
        set_wall(BEGIN_MS);
        run(queue, expected)
    };
    let whole = stopped_at_each_sync(&definition, run, compare);
    assert!(whole.kept.len() > 3 && whole.unsure.len() < 12, "{:?}", whole.unsure);
}

/// The log ends after each of its bytes: then a prefix of what was done is there.
#[test]
fn a_log_that_is_cut_at_any_byte_has_what_came_before() {
    set_wall(BEGIN_MS);
    let opened = crate::support::TestQueue::new(&Definition { keep_ms: KEEP_MS, ..definition(Sync::Always) });
    let begin = log_bytes(&opened.disk).1.len();
    put(&opened.queue, "a");
    put(&opened.queue, "b");
    end(&opened.queue, 2);
    opened.queue.replay(&RetainedFilter { rows: RowId(2)..RowId(3), ..RetainedFilter::all() }).unwrap();
    let states = states_of_cuts(&opened.disk, begin, |found| (found.waiting, found.kept));
    assert_eq!(states, [(0, 0), (1, 0), (2, 0), (0, 2), (1, 1)]);
}
