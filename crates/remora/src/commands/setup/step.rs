//! A step: what it does, whether it was done before, and how it is shown.

use std::fs::{DirBuilder, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;
use server::Session;

use crate::commands::key;
use crate::report::Report;

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was done before.
    There,
    /// It is not done.
    ToDo,
    /// It was done now.
    Done,
    /// A file exists, and says something else.
    Differs,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::There => "there already",
            State::ToDo => "to do",
            State::Done => "done",
            State::Differs => "differs",
        }
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Statements for the server. The second text is shown where the first must not be.
    Sql(Vec<String>, Vec<String>),
    /// A file with these permissions.
    File { path: PathBuf, mode: u32, text: String, masked: String },
    /// A full key.
    FullKey(PathBuf),
    /// The put key of a full key.
    PutKey { full: PathBuf, file: PathBuf },
    /// Words of a command for the system.
    Command(Vec<String>),
}

/// A step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) state: State,
}

impl Step {
    /// A file, which may be there already.
    pub(super) fn file(path: PathBuf, mode: u32, text: String) -> Result<Step> {
        let masked = text.clone();
        Step::secret_file(path, mode, text, masked)
    }

    /// The same, for a file with a secret.
    pub(super) fn secret_file(path: PathBuf, mode: u32, text: String, masked: String) -> Result<Step> {
        let state = match std::fs::read_to_string(&path) {
            Ok(known) if known == text => State::There,
            Ok(_) => State::Differs,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => State::ToDo,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Step { what: What::File { path, mode, text, masked }, state })
    }

    /// A step that is done, or is not.
    pub(super) fn of(what: What, is_done: bool) -> Step {
        Step { what, state: if is_done { State::There } else { State::ToDo } }
    }

    pub(super) fn command(words: &[&str], is_done: bool) -> Step {
        Step::of(What::Command(words.iter().map(ToString::to_string).collect()), is_done)
    }

    /// What it is about, in a word or a path.
    pub(super) fn shown(&self) -> String {
        match &self.what {
            What::Sql(..) => "SQL".to_owned(),
            What::File { path, .. } => path.display().to_string(),
            What::FullKey(_) | What::PutKey { .. } => "key".to_owned(),
            What::Command(_) => "command".to_owned(),
        }
    }

    /// What it says or does. Secrets are left out of what was written, because they are there now.
    fn text(&self, is_masked: bool) -> String {
        match &self.what {
            What::Sql(lines, masked) => {
                let lines = if is_masked { masked } else { lines };
                lines.iter().map(|line| format!("{line};\n")).collect()
            }
            What::File { text, masked, .. } => if is_masked { masked } else { text }.clone(),
            What::FullKey(file) => format!("remora key new {}", file.display()),
            What::PutKey { full, file } => format!("remora key put {} {}", full.display(), file.display()),
            What::Command(words) => words.join(" "),
        }
    }

    /// Prints it. `is_done`: whether this run does it, and not the reader.
    pub(super) fn show(&self, state: State, is_done: bool, report: &Report) -> Result<()> {
        let text = self.text(is_done || state == State::There);
        let mode = match &self.what {
            What::File { mode, .. } => Some(format!("{mode:04o}")),
            _ => None,
        };
        if report.is_json() {
            let kind = match &self.what {
                What::Sql(..) => "sql",
                What::File { .. } => "file",
                What::FullKey(_) | What::PutKey { .. } => "key",
                What::Command(_) => "command",
            };
            let path = matches!(self.what, What::File { .. }).then(|| self.shown());
            return Ok(report.message(&json!({
                "message_type": "step", "kind": kind, "state": state.word(), "path": path, "mode": mode, "text": text,
            }))?);
        }
        let mode = mode.map(|mode| format!(", mode {mode}")).unwrap_or_default();
        report.data(&format!("{}{mode}: {}", self.shown(), state.word()))?;
        // Who has a file can read it there.
        if matches!(self.what, What::File { .. }) && state != State::ToDo {
            return Ok(());
        }
        for line in text.lines() {
            report.data(format!("    {line}").trim_end())?;
        }
        Ok(report.data("")?)
    }

    /// Does it. Commands only where they mean this machine.
    pub(super) fn perform(&self, session: &mut Session, has_system: bool) -> Result<State> {
        match &self.what {
            What::Sql(lines, _) => lines.iter().try_for_each(|line| session.execute(line).map(drop))?,
            What::File { path, mode, text, .. } => write(path, *mode, text)?,
            What::FullKey(file) => {
                make_folder(file)?;
                key::make_full(file)?;
            }
            What::PutKey { full, file } => {
                key::make_put(full, file)?;
            }
            What::Command(_) if !has_system => return Ok(State::ToDo),
            What::Command(words) => run(words)?,
        }
        Ok(State::Done)
    }
}

/// Writes a new file.
fn write(path: &Path, mode: u32, text: &str) -> Result<()> {
    let folder = make_folder(path)?;
    let permissions = Permissions::from_mode(mode);
    let named = || path.display().to_string();
    let mut file =
        tempfile::Builder::new().permissions(permissions).tempfile_in(folder).with_context(named)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(named)?;
    // What somebody else wrote meanwhile stays.
    file.persist_noclobber(path).with_context(named)?;
    Ok(())
}

/// Makes the folder of a file, closed to others if it is the one with the passwords.
fn make_folder(path: &Path) -> Result<&Path> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mode = if folder.ends_with("remora") { 0o700 } else { 0o755 };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)
        .with_context(|| folder.display().to_string())?;
    Ok(folder)
}

fn run(words: &[String]) -> Result<()> {
    let output = Command::new(&words[0]).args(&words[1..]).output().with_context(|| words[0].clone())?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}
