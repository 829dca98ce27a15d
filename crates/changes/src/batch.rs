//! The files of a part of the log, which get their names together.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use binlog::event::table::Table;
use disk::{Disk, Output};
use server::TableName;

use crate::cell::{self, Column};
use crate::format::Format;
use crate::position::LogPosition;
use crate::sink::{Changed, Source};
use crate::{json, parquet};

/// The folder of statements that were logged as such. Engines leave out names that begin so.
const STATEMENTS: &str = "_statements";

/// What is behind the name of a file of JSON lines.
const JSONL: &str = "jsonl";

/// The files that are being written, none of which has its name yet.
pub(crate) struct Batch<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    format: Format,
    /// Where it begins.
    from: LogPosition,
    tables: BTreeMap<TableName, TableFile<'a>>,
    /// Files of tables that were altered since.
    closed: Vec<Contents<'a>>,
    statements: Option<BufWriter<Output<'a>>>,
    pub(crate) rows: u64,
}

/// The file of a table.
struct TableFile<'a> {
    /// The table when it was described last.
    described: Rc<Table>,
    columns: Vec<Column>,
    contents: Contents<'a>,
}

/// What is in a file.
enum Contents<'a> {
    Lines(BufWriter<Output<'a>>, Vec<u8>),
    Parquet(Box<parquet::File<BufWriter<Output<'a>>>>),
}

impl<'a> Contents<'a> {
    fn complete(self) -> Result<Output<'a>> {
        let written = match self {
            Contents::Lines(lines, _) => lines,
            Contents::Parquet(file) => file.finish()?,
        };
        Ok(written.into_inner().map_err(io::IntoInnerError::into_error)?)
    }
}

impl<'a> Batch<'a> {
    /// One that begins at this position.
    pub(crate) fn new(disk: &'a dyn Disk, folder: &'a Path, format: Format, from: LogPosition) -> Batch<'a> {
        let (tables, closed, statements, rows) = (BTreeMap::new(), Vec::new(), None, 0);
        Batch { disk, folder, format, from, tables, closed, statements, rows }
    }

    /// How many files it has.
    pub(crate) fn files(&self) -> usize {
        self.tables.len() + self.closed.len() + usize::from(self.statements.is_some())
    }

    /// The columns of a table, which has a file from now on. A table that was altered gets another file, with
    /// the position of the transaction.
    ///
    /// # Errors
    /// What the log does not say of the table; errors of the disk.
    pub(crate) fn columns(&mut self, table: &Rc<Table>, position: &LogPosition) -> Result<Rc<[Column]>> {
        let name = TableName { schema: table.schema.clone(), table: table.name.clone() };
        if let Some(known) = self.tables.get_mut(&name) {
            if Rc::ptr_eq(&known.described, table) {
                return Ok(known.columns.clone().into());
            }
            let columns = cell::columns(table).map_err(anyhow::Error::msg)?;
            if columns == known.columns {
                known.described = Rc::clone(table);
                return Ok(columns.into());
            }
        }
        let altered = self.tables.remove(&name);
        let begin = if altered.is_some() { position } else { &self.from };
        let columns = cell::columns(table).map_err(anyhow::Error::msg)?;
        let folder = self.folder.join(dump::folder_name(&name));
        let contents = match self.format {
            Format::Jsonl => Contents::Lines(self.create(&folder, begin, JSONL)?, Vec::new()),
            Format::Parquet => {
                let output = self.create(&folder, begin, "parquet")?;
                Contents::Parquet(Box::new(parquet::File::new(output, &columns)?))
            }
        };
        self.closed.extend(altered.map(|altered| altered.contents));
        let described = Rc::clone(table);
        self.tables.insert(name, TableFile { described, columns: columns.clone(), contents });
        Ok(columns.into())
    }

    fn create(&self, folder: &Path, begin: &LogPosition, end: &str) -> Result<BufWriter<Output<'a>>> {
        let path: PathBuf = folder.join(format!("{}.{end}", begin.name()));
        let create = || {
            self.disk.make_folder(folder)?;
            Output::create(self.disk, &path)
        };
        Ok(BufWriter::new(create().with_context(|| path.display().to_string())?))
    }

    /// Adds a change. Returns the number of the next row of the transaction.
    ///
    /// # Errors
    /// Why it can't be written.
    pub(crate) fn change(&mut self, source: &Source<'_>, changed: &Changed<'_>) -> Result<u64> {
        let name = TableName { schema: source.schema.to_owned(), table: source.table.to_owned() };
        let file = self.tables.get_mut(&name).context("no file was begun")?;
        let wrong = |why: String| {
            anyhow::anyhow!("a row of {name}, in the transaction at {}: {why}", source.position)
        };
        let count = match &mut file.contents {
            Contents::Lines(output, line) => {
                line.clear();
                json::line(source, &file.columns, changed, line).map_err(wrong)?;
                output.write_all(line)?;
                1
            }
            Contents::Parquet(parquet) => parquet.change(source, &file.columns, changed).map_err(wrong)?,
        };
        self.rows += 1;
        Ok(changed.row + count)
    }

    /// Adds a statement.
    pub(crate) fn statement(&mut self, line: &serde_json::Value) -> Result<()> {
        if self.statements.is_none() {
            let folder = self.folder.join(STATEMENTS);
            self.statements = Some(self.create(&folder, &self.from, JSONL)?);
        }
        if let Some(statements) = &mut self.statements {
            writeln!(statements, "{line}")?;
        }
        Ok(())
    }

    /// Completes all files. They have no names yet.
    pub(crate) fn complete(self) -> Result<Vec<Output<'a>>> {
        let files = self.tables.into_values().map(|file| file.contents);
        let mut outputs: Vec<Output<'a>> =
            self.closed.into_iter().chain(files).map(Contents::complete).collect::<Result<_>>()?;
        if let Some(statements) = self.statements {
            outputs.push(statements.into_inner().map_err(io::IntoInnerError::into_error)?);
        }
        Ok(outputs)
    }
}
