//! Arguments that mask columns.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use dump::{MaskKey, Masks};
use failure::usage;

/// A shorter secret could be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// Which columns are masked, and by which key.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaskArgs {
    /// Read other values instead of those of a column: null, hash, fake:email, fake:name or fake:phone, with
    /// * and ? in db and table. The server that is read replaces them. May be given several times
    #[arg(long, value_name = "DB.TABLE.COLUMN=MASK")]
    mask: Vec<String>,

    /// Make hashes and invented values with the secret in this file, at least 16 bytes, so that they are the
    /// same in every run [default: a new secret in each run]
    #[arg(long, value_name = "FILE", requires = "mask")]
    mask_key: Option<PathBuf>,
}

impl MaskArgs {
    /// The masks that were asked for.
    pub(crate) fn masks(&self) -> anyhow::Result<Masks> {
        let key = match &self.mask_key {
            Some(path) => {
                let secret = std::fs::read(path).with_context(|| path.display().to_string())?;
                if secret.len() < SECRET_BYTES_MIN {
                    return Err(usage(format!(
                        "--mask-key: {} has {} bytes, and {SECRET_BYTES_MIN} are needed; make a secret by: head -c 32 \
                         /dev/urandom > FILE",
                        path.display(),
                        secret.len()
                    )));
                }
                MaskKey::new(&secret)
            }
            None => {
                let mut secret = [0; 32];
                rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
                MaskKey::new(&secret)
            }
        };
        Masks::new(&self.mask, key).map_err(|why| usage(format!("--mask: {why}")))
    }
}
