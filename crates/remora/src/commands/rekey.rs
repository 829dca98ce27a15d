//! `remora rekey`

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use failure::usage;
use progress::Progress;
use repository::location::Location;
use seal::Key;
use serde_json::json;

use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora key new new.key
  remora rekey /backup --key old.key --to new.key
  remora key put new.key db1.put                   hosts with an old put key need a new one";

/// Replace the key that opens the backups
///
/// The data is not rewritten. The new key opens everything from then on, and what is added is sealed for the
/// new key only. If it is killed, each name opens with one of the two keys; run it again.
///
/// It does not make old data safe from somebody who has the old key and a copy of the repository as it was.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// REPO, a folder or s3://BUCKET/PREFIX; or REPO/NAME for one name
    #[arg(value_name = "REPO")]
    repository: PathBuf,

    /// The full key that opens it now
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// The full key that will open it
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let old = repository::key_file::read(&arguments.key)?;
    let Key::Full(new) = repository::key_file::read(&arguments.to)? else {
        return Err(usage(format!("{} is a put key; --to needs a full key", arguments.to.display())));
    };
    let id = Key::Full(new.clone()).id();
    let mut exit = Exit::Done;
    let mut found: BTreeMap<String, Location> =
        repository::names(&arguments.repository)?.into_iter().collect();
    // Also of a name that has only an archived log yet.
    for (name, home) in repository::places(&arguments.repository)? {
        if home.is_encrypted()? {
            found.entry(name).or_insert(home);
        }
    }
    for (name, home) in found {
        let store = &*home.store();
        if !block::is_encrypted(store)? {
            report.warn(&format!("{name} is not encrypted"));
            exit = Exit::Partial;
            continue;
        }
        // A run that was killed has done some names already.
        if block::EncryptedStore::opens(store, &Key::Full(new.clone()))? {
            report.note(&format!("{name} opens with the key {id} already: --key was not tried"));
            continue;
        }
        let number = block::rekey(store, &old, &new)?;
        if report.is_json() {
            report.message(&json!({"message_type": "rekeyed", "name": name, "key": id, "epoch": number}))?;
        } else {
            report.note(&format!("{name} opens with the key {id} now"));
        }
    }
    Ok(exit)
}
