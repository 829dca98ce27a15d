//! Which file of a data folder is copied when.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use server::Session;

use crate::volume::belongs::setting;

/// The redo log.
pub(super) const REDO: &str = "ib_logfile0";
/// The list of DDL that a server keeps while it is copied.
pub(super) const DDL: &str = "ddl.log";

/// Extensions of files that only change with their table's rows or definition, of engines without a log.
const UNLOGGED: [&str; 17] = [
    "frm", "MYD", "MYI", "CSV", "CSM", "ARZ", "ARM", "MRG", "par", "opt", "TRG", "TRN", "isl", "BAK", "TMD",
    "ARN", "cfg",
];
/// Files that a server makes anew, or that are of no use in a copy.
const OF_NO_USE: [&str; 6] = ["pid", "sock", "err", "incomplete", "lock", "prev"];

/// When a file is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// While the server works: pages, which the redo log completes.
    Pages,
    /// The same: a part of the binary log that is complete.
    Log,
    /// While nobody changes tables without transactions or definitions.
    NoDdl,
    /// While nobody commits.
    NoCommit,
    /// Never.
    Never,
}

/// Names that depend on the server's settings.
pub(super) struct Names {
    /// The files of the system tablespace, relative to the data folder.
    system: BTreeSet<PathBuf>,
    /// What all files of the binary log begin with, relative to the data folder, if it is there.
    binary_log: Option<PathBuf>,
    /// The same for the relay log.
    relay_log: Option<PathBuf>,
    /// Files with messages and statements for people.
    told: BTreeSet<PathBuf>,
}

impl Names {
    pub(super) fn of(session: &mut Session, data: &Path) -> std::io::Result<Names> {
        let mut said =
            |name: &str| setting(session, name).map(|value| value.filter(|value| !value.is_empty()));
        let inside = |path: PathBuf| {
            let path = data.join(path);
            path.strip_prefix(data).map(Path::to_owned).ok()
        };
        let home = PathBuf::from(said("innodb_data_home_dir")?.unwrap_or_default());
        let files = said("innodb_data_file_path")?.unwrap_or_else(|| "ibdata1".to_owned());
        let files = files.split(';').filter_map(|file| file.split(':').next());
        let system = files.filter_map(|file| inside(home.join(file))).collect();
        let binary_log = said("log_bin_basename")?.map(PathBuf::from).and_then(inside);
        let mut told = BTreeSet::new();
        for name in ["log_error", "slow_query_log_file", "general_log_file", "innodb_buffer_pool_filename"] {
            told.extend(said(name)?.map(PathBuf::from).and_then(inside));
        }
        let relay_log = said("relay_log_basename")?.map(PathBuf::from).and_then(inside);
        Ok(Names { system, binary_log, relay_log, told })
    }

    /// When the file with this path, relative to the data folder, is copied.
    pub(super) fn when(&self, path: &Path) -> When {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let end = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let at_top = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
        if self.told.contains(path)
            || at_top && (name.starts_with("ib_logfile") || name.starts_with("ibtmp") || name == DDL)
            || at_top && (OF_NO_USE.contains(&end) || ["relay-log.info", "master.info"].contains(&name))
            || self.relay_log.as_ref().is_some_and(|base| is_part(base, path))
        {
            return When::Never;
        }
        let number = name.strip_prefix("undo").filter(|number| at_top && !number.is_empty());
        let undo = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        if end == "ibd" || undo || self.system.contains(path) {
            return When::Pages;
        }
        if self.binary_log.as_ref().is_some_and(|base| is_part(base, path))
            && end != "index"
            && end != "state"
        {
            return When::Log;
        }
        // Tables with statistics and logs may change until nobody commits, and what is altered may go.
        let of_server = path.parent() == Some(Path::new("mysql"));
        if UNLOGGED.contains(&end) && !of_server && !is_altered(path) { When::NoDdl } else { When::NoCommit }
    }

    /// The path of a file of the binary log.
    pub(super) fn binary_log(&self, name: &str) -> Option<PathBuf> {
        self.binary_log.as_ref().map(|base| base.with_file_name(name))
    }
}

/// Whether a file is one of `base.000001`, `base.index` and so on.
fn is_part(base: &Path, path: &Path) -> bool {
    base.parent() == path.parent()
        && path.file_stem() == base.file_name()
        && path.extension().is_some_and(|_| true)
}

/// Whether this is a table that an ALTER TABLE makes; it may be gone at any time.
pub(super) fn is_altered(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"#sql"))
}

/// The tables that the server's list of DDL names: database and table as in the names of their files. A table
/// without a name stands for the whole database.
pub(super) fn named_in(ddl: &str) -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    for line in ddl.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        // Time, statement, engine, partitioned, database, table, id, and the same again for a new name.
        for at in [4, 9] {
            if let (Some(schema), Some(table)) = (fields.get(at), fields.get(at + 1))
                && !schema.is_empty()
            {
                named.insert(((*schema).to_owned(), (*table).to_owned()));
            }
        }
    }
    named
}

/// Whether a file belongs to one of these tables.
pub(super) fn is_named(named: &BTreeSet<(String, String)>, path: &Path) -> bool {
    let (Some(schema), Some(stem)) =
        (path.parent().and_then(|parent| parent.to_str()), path.file_stem().and_then(OsStr::to_str))
    else {
        // A name that no statement has.
        return true;
    };
    // The files of partitions have the table's name, # and more.
    let table = stem.split_once('#').map_or(stem, |(table, _)| table);
    [stem, table, ""].into_iter().any(|name| named.contains(&(schema.to_owned(), name.to_owned())))
}
