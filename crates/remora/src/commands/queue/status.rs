//! `remora queue status`

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use failure::usage;
use progress::pause;
use queue_admin::overview::{Line, Times, open};
use queue_admin::watch::{Sample, Watch};
use serde_json::json;

use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};
use screen::terminal;

/// The columns after the name, and how wide they are: with a short name all fit into 80 columns.
const COLUMNS: [(&str, usize); 9] = [
    ("waiting", 8),
    ("owned", 6),
    ("later", 6),
    ("dead", 5),
    ("waiters", 7),
    ("oldest", 8),
    ("bytes", 8),
    ("in/s", 6),
    ("out/s", 6),
];

/// A column that is shown when a queue has something there.
struct Further {
    name: &'static str,
    width: usize,
    of: fn(&Sample) -> Option<String>,
}

const FURTHER: [Further; 7] = [
    Further {
        name: "rows/sync",
        width: 9,
        of: |sample| sample.rows_per_sync.map(|rows| format!("{rows:.1}")),
    },
    Further { name: "paused", width: 6, of: |sample| some(sample.line.paused) },
    Further { name: "keys paused", width: 11, of: |sample| some(sample.line.keys_paused) },
    Further { name: "keys", width: 7, of: |sample| some(sample.line.keys_busy) },
    Further { name: "open", width: 7, of: |sample| some(sample.line.transactions) },
    Further { name: "prepared", width: 8, of: |sample| some(sample.line.prepared) },
    Further { name: "doubt", width: 7, of: |sample| some(sample.line.in_doubt) },
];

/// A number that is shown unless it is 0.
fn some(number: u64) -> Option<String> {
    (number > 0).then(|| number.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server: mysql://user@host:port, unix:///path or sandbox:NAME [default: from the options and option
    /// files]
    #[arg(value_name = "SERVER")]
    at: Option<String>,

    /// Show it again every so many seconds, until stopped
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,

    /// A screen, drawn again every second or so many as --every says; q ends it
    #[arg(long)]
    live: bool,

    /// Also show how long rows waited and were worked on
    #[arg(long)]
    times: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    if arguments.live && (report.is_json() || !std::io::stdout().is_terminal()) {
        return Err(usage("--live needs a terminal; leave it out to print lines"));
    }
    if arguments.live && terminal::is_dumb() {
        return Err(usage(
            "--live needs a terminal that can be drawn on, and TERM says that this one can't; give --every 1",
        ));
    }
    let server = match &arguments.at {
        Some(at) => arguments.server.at(at),
        None => arguments.server.clone(),
    };
    let target = server.target(password)?;
    let connect = || {
        let mut session = target.connect()?;
        open(&mut session, |_, _| true, report)?;
        anyhow::Ok(session)
    };
    let mut session = connect()?;
    let stop = stop_flag(report)?;
    let every = arguments.every.map(Duration::from_secs);
    let mut watch = Watch::new(arguments.times || report.is_json());
    if arguments.live {
        let mut session = Some(session);
        // The server may be restarted meanwhile.
        let look = || {
            let mut now = session.take().map_or_else(connect, Ok)?;
            let samples = watch.look(&mut now)?;
            session = Some(now);
            Ok(table(&samples, arguments.times))
        };
        let every = every.unwrap_or(Duration::from_secs(1));
        return Ok(screen::queues::run(&target.to_string(), look, every, &stop)?.into());
    }
    loop {
        let began = Instant::now();
        let samples = watch.look(&mut session)?;
        if report.is_json() {
            samples.iter().try_for_each(|sample| tell(sample, report))?;
        } else {
            table(&samples, arguments.times).iter().try_for_each(|line| report.data(line))?;
        }
        let Some(every) = every else { return Ok(Exit::Done) };
        if !pause((began + every).saturating_duration_since(Instant::now()), &stop) {
            return Ok(stopped());
        }
    }
}

/// The lines of the table, its head first; with `times`, below it that of the times.
fn table(samples: &[Sample], times: bool) -> Vec<String> {
    let names = samples.iter().map(|sample| sample.line.name.chars().count());
    let width = names.max().unwrap_or(0).max("queue".len());
    let has = |further: &Further| samples.iter().any(|sample| (further.of)(sample).is_some());
    let more: Vec<Further> = FURTHER.into_iter().filter(has).collect();
    let columns: Vec<(&str, usize)> =
        COLUMNS.into_iter().chain(more.iter().map(|further| (further.name, further.width))).collect();
    let row = |name: &str, cells: Vec<String>| {
        let cells = cells.iter().zip(&columns).map(|(cell, (_, wide))| format!(" {cell:>wide$}"));
        format!("{name:width$}{}", cells.collect::<String>())
    };
    let head = row("queue", columns.iter().map(|(name, _)| (*name).to_owned()).collect());
    let rows = samples.iter().map(|sample| {
        let more = more.iter().map(|further| (further.of)(sample).unwrap_or_else(|| "-".to_owned()));
        row(&sample.line.name, cells(&sample.line, sample.rates).into_iter().chain(more).collect())
    });
    let mut lines: Vec<String> = std::iter::once(head).chain(rows).collect();
    if times {
        lines.extend(spans_table(samples, width));
    }
    lines
}

/// How many rows waited, and were worked on, for less than each time.
fn spans_table(samples: &[Sample], width: usize) -> Vec<String> {
    let line = |name: &str, kind: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
        format!("{name:width$} {kind:6}{cells}")
    };
    let mut lines = Vec::new();
    for Sample { line: of, spans, .. } in samples {
        for (kind, times) in [("waited", &spans.waited), ("worked", &spans.worked)] {
            if lines.is_empty() && !times.is_empty() {
                let ends = times.iter().map(|(end, _)| end.map_or_else(|| "longer".to_owned(), below));
                lines.extend([String::new(), line("queue", "", ends.collect())]);
            }
            if !times.is_empty() {
                lines.push(line(&of.name, kind, times.iter().map(|(_, count)| count.to_string()).collect()));
            }
        }
    }
    lines
}

