//! Runs all tests, and reports on which servers.

mod count;
mod memory;
mod program;
mod slow;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, bail};
use sandbox::{Ability, Product};

pub(crate) use count::Counts;
use memory::{Memory, PLACE, SCRATCH};
use program::Program;

use crate::{places, plugin, setup, target};

/// If this is set, a test fails when it does not find a server, and does not skip it.
const ALL_SERVERS: &str = "REMORA_TEST_ALL_SERVERS";

/// Names the servers that tests run on.
const SERVERS: &str = "REMORA_TEST_SERVERS";

/// If this is set, tests in which the server hardly matters run on all of them, too.
const EVERYWHERE: &str = "REMORA_TEST_EVERYWHERE";

/// Names a file into which tests write what they skip, a line each: `NAME: why`.
const SKIPS: &str = "REMORA_TEST_SKIPS";

/// Names a file into which sandboxes write the starts of servers, a line each: milliseconds, server, test.
const STARTS: &str = "REMORA_TEST_STARTS";

/// Names the server for the engine's tests.
const QUEUE_SERVER: &str = "REMORA_QUEUE_SERVER";

/// How many tests of a program run at a time. Unless the user sets it, there is one more than there are
/// cores, beside those of the other programs: tests wait for servers and disks much of their time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Which tests of the engine run in further servers: those in which a server's own code decides.
const ENGINE_AGAIN: [&str; 5] = ["alter_kill::", "ddl::", "kill::", "table::", "transaction::"];

