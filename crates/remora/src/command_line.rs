//! The command line: what all commands share, and the list of commands.

use clap::{ArgAction, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::commands;
use crate::exit::Exit;
use crate::report::Report;

/// Move data into, out of and around MariaDB and MySQL, fast and without losing any.
#[derive(Debug, Parser)]
#[command(name = "remora", version, disable_help_flag = true, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print a summary of the options; --help explains them
    #[arg(short = '?', long, global = true, action = ArgAction::Help, help_heading = "General")]
    help: Option<bool>,

    /// Print lines of JSON to stdout, each with a message_type
    #[arg(long, global = true, help_heading = "General")]
    pub(crate) json: bool,

    /// Print errors only
    #[arg(long, short, global = true, help_heading = "General")]
    pub(crate) quiet: bool,

    /// Say more about what is decided; twice for more
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "General")]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Backup(Box<commands::backup::Arguments>),
    Binlog(Box<commands::binlog::Arguments>),
    Cron(commands::cron::Arguments),
    Diff(Box<commands::diff::Arguments>),
    Dump(Box<commands::dump::Arguments>),
    Extract(Box<commands::extract::Arguments>),
    Import(Box<commands::import::Arguments>),
    #[command(subcommand)]
    Key(commands::key::Action),
    List(commands::list::Arguments),
    Load(Box<commands::load::Arguments>),
    Lock(Box<commands::lock::Arguments>),
    Log(commands::log::Arguments),
    Mirror(commands::mirror::Arguments),
    Mount(commands::mount::Arguments),
    Pack(commands::pack::Arguments),
    #[command(subcommand)]
    Poke(Box<commands::poke::Action>),
    Prune(commands::prune::Arguments),
    Queue(commands::queue::Arguments),
    Rekey(commands::rekey::Arguments),
    Restore(commands::restore::Arguments),
    Reverse(commands::reverse::Arguments),
    Routines(commands::routines::Arguments),
    #[command(subcommand)]
    Sandbox(commands::sandbox::Action),
    Stat(Box<commands::stat::Arguments>),
    Uncache(commands::uncache::Arguments),
    Undo(Box<commands::undo::Arguments>),
    Unpack(commands::pack::UnpackArguments),
    #[command(subcommand)]
    Url(commands::url::Action),
    Vars(Box<commands::vars::Arguments>),
    Verify(commands::verify::Arguments),
}

/// Runs a command.
pub(crate) fn run(command: Command, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    match command {
        Command::Backup(arguments) => commands::backup::run(&arguments, password, report),
        Command::Binlog(arguments) => commands::binlog::run(&arguments, password, report),
        Command::Cron(arguments) => commands::cron::run(&arguments, report),
        Command::Diff(arguments) => commands::diff::run(&arguments, password, report),
        Command::Dump(arguments) => commands::dump::run(&arguments, password, report),
        Command::Extract(arguments) => commands::extract::run(&arguments, report),
        Command::Import(arguments) => commands::import::run(*arguments, password, report),
        Command::Key(action) => commands::key::run(&action, report),
        Command::List(arguments) => commands::list::run(&arguments, report),
        Command::Load(arguments) => commands::load::run(&arguments, password, report),
        Command::Lock(arguments) => commands::lock::run(&arguments, password, report),
        Command::Log(arguments) => commands::log::run(&arguments, report),
        Command::Mirror(arguments) => commands::mirror::run(&arguments, report),
        Command::Mount(arguments) => commands::mount::run(&arguments, report),
        Command::Pack(arguments) => commands::pack::run(&arguments, report),
        Command::Poke(action) => commands::poke::run(&action, password, report),
        Command::Prune(arguments) => commands::prune::run(&arguments, report),
        Command::Queue(arguments) => commands::queue::run(arguments, password, report),
        Command::Rekey(arguments) => commands::rekey::run(&arguments, report),
        Command::Restore(arguments) => commands::restore::run(&arguments, report),
        Command::Reverse(arguments) => commands::reverse::run(&arguments, report),
        Command::Routines(arguments) => commands::routines::run(arguments, password, report),
        Command::Sandbox(action) => commands::sandbox::run(action, report),
        Command::Stat(arguments) => commands::stat::run(&arguments, password, report),
        Command::Uncache(arguments) => commands::uncache::run(&arguments, report),
        Command::Undo(arguments) => commands::undo::run(&arguments, password, report),
        Command::Unpack(arguments) => commands::pack::unpack(&arguments, report),
        Command::Url(action) => commands::url::run(action, report),
        Command::Vars(arguments) => commands::vars::run(*arguments, password, report),
        Command::Verify(arguments) => commands::verify::run(&arguments, report),
    }
}

/// Adds the exit codes to the end of every command's help.
pub(crate) fn with_exit_status(command: clap::Command) -> clap::Command {
    let lines: String =
        Exit::ALL.iter().map(|exit| format!("  {:>3}  {}\n", exit.code(), exit.meaning())).collect();
    let status = format!("EXIT STATUS\n{lines}");
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.after_help(status.clone()), |command, name| {
        command.mut_subcommand(name, |sub| {
            let examples = sub.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
            sub.after_help(format!("{examples}{status}"))
        })
    })
}

/// Diagnostics go to stderr, at the level given by `-v`.
pub(crate) fn log(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).without_time().init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        with_exit_status(Cli::command()).debug_assert();
    }

    #[test]
    fn every_command_tells_its_exit_status() {
        let mut command = with_exit_status(Cli::command());
        command.build();
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("EXIT STATUS"), "{}", sub.get_name());
        }
    }
}
