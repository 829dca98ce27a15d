//! Arguments that mask columns.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use dump::{MaskKey, Masks};
use failure::usage;
use server::Password;

/// A shorter secret could be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// Which columns are masked, and by which key.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaskArgs {
    /// Mask the values of a column: null, hash, fake:email, fake:name or fake:phone, with * and ? in db and
    /// table. The source server does it, so that no real value leaves it. May be given several times
    #[arg(long, value_name = "DB.TABLE.COLUMN=MASK")]
    mask: Vec<String>,

    /// Mask with the secret in this file, of at least 16 bytes, so that every run gives the same values
    /// [default: a new secret for each run]
    #[arg(long, value_name = "FILE", requires = "mask")]
    mask_key: Option<PathBuf>,
}

impl MaskArgs {
    /// Whether a later run has the same key.
    pub(crate) fn has_file(&self) -> bool {
        self.mask_key.is_some()
    }

    /// The masks that were asked for.
    pub(crate) fn masks(&self) -> anyhow::Result<Masks> {
        if self.mask.is_empty() {
            return Ok(Masks::default());
        }
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
            None => MaskKey::new(Password::random()?.expose().as_bytes()),
        };
        Masks::new(&self.mask, key).map_err(|why| usage(format!("--mask: {why}")))
    }
}
