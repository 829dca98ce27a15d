//! Names of transactions and files, for people.

use std::path::Path;

use binlog::group::Name;

/// The GTID, if the transaction has one.
pub(crate) fn gtid(name: Name) -> Option<String> {
    match name {
        Name::MariaDb(number) => Some(number.to_string()),
        Name::MySql(server, number) => Some(format!("{server}:{number}")),
        Name::None => None,
    }
}

/// The name of a file without its folder.
pub(crate) fn file(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
