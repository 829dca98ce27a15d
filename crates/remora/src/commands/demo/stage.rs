//! Where the demo plays: its server, its folder, and what it prints.

use std::io::IsTerminal;
use std::iter::once;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use failure::{Failure, usage};
use humanize::shell::quoted;
use instance::plugins;
use instance::server_folders::server_folders;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::{Family, Sandbox, Settings};
use server::{Environment, Overrides, Session, Target};

use super::{Arguments, RunLine};
use crate::commands;
use crate::commands::sandbox::{install, installation};
use crate::exit::Exit;
use crate::overview::wrapped;
use crate::report::Report;

/// What every terminal has.
const WIDTH: usize = 78;

/// How often to look whether we shall stop, while we wait for the reader.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The server of the demo, and the folder in which its commands run.
pub(super) struct Stage {
    /// How many page views there are.
    pub(super) rows: u64,
    /// Whether they are in their table.
    pub(super) is_imported: bool,
    /// Whether there is a backup in `repo`.
    pub(super) is_backed_up: bool,
    pub(super) server: Sandbox,
    /// The address of the server, `sandbox:demo`.
    pub(super) address: String,
    name: String,
    /// The libraries of plugins, whether the server uses them, and why some are missing.
    libraries: Vec<PathBuf>,
    has_plugins: bool,
    missing: String,
    /// Where we were before.
    back: PathBuf,
    stop: Arc<AtomicBool>,
    line: RunLine,
    report: Report,
}

impl Stage {
    /// Starts the server.
    pub(super) fn open(
        arguments: Arguments,
        needs_plugins: bool,
        line: RunLine,
        report: &Report,
    ) -> Result<Stage> {
        let stop = commands::stop_flag(report)?;
        let places = server_folders()?;
        let name = arguments.name;
        if sandbox::list(&places).iter().any(|listed| listed.name == name) {
            return Err(usage(format!(
                "there is a sandbox called {name}: give the demo's another --name, or remora sandbox stop {name} --remove"
            )));
        }
        let installation = installation(arguments.server, &places, report)?;
        let (mut libraries, mut missing) = (Vec::new(), String::new());
        if needs_plugins {
            match plugins::libraries(&installation, false) {
                Ok(found) => (libraries, missing) = (found.found, found.notes.join("; ")),
                Err(error) => missing = error.to_string(),
            }
        }
        let settings = Settings {
            name: Some(name.clone()),
            options: options(installation.product.family()),
            plugins: libraries.clone(),
            remove_at_end: true,
            ..Settings::default()
        };
        let began = Instant::now();
        let server = Sandbox::start(&installation, &places, &settings)?;
        let folder = server.folder().join("demo");
        let stage = Stage {
            rows: arguments.rows,
            is_imported: false,
            is_backed_up: false,
            server,
            address: format!("sandbox:{name}"),
            name,
            libraries,
            has_plugins: false,
            missing,
            back: std::env::current_dir()?,
            stop,
            line,
            report: report.clone(),
        };
        stage.prepare(&folder, began)
    }

    /// Enters the folder, and says where the demo plays.
    fn prepare(self, folder: &Path, began: Instant) -> Result<Stage> {
        // It goes with the sandbox.
        std::fs::create_dir_all(folder)?;
        std::env::set_current_dir(folder)?;
        self.title("A private server")?;
        let (title, version) = (self.server.installation().title(), &self.server.installation().version);
        let seconds = began.elapsed().as_secs_f64();
        self.print(&format!("{title} ({version}), {seconds:.1} s"))?;
        self.say(
            "Lines with $ are commands, run here in a folder of the sandbox; lines with > are SQL. \
             All of it goes at the end.",
        )?;
        Ok(self)
    }

    /// The name of the server's sandbox.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Lets the server use the plugins. Returns why this library is not there, if it is not.
    pub(super) fn without(&mut self, library: &str) -> Result<Option<String>> {
        if !self.libraries.iter().any(|path| path.ends_with(library)) {
            return Ok(Some(self.missing.clone()));
        }
        if !self.has_plugins {
            self.print_command(&format!("remora sandbox stop {}", self.name))?;
            self.print_command(&format!("remora sandbox start {} --plugins", self.name))?;
            install(&mut self.server, &self.libraries)?;
            self.has_plugins = true;
        }
        Ok(None)
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.server.product().family() == Family::MariaDb
    }

