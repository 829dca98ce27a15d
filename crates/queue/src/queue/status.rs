//! What is in a queue, and what happened in it.

use std::sync::atomic::Ordering;

use crate::format::record::RowId;
use crate::index::Segment;
use crate::queue::Queue;
use crate::queue::owner::Ownership;
use crate::queue::rate_limit::RateLimit;
use crate::queue::readers::ReaderStatus;
use crate::queue::state::State;
use crate::store::log::Log;
use crate::{Counters, Error, Status};

impl Queue {
    /// What happened since it was opened.
    pub(crate) fn counters(&self) -> Counters {
        self.folder.calls.counted(self.lock().counters)
    }

    /// What is in the queue, and what happened since it was opened.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut state = self.lock();
        let active = state.log.as_ref().map_or(0, Log::end);
        let sealed = state.index.segments().filter_map(Segment::stored).map(|stored| stored.file_len);
        let bytes = active + sealed.sum::<u64>();
        let live_bytes =
            state.index.segments().map(|segment| segment.live_bytes() - segment.kept_bytes()).sum();
        let kept_bytes = state.index.segments().map(Segment::kept_bytes).sum();
        let scheduled = state.index.scheduled();
        let owned = state.index.owned() + scheduled;
        let now_ms = self.shared.now_ms();
        Status {
            waiting: state.index.live() - owned,
            owned,
            leased: state.leases.leased(),
            delayed: state.leases.delayed() + scheduled,
            dead: state.leases.dead().len() as u64,
            behind: state.index.behind(),
            keys_busy: state.index.keys_busy(),
            keys_paused: state.index.keys_paused(),
            transactions: self.transactions.load(Ordering::Relaxed),
            prepared: state.transactions.open.len() as u64,
            in_doubt: state.in_doubt.values().sum(),
            kept: state.index.kept(),
            kept_bytes,
            oldest_ms: state.index.oldest_ms(),
            bytes,
            live_bytes,
            memory: (state.index.memory()
                + state.leases.memory()
                + state.arrivals.memory()
                + state.scheduled.memory()
                + state.dedupe.window.memory()
                + state.readers.memory()
                + state.rate_limit.as_ref().map_or(0, RateLimit::memory)) as u64,
            waiters: state.waiters.len() as u64,
            paused: u64::from(state.is_paused),
            written_per_s: state.written.per_second(now_ms),
            removed_per_s: state.removed.per_second(now_ms),
            counters: self.folder.calls.counted(state.counters),
        }
    }

    /// What each reader has before it, in the order of the definition.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read.
    pub fn readers(&self) -> Result<Vec<ReaderStatus>, Error> {
        let state = &mut *self.lock();
        state.readers.status(&self.definition.readers, &mut state.index, state.arrived)
    }

    /// The rows that readers were given and have not ended, with their readers' names.
    #[must_use]
    pub fn owned_by_readers(&self) -> Vec<(String, RowId, Ownership)> {
        self.lock().readers.owned_rows(&self.definition.readers)
    }

    /// Whether the row of this name waits, is due later, or somebody has it. A row without tries left does
    /// not count, and no row does after the queue was truncated or replaced by a copy: no other row ever has
    /// its name.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn has_row(&self, name: &str) -> Result<bool, Error> {
        let mut state = self.lock();
        state.usable()?;
        let Some((of, id)) = name.split_once(':') else { return Ok(false) };
        let Ok(id) = id.parse().map(RowId) else { return Ok(false) };
        let is_live = of == incarnation_of(&state) && state.index.row_state(id)?.is_live();
        Ok(is_live && !state.leases.dead().contains(&id))
    }

    /// The name of the first row that a prepared transaction adds.
    pub(crate) fn name_of_added(&self, tx: u64) -> Option<String> {
        let state = self.lock();
        let (first, count) = state.transactions.open.get(&tx)?.rows;
        (count > 0).then(|| format!("{}:{first}", incarnation_of(&state)))
    }
}

fn incarnation_of(state: &State) -> String {
    state.incarnation.iter().map(|byte| format!("{byte:02x}")).collect()
}
