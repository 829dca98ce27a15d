//! How long what comes is left to gather, and how long it waits until it is synced.

use std::time::Duration;

/// How long more may come before it is read: at most, and as a part of the time until it is made durable.
const GATHER_MAX: Duration = Duration::from_millis(100);
const GATHER_PART: u32 = 10;

/// How long more may come before it is read, if what arrived must be durable in the time `sync`.
pub(crate) fn gather(sync: Duration) -> Duration {
    GATHER_MAX.min(sync / GATHER_PART)
}

/// How long what was read waits until it is synced, so that it is durable in time. What arrived during the
/// last sync, or was left to gather, has waited already. This sync takes time too, perhaps longer.
pub(crate) fn patience(sync: Duration, took: Duration, gather: Duration) -> Duration {
    sync.saturating_sub((took * 2 + gather).clamp(sync / 4, sync / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_begins_early_enough_to_end_in_time() {
        let of = |[sync, took, gather]: [u64; 3]| {
            let [sync, took, gather] = [sync, took, gather].map(Duration::from_millis);
            patience(sync, took, gather).as_millis()
        };
        assert_eq!([of([1000, 0, 0]), of([1000, 50, 100]), of([1000, 150, 100])], [750, 750, 600]);
        // A slow disk is not kept busy with nothing else.
        assert_eq!([of([1000, 900, 100]), of([10_000, 900, 100]), of([0, 10, 0])], [500, 7500, 0]);
    }
}
