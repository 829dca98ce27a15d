//! Sources of a backup, as they are written on the command line.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use block::backup::ChangedRanges;
use block::tree::{self, Layout, Skipped, TreeSource};
use block::{ChunkSource, Generation, Repository};
use host::{Address, Call, Machine};

use crate::folder::{FolderSnapshot, Still};
use crate::lvm::LogicalVolume;
use crate::server::{Login, ServerSnapshot};
use crate::{Layouts, Snapshot};

/// A path on this machine or another one: `PATH` or `ssh://user@host:port/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The other machine; none: this one.
    pub host: Option<Address>,
    /// The path there.
    pub path: PathBuf,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (host, path) = match text.strip_prefix("ssh://") {
            None => (None, text),
            Some(rest) => {
                let at = rest.find('/').ok_or_else(|| format!("'{text}' lacks a path"))?;
                let (host, path) = rest.split_at(at);
                (Some(host.parse()?), path)
            }
        };
        if path.is_empty() {
            Err("a path is missing".to_owned())
        } else {
            Ok(Place { host, path: path.into() })
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.host.as_ref().map_or(Ok(()), |host| write!(f, "ssh://{host}"))?;
        write!(f, "{}", self.path.display())
    }
}

/// A source: its kind and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    kind: Kind,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// A logical volume, read from a snapshot.
    Lvm,
    /// A folder on btrfs, read from a snapshot.
    Btrfs,
    /// A folder on XFS, read from reflink copies of its files.
    Xfs,
    /// A server with its data, wherever they are.
    Mysql,
}

impl Kind {
    const ALL: [(Kind, &'static str); 6] = [
        (Kind::File, "file"),
        (Kind::Block, "block"),
        (Kind::Lvm, "lvm"),
        (Kind::Btrfs, "btrfs"),
        (Kind::Xfs, "xfs"),
        (Kind::Mysql, "mysql"),
    ];

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// An open source, to be read once.
pub struct Opened {
    /// Reads it.
    pub feed: Box<dyn ChunkSource>,
    /// Whether it is a tree of files.
    pub is_tree: bool,
    /// The things in it that can't be backed up.
    pub left: Vec<Skipped>,
    /// Where it may have changed since the generation before, or why that is unknown.
    pub changed: Result<ChangedRanges, String>,
    /// Its contents at that time, if they can be read without going to another machine.
    pub before: Option<TreeSource>,
    /// Where its files are, if it is a tree.
    pub layout: Option<Layout>,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        match Kind::ALL.iter().find(|(_, name)| *name == kind) {
            Some((Kind::Mysql, _)) => Ok(Source { kind: Kind::Mysql, place: server_place(rest)? }),
            Some((kind, _)) => Ok(Source { kind: *kind, place: rest.parse()? }),
            // The address of a sandbox, as it is written for every other command.
            None if kind == "sandbox" && !rest.is_empty() && !rest.contains('/') => {
                Ok(Source { kind: Kind::Mysql, place: server_place(rest)? })
            }
            None => {
                let kinds: Vec<String> = Kind::ALL.iter().map(|(_, name)| format!("{name}:")).collect();
                Err(format!(
                    "'{text}' does not say what it is; it must begin with one of {}",
                    kinds.join(" ")
                ))
            }
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.place)
    }
}

impl Source {
    /// The default name for its backups: that of the file, or that of the machine for a server. `here`: the
    /// name of this machine.
    pub fn default_name(&self, here: &str) -> Option<String> {
        let name = match (self.kind, &self.place.host) {
            (Kind::Mysql, host) => {
                let host = host.as_ref().map_or(here, Address::host);
                match self.socket_name() {
                    Some(socket) => format!("{host}-{socket}"),
                    None => host.to_owned(),
                }
            }
            _ => self.place.path.file_name()?.to_str()?.to_owned(),
        };
        is_name(&name).then_some(name)
    }

    /// The default name of a server of this machine before it had the machine's name in it.
    pub fn former_name(&self) -> Option<&str> {
        let is_one = self.kind == Kind::Mysql && self.place.host.is_none();
        is_one.then(|| self.socket_name().unwrap_or("mysql"))
    }

