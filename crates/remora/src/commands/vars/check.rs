//! `remora vars check`

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use progress::Progress;
use sandbox::{Installation, Product};
use serde_json::json;
use server::OptionLine;
use status::variable::Snapshot;
use status::variable::check::{Finding, Verdict, check_with};
use status::variable::plugin::{Load, loads};

use super::prove::{Proof, prove};
use super::{program, side};
use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::places::places;
use crate::report::Report;
use crate::shown;

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
/// are not tried but listed.
///
/// Ends with 0 when the server starts and every line means what it says, is deprecated or is overridden; with
/// 4 when a line stops the server, means something else or does nothing; else with 3 when a line is for a
/// plugin that is not here.
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
    let installation = installation(&snapshot);
    let unknown = unknown_plugins(arguments, &mut snapshot, installation.as_ref().ok(), &lines)?;
    let mut checked = check_with(&snapshot, &lines, &unknown);
    let (mut proof, mut unproven) = (None, None);
    match installation {
        _ if arguments.no_start => unproven = Some("--no-start was given".to_owned()),
        Ok(installation) => {
            report.phase("starting a server with it", None);
            proof = Some(prove(&installation, &places()?, &snapshot, &lines, &mut checked)?);
        }
        Err(why) => unproven = Some(why),
    }
    report.end();
    tell(&snapshot, &checked.findings, proof.as_ref(), unproven.as_deref(), report)?;
    let is_bad = checked.findings.iter().any(|finding| finding.verdict <= Verdict::Ignored)
        || proof.is_some_and(|proof| proof.refused.is_some());
    let depends = checked.findings.iter().any(|finding| finding.verdict == Verdict::Depends);
    Ok(match (is_bad, depends) {
        (true, _) => Exit::Damaged,
        (_, true) => Exit::Partial,
        _ => Exit::Done,
    })
}

/// The plugins that the file loads and whose options nobody here knows. For the others the program is asked,
/// and their options are added to the snapshot.
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

/// The server of that series on this machine, or why there is none.
fn installation(snapshot: &Snapshot) -> Result<Installation, String> {
    let product: Product = snapshot
        .series()
        .parse()
        .map_err(|_| format!("remora has no private server of {}", snapshot.series()))?;
    let places = places().map_err(|error| error.to_string())?;
    sandbox::find(&places, product).map_err(|error| error.to_string())
}

fn tell(
    snapshot: &Snapshot,
    findings: &[Finding],
    proof: Option<&Proof>,
    unproven: Option<&str>,
    report: &Report,
) -> anyhow::Result<()> {
    let aborts = findings.iter().filter(|finding| finding.verdict == Verdict::Aborts).count();
    let depends = findings.iter().filter(|finding| finding.verdict == Verdict::Depends).count();
    let refused = proof.and_then(|proof| proof.refused.as_deref());
    if report.is_json() {
        for finding in findings {
            report.message(&json!({
                "message_type": "finding", "file": finding.file, "line": finding.line, "text": finding.text,
                "verdict": word(finding.verdict), "why": finding.why,
            }))?;
        }
        let starts = match (aborts, refused) {
            (0, None) if depends > 0 => None,
            (0, None) => Some(true),
            _ => Some(false),
        };
        report.message(&json!({
            "message_type": "summary", "server": snapshot.title, "starts": starts,
            "proven": proof.is_some(), "unproven_because": unproven, "server_said": refused,
            "not_tried": proof.map(|proof| &proof.left_out),
        }))?;
        return Ok(());
    }
    for finding in findings {
        let place = format!("{}:{}", shown::path(&finding.file), finding.line);
        report.data(&shown::plain(&format!(
            "{place}: {}\n    {}: {}",
            finding.text,
            head(finding.verdict),
            finding.why
        )))?;
    }
    if let Some(log) = refused {
        report.data(&shown::plain(&format!(
            "The server did not start, and no line could be blamed. It said:\n{log}"
        )))?;
    }
    let verdict = match (aborts, refused) {
        (0, None) if depends > 0 => {
            format!(
                "{} starts with this file if the plugins are there and have these options",
                snapshot.title
            )
        }
        (0, None) => format!("{} starts with this file", snapshot.title),
        (0, Some(_)) => format!("{} does NOT start with this file", snapshot.title),
        (1, _) => format!("{} does NOT start with this file: one line stops it", snapshot.title),
        _ => format!("{} does NOT start with this file: {aborts} lines stop it", snapshot.title),
    };
    report.data(&verdict)?;
    match (proof, unproven) {
        (Some(proof), _) if proof.left_out.is_empty() => report.note("seen by starting one with these lines"),
        (Some(proof), _) => report.note(&format!(
            "seen by starting one with these lines; not tried, since they belong to another machine or to a plugin: {}",
            proof.left_out.join(", ")
        )),
        (None, why) => report.note(&format!("not tried on a server: {}", why.unwrap_or_default())),
    }
    Ok(())
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
