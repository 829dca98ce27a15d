//! Frozen folders: read-only snapshots of btrfs, and copies that share their blocks with the original, which
//! XFS can make too.
//!
//! Both are created beside their original, or inside it if there is no room beside it on the same file
//! system, under names that begin with [`TEMP_PREFIX`]. A snapshot shows one moment. A copy does not: each
//! file shows the moment when it was copied, so whoever writes to several files must be held while the copy
//! is made. The copy is made twice: the first time everything is new and takes long, while nobody is held;
//! the second time only what has changed since must be shared again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use block::tree::{TEMP_PREFIX, is_own, moved_ranges};
use far::{CloneReport, CloneRequest};
use host::Machine;
use progress::{Progress, count};

use crate::file_system::FileSystem;
use crate::{Layouts, Mark, Snapshot, new_name};

/// The inode number of a subvolume's top folder (`BTRFS_FIRST_FREE_OBJECTID`).
const SUBVOLUME: &str = "256";

/// How to freeze a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Still {
    /// A read-only snapshot of its subvolume.
    Subvolume,
    /// A copy that shares its blocks.
    Clone,
}

/// A folder and its snapshot or copy.
#[derive(Debug)]
pub struct FolderSnapshot {
    still: Still,
    /// The folder or subvolume to copy.
    origin: PathBuf,
    /// The folder to back up, relative to the origin.
    below: PathBuf,
    /// The folder for snapshots.
    room: PathBuf,
    mark: String,
    /// Our snapshot or copy, from the moment when it may exist.
    made: Option<PathBuf>,
    /// The one that was kept from the generation before.
    kept: Option<PathBuf>,
    /// What is held while a copy is made.
    holds: Option<far::Freeze>,
    /// The result of the last copy.
    cloned: Option<CloneReport>,
    /// A second, writable one, from the moment when it may exist.
    spare: Option<PathBuf>,
}

impl FolderSnapshot {
    /// Finds a folder that can be frozen in this way.
    pub fn find(machine: &Machine, path: &Path, still: Still) -> io::Result<FolderSnapshot> {
        let top = PathBuf::from(line(&machine.tool(&words(&["readlink", "-e", "--"], &[path]))?));
        let here = FileSystem::of(machine, &top)?;
        let (origin, wanted) = match still {
            Still::Subvolume => ("btrfs", "btrfs"),
            Still::Clone => ("xfs", "XFS or btrfs"),
        };
        if here.kind != "btrfs" && here.kind != origin {
            return Err(io::Error::other(format!("lies on {}, not on {wanted}", here.kind)));
        }
        let origin = if still == Still::Subvolume { subvolume(machine, &top)? } else { top.clone() };
        let below = top.strip_prefix(&origin).map_err(io::Error::other)?.to_owned();
        let room = match origin.parent() {
            Some(parent) if FileSystem::of(machine, parent)?.device == here.device => parent.to_owned(),
            _ => origin.clone(),
        };
        Ok(FolderSnapshot {
            still,
            origin,
            below,
            room,
            mark: String::new(),
            made: None,
            kept: None,
            holds: None,
            cloned: None,
            spare: None,
        })
    }

    /// Stops a process while files are copied. A snapshot of a subvolume does not need that.
    pub fn holding(self, still: far::Freeze) -> FolderSnapshot {
        FolderSnapshot { holds: Some(still), ..self }
    }

    /// How many files were copied, and how long that took.
    pub fn cloned(&self) -> Option<CloneReport> {
        self.cloned
    }

    /// Whether it is created inside the folder that it copies.
    pub fn is_inside(&self) -> bool {
        self.room.starts_with(self.origin.join(&self.below))
    }

    /// Copies files; `first` while nobody is held.
    fn copy(&self, machine: &Machine, to: &Path, first: bool, lock: Option<&str>) -> io::Result<CloneReport> {
        machine.clone_folder(&CloneRequest {
            from: self.origin.clone(),
            to: to.to_owned(),
            first,
            lock: lock.unwrap_or_default().into(),
            freeze: self.holds.filter(|_| !first),
        })
    }

