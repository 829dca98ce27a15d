//! Tables of Iceberg in a folder, without a service: the layout of Iceberg's Hadoop catalogue.
//!
//! Version N of a table is `metadata/vN.metadata.json`. Whoever makes that file first has made the version,
//! so two writers can't both win. `version-hint.text` says where to begin to look, for others.
//! <https://iceberg.apache.org/spec/#file-system-tables>.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use disk::{Disk, Output};
use failure::{busy, damage, usage};
use iceberg::io::{FileIO, FileIOBuilder, MemoryStorageFactory};
use iceberg::spec::TableMetadata;
use repository::AnyDisk;
use server::TableName;
use tokio::runtime::Runtime;

const STORE: &str = "s3://";
const HINT: &str = "version-hint.text";

/// Where tables are.
pub(crate) struct Warehouse {
    root: PathBuf,
    pub(crate) disk: AnyDisk,
    pub(crate) memory: Memory,
}

/// Files that the crate iceberg reads and writes. They are in memory, so that what reaches a disk or a store
/// goes through the same code as the rest of remora.
pub(crate) struct Memory {
    files: FileIO,
    runtime: Runtime,
}

/// A table as it is now.
pub(crate) struct Table {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Its version; 0 if it does not exist.
    version: u64,
    /// What it consists of, and the address of that file.
    pub(crate) current: Option<(TableMetadata, String)>,
}

impl Memory {
    fn new() -> Result<Memory> {
        Ok(Memory {
            files: FileIOBuilder::new(Arc::new(MemoryStorageFactory)).build(),
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
        })
    }

    pub(crate) fn files(&self) -> &FileIO {
        &self.files
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = iceberg::Result<T>>) -> Result<T> {
        Ok(self.runtime.block_on(work)?)
    }
}

impl Warehouse {
    pub(crate) fn open(root: &Path) -> Result<Warehouse> {
        let disk = AnyDisk::default();
        disk.check(root)?;
        let root = if is_in_store(root) {
            root.to_owned()
        } else {
            disk.make_folder(root).with_context(|| root.display().to_string())?;
            root.canonicalize().with_context(|| root.display().to_string())?
        };
        if root.to_str().is_none() {
            return Err(usage(format!("{}: Iceberg has only names in UTF-8", root.display())));
        }
        Ok(Warehouse { root, disk, memory: Memory::new()? })
    }

    pub(crate) fn is_in_store(&self) -> bool {
        is_in_store(&self.root)
    }

    /// The table of that name, whether it exists or not.
    pub(crate) fn table(&self, name: &TableName) -> Result<Table> {
        let folder = self.root.join(&name.schema).join(&name.table);
        let Some((version, file)) = self.newest(&folder.join("metadata"))? else {
            return Ok(Table { folder, version: 0, current: None });
        };
        let path = folder.join("metadata").join(file);
        let location = address(&path);
        self.bring(&location)?;
        let metadata = self.memory.run(TableMetadata::read_from(self.memory.files(), &location));
        let metadata = metadata.map_err(|error| damage(format!("{}: {error:#}", path.display())))?;
        Ok(Table { folder, version, current: Some((metadata, location)) })
    }

