//! A size of a series: a folder, and a server if it needs one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};
use tempfile::TempDir;

use super::super::measure::{as_f64, processor_s, timed};
use super::point::Point;
use crate::places;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// A shell line. It finds `$REMORA`, `$SQL` (a client), `$LOGIN` (the server's options for remora),
    /// `$URL`, `$SOCKET`, `$DATA` and `$SIZE`.
    Line(&'static str),
    /// The server is killed and started again, until the shell line has its answer; the memory is that of the
    /// server afterwards.
    Restart(&'static str),
}

pub(super) struct Stage {
    remora: PathBuf,
    size: u64,
    /// Removed after the server has stopped.
    server: Option<Sandbox>,
    folder: TempDir,
    /// GNU time's report is not in the folder whose growth is measured.
    report: TempDir,
}

impl Stage {
    /// Starts a server with these options, if there are any, and this engine of queues, if there is one.
    pub(super) fn start(
        remora: &Path,
        server: Option<&[&str]>,
        engine: Option<&Path>,
        size: u64,
    ) -> Result<Stage> {
        let folder = tempfile::Builder::new().prefix("remora-scale-").tempdir_in("/var/tmp")?;
        let places = places()?;
        let server = server.map(|options| {
            let settings = Settings {
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                plugins: engine.map(Path::to_owned).into_iter().collect(),
                ..Settings::default()
            };
            Sandbox::start(&sandbox::find(&places, Product::MariaDb1011)?, &places, &settings)
        });
        let server = server.transpose()?;
        let stage = Stage { remora: remora.to_owned(), size, server, folder, report: tempfile::tempdir()? };
        if engine.is_some() {
            stage.shell(&format!("$SQL < '{}'", crate::root().join("sql/queue.sql").display()))?;
        }
        Ok(stage)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs statements, or the definition of one procedure.
    pub(super) fn sql(&self, statements: &str) -> Result<()> {
        let mut client = self.command("mariadb")?;
        client.args(["--no-defaults", "-uroot"]).arg("-S").arg(self.socket()?);
        if statements.starts_with("CREATE PROCEDURE") {
            client.arg("--delimiter=//");
        }
        finished(client.args(["-e", statements]))
    }

    /// Runs a shell line.
    pub(super) fn shell(&self, line: &str) -> Result<()> {
        finished(self.command("bash")?.args(["-o", "pipefail", "-c", line]))
    }

    /// Runs a shell line, and then what is measured.
    pub(super) fn run(&mut self, before: &str, action: Action) -> Result<Point> {
        self.shell(before)?;
        self.settle()?;
        let at_first = grown(self.folder())?;
        let mut point = match action {
            Action::Line(line) => self.line(line)?,
            Action::Restart(line) => self.restart(line)?,
        };
        let after = grown(self.folder())?;
        point.size = self.size;
        point.megabytes = as_f64(after.0.saturating_sub(at_first.0)) / 1e6;
        point.files = as_f64(after.1.saturating_sub(at_first.1));
        Ok(point)
    }

    fn line(&self, line: &str) -> Result<Point> {
        let server = || self.server.as_ref().map_or(Ok(0.0), |server| processor_s(server.pid()));
        let before = server()?;
        let timed = timed(self.command("/usr/bin/time")?, line, &self.report.path().join("time"))?;
        Ok(Point {
            wall_s: timed.wall_s,
            processor_s: timed.processor_s,
            server_s: server()? - before,
            memory_mb: timed.memory_mb,
            ..Point::default()
        })
    }

    fn restart(&mut self, line: &str) -> Result<Point> {
        let server = self.server.as_mut().context("no server")?;
        server.kill()?;
        let began = Instant::now();
        server.restart()?;
        self.shell(line)?;
        let wall_s = began.elapsed().as_secs_f64();
        let server = self.server.as_ref().context("no server")?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|text| text.trim().strip_suffix(" kB")).context("no VmRSS")?;
        let (server_s, memory_mb) = (processor_s(server.pid())?, memory.parse::<f64>()? * 1024.0 / 1e6);
        Ok(Point { wall_s, server_s, memory_mb, ..Point::default() })
    }

    /// Waits for what the step before has left to the server and to the disk.
    fn settle(&self) -> Result<()> {
        if self.server.is_some() {
            self.sql("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
        }
        finished(Command::new("sync").arg("-f").arg(self.folder()))
    }

    fn socket(&self) -> Result<&Path> {
        Ok(self.server.as_ref().context("no server")?.socket())
    }

    /// A program in the folder, with what the shell lines of series use.
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(program);
        command.current_dir(self.folder()).stdin(Stdio::null());
        command.env("REMORA", &self.remora).env("SIZE", self.size.to_string());
        if let Some(server) = &self.server {
            let socket = server.socket().display();
            let login = format!("--no-defaults -uroot -S {socket}");
            command.env("SQL", format!("mariadb {login}")).env("LOGIN", login);
            command.env("URL", format!("unix://root@{socket}"));
            command.env("SOCKET", server.socket()).env("DATA", server.data());
        }
        Ok(command)
    }
}

fn finished(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| crate::shown(command))?;
    if !output.status.success() {
        bail!("{}: {}", crate::shown(command), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The bytes on the disk and the number of the files below a folder.
fn grown(folder: &Path) -> Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    let (mut bytes, mut files) = (0, 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let below = grown(&entry.path())?;
            (bytes, files) = (bytes + below.0, files + below.1);
        } else {
            (bytes, files) = (bytes + metadata.blocks() * 512, files + 1);
        }
    }
    Ok((bytes, files))
}
