//! The file with the key of an encrypted repository.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use disk::{Disk, RealDisk};
use failure::usage;
use seal::Key;

/// More bytes than a key's file has.
const LEN_MAX: u64 = 1 << 16;

/// Where the key is, if there is one. It is read when it is needed.
#[derive(Clone, Debug, Default)]
pub struct KeyFile(pub Option<PathBuf>);

impl KeyFile {
    /// The key, if a file is named.
    ///
    /// # Errors
    /// If the file can't be read or has no key.
    pub fn read(&self) -> Result<Option<Key>> {
        self.0.as_deref().map(read).transpose()
    }

    /// The same, for what a put key can't do.
    ///
    /// # Errors
    /// As [`KeyFile::read`], and if it is a put key.
    pub fn read_full(&self) -> Result<Option<Key>> {
        let Some(path) = &self.0 else { return Ok(None) };
        match read(path)? {
            Key::Put(put) => Err(usage(format!(
                "this needs the full key {}; {} is its put key, which adds backups and reads none",
                put.id(),
                path.display()
            ))),
            full => Ok(Some(full)),
        }
    }
}

/// The key in a file.
///
/// # Errors
/// If the file can't be read or has no key.
pub fn read(path: &Path) -> Result<Key> {
    let shown = path.display();
    let file = RealDisk.open(path).with_context(|| format!("the key {shown}"))?;
    let mut bytes = Vec::new();
    file.take(LEN_MAX).read_to_end(&mut bytes).with_context(|| format!("the key {shown}"))?;
    // What is no text is no key.
    Key::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| usage(format!("{shown}, {error}")))
}
