//! Names of transactions and files, for people.

use std::path::Path;

use binlog::group::GroupId;

/// The GTID, if the transaction has one.
pub fn gtid(name: GroupId) -> Option<String> {
    match name {
        GroupId::MariaDb(number) => Some(number.to_string()),
        GroupId::MySql(source, number) => Some(format!("{source}:{number}")),
        GroupId::None => None,
    }
}

/// The number of a file of a server's log: what its name ends with.
pub fn number(file: &str) -> Option<u64> {
    file.rsplit_once('.').and_then(|(_, number)| number.parse().ok())
}

/// The name of a file without its folder.
pub fn file(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
