//! `remora queue`

mod bench;
mod drop;
mod forward;
mod forwarded;
mod list;
mod peek;
mod replay;
mod retry;
mod row;
mod schedules;
mod status;
mod tail;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora queue status                 each queue of the server: what waits, what is owned, how old
  remora queue status --every 1       the same each second, with rates
  remora queue status --live          a screen of it, until q
  remora queue status unix:///a.sock  the queues of this server
  remora queue list shop 'crm.*dead'  the queues of a database and others, with their options
  remora queue peek shop.dead --where 'failed > 5'           look at rows; nothing is taken
  remora queue retry shop.dead --to shop.jobs -n 100         try again what has failed
  remora queue replay shop.jobs --since '2026-01-31 12:00:00'   rows that were ended, once more (KEEP)
  remora queue schedules                 what the server puts into queues by itself, and when it does so next
  remora queue drop shop.jobs --where 'kind = 7' --dry-run   how many rows it would be
  remora queue forward unix:///a.sock shop.jobs unix:///b.sock
      move rows from a queue to one of the same name on another server, each exactly once
  remora queue forward mysql://app@db1 shop.jobs mysql://app@db2 shop.from_db1 --once
      only what waits now
  remora queue forward unix:///a.sock shop.jobs nats://broker orders.new
  remora queue forward nats://broker orders.new unix:///b.sock shop.jobs
      rows become messages of a stream, and messages become rows
  remora queue forward unix:///a.sock shop.jobs kafka://broker orders --key customer
  remora queue forward kafka://broker orders unix:///b.sock shop.jobs
      the same with a topic of Kafka
  remora queue tail shop.jobs                 rows as they come; nothing is taken
  remora queue tail shop.jobs --all --once    what is there now, also rows that somebody owns
  remora queue bench shop --connections 10    how fast a server is, on a scratch table";

/// Inspect the queues of a server (ENGINE=QUEUE), fix them, and relay their rows to other servers and brokers
///
/// A queue is a table with ENGINE=QUEUE, a plugin of the server; see 'remora help queue'.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show what waits and what is owned in every queue
    Status(Box<status::Arguments>),
    /// List queues: what they hold, how old it is, their options
    List(Box<list::Arguments>),
    /// Show the first rows, without taking them
    Peek(Box<peek::Arguments>),
    /// Move rows that failed back to their queue, each exactly once
    Retry(Box<retry::Arguments>),
    /// Give ended rows again, in a queue that keeps them (KEEP)
    Replay(Box<replay::Arguments>),
    /// List schedules: when messages are put into which queue by the server itself
    Schedules(Box<schedules::Arguments>),
    /// End rows without giving them to anybody
    Drop(Box<drop::Arguments>),
    /// Move rows to a queue on another server, or to a broker, or messages from there
    Forward(Box<forward::Arguments>),
    /// Show rows as they come, without taking them
    Tail(Box<tail::Arguments>),
    /// Measure a server: publish and take on a scratch table
    Bench(Box<bench::Arguments>),
}

pub(crate) fn run(arguments: Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    match arguments.action {
        Action::Status(arguments) => status::run(&arguments, password, report),
        Action::List(arguments) => list::run(&arguments, password, report),
        Action::Peek(arguments) => peek::run(&arguments, password, report),
        Action::Retry(arguments) => retry::run(&arguments, password, report),
        Action::Replay(arguments) => replay::run(&arguments, password, report),
        Action::Schedules(arguments) => schedules::run(&arguments, password, report),
        Action::Drop(arguments) => drop::run(&arguments, password, report),
        Action::Forward(arguments) => forward::run(&arguments, password, report),
        Action::Tail(arguments) => tail::run(&arguments, password, report),
        Action::Bench(arguments) => bench::run(&arguments, password, report),
    }
}
