//! A whole server: a snapshot of the volume or folder with its data, made while the server's own lock keeps
//! it from committing.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use failure::Failure;
use host::Machine;
use instance::settings;
use progress::{Progress, Shared};
use serde_json::Value;
use server::{HoldMode, Session, Target};

use crate::file_system::FileSystem;
use crate::folder::{FolderSnapshot, Still};
use crate::lvm::LogicalVolume;
use crate::server_files::{self, Reach, resolve, setting};
use crate::server_lock::{self, Waiting};
use crate::start_options::{self, Start};
use crate::{Layouts, Mark, Snapshot};

/// Why no server is started on a copy.
const LINKED: &str = "links in its data folder would lead a second server to files of the original";

/// An account on a server, and the ways to it.
pub trait Connect: Sync {
    /// What to connect to; `through` a local socket that leads to it, if there is one.
    ///
    /// # Errors
    /// If option files or options are wrong.
    fn target(&self, through: Option<&Path>) -> Result<Target, server::Error>;

    /// Where the server may be reached on its own machine: sockets, or `host:port`.
    fn places(&self) -> Vec<String>;
}

/// How to reach the server.
pub struct Login<'a> {
    /// The account, and the ways to the server.
    pub server: &'a dyn Connect,
    /// How long to try to get its lock.
    pub wait: Duration,
    /// How long the server may be stopped while its files are copied.
    pub still: Duration,
    /// Set when the run must stop.
    pub stop: Arc<AtomicBool>,
    /// Reports what is waited for.
    pub report: Shared,
}

impl Login<'_> {
    /// Connects to the server on a machine.
    pub fn connect(&self, machine: &Machine) -> io::Result<(Target, Session)> {
        let sockets = machine.sockets();
        let all: Vec<Option<&Path>> = match sockets.is_empty() {
            true => vec![None],
            false => sockets.iter().map(|socket| Some(socket.as_path())).collect(),
        };
        let mut failed = None;
        for socket in all {
            let target = self.server.target(socket).map_err(io::Error::other)?;
            if matches!(machine, Machine::Here) {
                is_here(&target, machine)?;
            }
            match target.connect() {
                Ok(session) => return Ok((target, session)),
                // Of several places for a socket the first one is the usual one, so its error is kept.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.map_or_else(|| io::ErrorKind::NotFound.into(), io::Error::other))
    }

    /// Waits, unless the run must stop.
    fn pause(&self, time: Duration) -> anyhow::Result<()> {
        if progress::pause(time, &self.stop) { Ok(()) } else { Err(block::Error::Stopped.into()) }
    }
}

/// A server's data, and their snapshot.
pub struct ServerSnapshot<'a> {
    login: &'a Login<'a>,
    inner: Inner,
    /// The data folder, without links.
    data: PathBuf,
    /// What the user should know about things that the snapshot lacks.
    lacks: Vec<String>,
    start: Result<Start, String>,
    /// The server's position.
    position: Option<Value>,
}

/// What kind of snapshot is made.
enum Inner {
    Folder(FolderSnapshot),
    Volume(LogicalVolume),
}

impl std::ops::Deref for Inner {
    type Target = dyn Snapshot;

    fn deref(&self) -> &Self::Target {
        match self {
            Inner::Folder(folder) => folder,
            Inner::Volume(volume) => volume,
        }
    }
}

impl std::ops::DerefMut for Inner {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Inner::Folder(folder) => folder,
            Inner::Volume(volume) => volume,
        }
    }
}

/// A server's data folder: as the server calls it, and without links.
pub fn data_folder(session: &mut Session, machine: &Machine) -> io::Result<(PathBuf, PathBuf)> {
    let named = PathBuf::from(setting(session, "datadir")?.unwrap_or_default());
    let data = resolve(machine, slice::from_ref(&named))?.pop().unwrap_or_default();
    Ok((named, data))
}

/// What a server says about itself that tells it from others.
pub struct OwnName {
    /// Its data folder, as it calls it.
    pub data: String,
    /// `server_uuid`, where there is one.
    pub uuid: String,
}

/// Asks a server for it.
pub fn own_name(machine: &Machine, login: &Login<'_>) -> io::Result<OwnName> {
    let (_, mut session) = login.connect(machine)?;
    let mut ask = |name| Ok::<_, io::Error>(setting(&mut session, name)?.unwrap_or_default());
    let data = ask("datadir")?;
    let data = if data.len() > 1 { data.trim_end_matches('/').to_owned() } else { data };
    Ok(OwnName { data, uuid: ask("server_uuid")? })
}

/// How a snapshot of a file system is made.
#[derive(Clone, Copy)]
enum Means {
    Volume,
    Subvolume,
    Clone,
}

impl Means {
    /// None if no snapshot of it can be made.
    fn of(machine: &Machine, place: &FileSystem) -> Option<Means> {
        match &*place.kind {
            "btrfs" => Some(Means::Subvolume),
            _ if LogicalVolume::is_one(machine, &place.source) => Some(Means::Volume),
            "xfs" => Some(Means::Clone),
            _ => None,
        }
    }
}

/// Whether a snapshot of a server's data can be made.
pub fn has_snapshots(machine: &Machine, login: &Login<'_>) -> io::Result<bool> {
    let (_, mut session) = login.connect(machine)?;
    let (_, data) = data_folder(&mut session, machine)?;
    Ok(Means::of(machine, &FileSystem::of(machine, &data)?).is_some())
}

