//! Reading what others work with, and leaving the page cache as it was.

use std::io;
use std::ops::Range;

use crate::Source;

/// What a reader brings into memory, and takes out again when it has read it. What was there before stays: it
/// is what somebody else works with.
///
/// It takes three steps, each for all parts of a file before the next: what one part has read ahead would be
/// mistaken for others' pages when the next one is looked at.
///
/// ```
/// use disk::{Disk, RealDisk, Visit};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("table.ibd");
/// # std::fs::write(&path, [1; 9000])?;
/// let table = RealDisk.open(&path)?;
/// let mut visit = Visit::default();
/// visit.look(&*table, 0, 9000)?;
/// visit.begin(&*table);
/// let mut bytes = vec![0; 9000];
/// table.read_full_at(0, &mut bytes)?;
/// visit.end(&*table);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Visit {
    absent: Vec<Range<u64>>,
}

impl Visit {
    /// Looks what of a range, which begins at a page, is not in memory.
    ///
    /// # Errors
    /// As [`Source::absent`].
    pub fn look(&mut self, source: &dyn Source, at: u64, len: usize) -> io::Result<()> {
        self.absent.extend(source.absent(at, len)?);
        Ok(())
    }

    /// Has it read ahead.
    pub fn begin(&self, source: &dyn Source) {
        for range in &self.absent {
            source.prefetch(range.start, range.end - range.start);
        }
    }

    /// Forgets what was not in memory before. To be called when all of it was read.
    pub fn end(self, source: &dyn Source) {
        for range in self.absent {
            source.forget(range.start, range.end - range.start);
        }
    }
}
