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

use progress::Progress;
use serde_json::Value;
use server::{HoldMode, Session, Target};

use crate::args::ServerArgs;
use crate::exit::Held;
use crate::hold::{self, Waiting};
use crate::host::Machine;
use crate::report::Report;
use crate::setting;
use crate::stop;
use crate::volume::belongs::{self, Reach, resolve, setting};
use crate::volume::file_system::FileSystem;
use crate::volume::folder::{FolderSnapshot, Still};
use crate::volume::lvm::LogicalVolume;
use crate::volume::snapshot::{Layouts, Mark, Snapshot};
use crate::volume::start::{self, Start};

/// Why no server is started on a copy.
const LINKED: &str = "links in its data folder would lead a second server to files of the original";

/// How to reach the server.
pub(crate) struct Login<'a> {
    pub(crate) server: &'a ServerArgs,
    pub(crate) password: Option<String>,
    /// How long to try to get its lock.
    pub(crate) wait: Duration,
    /// How long the server may be stopped while its files are copied.
    pub(crate) still: Duration,
    /// Set when the run must stop.
    pub(crate) stop: Arc<AtomicBool>,
    /// Reports what is waited for.
    pub(crate) report: Report,
}

impl Login<'_> {
    /// Connects to the server on a machine.
    pub(crate) fn connect(&self, machine: &Machine) -> io::Result<(Target, Session)> {
        let sockets = machine.sockets();
        let all: Vec<ServerArgs> = match sockets.is_empty() {
            true => vec![self.server.clone()],
            false => sockets.iter().map(|socket| self.server.through(socket)).collect(),
        };
        let mut failed = None;
        for server in all {
            let target = server.target(self.password.clone()).map_err(io::Error::other)?;
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
        if stop::pause(time, &self.stop) { Ok(()) } else { Err(block::Error::Stopped.into()) }
    }
}

/// A server's data, and their snapshot.
pub(crate) struct ServerSnapshot<'a> {
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
pub(super) fn data_folder(session: &mut Session, machine: &Machine) -> io::Result<(PathBuf, PathBuf)> {
    let named = PathBuf::from(setting(session, "datadir")?.unwrap_or_default());
    let data = resolve(machine, slice::from_ref(&named))?.pop().unwrap_or_default();
    Ok((named, data))
}

/// What a server says about itself that tells it from others.
pub(crate) struct OwnName {
    /// Its data folder, as it calls it.
    pub(crate) data: String,
    /// `server_uuid`, where there is one.
    pub(crate) uuid: String,
}

/// Asks a server for it.
pub(crate) fn own_name(machine: &Machine, login: &Login<'_>) -> io::Result<OwnName> {
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
pub(crate) fn has_snapshots(machine: &Machine, login: &Login<'_>) -> io::Result<bool> {
    let (_, mut session) = login.connect(machine)?;
    let (_, data) = data_folder(&mut session, machine)?;
    Ok(Means::of(machine, &FileSystem::of(machine, &data)?).is_some())
}

impl<'a> ServerSnapshot<'a> {
    /// Finds the server's data, and a way to make a snapshot of them. `room` as for a logical volume.
    pub(crate) fn find(
        machine: &Machine,
        login: &'a Login<'a>,
        room: Option<u64>,
    ) -> io::Result<ServerSnapshot<'a>> {
        let (_, mut session) = login.connect(machine)?;
        let (named, data) = data_folder(&mut session, machine)?;
        let place = FileSystem::of(machine, &data)?;
        let process = start::process(&mut session, machine, &data);
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
        let lacks = belongs::check_settings(&mut session, machine, &data, &reach)?;
        let linked = belongs::check_links(machine, &data, &data, &reach)?;
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
            && belongs::check_links(machine, &top, &self.data, &Reach::Folders(&[&top, &self.data]))?
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
        let server = setting::note(&mut session).map_err(io::Error::other)?;
        let mode = HoldMode::best(&mut session).map_err(io::Error::other)?;
        let (pause, note) = (|time| self.login.pause(time), |text: &str| self.login.report.note(text));
        let waiting = Waiting { wait: self.login.wait, pause: &pause, note: &note };
        let held = hold::take(session, &mode, &target, &waiting);
        let mut held = held.map_err(|error| match error.downcast::<Held>() {
            Ok(held) => io::Error::other(held),
            Err(error) => io::Error::other(error),
        })?;
        let began = Instant::now();
        held.flush_logs().map_err(io::Error::other)?;
        let mut position = hold::position(&mut held).map_err(io::Error::other)?;
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
