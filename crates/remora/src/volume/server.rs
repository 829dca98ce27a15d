//! A whole server: the volume or folder that its data lie in, held still while the server's own lock keeps it from committing.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use progress::Progress;
use serde_json::Value;
use server::{HoldMode, Session, Target};

use crate::args::ServerArgs;
use crate::commands;
use crate::hold;
use crate::host::Machine;
use crate::volume::folder::{FileSystem, FolderSnapshot, Still};
use crate::volume::lvm::LogicalVolume;
use crate::volume::snapshot::{Layouts, Mark, Snapshot};

/// Settings that say where else a server keeps what belongs to its data.
const ELSEWHERE: [&str; 5] = [
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "aria_log_dir_path",
    "log_bin_basename",
];
/// Runs the command behind it while a process is stopped. Should we be killed meanwhile, it goes on by itself after a minute.
const STOPPED: &str = r#"sh -c 'trap "kill -CONT PID" EXIT; (sleep 60; kill -CONT PID) >/dev/null 2>&1 & guard=$!;
    kill -STOP PID || exit 1; "$@"; code=$?; kill -CONT PID; kill "$guard"; exit "$code"' stopped"#;

/// How to reach the server.
pub(crate) struct Login<'a> {
    pub(crate) server: &'a ServerArgs,
    pub(crate) password: Option<String>,
    /// How long to try for its lock.
    pub(crate) wait: Duration,
    /// Set when the run is to stop.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Login<'_> {
    /// Connects to the server of a machine.
    fn connect(&self, machine: &Machine) -> io::Result<(Target, Session)> {
        let sockets = machine.sockets();
        let all: Vec<ServerArgs> = match sockets.is_empty() {
            true => vec![self.server.clone()],
            false => sockets.iter().map(|socket| self.server.through(socket)).collect(),
        };
        let mut failed = None;
        for server in all {
            let target = server.target(self.password.clone()).map_err(io::Error::other)?;
            match target.connect() {
                Ok(session) => return Ok((target, session)),
                // Of several places where a socket may be the first one is the usual one.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.map_or_else(|| io::ErrorKind::NotFound.into(), io::Error::other))
    }

    /// Waits, unless the run is to stop.
    fn pause(&self, time: Duration) -> anyhow::Result<()> {
        if commands::pause(time, &self.stop) { Ok(()) } else { Err(block::Error::Stopped.into()) }
    }
}

/// A server's data, and the snapshot that is made of them.
pub(crate) struct ServerSnapshot<'a> {
    login: &'a Login<'a>,
    inner: Box<dyn Snapshot + 'a>,
    /// The server's process, when it has to be stopped for a moment.
    process: Option<u32>,
    /// Where the server stood.
    position: Option<Value>,
}

impl<'a> ServerSnapshot<'a> {
    /// Looks for the server's data, and for a way to hold them still. `room` as for a logical volume.
    pub(crate) fn find(
        machine: &Machine,
        login: &'a Login<'a>,
        room: Option<u64>,
    ) -> io::Result<ServerSnapshot<'a>> {
        let (_, mut session) = login.connect(machine)?;
        let data = PathBuf::from(setting(&mut session, "datadir")?.unwrap_or_default());
        let place = FileSystem::of(machine, &data)?;
        let (inner, process): (Box<dyn Snapshot>, _) = if place.kind == "btrfs" {
            inside(&mut session, &data)?;
            (Box::new(beside(machine, &data, Still::Subvolume)?), None)
        } else if LogicalVolume::is_one(machine, &place.source) {
            on_one_volume(&mut session, machine, &data, &place)?;
            (Box::new(LogicalVolume::find(machine, &place.source, room)?), None)
        } else if place.kind == "xfs" {
            inside(&mut session, &data)?;
            let process = process(&mut session, machine, &data)?;
            (Box::new(beside(machine, &data, Still::Clone)?), Some(process))
        } else {
            return Err(io::Error::other(format!(
                "its data folder {} lies on {} on {}, of which no snapshot can be made; move it to LVM, btrfs or XFS, or \
                 dump the server with 'remora dump'",
                data.display(),
                place.kind,
                place.source.display(),
            )));
        };
        Ok(ServerSnapshot { login, inner, process, position: None })
    }
}

