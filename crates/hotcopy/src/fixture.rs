//! What tests copy without a server: a folder of files, and a redo log of a few records.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crc_fast::{CrcAlgorithm, checksum};
use host::Machine;
use innodb::redo::{self, LogCopier, START_OFFSET};
use tempfile::TempDir;

use crate::data_files::DataFiles;
use crate::file::Names;
use crate::file_places::Places;

/// Bytes of a page.
pub(crate) const PAGE: usize = 16_384;
/// Where the number of its tablespace is in a page.
const SPACE_ID: u64 = 34;

/// A data folder.
pub(crate) struct DataFolder {
    folder: TempDir,
    machine: Machine,
}

impl DataFolder {
    pub(crate) fn new() -> DataFolder {
        DataFolder { folder: tempfile::tempdir().unwrap(), machine: Machine::Here }
    }

    /// Its files, as those of a server whose binary log is `binlog`.
    pub(crate) fn files(&self) -> DataFiles<'_> {
        let (places, names) = (Places::in_folder(self.folder.path()), Names::for_tests());
        DataFiles { machine: &self.machine, places, names }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    #[expect(clippy::disallowed_methods, reason = "a test lays out its own files")]
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Writes files of which only the names matter.
    pub(crate) fn write_each(&self, paths: &[&str]) {
        paths.iter().for_each(|path| self.write(path, b"bytes"));
    }

    /// Writes a tablespace of two pages.
    pub(crate) fn tablespace(&self, path: &str, space: u32) {
        self.write(path, &[0; 2 * PAGE]);
        self.overwrite_space(path, space);
    }

    /// Writes the number of its tablespace into a file, and another time of writing.
    pub(crate) fn overwrite_space(&self, path: &str, space: u32) {
        let file = std::fs::File::options().write(true).open(self.path(path)).unwrap();
        file.write_all_at(&space.to_be_bytes(), SPACE_ID).unwrap();
        touch(&file);
    }

    /// Writes to a file from its beginning on.
    pub(crate) fn overwrite(&self, path: &str, bytes: &[u8]) {
        let file = std::fs::File::options().write(true).open(self.path(path)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        touch(&file);
    }

    pub(crate) fn append(&self, path: &str, bytes: &[u8]) {
        let mut file = std::fs::File::options().append(true).open(self.path(path)).unwrap();
        file.write_all(bytes).unwrap();
        touch(&file);
    }

    pub(crate) fn remove(&self, path: &str) {
        std::fs::remove_file(self.path(path)).unwrap();
    }

    pub(crate) fn len(&self, path: &str) -> u64 {
        self.path(path).metadata().unwrap().len()
    }
}

/// Gives a file another time of writing, however short the time since the last write was.
fn touch(file: &std::fs::File) {
    let before = file.metadata().unwrap().modified().unwrap();
    file.set_modified(before + std::time::Duration::from_secs(1)).unwrap();
}

/// The LSN at which a [`Log`] begins.
pub(crate) const START: u64 = START_OFFSET as u64;

/// A redo log of one mini-transaction.
pub(crate) struct Log {
    head: redo::Log,
    bytes: Vec<u8>,
}

impl Log {
    pub(crate) fn new(records: &[Vec<u8>]) -> Log {
        let mut head = vec![0; START_OFFSET];
        head[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
        for at in [8, 4096, 4104] {
            head[at..at + 8].copy_from_slice(&START.to_be_bytes());
        }
        for block in [0..508, 4096..4156] {
            let sum = crc(&head[block.clone()]);
            head[block.end..block.end + 4].copy_from_slice(&sum);
        }
        let records = records.concat();
        // A log without records is one without mini-transactions.
        let end = if records.is_empty() { Vec::new() } else { [&[1], &crc(&records)[..]].concat() };
        Log { head: redo::Log::parse(&head, 1 << 20).unwrap(), bytes: [records, end].concat() }
    }

    /// Who has read all of it.
    pub(crate) fn copier(&self) -> LogCopier {
        let mut copier = LogCopier::since(self.head, START).unwrap();
        copier.take(&self.bytes, &mut Vec::new()).unwrap();
        copier
    }
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, bytes)).unwrap().to_be_bytes()
}

/// A record with these bytes after its first one and its length (`mtr0types.h` of MariaDB).
fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u8::try_from(body.len()).unwrap();
    if len < 16 { [&[kind | len], body].concat() } else { [&[kind, len + 2 - 16], body].concat() }
}

/// A record about a file of a tablespace: `FILE_CREATE`, `FILE_DELETE` or `FILE_MODIFY`.
pub(crate) fn about_file(kind: u8, space: u8, name: &str) -> Vec<u8> {
    record(kind, &[&[space, 0], name.as_bytes()].concat())
}

/// A record that writes to a page.
pub(crate) fn written_page(space: u8, page: u8) -> Vec<u8> {
    record(0x30, &[space, page, 1, 2])
}

/// A record that makes a page from nothing.
pub(crate) fn initialized_page(space: u8, page: u8) -> Vec<u8> {
    record(0x10, &[space, page])
}

/// A record that changes a table's row in the dictionary, as IMPORT TABLESPACE does.
pub(crate) fn imported_table(name: &str) -> Vec<u8> {
    let undo =
        [&b"\x03\x0C\0\x01\0\0\0\0\0\x23\0\0\0\0\0"[..], &[u8::try_from(name.len()).unwrap()]].concat();
    record(0x20, &[&[0, 7][..], &undo, name.as_bytes()].concat())
}
