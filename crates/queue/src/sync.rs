//! Locks and condition variables: the standard library's, or those of a scheduler that tries interleavings
//! (feature `shuttle`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};

use std::sync::{PoisonError, TryLockError};

/// Locks. When another holder panicked, its queue is out of service already, so a poisoned lock is used as it
/// is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks if nobody else has the lock.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a condition variable.
pub(crate) fn wait<'guard, T>(condition: &Condvar, guard: MutexGuard<'guard, T>) -> MutexGuard<'guard, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition variable: at most this long, or, without a limit, until it is notified.
pub(crate) fn wait_for<'guard, T>(
    condition: &Condvar,
    guard: MutexGuard<'guard, T>,
    limit: Option<std::time::Duration>,
) -> MutexGuard<'guard, T> {
    match limit {
        None => wait(condition, guard),
        Some(limit) => condition.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0,
    }
}

/// Lets other threads go first.
pub(crate) fn pass() {
    #[cfg(not(feature = "shuttle"))]
    std::thread::yield_now();
    #[cfg(feature = "shuttle")]
    shuttle::thread::yield_now();
}
