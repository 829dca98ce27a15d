//! Acknowledged rows that are kept: which they are, and when they were acknowledged.
//!
//! A kept row stays in the list of its segment. A sealed segment of which all rows are kept forgets its list
//! and reads it again when one of them is needed, so kept rows take memory only by the runs of their ids.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::{Index, RowState};
use crate::Error;
use crate::format::record::RowId;
use crate::format::retention::RetainedRun;

/// The longest time between two looks at the clock: it may be set forward.
const LOOK_MS: u64 = 60_000;

/// The kept rows.
#[derive(Debug, Default)]
pub(crate) struct RetainedRows {
    /// For how long; 0: not at all.
    keep_ms: u64,
    /// In the order of the seconds. A run may have rows that are gone or never existed.
    runs: VecDeque<RetainedRun>,
}

impl RetainedRows {
    /// No rows; those that are ended will be kept for so long.
    pub(super) fn new(keep_ms: u64) -> RetainedRows {
        RetainedRows { keep_ms, runs: VecDeque::new() }
    }

    /// Whether rows are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.keep_ms > 0
    }

    /// The runs and these that were cut out of them, in the order in which they were ended.
    pub(crate) fn runs_and(&self, cut: &[RetainedRun]) -> Vec<RetainedRun> {
        let mut runs: Vec<RetainedRun> = self.runs.iter().chain(cut).copied().collect();
        runs.sort_by_key(|run| run.ended_s);
        runs
    }

    /// The second in which a row was ended that was among the last; `None` for a row that is in no run.
    pub(crate) fn ended_s(&self, id: RowId) -> Option<u64> {
        let run = self.runs.iter().rev().find(|run| run.first <= id.0 && id.0 < run.end())?;
        Some(run.ended_s)
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<RetainedRun>()
    }

    /// Adds a row that was ended. When the clock was set back, it is kept as long as those before it.
    fn add(&mut self, id: RowId, now_ms: u64) {
        let last = self.runs.back_mut();
        let ended_s = now_ms.div_ceil(1000).max(last.as_ref().map_or(0, |last| last.ended_s));
        match last.filter(|last| last.end() == id.0 && last.ended_s == ended_s) {
            Some(last) => last.count += 1,
            None => self.runs.push_back(RetainedRun { first: id.0, count: 1, ended_s }),
        }
    }

    /// Adds runs of a file or of another queue, and of rows that could not be given again.
    fn adopt(&mut self, runs: impl IntoIterator<Item = RetainedRun>) {
        self.runs.extend(runs);
        self.runs.make_contiguous().sort_by_key(|run| run.ended_s);
    }

    /// After how many milliseconds to look whether the time of a row is over.
    pub(crate) fn look_after(&self, now_ms: impl Fn() -> u64) -> Option<u64> {
        let first = self.runs.front()?;
        let over_ms = (first.ended_s * 1000).saturating_add(self.keep_ms);
        Some(over_ms.saturating_sub(now_ms()).min(LOOK_MS))
    }

    /// Takes a run whose time is over.
    fn take_over(&mut self, now_ms: u64) -> Option<RetainedRun> {
        let now_s = now_ms.div_ceil(1000);
        if self.runs.back().is_some_and(|last| last.ended_s > now_s) {
            // The clock was set back: they have been kept for a while already, and nobody knows how long.
            self.runs.iter_mut().for_each(|run| run.ended_s = run.ended_s.min(now_s));
        }
        let over = |run: &RetainedRun| (run.ended_s * 1000).saturating_add(self.keep_ms) <= now_ms;
        self.runs.front().is_some_and(over).then(|| self.runs.pop_front()).flatten()
    }

    /// Takes up to about so many rows out of the runs: those with these ids that were ended in these seconds,
    /// the first ones in the order of ids first.
    pub(crate) fn cut(
        &mut self,
        ids: &Range<u64>,
        ended_s: &RangeInclusive<u64>,
        rows_max: u64,
    ) -> Vec<RetainedRun> {
        let wanted = |run: &RetainedRun| {
            ended_s.contains(&run.ended_s) && run.end() > ids.start && run.first < ids.end
        };
        let clip = |run: RetainedRun| {
            let first = run.first.max(ids.start);
            RetainedRun { first, count: run.end().min(ids.end) - first, ..run }
        };
        let mut cut: Vec<RetainedRun> = self.runs.iter().copied().filter(wanted).map(clip).collect();
        cut.sort_by_key(|run| run.first);
        let mut room = rows_max;
        cut.retain_mut(|run| {
            run.count = run.count.min(room);
            room -= run.count;
            run.count > 0
        });
        // A row is in one run only, and so each of these is a part of one.
        let mut left = VecDeque::with_capacity(self.runs.len() + cut.len());
        for run in self.runs.drain(..) {
            let mut from = run.first;
            let start = cut.partition_point(|part| part.end() <= run.first);
            for part in cut.iter().skip(start).take_while(|part| part.first < run.end()) {
                if part.first > from {
                    left.push_back(RetainedRun { first: from, count: part.first - from, ..run });
                }
                from = part.end();
            }
            if run.end() > from {
                left.push_back(RetainedRun { first: from, count: run.end() - from, ..run });
            }
        }
        self.runs = left;
        cut
    }
}

