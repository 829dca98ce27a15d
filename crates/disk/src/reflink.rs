//! Copies of folders that share their blocks with the original.
//!
//! Making one takes two steps. The first gives every file of the original a counterpart with the same bytes,
//! in several threads; that is all that has to happen while nobody writes. A counterpart that is there
//! already costs a fraction of a new one, and an extent that it shares already next to nothing, so the step
//! is made once before and once more when it counts. The second gives everything its attributes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::tree::{describe, set_times};
use crate::{Disk, RealDisk, Tree, extended};

/// More threads than that wait for each other: all of them write to the one journal of the file system.
const THREADS: usize = 4;

/// Whether a file may go while a folder is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vanish {
    /// It may: there is another look to come.
    Fine,
    /// It is an error, because it may be there under another name.
    Error,
}

/// Whether a name is one of the caller's own, which is not copied.
pub type Own = fn(&OsStr) -> bool;

/// What is below a folder, and what of it the copy has.
#[derive(Debug)]
pub struct Reflink {
    from: PathBuf,
    to: PathBuf,
    vanish: Vanish,
    /// In the order in which they are made: a folder before what is in it.
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    /// Below the folder, whose own is empty.
    path: PathBuf,
    metadata: Metadata,
}

impl Reflink {
    /// Makes `to`, which may be there from an earlier time, a copy of the folder `from` but for attributes.
    /// Names at the top for which `own` is true are not looked at.
    ///
    /// # Errors
    /// What the operating system reports; where files can't share blocks, or a part of the folder lies on
    /// another file system, that is said.
    pub fn make(from: &Path, to: &Path, own: Own, vanish: Vanish) -> io::Result<Reflink> {
        let items = list(from, own, vanish)?;
        let reflink = Reflink { from: from.to_owned(), to: to.to_owned(), vanish, items };
        reflink.sort_out()?;
        let links = reflink.make_others()?;
        reflink.make_files()?;
        for (path, first) in links {
            std::fs::hard_link(reflink.to.join(first), reflink.to.join(&path)).map_err(at(&path))?;
        }
        Ok(reflink)
    }

    /// Gives everything its owner, rights, times and extended attributes.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn finish(&self) -> io::Result<()> {
        let mut buffer = extended::buffer();
        // What is in a folder is made before the folder gets its time.
        for item in self.items.iter().rev() {
            match self.finish_one(item, &mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.vanish == Vanish::Fine => {}
                finished => finished.map_err(at(&item.path))?,
            }
        }
        Ok(())
    }

    fn finish_one(&self, item: &Item, buffer: &mut [u8]) -> io::Result<()> {
        let (from, to) = (self.from.join(&item.path), self.to.join(&item.path));
        let entry = describe(item.path.clone().into(), &from, &item.metadata, buffer)?;
        let is = std::fs::symlink_metadata(&to)?;
        let state = |metadata: &Metadata| (metadata.mode(), metadata.uid(), metadata.gid());
        // Nobody but the file system changes that of a copy; to set it anew would cost three times as much.
        if state(&is) == state(&item.metadata) {
            set_times(&to, entry.attributes.modified_ns)?;
        } else {
            RealDisk.set_attributes(&to, &entry.kind, entry.attributes)?;
        }
        extended::mirror(&to, &entry.extended, buffer)
    }

    /// How many files it has.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.items.iter().filter(|item| item.metadata.is_file()).count() as u64
    }

    /// Removes from the copy what is not in the original, or is something else there.
    fn sort_out(&self) -> io::Result<()> {
        if !self.to.try_exists()? {
            return Ok(());
        }
        let wanted: BTreeMap<&Path, FileType> =
            self.items.iter().map(|item| (&*item.path, type_of(item))).collect();
        let mut gone: BTreeSet<PathBuf> = BTreeSet::new();
        for item in list(&self.to, |_| false, Vanish::Error)? {
            // Names that share a file are tied anew: in the original they may not share it any more.
            let tied = !item.metadata.is_dir() && item.metadata.nlink() > 1;
            let same = wanted.get(&*item.path) == Some(&type_of(&item)) && !tied;
            // What is in a folder that goes has gone with it.
            if same || item.path.ancestors().skip(1).any(|above| gone.contains(above)) {
                continue;
            }
            let path = self.to.join(&item.path);
            let removed = match item.metadata.is_dir() {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
            removed.map_err(at(&item.path))?;
            gone.insert(item.path);
        }
        Ok(())
    }

    /// Makes folders, links, pipes, sockets and devices. Gives back names of files that have another name
    /// already, which comes second.
    fn make_others(&self) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let mut links = Vec::new();
        let mut firsts: BTreeMap<u64, &Path> = BTreeMap::new();
        for item in &self.items {
            let (path, kind) = (self.to.join(&item.path), type_of(item));
            let made = match kind {
                FileType::RegularFile if item.metadata.nlink() > 1 => {
                    let first = firsts.entry(item.metadata.ino()).or_insert(&item.path);
                    if *first != item.path {
                        links.push((item.path.clone(), first.to_path_buf()));
                    }
                    Ok(())
                }
                FileType::RegularFile => Ok(()),
                FileType::Directory => match RealDisk.create_folder(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    made => made,
                },
                FileType::Symlink => {
                    let target = std::fs::read_link(self.from.join(&item.path)).map_err(at(&item.path))?;
                    // It may lead elsewhere by now.
                    remove_if_there(&path).and_then(|()| RealDisk.make_link(&path, &target))
                }
                kind => remove_if_there(&path).and_then(|()| {
                    Ok(rustix::fs::mknodat(CWD, &path, kind, Mode::RUSR, item.metadata.rdev())?)
                }),
            };
            made.map_err(at(&item.path))?;
        }
        Ok(links)
    }

    fn make_files(&self) -> io::Result<()> {
        let mut seen = BTreeSet::new();
        let files = self.items.iter().filter(|item| item.metadata.is_file());
        let files: Vec<&Path> = files
            .filter(|item| item.metadata.nlink() < 2 || seen.insert(item.metadata.ino()))
            .map(|item| &*item.path)
            .collect();
        let next = AtomicUsize::new(0);
        let work = || -> io::Result<()> {
            while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                match share(&self.from.join(path), &self.to.join(path)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && self.vanish == Vanish::Fine => {}
                    shared => shared.map_err(at(path)).inspect_err(|_| {
                        // Nobody needs the rest.
                        next.store(files.len(), Ordering::Relaxed);
                    })?,
                }
            }
            Ok(())
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mine = work();
            let ended = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early"))));
            ended.fold(mine, io::Result::and)
        })
    }
}

