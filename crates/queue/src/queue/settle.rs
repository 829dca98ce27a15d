//! What was put off: writing acknowledgements, syncing, closing files that nobody uses.

use crate::queue::Queue;
use crate::queue::commit::fail_if_lost;
use crate::queue::state::State;
use crate::store::files::Readable;
use crate::store::log::Log;
use crate::sync::try_lock;
use crate::{Error, Sync};

impl Queue {
    /// Has what is not written written, and synced if the definition says so, when the interval is over.
    pub(crate) fn settle_later(&self, state: &mut State) {
        if !state.unsettled {
            state.unsettled = true;
            self.shared.schedule_settling(self);
        }
    }

    /// Writes acknowledgements that were not written yet.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let state = self.lock();
        state.usable()?;
        if state.gather.bytes.is_empty() { Ok(()) } else { self.commit(state) }
    }

    /// What [`Queue::settle_later`] put off.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        self.lock().unsettled = false;
        let settled = if self.definition.sync == Sync::Interval { self.sync() } else { self.flush() };
        if settled.is_err() {
            let mut state = self.lock();
            if state.usable().is_ok() {
                // What could not be written now can be later.
                self.settle_later(&mut state);
            }
        }
        settled
    }

    /// Writes and syncs what was put off, for queues that do not sync with every batch.
    ///
    /// # Errors
    /// [`Error::Disk`]; after a sync that failed the queue is out of service.
    pub fn sync(&self) -> Result<(), Error> {
        self.lock().unsettled = false;
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
        self.give_turn(&mut state);
        synced
    }

    /// Closes the files when the queue was not used since this was last asked.
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

    /// Whether a file is open for writing and nobody uses the queue now.
    pub(crate) fn can_rest(&self) -> bool {
        try_lock(&self.state).is_some_and(|state| is_free(&state))
    }

    /// As [`Queue::rest`], if [`Queue::can_rest`]. It waits for nobody: its caller may have the lock of this
    /// queue, or what somebody waits for who has it.
    pub(crate) fn rest_if_free(&self) {
        let Some(mut state) = try_lock(&self.state) else { return };
        if is_free(&state) {
            // What can't be closed is told of by the next use.
            close_files(&mut state).ok();
        }
    }
}

fn is_free(state: &State) -> bool {
    let busy = state.writing || state.open.is_some() || !state.gather.bytes.is_empty();
    !busy && state.log.as_ref().is_some_and(Log::is_open)
}

/// Closes the files while nobody writes.
fn close_files(state: &mut State) -> Result<(), Error> {
    let usable = state.usable();
    let closed = usable.and_then(|()| state.log.as_mut().map_or(Ok(()), Log::rest));
    state.index.segments().for_each(|segment| segment.file().close());
    closed.inspect_err(|error| fail_if_lost(state, error))
}
