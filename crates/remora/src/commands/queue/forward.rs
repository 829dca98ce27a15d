//! `remora queue forward`

use anyhow::Result;
use clap::Args;

use super::relay::{Route, Rows};
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::Exit;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server with the rows: mysql://user@host:port or unix:///path
    #[arg(value_name = "FROM")]
    from: String,

    /// The queue there: db.table
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The server that gets the rows
    #[arg(value_name = "TO")]
    to: String,

    /// The queue there, with columns of the same names [default: as on the source]
    #[arg(value_name = "QUEUE")]
    into: Option<String>,

    /// End when nothing waits any more, instead of waiting for more rows
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let from = arguments.server.at(&arguments.from).target(password.clone())?;
    let to = arguments.server.at(&arguments.to).target(password)?;
    let queue = table_name("QUEUE", &arguments.queue, &from)?;
    let into = match &arguments.into {
        Some(into) => table_name("QUEUE", into, &to)?,
        None => queue.clone(),
    };
    let rows = Rows { once: arguments.once, ..Rows::default() };
    let route = Route { from, to, queue, into, rows, stop: stop_flag(report)? };
    route.run_and_tell("forwarded", report)
}
