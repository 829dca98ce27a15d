//! `remora vars snapshot`

use clap::Args;
use sandbox::{Product, Sandbox, Settings};
use status::variable::{Snapshot, deprecations, is_administrative, read_server};

use super::{program, prove, side};
use crate::args::ServerArgs;
use crate::commands::sandbox::places;
use crate::exit::{Exit, usage};
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora vars snapshot > monday.vars              the server that the options and option files say
  remora vars snapshot mysql://root@db1 > db1.vars
  remora vars monday.vars server                  what has changed since
  remora vars snapshot sandbox:mariadb-11.8       how the snapshots that ship are made";

/// Write the settings of a server, a program or a series as text, to compare with later
///
/// The text goes to standard output: a line for each variable. sandbox:SERIES starts a fresh server of that series
/// and asks its program too; that is how the snapshots that ship with remora are made.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A server (mysql://..., unix:///...), binary:PATH, sandbox:SERIES or a series
    /// [default: the server that the options and option files say]
    #[arg(value_name = "SOURCE", default_value = "server", hide_default_value = true)]
    source: String,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let snapshot = side::whole(&arguments.source, &arguments.server, password.as_ref())?;
    report.end();
    report.data(snapshot.write().trim_end())?;
    Ok(Exit::Done)
}

/// A series as its program and a fresh server of it describe it, without anything of this machine.
pub(super) fn fresh(series: &str) -> anyhow::Result<Snapshot> {
    let product: Product = series.parse().map_err(|error| usage(format!("sandbox:{error}")))?;
    let places = places()?;
    let installation = sandbox::find(&places, product)?;
    let mut listed = program::help(installation.command())?;
    let server = Sandbox::start(&installation, &places, &Settings::default())?;
    let mut session = prove::session(&server)?;
    let mut snapshot = read_server(&mut session)?;
    for (name, text) in deprecations(&mut session, &snapshot)? {
        if let Some(variable) = snapshot.variables.get_mut(&name) {
            variable.deprecated = Some(text);
        }
    }
    drop(session);
    drop(server);
    program::probe(&|| installation.command(), &installation.daemon, &mut listed)?;
    snapshot.learn(&listed);
    for (name, variable) in &mut snapshot.variables {
        (variable.value, variable.origin, variable.file) = (None, None, None);
        if is_administrative(name) {
            variable.default = None;
        }
    }
    Ok(snapshot)
}