    /// Makes the copy as far as possible before anybody is held, and finds out how long the rest will take.
    fn rehearse(&mut self, machine: &Machine) -> io::Result<()> {
        let to = self.named(&new_name()?);
        self.made = Some(to.clone());
        self.copy(machine, &to, true, None)?;
        let Some(holds) = self.holds else { return Ok(()) };
        let again = self.copy(machine, &to, true, None)?;
        let (wanted, allowed) = (again.lasted.as_secs_f64(), holds.bound.as_secs_f64());
        if again.lasted < holds.bound {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "to clone {} takes {wanted:.3} s, and the server may stand still for {allowed:.3} s: --still allows more, \
             xfs_fsr(8) makes large files of fewer pieces",
            count(again.files, "file")
        )))
    }

    /// The path of something of ours.
    fn named(&self, rest: &str) -> PathBuf {
        self.room.join(format!("{}{rest}", self.prefix()))
    }

    /// Removes something of ours, if it exists.
    fn delete_if_there(&self, machine: &Machine, path: &Path) -> io::Result<()> {
        match machine.disk().list(path) {
            Ok(_) => self.delete(machine, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // It may well exist.
            Err(error) => Err(error),
        }
    }

    fn delete(&self, machine: &Machine, path: &Path) -> io::Result<()> {
        if !path.file_name().is_some_and(is_own) {
            return Err(io::Error::other(format!("{} was not made by remora", path.display())));
        }
        let command: &[&str] = match self.still {
            Still::Subvolume => &["btrfs", "--quiet", "subvolume", "delete", "--"],
            Still::Clone => &["rm", "--recursive", "--force", "--one-file-system", "--"],
        };
        machine.tool(&words(command, &[path])).map(drop)
    }

    /// The prefix of all names with this run's mark.
    fn prefix(&self) -> String {
        format!("{TEMP_PREFIX}{}-", self.mark)
    }
}

impl Snapshot for FolderSnapshot {
    fn prepare(&mut self, machine: &Machine, mark: &Mark<'_>, progress: &dyn Progress) -> io::Result<()> {
        mark.whose.clone_into(&mut self.mark);
        let kept = mark.kept.map(|stamp| OsString::from(format!("{}kept-{stamp}", self.prefix())));
        for name in machine.disk().list(&self.room)? {
            let path = self.room.join(&name);
            if Some(&name) == kept.as_ref() {
                self.kept = Some(path);
                continue;
            }
            if let Some(stamp) = stamp_of(&name).filter(|stamp| mark.all.contains(stamp)) {
                if mark.kept == Some(stamp.as_str()) && self.kept.is_none() {
                    self.kept = Some(path);
                } else {
                    self.delete(machine, &path)?;
                }
                continue;
            }
            let rest = name.to_str().and_then(|name| name.strip_prefix(&self.prefix()));
            let Some(rest) = rest.filter(|_| is_own(&name)) else { continue };
            if !rest.starts_with("kept-") {
                progress.note(&format!("{} is removed, which a killed run has left", path.display()));
            }
            self.delete(machine, &path)?;
        }
        machine.tool(&words(&["sync", "--file-system", "--"], &[&self.origin]))?;
        match self.still {
            Still::Subvolume => Ok(()),
            Still::Clone => self.rehearse(machine),
        }
    }

    fn make(&mut self, machine: &Machine, lock: Option<&str>) -> io::Result<()> {
        match (self.still, self.made.clone()) {
            (Still::Clone, Some(to)) => self.cloned = Some(self.copy(machine, &to, false, lock)?),
            _ => {
                let to = self.named(&new_name()?);
                self.made = Some(to.clone());
                let snapshot = ["btrfs", "--quiet", "subvolume", "snapshot", "-r", "--"];
                machine.tool_locked(&words(&snapshot, &[&self.origin, &to]), lock)?;
            }
        }
        Ok(())
    }

