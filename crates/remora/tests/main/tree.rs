//! `remora backup` of folders and servers on btrfs and XFS, mounted for the test alone.

use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Product, Sandbox, Settings};
use tempfile::TempDir;

use crate::ssh;
use crate::support::{Ended, connect, places, remora, tell};

const MAKERS: [(&str, &str); 3] = [("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs"), ("ext4", "mkfs.ext4")];

/// A file system of its own, seen by this thread and what it starts.
struct Volume {
    folder: TempDir,
    kind: &'static str,
}

impl Volume {
    /// None where this kind can't be mounted: without root, or without the kernel's help.
    fn new(kind: &'static str) -> Option<Volume> {
        let make = MAKERS.iter().find(|(name, _)| *name == kind).unwrap().1;
        if !rustix::process::getuid().is_root() {
            return None;
        }
        disk::leave_mounts().unwrap();
        let volume =
            Volume { folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(), kind };
        let image = volume.folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
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
        mounted.status.success().then_some(volume)
    }

    /// A folder on it, a subvolume on btrfs.
    fn data(&self) -> PathBuf {
        let data = self.top().join("data");
        match self.kind {
            "btrfs" => run(Command::new("btrfs").args(["--quiet", "subvolume", "create"]).arg(&data)),
            _ => std::fs::create_dir(&data).unwrap(),
        }
        data
    }

