//! Files that a server writes although nobody commits: a statement on a table of Aria continues until it
//! ends.
//!
//! Aria's log repairs pages that are older than others, but none that is half old and half new. So what was
//! written since some time before the first read is read again, until two reads agree.

use std::io;
use std::time::{Duration, Instant};

use crate::spool::Spool;

/// How much of a file is compared at once: a whole number of pages, of whatever size.
const PART: usize = 32 << 10;
/// How often it is read again.
const READS: usize = 50;
/// A file that is being written has a time of writing that is at most so old: the kernel's clock for it
/// ticks.
const TICK: Duration = Duration::from_millis(20);

/// Waits until a write gives a file another time of writing than one that was seen at `listed`.
pub(crate) fn wait_after(listed: Instant) {
    if let Some(left) = TICK.checked_sub(listed.elapsed()) {
        // Nobody sends on this channel: it is a wait that ends by itself.
        crossbeam_channel::never::<()>().recv_timeout(left).ok();
    }
}

/// Reads a file of `len` bytes again until each part was the same in two reads. What it was is in a spool,
/// from an offset on.
pub(crate) fn settle(
    read: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
    len: u64,
    (spool, offset): (&Spool, u64),
) -> io::Result<()> {
    let mut unsure: Vec<u64> = (0..len).step_by(PART).collect();
    let (mut now, mut before) = (vec![0; PART], vec![0; PART]);
    for _ in 0..READS {
        let mut changed = Vec::new();
        for at in unsure {
            let count = usize::try_from(len - at).map_or(PART, |left| left.min(PART));
            let now = now.get_mut(..count).unwrap_or_default();
            let before = before.get_mut(..count).unwrap_or_default();
            if read(at, now)? != count {
                return Err(io::Error::other("it is shorter than it was"));
            }
            spool.read(offset + at, before)?;
            if now != before {
                spool.replace(offset + at, now)?;
                changed.push(at);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        unsure = changed;
    }
    Err(io::Error::other(format!(
        "a part of it was another one in each of {READS} reads; make the copy again when no long statement writes to it"
    )))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Settles a file whose second part is another one in each of the first reads; what it is then.
    fn settled(moves: u8) -> io::Result<Vec<u8>> {
        let folder = tempfile::tempdir()?;
        let mut spool = Spool::new(folder.path())?;
        let len = 2 * PART + 100;
        spool.add(&[9; 10][..])?;
        let (offset, _) = spool.add(&*vec![0; len])?;
        let reads = Cell::new(0);
        let read = |at: u64, buffer: &mut [u8]| {
            buffer.fill(1);
            if at == PART as u64 {
                reads.set(reads.get() + 1);
                buffer.fill(reads.get().min(moves));
            }
            Ok(buffer.len())
        };
        settle(read, len as u64, (&spool, offset))?;
        let mut bytes = vec![0; len];
        spool.read(offset, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_file_is_read_until_two_reads_agree() {
        for moves in [1, 2, 7] {
            let bytes = settled(moves).unwrap();
            let (first, rest) = bytes.split_at(PART);
            let (second, last) = rest.split_at(PART);
            assert!(second.iter().all(|byte| *byte == moves), "{moves}");
            assert!(first.iter().chain(last).all(|byte| *byte == 1), "{moves}");
        }
        assert!(settled(u8::MAX).unwrap_err().to_string().contains("in each of 50 reads"));
    }
}
