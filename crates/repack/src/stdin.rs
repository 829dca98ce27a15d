//! Standard input whose reads do not keep a command from stopping.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long to wait for a silent standard input before checking whether to stop.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input whose reads fail when the command must stop: otherwise a read from a silent pipe would
/// outlast any signal.
pub struct InterruptibleStdin {
    /// Set when the command must stop.
    pub stop: Arc<AtomicBool>,
}

impl Read for InterruptibleStdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Not through the standard library's buffer, which poll does not know about.
        let stdin = io::stdin();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped by a signal"));
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK_AGAIN)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&stdin, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
