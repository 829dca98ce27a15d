//! Compares an import that writes the table's file with imports that send rows, durable when finished; then
//! reads the rows out of the file again.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;

use anyhow::{Context, Result};
use sandbox::Product;
use serde_json::Value;

use super::import::{Bench, TABLE};
use super::measure::{Cost, Timed, as_f64, measure, median, median_ratio, timed};
use crate::{places, release, setup};

/// The middle size of the comparison of imports, and with `--full` its last one.
const ROWS: [u64; 2] = [5_400_000, 46_741_126];
/// Rounds; with more rows than that there is one.
const ROUNDS: usize = 3;
const ROWS_OF_ROUNDS: u64 = 10_000_000;
/// So many rows are shuffled in memory.
const ROWS_MIXED_MAX: u64 = 10_000_000;

/// What is imported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Sorted,
    WithKey,
    Mixed,
}

impl Case {
    const ALL: [Case; 3] = [Case::Sorted, Case::WithKey, Case::Mixed];

    fn name(self) -> &'static str {
        match self {
            Case::Sorted => "in the order of the primary key",
            Case::WithKey => "with KEY (uid)",
            Case::Mixed => "in any order",
        }
    }

    /// The name of the file and those of its halves.
    fn files(self) -> [&'static str; 3] {
        match self {
            Case::Mixed => ["mixed.tsv", "mixed.1.tsv", "mixed.2.tsv"],
            _ => ["nodes.tsv", "nodes.1.tsv", "nodes.2.tsv"],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Physical,
    Ordinary,
    TwoLocal,
    LoadData,
}

impl Method {
    const ALL: [Method; 4] = [Method::Physical, Method::Ordinary, Method::TwoLocal, Method::LoadData];

    fn name(self) -> &'static str {
        match self {
            Method::Physical => "remora import --physical",
            Method::Ordinary => "remora import",
            Method::TwoLocal => "two LOAD DATA LOCAL, file split beforehand",
            Method::LoadData => "LOAD DATA",
        }
    }
}

/// `cargo xtask bench physical [--rows N | --full] [--server NAME] [--only WORD] [--steps]`: the cases with
/// that word. With `--steps` only where the time of an import goes.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    setup::install(&[("/usr/bin/time", "time")])?;
    let remora = release()?;
    let value = |name: &str| super::value(arguments, name);
    let sizes = match value("--rows") {
        Some(rows) => vec![rows.parse::<u64>().context("--rows takes a number")?],
        None if arguments.iter().any(|argument| argument == "--full") => ROWS.to_vec(),
        None => ROWS.iter().take(1).copied().collect(),
    };
    let product: Product = value("--server").unwrap_or("mariadb-11.4").parse()?;
    let places = places()?;
    let installation = sandbox::find(&places, product)?;
    let only = value("--only").unwrap_or_default();
    let steps_only = arguments.iter().any(|argument| argument == "--steps");
    for rows in sizes {
        let mut bench = Bench::start(&installation, &places, rows, &remora)?;
        if rows <= ROWS_MIXED_MAX {
            mix(&bench)?;
        }
        for case in Case::ALL.into_iter().filter(|case| case.name().contains(only)) {
            if case != Case::Mixed || rows <= ROWS_MIXED_MAX {
                println!("\n### {product} ({}), {rows} rows {}\n", installation.version, case.name());
                if steps_only { steps(&bench, case)? } else { table(&bench, case)? }
            }
        }
        if steps_only {
            continue;
        }
        println!("\n### The same rows out of the file of a stopped server\n");
        extract(&mut bench)?;
    }
    Ok(())
}

/// Reads the rows of the table that was imported last out of the stopped server's data folder.
fn extract(bench: &mut Bench<'_>) -> Result<()> {
    bench.server.stop()?;
    println!("| method | wall s | rows/s | rows/s of processor time | memory MB |\n|---|--:|--:|--:|--:|");
    for threads in [1, 2] {
        let arguments =
            format!("extract '{}' bench.nodes -j {threads} --quiet -o -", bench.server.data().display());
        let Timed { wall_s, processor_s, memory_mb, .. } =
            remora(bench, &format!("{arguments} > /dev/null"))?;
        println!(
            "| remora extract -j {threads} | {wall_s:.2} | {:.0} k | {:.0} k | {memory_mb:.0} |",
            as_f64(bench.rows) / wall_s / 1e3,
            as_f64(bench.rows) / processor_s / 1e3,
        );
    }
    Ok(())
}

/// Runs remora under GNU time. The rest of the line is for a shell.
fn remora(bench: &Bench<'_>, rest: &str) -> Result<Timed> {
    let line = format!("'{}' {rest}", bench.remora.display());
    timed(Command::new("/usr/bin/time"), &line, &bench.folder.join("time"))
}

/// Writes the rows in an order that has nothing to do with their keys.
fn mix(bench: &Bench<'_>) -> Result<()> {
    let text = std::fs::read(bench.folder.join("nodes.tsv"))?;
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let create = |name| File::create(bench.folder.join(name)).map(BufWriter::new);
    let [whole, first, second] = Case::Mixed.files();
    let (mut whole, mut first, mut second) = (create(whole)?, create(first)?, create(second)?);
    // A prime larger than any number of lines: all are met once.
    let step = 2_147_483_647 % lines.len();
    for at in 0..lines.len() {
        let line = lines[at * step % lines.len()];
        whole.write_all(line)?;
        if at < lines.len() / 2 { &mut first } else { &mut second }.write_all(line)?;
    }
    for mut file in [whole, first, second] {
        file.flush()?;
        file.get_ref().sync_all()?;
    }
    Ok(())
}

