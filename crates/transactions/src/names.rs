//! Names of transactions and files, for people.

use std::path::Path;

use binlog::group::GroupId;
use innodb::table::sql::{Kind, split};

use crate::transaction::XaName;

/// The GTID, if the transaction has one.
pub fn gtid(name: GroupId) -> Option<String> {
    match name {
        GroupId::MariaDb(number) => Some(number.to_string()),
        GroupId::MySql(source, number) => Some(format!("{source}:{number}")),
        GroupId::None => None,
    }
}

/// The name of a file without its folder.
pub fn file(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The name of a distributed transaction, as `XA COMMIT` takes it.
pub fn xa((format, global, branch): &XaName) -> String {
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

/// The distributed transaction that has this name for `XA COMMIT`.
pub fn xa_of(text: &str) -> Option<XaName> {
    let tokens = split(text).ok()?;
    let (mut parts, mut format, mut is_hex) = (Vec::new(), 1, false);
    for token in tokens {
        match token.kind {
            Kind::Word => is_hex = true,
            Kind::Text if std::mem::take(&mut is_hex) => {
                let pairs = token.text.as_bytes().chunks(2);
                let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
                parts.push(pairs.map(byte).collect::<Option<Vec<u8>>>()?);
            }
            Kind::Text => parts.push(token.text.into_bytes()),
            Kind::Number => format = token.text.parse().ok()?,
            _ => {}
        }
    }
    let mut parts = parts.into_iter();
    Some((format, parts.next()?, parts.next().unwrap_or_default()))
}

/// The distributed transaction of a row of MySQL's `XA RECOVER CONVERT XID`: the format, the lengths of both
/// parts, and their bytes in hexadecimal digits behind `0x`.
pub fn xa_of_hex(row: &[Option<String>]) -> Option<XaName> {
    let [Some(format), Some(global), Some(_), Some(data)] = row else { return None };
    let (pairs, []) = data.strip_prefix("0x")?.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    let (global, branch) = bytes.split_at_checked(global.parse().ok()?)?;
    Some((format.parse().ok()?, global.to_vec(), branch.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::{xa, xa_of, xa_of_hex};

    #[test]
    fn the_name_that_mysql_shows_in_digits_is_read() {
        let row = |row: [&str; 4]| xa_of_hex(&row.map(|cell| Some(cell.to_owned())));
        assert_eq!(row(["7", "2", "1", "0x6100ff"]), Some((7, b"a\0".to_vec(), b"\xff".to_vec())));
        assert_eq!(row(["1", "1", "0", "0x61"]), Some((1, b"a".to_vec(), Vec::new())));
        for wrong in
            [["1", "3", "0", "0x61"], ["1", "1", "0", "61"], ["1", "1", "0", "0x6"], ["x", "1", "0", "0x61"]]
        {
            assert_eq!(row(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_name_of_a_distributed_transaction_is_read_back() {
        for name in [
            (1, b"a".to_vec(), Vec::new()),
            (1, b"a b".to_vec(), b"c".to_vec()),
            (7, b"it's".to_vec(), b"\xff".to_vec()),
            (2, Vec::new(), b"x".to_vec()),
        ] {
            assert_eq!(xa_of(&xa(&name)), Some(name));
        }
    }

    #[test]
    fn a_distributed_transaction_has_the_name_that_statements_take() {
        assert_eq!(xa(&(1, b"a".to_vec(), Vec::new())), "'a'");
        assert_eq!(xa(&(1, b"a b".to_vec(), b"c".to_vec())), "'a b','c'");
        assert_eq!(xa(&(7, b"it's".to_vec(), b"\xff".to_vec())), "X'69742773',X'ff',7");
    }
}
