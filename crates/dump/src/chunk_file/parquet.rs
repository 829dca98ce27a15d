//! Writes a chunk as Parquet. What its types can't hold goes into a file beside it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use codec::Codec;
use disk::{Disk, Output};
use parquet_rows::{Encodings, OddValue, Options, Writer as Rows};

use crate::data_file::parquet::OddFile;
use crate::data_file::{Hashed, Text, Written};
use crate::manifest::{Chunk, Manifest, TableEntry};

/// The usual compression inside of Parquet.
pub const PARQUET_CODEC: (Codec, u32) = (Codec::Zstd, 3);
/// Compression of the files of odd values.
const CODEC: (Codec, u32) = (Codec::Zstd, 3);

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

/// What differs between the files of a chunk.
pub(crate) struct Slot {
    /// The text of the column that is in the file's path.
    pub(crate) path_text: Vec<u8>,
    /// Where its odd values go.
    pub(crate) odd_path: PathBuf,
}

/// Writes odd values, if there are any.
struct OddWriter<'a> {
    disk: &'a dyn Disk,
    /// The folder of the dump, which is there.
    folder: &'a Path,
    path: PathBuf,
    /// The names of columns.
    names: Vec<String>,
    file: Option<Text<Output<'a>>>,
    written: OddFile,
    line: Vec<u8>,
}

/// The columns of the key in whose order the rows of a chunk come, as far as Parquet's order is the same and
/// no value is beside the file.
fn sorted_by(entry: &TableEntry, chunk: &Chunk) -> Vec<usize> {
    let is_ordered = chunk.range.is_some() && chunk.partitions.is_empty() && !entry.history;
    let columns = entry.columns();
    let place = |name: &String| {
        let at = columns.iter().position(|column| column.name == *name)?;
        let kind = columns[at].data_type.as_str();
        let is_number = matches!(kind, "tinyint" | "smallint" | "mediumint" | "int" | "bigint");
        is_number.then_some(at)
    };
    // One that is in the path has one value in all rows of a file.
    let is_in_file = |name: &&String| Some(*name) != entry.partition_column.as_ref();
    entry.table.key.iter().filter(|_| is_ordered).filter(is_in_file).map_while(place).collect()
}

impl<'a, W: Write + Send> ParquetFile<'a, W> {
    /// The only file of a chunk.
    pub(crate) fn whole(
        to: W,
        place: Place<'a>,
        chunk: &Chunk,
        level: u32,
    ) -> io::Result<ParquetFile<'a, W>> {
        let odd_path = place.manifest.odd_path(place.folder, place.entry, chunk);
        ParquetFile::new(to, place, (chunk, Slot { path_text: Vec::new(), odd_path }), level)
    }

    /// A file of a chunk. `level`: that of zstd, 0 for no compression.
    pub(crate) fn new(
        to: W,
        place: Place<'a>,
        (chunk, slot): (&Chunk, Slot),
        level: u32,
    ) -> io::Result<ParquetFile<'a, W>> {
        let Place { disk, folder, manifest, entry, encodings } = place;
        let columns = entry.parquet_columns();
        let about = serde_json::json!({
            "dump": manifest.id, "table": entry.table.name.to_string(), "chunk": chunk.number,
            "columns": columns.iter().filter(|column| !column.is_in_path).map(|column| {
                serde_json::json!({
                    "name": column.name, "type": column.column_type, "character_set": column.character_set,
                })
            }).collect::<Vec<_>>(),
        });
        let options = Options {
            level,
            sorted_by: sorted_by(entry, chunk),
            bloom: (0..columns.len()).filter(|at| entry.bloom.contains(&columns[*at].name)).collect(),
            path_text: slot.path_text,
            metadata: vec![("remora".to_owned(), about.to_string())],
            encodings: encodings.clone(),
        };
        let sink = Hashed::new(to);
        Ok(ParquetFile {
            rows: Rows::new(sink, &columns, options)?,
            odd: OddWriter {
                disk,
                folder,
                path: slot.odd_path,
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
        let (written, to) = sink.end();
        Ok((Written { odd, ..written }, to))
    }
}

impl OddWriter<'_> {
    fn add(&mut self, value: &OddValue) -> io::Result<()> {
        if self.file.is_none() {
            let above: Vec<&Path> =
                self.path.ancestors().skip(1).take_while(|at| *at != self.folder).collect();
            for folder in above.into_iter().rev() {
                crate::folder_name::make(self.disk, folder)?;
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
