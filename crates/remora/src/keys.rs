//! Keys of encrypted repositories on the command line.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use disk::{Disk, RealDisk};
use seal::Key;

use crate::exit;

/// Names the file with the key, if `--key` does not.
const VARIABLE: &str = "REMORA_KEY";
/// More bytes than a key's file has.
const LEN_MAX: u64 = 1 << 16;

/// The key, for every command that opens a repository.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArguments {
    /// The file with the key of an encrypted repository, which 'remora key new' makes [default: the file that
    /// REMORA_KEY names]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl KeyArguments {
    /// The key, if one is given.
    pub(crate) fn read(&self) -> Result<Option<Key>> {
        self.path().map(|path| read(&path)).transpose()
    }

    /// The same, for what a put key can't do.
    pub(crate) fn read_full(&self) -> Result<Option<Key>> {
        let Some(path) = self.path() else { return Ok(None) };
        match read(&path)? {
            Key::Put(put) => Err(failure::usage(format!(
                "this needs the full key {}; {} is its put key, which adds backups and reads none",
                put.id(),
                path.display()
            ))),
            full => Ok(Some(full)),
        }
    }

    /// The file with the key, if one is named.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        self.key.clone().or(named)
    }
}

/// The key in a file.
pub(crate) fn read(path: &Path) -> Result<Key> {
    let shown = path.display();
    let file = RealDisk.open(path).with_context(|| format!("the key {shown}"))?;
    let mut bytes = Vec::new();
    file.take(LEN_MAX).read_to_end(&mut bytes).with_context(|| format!("the key {shown}"))?;
    // What is no text is no key.
    Key::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| failure::usage(format!("{shown}, {error}")))
}
