//! `remora backup lvm:...` with programs that stand in for LVM's own.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::support::{Ended, Running, ignores_hup, remora, until};

const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/main/lvm/lvm.sh");

/// A volume group that is a folder.
struct Group {
    folder: TempDir,
    name: String,
}

impl Group {
    fn new() -> Group {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("remora-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let group = Group { folder, name };
        std::fs::copy(STAND_IN, group.path("stand-in")).unwrap();
        for program in ["lvs", "lvcreate", "lvremove", "sync"] {
            symlink("stand-in", group.path(program)).unwrap();
        }
        std::fs::write(group.path("group"), &group.name).unwrap();
        group.trouble("");
        group.fill(1);
        group
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trouble(&self, what: &str) {
        std::fs::write(self.path("trouble"), what).unwrap();
    }

    /// Writes other contents into the volume.
    fn fill(&self, seed: u64) {
        let words = (0..1_000_000_u64).map(|at| (at ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes: Vec<u8> = words.flat_map(|word| word.rotate_left(31).to_le_bytes()).collect();
        std::fs::write(self.path("data.img"), bytes).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = remora(self.folder.path());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command.args(["backup", &format!("lvm:/dev/{}/data", self.name), "--to", "repo"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn backup(&self, more: &[&str]) -> Ended {
        Ended::of(&self.command(more).output().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&remora(self.folder.path()).args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// What was asked of LVM since the last time.
    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.path("log")).unwrap();
        std::fs::remove_file(self.path("log")).unwrap();
        log
    }

    fn snapshots(&self) -> usize {
        let folder = Path::new("/dev").join(&self.name);
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// A run that is reading.
    fn reading(&self, generation: u32) -> Running {
        let running = Running::new(self.command(&["--rate", "1M"]).spawn().unwrap());
        let partial = self.path(&format!("repo/data/{generation:06}.blk.partial"));
        until("a part of the backup", || std::fs::metadata(&partial).is_ok_and(|found| found.len() > 4096));
        running
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let folder = Path::new("/dev").join(&self.name);
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            Command::new("losetup")
                .arg("--detach")
                .arg(std::fs::read_link(entry.path()).unwrap())
                .status()
                .ok();
        }
        std::fs::remove_dir_all(folder).ok();
    }
}

#[test]
fn a_snapshot_is_made_read_and_removed() {
    let group = Group::new();
    group.backup(&[]).exits(0).says(&["data@1 (full)", "room for 1.64 MB of changes"]);
    let log = group.log();
    let programs: Vec<&str> = log.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(programs, ["lvs", "lvs", "sync", "lvcreate", "lvs", "lvremove"]);
    assert!(log.contains("--size 1638400b") && log.contains("--permission r"), "{log}");
    assert_eq!(group.snapshots(), 0);
    group.fill(2);
    group.backup(&["--snapshot-size", "5M"]).exits(0).says(&["data@2 (changes to 1)"]);
    assert!(group.log().contains("--size 5242880b"));
    group.run(&["restore", "repo", "--to", "back"]).exits(0);
    assert!(std::fs::read(group.path("back")).unwrap() == std::fs::read(group.path("data.img")).unwrap());
}

#[test]
fn a_snapshot_that_overflowed_is_no_backup() {
    let group = Group::new();
    group.backup(&[]).exits(0);
    group.fill(2);
    group.trouble("overflow");
    group.backup(&[]).exits(1).says(&["more was written to it", "--snapshot-size", "earlier generations"]);
    assert_eq!(group.snapshots(), 0);
    let listed = group.run(&["list", "repo"]).exits(0).out;
    assert!(listed.contains("data@1") && !listed.contains("data@2"), "{listed}");
    group.run(&["verify", "repo"]).exits(0);
    group.trouble("");
    group.backup(&[]).exits(0).says(&["data@2 (changes to 1)"]);
}

#[test]
fn a_snapshot_is_removed_however_the_run_ends() {
    let group = Group::new();
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        if signal == "HUP" && ignores_hup() {
            continue;
        }
        let running = group.reading(1);
        assert_eq!(group.snapshots(), 1);
        running.signal(signal);
        running.end().exits(code);
        assert_eq!(group.snapshots(), 0, "{signal}");
        std::fs::remove_file(group.path("repo/data/000001.blk.partial")).unwrap();
    }
    group.backup(&["--before", "exit 7"]).exits(1).says(&["ended with 7"]);
    group.backup(&["--after", "exit 7"]).exits(3);
    assert_eq!(group.snapshots(), 0);
}

#[test]
fn the_next_run_of_a_name_removes_the_snapshot_of_a_killed_one() {
    let group = Group::new();
    group.reading(1).kill();
    assert_eq!(group.snapshots(), 1);
    // Snapshots of another name are left alone: a run may be using them.
    group.backup(&["--name", "other"]).exits(0);
    assert_eq!(group.snapshots(), 1);
    group.backup(&[]).exits(0).says(&["removed the snapshot", "killed run"]);
    assert_eq!(group.snapshots(), 0);
    // A running backup is not disturbed.
    group.fill(2);
    let running = group.reading(2);
    group.backup(&[]).exits(11);
    assert_eq!(group.snapshots(), 1);
    running.signal("TERM");
    running.end().exits(143);
}

#[test]
fn a_snapshot_that_can_not_be_removed_is_reported() {
    let group = Group::new();
    group.trouble("in use");
    group.backup(&[]).exits(3).says(&["data@1", "may still be there, and the next run removes it", "in use"]);
    assert_eq!(group.snapshots(), 1);
    group.fill(2);
    group.backup(&[]).exits(3).says(&["data@2", "which stays"]);
    group.trouble("");
    group.backup(&[]).exits(0).says(&["data@3", "removed the snapshot"]);
    assert_eq!(group.snapshots(), 0);
}

#[test]
fn a_source_that_is_no_volume_is_reported_and_leaves_nothing() {
    let group = Group::new();
    std::fs::remove_file(group.path("data.img")).unwrap();
    group.backup(&[]).exits(1).says(&["is no logical volume", "Failed to find logical volume"]);
    assert!(!group.path("repo").exists());
    let file = format!("file:{}", group.path("group").display());
    group
        .run(&["backup", &file, "--to", "repo", "--snapshot-size", "5M"])
        .exits(2)
        .says(&["--snapshot-size is for lvm:"]);
}
