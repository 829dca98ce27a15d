//! `remora list`

mod files;
mod log;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use backup::metrics::{self, Metrics};
use block::{Generation, Listing};
use clap::Args;
use humanize::date_time;
use progress::{Progress, count};
use repository::log_summary::LogSummary;
use repository::state::{self, Evidence, KnownDamage};
use repository::unlock::{self, Locked};
use repository::{Named, address};
use serde_json::{Value, json};
use snapshot::identity::{self, Identity};

use crate::chosen::Chosen;
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::report::{self, Report};

/// How far in the future a backup's time may be, because the clocks of two machines differ.
const CLOCKS_DIFFER_S: i64 = 300;

const EXAMPLES: &str = "EXAMPLES
  remora list /backup
  remora list /backup --older-than 26h     for monitoring: exits with 3 if a newest backup is older
  remora list /backup --log-older-than 1m  the same for the logs that 'remora binlog' archives
  remora list /backup --textfile /var/lib/prometheus/node-exporter/remora.prom
  remora list s3://company-backups/db --retained     until when nobody can remove what each one needs
  remora list /backup/db1 --files          what is in the newest generation
  remora list /backup/db1@12 --files '**/*.ibd'
  remora list /backup --json";

/// List the backups in a repository, or the files in one of them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// REPO, a folder or s3://BUCKET/PREFIX; or REPO/NAME for one name; with --files also REPO/NAME@N for
    /// generation N
    #[arg(value_name = "REPO")]
    repository: PathBuf,

    /// Exit with 3 if the newest backup of a name is older than this, such as 26h or 8d, or if there is none
    #[arg(long, value_name = "AGE", value_parser = date_time::duration_s)]
    older_than: Option<u64>,

    /// Exit with 3 if the archive of a binary log may lack more than the last AGE, such as 1m, or if there is
    /// none
    #[arg(long, value_name = "AGE", value_parser = date_time::duration_s)]
    log_older_than: Option<u64>,

    /// Also write what is there as metrics into this file, for the textfile collector of Prometheus'
    /// node_exporter; its name must end with .prom
    #[arg(long, value_name = "FILE", value_parser = metrics::textfile)]
    textfile: Option<PathBuf>,

    /// Also ask the object store until when nobody can remove what a generation needs, or an archived log
    #[arg(long)]
    retained: bool,

    /// List the files of a generation [default: the newest], or those of a path or pattern: app, 'app/*.ibd',
    /// '**/*.frm'
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["older_than", "log_older_than", "textfile", "retained"])]
    files: Option<Chosen>,

    #[command(flatten)]
    key: KeyArguments,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    if let Some(chosen) = &arguments.files {
        let (place, key) = (arguments.repository.to_string_lossy(), arguments.key.read_full()?);
        return files::list(&place, chosen, key.as_ref(), report);
    }
    let root = &arguments.repository;
    let is_watched = arguments.older_than.is_some() || arguments.log_older_than.is_some();
    let none = || report.warn(&format!("there is no backup in {}", root.display()));
    if is_watched && !address::is_in_store(root) && !root.is_dir() {
        none();
        return Ok(Exit::Partial);
    }
    let key = arguments.key.read()?;
    let found = unlock::all(root, key.as_ref())?;
    found.warn_of_clear(key.as_ref(), report);
    let mut exit = Exit::Done;
    let partial = |what: &str, exit| left_out(what, exit, report);
    let now_s = date_time::now_s();
    let mut metrics = Metrics::new(root);
    // Names whose server writes a binary log that is not archived.
    let mut without_log = BTreeSet::new();
    for named in &found.backups {
        let listing = named.repository.list()?;
        if show_all(named, &listing, arguments.retained, &mut metrics, report)? {
            exit = Exit::Damaged;
        }
        if identity::warn_of_mixed(&named.name, &listing.generations, report) {
            exit = exit.and_left_out();
        }
        let has_log = listing.generations.last().and_then(repository::position).is_some();
        without_log.extend(has_log.then(|| named.name.clone()));
        if let Some(limit) = arguments.older_than
            && let Some(why) = too_old(&listing.generations, limit, now_s)
        {
            exit = partial(&format!("{}: {why}", named.name), exit);
        }
    }
    let mut has_log = false;
    for named in found.backups.iter().chain(&found.only_logs) {
        let Some(log) = LogSummary::find(named, arguments.retained)? else { continue };
        has_log = true;
        without_log.remove(&named.name);
        log::show(&log, report)?;
        if log::warn_of_damage(&log, report) {
            exit = Exit::Damaged;
        }
        metrics.log(&named.name, log.caught_up);
        if let Some(limit) = arguments.log_older_than
            && let Some(why) = log::too_old(&log, limit, now_s)
        {
            exit = partial(&format!("{}: {why}", named.name), exit);
        }
    }
    for locked in &found.locked {
        metrics.locked(&locked.name, show_locked(locked, report)?);
    }
    // Without the key the age of these is unknown.
    if is_watched || arguments.textfile.is_some() || found.locked.iter().any(Locked::is_damaged) {
        exit = exit.after(found.warn_of_locked(report));
    }
    let is_empty = found.backups.is_empty() && found.locked.is_empty();
    if is_empty && (arguments.older_than.is_some() || !has_log) {
        none();
        exit = if is_watched { exit.and_left_out() } else { exit };
    }
    if arguments.log_older_than.is_some() {
        exit = lacking(root, has_log, &without_log).iter().fold(exit, |exit, why| partial(why, exit));
    }
    if let Some(file) = &arguments.textfile {
        metrics.write(file)?;
    }
    Ok(exit)
}

