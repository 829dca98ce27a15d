//! `remora restore --until`: a generation, and the archived log from there to any moment.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use block::World;
use block::restore::Request;
use clap::Args;
use disk::{Disk, RealDisk};
use progress::{Progress, count};
use serde_json::{Value, json};

use super::goal::{Goal, single};
use super::replay::Replay;
use super::scan::{self, Found, NoWay};
use crate::boot::binary_log::{self, BinaryLog, Position};
use crate::boot::{self, Wanted};
use crate::exit::{Exit, usage};
use crate::history::{Range, names};
use crate::report::{self, Report};
use crate::repository::{self, Named};
use crate::{calendar, commands, shown};

/// Bytes that are compared at once.
const PIECE_BYTES: usize = 1 << 20;
/// The byte of a log with the bit that says that it is in use.
const IN_USE_AT: u64 = 21;

/// To which moment.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "To a moment between or after backups, with the log that 'remora binlog' archived"
)]
pub(super) struct Moment {
    /// Replay the archived log until a TIME, a GTID (or one of each domain, separated by commas),
    /// FILE:POSITION, or 'end'. Transactions that ended at TIME or before are in
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true, conflicts_with_all = ["before", "before_statement"])]
    until: Option<Goal>,

    /// Replay it until just before this transaction
    #[arg(long, value_name = "GTID", value_parser = single, conflicts_with = "before_statement")]
    before: Option<Range>,

    /// Replay it until just before the newest transaction with this text in a statement
    #[arg(long, value_name = "TEXT")]
    before_statement: Option<String>,

    /// Which line of the archive [default: the newest]
    #[arg(long, value_name = "N")]
    line: Option<u32>,

    /// Say what would be done and what would come next, and do nothing
    #[arg(long)]
    plan: bool,

    /// Which server of this machine replays, or reads for --tables, named as in 'sandbox start' [default: the
    /// one that the data folder calls for]
    #[arg(long, value_name = "NAME")]
    pub(super) server: Option<sandbox::Product>,

    /// An option for that server, such as --lower-case-table-names=1
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(super) server_option: Vec<String>,
}

impl Moment {
    /// The moment, if one is given.
    pub(super) fn goal(&self) -> Option<Goal> {
        let before = self.before.clone().map(Goal::Before);
        let statement = || self.before_statement.as_ref().map(|it| Goal::BeforeStatement(it.to_lowercase()));
        self.until.clone().or(before).or_else(statement)
    }

    /// Refuses what only makes sense with a moment. `server`: a server is started in any case.
    pub(super) fn without_goal(&self, server: bool) -> Result<()> {
        if self.line.is_some() || self.plan {
            return Err(usage("--line and --plan need --until, --before or --before-statement"));
        }
        if !server && (self.server.is_some() || !self.server_option.is_empty()) {
            return Err(usage(
                "--server and --server-option need --tables, --until, --before or --before-statement",
            ));
        }
        Ok(())
    }
}

/// The archived log of a name.
struct Log {
    /// The line's number.
    line: String,
    files: Vec<PathBuf>,
}

impl Log {
    fn find(named: &Named, line: Option<u32>) -> Result<Log> {
        let Some(folder) = named.home.folder() else {
            return Err(usage(format!(
                "{}: no log is archived in a store: restore without --until, and apply the log of the server",
                named.home.shown()
            )));
        };
        let folder = folder.join(binlog::archive::FOLDER);
        let lines = binlog::archive::lines(&RealDisk, &folder).unwrap_or_default();
        let number = |path: &PathBuf| names::file(path).parse::<u32>().unwrap_or(0);
        let found = match line {
            None => lines.last(),
            Some(wanted) => lines.iter().find(|path| number(path) == wanted),
        };
        let Some(found) = found else {
            let repository = named.home.shown();
            return Err(usage(match line {
                Some(line) => format!("the archive of {repository} has no line {line}"),
                None if block::is_sealed(&*named.home.store())? => {
                    format!("{repository} is encrypted, and no log is archived beside encrypted backups")
                }
                None => format!("no log is archived in {repository}: 'remora binlog {repository}' does that"),
            }));
        };
        let line = number(found).to_string();
        let found = crate::history::files(std::slice::from_ref(found))?;
        if let Some(missing) = found.missing.first() {
            bail!("the archive is not complete: {missing}");
        }
        Ok(Log { line, files: found.files })
    }

