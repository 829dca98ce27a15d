//! The keys of rows that the source has changed lately. Rows of both servers can be compared while both are
//! written: what was changed in between is left out, and compared later.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use server::Position;
use transactions::names::number;

use crate::form::Key;

/// Keys of a table that are kept. If there are more, the whole table counts as changed.
const KEYS_MAX: usize = 250_000;

/// A place in the source's log that can be compared with others: the number of the file, and the offset.
pub(crate) type Place = (u64, u64);

/// The place of a position.
pub(crate) fn place(position: &Position) -> Place {
    (number(&position.file).unwrap_or_default(), position.offset)
}

/// The rows of a table that were changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// By its bytes, the key as SQL, and where the last transaction began that changed it.
    keys: BTreeMap<Vec<u8>, (String, Place)>,
    /// Any row may have been changed by transactions up to the one that began there.
    any: Option<Place>,
}

/// What was changed since a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// The rows with these keys, as SQL.
    Keys(Vec<String>),
    /// Any row.
    Any,
}

impl Keys {
    fn add(&mut self, key: &Key, at: Place) {
        if let Some((_, last)) = self.keys.get_mut(&key.bytes) {
            *last = at;
        } else if self.keys.len() < KEYS_MAX {
            self.keys.insert(key.bytes.clone(), (key.text.clone(), at));
        } else {
            self.keys.clear();
            self.any = Some(at);
        }
    }

    fn since(&self, from: Place) -> Changed {
        if self.any.is_some_and(|any| any >= from) {
            return Changed::Any;
        }
        let keys = self.keys.values().filter(|(_, last)| *last >= from);
        Changed::Keys(keys.map(|(text, _)| text.clone()).collect())
    }

    fn forget(&mut self, before: Place) {
        self.keys.retain(|_, (_, last)| *last >= before);
        self.any = self.any.filter(|any| *any >= before);
    }
}

#[derive(Default)]
struct State {
    /// By the name of the table on the target.
    tables: BTreeMap<String, Keys>,
    /// Up to there all changes are in `tables`.
    received: Place,
    /// Up to there all changes are on the target.
    applied: Place,
    /// Where the last transaction began that may have changed rows through foreign keys without a trace in
    /// the log.
    cascaded: Place,
}

/// What was changed lately. One follows the log and adds to it, another one compares rows.
#[derive(Default)]
pub(crate) struct Touched {
    state: Mutex<State>,
    moved: Condvar,
}

impl Touched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction that began there changes these rows.
    pub(crate) fn add(&self, table: &str, keys: &[&Key], at: Place) {
        let mut state = self.state();
        if !state.tables.contains_key(table) {
            state.tables.insert(table.to_owned(), Keys::default());
        }
        if let Some(known) = state.tables.get_mut(table) {
            keys.iter().for_each(|key| known.add(key, at));
        }
    }

    /// A transaction that began there may change other rows through foreign keys.
    pub(crate) fn cascade(&self, at: Place) {
        self.state().cascaded = at;
    }

    /// All changes up to there are known.
    pub(crate) fn receive(&self, position: &Position) {
        let mut state = self.state();
        // Over another connection some of it comes again.
        state.received = state.received.max(place(position));
        drop(state);
        self.moved.notify_all();
    }

    /// All changes up to there are on the target.
    pub(crate) fn apply(&self, position: &Position) {
        self.state().applied = place(position);
        self.moved.notify_all();
    }

    /// Waits until all changes up to there are known; `false` if the time is over.
    pub(crate) fn wait_received(&self, upto: Place, time: Duration) -> bool {
        self.wait(|state| state.received >= upto, time)
    }

    /// Waits until all changes up to there are on the target; `false` if the time is over.
    pub(crate) fn wait_applied(&self, upto: Place, time: Duration) -> bool {
        self.wait(|state| state.applied >= upto, time)
    }

    fn wait(&self, is_there: impl Fn(&State) -> bool, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.state();
        while !is_there(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The rows of a table that transactions changed which began at a place or later.
    pub(crate) fn since(&self, table: &str, from: Place) -> Changed {
        self.state().tables.get(table).map_or_else(|| Changed::Keys(Vec::new()), |keys| keys.since(from))
    }

    /// Whether a transaction that began there or later may have changed rows that no log has.
    pub(crate) fn has_cascaded_since(&self, from: Place) -> bool {
        self.state().cascaded >= from
    }

    /// How many rows were changed since a place; `None` if nobody knows.
    pub(crate) fn count_since(&self, from: Place) -> Option<usize> {
        let count = |keys: &Keys| match keys.any {
            Some(any) if any >= from => None,
            _ => Some(keys.keys.values().filter(|(_, last)| *last >= from).count()),
        };
        self.state().tables.values().map(count).sum()
    }

    /// Forgets what was changed before a place.
    pub(crate) fn forget(&self, before: Place) {
        self.state().tables.values_mut().for_each(|keys| keys.forget(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key { bytes: number.to_le_bytes().to_vec(), text: number.to_string() }
    }

    fn keys(texts: &[&str]) -> Changed {
        Changed::Keys(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn a_row_counts_as_changed_since_its_last_change() {
        let touched = Touched::default();
        assert_eq!(touched.since("t", (0, 0)), keys(&[]));
        touched.add("t", &[&key(1), &key(2)], (1, 100));
        touched.add("t", &[&key(1)], (1, 200));
        touched.add("other", &[&key(3)], (2, 4));
        assert_eq!(touched.since("t", (1, 100)), keys(&["1", "2"]));
        assert_eq!(touched.since("t", (1, 101)), keys(&["1"]));
        assert_eq!(touched.since("t", (1, 201)), keys(&[]));
        assert_eq!(
            [(1, 100), (1, 101), (2, 4), (2, 5)].map(|at| touched.count_since(at)),
            [Some(3), Some(2), Some(1), Some(0)]
        );
        touched.forget((1, 101));
        assert_eq!(touched.since("t", (0, 0)), keys(&["1"]));
    }

    #[test]
    fn too_many_rows_are_any_row() {
        let touched = Touched::default();
        let limit = KEYS_MAX as u64;
        (0..=limit).for_each(|number| touched.add("t", &[&key(number)], (1, number)));
        assert_eq!(touched.since("t", (1, limit)), Changed::Any);
        assert_eq!(touched.count_since((1, limit)), None);
        touched.add("t", &[&key(7)], (2, 4));
        assert_eq!(touched.since("t", (1, limit + 1)), keys(&["7"]));
        touched.forget((1, limit));
        assert_eq!(touched.since("t", (1, 0)), Changed::Any);
        touched.forget((1, limit + 1));
        assert_eq!(touched.since("t", (1, 0)), keys(&["7"]));
    }

    #[test]
    fn somebody_waits_for_a_place() {
        let touched = Touched::default();
        let at = |offset| Position { file: "log.000002".to_owned(), offset, gtid: String::new() };
        touched.receive(&at(100));
        assert!(
            touched.wait_received((2, 100), Duration::ZERO)
                && !touched.wait_received((2, 101), Duration::ZERO)
        );
        assert!(!touched.wait_applied((1, 1), Duration::ZERO));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| touched.wait_applied((2, 50), Duration::from_secs(60)));
            touched.apply(&at(50));
            assert!(waiting.join().unwrap());
        });
        touched.cascade((1, 5));
        assert_eq!([(1, 5), (1, 6)].map(|at| touched.has_cascaded_since(at)), [true, false]);
    }
}
