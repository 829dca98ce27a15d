//! Leaves room for others: limits the rate, and waits while the server is busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use server::Session;

use crate::Error;

/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The limits of a dump.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Bytes of text per second, all sessions together.
    pub bytes_per_second: Option<u64>,
    /// No chunk is started while more threads than this are running in the server, not counting our own.
    pub threads_running: Option<u64>,
}

pub(crate) struct Throttle {
    limits: Limits,
    sessions: u64,
    began: Instant,
    bytes: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(limits: Limits, sessions: usize) -> Throttle {
        Throttle { limits, sessions: sessions as u64, began: Instant::now(), bytes: AtomicU64::new(0) }
    }

    /// Waits as long as these bytes are ahead of the rate.
    pub(crate) fn pass(&self, bytes: u64, is_over: &dyn Fn() -> bool) {
        let Some(rate) = self.limits.bytes_per_second else { return };
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let due = Duration::from_millis(all.saturating_mul(1000) / rate.max(1));
        while !is_over() {
            match due.checked_sub(self.began.elapsed()) {
                Some(early) if !early.is_zero() => pause(early.min(LOOK_AGAIN)),
                _ => return,
            }
        }
    }

    /// Waits as long as the server is busy with others.
    pub(crate) fn begin(&self, session: &mut Session, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
        let Some(limit) = self.limits.threads_running else { return Ok(()) };
        while !is_over() {
            let rows = session.strings("SHOW GLOBAL STATUS LIKE 'Threads_running'")?;
            let running = rows.first().and_then(|row| row.get(1)).cloned().flatten();
            let running: u64 = running.and_then(|text| text.parse().ok()).unwrap_or(0);
            if running <= limit + self.sessions {
                return Ok(());
            }
            pause(LOOK_AGAIN);
        }
        Ok(())
    }
}

/// Sleeps.
pub(crate) fn pause(wait: Duration) {
    // Nobody ever sends on this channel.
    crossbeam_channel::never::<()>().recv_timeout(wait).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_bytes_back_until_it_is_over() {
        let slow = Throttle::new(Limits { bytes_per_second: Some(1000), threads_running: None }, 1);
        slow.pass(50, &|| false);
        assert!(slow.began.elapsed() >= Duration::from_millis(50));
        slow.pass(1_000_000_000, &|| true);
        Throttle::new(Limits::default(), 1).pass(u64::MAX, &|| false);
    }
}
