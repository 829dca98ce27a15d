//! Checks whether table files are consistent: whether the server had written everything to them.

use std::fmt;
use std::io::Read;
use std::path::Path;

use disk::Disk;
use innodb::export::{Export, sdi_space_id};
use innodb::page::{PAGE_BYTES, Page, Pages};
use innodb::redo::blocks::{self, LogFile};
use innodb::redo::{Log, START_OFFSET};
use innodb::transaction::{self, ROLLBACK_SEGMENTS_PAGE, State, TRX_SYS_PAGE};
use progress::count;

use crate::error::io;
use crate::source::{Source, TableFiles};
use crate::{Error, File};

/// Bytes of the log after the last checkpoint that are examined: more than any single change has.
const TAIL_BYTES: usize = 4 << 20;

/// The folder with MySQL's redo log, and the beginnings of its files' names.
const REDO_FOLDER: &str = "#innodb_redo";
const REDO_FILE: &str = "#ib_redo";

/// Whether table files are consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The server was shut down cleanly, or it exported them.
    Consistent,
    /// They may be from different points in time.
    Inconsistent(Inconsistency),
}

/// Why table files are not consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// What was found.
    pub what: String,
    /// What to do about it; empty if that is not known.
    pub advice: String,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.advice.is_empty() { "" } else { ": " };
        write!(f, "{}{between}{}", self.what, self.advice)
    }
}

impl Source {
    /// Whether the files of these tables are consistent.
    #[must_use]
    pub fn check_consistency(&self, disk: &dyn Disk, tables: &[&TableFiles]) -> Consistency {
        // In a data folder a .cfg proves nothing: it stays there after IMPORT TABLESPACE.
        let told = match &self.data {
            None => tables.iter().find_map(|table| loose(disk, table)),
            Some(data) if !tables.is_empty() => doubt(disk, data).unwrap_or_else(|error| {
                Some(Inconsistency { what: error.to_string(), advice: String::new() })
            }),
            Some(_) => None,
        };
        told.map_or(Consistency::Consistent, Consistency::Inconsistent)
    }
}

/// Why the files of a table outside a data folder are not a complete export, if so.
fn loose(disk: &dyn Disk, table: &TableFiles) -> Option<Inconsistency> {
    let what = if table.exported {
        table.files.iter().find_map(|file| stale(disk, file))?
    } else {
        format!("there is no {}.cfg next to it to show that the server had written everything", table.name)
    };
    let advice = format!(
        "stop the server, or copy the files while FLUSH TABLES {}.{} FOR EXPORT holds",
        table.schema, table.name
    );
    Some(Inconsistency { what, advice })
}

/// Why a file's `.cfg` does not vouch for it, if so. A file that can't be read is reported when its rows are
/// read.
fn stale(disk: &dyn Disk, path: &Path) -> Option<String> {
    if disk.open(path).is_ok_and(|file| file.is_written_to() == Some(true)) {
        return Some(format!("a server has {} open", path.display()));
    }
    let cfg = path.with_extension("cfg");
    let mut bytes = Vec::new();
    let read = disk.open(&cfg).and_then(|mut file| file.read_to_end(&mut bytes));
    let own = File::open(disk, path).ok()?.space().id;
    // A newer version than ours has the tablespace, too.
    let newer = sdi_space_id(&bytes);
    match read.map(|_| Export::parse(bytes)) {
        Ok(Ok(export)) if export.space_id == Some(own) => None,
        Ok(Err(innodb::Error::Unsupported(_))) if newer == Some(own) => None,
        Ok(Err(innodb::Error::Unsupported(_))) if newer.is_none() => {
            Some(format!("{} does not say which tablespace it belongs to", cfg.display()))
        }
        Ok(Ok(_) | Err(innodb::Error::Unsupported(_))) => Some(format!(
            "{} belongs to another tablespace, as IMPORT TABLESPACE leaves it, and does not show that all of {} was written",
            cfg.display(),
            path.display()
        )),
        Ok(Err(error)) => Some(format!("{}: {error}", cfg.display())),
        Err(error) => Some(format!("{}: {error}", cfg.display())),
    }
}

/// Why a data folder is not that of a server that was shut down cleanly, if so.
fn doubt(disk: &dyn Disk, data: &Path) -> Result<Option<Inconsistency>, Error> {
    let doubt = |what: String, advice: &str| Ok(Some(Inconsistency { what, advice: advice.to_owned() }));
    let system = data.join("ibdata1");
    let opened = disk.open(&system).map_err(io(&system))?;
    if opened.is_written_to() == Some(true) {
        return doubt(
            format!("a server is running on {}", data.display()),
            "stop it, or copy the files while FLUSH TABLES ... FOR EXPORT holds, and use the copy",
        );
    }
    if !is_log_at_end(disk, data)? {
        return doubt(
            format!(
                "{} was not shut down cleanly, or copied while the server ran: the redo log is ahead of the tables",
                data.display()
            ),
            "start a server on it, or on a copy of it, and shut it down",
        );
    }
    match unfinished(disk, data)? {
        0 => Ok(None),
        number => doubt(
            format!(
                "the tables contain changes of {} that {} neither committed nor rolled back",
                count(number, "transaction"),
                if number == 1 { "was" } else { "were" },
            ),
            "start a server on it; XA RECOVER lists the prepared ones",
        ),
    }
}

