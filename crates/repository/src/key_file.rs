//! The file with the key of an encrypted repository.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use disk::{Disk, Output, RealDisk};
use failure::usage;
use seal::{FullKey, Key};

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

/// Makes a full key in a new file.
///
/// # Errors
/// If the file exists, or can't be written.
pub fn make_full(file: &Path) -> Result<Key> {
    let key = Key::Full(FullKey::generate()?);
    write(file, &key)?;
    Ok(key)
}

/// Makes the put key of a full key in a new file.
///
/// # Errors
/// If the other is no full key, or the file exists.
pub fn make_put(full: &Path, file: &Path) -> Result<Key> {
    let Key::Full(full) = read(full)? else {
        let text = format!("{} is a put key; put keys are made from a full key", full.display());
        return Err(usage(text));
    };
    let key = Key::Put(full.put());
    write(file, &key)?;
    Ok(key)
}

/// Writes a key into a new file.
fn write(path: &Path, key: &Key) -> Result<()> {
    let shown = path.display();
    if path.symlink_metadata().is_ok() {
        return Err(usage(format!(
            "{shown} exists already, and may be the only copy of a key: name a new file"
        )));
    }
    let mut output = Output::create(&RealDisk, path).with_context(|| format!("{shown}"))?;
    output.write_all(key.text().as_bytes())?;
    output.finish().with_context(|| format!("{shown}"))
}
