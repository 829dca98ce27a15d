//! Keys of encrypted repositories on the command line.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use repository::KeyFile;
use seal::Key;

/// Names the file with the key, if `--key` does not.
const VARIABLE: &str = "REMORA_KEY";

/// The key, for every command that opens a repository.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArguments {
    /// The file with the key of an encrypted repository, which 'remora key new' makes [default: the file that
    /// REMORA_KEY names]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl KeyArguments {
    /// A key that is in this file.
    pub(crate) fn of(key: Option<PathBuf>) -> KeyArguments {
        KeyArguments { key }
    }

    /// The key, if one is given.
    pub(crate) fn read(&self) -> Result<Option<Key>> {
        self.file().read()
    }

    /// The same, for what a put key can't do.
    pub(crate) fn read_full(&self) -> Result<Option<Key>> {
        self.file().read_full()
    }

    /// The file with the key, if one is named.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.file().0
    }

    /// The same, for who may not need the key.
    pub(crate) fn file(&self) -> KeyFile {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        KeyFile(self.key.clone().or(named))
    }
}
