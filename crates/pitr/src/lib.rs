//! Former states of a server: a generation, the archived log from there, and a private server that replays it
//! up to a recovery target.

mod before_time;
mod describe;
mod gtid_set;
mod linked_tables;
pub mod log_check;
mod mysql_place;
mod other_timeline;
mod recovery;
mod recovery_target;
mod relay_log;
mod replay;
mod replay_plan;
mod same_log;
mod scheduled_events;
mod server_options;
mod steps;
mod storage_engine;
pub mod tables;
pub mod whole;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use block::Generation;
use disk::RealDisk;
use failure::usage;
use instance::binary_log::Position;
use progress::{Progress, Shared};
use repository::log_archive::{self, Archive};
use repository::{KeyFile, Named};
use transactions::{LogFile, Times, names};

use self::other_timeline::LoggedState;

pub use self::recovery::{Reached, Recovery, StepsRequest};
pub use self::recovery_target::{RecoveryTarget, single};
pub use self::replay::{Folders, ReplayRequest};
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
        let mut archived = transactions::Found::default();
        let mut others = Vec::new();
        let mut add = |number: u32, other: transactions::Found| {
            if other.missing.is_empty() {
                let timeline = number.to_string();
                others.push(Log { timeline, files: other.files, caught_up: None, others: Vec::new() });
            }
        };
        let mut caught_up = None;
        let timeline = match log_archive::find(&named.home, named.key.as_ref())?.ok_or_else(none)? {
            Archive::Segments(segments) => {
                let segments = Arc::new(segments);
                let chosen = transactions::of_segments(&segments, timeline, &mut archived)?;
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
                archived = read(chosen)?;
                for other in timelines.iter().rev().filter(|path| *path != chosen) {
                    add(number(other), read(other)?);
                }
                number(chosen)
            }
        };
        if let Some(missing) = archived.missing.first() {
            bail!("the archive is not complete: {missing}");
        }
        // It may be elsewhere: what is read is proven.
        for damage in &archived.damages {
            report.warn(&format!("the archive is damaged: {damage}"));
        }
        Ok(Log { timeline: timeline.to_string(), files: archived.files, caught_up, others })
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
        if let Some(file) = self.from(&own.0).and_then(<[LogFile]>::first)
            && let Some(is_at) = mysql_place::is_at(file, own.1, &repository::gtid(generation))?
        {
            return Ok(is_at);
        }
        Ok(LoggedState::read(self, &own, &repository::gtid(generation))?.is_some())
    }

    /// The files from the one with this name on; none if it is not archived.
    fn from(&self, file: &str) -> Option<&[LogFile]> {
        let at = self.files.iter().position(|path| names::file(path) == file)?;
        self.files.get(at..)
    }
}
