//! Backups and restores over a real sshd, with a key, on 127.0.0.1.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{Ended, Running, remora, until};

/// An sshd of our own, with user and host keys made for it.
pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    sshd: Child,
}

impl Server {
    pub(crate) fn start() -> Server {
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(key))
                .stdin(Stdio::null())
                .status();
            assert!(made.unwrap().success());
        }
        // sshd changes to this folder, which the package makes at boot.
        std::fs::create_dir_all("/run/sshd").ok();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let path = folder.path().display();
        let configuration = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {path}/host\nAuthorizedKeysFile {path}/user.pub\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        );
        std::fs::write(folder.path().join("sshd_config"), configuration).unwrap();
        let sshd = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(folder.path().join("sshd_config"))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("sshd.log")).unwrap())
            .spawn()
            .unwrap();
        let server = Server { folder, port, sshd };
        until("sshd answers", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        server
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The other machine, which is this one.
    pub(crate) fn machine(&self) -> String {
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        format!("ssh://{user}@127.0.0.1:{}", self.port)
    }

    /// A path on the other machine.
    fn there(&self, name: &str) -> String {
        format!("{}{}", self.machine(), self.path(name).display())
    }

    /// Processes of our program that it brought to the other machine.
    pub(crate) fn helpers(&self) -> Vec<u32> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |number: &u32| {
            let exe = std::fs::read_link(format!("/proc/{number}/exe")).unwrap_or_default();
            exe.to_string_lossy().ends_with("/far (deleted)") && self.is_above(*number)
        };
        numbers.filter(is_ours).collect()
    }

    /// Whether this sshd, or a process that it started, has started a process.
    fn is_above(&self, process: u32) -> bool {
        let mut process = process;
        while process > 1 {
            if process == self.sshd.id() {
                return true;
            }
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
            process = parent.unwrap_or(0);
        }
        false
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = remora(self.folder.path());
        command.args(arguments).stdin(Stdio::null());
        let known = format!("UserKnownHostsFile={}", self.path("known").display());
        let key = format!("IdentityFile={}", self.path("user").display());
        for option in [known.as_str(), &key, "IdentitiesOnly=yes", "StrictHostKeyChecking=accept-new"] {
            command.args(["--ssh-option", option]);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.sshd.kill().ok();
        self.sshd.wait().ok();
    }
}

/// Pages that do not compress, each different.
fn noise(pages: u64, seed: u64) -> Vec<u8> {
    let words =
        (0..pages * 2048).map(|at| (at ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31));
    words.flat_map(|word| word.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()).collect()
}

/// Copies of our program, in the folders that they were started from.
fn left_behind() -> Vec<PathBuf> {
    let places = ["/dev/shm", "/run", "/var/tmp", "/tmp"].map(Path::new);
    let entries = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    let new = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"tmp."));
    new.map(|entry| entry.path().join("far")).filter(|program| program.is_file()).collect()
}

#[test]
fn a_remote_volume_is_backed_up_and_restored() {
    let server = Server::start();
    let mut volume = noise(700, 1);
    std::fs::write(server.path("disk.img"), &volume).unwrap();
    let source = format!("file:{}", server.there("disk.img"));
    let repo = server.path("repo").display().to_string();
    server.run(&["backup", &source, "--to", &repo]).exits(0).says(&["disk.img@1 (full)"]);
    volume[5_000_000] ^= 1;
    std::fs::write(server.path("disk.img"), &volume).unwrap();
    server
        .run(&["backup", &source, "--to", &repo, "--nice"])
        .exits(0)
        .says(&["disk.img@2", " 1 block changed"]);
    // Programs of other tests may be there for a moment; ours must not stay.
    until("nothing is left behind", || left_behind().is_empty());

    let target = server.there("copy.img");
    server.run(&["restore", &repo, "--to", &target]).exits(0);
    assert!(std::fs::read(server.path("copy.img")).unwrap() == volume);
    assert_eq!(std::fs::metadata(server.path("copy.img")).unwrap().permissions().mode() & 0o777, 0o600);
    server.run(&["restore", &repo, "--to", &target]).exits(2).says(&["exists already"]);
    server
        .run(&["restore", &format!("{repo}@1"), "--to", &target, "--delta"])
        .exits(0)
        .says(&["16.4 kB of it written"]);

    server
        .run(&["backup", &format!("{source}x"), "--to", &repo])
        .exits(1)
        .says(&["disk.imgx", "No such file"]);
    server
        .run(&["backup", &format!("block:{}", server.there("disk.img")), "--to", &repo])
        .exits(1)
        .says(&["is no block device"]);
}

