//! ENGINE=QUEUE, and InnoDB beside it: one server, and a client with as little overhead as possible.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};
use tempfile::TempDir;

use super::{BODY, folder};
use crate::{places, root, run, setup};

/// Messages that wait before they are consumed: more than a run consumes.
pub(super) const QUEUED: u64 = 1_000_000;
/// The same for InnoDB, which is slower.
const JOBS: u64 = 2_000_000;
/// Rows of InnoDB that are changed beside.
const WORK: u64 = 100_000;
/// Messages that are timed from one connection to another.
const HANDOFFS: u64 = 2000;

/// The options of queues.
const NONE: Option<&str> = Some("SYNC='none'");
const ALWAYS: Option<&str> = Some("SYNC='always'");
const TRANSACTIONAL: Option<&str> = Some("SYNC='always' TRANSACTIONAL=1");

/// What to measure: its name, the client's mode, and the options of the queue.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) mode: &'static str,
    options: Option<&'static str>,
    /// Whether a snapshot of InnoDB is held open meanwhile.
    snapshot: bool,
    /// Whether InnoDB syncs each COMMIT.
    innodb_syncs: bool,
}

const fn method(name: &'static str, mode: &'static str, options: Option<&'static str>) -> Method {
    Method { name, mode, options, snapshot: false, innodb_syncs: false }
}

const fn synced(name: &'static str, mode: &'static str, options: Option<&'static str>) -> Method {
    Method { name, mode, options, snapshot: false, innodb_syncs: true }
}

pub(super) static METHODS: [Method; 28] = [
    method("`SELECT 1`", "select1", None),
    method("one row of InnoDB", "row", None),
    method("one row of MEMORY", "memory", None),
    method("the same with a function in WHERE that does nothing: the floor", "floor", None),
    method("`SELECT` of that function, then of the row: the floor of two statements", "floor2", None),
    method("consume, one statement, sync none", "one", NONE),
    method("consume, one statement, sync always", "one", ALWAYS),
    method("consume, two statements, sync none", "two", NONE),
    method("consume, two statements, sync always", "two", ALWAYS),
    method("consume 100 at a time, sync none", "batch", NONE),
    method("consume 100 at a time, sync always", "batch", ALWAYS),
    method("a function that does nothing, with as many arguments as a lease", "function", None),
    method("the same, and as many bytes come back: the floor of a lease", "answer", None),
    method("lease as JSON, one statement, sync none", "lease", NONE),
    method("lease as JSON and ack, two statements, sync none", "leaseack", NONE),
    method("lease as JSON and ack, two statements, sync always", "leaseack", ALWAYS),
    method("lease as JSON and ack 100 at a time, sync none", "lease100", NONE),
    method("lease as JSON and ack 100 at a time, sync always", "lease100", ALWAYS),
    method("publish, sync none", "publish", NONE),
    method("publish, sync always", "publish", ALWAYS),
    method("publish 100 rows an INSERT, sync none", "publish100", NONE),
    method("publish 100 rows an INSERT, sync always", "publish100", ALWAYS),
    synced("UPDATE of InnoDB and COMMIT, synced: the floor", "update", None),
    synced("the same with the floor's SELECT before the UPDATE of InnoDB", "selectupdate", None),
    synced("take, UPDATE of InnoDB and COMMIT, all synced", "takeupdate", TRANSACTIONAL),
    method("InnoDB, SKIP LOCKED + DELETE", "skip", None),
    synced("InnoDB, SKIP LOCKED + DELETE, synced", "skip", None),
    Method { snapshot: true, ..method("InnoDB, SKIP LOCKED + DELETE, a snapshot held open", "skip", None) },
];

impl Method {
    /// The mode of the method with the same statements but without a queue.
    pub(super) fn floor(&self) -> Option<&'static str> {
        match self.mode {
            "one" => Some("floor"),
            "two" => Some("floor2"),
            "lease" => Some("answer"),
            "takeupdate" => Some("update"),
            _ => None,
        }
    }
}

/// The server.
pub(super) struct Ours {
    server: Sandbox,
    _folder: TempDir,
    client: PathBuf,
    seconds: u64,
}

/// A server with the engine.
pub(super) fn server(library: PathBuf, folder: &TempDir, options: &[&str]) -> Result<Sandbox> {
    let places = places()?;
    let installation = sandbox::find(&places, Product::MariaDb1011)?;
    let options = options.iter().map(|&option| option.to_owned()).collect();
    let inside = Some(folder.path().join("sandbox"));
    let settings = Settings { folder: inside, plugins: vec![library], options, ..Settings::default() };
    let mut server = Sandbox::start(&installation, &places, &settings)?;
    query(&server, include_str!("../../../../sql/queue.sql"))?;
    // Only a server that starts with the engine has a coordinator of its transactions.
    server.stop()?;
    server.restart()?;
    Ok(server)
}

fn sql(server: &Sandbox) -> Command {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "-uroot", "--batch", "--skip-column-names", "-S"]).arg(server.socket());
    client
}

