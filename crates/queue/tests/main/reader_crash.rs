//! A queue with readers is stopped at every sync, and what was not synced is dropped, kept, torn or
//! scattered. A reader is not given a row again that it has ended, and loses none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use queue::{Error, Queue, RetainedFilter, RowId, Sync};

use crate::support::{
    TestQueue, for_reader, log_bytes, pass_ms, poll, put, read, read_by, rows, session, set_wall,
    states_of_cuts, stopped_at_each_sync, xid,
};

const NAMES: [&str; 2] = ["a", "b"];

/// What clients know when the queue stops: for each reader, the rows before it.
#[derive(Default)]
struct Expected {
    before: BTreeMap<usize, BTreeSet<String>>,
    /// Rows of which that is not expected.
    unsure: BTreeMap<usize, BTreeSet<String>>,
}

fn run(queue: &Arc<Queue>, expected: &mut Expected) -> Result<(), Error> {
    for round in 0..6u64 {
        let new: BTreeSet<String> = (0..4).map(|nth| format!("{:020}", round * 10 + nth)).collect();
        let bytes: Vec<&[u8]> = new.iter().map(String::as_bytes).collect();
        (0..2).for_each(|reader| expected.unsure.entry(reader).or_default().extend(new.clone()));
        if round % 2 == 0 {
            queue.publish(&bytes, None)?;
        } else {
            let mut transaction = session(1).begin(queue)?;
            transaction.publish(&bytes)?;
            transaction.prepare(&xid(round))?.commit()?;
        }
        for reader in 0..2 {
            expected.unsure.entry(reader).or_default().clear();
            expected.before.entry(reader).or_default().extend(new.clone());
        }
        for (reader, rows_max) in [(0, 4), (1, 3)] {
            let mut taker = session(2);
            taker.wait(&[for_reader(queue, NAMES[reader])], &mut poll(rows_max))?;
            for row in rows(&taker, queue) {
                expected.before.entry(reader).or_default().remove(&row);
                expected.unsure.entry(reader).or_default().insert(row);
            }
            taker.end()?;
            expected.unsure.entry(reader).or_default().clear();
        }
        if round == 4 {
            let rows = RowId(6)..RowId(12);
            let again: BTreeSet<String> = [11, 12, 13, 20, 21, 22].map(|row| format!("{row:020}")).into();
            expected.unsure.entry(0).or_default().extend(again.clone());
            queue.replay_to(Some(0), &RetainedFilter { rows, ..RetainedFilter::all() })?;
            expected.unsure.entry(0).or_default().clear();
            expected.before.entry(0).or_default().extend(again);
        }
        pass_ms(2000);
        if round % 3 == 2 { queue.compact()? } else { queue.maintain()? }
    }
    Ok(())
}

fn compare(queue: &Arc<Queue>, expected: &Expected) -> Result<(), Error> {
    for xid in queue.recover() {
        queue.rollback_by_xid(&xid)?;
    }
    let lags: Vec<u64> = queue.readers()?.iter().map(|reader| reader.waiting).collect();
    for (reader, lag) in lags.into_iter().enumerate() {
        let given: BTreeSet<String> = read(&mut session(3), queue, NAMES[reader], 1000).into_iter().collect();
        assert_eq!(given.len() as u64, lag);
        let none = BTreeSet::new();
        let (before, unsure) =
            (expected.before.get(&reader).unwrap_or(&none), expected.unsure.get(&reader).unwrap_or(&none));
        assert!(before.is_subset(&given), "{reader} lost {:?}", before.difference(&given));
        let more: BTreeSet<String> = given.difference(before).cloned().collect();
        assert!(more.is_subset(unsure), "{reader} is given {more:?} again");
    }
    Ok(())
}

#[test]
fn each_reader_goes_on_where_it_was_over_crashes() {
    let run = |queue: &Arc<Queue>, expected: &mut Expected| {
        set_wall(1_700_000_000_000);
        run(queue, expected)
    };
    let whole = stopped_at_each_sync(&read_by(Sync::Always, &NAMES), run, compare);
    assert!(whole.before.values().all(|rows| !rows.is_empty()));
}

/// The log ends after each of its bytes: then a prefix of what was done is there.
#[test]
fn a_log_that_is_cut_at_any_byte_has_what_came_before() {
    set_wall(1_700_000_000_000);
    let opened = TestQueue::new(&read_by(Sync::Always, &NAMES));
    let begin = log_bytes(&opened.disk).1.len();
    put(&opened.queue, "row");
    for name in NAMES {
        let mut taker = session(1);
        assert_eq!(read(&mut taker, &opened.queue, name, 1), ["row"]);
        taker.end().unwrap();
    }
    opened.queue.replay_to(Some(1), &RetainedFilter::all()).unwrap();
    let states = states_of_cuts(&opened.disk, begin, |found| (found.waiting, found.kept));
    assert_eq!(states, [(0, 0), (1, 0), (0, 1), (1, 0)]);
}
