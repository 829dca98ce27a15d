//! How a local volume is read.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::{CHUNK, ChunkRead, ChunkRequest, ChunkSource, Scan};
use disk::{Source, Stat};

const CHUNKS: u64 = 5;
/// The chunk in which there are no data.
const HOLE: u64 = 3;
/// A disk that waits for a second reader waits so long at most.
const PATIENCE: Duration = Duration::from_secs(20);

/// The chunks that are being read now, and those that were read together with another one.
#[derive(Default)]
struct Seats {
    now: Mutex<(Vec<u64>, Vec<u64>)>,
    changed: Condvar,
}

/// A volume whose chunks have their own numbers as their bytes, and whose disk answers two readers at once.
struct Shared {
    seats: Arc<Seats>,
    /// The chunks that are read alone.
    alone: [u64; 2],
}

impl Source for Shared {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of_volume(CHUNKS * CHUNK as u64))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let number = at / CHUNK as u64;
        let mut now = self.seats.now.lock().unwrap();
        now.0.push(number);
        self.seats.changed.notify_all();
        if !self.alone.contains(&number) {
            let is_one = |now: &mut (Vec<u64>, Vec<u64>)| now.0.len() < 2 && !now.1.contains(&number);
            now = self.seats.changed.wait_timeout_while(now, PATIENCE, |now| is_one(now)).unwrap().0;
            if now.0.len() == 2 {
                let both = now.0.clone();
                now.1.extend(both);
            }
        }
        now.0.retain(|reading| *reading != number);
        buffer.fill(u8::try_from(number).unwrap());
        Ok(buffer.len())
    }

    fn absent(&self, _at: u64, _len: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok(Some(if at / CHUNK as u64 == HOLE { (HOLE + 1) * CHUNK as u64 } else { at }))
    }

    fn prefetch(&self, _at: u64, _len: u64) {}

    fn forget(&self, _at: u64, _len: u64) {}
}

impl Read for Shared {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Seek for Shared {
    fn seek(&mut self, _to: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn two_chunks_are_read_at_once_and_given_in_order() {
    let seats = Arc::new(Seats::default());
    // The one before the hole, and the last one.
    let source = Shared { seats: Arc::clone(&seats), alone: [2, 4] };
    let mut scan = Scan::new(Box::new(source));
    let (mut announced, mut found) = (0, Vec::new());
    for number in 0..CHUNKS {
        while announced < CHUNKS && announced <= number + scan.ahead() {
            scan.expect(announced, CHUNK, ChunkRequest::All(None)).unwrap();
            announced += 1;
        }
        let mut buffer = Vec::new();
        let seen = scan.read(&mut buffer).unwrap();
        assert!(
            seen == ChunkRead::Hole || buffer.iter().all(|byte| u64::from(*byte) == number),
            "chunk {number}"
        );
        found.push(seen);
    }
    let whole = || ChunkRead::Whole;
    assert_eq!(found, [whole(), whole(), whole(), ChunkRead::Hole, whole()]);
    let mut together = seats.now.lock().unwrap().1.clone();
    together.sort_unstable();
    together.dedup();
    assert_eq!(together, [0, 1]);
}
