//! Deferred work: writing acknowledgements, syncing, closing idle files.

use crate::format::record::RowId;
use crate::index::RowState;
use crate::queue::commit::fail_if_lost;
use crate::queue::state::State;
use crate::queue::{DEFERRED_BYTES_MAX, Queue};
use crate::store::files::Readable;
use crate::store::log::Log;
use crate::sync::{MutexGuard, try_lock};
use crate::{Error, Sync};

impl Queue {
    /// Schedules a write of pending records after the interval, and a sync if the definition says so.
    pub(crate) fn schedule_flush(&self, state: &mut State) {
        if !state.flush_scheduled {
            state.flush_scheduled = true;
            self.shared.schedule_flush(self);
        }
    }

    /// Sees to it that what is in effect already is written: now if it is much, else later.
    pub(crate) fn write_deferred(&self, mut state: MutexGuard<'_, State>) -> Result<(), Error> {
        if state.next_batch.bytes.len() >= DEFERRED_BYTES_MAX && !state.has_leader {
            return self.commit(state);
        }
        self.schedule_flush(&mut state);
        Ok(())
    }

    /// Like [`Queue::write_deferred`]; if it can't be written now, it is written with a later batch.
    pub(crate) fn write_leases(&self, state: MutexGuard<'_, State>) -> Result<(), Error> {
        match self.write_deferred(state) {
            Err(Error::Disk { .. }) => Ok(()),
            other => other,
        }
    }

    /// Writes pending acknowledgements.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let state = self.lock();
        state.usable()?;
        if state.next_batch.bytes.is_empty() { Ok(()) } else { self.commit(state) }
    }

    /// Does what [`Queue::schedule_flush`] has scheduled.
    pub(crate) fn flush_deferred(&self) -> Result<(), Error> {
        self.lock().flush_scheduled = false;
        let settled = if self.definition.sync == Sync::Interval { self.sync() } else { self.flush() };
        if settled.is_err() {
            let mut state = self.lock();
            if state.usable().is_ok() {
                // What could not be written now may be written later.
                self.schedule_flush(&mut state);
            }
        }
        settled
    }

    /// Writes and syncs everything pending, for queues that do not sync every batch.
    ///
    /// # Errors
    /// [`Error::Disk`]; after a failed sync the queue is out of service.
    pub fn sync(&self) -> Result<(), Error> {
        loop {
            let mut state = self.lock();
            state.flush_scheduled = false;
            let abandoned_batches = state.abandoned_batches;
            drop(state);
            self.flush()?;
            let mut state = self.acquire_write_lock(self.lock());
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
            let is_done = state.abandoned_batches == abandoned_batches;
            self.release_write_lock(&mut state);
            if is_done || synced.is_err() {
                return synced;
            }
        }
    }

    /// Closes the files if the queue was not used since the last call.
    pub(crate) fn close_if_idle(&self) -> Result<(), Error> {
        let mut state = self.lock();
        if std::mem::take(&mut state.used) {
            self.shared.schedule_idle_check(self);
            return Ok(());
        }
        state.watched = false;
        drop(state);
        self.close()
    }

    /// Closes the files until the next use, after making everything durable.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let flushed = self.flush();
        let mut state = self.acquire_write_lock(self.lock());
        let closed = close_files(&mut state);
        self.release_write_lock(&mut state);
        flushed.and(closed)
    }

    /// Makes a scheduled row available now. If an owner returns it, it is due as before.
    pub(crate) fn make_available(&self, state: &mut State, id: RowId) -> Result<(), Error> {
        if let Some(attribute_reader) = self.attribute_reader.as_ref().filter(|_| state.index.scheduled() > 0)
            && state.index.row_state(id)? == RowState::Scheduled
            && let Some(location) = state.index.locate(id)?
        {
            let due_ms = attribute_reader.due_after(0, &location.read(id)?);
            state.make_due(id)?;
            state.scheduled.keep(id, due_ms);
        }
        Ok(())
    }

    /// Whether a file is open for writing while nobody uses the queue.
    pub(crate) fn can_close(&self) -> bool {
        try_lock(&self.state).is_some_and(|state| is_free(&state))
    }

    /// Does [`Queue::close`] if [`Queue::can_close`]. It waits for nobody, because its caller may hold this
    /// queue's lock, or something that the lock's holder waits for.
    pub(crate) fn try_close(&self) {
        let Some(mut state) = try_lock(&self.state) else { return };
        if is_free(&state) {
            // If a file can't be closed, the next use returns the error.
            close_files(&mut state).ok();
        }
    }
}

fn is_free(state: &State) -> bool {
    let busy = state.writing || state.has_leader || !state.next_batch.bytes.is_empty();
    !busy && state.log.as_ref().is_some_and(Log::is_open)
}

/// Closes the files while nobody writes.
fn close_files(state: &mut State) -> Result<(), Error> {
    let usable = state.usable();
    let closed = usable.and_then(|()| state.log.as_mut().map_or(Ok(()), Log::close));
    state.index.segments().for_each(|segment| segment.file().close());
    closed.inspect_err(|error| fail_if_lost(state, error))
}
