//! `remora vars snapshot`

use std::path::Path;
use std::process::Command;

use clap::Args;
use dryrun::fresh::{fresh, is_choice};
use dryrun::program;
use progress::Progress;
use serde_json::json;

use super::side;
use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora vars snapshot > monday.vars              the server that the options and option files say
  remora vars snapshot mysql://root@db1 > db1.vars
  remora vars monday.vars server                  what has changed since
  remora vars snapshot sandbox:mariadb-11.8       how the snapshots that ship are made";

/// Write the settings of a server, a program or a series as text, to compare with later
///
/// The text goes to standard output: a line for each variable. sandbox:SERIES starts a fresh server of that
/// series and asks its program too; that is how the snapshots that ship with remora are made.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A server (mysql://..., unix:///..., sandbox:NAME), binary:PATH, sandbox:SERIES or a series
    /// [default: the server that the options and option files say]
    #[arg(value_name = "SOURCE", default_value = "server", hide_default_value = true)]
    source: String,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let series = arguments.source.strip_prefix("sandbox:").filter(|choice| is_choice(choice));
    let snapshot = match (series, arguments.source.strip_prefix("binary:")) {
        (Some(series), _) => {
            report.phase("asking for former options", None);
            fresh(series, true)?
        }
        (_, Some(path)) => {
            report.phase("asking for former options", None);
            let path = Path::new(path);
            let mut snapshot = program::read(path)?;
            program::probe(&|| Command::new(path), path, &mut snapshot)?;
            snapshot
        }
        _ => side::whole(&arguments.source, &arguments.server, password.as_ref())?,
    };
    report.end();
    let text = snapshot.write();
    if report.is_json() {
        report.message(&json!({"message_type": "snapshot", "text": text}))?;
    } else {
        report.data(text.trim_end())?;
    }
    Ok(Exit::Done)
}
