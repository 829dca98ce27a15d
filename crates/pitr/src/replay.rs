//! A private server applies an archived log to restored data, with its own SQL thread: that is several times
//! as fast as statements through a client, and the events are applied as they were written.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use disk::{Disk, Output, RealDisk};
use dump::Selection;
use instance::{Account, Wanted, settings, table_check};
use progress::{Progress, Shared, count};
use sandbox::Sandbox;
use server::catalogue::Wanted as _;
use server::{Flavour, Session, TableName};
use transactions::LogFile;

use crate::relay_log::{Dialect, Status};
use crate::replay_plan::ReplayPlan;
use crate::scheduled_events::States;
use crate::storage_engine;

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 1 << 20;
/// How long to wait before looking again how far it is.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often in a row the server may say that it has read everything, before that is believed.
const IDLE_MAX: u32 = 20;

/// The data of a generation, and a folder of its own to work in, on their file system.
#[derive(Clone, Copy, Debug)]
pub struct Folders<'a> {
    /// The data folder.
    pub data: &'a Path,
    /// The folder to work in.
    pub work: &'a Path,
}

/// The server that replays.
#[derive(Clone, Copy)]
pub struct ReplayRequest<'a> {
    /// How it is wanted.
    pub wanted: Wanted<'a>,
    /// The tables that it checks.
    pub only: &'a Selection,
}

/// What is replayed.
pub struct Replay {
    /// The data.
    data: PathBuf,
    /// A folder for the relay logs and what belongs to them.
    pub work: PathBuf,
    /// The archived files, from the one where the data are.
    files: Vec<LogFile>,
    /// The offset in the first one.
    from: u64,
    /// The numbers of servers in the log.
    servers: BTreeSet<u32>,
    /// That of the server.
    dialect: Dialect,
}

impl Replay {
    /// Makes a folder for the relay logs.
    pub fn new(
        folders: Folders<'_>,
        files: Vec<LogFile>,
        from: u64,
        servers: BTreeSet<u32>,
        dialect: Dialect,
    ) -> Result<Replay> {
        let (data, work) = (folders.data.to_owned(), folders.work.join("log"));
        RealDisk.create_folder(&work)?;
        Ok(Replay { data, work, files, from, servers, dialect })
    }

