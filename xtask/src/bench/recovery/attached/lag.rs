//! How long a transaction is on the server alone.
//!
//! Each row says when its statement began, in microseconds. `strace` says when the archiver gave bytes to
//! the system, and when a sync had returned. A transaction is safe with the first sync that began when all of
//! it was written. The time of its COMMIT is in the lag, so it is rather too long than too short.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Attached, Bench, DURABLE, Load, QUICK};
use crate::bench::measure::as_f64;

/// What goes before the time in a row.
const STAMP: &[u8] = b"stamp:";
const DIGITS: usize = 16;

/// Up to where a file was durable, and since when, in seconds since 1970.
struct Synced {
    end: u64,
    time_s: f64,
}

impl Bench {
    /// How long it takes from the beginning of a statement until its transaction is durable in the archive.
    pub(in super::super) fn lag(&self) -> Result<()> {
        println!("\n| lag in s | transactions/s | half | 99 % | 99.9 % | all |\n|---|--:|--:|--:|--:|--:|");
        for load in [QUICK, DURABLE] {
            self.query(load.settings)?;
            for sync in ["1s", "0s"] {
                let (rate, mut lags) = self.lags(&load, sync)?;
                lags.sort_by(f64::total_cmp);
                let within = |thousandths: usize| lags[(lags.len() - 1) * thousandths / 1000];
                println!(
                    "| {}, --sync {sync} | {rate:.0} | {:.3} | {:.3} | {:.3} | {:.3} |",
                    load.what,
                    within(500),
                    within(990),
                    within(999),
                    within(1000)
                );
            }
        }
        Ok(())
    }

    /// The rate, and the lag of each transaction.
    fn lags(&self, load: &Load, sync: &str) -> Result<(f64, Vec<f64>)> {
        self.clear()?;
        let traces = tempfile::tempdir()?;
        let traced = self.archiver(&["--sync", sync]);
        let mut strace = Command::new("strace");
        strace.current_dir(self.folder.path()).args(["-ff", "--seccomp-bpf", "-y", "-ttt", "-T", "-s", "0"]);
        strace.args(["-e", "trace=write,fsync,fdatasync", "-o"]).arg(traces.path().join("trace"));
        let archiver =
            Attached(strace.arg(traced.get_program()).args(traced.get_args()).spawn().context("strace")?);
        self.wait_for_reader()?;
        // All of the file that follows is traced.
        self.query("FLUSH BINARY LOGS")?;
        let file = self.newest()?;
        let rate = as_f64(load.transactions.into()) / self.work(load.connections, load.transactions)?;
        self.wait_for_reader()?;
        // With the next file, this one is synced.
        self.query("FLUSH BINARY LOGS")?;
        let archived = self.folder.path().join("repo/db/log/000001").join(&file);
        self.wait_until_whole(&archived)?;
        drop(archiver);
        let mut synced = Vec::new();
        for entry in fs::read_dir(traces.path())? {
            synced.extend(read(&fs::read_to_string(entry?.path())?, &format!("/{file}>")));
        }
        let stamps = stamps(&fs::read(&archived)?);
        ensure!(
            stamps.len() == load.transactions as usize,
            "{} of all transactions are archived",
            stamps.len()
        );
        let lags = stamps.into_iter().map(|(end, time_s)| {
            let later = synced.partition_point(|synced: &Synced| synced.end < end);
            Ok(synced.get(later).context("it was never synced")?.time_s - time_s)
        });
        Ok((rate, lags.collect::<Result<_>>()?))
    }

    /// Waits until the archive has all of a file: it is not marked as being in use.
    fn wait_until_whole(&self, archived: &Path) -> Result<()> {
        let began = std::time::Instant::now();
        while fs::read(archived)?.get(21).is_none_or(|flags| flags & 1 != 0) {
            ensure!(began.elapsed() < super::PATIENCE, "{} is not whole", archived.display());
        }
        Ok(())
    }
}

/// What one thread synced of a file. A line: `TIME fdatasync(7</a/b>) = 0 <SECONDS>`.
fn read(trace: &str, file: &str) -> Vec<Synced> {
    let (mut synced, mut end) = (Vec::new(), 0);
    for line in trace.lines().filter(|line| line.contains(file)) {
        let Some((began, call)) = line.split_once(' ') else { continue };
        let Some((result, took)) = call.rsplit_once(" = ").and_then(|(_, rest)| rest.split_once(" <")) else {
            continue;
        };
        let time_s =
            began.parse().unwrap_or(f64::NAN) + took.trim_end_matches('>').parse().unwrap_or(f64::NAN);
        match call.starts_with("write(") {
            true => end += result.parse().unwrap_or(0),
            false => synced.push(Synced { end, time_s }),
        }
    }
    synced
}

/// Where the transactions of a file end, and when they began.
fn stamps(log: &[u8]) -> Vec<(u64, f64)> {
    let mut found: Vec<(u64, f64)> = Vec::new();
    let mut at = 0;
    while let Some(more) = log[at..].windows(STAMP.len()).position(|bytes| bytes == STAMP) {
        at += more + STAMP.len();
        let digits = log.get(at..at + DIGITS).and_then(|digits| std::str::from_utf8(digits).ok());
        // Statements are in the log too, and have no time there.
        let Some(time_us) = digits.and_then(|digits| digits.parse::<u64>().ok()) else { continue };
        // The one before it had ended.
        if let Some(before) = found.last_mut() {
            before.0 = at as u64;
        }
        found.push((log.len() as u64, as_f64(time_us) / 1e6));
    }
    found
}
