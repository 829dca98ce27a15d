//! Messages per second through ENGINE=QUEUE, compared with what the server can answer at all, and with InnoDB
//! and SKIP LOCKED.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};

use super::measure::{as_f64, middle};
use crate::{places, plugin, root, run, setup};

const ROUNDS: u64 = 3;
const CONNECTIONS: [u32; 2] = [10, 40];
/// Messages that wait before they are consumed: more than a run consumes.
const QUEUED: u64 = 1_000_000;
/// The same for InnoDB, which is slower.
const JOBS: u64 = 2_000_000;
/// Messages that are timed from one connection to another.
const HANDOFFS: &str = "2000";

/// What to measure: its name, the client's mode, and for queues how they are synced.
struct Method {
    name: &'static str,
    mode: &'static str,
    sync: Option<&'static str>,
    /// Whether a snapshot of InnoDB is held open meanwhile.
    snapshot: bool,
    /// The mode of a method with the same statements, for which no engine has anything to do.
    floor: Option<&'static str>,
}

const fn method(name: &'static str, mode: &'static str, sync: Option<&'static str>) -> Method {
    let floor = match mode.as_bytes() {
        b"one" => Some("floor"),
        b"two" => Some("floor2"),
        _ => None,
    };
    Method { name, mode, sync, snapshot: false, floor }
}

const METHODS: [Method; 22] = [
    method("`SELECT 1`", "select1", None),
    method("one row of InnoDB", "row", None),
    method("one row of MEMORY", "memory", None),
    method("the same with a function in WHERE that does nothing: the floor", "floor", None),
    method("`SELECT` of that function, then of the row: the floor of two statements", "floor2", None),
    method("consume, one statement, sync none", "one", Some("none")),
    method("consume, one statement, sync always", "one", Some("always")),
    method("consume, two statements, sync none", "two", Some("none")),
    method("consume, two statements, sync always", "two", Some("always")),
    method("consume 100 at a time, sync none", "batch", Some("none")),
    method("consume 100 at a time, sync always", "batch", Some("always")),
    method("lease as JSON, one statement, sync none", "lease", Some("none")),
    method("lease as JSON and ack, two statements, sync none", "leaseack", Some("none")),
    method("lease as JSON and ack, two statements, sync always", "leaseack", Some("always")),
    method("lease as JSON and ack 100 at a time, sync none", "lease100", Some("none")),
    method("lease as JSON and ack 100 at a time, sync always", "lease100", Some("always")),
    method("publish, sync none", "publish", Some("none")),
    method("publish, sync always", "publish", Some("always")),
    method("publish 100 rows an INSERT, sync none", "publish100", Some("none")),
    method("publish 100 rows an INSERT, sync always", "publish100", Some("always")),
    method("InnoDB, SKIP LOCKED + DELETE", "skip", None),
    Method { name: "the same, a snapshot held open", mode: "skip", sync: None, snapshot: true, floor: None },
];

pub(crate) fn run_bench(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    let library = plugin::build()?;
    let number = |name: &str, default: u64| {
        let value = super::value(arguments, name);
        value.map_or(Ok(default), |text| text.parse()).with_context(|| format!("{name} takes a number"))
    };
    let (seconds, backlog) = (number("--seconds", 5)?, number("--backlog", 0)?);
    let bench = Bench::start(library, seconds)?;
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); METHODS.len() * CONNECTIONS.len()];
    for _ in 0..number("--rounds", ROUNDS)? {
        for (nth, rates) in rates.iter_mut().enumerate() {
            let (Some(method), Some(connections)) =
                (METHODS.get(nth / CONNECTIONS.len()), CONNECTIONS.get(nth % CONNECTIONS.len()))
            else {
                continue;
            };
            rates.push(bench.rate(method, *connections)?);
        }
    }
    print(&rates);
    for sync in ["none", "always"] {
        bench.empty_queue(sync)?;
        let [_, _, median, late] = bench.client("handoff", 2, &[HANDOFFS])?[..] else { bail!("no delays") };
        println!("hand-off, sync {sync}: {median:.0} us at the median, {late:.0} us at 99 of 100");
    }
    if backlog > 0 {
        for rows in [QUEUED, backlog] {
            bench.empty_queue("none")?;
            bench.fill(rows)?;
            let rate = bench.consumed("one", 10)?;
            println!("one statement, sync none, 10 connections, {rows} rows waiting: {rate:.0}/s");
        }
    }
    Ok(())
}

/// The median over the rounds of the ratio to the same round of `base`.
fn ratio(rates: &[f64], base: &[f64]) -> String {
    let ratios = rates.iter().zip(base).map(|(rate, base)| rate / base).collect();
    middle(ratios).map_or_else(String::new, |ratio| format!("{ratio:.3}"))
}

/// Prints median rates, and their ratios to `SELECT 1` and to the floor.
fn print(rates: &[Vec<f64>]) {
    let each = |text: &str, of: &str| CONNECTIONS.map(|count| text.replace(of, &count.to_string())).concat();
    println!(
        "\n| messages a second |{}",
        each(" COUNT connections | of `SELECT 1` | of the floor |", "COUNT")
    );
    println!("|---|{}", each("--:|--:|--:|", "COUNT"));
    let of_mode = |mode: &str, column: usize| {
        let row = METHODS.iter().position(|method| method.mode == mode)?;
        rates.get(row * CONNECTIONS.len() + column)
    };
    for (method, both) in METHODS.iter().zip(rates.chunks(CONNECTIONS.len())) {
        let cells = both.iter().enumerate().map(|(column, rates)| {
            let base = of_mode("select1", column).map_or_else(String::new, |base| ratio(rates, base));
            let floor = method.floor.and_then(|mode| of_mode(mode, column));
            let floor = floor.map_or_else(String::new, |floor| ratio(rates, floor));
            format!(" {:.0} | {base} | {floor} |", middle(rates.clone()).unwrap_or_default())
        });
        println!("| {} |{}", method.name, cells.collect::<String>());
    }
    println!();
}