    /// Fails if we shall stop.
    pub(super) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Failure::Stopped.into()) } else { Ok(()) }
    }

    fn print(&self, text: &str) -> Result<()> {
        self.check()?;
        if !self.report.is_quiet() {
            self.report.data(text)?;
        }
        Ok(())
    }

    pub(super) fn title(&self, text: &str) -> Result<()> {
        self.print(&format!("\n== {text}"))
    }

    /// Prints prose.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        self.print(&format!("\n{}", wrapped(text, WIDTH).join("\n")))
    }

    /// Prints a command or a statement as it is typed.
    fn show(&self, prompt: &str, words: &str, continued: &str) -> Result<()> {
        let lines = wrapped(words, WIDTH - 4);
        self.print(&format!("\n{prompt} {}", lines.join(&format!("{continued}\n    "))))
    }

    /// Prints a command for what is done by other means.
    pub(super) fn print_command(&self, line: &str) -> Result<()> {
        self.show("$", line, " \\")
    }

    /// Prints a statement that is run by the caller.
    pub(super) fn print_statement(&self, statement: &str) -> Result<()> {
        self.show(">", &format!("{statement};"), "")
    }

    /// Runs a command of remora.
    pub(super) fn remora(&self, words: &[&str]) -> Result<Exit> {
        let line: Vec<String> = once("remora").chain(words.iter().copied()).map(quoted).collect();
        self.print_command(&line.join(" "))?;
        let exit = (self.line)(words, &Report::new(false, self.report.is_quiet()))?;
        self.check()?;
        Ok(exit)
    }

    /// The same, for a command that must end like this.
    pub(super) fn ends(&self, exit: Exit, words: &[&str]) -> Result<()> {
        let ended = self.remora(words)?;
        if ended != exit {
            bail!("remora {} has ended with {}, and not with {}", words[0], ended.code(), exit.code());
        }
        Ok(())
    }

    /// Runs a line of the shell, in which `remora` is this program.
    pub(super) fn shell(&self, line: &str) -> Result<()> {
        self.print_command(line)?;
        let script = format!("remora() {{ \"$REMORA_DEMO\" \"$@\"; }}\n{line}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("REMORA_DEMO", std::env::current_exe()?);
        let output = command.output().context("there is no sh")?;
        self.check()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.trim().is_empty() {
            self.print(said.trim_end())?;
        }
        if !output.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(())
    }

    /// A session on the server.
    pub(super) fn session(&self) -> Result<Session> {
        let overrides = Overrides {
            socket: Some(self.server.socket().to_owned()),
            user: Some("root".to_owned()),
            no_defaults: true,
            ..Overrides::default()
        };
        Ok(Target::resolve(&overrides, &Environment::default())?.connect()?)
    }

    /// Prints a statement, runs it, and prints its rows.
    pub(super) fn sql(&self, statement: &str) -> Result<()> {
        self.print_statement(statement)?;
        let rows = self.session()?.named_rows(statement)?;
        if rows.is_empty() {
            return Ok(());
        }
        let names = rows[0].iter().map(|(name, _)| name.clone()).collect();
        let values = rows.iter().map(|row| row.iter().map(|(_, value)| value.clone()).collect());
        let lines: Vec<Vec<String>> = once(names).chain(values).collect();
        self.print(&aligned(&lines).join("\n"))
    }

    /// The one value of a query, which is not printed.
    pub(super) fn value(&self, query: &str) -> Result<String> {
        Ok(self.session()?.value(query)?.unwrap_or_default())
    }

    /// Says how long it took. On a terminal, keeps the server until the reader has looked around.
    pub(super) fn end(&self, began: Instant) -> Result<()> {
        self.print(&format!("\nThe demo took {:.0} s.", began.elapsed().as_secs_f64()))?;
        let stdin = std::io::stdin();
        if self.report.is_quiet() || !stdin.is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(());
        }
        let folder = std::env::current_dir()?;
        self.say("Its server still runs. To look around, type in another terminal:")?;
        self.print(&format!("\n  cd {}\n  remora sandbox shell {}\n", folder.display(), self.name))?;
        self.print("Enter here ends the server and removes every trace.")?;
        loop {
            self.check()?;
            if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK_AGAIN)).unwrap_or(0) > 0 {
                return Ok(());
            }
        }
    }

    /// Removes the server and the folder.
    pub(super) fn remove(self) -> Result<()> {
        std::env::set_current_dir(&self.back).ok();
        Ok(self.server.remove()?)
    }
}

/// What the server needs so that its log tells what was changed, and by which statement.
fn options(family: Family) -> Vec<String> {
    let own = match family {
        Family::MariaDb => "--binlog-format=ROW",
        Family::MySql => "--binlog-rows-query-log-events=ON",
    };
    // Servers before MySQL 8 don't know the third one.
    let all = ["--log-bin=binlog", "--server-id=1", "--loose-binlog-row-metadata=FULL", own];
    all.map(str::to_owned).to_vec()
}

/// Lines with their cells below each other.
fn aligned(lines: &[Vec<String>]) -> Vec<String> {
    let columns = lines.first().map_or(0, Vec::len);
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let cells = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    lines.iter().map(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_below_each_other() {
        let line = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            aligned(&[line(["host", "hits"]), line(["a.example", "7"])]),
            ["  host       hits", "  a.example  7"]
        );
    }
}
