//! Measures a method: wall time, processor time on both sides, and what GNU time knows.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    pub(crate) server_s: f64,
    pub(crate) client_s: f64,
}

/// Clock ticks of /proc per second: USER_HZ, 100 on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// Runs `work` and measures its time: that of the server by its process id, that of the clients as our ended
/// children.
pub(crate) fn measure(server: u32, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let before = (processor_s(server)?, processor("self", 15)?);
    let began = Instant::now();
    work()?;
    let wall_s = began.elapsed().as_secs_f64();
    let after = (processor_s(server)?, processor("self", 15)?);
    Ok(Cost { wall_s, server_s: after.0 - before.0, client_s: after.1 - before.1 })
}

/// What GNU time says of a shell line and all its processes.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) wall_s: f64,
    /// User and system time.
    pub(crate) processor_s: f64,
    /// The most that one process had in memory at a time.
    pub(crate) memory_mb: f64,
    /// Read from disks, not from the page cache.
    pub(crate) read_mb: f64,
    pub(crate) stdout: String,
}

/// Runs a shell line under GNU time, with the folder and the variables of `time`, which is the program
/// `/usr/bin/time`. Its report goes to the file `report`.
pub(crate) fn timed(mut time: Command, line: &str, report: &Path) -> Result<Timed> {
    time.args(["-f", "%e %U %S %M %I", "-o"]).arg(report).args(["bash", "-o", "pipefail", "-c", line]);
    let output = time.output()?;
    if !output.status.success() {
        bail!("{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(report)?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [wall_s, user, system, kilobytes, sectors] = numbers[..] else { bail!("time said {text}") };
    Ok(Timed {
        wall_s,
        processor_s: user + system,
        memory_mb: kilobytes / 1e3,
        // As in getrusage(2), of 512 bytes.
        read_mb: sectors * 512.0 / 1e6,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// The costs of each method in so many rounds, in which they run alternately.
pub(crate) fn alternately<M: Copy>(
    methods: &[M],
    rounds: usize,
    run: impl Fn(M) -> Result<Cost>,
) -> Result<Vec<(M, Vec<Cost>)>> {
    let mut results: Vec<(usize, M, Vec<Cost>)> =
        methods.iter().enumerate().map(|(at, method)| (at, *method, Vec::new())).collect();
    // The first run starts with cold caches, all others with warm ones.
    methods.first().map(|first| run(*first)).transpose()?;
    for _ in 0..rounds {
        for (_, method, costs) in &mut results {
            costs.push(run(*method)?);
        }
        let begun_with = 1.min(results.len());
        results.rotate_left(begun_with);
    }
    results.sort_by_key(|(at, ..)| *at);
    Ok(results.into_iter().map(|(_, method, costs)| (method, costs)).collect())
}

/// The median cost by wall time.
pub(crate) fn median(mut costs: Vec<Cost>) -> Option<Cost> {
    costs.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    costs.get(costs.len().saturating_sub(1) / 2).copied()
}

/// The median over several rounds of the ratio of wall times to the same round of `base`: whatever slows the
/// machine for a minute slows both.
pub(crate) fn median_ratio(costs: &[Cost], base: &[Cost]) -> Option<f64> {
    middle(costs.iter().zip(base).map(|(cost, base)| cost.wall_s / base.wall_s).collect())
}

/// The median.
pub(crate) fn middle(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / 2).copied()
}

/// The seconds of user and system time that a process took so far.
pub(crate) fn processor_s(process: u32) -> Result<f64> {
    processor(&process.to_string(), 13)
}

/// Two adjacent counters of /proc/PID/stat, user and system time, counted from 0 (proc_pid_stat(5)): 13 and
/// 14 of the process, 15 and 16 of its children that were waited for.
fn processor(process: &str, first: usize) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(") ").context("no name")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at - 2).and_then(|text| text.parse::<f64>().ok()).context("no number");
    Ok((ticks(first)? + ticks(first + 1)?) / TICKS)
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub(crate) fn as_f64(number: u64) -> f64 {
    number as f64
}