/// The end of a class, as in `< 10 s`.
fn below(end_ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    let unit = units.into_iter().find(|(length, _)| end_ms.is_multiple_of(*length));
    let (length, name) = unit.unwrap_or((1, "ms"));
    format!("<{} {name}", end_ms / length)
}

/// What is in [`COLUMNS`].
fn cells(line: &Line, rates: Option<(f64, f64)>) -> [String; 9] {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), report::short);
    [
        line.waiting.to_string(),
        line.owned.to_string(),
        line.later.to_string(),
        line.dead.to_string(),
        line.waiters.to_string(),
        line.oldest_s.map_or_else(|| "-".to_owned(), |seconds| report::clock(report::as_f64(seconds))),
        report::size(line.bytes),
        rate(rates.map(|rates| rates.0)),
        rate(rates.map(|rates| rates.1)),
    ]
}

/// The same for programs.
fn tell(Sample { line, rates, rows_per_sync, spans }: &Sample, report: &Report) -> anyhow::Result<()> {
    let classes = |times: &Times| -> Vec<serde_json::Value> {
        times.iter().map(|(end, count)| json!({ "below_ms": end, "count": count })).collect()
    };
    report.message(&json!({
        "message_type": "queue", "name": line.name, "waiting": line.waiting, "owned": line.owned,
        "due_later": line.later, "dead": line.dead, "waiters": line.waiters, "oldest_s": line.oldest_s,
        "bytes": line.bytes, "rows_written": line.written, "rows_removed": line.removed,
        "keys_busy": line.keys_busy, "transactions": line.transactions, "prepared": line.prepared,
        "in_doubt": line.in_doubt, "paused": line.paused > 0, "keys_paused": line.keys_paused,
        "in_per_s": rates.map(|rates| rates.0), "out_per_s": rates.map(|rates| rates.1),
        "rows_per_sync": rows_per_sync,
        "waited": classes(&spans.waited), "worked": classes(&spans.worked),
    }))?;
    Ok(())
}
