//! Copies of folders that share their blocks with the original.
//!
//! A copy takes two steps. The first gives every file of the original a counterpart with the same bytes, in
//! several threads; only this has to happen while nobody writes. An existing counterpart costs a fraction of
//! a new one, and an extent that is already shared costs next to nothing, so this step is done once in
//! advance and again when it counts. The second step sets all attributes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::tree::{describe, set_times};
use crate::{Disk, RealDisk, Tree, xattr};

/// More threads would wait for each other, because all of them write to the file system's one journal.
const THREADS: usize = 4;

/// Whether a file may disappear while a folder is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnVanish {
    /// It may: the folder will be copied once more, or [`Reflink::vanished`] is looked at.
    Fine,
    /// It is an error, because the file may exist under another name.
    Error,
}

/// Whether a name at the top of the folder is skipped, because it belongs to the caller.
pub type SkipName = fn(&OsStr) -> bool;

/// The contents of a folder, and what the copy has of them.
#[derive(Debug)]
pub struct Reflink {
    from: PathBuf,
    to: PathBuf,
    vanish: OnVanish,
    /// In the order of creation: a folder before its contents.
    items: Vec<Item>,
    /// What was listed, and was gone when it was to be copied.
    vanished: Mutex<BTreeSet<PathBuf>>,
}

#[derive(Debug)]
struct Item {
    /// Relative to the folder, whose own path is empty.
    path: PathBuf,
    metadata: Metadata,
}

impl Reflink {
    /// Makes `to`, which may exist from an earlier call, a copy of the folder `from` without attributes.
    /// Names at the top for which `own` is true are skipped.
    ///
    /// # Errors
    /// Errors of the operating system; the error says so if files can't share blocks, or if a part of the
    /// folder is on another file system.
    pub fn make(from: &Path, to: &Path, own: SkipName, vanish: OnVanish) -> io::Result<Reflink> {
        let items = list(from, own, vanish)?;
        let vanished = Mutex::default();
        let reflink = Reflink { from: from.to_owned(), to: to.to_owned(), vanish, items, vanished };
        reflink.sort_out()?;
        let links = reflink.make_others()?;
        reflink.make_files()?;
        for (path, first) in links {
            match std::fs::hard_link(reflink.to.join(first), reflink.to.join(&path)) {
                // Only its first name is gone.
                Err(error) if reflink.may_be_gone(&error) => reflink.share_one(&path)?,
                linked => linked.map_err(at(&path))?,
            }
        }
        Ok(reflink)
    }