    fn socket_name(&self) -> Option<&str> {
        name_of_socket(&self.place.path).filter(|name| is_name(name))
    }

    /// It on its machine, without the machine: as it was written, because a link to it may lead to another
    /// place every night. None for a server, which says where its data are, and for a path that is relative
    /// to something unknown.
    pub fn at(&self) -> Option<String> {
        let path = &self.place.path;
        (self.kind != Kind::Mysql && path.is_absolute())
            .then(|| format!("{}:{}", self.kind.name(), path.display()))
    }

    /// What tells it from all other sources of its machine: where it is, and what a server calls itself.
    pub fn own(&self, machine: &Machine, login: &Login<'_>) -> Result<(String, String), block::Error> {
        if self.kind == Kind::Mysql {
            let own = crate::server::own_name(machine, login).map_err(|error| self.failed(error))?;
            return Ok((format!("mysql:{}", own.data), own.uuid));
        }
        if !self.is_held_still() {
            // Nothing is made for what can't be read.
            self.check_kind(machine, &self.place.path).map_err(|error| self.failed(error))?;
        }
        let place = match machine {
            Machine::Here => Place {
                host: None,
                path: std::path::absolute(&self.place.path).map_err(|error| self.failed(error))?,
            },
            Machine::There(_) => self.place.clone(),
        };
        Ok((Source { kind: self.kind, place }.at().unwrap_or_default(), String::new()))
    }

    /// The server that was named: nothing, the path of its socket, or the name of a sandbox, which is not an
    /// absolute path.
    pub fn server(&self) -> Option<&Path> {
        Some(&*self.place.path).filter(|path| self.kind == Kind::Mysql && !path.as_os_str().is_empty())
    }

    /// The machine that it is on.
    pub fn reach(&self, call: Call<'_>) -> Result<Machine, block::Error> {
        // Nobody else needs these places.
        let places = if self.kind == Kind::Mysql { call.places } else { &[] };
        Machine::reach(self.place.host.as_ref(), &Call { places, ..call }).map_err(|error| self.failed(error))
    }

    /// The snapshot to read in its place, not created yet. None for a source that is read directly. `room`:
    /// bytes that a snapshot has for changes meanwhile, if that can be set.
    pub fn snapshot<'a>(
        &self,
        machine: &Machine,
        login: &'a Login<'a>,
        room: Option<u64>,
    ) -> Result<Option<Box<dyn Snapshot + 'a>>, block::Error> {
        let path = &self.place.path;
        let folder =
            |still| FolderSnapshot::find(machine, path, still).map(|found| Box::new(found) as Box<_>);
        match self.kind {
            Kind::File | Kind::Block => return Ok(None),
            Kind::Lvm => LogicalVolume::find(machine, path, room).map(|found| Box::new(found) as Box<_>),
            Kind::Btrfs => folder(Still::Subvolume),
            Kind::Xfs => folder(Still::Clone),
            Kind::Mysql => ServerSnapshot::find(machine, login, room).map(|found| Box::new(found) as Box<_>),
        }
        .map(Some)
        .map_err(|error| self.failed(error))
    }

    /// Whether it is a server.
    pub fn is_server(&self) -> bool {
        self.kind == Kind::Mysql
    }

    /// Whether `room` can be set for its snapshots.
    pub fn takes_room(&self) -> bool {
        matches!(self.kind, Kind::Lvm | Kind::Mysql)
    }

    /// Whether it is read from a snapshot.
    pub fn is_held_still(&self) -> bool {
        !matches!(self.kind, Kind::File | Kind::Block)
    }

    /// Opens it, or its snapshot, if it is of the kind it should be. `before`: where its backups are, and the
    /// generation that the next one builds on.
    pub fn open(
        &self,
        machine: &Machine,
        snapshot: Option<&dyn Snapshot>,
        before: (&Repository, Option<&Generation>),
    ) -> Result<Opened, block::Error> {
        let path = snapshot.map_or_else(|| self.place.path.clone(), Snapshot::path);
        let opened = match snapshot {
            Some(snapshot) if snapshot.is_tree() => open_tree(machine, snapshot, before),
            _ => self.open_volume(machine, &path, snapshot, before.1),
        };
        opened.map_err(|error| self.failed(error))
    }

    fn open_volume(
        &self,
        machine: &Machine,
        path: &Path,
        snapshot: Option<&dyn Snapshot>,
        newest: Option<&Generation>,
    ) -> io::Result<Opened> {
        self.check_kind(machine, path)?;
        let changes = snapshot.map_or(Ok(None), |snapshot| snapshot.changes(machine, None));
        let feed = machine.scan(path)?;
        Ok(Opened {
            feed,
            is_tree: false,
            left: Vec::new(),
            changed: since(newest, changes),
            before: None,
            layout: None,
        })
    }

    /// Fails unless there is what a volume of this kind is read from. Asked before it is opened: that of a
    /// pipe would wait for who writes to it.
    fn check_kind(&self, machine: &Machine, path: &Path) -> io::Result<()> {
        let stat = machine.disk().stat(path)?;
        let (fits, kind) = match self.kind {
            Kind::File => (stat.regular, "regular file"),
            _ => (stat.block_device, "block device"),
        };
        if fits {
            return Ok(());
        }
        let is_folder = machine.disk().list(path).is_ok();
        Err(io::Error::other(if is_folder { "is a folder".to_owned() } else { format!("is no {kind}") }))
    }

    /// The error that says why it can't be backed up.
    pub fn failed(&self, source: io::Error) -> block::Error {
        block::Error::Source { name: self.name(), source }
    }

    /// It in messages.
    pub fn name(&self) -> String {
        in_messages(&self.to_string()).to_owned()
    }
}