/// What a server answers.
pub(super) fn query(server: &Sandbox, text: &str) -> Result<String> {
    let output = sql(server).args(["-e", text]).output()?;
    if !output.status.success() {
        bail!("{text}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Ours {
    pub(super) fn start(library: PathBuf, seconds: u64, binlog: bool) -> Result<Ours> {
        setup::install(&[("/usr/include/mariadb/mysql.h", "libmariadb-dev")])?;
        let logged: &[&str] =
            if binlog { &["--log-bin", "--sync-binlog=1", "--binlog-format=ROW"] } else { &[] };
        let options = [&["--max-connections=100", "--innodb-buffer-pool-size=1G"], logged].concat();
        let folder = folder()?;
        let server = server(library, &folder, &options)?;
        let client = server.folder().join("queue_client");
        run(Command::new("cc")
            .args(["-O2", "-Wall", "-o"])
            .arg(&client)
            .arg(root().join("xtask/src/bench/queue/client.c"))
            .args(["-lmariadb", "-lpthread"]))?;
        let ours = Ours { server, _folder: folder, client, seconds };
        ours.query(&format!(
            "CREATE DATABASE bench; USE bench;
             CREATE TABLE single (v INT PRIMARY KEY, body VARCHAR(100)) ENGINE=InnoDB;
             INSERT INTO single VALUES (1, REPEAT('x', {BODY}));
             CREATE TABLE memory (v INT NOT NULL, body VARCHAR(100) NOT NULL) ENGINE=MEMORY;
             INSERT INTO memory VALUES (1, REPEAT('x', {BODY}));
             CREATE TABLE work (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB;
             INSERT INTO work SELECT seq, 0 FROM seq_1_to_{WORK}"
        ))?;
        Ok(ours)
    }

    /// What the server answers.
    pub(super) fn query(&self, sql: &str) -> Result<String> {
        query(&self.server, sql)
    }

    /// The process of the server.
    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    fn empty_queue(&self, options: &str) -> Result<()> {
        self.query(&format!(
            "CREATE OR REPLACE TABLE bench.q (v INT NOT NULL, body VARCHAR(100) NOT NULL) ENGINE=QUEUE {options}"
        ))?;
        Ok(())
    }

    /// Publishes rows, a million with each statement; `more` is what follows the two columns that each queue
    /// has.
    pub(super) fn fill(&self, table: &str, rows: u64, more: &str) -> Result<()> {
        for first in (1..=rows).step_by(1_000_000) {
            let last = rows.min(first + 999_999);
            self.query(&format!(
                "INSERT INTO bench.{table} SELECT seq, LPAD(seq, {BODY}, '0'){more} FROM bench.seq_{first}_to_{last}"
            ))?;
        }
        Ok(())
    }

    /// The numbers that the client prints. It ends when its time is over, or when it had so many messages.
    fn client(&self, table: &str, mode: &str, connections: u32, most: Option<u64>) -> Result<Vec<f64>> {
        let mut client = Command::new(&self.client);
        client.arg(self.server.socket()).args([table, mode, &connections.to_string()]);
        match most {
            None => client.arg(self.seconds.to_string()),
            Some(most) => client.args(["3600", &most.to_string()]),
        };
        let output = client.output()?;
        if !output.status.success() {
            bail!("{mode}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8(output.stdout)?;
        text.split_whitespace().map(|word| word.parse().context("no number")).collect()
    }

    /// How many messages were had from a table of the database `bench`, and in how many seconds.
    pub(super) fn had(&self, table: &str, mode: &str, connections: u32) -> Result<(f64, f64)> {
        let [messages, seconds, ..] = self.client(table, mode, connections, None)?[..] else {
            bail!("no rate")
        };
        Ok((messages, seconds))
    }

    /// Leases so many rows for an hour, and keeps them.
    pub(super) fn hold(&self, table: &str, rows: u64) -> Result<()> {
        self.client(table, "hold", 1, Some(rows))?;
        Ok(())
    }

    /// Messages per second.
    pub(super) fn rate(&self, method: &Method, connections: u32) -> Result<f64> {
        if let Some(options) = method.options {
            self.empty_queue(options)?;
            if !method.mode.starts_with("publish") {
                self.fill("q", QUEUED, "")?;
            }
        }
        self.query(&format!(
            "SET GLOBAL innodb_flush_log_at_trx_commit = {}",
            if method.innodb_syncs { 1 } else { 2 }
        ))?;
        if method.mode == "skip" {
            self.query(&format!(
                "CREATE OR REPLACE TABLE bench.jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(100)) ENGINE=InnoDB;
                 INSERT INTO bench.jobs (body) SELECT LPAD(seq, {BODY}, '0') FROM bench.seq_1_to_{JOBS}"
            ))?;
        }
        let held = if method.snapshot { Some(self.hold_snapshot()?) } else { None };
        let had = self.had("q", method.mode, connections);
        if let Some(mut held) = held {
            held.kill()?;
            held.wait()?;
        }
        let (messages, seconds) = had?;
        Ok(messages / seconds)
    }

    /// A connection with a snapshot that stays open.
    fn hold_snapshot(&self) -> Result<Child> {
        let mut holder =
            sql(&self.server).arg("--unbuffered").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
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

    /// Microseconds from an INSERT to the one who waits: at the median, and at 99 of 100.
    pub(super) fn handoff(&self, sync: &str) -> Result<(f64, f64)> {
        self.empty_queue(&format!("SYNC='{sync}'"))?;
        let [_, _, median, late] = self.client("q", "handoff", 2, Some(HANDOFFS))?[..] else {
            bail!("no delays")
        };
        Ok((median, late))
    }

    /// Shows that the length of a queue does not matter.
    pub(super) fn backlog(&self, backlog: u64) -> Result<()> {
        for rows in [QUEUED, backlog] {
            self.empty_queue("SYNC='none'")?;
            self.fill("q", rows, "")?;
            let (messages, seconds) = self.had("q", "one", 10)?;
            let rate = messages / seconds;
            println!("one statement, sync none, 10 connections, {rows} rows waiting: {rate:.0}/s");
        }
        Ok(())
    }
}
