//! What can be backed up, as it is written on the command line.

mod lvm;
pub(crate) mod snapshot;

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use block::Feed;

use crate::host::{Address, Machine};
use crate::volume::lvm::LogicalVolume;
use crate::volume::snapshot::Snapshot;

/// A place on this machine or another one: `PATH` or `ssh://user@host:port/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: Option<Address>,
    pub(crate) path: PathBuf,
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

/// A source: what kind it is and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    kind: Kind,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// A logical volume, of which a snapshot is made.
    Lvm,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let kind = match kind {
            "file" => Kind::File,
            "block" => Kind::Block,
            "lvm" => Kind::Lvm,
            _ => return Err(format!("'{text}' does not say what it is; write file:{text} or block:{text}")),
        };
        Ok(Source { kind, place: rest.parse()? })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Kind::File => "file",
            Kind::Block => "block",
            Kind::Lvm => "lvm",
        };
        write!(f, "{kind}:{}", self.place)
    }
}

impl Source {
    /// The name of its backups when none is given: that of the file.
    pub(crate) fn default_name(&self) -> Option<String> {
        let name = self.place.path.file_name()?.to_str()?;
        is_name(name).then(|| name.to_owned())
    }

    /// The machine that it lies on. `options` are ssh's; `nice`: all other programs of that machine go first.
    pub(crate) fn reach(&self, options: &[String], nice: bool) -> Result<Machine, block::Error> {
        Machine::reach(self.place.host.as_ref(), options, nice).map_err(|error| self.failed(error))
    }

    /// The snapshot that is to be read in its place, which is not made yet. None for what is read as it is. `room`: bytes
    /// that a snapshot has for what changes meanwhile, where such a thing can be said.
    pub(crate) fn snapshot(
        &self,
        machine: &Machine,
        room: Option<u64>,
    ) -> Result<Option<Box<dyn Snapshot>>, block::Error> {
        match self.kind {
            Kind::File | Kind::Block => Ok(None),
            Kind::Lvm => match LogicalVolume::find(machine, &self.place.path, room) {
                Ok(found) => Ok(Some(Box::new(found))),
                Err(error) => Err(self.failed(error)),
            },
        }
    }

    /// Whether `room` may be said of its snapshots.
    pub(crate) fn takes_room(&self) -> bool {
        self.kind == Kind::Lvm
    }

    /// Opens it there, or its snapshot, if it is what it is said to be.
    pub(crate) fn open(
        &self,
        machine: &Machine,
        snapshot: Option<&dyn Snapshot>,
    ) -> Result<Box<dyn Feed>, block::Error> {
        let path = snapshot.map_or_else(|| self.place.path.clone(), Snapshot::path);
        let mut feed = machine.scan(&path).map_err(|error| self.failed(error))?;
        let stat = feed.stat().map_err(|error| self.failed(error))?;
        let (fits, kind) = match self.kind {
            Kind::File => (stat.regular, "regular file"),
            Kind::Block | Kind::Lvm => (stat.block_device, "block device"),
        };
        if fits { Ok(feed) } else { Err(self.failed(io::Error::other(format!("is no {kind}")))) }
    }

    /// That it can't be backed up, and why.
    pub(crate) fn failed(&self, source: io::Error) -> block::Error {
        block::Error::Source { name: self.to_string(), source }
    }
}

/// Whether backups may be called so: a name is a folder in the repository, and `@` begins a number.
pub(crate) fn is_name(name: &str) -> bool {
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
        ] {
            assert_eq!(parsed(good).as_deref(), Ok(good));
        }
        let text = "'/dev/sdb' does not say what it is; write file:/dev/sdb or block:/dev/sdb";
        assert_eq!(parsed("/dev/sdb"), Err(text.to_owned()));
        for bad in ["file:", "ftp:x", "file:ssh://h", "file:ssh://-x/y", "file:ssh:///x"] {
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
        let name = |text: &str| text.parse::<Source>().unwrap().default_name();
        assert_eq!(name("file:/x/.."), None);
        assert_eq!(name("file:ssh://db1/x/disk.img"), Some("disk.img".into()));
    }
}