/// Says which file an error is about.
fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn type_of(item: &Item) -> FileType {
    let kind = item.metadata.file_type();
    match kind {
        _ if kind.is_dir() => FileType::Directory,
        _ if kind.is_file() => FileType::RegularFile,
        _ if kind.is_symlink() => FileType::Symlink,
        _ if kind.is_fifo() => FileType::Fifo,
        _ if kind.is_socket() => FileType::Socket,
        _ if kind.is_block_device() => FileType::BlockDevice,
        _ => FileType::CharacterDevice,
    }
}

/// A folder and what is in it, as deep as it goes.
fn list(top: &Path, own: Own, vanish: Vanish) -> io::Result<Vec<Item>> {
    let metadata = std::fs::metadata(top).map_err(at(top))?;
    let device = metadata.dev();
    let mut items = vec![Item { path: PathBuf::new(), metadata }];
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(top.join(&folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && vanish == Vanish::Fine => continue,
            entries => entries.map_err(at(&folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(at(&folder))?;
            let path = folder.join(entry.file_name());
            if folder.as_os_str().is_empty() && own(&entry.file_name()) {
                continue;
            }
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound && vanish == Vanish::Fine => continue,
                metadata => metadata.map_err(at(&path))?,
            };
            if metadata.is_dir() && metadata.dev() != device {
                let text =
                    "lies on another file system or subvolume, which a copy of the folder would not have";
                return Err(at(&path)(io::Error::other(text)));
            }
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            items.push(Item { path, metadata });
        }
    }
    Ok(items)
}

/// Gives `to` the bytes of `from`, of one moment.
fn share(from: &Path, to: &Path) -> io::Result<()> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let source = OpenOptions::new().read(true).custom_flags(nofollow).open(from)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow);
    let target = match options.open(to) {
        // A file that nobody may write to, from an earlier time, and we are not root.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && to.try_exists()? => {
            std::fs::remove_file(to)?;
            options.open(to)?
        }
        opened => opened?,
    };
    // A clone does not take away what was behind its end, and is refused where it does not end with a block.
    if target.metadata()?.len() > source.metadata()?.len() {
        target.set_len(0)?;
    }
    let cloned = clone(&source, &target);
    // Somebody writes to it: nothing of an earlier time may be left.
    if cloned.is_err() || target.metadata()?.len() != source.metadata()?.len() {
        target.set_len(0)?;
        clone(&source, &target)?;
    }
    Ok(())
}

fn clone(source: &File, target: &File) -> io::Result<()> {
    match rustix::fs::ioctl_ficlone(target, source) {
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV) => {
            let text = "its file system can't make files that share blocks (XFS can when it was made with reflink=1)";
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
        cloned => Ok(cloned?),
    }
}
