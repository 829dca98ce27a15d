//! Pausing a queue: nobody is given a row until it is resumed, also over a restart. What was given before is
//! acknowledged, extended and returned as usual, and new rows are published.

use std::io;

use disk::Output;

use crate::Error;
use crate::format::checkpoint::PAUSED;
use crate::queue::Queue;
use crate::queue::commit::fail;
use crate::queue::state::State;
use crate::queue::waiter::Notification;

impl Queue {
    /// Pauses or resumes it; durable on return. Returns whether that changed anything.
    ///
    /// # Errors
    /// [`Error::Disk`]: it is as before; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of
    /// service, also because nobody knows which of both a crash would leave.
    pub fn set_paused(&self, paused: bool) -> Result<bool, Error> {
        let mut state = self.lock_exclusively();
        let result = state.usable().and_then(|()| self.write_paused(&mut state, paused));
        state.maintaining = false;
        self.release_write_lock(&mut state);
        if matches!(result, Ok(true)) && !paused {
            state.waiters.wake_all(&Notification::Again);
        }
        result
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    fn write_paused(&self, state: &mut State, paused: bool) -> Result<bool, Error> {
        if state.is_paused == paused {
            return Ok(false);
        }
        let (disk, path) = (self.folder.disk(), self.folder.path());
        let file = path.join(PAUSED);
        if paused {
            let written = Output::create(disk, &file).and_then(Output::finish).map_err(Error::disk(&file));
            if let Err(error) = written {
                // It may have its name already, and then would pause the queue at the next start.
                if disk.remove(&file).is_err_and(|removed| removed.kind() != io::ErrorKind::NotFound) {
                    fail(state, &error);
                }
                return Err(error);
            }
        } else {
            match disk.remove(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(Error::disk(&file))?,
            }
            // Once it is removed a crash may leave it or not.
            let synced = disk.sync_folder(&path).map_err(Error::disk(&path));
            synced.inspect_err(|error| fail(state, error))?;
        }
        state.is_paused = paused;
        Ok(true)
    }
}
