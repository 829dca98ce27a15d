//! Servers beside ours, each as durable: what is confirmed is on the disk.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a server may take to start.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What is done with messages.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) name: &'static str,
    /// Messages are taken and ended, not published.
    pub(super) takes: bool,
    /// How many at a time.
    pub(super) batch: u64,
}

pub(super) const WORKS: [Work; 4] = [
    Work { name: "publish", takes: false, batch: 1 },
    Work { name: "publish 100 at a time", takes: false, batch: 100 },
    Work { name: "take and ack", takes: true, batch: 1 },
    Work { name: "take and ack 100 at a time", takes: true, batch: 100 },
];

/// Something that queues messages.
pub(super) trait Peer {
    /// Its name, with its version.
    fn name(&self) -> String;

    /// Messages per second.
    fn rate(&self, work: Work, connections: u32) -> Result<f64>;
}

/// A server that ends with this process, also when that is killed.
pub(super) struct Daemon {
    shell: Child,
}

impl Daemon {
    /// Runs a command, whose output goes to a file, in a group of processes of its own.
    pub(super) fn start(command: &Command, log: &Path) -> Result<Daemon> {
        let script =
            "setsid \"$@\" & daemon=$!; read signal; kill -s \"${signal:-TERM}\" -- -$daemon; wait $daemon";
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        shell.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        Ok(Daemon { shell: shell.spawn()? })
    }

    /// Ends it and its children at once.
    pub(super) fn kill(mut self) -> Result<()> {
        let stdin = self.shell.stdin.as_mut().context("it has an input")?;
        Ok(stdin.write_all(b"KILL\n")?)
    }

    /// The process that started it.
    pub(super) fn pid(&self) -> u32 {
        self.shell.id()
    }

    /// Waits until it is there.
    pub(super) fn until(&mut self, is_there: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_there() {
            if Instant::now() > end || self.shell.try_wait()?.is_some() {
                bail!("it did not start");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The end of its input ends it. There is nobody to tell that this failed.
        drop(self.shell.stdin.take());
        self.shell.wait().ok();
    }
}

/// A port of 127.0.0.1 that nobody uses.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Whether somebody listens.
pub(super) fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// The output of a command.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let line = crate::shown(command);
    let output = command.output().with_context(|| line.clone())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

/// The number before a word, as in `12,345 msgs/sec`.
pub(super) fn number_before(text: &str, word: &str) -> Result<f64> {
    let before = text.split(word).next().filter(|before| before.len() < text.len());
    let number = before.and_then(|before| before.split_whitespace().next_back());
    let number = number.and_then(|number| number.replace(',', "").parse().ok());
    number.with_context(|| format!("no number of {word} in: {text}"))
}
