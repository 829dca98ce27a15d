//! Completions for shells: what clap knows, and the names that servers, repositories and sandboxes have.
//!
//! `COMPLETE=bash remora` prints the script for a shell; the script calls the program again for each word. A
//! name that is not known in time is not completed, and no error is ever shown: the user is typing.

mod bash;
mod names;

use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};

use crate::command_line::Cli;

/// The longest time that a user waits for names, unless [`OWN_PATIENCE`] says it, in milliseconds.
const PATIENCE: Duration = Duration::from_millis(300);
const OWN_PATIENCE: &str = "REMORA_COMPLETE_MS";

/// Answers a shell, if it has called the program.
pub(crate) fn answer() -> bool {
    let here = std::env::current_dir().ok();
    let answer = |command: CompleteEnv<'_, _>| command.try_complete(std::env::args_os(), here.as_deref());
    bash::answer() || answer(CompleteEnv::with_factory(|| with_names(Cli::command()))).unwrap_or(false)
}

/// Adds what completes the values of arguments, by the words that stand for them in the help.
fn with_names(command: Command) -> Command {
    let path = command.get_name().to_owned();
    command.mut_args(|arg| with_names_of(&path, arg)).mut_subcommands(with_names)
}

fn with_names_of(command: &str, arg: Arg) -> Arg {
    let stands_for = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let (word, option) = (stands_for.unwrap_or_default(), arg.get_long().unwrap_or_default().to_owned());
    match (command, word.as_str(), option.as_str()) {
        (_, "QUEUE" | "TABLE" | "DEAD", _) | ("copy" | "dump", "NAME", "" | "exclude") => {
            completes(arg, names::tables)
        }
        (_, "NAME", "only" | "exclude") => completes(arg, names::tables),
        (_, _, "database" | "work-database") => completes(arg, names::databases),
        (_, _, "url" | "for")
        | (_, "SERVER" | "INTERVAL [COUNT] | SERVER" | "SOURCE" | "A" | "B" | "FROM" | "TO", "") => {
            completes(arg, names::servers)
        }
        ("start" | "stop" | "shell", "NAME", "") | (_, "name", "") => completes(arg, names::sandboxes),
        (_, "REPO" | "REPO2" | "REPO/NAME" | "REPO[@GENERATION]" | "FILE|FOLDER", _) => {
            completes(arg, names::backups)
        }
        (_, "FILE" | "PATH" | "DIR" | "FOLDER" | "CORPUS" | "DIR|FILE", _) => {
            arg.value_hint(ValueHint::AnyPath)
        }
        _ => arg,
    }
}

/// The names that begin with a text.
type Names = fn(&str) -> Vec<String>;

fn completes(arg: Arg, names: Names) -> Arg {
    arg.add(ArgValueCompleter::new(move |current: &OsStr| in_time(current, names)))
}

/// The names that are known in time, after the paths, if there are any.
fn in_time(current: &OsStr, names: Names) -> Vec<CompletionCandidate> {
    let Some(text) = current.to_str().map(str::to_owned) else { return Vec::new() };
    let (send, receive) = mpsc::channel();
    // It is not waited for when it takes too long: it ends with the program.
    std::thread::spawn(move || send.send(names(&text)));
    let own = std::env::var(OWN_PATIENCE).ok().and_then(|text| text.parse().ok());
    let found = receive.recv_timeout(own.map_or(PATIENCE, Duration::from_millis)).unwrap_or_default();
    found.into_iter().map(CompletionCandidate::new).collect()
}

/// Folders and files that begin with a text.
fn paths(text: &str) -> Vec<String> {
    let found = PathCompleter::any().complete(OsStr::new(text)).into_iter();
    found.filter_map(|candidate| candidate.get_value().to_str().map(str::to_owned)).collect()
}
