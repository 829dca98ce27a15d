//! Tells whether files can be trusted: whether a server has written everything to them.

use std::path::Path;

use disk::Disk;
use innodb::page::{PAGE_BYTES, Page, Pages};
use innodb::redo::{Log, START};
use innodb::transaction::{self, State, TRX_SYS_PAGE};
use progress::count;

use crate::error::io;
use crate::source::{Source, TableFiles};
use crate::{Error, File};

/// Bytes of the log after the last checkpoint that are examined: more than any single change has.
const TAIL_BYTES: usize = 4 << 20;

/// Whether the files can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A server that was shut down left them, or exported them.
    Whole,
    /// They may show different moments; with the reason.
    Doubtful(String),
}

impl Source {
    /// Whether the files of these tables can be trusted.
    #[must_use]
    pub fn judge(&self, disk: &dyn Disk, tables: &[&TableFiles]) -> Verdict {
        let Some(loose) = tables.iter().find(|table| !table.exported) else { return Verdict::Whole };
        let told = match &self.data {
            None => Some(format!(
                "there is no {}.cfg beside it, so nothing says that the server wrote all of it: stop the server, or copy \
                 the files while FLUSH TABLES {}.{} FOR EXPORT holds",
                loose.name, loose.schema, loose.name
            )),
            Some(data) => doubt(disk, data).unwrap_or_else(|error| Some(error.to_string())),
        };
        told.map_or(Verdict::Whole, Verdict::Doubtful)
    }
}

/// Why a data folder is not that of a server that was shut down, if so.
fn doubt(disk: &dyn Disk, data: &Path) -> Result<Option<String>, Error> {
    let system = data.join("ibdata1");
    let opened = disk.open(&system).map_err(io(&system))?;
    if opened.is_written_to() == Some(true) {
        return Ok(Some(format!(
            "a server is running on {}: stop it, or name files of FLUSH TABLES ... FOR EXPORT",
            data.display()
        )));
    }
    if !is_log_at_end(disk, data)? {
        return Ok(Some(format!(
            "the server on {} was not stopped but killed, or this is a copy of its files while it ran: the redo log \
             has changes that the tables have not. Start a server on it, or on a copy, and stop it again",
            data.display()
        )));
    }
    Ok(match unfinished(disk, data)? {
        0 => None,
        number => Some(format!(
            "the tables have changes of {} that {} neither committed nor rolled back. Start a server on it; XA RECOVER \
             lists the prepared ones",
            count(number, "transaction"),
            if number == 1 { "was" } else { "were" },
        )),
    })
}

fn is_log_at_end(disk: &dyn Disk, data: &Path) -> Result<bool, Error> {
    let path = data.join("ib_logfile0");
    let file = disk.open(&path).map_err(io(&path))?;
    let len = file.stat().map_err(io(&path))?.len;
    let mut head = vec![0; START];
    let filled = file.read_full_at(0, &mut head).map_err(io(&path))?;
    head.truncate(filled);
    let log = Log::parse(&head, len).map_err(|source| Error::File { path: path.clone(), source })?;
    let mut tail = vec![0; TAIL_BYTES];
    let filled = file.read_full_at(log.place(), &mut tail).map_err(io(&path))?;
    // After its last byte the log continues at its beginning.
    let more = file.read_full_at(START as u64, &mut tail[filled..]).map_err(io(&path))?;
    tail.truncate(filled + more);
    Ok(log.is_at_end(&tail))
}

/// The number of transactions that are neither committed nor rolled back.
fn unfinished(disk: &dyn Disk, data: &Path) -> Result<u64, Error> {
    let mut system = File::open(disk, &data.join("ibdata1"))?;
    let segments = page(&mut system, TRX_SYS_PAGE)?;
    let segments = transaction::rollback_segments(&segments)?;
    let mut found = 0;
    let mut spaces = vec![system];
    for name in disk.list(data).map_err(io(data))? {
        let is_undo = name.to_str().is_some_and(|name| name.starts_with("undo"));
        if is_undo && let Ok(file) = File::open(disk, &data.join(&name)) {
            spaces.push(file);
        }
    }
    for (space, number) in segments {
        let Some(file) = spaces.iter_mut().find(|file| file.space().id == space) else {
            let path = data.join(format!("undo{space:03}"));
            return Err(Error::Missing(format!(
                "{}: the undo tablespace {space} is missing",
                path.display()
            )));
        };
        let segment = page(file, number)?;
        for number in transaction::undo_logs(&segment) {
            let undo = page(file, number)?;
            found += u64::from(transaction::state(&undo, number)? != State::Over);
        }
    }
    Ok(found)
}

fn page(file: &mut File, number: u32) -> Result<Box<Page>, Error> {
    let path = file.path().to_owned();
    let mut copy = Box::new([0; PAGE_BYTES]);
    copy.copy_from_slice(file.page(number).map_err(|error| error.of(&path))?);
    Ok(copy)
}
