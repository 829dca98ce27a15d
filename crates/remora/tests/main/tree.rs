//! `remora backup` of folders on btrfs and XFS, mounted for the test alone.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{OnVanish, RealDisk, Reflink, Tree};
use rustix::fs::setxattr;
use tempfile::TempDir;

use crate::support::{Ended, copy_program, remora, skipped, tell};

const MAKERS: [(&str, &str); 3] = [("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs"), ("ext4", "mkfs.ext4")];

/// A file system of its own, visible to this thread and its child processes.
pub(crate) struct Volume {
    pub(crate) folder: TempDir,
    pub(crate) kind: &'static str,
}

impl Volume {
    /// `None` where this kind can't be mounted: without root, or without support in the kernel.
    pub(crate) fn new(kind: &'static str) -> Option<Volume> {
        let make = MAKERS.iter().find(|(name, _)| *name == kind).unwrap().1;
        let name = std::thread::current().name().unwrap_or("tree").to_owned();
        if !rustix::process::getuid().is_root() {
            skipped(&name, &format!("to mount {kind} takes root"));
            return None;
        }
        disk::unshare_mounts().unwrap();
        let volume =
            Volume { folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(), kind };
        let image = volume.folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
        run(Command::new("mount").args(["--make-rprivate", "/"]));
        run(Command::new(make).arg("-q").arg(&image));
        std::fs::create_dir(volume.top()).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", "loop"])
            .args([&image, &volume.top()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success() || said.contains("unknown filesystem type"), "{said}");
        if !mounted.status.success() {
            skipped(&name, &format!("{kind} is not in this kernel"));
            return None;
        }
        Some(volume)
    }

    /// A folder on it, a subvolume on btrfs.
    pub(crate) fn data(&self) -> PathBuf {
        let data = self.top().join("data");
        match self.kind {
            "btrfs" => run(Command::new("btrfs").args(["--quiet", "subvolume", "create"]).arg(&data)),
            _ => std::fs::create_dir(&data).unwrap(),
        }
        data
    }

    pub(crate) fn top(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn source(&self) -> String {
        format!("{}:{}", self.kind, self.top().join("data").display())
    }

    pub(crate) fn remora(&self, arguments: &[&str]) -> Ended {
        let mut command = remora(self.folder.path());
        Ended::of(&command.args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn names(&self) -> Vec<OsString> {
        let names = std::fs::read_dir(self.top()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // The mount would go with the thread; unmounting it now lets its folder be removed.
        Command::new("umount").arg("--lazy").arg(self.top()).output().unwrap();
    }
}

pub(crate) fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

pub(crate) fn volumes() -> impl Iterator<Item = Volume> {
    ["xfs", "btrfs"].into_iter().filter_map(|kind| {
        tell(kind);
        Volume::new(kind)
    })
}

fn same(one: &Path, other: &Path) {
    run(Command::new("diff").arg("--recursive").args([one, other]));
}

#[test]
fn folders_come_back_and_only_what_changed_is_read() {
    for volume in volumes() {
        let (data, source) = (volume.data(), volume.source());
        let bytes: Vec<u8> =
            (0..9_000_000u64).map(|at| (at.wrapping_mul(at) >> 7).to_le_bytes()[0]).collect();
        std::fs::create_dir(data.join("db")).unwrap();
        std::fs::write(data.join("db/table.ibd"), &bytes).unwrap();
        std::fs::write(data.join("small"), "one").unwrap();
        let backup = |more: &[&str]| {
            let line = ["backup", &source, "--to", "repo", "--name", "data"];
            volume.remora(&[&line, more].concat()).exits(0)
        };
        backup(&["--track"]).says(&["data@1 (full)"]);
        assert_eq!(volume.names().len(), 2, "{:?}", volume.names());
        let first = volume.folder.path().join("first");
        std::fs::copy(data.join("small"), &first).unwrap();
        let table = std::fs::OpenOptions::new().write(true).open(data.join("db/table.ibd")).unwrap();
        table.write_all_at(b"changed", 5_000_000).unwrap();
        std::fs::remove_file(data.join("small")).unwrap();
        // A name that only begins like ours.
        std::fs::write(data.join(".remora-notes"), "two").unwrap();
        // The header, two blocks of the list that are one, the page, and the new file in the place of the old
        // one.
        let made = backup(&["--track", "--json"]).out;
        assert!(made.contains(r#""parent":1"#) && made.contains(r#""blocks_changed":4"#), "{made}");
        assert_eq!(volume.names().len(), 2, "{:?}", volume.names());
        volume.remora(&["restore", "repo", "--to", "back"]).exits(0);
        same(&data, &volume.folder.path().join("back"));
        volume.remora(&["restore", "repo", "--to", "back"]).exits(2).says(&["exists already"]);
        volume.remora(&["restore", "repo@1", "--to", "old"]).exits(0);
        same(&first, &volume.folder.path().join("old/small"));
        volume.remora(&["verify", "repo"]).exits(0);

        // Snapshots that are not wanted any more are removed, and without one everything is read.
        backup(&[]).says(&["data@3 (changes to 2)", " 0 blocks changed"]);
        assert_eq!(volume.names(), ["data"]);
        backup(&["--track"]).says(&["no snapshot of generation 3", " 0 blocks changed"]);
        let tracked = backup(&["--track"]);
        assert!(!tracked.err.contains("everything is read"), "{}", tracked.err);
        // A repository that was moved finds its snapshot.
        let place = |name: &str| volume.folder.path().join(name);
        std::fs::rename(place("repo"), place("moved")).unwrap();
        let moved = ["backup", &source, "--to", "moved", "--name", "data", "--track"];
        let tracked = volume.remora(&moved).exits(0);
        assert!(!tracked.err.contains("everything is read"), "{}", tracked.err);
        assert_eq!(volume.names().len(), 2, "{:?}", volume.names());
        std::fs::rename(place("moved"), place("repo")).unwrap();
        backup(&["--track"]);
        // A killed run leaves a snapshot, which the next run recognises and removes.
        let left = volume.names().remove(0).into_string().unwrap();
        let mark = left.split("-kept-").next().unwrap().to_owned();
        run(Command::new("cp").arg("--archive").args([&data, &volume.top().join(format!("{mark}-00"))]));
        if volume.kind == "xfs" {
            backup(&[]).says(&["which a killed run has left"]);
            assert_eq!(volume.names(), ["data"]);
        }
        std::fs::remove_dir_all(&first).ok();
    }
}

#[test]
fn the_top_of_a_volume_is_snapshotted_within_itself() {
    for volume in volumes() {
        std::fs::write(volume.top().join("file"), "x").unwrap();
        let source = format!("{}:{}", volume.kind, volume.top().display());
        for round in 0..2 {
            let line = ["backup", &source, "--to", "repo", "--name", "top", "--track"];
            volume.remora(&line).exits(0).says(&[&format!("top@{}", round + 1)]);
            assert_eq!(volume.names().len(), 2, "{:?}", volume.names());
        }
        volume.remora(&["restore", "repo", "--to", "back"]).exits(0);
        let back = std::fs::read_dir(volume.folder.path().join("back")).unwrap();
        assert_eq!(back.count(), 1);
        // A folder that can't be frozen is reported.
        volume
            .remora(&["backup", "xfs:/proc", "--to", "repo"])
            .exits(1)
            .says(&["lies on proc, not on XFS or btrfs"]);
        volume.remora(&["backup", "btrfs:/nowhere", "--to", "repo"]).exits(1).says(&["/nowhere"]);
        let lock = ["backup", &source, "--to", "repo", "--name", "top", "--lock", "false &&"];
        volume.remora(&lock).exits(1);
        assert_eq!(volume.names().len(), 1, "a snapshot that was not made: {:?}", volume.names());
        let locked = volume.folder.path().join("locked");
        let lock = format!("touch {} &&", locked.display());
        volume.remora(&["backup", &source, "--to", "repo", "--name", "top", "--lock", &lock]).exits(0);
        assert!(locked.exists());
    }
}

/// A folder whose files get other names all the time, as that of a mail server.
#[test]
fn files_that_are_renamed_meanwhile_are_reported() {
    let Some(volume) = Volume::new("xfs") else { return };
    let data = volume.data();
    for number in 0..300 {
        std::fs::write(data.join(format!("new-{number}")), format!("{number}")).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let place = |kind: &str, number: usize| data.join(format!("{kind}-{number}"));
            for (from, to) in [("new", "cur"), ("cur", "new")].into_iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                (0..300).for_each(|number| std::fs::rename(place(from, number), place(to, number)).unwrap());
            }
        });
        let line = ["backup", &volume.source(), "--to", "repo", "--name", "data"];
        let ended = volume.remora(&line);
        over.store(true, Ordering::Relaxed);
        let is_told = ended.err.contains("renamed or removed each time");
        assert!(ended.code == if is_told { 3 } else { 0 }, "{}: {}", ended.code, ended.err);
    });
    // With nobody there, all of it is in it.
    volume.remora(&["backup", &volume.source(), "--to", "repo", "--name", "data"]).exits(0);
    volume.remora(&["restore", "repo", "--to", "back"]).exits(0);
    same(&data, &volume.folder.path().join("back"));
}

/// The form of the names that a backup uses at the top of a tree.
const OWN: &str = ".remora-0123456789abcdef-1";
/// An access control list: owner, user 7, group and mask all, others read (linux/posix_acl_xattr.h).
const LIST: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\x07\0\0\0\x04\0\x07\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

/// The names and values of a file's extended attributes.
fn extended(path: &Path) -> disk::Extended {
    if path.exists() { RealDisk.entry(path).unwrap().extended } else { disk::Extended::new() }
}

/// An earlier copy is made equal to the original again, whatever has changed meanwhile.
#[test]
fn a_copy_is_made_equal_to_its_original_again() {
    for volume in volumes() {
        let (from, to) = (volume.top().join("from"), volume.top().join("to"));
        let write = |name: &str, bytes: &[u8]| std::fs::write(from.join(name), bytes).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        std::fs::create_dir_all(from.join("sub/deep")).unwrap();
        for name in ["longer", "shorter", "empty", "gone", "folder", "one", "sub/deep/file"] {
            write(name, &[b'x'; 70_000]);
        }
        write(OWN, b"ours");
        write(".remora-notes", b"the user's");
        // Whatever is made in it inherits an access control list.
        std::fs::create_dir(from.join("listed")).unwrap();
        setxattr(from.join("listed"), "system.posix_acl_default", LIST, flags).unwrap();
        std::os::unix::fs::symlink("one", from.join("link")).unwrap();
        std::fs::hard_link(from.join("one"), from.join("two")).unwrap();
        std::fs::hard_link(from.join("longer"), from.join("tied")).unwrap();
        run(Command::new("mkfifo").arg(from.join("pipe")));
        setxattr(from.join("gone"), "user.why", b"because", flags).unwrap();
        setxattr(from.join("empty"), "user.was", b"there", flags).unwrap();
        let copy =
            || Reflink::make(&from, &to, block::tree::is_own, OnVanish::Error).unwrap().finish().unwrap();
        let like = || {
            // Names, kinds, permissions, owners, sizes, hard links, times and symbolic links, and then the
            // bytes.
            let listed = |top: &Path| {
                let mut find = Command::new("find");
                find.current_dir(top).args(["!", "-name", OWN, "-printf"]);
                let lines = find.arg("%p %y %m %U %G %n %T@ %l\\n").output().unwrap().stdout;
                let mut lines: Vec<_> = lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                lines.sort();
                lines
            };
            assert_eq!(listed(&from), listed(&to));
            let differ = ["--recursive", "--no-dereference", "--exclude=.remora-0*", "--exclude=pipe"];
            run(Command::new("diff").args(differ).args([&from, &to]));
            for name in ["listed", "listed/open", "empty", "new", ".remora-notes"] {
                assert_eq!(extended(&from.join(name)), extended(&to.join(name)), "{name}");
            }
            assert!(!to.join(OWN).exists());
        };
        copy();
        like();
        let mut value = [0; 20];
        let len = rustix::fs::getxattr(to.join("gone"), "user.why", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"because");

        for (name, bytes) in
            [("longer", &[b'y'; 200_000][..]), ("shorter", b"y"), ("empty", b""), ("new", b"n")]
        {
            write(name, bytes);
        }
        std::fs::remove_file(from.join("gone")).unwrap();
        std::fs::remove_dir_all(from.join("sub/deep")).unwrap();
        write("sub/deep", b"a file now");
        std::fs::remove_file(from.join("folder")).unwrap();
        std::fs::create_dir(from.join("folder")).unwrap();
        std::fs::remove_file(from.join("link")).unwrap();
        std::os::unix::fs::symlink("new", from.join("link")).unwrap();
        // The two names were one file, and are two files now.
        std::fs::remove_file(from.join("two")).unwrap();
        write("two", b"another");
        run(Command::new("chmod").arg("4751").arg(from.join("new")));
        run(Command::new("chown").arg("7:8").arg(from.join("shorter")));
        // As a copy makes it, but without the list, and one that has lost what it had.
        write("listed/open", b"for its owner alone");
        rustix::fs::removexattr(from.join("listed/open"), "system.posix_acl_access").unwrap();
        run(Command::new("chmod").arg("600").arg(from.join("listed/open")));
        rustix::fs::removexattr(from.join("empty"), "user.was").unwrap();
        copy();
        like();
    }
}

const NOBODY: u32 = 65_534;

/// What a user who is not root may not set is named, and nothing runs as this user, or is open to its group,
/// because of that.
#[test]
fn files_of_others_come_back_with_no_more_rights_and_are_named() {
    let Some(volume) = Volume::new("xfs") else { return };
    let (data, folder) = (volume.data(), volume.folder.path());
    let set_mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let give = |path: &Path, owner| chown(path, Some(owner), Some(owner)).unwrap();
    let all = [("own", 0o640, NOBODY), ("secret", 0o640, 7), ("runs", 0o6755, 7), ("listed", 0o660, 7)];
    for (name, mode, owner) in all {
        std::fs::write(data.join(name), name).unwrap();
        give(&data.join(name), owner);
        set_mode(&data.join(name), mode);
    }
    give(&data, NOBODY);
    // user::rw-, user:9:r--, group::r--, mask::r--, other::---
    let list = [(1, 6, u32::MAX), (2, 4, 9), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let entry = |(tag, rights, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let list = [2_u32.to_le_bytes().to_vec(), list.map(entry).concat()].concat();
    setxattr(data.join("listed"), "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).unwrap();
    volume.remora(&["backup", &volume.source(), "--to", "repo", "--name", "data"]).exits(0);
    run(Command::new("chown").args(["-R", "65534:65534"]).arg(folder.join("repo")));
    set_mode(folder, 0o777);
    copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &folder.join("remora"));
    let mut command = Command::new(folder.join("remora"));
    let command =
        command.current_dir(folder).uid(NOBODY).gid(NOBODY).args(["restore", "repo/data", "--to", "back"]);
    let ended = Ended::of(&command.output().unwrap()).exits(3);
    for (name, mode, says) in [
        ("own", 0o640, None),
        ("secret", 0o600, Some("its mode is 0600 instead of 0640")),
        ("runs", 0o755, Some("its mode is 0755 instead of 6755")),
        ("listed", 0o600, Some("lost its access control list system.posix_acl_access")),
    ] {
        let is = std::fs::metadata(folder.join("back").join(name)).unwrap();
        assert_eq!((is.mode() & 0o7777, is.uid(), is.gid()), (mode, NOBODY, NOBODY), "{name}");
        let lines = ended.err.lines().filter(|line| line.contains(&format!("/{name}: "))).collect::<Vec<_>>();
        assert_eq!(lines.is_empty(), says.is_none(), "{}", ended.err);
        assert!(says.is_none_or(|says| lines.iter().any(|line| line.contains(says))), "{}", ended.err);
    }
    ended.says(&["belongs to user 65534 and group 65534 instead of 7 and 7: only root can set that"]);
}