/// A source in messages, where a colon follows it: the usual server is written mysql: with nothing after it.
pub fn in_messages(source: &str) -> &str {
    source.trim_end_matches(':')
}

/// The server, on this machine unless another is named: the default one, or that of a socket, or a sandbox by
/// its name.
fn server_place(text: &str) -> Result<Place, String> {
    if let Some(rest) = text.strip_prefix("ssh://") {
        let (host, socket) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if socket == "/" { PathBuf::new() } else { socket.into() };
        return Ok(Place { host: Some(host.parse()?), path });
    }
    let path = text.strip_prefix("unix:").map_or(text, |rest| rest.strip_prefix("//").unwrap_or(rest));
    let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    if path.starts_with('/') && !path.starts_with("//") || path == text && path.chars().all(plain) {
        return Ok(Place { host: None, path: path.into() });
    }
    Err(format!(
        "'mysql:{text}' is no server: write mysql: for the usual one here, mysql:/path/to.sock for that of a socket, mysql:NAME \
         for a sandbox, mysql:ssh://user@host or mysql:ssh://user@host/path/to.sock for others"
    ))
}

/// The default name for backups of a server with this socket: that of the file, or of its folder if all
/// sockets have the same name.
fn name_of_socket(socket: &Path) -> Option<&str> {
    const USUAL: [&str; 7] = ["mysql", "mysqld", "mariadb", "mariadbd", "server", "run", "tmp"];
    let stem = socket.file_stem()?.to_str()?;
    let folder = socket.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    [Some(stem), folder].into_iter().flatten().find(|name| !USUAL.contains(name))
}

/// Opens the files of a snapshot as one volume.
fn open_tree(
    machine: &Machine,
    snapshot: &dyn Snapshot,
    (repository, newest): (&Repository, Option<&Generation>),
) -> io::Result<Opened> {
    let top = snapshot.path();
    let (nodes, left) = tree::list(&*machine.tree(), &top)?;
    // Without the generation before, every file gets new blocks: more is stored, but nothing is wrong.
    let before = newest.filter(|newest| repository::is_tree(newest));
    let before = before.and_then(|newest| tree::layout_of(repository, Some(newest.number)).ok());
    // Who has only the put key can't read it, but knows its files by their marks.
    let noted = match (&before, newest) {
        (None, Some(newest)) => {
            let paths = nodes.iter().map(|node| node.path.clone());
            tree::load_placements(repository, newest.number, paths).ok().flatten()
        }
        _ => None,
    };
    let now = Layout::new(nodes, before.as_ref().or(noted.as_ref()));
    let layouts = before.as_ref().map(|before| Layouts { now: &now, before });
    let changes = snapshot.changes(machine, layouts);
    let feed = machine.scan_tree(&now, &top)?;
    let kept = snapshot.kept().filter(|_| matches!(machine, Machine::Here));
    let before = before.zip(kept).map(|(layout, kept)| TreeSource::of(machine.disk(), &layout, &kept));
    Ok(Opened { feed, is_tree: true, left, changed: since(newest, changes), before, layout: Some(now) })
}

