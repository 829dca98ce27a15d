//! Keys of encrypted repositories on the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
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
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        self.key.clone().or(named).map(|path| read(&path)).transpose()
    }
}

/// The key in a file.
pub(crate) fn read(path: &Path) -> Result<Key> {
    let shown = path.display();
    let file = std::fs::File::open(path).with_context(|| format!("the key {shown}"))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, LEN_MAX), &mut text)
        .with_context(|| format!("the key {shown}"))?;
    Key::parse(&text).map_err(|error| exit::usage(format!("{shown}, {error}")))
}
