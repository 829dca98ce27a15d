//! `remora key`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use disk::{Output, RealDisk};
use failure::usage;
use progress::Progress;
use seal::{FullKey, Key};
use serde_json::json;

use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora key new backup.key                        keep copies of it, none of them with the backups
  remora key put backup.key db1.put                for the host db1, which adds backups and reads none
  remora key list *.key *.put                      which keys are in these files
  remora backup mysql: --to /backup --key db1.put
  remora restore /backup/db1 --to d --key backup.key";

/// Make and look at keys of encrypted repositories
///
/// There are two kinds. The full key reads everything; without it nobody does, so keep copies of it in
/// several places, and none of them with the backups. The put key is made from it, for a host that only adds
/// backups: with it backup, list, verify and prune work, but no row and no file name can be read.
///
/// A name in a repository is encrypted if its first backup is made with --key.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    New(New),
    Put(Put),
    List(List),
}

/// Make a full key, in a new file that only its owner can read
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Make the put key of a full key, for a host that adds backups and reads none
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// The full key
    #[arg(value_name = "FILE")]
    full: PathBuf,

    /// The file to make
    #[arg(value_name = "NEWFILE")]
    file: PathBuf,
}

/// Show which keys are in these files
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Files with keys
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(action: &Action, report: &Report) -> Result<Exit> {
    match action {
        Action::New(arguments) => {
            let key = make_full(&arguments.file)?;
            report.note(&format!(
                "the full key {} is in {}; keep copies of it, none of them with the backups: without it nobody can read them",
                key.id(),
                arguments.file.display()
            ));
        }
        Action::Put(arguments) => {
            let key = make_put(&arguments.full, &arguments.file)?;
            let file = arguments.file.display();
            report.note(&format!("the put key of {} is in {file}", key.id()));
        }
        Action::List(arguments) => {
            for file in &arguments.files {
                list(file, report)?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Makes a full key in a new file.
pub(crate) fn make_full(file: &Path) -> Result<Key> {
    let key = Key::Full(FullKey::generate()?);
    write(file, &key)?;
    Ok(key)
}

/// Makes the put key of a full key in a new file.
pub(crate) fn make_put(full: &Path, file: &Path) -> Result<Key> {
    let Key::Full(full) = repository::key_file::read(full)? else {
        let text = format!("{} is a put key; put keys are made from a full key", full.display());
        return Err(usage(text));
    };
    let key = Key::Put(full.put());
    write(file, &key)?;
    Ok(key)
}

/// Writes a key into a new file.
fn write(path: &Path, key: &Key) -> Result<()> {
    let shown = path.display();
    if path.symlink_metadata().is_ok() {
        return Err(usage(format!(
            "{shown} exists already, and may be the only copy of a key: name a new file"
        )));
    }
    let mut output = Output::create(&RealDisk, path).with_context(|| format!("{shown}"))?;
    output.write_all(key.text().as_bytes())?;
    output.finish().with_context(|| format!("{shown}"))
}

fn list(file: &Path, report: &Report) -> Result<()> {
    let key = repository::key_file::read(file)?;
    let (kind, what) = match &key {
        Key::Full(_) => ("full", "reads everything"),
        Key::Put(_) => ("put", "adds backups, reads none"),
    };
    if report.is_json() {
        report.message(
            &json!({"message_type": "key", "file": file.display().to_string(), "kind": kind, "id": key.id()}),
        )?;
    } else {
        report.data(&format!("{}  {kind:<4}  {what:<24}  {}", key.id(), file.display()))?;
    }
    Ok(())
}