fn is_log_at_end(disk: &dyn Disk, data: &Path) -> Result<bool, Error> {
    let folder = data.join(REDO_FOLDER);
    if disk.list(&folder).is_ok() {
        return is_row_at_end(disk, &folder);
    }
    let path = data.join("ib_logfile0");
    let file = disk.open(&path).map_err(io(&path))?;
    let len = file.stat().map_err(io(&path))?.len;
    let mut head = vec![0; START_OFFSET];
    let filled = file.read_full_at(0, &mut head).map_err(io(&path))?;
    head.truncate(filled);
    let log = Log::parse(&head, len).map_err(|source| Error::File { path: path.clone(), source })?;
    let mut tail = vec![0; TAIL_BYTES];
    let filled = file.read_full_at(log.place(), &mut tail).map_err(io(&path))?;
    // After its last byte the log continues at its beginning.
    let more = file.read_full_at(START_OFFSET as u64, &mut tail[filled..]).map_err(io(&path))?;
    tail.truncate(filled + more);
    Ok(log.is_at_end(&tail))
}

/// Whether MySQL's log ends with its last checkpoint.
fn is_row_at_end(disk: &dyn Disk, folder: &Path) -> Result<bool, Error> {
    let mut files = Vec::new();
    for name in disk.list(folder).map_err(io(folder))? {
        // Others are spare ones, `#ib_redo7_tmp`.
        let number = name.to_str().and_then(|name| name.strip_prefix(REDO_FILE)?.parse::<u64>().ok());
        if number.is_none() {
            continue;
        }
        let path = folder.join(&name);
        let file = disk.open(&path).map_err(io(&path))?;
        let len = file.stat().map_err(io(&path))?.len;
        let mut head = vec![0; blocks::HEADER_BYTES];
        let filled = file.read_full_at(0, &mut head).map_err(io(&path))?;
        head.truncate(filled);
        let log = LogFile::parse(&head, len).map_err(|source| Error::File { path: path.clone(), source })?;
        files.push((log, file, path));
    }
    let checkpoint = files.iter().filter_map(|(log, ..)| log.checkpoint).max();
    let Some(checkpoint) = checkpoint.filter(|_| !files.iter().any(|(log, ..)| log.is_unlogged)) else {
        return Ok(false);
    };
    let has_more = files.iter().any(|(log, ..)| log.first > checkpoint);
    let place = |log: &LogFile| log.place(checkpoint);
    let Some((at, file, path)) = files.iter().find_map(|(log, file, path)| Some((place(log)?, file, path)))
    else {
        return Ok(false);
    };
    let mut tail = vec![0; 2 * blocks::BLOCK_BYTES];
    let filled = file.read_full_at(at, &mut tail).map_err(io(path))?;
    let is_at_end = blocks::is_at_end(checkpoint, &tail[..filled]);
    Ok(is_at_end.map_err(|source| Error::File { path: path.clone(), source })? && !has_more)
}

/// Whether a file is an undo tablespace: `undo001`, with MySQL `undo_001` or `NAME.ibu`. `undo_1_trunc.log`
/// is none.
fn is_undo(name: &str) -> bool {
    let number = name.strip_prefix("undo").map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        || name.ends_with(".ibu")
}

/// The number of transactions that are neither committed nor rolled back.
fn unfinished(disk: &dyn Disk, data: &Path) -> Result<u64, Error> {
    let mut system = File::open(disk, &data.join("ibdata1"))?;
    let segments = page(&mut system, TRX_SYS_PAGE)?;
    let mut segments = transaction::rollback_segments(&segments)?;
    let mut found = 0;
    let mut spaces = vec![system];
    // MySQL has a list in each undo tablespace, and no other one of them.
    let is_mysql = disk.list(&data.join(REDO_FOLDER)).is_ok();
    for name in disk.list(data).map_err(io(data))? {
        if !name.to_str().is_some_and(is_undo) {
            continue;
        }
        let mut file = match File::open(disk, &data.join(&name)) {
            Ok(file) => file,
            Err(error) if is_mysql => return Err(error),
            // The list of the system tablespace says which are needed.
            Err(_) => continue,
        };
        if is_mysql {
            let list = page(&mut file, ROLLBACK_SEGMENTS_PAGE)?;
            let own = transaction::own_rollback_segments(&list)?;
            segments.extend(own.into_iter().map(|number| (file.space().id, number)));
        }
        spaces.push(file);
    }
    if is_mysql && spaces.len() == 1 {
        return Err(Error::Missing(format!("{}: the undo tablespaces are missing", data.display())));
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
            found += u64::from(transaction::state(&undo, number)? != State::Finished);
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
