//! Applies what one server's binary log says to a copy on another server, while both run.
//!
//! The log comes from the position of the copy's snapshot. Whole transactions gather in a window, in which
//! the changes of a row are folded by its primary key. One transaction on the target then deletes the rows
//! that were there before and inserts the last ones, and notes the position with them. So nothing is lost or
//! applied twice, whoever is killed. A DELETE must find exactly the rows that the log says: the target is
//! checked as it is changed.
//!
//! What can't be applied exactly stops it, with its place in the log: definitions that change, rows that were
//! logged as a statement or not whole, XA transactions. A new snapshot, compared with the target, is where
//! it continues.
//!
//! `log` receives events, `scope` says what they are about, `form` makes SQL of rows, `window` folds them,
//! `apply` executes them, `follower` joins these, `state` is the position in a table on the target.

mod apply;
mod check;
mod error;
mod followed;
mod follower;
mod form;
mod log;
mod scope;
mod state;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use progress::Progress;
use server::catalogue::Wanted;
use server::{Session, Target, settings, snapshot};

pub use check::{cascading, refusals};
pub use error::Error;
pub use followed::Followed;
pub use state::{Noted, Reached, State};

use apply::Applier;
use follower::Follower;
use log::{Log, Next};
use scope::Scope;

/// How long to wait before the next attempt to connect: the first time, and at most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long the server may still need to end a session of a process that was killed.
const LOCK_WAIT_S: u32 = 3;
/// How long nothing may come before the source is asked where its log ends. After RESET MASTER it says that
/// there is nothing new, whatever it writes.
const TRUST: Duration = Duration::from_secs(10);
/// The longest wait for the log until it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(200);
/// How long nothing may come until what has gathered is applied.
const GATHER: Duration = Duration::from_millis(50);

/// What to follow.
pub struct Request<'a> {
    /// The source.
    pub from: &'a Target,
    /// The target.
    pub to: &'a Target,
    /// How far the target is.
    pub state: State,
    /// What was selected: a table of these that appears on the source is missed.
    pub wanted: &'a dyn Wanted,
    /// Apply what the source's log has now, and end.
    pub once: bool,
    /// Keep changes out of the binary log of the target.
    pub no_binlog: bool,
}

/// What was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions of the source, those without rows that are followed among them.
    pub transactions: u64,
    /// Changes of rows.
    pub changes: u64,
    /// What was changed on the source and is not changed on the target, a line for each.
    pub omitted: Vec<String>,
    /// Up to where, such as `binlog.000004:4711, 0-1-42`.
    pub reached: String,
    /// Whether the user stopped it.
    pub is_stopped: bool,
}

