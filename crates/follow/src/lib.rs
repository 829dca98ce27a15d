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
//! `apply` executes them, `follower` joins these, `state` is the position in a table on the target. `ddl`
//! executes DDL there, if that is wanted.
//!
//! In the background, `verify` compares all rows of both servers without a lock, since `touched` knows which
//! ones have changed meanwhile; and `cut_over` makes the target take over, with `source_lock`. `shared` is
//! what they tell the follower. `beginning` is where following begins, and `way_back` where it begins in the
//! other direction. `failover` lets another server take the source's place. `replica` uses the servers' own
//! replication instead.

mod apply;
mod background;
mod beginning;
mod check;
mod cut_over;
mod ddl;
mod error;
mod failover;
mod followed;
mod follower;
mod form;
mod hook;
mod log;
mod replica;
mod row_condition;
mod rules;
mod scope;
mod shared;
mod source_lock;
mod state;
mod touched;
mod verify;
mod way_back;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use progress::Progress;
use server::{Session, Target, settings, snapshot};

pub use beginning::{LogFile, followed};
pub use check::refusals;
pub use cut_over::{CutOverRequest, give_back, let_us_write};
pub use error::Error;
pub use failover::replace_source;
pub use followed::Followed;
pub use replica::Replica;
pub use state::{CutOver, Noted, Reached, State, Verified};
pub use way_back::is_way_back;

use apply::Applier;
use background::Background;
use ddl::Ddl;
use follower::Follower;
use log::{Log, Next};
use rules::Rules;
use scope::Scope;
use shared::Shared;

/// How long to wait before the next attempt to connect: the first time, and at most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long nothing may come before the source is asked where its log ends. After RESET MASTER it says that
/// there is nothing new, whatever it writes.
const TRUST: Duration = Duration::from_secs(10);
/// The longest wait for the log until it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(200);
/// It has caught up when it has reached an end of the log that is not older.
const CLOSE: Duration = Duration::from_secs(2);
/// How long nothing may come until what has gathered is applied.
const GATHER: Duration = Duration::from_millis(50);

/// What to follow.
pub struct Request<'a> {
    /// What the copy was made with.
    pub context: &'a dump::Context,
    /// What was copied. A table with a name among these that appears on the source is missed.
    pub copy: &'a dump::CopyRequest,
    /// The source.
    pub from: &'a Target,
    /// The target.
    pub to: &'a Target,
    /// How far the target is.
    pub state: State,
    /// Apply what the source's log has now, and end.
    pub once: bool,
    /// How often to compare all rows of both servers; at the end, if it ends by itself.
    pub verify_every: Option<Duration>,
    /// Make the target take over.
    pub cut_over: Option<CutOverRequest>,
    /// Execute DDL of the source on the target, too, instead of ending there.
    pub ddl: bool,
}

/// What was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions of the source, those without rows that are followed among them.
    pub transactions: u64,
    /// Changes of rows.
    pub changes: u64,
    /// DDL statements that were executed on the target.
    pub definitions: u64,
    /// What was changed on the source and is not changed on the target, a line for each.
    pub omitted: Vec<String>,
    /// Up to where, such as `binlog.000004:4711, 0-1-42`.
    pub reached: String,
    /// Whether the user stopped it.
    pub is_stopped: bool,
    /// Whether the target has taken over.
    pub is_cut_over: bool,
    /// What was written to the source after that, and is not on the target, a line for each.
    pub late: Vec<String>,
}