    /// The files from the one with this name on; none if it is not archived.
    fn from(&self, file: &str) -> Option<&[PathBuf]> {
        let at = self.files.iter().position(|path| names::file(path) == file)?;
        self.files.get(at..)
    }
}

/// The newest generation that is not behind the goal, or the one that is named, and the way from there, if
/// the generation says where it is.
fn choose(
    named: &Named,
    wanted: Option<u64>,
    goal: &Goal,
    log: &Log,
    report: &Report,
) -> Result<(u64, Option<(Position, Found)>)> {
    let mut why = None;
    for generation in named.repository.list()?.generations.iter().rev() {
        let number = generation.number;
        if wanted.is_some_and(|wanted| wanted != number) {
            continue;
        }
        ensure!(
            repository::is_tree(generation),
            "{}@{number} is a volume, and this works with files only: restore the volume, and replay the archive there",
            named.name
        );
        let is_late = matches!(goal, Goal::Time(until) if generation.taken_s > *until);
        if is_late && wanted.is_none() {
            continue;
        }
        let Some(position) = repository::position(generation) else {
            if wanted.is_some() {
                return Ok((number, None));
            }
            continue;
        };
        let Some(files) = log.from(&position.0) else { continue };
        match scan::scan(goal, files, position.1, report) {
            Ok(found) => return Ok((number, Some((position, found)))),
            Err(error) if error.is::<NoWay>() => why = why.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(why.unwrap_or_else(|| {
        let (name, line) = (&named.name, &log.line);
        let which = wanted.map_or_else(|| format!("no generation of {name}"), |number| format!("{name}@{number} is not"));
        let is = if wanted.is_some() { "" } else { " is" };
        anyhow::anyhow!(
            "{which}{is} before that moment and within line {line} of the archived log; 'remora list' shows generations, --line \
             chooses another line, and @N a generation that does not say where it is in the log"
        )
    }))
}

pub(super) fn run(goal: &Goal, arguments: &super::Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let own = &arguments.until;
    let (named, wanted) = repository::one(&arguments.from, arguments.key.read_full()?.as_ref())?;
    if arguments.delta || arguments.overwrite || arguments.keep_going || !arguments.path.is_empty() {
        return Err(usage(
            "--until, --before and --before-statement restore all files into a new folder, and only what is sound",
        ));
    }
    if arguments.to.host.is_some() {
        return Err(usage("the replay needs the data on this machine: restore here, and copy the folder"));
    }
    let target = arguments.to.path.as_path();
    if target.symlink_metadata().is_ok() {
        return Err(usage(format!("{} exists already; a new folder is needed", target.display())));
    }
    let stop = commands::stop_flag(report)?;
    let log = Log::find(&named, own.line)?;
    report.phase("reading the archived log", None);
    let (generation, known) = choose(&named, wanted, goal, &log, report)?;
    report.end();
    if own.plan {
        let Some((position, found)) = known else {
            bail!(
                "{}@{generation} does not say where it is in the log; that is seen when it is recovered",
                named.name
            );
        };
        refuse(&found)?;
        let told = Told { named: &named, generation, position: &position, found: &found, log: &log };
        told.tell("would be restored", &[], report)?;
        return Ok(Exit::Done);
    }
    let job = Job { named: &named, generation, goal, log: &log, target, arguments };
    let (position, found, tables) = job.run(known, &stop, report)?;
    report.end();
    let told = Told { named: &named, generation, position: &position, found: &found, log: &log };
    let seconds = began.elapsed().as_secs_f64();
    told.tell("is restored", &[("tables", tables.into()), ("seconds", seconds.into())], report)?;
    Ok(Exit::Done)
}

/// Refuses what a replay would do wrong.
fn refuse(found: &Found) -> Result<()> {
    if let Some(sql) = &found.way.temporary {
        bail!(
            "a statement uses a temporary table that was made before the backup, and so is not in it: {sql}; an older generation \
             may have what made it in the log behind it"
        );
    }
    Ok(())
}

/// What is done.
struct Job<'a> {
    named: &'a Named,
    generation: u64,
    goal: &'a Goal,
    log: &'a Log,
    target: &'a Path,
    arguments: &'a super::Arguments,
}

impl Job<'_> {
    /// The data get their name when everything is proven. Returns where the generation was, the way, and how
    /// many tables there are.
    fn run(
        &self,
        known: Option<(Position, Found)>,
        stop: &AtomicBool,
        report: &Report,
    ) -> Result<(Position, Found, usize)> {
        let parent = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let work = parent.unwrap_or(Path::new("."));
        let own = &self.arguments.until;
        let wanted =
            Wanted { data_folder: None, product: own.server, options: &own.server_option, work: Some(work) };
        let work = wanted.work_folder()?;
        let jobs = self.arguments.jobs.unwrap_or_else(commands::cores);
        let world = World { stop, progress: report };
        let request = Request::new(Some(self.generation), jobs);
        let (_, files) = boot::files(self.named, work.path(), request, world)?;
        let data = boot::data(&files, wanted)?;
        report.phase("recovering", None);
        boot::refuse_outside(&data)?;
        forget_source(&data)?;
        let (position, name) = self.recover(&data, wanted, stop)?;
        let Some(files) = self.log.from(&position.0) else {
            bail!(
                "the generation is in {}, which is not in line {} of the archive",
                position.0,
                self.log.line
            );
        };
        self.is_same_history(&data, &position, files)?;
        let found = match known {
            Some((noted, found)) if noted == position => found,
            _ => scan::scan(self.goal, files, position.1, report)?,
        };
        refuse(&found)?;
        let files = files.get(..=found.way.end.map_or(0, |end| end.file)).unwrap_or(files);
        let (way, servers, from) = (&found.way, &found.servers, position.1);
        let folder = work.path().join("log");
        RealDisk.create_folder(&folder)?;
        let tables =
            Replay { data: &data, work: &folder, files, from, way, servers, wanted }.run(stop, report)?;
        forget_log(&data, &name)?;
        self.finish(&work.path().join("tree"), &data)?;
        Ok((position, found, tables))
    }

    /// Lets a server recover the data, with their own log. Returns where they are in it, and its name.
    fn recover(&self, data: &Path, wanted: Wanted<'_>, stop: &AtomicBool) -> Result<(Position, String)> {
        let Some(log) = BinaryLog::find(data)? else {
            bail!(
                "{}@{} has no binary log, so nothing shows that the archive is of the same history",
                self.named.name,
                self.generation
            );
        };
        let mut server = boot::start(data, Some(&log), wanted)?;
        boot::settle(&server, stop)?;
        let mut session = boot::connect(&server)?;
        let version = session.value("SELECT VERSION()")?.unwrap_or_default();
        ensure!(version.contains("MariaDB"), "this works with MariaDB; the data are of MySQL {version}");
        let prepared = session.strings("XA RECOVER")?.len();
        ensure!(
            prepared == 0,
            "the generation has {} in XA PREPARE, and a replay of what became of them was not tried",
            count(prepared, "transaction")
        );
        let innodb = binary_log::innodb_position(&server.error_log())?;
        let last = innodb.clone();
        let position = log.position(&mut session, innodb)?;
        if let Some((file, at)) = last {
            ensure!(
                file <= position.0,
                "the data are at {file}:{at}, and the log in the backup ends before that, in {}",
                position.0
            );
        }
        drop(session);
        server.stop()?;
        Ok((position, log.name))
    }

    /// The log in the backup and the archived one have the same bytes, up to where the backup is.
    fn is_same_history(&self, data: &Path, (file, at): &Position, files: &[PathBuf]) -> Result<()> {
        let Some(archived) = files.first() else { return Ok(()) };
        let (own, archived) = (RealDisk.open(&data.join(file))?, RealDisk.open(archived)?);
        let line = &self.log.line;
        ensure!(
            archived.stat()?.len >= *at,
            "the generation is at {file}:{at}, and line {line} of the archive ends before that"
        );
        let (mut one, mut other) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut done = 0;
        while done < *at {
            let len = usize::try_from(at - done).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let (one, other) = (&mut one[..len], &mut other[..len]);
            own.read_full_at(done, one)?;
            archived.read_full_at(done, other)?;
            if done == 0 && len as u64 > IN_USE_AT {
                let at = usize::try_from(IN_USE_AT)?;
                one[at] &= !1;
                other[at] &= !1;
            }
            ensure!(
                one == other,
                "line {line} of the archive is another history than {}@{}: their logs differ in {file}; --line chooses another line",
                self.named.name,
                self.generation
            );
            done += len as u64;
        }
        Ok(())
    }

    /// Gives the data to their owner, and their name to them.
    fn finish(&self, tree: &Path, data: &Path) -> Result<()> {
        let owner = fs::metadata(data.join("ibdata1"))?;
        if rustix::process::geteuid().is_root() {
            own(data, (owner.uid(), owner.gid()))?;
        }
        if let Some(batch) = RealDisk.batch(tree)? {
            batch.sync()?;
        }
        RealDisk.rename(tree, self.target).with_context(|| shown::path(self.target))?;
        Ok(())
    }
}

