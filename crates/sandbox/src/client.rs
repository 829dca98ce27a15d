//! Runs the ordinary clients of the package registries in a folder, and finds the files that they left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::At;
use crate::{Error, Product, folder};

/// The files in a folder whose names have this ending, sorted.
pub(crate) fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).at("nothing was delivered into", folder)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && path.to_string_lossy().ends_with(end));
    files.sort();
    Ok(files)
}

/// Runs a program in a folder. Returns its output; if it fails, the error contains it.
pub(crate) fn run(
    product: Product,
    folder: &Path,
    program: &str,
    arguments: &[&str],
) -> Result<String, Error> {
    let output = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let known = product.fetchers().iter().find(|(known, _)| *known == program);
            let package = known.map_or(program, |(_, package)| package);
            let why = format!("it is fetched with {program}, which is not installed");
            return Err(Error::Missing { product, why, command: format!("apt-get install {package}") });
        }
        output => output.at("cannot run", Path::new(program))?,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let command = format!("{program} {}", arguments.join(" "));
    Err(Error::Fetch { product, command, why: folder::tell(&String::from_utf8_lossy(&said)) })
}
