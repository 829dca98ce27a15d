//! What was made so far, in a file, and read from its end: the last change is put back first.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of the length behind a record.
const LENGTH_BYTES: u64 = 8;

/// Records in a file without a name: nothing is left of it, however the run ends.
pub struct Spool {
    folder: PathBuf,
    file: BufWriter<File>,
    len: u64,
}

impl Spool {
    /// An empty one on the file system of this folder.
    pub fn new(folder: &Path) -> io::Result<Spool> {
        Ok(Spool { folder: folder.to_owned(), file: BufWriter::new(tempfile::tempfile_in(folder)?), len: 0 })
    }

    /// Another one beside it.
    pub(crate) fn another(&self) -> io::Result<Spool> {
        Spool::new(&self.folder)
    }

    /// Adds a record, which consists of these parts.
    pub fn add(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut len = 0;
        for part in parts {
            self.file.write_all(part)?;
            len += part.len() as u64;
        }
        self.file.write_all(&len.to_le_bytes())?;
        self.len += len + LENGTH_BYTES;
        Ok(())
    }

    /// All records, the last one first.
    pub fn backwards<E: From<io::Error>>(
        self,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut tail = Tail { file, start: self.len, bytes: Vec::new() };
        while let Some(length) = tail.last(LENGTH_BYTES)?.first_chunk::<8>() {
            let length = u64::from_le_bytes(*length);
            tail.drop_last(LENGTH_BYTES);
            take(tail.last(length)?)?;
            tail.drop_last(length);
        }
        Ok(())
    }
}

/// The end of a file, of which the last part is in memory.
struct Tail {
    file: File,
    /// Where `bytes` begin in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// The last so many bytes; none at the beginning of the file.
    fn last(&mut self, len: u64) -> io::Result<&[u8]> {
        let have = self.bytes.len() as u64;
        if have < len && self.start > 0 {
            let more = (len - have).max(PIECE_BYTES).min(self.start);
            let mut bytes = vec![0; usize::try_from(more).map_err(io::Error::other)?];
            self.file.read_exact_at(&mut bytes, self.start - more)?;
            bytes.append(&mut self.bytes);
            self.bytes = bytes;
            self.start -= more;
        }
        let at = (self.bytes.len() as u64).saturating_sub(len);
        Ok(self.bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default())
    }

    fn drop_last(&mut self, len: u64) {
        let kept = (self.bytes.len() as u64).saturating_sub(len);
        self.bytes.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_from_the_last_to_the_first() {
        let mut spool = Spool::new(&std::env::temp_dir()).unwrap();
        // Some are longer than what is read at once, some are empty.
        let long = usize::try_from(PIECE_BYTES).unwrap() * 2 + 5;
        let records: Vec<Vec<u8>> = [3, 0, long, 1, 700_000, 700_000, 0, 9]
            .map(|len: usize| vec![len.to_le_bytes()[0]; len])
            .to_vec();
        for record in &records {
            let (front, back) = record.split_at(record.len() / 2);
            spool.add(&[front, back]).unwrap();
        }
        let mut found = Vec::new();
        spool
            .backwards(|record| {
                found.push(record.to_vec());
                io::Result::Ok(())
            })
            .unwrap();
        found.reverse();
        assert!(found == records);
    }
}
