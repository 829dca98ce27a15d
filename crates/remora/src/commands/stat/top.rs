//! `remora top`: the screen of `remora stat --live`, by the name that people look for.

use anyhow::Result;
use clap::Args;

use super::options::{HostArgs, RecordingArgs};
use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora top                          the usual server
  remora top mysql://mon@db1 mysql://mon@db2     two of them; tab turns to the other one
  remora top 5                        with a look every five seconds
  remora top mysql://mon@db1 --server-at ssh://db1     with the processors and disks of db1
  remora top --record db1.stat        and keep the samples
  remora top --replay db1.stat        a recording on the same screen";

/// Watch servers on a screen: what runs, who waits for whom, replication, deadlocks
///
/// The same as remora stat --live. Keys end statements and connections, after a question that shows whom and
/// what is rolled back; ? explains them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Seconds between two looks [default: 1], how many intervals to show [default: until ended], and servers
    /// as mysql://user@host:port, unix:///path or sandbox:NAME [default: as the options and option files say]
    #[arg(value_name = "INTERVAL [COUNT] | SERVER")]
    words: Vec<String>,

    #[command(flatten)]
    host: HostArgs,

    #[command(flatten)]
    recording: RecordingArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let Arguments { words, host, recording, server } = arguments;
    super::run(&super::Arguments::live(words, recording, host, server), password, report)
}
