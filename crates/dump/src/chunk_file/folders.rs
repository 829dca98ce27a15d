//! Writes the rows of a chunk into a file for each value of a column, in folders that are named as by Hive.
//!
//! The server sends the rows in the order of that column. So one file is open at a time, besides that of
//! NULL, however many values there are.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use disk::{Disk, Output};
use parquet_rows::Column;
use server::quote_name;

use super::parquet::{ParquetFile, Place, Slot};
use crate::data_file::Written;
use crate::data_file::parquet::Part;
use crate::folder_name;
use crate::manifest::Chunk;

/// A table has at most this many folders. Engines list them all, and Hive makes no more than a tenth.
const FOLDERS_MAX: usize = 10_000;
/// The memory of a longer line is not kept for the next one.
const LINE_BYTES: usize = 1 << 20;
/// NULL in a line.
const NULL: &[u8] = b"\\N";

/// The names of a table's folders, which its chunks share.
#[derive(Default)]
pub(crate) struct FolderNames(Mutex<BTreeSet<String>>);

/// Writes a chunk.
pub(crate) struct Folders<'a, W> {
    to: W,
    place: Place<'a>,
    names: &'a FolderNames,
    chunk: Chunk,
    level: u32,
    /// The column, and where it is in a line.
    column: Column,
    at: usize,
    /// The beginning of a row whose end has not come yet.
    begun: Vec<u8>,
    /// The text of the column in the last row.
    last: Option<Vec<u8>>,
    /// The file of the last value, and that of NULL and of values that no folder can be named for.
    of_value: Option<OpenFile<'a>>,
    of_null: Option<OpenFile<'a>>,
    is_null: bool,
    values: BTreeSet<String>,
    parts: Vec<Part>,
}

struct OpenFile<'a> {
    file: Box<ParquetFile<'a, Output<'a>>>,
    part: Part,
}

impl<'a, W: Write + Send> Folders<'a, W> {
    /// The files of a chunk of a table with a partition column.
    pub(crate) fn new(
        to: W,
        (place, names): (Place<'a>, &'a FolderNames),
        chunk: &Chunk,
        level: u32,
    ) -> io::Result<Folders<'a, W>> {
        let columns = place.entry.parquet_columns();
        let found = columns.into_iter().enumerate().find(|(_, column)| column.is_in_path);
        let (at, column) = found.ok_or_else(|| io::Error::other("the table has no partition column"))?;
        Ok(Folders {
            to,
            place,
            names,
            chunk: chunk.clone(),
            level,
            column,
            at,
            begun: Vec::new(),
            last: None,
            of_value: None,
            of_null: None,
            is_null: false,
            values: BTreeSet::new(),
            parts: Vec::new(),
        })
    }

    /// Takes a piece of the lines, cut anywhere.
    pub(crate) fn lines(&mut self, mut piece: &[u8]) -> io::Result<()> {
        if !self.begun.is_empty() {
            let Some(end) = memchr::memchr(b'\n', piece) else {
                self.begun.extend_from_slice(piece);
                return Ok(());
            };
            let mut line = std::mem::take(&mut self.begun);
            line.extend_from_slice(&piece[..=end]);
            self.whole_lines(&line)?;
            line.clear();
            if line.capacity() <= LINE_BYTES {
                self.begun = line;
            }
            piece = &piece[end + 1..];
        }
        let whole = memchr::memrchr(b'\n', piece).map_or(0, |end| end + 1);
        self.whole_lines(&piece[..whole])?;
        self.begun.extend_from_slice(&piece[whole..]);
        Ok(())
    }

    /// Writes lines, as many at once as have the same value.
    fn whole_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let (mut from, mut start, mut rows) = (0, 0, 0);
        for end in memchr::memchr_iter(b'\n', lines) {
            let text = value(&lines[start..end], self.at);
            if self.last.as_deref() != Some(text) {
                self.write(&lines[from..start], rows)?;
                (from, rows) = (start, 0);
                self.begin(text)?;
            }
            start = end + 1;
            rows += 1;
        }
        self.write(&lines[from..start], rows)
    }

    fn write(&mut self, lines: &[u8], rows: u64) -> io::Result<()> {
        let to = if self.is_null { &mut self.of_null } else { &mut self.of_value };
        let Some(OpenFile { file, part }) = to else { return Ok(()) };
        part.rows += rows;
        part.text_bytes += lines.len() as u64;
        file.lines(lines)
    }

    /// Makes the file of a value the one that lines go to.
    fn begin(&mut self, text: &[u8]) -> io::Result<()> {
        let value = if text == NULL { None } else { self.column.path_value(text) };
        self.last = Some(text.to_owned());
        self.is_null = value.is_none();
        let Some(value) = value else {
            if self.of_null.is_none() {
                self.of_null = Some(self.open(None)?);
            }
            return Ok(());
        };
        self.parts.extend(self.of_value.take().map(OpenFile::end).transpose()?);
        // Its file would take the place of the first one.
        if !self.values.insert(value.clone()) {
            let column = quote_name(&self.column.name);
            return Err(io::Error::other(format!("the server sends rows in no order of column {column}")));
        }
        self.of_value = Some(self.open(Some(value))?);
        Ok(())
    }

    fn open(&self, value: Option<String>) -> io::Result<OpenFile<'a>> {
        let Place { disk, folder, manifest, entry, .. } = self.place;
        let path = manifest.part_path(folder, entry, &self.chunk, value.as_deref());
        self.names.make(disk, path.parent().unwrap_or(folder), &|| {
            format!(
                "column {} of table {} has more than {FOLDERS_MAX} values, and each is a folder: partition by a \
                 column with fewer, or leave rows out with --where",
                quote_name(&self.column.name),
                entry.table.name
            )
        })?;
        let slot = Slot {
            path_text: self.column.path_text(value.as_deref()).unwrap_or_default(),
            odd_path: manifest.part_odd_path(folder, entry, &self.chunk, value.as_deref()),
        };
        let file =
            ParquetFile::new(Output::create(disk, &path)?, self.place, (&self.chunk, slot), self.level)?;
        Ok(OpenFile { file: Box::new(file), part: Part::planned(value) })
    }

    /// Completes all files, and returns the sink.
    pub(crate) fn end(mut self) -> io::Result<(Written, W)> {
        for open in [self.of_value.take(), self.of_null.take()].into_iter().flatten() {
            self.parts.push(open.end()?);
        }
        let bytes = self.parts.iter().map(|part| part.file_bytes).sum();
        Ok((Written { bytes, blake3: String::new(), odd: None, parts: self.parts }, self.to))
    }
}

