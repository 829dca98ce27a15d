//! Requests to stop: by which signals, and how the working code learns of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

static BY: AtomicI32 = AtomicI32::new(SIGINT);

/// The signal that stopped us.
pub(crate) fn signal() -> i32 {
    BY.load(Ordering::Relaxed)
}

/// The signals that ask us to stop. SIGHUP is left out if it is ignored, as under nohup(1).
pub(crate) fn signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let all = [SIGINT, SIGTERM, SIGHUP];
    all.into_iter().filter(|signal| *signal != SIGHUP || ignored >> (signal - 1) & 1 == 0).collect()
}

/// A flag that the [`signals`] set. A second signal ends the program at once, except SIGHUP: a closing
/// terminal sends one, and its shell another. SIGUSR1 calls `usr1`.
pub(crate) fn flag(usr1: impl Fn() + Send + 'static) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut asked = Signals::new(signals().into_iter().chain([SIGUSR1]))?;
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        for signal in asked.forever() {
            if signal == SIGUSR1 {
                usr1();
                continue;
            }
            if !flag.load(Ordering::Relaxed) {
                BY.store(signal, Ordering::Relaxed);
                flag.store(true, Ordering::Relaxed);
            } else if signal != SIGHUP {
                // This only returns when the default action was impossible, and then nothing else can be
                // done.
                signal_hook::low_level::emulate_default_handler(signal).ok();
            }
        }
    });
    Ok(stop)
}
