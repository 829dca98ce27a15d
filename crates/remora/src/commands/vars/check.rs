//! `remora vars check`

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use dryrun::fresh::is_choice;
use dryrun::program;
use dryrun::server::{Proof, by_program, by_server};
use humanize::text;
use instance::server_folders::server_folders;
use progress::Progress;
use sandbox::{Installation, ServerChoice};
use serde_json::json;
use server::OptionLine;
use status::variable::Snapshot;
use status::variable::check::{Finding, Verdict, check_with, suffixed};
use status::variable::plugin::{Load, loads};

use super::side;
use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora vars check /etc/mysql/my.cnf --for 11.8
  remora vars check my.cnf --for mysql-5.6
  remora vars check my.cnf --for binary:/opt/mariadb/bin/mariadbd
  remora vars check my.cnf --for mysql://root@db1   the options that this running server knows";

/// Tell whether a server starts with an option file, and which lines mean something else there
///
/// All groups that the server reads are checked, included files too; with --defaults-group-suffix=_b also
/// the group mysqld_b and its like, for a server that is started with the same option. Where the server is
/// on this machine (see 'remora sandbox start --server'), a private one is started with the lines, and what
/// it does is reported. Paths, addresses, data, plugins and large buffers belong to another machine: they
/// are not tried but listed. With binary:PATH the program reads the lines too, and says what it refuses.
///
/// Ends with 0 when the server starts and every line means what it says, is deprecated or is overridden. Ends
/// with 4 when a line stops the server, means something else or does nothing. Else it ends with 3 when it is
/// not known whether the server starts. Then no server was started, a line is for a plugin that is not here,
/// or one that was not tried may stop the server by its value, such as innodb_page_size.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The option file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The server it is for: a series (11.8, mysql-5.6), binary:PATH, a URL or a snapshot
    #[arg(long = "for", value_name = "SERVER")]
    server_for: String,

    /// Start no server
    #[arg(long)]
    no_start: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let mut snapshot = side::whole(&arguments.server_for, &arguments.server, password.as_ref())?;
    if let Some(suffix) = arguments.server.group_suffix() {
        snapshot.add_groups(suffix);
    }
    let lines = side::read_lines(&arguments.file)?;
    let installation = installation(&arguments.server_for, &snapshot);
    let unknown = unknown_plugins(arguments, &mut snapshot, installation.as_ref().ok(), &lines)?;
    let mut checked = check_with(&snapshot, &lines, &unknown);
    let mut by = if snapshot.knows_values() { By::Rules } else { By::None };
    let (mut proof, mut unproven) = (None, None);
    if let Some(path) = arguments.server_for.strip_prefix("binary:") {
        proof = Some(by_program(Path::new(path), &snapshot, &lines, &mut checked)?);
        by = By::Program;
    }
    match installation {
        _ if arguments.no_start => unproven = Some("--no-start was given".to_owned()),
        Ok(installation) => {
            report.phase("starting a server with it", None);
            proof = Some(by_server(&installation, &server_folders()?, &snapshot, &lines, &mut checked)?);
            by = By::Server;
        }
        Err(why) => unproven = Some(why),
    }
    report.end();
    let suffixed = suffixed(&snapshot, &lines);
    if let Some(suffix) = suffixed.values().next() {
        let groups: Vec<String> = suffixed.keys().map(|group| format!("[{group}]")).collect();
        report.note(&format!(
            "{} of servers that are started with a suffix: not checked; --defaults-group-suffix={suffix} does it",
            groups.join(", ")
        ));
    }
    let outcome = Outcome { title: &snapshot.title, findings: &checked.findings, proof, by, unproven };
    outcome.tell(report)?;
    let is_bad = checked.findings.iter().any(|finding| finding.verdict <= Verdict::Ignored);
    Ok(match outcome.starts() {
        Some(false) => Exit::Damaged,
        _ if is_bad => Exit::Damaged,
        None => Exit::Partial,
        Some(true) => Exit::Done,
    })
}

/// Plugins that the file loads and whose options are unknown here. For the others the program is asked, and
/// their options are added to the snapshot.
fn unknown_plugins(
    arguments: &Arguments,
    snapshot: &mut Snapshot,
    installation: Option<&Installation>,
    lines: &[OptionLine],
) -> anyhow::Result<Vec<Load>> {
    let loads = loads(snapshot, lines);
    if let Some(path) = arguments.server_for.strip_prefix("binary:") {
        return program::learn_plugins(&|| Command::new(path), &[], snapshot, loads);
    }
    match installation.filter(|_| !arguments.no_start) {
        Some(installation) => {
            let folder = format!("--plugin-dir={}", installation.plugin_dir.display());
            program::learn_plugins(&|| installation.command(), &[folder], snapshot, loads)
        }
        None => Ok(loads),
    }
}

/// The server that the user names, or else the one of that series on this machine, or why there is none.
fn installation(server_for: &str, snapshot: &Snapshot) -> Result<Installation, String> {
    let places = server_folders().map_err(|error| error.to_string())?;
    let name =
        server_for.strip_prefix("sandbox:").filter(|choice| is_choice(choice)).unwrap_or(snapshot.series());
    let server: ServerChoice = name.parse().map_err(|_| format!("remora has no private server of {name}"))?;
    server.find(&places).map_err(|error| error.to_string())
}

