//! `remora queue status`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use server::{Error, Session};

use crate::args::ServerArgs;
use crate::commands::{pause, stop_flag};
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};

/// The server knows queues that were used since its start.
const STATEMENT: &str = "SELECT table_schema, table_name, waiting, owned, waiters, \
     COALESCE(TIMESTAMPDIFF(SECOND, oldest, NOW()), 0), bytes, rows_written, rows_removed \
     FROM information_schema.queues ORDER BY 1, 2";

const HEAD: &str =
    "queue                                waiting    owned  waiters   oldest     bytes      in/s     out/s";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Show it again every so many seconds, until stopped
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,

    #[command(flatten)]
    server: ServerArgs,
}

/// One queue at one time.
struct Line {
    name: String,
    waiting: u64,
    owned: u64,
    waiters: u64,
    oldest_s: u64,
    bytes: u64,
    written: u64,
    removed: u64,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let mut session = arguments.server.target(password)?.connect()?;
    let stop = stop_flag(report)?;
    let mut before: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut asked = None;
    loop {
        let lines = lines(&mut session)?;
        let now = Instant::now();
        let seconds = asked.map(|asked: Instant| now.duration_since(asked).as_secs_f64());
        asked = Some(now);
        if !report.is_json() {
            report.data(HEAD)?;
        }
        for line in &lines {
            let earlier = before.insert(line.name.clone(), (line.written, line.removed));
            let rates = earlier.zip(seconds).map(|((written, removed), seconds)| {
                let rate = |now: u64, before: u64| report::as_f64(now.saturating_sub(before)) / seconds;
                (rate(line.written, written), rate(line.removed, removed))
            });
            show(line, rates, report)?;
        }
        let Some(every) = arguments.every else { return Ok(Exit::Done) };
        let next = now + Duration::from_secs(every);
        if !pause(next.saturating_duration_since(Instant::now()), &stop) {
            return Ok(stopped());
        }
    }
}

fn lines(session: &mut Session) -> anyhow::Result<Vec<Line>> {
    let rows = session.strings(STATEMENT).map_err(|error| match error {
        // Unknown table in information_schema.
        Error::Sql { code: 1109, .. } => {
            anyhow::Error::new(error).context("the server has no ENGINE=QUEUE; run sql/queue.sql there")
        }
        error => error.into(),
    })?;
    rows.into_iter().map(|row| line(row).context("information_schema.QUEUES is of another version")).collect()
}

fn line(row: Vec<Option<String>>) -> Option<Line> {
    let row: Vec<String> = row.into_iter().collect::<Option<_>>()?;
    let [schema, table, numbers @ ..] = row.as_slice() else { return None };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
    let [waiting, owned, waiters, oldest_s, bytes, written, removed] = numbers[..] else { return None };
    let name = format!("{schema}.{table}");
    Some(Line { name, waiting, owned, waiters, oldest_s, bytes, written, removed })
}

fn show(line: &Line, rates: Option<(f64, f64)>, report: &Report) -> anyhow::Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "queue", "name": line.name, "waiting": line.waiting, "owned": line.owned,
            "waiters": line.waiters, "oldest_s": line.oldest_s, "bytes": line.bytes,
            "rows_written": line.written, "rows_removed": line.removed,
            "in_per_s": rates.map(|rates| rates.0), "out_per_s": rates.map(|rates| rates.1),
        }))?;
        return Ok(());
    }
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), report::short);
    report.data(&format!(
        "{:<32} {:>11} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}",
        line.name,
        line.waiting,
        line.owned,
        line.waiters,
        report::clock(report::as_f64(line.oldest_s)),
        report::size(line.bytes),
        rate(rates.map(|rates| rates.0)),
        rate(rates.map(|rates| rates.1)),
    ))?;
    Ok(())
}