fn left_out(what: &str, exit: Exit, report: &Report) -> Exit {
    report.warn(what);
    exit.and_left_out()
}

/// Which logs are not archived: that of any name, or those of some.
fn lacking(root: &Path, has_log: bool, names: &BTreeSet<String>) -> Vec<String> {
    if !has_log {
        return vec![format!("no log is archived in {}", root.display())];
    }
    names.iter().map(|name| format!("{name}: no log is archived, and its server writes one")).collect()
}

/// Why the newest backup is too old, if it is. The newest is the last one that was made, whatever its clock
/// said.
fn too_old(generations: &[Generation], limit: u64, now_s: i64) -> Option<String> {
    if generations.is_empty() {
        return Some("there is no backup".to_owned());
    }
    let sources = identity::sources(generations);
    sources.iter().filter_map(|source| source.last()).find_map(|newest| is_too_old(newest, limit, now_s))
}

fn is_too_old(newest: &Generation, limit: u64, now_s: i64) -> Option<String> {
    let when = date_time::shown(newest.taken_s);
    match u64::try_from(now_s - newest.taken_s) {
        Ok(age) if age > limit => Some(format!("the newest backup is too old: {when}")),
        Ok(_) => None,
        Err(_) if newest.taken_s - now_s <= CLOCKS_DIFFER_S => None,
        Err(_) => Some(format!(
            "the newest backup is dated in the future: {when}; so its age is unknown: correct the clock and make another"
        )),
    }
}

/// `until_s`: until when nobody can remove what it needs, if that was asked for.
fn show(
    name: &str,
    generation: &Generation,
    is_damaged: bool,
    until_s: Option<Option<i64>>,
    report: &Report,
) -> Result<()> {
    let number = format!("{name}@{}", generation.number);
    let identity = Identity::of(generation);
    if report.is_json() {
        let note: Value = serde_json::from_str(&generation.note).unwrap_or(Value::Null);
        let mut line = json!({
            "message_type": "generation", "name": name, "generation": generation.number, "parent": generation.parent,
            "taken": date_time::machine(generation.taken_s), "bytes": generation.len, "blocks": generation.blocks,
            "bytes_stored": generation.stored, "file": generation.file, "file_bytes": generation.file_bytes,
            "note": note, "booted": generation.booted, "damaged": is_damaged, "host": identity.host, "source": note.get("source"),
        });
        if let Some(until_s) = until_s {
            line["retained_until"] = json!(until_s.map(date_time::machine));
        }
        return Ok(report.message(&line)?);
    }
    let kind = match generation.parent {
        0 => "full".to_owned(),
        parent => format!("changes to {parent}"),
    };
    let size = report::size;
    report.data(&format!(
        "{number:<24} {}  {kind:<16} {:>9}  {:>9} stored{}{}{}",
        date_time::shown(generation.taken_s),
        size(generation.len),
        size(generation.file_bytes),
        if is_damaged { "  DAMAGED" } else { shown(Evidence::of(generation)) },
        until_s.map_or_else(String::new, shown_until),
        shown_source(generation, &identity.host),
    ))?;
    Ok(())
}

/// The source of a generation, at the end of its line.
fn shown_source(generation: &Generation, host: &str) -> String {
    let note: Value = serde_json::from_str(&generation.note).unwrap_or(Value::Null);
    let source = note.get("source").and_then(Value::as_str).unwrap_or_default();
    if source.is_empty() { String::new() } else { format!("  {source} on {host}") }
}

/// The generations of a name. `is_retained`: the store is asked until when nobody can remove what they need.
/// Returns whether something is damaged.
fn show_all(
    named: &Named,
    listing: &Listing,
    is_retained: bool,
    metrics: &mut Metrics,
    report: &Report,
) -> Result<bool> {
    let damage = KnownDamage::of(named, listing);
    let noted = state::told(&damage.noted, date_time::shown).map(|(_, text)| text);
    for text in damage.texts.iter().chain(&noted) {
        report.warn(&format!("{}: {text}", named.name));
    }
    let lost = damage.lost(listing);
    metrics.backups(&named.name, listing, &lost);
    let retained = is_retained.then(|| named.repository.retained()).transpose()?;
    for generation in &listing.generations {
        let until_s = retained.as_ref().map(|all| all.get(&generation.number).copied().flatten());
        show(&named.name, generation, lost.contains(&generation.number), until_s, report)?;
    }
    Ok(!listing.broken.is_empty() || !lost.is_empty())
}

/// What can be known of a name without its key: its files, and their bytes, which are returned.
fn show_locked(locked: &Locked, report: &Report) -> Result<u64> {
    let name = &locked.name;
    let (files, bytes) = locked.stored()?;
    if report.is_json() {
        let line = json!({"message_type": "locked", "name": name, "files": files, "bytes_stored": bytes});
        report.message(&line)?;
        return Ok(bytes);
    }
    let (files, size) = (count(files, "file"), report::size(bytes));
    report.data(&format!(
        "{name:<24} {:<19}  {files:<16} {:>9}  {size:>9} stored  --key shows more",
        "encrypted", ""
    ))?;
    Ok(bytes)
}

/// The end of the line of a generation, or an archived log, that says until when nobody can remove it.
fn shown_until(until_s: Option<i64>) -> String {
    until_s.map_or("  not retained".to_owned(), |until_s| {
        format!("  retained until {}", date_time::shown(until_s))
    })
}

/// The end of a generation's line.
fn shown(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Nothing => "",
        Evidence::NeverRecovered => "  never recovered",
        Evidence::Booted => "  booted",
        Evidence::Proven => "  proven",
        Evidence::Unsound => "  NOT SOUND",
    }
}
