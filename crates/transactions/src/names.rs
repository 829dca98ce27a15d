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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{file, number};

    #[test]
    fn a_file_of_a_log_ends_with_its_number() {
        assert_eq!([number("bin.000012"), number("a.b.7"), number("bin.0")], [Some(12), Some(7), Some(0)]);
        assert_eq!([number("binlog"), number("bin.index"), number("bin.")], [None; 3]);
        assert_eq!((file(Path::new("/a/bin.1")).as_str(), file(Path::new("/")).as_str()), ("bin.1", "/"));
    }
}
