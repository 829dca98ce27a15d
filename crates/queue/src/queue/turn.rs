//! Taking turns: one caller at a time writes or tidies up.

use crate::queue::Queue;
use crate::queue::state::State;
use crate::sync::{MutexGuard, wait};

impl Queue {
    /// Waits until nobody writes, and keeps others from it.
    pub(crate) fn take_turn<'guard>(
        &self,
        mut state: MutexGuard<'guard, State>,
    ) -> MutexGuard<'guard, State> {
        while state.writing {
            state = wait(&self.turn, state);
        }
        state.writing = true;
        state
    }

    pub(crate) fn give_turn(&self, state: &mut State) {
        state.writing = false;
        self.turn.notify_all();
    }

    /// The state while nobody writes or tidies up.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        // Contributors to the next batch go first.
        while state.writing || state.maintaining || state.led {
            state = wait(&self.turn, state);
        }
        state.writing = true;
        state.maintaining = true;
        state
    }

    /// Runs `work` while nobody opens, writes or removes a file of the queue.
    pub(crate) fn undisturbed<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.quiet();
        let result = work();
        state.maintaining = false;
        self.give_turn(&mut state);
        result
    }
}
