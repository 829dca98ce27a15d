//! Which file of a data folder is copied when.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use block::tree::Node;
use host::Machine;
use instance::plugins;
use server::Session;
use snapshot::server_files::{self, setting};

/// The redo log.
pub(crate) const REDO: &str = "ib_logfile0";
/// The list of DDL that a server keeps while it is copied.
pub(crate) const DDL: &str = "ddl.log";
/// What Aria knows of its log.
pub(crate) const ARIA_CONTROL: &str = "aria_log_control";

/// Extensions of files that only change with their table's rows or definition, of engines without a log.
const UNLOGGED: [&str; 15] =
    ["frm", "MYD", "MYI", "CSV", "CSM", "ARZ", "ARM", "MRG", "par", "opt", "TRG", "TRN", "BAK", "TMD", "ARN"];
/// Settings with the names of files: the beginning of those of the binary log and of the relay log, the list
/// of the former, and files that are not copied.
const SETTINGS: [&str; 8] = [
    "log_bin_basename",
    "relay_log_basename",
    "log_bin_index",
    "log_error",
    "slow_query_log_file",
    "general_log_file",
    "innodb_buffer_pool_filename",
    // Keys are in no backup.
    "file_key_management_filename",
];
/// The setting with the files of temporary tables, which a server makes again.
const TEMPORARY: &str = "innodb_temp_data_file_path";
/// The setting with the folder of the redo log, which is copied in a way of its own.
const REDO_FOLDER: &str = "innodb_log_group_home_dir";
/// The setting with the key of that file, and what it begins with if that is in a file, too.
const KEY_OF_KEYS: (&str, &str) = ("file_key_management_filekey", "FILE:");
/// What the name of a partition ends with while an ALTER TABLE makes it.
const MADE: &[u8] = b"#TMP#";
/// Files that a server makes again, or that are of no use in a copy.
const OF_NO_USE: [&str; 6] = ["pid", "sock", "err", "incomplete", "lock", "prev"];

/// When a file is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// While the server works: pages, which the redo log completes.
    Pages,
    /// The same: a part of the binary log, or of a queue. Only to the newest of them something is added.
    Closed,
    /// While nobody changes tables without transactions or definitions.
    NoDdl,
    /// While nobody commits.
    NoCommit,
    /// Never, or in a way of its own.
    Never,
}

/// Names that depend on the server's settings.
pub(crate) struct Names {
    /// Bytes of a page of InnoDB.
    pub page_bytes: u32,
    /// The files of the system tablespace, by their paths in the copy.
    system: BTreeSet<PathBuf>,
    /// What all files of the binary log begin with, relative to the data folder, if it is there.
    binary_log: Option<PathBuf>,
    /// The same for the relay log.
    relay_log: Option<PathBuf>,
    /// The list of the binary log's files.
    pub index: Option<PathBuf>,
    /// Files that are not copied in this way: with messages and statements for people, with keys, of
    /// temporary tables, and the redo log.
    not_copied: BTreeSet<PathBuf>,
}

#[cfg(test)]
impl Names {
    /// Of a server with a binary log, `binlog`.
    pub(crate) fn for_tests() -> Names {
        Names {
            page_bytes: 16_384,
            system: BTreeSet::from(["ibdata1".into()]),
            binary_log: Some("binlog".into()),
            relay_log: None,
            index: Some("binlog.index".into()),
            not_copied: BTreeSet::new(),
        }
    }
}

