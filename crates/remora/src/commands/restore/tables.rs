//! `remora restore --tables`: some tables of a generation, or of any point in time, as a dump. A private
//! server is started on the generation where it is, so only what it touches is fetched.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use disk::{Disk, RealDisk};
use dump::DumpSummary;
use failure::usage;
use humanize::text;
use instance::Files;
use instance::requirements::Requirements;
use pitr::tables::{self, DUMP, Dumped, Opened, Work};
use pitr::{Recovery, RecoveryTarget};
use progress::{Progress, count};
use serde_json::{Value, json};

use super::Arguments;
use super::until;
use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

/// Dumps the tables as they were in the generation, or at the recovery target.
pub(super) fn run(
    recovery_target: Option<&RecoveryTarget>,
    arguments: &Arguments,
    report: &Report,
) -> Result<Exit> {
    let began = Instant::now();
    let (named, generation) = repository::one(&arguments.from, arguments.key.read_full()?.as_ref())?;
    if let Some(to) = &arguments.to {
        if to.host.is_some() {
            return Err(usage("--tables makes a dump on this machine; copy its folder"));
        }
        if to.path.symlink_metadata().is_ok() {
            return Err(usage(format!("{} exists already; --tables needs a new folder", to.path.display())));
        }
    }
    let stop = commands::stop_flag(report)?;
    let find = |recovery_target| {
        Recovery::find((&named, generation), recovery_target, arguments.until.timeline, &report.shared())
    };
    let recovery = recovery_target.map(find).transpose()?;
    if let (Some(recovery), true) = (&recovery, arguments.until.plan) {
        return until::plan(&named, recovery, report);
    }
    let target = arguments.target()?.path.as_path();
    let work = Work::new(&std::path::absolute(target)?)?;
    let name = named.name.clone();
    report.phase("opening the backup", None);
    let jobs = arguments.jobs.unwrap_or_else(commands::cores);
    let generation = recovery.as_ref().map(|recovery| recovery.generation).or(generation);
    let needs = Requirements::of(&named.repository, generation)?;
    let options = needs.options(&arguments.until.server_option)?;
    // What a replay alters outside of its data folder is moved there, which a mount can't do.
    let is_lazy = recovery.is_none() || !needs.has_outside();
    let to = instance::Work { folder: &work.folder, jobs, is_lazy };
    let (generation, files) = instance::readable(&named, generation, &to, &stop, &report.shared())?;
    let replay = recovery.as_ref().map(|recovery| until::ReplaySummary::new(&named, recovery));
    let opened = Opened {
        files: &files,
        work: &work.folder,
        needs: &needs,
        options,
        server: arguments.until.server.as_ref(),
        tables: arguments.tables.clone(),
        sessions: jobs,
    };
    let dumped = tables::dump(opened, recovery, &stop, &report.shared());
    let folder = work.folder.join(DUMP);
    report.end();
    let (Dumped { summary, prepared, reached }, fetched) =
        sound(dumped, &files, &format!("{name}@{generation}"))?;
    RealDisk.rename(&folder, target).with_context(|| text::path(target))?;
    RealDisk
        .sync_folder(target.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new(".")))?;
    drop(files);
    for line in &summary.omitted {
        report.warn(&format!("not in the dump: {line}"));
    }
    if prepared > 0 {
        let prepared = count(prepared, "transaction");
        report.warn(&format!("{prepared} in XA PREPARE: what they changed is not in the dump"));
    }
    let shown = TablesSummary { name, generation, target, fetched, seconds: began.elapsed().as_secs_f64() };
    let replay = replay.zip(reached);
    let reaches = replay.as_ref().is_none_or(|(_, reached)| until::exit(&reached.found) == Exit::Done);
    if let (Some((replay, reached)), false) = (&replay, report.is_json()) {
        replay.tell("is replayed", reached, report)?;
    }
    shown.tell(&summary, replay.map(|(replay, reached)| replay.json(&reached)), report)?;
    Ok(if summary.omitted.is_empty() && prepared == 0 && reaches { Exit::Done } else { Exit::Partial })
}

/// What was dumped, if all of the generation that the server needed was sound, and how many bytes were
/// fetched.
fn sound(dumped: Result<Dumped>, files: &Files, shown: &str) -> Result<(Dumped, Option<u64>)> {
    let Files::Lazy(lazy) = files else { return Ok((dumped?, None)) };
    // A server may continue after a read error.
    if lazy.inodes.is_damaged() {
        let text = format!("what the server needs of {shown} is damaged; no dump was made");
        return Err(match dumped {
            Ok(_) => failure::damage(text),
            Err(error) => failure::damage(format!("{text}: {error:#}")),
        });
    }
    Ok((dumped?, Some(lazy.inodes.fetched())))
}

/// The summary.
struct TablesSummary<'a> {
    name: String,
    generation: u64,
    target: &'a Path,
    /// None if all of it was restored.
    fetched: Option<u64>,
    seconds: f64,
}

impl TablesSummary<'_> {
    /// `replay`: the summary of the replay as JSON.
    fn tell(&self, summary: &DumpSummary, replay: Option<Value>, report: &Report) -> Result<()> {
        let TablesSummary { name, generation, target, fetched, seconds } = self;
        let tables = summary.manifest.tables.len();
        if report.is_json() {
            let mut message = json!({
                "message_type": "summary", "name": name, "generation": generation, "target": target,
                "tables": tables, "rows": summary.rows, "text_bytes": summary.text_bytes,
                "file_bytes": summary.file_bytes, "bytes_fetched": fetched, "omitted": summary.omitted,
                "seconds": seconds,
            });
            if let (Some(Value::Object(replay)), Some(message)) = (replay, message.as_object_mut()) {
                for (key, value) in replay {
                    message.entry(key).or_insert(value);
                }
            }
            report.message(&message)?;
            return Ok(());
        }
        let fetched = fetched.map(|bytes| format!("{} fetched from the repository, ", report::size(bytes)));
        let (fetched, target) = (fetched.unwrap_or_default(), target.display());
        report.note(&format!(
            "{} of {name}@{generation} in {target}: {}, {fetched}{seconds:.1} s; 'remora load {target}' loads them",
            count(tables, "table"),
            count(summary.rows, "row"),
        ));
        Ok(())
    }
}
