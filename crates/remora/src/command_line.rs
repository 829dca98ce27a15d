//! The command line: what all commands share, and the list of commands.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, CommandFactory, Parser, Subcommand};
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

    /// Explain what is decided; twice for more detail
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "General")]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Backup(Box<commands::backup::Arguments>),
    Binlog(Box<commands::binlog::Arguments>),
    Blockers(Box<commands::blockers::Arguments>),
    Copy(Box<commands::copy::Arguments>),
    Cron(commands::cron::Arguments),
    Demo(commands::demo::Arguments),
    Diff(Box<commands::diff::Arguments>),
    Doctor(Box<commands::doctor::Arguments>),
    Dump(Box<commands::dump::Arguments>),
    Extract(Box<commands::extract::Arguments>),
    Import(Box<commands::import::Arguments>),
    #[command(subcommand)]
    Key(commands::key::Action),
    Kill(Box<commands::kill::Arguments>),
    List(commands::list::Arguments),
    Load(Box<commands::load::Arguments>),
    Lock(Box<commands::lock::Arguments>),
    Log(commands::log::Arguments),
    #[command(hide = true)]
    Man(crate::man::Arguments),
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
    Setup(Box<commands::setup::Arguments>),
    Stat(Box<commands::stat::Arguments>),
    Top(Box<commands::stat::top::Arguments>),
    Uncache(commands::uncache::Arguments),
    Undo(Box<commands::undo::Arguments>),
    Unpack(commands::pack::UnpackArguments),
    #[command(subcommand)]
    Url(commands::url::Action),
    Vars(Box<commands::vars::Arguments>),
    Verify(commands::verify::Arguments),
    Web(Box<commands::web::Arguments>),
}

/// Runs a command.
pub(crate) fn run(command: Command, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    match command {
        Command::Backup(arguments) => commands::backup::run(&arguments, password, report),
        Command::Binlog(arguments) => commands::binlog::run(&arguments, password, report),
        Command::Blockers(arguments) => commands::blockers::run(&arguments, password, report),
        Command::Copy(arguments) => commands::copy::run(&arguments, password, report),
        Command::Cron(arguments) => commands::cron::run(&arguments, report),
        Command::Demo(arguments) => commands::demo::run(arguments, line, report),
        Command::Diff(arguments) => commands::diff::run(&arguments, password, report),
        Command::Doctor(arguments) => commands::doctor::run(&arguments, password, report),
        Command::Dump(arguments) => commands::dump::run(&arguments, password, report),
        Command::Extract(arguments) => commands::extract::run(&arguments, report),
        Command::Import(arguments) => commands::import::run(*arguments, password, report),
        Command::Key(action) => commands::key::run(&action, report),
        Command::Kill(arguments) => commands::kill::run(&arguments, password, report),
        Command::List(arguments) => commands::list::run(&arguments, report),
        Command::Load(arguments) => commands::load::run(&arguments, password, report),
        Command::Lock(arguments) => commands::lock::run(&arguments, password, report),
        Command::Log(arguments) => commands::log::run(&arguments, report),
        Command::Man(arguments) => crate::man::run(&arguments, with_exit_status(Cli::command()), report),
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
        Command::Setup(arguments) => commands::setup::run(*arguments, password, report),
        Command::Stat(arguments) => commands::stat::run(&arguments, password, report),
        Command::Top(arguments) => commands::stat::top::run(*arguments, password, report),
        Command::Uncache(arguments) => commands::uncache::run(&arguments, report),
        Command::Undo(arguments) => commands::undo::run(&arguments, password, report),
        Command::Unpack(arguments) => commands::pack::unpack(&arguments, report),
        Command::Url(action) => commands::url::run(action, report),
        Command::Vars(arguments) => commands::vars::run(*arguments, password, report),
        Command::Verify(arguments) => commands::verify::run(&arguments, report),
        Command::Web(arguments) => commands::web::run(&arguments, password, report),
    }
}

/// Runs a command line, without the program's name, as if it were typed.
fn line(words: &[&str], report: &Report) -> anyhow::Result<Exit> {
    let cli = Cli::try_parse_from(std::iter::once(&"remora").chain(words))?;
    run(cli.command, None, report)
}

/// How to report what is wrong with a command line that can't be read otherwise.
pub(crate) fn report_of(words: &[OsString]) -> Report {
    let mut options = words.iter().skip(1).take_while(|word| *word != "--");
    Report::new(options.any(|word| word == "--json"), false)
}