/// Follows until it is stopped; with [`Request::once`] until the end that the source's log has now; with
/// [`Request::cut_over`] until the target has taken over.
///
/// Lost connections are made again.
///
/// # Errors
/// [`Error::Unapplied`] and [`Error::Different`] end it: the state notes them. [`Error::NotCutOver`] leaves
/// the source as it was.
pub fn follow(request: &Request<'_>, stop: &AtomicBool, report: &dyn Progress) -> Result<Summary, Error> {
    let end = end(request)?;
    let mut summary = Summary::default();
    let followed = loop {
        match until_ddl(request, (end.as_ref(), stop), report, &mut summary) {
            Ok(Some(ddl)) => match define(request, &ddl, stop, report) {
                Ok(true) => summary.definitions += 1,
                Ok(false) => {
                    summary.is_stopped = true;
                    break Ok(());
                }
                Err(error) => break Err(error),
            },
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = followed {
        if let Some(why) = error.final_stop() {
            note_stop(request, &why);
        }
        return Err(error);
    }
    Ok(summary)
}

/// Follows until it is stopped or at its end, or until DDL that is to be executed, which is returned. What
/// runs in the background knows the tables of before, so it ends then, too.
fn until_ddl(
    request: &Request<'_>,
    (end, stop): (Option<&(String, u64)>, &AtomicBool),
    report: &dyn Progress,
    summary: &mut Summary,
) -> Result<Option<Ddl>, Error> {
    let noted = noted(request, &mut request.target()?)?;
    let mut shared = Shared::new(report);
    shared.is_watched = request.verify_every.is_some() || request.cut_over.is_some();
    let background = Background { request, shared: &shared };
    let followed = std::thread::scope(|scope| {
        if shared.is_watched {
            scope.spawn(|| shared.end(background.run(&noted.tables)));
        }
        let followed = attempts(request, &shared, (end, stop), summary);
        shared.stop.store(true, Ordering::Relaxed);
        followed
    });
    match (&followed, shared.take_end()) {
        (Ok(_), Some(Err(error @ Error::Different { .. }))) => return Err(error),
        // It was stopped by the user meanwhile.
        (Ok(None), Some(Err(error))) => report.warn(&error.to_string()),
        _ => {}
    }
    summary.late.extend(shared.take_late());
    summary.omitted.extend(shared.take_omitted());
    if shared.is_cut_over() {
        (summary.is_cut_over, summary.is_stopped) = (true, false);
    }
    followed
}

/// Executes DDL on the target; `false` if the user stopped it.
fn define(request: &Request<'_>, ddl: &Ddl, stop: &AtomicBool, report: &dyn Progress) -> Result<bool, Error> {
    let mut pause = PAUSE;
    loop {
        match ddl.execute(request) {
            Ok(()) => {
                report.note(&format!("{}: executed on the target: {}", ddl.place, ddl.shown()));
                return Ok(true);
            }
            Err(error) if error.is_passing() => report.warn(&format!("{error}; trying again")),
            Err(error) => return Err(error),
        }
        if !progress::pause(pause, stop) {
            return Ok(false);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Follows over one connection after the other.
fn attempts(
    request: &Request<'_>,
    shared: &Shared<'_>,
    (end, stop): (Option<&(String, u64)>, &AtomicBool),
    summary: &mut Summary,
) -> Result<Option<Ddl>, Error> {
    let mut pause = PAUSE;
    loop {
        let before = summary.transactions;
        let error = match run(request, shared, (end, stop), summary) {
            Err(error) => error,
            // What ran in the background is not tried again.
            Ok(Ended::Whole(ended)) => return ended.map(|()| None),
            Ok(Ended::Ddl(ddl)) => return Ok(Some(ddl)),
        };
        // It may have ended while the log could not be read.
        if let Some(ended) = shared.take_end() {
            return ended.map(|()| None);
        }
        if shared.is_cut_over() {
            shared.report.warn(&format!("late writes to the source can't be looked for: {error}"));
            return Ok(None);
        }
        if !error.is_passing() {
            return Err(error);
        }
        if summary.transactions > before {
            pause = PAUSE;
        }
        shared.report.warn(&format!("{error}; trying again"));
        if !progress::pause(pause, stop) {
            summary.is_stopped = true;
            return Ok(None);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Request<'_> {
    /// A session on the target that writes.
    fn target(&self) -> Result<Session, server::Error> {
        connect(self.to, self.copy.write.no_binlog)
    }
}

/// What the target knows.
fn noted(request: &Request<'_>, target: &mut Session) -> Result<Noted, Error> {
    request.state.read(target)?.ok_or_else(|| {
        Error::Refused("the target does not know how far it is: its state was removed".to_owned())
    })
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
    log_end(&mut request.from.connect()?).map(Some)
}

/// Where the source's log ends now.
fn log_end(source: &mut Session) -> Result<(String, u64), Error> {
    let position = source.position()?;
    let position = position.ok_or_else(|| Error::Refused("the source has no binary log".to_owned()))?;
    Ok((position.file, position.offset))
}

/// Notes why it ended, so that the next run knows that it needs a new snapshot. The error itself is told.
fn note_stop(request: &Request<'_>, why: &str) {
    if let Ok(mut session) = request.target() {
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

/// Why one connection was enough.
enum Ended {
    /// All is done, or what runs in the background has ended like that.
    Whole(Result<(), Error>),
    /// DDL comes next.
    Ddl(Ddl),
}

/// One connection to each server.
fn run(
    request: &Request<'_>,
    shared: &Shared<'_>,
    (end, stop): (Option<&(String, u64)>, &AtomicBool),
    summary: &mut Summary,
) -> Result<Ended, Error> {
    let mut session = request.target()?;
    if !request.state.lock(&mut session)? {
        return Err(Error::Busy);
    }
    let noted = noted(request, &mut session)?;
    let mut source = request.from.connect()?;
    let mut log = Log::open(request.from, &noted, request.state.server_id())?;
    let read = &request.copy.read;
    let scope = Scope::new(noted.tables, &read.selection, Rules::of(read), session.about.flavour);
    let applier = Applier::new(session, &request.state)?;
    let mut follower = Follower::new(scope, applier, noted.reached, (shared, summary));
    if request.ddl {
        follower.apply_ddl();
    }
    let (mut heard, mut is_doubted, mut has_caught_up) = (Instant::now(), false, false);
    let clock = Clock::of(&mut source)?;
    // Others may write all the time, so it is never at the end.
    let mut goal = (log_end(&mut source)?, Instant::now());
    loop {
        if stop.load(Ordering::Relaxed) {
            follower.settle()?;
            follower.stopped();
            return Ok(Ended::Whole(Ok(())));
        }
        if shared.has_ended() {
            // This may fail, too: whoever continues must still learn how it has ended.
            follower.settle()?;
            return Ok(Ended::Whole(shared.take_end().unwrap_or(Ok(()))));
        }
        let wait = if follower.is_waiting() { GATHER } else { LOOK };
        let is_idle = match log.next(wait)? {
            Next::Event(event, bytes) => {
                (heard, is_doubted) = (Instant::now(), false);
                follower.event(&event, bytes)?;
                if let Some(ddl) = follower.take_ddl() {
                    return Ok(Ended::Ddl(ddl));
                }
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
        if request.verify_every.is_none() && end.is_some_and(|end| follower.has_reached(end)) {
            follower.settle()?;
            return Ok(Ended::Whole(Ok(())));
        }
        if !has_caught_up && follower.has_reached(&goal.0) {
            follower.settle()?;
            has_caught_up = goal.1.elapsed() < CLOSE;
            if has_caught_up {
                follower.caught_up();
            }
            goal = (log_end(&mut source)?, Instant::now());
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
