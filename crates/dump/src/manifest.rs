//! The manifest: everything that a dump consists of. A folder without one is not a dump.

mod check;
mod parquet;
mod seal;
mod source;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use codec::Codec;
use disk::{Disk, Output};
use serde::{Deserialize, Deserializer, Serialize};
use server::catalogue::{Column, Object, Origin, Table};

pub(crate) use parquet::is_of_value;
pub use source::{EarlierState, Source};

use crate::data_file::DataFile;
use crate::data_file::parquet::{OddFile, Part};
use crate::hash::Sum;
use crate::key_range::Range;
use crate::mask::MaskedColumn;
use crate::selection::Selection;
use crate::value_text::PLAIN_VERSION;
use crate::{Error, Format, folder_name};
use progress::count;
use server::quote_name;

/// The file's name.
pub(crate) const NAME: &str = "manifest.json";
/// What is wrong with a folder without that file.
const WITHOUT: &str = "no manifest.json in it; either this is no dump, or the dump did not come to its end";
/// The value of the first member.
const FORMAT: &str = "remora dump";
/// The version that is written. The previous one is read too.
pub(crate) const VERSION: u32 = 2;
/// The folder of data files that hold the rows of many small tables.
pub(crate) const SMALL_TABLES_FOLDER: &str = "together";
/// The folder of values that Parquet can't hold, with a folder for each table.
pub(crate) const ODD_FOLDER: &str = "odd";
/// The codecs of data files.
const CODECS: [Codec; 5] = [Codec::Plain, Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Column];
/// A manifest of a hundred thousand tables stays below this.
const BYTES_MAX: u64 = 1 << 30;

/// What a dump consists of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// `remora dump`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Identifies this dump among others.
    pub id: String,
    /// The server it was made from.
    pub source: Source,
    /// Format of the data files.
    pub data_format: Format,
    /// Their file name extension, including that of the compression: `tsv.zst`.
    pub data_extension: String,
    /// Condition for the rows of all tables that have none of their own; `None` for all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Tells the key of masks from others; `None` where nothing is masked by a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_key: Option<String>,
    /// Whether programs are in the bytes of the client that made them. In older dumps they are in UTF-8, so
    /// that what was not text for that client is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact_programs: bool,
    /// What was selected for the dump; `None` in dumps from before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Earlier states of the server, from which some tables are when the dump was stopped and resumed; the
    /// others are from the state in `source`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierState>,
    /// Everything but tables, in an order in which it can be created.
    pub objects: Vec<Object>,
    /// Tables.
    pub tables: Vec<TableEntry>,
    /// What is on the server but not in the dump, a line for each.
    pub omitted: Vec<String>,
}

/// A table and its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its definition.
    #[serde(flatten)]
    pub table: Table,
    /// Its number in the full manifest, which does not change when only some tables are selected.
    #[serde(skip)]
    pub(crate) place: usize,
    /// The version of the format, which decides what text a value has in a line.
    #[serde(skip)]
    pub(crate) version: u32,
    /// The folder of its data files.
    pub folder: String,
    /// Condition that its rows meet; `None` for all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Columns that have other values than on the source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) masks: BTreeMap<String, MaskedColumn>,
    /// The column whose value is in the names of folders, and in no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_column: Option<String>,
    /// Columns with Bloom filters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bloom: Vec<String>,
    /// Whether historical rows of a versioned table are included.
    pub history: bool,
    /// Whether its rows were selected for the dump.
    pub data: bool,
    /// The number of the earlier state that its rows are from; `None` for the state in [`Source`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<usize>,
    /// Its data files, in the order of the key; they may be loaded in any order.
    pub chunks: Vec<Chunk>,
    /// Sum of all its rows.
    pub sum: Sum,
}

/// A data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its number, which is also its name.
    pub number: u32,
    /// The partitions of its rows; none for any. Version 1 has one or null.
    #[serde(
        default,
        alias = "partition",
        deserialize_with = "some_or_one",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub partitions: Vec<String>,
    /// The range of the key that its rows are in; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// Sum of its rows.
    pub sum: Sum,
    /// Bytes of its rows as lines.
    pub text_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// BLAKE3 of the file, in hexadecimal digits.
    pub blake3: String,
    /// Its place when it shares a file with chunks of other tables; length and BLAKE3 are those of its own
    /// part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<SharedFilePart>,
    /// Its values that are not in its Parquet file but in one beside it; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odd: Option<Box<OddFile>>,
    /// Its files, if its rows are in folders by a column's value. It has no BLAKE3 of its own then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// A place in a file that several tables share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFilePart {
    /// The number of the file.
    pub file: u32,
    /// Bytes before it.
    pub offset: u64,
}

/// A list of names, one name, or none.
fn some_or_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        Some(Vec<String>),
        One(Option<String>),
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::Some(names) => names,
        Names::One(name) => name.into_iter().collect(),
    })
}

