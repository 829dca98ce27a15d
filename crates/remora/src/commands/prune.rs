//! `remora prune`

mod log;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use block::retention::Policy;
use block::{Generation, RunContext};
use clap::Args;
use humanize::date_time;
use progress::{Progress, count};
use repository::{Named, unlock};
use serde_json::json;
use snapshot::identity;

use crate::commands;
use crate::exit::Exit;
use crate::keep::KeepArguments;
use crate::keys::KeyArguments;
use crate::report::{self, Report};
use crate::retain::RetainArguments;

const EXAMPLES: &str = "EXAMPLES
  remora prune /backup --keep-daily 14 --keep-weekly 8 --keep-monthly 12
  remora prune /backup/db1 --keep-within 30d
  remora prune /backup/disk.img --keep-last 3 --dry-run";

/// Forget old generations
///
/// Keeps what the options name and always the newest generation, and forgets the rest. Data of a forgotten
/// generation that a kept one needs stay where they are; what no generation needs is removed. Every kept
/// generation can be restored at any time, even if this command is killed.
///
/// If the name has an archive of a binary log, its files that are older than all kept generations are
/// removed, too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// REPO, a folder or s3://BUCKET/PREFIX; or REPO/NAME for one name
    #[arg(value_name = "REPO")]
    repository: PathBuf,

    #[command(flatten)]
    keep: KeepArguments,

    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    retain: RetainArguments,

    #[command(flatten)]
    key: KeyArguments,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let policy = arguments.keep.policy().ok_or_else(|| {
        failure::usage(
            "say what to keep: --keep-last, --keep-daily, --keep-weekly, --keep-monthly, --keep-within",
        )
    })?;
    let stop = commands::stop_flag(report)?;
    let world = RunContext { stop: &stop, progress: report };
    let mut exit = Exit::Done;
    let key = arguments.key.read()?;
    let names = repository::some_names(&arguments.repository)?;
    let names: Result<_> =
        names.into_iter().map(|(name, home)| Ok((name, arguments.retain.on(home)?))).collect();
    let found = unlock::unlock(names?, key.as_ref())?;
    found.warn_of_clear(key.as_ref(), report);
    for named in &found.backups {
        match forget(named, &policy, arguments.dry_run, (world, report))? {
            Exit::Done => {}
            Exit::Partial => exit = exit.and_left_out(),
            worse => exit = worse,
        }
    }
    report.end();
    Ok(exit.after(found.warn_of_locked(report)))
}

/// Forgets what the policy does not keep of a name.
pub(crate) fn forget(
    named: &Named,
    policy: &Policy,
    dry_run: bool,
    (world, report): (RunContext<'_>, &Report),
) -> Result<Exit> {
    let listing = named.repository.list()?;
    let keep = generations_to_keep(policy, &listing.generations);
    let done = block::prune(&named.repository, &keep, dry_run, world)?;
    tell(&named.name, &done, dry_run, report)?;
    for damage in &listing.broken {
        report.warn(&format!("{}: {damage}", named.name));
    }
    let is_mixed = identity::warn_of_mixed(&named.name, &listing.generations, report);
    let is_damaged = !(listing.broken.is_empty() && done.damaged.is_empty());
    let kept = listing.generations.iter().filter(|one| !done.forgotten.contains(&one.number));
    log::forget(named, kept, is_damaged, dry_run, report)?;
    Ok(match (is_damaged, is_mixed) {
        (true, _) => Exit::Damaged,
        (false, true) => Exit::Partial,
        (false, false) => Exit::Done,
    })
}

/// The generations that stay. Those of one source never push out those of another, and damaged ones count as
/// none, so that no complete one is removed because of them.
fn generations_to_keep(policy: &Policy, all: &[Generation]) -> BTreeSet<u64> {
    let stamp = |one: &&Generation| repository::calendar::stamp(one.number, one.taken_s);
    let mut keep = BTreeSet::new();
    for source in identity::sources(all) {
        let stamps: Vec<_> = source.iter().map(stamp).collect();
        let whole: Vec<_> = source.iter().filter(|one| one.is_whole).map(stamp).collect();
        keep.extend(policy.keep(&stamps));
        keep.extend(policy.keep(&whole));
    }
    keep
}

/// Reports files that the store retains; `of` says what they belong to.
fn tell_retained(name: &str, (retained, until_s): (&[String], Option<i64>), of: &str, report: &Report) {
    if let Some(first) = retained.first() {
        let files = count(retained.len(), "file");
        let until = until_s.map(|until_s| format!(", the last of them until {}", date_time::shown(until_s)));
        let until = until.unwrap_or_default();
        report.warn(&format!(
            "{name}: retained: {files}{of}, needed by no generation, which the place keeps{until}, such as {first}"
        ));
    }
}

fn tell(name: &str, done: &block::prune::Summary, dry_run: bool, report: &Report) -> Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": name, "dry_run": dry_run, "forgotten": done.forgotten,
            "rewritten": done.rewritten, "bytes_written": done.written, "bytes_freed": done.freed,
            "files_left": done.left, "files_at_source": done.at_source, "files_retained": done.retained,
            "retained_until": done.retained_until_s.map(date_time::machine), "damaged": done.damaged, "unused": done.unused,
        }))?;
        return Ok(());
    }
    let numbers = |numbers: &[u64]| {
        let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        if texts.is_empty() { "none".to_owned() } else { texts.join(" ") }
    };
    let size = report::size;
    let (forgotten, would) = (numbers(&done.forgotten), if dry_run { "would be " } else { "" });
    report.note(&format!("{name}: {would}forgotten: {forgotten}"));
    if !done.rewritten.is_empty() {
        report.note(&format!(
            "{name}: {would}written again: {}, {}",
            numbers(&done.rewritten),
            size(done.written)
        ));
    }
    report.note(&format!("{name}: {would}freed: {}", size(done.freed)));
    if !done.damaged.is_empty() {
        let damaged = numbers(&done.damaged);
        report.warn(&format!(
            "{name}: damaged, but kept with everything they may need: {damaged}; see 'remora verify'"
        ));
    }
    for file in &done.unused {
        report.warn(&format!("{file} can't be used; it stays until all older generations are forgotten"));
    }
    if done.at_source > 0 {
        report.note(&format!(
            "{name}: {} of no generation here stay, because the repository that this is a mirror of still has them",
            count(usize::try_from(done.at_source).unwrap_or(usize::MAX), "file")
        ));
    }
    tell_retained(name, (&done.retained, done.retained_until_s), "", report);
    if done.left > 0 {
        report.note(&format!(
            "{name}: {} still being read; the next prune removes what is left",
            count(done.left, "file")
        ));
    }
    Ok(())
}
