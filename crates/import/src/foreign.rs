//! Opens files with typed columns that other programs wrote (Parquet, Arrow IPC), which are read as text.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use disk::{Disk, Source, Stat};
use parquet_rows::foreign::{Format, Input, MAGIC_BYTES, Options, Table};

use crate::Error;
use crate::request::Request;

/// A file of a disk.
struct DiskInput {
    file: Box<dyn Source>,
    length: u64,
    /// Bytes that were used since somebody looked.
    used: Arc<Mutex<u64>>,
}

impl Input for DiskInput {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_full_at(at, buffer)
    }

    fn used(&self, bytes: u64) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
    }
}

/// What a request says about such files.
pub(crate) fn options(request: &Request) -> Options {
    Options {
        nested_json: request.nested_json,
        int96: request.int96,
        fields: request.hints.json_keys.as_ref().map(|json| json.keys.clone()),
        in_path: Vec::new(),
    }
}

/// The columns that the folders of a file are named for, as by Hive: `day=2026-11-28`.
///
/// # Errors
/// When there are none.
pub(crate) fn columns_in_path(path: &Path) -> Result<Vec<(String, Option<String>)>, Error> {
    let column = |folder: &Path| parquet_rows::parse_folder_name(folder.file_name()?.to_str()?);
    let mut columns: Vec<_> = path.ancestors().skip(1).map_while(column).collect();
    columns.reverse();
    if columns.is_empty() {
        let name = path.display();
        return Err(Error::Mismatch(format!("--hive: {name} is in no folder that is named COLUMN=VALUE")));
    }
    Ok(columns)
}

/// The columns of a file, if it is such a file.
pub(crate) fn open(
    disk: &dyn Disk,
    (path, stat): (&Path, &Stat),
    options: &Options,
) -> Result<Option<Arc<Table>>, Error> {
    let name = || path.display().to_string();
    let failed = |source| Error::Read { name: name(), source };
    let file = disk.open(path).map_err(failed)?;
    let mut magic = [0; MAGIC_BYTES];
    let count = file.read_full_at(0, &mut magic).map_err(failed)?;
    let Some(format) = Format::of(magic.get(..count).unwrap_or_default()) else { return Ok(None) };
    let input = DiskInput { file, length: stat.len, used: Arc::default() };
    let table = Table::open(&input, format, options);
    table.map(|table| Some(Arc::new(table))).map_err(|error| failed(error.into()))
}

/// Text that is made of a file.
pub(crate) struct TypedText {
    pub(crate) reader: Box<dyn Read + Send>,
    /// Bytes of the file that were read since somebody looked.
    pub(crate) used: Arc<Mutex<u64>>,
}

/// The rows of a file as text, and the bytes of the file that were read for it.
pub(crate) fn lines(
    disk: &dyn Disk,
    (path, stat): (&Path, &Stat),
    table: &Arc<Table>,
) -> io::Result<TypedText> {
    let used = Arc::default();
    let input = DiskInput { file: disk.open(path)?, length: stat.len, used: Arc::clone(&used) };
    Ok(TypedText { reader: Box::new(table.lines(Arc::new(input))), used })
}

/// Makes the text of a later file like that of the first one.
///
/// # Errors
/// When its columns are others, or only one of both files has typed columns.
pub(crate) fn same(
    (first, first_name): (Option<&Arc<Table>>, &str),
    (own, name): (Option<&mut Arc<Table>>, &str),
) -> Result<(), Error> {
    let is_typed = own.is_some();
    let (Some(first), Some(own)) = (first, own) else {
        let (typed, text) = if is_typed { (name, first_name) } else { (first_name, name) };
        return Err(Error::Mismatch(format!(
            "{typed} is a file with typed columns, {text} is a text file: import them one by one"
        )));
    };
    let table = Arc::get_mut(own).ok_or_else(|| Error::Mismatch(format!("{name} is in use")))?;
    table.like(first).map_err(|error| Error::Mismatch(format!("{name}: {error} ({first_name})")))
}