    /// Applies the log to data that no server uses, checks tables, and proves what can be proven.
    /// Returns how many tables were checked.
    ///
    /// # Errors
    /// What the server says; [`block::Error::Stopped`]. The data are of no use then.
    pub fn run(
        &self,
        request: &ReplayRequest<'_>,
        plan: &ReplayPlan,
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<usize> {
        let ReplayRequest { wanted, only } = *request;
        let (mut server, account) = self.start(wanted, plan)?;
        let mut session = account.connect(&server)?;
        if plan.transactions > 0 {
            settings::apply(&mut session, wanted.needs.server(), report)?;
            if plan.by_statement > 0 {
                settings::tell_zone(&mut session, wanted.needs.server(), report)?;
            }
            let events = States::read(&mut session)?;
            self.aim(&mut session)?;
            must_lack(&mut session, plan)?;
            self.go(&mut session, plan, stop, report)?;
            events.put_back(&mut session, &plan.events, report)?;
            self.dialect.forget_sources(&mut session)?;
        }
        let mut tables = table_check::tables(&mut session, false)?;
        tables.retain(|table| only.table(&table.schema, &table.table));
        let tables = check((&mut session, &server), &tables, stop, report)?;
        account.remove(&mut session)?;
        drop(session);
        server.stop()?;
        Ok(tables)
    }

    /// Starts a server that can replay, with an account for its sessions.
    pub fn start(&self, wanted: Wanted<'_>, plan: &ReplayPlan) -> Result<(Sandbox, Account)> {
        let options = self.options(plan)?.into_iter().chain(storage_engine::option(&plan.engines));
        let options: Vec<String> = options.chain(wanted.options.iter().cloned()).collect();
        self.link()?;
        let account = Account::new(&self.work, self.dialect.flavour())?;
        let wanted = Wanted { options: &options, account: Some(&account), ..wanted };
        Ok((instance::start(&self.data, None, wanted)?, account))
    }

    /// A server skips events with its own number silently. So it gets one that is in none.
    fn options(&self, plan: &ReplayPlan) -> Result<Vec<String>> {
        let own = (1..=u32::MAX).rev().find(|number| !self.servers.contains(number));
        let mut all = vec![format!("--server-id={}", own.unwrap_or(u32::MAX))];
        // A server reads its relay log relatively to its data.
        all.extend(self.dialect.options(&self.work.canonicalize()?, !plan.gtids.is_empty())?);
        Ok(all)
    }

    /// The archived files as relay logs, which a server only reads. What is in segments is put together for
    /// it.
    fn link(&self) -> Result<()> {
        let mut index = Output::create(&RealDisk, &self.work.join("relay.index"))?;
        for (number, file) in self.files.iter().enumerate() {
            let name = relay(number);
            match file.on_disk() {
                Some(path) => std::os::unix::fs::symlink(path.canonicalize()?, self.work.join(&name))?,
                None => copy(file, &self.work.join(&name)).with_context(|| file.display().to_string())?,
            }
            writeln!(index, "./{name}")?;
        }
        index.finish()?;
        Ok(())
    }

    /// Says where the replay begins.
    pub fn aim(&self, session: &mut Session) -> Result<()> {
        let own: u32 = session.value("SELECT @@server_id")?.unwrap_or_default().parse()?;
        ensure!(
            !self.servers.contains(&own),
            "the private server has the number {own}, which is in the log: it would skip those events"
        );
        let first = self.files.first().map(|file| transactions::names::file(file)).unwrap_or_default();
        self.dialect.aim(session, &relay(0), &(first, self.from))
    }

    /// Applies the log to the end of a plan, which begins where the replay does.
    pub fn go(
        &self,
        session: &mut Session,
        plan: &ReplayPlan,
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<()> {
        let Some(end) = plan.end else { return Ok(()) };
        storage_engine::tell_missing(session, &plan.engines, report)?;
        report.phase("replaying", Some(plan.bytes));
        let (file, at) = (relay(end.file), end.at);
        self.dialect.start(session, &file, at)?;
        let status = self.wait((session, plan), stop, report)?;
        self.prove((session, plan), &status, (&file, at))
    }

    /// Waits until the SQL thread has ended, and returns what it says.
    fn wait(
        &self,
        (session, plan): (&mut Session, &ReplayPlan),
        stop: &AtomicBool,
        report: &Shared,
    ) -> Result<Status> {
        let mut lens = Vec::new();
        for file in &self.files {
            lens.push(file.bytes()?);
        }
        let (mut reported, mut idle) = (0, 0);
        loop {
            let status = self.dialect.status(session)?;
            let before: u64 = lens.iter().take(status.file().unwrap_or(1).saturating_sub(1)).sum();
            let at = before + status.at();
            let done = at.saturating_sub(self.from).min(plan.bytes);
            report.done(0, done.saturating_sub(reported));
            reported = reported.max(done);
            if status.text("Slave_SQL_Running") != "Yes" {
                return Ok(status);
            }
            let state = status.text("Slave_SQL_Running_State");
            idle = if state.contains("read all relay log") { idle + 1 } else { 0 };
            if idle > IDLE_MAX {
                self.dialect.stop(session)?;
            }
            if !progress::pause(LOOK_AGAIN, stop) {
                return Err(block::Error::Stopped.into());
            }
        }
    }

    /// Everything was applied, and nothing else.
    fn prove(
        &self,
        (session, plan): (&mut Session, &ReplayPlan),
        status: &Status,
        (file, at): (&str, u64),
    ) -> Result<()> {
        let text = |name: &str| status.text(name);
        let here = format!("{}:{}", text("Relay_Log_File"), text("Relay_Log_Pos"));
        if text("Last_SQL_Errno") != "0" {
            let path = status.file().and_then(|number| self.files.get(number.checked_sub(1)?));
            let path = path.map(|path| path.display().to_string()).unwrap_or_default();
            let (at, error) = (text("Relay_Log_Pos"), text("Last_SQL_Error"));
            bail!("the server can't apply the event at {path}:{at}: {error}");
        }
        // Parallel threads look for more behind the last file: in one that the server has begun, of its own.
        let is_behind = text("Relay_Log_File") == relay(self.files.len());
        ensure!(
            is_behind || here == format!("{file}:{at}"),
            "the replay ended at {here} and not at {file}:{at}"
        );
        if self.dialect.flavour() == Flavour::MySql {
            return must_have(session, plan);
        }
        let groups =
            ["Slave_DDL_Groups", "Slave_Non_Transactional_Groups", "Slave_Transactional_Groups"].map(text);
        let applied: u64 = groups.iter().filter_map(|number| number.parse::<u64>().ok()).sum();
        ensure!(
            applied == plan.transactions,
            "the server has applied {applied} of {}",
            count(plan.transactions, "transaction")
        );
        let state = session.value("SELECT @@gtid_slave_pos")?.unwrap_or_default();
        let reached: Vec<&str> = state.split(',').collect();
        let lost = plan.last.values().find(|name| !reached.contains(&name.as_str()));
        ensure!(lost.is_none(), "the replay should have ended with {lost:?}, and it ended with {state}");
        Ok(())
    }
}

/// No transaction with a GTID is in the data yet: MySQL would pass over it.
fn must_lack(session: &mut Session, plan: &ReplayPlan) -> Result<()> {
    if plan.gtids.is_empty() {
        return Ok(());
    }
    let all = session.quote(&plan.gtids.to_string());
    let query = format!("SELECT GTID_SUBTRACT({all}, GTID_SUBTRACT({all}, @@GLOBAL.gtid_executed))");
    let had = session.value(&query)?.unwrap_or_default();
    ensure!(had.is_empty(), "the data have {had} already, which the log has behind their place in it");
    Ok(())
}

/// A MySQL server has applied all transactions that have a GTID. It does not count those without one.
fn must_have(session: &mut Session, plan: &ReplayPlan) -> Result<()> {
    if plan.gtids.is_empty() {
        return Ok(());
    }
    let all = session.quote(&plan.gtids.to_string());
    let lost = session.value(&format!("SELECT GTID_SUBTRACT({all}, @@GLOBAL.gtid_executed)"))?;
    let lost = lost.unwrap_or_default();
    ensure!(lost.is_empty(), "the server has not applied {lost}");
    Ok(())
}

/// Copies a file that is archived in segments.
fn copy(file: &LogFile, to: &Path) -> Result<()> {
    let mut output = Output::create(&RealDisk, to)?;
    let mut source = std::io::BufReader::with_capacity(PIECE_BYTES, file.open()?);
    std::io::copy(&mut source, &mut output)?;
    Ok(output.finish()?)
}

/// Whether an error of a server only says that it lacks a plugin or a function of the original.
fn is_of_plugin(error: &str) -> bool {
    ["shared library", "load plugin", "Can't find symbol", "Plugin '", "Function '"]
        .iter()
        .any(|words| error.contains(words))
}

/// The relay log that an archived file is to the server.
fn relay(number: usize) -> String {
    format!("relay.{:06}", number + 1)
}

/// Checks tables and the server's error log. Returns how many tables there are.
pub(crate) fn check(
    (session, server): (&mut Session, &Sandbox),
    tables: &[TableName],
    stop: &AtomicBool,
    report: &Shared,
) -> Result<usize> {
    let mut checked = table_check::check(session, tables, None, stop, report)?;
    let log = fs::read(server.error_log()).with_context(|| server.error_log().display().to_string())?;
    let (plugins, errors): (Vec<String>, Vec<String>) = table_check::errors(&String::from_utf8_lossy(&log))
        .into_iter()
        .partition(|error| is_of_plugin(error));
    plugins.iter().for_each(|error| {
        report.warn(&format!("{error}; the original server had it, and what needs it could not be replayed"));
    });
    checked.damages.extend(errors);
    if checked.damages.is_empty() {
        return Ok(checked.tables);
    }
    for damage in &checked.damages {
        report.warn(damage);
    }
    bail!("the replayed data are not sound: {}", count(checked.damages.len(), "problem"))
}