impl Chunk {
    /// A chunk that is still to be read.
    pub(crate) fn planned(number: u32, partitions: Vec<String>, range: Option<Range>) -> Chunk {
        Chunk {
            number,
            partitions,
            range,
            sum: Sum::default(),
            text_bytes: 0,
            file_bytes: 0,
            blake3: String::new(),
            within: None,
            odd: None,
            parts: Vec::new(),
        }
    }
}

impl TableEntry {
    /// A table with all its rows.
    pub(crate) fn whole(table: Table) -> TableEntry {
        TableEntry {
            place: 0,
            version: VERSION,
            condition: None,
            masks: BTreeMap::new(),
            folder: folder_name::folder(&table.name),
            partition_column: None,
            bloom: Vec::new(),
            history: table.versioned && table.columns.iter().any(|column| column.origin == Origin::RowTime),
            data: table.holds_rows(),
            earlier: None,
            chunks: Vec::new(),
            sum: Sum::default(),
            table,
        }
    }

    /// Whether its rows are still to be dumped.
    pub(crate) fn is_due(&self) -> bool {
        self.data && self.earlier.is_none()
    }

    /// Whether masks change the key or the partition of rows. Then a chunk of the source has other rows on
    /// the target, and the limits of chunks would show what is masked. Each unique key has all columns by
    /// which a table is partitioned.
    pub(crate) fn moves_rows(&self) -> bool {
        let in_key = |column: &&Column| self.table.key.contains(&column.name);
        let is_moved =
            |column: &Column| self.masks.contains_key(&column.name) || column.origin == Origin::Generated;
        let is_moved_by_partition = self.table.key.is_empty() && !self.table.partitions.is_empty();
        !self.masks.is_empty()
            && (is_moved_by_partition || self.table.columns.iter().filter(in_key).any(is_moved))
    }

    /// A line for each masked column.
    pub(crate) fn masked(&self) -> impl Iterator<Item = String> {
        let line = |(column, masked): (&String, &MaskedColumn)| {
            format!("column {} of table {}: masked by {}", quote_name(column), self.table.name, masked.mask)
        };
        self.masks.iter().map(line)
    }

    /// Bytes of text of all its chunks.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.text_bytes).sum()
    }

    /// Sets its chunks, given in any order.
    pub(crate) fn set_chunks(&mut self, mut chunks: Vec<Chunk>) {
        chunks.sort_by_key(|chunk| chunk.number);
        self.sum = chunks.iter().fold(Sum::default(), |mut sum, chunk| {
            sum.add(chunk.sum);
            sum
        });
        self.chunks = chunks;
    }

    /// The columns in its data files, in order.
    pub(crate) fn columns(&self) -> Vec<&Column> {
        let wanted = |origin| match origin {
            Origin::Stored => true,
            Origin::RowTime => self.history,
            Origin::Generated | Origin::RowTransaction => false,
        };
        self.table.columns.iter().filter(|column| wanted(column.origin)).collect()
    }
}

