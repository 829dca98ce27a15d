//! A recovery: which generation it begins with, what is replayed, and its replay.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::{fs, iter};

use anyhow::{Result, bail, ensure};
use block::Generation;
use disk::{Disk, RealDisk};
use instance::Wanted;
use instance::binary_log::{self, BinaryLog, Position};
use progress::{Progress, Shared};
use repository::{KeyFile, Named};
use sandbox::Sandbox;
use server::{Flavour, Session, XaName};
use transactions::{LogFile, Times, names};

use crate::linked_tables::LinkedTables;
use crate::other_timeline::LoggedState;
use crate::recovery_target::{RecoveryTarget, Unreachable};
use crate::relay_log::{self, Dialect};
use crate::replay::{Folders, Replay, ReplayRequest};
use crate::replay_plan::{self, Found};
use crate::steps::Steps;
use crate::{Log, Start, same_log};

/// The newest generation that is not after the goal, or the one that is named, and what is replayed from
/// there, if the generation says where it is.
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
        let reach = || -> Result<Option<Reached>> {
            let Some(start) = log.start(&position, &repository::gtid(generation))? else { return Ok(None) };
            let found = replay_plan::scan(goal, log, (&start.here, generation.taken_s), report)?;
            Ok(Some(Reached { start, found }))
        };
        match reach() {
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
    /// That of its server.
    dialect: Dialect,
}

/// A generation whose data are recovered, and what is replayed.
struct Begun {
    reached: Reached,
    /// The name of the data's own log.
    log: String,
    dialect: Dialect,
}

/// The server of [`Recovery::steps`].
#[derive(Debug)]
pub struct StepsRequest<'a> {
    /// How it is wanted.
    pub wanted: Wanted<'a>,
    /// Options that it needs besides.
    pub options: Vec<String>,
    /// The last of the archived files that it may be brought to, by its number.
    pub last: usize,
    /// The numbers of the servers in the log up to there.
    pub servers: &'a BTreeSet<u32>,
}

/// A recovery, as it was planned.
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

/// What is replayed, and from where.
pub struct Reached {
    /// Where the generation is in the log.
    pub start: Start,
    /// What is replayed.
    pub found: Found,
}

