//! Test programs, and a queue out of which several run at a time.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::count::{Counts, told};
use crate::{cargo, root, shown};

/// The longest ones: they begin first, so that none of them runs alone at the end.
const LONGEST: [&str; 3] = ["remora", "queue-plugin", "queue"];

/// Into how many parts the longest one is divided. In one part it would run alone for a third of the time.
const PARTS: usize = 3;

/// A program with tests, as cargo has built it.
pub(super) struct Program {
    /// The package's name.
    pub(super) package: String,
    pub(super) command: Command,
    /// It takes the options of Rust's test runner.
    pub(super) takes_options: bool,
    /// It is of the folder `tests`, not of `src`.
    integration: bool,
}

/// The test programs of the workspace, built, the longest first; and how many of their tests were left out,
/// as `without` says for a package. All are built with the features of the whole workspace: cargo would build
/// one again for its package alone.
pub(super) fn build(without: &dyn Fn(&str) -> BTreeSet<&'static str>) -> Result<(Vec<Program>, usize)> {
    let mut list = cargo();
    list.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-run", "--quiet"]);
    list.arg("--message-format=json");
    println!("$ {}", shown(&list));
    let output = list.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        // With this format cargo shows nothing.
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages
            .filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned))
            .for_each(|rendered| print!("{rendered}"));
        bail!("the tests were not built");
    }
    let mut programs: Vec<Program> = String::from_utf8(output.stdout)?.lines().filter_map(program).collect();
    if programs.is_empty() {
        bail!("there are no test programs");
    }
    let place = |package: &str| LONGEST.iter().position(|long| *long == package).unwrap_or(LONGEST.len());
    programs.sort_by_key(|program| place(&program.package));
    let longest = programs.iter().position(|program| program.is_integration(LONGEST[0]));
    let longest = programs.remove(longest.context("the longest tests are missing")?);
    // The longest one has unit tests, too, so that both leave out the same.
    let packages: BTreeSet<String> = programs.iter().map(|program| program.package.clone()).collect();
    let left_out = packages.iter().map(|package| without(package).len()).sum();
    for program in &mut programs {
        program.leave_out(&without(&program.package));
    }
    let parts = longest.parts(PARTS, &without(&longest.package))?;
    programs.splice(..0, parts);
    Ok((programs, left_out))
}

/// Divides tests, in the order in which they run, into parts of about the same size. Those of a module stay
/// together, because they share servers. The last part comes first: its tests are the longest.
fn divided(tests: &[&str], count: usize) -> Vec<Vec<String>> {
    let mut parts: Vec<Vec<String>> = vec![Vec::new(); count];
    let mut done = 0;
    for module in tests.chunk_by(|a, b| a.split_once("::").map(|a| a.0) == b.split_once("::").map(|b| b.0)) {
        // Where the middle of the module would be.
        let part = (2 * done + module.len()) * count / (2 * tests.len());
        parts[part].extend(module.iter().map(|test| (*test).to_owned()));
        done += module.len();
    }
    parts.reverse();
    parts
}

/// What a message of cargo says of a test program.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
    let mut command = Command::new(path);
    command.env("CARGO_MANIFEST_DIR", &folder).current_dir(folder);
    let integration = message["target"]["kind"][0] == "test";
    Some(Program { package: name.trim_matches('"').to_owned(), command, takes_options: true, integration })
}

impl Program {
    /// A chore of cargo that runs tests, as `cargo test --doc`.
    pub(super) fn chore(package: &str, arguments: &[&str]) -> Program {
        let mut command = cargo();
        command.args(arguments);
        Program { package: package.to_owned(), command, takes_options: false, integration: false }
    }

    /// Whether these are a package's integration tests.
    pub(super) fn is_integration(&self, package: &str) -> bool {
        self.integration && self.package == package
    }

    /// The same program once more, under another name.
    pub(super) fn again(&self, name: &str) -> Program {
        let mut command = Command::new(self.command.get_program());
        for (variable, value) in self.command.get_envs() {
            command.env(variable, value.unwrap_or_default());
        }
        command.current_dir(self.command.get_current_dir().unwrap_or(&root()));
        Program { package: name.to_owned(), command, takes_options: true, integration: true }
    }

