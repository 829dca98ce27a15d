//! A queue that leaves doubles out is stopped at every sync, and what was not synced is dropped, kept, torn
//! or scattered. A row that came is there, one that was left out is not, and a key that came leaves others
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use queue::{Dedupe, Definition, Error, Order, Queue, Sync};

use crate::support::{
    WHOLE, all, ordered, pass_ms, poll, session, set_wall, stopped_at_each_sync, texts, wall, whole_row, xid,
};

const FOR_MS: u64 = 10_000;

/// What clients know when the queue stops. A text is the key and which of its rows it is.
#[derive(Default)]
struct Expected {
    there: BTreeSet<String>,
    /// Rows that are being added or ended, or that are doubles if another one of these is there.
    unsure: BTreeSet<String>,
    /// When a row with a key came for the last time.
    came: BTreeMap<i64, u64>,
}

fn key_of(text: &str) -> i64 {
    text.split_once(' ').unwrap().0.parse().unwrap()
}

fn row(text: &str) -> Vec<u8> {
    whole_row(Some(key_of(text)), None, text)
}

impl Expected {
    /// Rows are added by `add`. Those with a key that is expected are left out, and no others.
    fn adds(
        &mut self,
        texts: &[String],
        (for_ms, has_statement_rows): (u64, bool),
        add: impl FnOnce(&[&[u8]]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let expected = |text: &&String| {
            let waits = self.there.iter().any(|there| key_of(there) == key_of(text));
            let recent = self.came.get(&key_of(text)).is_some_and(|came| wall() - came < FOR_MS);
            if for_ms == 0 { waits } else { recent }
        };
        let new: Vec<String> = texts.iter().filter(|text| !expected(text)).cloned().collect();
        // After a crash within a statement that may still fail its rows may be there, doubles too.
        let may_be: &[String] = if has_statement_rows { texts } else { &new };
        self.unsure = may_be.iter().cloned().collect();
        let bytes: Vec<Vec<u8>> = texts.iter().map(|text| row(text)).collect();
        add(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        self.unsure.clear();
        for text in new {
            self.came.insert(key_of(&text), wall());
            self.there.insert(text);
        }
        Ok(())
    }
}

fn run(queue: &Arc<Queue>, expected: &mut Expected, for_ms: u64) -> Result<(), Error> {
    for round in 0..8u64 {
        let names: Vec<String> = (0..3).map(|nth| format!("{} {round}", (round + nth * 3) % 7)).collect();
        match round % 4 {
            0 | 1 => expected.adds(&names, (for_ms, false), |rows| queue.publish_once(rows).map(drop))?,
            2 => expected.adds(&names, (for_ms, false), |rows| {
                let mut transaction = session(1).begin(queue)?;
                transaction.publish(rows)?;
                let prepared = transaction.prepare(&xid(round))?;
                queue.maintain()?;
                prepared.commit()
            })?,
            _ => expected.adds(&names, (for_ms, true), |rows| {
                let mut adder = session(1);
                adder.publish_in_statement(queue, rows)?;
                adder.end_statement(true)?;
                queue.sync()
            })?,
        }
        let mut taker = session(2);
        taker.wait(&[all(queue)], &mut poll(1))?;
        let ended = texts(&taker, queue);
        expected.there.retain(|text| !ended.contains(text));
        expected.unsure.extend(ended);
        taker.end()?;
        expected.unsure.clear();
        pass_ms(2000);
        if round % 3 == 2 { queue.compact()? } else { queue.maintain()? }
    }
    Ok(())
}

fn compare(queue: &Arc<Queue>, expected: &Expected, for_ms: u64) -> Result<(), Error> {
    for xid in queue.recover() {
        queue.commit_by_xid(&xid)?;
    }
    let there: BTreeSet<String> = texts(&session(3), queue).into_iter().collect();
    assert!(expected.there.is_subset(&there), "lost: {:?}", expected.there.difference(&there));
    let all: BTreeSet<String> = expected.there.union(&expected.unsure).cloned().collect();
    assert!(there.is_subset(&all), "back: {:?}", there.difference(&all));
    for key in 0..7 {
        let text = format!("{key} after");
        let unsure = expected.unsure.iter().any(|text| key_of(text) == key);
        let expected = match for_ms {
            0 => there.iter().any(|text| key_of(text) == key),
            _ => expected.came.get(&key).is_some_and(|came| wall() - came < FOR_MS),
        };
        let left_out = queue.publish_once(&[&row(&text)])? == 1;
        assert!(left_out == expected || unsure && for_ms > 0, "{key} is left out: {left_out}");
    }
    Ok(())
}

#[test]
fn keys_that_came_leave_others_out_over_crashes() {
    for for_ms in [FOR_MS, 0] {
        println!("for {for_ms} ms");
        let definition = ordered(Sync::Always, WHOLE, Order::default());
        let dedupe = Some(Dedupe { column: 0, for_ms });
        let definition = Definition { transactional: true, dedupe, ..definition };
        let run = |queue: &Arc<Queue>, expected: &mut Expected| {
            set_wall(1_700_000_000_000);
            run(queue, expected, for_ms)
        };
        let compare = |queue: &Arc<Queue>, expected: &Expected| compare(queue, expected, for_ms);
        assert!(stopped_at_each_sync(&definition, run, compare).unsure.is_empty());
    }
}
