//! Limits how much of the files is in memory at the same time.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A memory budget in bytes, shared by all chunks in memory.
pub(crate) struct MemoryBudget {
    bytes: usize,
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A reservation in a [`MemoryBudget`], released when it is dropped.
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryBudget {
    pub(crate) fn new(bytes: usize) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { bytes, taken: Mutex::new(0), freed: Condvar::new() })
    }

    /// Waits until this many bytes are available, or until there is no other reservation: a chunk larger than
    /// the budget is loaded alone.
    pub(crate) fn take(self: &Arc<MemoryBudget>, bytes: usize) -> Reservation {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken > 0 && taken.saturating_add(bytes) > self.bytes;
        let mut taken = self.freed.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        Reservation { budget: Arc::clone(self), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_wait_for_memory_and_an_oversized_chunk_goes_alone() {
        let budget = MemoryBudget::new(10);
        let (first, second) = (budget.take(4), budget.take(6));
        let (send, arrived) = crossbeam_channel::unbounded();
        std::thread::scope(|scope| {
            scope.spawn(|| send.send(budget.take(100).bytes).unwrap());
            drop(first);
            assert!(arrived.is_empty());
            drop(second);
            assert_eq!(arrived.recv().unwrap(), 100);
        });
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }
}
