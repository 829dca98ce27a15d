//! The tests in the guest.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::guest::load::{Load, rows};
use crate::guest::machine::{Guest, until};

type Scenario = fn(&Test<'_>) -> Result<()>;

/// So slow that everything done meanwhile is done long before the end.
const SLOW: &str = "400k";

/// All tests; each gets its own guest.
pub(crate) const ALL: [(&str, Scenario); 8] = [
    ("thick", thick),
    ("thin", thin),
    ("track", track),
    ("server", server),
    ("overflow", overflow),
    ("pool", pool),
    ("stopped", stopped),
    ("killed", killed),
];

/// A guest and the program under test.
pub(crate) struct Test<'a> {
    pub(crate) guest: &'a Guest,
    pub(crate) program: &'a Path,
}

/// How a run of remora ended.
struct Ended {
    code: Option<i32>,
    said: String,
}

impl Ended {
    /// Fails unless the exit code is this one and stderr contains all of these.
    fn expect(self, code: i32, words: &[&str]) -> Result<String> {
        ensure!(self.code == Some(code), "exit code {:?} and not {code}: {}", self.code, self.said);
        for word in words {
            ensure!(self.said.contains(word), "no {word:?} in: {}", self.said);
        }
        Ok(self.said)
    }
}

fn ended(mut command: Command) -> Result<Ended> {
    let output = command.output().context("remora")?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(Ended { code: output.status.code(), said })
}

impl Test<'_> {
    /// `remora` with these arguments, in the folder of the test.
    fn remora(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.current_dir(self.guest.path("")).stdin(Stdio::null()).args(arguments);
        command
    }

    /// Backs up a volume of the guest into `repo`.
    fn backup(&self, kind: &str, volume: &str, more: &[&str]) -> Command {
        let mut command = self.remora(&[]);
        command.args(self.words(kind, volume)).args(more);
        command
    }

    fn words(&self, kind: &str, volume: &str) -> Vec<String> {
        let source = format!("{kind}:ssh://root@127.0.0.1:{}/dev/vg0/{volume}", self.guest.ports.ssh);
        let mut words = ["backup", &source, "--to", "repo"].map(str::to_owned).to_vec();
        for option in self.guest.ssh_options() {
            words.extend(["--ssh-option".to_owned(), option]);
        }
        words
    }

    /// The same, while the server on `port` is locked.
    fn locked(&self, port: u16, kind: &str, volume: &str, more: &[&str]) -> Command {
        let port = port.to_string();
        let mut command = self.remora(&["lock", "--no-defaults", "-h", "127.0.0.1", "-P", &port]);
        command.args(["-u", "tester", "--"]).arg(self.program).args(self.words(kind, volume)).args(more);
        command.env("MYSQL_PWD", "tester");
        command
    }

    /// Starts it; its output goes to a file.
    fn start(&self, mut command: Command) -> Result<Child> {
        let said = std::fs::File::create(self.guest.path("said"))?;
        Ok(command.stdout(Stdio::null()).stderr(said).spawn()?)
    }

    fn end(&self, mut child: Child) -> Result<Ended> {
        let status = child.wait()?;
        Ok(Ended { code: status.code(), said: std::fs::read_to_string(self.guest.path("said"))? })
    }

    /// How many snapshots of ours exist.
    fn snapshots(&self) -> Result<usize> {
        Ok(self.guest.run("lvs --noheadings -o lv_name @remora")?.split_whitespace().count())
    }

    fn has_snapshots(&self, count: usize) -> Result<()> {
        let found = self.snapshots()?;
        ensure!(found == count, "{found} snapshots and not {count}");
        Ok(())
    }

    /// Overwrites a volume completely.
    fn fill(&self, volume: &str) -> Result<()> {
        let command = format!("dd if=/dev/urandom of=/dev/vg0/{volume} bs=1M count=16 conv=fsync");
        self.guest.run(&command).map(drop)
    }

    /// Waits until a backup has stored something.
    fn until_stored(&self, name: &str, generation: u32) -> Result<()> {
        let partial = self.guest.path(&format!("repo/{name}/{generation:06}.blk.partial"));
        until("a part of a backup", || {
            Ok(partial.metadata().is_ok_and(|found| found.len() > 9999).then_some(()))
        })
    }

    /// Fails unless the newest generation equals the current contents of the volume.
    fn is_restored(&self, volume: &str) -> Result<()> {
        ended(self.remora(&["restore", "repo", "--to", "restored", "--delta"]))?.expect(0, &[])?;
        let sum = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let there = self.guest.run(&format!("sha256sum /dev/vg0/{volume}"))?;
        let here = Command::new("sha256sum").arg(self.guest.path("restored")).output()?.stdout;
        let (there, here) = (sum(&there), sum(&String::from_utf8(here)?));
        ensure!(there == here && here.len() == 64, "restored is {here}, in the volume is {there}");
        Ok(())
    }

    /// Starts a server on the newest generation.
    fn boot(&self) -> Result<String> {
        ended(self.remora(&["verify", "repo", "--boot", "--work", "."]))?
            .expect(0, &["has been booted", "all sound"])
    }
}

