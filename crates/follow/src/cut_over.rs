//! The target takes over.
//!
//! The source is locked, the rest of its log applied, what was changed last compared. The lock ends with its
//! connection, so the source is as before if we are killed. Then it is made read-only, and a command leads
//! the application to the target. Until the target notes that it has taken over, everything can be taken
//! back. From then on there is only one way: the target is opened, the source stays closed.

use std::time::{Duration, Instant};

use dump::Programs;
use progress::count;
use server::catalogue::{OWN_SCHEMA, SYSTEM_SCHEMAS};
use server::{Session, Target, prepared_xa, snapshot};

use crate::shared::Shared;
use crate::source_lock::{self, SourceLock};
use crate::state::{CutOver, Reached, State};
use crate::touched::{Place, place};
use crate::verify::Verifier;
use crate::{Error, Followed, Request, hook, log};

/// How the target takes over.
#[derive(Clone, Debug)]
pub struct CutOverRequest {
    /// How long writes may be refused. If it takes longer, the source is given back.
    pub within: Duration,
    /// A command that leads the application to the target.
    pub hook: Option<String>,
    /// How long to look afterwards for what was still written to the source.
    pub watch: Duration,
}

/// At most so many rows may have been changed since they were compared when the source is locked.
const CHANGED_MAX: usize = 20_000;
/// How often the rows that have changed are compared before that.
const ROUNDS: u32 = 10;

/// Since which place rows were not compared, and until when writes may be refused.
#[derive(Clone, Copy)]
struct Since {
    place: Place,
    deadline: Instant,
}

/// What is done while the source is locked.
struct Steps<'a> {
    since: Since,
    /// Statements that keep others from the target.
    quiet: Vec<&'a str>,
    programs: &'a Programs,
}

/// Hands over.
pub(crate) struct Handover<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) verifier: &'a Verifier<'a>,
    pub(crate) cut_over: &'a CutOverRequest,
    pub(crate) followed: &'a [Followed],
}

