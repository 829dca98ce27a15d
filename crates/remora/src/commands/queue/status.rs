//! `remora queue status`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use dump::Selection;
use serde_json::json;

use super::overview::{Line, lines, open};
use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};
use crate::stop::pause;

const HEAD: [&str; 9] = ["waiting", "owned", "later", "dead", "waiters", "oldest", "bytes", "in/s", "out/s"];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server: mysql://user@host:port or unix:///path [default: from the options and option files]
    #[arg(value_name = "SERVER")]
    at: Option<String>,

    /// Show it again every so many seconds, until stopped
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let server = match &arguments.at {
        Some(at) => arguments.server.at(at),
        None => arguments.server.clone(),
    };
    let mut session = server.target(password)?.connect()?;
    let stop = stop_flag(report)?;
    open(&mut session, &Selection::default(), report)?;
    let mut before: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut asked = None;
    loop {
        let lines = lines(&mut session)?;
        let now = Instant::now();
        let seconds = asked.map(|asked: Instant| now.duration_since(asked).as_secs_f64());
        asked = Some(now);
        let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).max("queue".len());
        if !report.is_json() {
            report.data(&row("queue", width, &HEAD.map(str::to_owned)))?;
        }
        for line in &lines {
            let earlier = before.insert(line.name.clone(), (line.written, line.removed));
            let rates = earlier.zip(seconds).map(|((written, removed), seconds)| {
                let rate = |now: u64, before: u64| report::as_f64(now.saturating_sub(before)) / seconds;
                (rate(line.written, written), rate(line.removed, removed))
            });
            show(line, width, rates, report)?;
        }
        let Some(every) = arguments.every else { return Ok(Exit::Done) };
        let next = now + Duration::from_secs(every);
        if !pause(next.saturating_duration_since(Instant::now()), &stop) {
            return Ok(stopped());
        }
    }
}

/// A line of the table; the name column is as wide as the longest name.
fn row(name: &str, width: usize, cells: &[String; 9]) -> String {
    let [waiting, owned, later, dead, waiters, oldest, bytes, come, go] = cells;
    format!(
        "{name:width$} {waiting:>9} {owned:>7} {later:>7} {dead:>7} {waiters:>7} {oldest:>9} {bytes:>9} {come:>7} {go:>7}"
    )
}

fn show(line: &Line, width: usize, rates: Option<(f64, f64)>, report: &Report) -> anyhow::Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "queue", "name": line.name, "waiting": line.waiting, "owned": line.owned,
            "due_later": line.later, "dead": line.dead, "waiters": line.waiters, "oldest_s": line.oldest_s, "bytes": line.bytes,
            "rows_written": line.written, "rows_removed": line.removed,
            "in_per_s": rates.map(|rates| rates.0), "out_per_s": rates.map(|rates| rates.1),
        }))?;
        return Ok(());
    }
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), report::short);
    let cells = [
        line.waiting.to_string(),
        line.owned.to_string(),
        line.later.to_string(),
        line.dead.to_string(),
        line.waiters.to_string(),
        line.oldest_s.map_or_else(|| "-".to_owned(), |seconds| report::clock(report::as_f64(seconds))),
        report::size(line.bytes),
        rate(rates.map(|rates| rates.0)),
        rate(rates.map(|rates| rates.1)),
    ];
    report.data(&row(&line.name, width, &cells))?;
    Ok(())
}