    fn spare(&mut self, machine: &Machine) -> io::Result<Option<PathBuf>> {
        let Some(made) = self.made.clone() else { return Ok(None) };
        let to = self.named(&format!("spare-{}", new_name()?));
        self.spare = Some(to.clone());
        match self.still {
            Still::Subvolume => {
                let snapshot = ["btrfs", "--quiet", "subvolume", "snapshot", "--"];
                machine.tool(&words(&snapshot, &[&made, &to]))?;
            }
            Still::Clone => {
                let lock = OsString::new();
                let cloning = CloneRequest { from: made, to: to.clone(), first: false, lock, freeze: None };
                machine.clone_folder(&cloning)?;
            }
        }
        Ok(Some(if self.below.as_os_str().is_empty() { to } else { to.join(&self.below) }))
    }

    fn remove_spare(&mut self, machine: &Machine) -> io::Result<()> {
        let Some(spare) = &self.spare else { return Ok(()) };
        self.delete_if_there(machine, spare)?;
        self.spare = None;
        Ok(())
    }

    fn is_tree(&self) -> bool {
        true
    }

    fn vanished(&self) -> u64 {
        self.cloned.map_or(0, |cloned| cloned.vanished)
    }

    fn path(&self) -> PathBuf {
        let made = self.made.clone().unwrap_or_default();
        if self.below.as_os_str().is_empty() { made } else { made.join(&self.below) }
    }

    fn changes(
        &self,
        machine: &Machine,
        layouts: Option<Layouts<'_>>,
    ) -> io::Result<Option<Vec<Range<u64>>>> {
        let (Some(was), Some(Layouts { now, before })) = (self.kept(), layouts) else { return Ok(None) };
        let (tree, is) = (machine.tree(), self.path());
        let of_file = |node: &block::tree::Node| {
            let extents = |top: &Path| tree.extents(&top.join(&node.path));
            Ok::<_, io::Error>(moved_ranges(&extents(&was)?, &extents(&is)?, node.len))
        };
        now.changed(before, of_file).map(Some)
    }

    fn kept(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(|kept| kept.join(&self.below))
    }

    /// A snapshot does not change, whatever happens to the original; if the file system is full, writes to
    /// the original fail.
    fn check(&self, _machine: &Machine) -> io::Result<()> {
        Ok(())
    }

    fn keep(&mut self, machine: &Machine, stamp: &str) -> io::Result<()> {
        self.remove_spare(machine)?;
        let Some(made) = &self.made else { return Ok(()) };
        let name = self.named(&format!("kept-{stamp}"));
        match machine.disk().rename(made, &name) {
            // If the connection broke, the answer may have been lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound && machine.disk().list(&name).is_ok() => {}
            renamed => renamed?,
        }
        self.made = None;
        match self.kept.clone() {
            None => Ok(()),
            Some(kept) => {
                self.delete_if_there(machine, &kept)?;
                self.kept = None;
                Ok(())
            }
        }
    }

    fn remove(&mut self, machine: &Machine) -> io::Result<()> {
        self.remove_spare(machine)?;
        let Some(made) = &self.made else { return Ok(()) };
        self.delete_if_there(machine, made)?;
        self.made = None;
        Ok(())
    }
}

/// The stamp of something that was kept, under whatever mark.
fn stamp_of(name: &OsStr) -> Option<String> {
    let rest = name.to_str().filter(|_| is_own(name))?.strip_prefix(TEMP_PREFIX)?;
    Some(rest.split_once("-kept-")?.1.to_owned())
}

fn words<'a>(command: &'a [&'a str], paths: &[&'a Path]) -> Vec<&'a OsStr> {
    command.iter().map(OsStr::new).chain(paths.iter().map(|path| path.as_os_str())).collect()
}

/// The top of a path's subvolume.
fn subvolume(machine: &Machine, path: &Path) -> io::Result<PathBuf> {
    for path in path.ancestors() {
        if line(&machine.tool(&words(&["stat", "--format=%i", "--"], &[path]))?) == SUBVOLUME {
            return Ok(path.to_owned());
        }
    }
    Err(io::Error::other("lies in no subvolume"))
}

/// The first line of a program's output.
fn line(bytes: &[u8]) -> OsString {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    std::os::unix::ffi::OsStringExt::from_vec(line.to_vec())
}