impl Handover<'_> {
    /// Hands over. Changes since a place were not compared yet.
    pub(crate) fn run(&self, since: Place) -> Result<(), Error> {
        let (request, shared, report) = (self.request, self.shared, self.shared.report);
        let mut source = snapshot::connect(request.from)?;
        self.check(&mut source)?;
        let servers = (request.from, request.to);
        shared.say(String::new());
        shared.have_programs_changed();
        let programs = Programs::read(self.verifier.context(), servers, request.copy)?;
        for line in &programs.omitted {
            report.warn(&format!("not on the target: {line}"));
            shared.omit(line.clone());
        }
        let since = self.narrow(since)?;
        let variables = source_lock::prepare(request.from)?;
        // Whatever is needed later is there before anybody has to wait.
        let mut target = request.target()?;
        let mut reader = snapshot::connect(request.to)?;
        for session in [&mut target, &mut reader] {
            let seconds = self.cut_over.within.as_secs().max(1);
            session.execute(&format!(
                "SET SESSION lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}"
            ))?;
        }
        let quiet = self.quiet(&mut target, &programs)?;
        report.state("locking the source");
        let mut lock = SourceLock::take(request.from, variables, self.cut_over.within)?;
        let since = Since { place: since, deadline: lock.since + self.cut_over.within };
        let how = CutOver {
            is_over: false,
            variables: lock.variables.clone(),
            undo: programs.removal().into_iter().chain(quiet.iter().map(|(_, undo)| undo.clone())).collect(),
            source: lock.end.clone(),
            target: None,
        };
        let quiet = quiet.iter().map(|(statement, _)| statement.as_str()).collect();
        let steps = Steps { since, quiet, programs: &programs };
        let done = self.steps(&mut lock, (&mut target, &mut reader), &steps, how.clone());
        match done {
            Ok(()) => self.over(lock, &how),
            // It stays closed.
            Err(error @ Error::Unknown(_)) => {
                lock.release().ok();
                return Err(error);
            }
            Err(error) => return Err(self.give_up(lock, &how.undo, error)),
        }
        report.state("looking for late writes to the source");
        // It has an end of its own: the one who follows reads on meanwhile.
        shared.pause(self.cut_over.watch);
        Ok(())
    }

    /// Makes source and target what they were. Returns what to tell.
    fn give_up(&self, lock: SourceLock, undo: &[String], error: Error) -> Error {
        let request = self.request;
        if let Err(again) = lock.give_back(request.from) {
            return Error::Refused(format!(
                "no cut-over: {error}; and the source could not be given back: {again}. --resume tries that again"
            ));
        }
        let taken_back = request
            .target()
            .map_err(Error::from)
            .and_then(|mut target| take_back(&mut target, &request.state, undo));
        let also = match taken_back {
            Ok(()) => String::new(),
            Err(again) => format!(", and what was made on the target could not be removed ({again})"),
        };
        match error {
            error @ (Error::NotCutOver(_) | Error::Different { .. }) if also.is_empty() => error,
            Error::NotCutOver(why) => Error::NotCutOver(format!("{why}{also}")),
            error => Error::NotCutOver(format!("{error}{also}")),
        }
    }

    /// There is only one way now.
    fn over(&self, lock: SourceLock, how: &CutOver) {
        let (shared, report) = (self.shared, self.shared.report);
        shared.cut_over();
        let opened = self.request.target().map_err(Error::from).and_then(|mut target| open(&mut target, how));
        if let Err(error) = opened {
            report.warn(&format!(
                "the target has taken over, but could not be opened: {error}; --resume tries that again"
            ));
        }
        let (closed, end) = (lock.since.elapsed(), lock.end.clone());
        if let Err(error) = lock.release() {
            report.warn(&format!("the source is read-only, but its lock did not end well: {error}"));
        }
        report.note(&format!(
            "cut over: writes were refused for {:.2} s; {} equal at {end}; the source stays read-only",
            closed.as_secs_f64(),
            count(self.followed.len(), "table"),
        ));
    }

    /// What is known to be in the way, before anybody has to wait.
    fn check(&self, source: &mut Session) -> Result<(), Error> {
        let mut why = Vec::new();
        if !source.replica_status()?.is_empty() {
            why.push("the source is a replica, and would change after it: end replication first".to_owned());
        }
        if prepared_xa(source).is_ok_and(|prepared| !prepared.is_empty()) {
            why.push("an XA transaction is prepared on the source: end it first".to_owned());
        }
        if !why.is_empty() {
            return Err(Error::NotCutOver(why.join("; ")));
        }
        let others = self.others(source)?;
        if !others.is_empty() {
            let others = others.join(", ");
            let report = self.shared.report;
            report.warn(&format!(
                "databases of the source that were not copied become read-only, too: {others}"
            ));
        }
        Ok(())
    }

    /// Databases of the source of which nothing was copied.
    fn others(&self, source: &mut Session) -> Result<Vec<String>, Error> {
        let rows = source.strings("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")?;
        let mut names: Vec<String> = rows.into_iter().flatten().flatten().collect();
        let is_copied = |name: &str| self.followed.iter().any(|followed| followed.table.name.schema == name);
        names.retain(|name| {
            !SYSTEM_SCHEMAS.contains(&name.as_str()) && name != OWN_SCHEMA && !is_copied(name)
        });
        Ok(names)
    }

    /// Compares what has changed, until little is left.
    fn narrow(&self, mut since: Place) -> Result<Place, Error> {
        let (shared, report) = (self.shared, self.shared.report);
        for _ in 0..ROUNDS {
            report.state("comparing what has changed");
            since = self.verifier.changed(since)?;
            if shared.touched.count_since(since).is_some_and(|changed| changed <= CHANGED_MAX) {
                return Ok(since);
            }
        }
        Err(Error::NotCutOver(format!(
            "more than {} were changed while others were compared, {ROUNDS} times; try again when less is written",
            count(CHANGED_MAX, "row")
        )))
    }

    /// Waits until all that the source has is on the target.
    fn catch_up(&self, lock: &SourceLock, deadline: Instant) -> Result<(), Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.shared.touched.wait_applied(place(&lock.end), left) {
            return Ok(());
        }
        Err(late(self.cut_over.within))
    }

    /// Gives tables the numbers with which they continue, where rows with larger ones were deleted.
    fn counters(&self, source: &mut Session, target: &mut Session) -> Result<(), Error> {
        // MySQL would tell old numbers.
        for session in [&mut *source, &mut *target] {
            match session.execute("SET SESSION information_schema_stats_expiry = 0") {
                Err(error) if error.code().is_none() => return Err(error.into()),
                _ => {}
            }
        }
        let number = |session: &mut Session, schema: &str, table: &str| -> Result<u64, Error> {
            let (schema, table) = (session.quote(schema), session.quote(table));
            let value = session.value(&format!(
                "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}"
            ))?;
            Ok(value.and_then(|value| value.parse().ok()).unwrap_or_default())
        };
        for Followed { table, target: name, .. } in self.followed {
            if !table.definition.contains("AUTO_INCREMENT") {
                continue;
            }
            let wanted = number(source, &table.name.schema, &table.name.table)?;
            if wanted > number(target, &name.schema, &name.table)? {
                target.execute(&format!("ALTER TABLE {name} AUTO_INCREMENT = {wanted}"))?;
            }
        }
        Ok(())
    }

    /// Runs the command that leads the application to the target.
    fn call(&self, lock: &SourceLock, deadline: Instant) -> Result<(), Error> {
        if Instant::now() > deadline {
            return Err(late(self.cut_over.within));
        }
        let Some(hook) = &self.cut_over.hook else { return Ok(()) };
        let (request, shared) = (self.request, self.shared);
        let variables = [
            ("REMORA_COPY", request.state.id().to_owned()),
            ("REMORA_A", request.from.to_string()),
            ("REMORA_B", request.to.to_string()),
            ("REMORA_POSITION", format!("{}:{}", lock.end.file, lock.end.offset)),
        ];
        hook::run(hook, &variables, deadline, &shared.stop).map_err(Error::NotCutOver)
    }

    /// All up to the note that the target has taken over.
    fn steps(
        &self,
        lock: &mut SourceLock,
        (target, reader): (&mut Session, &mut Session),
        Steps { since, quiet, programs }: &Steps<'_>,
        mut how: CutOver,
    ) -> Result<(), Error> {
        let request = self.request;
        request.state.cut_over(target, Some(&how))?;
        for statement in quiet {
            target.execute(statement)?;
        }
        self.catch_up(lock, since.deadline)?;
        if self.shared.have_programs_changed() {
            let why = "a trigger or an event of the source was changed at this moment";
            return Err(Error::NotCutOver(why.to_owned()));
        }
        self.verifier.last(since.place, since.deadline, (lock.session(), reader))?;
        self.counters(lock.session(), target)?;
        sequences(programs, (lock.session(), target))?;
        programs.make(target)?;
        // From there on others may write to the target, since the command leads them there.
        how.target = target.position()?.and_then(|position| {
            let begun = log::begun(request.to, &position.file, request.state.server_id()).ok()?;
            Some(Reached { position, begun })
        });
        // If we end while the command runs, nobody knows where the application is. So the source is closed
        // before, and whoever resumes gives it back.
        lock.close()?;
        self.call(lock, since.deadline)?;
        lock.end_writers()?;
        lock.check(request.from)?;
        how.is_over = true;
        self.note_over(target, &how)
    }

    /// Statements that keep events on the target from running, and others from writing to it while a command
    /// leads them there, each with the one that takes it back. Nothing is changed yet.
    fn quiet(&self, target: &mut Session, programs: &Programs) -> Result<Vec<(String, String)>, Error> {
        let mut is = |name: &str, wanted: [&str; 2]| -> Result<bool, Error> {
            let value = target.value(&format!("SELECT @@GLOBAL.{name}"))?;
            Ok(value.is_some_and(|value| wanted.contains(&value.as_str())))
        };
        let set = |name: &str, value: &str| format!("SET GLOBAL {name} = {value}");
        let mut quiet = Vec::new();
        if programs.has_events() && is("event_scheduler", ["ON", "1"])? {
            quiet.push((set("event_scheduler", "OFF"), set("event_scheduler", "ON")));
        }
        if self.cut_over.hook.is_some() && is("read_only", ["OFF", "0"])? {
            quiet.push((set("read_only", "ON"), set("read_only", "OFF")));
        }
        Ok(quiet)
    }

    /// Notes that the target has taken over. If the answer is lost, another session looks.
    fn note_over(&self, target: &mut Session, how: &CutOver) -> Result<(), Error> {
        let request = self.request;
        let id = target.connection_id();
        match request.state.cut_over(target, Some(how)) {
            Err(Error::Server(error)) if error.is_connection_lost() => {
                let is_over = || {
                    let mut session = request.target()?;
                    // The statement may be on its way.
                    let query = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE ID = {id}");
                    source_lock::end_connections(&mut session, &query)?;
                    request.state.is_over(&mut session)
                };
                match is_over() {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Error::Server(error)),
                    Err(_) => Err(Error::Unknown(error)),
                }
            }
            noted => noted,
        }
    }
}