    /// The highest version, and the name of its file.
    fn newest(&self, folder: &Path) -> Result<Option<(u64, String)>> {
        let names = match self.disk.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            names => names.with_context(|| folder.display().to_string())?,
        };
        let versions = names.iter().filter_map(|name| {
            let name = name.to_str()?;
            Some((version(name)?, name.to_owned()))
        });
        Ok(versions.max())
    }

    /// Copies a file that metadata name into memory.
    pub(crate) fn bring(&self, location: &str) -> Result<()> {
        let path = path(location);
        let mut bytes = Vec::new();
        let read = self.disk.open(&path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.with_context(|| path.display().to_string())?;
        let output = self.memory.files().new_output(location)?;
        self.memory.run(output.write(bytes.into()))
    }

    /// Copies a file out of memory.
    pub(crate) fn keep(&self, location: &str) -> Result<()> {
        let bytes = self.memory.run(self.memory.files().new_input(location)?.read())?;
        self.write(&path(location), &bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let written = || -> io::Result<()> {
            let mut output = Output::create(&self.disk, path)?;
            output.write_all(bytes)?;
            output.finish()
        };
        written().with_context(|| path.display().to_string())
    }

    /// Makes the next version of a table. It is the only step that others see.
    pub(crate) fn commit(&self, table: &Table, metadata: &TableMetadata) -> Result<()> {
        let folder = table.folder.join("metadata");
        let version = table.version + 1;
        let path = folder.join(format!("v{version}.metadata.json"));
        let text = serde_json::to_vec(metadata)?;
        match self.add(&path, &text) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(busy(format!(
                    "{}: somebody else has changed the table meanwhile; run it again",
                    table.folder.display()
                )));
            }
            added => added.with_context(|| path.display().to_string())?,
        }
        self.write(&folder.join(HINT), version.to_string().as_bytes())?;
        // Hadoop's local file system believes the sum that it wrote for the file that was there before.
        match self.disk.remove(&folder.join(format!(".{HINT}.crc"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Adds a file that nobody else has added, whole.
    fn add(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.is_in_store() {
            // A store's disk makes a file of this ending on the condition that there is none.
            let mut output = Output::create(&self.disk, path)?;
            output.write_all(bytes)?;
            return output.finish();
        }
        let partial = path.with_file_name(format!(".{}.json.partial", uuid::Uuid::new_v4()));
        let mut file = self.disk.create(&partial)?;
        file.write_all(bytes)?;
        file.sync()?;
        let linked = std::fs::hard_link(&partial, path);
        self.disk.remove(&partial)?;
        linked?;
        self.disk.sync_folder(path.parent().unwrap_or(Path::new("")))
    }
}

/// The version that a file of metadata is of.
fn version(name: &str) -> Option<u64> {
    let rest = name.strip_prefix('v')?.strip_suffix(".metadata.json")?;
    rest.strip_suffix(".gz").unwrap_or(rest).parse().ok()
}

pub(crate) fn is_in_store(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(STORE))
}

/// The address of an absolute path, as metadata have it. Iceberg does not encode what is in it.
pub(crate) fn address(path: &Path) -> String {
    let text = path.to_string_lossy();
    if is_in_store(path) { text.into_owned() } else { format!("file://{text}") }
}

/// The path of an address, which others may have written in their ways.
fn path(address: &str) -> PathBuf {
    if let Some(place) = ["s3a://", "s3n://"].iter().find_map(|scheme| address.strip_prefix(scheme)) {
        return format!("{STORE}{place}").into();
    }
    address.strip_prefix("file://").or_else(|| address.strip_prefix("file:")).unwrap_or(address).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("v12.metadata.json"), Some(12));
        assert_eq!(version("v12.gz.metadata.json"), Some(12));
        assert_eq!(version("v12.metadata.json.crc"), None);
        assert_eq!(version("00001-abc.metadata.json"), None);
    }

    #[test]
    fn addresses_of_others_are_understood() {
        for (given, wanted) in [
            ("file:///a/b", "/a/b"),
            ("file:/a/b%20c", "/a/b%20c"),
            ("/a/b", "/a/b"),
            ("s3a://lake/a", "s3://lake/a"),
            ("s3://lake/a", "s3://lake/a"),
        ] {
            assert_eq!(path(given), PathBuf::from(wanted));
        }
    }

    #[test]
    fn a_version_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let warehouse = Warehouse::open(folder.path()).unwrap();
        let path = folder.path().join("v1.metadata.json");
        warehouse.add(&path, b"first").unwrap();
        let again = warehouse.add(&path, b"second").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the file in between stays");
    }
}
