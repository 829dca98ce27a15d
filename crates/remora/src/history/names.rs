//! Names of transactions and files, for people.

use std::path::Path;

use binlog::group::Name;

use super::transaction::XaName;

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

/// The name of a distributed transaction, as `XA COMMIT` takes it.
pub(crate) fn xa((format, global, branch): &XaName) -> String {
    let quoted = |bytes: &[u8]| {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && !b"'\\".contains(byte);
        match bytes.iter().all(is_plain) {
            true => format!("'{}'", String::from_utf8_lossy(bytes)),
            false => format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        }
    };
    let global = quoted(global);
    match (format, branch.is_empty()) {
        (1, true) => global,
        (1, false) => format!("{global},{}", quoted(branch)),
        _ => format!("{global},{},{format}", quoted(branch)),
    }
}

#[cfg(test)]
mod tests {
    use super::xa;

    #[test]
    fn a_distributed_transaction_has_the_name_that_statements_take() {
        assert_eq!(xa(&(1, b"a".to_vec(), Vec::new())), "'a'");
        assert_eq!(xa(&(1, b"a b".to_vec(), b"c".to_vec())), "'a b','c'");
        assert_eq!(xa(&(7, b"it's".to_vec(), b"\xff".to_vec())), "X'69742773',X'ff',7");
    }
}
