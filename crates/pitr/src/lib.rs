//! Former moments of a server: a generation before one, the archived log from there, and a private server
//! that replays it.

mod before_time;
mod describe;
mod linked_tables;
mod other_timeline;
mod recovery_target;
mod replay;
mod replay_plan;
mod same_log;
mod scheduled_events;
mod server_options;
mod steps;
mod storage_engine;

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail, ensure};
use block::Generation;
use disk::{Disk, RealDisk};
use dump::Selection;
use failure::usage;
use instance::Wanted;
use instance::binary_log::{self, BinaryLog, Position};
use progress::{Progress, Shared};
use repository::log_archive::{self, Archive};
use repository::{KeyFile, Named};
use sandbox::Sandbox;
use transactions::{LogFile, Times, XaName, names};

use self::linked_tables::LinkedTables;
use self::other_timeline::LoggedState;
use self::recovery_target::Unreachable;
use self::replay::Replay;

pub use self::recovery_target::{RecoveryTarget, single};
pub use self::replay_plan::{Found, ReplayPlan};
pub use self::server_options::must_replay_all;
pub use self::steps::Steps;

/// The archived log of a name.
#[derive(Clone)]
pub struct Log {
    /// The timeline's number.
    pub timeline: String,
    /// Its files, in their order.
    pub files: Vec<LogFile>,
    /// Up to when it surely has everything, in seconds since 1970, if it is the newest.
    caught_up: Option<i64>,
    /// The other timelines, the newest first.
    others: Vec<Log>,
}

/// Where a generation is.
#[derive(Clone, PartialEq, Eq)]
pub struct Start {
    /// In the log of the server that it was made of.
    pub own: Position,
    /// In the timeline that is replayed.
    pub here: Position,
    /// The timeline with the log of its server, if another one is replayed.
    pub timeline: Option<String>,
    /// The transactions behind it in that timeline which the other one lacks.
    pub lacks: Vec<String>,
}

impl Start {
    fn here(own: &Position) -> Start {
        Start { own: own.clone(), here: own.clone(), timeline: None, lacks: Vec::new() }
    }

    /// In the second of two timelines, if the log of its server is in the first one.
    fn in_other(own: &Position, has: &LoggedState, (of_server, timeline): (&Log, &Log)) -> Result<Start> {
        let other_timeline::Found { place: here, lacks } = has.place(own, of_server, timeline)?;
        Ok(Start { own: own.clone(), here, timeline: Some(of_server.timeline.clone()), lacks })
    }
}

impl Log {
    /// Finds it; `timeline` names another one than the newest.
    ///
    /// # Errors
    /// If there is none, or it is not complete.
    pub fn find(named: &Named, timeline: Option<u32>, report: &Shared) -> Result<Log> {
        let shown = named.home.shown();
        let none = || usage(format!("no log is archived in {shown}: 'remora binlog {shown}' does that"));
        let mut found = transactions::Found::default();
        let mut others = Vec::new();
        let mut add = |number: u32, found: transactions::Found| {
            if found.missing.is_empty() {
                let timeline = number.to_string();
                others.push(Log { timeline, files: found.files, caught_up: None, others: Vec::new() });
            }
        };
        let mut caught_up = None;
        let timeline = match log_archive::find(&named.home, named.key.as_ref())?.ok_or_else(none)? {
            Archive::Segments(segments) => {
                let segments = Arc::new(segments);
                let chosen = transactions::of_segments(&segments, timeline, &mut found)?;
                if segments.timelines().last().is_some_and(|last| last.number == chosen) {
                    caught_up = segments.caught_up();
                }
                for number in segments
                    .timelines()
                    .iter()
                    .map(|timeline| timeline.number)
                    .filter(|it| *it != chosen)
                    .rev()
                {
                    let mut other = transactions::Found::default();
                    transactions::of_segments(&segments, Some(number), &mut other)?;
                    add(number, other);
                }
                chosen
            }
            Archive::Files(folder) => {
                let timelines = binlog::archive::timelines(&RealDisk, &folder)?;
                let number = |path: &PathBuf| names::file(path).parse::<u32>().unwrap_or(0);
                let chosen = match timeline {
                    None => timelines.last(),
                    Some(wanted) => timelines.iter().find(|path| number(path) == wanted),
                };
                let wanted = timeline.unwrap_or(0);
                let none = || usage(format!("the archive of {shown} has no timeline {wanted}"));
                let chosen = chosen.ok_or_else(none)?;
                if timelines.last() == Some(chosen) {
                    caught_up = binlog::archive::caught_up(&RealDisk, &folder)?;
                }
                let read =
                    |path| transactions::files(std::slice::from_ref(path), &KeyFile::default(), Times::Noted);
                found = read(chosen)?;
                for other in timelines.iter().rev().filter(|path| *path != chosen) {
                    add(number(other), read(other)?);
                }
                number(chosen)
            }
        };
        if let Some(missing) = found.missing.first() {
            bail!("the archive is not complete: {missing}");
        }
        // It may be elsewhere: what is read is proven.
        for damage in &found.damages {
            report.warn(&format!("the archive is damaged: {damage}"));
        }
        Ok(Log { timeline: timeline.to_string(), files: found.files, caught_up, others })
    }