/// Follows until it is stopped; with [`Request::once`] until the end that the source's log has now.
///
/// Lost connections are made again.
///
/// # Errors
/// [`Error::Unapplied`] and [`Error::Different`] end it: the state notes them.
pub fn follow(request: &Request<'_>, stop: &AtomicBool, report: &dyn Progress) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut pause = PAUSE;
    let end = end(request)?;
    loop {
        let before = summary.transactions;
        match run(request, end.as_ref(), (stop, report), &mut summary) {
            Err(error) if error.is_passing() => {
                if summary.transactions > before {
                    pause = PAUSE;
                }
                report.warn(&format!("{error}; trying again"));
                if !progress::pause(pause, stop) {
                    summary.is_stopped = true;
                    return Ok(summary);
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => {
                if let Some(why) = error.final_stop() {
                    note_stop(request, &why);
                }
                return Err(error);
            }
            Ok(()) => return Ok(summary),
        }
    }
}

/// When the source began a file of its log, as the file says.
///
/// # Errors
/// Those of the server, which also are that this account may not read the log.
pub fn begun(state: &State, from: &Target, file: &str) -> Result<u32, Error> {
    log::begun(from, file, state.server_id())
}

/// Notes on a target from where to follow. The database for it exists.
///
/// # Errors
/// Those of the server.
pub fn begin(state: &State, to: &Target, noted: &Noted, no_binlog: bool) -> Result<(), Error> {
    state.create(&mut connect(to, no_binlog)?, noted)
}

/// Removes what a target notes, if it notes anything.
///
/// # Errors
/// Those of the server.
pub fn forget(state: &State, to: &Target, no_binlog: bool) -> Result<(), Error> {
    state.remove(&mut connect(to, no_binlog)?)
}

/// Where the source's log ends now, if that is where to end.
fn end(request: &Request<'_>) -> Result<Option<(String, u64)>, Error> {
    if !request.once {
        return Ok(None);
    }
    let position = request.from.connect()?.position()?;
    let position = position.ok_or_else(|| Error::Refused("the source has no binary log".to_owned()))?;
    Ok(Some((position.file, position.offset)))
}

/// Notes why it ended, so that the next run knows that it needs a new snapshot. The error itself is told.
fn note_stop(request: &Request<'_>, why: &str) {
    if let Ok(mut session) = connect(request.to, request.no_binlog) {
        request.state.stop(&mut session, why).ok();
    }
}

/// A session that stores values as they are, and says if they do not fit.
fn connect(to: &Target, no_binlog: bool) -> Result<Session, server::Error> {
    let mut session = snapshot::connect(to)?;
    session.set_where_known(settings::STORE)?;
    session.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')")?;
    if no_binlog {
        session.execute("SET SESSION sql_log_bin = 0")?;
    }
    Ok(session)
}

/// The source's clock, by which its transactions have their times.
struct Clock {
    /// What it showed, and when.
    shown: (u64, Instant),
}

impl Clock {
    fn of(source: &mut Session) -> Result<Clock, server::Error> {
        let time = source.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
        Ok(Clock { shown: (time.parse().unwrap_or_default(), Instant::now()) })
    }

    fn now_s(&self) -> u64 {
        let (time_s, since) = self.shown;
        time_s + since.elapsed().as_secs()
    }
}

/// One connection to each server.
fn run(
    request: &Request<'_>,
    end: Option<&(String, u64)>,
    (stop, report): (&AtomicBool, &dyn Progress),
    summary: &mut Summary,
) -> Result<(), Error> {
    let mut session = connect(request.to, request.no_binlog)?;
    if !session.lock(&request.state.lock_name(), LOCK_WAIT_S)? {
        return Err(Error::Busy);
    }
    let noted = request.state.read(&mut session)?.ok_or_else(|| {
        Error::Refused("the target does not know how far it is: its state was removed".to_owned())
    })?;
    let mut source = request.from.connect()?;
    let mut log = Log::open(request.from, &noted, request.state.server_id())?;
    let scope = Scope::new(noted.tables, request.wanted, session.about.flavour);
    let applier = Applier::new(session, &request.state)?;
    let mut follower = Follower::new(scope, applier, noted.reached, (report, summary));
    let (mut heard, mut is_doubted, mut has_caught_up) = (Instant::now(), false, false);
    let clock = Clock::of(&mut source)?;
    loop {
        if stop.load(Ordering::Relaxed) {
            follower.settle()?;
            follower.stopped();
            return Ok(());
        }
        let wait = if follower.is_waiting() { GATHER } else { LOOK };
        let is_idle = match log.next(wait)? {
            Next::Event(event, bytes) => {
                (heard, is_doubted) = (Instant::now(), false);
                follower.event(&event, bytes)?;
                false
            }
            Next::File { file, begun, at } => {
                follower.begin_file(file, (begun, at))?;
                false
            }
            Next::Passed => false,
            Next::Silence | Next::Nothing => true,
        };
        let is_idle = is_idle && !log.has_more();
        if is_idle || follower.is_due() {
            follower.settle()?;
            follower.tell_behind(clock.now_s(), has_caught_up && is_idle);
        }
        if end.is_some_and(|end| follower.has_reached(end)) {
            follower.settle()?;
            return Ok(());
        }
        if is_idle && !has_caught_up && follower.is_settled() && log.is_at_end(&mut source)? {
            has_caught_up = true;
            follower.caught_up();
        }
        if is_idle && heard.elapsed() > TRUST {
            let was_doubted = std::mem::replace(&mut is_doubted, log.ends_elsewhere(&mut source)?);
            if was_doubted && is_doubted {
                return Err(log.lost("it does not send what it has in its log"));
            }
            heard = Instant::now();
        }
    }
}