/// Makes three generations of a volume with a busy server on it, and boots each. The first and the last are
/// made under a lock, the second without.
fn generations(test: &Test<'_>, volume: &str, port: u16, more: &[&str]) -> Result<()> {
    let load = Load::start(port)?;
    until("some rows", || Ok((rows(port)? > 100).then_some(())))?;
    ended(test.locked(port, "lvm", volume, more))?
        .expect(0, &[&format!("{volume}@1 (full)"), "was held for"])?;
    let said = test.boot()?;
    ensure!(!said.contains("properly"), "a table was open under the lock: {said}");
    ended(test.backup("lvm", volume, more))?.expect(0, &[&format!("{volume}@2 (changes to 1)")])?;
    test.boot()?;
    ended(test.locked(port, "lvm", volume, more))?.expect(0, &[&format!("{volume}@3 (changes to 2)")])?;
    let said = test.boot()?;
    ensure!(!said.contains("properly"), "a table was open under the lock: {said}");
    load.end()?;
    ended(test.remora(&["verify", "repo"]))?.expect(0, &["all sound", "3 generations"])?;
    Ok(())
}

fn thick(test: &Test<'_>) -> Result<()> {
    generations(test, "thick", test.guest.ports.thick, &[])?;
    test.has_snapshots(0)?;
    hooks(test)
}

/// A snapshot made by the user's own commands.
fn hooks(test: &Test<'_>) -> Result<()> {
    let more = [
        "--name",
        "hooks",
        "--before",
        "lvcreate -q -s -L 32M -n snap vg0/thick",
        "--after",
        "lvremove -qf vg0/snap",
    ];
    ended(test.locked(test.guest.ports.thick, "block", "snap", &more))?.expect(0, &["hooks@1 (full)"])?;
    let left = test.guest.run("lvs --noheadings -o lv_name vg0")?;
    ensure!(!left.contains("snap"), "{left}");
    ended(test.remora(&["verify", "repo/hooks", "--boot", "--work", "."]))?.expect(0, &["all sound"])?;
    Ok(())
}

fn thin(test: &Test<'_>) -> Result<()> {
    generations(test, "thin", test.guest.ports.thin, &["--track"])?;
    test.has_snapshots(1)
}

/// Only what changed in a thin volume is read, if the pool tells what that is.
fn track(test: &Test<'_>) -> Result<()> {
    let write = |start: u32, count: u32| {
        let command =
            format!("dd if=/dev/urandom of=/dev/vg0/filler bs=64k seek={start} count={count} conv=fsync");
        test.guest.run(&command).map(drop)
    };
    let backup = |words: &[&str]| ended(test.backup("lvm", "filler", &["--track"]))?.expect(0, words);
    test.fill("filler")?;
    backup(&["filler@1 (full)"])?;
    test.has_snapshots(1)?;
    // Changed, new, and gone.
    write(3, 2)?;
    write(600, 1)?;
    test.guest.run("blkdiscard -o 6553600 -l 131072 /dev/vg0/filler")?;
    let said = backup(&["filler@2 (changes to 1)", "20 blocks changed"])?;
    ensure!(!said.contains("everything is read"), "{said}");
    test.has_snapshots(1)?;
    test.is_restored("filler")?;
    // Somebody else uses the pool's metadata.
    let message = |text: &str| test.guest.run(&format!("dmsetup message vg0-pool--a-tpool 0 {text}"));
    message("reserve_metadata_snap")?;
    write(9, 1)?;
    backup(&["filler@3 (changes to 2)", "everything is read", "release_metadata_snap"])?;
    message("release_metadata_snap")?;
    let said = backup(&["filler@4 (changes to 3)", " 0 blocks changed"])?;
    ensure!(!said.contains("everything is read"), "{said}");
    test.is_restored("filler")?;
    // A kept snapshot is removed when it is no longer wanted.
    write(5, 1)?;
    ended(test.backup("lvm", "filler", &[]))?.expect(0, &["filler@5 (changes to 4)", " 4 blocks changed"])?;
    test.has_snapshots(0)?;
    backup(&["filler@6 (changes to 5)", "everything is read: there is no snapshot of generation 5"])?;
    test.has_snapshots(1)?;
    ended(test.backup("lvm", "small", &["--track"]))?.expect(0, &["small@1 (full)"])?;
    ended(test.backup("lvm", "small", &["--track"]))?.expect(0, &["everything is read", "not thin"])?;
    test.has_snapshots(1)
}

