//! A Python with what others read and write files by.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::skipped;

const PACKAGES: [&str; 4] = ["duckdb", "pandas", "polars", "pyarrow"];

static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Runs a command. An error with the end of what it said when it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {last}", output.status)) }
}

/// Makes an environment with the packages. One that is there is taken, if it was completed.
fn prepare() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let (python, complete) = (folder.join("bin/python"), folder.join("complete"));
    if complete.is_file() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    std::fs::write(complete, "").map_err(|error| error.to_string())?;
    Ok(python)
}

/// The Python for a test; `None`, and reported, if there is none.
pub(crate) fn python(test: &str) -> Option<&'static Path> {
    match PYTHON.get_or_init(prepare) {
        Ok(python) => Some(python),
        Err(why) => {
            let why = format!("no Python with {} could be made: {why}", PACKAGES.join(", "));
            assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "{why}");
            skipped(test, &why);
            None
        }
    }
}
