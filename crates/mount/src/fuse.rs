//! The tree as a file system of the kernel.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::inode_table::{Inode, InodeTable, Item};
use crate::overlay::{Change, NewNode, NodeKind, Rights};

/// How long the kernel may keep what it knows of a thing. Nothing changes behind its back, but a name may get
/// another generation.
const KEEP: Duration = Duration::from_secs(1);
/// Bytes that are best read at once.
const BEST_BYTES: u32 = 1 << 16;
/// Bytes of the blocks in which the kernel counts.
const SECTOR_BYTES: u64 = 512;
/// The longest name.
const NAME_MAX: u32 = 255;
/// fallocate(2) with its plain meaning.
const PLAIN: i32 = 0;

const NS: i128 = 1_000_000_000;

/// What the kernel calls.
pub(crate) struct FuseAdapter {
    pub inodes: Arc<InodeTable>,
    /// What was in each folder that is open, when it was opened.
    pub folders: Mutex<BTreeMap<u64, Arc<Vec<Item>>>>,
    pub next: AtomicU64,
    /// Set when nobody can call any more.
    pub ended: Arc<AtomicBool>,
}

fn code(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

/// Nanoseconds since the epoch as a time.
fn time(ns: i128) -> SystemTime {
    let from_epoch = |ns: i128| Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
    match ns {
        0.. => UNIX_EPOCH + from_epoch(ns),
        _ => UNIX_EPOCH.checked_sub(from_epoch(-ns)).unwrap_or(UNIX_EPOCH),
    }
}

fn nanoseconds(time: TimeOrNow) -> i128 {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => return crate::overlay::now_ns(),
    };
    let whole = |part: Duration| i128::from(part.as_secs()) * NS + i128::from(part.subsec_nanos());
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -whole(before.duration()), whole)
}

fn file_type(form: NodeKind) -> FileType {
    match form {
        NodeKind::Folder => FileType::Directory,
        NodeKind::File => FileType::RegularFile,
        NodeKind::Link => FileType::Symlink,
    }
}

fn attributes(thing: &Inode) -> FileAttr {
    let known = &thing.known;
    let at = time(known.attributes.modified_ns);
    FileAttr {
        ino: INodeNo(thing.number),
        size: known.len,
        blocks: known.len.div_ceil(SECTOR_BYTES),
        atime: at,
        mtime: at,
        ctime: at,
        crtime: at,
        kind: file_type(known.kind),
        perm: u16::try_from(known.attributes.mode & 0o7777).unwrap_or(0),
        nlink: known.names,
        uid: known.attributes.uid,
        gid: known.attributes.gid,
        rdev: 0,
        blksize: BEST_BYTES,
        flags: 0,
    }
}

fn entry(found: Result<Inode, rustix::io::Errno>, reply: ReplyEntry) {
    match found {
        Ok(thing) => reply.entry(&KEEP, &attributes(&thing), Generation(0)),
        Err(error) => reply.error(code(error)),
    }
}

fn done(result: Result<(), rustix::io::Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(code(error)),
    }
}

/// Answers a question for a value of unknown length: first its length is asked for.
fn value(bytes: &[u8], size: u32, reply: ReplyXattr) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    match size {
        0 => reply.size(len),
        size if size < len => reply.error(Errno::ERANGE),
        _ => reply.data(bytes),
    }
}

