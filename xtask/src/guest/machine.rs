//! A virtual machine: saved once, and resumed for each test with disks of its own. Nothing of it is left when
//! it is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Part of the recipe of an image: a saved machine can be resumed only with the same hardware.
pub(crate) const ITSELF: &str = include_str!("machine.rs");
/// How long anything may take. It only keeps a broken guest from being waited for.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long to wait between two questions.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What the guest says on its serial line when its servers answer.
const READY: &str = "guest: ready";

/// Ports of 127.0.0.1 that lead into the guest.
pub(crate) struct Ports {
    pub(crate) ssh: u16,
    /// The server whose data are on the volume `thick`, and the one on `thin`.
    pub(crate) thick: u16,
    pub(crate) thin: u16,
}

impl Ports {
    /// Some that nobody uses now.
    fn free() -> Result<Ports> {
        let held: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
        let ports: Vec<u16> = held.iter().map(|held| Ok(held.local_addr()?.port())).collect::<Result<_>>()?;
        let [ssh, thick, thin] = ports[..] else { bail!("three ports") };
        Ok(Ports { ssh, thick, thin })
    }
}

/// A machine that is running. It ends when it is dropped, or when this program ends.
struct Machine {
    qemu: Child,
    monitor: BufReader<UnixStream>,
}

impl Machine {
    /// Starts one whose disks are in `folder`. `incoming`: its saved memory.
    fn start(image: &Path, folder: &Path, ports: &Ports, incoming: Option<&Path>) -> Result<Machine> {
        let shown = |path: PathBuf| path.display().to_string();
        let disk = |name: &str| {
            let path = shown(folder.join(format!("{name}.qcow2")));
            let drive = format!(
                "file={path},if=none,id={name},format=qcow2,cache=unsafe,discard=unmap,detect-zeroes=unmap"
            );
            ["-drive".to_owned(), drive, "-device".to_owned(), format!("virtio-blk-pci,drive={name}")]
        };
        let forward = |from: u16, to: u16| format!(",hostfwd=tcp:127.0.0.1:{from}-:{to}");
        let forwards = [(ports.ssh, 22), (ports.thick, 3306), (ports.thin, 3307)];
        let forwards: String = forwards.iter().map(|(from, to)| forward(*from, *to)).collect();
        // The kernel ends it when we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64", "-accel", "tcg,thread=multi"]);
        command.args(["-machine", "q35", "-cpu", "max", "-smp", "2", "-m", "512"]);
        command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        command.arg("-kernel").arg(image.join("vmlinuz")).arg("-initrd").arg(image.join("initrd"));
        let kernel = "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable random.trust_cpu=on";
        command.args(["-append", kernel]);
        command.arg("-serial").arg(format!("file:{}", shown(folder.join("serial"))));
        command.arg("-qmp").arg(format!("unix:{},server,nowait", shown(folder.join("monitor"))));
        command.args(disk("root")).args(disk("data"));
        // It reaches nothing: it is only reached.
        command.args(["-netdev", &format!("user,id=net,restrict=on{forwards}")]);
        command.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
        if let Some(memory) = incoming {
            command.arg("-incoming").arg(format!("exec:cat {}", quoted(memory)));
        }
        command.stdin(Stdio::null()).stderr(fs::File::create(folder.join("qemu.log"))?);
        let mut qemu = command.spawn().context("setpriv qemu-system-x86_64")?;
        let monitor = until("the monitor of qemu", || {
            if let Some(status) = qemu.try_wait()? {
                bail!("qemu: {status}: {}", fs::read_to_string(folder.join("qemu.log"))?);
            }
            Ok(UnixStream::connect(folder.join("monitor")).ok())
        });
        let mut machine = match monitor {
            Ok(monitor) => Machine { qemu, monitor: BufReader::new(monitor) },
            Err(error) => {
                qemu.kill().ok();
                qemu.wait().ok();
                return Err(error);
            }
        };
        machine.ask("qmp_capabilities", json!({}))?;
        Ok(machine)
    }