/// What is wrong with a command line, without what clap says to people about its help.
pub(crate) fn reason(usage: &clap::Error) -> String {
    let text = usage.render().to_string();
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    let text = &text[..end.unwrap_or(text.len())];
    text.strip_prefix("error: ").unwrap_or(text).trim().to_owned()
}

/// What was typed, understood.
///
/// # Errors
/// A wrong command line; an address of an object store where only a path of this machine can be.
pub(crate) fn matches(mut command: clap::Command, words: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    let found = command.try_get_matches_from_mut(words)?;
    no_stores(&command, &found)?;
    Ok(found)
}

/// An argument takes an address of an object store if its help says so.
fn no_stores(command: &clap::Command, found: &ArgMatches) -> Result<(), clap::Error> {
    for argument in command.get_arguments().filter(|argument| is_path(argument) && !says_s3(argument)) {
        let values = found.try_get_raw(argument.get_id().as_str()).ok().flatten();
        let mut values = values.into_iter().flatten();
        if let Some(value) = values.find(|value| value.as_encoded_bytes().starts_with(b"s3://")) {
            let text = format!(
                "'{}' is in an object store; '{argument}' takes a path on this machine\n",
                value.display()
            );
            return Err(clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command));
        }
    }
    match found.subcommand() {
        Some((name, below)) => command.find_subcommand(name).map_or(Ok(()), |sub| no_stores(sub, below)),
        None => Ok(()),
    }
}

/// Whether the value of an argument is a path, by its type or by its name.
fn is_path(argument: &clap::Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    argument.get_value_parser().type_id() == TypeId::of::<PathBuf>()
        || names.iter().any(|name| ["FILE", "PATH"].contains(&name.as_str()))
}

fn says_s3(argument: &clap::Arg) -> bool {
    [argument.get_help(), argument.get_long_help()]
        .into_iter()
        .flatten()
        .any(|help| help.to_string().contains("s3://"))
}

/// Adds exit codes to the end of every command's help, and examples to the help of subcommands.
pub(crate) fn with_exit_status(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.after_help(status(&Exit::ALL)), |command, name| {
        let status = status(&Exit::of_command(&name));
        command.mut_subcommand(&name, |sub| completed(sub, &format!("remora {name}"), "", &status))
    })
}

fn status(exits: &[Exit]) -> String {
    let line = |exit: &Exit| match exit {
        Exit::Command(_) => format!("  or {}\n", exit.meaning()),
        exit => format!("  {:>3}  {}\n", exit.code(), exit.meaning()),
    };
    format!("EXIT STATUS\n{}", exits.iter().map(line).collect::<String>())
}

/// A command and its subcommands. A subcommand without examples of its own gets those of its parent that are
/// about it.
fn completed(command: clap::Command, path: &str, above: &str, status: &str) -> clap::Command {
    let own = command.get_after_help().map(ToString::to_string);
    let examples = own.unwrap_or_else(|| examples(path, above));
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |sub| completed(sub, &path, &examples, status))
    });
    command.after_help(format!("{examples}\n\n{status}").trim_start().to_owned())
}

