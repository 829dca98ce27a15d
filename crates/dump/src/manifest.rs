//! The manifest: everything a dump consists of. A folder without one is no dump.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use codec::Codec;
use disk::{Disk, Output};
use serde::{Deserialize, Serialize};
use server::catalogue::{Object, Origin, Table};
use server::snapshot::{Position, Way};
use server::{Flavour, Version};

use crate::hash::Sum;
use crate::plan::Range;
use crate::{Error, Format, name};

/// The file's name.
pub(crate) const NAME: &str = "manifest.json";
/// What the first member says.
const FORMAT: &str = "remora dump";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
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
    /// Where it comes from.
    pub source: Source,
    /// Form of the data files.
    pub data_format: Format,
    /// The end of their names, compression included: `tsv.zst`.
    pub data_extension: String,
    /// Condition that all rows meet; `None` for all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Everything but tables, in an order in which it can be made.
    pub objects: Vec<Object>,
    /// Tables.
    pub tables: Vec<TableEntry>,
    /// What the server has and the dump has not, a line for each.
    pub omitted: Vec<String>,
}

/// The server a dump was made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Source {
    /// `mariadb` or `mysql`.
    pub flavour: String,
    /// As the server writes it.
    pub server_version: String,
    /// Its host name.
    pub host: String,
    /// Its `server_id`.
    pub server_id: u64,
    /// Its `lower_case_table_names`.
    pub lower_case_table_names: u8,
    /// How all sessions came to see the same.
    pub snapshot: Way,
    /// Where that state stands in its binary log.
    pub position: Option<Position>,
    /// Where it stands in the binary log of its own source, for a replica: columns of SHOW SLAVE STATUS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replica_of: Vec<(String, String)>,
}

impl Source {
    /// The family.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        if self.flavour == "mariadb" { Flavour::MariaDb } else { Flavour::MySql }
    }

    /// The version as numbers.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::parse(&self.server_version)
    }
}

/// A table, its rows included.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableEntry {
    /// What it is.
    #[serde(flatten)]
    pub table: Table,
    /// The folder of its data files.
    pub folder: String,
    /// Whether old rows of a versioned table are among them.
    pub history: bool,
    /// Whether its rows were to be dumped.
    pub data: bool,
    /// Its data files; they may be loaded in any order, but in this one they are in the order of the key.
    pub chunks: Vec<Chunk>,
    /// Sum of all its rows.
    pub sum: Sum,
}

/// A data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its number, which is its name.
    pub number: u32,
    /// The partition its rows are in; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The part of the key its rows are in; `None` for all.
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
}

impl TableEntry {
    /// The columns in its data files, in order.
    pub(crate) fn columns(&self) -> Vec<&server::catalogue::Column> {
        let wanted = |origin| match origin {
            Origin::Stored => true,
            Origin::RowTime => self.history,
            Origin::Generated | Origin::RowTransaction => false,
        };
        self.table.columns.iter().filter(|column| wanted(column.origin)).collect()
    }
}

impl Manifest {
    /// An empty one.
    pub(crate) fn new(id: String, source: Source, format: Format, codec: Codec) -> Manifest {
        let extension = match codec.extension() {
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
            objects: Vec::new(),
            tables: Vec::new(),
            omitted: Vec::new(),
        }
    }

    /// Where a chunk's file is.
    pub(crate) fn path(&self, folder: &Path, table: &TableEntry, number: u32) -> PathBuf {
        folder.join(&table.folder).join(format!("{number:05}.{}", self.data_extension))
    }

    /// Whether data files are compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.data_extension != self.data_format.extension()
    }

    /// Writes it; from then on the folder is a dump.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self).map_err(|error| corrupt(&path, &error.to_string()))?;
        let mut output = Output::create(disk, &path).map_err(Error::file(&path))?;
        output.write_all(&text).and_then(|()| output.finish()).map_err(Error::file(&path))
    }

    /// Reads it. What it says is checked as far as it could do harm: names of files above all.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is none; [`Error::Mismatch`] when there is none.
    pub fn read(disk: &dyn Disk, folder: &Path) -> Result<Manifest, Error> {
        let path = folder.join(NAME);
        let source = match disk.open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Mismatch(format!(
                    "{}: no {NAME} in it; either this is no dump, or the dump did not come to its end",
                    folder.display()
                )));
            }
            opened => opened.map_err(Error::file(&path))?,
        };
        let mut text = Vec::new();
        let read = source.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(Error::file(&path))?;
        if read as u64 > BYTES_MAX {
            return Err(corrupt(&path, "it is larger than 1 GiB"));
        }
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| corrupt(&path, &error.to_string()))?;
        manifest.check().map_err(|what| corrupt(&path, &what))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("its format is {:?} and not {FORMAT:?}", self.format));
        }
        if self.version != VERSION {
            return Err(format!("it is of version {}; this remora reads version {VERSION}", self.version));
        }
        if self.id.is_empty() || !self.id.bytes().all(|byte| byte.is_ascii_hexdigit()) || self.id.len() > 32 {
            return Err("its id is not hexadecimal".to_owned());
        }
        let known = Codec::ALL.iter().any(|codec| {
            Manifest::new(String::new(), self.source.clone(), self.data_format, *codec).data_extension
                == self.data_extension
        });
        if !known {
            return Err(format!("data files ending in {:?} are not known", self.data_extension));
        }
        self.tables.iter().try_for_each(TableEntry::check)
    }
}

impl TableEntry {
    fn check(&self) -> Result<(), String> {
        let name = &self.table.name;
        if self.folder != name::folder(name) {
            return Err(format!("the folder {:?} is not that of table {name}", self.folder));
        }
        let mut sum = Sum::default();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if chunk.number as usize != number {
                return Err(format!("the chunks of table {name} are not numbered from 0"));
            }
            if let Some(range) = &chunk.range {
                range
                    .check(self.table.key.len())
                    .map_err(|what| format!("table {name}, chunk {number}: {what}"))?;
            }
            sum.add(chunk.sum);
        }
        if sum != self.sum {
            return Err(format!("the sums of the chunks of table {name} do not make the table's"));
        }
        Ok(())
    }
}

fn corrupt(path: &Path, what: &str) -> Error {
    Error::Corrupt { what: what.to_owned(), place: path.display().to_string() }
}
