//! The log that the private server writes itself.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use binlog::event::format::Format;
use binlog::event::table::Table;
use binlog::event::{Body, Change};
use binlog::reader::Reader;
use binlog::row::{self, Row};
use binlog::tables::Tables;
use transactions::{FileSource, LogFile};

/// The beginning of the names of its files.
const NAME: &str = "own";

/// A log that is read as it grows.
pub(crate) struct OwnLog {
    folder: PathBuf,
    number: u32,
    at: u64,
    format: Format,
    /// The body of its first event.
    pub described: Vec<u8>,
    tables: Tables,
}

/// The options with which a server writes such a log in a folder.
pub(crate) fn options(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.to_str().context("the folder's name is not UTF-8")?;
    Ok(vec![
        format!("--log-bin={folder}/{NAME}"),
        "--binlog-format=ROW".to_owned(),
        "--binlog-row-image=FULL".to_owned(),
        "--binlog-row-metadata=FULL".to_owned(),
        "--log-bin-compress=OFF".to_owned(),
        "--encrypt-binlog=OFF".to_owned(),
        "--log-slave-updates=OFF".to_owned(),
        "--sync-binlog=0".to_owned(),
        // A log that is replayed may make functions.
        "--log-bin-trust-function-creators=1".to_owned(),
    ])
}

impl OwnLog {
    /// Opens the log in a folder, which a server has begun. What is in it already is not read.
    pub(crate) fn open(folder: &Path) -> Result<OwnLog> {
        let mut log = OwnLog {
            folder: folder.to_owned(),
            number: 1,
            at: 0,
            format: Format::without_sums(),
            described: Vec::new(),
            tables: Tables::default(),
        };
        let mut reader = Reader::open(FileSource::open(&log.file(), 0)?)?;
        let first = reader.next()?.context("the private server writes no log")?;
        log.described = first.body.to_vec();
        log.format = reader.format().clone();
        log.at = reader.position();
        log.read(|_, _, _| Ok(()))?;
        Ok(log)
    }

    fn file(&self) -> LogFile {
        LogFile::new(self.folder.join(format!("{NAME}.{:06}", self.number)))
    }

    /// The rows that were written since it was read last.
    pub(crate) fn read(
        &mut self,
        mut take: impl FnMut(&Rc<Table>, Change, Row<'_>) -> Result<()>,
    ) -> Result<()> {
        loop {
            let mut reader =
                Reader::at(FileSource::open(&self.file(), self.at)?, self.at, self.format.clone());
            let mut is_whole = false;
            while let Some(event) = reader.next()? {
                if self.tables.take(&event, |_| ())?.is_some() {
                    continue;
                }
                match event.parse()? {
                    Body::Rows(rows) => {
                        let Some(table) = self.tables.get(rows.table_id) else { continue };
                        for row in row::rows(&rows, &table, event.place())? {
                            take(&table, rows.change, row?)?;
                        }
                    }
                    Body::Rotate(_) => is_whole = true,
                    _ => {}
                }
            }
            self.at = reader.position();
            if !is_whole {
                return Ok(());
            }
            self.number += 1;
            self.at = binlog::event::MAGIC.len() as u64;
        }
    }
}
