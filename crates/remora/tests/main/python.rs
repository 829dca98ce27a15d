//! Pythons with what others read and write files by.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::skipped;

/// An environment with packages.
pub(crate) struct Python {
    folder: &'static str,
    packages: &'static [&'static str],
    made: OnceLock<Result<PathBuf, String>>,
}

/// Libraries for tables.
pub(crate) static LIBRARIES: Python = Python::new("python", &["duckdb", "pandas", "polars", "pyarrow"]);

/// Engines, which are hundreds of megabytes.
pub(crate) static ENGINES: Python = Python::new("python-engines", &["chdb", "pyspark==3.5.*"]);

/// Runs a command. An error with the end of what it said when it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {last}", output.status)) }
}

impl Python {
    const fn new(folder: &'static str, packages: &'static [&'static str]) -> Python {
        Python { folder, packages, made: OnceLock::new() }
    }

    /// Makes the environment. One that is there is taken, if it was completed.
    fn make(&self) -> Result<PathBuf, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.folder);
        let (python, complete) = (folder.join("bin/python"), folder.join("complete"));
        if complete.is_file() {
            return Ok(python);
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(self.packages))?;
        std::fs::write(complete, "").map_err(|error| error.to_string())?;
        Ok(python)
    }

    /// The program for a test; `None`, and reported, if there is none.
    pub(crate) fn program(&self, test: &str) -> Option<&Path> {
        match self.made.get_or_init(|| self.make()) {
            Ok(python) => Some(python),
            Err(why) => {
                let why = format!("no Python with {} could be made: {why}", self.packages.join(", "));
                assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "{why}");
                skipped(test, &why);
                None
            }
        }
    }
}
