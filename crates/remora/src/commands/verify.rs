//! `remora verify`

pub(crate) mod boot;
mod log;
mod replay;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use block::RunContext;
use block::restore::Loss;
use block::verify::{Cost, DAMAGES_MAX, Damage, Sample, Verified};
use clap::Args;
use failure::{Failure, usage};
use humanize::date_time;
use progress::{Progress, count};
use repository::{Named, unlock};
use serde_json::json;
use snapshot::identity;

use crate::commands;
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::loss;
use crate::report::{self, Report};

/// The most losses that are shown for one damaged place; --json has more.
const LOSSES_SHOWN: usize = 5;

const EXAMPLES: &str = "EXAMPLES
  remora verify /backup                  everything in the repository
  remora verify /backup/disk.img         one name
  remora verify /backup --sample 5%      every night: another twentieth each day, all of it in 20 days
  remora verify /backup/db1 --boot       and start a server on its newest generation
  remora verify /backup/db1 --replay     the generation before, and the archived log: is that the newest one?";

/// Check the backups: every byte is as it was written, or a server starts on them
///
/// Reads all files: each byte is covered by a hash, each block of each generation is unpacked and hashed,
/// each chain is followed to its end. So is the archive of a binary log that is in segments, event by event;
/// with a put key its segments are proven as they are stored. What is damaged is named with its file, byte
/// and block, and the exit code is 4.
///
/// With --boot a generation is restored into a file and mounted, a private server on this machine recovers
/// the data, and every table is checked. That needs root, and room for what the volume holds. Nothing of it
/// stays, unless remora is killed with SIGKILL: then remove its folder remora-boot-*.
///
/// With --replay the archived log is replayed on the generation before, and every table must have the rows
/// that it has in the generation itself. A row that was changed without the log differs: with sql_log_bin=0,
/// or while log_bin was off.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// REPO, a folder or s3://BUCKET/PREFIX; or REPO/NAME for one name; with --boot and --replay, REPO/NAME@N
    /// for generation N
    #[arg(value_name = "REPO")]
    repository: PathBuf,

    /// Prove one generation by starting a server on it
    #[arg(long)]
    boot: bool,

    /// Prove the archived log: replayed on the generation before N (of REPO/NAME@N, or the newest) it must
    /// give the rows of N
    #[arg(long, conflicts_with_all = ["boot", "sample", "data_folder"])]
    replay: bool,

    /// Where in the volume the server's data folder is [default: found by itself]
    #[arg(long, value_name = "PATH", requires = "boot")]
    data_folder: Option<PathBuf>,

    /// Which server of this machine to start, named as in 'sandbox start', or the path of its program
    /// [default: the one that the data folder calls for]
    #[arg(long, value_name = "NAME|PATH")]
    server: Option<sandbox::ServerChoice>,

    /// A folder with room for what the volume holds [default: the one for temporary files]
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,

    /// An option for the server, such as --innodb-data-file-path=ibdata1:1G;ibdata2:1G:autoextend
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    server_option: Vec<String>,

    /// Read only this share of the data, such as 5% or 1/30: another part each day, so that a run a day reads
    /// everything within 20 or 30 days
    #[arg(long, value_name = "SHARE", value_parser = parts, conflicts_with = "boot")]
    sample: Option<u64>,

    /// Threads that unpack and hash [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    #[command(flatten)]
    key: KeyArguments,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    if arguments.boot {
        return boot::run(arguments, report);
    }
    if arguments.replay {
        return replay::run(arguments, report);
    }
    if arguments.server.is_some() || arguments.work.is_some() || !arguments.server_option.is_empty() {
        return Err(usage(
            "--server, --work and --server-option need --boot or --replay, which start a server",
        ));
    }
    let stop = commands::stop_flag(report)?;
    let jobs = arguments.jobs.unwrap_or_else(commands::cores);
    let day = u64::try_from(repository::calendar::stamp(0, date_time::now_s()).day).unwrap_or(0);
    let sample = arguments.sample.map(|parts| Sample { part: day % parts, parts });
    let mut exit = Exit::Done;
    let key = arguments.key.read()?;
    let found = unlock::all(&arguments.repository, key.as_ref())?;
    found.warn_of_clear(key.as_ref(), report);
    let logs = log::find(found.backups.iter().chain(&found.only_logs))?;
    // The archive of a log may be there before the first backup.
    if found.backups.is_empty() && logs.is_empty() {
        bail!("there is no backup in {}", arguments.repository.display());
    }
    for named in &found.backups {
        if all_of(named, (jobs, sample), &stop, report)? {
            exit = Exit::Damaged;
        }
        if identity::warn_of_mixed(&named.name, &named.repository.list()?.generations, report) {
            exit = exit.and_left_out();
        }
    }
    for (name, archive) in logs {
        if log::verify((&name, archive), sample, &stop, report)? {
            exit = Exit::Damaged;
        }
    }
    report.end();
    Ok(exit.after(found.warn_of_locked(report)))
}

/// Verifies a name, and tells what is found. Returns whether anything is damaged.
fn all_of(
    named: &Named,
    (jobs, sample): (usize, Option<Sample>),
    stop: &AtomicBool,
    report: &Report,
) -> Result<bool> {
    let began = Instant::now();
    let verified = block::verify(&named.repository, jobs, sample, RunContext { stop, progress: report })?;
    tell((&named.name, sample), &verified, began.elapsed().as_secs_f64(), report)?;
    Ok(!verified.damages.is_empty())
}

