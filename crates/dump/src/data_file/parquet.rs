//! Data files that are Parquet, with a file beside them of what its types can't hold, so that the same lines
//! come back.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use disk::{Disk, Source};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use parquet_rows::{OddValue, Reader};
use serde::{Deserialize, Serialize};

use super::{DataFile, damaged};

/// Odd values that are read ahead.
const AHEAD: usize = 16;

/// The values of a chunk that are not in its Parquet file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OddFile {
    /// How many there are, by column.
    pub columns: BTreeMap<String, u64>,
    /// Bytes of the lines.
    pub text_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// BLAKE3 of the file, in hexadecimal digits.
    pub blake3: String,
}

/// A file with those rows of a chunk that have one value of the partition column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The value that its folder is named for; `None` for NULL, and for what no folder can be named for.
    pub value: Option<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes of its rows as lines.
    pub text_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// BLAKE3 of the file, in hexadecimal digits.
    pub blake3: String,
    /// Its values that are in a file beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odd: Option<Box<OddFile>>,
}

impl Part {
    /// A file that is still to be written.
    pub(crate) fn planned(value: Option<String>) -> Part {
        Part { value, rows: 0, text_bytes: 0, file_bytes: 0, blake3: String::new(), odd: None }
    }
}

/// What is needed to read a file.
#[derive(Clone, Debug)]
pub(crate) struct ParquetContent {
    pub(crate) columns: Vec<parquet_rows::Column>,
    /// The text of the column that is in the file's path.
    pub(crate) path_text: Vec<u8>,
    /// The file of its odd values.
    pub(crate) odd: Option<Box<DataFile>>,
}

/// Reads the lines of a file that is the one in the manifest.
pub(super) fn read(
    content: &ParquetContent,
    file: &DataFile,
    disk: &dyn Disk,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut source = disk.open(&file.path)?;
    check_hash(&mut *source, file)?;
    let bytes = RandomAccess { source: source.into(), len: file.bytes };
    let reader = Reader::open(bytes, &content.columns, &content.path_text)?;
    let mut text = 0;
    let mut each = |lines: &[u8]| {
        text += lines.len() as u64;
        if text > file.text_bytes_max {
            return Err(damaged("it holds more than the manifest says"));
        }
        each(lines)
    };
    let Some(odd) = &content.odd else {
        return Ok(reader.lines(&mut std::iter::empty(), &mut each)?);
    };
    std::thread::scope(|scope| {
        let (send, values) = sync_channel(AHEAD);
        scope.spawn(move || read_odd(odd, disk, &send));
        let values: Receiver<io::Result<OddValue>> = values;
        Ok(reader.lines(&mut values.iter(), &mut each)?)
    })
}

/// Sends the odd values of a file. Nobody takes them after an error.
fn read_odd(file: &DataFile, disk: &dyn Disk, send: &SyncSender<io::Result<OddValue>>) {
    let mut begun = Vec::new();
    let gone = || io::Error::other("nobody takes them");
    let done = file.read(disk, &mut |piece| {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            begun.extend_from_slice(&rest[..end]);
            let value = OddValue::parse(&begun).ok_or_else(|| damaged("a line of odd values is not one"));
            send.send(Ok(value?)).map_err(|_| gone())?;
            begun.clear();
            rest = &rest[end + 1..];
        }
        begun.extend_from_slice(rest);
        Ok(())
    });
    if let Err(error) = done {
        let error = io::Error::new(error.kind(), format!("{}: {error}", file.path.display()));
        send.send(Err(error)).ok();
    }
}

/// Reads the whole file: only one whose hash is right is parsed.
fn check_hash(source: &mut dyn Source, file: &DataFile) -> io::Result<()> {
    if let Some(what) = file.wrong_length(source.stat()?.len) {
        return Err(damaged(&what));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(source)?;
    if hasher.finalize().to_hex().as_str() == file.blake3 {
        return Ok(());
    }
    Err(damaged("its BLAKE3 is not the one in the manifest: the file was changed or damaged"))
}

/// A file that is read in any order.
struct RandomAccess {
    source: Arc<dyn Source>,
    len: u64,
}

/// Reads it on from some byte.
struct From {
    source: Arc<dyn Source>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read_at(self.at, buffer)?;
        self.at += got as u64;
        Ok(got)
    }
}

impl Length for RandomAccess {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for RandomAccess {
    type T = io::BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(io::BufReader::new(From { source: Arc::clone(&self.source), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Not more than there is, whatever the file says.
        if start.saturating_add(length as u64) > self.len {
            return Err(ParquetError::EOF("it ends too early".to_owned()));
        }
        let mut bytes = vec![0; length];
        let got = self
            .source
            .read_full_at(start, &mut bytes)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        bytes.truncate(got);
        Ok(bytes.into())
    }
}