impl Filesystem for FuseAdapter {
    fn destroy(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.inodes.lookup(parent.0, name), reply);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.inodes.known(ino.0) {
            Ok(thing) => reply.attr(&KEEP, &attributes(&thing)),
            Err(error) => reply.error(code(error)),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, len: size, modified_ns: mtime.map(nanoseconds) };
        match self.inodes.change(ino.0, change) {
            Ok(thing) => reply.attr(&KEEP, &attributes(&thing)),
            Err(error) => reply.error(code(error)),
        }
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        match self.inodes.target(ino.0) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(code(error)),
        }
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let rights = Rights { mode: mode & !umask, uid: req.uid(), gid: req.gid() };
        entry(self.inodes.make(parent.0, name, NewNode::Folder, rights), reply);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.inodes.remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.inodes.remove(parent.0, name, true), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let rights = Rights { mode: 0o777, uid: req.uid(), gid: req.gid() };
        entry(self.inodes.make(parent.0, name, NewNode::Link(target.as_os_str()), rights), reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        done(self.inodes.rename((parent.0, name), (newparent.0, newname), may_replace), reply);
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        entry(self.inodes.link(ino.0, newparent.0, newname), reply);
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // What can't be written to stays in the page cache.
        let flags = if self.inodes.write_folder().is_none() {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        match self.inodes.open(ino.0) {
            Ok(()) => reply.opened(FileHandle(0), flags),
            Err(error) => reply.error(code(error)),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let rights = Rights { mode: mode & !umask, uid: req.uid(), gid: req.gid() };
        let made = self.inodes.make(parent.0, name, NewNode::File, rights);
        match made.and_then(|thing| self.inodes.open(thing.number).map(|()| thing)) {
            Ok(thing) => {
                let flags = FopenFlags::empty();
                reply.created(&KEEP, &attributes(&thing), Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(code(error)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.inodes.read(ino.0, offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(code(error)),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.inodes.write(ino.0, offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(code(error)),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.inodes.release(ino.0);
        reply.ok();
    }

    /// What is written is gone with the mount anyway.
    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != PLAIN {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let end = offset.saturating_add(length);
        let grown = self.inodes.known(ino.0).and_then(|thing| match thing.known.len {
            len if len >= end => Ok(()),
            _ => self.inodes.change(ino.0, Change { len: Some(end), ..Change::default() }).map(drop),
        });
        done(grown, reply);
    }

    /// The folder as it is now: what is removed or made while it is read does not move the rest.
    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.inodes.list(ino.0) {
            Ok(items) => {
                let handle = self.next.fetch_add(1, Ordering::Relaxed);
                let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
                folders.insert(handle, Arc::new(items));
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(code(error)),
        }
    }

    fn readdir(&self, _req: &Request, _ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let items = folders.get(&fh.0).cloned();
        drop(folders);
        let Some(items) = items else { return reply.error(Errno::EBADF) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (item, next) in items.iter().skip(from).zip(offset + 1..) {
            if reply.add(INodeNo(item.number), next, file_type(item.form), &item.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).remove(&fh.0);
        reply.ok();
    }

    /// Free space is that of the file system that writes go to.
    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let found = self
            .inodes
            .write_folder()
            .and_then(|write_folder| rustix::fs::statvfs(write_folder.folder()).ok());
        let Some(found) = found else { return reply.statfs(0, 0, 0, 0, 0, BEST_BYTES, NAME_MAX, BEST_BYTES) };
        let size = u32::try_from(found.f_frsize).unwrap_or(BEST_BYTES);
        reply.statfs(
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
            size,
            NAME_MAX,
            size,
        );
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.inodes.extended(ino.0) {
            Ok(all) => match all.iter().find(|(known, _)| known == name) {
                Some((_, bytes)) => value(bytes, size, reply),
                None => reply.error(Errno::ENODATA),
            },
            Err(error) => reply.error(code(error)),
        }
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.inodes.extended(ino.0) {
            Ok(all) => {
                let name = |(name, _): &(std::ffi::OsString, Vec<u8>)| [name.as_bytes(), b"\0"].concat();
                value(&all.iter().flat_map(name).collect::<Vec<u8>>(), size, reply);
            }
            Err(error) => reply.error(code(error)),
        }
    }
}

/// Mounts nothing yet: the file system for a tree, and the flag that says that it is unmounted.
pub(crate) fn new(inodes: Arc<InodeTable>) -> (FuseAdapter, Arc<AtomicBool>) {
    let ended = Arc::new(AtomicBool::new(false));
    let kernel =
        FuseAdapter { inodes, folders: Mutex::default(), next: AtomicU64::new(1), ended: Arc::clone(&ended) };
    (kernel, ended)
}

/// Why a mount is not possible, in words.
pub(crate) fn explain(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no /dev/fuse: load the kernel's module with 'modprobe fuse'",
        io::ErrorKind::PermissionDenied => {
            "without root it takes the program fusermount3, of the package fuse3"
        }
        _ => "this takes root, or the program fusermount3 of the package fuse3",
    }
}
