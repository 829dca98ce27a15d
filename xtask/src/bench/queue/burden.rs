//! How much delayed rows, keys and leases in a queue slow its consumers down.

use anyhow::{Context, Result};

use super::ours::{Ours, QUEUED};
use crate::bench::measure::{as_f64, middle};

/// How many connections take.
const CONNECTIONS: u32 = 10;

/// One row in so many has the hot key.
const HOT: u64 = 10;

/// Rows that a queue holds besides those that are taken.
pub(super) struct Burden {
    name: &'static str,
    /// How many of them; with 0 nothing is measured.
    count: u64,
    /// A third column, as it is declared.
    column: &'static str,
    /// The option that names it.
    option: &'static str,
    /// The rows that it is made of, and their third column.
    rows: u64,
    heavy: String,
    /// The third column of rows to be taken beside them.
    beside: String,
    /// Whether these rows are leased.
    leased: bool,
    /// How the client takes.
    mode: &'static str,
}

impl Burden {
    pub(super) fn later(count: u64) -> Burden {
        Burden {
            name: "rows due in a year",
            count,
            column: ", due DATETIME",
            option: "DUE='due'",
            rows: count,
            heavy: ", NOW() + INTERVAL 1 YEAR".to_owned(),
            beside: ", NULL".to_owned(),
            leased: false,
            mode: "one",
        }
    }

    pub(super) fn keys(count: u64) -> Burden {
        let key = format!(", IF(seq % {HOT}, 1 + seq % {}, 0)", count.max(1));
        Burden {
            name: "keys, and a hot one with a tenth of the rows",
            count,
            column: ", k INT",
            option: "FIFO='k'",
            rows: QUEUED,
            heavy: key.clone(),
            beside: key,
            leased: false,
            mode: "one",
        }
    }

    pub(super) fn leases(count: u64) -> Burden {
        Burden {
            name: "leases out",
            count,
            column: "",
            option: "",
            rows: count,
            heavy: String::new(),
            beside: String::new(),
            leased: true,
            mode: "leaseack",
        }
    }

    /// The third column of a row that is taken.
    fn light(&self) -> &'static str {
        if self.column.is_empty() { "" } else { ", NULL" }
    }
}

/// A queue of one kind, and how fast it was in each round.
struct Measured {
    table: &'static str,
    /// The third column of rows to be taken.
    value: String,
    rates: Vec<f64>,
}

impl Measured {
    /// Creates a queue.
    fn create(
        ours: &Ours,
        table: &'static str,
        (column, option): (&str, &str),
        value: &str,
    ) -> Result<Measured> {
        ours.query(&format!(
            "CREATE OR REPLACE TABLE bench.{table} (v INT NOT NULL, body VARCHAR(100) NOT NULL{column}) \
             ENGINE=QUEUE SYNC='none' {option}"
        ))?;
        Ok(Measured { table, value: value.to_owned(), rates: Vec::new() })
    }

    /// Takes rows, and puts as many back.
    fn take(&mut self, ours: &Ours, mode: &str) -> Result<()> {
        let (messages, seconds) = ours.had(self.table, mode, CONNECTIONS)?;
        self.rates.push(messages / seconds);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        ours.fill(self.table, messages as u64, &self.value)
    }
}

/// Compares each queue that holds such rows with two others: the same queue without them, and one without the
/// option, too. All of them are there at the same time, and take turns.
pub(super) fn measure(ours: &Ours, burdens: &[Burden], rounds: u64) -> Result<()> {
    let mut lines = Vec::new();
    for burden in burdens.iter().filter(|burden| burden.count > 0) {
        lines.push(one(ours, burden, rounds)?);
    }
    if !lines.is_empty() {
        println!(
            "\n| {CONNECTIONS} connections take, messages a second | without the option | with it | with the burden \
             | of with it | of without | bytes of memory for one, as the queue says | of the process |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

fn one(ours: &Ours, burden: &Burden, rounds: u64) -> Result<String> {
    let mut plain = Measured::create(ours, "plain", (burden.column, ""), burden.light())?;
    let mut light = Measured::create(ours, "light", (burden.column, burden.option), burden.light())?;
    let mut heavy = Measured::create(ours, "heavy", (burden.column, burden.option), &burden.beside)?;
    // The first row makes the server know the queue.
    ours.fill(heavy.table, 1, &heavy.value)?;
    let before = memory(ours, heavy.table)?;
    ours.fill(heavy.table, burden.rows, &burden.heavy)?;
    if burden.leased {
        ours.hold(heavy.table, burden.rows)?;
    }
    let after = memory(ours, heavy.table)?;
    for queue in [&plain, &light, &heavy] {
        ours.fill(queue.table, QUEUED, &queue.value)?;
    }
    for _ in 0..rounds {
        for queue in [&mut plain, &mut light, &mut heavy] {
            queue.take(ours, burden.mode)?;
        }
    }
    let rate = |queue: &Measured| middle(queue.rates.clone()).unwrap_or_default();
    let ratio = |base: &Measured| {
        let ratios = heavy.rates.iter().zip(&base.rates).map(|(rate, base)| rate / base).collect();
        middle(ratios).unwrap_or_default()
    };
    let bytes = |(after, before): (f64, f64)| (after - before) / as_f64(burden.rows);
    Ok(format!(
        "| {} {} | {:.0} | {:.0} | {:.0} | {:.3} | {:.3} | {:.0} | {:.0} |",
        burden.count,
        burden.name,
        rate(&plain),
        rate(&light),
        rate(&heavy),
        ratio(&light),
        ratio(&plain),
        bytes((after.0, before.0)),
        bytes((after.1, before.1)),
    ))
}

/// Bytes of memory: what the queue says of itself, and what the server's process has.
fn memory(ours: &Ours, table: &str) -> Result<(f64, f64)> {
    let said =
        ours.query(&format!("SELECT memory FROM information_schema.queues WHERE table_name = '{table}'"))?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", ours.pid()))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
    let resident: f64 = resident.context("no VmRSS")?.trim().parse()?;
    Ok((said.parse().with_context(|| format!("{table} says {said:?}"))?, resident * 1024.0))
}
