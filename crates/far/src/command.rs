//! Running a command.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

use crate::wire::CommandOutput;

/// Runs a command with empty input and waits for its end. No shell is involved: arguments are passed
/// unchanged.
///
/// # Errors
/// When it can't be started.
pub fn run(command: &[OsString]) -> io::Result<CommandOutput> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(ran(Command::new(program).args(arguments).stdin(Stdio::null()).output()?))
}

fn ran(output: Output) -> CommandOutput {
    let code = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
    CommandOutput { code, output: output.stdout, errors: output.stderr }
}

/// Reports that it runs, and waits until it may end. The pipes are opened by their names, because many
/// programs close descriptors that they do not know.
const WAIT: &str = r#"echo >"$1" && read -r line <"$2""#;

/// A command that holds a lock while it runs another one, which waits until this is released.
pub(crate) struct LockHolder {
    go: PipeWriter,
    command: String,
    running: JoinHandle<io::Result<CommandOutput>>,
    // The other command opens them by their names.
    _ends: (io::PipeReader, io::PipeReader),
}

impl LockHolder {
    /// Returns when the lock is held.
    ///
    /// # Errors
    /// When the command can't be started or ends before it runs another.
    pub(crate) fn new(lock: &OsStr) -> io::Result<LockHolder> {
        let ((mut said, says), (waits, go)) = (io::pipe()?, io::pipe()?);
        let name = |number| format!("/proc/{}/fd/{number}", std::process::id());
        let (command, mut line) = (lock.to_string_lossy().into_owned(), lock.to_owned());
        line.push(" \"$@\"");
        let child = Command::new("sh")
            .arg("-c")
            .arg(line)
            .args(["sh", "sh", "-c", WAIT, "sh", &name(says.as_raw_fd()), &name(waits.as_raw_fd())])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let running = std::thread::spawn(move || {
            let output = child.wait_with_output();
            // Tells the one who waits for the lock that nothing more will come.
            (&says).write_all(b"!").ok();
            output.map(ran)
        });
        let mut first = [0];
        said.read_exact(&mut first)?;
        let held = LockHolder { go, command, running, _ends: (said, waits) };
        if first == *b"\n" {
            Ok(held)
        } else {
            Err(held
                .release()
                .err()
                .unwrap_or_else(|| io::Error::other("the lock's command has run nothing")))
        }
    }

    /// Releases the lock.
    ///
    /// # Errors
    /// When the command fails, or has ended before: then nothing that was done under its lock can be trusted.
    pub(crate) fn release(mut self) -> io::Result<()> {
        // If nobody reads this, the command has ended, and its exit code says why.
        self.go.write_all(b"\n").ok();
        let ran = self.running.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))?;
        match ran.code {
            0 => Ok(()),
            code => {
                let errors = String::from_utf8_lossy(&ran.errors);
                let lines: Vec<&str> =
                    errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                Err(io::Error::other(format!("{}: {} (exit code {code})", self.command, lines.join("; "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let lock = format!(
            "f() {{ touch {}; \"$@\" && touch {}; }}; f",
            file("held").display(),
            file("done").display()
        );
        let held = LockHolder::new(OsStr::new(&lock)).unwrap();
        assert!(file("held").exists() && !file("done").exists());
        held.release().unwrap();
        assert!(file("done").exists());
    }

    #[test]
    fn a_lock_that_is_missed_or_lost_is_reported() {
        let said = |lock: &str| {
            LockHolder::new(OsStr::new(lock)).and_then(LockHolder::release).unwrap_err().to_string()
        };
        assert!(said("false &&").ends_with("(exit code 1)"));
        assert!(said("echo busy >&2; exit 7;").contains("busy (exit code 7)"));
        assert!(said("true #").contains("has run nothing"), "{}", said("true #"));
        assert!(said("f() { \"$@\"; echo lost >&2; return 3; }; f").contains("lost (exit code 3)"));
        // It ends by itself, before it is released.
        let gone = said("f() { \"$@\" & sleep 0.05; kill $!; exit 5; }; f");
        assert!(gone.contains("(exit code 5)"), "{gone}");
    }
}