struct Bench {
    server: Sandbox,
    client: PathBuf,
    seconds: u64,
}

impl Bench {
    fn start(library: PathBuf, seconds: u64) -> Result<Bench> {
        let places = places()?;
        let installation = sandbox::find(&places, Product::MariaDb1011)?;
        let options =
            ["--max-connections=100", "--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=2"];
        let options = options.map(str::to_owned).to_vec();
        let settings = Settings { plugins: vec![library], options, ..Settings::default() };
        let server = Sandbox::start(&installation, &places, &settings)?;
        let client = server.folder().join("queue_client");
        let source = root().join("xtask/src/bench/queue_client.c");
        run(Command::new("cc")
            .args(["-O2", "-Wall", "-o"])
            .arg(&client)
            .arg(source)
            .args(["-lmariadb", "-lpthread"]))?;
        let bench = Bench { server, client, seconds };
        bench.query(include_str!("../../../sql/queue.sql"))?;
        bench.query("CREATE DATABASE bench")?;
        bench.query("CREATE TABLE bench.single (v INT PRIMARY KEY, body VARCHAR(100)) ENGINE=InnoDB")?;
        bench.query("INSERT INTO bench.single VALUES (1, REPEAT('x', 80))")?;
        bench
            .query("CREATE TABLE bench.memory (v INT NOT NULL, body VARCHAR(100) NOT NULL) ENGINE=MEMORY")?;
        bench.query("INSERT INTO bench.memory VALUES (1, REPEAT('x', 80))")?;
        Ok(bench)
    }

    fn sql(&self) -> Command {
        let mut client = Command::new("mariadb");
        client
            .args(["--no-defaults", "-uroot", "--batch", "--skip-column-names", "-S"])
            .arg(self.server.socket());
        client
    }

    fn query(&self, sql: &str) -> Result<()> {
        let output = self.sql().args(["-e", sql]).output()?;
        if !output.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn empty_queue(&self, sync: &str) -> Result<()> {
        self.query(&format!(
            "CREATE OR REPLACE TABLE bench.q (v INT NOT NULL, body VARCHAR(100) NOT NULL) ENGINE=QUEUE SYNC='{sync}'"
        ))
    }

    fn fill(&self, rows: u64) -> Result<()> {
        self.query(&format!("INSERT INTO bench.q SELECT seq, LPAD(seq, 80, '0') FROM bench.seq_1_to_{rows}"))
    }

    /// The numbers that the client prints.
    fn client(&self, mode: &str, connections: u32, rest: &[&str]) -> Result<Vec<f64>> {
        let mut client = Command::new(&self.client);
        client.arg(self.server.socket()).args([mode, &connections.to_string(), &self.seconds.to_string()]);
        let output = client.args(rest).output()?;
        if !output.status.success() {
            bail!("{mode}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8(output.stdout)?;
        text.split_whitespace().map(|word| word.parse().context("no number")).collect()
    }

    fn consumed(&self, mode: &str, connections: u32) -> Result<f64> {
        let [messages, seconds, ..] = self.client(mode, connections, &[])?[..] else { bail!("no rate") };
        Ok(messages / seconds)
    }

    /// Messages per second.
    fn rate(&self, method: &Method, connections: u32) -> Result<f64> {
        if let Some(sync) = method.sync {
            self.empty_queue(sync)?;
            if !method.mode.starts_with("publish") {
                self.fill(QUEUED)?;
            }
        }
        if method.mode == "skip" {
            self.query(&format!(
                "CREATE OR REPLACE TABLE bench.jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(100)) ENGINE=InnoDB;
                 INSERT INTO bench.jobs (body) SELECT LPAD(seq, 80, '0') FROM bench.seq_1_to_{JOBS}"
            ))?;
        }
        let held = if method.snapshot { Some(self.hold_snapshot()?) } else { None };
        let rate = self.consumed(method.mode, connections);
        if let Some(mut held) = held {
            held.kill()?;
            held.wait()?;
        }
        let rate = rate?;
        println!("{} at {connections} connections: {rate:.0}/s", method.name);
        if rate < as_f64(1) {
            bail!("{}: nothing was consumed", method.name);
        }
        Ok(rate)
    }

    /// A connection with a snapshot that stays open.
    fn hold_snapshot(&self) -> Result<Child> {
        let mut holder =
            self.sql().arg("--unbuffered").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = holder.stdin.as_mut().context("no input")?;
        input
            .write_all(b"START TRANSACTION WITH CONSISTENT SNAPSHOT;\nSELECT COUNT(*) FROM bench.jobs;\n")?;
        input.flush()?;
        let mut counted = String::new();
        BufReader::new(holder.stdout.as_mut().context("no output")?).read_line(&mut counted)?;
        if counted.trim() != JOBS.to_string() {
            bail!("the snapshot has {counted:?} rows");
        }
        Ok(holder)
    }
}