impl Names {
    /// Asks a server whose data folder is `data`. `inside`: the path in the copy of what a setting names, as
    /// it is written, and without links.
    pub(crate) fn of(
        session: &mut Session,
        machine: &Machine,
        (data, system): (&Path, BTreeSet<PathBuf>),
        inside: impl Fn(&Path, &Path) -> Option<PathBuf>,
    ) -> io::Result<Names> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for name in SETTINGS {
            paths.push(data.join(setting(session, name)?.unwrap_or_default()));
        }
        let (name, begins) = KEY_OF_KEYS;
        let key = setting(session, name)?.unwrap_or_default();
        paths.extend(key.strip_prefix(begins).map(|file| data.join(file)));
        let temporary = setting(session, TEMPORARY)?.unwrap_or_default();
        paths.extend(temporary.split(';').filter_map(|file| Some(data.join(file.split(':').next()?))));
        paths.push(data.join(setting(session, REDO_FOLDER)?.unwrap_or_default()).join(REDO));
        let resolved = server_files::resolve(machine, &paths)?;
        let mut paths = paths.iter().zip(&resolved).map(|(written, real)| inside(written, real));
        let (binary_log, relay_log) = (paths.next().flatten(), paths.next().flatten());
        let index = paths.next().flatten();
        let page_bytes = u32::try_from(session.about.innodb_page_size).map_err(io::Error::other)?;
        Ok(Names { page_bytes, system, binary_log, relay_log, index, not_copied: paths.flatten().collect() })
    }

    /// When the file with this path in the copy is copied.
    pub(crate) fn when(&self, path: &Path) -> When {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let end = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let at_top = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
        if self.not_copied.contains(path)
            || self.index.as_deref() == Some(path)
            || at_top && (name.starts_with("ib_logfile") || name.starts_with("ibtmp") || name == DDL)
            || at_top && OF_NO_USE.contains(&end)
            || at_top && end == "info" && ["master", "relay-log", "multi-master"].iter().any(|of| name.starts_with(of))
            // A table that is exported has one for as long as it is.
            || end == "cfg"
        {
            return When::Never;
        }
        // The names of relay logs may begin like those of the binary log, or the other way round.
        let of_binary_log = self.binary_log.as_ref().is_some_and(|base| is_part(base, path));
        if !of_binary_log && self.relay_log.as_ref().is_some_and(|base| is_relayed(base, path)) {
            return When::Never;
        }
        if is_table(path) || at_top && is_undo(path) || self.system.contains(path) {
            return When::Pages;
        }
        if of_binary_log && end != "index" && end != "state" {
            return When::Closed;
        }
        if path.parent().is_some_and(plugins::is_queue) {
            return if is_queue_part(path) { When::Closed } else { When::Never };
        }
        // Tables with statistics and logs may change until nobody commits, and what is altered may go.
        let of_server = path.parent() == Some(Path::new("mysql")) && end != "frm";
        if UNLOGGED.contains(&end) && !of_server && !is_altered(path) { When::NoDdl } else { When::NoCommit }
    }

    /// The path of a file of the binary log.
    pub(crate) fn binary_log(&self, name: &str) -> Option<PathBuf> {
        self.binary_log.as_ref().map(|base| base.with_file_name(name))
    }
}

/// Whether a file in such a folder has rows of the queue. Such a file does not change any more when there is
/// a newer one.
pub(crate) fn is_queue_part(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "seg")
}

/// The newest files of their folders, by their names.
pub(crate) fn newest<'a>(nodes: impl Iterator<Item = &'a Node>) -> BTreeSet<PathBuf> {
    let mut newest: BTreeMap<Option<&Path>, &Path> = BTreeMap::new();
    for node in nodes {
        let known = newest.entry(node.path.parent()).or_insert(&node.path);
        *known = (*known).max(&node.path);
    }
    newest.into_values().map(Path::to_owned).collect()
}

/// Whether this is the tablespace of a table, or of a partition.
pub(crate) fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "ibd")
}

