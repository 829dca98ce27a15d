//! `remora queue status`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use progress::Progress;
use serde_json::json;
use server::{Error, Session, TableName};

use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};
use crate::stop::pause;

const STATEMENT: &str = "SELECT table_schema, table_name, waiting, owned, due_later, dead, waiters, oldest_age, \
     bytes, rows_written, rows_removed FROM information_schema.queues ORDER BY 1, 2";

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

/// One queue at one moment.
struct Line {
    name: String,
    waiting: u64,
    owned: u64,
    /// Owned rows that wait until later.
    later: u64,
    /// Owned rows that have no tries left.
    dead: u64,
    waiters: u64,
    /// `None` when there is no row.
    oldest_s: Option<u64>,
    bytes: u64,
    written: u64,
    removed: u64,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let server = match &arguments.at {
        Some(at) => arguments.server.at(at),
        None => arguments.server.clone(),
    };
    let mut session = server.target(password)?.connect()?;
    let stop = stop_flag(report)?;
    let opened = open(&mut session, report)?;
    if opened > 0 && lines(&mut session)?.is_empty() {
        // Without the privilege PROCESS the list would be empty; this statement fails then, and says what is
        // missing.
        session.strings("SHOW ENGINE QUEUE STATUS")?;
    }
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

/// Makes the server open each queue, because it lists only queues that were used since its start. A queue
/// that is created later is empty until it is used. Returns how many it could open.
fn open(session: &mut Session, report: &Report) -> anyhow::Result<u64> {
    let mut count = 0;
    let names = session
        .strings("SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'QUEUE'")?;
    for name in names {
        let Ok([Some(schema), Some(table)]) = <[Option<String>; 2]>::try_from(name) else { continue };
        // Unlike a SELECT from the table this needs no privilege to read, waits for no ALTER, and returns an
        // error as a comment.
        let opened = session.strings(&format!(
            "SELECT table_rows, table_comment FROM information_schema.tables \
             WHERE table_schema = {} AND table_name = {}",
            session.quote(&schema),
            session.quote(&table)
        ))?;
        match opened.first().map(Vec::as_slice) {
            Some([None, Some(why)]) => {
                report.warn(&format!("{} is not shown: {why}", TableName { schema, table }));
            }
            Some(_) => count += 1,
            // The table was dropped just now.
            None => {}
        }
    }
    Ok(count)
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
    let [Some(schema), Some(table), numbers @ ..] = row.as_slice() else { return None };
    let number = |text: &Option<String>| text.as_deref().map(str::parse).transpose().ok();
    let numbers: Vec<Option<u64>> = numbers.iter().map(number).collect::<Option<_>>()?;
    let [Some(waiting), Some(owned), Some(later), Some(dead), Some(waiters), oldest_s, ref rest @ ..] =
        numbers[..]
    else {
        return None;
    };
    let [Some(bytes), Some(written), Some(removed)] = *rest else { return None };
    let name = format!("{schema}.{table}");
    Some(Line { name, waiting, owned, later, dead, waiters, oldest_s, bytes, written, removed })
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