/// What may have changed since the newest generation, if there is one and this is known.
fn since(
    newest: Option<&Generation>,
    changes: io::Result<Option<Vec<Range<u64>>>>,
) -> Result<ChangedRanges, String> {
    let number = newest.map_or(0, |newest| newest.number);
    match changes {
        Ok(Some(ranges)) => Ok(ChangedRanges { since: number, ranges }),
        Ok(None) => Err(format!("there is no snapshot of generation {number} any more")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether backups may have this name: a name is a folder in the repository, and `@` begins a number.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && c != '/' && c != '@';
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(plain) && name.len() <= 200
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        text.parse::<Source>().map(|source| source.to_string())
    }

    #[test]
    fn a_source_says_what_it_is_and_where() {
        for good in [
            "file:/a b:c",
            "block:/dev/sdb",
            "lvm:/dev/vg/data",
            "block:ssh://root@db1:22/dev/vg/data",
            "file:ssh://h/x@y",
            "mysql:",
            "mysql:ssh://root@db1:22",
            "mysql:ssh://root@db1/run/db2.sock",
            "mysql:/run/mysqld/mysqld.sock",
            "mysql:scratch-1",
            "btrfs:/var/lib/mysql",
            "xfs:ssh://db1/var/lib/mysql",
        ] {
            assert_eq!(parsed(good).as_deref(), Ok(good));
        }
        let text = "'/dev/sdb' does not say what it is; it must begin with one of file: block: lvm: btrfs: xfs: mysql:";
        assert_eq!(parsed("/dev/sdb"), Err(text.to_owned()));
        for bad in
            ["file:", "ftp:x", "file:ssh://h", "file:ssh://-x/y", "file:ssh:///x", "mysql:a b", "btrfs:"]
        {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_plain() {
        for good in ["sdb1", "disk.img", "a b", "vg-data"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "-x", "a/b", "a@1", "a\nb", ".hidden"] {
            assert!(!is_name(bad), "{bad}");
        }
        let name = |text: &str| text.parse::<Source>().unwrap().default_name("here");
        assert_eq!(name("file:/x/.."), None);
        assert_eq!(name("file:ssh://db1/x/disk.img"), Some("disk.img".into()));
        for (source, known) in [
            ("mysql:", "here"),
            ("mysql:/run/mysqld/mysqld.sock", "here"),
            ("mysql:unix:///run/mysqld/second.sock", "here-second"),
            ("mysql:/srv/shop/mysql.sock", "here-shop"),
            ("mysql:scratch", "here-scratch"),
            ("mysql:ssh://root@db1", "db1"),
            ("mysql:ssh://root@db1/", "db1"),
            ("mysql:ssh://root@db1/run/second.sock", "db1-second"),
        ] {
            assert_eq!(name(source).as_deref(), Some(known), "{source}");
        }
        assert_eq!(parsed("sandbox:scratch-1").as_deref(), Ok("mysql:scratch-1"));
        assert!(parsed("sandbox:").is_err() && parsed("sandbox:/run/a.sock").is_err());
        assert_eq!(parsed("mysql:unix:///run/a.sock").as_deref(), Ok("mysql:/run/a.sock"));
        for (source, known) in [
            ("mysql:", Some("mysql")),
            ("mysql:/run/mysqld/second.sock", Some("second")),
            ("mysql:ssh://root@db1", None),
            ("file:/x/mysql", None),
        ] {
            assert_eq!(source.parse::<Source>().unwrap().former_name(), known, "{source}");
        }
    }
}
