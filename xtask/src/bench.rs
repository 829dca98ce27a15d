//! Side by side with the tools people use, in one run.

mod import;
mod measure;

use anyhow::{Result, bail};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.first().map(String::as_str) {
        Some("import") => import::run(arguments.get(1..).unwrap_or_default()),
        _ => bail!("cargo xtask bench AREA; areas: import"),
    }
}