impl Index {
    /// Ends a row: it is kept, or gone where none is kept. False when it was gone or kept already.
    pub(crate) fn end(&mut self, id: RowId, now_ms: u64) -> Result<bool, Error> {
        if !self.retained.is_on() {
            return self.remove(id);
        }
        let ended = self.set_kept(id)?;
        if ended {
            self.retained.add(id, now_ms);
        }
        Ok(ended)
    }

    /// Ends rows, like [`Index::end`]. Returns how many were there and not kept.
    pub(crate) fn end_all(&mut self, rows: &[RowId], now_ms: u64) -> Result<u64, Error> {
        if !self.retained.is_on() {
            return self.remove_all(rows);
        }
        rows.iter().try_fold(0, |ended, id| Ok(ended + u64::from(self.end(*id, now_ms)?)))
    }

    /// Ends those of `count` rows from `first` on that are there. For replaying.
    pub(crate) fn end_run(&mut self, first: RowId, count: u64, now_ms: u64) -> Result<(), Error> {
        self.rows_in((first.0, count), false)?.into_iter().try_for_each(|id| self.end(id, now_ms).map(drop))
    }

    /// Makes a row kept that is in a run already; false when it was gone or kept.
    pub(crate) fn set_kept(&mut self, id: RowId) -> Result<bool, Error> {
        let row_state = self.row_state(id)?;
        Ok(row_state.is_live() && self.change(id, row_state, RowState::Kept)?)
    }

    /// Takes over which rows are kept from a file or from another queue. Those that are not kept yet become
    /// so.
    pub(crate) fn adopt_kept(&mut self, runs: &[RetainedRun]) -> Result<(), Error> {
        for run in runs {
            for id in self.rows_in((run.first, run.count), false)? {
                self.set_kept(id)?;
            }
        }
        self.retained.adopt(runs.iter().copied());
        Ok(())
    }

    /// Takes over which rows are kept from another queue, and when they were ended.
    pub(crate) fn replace_kept(&mut self, runs: &[RetainedRun]) -> Result<(), Error> {
        self.retained.runs.clear();
        self.adopt_kept(runs)
    }

    /// Gives rows back to the runs that were cut out and are kept on.
    pub(crate) fn return_runs(&mut self, runs: &[RetainedRun]) {
        self.retained.adopt(runs.iter().copied());
    }

    /// Has those of `count` rows from `first` on wait that are kept and in no run. Returns them.
    pub(crate) fn revive_run(&mut self, first: RowId, count: u64) -> Result<Vec<RowId>, Error> {
        let mut revived = Vec::new();
        let mut from = first;
        while let Some(id) = self.next_kept(from)?.filter(|id| id.0 < first.0.saturating_add(count)) {
            self.change(id, RowState::Kept, RowState::Waiting)?;
            revived.push(id);
            from = RowId(id.0 + 1);
        }
        Ok(revived)
    }

