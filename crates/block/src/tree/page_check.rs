//! Files whose pages have checksums, and are read while a server writes them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::Source;

/// The largest page size.
const FIRST_BYTES: usize = 64 << 10;
/// How often a part with a torn page is read, and the pause in between: as in mariadb-backup.
const READS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// A page whose checksum does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPage {
    /// Its number in the file, from 0.
    pub number: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
}

/// Checks the checksums of pages.
pub trait PageCheck: Send + Sync {
    /// The first page that is torn or damaged, among the whole pages in a part of a file: its offset and its
    /// bytes. `first` reads the beginning of the file again, up to 64 KiB, which may state the page format.
    /// Otherwise pages have `page_bytes` bytes.
    ///
    /// # Errors
    /// If the pages can't be checked, and errors of reading.
    fn first_bad(
        &self,
        path: &Path,
        first: &dyn Fn() -> io::Result<Vec<u8>>,
        page_bytes: u32,
        part: (u64, &[u8]),
    ) -> io::Result<Option<BadPage>>;
}

/// A file whose pages are checked.
pub(super) struct CheckedPages<'a> {
    pub(super) path: &'a Path,
    pub(super) file: Arc<dyn Source>,
    pub(super) check: &'a dyn PageCheck,
    pub(super) page_bytes: u32,
}

impl CheckedPages<'_> {
    /// Fills the buffer from `offset` on, with zeros after the end of the file. A page that is just being
    /// written may be torn, and is read again.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let never = crossbeam_channel::never::<()>();
        let mut reads = 0;
        loop {
            let filled = self.file.read_full_at(offset, buffer)?;
            buffer.get_mut(filled..).unwrap_or_default().fill(0);
            let part = (offset, &*buffer);
            let Some(bad) = self.check.first_bad(self.path, &|| self.first(), self.page_bytes, part)? else {
                return Ok(());
            };
            reads += 1;
            if reads == READS {
                return Err(self.damaged(bad));
            }
            // Nobody sends on this channel: it is a wait that ends by itself.
            never.recv_timeout(PAUSE).ok();
        }
    }

    fn first(&self) -> io::Result<Vec<u8>> {
        let mut page = vec![0; FIRST_BYTES];
        let count = self.file.read_full_at(0, &mut page)?;
        page.truncate(count);
        Ok(page)
    }

    fn damaged(&self, BadPage { number, offset }: BadPage) -> io::Error {
        let text = format!(
            "{}: page {number}, at byte {offset}, does not match its checksum in any of {READS} reads. It \
             is damaged on the disk or in the file; CHECK TABLE shows what can be read of the \
             table",
            self.path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}