    fn top(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn source(&self) -> String {
        format!("{}:{}", self.kind, self.top().join("data").display())
    }

    fn remora(&self, arguments: &[&str]) -> Ended {
        let mut command = remora(self.folder.path());
        Ended::of(&command.args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    fn names(&self) -> Vec<OsString> {
        let names = std::fs::read_dir(self.top()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // It would go with the thread; so its folder can go now.
        Command::new("umount").arg("--lazy").arg(self.top()).output().unwrap();
    }
}

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn volumes() -> impl Iterator<Item = Volume> {
    ["xfs", "btrfs"].into_iter().filter_map(|kind| {
        let volume = Volume::new(kind);
        tell(format!("{kind}{}", if volume.is_some() { "" } else { " can't be mounted here: not tested" }));
        volume
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
        std::fs::write(data.join("other"), "two").unwrap();
        // The header, two blocks of the list that are one, the page, and the new file in the place of the old one.
        let made = backup(&["--track", "--json"]).out;
        assert!(made.contains(r#""parent":1"#) && made.contains(r#""blocks_changed":4"#), "{made}");
        assert_eq!(volume.names().len(), 2, "{:?}", volume.names());
        volume.remora(&["restore", "repo", "--to", "back"]).exits(0);
        same(&data, &volume.folder.path().join("back"));
        volume.remora(&["restore", "repo", "--to", "back"]).exits(2).says(&["is there already"]);
        volume.remora(&["restore", "repo@1", "--to", "old"]).exits(0);
        same(&first, &volume.folder.path().join("old/small"));
        volume.remora(&["verify", "repo"]).exits(0);

        // What is not wanted any more goes, and what nobody has kept is read.
        backup(&[]).says(&["data@3 (changes to 2)", " 0 blocks changed"]);
        assert_eq!(volume.names(), ["data"]);
        backup(&["--track"]).says(&["no snapshot of generation 3", " 0 blocks changed"]);
        let tracked = backup(&["--track"]);
        assert!(!tracked.err.contains("everything is read"), "{}", tracked.err);
        // A run that is killed leaves one that the next run knows and removes.
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
fn the_top_of_a_volume_is_copied_into_itself_and_left_as_it_was() {
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
        // What can't be held still is told.
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

/// A server that is written to all the time, backed up three times as it runs. Tables of three engines.
#[test]
fn a_server_is_backed_up_while_it_works() {
    for volume in volumes() {
        let server = server_on(&volume);
        let mut session = connect(server.socket());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| write(&server, &over));
            let _stops = Stops(&over);
            for generation in 1..=3 {
                let socket = server.socket().display().to_string();
                let line = [
                    "backup",
                    "mysql:",
                    "--socket",
                    &socket,
                    "--no-defaults",
                    "-uroot",
                    "--to",
                    "repo",
                    "--track",
                    "--lock",
                    "touch locked &&",
                ];
                volume.remora(&line).exits(0).says(&[
                    &format!("mysql@{generation}"),
                    "the lock (backup-stage) was held for",
                    "binary log position: binlog.000001",
                ]);
            }
        });
        assert!(volume.folder.path().join("locked").exists());
        let written = session.value("SELECT COUNT(*) FROM app.InnoDB").unwrap();
        drop(session);
        drop(server);
        let listed = volume.remora(&["list", "repo", "--json"]).exits(0).out;
        assert!(listed.contains("binlog.000001") && listed.contains("backup-stage"), "{listed}");
        volume
            .remora(&["verify", "repo", "--boot", "--work", "."])
            .exits(0)
            .says(&["all sound", "mysql@3 has been booted"]);
        assert!(written.unwrap().parse::<u32>().unwrap() > 0);
    }
}

/// A server whose data lie on a volume, with a table of each of three engines.
fn server_on(volume: &Volume) -> Sandbox {
    let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let options = ["--innodb-buffer-pool-size=64M", "--log-bin=binlog", "--server-id=1"];
    let settings = Settings {
        folder: Some(volume.data().join("server")),
        options: options.map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let server = Sandbox::start(&installation, &places(), &settings).unwrap();
    let mut session = connect(server.socket());
    session.execute("CREATE DATABASE app").unwrap();
    for engine in ["InnoDB", "MyISAM", "Aria"] {
        let columns = "(id INT AUTO_INCREMENT PRIMARY KEY, text TEXT)";
        session.execute(&format!("CREATE TABLE app.{engine} {columns} ENGINE={engine}")).unwrap();
    }
    server
}

#[test]
fn a_server_of_which_no_snapshot_can_be_made_is_told() {
    let Some(volume) = Volume::new("ext4") else { return };
    let server = server_on(&volume);
    let socket = server.socket().display().to_string();
    let line = ["backup", "mysql:", "--socket", &socket, "--no-defaults", "-uroot", "--to", "repo"];
    volume.remora(&line).exits(1).says(&["lies on ext4", "no snapshot can be made", "remora dump"]);
    assert!(!volume.folder.path().join("repo/mysql/000001.blk").exists());
}

/// What is made in a data folder would be a database.
#[test]
fn a_data_folder_that_is_the_top_of_its_file_system_is_told() {
    for volume in volumes() {
        let mut server = server_on(&volume);
        server.stop().unwrap();
        let other = Volume::new(volume.kind).unwrap();
        run(Command::new("cp").arg("--archive").arg(server.data().join(".")).arg(other.top()));
        drop(server);
        let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
        let settings = Settings { data: Some(other.top()), ..Settings::default() };
        let server = Sandbox::start(&installation, &places(), &settings).unwrap();
        let socket = server.socket().display().to_string();
        let line = ["backup", "mysql:", "--socket", &socket, "--no-defaults", "-uroot", "--to", "repo"];
        other.remora(&line).exits(1).says(&["no room beside it", "one folder higher"]);
    }
}

/// The server's own protocol goes through the same connection of ssh.
#[test]
fn a_server_elsewhere_is_backed_up_and_its_files_come_back_there() {
    for volume in volumes() {
        let server = server_on(&volume);
        let there = ssh::Server::start();
        let (source, socket) = (format!("mysql:{}", there.machine()), server.socket().display().to_string());
        let line =
            ["backup", &source, "--socket", &socket, "--no-defaults", "-uroot", "--to", "repo", "--track"];
        there.run(&line).exits(0).says(&["127.0.0.1@1 (full)", "was held for"]);
        connect(server.socket()).execute("INSERT INTO app.InnoDB (text) VALUES ('one more')").unwrap();
        there.run(&line).exits(0).says(&["127.0.0.1@2 (changes to 1)"]);
        let back = format!("{}{}", there.machine(), volume.top().join("back").display());
        there.run(&["restore", "repo", "--to", &back]).exits(0);
        run(Command::new("cmp")
            .args([volume.top().join("back/mysql/db.frm"), server.data().join("mysql/db.frm")]));
        let nowhere = ["backup", &source, "--socket", "/nowhere", "--no-defaults", "-uroot", "--to", "repo"];
        there.run(&nowhere).exits(1).says(&["the backup is not made"]);
    }
}

struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write(server: &Sandbox, over: &AtomicBool) {
    let mut session = connect(server.socket());
    while !over.load(Ordering::Relaxed) {
        for engine in ["InnoDB", "MyISAM", "Aria"] {
            session.execute(&format!("INSERT INTO app.{engine} (text) VALUES (REPEAT(UUID(), 50))")).unwrap();
        }
    }
}