    /// Removes kept rows whose time is over: whole runs, until these are so many rows. Whether there are
    /// more.
    pub(crate) fn trim_kept(&mut self, now_ms: u64, rows_max: u64) -> Result<bool, Error> {
        let mut removed = 0;
        while removed < rows_max {
            let Some(run) = self.retained.take_over(now_ms) else { return Ok(false) };
            removed += self.remove_kept(run)?;
        }
        Ok(true)
    }

    fn remove_kept(&mut self, run: RetainedRun) -> Result<u64, Error> {
        let before = self.kept;
        let start = self.segments.range(..=run.first).next_back().map_or(run.first, |(base, _)| *base);
        let bases: Vec<u64> = self.segments.range(start..run.end()).map(|(base, _)| *base).collect();
        for base in bases {
            let Some(segment) = self.segments.get(&base) else { continue };
            let (first, end) = (base.max(run.first), segment.end().0.min(run.end()));
            let whole = first == base && end == segment.end().0;
            if whole && segment.is_sealed() && segment.kept() == segment.live() {
                self.kept -= segment.kept();
                self.segments
                    .remove(&base)
                    .into_iter()
                    .for_each(|gone| self.emptied.push(gone.file().clone()));
                continue;
            }
            for id in (first..end).map(RowId) {
                if self.row_state(id)? == RowState::Kept {
                    self.remove(id)?;
                }
            }
        }
        Ok(before - self.kept)
    }

    /// The first row from `from` on that is kept.
    pub(crate) fn next_kept(&mut self, from: RowId) -> Result<Option<RowId>, Error> {
        self.next_in(from, |segment| segment.kept() > 0, |row_state| row_state == RowState::Kept)
    }

    /// The first row from `from` on that is not gone, kept or not.
    pub(crate) fn next_there(&mut self, from: RowId) -> Result<Option<RowId>, Error> {
        self.next_in(from, |segment| segment.live() > 0, |row_state| row_state != RowState::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::{RetainedRows, RetainedRun, RowId};

    fn run(first: u64, count: u64, ended_s: u64) -> RetainedRun {
        RetainedRun { first, count, ended_s }
    }

    #[test]
    fn rows_of_a_second_are_a_run_and_go_together() {
        let mut kept = RetainedRows::new(10_000);
        for (id, now_ms) in [(1, 5001), (2, 5900), (3, 6000), (4, 6001), (9, 6002), (5, 6003)] {
            kept.add(RowId(id), now_ms);
        }
        assert_eq!(kept.runs_and(&[]), [run(1, 3, 6), run(4, 1, 7), run(9, 1, 7), run(5, 1, 7)]);
        assert_eq!(kept.look_after(|| 7000), Some(9000));
        assert_eq!(kept.take_over(15_999), None);
        assert_eq!(kept.take_over(16_000), Some(run(1, 3, 6)));
        assert_eq!(kept.take_over(16_000), None);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_none_for_longer_than_once_more() {
        let mut kept = RetainedRows::new(10_000);
        kept.add(RowId(1), 1_000_000);
        kept.add(RowId(2), 4000);
        assert_eq!(kept.runs_and(&[]), [run(1, 2, 1000)]);
        assert_eq!(kept.take_over(5000), None);
        assert_eq!(kept.take_over(15_000), Some(run(1, 2, 5)));
    }

    #[test]
    fn what_is_cut_out_is_in_no_run() {
        let mut kept = RetainedRows::new(1);
        kept.adopt([run(10, 10, 7), run(1, 5, 6), run(30, 2, 8)]);
        let cut = kept.cut(&(3..15), &(0..=7), u64::MAX);
        assert_eq!(cut, [run(3, 3, 6), run(10, 5, 7)]);
        assert_eq!(kept.runs_and(&[]), [run(1, 2, 6), run(15, 5, 7), run(30, 2, 8)]);
        assert_eq!(kept.cut(&(0..u64::MAX), &(7..=8), 6), [run(15, 5, 7), run(30, 1, 8)]);
        assert_eq!(kept.runs_and(&cut), [run(1, 2, 6), run(3, 3, 6), run(10, 5, 7), run(31, 1, 8)]);
        kept.adopt(cut);
        assert_eq!(kept.runs_and(&[]), [run(1, 2, 6), run(3, 3, 6), run(10, 5, 7), run(31, 1, 8)]);
    }
}