/// The examples of a subcommand among those of its parent. An example begins with two spaces, and its further
/// lines with more.
fn examples(path: &str, above: &str) -> String {
    let is_of = |line: &str| {
        let rest = line.trim_start().strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let mut is_its = false;
    let lines = above.lines().filter(|line| {
        if !line.starts_with("   ") {
            is_its = is_of(line);
        }
        is_its
    });
    let lines: Vec<&str> = lines.collect();
    if lines.is_empty() { String::new() } else { format!("EXAMPLES\n{}", lines.join("\n")) }
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        with_exit_status(Cli::command()).debug_assert();
    }

    fn is_shown(command: &clap::Command) -> bool {
        command.get_name() != "help" && !command.is_hide_set()
    }

    fn check(command: &clap::Command, path: &str) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("EXIT STATUS"), "{path}: {help}");
        assert!(help.contains(&format!("  {path}")) && help.contains("EXAMPLES"), "{path}: {help}");
        for sub in command.get_subcommands().filter(|sub| is_shown(sub)) {
            check(sub, &format!("{path} {}", sub.get_name()));
        }
    }

    #[test]
    fn every_command_has_examples_and_tells_its_exit_status() {
        let mut command = with_exit_status(Cli::command());
        command.build();
        for sub in command.get_subcommands().filter(|sub| is_shown(sub)) {
            check(sub, &format!("remora {}", sub.get_name()));
        }
    }

    /// The paths of the commands that take a server, without the program's name.
    fn of_servers(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        let has_actions = command.get_subcommands().any(is_shown);
        if command.get_arguments().any(|argument| argument.get_long() == Some("url"))
            && !(has_actions && command.is_subcommand_required_set())
        {
            found.insert(path.to_owned());
        }
        for sub in command.get_subcommands().filter(|sub| is_shown(sub)) {
            of_servers(sub, format!("{path} {}", sub.get_name()).trim(), found);
        }
    }

    /// Each is run against a sandbox by the tests of the program.
    #[test]
    fn each_command_that_takes_a_server_has_its_line() {
        let mut command = Cli::command();
        command.build();
        let mut known = BTreeSet::new();
        of_servers(&command, "", &mut known);
        let lines = include_str!("../tests/main/places/commands.txt").lines();
        let tried = lines.filter(|line| !line.starts_with('#')).map(|line| {
            let line = line.replace("SANDBOX", "sandbox:default");
            let words = ["remora"].into_iter().chain(line.split(' '));
            let found =
                Cli::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            let (mut path, mut at) = (Vec::new(), &found);
            while let Some((name, below)) = at.subcommand() {
                path.push(name.to_owned());
                at = below;
            }
            path.join(" ")
        });
        assert_eq!(tried.collect::<BTreeSet<_>>(), known);
    }

    fn leaves(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        if !command.is_subcommand_required_set() {
            found.insert(path.to_owned());
        }
        for action in command.get_subcommands().filter(|sub| is_shown(sub)) {
            leaves(action, format!("{path}-{}", action.get_name()).trim_start_matches('-'), found);
        }
    }

    #[test]
    fn each_command_has_a_schema_of_its_json() {
        let mut known: BTreeSet<String> = BTreeSet::from(["any-command".to_owned()]);
        leaves(&Cli::command(), "", &mut known);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
        assert_eq!(files.collect::<BTreeSet<_>>(), known);
    }

    #[test]
    fn a_path_is_not_an_address_of_a_store() {
        let refused = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            matches(Cli::command(), words).err().map(|error| reason(&error))
        };
        for line in [
            "remora restore repo/a --to s3://b/x",
            "remora pack -o s3://b/x file",
            "remora key new s3://b/k",
            "remora stat 1 --record s3://b/r",
            "remora mount s3://b/p s3://b/m",
            "remora lock --position s3://b/x -- true",
        ] {
            let why = refused(line).unwrap_or_else(|| panic!("{line} is taken"));
            assert!(why.contains("takes a path on this machine"), "{line}: {why}");
        }
        for line in [
            "remora mount s3://b/p m",
            "remora dump -o s3://b/x",
            "remora dump --check s3://b/x",
            "remora import s3://b/x.csv --into a.b",
            "remora extract s3://b/p/n -o s3://b/x --format parquet",
            "remora log s3://b/p/n --to s3://b/x --format jsonl --after s3://b/d",
            "remora cron --log l -- echo s3://b/x",
            "remora backup file:a --to s3://b/p",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_is_told_what_is_wrong_and_not_how_to_get_help() {
        let told = |line: &str| {
            let error = Cli::command().try_get_matches_from(line.split(' ')).unwrap_err();
            reason(&error)
        };
        assert_eq!(
            told("remora import"),
            "the following required arguments were not provided:\n  --into <TABLE>\n  <FILE>..."
        );
        assert!(told("remora lod").starts_with("unrecognized subcommand 'lod'"));
    }

    /// The help has the codes of the manual page.
    #[test]
    fn exit_codes_are_those_of_the_manual() {
        for sub in Cli::command().get_subcommands().filter(|sub| is_shown(sub)) {
            let name = sub.get_name();
            let page = if name == "unpack" { "pack" } else { name };
            let path = format!("{}/../../docs/manual/{page}.md", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap();
            let (_, section) = text.split_once("\n## Exit status\n").unwrap();
            let section = section.split("\n## ").next().unwrap();
            let words: BTreeSet<&str> = section.split(|c: char| !c.is_ascii_alphanumeric()).collect();
            let documented: Vec<Exit> = Exit::ALL
                .into_iter()
                .filter(|exit| words.contains(exit.code().to_string().as_str()))
                .collect();
            let mut known = Exit::of_command(name);
            known.retain(|exit| !matches!(exit, Exit::Command(_)));
            assert_eq!(documented, known, "{name}");
        }
    }
}
