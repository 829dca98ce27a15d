//! The write lock: one caller at a time writes, and one does maintenance.

use crate::queue::Queue;
use crate::queue::state::State;
use crate::sync::{MutexGuard, wait};

impl Queue {
    /// Acquires the write lock.
    pub(crate) fn acquire_write_lock<'guard>(
        &self,
        mut state: MutexGuard<'guard, State>,
    ) -> MutexGuard<'guard, State> {
        while state.writing {
            state = wait(&self.write_lock_released, state);
        }
        state.writing = true;
        state
    }

    pub(crate) fn release_write_lock(&self, state: &mut State) {
        state.writing = false;
        self.write_lock_released.notify_all();
    }

    /// Locks out writers and maintenance.
    pub(crate) fn lock_exclusively(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        // Contributors to the next batch go first.
        while state.writing || state.maintaining || state.has_leader {
            state = wait(&self.write_lock_released, state);
        }
        state.writing = true;
        state.maintaining = true;
        state
    }

    /// Runs `work` while nobody opens, writes or removes files of the queue.
    pub(crate) fn with_exclusive_lock<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.lock_exclusively();
        let result = work();
        state.maintaining = false;
        self.release_write_lock(&mut state);
        result
    }
}