#[test]
fn commands_before_and_after_run_where_the_source_is() {
    let server = Server::start();
    std::fs::write(server.path("disk.img"), noise(3, 1)).unwrap();
    let repo = server.path("repo").display().to_string();
    let (disk, snapshot) = (server.path("disk.img"), server.path("snapshot"));
    let before = format!("cp {} {}", disk.display(), snapshot.display());
    let after = format!("rm {}", snapshot.display());
    let source = format!("file:{}", server.there("snapshot"));
    let line = ["backup", &source, "--to", &repo, "--before", &before, "--after", &after];
    server.run(&line).exits(0);
    assert!(!snapshot.exists());
    // The command of --after also runs when reading fails, and its own failure is reported.
    std::fs::remove_file(&disk).unwrap();
    std::fs::write(&snapshot, "left behind").unwrap();
    server.run(&line).exits(1).says(&["cp ", "No such file"]);
    assert!(!snapshot.exists());
    std::fs::write(&disk, noise(3, 2)).unwrap();
    let line = ["backup", &source, "--to", &repo, "--before", &before, "--after", "echo too bad >&2; exit 7"];
    server.run(&line).exits(3).says(&["snapshot@2", "--after failed", "ended with 7: too bad"]);
    let here = format!("file:{}", snapshot.display());
    let line = ["backup", &here, "--to", &repo, "--before", &before, "--after", &after];
    server.run(&line).exits(0).says(&["snapshot@3", " 0 blocks changed"]);
    assert!(!snapshot.exists());
}

#[test]
fn an_unreachable_machine_is_reported_with_the_messages_of_ssh() {
    let server = Server::start();
    let source = format!("file:{}", server.there("x"));
    let other = format!("IdentityFile={}", server.path("nothing").display());
    let mut refused = remora(server.folder.path());
    refused.args([
        "backup",
        &source,
        "--to",
        "repo",
        "--ssh-option",
        &other,
        "--ssh-option",
        "IdentitiesOnly=yes",
    ]);
    refused.args([
        "--ssh-option",
        "StrictHostKeyChecking=no",
        "--ssh-option",
        "UserKnownHostsFile=/dev/null",
    ]);
    Ended::of(&refused.stdin(Stdio::null()).output().unwrap())
        .exits(1)
        .says(&["can't be reached", "Permission denied"]);
    let closed = format!(
        "file:ssh://root@127.0.0.1:{}/x",
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    );
    server.run(&["backup", &closed, "--to", "repo"]).exits(1).says(&["can't be reached", "refused"]);
    server.run(&["backup", "file:ssh://-oProxyCommand=x/y", "--to", "repo"]).exits(2);
}

#[test]
fn a_killed_ssh_is_a_failure_and_the_next_run_continues() {
    let server = Server::start();
    let volume = noise(3000, 1);
    std::fs::write(server.path("disk.img"), &volume).unwrap();
    let source = format!("file:{}", server.there("disk.img"));
    let repo = server.path("repo").display().to_string();
    let after = format!("touch {}", server.path("after").display());
    let mut command = server.command(&["backup", &source, "--to", &repo, "--rate", "4M", "--after", &after]);
    let running = Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let partial = server.path("repo/disk.img/000001.blk.partial");
    until("something is stored", || std::fs::metadata(&partial).is_ok_and(|found| found.len() > 1_000_000));
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    let ssh = std::fs::read_to_string(children).unwrap();
    let killed = Command::new("kill").arg("-9").args(ssh.split_whitespace()).status().unwrap();
    assert!(killed.success());
    running.end().exits(1).says(&["disk.img at byte", "the connection to the other machine"]);
    assert!(partial.exists());
    assert!(server.path("after").exists(), "another connection was made for it");
    server.run(&["backup", &source, "--to", &repo]).exits(0).says(&["which is reused"]);
    let target = server.path("copy.img").display().to_string();
    server.run(&["restore", &repo, "--to", &target]).exits(0);
    assert!(std::fs::read(target).unwrap() == volume);
}