impl OpenFile<'_> {
    fn end(self) -> io::Result<Part> {
        let (written, output) = self.file.end()?;
        output.finish()?;
        Ok(Part {
            file_bytes: written.bytes,
            blake3: written.blake3,
            odd: written.odd.map(Box::new),
            ..self.part
        })
    }
}

impl FolderNames {
    /// Makes a folder if no other chunk has. `too_many` says why there can't be more.
    fn make(&self, disk: &dyn Disk, folder: &Path, too_many: &dyn Fn() -> String) -> io::Result<()> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = folder.to_string_lossy().into_owned();
        if names.contains(&name) {
            return Ok(());
        }
        if names.len() == FOLDERS_MAX {
            return Err(io::Error::other(too_many()));
        }
        folder_name::make(disk, folder)?;
        names.insert(name);
        Ok(())
    }
}

/// The text of a column in a line.
fn value(line: &[u8], at: usize) -> &[u8] {
    let mut ends = memchr::memchr_iter(b'\t', line);
    let from = match at.checked_sub(1) {
        None => 0,
        Some(before) => ends.nth(before).map_or(line.len(), |end| end + 1),
    };
    &line[from..ends.next().unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use disk::RealDisk;

    use super::*;

    #[test]
    fn a_table_has_no_more_folders_than_readers_can_list() {
        let place = tempfile::tempdir().unwrap();
        let names = FolderNames::default();
        let make = |name: &str| names.make(&RealDisk, &place.path().join(name), &|| "too many".to_owned());
        make("k=1").unwrap();
        make("k=1").unwrap();
        std::fs::create_dir(place.path().join("k=2")).unwrap();
        make("k=2").unwrap();
        let others = (2..FOLDERS_MAX).map(|number| format!("other {number}"));
        names.0.lock().unwrap().extend(others);
        make("k=1").unwrap();
        assert_eq!(make("k=3").unwrap_err().to_string(), "too many");
        assert!(!place.path().join("k=3").exists());
    }

    #[test]
    fn a_value_is_found_in_a_line() {
        let line = b"1\t\\N\ttext";
        assert_eq!([0, 1, 2].map(|at| value(line, at)), [&b"1"[..], b"\\N", b"text"]);
        assert_eq!(value(b"", 0), b"");
    }
}