/// Opens a target that has taken over.
fn open(target: &mut Session, how: &CutOver) -> Result<(), Error> {
    if target.value("SELECT @@GLOBAL.read_only")?.is_some_and(|value| value != "0" && value != "OFF") {
        target.execute("SET GLOBAL read_only = OFF")?;
    }
    let has_events = how.undo.iter().any(|statement| statement.starts_with("DROP EVENT"));
    let ran = how.variables.iter().any(|(name, value)| name == "event_scheduler" && value == "ON");
    if has_events && ran || how.undo.iter().any(|statement| statement.contains("event_scheduler")) {
        target.execute("SET GLOBAL event_scheduler = ON")?;
    }
    Ok(())
}

/// Gives a source back whose cut-over was cut off before the target had taken over. Returns whether there was
/// one.
///
/// # Errors
/// [`Error::Over`] if the target has taken over; [`Error::Busy`] while it does; those of the servers.
pub fn give_back(state: &State, (from, to): (&Target, &Target), no_binlog: bool) -> Result<bool, Error> {
    let mut target = crate::connect(to, no_binlog)?;
    if !state.lock(&mut target)? {
        return Err(Error::Busy);
    }
    let Some(how) = state.how(&mut target)? else { return Ok(false) };
    if how.is_over {
        open(&mut target, &how)?;
        return Err(Error::Over(format!("at {} of the source's log", how.source)));
    }
    source_lock::set(&mut from.connect()?, &how.variables)?;
    take_back(&mut target, state, &how.undo)?;
    Ok(true)
}

