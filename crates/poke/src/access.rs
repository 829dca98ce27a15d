//! The ways into a server: SQL through the socket or the second port, and, if the server is full, more room
//! made in its memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use failure::usage;
use server::{Error, Session, Target};

use crate::image::{Cell, Image};
use crate::process::Process;
use crate::variables::{self, Variable, Width};

/// A server that does not answer for this long lets nobody in.
const ANSWER: Duration = Duration::from_secs(10);
/// The server's error for "too many connections".
const TOO_MANY: u16 = 1040;
/// The variables of programs with a second port, for a server that is full: MariaDB's `extra_port` and
/// MySQL's `admin_port`; and where a session is that was opened there.
const SECOND_PORTS: [(&str, &str); 2] =
    [("mysqld_extra_port", " at the extra port"), ("mysqld_admin_port", " at the admin port")];

/// What to connect to: as options say, or through a local socket.
pub type TargetOf<'a> = dyn Fn(Option<&Path>) -> Result<Target, Error> + 'a;

/// A server, and the ways into it.
pub struct Access {
    /// The process, if the user named one.
    named: Option<Process>,
    target: Target,
}

/// The memory of a server's process.
pub struct Memory {
    /// The process.
    pub process: Process,
    /// The program in it.
    pub image: Image,
    /// The version in its program.
    pub version: String,
}

/// The result of asking for a session.
pub enum Sql {
    /// A session, and where it was opened, if not at the usual place.
    Answers(Session, &'static str),
    /// No session, for this reason; and why there was none at the second port, if that was tried.
    Silent(Error, Option<String>),
}

impl Sql {
    /// Whether the server has all the connections that it may have.
    pub fn is_full(&self) -> bool {
        matches!(self, Sql::Silent(Error::Refused { code: TOO_MANY, .. }, _))
    }
}

impl Access {
    /// Finds the server that the user named: by its process, or by its socket.
    pub fn find(target: &TargetOf<'_>, pid: Option<u32>, pid_file: Option<&Path>) -> Result<Access> {
        let pid = match pid_file {
            None => pid,
            Some(file) => {
                let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
                let number = text.trim().parse();
                Some(
                    number
                        .with_context(|| format!("{}: there is no process number in it", file.display()))?,
                )
            }
        };
        let mut resolved = target(None)?;
        let named = pid.map(Process::of_pid).transpose()?;
        if let Some(process) = &named {
            // This prevents using the memory of one server and the SQL of another.
            let sockets = process.sockets()?;
            if !resolved.socket.as_ref().is_some_and(|socket| is_among(socket, &sockets)) {
                let socket = sockets.first().with_context(|| {
                    format!("process {} has no socket of its own: SQL can't be asked about it", process.pid)
                })?;
                resolved = target(Some(socket))?;
            }
        }
        resolved.connect_timeout = resolved.connect_timeout.min(ANSWER);
        Ok(Access { named, target: resolved })
    }

    /// The server of a target.
    #[must_use]
    pub fn of(target: Target) -> Access {
        Access { named: None, target }
    }

    /// The server's process.
    fn process(&self) -> Result<Process> {
        match (&self.named, &self.target.socket) {
            (Some(process), _) => Process::of_pid(process.pid),
            (None, Some(socket)) => Process::of_socket(socket),
            (None, None) => Err(usage(format!(
                "{} may be on another machine, and poke writes to the memory of a server on this one: name the server's socket with -S, or its process with --pid",
                self.target
            ))),
        }
    }

    /// Opens the memory of the server.
    pub fn memory(&self) -> Result<Memory> {
        let process = self.process()?;
        let symbols: Vec<&str> = variables::VARIABLES.iter().map(|known| known.symbol).collect();
        let image = Image::open(&process, &symbols)?;
        let version = image.version()?;
        if variables::series(&version).is_none() {
            let all = variables::SERIES.join(", ");
            bail!("this is {version}: writing to memory was tried only on MariaDB {all}");
        }
        Ok(Memory { process, image, version })
    }

    /// Opens a session: at the socket, and if the server is full at its second port.
    pub fn sql(&self) -> Result<Sql> {
        let sql = sql_at(&self.target, "");
        if !sql.is_full() {
            return Ok(sql);
        }
        let Ok((target, door)) = self.second() else { return Ok(sql) };
        Ok(match (sql, sql_at(&target, door)) {
            (Sql::Silent(error, _), Sql::Silent(second, _)) => {
                Sql::Silent(error, Some(format!("{}: {second}", door.trim_start())))
            }
            (_, answers) => answers,
        })
    }

    /// For sessions of a longer time: the second port, if the server is full and answers there.
    pub fn way_in(&self) -> Option<(Target, &'static str)> {
        // Only of a process of this machine the port can be found.
        self.target.socket.as_ref()?;
        match self.sql() {
            Ok(Sql::Answers(_, door)) if !door.is_empty() => self.second().ok(),
            _ => None,
        }
    }

    /// The server at its second port.
    fn second(&self) -> Result<(Target, &'static str)> {
        let (port, door) = self.second_port()?;
        let mut target = self.target.clone();
        (target.host, target.port, target.socket) = ("127.0.0.1".to_owned(), port, None);
        Ok((target, door))
    }

    /// The second port, as it is in the memory of the server, which is only read. MySQL has one also if it
    /// does not listen there.
    fn second_port(&self) -> Result<(u16, &'static str)> {
        let image = Image::open(&self.process()?, &SECOND_PORTS.map(|(symbol, _)| symbol))?;
        let port = |symbol| {
            let port = image.cell(symbol, Width::Four).and_then(|cell| cell.read()).ok()?;
            u16::try_from(port).ok().filter(|port| *port > 0)
        };
        let found = SECOND_PORTS.into_iter().find_map(|(symbol, door)| Some((port(symbol)?, door)));
        found.context("the server has no second port")
    }
}

fn sql_at(target: &Target, door: &'static str) -> Sql {
    match target.connect() {
        Ok(session) => Sql::Answers(session, door),
        Err(error) => Sql::Silent(error, None),
    }
}

impl Memory {
    /// Fails unless this session is with the server whose memory this is.
    pub fn check(&self, session: &mut Session) -> Result<()> {
        let version = session.value("SELECT @@version")?.unwrap_or_default();
        let same = version.starts_with(&self.version) || self.version.starts_with(&version);
        ensure!(
            same,
            "SQL says that the server is {version}, but process {} is {}",
            self.process.pid,
            self.version
        );
        Ok(())
    }

    /// A variable and its value.
    pub fn variable(&self, known: &Variable) -> Result<(Cell<'_>, u64)> {
        let cell = self.image.cell(known.symbol, known.width)?;
        let now = cell.read()?;
        ensure!(
            known.range.contains(&now),
            "{} is {now} in memory, which is not possible: nothing was changed",
            known.name
        );
        Ok((cell, now))
    }
}

/// Stores a value and checks that it is there.
pub fn store(cell: &Cell<'_>, known: &Variable, value: u64) -> Result<()> {
    cell.write(value)?;
    let is = cell.read()?;
    ensure!(is == value, "{} should be {value} in memory now, but is {is}", known.name);
    Ok(())
}

fn is_among(socket: &Path, sockets: &[PathBuf]) -> bool {
    let real = socket.canonicalize().unwrap_or_else(|_| socket.to_owned());
    sockets.iter().any(|known| *known == real || known == socket)
}