/// Gives what is in a folder to a user: the server made files as ours.
fn own(folder: &Path, (uid, gid): (u32, u32)) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let now = entry.metadata()?;
        if now.is_dir() {
            own(&entry.path(), (uid, gid))?;
        }
        if (now.uid(), now.gid()) != (uid, gid) {
            lchown(entry.path(), Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

/// Removes what would lead a replica to its source: it says where the generation was, and not where the data
/// are after the replay.
fn forget_source(data: &Path) -> Result<()> {
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        let name = names::file(&path);
        let is_info = name.ends_with(".info") && (name.contains("master") || name.contains("relay"));
        let is_index = name.ends_with(".index") && name.contains("relay");
        if is_index {
            let listed = crate::history::files(std::slice::from_ref(&path))?.files;
            // What lies elsewhere belongs to the original.
            for log in listed.iter().filter(|log| log.parent() == Some(data)) {
                RealDisk.remove(log)?;
            }
        }
        if is_info || is_index {
            RealDisk.remove(&path)?;
        }
    }
    Ok(())
}

/// Removes the log in the data: what is replayed is not in it, so it would be a false history.
fn forget_log(data: &Path, name: &str) -> Result<()> {
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        let file = names::file(&path);
        let Some(end) = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) else { continue };
        // MariaDB has an index of GTIDs for each file.
        let number = end.strip_suffix(".idx").unwrap_or(end);
        if end == "index" || end == "state" || number.bytes().all(|byte| byte.is_ascii_digit()) {
            RealDisk.remove(&path)?;
        }
    }
    Ok(())
}

