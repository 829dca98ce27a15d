//! The bytes of a file, at any place.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use super::thrift;

/// Bytes of a page's header that are read at first, and the most that are read: statistics in it may have
/// long values.
const HEADER_BYTES: [usize; 3] = [1 << 10, 64 << 10, 16 << 20];

/// A file that can be read at any place. It must not change meanwhile.
pub trait Input: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Fills `buffer` from byte `at` on, and returns how many bytes there were; fewer only at the end.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Is told how many bytes of the file were used, for the progress.
    fn used(&self, _bytes: u64) {}
}

/// Exactly these bytes of a file.
///
/// # Errors
/// When the file ends before.
pub(crate) fn bytes(input: &dyn Input, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let rest = input.length().saturating_sub(at);
    // Memory is taken only for bytes that exist.
    if length as u64 > rest {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early"));
    }
    let mut buffer = vec![0; length];
    match input.read_at(at, &mut buffer)? {
        count if count == length => Ok(buffer),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early")),
    }
}

/// The pages of one column chunk. Before the library reads a page's header, [`thrift::page`] looks at it: the
/// library takes as much memory as a header claims.
pub(crate) struct PageBytes {
    pub(crate) input: Arc<dyn Input>,
    /// Bytes of the smallest value of the column in a dictionary.
    pub(crate) value_bytes: usize,
}

impl Length for PageBytes {
    fn len(&self) -> u64 {
        self.input.length()
    }
}

impl ChunkReader for PageBytes {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Header> {
        Ok(Header {
            input: Arc::clone(&self.input),
            start,
            value_bytes: self.value_bytes,
            bytes: io::Cursor::default(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes =
            bytes(&*self.input, start, length).map_err(|error| ParquetError::External(error.into()))?;
        self.input.used(length as u64);
        Ok(Bytes::from(bytes))
    }
}

/// The header of a page, checked when its first byte is read: the library asks for more readers than it uses.
pub(crate) struct Header {
    input: Arc<dyn Input>,
    start: u64,
    value_bytes: usize,
    bytes: io::Cursor<Vec<u8>>,
}

impl Header {
    fn check(&mut self) -> io::Result<()> {
        let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        for most in HEADER_BYTES {
            let mut buffer = vec![0; most.min(room(&*self.input, self.start))];
            let count = self.input.read_at(self.start, &mut buffer)?;
            buffer.truncate(count);
            match thrift::page(&buffer, self.value_bytes) {
                Ok(length) => {
                    self.input.used(length as u64);
                    buffer.truncate(length);
                    self.bytes = io::Cursor::new(buffer);
                    return Ok(());
                }
                Err(thrift::Trouble::Short) if count == most => {}
                Err(trouble) => return Err(damaged(trouble.to_string())),
            }
        }
        Err(damaged("the header of a page is longer than 16 MiB".to_owned()))
    }
}

/// How many bytes there are from a place on.
fn room(input: &dyn Input, at: u64) -> usize {
    usize::try_from(input.length().saturating_sub(at)).unwrap_or(usize::MAX)
}

impl Read for Header {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.get_ref().is_empty() {
            self.check()?;
        }
        self.bytes.read(buffer)
    }
}
