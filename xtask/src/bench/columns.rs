//! Compares ways to get a table out of a server as Parquet, and back into one: beside text, beside other
//! tools, and in a store beside a disk.

mod aims;
mod method;
mod stand;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use self::aims::aims;
use self::method::{Group, METHODS, Method};
use self::stand::{Stand, Taken};
use super::measure::{as_f64, middle};
use crate::{release, setup};

const ROWS: u64 = 2_000_000;
const ROUNDS: usize = 3;

/// Programs of the peers, and of the bench.
const NEEDED: [(&str, &str); 5] = [
    ("/usr/bin/time", "time"),
    ("mariadb-dump", "mariadb-client"),
    ("java", "default-jre-headless"),
    ("mvn", "maven"),
    ("pip3", "python3-pip"),
];

/// A method with what its rounds took; nothing if it can't be had here.
struct Row {
    method: &'static Method,
    taken: Vec<Taken>,
    /// What is not as in the table, or why there is no result.
    note: String,
}

/// `cargo xtask bench columns [--rows N] [--rounds N] [--only WORD,...] [--program FILE]`
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let value = |name: &str| super::value(arguments, name);
    let rows = value("--rows").map_or(Ok(ROWS), str::parse).context("--rows takes a number")?;
    let rounds = value("--rounds").map_or(Ok(ROUNDS), str::parse).context("--rounds takes a number")?;
    let only = value("--only").unwrap_or_default();
    let wanted = |method: &&Method| only.split(',').any(|word| method.name.contains(word));
    let mut table: Vec<Row> = METHODS
        .iter()
        .filter(wanted)
        .map(|method| Row { method, taken: Vec::new(), note: String::new() })
        .collect();
    if table.is_empty() {
        bail!(
            "no method has one of these words; there are {}",
            METHODS.each_ref().map(|method| method.name).join(", ")
        );
    }
    setup::run_quietly()?;
    setup::install(&NEEDED)?;
    let remora = value("--program").map_or_else(release, |path| Ok(PathBuf::from(path)))?;
    let stand = Stand::start(&remora, rows)?;
    println!("{}", stand.describe()?);
    // The first round warms the caches, and compares what each method has made with the table.
    for round in 0..=rounds {
        for row in &mut table {
            if let (0, Err(why)) | (1.., Err(why)) = (round, row.round(&stand, round)) {
                if row.method.group.is_ours() {
                    return Err(why.context(row.method.name));
                }
                row.note = format!("could not be had: {why:#}");
            }
        }
        // Each round begins with another one: what a run leaves to the server slows the next one.
        table.rotate_left(1);
    }
    table.sort_by_key(|row| METHODS.iter().position(|one| one.name == row.method.name));
    print(&table, &stand);
    aims(&table, &stand);
    Ok(())
}

impl Row {
    fn round(&mut self, stand: &Stand, round: usize) -> Result<()> {
        if !self.note.starts_with("could not") {
            let taken = stand.run(self.method)?;
            if round == 0 {
                self.note = stand.compare(self.method)?;
            } else {
                println!("{}: {:.2} s", self.method.name, taken.wall_s);
                self.taken.push(taken);
            }
        }
        Ok(())
    }

    /// The round in the middle by wall time.
    fn middle(&self) -> Option<&Taken> {
        let mut taken: Vec<&Taken> = self.taken.iter().collect();
        taken.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
        taken.get(taken.len().saturating_sub(1) / 2).copied()
    }

    /// The ratio of a part of what they took to that of another one in the same rounds.
    fn ratio(&self, base: &Row, part: fn(&Taken) -> f64) -> Option<f64> {
        middle(self.taken.iter().zip(&base.taken).map(|(one, other)| part(one) / part(other)).collect())
    }
}

/// The row of a method, if it was measured.
fn of<'a>(table: &'a [Row], name: &str) -> Option<&'a Row> {
    table.iter().find(|row| row.method.name == name && !row.taken.is_empty())
}

/// Prints the groups. The last two numbers are ratios: of the wall time, and of what client and server used
/// together, which other work on the machine changes less.
fn print(table: &[Row], stand: &Stand) {
    for group in Group::ALL {
        let rows: Vec<&Row> = table.iter().filter(|row| row.method.group == group).collect();
        if rows.is_empty() {
            continue;
        }
        println!(
            "\n| {}; 1.00 is {} | wall s | server s | client s | peak MB | % of text | MB / client s | k rows / client s | wall | processor | |",
            group.name(),
            group.base(),
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|");
        for row in rows {
            let Some(taken) = row.middle() else {
                println!("| {} | | | | | | | | | | {} |", row.method.name, row.note);
                continue;
            };
            let base = of(table, group.base());
            let ratio = |part| base.and_then(|base| row.ratio(base, part));
            let shown = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            println!(
                "| {} | {:.2} | {:.2} | {:.2} | {:.0} | {} | {:.0} | {:.0} | {} | {} | {} |",
                row.method.name,
                taken.wall_s,
                taken.server_s,
                taken.client_s,
                taken.memory_mb,
                taken.bytes.map_or(String::new(), |bytes| format!("{:.2}", stand.percent(bytes))),
                stand.text_mb() / taken.client_s,
                as_f64(stand.rows) / taken.client_s / 1e3,
                shown(ratio(|taken| taken.wall_s)),
                shown(ratio(Taken::processor_s)),
                row.note,
            );
        }
    }
}