/// What is said at the end, or as a plan.
struct Told<'a> {
    named: &'a Named,
    generation: u64,
    position: &'a Position,
    found: &'a Found,
    log: &'a Log,
}

impl Told<'_> {
    fn tell(&self, done: &str, more: &[(&str, Value)], report: &Report) -> Result<()> {
        let Told { named: Named { name, .. }, generation, position: (file, offset), found, log } = self;
        let way = &found.way;
        let last: Vec<&str> = way.last.values().map(String::as_str).collect();
        let last = last.join(",");
        if report.is_json() {
            let mut message = json!({
                "message_type": "summary", "name": name, "generation": generation, "line": log.line,
                "from_file": file, "from_offset": offset, "transactions": way.transactions,
                "bytes_of_log": way.bytes, "gtid": last, "time": way.time.map(calendar::machine), "next": way.next,
            });
            for (key, value) in more {
                message[*key] = value.clone();
            }
            report.message(&message)?;
            return Ok(());
        }
        let when = way.time.map(|time| format!(" ({})", calendar::shown(time))).unwrap_or_default();
        let to = if last.is_empty() { String::new() } else { format!(" to {last}{when}") };
        let value = |key: &str| more.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
        let tables = value("tables").and_then(Value::as_u64);
        let tables = tables.map(|number| format!("; {} checked", count(number, "table"))).unwrap_or_default();
        let seconds = value("seconds").and_then(Value::as_f64);
        let seconds = seconds.map(|seconds| format!(", {seconds:.1} s")).unwrap_or_default();
        report.note(&format!(
            "{name}@{generation} at {file}:{offset} {done}, with {} of log: {}{to}{tables}{seconds}",
            report::size(way.bytes),
            count(way.transactions, "transaction"),
        ));
        match &way.next {
            Some(next) => report.note(&format!("next would be {next}")),
            None if found.is_open => report.note(
                "the archived log has nothing later than that time: if the server wrote more, it was not archived yet",
            ),
            None => report.note("that is the end of the archived log"),
        }
        if found.others > 0 {
            let others = count(found.others, "earlier transaction");
            report.note(&format!(
                "the text is in {others} too: see 'remora log --statement'; --before chooses one"
            ));
        }
        if way.by_statement > 0 {
            report.note(&format!(
                "{} of them are logged as statements, as DDL always is: what a statement takes from elsewhere may differ",
                way.by_statement
            ));
        }
        Ok(())
    }
}