    /// Leaves tests out.
    fn leave_out(&mut self, names: &BTreeSet<&str>) {
        // Otherwise a name would also stand for all that it begins.
        if !names.is_empty() {
            self.command.arg("--exact");
        }
        for name in names {
            self.command.args(["--skip", name]);
        }
    }

    /// The same program several times, each with a part of its tests but those.
    fn parts(&self, count: usize, without: &BTreeSet<&str>) -> Result<Vec<Program>> {
        let list = Command::new(self.command.get_program()).args(["--list", "--format", "terse"]).output()?;
        let list = String::from_utf8(list.stdout)?;
        let tests: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let tests: Vec<&str> = tests.into_iter().filter(|test| !without.contains(test)).collect();
        // A part without names would run all of them.
        if tests.len() < count {
            bail!("{} lists {} tests, too few for {count} parts", self.package, tests.len());
        }
        let part = |(number, tests)| {
            let mut part = self.again(&format!("{}/{number}", self.package));
            part.command.arg("--exact").args::<Vec<String>, _>(tests);
            part
        };
        Ok((1..).zip(divided(&tests, count)).map(part).collect())
    }

    /// Runs it and shows its lines behind its name.
    fn run(&mut self) -> Result<(Counts, bool)> {
        let mut counts = Counts::default();
        println!("{}: $ {}", self.package, beginning(&shown(&self.command)));
        let mut child = self.command.stdout(Stdio::piped()).spawn().with_context(|| self.package.clone())?;
        for line in BufReader::new(child.stdout.take().context("no output")?).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            counts.add(&line);
            println!("{}: {}", self.package, told(&line));
        }
        Ok((counts, child.wait()?.success()))
    }
}

/// The beginning of a command that may name hundreds of tests.
fn beginning(line: &str) -> &str {
    line.split_once(" --exact").map_or(line, |(beginning, _)| beginning)
}

/// Runs all of them, `lanes` at a time.
pub(super) fn run(programs: Vec<Program>, lanes: usize) -> Result<Counts> {
    let (waiting, all) = (Mutex::new(programs.into_iter()), Mutex::new(Counts::default()));
    let lane = || -> Result<()> {
        loop {
            let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
            let Some(mut program) = next else { return Ok(()) };
            let (counts, good) = program.run()?;
            let mut all = all.lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            let told = counts.failed > 0;
            all.join(&program.package, counts);
            if !good && !told {
                all.fail(format!("{}: {} ended badly", program.package, shown(&program.command)));
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..lanes.max(1)).map(|_| scope.spawn(lane)).collect();
        running
            .into_iter()
            .try_for_each(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    all.into_inner().map_err(|_| anyhow::anyhow!("a thread panicked"))
}

#[cfg(test)]
mod tests {
    use super::{Program, divided, run};
    use std::process::Command;

    fn shell(package: &str, script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program { package: package.to_owned(), command, takes_options: false, integration: false }
    }

    #[test]
    fn each_test_is_in_one_part_with_those_of_its_module() {
        let tests = ["a::1", "a::2", "b::1", "b::c::2", "b::3", "b::4", "d::1", "e"];
        assert_eq!(
            divided(&tests, 3),
            [vec!["d::1", "e"], vec!["b::1", "b::c::2", "b::3", "b::4"], vec!["a::1", "a::2"]]
        );
        assert_eq!(divided(&["a::1"], 3).concat(), ["a::1"]);
        assert_eq!(divided(&[], 3).concat(), Vec::<String>::new());
    }

    #[test]
    fn a_program_that_ends_badly_without_a_failed_test_is_a_failure() {
        let good = shell("good", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; finished in 1s'");
        let killed = shell("killed", "echo 'test a ... ok'; kill -9 $$");
        let failed =
            shell("failed", "echo 'test result: FAILED. 1 passed; 1 failed; finished in 1s'; exit 101");
        let counts = run(vec![good, killed, failed], 2).unwrap();
        assert_eq!((counts.passed, counts.failed), (3, 2));
    }
}