/// Takes back what was made on the target.
fn take_back(target: &mut Session, state: &State, undo: &[String]) -> Result<(), Error> {
    undo.iter().try_for_each(|statement| target.execute(statement).map(drop))?;
    state.cut_over(target, None)
}

/// Lets accounts with privileges write to a server that is read-only, as a standby has to be.
///
/// # Errors
/// [`Error::Refused`] if it is not read-only: others may write to it. Those of the server.
pub fn let_us_write(standby: &Target) -> Result<(), Error> {
    let mut session = standby.connect()?;
    if session.value("SELECT @@GLOBAL.read_only")?.is_some_and(|value| value == "0" || value == "OFF") {
        return Err(Error::Refused(
            "the target of the way back is not read-only, so others may write to it: SET GLOBAL read_only = ON there"
                .to_owned(),
        ));
    }
    Ok(source_lock::admit_privileged(&mut session)?)
}

fn late(within: Duration) -> Error {
    Error::NotCutOver(format!("it took longer than {} s", within.as_secs()))
}

/// Lets sequences continue where those of the source are.
fn sequences(programs: &Programs, (source, target): (&mut Session, &mut Session)) -> Result<(), Error> {
    for (own, other) in &programs.sequences {
        let Some(next) = source.value(&format!("SELECT next_not_cached_value FROM {own}"))? else { continue };
        target
            .execute(&format!("SELECT SETVAL({other}, {next}, 0)"))
            .map(drop)
            .or_else(|_| target.execute(&format!("ALTER SEQUENCE {other} RESTART WITH {next}")).map(drop))?;
    }
    Ok(())
}