impl<'a> Recovery<'a> {
    /// Plans the recovery to `goal`, from the generation `wanted` if one is.
    ///
    /// # Errors
    /// If there is no way there, and what the archive and the repository say.
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
                    let recovery = Recovery::find_in((named, wanted), goal, log, report);
                    let Ok(recovery) = recovery else { continue };
                    if recovery.is_within() {
                        report.note(&format!(
                            "that is not in timeline {newest} of the archived log, but in timeline {timeline}"
                        ));
                        return Ok(recovery);
                    }
                }
                Err(error)
            }
            recovery => recovery,
        }
    }

    /// Whether the log surely reaches to the goal.
    fn is_within(&self) -> bool {
        let found = self.known.as_ref().map(|known| &known.found);
        found.is_some_and(|found| {
            !found.is_open && (!matches!(self.goal, RecoveryTarget::Time(_)) || found.plan.next.is_some())
        })
    }

    /// The same, when the log is found already.
    ///
    /// # Errors
    /// As for [`Recovery::find`].
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

    /// What would be replayed.
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
        reached.found.plan.refuse()?;
        Ok(reached)
    }

    /// Brings the data of the generation to the goal, and checks tables. Returns what was replayed, and how
    /// many tables were checked. The data have no log then.
    ///
    /// # Errors
    /// What the server says, and [`block::Error::Stopped`]. The data are of no use then.
    pub fn replay(
        mut self,
        folders: Folders<'_>,
        request: ReplayRequest<'_>,
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<(Reached, usize)> {
        let data = folders.data;
        let Begun { reached, log: name, dialect } = self.begin(data, request.wanted, stop, report)?;
        let Reached { start, found } = &reached;
        let files = self.log.from(&start.here.0).unwrap_or_default();
        let files = files.get(..=found.plan.end.map_or(0, |end| end.file)).unwrap_or(files).to_vec();
        let replay = Replay::new(folders, files, start.here.1, found.servers.clone(), dialect)?;
        let apart = LinkedTables::new(data, &replay.work)?;
        let tables = replay.run(&request, &found.plan, stop, report)?;
        apart.back()?;
        forget_log(data, &name)?;
        Ok((reached, tables))
    }

    /// Starts a server on the data of the generation that can be brought to the goal and later.
    ///
    /// # Errors
    /// What the server says, and [`block::Error::Stopped`].
    pub fn steps(
        mut self,
        folders: Folders<'_>,
        request: StepsRequest<'_>,
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<Steps> {
        let StepsRequest { wanted, options, last, servers } = request;
        let Begun { reached: Reached { start, found }, dialect, .. } =
            self.begin(folders.data, wanted, stop, report)?;
        let files = self.log.from(&start.here.0).unwrap_or_default();
        let first = self.log.files.len() - files.len();
        let files = files.get(..=last.saturating_sub(first)).unwrap_or(files).to_vec();
        let servers = servers.union(&found.servers).copied().collect();
        let replay = Replay::new(folders, files, start.here.1, servers, dialect)?;
        // Nobody needs the data afterwards, so they stay apart.
        LinkedTables::new(folders.data, &replay.work)?;
        let options: Vec<String> = options.into_iter().chain(wanted.options.iter().cloned()).collect();
        Steps::start(replay, Wanted { options: &options, ..wanted }, found.plan, first, report)
    }

    /// Recovers the data, proves that they are of the archived history, and plans the replay from there.
    fn begin(
        &mut self,
        data: &Path,
        wanted: Wanted<'_>,
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<Begun> {
        forget_source(data)?;
        let Recovered { start, log, prepared, dialect } = self.recover(data, wanted, stop)?;
        let known = self.known.take().filter(|known| known.start == start);
        let mut found = match known {
            Some(known) => known.found,
            None => replay_plan::scan(self.goal, &self.log, (&start.here, self.taken_s), report)?,
        };
        found.plan.refuse()?;
        found.plan.add_prepared(prepared);
        Ok(Begun { reached: Reached { start, found }, log, dialect })
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
        let version = binary_log::version(&RealDisk, data);
        let own =
            relay_log::recovery_options(version.as_deref(), log.has_gtids).iter().map(ToString::to_string);
        let options: Vec<String> = own.chain(wanted.options.iter().cloned()).collect();
        let mut server = instance::start(data, Some(&log), Wanted { options: &options, ..wanted })?;
        instance::settle(&server, stop)?;
        let mut session = instance::connect(&server)?;
        let dialect = Dialect::of(&session.about);
        dialect.forget_sources(&mut session)?;
        let prepared = server::prepared_xa(&mut session)?;
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
        let gtid = gtid_at(&mut session, &position)?;
        drop(session);
        let known = self.known.as_ref().map(|known| &known.start).filter(|known| known.own == position);
        let start = match known {
            Some(start) => start.clone(),
            None => self.log.start(&position, &gtid)?.unwrap_or_else(|| Start::here(&position)),
        };
        // With other keys than the log's, its bytes may by chance pass for events.
        let start = log.explain(self.proven(&server, start, &gtid))?;
        server.stop()?;
        Ok(Recovered { start, log: log.name, prepared, dialect })
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

/// The last transaction of each domain before a place in the server's log. MySQL does not tell it by place.
fn gtid_at(session: &mut Session, (file, at): &Position) -> Result<String> {
    if session.about.flavour == Flavour::MySql {
        return Ok(String::new());
    }
    let file = session.quote(file);
    Ok(session.value(&format!("SELECT BINLOG_GTID_POS({file}, {at})"))?.unwrap_or_default())
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