    /// A command of the machine protocol, and what it returned.
    fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let line = json!({"execute": command, "arguments": arguments}).to_string();
        self.monitor.get_mut().write_all(format!("{line}\n").as_bytes())?;
        loop {
            let mut line = String::new();
            ensure!(self.monitor.read_line(&mut line)? > 0, "qemu ended at {command}");
            let mut answer: Value = serde_json::from_str(&line)?;
            if let Some(error) = answer.get("error") {
                bail!("qemu: {command}: {error}");
            }
            // Between them are greetings and events.
            if let Some(answer) = answer.get_mut("return") {
                return Ok(answer.take());
            }
        }
    }

    fn until_status(&mut self, command: &str, wanted: &str) -> Result<()> {
        until(wanted, || {
            let status = self.ask(command, json!({}))?;
            ensure!(status["status"] != "failed", "qemu: {status}");
            Ok((status["status"] == wanted).then_some(()))
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.qemu.kill().ok();
        self.qemu.wait().ok();
    }
}

/// Boots the guest for the first time and saves it when everything is ready.
pub(crate) fn save(image: &Path) -> Result<()> {
    overlay(&image.join("root.img"), "raw", &image.join("root.qcow2"))?;
    let mut machine = Machine::start(image, image, &Ports::free()?, None)?;
    until("a guest that is ready", || {
        if let Some(status) = machine.qemu.try_wait()? {
            bail!("the guest ended: {status}: {}", fs::read_to_string(image.join("serial"))?);
        }
        let said = fs::read(image.join("serial"))?;
        Ok(String::from_utf8_lossy(&said).contains(READY).then_some(()))
    })
    .with_context(|| fs::read_to_string(image.join("serial")).unwrap_or_default())?;
    machine.ask("migrate-set-parameters", json!({"max-bandwidth": 10_000_000_000_u64}))?;
    machine.ask("migrate", json!({"uri": format!("exec:cat > {}", quoted(&image.join("memory")))}))?;
    machine.until_status("query-migrate", "completed")?;
    // What of the disks is only in its memory it writes now.
    machine.ask("quit", json!({}))?;
    machine.qemu.wait()?;
    Ok(())
}

/// A guest for one test.
pub(crate) struct Guest {
    /// Goes first.
    #[expect(dead_code, reason = "it is there to be dropped")]
    machine: Machine,
    pub(crate) ports: Ports,
    key: PathBuf,
    known: PathBuf,
    /// Goes last.
    folder: TempDir,
}

impl Guest {
    pub(crate) fn resume(image: &Path) -> Result<Guest> {
        let folder = tempfile::Builder::new().prefix("remora-guest-").tempdir()?;
        for name in ["root.qcow2", "data.qcow2"] {
            overlay(&image.join(name), "qcow2", &folder.path().join(name))?;
        }
        let ports = Ports::free()?;
        let mut machine = Machine::start(image, folder.path(), &ports, Some(&image.join("memory")))?;
        machine.until_status("query-status", "running")?;
        Ok(Guest { machine, ports, key: image.join("key"), known: image.join("known_hosts"), folder })
    }

    /// A folder of this machine, for the test's own files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options for ssh, without which it does not know the guest.
    pub(crate) fn ssh_options(&self) -> [String; 5] {
        [
            format!("IdentityFile={}", self.key.display()),
            format!("UserKnownHostsFile={}", self.known.display()),
            "IdentitiesOnly=yes".to_owned(),
            "HostKeyAlias=guest".to_owned(),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
        ]
    }

    /// Runs a shell command there.
    pub(crate) fn run(&self, command: &str) -> Result<String> {
        let mut ssh = Command::new("ssh");
        for option in self.ssh_options() {
            ssh.arg("-o").arg(option);
        }
        // One connection for all of them. It ends with the guest.
        let path = format!("ControlPath={}", self.path("ssh").display());
        ssh.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "-o", &path]);
        ssh.args(["-o", "LogLevel=ERROR", "-p", &self.ports.ssh.to_string(), "root@127.0.0.1", command]);
        let ran = ssh.stdin(Stdio::null()).stderr(fs::File::create(self.path("ssh.log"))?).output()?;
        let errors = fs::read_to_string(self.path("ssh.log"))?;
        ensure!(ran.status.success(), "in the guest: {command}: {}: {errors}", ran.status);
        Ok(String::from_utf8(ran.stdout)?)
    }

    /// What the guest's kernel said, for a test that failed.
    pub(crate) fn said(&self) -> String {
        fs::read(self.path("serial"))
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .unwrap_or_default()
    }
}

/// A disk that begins as another one, which it leaves as it is.
fn overlay(base: &Path, format: &str, new: &Path) -> Result<()> {
    // A base beside it is found there also when both have moved.
    let base =
        if base.parent() == new.parent() { base.file_name().map(Path::new).unwrap_or(base) } else { base };
    let mut command = Command::new("qemu-img");
    command.args(["create", "-q", "-f", "qcow2", "-F", format, "-b"]).args([base, new]);
    ensure!(command.status()?.success(), "qemu-img made no {}", new.display());
    Ok(())
}

/// For a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Asks until there is an answer, or patience ends.
pub(crate) fn until<T>(what: &str, mut question: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    // Nobody sends; it only leaves the processor to those who are waited for.
    let (_send, never) = mpsc::channel::<()>();
    loop {
        if let Some(answer) = question()? {
            return Ok(answer);
        }
        ensure!(Instant::now() < end, "never came: {what}");
        never.recv_timeout(LOOK_AGAIN).ok();
    }
}