impl<'a> ServerSnapshot<'a> {
    /// Finds the server's data, and a way to make a snapshot of them. `room` as for a logical volume.
    pub fn find(
        machine: &Machine,
        login: &'a Login<'a>,
        room: Option<u64>,
    ) -> io::Result<ServerSnapshot<'a>> {
        let (_, mut session) = login.connect(machine)?;
        let (named, data) = data_folder(&mut session, machine)?;
        let place = FileSystem::of(machine, &data)?;
        let process = start_options::process(&mut session, machine, &data);
        let folders = [&*data];
        let means = Means::of(machine, &place).ok_or_else(|| no_snapshot(&data, &place))?;
        let reach = match means {
            Means::Volume => Reach::Volume(&place.device),
            Means::Subvolume | Means::Clone => Reach::Folders(&folders),
        };
        let inner = match means {
            Means::Volume => Inner::Volume(LogicalVolume::find(machine, &place.source, room)?),
            Means::Subvolume => Inner::Folder(beside(machine, &data, Still::Subvolume)?),
            Means::Clone => {
                let process = match &process {
                    Ok(process) => *process,
                    Err(error) => return Err(io::Error::new(error.kind(), error.to_string())),
                };
                let still = far::Freeze { process, bound: login.still };
                Inner::Folder(beside(machine, &data, Still::Clone)?.holding(still))
            }
        };
        let lacks = server_files::check_settings(&mut session, machine, &data, &reach)?;
        let linked = server_files::check_links(machine, &data, &data, &reach)?;
        let start = match HoldMode::best(&mut session).map_err(io::Error::other)? {
            // The server may be in the middle of a commit, about which its binary log decides.
            HoldMode::Instance if !lacks.is_empty() => return Err(io::Error::other(lacks.join("; "))),
            HoldMode::Instance => Err("its lock does not keep it from committing".to_owned()),
            _ if linked => Err(LINKED.to_owned()),
            _ => Start::of(&mut session, process, &named),
        };
        Ok(ServerSnapshot { login, inner, data, lacks, start, position: None })
    }

    /// Checks again what was found before the lock was held, because it may have changed.
    fn look_again(&mut self, machine: &Machine) -> io::Result<()> {
        let top = self.inner.path();
        if let Inner::Folder(_) = self.inner
            && server_files::check_links(machine, &top, &self.data, &Reach::Folders(&[&top, &self.data]))?
        {
            self.start = Err(LINKED.to_owned());
        }
        Ok(())
    }
}

impl Snapshot for ServerSnapshot<'_> {
    fn prepare(&mut self, machine: &Machine, mark: &Mark<'_>, progress: &dyn Progress) -> io::Result<()> {
        self.lacks.iter().for_each(|line| progress.note(line));
        self.inner.prepare(machine, mark, progress)
    }

    fn make(&mut self, machine: &Machine, lock: Option<&str>) -> io::Result<()> {
        let (target, mut session) = self.login.connect(machine)?;
        let server = settings::note(&mut session).map_err(io::Error::other)?;
        let mode = HoldMode::best(&mut session).map_err(io::Error::other)?;
        let (pause, note) = (|time| self.login.pause(time), |text: &str| self.login.report.note(text));
        let waiting = Waiting { wait: self.login.wait, pause: &pause, note: &note };
        let held = server_lock::take(session, &mode, &target, &waiting);
        let mut held = held.map_err(|error| match error.downcast::<Failure>() {
            Ok(held) => io::Error::other(held),
            Err(error) => io::Error::other(error),
        })?;
        let began = Instant::now();
        held.flush_logs().map_err(io::Error::other)?;
        let mut position = server_lock::position(&mut held).map_err(io::Error::other)?;
        let made = self.inner.make(machine, lock);
        let held_s = began.elapsed().as_secs_f64();
        held.release().map_err(|error| {
            io::Error::other(format!("the server's lock was lost while the snapshot was made: {error}"))
        })?;
        made?;
        self.look_again(machine)?;
        position["server"] = server;
        position["lock"] = mode.name().into();
        position["seconds_held"] = held_s.into();
        if let Inner::Folder(folder) = &self.inner
            && let Some(cloned) = folder.cloned()
        {
            position["files"] = cloned.files.into();
            position["seconds_still"] = cloned.lasted.as_secs_f64().into();
        }
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

    fn spare(&mut self, machine: &Machine) -> io::Result<Option<PathBuf>> {
        self.inner.spare(machine)
    }

    fn remove_spare(&mut self, machine: &Machine) -> io::Result<()> {
        self.inner.remove_spare(machine)
    }

    fn start(&self) -> Option<&Result<Start, String>> {
        Some(&self.start)
    }

    fn keep(&mut self, machine: &Machine, stamp: &str) -> io::Result<()> {
        self.inner.keep(machine, stamp)
    }

    fn remove(&mut self, machine: &Machine) -> io::Result<()> {
        self.inner.remove(machine)
    }
}

/// Fails for a server on another machine, where the data folder's name means another folder than here.
fn is_here(target: &Target, machine: &Machine) -> io::Result<()> {
    let host = &target.host;
    let address = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if target.socket.is_some() || address || host == "localhost" || *host == machine.name() {
        return Ok(());
    }
    Err(io::Error::other(format!("{host} is another machine; write mysql:ssh://user@{host} for its server")))
}

fn no_snapshot(data: &Path, place: &FileSystem) -> io::Error {
    io::Error::other(format!(
        "its data folder {} lies on {} on {}, of which no snapshot can be made; without --way snapshot, --lock and --snapshot-size \
         it is copied without one",
        data.display(),
        place.kind,
        place.source.display(),
    ))
}

/// A snapshot outside of the data folder: inside it the server would take it for a database.
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