    /// Finds where a generation is that says that it is there, with this GTID in each domain. `None` if it is
    /// in no timeline.
    fn start(&self, own: &Position, gtid: &str) -> Result<Option<Start>> {
        let has = |log: &Log| log.from(&own.0).is_some();
        let mut others = self.others.iter().filter(|log| has(log)).peekable();
        // Several servers may have files of this name.
        if has(self) && (others.peek().is_none() || LoggedState::read(self, own, gtid)?.is_some()) {
            return Ok(Some(Start::here(own)));
        }
        for log in others {
            let Some(has) = LoggedState::read(log, own, gtid)? else { continue };
            return Start::in_other(own, &has, (log, self)).map(Some);
        }
        Ok(has(self).then(|| Start::here(own)))
    }

    /// Where a generation says that it is among the files of this timeline. `None` if it is in none of them.
    pub fn place(&self, generation: &Generation) -> Option<transactions::Place> {
        let (name, at) = repository::position(generation)?;
        let file = self.files.iter().position(|path| names::file(path) == name)?;
        Some(transactions::Place { file, at })
    }

    /// Whether a generation that says that it is in this timeline is of its history.
    pub fn has(&self, generation: &Generation) -> Result<bool> {
        let Some(own) = repository::position(generation) else { return Ok(false) };
        Ok(LoggedState::read(self, &own, &repository::gtid(generation))?.is_some())
    }

    /// The files from the one with this name on; none if it is not archived.
    fn from(&self, file: &str) -> Option<&[LogFile]> {
        let at = self.files.iter().position(|path| names::file(path) == file)?;
        self.files.get(at..)
    }
}

