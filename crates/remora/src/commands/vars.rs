//! `remora vars`

mod advise;
mod check;
mod show;
mod side;
mod snapshot;

use clap::{Args, Subcommand};
use failure::usage;
use progress::Progress;
use status::variable::compare;

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora vars 10.11 11.8                             what an upgrade changes; needs no server
  remora vars mysql://root@db1 mysql://root@db2      how two servers differ, and who set it where
  remora vars unix:///run/mysqld/mysqld.sock 11.8    what this server has set, beside defaults
  remora vars old.cnf new.cnf                        two option files: 1 is ON, 64M is 67108864
  remora vars binary:/opt/mariadb/bin/mariadbd 11.8  a server that is not started
  remora vars check /etc/mysql/my.cnf --for 11.8     does it start there, and as it says
  remora vars advise                                 what is dangerous or too small, with reasons
  remora vars snapshot unix:///a.sock > monday.vars  keep it, and compare with it later";

/// Compare the settings of servers, series and option files; check an option file before an upgrade
///
/// A and B are each a series that ships with remora (10.11, 11.4, 11.8, mysql-5.6, mysql-9.7), or a server:
/// mysql://user@host:port, unix:///path, sandbox:NAME, or the word 'server' for the one that the options say.
/// Or they are an option file, a server's program (binary:PATH), a file that 'remora vars snapshot' wrote, or
/// a fresh server (sandbox:SERIES, or sandbox:PATH with the path of a mariadbd or mysqld).
///
/// Values are compared by what they mean: 1 is ON, 64M is 67108864. Names, paths, ports and what a server
/// computed from its machine are left out and counted; --all shows them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// What to compare: a series, a server, an option file, binary:PATH, a snapshot
    #[arg(value_name = "A", required = true)]
    a: Option<String>,

    /// What to compare it with
    #[arg(value_name = "B", required = true)]
    b: Option<String>,

    /// Also show names, paths and ports, and what servers computed from their machine
    #[arg(long)]
    all: bool,

    /// End with exit code 4 if there is a difference
    #[arg(long)]
    exit_code: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(Box<check::Arguments>),
    Advise(Box<advise::Arguments>),
    Snapshot(Box<snapshot::Arguments>),
}

pub(crate) fn run(arguments: Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    match arguments.action {
        Some(Action::Check(arguments)) => check::run(&arguments, password, report),
        Some(Action::Advise(arguments)) => advise::run(&arguments, password, report),
        Some(Action::Snapshot(arguments)) => snapshot::run(&arguments, password, report),
        None => {
            let (Some(a), Some(b)) = (&arguments.a, &arguments.b) else {
                return Err(usage("name two sides to compare; remora vars --help has examples"));
            };
            let (a, b) = side::two(a, b, &arguments.server, password.as_ref())?;
            let found = compare::compare(&a, &b);
            let is_shown = |difference: &&compare::Difference| arguments.all || !difference.is_administrative;
            let shown: Vec<_> = found.iter().filter(is_shown).collect();
            report.end();
            show::show((&a, &b), &shown, found.len() - shown.len(), report)?;
            Ok(if arguments.exit_code && !shown.is_empty() { Exit::Damaged } else { Exit::Done })
        }
    }
}