impl Manifest {
    /// An empty manifest.
    pub(crate) fn new(id: String, source: Source, format: Format, codec: Codec) -> Manifest {
        let extension = match codec.extension() {
            // It is compressed inside.
            _ if format == Format::Parquet => format.extension().to_owned(),
            "" => format.extension().to_owned(),
            end => format!("{}.{end}", format.extension()),
        };
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            id,
            source,
            data_format: format,
            data_extension: extension,
            condition: None,
            mask_key: None,
            exact_programs: true,
            selection: None,
            earlier: Vec::new(),
            objects: Vec::new(),
            tables: Vec::new(),
            omitted: Vec::new(),
        }
    }

    /// For each earlier state a line that lists its tables; empty for a dump that was made in one run.
    #[must_use]
    pub fn states(&self) -> Vec<String> {
        let line = |(at, earlier): (usize, &EarlierState)| {
            let tables: Vec<_> = self.tables.iter().filter(|entry| entry.earlier == Some(at)).collect();
            let first: Vec<_> = tables.iter().take(5).map(|entry| entry.table.name.to_string()).collect();
            let more =
                if tables.len() > 5 { format!(" and {} more", tables.len() - 5) } else { String::new() };
            let position = earlier.position.as_ref().map_or_else(
                || "without a position in the binary log".to_owned(),
                |position| format!("at {}:{} {}", position.file, position.offset, position.gtid),
            );
            format!(
                "the dump was stopped and went on: {} from an earlier state of the server than the rest, {}: {}{more}",
                count(tables.len(), "table"),
                position.trim_end(),
                first.join(", ")
            )
        };
        self.earlier.iter().enumerate().map(line).collect()
    }

    /// Takes over the earlier states of kept tables, and drops states without tables.
    pub(crate) fn set_earlier(&mut self, mut earlier: Vec<EarlierState>) {
        for at in (0..earlier.len()).rev() {
            if self.tables.iter().all(|entry| entry.earlier != Some(at)) {
                earlier.remove(at);
                for entry in &mut self.tables {
                    entry.earlier = entry.earlier.map(|own| own - usize::from(own > at));
                }
            }
        }
        self.earlier = earlier;
    }

    /// The path of a chunk's file; of the table's folder, if the chunk has a file for each value of a column.
    #[must_use]
    pub fn path(&self, folder: &Path, table: &TableEntry, chunk: &Chunk) -> PathBuf {
        match chunk.within {
            None if table.partition_column.is_some() => folder.join(&table.folder),
            None => folder.join(&table.folder).join(format!("{:05}.{}", chunk.number, self.data_extension)),
            Some(within) => self.small_tables_path(folder, within.file),
        }
    }

    /// The path of a file that small tables share.
    pub(crate) fn small_tables_path(&self, folder: &Path, file: u32) -> PathBuf {
        folder.join(SMALL_TABLES_FOLDER).join(format!("{file:05}.{}", self.data_extension))
    }

    /// What to say about a dump whose version proves less than the current one; `None` for a current one.
    #[must_use]
    pub fn age(&self) -> Option<String> {
        (self.version == PLAIN_VERSION).then(|| {
            "the dump is of format 1: its manifest has no hash of itself, and values that format 1 gives one text (an ENUM's \
             '' and its index 0, digits a FLOAT(m,d) does not show, and others) are not told apart"
                .to_owned()
        })
    }

    /// A chunk's file, and what it must contain.
    pub(crate) fn data_file(&self, folder: &Path, table: &TableEntry, chunk: &Chunk) -> DataFile {
        let end = self.data_extension.rsplit('.').next();
        let codec = CODECS.into_iter().find(|codec| Some(codec.extension()) == end).unwrap_or(Codec::Plain);
        DataFile {
            path: self.path(folder, table, chunk),
            offset: chunk.within.map(|within| within.offset),
            codec,
            bytes: chunk.file_bytes,
            blake3: chunk.blake3.clone(),
            text_bytes_max: match self.data_format {
                Format::Tsv | Format::Parquet => chunk.text_bytes,
                // An empty value and its tab become four bytes, a quote becomes two; nothing grows by more.
                Format::Csv => chunk.text_bytes.saturating_mul(4),
                // A statement has a head that names all columns, and a value has a word before it.
                Format::Sql => chunk.text_bytes.saturating_mul(16).saturating_add(1 << 20),
            },
            parquet: (self.data_format == Format::Parquet)
                .then(|| self.parquet_content(folder, table, chunk)),
            parts: table.partition_column.is_some().then(|| self.parts(folder, table, chunk)),
        }
    }

    /// Writes the manifest; from then on the folder is a dump.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self).map_err(|error| corrupt(&path, &error.to_string()))?;
        let text = seal::add(text);
        let mut output = Output::create(disk, &path).map_err(Error::file(&path))?;
        output.write_all(&text).and_then(|()| output.finish()).map_err(Error::file(&path))
    }

    /// Reads the manifest, and checks everything in it that could do harm, above all names of files.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not valid; [`Error::Mismatch`] when there is none.
    pub fn read(disk: &dyn Disk, folder: &Path) -> Result<Manifest, Error> {
        let path = folder.join(NAME);
        let source = match disk.open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let is_there = disk.list(folder).is_ok();
                let why = if is_there { WITHOUT } else { "there is no such folder, or it can't be read" };
                return Err(Error::Mismatch(format!("{}: {why}", folder.display())));
            }
            opened => opened.map_err(Error::file(&path))?,
        };
        let mut text = Vec::new();
        let read = source.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(Error::file(&path))?;
        if read as u64 > BYTES_MAX {
            return Err(corrupt(&path, "it is larger than 1 GiB"));
        }
        let sealed = seal::check(&text).map_err(|what| corrupt(&path, &what))?;
        let mut manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| corrupt(&path, &error.to_string()))?;
        manifest.check().map_err(|what| corrupt(&path, &what))?;
        if !sealed && manifest.version > PLAIN_VERSION {
            return Err(corrupt(&path, "there is no BLAKE3 hash at its end: it was changed or truncated"));
        }
        manifest.restore_derived();
        Ok(manifest)
    }

    /// Sets the version of every table.
    pub(crate) fn restore_derived(&mut self) {
        for entry in &mut self.tables {
            entry.version = self.version;
            if self.version == PLAIN_VERSION {
                entry.condition.clone_from(&self.condition);
            }
        }
    }
}

pub(crate) fn corrupt(path: &Path, what: &str) -> Error {
    Error::Corrupt { what: what.to_owned(), place: path.display().to_string() }
}
