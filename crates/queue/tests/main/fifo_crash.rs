//! A queue with keys is stopped at every sync, and what was not synced is dropped, kept, torn or scattered.
//! Of each key the rows that were not ended are there, and are given in order and one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use queue::{Definition, Error, Order, Queue, Sync};

use crate::support::{
    WHOLE, all, ordered, pass_ms, poll, session, stopped_at_each_sync, texts, whole_row, xid,
};

/// What clients know of the rows when the queue stops. A text is the key and the number of the row.
#[derive(Default)]
struct Expected {
    there: BTreeSet<String>,
    /// Rows that are being published or ended.
    unsure: BTreeSet<String>,
}

fn key_of(text: &str) -> &str {
    text.split_once(' ').unwrap().0
}

fn run(queue: &Arc<Queue>, expected: &mut Expected) -> Result<(), Error> {
    for round in 0..6u64 {
        let texts_of = |number: u64| format!("{} {:03}", number % 3, round * 4 + number);
        let new: Vec<String> = (0..4).map(texts_of).collect();
        let row = |text: &String| whole_row(key_of(text).parse().ok(), None, text);
        let bytes: Vec<Vec<u8>> = new.iter().map(row).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        expected.unsure.extend(new.clone());
        let (mut taker, second) = (session(2), Duration::from_secs(1));
        if round % 2 == 0 {
            queue.publish(&bytes, None)?;
        } else {
            // It ends a row that is in flight, and a lease holds another key.
            let mut transaction = taker.begin(queue)?;
            transaction.publish(&bytes)?;
            taker.wait(&[all(queue)], &mut poll(1))?;
            let ended = texts(&taker, queue);
            expected.there.retain(|text| !ended.contains(text));
            expected.unsure.extend(ended);
            taker.end_within(&mut transaction);
            session(4).lease(&[all(queue)], &mut poll(1), second)?;
            let prepared = transaction.prepare(&xid(round))?;
            queue.maintain()?;
            prepared.commit()?;
        }
        expected.unsure.clear();
        expected.there.extend(new);
        taker.wait(&[all(queue)], &mut poll(2))?;
        let ended = texts(&taker, queue);
        expected.there.retain(|text| !ended.contains(text));
        expected.unsure.extend(ended);
        taker.end()?;
        expected.unsure.clear();
        pass_ms(1000);
        queue.end_due()?;
        if round % 3 == 2 { queue.compact()? } else { queue.maintain()? }
    }
    Ok(())
}

fn compare(queue: &Arc<Queue>, expected: &Expected) -> Result<(), Error> {
    pass_ms(1000);
    queue.end_due()?;
    for xid in queue.recover() {
        queue.commit_by_xid(&xid)?;
    }
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut given = BTreeSet::new();
    let (mut taker, mut other) = (session(3), session(5));
    loop {
        taker.wait(&[all(queue)], &mut poll(100))?;
        let taken = texts(&taker, queue);
        if taken.is_empty() {
            break;
        }
        let keys: BTreeSet<&str> = taken.iter().map(|text| key_of(text)).collect();
        assert_eq!(keys.len(), taken.len(), "two of a key: {taken:?}");
        other.wait(&[all(queue)], &mut poll(100))?;
        assert!(texts(&other, queue).is_empty(), "a second one of a key");
        for text in taken {
            let before = last.insert(key_of(&text).to_owned(), text.clone());
            assert!(before.is_none_or(|before| before < text), "{text} is out of order");
            assert!(expected.there.contains(&text) || expected.unsure.contains(&text), "{text} is back");
            given.insert(text);
        }
    }
    assert!(expected.there.is_subset(&given), "lost: {:?}", expected.there.difference(&given));
    Ok(())
}

#[test]
fn keys_keep_their_order_over_crashes() {
    let definition = ordered(Sync::Always, WHOLE, Order { fifo: Some(0), ..Order::default() });
    let definition = Definition { transactional: true, ..definition };
    assert!(stopped_at_each_sync(&definition, run, compare).unsure.is_empty());
}