/// What follows when a server met damage: everything is verified, so that all of it is found and noted. Other
/// errors stay errors.
fn after_damage(
    error: anyhow::Error,
    named: &Named,
    jobs: usize,
    (stop, report): (&AtomicBool, &Report),
) -> Result<Exit> {
    if !matches!(error.downcast_ref(), Some(Failure::Damage(_))) {
        return Err(error);
    }
    report.warn(&format!("{error:#}"));
    report.note(&format!("verifying all of {}, to find and note all damage", named.name));
    all_of(named, (jobs, None), stop, report)?;
    for (name, archive) in log::find(std::iter::once(named))? {
        log::verify((&name, archive), None, stop, report)?;
    }
    Ok(Exit::Damaged)
}

/// How many parts a share makes: `5%` or `1/20`.
fn parts(text: &str) -> Result<u64> {
    let parts = match (text.strip_suffix('%'), text.strip_prefix("1/")) {
        (Some(percent), _) => {
            let percent: f64 = percent.trim().parse().unwrap_or(f64::NAN);
            // The number of parts is rounded up.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 100,000")]
            (0.001..=100.0).contains(&percent).then(|| (100.0 / percent).ceil() as u64)
        }
        (None, Some(parts)) => parts.parse().ok().filter(|parts| (1..=100_000).contains(parts)),
        (None, None) => None,
    };
    parts.with_context(|| format!("'{text}' is not a share: write 5% or 1/20"))
}

/// The cost of a damaged place, in words.
fn cost(damage: &Damage) -> String {
    let mut text = String::new();
    // Generations with the same losses are reported together.
    let mut groups: Vec<(Vec<u64>, &[Loss])> = Vec::new();
    for cost in &damage.costs {
        match groups.last_mut() {
            Some((numbers, losses)) if *losses == &*cost.losses => numbers.push(cost.generation),
            _ => groups.push((vec![cost.generation], &cost.losses)),
        }
    }
    for (numbers, losses) in groups {
        let numbers = match (numbers.first(), numbers.last()) {
            (Some(first), Some(last)) if first != last => format!("generations {first} to {last}"),
            (first, _) => format!("generation {}", first.copied().unwrap_or(0)),
        };
        let shown: Vec<String> = losses.iter().take(LOSSES_SHOWN).map(loss::shown).collect();
        let more = losses.len().saturating_sub(shown.len());
        let what = match (losses.is_empty(), more) {
            (true, _) => "'remora restore --keep-going' says what of it is lost".to_owned(),
            (false, 0) => shown.join(", "),
            (false, more) => format!("{}, and {more} more", shown.join(", ")),
        };
        text.push_str(&format!("; costs {numbers}: {what}"));
    }
    if damage.may_lose_generation {
        text.push_str("; the generation in it, if there was one, is lost");
    }
    if damage.costs_nothing() {
        text.push_str("; it costs nothing: no generation needs it, or the same is stored elsewhere");
    }
    text
}

fn cost_json(cost: &Cost) -> serde_json::Value {
    let loss = |loss: &Loss| {
        let path = loss.path.as_ref().map(|path| path.display().to_string());
        json!({"path": path, "from": loss.bytes.start, "to": loss.bytes.end})
    };
    json!({"generation": cost.generation, "losses": cost.losses.iter().map(loss).collect::<Vec<_>>()})
}

/// What to do about damage.
fn advice(verified: &Verified) -> &'static str {
    if !verified.is_noted {
        "the damage could not be noted, so the next backup does not store it again; begin a new chain with --full"
    } else if verified.damages.iter().all(Damage::costs_nothing) {
        "every generation can still be restored whole"
    } else if verified.damages.iter().all(|damage| damage.costs.is_empty()) {
        "every generation that 'remora list' shows can still be restored whole; make a new backup"
    } else {
        "the next backup stores again what is still the same in the source, or asks for --full; 'remora restore --keep-going' brings back the rest"
    }
}

fn tell(
    (name, sample): (&str, Option<Sample>),
    verified: &Verified,
    seconds: f64,
    report: &Report,
) -> Result<()> {
    for damage in &verified.damages {
        if report.is_json() {
            report.message(&json!({
                "message_type": "damage", "name": name, "place": damage.place, "what": damage.what,
                "costs": damage.costs.iter().map(cost_json).collect::<Vec<_>>(),
                "may_lose_generation": damage.may_lose_generation,
            }))?;
        } else {
            report.data(&format!("{}: {}{}", damage.place, damage.what, cost(damage)))?;
        }
    }
    if !verified.damages.is_empty() {
        report.note(&format!("{name}: {}", advice(verified)));
    }
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": name, "generations": verified.generations, "files": verified.files,
            "blocks": verified.blocks, "opened": verified.is_opened, "bytes": verified.bytes, "damages": verified.damages.len(), "seconds": seconds,
            "part": sample.map(|sample| sample.part + 1), "parts": sample.map(|sample| sample.parts),
        }))?;
        return Ok(());
    }
    let damages = match verified.damages.len() {
        0 => "all sound".to_owned(),
        number if number < DAMAGES_MAX => count(number, "damaged place"),
        _ => "more damaged places than are shown".to_owned(),
    };
    report.note(&format!(
        "{name}: {} in {}, {}, {}{}, {seconds:.1} s: {damages}",
        count(verified.generations, "generation"),
        count(verified.files, "file"),
        report::size(verified.bytes),
        match verified.is_opened {
            true => count(verified.blocks, "block"),
            false => "blocks as they are stored (a put key opens none)".to_owned(),
        },
        part_of(sample),
    ));
    Ok(())
}

/// Which part was read, for people.
fn part_of(sample: Option<Sample>) -> String {
    let part = |Sample { part, parts }| format!(", part {} of {parts} (another one each day)", part + 1);
    sample.map(part).unwrap_or_default()
}
