//! `remora queue bench`

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use queue_admin::bench::{Figures, Load};
use serde_json::json;
use server::quote_name;

use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};

/// The most bytes of a message: the size of the scratch table's column.
const BYTES_MAX: u16 = 8000;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The database in which a scratch table is made, and dropped at the end
    #[arg(value_name = "DATABASE")]
    schema: String,

    /// How many connections publish, and how many take
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=500))]
    connections: u32,

    /// How long to publish
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// The SYNC of the scratch table
    #[arg(long, value_enum, default_value_t = Mode::Always)]
    sync: Mode,

    /// Bytes of a message
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(0..=i64::from(BYTES_MAX)))]
    bytes: u16,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    Always,
    Interval,
    None,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Always => "always",
            Mode::Interval => "interval",
            Mode::None => "none",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let mut session = target.connect()?;
    let name = format!("remora_queue_bench_{}", session.connection_id());
    let table = format!("{}.{}", quote_name(&arguments.schema), quote_name(&name));
    let stop = stop_flag(report)?;
    let create = format!(
        "CREATE TABLE {table} (sent BIGINT NOT NULL, body VARCHAR({BYTES_MAX}) CHARACTER SET latin1 NOT NULL) ENGINE=QUEUE SYNC='{}'",
        arguments.sync.name()
    );
    session.execute(&create).context("no scratch table; is ENGINE=QUEUE installed there (sql/queue.sql)?")?;
    let queue = session.quote(&format!("{}.{name}", arguments.schema));
    let load = Load::new(&target, &table, queue, usize::from(arguments.bytes));
    let measured = load.run(arguments.connections, Duration::from_secs(arguments.seconds.into()), &stop);
    // Whatever the result.
    let dropped = session.execute(&format!("DROP TABLE {table}"));
    let figures = measured?;
    dropped?;
    show(&figures, report)?;
    Ok(if stop.load(Ordering::Relaxed) { stopped() } else { Exit::Done })
}

fn show(figures: &Figures, report: &Report) -> Result<()> {
    let rate = |count: u64, seconds: f64| report::as_f64(count) / seconds.max(f64::MIN_POSITIVE);
    let (published, taken) =
        (rate(figures.published, figures.published_s), rate(figures.taken, figures.taken_s));
    let (median, late) = (figures.delay_us(50), figures.delay_us(99));
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "published": figures.published, "published_per_s": published,
            "taken": figures.taken, "taken_per_s": taken, "p50_us": median, "p99_us": late,
        }))?;
        return Ok(());
    }
    report.data(&format!("published  {:>10}  {published:>9.0}/s", figures.published))?;
    report.data(&format!("taken      {:>10}  {taken:>9.0}/s", figures.taken))?;
    report.data(&format!("from INSERT to taken  p50 {median} us  p99 {late} us"))?;
    Ok(())
}
