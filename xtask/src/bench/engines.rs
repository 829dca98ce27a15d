//! One query of sums over all rows: the server itself, and engines on the files of a dump, or on those as a
//! table of Iceberg.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};
use serde::Deserialize;

use super::measure::middle;
use super::value;
use crate::engines::{self, Engines, iceberg_cargo};
use crate::{places, release, root, run as show_and_run, shown, target};

const ROWS: u64 = 5_000_000;
const ROUNDS: usize = 5;
/// All of the table is in it, so that the server need not read.
const OPTIONS: [&str; 2] = ["--innodb-buffer-pool-size=2G", "--skip-log-bin"];
/// `{t}` is the table, as an engine names it.
const QUERY: &str = "SELECT product, count(*) AS n, sum(quantity) AS quantity, sum(price) AS total FROM {t} \
                     GROUP BY product ORDER BY product";
const TABLE: &str = "CREATE TABLE shop.sales (id BIGINT PRIMARY KEY, at DATETIME NOT NULL, customer INT NOT NULL, \
                     product INT NOT NULL, quantity INT NOT NULL, price DECIMAL(10,2) NOT NULL, note VARCHAR(60))";

/// An engine, what it reads, and what the script calls that.
const ENGINES: [(&str, &str, &str); 8] = [
    ("DuckDB", "Parquet", "duckdb"),
    ("DuckDB", "Iceberg", "duckdb-iceberg"),
    ("polars", "Parquet", "polars"),
    ("ClickHouse (chdb)", "Parquet", "chdb"),
    ("ClickHouse (chdb)", "Iceberg", "chdb-iceberg"),
    ("Spark", "Parquet", "spark"),
    ("Spark", "Iceberg", "spark-iceberg"),
    ("Trino", "Iceberg", "trino"),
];

/// What the script prints.
#[derive(Deserialize)]
struct Answer {
    version: String,
    rows: Vec<Vec<String>>,
    /// Seconds from the start of the process to the first answer.
    first_s: f64,
    /// Seconds of each further one.
    again_s: Vec<f64>,
}

/// `bench engines [--rows N] [--rounds N]`.
pub(super) fn run_bench(arguments: &[String]) -> Result<()> {
    let rows = value(arguments, "--rows").map_or(Ok(ROWS), str::parse).context("--rows N")?;
    let rounds = value(arguments, "--rounds").map_or(Ok(ROUNDS), str::parse).context("--rounds N")?;
    let engines = Engines::bring()?;
    let remora = engines::remora().map_or_else(release, Ok)?;
    show_and_run(iceberg_cargo("build").arg("--quiet"))?;
    let places = places()?;
    let installation = sandbox::find(&places, Product::MariaDb1011)?;
    let options = OPTIONS.map(str::to_owned).to_vec();
    let server = Sandbox::start(&installation, &places, &Settings { options, ..Settings::default() })?;
    let folder = tempfile::tempdir()?;
    fill(&server, rows)?;
    let url = format!("unix://root@{}", server.socket().display());
    let began = Instant::now();
    let mut dump = Command::new(&remora);
    dump.args(["dump", "shop", "--format", "parquet", "-q", "-o", "dump", "--url", &url]);
    quiet(dump.current_dir(&folder))?;
    let dump_s = began.elapsed().as_secs_f64();
    let mut register = Command::new(target().join("iceberg/debug/remora-iceberg"));
    quiet(register.args(["dump", "--warehouse", "lake"]).current_dir(&folder))?;
    println!("{rows} rows; remora dump took {dump_s:.1} s. InnoDB: {}, Parquet: {}", size(server.data())?, {
        size(&folder.path().join("dump/shop.sales"))?
    });
    println!("\n| engine | reads | from its start to the answer | the answer again |\n|---|---|--:|--:|");
    let wanted = ask_server(&server, rounds)?;
    for (name, form, script) in ENGINES {
        if script == "trino"
            && let Err(why) = &engines.trino
        {
            println!("| {name} | {form} | left out: {why} | |");
            continue;
        }
        let answer = ask(&engines, script, rounds, folder.path())?;
        if answer.rows != wanted {
            bail!("{name} answers {} rows, and not those of the server", answer.rows.len());
        }
        let again = middle(answer.again_s).context("no rounds")?;
        println!("| {name} {} | {form} | {:.1} s | {again:.2} s |", answer.version, answer.first_s);
    }
    server.remove()?;
    Ok(())
}

fn fill(server: &Sandbox, rows: u64) -> Result<()> {
    sql(server, "CREATE DATABASE shop CHARACTER SET utf8mb4")?;
    sql(server, TABLE)?;
    let values = format!(
        "INSERT INTO shop.sales SELECT seq, '2024-01-01' + INTERVAL seq * 10 SECOND, crc32(seq) % 100000, \
         crc32(seq + 7) % 1000, 1 + crc32(seq + 3) % 9, 0.99 + crc32(seq + 5) % 20000 / 100, \
         IF(seq % 4, NULL, CONCAT('order of ', crc32(seq))) FROM shop.seq_1_to_{rows}"
    );
    sql(server, &values)?;
    sql(server, "ANALYZE TABLE shop.sales").map(drop)
}

/// Asks the server, and prints its line of the table. Its first answer finds the pages in memory.
fn ask_server(server: &Sandbox, rounds: usize) -> Result<Vec<Vec<String>>> {
    let (query, mut seconds, mut text) = (QUERY.replace("{t}", "shop.sales"), Vec::new(), String::new());
    for _ in 0..=rounds {
        let began = Instant::now();
        text = sql(server, &query)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let first = seconds.remove(0);
    let again = middle(seconds).context("no rounds")?;
    println!(
        "| {} | InnoDB | {first:.1} s | {again:.2} s |",
        sql(server, "SELECT CONCAT('MariaDB ', VERSION())")?.trim()
    );
    // As the script has numbers.
    let plain = |number: &str| match number.split_once('.') {
        Some(_) => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => number.to_owned(),
    };
    Ok(text.lines().map(|line| line.split('\t').map(plain).collect()).collect())
}

fn ask(engines: &Engines, name: &str, rounds: usize, folder: &Path) -> Result<Answer> {
    let mut ask = Command::new(&engines.python);
    ask.arg("-B").arg(root().join("xtask/src/bench/engines/ask.py"));
    ask.args([name, &rounds.to_string(), QUERY]).arg(folder);
    engines.name_to(&mut ask);
    // What starts engines for the tests does it here, too.
    ask.env("PYTHONPATH", root().join("iceberg/tests")).env("TZ", "UTC").env("SPARK_LOCAL_IP", "127.0.0.1");
    let printed = quiet(ask.current_dir(folder))?;
    let line = printed.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{name}: {printed}"))
}

/// The bytes of all files in a folder, in megabytes.
fn size(folder: &Path) -> Result<String> {
    let mut bytes = 0;
    let folder = if folder.join("shop").is_dir() { folder.join("shop") } else { folder.to_owned() };
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(format!("{} MB", bytes / 1_000_000))
}

/// Runs a command, and returns what it prints.
fn quiet(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| shown(command))?;
    if !output.status.success() {
        bail!("{}: {}", shown(command), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn sql(server: &Sandbox, text: &str) -> Result<String> {
    let mut client = Command::new(sandbox::client().context("there is no SQL client")?);
    client.args(["--no-defaults", "--user=root", "--skip-column-names", "--batch"]);
    quiet(client.arg(format!("--socket={}", server.socket().display())).args(["-e", text]))
}
