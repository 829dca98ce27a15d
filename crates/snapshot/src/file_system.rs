//! The file system that a path is on.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use host::Machine;

/// A file system, from findmnt(8).
pub struct FileSystem {
    /// Its type, such as `xfs`.
    pub kind: String,
    /// The device that is mounted.
    pub source: PathBuf,
    /// The device numbers, which are the same for all subvolumes.
    pub device: String,
}

impl FileSystem {
    /// The file system that a path is on.
    pub fn of(machine: &Machine, path: &Path) -> io::Result<FileSystem> {
        let words = [
            "findmnt",
            "--noheadings",
            "--json",
            "--nofsroot",
            "--output",
            "FSTYPE,SOURCE,MAJ:MIN",
            "--target",
        ];
        let command = [&words.map(OsStr::new)[..], &[path.as_os_str()]].concat();
        let value: serde_json::Value = serde_json::from_slice(&machine.tool(&command)?)?;
        let text = |name: &str| {
            let value = value.pointer("/filesystems/0").and_then(|row| row.get(name));
            value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(FileSystem { kind: text("fstype"), source: text("source").into(), device: text("maj:min") })
    }
}
