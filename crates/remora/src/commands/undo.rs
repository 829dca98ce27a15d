//! `remora undo`

use clap::Args;
use failure::Failure;
use progress::Progress;

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora undo                  after an import with --relax-durability was killed
  remora undo -h db1 -u root   the same on another machine";

/// Put back server settings that a killed run had changed
///
/// `remora import --relax-durability` changes server-wide settings. It writes the old values into the
/// server first and puts them back when it ends. When it was killed, the next import puts them back, or
/// this command does, from any machine. With nothing to put back it does nothing. While an import is running
/// that needs the settings as they are, they stay so, and the exit code is 11.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let mut session = arguments.server.target(password)?.connect()?;
    let done = import::undo(&mut session)?;
    if let Some(connection) = done.needed_by {
        return Err(Failure::Busy(format!(
            "an import is running that has changed settings (connection {connection}); it puts them back when it ends"
        ))
        .into());
    }
    if done.lines.is_empty() {
        report.note("nothing to put back");
    }
    for line in done.lines {
        report.note(&line);
    }
    Ok(Exit::Done)
}