/// A whole server: its volume is found, and its snapshot is made under the server's lock.
fn server(test: &Test<'_>) -> Result<()> {
    let source = format!("mysql:ssh://root@127.0.0.1:{}", test.guest.ports.ssh);
    let load = Load::start(test.guest.ports.thin)?;
    until("some rows", || Ok((rows(test.guest.ports.thin)? > 100).then_some(())))?;
    for generation in ["@1 (full)", "@2 (changes to 1)"] {
        let mut command = test.remora(&["backup", &source, "--to", "repo", "--name", "db", "--track"]);
        for option in test.guest.ssh_options() {
            command.args(["--ssh-option", &option]);
        }
        command.args(["--no-defaults", "-u", "root", "-S", "/run/thin.sock"]);
        ended(command)?.expect(0, &[generation, "was held for", "binlog.0"])?;
    }
    load.end()?;
    let said = test.boot()?;
    ensure!(!said.contains("properly"), "a table was open under the lock: {said}");
    test.has_snapshots(1)
}

/// More is written to a volume than its snapshot has room for.
fn overflow(test: &Test<'_>) -> Result<()> {
    test.fill("small")?;
    ended(test.backup("lvm", "small", &[]))?.expect(0, &["small@1 (full)", "room for"])?;
    test.fill("small")?;
    let running = test.start(test.backup("lvm", "small", &["--snapshot-size", "4M", "--rate", SLOW]))?;
    test.until_stored("small", 2)?;
    test.fill("small")?;
    test.end(running)?.expect(1, &["vg0/small", "--snapshot-size"])?;
    test.has_snapshots(0)?;
    let listed = ended(test.remora(&["list", "repo"]))?.expect(0, &["small@1"])?;
    ensure!(!listed.contains("small@2"), "{listed}");
    ended(test.remora(&["verify", "repo"]))?.expect(0, &["all sound"])?;
    ended(test.backup("lvm", "small", &[]))?.expect(0, &["small@2 (changes to 1)"])?;
    ended(test.backup("lvm", "none", &[]))?.expect(1, &["is no logical volume", "none"])?;
    ended(test.backup("lvm", "pool-a", &[]))?.expect(1, &["is a thin pool"])?;
    Ok(())
}

/// The pool of a thin volume is nearly full, before the backup and during it.
fn pool(test: &Test<'_>) -> Result<()> {
    let fill = "dd if=/dev/zero of=/dev/vg0/filler bs=1M count=90 conv=fsync; i=90
        until [ $(lvs --noheadings -o data_percent vg0/pool-a | cut -d. -f1) -ge 99 ]; do
        dd if=/dev/zero of=/dev/vg0/filler bs=1M seek=$i count=1 conv=fsync || exit; i=$((i + 1)); done";
    let running = test.start(test.backup("lvm", "thin", &["--rate", SLOW]))?;
    let partial = test.guest.path("repo/thin/000001.blk.partial");
    until("a backup that has begun", || Ok(partial.exists().then_some(())))?;
    test.guest.run(fill)?;
    test.end(running)?.expect(1, &["pool-a is full"])?;
    test.has_snapshots(0)?;
    ended(test.backup("lvm", "thin", &[]))?.expect(1, &["pool-a is full"])?;
    test.has_snapshots(0)?;
    ended(test.backup("lvm", "thin", &["--snapshot-size", "5M"]))?.expect(1, &["is thin"])?;
    Ok(())
}

/// A backup that is stopped, or whose ssh is killed, still removes its snapshot.
fn stopped(test: &Test<'_>) -> Result<()> {
    test.fill("small")?;
    let running = test.start(test.backup("lvm", "small", &["--rate", SLOW]))?;
    test.until_stored("small", 1)?;
    test.has_snapshots(1)?;
    signal("TERM", running.id())?;
    test.end(running)?.expect(143, &["stopped by a signal"])?;
    test.has_snapshots(0)?;
    let running = test.start(test.backup("lvm", "small", &["--rate", SLOW, "--full", "--name", "other"]))?;
    test.until_stored("other", 1)?;
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let ssh = std::fs::read_to_string(children)?.trim().parse()?;
    signal("KILL", ssh)?;
    test.end(running)?.expect(1, &["the connection to the other machine"])?;
    test.has_snapshots(0)
}

/// The next backup removes what a killed one has left, on thick volumes and on thin ones.
fn killed(test: &Test<'_>) -> Result<()> {
    for volume in ["small", "filler"] {
        test.fill(volume)?;
        let mut running = test.start(test.backup("lvm", volume, &["--rate", SLOW]))?;
        test.until_stored(volume, 1)?;
        running.kill()?;
        running.wait()?;
        test.has_snapshots(1)?;
        ended(test.backup("lvm", volume, &[]))?
            .expect(0, &[&format!("{volume}@1 (full)"), "removed the snapshot", "which is reused"])?;
        test.has_snapshots(0)?;
    }
    Ok(())
}

fn signal(name: &str, pid: u32) -> Result<()> {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    ensure!(status.success(), "kill: {status}");
    Ok(())
}
