//! What is tried in the guest.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::guest::machine::{Guest, until};

type Scenario = fn(&mut Guest, &Path) -> Result<()>;

/// All of them; each gets a guest of its own.
pub(crate) const ALL: [(&str, Scenario); 1] = [("overflow", overflow)];

/// How a run of remora ended.
struct Ended {
    code: Option<i32>,
    said: String,
}

impl Ended {
    /// Fails unless the exit code is this one and stderr holds every one of these.
    fn expect(&self, code: i32, words: &[&str]) -> Result<()> {
        ensure!(self.code == Some(code), "exit code {:?} and not {code}: {}", self.code, self.said);
        for word in words {
            ensure!(self.said.contains(word), "no {word:?} in: {}", self.said);
        }
        Ok(())
    }
}

/// `remora` with these arguments, in the folder of the test.
fn remora(guest: &Guest, remora: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(remora);
    command.current_dir(guest.path("")).stdin(Stdio::null()).args(arguments);
    command
}

/// A backup of a volume there into `repo`.
fn backup(guest: &Guest, program: &Path, volume: &str, more: &[&str]) -> Command {
    let source = format!("lvm:ssh://root@127.0.0.1:{}/dev/vg0/{volume}", guest.ports.ssh);
    let mut command = remora(guest, program, &["backup", &source, "--to", "repo"]);
    for option in guest.ssh_options() {
        command.args(["--ssh-option", &option]);
    }
    command.args(more);
    command
}

fn ended(mut command: Command) -> Result<Ended> {
    let output = command.output().context("remora")?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(Ended { code: output.status.code(), said })
}

/// Starts it; what it says goes to a file.
fn started(guest: &Guest, mut command: Command) -> Result<Child> {
    let said = std::fs::File::create(guest.path("said"))?;
    Ok(command.stdout(Stdio::null()).stderr(said).spawn()?)
}

fn end_of(guest: &Guest, mut child: Child) -> Result<Ended> {
    let status = child.wait()?;
    Ok(Ended { code: status.code(), said: std::fs::read_to_string(guest.path("said"))? })
}

/// Snapshots of ours that are there.
fn snapshots(guest: &Guest) -> Result<Vec<String>> {
    let listed = guest.run("lvs --noheadings -o lv_name @remora")?;
    Ok(listed.split_whitespace().map(str::to_owned).collect())
}

fn none_is_left(guest: &Guest) -> Result<()> {
    let left = snapshots(guest)?;
    ensure!(left.is_empty(), "snapshots are left: {left:?}");
    Ok(())
}

/// Waits until a backup has stored something.
fn until_stored(guest: &Guest, volume: &str, generation: u32) -> Result<()> {
    let partial = guest.path(&format!("repo/{volume}/{generation:06}.blk.partial"));
    until("a part of a backup", || {
        Ok(partial.metadata().is_ok_and(|found| found.len() > 100_000).then_some(()))
    })
}

/// More is written to a volume than its snapshot has room for.
fn overflow(guest: &mut Guest, program: &Path) -> Result<()> {
    guest.run("dd if=/dev/urandom of=/dev/vg0/small bs=1M count=32 conv=fsync")?;
    ended(backup(guest, program, "small", &[]))?.expect(0, &["small@1 (full)", "room for"])?;
    none_is_left(guest)?;
    guest.run("dd if=/dev/urandom of=/dev/vg0/small bs=1M count=32 conv=fsync")?;
    let slow = backup(guest, program, "small", &["--snapshot-size", "4M", "--rate", "2M"]);
    let running = started(guest, slow)?;
    until_stored(guest, "small", 2)?;
    guest.run("dd if=/dev/urandom of=/dev/vg0/small bs=1M count=32 conv=fsync")?;
    end_of(guest, running)?.expect(1, &["vg0/small", "--snapshot-size"])?;
    none_is_left(guest)?;
    let listed = ended(remora(guest, program, &["list", "repo"]))?;
    ensure!(listed.said.contains("small@1") && !listed.said.contains("small@2"), "{}", listed.said);
    ended(remora(guest, program, &["verify", "repo"]))?.expect(0, &["all sound"])?;
    ended(backup(guest, program, "small", &[]))?.expect(0, &["small@2 (changes to 1)"])
}
