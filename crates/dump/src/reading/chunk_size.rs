//! Chooses the size of the next chunk: it should not take so long that somebody's DDL waits for it, nor be so
//! short that starting it costs more than reading it.

use std::time::Duration;

/// How long a chunk should take.
const CHUNK_TIME: Duration = Duration::from_secs(2);
/// The next chunk is at most this many times as large as the one whose time was measured, and at least that
/// fraction of it, because one slow chunk may be chance.
const CHANGE_MAX: u64 = 2;

/// The smallest and largest size of the first chunks, in bytes of a table as the server estimates them.
const BEGIN_BYTES: (u64, u64) = (4 << 20, 64 << 20);
/// The smallest and largest size that chunks reach by themselves.
const BYTES: (u64, u64) = (1 << 20, 256 << 20);
/// The smallest and largest size of chunks of Parquet: files of some ten megabytes.
const PARQUET_BYTES: (u64, u64) = (64 << 20, 512 << 20);
/// The least number of chunks per session, so that the last ones end at about the same time.
const CHUNKS_PER_SESSION: u64 = 8;

/// The size of the next chunk, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSize {
    bytes: u64,
    least: u64,
    most: u64,
}

impl ChunkSize {
    /// For a dump of `total` bytes by some sessions.
    pub(crate) fn new(total: u64, sessions: usize) -> ChunkSize {
        let share =
            total / (u64::try_from(sessions).unwrap_or(u64::MAX).saturating_mul(CHUNKS_PER_SESSION)).max(1);
        ChunkSize {
            bytes: share.clamp(BEGIN_BYTES.0, BEGIN_BYTES.1),
            least: BYTES.0,
            most: share.clamp(BEGIN_BYTES.0, BYTES.1),
        }
    }

    /// For files of Parquet: engines want few large ones, and each session should get some.
    pub(crate) fn for_parquet(total: u64, sessions: usize) -> ChunkSize {
        let share = total / u64::try_from(sessions.max(1)).unwrap_or(u64::MAX);
        ChunkSize::fixed(share.clamp(PARQUET_BYTES.0, PARQUET_BYTES.1))
    }

    /// A constant size.
    pub(crate) fn fixed(bytes: u64) -> ChunkSize {
        ChunkSize { bytes, least: bytes, most: bytes }
    }

    /// The size of the next chunk.
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Records how long a chunk took that was planned with this many bytes, or 0 if its size is unknown.
    pub(crate) fn note(&mut self, bytes: u64, took: Duration) {
        if bytes == 0 {
            return;
        }
        let micros = |time: Duration| time.as_micros().max(1);
        let ideal = u128::from(bytes) * micros(CHUNK_TIME) / micros(took);
        let ideal = u64::try_from(ideal).unwrap_or(u64::MAX);
        let near = ideal.clamp(bytes.div_ceil(CHANGE_MAX), bytes.saturating_mul(CHANGE_MAX));
        self.bytes = near.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The sizes of chunks on a server that reads `rate` bytes per second.
    fn sizes(mut pace: ChunkSize, rate: u64, count: usize) -> Vec<u64> {
        let mut sizes = Vec::new();
        for _ in 0..count {
            sizes.push(pace.bytes());
            pace.note(pace.bytes(), Duration::from_millis(pace.bytes() * 1000 / rate));
        }
        sizes
    }

    #[test]
    fn chunks_come_to_take_two_seconds() {
        let large = ChunkSize::new(1 << 40, 2);
        assert_eq!(sizes(large, 10 * MIB, 4), [64 * MIB, 32 * MIB, 20 * MIB, 20 * MIB]);
        assert_eq!(sizes(large, 100 * MIB, 4), [64 * MIB, 128 * MIB, 200 * MIB, 200 * MIB]);
    }

    #[test]
    fn chunks_stay_within_their_limits() {
        let large = ChunkSize::new(1 << 40, 2);
        assert_eq!(sizes(large, MIB / 10, 9).last(), Some(&MIB));
        assert_eq!(sizes(large, 10_000 * MIB, 9).last(), Some(&(256 * MIB)));
        // Every session should get some.
        assert_eq!(sizes(ChunkSize::new(512 * MIB, 2), 10_000 * MIB, 9).last(), Some(&(32 * MIB)));
        assert_eq!(ChunkSize::new(0, 0).bytes(), 4 * MIB);
        assert_eq!(sizes(ChunkSize::fixed(7), 1, 3), [7, 7, 7]);
    }

    #[test]
    fn a_chunk_is_judged_by_its_own_size() {
        let mut pace = ChunkSize::new(1 << 40, 2);
        // Two sessions report chunks that were planned with the same size.
        pace.note(64 * MIB, Duration::from_secs(8));
        pace.note(64 * MIB, Duration::from_secs(8));
        assert_eq!(pace.bytes(), 32 * MIB);
        pace.note(0, Duration::ZERO);
        assert_eq!(pace.bytes(), 32 * MIB);
        pace.note(32 * MIB, Duration::ZERO);
        assert_eq!(pace.bytes(), 64 * MIB);
    }
}
