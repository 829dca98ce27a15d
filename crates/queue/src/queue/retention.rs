//! Acknowledged rows that are kept: they can be replayed until their retention time is over.

use std::ops::{Range, RangeInclusive};

use crate::Error;
use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::batch::{BatchBuilder, EndKind};
use crate::queue::state::State;

/// Rows per lock of the queue.
const ROWS_MAX: u64 = 1 << 16;

/// Selects kept rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedFilter {
    /// Row ids.
    pub rows: Range<RowId>,
    /// When the rows were acknowledged, both ends included, in milliseconds since 1970, exact to the
    /// second.
    pub within_ms: RangeInclusive<u64>,
}

impl RetainedFilter {
    /// All kept rows.
    #[must_use]
    pub fn all() -> RetainedFilter {
        RetainedFilter { rows: RowId(0)..RowId(u64::MAX), within_ms: 0..=u64::MAX }
    }

    fn seconds(&self) -> RangeInclusive<u64> {
        self.within_ms.start().div_ceil(1000)..=self.within_ms.end().div_ceil(1000)
    }
}

impl Queue {
    /// How rows end that must not be kept: they never were in the queue, or are in another one.
    pub(crate) fn deletion(&self) -> EndKind {
        if self.definition.is_keeping() { EndKind::Discarded } else { EndKind::Deleted }
    }

    /// Replays acknowledged rows at their former positions. Returns how many. On return that is as
    /// durable as the queue's definition says.
    ///
    /// # Errors
    /// [`Error::NotKept`]; those of [`Queue::publish`]: those before are then given again, and the others are
    /// kept on.
    pub fn replay(&self, ended: &RetainedFilter) -> Result<u64, Error> {
        self.replay_to(None, ended)
    }

    /// Like [`Queue::replay`], but only for this reader, including rows that it has acknowledged and
    /// another reader has not. When it acknowledged those is unknown, so a time range excludes them.
    ///
    /// # Errors
    /// Those of [`Queue::replay`].
    pub fn replay_to(&self, reader: Option<usize>, ended: &RetainedFilter) -> Result<u64, Error> {
        if !self.definition.is_keeping() {
            return Err(Error::NotKept);
        }
        let (mut rows, seconds) = (ended.rows.start.0..ended.rows.end.0, ended.seconds());
        let mut replayed = match reader {
            Some(reader) if ended.within_ms == (0..=u64::MAX) => self.replay_unended(reader, &ended.rows)?,
            _ => 0,
        };
        loop {
            let mut state = self.lock_with_room()?;
            if state.copy_state.is_some() {
                return Err(Error::Copied);
            }
            // In no run, so that they do not go while this is written.
            let cut = state.index.retained.cut(&rows, &seconds, ROWS_MAX);
            let Some(last) = cut.last() else { return Ok(replayed) };
            rows.start = last.end();
            let rows_cut: u64 = cut.iter().map(|run| run.count).sum();
            state.next_batch.replay(reader, cut);
            self.commit(state)?;
            replayed += rows_cut;
        }
    }

    /// Gives a reader rows again that it has ended and that are still there because another one has not, with
    /// these numbers. Returns how many.
    fn replay_unended(&self, reader: usize, rows: &Range<RowId>) -> Result<u64, Error> {
        let (mut rows, mut replayed) = (rows.start.0..rows.end.0, 0);
        loop {
            let mut state = self.lock_with_room()?;
            if state.copy_state.is_some() {
                return Err(Error::Copied);
            }
            let again = state.readers.ended_within(reader, &rows, ROWS_MAX);
            let Some((_, last)) = again.last() else { return Ok(replayed) };
            rows.start = *last;
            let count: u64 = again.iter().map(|(first, end)| end - first).sum();
            state.next_batch.reopen_for_reader(reader, &again);
            self.commit(state)?;
            replayed += count;
        }
    }

    /// Has rows wait again that a batch gives again, for all or for a reader. Returns them.
    pub(crate) fn apply_replay(&self, state: &mut State, batch: &BatchBuilder) -> Result<Vec<RowId>, Error> {
        let mut back = Vec::new();
        for (reader, run) in &batch.replayed {
            for id in state.index.revive_run(RowId(run.first), run.count)? {
                if let Some(reader) = reader {
                    state.readers.end_for_others(*reader, id);
                }
                let order_key = state.index.order_key(id)?;
                state.readers.revisit(order_key);
                back.push(id);
            }
        }
        back.extend(state.readers.reopen(&batch.reopened, &mut state.index)?);
        state.counters.replayed += back.len() as u64;
        Ok(back)
    }

    /// Removes some of the kept rows whose time is over. Whether there are more.
    pub(crate) fn trim_kept(&self, state: &mut State) -> Result<bool, Error> {
        if !state.index.retained.is_on() {
            return Ok(false);
        }
        let more = state.index.trim_kept(self.shared.now_ms(), ROWS_MAX)?;
        self.schedule_compaction(state);
        Ok(more)
    }
}