/// The newest generation that is not behind the goal, or the one that is named, and the way from there, if
/// the generation says where it is.
fn choose(
    (named, wanted): (&Named, Option<u64>),
    goal: &RecoveryTarget,
    log: &Log,
    report: &Shared,
) -> Result<(Generation, Option<Reached>)> {
    let mut why = None;
    for generation in named.repository.list()?.generations.iter().rev() {
        let number = generation.number;
        if wanted.is_some_and(|wanted| wanted != number) {
            continue;
        }
        let is_late = matches!(goal, RecoveryTarget::Time(until) if generation.taken_s > *until);
        if is_late && wanted.is_none() {
            continue;
        }
        let Some(position) = repository::position(generation) else {
            if wanted.is_some() {
                return Ok((generation.clone(), None));
            }
            continue;
        };
        let way = || -> Result<Option<Reached>> {
            let Some(start) = log.start(&position, &repository::gtid(generation))? else { return Ok(None) };
            let found = replay_plan::scan(goal, log, (&start.here, generation.taken_s), report)?;
            Ok(Some(Reached { start, found }))
        };
        match way() {
            Ok(None) => {}
            Ok(reached) => return Ok((generation.clone(), reached)),
            Err(error) if error.is::<Unreachable>() => why = why.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(why.unwrap_or_else(|| {
        let (name, timeline) = (&named.name, &log.timeline);
        let which = wanted.map_or_else(|| format!("no generation of {name}"), |number| format!("{name}@{number} is not"));
        let is = if wanted.is_some() { "" } else { " is" };
        Unreachable(format!(
            "{which}{is} before that moment and within timeline {timeline} of the archived log; 'remora list' shows generations, \
             --timeline chooses another timeline, and @N a generation that does not say where it is in the log"
        ))
        .into()
    }))
}

/// The data of a generation, recovered.
struct Recovered {
    start: Start,
    /// The name of their log.
    log: String,
    /// What is in XA PREPARE.
    prepared: Vec<XaName>,
}

/// A way to a moment.
pub struct Recovery<'a> {
    named: &'a Named,
    goal: &'a RecoveryTarget,
    /// The log that is replayed.
    pub log: Log,
    /// The generation that it begins with.
    pub generation: u64,
    /// When its copy began.
    taken_s: i64,
    /// Where the generation is in the log, and what follows; none if it does not say where it is.
    known: Option<Reached>,
}

/// The way that was gone, or would be.
pub struct Reached {
    /// Where the generation is in the log.
    pub start: Start,
    /// What is replayed.
    pub found: Found,
}

impl<'a> Recovery<'a> {
    /// Finds the way to `goal`, from the generation `wanted` if one is.
    ///
    /// # Errors
    /// If there is none, and what the archive and the repository say.
    pub fn find(
        (named, wanted): (&'a Named, Option<u64>),
        goal: &'a RecoveryTarget,
        timeline: Option<u32>,
        report: &Shared,
    ) -> Result<Recovery<'a>> {
        let log = Log::find(named, timeline, report)?;
        let older: Vec<String> = log.others.iter().map(|log| log.timeline.clone()).collect();
        let newest = log.timeline.clone();
        match Recovery::find_in((named, wanted), goal, log, report) {
            Err(error)
                if error.is::<Unreachable>()
                    && timeline.is_none()
                    && !matches!(goal, RecoveryTarget::End) =>
            {
                for timeline in older.iter().filter_map(|timeline| timeline.parse().ok()) {
                    let log = Log::find(named, Some(timeline), report)?;
                    let Ok(past) = Recovery::find_in((named, wanted), goal, log, report) else { continue };
                    if past.is_within() {
                        report.note(&format!(
                            "that is not in timeline {newest} of the archived log, but in timeline {timeline}"
                        ));
                        return Ok(past);
                    }
                }
                Err(error)
            }
            found => found,
        }
    }

    /// Whether the log surely reaches to the moment.
    fn is_within(&self) -> bool {
        let found = self.known.as_ref().map(|known| &known.found);
        found.is_some_and(|found| {
            !found.is_open && (!matches!(self.goal, RecoveryTarget::Time(_)) || found.way.next.is_some())
        })
    }

    /// The same, when the log is found already.
    pub fn find_in(
        (named, wanted): (&'a Named, Option<u64>),
        goal: &'a RecoveryTarget,
        log: Log,
        report: &Shared,
    ) -> Result<Recovery<'a>> {
        report.phase("reading the archived log", None);
        let (generation, known) = choose((named, wanted), goal, &log, report)?;
        report.end();
        Ok(Recovery { named, goal, log, generation: generation.number, taken_s: generation.taken_s, known })
    }

    /// The way, without going it.
    ///
    /// # Errors
    /// If it is seen only when the generation is recovered, and what a replay would refuse.
    pub fn plan(&self) -> Result<&Reached> {
        let Some(reached) = &self.known else {
            bail!(
                "{}@{} does not say where it is in the log; that is seen when it is recovered",
                self.named.name,
                self.generation
            );
        };
        reached.found.way.refuse()?;
        Ok(reached)
    }

    /// Brings the data of the generation to the moment, in a folder `work` of its own on their file system,
    /// and checks the tables `only`. Returns the way, and how many tables were checked. The data have no log
    /// then.
    ///
    /// # Errors
    /// What the server says, and [`block::Error::Stopped`]. The data are of no use then.
    pub fn replay(
        mut self,
        (data, work): (&Path, &Path),
        (only, wanted): (&Selection, Wanted<'_>),
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<(Reached, usize)> {
        let (reached, name) = self.begin(data, wanted, stop, report)?;
        let Reached { start, found } = &reached;
        let files = self.log.from(&start.here.0).unwrap_or_default();
        let files = files.get(..=found.way.end.map_or(0, |end| end.file)).unwrap_or(files).to_vec();
        let folder = work.join("log");
        RealDisk.create_folder(&folder)?;
        let servers = found.servers.clone();
        let replay = Replay { work: folder.clone(), files, from: start.here.1, servers };
        let apart = LinkedTables::new(data, &folder)?;
        let tables = replay.run((data, wanted), (&found.way, only), stop, report)?;
        apart.back()?;
        forget_log(data, &name)?;
        Ok((reached, tables))
    }

    /// Starts a server on the data of the generation, in a folder `work` of its own on their file system,
    /// that can be brought to the moment and to later ones, up to the archived file number `last`. `servers`
    /// are those of the log up to there; `more` are options that the server needs besides.
    ///
    /// # Errors
    /// What the server says, and [`block::Error::Stopped`].
    pub fn steps(
        mut self,
        (data, work): (&Path, &Path),
        (last, servers): (usize, &BTreeSet<u32>),
        (wanted, more): (Wanted<'_>, Vec<String>),
        (stop, report): (&AtomicBool, &Shared),
    ) -> Result<Steps> {
        let (Reached { start, found }, _) = self.begin(data, wanted, stop, report)?;
        let files = self.log.from(&start.here.0).unwrap_or_default();
        let first = self.log.files.len() - files.len();
        let files = files.get(..=last.saturating_sub(first)).unwrap_or(files).to_vec();
        let work = work.join("log");
        RealDisk.create_folder(&work)?;
        // Nobody needs the data afterwards, so they stay apart.
        LinkedTables::new(data, &work)?;
        let servers = servers.union(&found.servers).copied().collect();
        let replay = Replay { work, files, from: start.here.1, servers };
        let options: Vec<String> = more.into_iter().chain(wanted.options.iter().cloned()).collect();
        Steps::start(replay, (data, Wanted { options: &options, ..wanted }), (found.way, first), report)
    }

    /// Recovers the data, proves that they are of the archived history, and finds the way from there. Returns
    /// it, and the name of their log.
    fn begin(
        &mut self,
        data: &Path,
        wanted: Wanted<'_>,
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<(Reached, String)> {
        forget_source(data)?;
        let Recovered { start, log: name, prepared } = self.recover(data, wanted, stop)?;
        let known = self.known.take().filter(|known| known.start == start);
        let mut found = match known {
            Some(known) => known.found,
            None => replay_plan::scan(self.goal, &self.log, (&start.here, self.taken_s), report)?,
        };
        found.way.refuse()?;
        found.way.add_prepared(prepared);
        Ok((Reached { start, found }, name))
    }

    /// Lets a server recover the data, with their own log, and proves that this is the archived one.
    fn recover(&self, data: &Path, wanted: Wanted<'_>, stop: &AtomicBool) -> Result<Recovered> {
        let Some(log) = BinaryLog::find(data, wanted.needs.log())? else {
            bail!(
                "{}@{} has no binary log, so nothing shows that the archive is of the same history",
                self.named.name,
                self.generation
            );
        };
        let mut server = instance::start(data, Some(&log), wanted)?;
        instance::settle(&server, stop)?;
        let mut session = instance::connect(&server)?;
        let version = session.value("SELECT VERSION()")?.unwrap_or_default();
        ensure!(version.contains("MariaDB"), "this works with MariaDB; the data are of MySQL {version}");
        let prepared = session.strings("XA RECOVER FORMAT='SQL'")?;
        let prepared = prepared.iter().filter_map(|row| names::xa_of(row.last()?.as_deref()?)).collect();
        let innodb = binary_log::innodb_position(&server.error_log())?;
        // InnoDB tells the greatest position that any of its rollback segments has. After RESET MASTER, and
        // in restored data, that may for some time be one of an older log, beyond where the generation is.
        let noted = self.known.as_ref().map(|known| &known.start.own);
        let innodb = innodb.filter(|innodb| noted.is_none_or(|noted| innodb <= noted));
        let last = innodb.clone();
        let position = log.explain(log.position(&mut session, innodb))?;
        if let Some((file, at)) = last {
            ensure!(
                file <= position.0,
                "the data are at {file}:{at}, and the log in the backup ends before that, in {}",
                position.0
            );
        }
        let (file, at) = (session.quote(&position.0), position.1);
        let gtid = session.value(&format!("SELECT BINLOG_GTID_POS({file}, {at})"))?.unwrap_or_default();
        drop(session);
        let known = self.known.as_ref().map(|known| &known.start).filter(|known| known.own == position);
        let start = match known {
            Some(start) => start.clone(),
            None => self.log.start(&position, &gtid)?.unwrap_or_else(|| Start::here(&position)),
        };
        // With other keys than the log's, its bytes may by chance pass for events.
        let start = log.explain(self.proven(&server, start, &gtid))?;
        server.stop()?;
        Ok(Recovered { start, log: log.name, prepared })
    }

    /// A place that the bytes of the log show. Servers that began alike have files of one name, in which
    /// other transactions end at the same offsets: then another timeline may be the one with this log.
    fn proven(&self, server: &Sandbox, start: Start, gtid: &str) -> Result<Start> {
        let all = || iter::once(&self.log).chain(&self.log.others);
        let is_first = |log: &&Log| start.timeline.as_ref().unwrap_or(&self.log.timeline) == &log.timeline;
        let first = all().find(is_first).unwrap_or(&self.log);
        let Err(error) = self.is_same_history(server, first, &start.own) else { return Ok(start) };
        let others = all().filter(|log| log.timeline != first.timeline && log.from(&start.own.0).is_some());
        for log in others {
            if self.is_same_history(server, log, &start.own).is_err() {
                continue;
            }
            if log.timeline == self.log.timeline {
                return Ok(Start::here(&start.own));
            }
            let Some(has) = LoggedState::read(log, &start.own, gtid)? else { continue };
            return Start::in_other(&start.own, &has, (log, &self.log));
        }
        Err(error)
    }

    /// The log in the backup and the archived one have the same bytes, up to where the backup is.
    fn is_same_history(&self, server: &Sandbox, log: &Log, own: &Position) -> Result<()> {
        let ((file, at), timeline) = (own, &log.timeline);
        let Some(archived) = log.from(file).and_then(<[LogFile]>::first) else {
            bail!("the generation is in {file}, which is not in timeline {timeline} of the archive");
        };
        let archived = archived.open()?;
        ensure!(
            archived.stat()?.len >= *at,
            "the generation is at {file}:{at}, and timeline {timeline} of the archive ends before that"
        );
        ensure!(
            same_log::is_same(server, own, archived)?,
            "timeline {timeline} of the archive is another history than {}@{}: their logs differ in {file}; \
             --timeline chooses another timeline",
            self.named.name,
            self.generation
        );
        Ok(())
    }
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
            let paths = std::slice::from_ref(&path);
            let listed = transactions::files(paths, &KeyFile::default(), Times::Said)?.files;
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
