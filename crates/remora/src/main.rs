//! `remora`: arguments, wiring, output and exit codes. The other crates do the work.

mod args;
mod chosen;
mod command_line;
mod commands;
mod complete;
#[cfg(test)]
mod documented;
mod exit;
mod keep;
mod keys;
mod log_request;
mod loss;
mod man;
mod named_sandbox;
mod overview;
mod password;
mod report;
mod retain;
mod stop;
mod tips;
mod topic;
mod way_in;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::command_line::Cli;
use crate::exit::Exit;
use crate::report::Report;

/// The allocator of musl takes three times the processor time of glibc's, and more with several threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A shell that completes a line passes it as it is, with everything that a run would refuse.
    if std::env::var_os("COMPLETE").is_some() && complete::answer() {
        return ExitCode::from(Exit::Done.code());
    }
    let words: Vec<_> = std::env::args_os().collect();
    let asked = command_line::report_of(&words);
    let line = match password::hide(words) {
        Ok(line) => line,
        Err(error) => return fail(&asked, &error),
    };
    if line.arguments.len() == 1 {
        return show(overview::TASKS);
    }
    // Many people look for help there.
    let short_h = line.arguments.iter().any(|argument| argument == "-h");
    let typed = line.arguments.iter().skip(1).filter_map(|word| word.to_str());
    let typed = typed.map(str::to_owned).find(|word| !word.starts_with('-'));
    let command = overview::with_groups(command_line::with_exit_status(Cli::command()));
    if let [_, help, topic] = line.arguments.as_slice() {
        let topic = topic.to_str().filter(|_| help == "help");
        if let Some(page) = topic.and_then(|topic| topic::asked(topic, &command)) {
            return show(&page);
        }
    }
    let found = command_line::matches(command, line.arguments);
    let cli = match found.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(usage) => {
            let usage = tips::with_tip(usage, typed.as_deref());
            if usage.use_stderr() && asked.is_json() {
                return fail(&asked, &failure::usage(command_line::reason(&usage)));
            }
            // Clap's own texts: help goes to stdout and ends well, a wrong command line goes to stderr
            // and does not.
            usage.print().ok();
            if short_h && usage.use_stderr() {
                Report::plain()
                    .say("-h is --host, as with the clients of the server; for help type -? or --help");
            }
            return ExitCode::from(if usage.use_stderr() { Exit::Usage.code() } else { 0 });
        }
    };
    command_line::log(cli.verbose);
    let report = Report::new(cli.json, cli.quiet);
    match command_line::run(cli.command, line.password, &report) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(error) => fail(&report, &error),
    }
}

/// Prints a text that somebody asked for.
fn show(text: &str) -> ExitCode {
    match Report::plain().data(text.trim_end()) {
        Ok(()) => ExitCode::from(Exit::Done.code()),
        Err(error) => fail(&Report::plain(), &error.into()),
    }
}

fn fail(report: &Report, error: &anyhow::Error) -> ExitCode {
    if exit::is_reader_gone(error) {
        return ExitCode::from(0);
    }
    let exit = Exit::of(error);
    report.error(error, exit);
    ExitCode::from(exit.code())
}