/// Runs all methods alternately, and prints a table.
fn table(bench: &Bench<'_>, case: Case) -> Result<()> {
    let mut results: Vec<(Method, Vec<Cost>)> = Method::ALL.map(|method| (method, Vec::new())).to_vec();
    let mut memory_mb: f64 = 0.0;
    for _ in 0..if bench.rows > ROWS_OF_ROUNDS { 1 } else { ROUNDS } {
        for (method, costs) in &mut results {
            costs.push(cost(bench, case, *method, &mut memory_mb)?);
        }
        results.rotate_left(1);
    }
    results.sort_by_key(|(method, _)| Method::ALL.iter().position(|one| one == method));
    let ours = results.first().map(|(_, costs)| costs.clone()).unwrap_or_default();
    println!("| method | wall s | rows/s | server us/row | client us/row | wall / ours | processor / ours |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (method, costs) in results {
        let ratio = |part: fn(&Cost) -> f64| {
            let of = |costs: &[Cost]| {
                costs.iter().map(|cost| Cost { wall_s: part(cost), ..*cost }).collect::<Vec<_>>()
            };
            median_ratio(&of(&costs), &of(&ours)).unwrap_or(f64::NAN)
        };
        let (wall, processor) = (ratio(|cost| cost.wall_s), ratio(|cost| cost.server_s + cost.client_s));
        let Some(cost) = median(costs) else { continue };
        let micros = |seconds: f64| seconds * 1e6 / as_f64(bench.rows);
        println!(
            "| {} | {:.2} | {:.0} k | {:.2} | {:.3} | {wall:.2} | {processor:.2} |",
            method.name(),
            cost.wall_s,
            as_f64(bench.rows) / cost.wall_s / 1e3,
            micros(cost.server_s),
            micros(cost.client_s),
        );
    }
    println!("\n{} took at most {memory_mb:.0} MB of memory.", Method::Physical.name());
    Ok(())
}

/// Prints where the time of an import goes: the middle one of several by its wall time.
fn steps(bench: &Bench<'_>, case: Case) -> Result<()> {
    let mut runs = Vec::new();
    for _ in 0..if bench.rows > ROWS_OF_ROUNDS { 1 } else { ROUNDS } {
        empty(bench, case)?;
        let run = remora(bench, &physical(bench, case, "--json"))?;
        bench.counted(bench.rows, case.name())?;
        runs.push(run);
    }
    runs.sort_by(|one, other| one.wall_s.total_cmp(&other.wall_s));
    let Some(run) = runs.get(runs.len() / 2) else { return Ok(()) };
    let lines = run.stdout.lines().map(serde_json::from_str::<Value>);
    let mut steps: Vec<(String, f64)> = Vec::new();
    for line in lines.collect::<Result<Vec<_>, _>>().context("the lines of --json")? {
        if line["message_type"] == "phase" {
            let name = line["phase"].as_str().unwrap_or_default().to_owned();
            steps.push((name, line["seconds"].as_f64().unwrap_or_default()));
        }
    }
    let named: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
    steps.push(("the rest".to_owned(), run.wall_s - named));
    println!("| step | s | share | |\n|---|--:|--:|---|");
    for (name, seconds) in steps {
        let share = seconds / run.wall_s;
        let bar: String = (1..=40).take_while(|mark| f64::from(*mark) <= share * 40.0).map(|_| '#').collect();
        println!("| {name} | {seconds:.2} | {:.0} % | {bar} |", share * 100.0);
    }
    println!("| all | {:.2} | | |", run.wall_s);
    Ok(())
}

/// Makes the table, without rows.
fn empty(bench: &Bench<'_>, case: Case) -> Result<()> {
    bench.query("DROP TABLE IF EXISTS bench.nodes")?;
    bench.query(TABLE)?;
    if case == Case::WithKey {
        bench.query("ALTER TABLE bench.nodes ADD KEY uid (uid)")?;
    }
    bench.query("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
    Ok(())
}

/// The arguments of an import that writes the table's file.
fn physical(bench: &Bench<'_>, case: Case, report: &str) -> String {
    let (socket, [whole, ..]) = (bench.server.socket().display(), case.files());
    format!(
        "import --no-defaults {report} --user=root --socket='{socket}' --into=bench.nodes --no-header --physical \
         --time-zone=+00:00 '{}'",
        bench.folder.join(whole).display()
    )
}

/// Runs a method once on an empty table, and proves that it loaded everything. Notes the most memory that an
/// import of the table's file took.
fn cost(bench: &Bench<'_>, case: Case, method: Method, memory_mb: &mut f64) -> Result<Cost> {
    empty(bench, case)?;
    let [whole, first, second] = case.files().map(|name| bench.folder.join(name).display().to_string());
    let load = |local: &str, file: &str| format!("LOAD DATA {local} INFILE '{file}' INTO TABLE bench.nodes");
    let cost = measure(bench.server.pid(), || match method {
        Method::Physical => {
            *memory_mb = memory_mb.max(remora(bench, &physical(bench, case, "--quiet"))?.memory_mb);
            Ok(())
        }
        Method::Ordinary => bench.import(&whole, &[]),
        Method::TwoLocal => bench.both(&load("LOCAL", &first), &load("LOCAL", &second)),
        Method::LoadData => bench.query(&load("", &whole)).map(drop),
    })?;
    bench.counted(bench.rows, method.name())?;
    Ok(cost)
}
