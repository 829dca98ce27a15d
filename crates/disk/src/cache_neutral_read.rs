//! Reads files that other processes use without changing what is in the page cache.

use std::io;
use std::ops::Range;

use crate::Source;

/// The pages that a reader brings into the page cache, and drops again after reading. Pages that were cached
/// before stay, because somebody else uses them.
///
/// A visit takes three steps, and each step must be done for all parts of a file before the next: read-ahead
/// of one part would otherwise look like pages of others when the next part is examined.
///
/// ```
/// use disk::{Disk, RealDisk, CacheNeutralRead};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("table.ibd");
/// # std::fs::write(&path, [1; 9000])?;
/// let table = RealDisk.open(&path)?;
/// let mut visit = CacheNeutralRead::default();
/// visit.look(&*table, 0, 9000)?;
/// visit.begin(&*table);
/// let mut bytes = vec![0; 9000];
/// table.read_full_at(0, &mut bytes)?;
/// visit.end(&*table);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct CacheNeutralRead {
    absent: Vec<Range<u64>>,
}

impl CacheNeutralRead {
    /// Finds out which part of a range is not cached; the range must begin at a page.
    ///
    /// # Errors
    /// Those of [`Source::absent`].
    pub fn look(&mut self, source: &dyn Source, at: u64, len: usize) -> io::Result<()> {
        self.absent.extend(source.absent(at, len)?);
        Ok(())
    }

    /// Starts read-ahead of that part.
    pub fn begin(&self, source: &dyn Source) {
        for range in &self.absent {
            source.prefetch(range.start, range.end - range.start);
        }
    }

    /// Drops the pages that were not cached before. Call it after everything was read.
    pub fn end(self, source: &dyn Source) {
        for range in self.absent {
            source.forget(range.start, range.end - range.start);
        }
    }
}
