//! `remora demo`

mod backup;
mod import;
mod queue;
mod stage;
mod undo;
mod urls;

use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use failure::usage;
use sandbox::ServerChoice;

use self::stage::Stage;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora demo                           everything, in about a minute
  remora demo --only undo               a wrong DELETE, and two ways back
  remora demo --only import --only urls --rows 2000000
  remora demo --server mysql-9.7        on another server than the installed one";

/// Show in a minute what remora does, on a private server
///
/// Page views are made up and imported, the server is copied while it works, a backup damaged and a wrong
/// DELETE taken back, URLs are packed, and the server is killed under a queue. Every command is printed
/// before it runs, so that you can repeat it. The server and all files are removed at the end, also when the
/// demo is interrupted or killed. Nothing else on this machine is touched.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only this part. May be given several times
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,

    /// How many page views to make up
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    rows: u64,

    /// The server, named as for 'sandbox start', or its path [default: the server that is installed]
    #[arg(long, value_name = "SERVER|PATH")]
    server: Option<ServerChoice>,

    /// The name of its sandbox
    #[arg(long, default_value = "demo")]
    name: String,
}

/// A part of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// A file becomes a table
    Import,
    /// A copy of the running server, damaged on purpose
    Backup,
    /// A wrong DELETE, taken back
    Undo,
    /// The table's URLs in less space
    Urls,
    /// A queue that loses nothing when its server is killed
    Queue,
}

/// How a part ended.
enum Shown {
    /// All of it was shown.
    Whole,
    /// It can't be shown here, for this reason.
    Not(String),
}

/// Runs the words of a command line.
pub(crate) type RunLine = fn(&[&str], &Report) -> Result<Exit>;

pub(crate) fn run(arguments: Arguments, line: RunLine, report: &Report) -> Result<Exit> {
    if report.is_json() {
        return Err(usage("the demo is for people: it has no --json"));
    }
    let wanted = |part: &Part| arguments.only.is_empty() || arguments.only.contains(part);
    let parts: Vec<Part> = Part::value_variants().iter().copied().filter(wanted).collect();
    let needs_plugins = parts.iter().any(|part| matches!(part, Part::Urls | Part::Queue));
    let began = Instant::now();
    let mut stage = Stage::open(arguments, needs_plugins, line, report)?;
    let result = parts.iter().try_fold(Exit::Done, |exit, part| {
        let shown = match part {
            Part::Import => import::show(&mut stage),
            Part::Backup => backup::show(&mut stage),
            Part::Undo => undo::show(&mut stage),
            Part::Urls => urls::show(&mut stage),
            Part::Queue => queue::show(&mut stage),
        }?;
        Ok(match shown {
            Shown::Whole => exit,
            Shown::Not(why) => {
                stage.say(&format!("Left out: {why}."))?;
                exit.and_left_out()
            }
        })
    });
    let result = result.and_then(|exit| {
        stage.end(began)?;
        Ok(exit)
    });
    stage.remove()?;
    result
}