/// Tests that cargo runs. Of the workspace, so that most of what they need was built for the others; but
/// dependencies of macros, and all that use them, are compiled again, because they are linked otherwise.
const CHORES: [(&str, &[&str]); 2] = [
    (
        "interleaving",
        &["test", "--quiet", "--workspace", "--features", "queue/shuttle", "--test", "interleaving"],
    ),
    ("examples", &["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]),
];

/// Which servers the tests run on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Servers {
    /// Those that are here, or that the user names.
    Here,
    /// Those that every change is tested with.
    EachChange,
    /// All of them.
    All,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let all = arguments.iter().any(|argument| argument == "--all-servers");
    let own: Vec<&String> = arguments.iter().filter(|argument| *argument != "--all-servers").collect();
    let servers = if all { Servers::All } else { Servers::Here };
    prepare(servers)?;
    let mut counts = tests(servers, &own)?;
    counts.tell();
    ended(&counts)
}

/// An error if a test has failed.
pub(crate) fn ended(counts: &Counts) -> Result<()> {
    if counts.failed > 0 {
        bail!("tests failed");
    }
    Ok(())
}

/// Fetches and builds what the tests need besides the workspace.
pub(crate) fn prepare(servers: Servers) -> Result<()> {
    match servers {
        Servers::Here => setup::run_quietly()?,
        Servers::EachChange => setup::run(&["--all-servers".to_owned()])?,
        Servers::All => setup::run(&["--all-servers", "--all-stores"].map(str::to_owned))?,
    }
    // Its tests load it into a server.
    plugin::build_all()
}

/// Runs the tests, or with arguments those that cargo chooses by them. [`prepare`] comes before.
pub(crate) fn tests(servers: Servers, own: &[&String]) -> Result<Counts> {
    let notes = Notes { skips: target().join("test-skips"), starts: target().join("test-starts") };
    std::fs::write(&notes.skips, "")?;
    std::fs::write(&notes.starts, "")?;
    let places = places()?;
    let found = |product: &Product| sandbox::find(&places, *product).ok();
    let mut left_out = Vec::new();
    // Which of the slow ones wait for another day.
    let not_today = |package: &str| match servers {
        Servers::EachChange => slow::not_today(package),
        Servers::Here | Servers::All => BTreeSet::new(),
    };
    let (mut programs, waiting) = if own.is_empty() { program::build(&not_today)? } else { (chosen(own), 0) };
    if own.is_empty() {
        // The engine was tested in the first server that can load it.
        for product in Product::that_can(Ability::Queue).skip(1).filter(|product| found(product).is_some()) {
            if plugin::library(product).is_file() {
                programs.insert(2, again(product, &programs)?);
            } else {
                left_out.push(format!("the engine's tests on {product}: it could not be built"));
            }
        }
        for (number, (name, arguments)) in (0..).zip(CHORES) {
            if servers == Servers::EachChange && !slow::has_turn(number) {
                left_out.push(format!("{name}: on another day, and in ci --full"));
            } else {
                programs.insert(2, Program::chore(name, arguments));
            }
        }
    }
    let memory = Memory::mount()?;
    if memory.is_some() {
        println!("the tests' files are in memory: {PLACE}");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for program in &mut programs {
        set(program, servers, &notes, memory.is_some(), cores);
    }
    let mut counts = program::run(programs, cores)?;
    println!("servers covered: {}", covered(servers));
    println!("{}", starts(&std::fs::read_to_string(&notes.starts)?));
    if servers == Servers::All {
        std::fs::write(target().join("slow-tests"), counts.slow())?;
    }
    counts.other_days = waiting;
    counts.skips.extend(left_out);
    counts.skips.extend(std::fs::read_to_string(&notes.skips)?.lines().map(count::skip));
    Ok(counts)
}

/// Files into which tests write what their runner can't tell.
struct Notes {
    skips: PathBuf,
    starts: PathBuf,
}

/// How many servers were started and how long that took, by server. A line has milliseconds, server, test.
fn starts(lines: &str) -> String {
    let mut of: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in lines.lines() {
        let mut words = line.split(' ');
        if let (Some(Ok(ms)), Some(server)) = (words.next().map(str::parse::<u64>), words.next()) {
            let (count, sum) = of.entry(server).or_default();
            (*count, *sum) = (*count + 1, *sum + ms);
        }
    }
    let told = of.iter().map(|(server, (count, ms))| format!("{server} {count} ({} s)", ms / 1000));
    let all: u64 = of.values().map(|(count, _)| count).sum();
    format!("{all} servers were started: {}", told.collect::<Vec<_>>().join(", "))
}

/// The tests that cargo chooses by these arguments.
fn chosen(own: &[&String]) -> Vec<Program> {
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast"];
    arguments.extend(own.iter().map(|argument| argument.as_str()));
    vec![Program::chore("tests", &arguments)]
}

/// The engine's tests in a further server.
fn again(product: Product, programs: &[Program]) -> Result<Program> {
    let Some(engine) = programs.iter().find(|program| program.is_integration("queue-plugin")) else {
        bail!("plugin/queue has no tests");
    };
    let mut again = engine.again(&format!("queue-plugin on {product}"));
    again.command.args(ENGINE_AGAIN).env(QUEUE_SERVER, product.id());
    Ok(again)
}

/// The names of the servers that the tests run on; none for all that are here. What the user names counts.
fn ids(servers: Servers) -> Option<String> {
    let for_each_change = || Product::for_each_change().map(Product::id).collect::<Vec<_>>().join(",");
    let own = (servers == Servers::EachChange).then(for_each_change);
    std::env::var(SERVERS).ok().or(own)
}

/// Tells a program how to run.
fn set(program: &mut Program, servers: Servers, notes: &Notes, in_memory: bool, cores: usize) {
    let command = &mut program.command;
    command.env(SKIPS, &notes.skips).env(STARTS, &notes.starts);
    // The runner tells the time of each test only if it takes itself for one of an unstable compiler.
    if program.takes_options {
        command.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time"]);
    }
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, (cores + 1).to_string());
    }
    if servers != Servers::Here {
        command.env(ALL_SERVERS, "1");
    }
    if servers == Servers::All {
        command.env(EVERYWHERE, "1");
    }
    if let Some(ids) = ids(servers) {
        command.env(SERVERS, ids);
    }
    if in_memory {
        command.env(SCRATCH, PLACE);
    }
}

/// The servers that the tests ran on, with their versions.
fn covered(servers: Servers) -> String {
    let Ok(places) = places() else { return String::new() };
    let ids = ids(servers);
    let is_chosen =
        |product: &Product| ids.as_ref().is_none_or(|ids| ids.split(',').any(|id| id.trim() == product.id()));
    let here = Product::ALL.into_iter().filter(is_chosen);
    let named = here.filter_map(|product| {
        let found = sandbox::find(&places, product).ok()?;
        Some(format!("{product} ({})", found.version))
    });
    named.collect::<Vec<_>>().join(", ")
}
