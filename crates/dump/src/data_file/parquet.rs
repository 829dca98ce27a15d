//! Data files that are Parquet. What its types can't hold goes into a file beside it, so that the same lines
//! come back.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use codec::Codec;
use disk::{Disk, Output, Source};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use parquet_rows::{Encodings, OddValue, Options, Reader, Writer as Rows};
use serde::{Deserialize, Serialize};
use server::catalogue;

use super::{DataFile, Hashed, Text, Written, damaged};
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::value_text;

/// The usual compression inside of Parquet.
pub const PARQUET_CODEC: (Codec, u32) = (Codec::Zstd, 3);
/// Compression of the files of odd values.
const CODEC: (Codec, u32) = (Codec::Zstd, 3);
/// Odd values that are read ahead.
const AHEAD: usize = 16;
/// Bytes that are hashed at once.
const BLOCK_BYTES: usize = 256 << 10;

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

/// A file that is being written.
pub(crate) struct ParquetFile<'a, W: Write + Send> {
    rows: Rows<Hashed<W>>,
    odd: OddWriter<'a>,
}

/// What a file is written for.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) folder: &'a Path,
    pub(crate) manifest: &'a Manifest,
    pub(crate) entry: &'a TableEntry,
    pub(crate) encodings: &'a Encodings,
}

/// Writes odd values, if there are any.
struct OddWriter<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    /// The names of columns.
    names: Vec<String>,
    file: Option<Text<Output<'a>>>,
    written: OddFile,
    line: Vec<u8>,
}

/// The columns of a table's files.
pub(crate) fn columns(entry: &TableEntry) -> Vec<parquet_rows::Column> {
    let column = |column: &&catalogue::Column| parquet_rows::Column {
        name: column.name.clone(),
        data_type: column.data_type.clone(),
        column_type: column.column_type.clone(),
        character_set: column.character_set.clone(),
        is_numbered: value_text::is_numbered(column, entry.version),
    };
    entry.columns().iter().map(column).collect()
}

/// The columns of the key in whose order the rows of a chunk come, as far as Parquet's order is the same.
fn sorted_by(entry: &TableEntry, chunk: &Chunk) -> Vec<usize> {
    let is_ordered = chunk.range.is_some() && chunk.partitions.is_empty() && !entry.history;
    let columns = entry.columns();
    let place = |name: &String| {
        let at = columns.iter().position(|column| column.name == *name)?;
        let kind = columns[at].data_type.as_str();
        let is_number = matches!(
            kind,
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "date" | "datetime"
        );
        is_number.then_some(at)
    };
    entry.table.key.iter().filter(|_| is_ordered).map_while(place).collect()
}

impl<'a, W: Write + Send> ParquetFile<'a, W> {
    /// A file of a chunk. `level`: that of zstd, 0 for no compression.
    pub(crate) fn new(to: W, place: Place<'a>, chunk: &Chunk, level: u32) -> io::Result<ParquetFile<'a, W>> {
        let Place { disk, folder, manifest, entry, encodings } = place;
        let columns = columns(entry);
        let about = serde_json::json!({
            "dump": manifest.id, "table": entry.table.name.to_string(), "chunk": chunk.number,
            "columns": columns.iter().map(|column| {
                serde_json::json!({
                    "name": column.name, "type": column.column_type, "character_set": column.character_set,
                })
            }).collect::<Vec<_>>(),
        });
        let options = Options {
            level,
            sorted_by: sorted_by(entry, chunk),
            bloom: Vec::new(),
            metadata: vec![("remora".to_owned(), about.to_string())],
            encodings: encodings.clone(),
        };
        let sink = Hashed { to, hasher: blake3::Hasher::new(), bytes: 0 };
        Ok(ParquetFile {
            rows: Rows::new(sink, &columns, options)?,
            odd: OddWriter {
                disk,
                path: manifest.odd_path(folder, entry, chunk),
                names: columns.into_iter().map(|column| column.name).collect(),
                file: None,
                written: OddFile::default(),
                line: Vec::new(),
            },
        })
    }

    pub(crate) fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let odd = &mut self.odd;
        Ok(self.rows.lines(lines, &mut |value| odd.add(value))?)
    }

    pub(crate) fn end(self) -> io::Result<(Written, W)> {
        let (_, sink) = self.rows.finish()?;
        let odd = self.odd.end()?;
        let blake3 = sink.hasher.finalize().to_hex().to_string();
        Ok((Written { bytes: sink.bytes, blake3, odd }, sink.to))
    }
}

impl OddWriter<'_> {
    fn add(&mut self, value: &OddValue) -> io::Result<()> {
        if self.file.is_none() {
            if let Some(folder) = self.path.parent() {
                // The folders of other chunks are there.
                for folder in [folder.parent(), Some(folder)].into_iter().flatten() {
                    match self.disk.create_folder(folder) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        made => made?,
                    }
                }
            }
            let output = Output::create(self.disk, &self.path)?;
            self.file = Some(Text::new(output, CODEC, None)?);
        }
        let name = self.names.get(value.column).cloned().unwrap_or_default();
        *self.written.columns.entry(name).or_default() += 1;
        self.line.clear();
        value.write(&mut self.line);
        self.written.text_bytes += self.line.len() as u64;
        match &mut self.file {
            Some(file) => file.lines(&self.line),
            None => Ok(()),
        }
    }

    fn end(self) -> io::Result<Option<OddFile>> {
        let Some(file) = self.file else { return Ok(None) };
        let (written, output) = file.end()?;
        output.finish()?;
        Ok(Some(OddFile { file_bytes: written.bytes, blake3: written.blake3, ..self.written }))
    }
}

/// What is needed to read a file.
#[derive(Clone, Debug)]
pub(crate) struct ParquetContent {
    pub(crate) columns: Vec<parquet_rows::Column>,
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
    let source = disk.open(&file.path)?;
    check_hash(&*source, file)?;
    let reader = Reader::open(RandomAccess { source: source.into(), len: file.bytes }, &content.columns)?;
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
fn check_hash(source: &dyn Source, file: &DataFile) -> io::Result<()> {
    let len = source.stat()?.len;
    if !file.fits(len) {
        return Err(damaged(&format!("it has {len} bytes, the manifest says {}", file.bytes)));
    }
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let got = source.read_full_at(hasher.count(), &mut block)?;
        if got == 0 {
            break;
        }
        hasher.update(&block[..got]);
    }
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
