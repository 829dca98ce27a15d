//! Runs all tests, and reports on which servers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Ability, Product};
use serde_json::Value;

use crate::{cargo, places, plugin, root, run as show_and_run, setup, shown, target};

/// If this is set, a test fails when it does not find a server, and does not skip it.
const ALL_SERVERS: &str = "REMORA_TEST_ALL_SERVERS";

/// Names a file into which tests write what they skip, a line each: `NAME: why`.
const SKIPS: &str = "REMORA_TEST_SKIPS";

/// Names the server for the engine's tests.
const QUEUE_SERVER: &str = "REMORA_QUEUE_SERVER";

/// How many tests run at a time. Unless the user sets it there are two for each core, since tests wait for
/// servers and disks much of their time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Names the folder for files that tests make.
const SCRATCH: &str = "TMPDIR";

/// The name of the file system in memory, before the id of its run; where it is, which is short because
/// servers cut messages with paths; and its size, which must be free: several times as much as the tests were
/// seen to take.
const MEMORY: &str = "remora-tests-";
const PLACE: &str = "/tmp/rt";
const MEMORY_KIB: u64 = 12 << 20;

/// Sums of the test runner's closing lines, and its lines about single tests.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    failures: Vec<String>,
    /// The output of failed tests, as far as it is shown again.
    printed: Vec<String>,
    /// How many more lines of the current test's output may be shown again.
    quota: usize,
    skips: Vec<String>,
}

/// This many lines of a failed test's output are repeated at the end, where they are easy to find.
const AGAIN: usize = 12;

/// This many lines of it, from where it ended on, stand beside the test's name.
const REASON: usize = 4;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let all = arguments.iter().any(|argument| argument == "--all-servers");
    if all {
        setup::run(&["--all-servers".to_owned()])?;
    } else {
        setup::run_quietly()?;
    }
    // Its tests load it into a server.
    plugin::build_all()?;
    let skips = target().join("test-skips");
    std::fs::write(&skips, "")?;
    let memory = Memory::mount()?;
    let mut counts = Counts::default();
    let own: Vec<&String> = arguments.iter().filter(|argument| *argument != "--all-servers").collect();
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&own).env(SKIPS, &skips);
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (2 * cores).to_string());
    }
    if all {
        command.env(ALL_SERVERS, "1");
    }
    if memory.is_some() {
        println!("the tests' files are in memory: {PLACE}");
        command.env(SCRATCH, PLACE);
    }
    let mut good = counts.follow(&mut command)?;
    let places = places()?;
    let found = |product: &Product| sandbox::find(&places, *product).ok();
    if own.is_empty() {
        // The engine was tested in the first server that can load it.
        let program = built("plugin/queue")?;
        for product in Product::that_can(Ability::Queue).skip(1).filter(|product| found(product).is_some()) {
            if !plugin::library(product).is_file() {
                counts.skips.push(format!("the engine's tests on {product}: it could not be built"));
                continue;
            }
            let mut engine = Command::new(&program);
            engine.current_dir(root().join("plugin/queue"));
            good &= counts.follow(engine.env(SKIPS, &skips).env(QUEUE_SERVER, product.id()))?;
        }
    }
    // Of the workspace, so that all below the queue is as it was built for the tests.
    let interleaving =
        ["test", "--quiet", "--workspace", "--features", "queue/shuttle", "--test", "interleaving"];
    let tried = show_and_run(cargo().args(interleaving));
    let covered = Product::ALL.into_iter().filter_map(|product| {
        let found = found(&product)?;
        Some(format!("{product} ({})", found.version))
    });
    println!("servers covered: {}", covered.collect::<Vec<_>>().join(", "));
    counts.skips.extend(std::fs::read_to_string(&skips)?.lines().map(skip));
    counts.tell();
    if !good {
        bail!("tests failed");
    }
    tried
}

/// A file system in memory. It is gone when this is dropped, with everything on it.
struct Memory;

impl Memory {
    /// For the tests' files, if this is root, enough memory is free, and the user names no folder. Servers
    /// sync at each commit, and on a slow disk the tests would wait for that most of their time. Not
    /// /dev/shm: a MariaDB that finds its redo log there takes it for persistent memory, and writes it in
    /// another way.
    fn mount() -> Result<Option<Memory>> {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let free =
            memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
        let free: u64 = free.and_then(|kib| kib.parse().ok()).unwrap_or_default();
        if free < MEMORY_KIB || !setup::is_root() || std::env::var_os(SCRATCH).is_some() {
            return Ok(None);
        }
        // What a run that was killed has left; or another run is there.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        for owner in mounts.lines().filter_map(|line| line.strip_prefix(MEMORY)?.split(' ').next()) {
            if Path::new("/proc").join(owner).is_dir() {
                return Ok(None);
            }
            drop(Memory);
        }
        std::fs::create_dir_all(PLACE)?;
        let (size, name) = (format!("size={MEMORY_KIB}k"), format!("{MEMORY}{}", std::process::id()));
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, &name, PLACE]).output()?;
        if mounted.status.success() {
            return Ok(Some(Memory));
        }
        // A container may not allow it.
        std::fs::remove_dir(PLACE)?;
        Ok(None)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        drop(Command::new("umount").args(["-l", PLACE]).status());
        drop(std::fs::remove_dir(PLACE));
    }
}

