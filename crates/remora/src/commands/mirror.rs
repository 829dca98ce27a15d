//! `remora mirror`

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use block::RunContext;
use block::mirror::MirrorSide;
use clap::Args;
use progress::{Progress, count};
use repository::address::Address;
use repository::location::Location;
use repository::{log_archive, unlock};
use serde_json::json;

use crate::commands;
use crate::commands::prune;
use crate::exit::Exit;
use crate::keep::KeepArguments;
use crate::keys::KeyArguments;
use crate::report::{self, Report};
use crate::retain::RetainArguments;

const EXAMPLES: &str = "EXAMPLES
  remora mirror /backup /mnt/usb
  remora mirror /backup s3://company-backups/db
  remora mirror /backup s3://company-backups/db --retain 30d     nobody can remove the copy for 30 days
  remora mirror /backup s3://company-backups/db --keep-weekly 8 --keep-monthly 24     what stays there
  remora mirror s3://company-backups/db /srv/backup     back again
  AWS_ENDPOINT_URL=http://store:9000 remora mirror /backup s3://b/db

ENVIRONMENT
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   who asks; otherwise AWS_PROFILE (default)
                                                    in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials)
  AWS_REGION, AWS_DEFAULT_REGION                    us-east-1 if none is set
  AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL             another store than Amazon's
  AWS_CA_BUNDLE, SSL_CERT_FILE                      certificates that vouch for it, in PEM";

/// Copy a repository to another disk or to an object store, and back
///
/// Copies what the other place lacks, and reads each copy back. What the repository has forgotten stays
/// there: the copy has a retention of its own, which --keep-... set. Without them nothing is removed. If it
/// is stopped or killed, run it again: what was copied stays. Encrypted backups are copied as they are; a
/// key is needed only with --keep-..., and a put key is enough.
///
/// An object store must support the condition If-None-Match, so that no file can be written twice. This is
/// proven at the beginning of each run, and a store that ignores it is refused.
///
/// The archive of a binary log is copied if it is in segments, as in encrypted names and in stores. One that
/// is the server's files is not copied; exit code 3 says that there is one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The repository: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPO")]
    from: String,

    /// The copy: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "REPO2")]
    to: String,

    /// Also compare the contents of what is there already, and not only the lengths
    #[arg(long)]
    compare: bool,

    #[command(flatten)]
    keep: KeepArguments,

    #[command(flatten)]
    retain: RetainArguments,

    #[command(flatten)]
    key: KeyArguments,
}

/// The places of all names, and names with an archive of a log that is not copied.
#[derive(Default)]
struct Names {
    /// By the name, and whether it is that of the segmented archive. The backups' keys come first.
    places: BTreeMap<(String, bool), Box<dyn MirrorSide>>,
    /// Those with backups.
    backups: Vec<String>,
    archives: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let (from, to) = (Address::new(&arguments.from)?, Address::new(&arguments.to)?);
    let stop = commands::stop_flag(report)?;
    let policy = arguments.keep.policy();
    let key = if policy.is_some() { arguments.key.read()? } else { None };
    let names = names(&from)?;
    if names.places.is_empty() {
        anyhow::bail!("there is no backup in {}", arguments.from);
    }
    let home = |name: &str| match &to {
        Address::Folder(root) => Location::Folder(root.join(name)),
        Address::Bucket(bucket) => Location::Bucket(bucket.below(name)),
    };
    let world = RunContext { stop: &stop, progress: report };
    for ((name, is_log), from) in &names.places {
        let to = if *is_log { home(name).log() } else { home(name) };
        let to = arguments.retain.on(to)?.place();
        let done = block::mirror(&**from, &*to, arguments.compare, world)
            .with_context(|| format!("{name} is not mirrored; run it again to continue"))?;
        if report.is_json() {
            report.message(&json!({
                "message_type": "mirrored", "name": name, "log": is_log, "files_copied": done.copied,
                "bytes_copied": done.bytes, "files_there": done.there,
            }))?;
        } else {
            let (copied, size) = (count(done.copied, "file"), report::size(done.bytes));
            let what = if *is_log { ", archived log" } else { "" };
            report.note(&format!("{name}{what}: {copied} copied, {size}; {} there already", done.there));
        }
    }
    for name in &names.archives {
        report.warn(&format!(
            "{name}: the archive of the binary log is not copied, because its files still grow; let another 'remora binlog' archive \
             into the copy, or copy {name}/log with a tool that updates files"
        ));
    }
    let mut exit = if names.archives.is_empty() { Exit::Done } else { Exit::Partial };
    if let Some(policy) = policy {
        let copies = names.backups.iter().map(|name| Ok((name.clone(), arguments.retain.on(home(name))?)));
        let found = unlock::unlock(copies.collect::<Result<_>>()?, key.as_ref())?;
        for named in &found.backups {
            match prune::forget(named, &policy, false, (world, report))? {
                Exit::Done => {}
                Exit::Partial => exit = exit.and_left_out(),
                worse => exit = worse,
            }
        }
        exit = exit.after(found.warn_of_locked(report));
    }
    report.end();
    Ok(exit)
}

fn names(address: &Address) -> Result<Names> {
    let mut names = Names::default();
    let (backups, all) = match address {
        Address::Folder(root) => {
            // A folder of one name has the name of the folder, which must have one.
            let root = root.canonicalize().with_context(|| root.display().to_string())?;
            (repository::names(&root)?, repository::places(&root)?)
        }
        Address::Bucket(bucket) => (repository::in_bucket(bucket)?, repository::places_in(bucket)?),
    };
    for (name, home) in backups {
        names.backups.push(name.clone());
        names.places.insert((name, false), home.place());
    }
    // Also of names that have no backup.
    for (name, home) in all {
        if log_archive::has_segments(&home)? {
            // An encrypted one is of no use without the keys beside it.
            if block::is_encrypted(&*home.store())? {
                names.places.entry((name.clone(), false)).or_insert_with(|| home.place());
            }
            names.places.insert((name, true), home.log().place());
        } else if log_archive::has_files(&home) {
            names.archives.push(name);
        }
    }
    Ok(names)
}
