//! Folder names for tables: any name that a server allows, on any file system.

use std::io;
use std::path::Path;

use disk::Disk;
use server::TableName;

/// Bytes of a name that are kept; with the other name, a dot and an extension this is far below the 255 that
/// file systems allow.
const NAME_BYTES: usize = 96;

/// The folder of a table's data: database, dot, table.
#[must_use]
pub fn folder(table: &TableName) -> String {
    format!("{}.{}", encode(&table.schema), encode(&table.table))
}

/// Letters, digits, `_`, `-` and `$` stay; every other byte becomes `%` and two hexadecimal digits. A name
/// that would be too long is cut and ends with `~` and 16 digits of its BLAKE3.
pub(crate) fn encode(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-$".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02x}"));
        }
    }
    if encoded.len() <= NAME_BYTES {
        return encoded;
    }
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{}~{}", &encoded[..NAME_BYTES - 17], &hash.as_str()[..16])
}

/// Makes a folder in which files are durable; one that is there stays.
pub(crate) fn make(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    match disk.create_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| disk.sync_folder(folder.parent().unwrap_or(folder))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_do_no_harm_and_stay_apart() {
        let table = TableName { schema: "..".into(), table: "a/b`\u{e9}".into() };
        assert_eq!(folder(&table), "%2e%2e.a%2fb%60%c3%a9");
        let long = "\u{1f600}".repeat(64);
        let other = format!("{}x", "\u{1f600}".repeat(63));
        assert!(encode(&long).len() <= NAME_BYTES && encode(&long) != encode(&other));
        assert_ne!(encode("a%2e"), encode("a."));
    }
}