impl Snapshot for ServerSnapshot<'_> {
    fn prepare(&mut self, machine: &Machine, mark: &Mark<'_>, progress: &dyn Progress) -> io::Result<()> {
        self.inner.prepare(machine, mark, progress)
    }

    fn make(&mut self, machine: &Machine, lock: Option<&str>) -> io::Result<()> {
        let (target, mut session) = self.login.connect(machine)?;
        let mode = HoldMode::best(&mut session).map_err(io::Error::other)?;
        let held = hold::take(session, &mode, self.login.wait, &target, |time| self.login.pause(time));
        let mut held = held.map_err(io::Error::other)?;
        let began = Instant::now();
        let mut position = hold::position(&mut held).map_err(io::Error::other)?;
        let stopped = self.process.map(|process| STOPPED.replace("PID", &process.to_string()));
        // The user's lock first: what it runs may have to ask the server.
        let both: Vec<&str> = lock.into_iter().chain(stopped.as_deref()).collect();
        let both = both.join(" ");
        let made = self.inner.make(machine, Some(&*both).filter(|both| !both.is_empty()));
        held.release().map_err(|error| {
            io::Error::other(format!("the server's lock was lost while the snapshot was made: {error}"))
        })?;
        made?;
        position["lock"] = mode.name().into();
        position["seconds_held"] = began.elapsed().as_secs_f64().into();
        self.position = Some(position);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.inner.path()
    }

    fn is_tree(&self) -> bool {
        self.inner.is_tree()
    }

    fn noted(&self) -> Option<&Value> {
        self.position.as_ref()
    }

    fn changes(
        &self,
        machine: &Machine,
        layouts: Option<Layouts<'_>>,
    ) -> io::Result<Option<Vec<Range<u64>>>> {
        self.inner.changes(machine, layouts)
    }

    fn kept(&self) -> Option<PathBuf> {
        self.inner.kept()
    }

    fn check(&self, machine: &Machine) -> io::Result<()> {
        self.inner.check(machine)
    }

    fn keep(&mut self, machine: &Machine, stamp: &str) -> io::Result<()> {
        self.inner.keep(machine, stamp)
    }

    fn remove(&mut self, machine: &Machine) -> io::Result<()> {
        self.inner.remove(machine)
    }
}

/// A snapshot that is made outside of the data folder: in it, the server would take it for a database.
fn beside(machine: &Machine, data: &Path, still: Still) -> io::Result<FolderSnapshot> {
    let snapshot = FolderSnapshot::find(machine, data, still)?;
    if snapshot.is_inside() {
        return Err(io::Error::other(format!(
            "its data folder {} is the top of its file system, so there is no room beside it for a snapshot; mount that \
             one folder higher, or put it on LVM",
            data.display(),
        )));
    }
    Ok(snapshot)
}

fn setting(session: &mut Session, name: &str) -> io::Result<Option<String>> {
    let rows = session.strings(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).map_err(io::Error::other)?;
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().nth(1)?))
}

/// Places outside of the data folder where the server keeps what belongs to it, with the names of their settings.
fn elsewhere(session: &mut Session, data: &Path) -> io::Result<Vec<(&'static str, PathBuf)>> {
    let mut found = Vec::new();
    for name in ELSEWHERE {
        // What is relative is so to the data folder.
        let Some(value) = setting(session, name)?.filter(|value| value.starts_with('/')) else { continue };
        if !Path::new(&value).starts_with(data) {
            found.push((name, PathBuf::from(value)));
        }
    }
    Ok(found)
}

/// Fails when something that belongs to the data lies outside of their folder.
fn inside(session: &mut Session, data: &Path) -> io::Result<()> {
    match elsewhere(session, data)?.first() {
        None => Ok(()),
        Some((name, path)) => Err(io::Error::other(format!(
            "{name} is {}, which is not in the data folder {}: a backup of that alone would be of no use",
            path.display(),
            data.display(),
        ))),
    }
}

/// Fails when something that belongs to the data lies on another volume.
fn on_one_volume(
    session: &mut Session,
    machine: &Machine,
    data: &Path,
    place: &FileSystem,
) -> io::Result<()> {
    for (name, path) in elsewhere(session, data)? {
        // That of the binary log is no folder.
        let folder = if name == "log_bin_basename" { path.parent().unwrap_or(&path) } else { &path };
        if FileSystem::of(machine, folder)?.device != place.device {
            return Err(io::Error::other(format!(
                "{name} is {}, which is on another volume than the data folder {}: a snapshot of one of them alone would \
                 be of no use",
                path.display(),
                data.display(),
            )));
        }
    }
    Ok(())
}

/// The number of the server's process.
fn process(session: &mut Session, machine: &Machine, data: &Path) -> io::Result<u32> {
    let file = setting(session, "pid_file")?.unwrap_or_default();
    let path = data.join(file);
    let mut text = String::new();
    io::Read::read_to_string(&mut machine.disk().open(&path)?, &mut text)?;
    let process: u32 =
        text.trim().parse().map_err(|_| io::Error::other(format!("{}: no number", path.display())))?;
    let mut name = String::new();
    let said = Path::new("/proc").join(process.to_string()).join("comm");
    io::Read::read_to_string(&mut machine.disk().open(&said)?, &mut name)?;
    // Nobody else is to be stopped because of a file that is out of date.
    if name.starts_with("mariadbd") || name.starts_with("mysqld") {
        Ok(process)
    } else {
        Err(io::Error::other(format!(
            "{} names process {process}, which is {}",
            path.display(),
            name.trim_end()
        )))
    }
}