/// What judged the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A private server that was started with them.
    Server,
    /// The server's program, which read them.
    Program,
    /// What is known about the server's options.
    Rules,
    /// Nothing.
    None,
}

/// What is known after the check.
struct Outcome<'a> {
    title: &'a str,
    findings: &'a [Finding],
    proof: Option<Proof>,
    by: By,
    /// Why no server was started.
    unproven: Option<String>,
}

impl Outcome<'_> {
    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// What the server or program said when no line could be blamed.
    fn refused(&self) -> Option<&str> {
        self.proof.as_ref().and_then(|proof| proof.refused.as_deref())
    }

    /// Lines that were not tried and may stop the server.
    fn may_stop(&self) -> &[String] {
        self.proof.as_ref().map_or(&[][..], |proof| &proof.may_stop)
    }

    /// Whether the server starts; `None` if that is not known.
    fn starts(&self) -> Option<bool> {
        if self.count(Verdict::Aborts) > 0 || self.refused().is_some() {
            return Some(false);
        }
        // The rules know most of what a server refuses, but not all.
        let was_read = matches!(self.by, By::Server | By::Program);
        (was_read && self.count(Verdict::Depends) == 0 && self.may_stop().is_empty()).then_some(true)
    }

    fn tell(&self, report: &Report) -> anyhow::Result<()> {
        if report.is_json() {
            return self.tell_programs(report);
        }
        for finding in self.findings {
            let place = format!("{}:{}", text::path(&finding.file), finding.line);
            report.data(&text::plain(&format!(
                "{place}: {}\n    {}: {}",
                finding.text,
                head(finding.verdict),
                finding.why
            )))?;
        }
        if let Some(log) = self.refused() {
            report.data(&text::plain(&format!(
                "The server did not start, and no line could be blamed. It said:\n{log}"
            )))?;
        }
        report.data(&self.verdict())?;
        report.note(&self.how());
        Ok(())
    }

    fn tell_programs(&self, report: &Report) -> anyhow::Result<()> {
        for finding in self.findings {
            report.message(&json!({
                "message_type": "finding", "file": finding.file, "line": finding.line, "text": finding.text,
                "verdict": word(finding.verdict), "why": finding.why,
            }))?;
        }
        let by = match self.by {
            By::Server => Some("server"),
            By::Program => Some("program"),
            By::Rules => Some("rules"),
            By::None => None,
        };
        report.message(&json!({
            "message_type": "summary", "server": self.title, "starts": self.starts(), "judged_by": by,
            "proven": self.by == By::Server, "unproven_because": self.unproven, "server_said": self.refused(),
            "not_tried": self.proof.as_ref().map(|proof| &proof.left_out),
        }))?;
        Ok(())
    }

    fn verdict(&self) -> String {
        let title = self.title;
        match (self.starts(), self.count(Verdict::Aborts)) {
            (Some(true), _) if self.by == By::Program => {
                format!("The program of {title} refuses no line of this file")
            }
            (Some(true), _) => format!("{title} starts with this file"),
            (Some(false), 0) => format!("{title} does NOT start with this file"),
            (Some(false), 1) => format!("{title} does NOT start with this file: one line stops it"),
            (Some(false), aborts) => format!("{title} does NOT start with this file: {aborts} lines stop it"),
            (None, _) if self.by == By::None => {
                format!("No line is known to stop {title}, but the values were NOT judged")
            }
            (None, _) if self.by == By::Rules => {
                format!("No line is known to stop {title}, but no server was started to try them")
            }
            (None, _) if !self.may_stop().is_empty() => {
                let names = self.may_stop().join(", ");
                format!("No line is known to stop {title}, but these were NOT tried: {names}")
            }
            (None, _) => format!("{title} starts with this file if the lines that are NOT CHECKED are right"),
        }
    }

    /// How the verdict came about.
    fn how(&self) -> String {
        let left_out = self.proof.as_ref().map_or(&[][..], |proof| &proof.left_out);
        let but = match left_out {
            [] => String::new(),
            names => format!(
                "; not tried, since they belong to another machine or to a plugin: {}",
                names.join(", ")
            ),
        };
        let why = self.unproven.as_deref().unwrap_or_default();
        match self.by {
            By::Server => format!("seen by starting one with these lines{but}"),
            By::Program => {
                format!("judged by the program, which read these lines; no server was started: {why}{but}")
            }
            By::Rules => format!("not tried on a server: {why}"),
            By::None => format!(
                "this server does not tell which values its options take, and none was started: {why}; give \
                 --for binary:/usr/sbin/mysqld, where that is its program, to let it judge them"
            ),
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Aborts => "aborts",
        Verdict::Differs => "differs",
        Verdict::Ignored => "ignored",
        Verdict::Depends => "depends",
        Verdict::Deprecated => "deprecated",
        Verdict::Overridden => "overridden",
    }
}

fn head(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Aborts => "STOPS THE SERVER",
        Verdict::Differs => "MEANS SOMETHING ELSE",
        Verdict::Ignored => "does nothing",
        Verdict::Depends => "NOT CHECKED",
        Verdict::Deprecated => "deprecated",
        Verdict::Overridden => "overridden",
    }
}
