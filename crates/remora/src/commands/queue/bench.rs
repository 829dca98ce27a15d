//! `remora queue bench`

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use progress::pause;
use serde_json::json;
use server::{Session, Target, quote_name};

use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};

/// The most bytes of a message: the size of the scratch table's column.
const BYTES_MAX: u16 = 8000;

/// How often to check whether a connection has failed.
const LOOK: Duration = Duration::from_millis(50);

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
    let load = Load {
        target: &target,
        queue: session.quote(&format!("{}.{name}", arguments.schema)),
        table: &table,
        body: "m".repeat(usize::from(arguments.bytes)),
        began: Instant::now(),
        full: AtomicBool::new(false),
        published: AtomicU64::new(0),
    };
    let measured = load.run(arguments, &stop);
    // Whatever the result.
    let dropped = session.execute(&format!("DROP TABLE {table}"));
    let figures = measured?;
    dropped?;
    figures.show(report)?;
    Ok(if stop.load(Ordering::Relaxed) { stopped() } else { Exit::Done })
}

/// What all connections share.
struct Load<'run> {
    target: &'run Target,
    table: &'run str,
    /// The table's name for queue_wait(), quoted.
    queue: String,
    body: String,
    /// The start of all times.
    began: Instant,
    /// Set when nothing more is published.
    full: AtomicBool,
    published: AtomicU64,
}

/// The results.
struct Figures {
    published: u64,
    published_s: f64,
    taken: u64,
    taken_s: f64,
    /// Microseconds from before an INSERT until its row was taken, sorted.
    delays_us: Vec<u64>,
}

impl Load<'_> {
    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn run(&self, arguments: &Arguments, stop: &AtomicBool) -> Result<Figures> {
        let pair = |_| Ok((self.target.connect()?, self.target.connect()?));
        let pairs: Vec<(Session, Session)> = (0..arguments.connections).map(pair).collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            let mut publishers = Vec::new();
            let mut takers = Vec::new();
            for (publisher, taker) in pairs {
                publishers.push(scope.spawn(move || self.ending(self.publish(publisher))));
                takers.push(scope.spawn(move || self.ending(self.take(taker))));
            }
            let until = Instant::now() + Duration::from_secs(arguments.seconds.into());
            while Instant::now() < until && !self.full.load(Ordering::Relaxed) {
                if !pause(LOOK, stop) {
                    break;
                }
            }
            self.full.store(true, Ordering::Relaxed);
            let ended = |thread: ScopedJoinHandle<'_, Result<Vec<u64>>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a connection's thread failed")))
            };
            publishers.into_iter().try_for_each(|thread| ended(thread).map(drop))?;
            let published_s = self.began.elapsed().as_secs_f64();
            let mut delays_us = Vec::new();
            for thread in takers {
                delays_us.extend(ended(thread)?);
            }
            let taken_s = self.began.elapsed().as_secs_f64();
            delays_us.sort_unstable();
            let (published, taken) = (self.published.load(Ordering::Relaxed), delays_us.len() as u64);
            Ok(Figures { published, published_s, taken, taken_s, delays_us })
        })
    }

    /// If one connection fails, the others end too.
    fn ending(&self, result: Result<Vec<u64>>) -> Result<Vec<u64>> {
        if result.is_err() {
            self.full.store(true, Ordering::Relaxed);
        }
        result
    }

    fn publish(&self, mut session: Session) -> Result<Vec<u64>> {
        while !self.full.load(Ordering::Relaxed) {
            session.execute(&format!(
                "INSERT INTO {} VALUES ({}, '{}')",
                self.table,
                self.now_us(),
                self.body
            ))?;
            self.published.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Vec::new())
    }

    /// Takes rows until publishing has ended and nothing waits.
    fn take(&self, mut session: Session) -> Result<Vec<u64>> {
        let mut delays = Vec::new();
        loop {
            let last = self.full.load(Ordering::Relaxed);
            let wait = u8::from(!last);
            let select = format!("SELECT sent FROM {} WHERE queue_wait({}, {wait})", self.table, self.queue);
            let taken = session.strings(&select)?;
            match taken.first().and_then(|row| row.first()?.as_ref()) {
                Some(sent) => delays.push(self.now_us().saturating_sub(sent.parse()?)),
                None if last => return Ok(delays),
                None => {}
            }
        }
    }
}

impl Figures {
    /// The delay that this percentage of messages does not exceed.
    fn delay_us(&self, of_100: usize) -> u64 {
        let at = self.delays_us.len().saturating_sub(1) * of_100 / 100;
        self.delays_us.get(at).copied().unwrap_or(0)
    }

    fn show(&self, report: &Report) -> Result<()> {
        let rate = |count: u64, seconds: f64| report::as_f64(count) / seconds.max(f64::MIN_POSITIVE);
        let (published, taken) = (rate(self.published, self.published_s), rate(self.taken, self.taken_s));
        let (median, late) = (self.delay_us(50), self.delay_us(99));
        if report.is_json() {
            report.message(&json!({
                "message_type": "summary", "published": self.published, "published_per_s": published,
                "taken": self.taken, "taken_per_s": taken, "p50_us": median, "p99_us": late,
            }))?;
            return Ok(());
        }
        report.data(&format!("published  {:>10}  {published:>9.0}/s", self.published))?;
        report.data(&format!("taken      {:>10}  {taken:>9.0}/s", self.taken))?;
        report.data(&format!("from INSERT to taken  p50 {median} us  p99 {late} us"))?;
        Ok(())
    }
}