/// Whether a file at the top is an undo tablespace.
pub(crate) fn is_undo(path: &Path) -> bool {
    let number = path.to_str().and_then(|name| name.strip_prefix("undo"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a file is one of `base.000001`, `base.index` and so on.
fn is_part(base: &Path, path: &Path) -> bool {
    base.parent() == path.parent() && path.file_stem() == base.file_name() && path.extension().is_some()
}

/// The same for the relay logs of all connections: also `base-NAME.000001`.
fn is_relayed(base: &Path, path: &Path) -> bool {
    let (name, stem) = (base.file_name().and_then(OsStr::to_str), path.file_stem().and_then(OsStr::to_str));
    let rest = name.zip(stem).and_then(|(name, stem)| stem.strip_prefix(name));
    base.parent() == path.parent() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The number of a part of Aria's log.
pub(crate) fn aria_log(path: &Path) -> Option<u32> {
    path.to_str()?.strip_prefix("aria_log.")?.parse().ok()
}

/// Whether this is a part of Aria's log.
pub(crate) fn is_aria_log(path: &Path) -> bool {
    aria_log(path).is_some()
}

/// Whether this is a table, or a partition of one, that an ALTER TABLE makes; it may be gone at any time. In
/// the name of a table that a user has given, `#` is written in another way.
pub(crate) fn is_altered(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().as_encoded_bytes();
    stem.starts_with(b"#sql") || stem.to_ascii_uppercase().ends_with(MADE)
}

/// How many bytes of a list of the binary log's files end with the line of this one; none if it is not there.
pub(crate) fn listed_up_to(list: &[u8], file: &str) -> Option<usize> {
    let mut end = 0;
    list.split_inclusive(|&byte| byte == b'\n').find_map(|line| {
        end += line.len();
        let name = line.trim_ascii_end().rsplit(|&byte| byte == b'/').next();
        (name == Some(file.as_bytes())).then_some(end)
    })
}

/// The tables that the server's list of DDL names: database and table as in the names of their files. A table
/// without a name stands for the whole database.
pub(crate) fn named_in(ddl: &str) -> BTreeSet<(String, String)> {
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
pub(crate) fn is_named(named: &BTreeSet<(String, String)>, path: &Path) -> bool {
    // The folder of a database, also of one outside of the data folder.
    let schema = path.parent().map(|parent| parent.file_name().unwrap_or_default()).and_then(OsStr::to_str);
    let (Some(schema), Some(stem)) = (schema, path.file_stem().and_then(OsStr::to_str)) else {
        // A name that no statement has.
        return true;
    };
    // The files of partitions have the table's name, # and more.
    let table = stem.split_once('#').map_or(stem, |(table, _)| table);
    [stem, table, ""].into_iter().any(|name| named.contains(&(schema.to_owned(), name.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_copied_when_that_is_right() {
        let names = Names {
            page_bytes: 16_384,
            system: BTreeSet::from(["ibdata1".into(), "more/ibdata2".into()]),
            binary_log: Some("binlog".into()),
            relay_log: Some("relay-bin".into()),
            index: Some("binlog.index".into()),
            not_copied: BTreeSet::from(["host.err".into(), "slow.log".into()]),
        };
        let of = |when: When, paths: &[&str]| {
            paths.iter().for_each(|path| assert_eq!(names.when(Path::new(path)), when, "{path}"));
        };
        of(
            When::Pages,
            &[
                "ibdata1",
                "more/ibdata2",
                "undo001",
                "d/t.ibd",
                "d/t#P#p0.ibd",
                "mysql/gtid_slave_pos.ibd",
                "d/#sql-x.ibd",
            ],
        );
        of(When::Closed, &["binlog.000001", "binlog.123456", "d/q.queue/0000000000000001.0.seg"]);
        of(
            When::NoDdl,
            &["d/t.frm", "d/t.MYD", "d/db.opt", "d/t.par", "d/t.TRG", "mysql/user.frm", "d/t.ARZ"],
        );
        of(
            When::NoCommit,
            &["aria_log_control", "aria_log.00000001", "d/t.MAD", "mysql/general_log.CSV", "binlog.state"],
        );
        of(
            When::NoCommit,
            &["ddl_recovery.log", "d/#sql-x.frm", "tc.log", "mariadb_upgrade_info", "undo", "undo_x"],
        );
        of(
            When::Never,
            &[
                "ib_logfile0",
                "binlog.index",
                "ibtmp1",
                "ddl.log",
                "host.pid",
                "host.err",
                "slow.log",
                "relay-bin.000002",
                "relay-bin-one.000001",
                "master.info",
                "master-one.info",
                "d/t.cfg",
                "d/q.queue/checkpoint",
                "d/q.queue/0000000000000002.0.seg.partial",
            ],
        );
        // A table may be called like anything at the top.
        of(When::NoDdl, &["d/ibtmp1.frm", "d/undo001.MYD", "d/relay-bin-one.frm"]);
        let names = Names { binary_log: Some("mysql-bin".into()), relay_log: Some("mysql".into()), ..names };
        assert_eq!(names.when(Path::new("mysql-bin.000001")), When::Closed);
        assert_eq!(names.when(Path::new("mysql.000001")), When::Never);
    }

    #[test]
    fn a_list_of_the_binary_log_ends_with_the_file_of_the_position() {
        let list = b"./b.000001\n/var/log/b.000002\n./b.000003\n";
        assert_eq!(listed_up_to(list, "b.000002"), Some(29));
        assert_eq!(listed_up_to(list, "b.000003"), Some(list.len()));
        assert_eq!(listed_up_to(list, "b.00000"), None);
        assert_eq!(listed_up_to(b"b.1", "b.1"), Some(3));
    }

    #[test]
    fn tables_that_ddl_has_touched_are_known_by_their_files() {
        let line = |old: [&str; 2], new: [&str; 2]| {
            format!(
                "2026-11-23 10:00:00\tALTER\tInnoDB\t0\t{}\t{}\tid\tInnoDB\t0\t{}\t{}\tid\n",
                old[0], old[1], new[0], new[1]
            )
        };
        let ddl =
            line(["d", "t"], ["e", "u"]) + &line(["f", "a@0023b"], ["", ""]) + "2026\tDROP\t\t0\tgone\t\t\n";
        let named = named_in(&ddl);
        for touched in
            [".x/d/t.ibd", "d/t.ibd", "d/t#P#p0.ibd", "e/u.frm", "f/a@0023b.ibd", "gone/x.ibd", "gone/y.frm"]
        {
            assert!(is_named(&named, Path::new(touched)), "{touched}");
        }
        for other in ["d/u.ibd", "e/t.ibd", "d/tt.ibd", "f/a.ibd", ".x/d/u.ibd", "ibdata1"] {
            assert!(!is_named(&named, Path::new(other)), "{other}");
        }
    }
}
