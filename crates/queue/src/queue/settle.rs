//! What was deferred: writing acknowledgements, syncing, closing unused files.

use crate::format::record::RowId;
use crate::index::Doing;
use crate::queue::Queue;
use crate::queue::commit::fail_if_lost;
use crate::queue::state::State;
use crate::store::files::Readable;
use crate::store::log::Log;
use crate::sync::try_lock;
use crate::{Error, Sync};

impl Queue {
    /// After the interval, writes what is not written yet, and syncs it if the definition says so.
    pub(crate) fn settle_later(&self, state: &mut State) {
        if !state.unsettled {
            state.unsettled = true;
            self.shared.schedule_settling(self);
        }
    }

    /// Writes the acknowledgements that are not written yet.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let state = self.lock();
        state.usable()?;
        if state.gather.bytes.is_empty() { Ok(()) } else { self.commit(state) }
    }

    /// Does what [`Queue::settle_later`] deferred.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        self.lock().unsettled = false;
        let settled = if self.definition.sync == Sync::Interval { self.sync() } else { self.flush() };
        if settled.is_err() {
            let mut state = self.lock();
            if state.usable().is_ok() {
                // What could not be written now may be written later.
                self.settle_later(&mut state);
            }
        }
        settled
    }

    /// Writes and syncs what was deferred, for queues that do not sync with every batch.
    ///
    /// # Errors
    /// [`Error::Disk`]; after a failed sync the queue is out of service.
    pub fn sync(&self) -> Result<(), Error> {
        loop {
            let mut state = self.lock();
            state.unsettled = false;
            let given_up = state.given_up;
            drop(state);
            self.flush()?;
            let mut state = self.take_turn(self.lock());
            let synced = match state.usable() {
                Err(error) => Err(error),
                Ok(()) => {
                    let mut log = state.log.take();
                    drop(state);
                    let synced = log.as_mut().map_or(Ok(()), Log::sync);
                    state = self.lock();
                    state.log = log;
                    synced
                }
            };
            if let Err(error) = &synced {
                fail_if_lost(&mut state, error);
            }
            // What somebody else was about to write may be gathered again.
            let is_done = state.given_up == given_up;
            self.give_turn(&mut state);
            if is_done || synced.is_err() {
                return synced;
            }
        }
    }

    /// Closes the files when the queue was not used since the last call.
    pub(crate) fn rest_if_idle(&self) -> Result<(), Error> {
        let mut state = self.lock();
        if std::mem::take(&mut state.used) {
            self.shared.schedule_rest(self);
            return Ok(());
        }
        state.watched = false;
        drop(state);
        self.rest()
    }

    /// Closes the files until the next use, after making everything durable.
    pub(crate) fn rest(&self) -> Result<(), Error> {
        let flushed = self.flush();
        let mut state = self.take_turn(self.lock());
        let closed = close_files(&mut state);
        self.give_turn(&mut state);
        flushed.and(closed)
    }

    /// Has a row wait although it is due later. If an owner gives it back, it is due as before.
    pub(crate) fn hasten(&self, state: &mut State, id: RowId) -> Result<(), Error> {
        if let Some(rank) = self.rank.as_ref().filter(|_| state.index.later() > 0)
            && state.index.doing(id)? == Doing::Later
            && let Some(place) = state.index.locate(id)?
        {
            let due_ms = rank.due_after(0, &place.read(id)?);
            state.arrive(id)?;
            state.later.keep(id, due_ms);
        }
        Ok(())
    }

    /// Whether a file is open for writing while nobody uses the queue.
    pub(crate) fn can_rest(&self) -> bool {
        try_lock(&self.state).is_some_and(|state| is_free(&state))
    }

    /// Does [`Queue::rest`] if [`Queue::can_rest`]. It waits for nobody, because its caller may hold this
    /// queue's lock, or something that the lock's holder waits for.
    pub(crate) fn rest_if_free(&self) {
        let Some(mut state) = try_lock(&self.state) else { return };
        if is_free(&state) {
            // If a file can't be closed, the next use returns the error.
            close_files(&mut state).ok();
        }
    }
}

fn is_free(state: &State) -> bool {
    let busy = state.writing || state.led || !state.gather.bytes.is_empty();
    !busy && state.log.as_ref().is_some_and(Log::is_open)
}

/// Closes the files while nobody writes.
fn close_files(state: &mut State) -> Result<(), Error> {
    let usable = state.usable();
    let closed = usable.and_then(|()| state.log.as_mut().map_or(Ok(()), Log::rest));
    state.index.segments().for_each(|segment| segment.file().close());
    closed.inspect_err(|error| fail_if_lost(state, error))
}
