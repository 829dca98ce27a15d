//! When rows came, in little memory: rows that came within a step share an entry, and the step grows with the
//! age of the oldest row. So ages are exact to about a thousandth of that one's.

use std::collections::{BTreeMap, VecDeque};

use crate::format::record::RowId;

/// How many entries there are at most.
const ENTRIES_MAX: usize = 4096;

/// After how many steps to look whether the step may be shorter.
const STEPS: u64 = 64;

/// When the rows that came since some row came.
#[derive(Debug)]
pub(crate) struct ArrivalTimes {
    /// Of rows before this one it is not known.
    first: RowId,
    /// When rows came, milliseconds since 1970, with the id after the last of them, in order.
    entries: VecDeque<(RowId, u64)>,
    /// Rows that come within so many milliseconds share an entry.
    step_ms: u64,
    /// When to look whether the step may be shorter again.
    look_ms: u64,
    /// Rows that wait since another time than they came.
    late: BTreeMap<RowId, u64>,
}

impl ArrivalTimes {
    /// Of rows that come from `first` on.
    pub(crate) fn from(first: RowId) -> ArrivalTimes {
        ArrivalTimes { first, entries: VecDeque::new(), step_ms: 1, look_ms: 0, late: BTreeMap::new() }
    }

    /// Notes that all rows before `end` that were not there yet come now.
    pub(crate) fn note(&mut self, end: RowId, now_ms: u64) {
        match self.entries.back_mut() {
            Some(last) if last.1 / self.step_ms == now_ms / self.step_ms => *last = (end, now_ms),
            _ => self.entries.push_back((end, now_ms)),
        }
    }

    /// Notes that a row that nobody could have before waits since now.
    pub(crate) fn note_late(&mut self, row: RowId, now_ms: u64) {
        self.late.insert(row, now_ms);
    }

    /// Forgets a row that is gone.
    pub(crate) fn forget(&mut self, row: RowId) {
        self.late.remove(&row);
    }

    /// Whether it is time for [`ArrivalTimes::fit`].
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.entries.len() >= ENTRIES_MAX || self.step_ms > 1 && now_ms >= self.look_ms
    }

    /// Forgets rows before the oldest one, and makes the step as short as the number of entries allows.
    pub(crate) fn fit(&mut self, oldest: RowId, now_ms: u64) {
        self.entries.retain(|(end, _)| *end > oldest);
        self.step_ms = 1;
        while self.entries.len() > ENTRIES_MAX / 2 {
            self.step_ms *= 2;
            let entries = std::mem::take(&mut self.entries);
            entries.into_iter().for_each(|(end, time_ms)| self.note(end, time_ms));
        }
        self.look_ms = now_ms.saturating_add(self.step_ms * STEPS);
    }

    /// Since when a row waits; `None` when that is not known.
    pub(crate) fn of(&self, row: RowId) -> Option<u64> {
        if let Some(late) = self.late.get(&row) {
            return Some(*late);
        }
        let at = self.entries.partition_point(|(end, _)| *end <= row);
        self.entries.get(at).filter(|_| row >= self.first).map(|(_, time)| *time)
    }

    /// Since when these rows wait: each time with how many of them that follow each other. Those of which it
    /// is not known are left out.
    pub(crate) fn times(&self, rows: &[RowId]) -> impl Iterator<Item = (u64, u64)> {
        let mut rest = rows;
        let runs = std::iter::from_fn(move || {
            let (first, time_ms) = (*rest.first()?, self.of(*rest.first()?));
            let at = self.entries.partition_point(|(end, _)| *end <= first);
            let end = self.entries.get(at).filter(|_| self.late.is_empty() && first >= self.first);
            let same = first..end.map_or(first, |(end, _)| *end);
            let count = rest.iter().take_while(|row| same.contains(row)).count().max(1);
            rest = &rest[count..];
            Some((time_ms, count as u64))
        });
        runs.filter_map(|(time_ms, count)| Some((time_ms?, count)))
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn memory(&self) -> usize {
        (self.entries.capacity() + self.late.len()) * size_of::<(RowId, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrivalTimes, ENTRIES_MAX, STEPS};
    use crate::format::record::RowId;

    #[test]
    fn ages_stay_about_right_in_bounded_memory() {
        let mut arrivals = ArrivalTimes::from(RowId(5));
        arrivals.note(RowId(8), 1000);
        arrivals.note(RowId(9), 1000);
        arrivals.note(RowId(11), 1001);
        let times: Vec<Option<u64>> = (4..12).map(|row| arrivals.of(RowId(row))).collect();
        let [old, new] = [1000, 1001].map(Some);
        assert_eq!(times, [None, old, old, old, old, new, new, None]);
        arrivals.note_late(RowId(6), 5000);
        assert_eq!((arrivals.of(RowId(6)), arrivals.of(RowId(7))), (Some(5000), old));
        let rows: Vec<RowId> = [4, 5, 6, 7, 9, 10, 11, 8].map(RowId).into();
        let times = |arrivals: &ArrivalTimes| arrivals.times(&rows).collect::<Vec<_>>();
        let one = |time| (time, 1);
        assert_eq!(times(&arrivals), [1000, 5000, 1000, 1001, 1001, 1000].map(one), "each for itself");
        arrivals.forget(RowId(6));
        assert_eq!(arrivals.of(RowId(6)), old);
        assert_eq!(times(&arrivals), [(1000, 3), (1001, 2), (1000, 1)]);

        let (mut arrivals, rows) = (ArrivalTimes::from(RowId(0)), 3_000_000_u64);
        let note = |arrivals: &mut ArrivalTimes, row: u64, oldest: u64| {
            arrivals.note(RowId(row + 1), row);
            if arrivals.is_due(row) {
                arrivals.fit(RowId(oldest), row);
            }
            assert!(arrivals.entries.len() < ENTRIES_MAX);
        };
        (0..rows).for_each(|row| note(&mut arrivals, row, 0));
        for row in (0..rows).step_by(997) {
            let off = arrivals.of(RowId(row)).unwrap().abs_diff(row);
            assert!(off * 1000 <= rows, "row {row} is off by {off} ms");
        }
        // When old rows are gone, those that come are exact again.
        let end = rows + 2 * STEPS * arrivals.step_ms;
        (rows..end).for_each(|row| note(&mut arrivals, row, row - 100));
        assert!((end - 100..end).all(|row| arrivals.of(RowId(row)) == Some(row)));
    }
}
