//! A file to lines.

use std::io;

use parquet::column::reader::ColumnReader;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::Error;
use crate::column::{Column, Columns};
use crate::kind::Kind;
use crate::leaf::Leaf;
use crate::line::{NULL, OddValue};
use crate::value::Value;

/// Rows that are read at once.
const BATCH_ROWS: usize = 4096;
/// Bytes of lines that are passed on at once.
const BLOCK_BYTES: usize = 128 << 10;

/// The odd values of a file, in the order of rows, then columns.
pub type OddValues<'a> = &'a mut dyn Iterator<Item = io::Result<OddValue>>;

/// Takes pieces of lines.
pub type OnLines<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Reads a file that a [`Writer`](crate::Writer) has written.
pub struct Reader<R: ChunkReader + 'static> {
    file: SerializedFileReader<R>,
    columns: Columns,
    path_text: Vec<u8>,
}

impl<R: ChunkReader + 'static> Reader<R> {
    /// Opens a file with the rows of these columns. `path_text`: as [`Options::path_text`](crate::Options).
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it has other columns; [`Error::Parquet`] if it is no such file.
    pub fn open(file: R, columns: &[Column], path_text: &[u8]) -> Result<Reader<R>, Error> {
        let columns = Columns::new(columns)?;
        let file = SerializedFileReader::new(file)?;
        if file.metadata().file_metadata().schema().get_fields() != columns.schema.get_fields() {
            return Err(Error::Corrupt("its columns are not those of the table".to_owned()));
        }
        Ok(Reader { file, columns, path_text: path_text.to_owned() })
    }

    /// Passes the lines on, in pieces cut anywhere.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for rows or odd values that do not fit; errors of reading and of `each`.
    pub fn lines(&self, odd: OddValues<'_>, each: OnLines<'_>) -> Result<(), Error> {
        let mut leaves: Vec<Vec<Leaf>> = self.columns.kinds.iter().map(|kind| kind.leaves()).collect();
        let mut lines = Lines { odd: odd.peekable(), row: 0, out: Vec::new(), text: Vec::new(), each };
        let mut scratch = Vec::new();
        for group in 0..self.file.num_row_groups() {
            let group = self.file.get_row_group(group)?;
            let mut readers: Vec<ColumnReader> =
                (0..group.num_columns()).map(|at| group.get_column_reader(at)).collect::<Result<_, _>>()?;
            loop {
                let mut counts = leaves
                    .iter_mut()
                    .flatten()
                    .zip(&mut readers)
                    .map(|(leaf, reader)| leaf.read(reader, BATCH_ROWS));
                let rows = counts.next().transpose()?.unwrap_or(0);
                for count in counts {
                    if count? != rows {
                        return Err(Error::Corrupt("its columns have different numbers of rows".to_owned()));
                    }
                }
                if rows == 0 {
                    break;
                }
                for _ in 0..rows {
                    self.line(&mut leaves, &mut scratch, &mut lines)?;
                }
            }
        }
        match lines.odd.next().transpose()? {
            Some(_) => Err(stray()),
            None => Ok((lines.each)(&lines.out)?),
        }
    }

    fn line(
        &self,
        leaves: &mut [Vec<Leaf>],
        scratch: &mut Vec<u8>,
        lines: &mut Lines<'_, '_>,
    ) -> Result<(), Error> {
        for (column, (kind, leaves)) in self.columns.kinds.iter().zip(leaves).enumerate() {
            if column > 0 {
                lines.out.push(b'\t');
            }
            let Some(value) = next(kind, leaves, scratch) else {
                match lines.take_odd(column)? {
                    Some(odd) => lines.out.extend_from_slice(&odd),
                    None if matches!(kind, Kind::InPath) => lines.out.extend_from_slice(&self.path_text),
                    None => lines.out.extend_from_slice(NULL),
                }
                continue;
            };
            lines.text.clear();
            if !kind.print(value, &mut lines.text) {
                return Err(Error::Corrupt("a value is not one of its column's type".to_owned()));
            }
            rows::write_load_data(Some(&lines.text), &mut lines.out);
        }
        lines.out.push(b'\n');
        lines.row += 1;
        if lines.out.len() >= BLOCK_BYTES {
            (lines.each)(&lines.out)?;
            lines.out.clear();
        }
        Ok(())
    }
}

/// Lines on their way out.
struct Lines<'o, 'e> {
    odd: std::iter::Peekable<OddValues<'o>>,
    row: u64,
    out: Vec<u8>,
    /// A value before it is escaped.
    text: Vec<u8>,
    each: OnLines<'e>,
}

impl Lines<'_, '_> {
    /// The odd value at this place, if it is one.
    fn take_odd(&mut self, column: usize) -> Result<Option<Vec<u8>>, Error> {
        let place = (self.row, column);
        let is_here = match self.odd.peek() {
            Some(Ok(odd)) if (odd.row, odd.column) < place => return Err(stray()),
            Some(Ok(odd)) => (odd.row, odd.column) == place,
            Some(Err(_)) => true,
            None => false,
        };
        if !is_here {
            return Ok(None);
        }
        Ok(self.odd.next().transpose()?.map(|odd| odd.text))
    }
}

fn stray() -> Error {
    Error::Corrupt("a value beside the file is not for a NULL in it".to_owned())
}

/// The value of the next row of a column, which has these fields.
fn next<'a>(kind: &Kind, leaves: &'a mut [Leaf], scratch: &'a mut Vec<u8>) -> Option<Value<'a>> {
    match (kind, leaves) {
        (Kind::Geometry, [shape, srid]) => {
            let srid = match srid.next(scratch) {
                Some(Value::Int64(srid)) => u32::try_from(srid).ok(),
                _ => None,
            };
            match (shape.next(scratch), srid) {
                (Some(Value::Bytes(shape)), Some(srid)) => Some(Value::Geometry(srid, shape)),
                _ => None,
            }
        }
        (_, [leaf, ..]) => leaf.next(scratch),
        _ => None,
    }
}
