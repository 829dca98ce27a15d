//! A step: what it does, whether it was done before, and how it is shown.

use std::fs::{DirBuilder, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use repository::key_file;
use server::Session;

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
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
    /// The same in words.
    #[must_use]
    pub fn word(self) -> &'static str {
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
pub enum What {
    /// Statements for the server. The second text is shown where the first must not be.
    Sql(Vec<String>, Vec<String>),
    /// A file with these permissions.
    File {
        /// Where it is.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// What it says.
        text: String,
        /// The same without secrets.
        masked: String,
    },
    /// A full key.
    FullKey(PathBuf),
    /// The put key of a full key.
    PutKey {
        /// The file of the full key.
        full: PathBuf,
        /// The file that is made.
        file: PathBuf,
    },
    /// Words of a command for the system.
    Command(Vec<String>),
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub what: What,
    /// How far it is.
    pub state: State,
}

impl Step {
    /// A file, which may be there already.
    ///
    /// # Errors
    /// If it is there and can't be read.
    pub fn file(path: PathBuf, mode: u32, text: String) -> Result<Step> {
        let masked = text.clone();
        Step::secret_file(path, mode, text, masked)
    }

    /// The same, for a file with a secret.
    ///
    /// # Errors
    /// As for [`Step::file`].
    pub fn secret_file(path: PathBuf, mode: u32, text: String, masked: String) -> Result<Step> {
        let state = match std::fs::read_to_string(&path) {
            Ok(known) if known == text => State::There,
            Ok(_) => State::Differs,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => State::ToDo,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Step { what: What::File { path, mode, text, masked }, state })
    }

    /// A step that is done, or is not.
    pub fn of(what: What, is_done: bool) -> Step {
        Step { what, state: if is_done { State::There } else { State::ToDo } }
    }

    /// A command for the system.
    pub fn command(words: &[&str], is_done: bool) -> Step {
        Step::of(What::Command(words.iter().map(ToString::to_string).collect()), is_done)
    }

    /// What it is about, in a word or a path.
    pub fn shown(&self) -> String {
        match &self.what {
            What::Sql(..) => "SQL".to_owned(),
            What::File { path, .. } => path.display().to_string(),
            What::FullKey(_) | What::PutKey { .. } => "key".to_owned(),
            What::Command(_) => "command".to_owned(),
        }
    }

    /// What it says or does. Secrets are left out of what was written, because they are there now.
    #[must_use]
    pub fn text(&self, is_masked: bool) -> String {
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

    /// Does it. Commands only where they mean this machine.
    ///
    /// # Errors
    /// If it fails. What others wrote meanwhile stays.
    pub fn perform(&self, session: &mut Session, has_system: bool) -> Result<State> {
        match &self.what {
            What::Sql(lines, _) => lines.iter().try_for_each(|line| session.execute(line).map(drop))?,
            What::File { path, mode, text, .. } => write(path, *mode, text)?,
            What::FullKey(file) => {
                make_folder(file)?;
                key_file::make_full(file)?;
            }
            What::PutKey { full, file } => {
                key_file::make_put(full, file)?;
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