/// The program with the integration tests of a package, as the run of all tests has built it. Cargo would
/// build it anew for the package alone, because its dependencies then have fewer features.
fn built(package: &str) -> Result<PathBuf> {
    let mut list = cargo();
    list.args(["test", "--workspace", "--no-run", "--quiet", "--message-format=json"]);
    let output = list.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("the tests were not built");
    }
    let manifest = root().join(package).join("Cargo.toml");
    let program = String::from_utf8(output.stdout)?.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message["manifest_path"] == *manifest.to_str()? && message["target"]["kind"][0] == "test";
        is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    program.with_context(|| format!("{package} has no tests"))
}

/// A line of the file of skipped tests, with or without a word for its kind.
fn skip(line: &str) -> String {
    line.strip_prefix("skipped: ").unwrap_or(line).to_owned()
}

/// A line of the test runner, as it is shown. Its word for a failed test comes with the test's output: who
/// looks for that word in a long log then finds the reason beside it.
fn told(line: &str) -> String {
    if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
        return format!("test {name} did not pass; its output follows those of the others");
    }
    match line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
        Some(name) => format!("test {name} ... FAILED"),
        None => line.to_owned(),
    }
}

impl Counts {
    /// Runs tests, shows their output and counts it; false when a test failed.
    fn follow(&mut self, command: &mut Command) -> Result<bool> {
        println!("$ {}", shown(command));
        let mut child = command.stdout(Stdio::piped()).spawn().context("cargo test")?;
        for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
            let line = line?;
            self.add(&line);
            println!("{}", told(&line));
        }
        Ok(child.wait()?.success())
    }

    /// `test result: ok. 7 passed; 0 failed; 0 ignored; ...`, `test NAME ... FAILED`, `test NAME ... ignored,
    /// why`
    fn add(&mut self, line: &str) {
        if line.starts_with("---- ") {
            self.quota = AGAIN;
        } else if line == "failures:" || line.starts_with("stack backtrace:") {
            self.quota = 0;
        }
        if self.quota > 0 && !line.is_empty() {
            self.quota -= 1;
            self.printed.push(line.to_owned());
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = rest.split(word).next().unwrap_or_default();
                before.trim_end().rsplit(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
            };
            self.passed += number("passed");
            self.failed += number("failed");
        } else if let Some((name, end)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            if end == "FAILED" {
                self.failures.push(name.to_owned());
            } else if let Some(why) = end.strip_prefix("ignored") {
                let why = why.strip_prefix(", ").unwrap_or("ignored");
                self.skips.push(format!("{name}: {why}"));
            }
        }
    }

    /// Where a test ended and why, in one line: who sees only the end of a log knows it, too.
    fn why(&self, name: &str) -> String {
        let begin = format!("---- {name} stdout ----");
        let output = self.printed.iter().skip_while(|line| **line != begin).skip(1);
        let output = output.take_while(|line| !line.starts_with("---- "));
        let reason: Vec<_> = output.skip_while(|line| !line.contains(" panicked at ")).take(REASON).collect();
        let place = reason.first().and_then(|line| line.split_once(" panicked at "));
        place.map_or_else(String::new, |(_, place)| {
            let rest = reason[1..].iter().flat_map(|line| [" ", line.trim()]);
            [": ", place].into_iter().chain(rest).collect()
        })
    }

    /// Prints the last lines of a run.
    fn tell(&mut self) {
        self.skips.sort();
        self.skips.dedup();
        self.printed.iter().for_each(|line| println!("{line}"));
        self.failures.iter().for_each(|name| println!("failed: {name}{}", self.why(name)));
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skips.len());
        self.skips.iter().for_each(|skip| println!("skipped: {skip}"));
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, skip, told};

    #[test]
    fn what_is_left_out_is_counted_by_name() {
        let mut counts = Counts::default();
        for line in [
            "test a::works ... ok",
            "test a::breaks ... FAILED",
            "test b::waits ... ignored, takes an hour",
            "failures:",
            "---- a::breaks stdout ----",
            "",
            "thread 'a::breaks' (7) panicked at a.rs:7:1:",
            "it broke",
            "note: ...",
            "stack backtrace:",
            "   0: main",
            "failures:",
            "    a::breaks",
            "test result: FAILED. 7 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0s",
        ] {
            counts.add(line);
        }
        assert_eq!((counts.passed, counts.failed), (9, 1));
        assert_eq!(counts.printed.len(), 4, "{:?}", counts.printed);
        assert_eq!(counts.why("a::breaks"), ": a.rs:7:1: it broke note: ...");
        assert_eq!(counts.why("a::works"), "");
        assert_eq!(told("---- a::breaks stdout ----"), "test a::breaks ... FAILED");
        assert!(!told("test a::breaks ... FAILED").contains("FAILED"));
        assert_eq!(told("test a::works ... ok"), "test a::works ... ok");
        assert_eq!(
            (counts.failures, counts.skips),
            (vec!["a::breaks".to_owned()], vec!["b::waits: takes an hour".to_owned()])
        );
        assert_eq!(skip("skipped: tree::xfs: no loop device"), "tree::xfs: no loop device");
        assert_eq!(skip("tree::xfs: no loop device"), "tree::xfs: no loop device");
    }
}
