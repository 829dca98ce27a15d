//! Running a command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::wire::Ran;

/// Runs a command with nothing to read and waits for its end. It is no shell's: arguments are what they are.
///
/// # Errors
/// When it can't be started.
pub fn run(command: &[OsString]) -> io::Result<Ran> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    let code = ran.status.code().or_else(|| ran.status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
    Ok(Ran { code, output: ran.stdout, errors: ran.stderr })
}
