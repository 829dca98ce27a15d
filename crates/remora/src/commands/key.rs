//! `remora key`

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use progress::Progress;
use repository::key_file;
use seal::Key;
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
            let key = key_file::make_full(&arguments.file)?;
            report.note(&format!(
                "the full key {} is in {}; keep copies of it, none of them with the backups: without it nobody can read them",
                key.id(),
                arguments.file.display()
            ));
        }
        Action::Put(arguments) => {
            let key = key_file::make_put(&arguments.full, &arguments.file)?;
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

fn list(file: &Path, report: &Report) -> Result<()> {
    let key = key_file::read(file)?;
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
