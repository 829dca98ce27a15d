//! `remora restore --tables`: some tables of a generation, or of any point in time, as a dump. A private
//! server is started on the generation where it is, so only what it touches is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use codec::Codec;
use disk::{Disk, Guard, RealDisk, Share};
use dump::{
    Conditions, Definer, DumpRequest, DumpSummary, Format, Limits, OddPolicy, ReadRequest, Selection,
};
use failure::{Failure, usage};
use humanize::text;
use instance::binary_log::BinaryLog;
use instance::requirements::Requirements;
use instance::{Files, Wanted};
use pitr::{Folders, Reached, Recovery, RecoveryTarget, ReplayRequest};
use progress::{Progress, WithoutNotes, count};
use serde_json::{Value, json};

use super::Arguments;
use super::until;
use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

/// How long to wait for a lock that only our own sessions can hold.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// What DATA DIRECTORY of a table says is a folder of the copy, which no other server has.
const WITHOUT_FOLDERS: &str = "--sql-mode=NO_DIR_IN_CREATE";

/// The dump in the folder to work in.
const DUMP: &str = "dump";

/// A folder beside the target, for this target alone. Leftovers of a killed run are removed.
struct Work {
    folder: PathBuf,
    _alone: Box<dyn Guard>,
}

impl Work {
    fn new(target: &Path) -> Result<Work> {
        let name = target.file_name().with_context(|| format!("{} has no name", target.display()))?;
        let mut own = std::ffi::OsString::from(".");
        own.push(name);
        own.push(".remora");
        let folder = target.with_file_name(own);
        RealDisk.make_folder(&folder).with_context(|| text::path(&folder))?;
        let lock = folder.join("lock");
        let alone = RealDisk.lock(&lock, Share::Exclusive)?;
        let busy = || Failure::Busy(format!("another run is making {}", target.display()));
        let alone = alone.ok_or_else(busy).map_err(anyhow::Error::new)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path).with_context(|| text::path(&path))?;
            } else if path != lock {
                RealDisk.remove(&path)?;
            }
        }
        Ok(Work { folder, _alone: alone })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

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
    let opened = Opened { files: &files, work: &work.folder, needs: &needs, options };
    let dumped = dump_from(arguments, opened, recovery, &stop, report);
    let folder = work.folder.join(DUMP);
    report.end();
    let fetched = match &files {
        // A server may continue after a read error.
        Files::Lazy(lazy) if lazy.inodes.is_damaged() => {
            let text = format!("what the server needs of {name}@{generation} is damaged; no dump was made");
            return Err(dumped.err().map_or_else(
                || failure::damage(&text),
                |error| failure::damage(format!("{text}: {error:#}")),
            ));
        }
        Files::Lazy(lazy) => Some(lazy.inodes.fetched()),
        _ => None,
    };
    let Dumped { summary, prepared, reached } = dumped?;
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

/// What was dumped.
struct Dumped {
    summary: DumpSummary,
    /// How many transactions are in XA PREPARE.
    prepared: usize,
    /// The replay to the recovery target.
    reached: Option<Reached>,
}

/// The files of the generation, and the server for them.
struct Opened<'a> {
    files: &'a Files,
    /// A folder to work in.
    work: &'a Path,
    needs: &'a Requirements,
    options: Vec<String>,
}

/// Replays the log up to the recovery target, starts a server on the files, and dumps from it.
fn dump_from(
    arguments: &Arguments,
    opened: Opened<'_>,
    recovery: Option<Recovery<'_>>,
    stop: &Arc<AtomicBool>,
    report: &Report,
) -> Result<Dumped> {
    let Opened { files, work, needs, options } = opened;
    let own = &arguments.until;
    let options: Vec<String> = instance::FRUGAL.map(str::to_owned).into_iter().chain(options).collect();
    let wanted = Wanted {
        data_folder: None,
        server: own.server.as_ref(),
        options: &options,
        work: None,
        needs,
        account: None,
    };
    let selection = Selection { include: arguments.tables.clone(), exclude: Vec::new(), no_accounts: true };
    let data = instance::data(files, wanted)?;
    report.phase("recovering", None);
    instance::refuse_outside(&data)?;
    let folders = Folders { data: &data, work };
    let request = ReplayRequest { wanted, only: &selection };
    let replay = |recovery: Recovery<'_>| recovery.replay(folders, request, stop, &report.shared());
    let reached = recovery.map(replay).transpose()?.map(|(reached, _)| reached);
    let log = BinaryLog::find(&data, needs.log())?;
    let options: Vec<String> =
        [WITHOUT_FOLDERS.to_owned()].into_iter().chain(options.iter().cloned()).collect();
    let server = instance::start(&data, log.as_ref(), Wanted { options: &options, ..wanted })?;
    instance::settle(&server, stop)?;
    let prepared = server::prepared_xa(&mut instance::connect(&server)?)?.len();
    let world = dump::Context {
        disk: Arc::new(RealDisk),
        server: Arc::new(RealDisk),
        stop: Arc::clone(stop),
        // Notes about the private server say nothing about the server that was backed up.
        progress: Arc::new(WithoutNotes(report.clone())),
    };
    let request = DumpRequest {
        read: ReadRequest {
            selection,
            sessions: arguments.jobs.unwrap_or_else(commands::cores),
            masks: dump::Masks::default(),
            conditions: Conditions::default(),
            data: true,
            history: true,
            chunk_bytes: None,
            limits: Limits { bytes_per_second: None, threads_running: None },
            lock_wait: LOCK_WAIT,
            block_ddl: false,
            kill_long_queries: false,
        },
        folder: work.join(DUMP),
        format: Format::Tsv,
        codec: (Codec::Zstd, 1),
        odd: OddPolicy::default(),
        resume: false,
        definer: Definer::default(),
    };
    let summary = dump::dump(&world, &instance::target(&server)?, &request)?;
    Ok(Dumped { summary, prepared, reached })
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