    /// Sets owner, permissions, times and extended attributes of everything.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn finish(&self) -> io::Result<()> {
        let mut buffer = xattr::buffer();
        // The contents of a folder come before the folder itself, because they change its time.
        for item in self.items.iter().rev() {
            match self.finish_one(item, &mut buffer) {
                Err(error) if self.may_be_gone(&error) => {}
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
        // Only the file system changes the attributes of a copy; setting them again would cost three times as
        // much.
        if state(&is) == state(&item.metadata) {
            set_times(&to, entry.attributes.modified_ns)?;
        } else {
            RealDisk.set_attributes(&to, &entry.kind, entry.attributes)?;
        }
        xattr::mirror(&to, &entry.extended, buffer)
    }

    /// What was listed, and was gone when it was to be copied: it was removed, or has another name now.
    #[must_use]
    pub fn vanished(&self) -> Vec<PathBuf> {
        self.vanished.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Whether an error says that something has disappeared, which it may.
    fn may_be_gone(&self, error: &io::Error) -> bool {
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        self.vanish == OnVanish::Fine && kinds.contains(&error.kind())
    }

    /// Gives a file of the copy the bytes of its original. If that is gone, the copy has none of it either.
    fn share_one(&self, path: &Path) -> io::Result<()> {
        match share(&self.from.join(path), &self.to.join(path)) {
            Err(error) if self.may_be_gone(&error) => self.leave_out(path),
            shared => shared.map_err(at(path)),
        }
    }

    fn leave_out(&self, path: &Path) -> io::Result<()> {
        self.vanished.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        // An earlier call may have made it.
        match remove_if_there(&self.to.join(path)) {
            Err(error) if self.may_be_gone(&error) => Ok(()),
            removed => removed.map_err(at(path)),
        }
    }

    /// How many files the folder has.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.items.iter().filter(|item| item.metadata.is_file()).count() as u64
    }

    /// Removes from the copy everything that is not in the original, or is something else there.
    fn sort_out(&self) -> io::Result<()> {
        if !self.to.try_exists()? {
            return Ok(());
        }
        let wanted: BTreeMap<&Path, FileType> =
            self.items.iter().map(|item| (&*item.path, type_of(item))).collect();
        let mut gone: BTreeSet<PathBuf> = BTreeSet::new();
        for item in list(&self.to, |_| false, OnVanish::Error)? {
            // Hard links are made again, because in the original the names may no longer share a file.
            let tied = !item.metadata.is_dir() && item.metadata.nlink() > 1;
            let same = wanted.get(&*item.path) == Some(&type_of(&item)) && !tied;
            // The contents of a removed folder were removed with it.
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

    /// Creates folders, links, pipes, sockets and devices. Returns the other names of hard-linked files,
    /// which are made later.
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
                    match std::fs::read_link(self.from.join(&item.path)) {
                        Err(error) if self.may_be_gone(&error) => self.leave_out(&item.path),
                        // It may have another target by now.
                        read => read.and_then(|target| {
                            remove_if_there(&path).and_then(|()| RealDisk.make_link(&path, &target))
                        }),
                    }
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
                self.share_one(path).inspect_err(|_| {
                    // The other threads need not continue.
                    next.store(files.len(), Ordering::Relaxed);
                })?;
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

/// Adds to an error which file it is about.
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

/// Lists a folder and everything below it.
fn list(top: &Path, own: SkipName, vanish: OnVanish) -> io::Result<Vec<Item>> {
    let metadata = std::fs::metadata(top).map_err(at(top))?;
    let device = metadata.dev();
    let mut items = vec![Item { path: PathBuf::new(), metadata }];
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(top.join(&folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && vanish == OnVanish::Fine => continue,
            entries => entries.map_err(at(&folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(at(&folder))?;
            let path = folder.join(entry.file_name());
            if folder.as_os_str().is_empty() && own(&entry.file_name()) {
                continue;
            }
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound && vanish == OnVanish::Fine => continue,
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

/// Gives `to` the bytes that `from` has at one moment.
fn share(from: &Path, to: &Path) -> io::Result<()> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let source = OpenOptions::new().read(true).custom_flags(nofollow).open(from)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow);
    let target = match options.open(to) {
        // A file from an earlier call that nobody may write to, and we are not root.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && to.try_exists()? => {
            std::fs::remove_file(to)?;
            options.open(to)?
        }
        opened => opened?,
    };
    // A clone does not remove bytes after its end, and is refused if it does not end at a block boundary.
    if target.metadata()?.len() > source.metadata()?.len() {
        target.set_len(0)?;
    }
    let cloned = clone(&source, &target);
    // Somebody writes to it: no bytes of an earlier call may remain.
    if cloned.is_err() || target.metadata()?.len() != source.metadata()?.len() {
        target.set_len(0)?;
        clone(&source, &target)?;
    }
    Ok(())
}

/// Copies one file to a path that does not exist. The copy shares its blocks where the file system can do
/// that; else it needs room, and `spare` bytes stay free.
///
/// # Errors
/// [`io::ErrorKind::StorageFull`] with both numbers if there is not enough room; those of reading and
/// writing.
pub fn copy(from: &Path, to: &Path, spare: u64) -> io::Result<()> {
    let mut source = OpenOptions::new().read(true).open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if clone(&source, &target).is_ok() {
        return Ok(());
    }
    let state = rustix::fs::fstatvfs(&target)?;
    let (free, bytes) = (state.f_bavail.saturating_mul(state.f_frsize), source.metadata()?.len());
    if bytes.saturating_add(spare) > free {
        let text = format!("a copy takes {bytes} bytes, and of {free} that are free {spare} must stay free");
        return Err(io::Error::new(io::ErrorKind::StorageFull, text));
    }
    io::copy(&mut source, &mut target).map(drop)
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
