//! Running all tests, and telling on which servers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use sandbox::Product;

use crate::{cargo, places, plugin, run as show_and_run, setup, shown};

/// With this set, a test that does not find a server fails instead of leaving it out.
const ALL_SERVERS: &str = "REMORA_TEST_ALL_SERVERS";

/// Sums of the test runner's own closing lines.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let all = arguments.iter().any(|argument| argument == "--all-servers");
    if all {
        setup::run(&["--all-servers".to_owned()])?;
    } else {
        setup::run_quietly()?;
    }
    // Its tests load it into a server.
    plugin::build_all()?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    command.args(arguments.iter().filter(|argument| *argument != "--all-servers"));
    if all {
        command.env(ALL_SERVERS, "1");
    }
    println!("$ {}", shown(&command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo test")?;
    let mut counts = Counts::default();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        counts.add(&line);
        println!("{line}");
    }
    let status = child.wait()?;
    let places = places()?;
    let covered = Product::ALL.into_iter().filter_map(|product| {
        let found = sandbox::find(&places, product).ok()?;
        Some(format!("{product} ({})", found.version))
    });
    let interleaving =
        ["test", "--quiet", "--package", "queue", "--features", "shuttle", "--test", "interleaving"];
    let tried = show_and_run(cargo().args(interleaving));
    println!("servers covered: {}", covered.collect::<Vec<_>>().join(", "));
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored);
    if !status.success() {
        bail!("tests: {status}");
    }
    tried
}

impl Counts {
    /// `test result: ok. 7 passed; 0 failed; 0 ignored; ...`
    fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        let number = |word: &str| {
            let before = rest.split(word).next().unwrap_or_default();
            before.trim_end().rsplit(' ').next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0)
        };
        self.passed += number("passed");
        self.failed += number("failed");
        self.ignored += number("ignored");
    }
}
