//! Compares ways to import a file with nodes as in OpenStreetMap, durable when finished.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use codec::Codec;
use pageviews::Random;
use sandbox::{Family, Product, Sandbox, Settings};

use super::measure::{Cost, as_f64, measure, median, median_ratio};
use crate::{places, release, setup};

/// The sizes of the original comparison; the last one only with `--full`.
const ROWS: [u64; 3] = [500_000, 5_400_000, 46_741_126];
/// Rounds of the methods that are compared closely; the others run once, and with more rows than that all
/// methods run once.
const ROUNDS: usize = 5;
const ROWS_OF_ROUNDS: u64 = 10_000_000;
/// Rows of a method that would take hours.
const SAMPLE_ONE_BY_ONE: u64 = 20_000;
const SAMPLE_INSERT: u64 = 500_000;

pub(super) const TABLE: &str = "CREATE TABLE bench.nodes (id BIGINT PRIMARY KEY, lat DECIMAL(9,7), lon DECIMAL(10,7), \
                     version INT, timestamp TIMESTAMP NULL, changeset BIGINT, uid BIGINT, user VARCHAR(255))";

/// A way to get the file into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    RemoraPlain,
    RemoraZstd,
    TwoLocal,
    TwoServer,
    ImportTool,
    LoadData,
    Insert { rows: u64, one_transaction: bool },
    Engine(&'static str),
    ThenInnodb,
}

impl Method {
    const CLOSE: [Method; 4] =
        [Method::RemoraPlain, Method::TwoLocal, Method::RemoraZstd, Method::ImportTool];
    const OTHER: [Method; 9] = [
        Method::TwoServer,
        Method::LoadData,
        Method::Engine("MyISAM"),
        Method::Engine("Aria"),
        Method::ThenInnodb,
        Method::Insert { rows: 1000, one_transaction: true },
        Method::Insert { rows: 100, one_transaction: true },
        Method::Insert { rows: 1, one_transaction: true },
        Method::Insert { rows: 1, one_transaction: false },
    ];

    fn name(self) -> String {
        match self {
            Method::RemoraPlain => "remora import, one file".to_owned(),
            Method::RemoraZstd => "remora import, one zstd file".to_owned(),
            Method::TwoLocal => "two LOAD DATA LOCAL, file split beforehand".to_owned(),
            Method::TwoServer => "two LOAD DATA, file split beforehand".to_owned(),
            Method::ImportTool => "mariadb-import --local --use-threads=2, split beforehand".to_owned(),
            Method::LoadData => "LOAD DATA".to_owned(),
            Method::Insert { rows: 1, one_transaction: false } => "row by row, autocommit".to_owned(),
            Method::Insert { rows: 1, .. } => "row by row, one transaction".to_owned(),
            Method::Insert { rows, .. } => format!("INSERT of {rows} rows"),
            Method::Engine(engine) => format!("LOAD DATA into {engine}"),
            Method::ThenInnodb => "LOAD DATA into MyISAM, then ALTER to InnoDB".to_owned(),
        }
    }

    /// Rows of the file for this method.
    fn rows(self, rows: u64) -> u64 {
        match self {
            Method::Insert { rows: 1, one_transaction: false } => rows.min(SAMPLE_ONE_BY_ONE),
            Method::Insert { .. } => rows.min(SAMPLE_INSERT),
            _ => rows,
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    let remora = release()?;
    let value = |name: &str| super::value(arguments, name);
    let only = value("--only").unwrap_or_default();
    let sizes = match value("--rows") {
        Some(rows) => vec![rows.parse::<u64>().context("--rows takes a number")?],
        None if arguments.iter().any(|argument| argument == "--full") => ROWS.to_vec(),
        None => ROWS.iter().take(2).copied().collect(),
    };
    let places = places()?;
    let chosen: Vec<Product> = match value("--server") {
        Some(name) => vec![name.parse()?],
        None => Product::ALL.into_iter().filter(|product| sandbox::find(&places, *product).is_ok()).collect(),
    };
    for product in chosen {
        let installation = sandbox::find(&places, product)?;
        for rows in &sizes {
            let bench = Bench::start(&installation, &places, *rows, &remora)?;
            println!(
                "\n### {product} ({}), {rows} rows, {} bytes of text\n",
                installation.version,
                bench.bytes()?
            );
            bench.table(only)?;
        }
    }
    Ok(())
}

/// The ratio of our wall times to those of two LOAD DATA LOCAL, round by round.
fn to_two_local(results: &[(Method, Vec<Cost>)]) -> String {
    let costs =
        |wanted| results.iter().find(|(method, _)| *method == wanted).map(|(_, costs)| costs.as_slice());
    let Some(base) = costs(Method::TwoLocal) else { return String::new() };
    let ratio = |method| {
        let ratio = median_ratio(costs(method)?, base)?;
        Some(format!("{}: {ratio:.2}", method.name()))
    };
    let ratios: Vec<String> =
        [Method::RemoraPlain, Method::RemoraZstd].into_iter().filter_map(ratio).collect();
    format!("\nWall time to that of two LOAD DATA LOCAL, the middle of the rounds: {}", ratios.join(", "))
}

/// A server, with the files beside it.
pub(super) struct Bench<'a> {
    pub(super) server: Sandbox,
    pub(super) folder: PathBuf,
    pub(super) rows: u64,
    pub(super) remora: &'a Path,
}

impl Bench<'_> {
    pub(super) fn start<'a>(
        installation: &sandbox::Installation,
        places: &sandbox::Places,
        rows: u64,
        remora: &'a Path,
    ) -> Result<Bench<'a>> {
        let log = match installation.product {
            // MySQL has two log files, MariaDB has one.
            Product::MySql56 => "--innodb-log-file-size=1G",
            Product::MySql97 => "--innodb-redo-log-capacity=2G",
            _ => "--innodb-log-file-size=2G",
        };
        let options = ["--innodb-buffer-pool-size=6G", log, "--max-allowed-packet=64M", "--local-infile=1"];
        let options = options.map(str::to_owned).to_vec();
        let settings = Settings { options, ..Settings::default() };
        let server = Sandbox::start(installation, places, &settings)?;
        let folder = server.folder().join("bench");
        std::fs::create_dir_all(&folder)?;
        let bench = Bench { server, folder, rows, remora };
        bench.query("CREATE DATABASE bench")?;
        write_nodes(&bench.folder, rows)?;
        Ok(bench)
    }

    fn bytes(&self) -> Result<u64> {
        Ok(std::fs::metadata(self.folder.join("nodes.tsv"))?.len())
    }

    /// Runs everything, the close ones alternately, and prints a table.
    fn table(&self, only: &str) -> Result<()> {
        let wanted = |method: &Method| only.split(',').any(|word| method.name().contains(word));
        let mut results: Vec<(Method, Vec<Cost>)> = Vec::new();
        let close: Vec<_> = Method::CLOSE.into_iter().filter(wanted).collect();
        results.extend(close.iter().map(|method| (*method, Vec::new())));
        for _ in 0..if self.rows > ROWS_OF_ROUNDS { 1 } else { ROUNDS } {
            for (method, costs) in &mut results {
                costs.push(self.measure(*method)?);
            }
            // Each round begins with another method: work that a run leaves to the server slows the next one.
            results.rotate_left(1);
        }
        results.sort_by_key(|(method, _)| close.iter().position(|one| one == method));
        for method in Method::OTHER.into_iter().filter(wanted) {
            if method == Method::Engine("Aria") && self.server.product().family() == Family::MySql {
                continue;
            }
            results.push((method, vec![self.measure(method)?]));
        }
        let ours = results.iter().find(|(method, _)| *method == Method::RemoraPlain);
        let ours = ours.map(|(_, costs)| costs.clone()).unwrap_or_default();
        let goal = to_two_local(&results);
        println!("| method | rows | wall s | rows/s | server us/row | client us/row | wall / remora |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for (method, costs) in results {
            let rows = method.rows(self.rows);
            // A method that ran on a part of the file is compared by its time per row.
            let part = as_f64(rows) / as_f64(self.rows);
            let ratio =
                median_ratio(&costs, &ours).map_or(String::new(), |ratio| format!("{:.2}", ratio / part));
            let Some(cost) = median(costs) else { continue };
            let micros = |seconds: f64| seconds * 1e6 / as_f64(rows);
            println!(
                "| {} | {rows} | {:.2} | {:.0} k | {:.2} | {:.3} | {ratio} |",
                method.name(),
                cost.wall_s,
                as_f64(rows) / cost.wall_s / 1e3,
                micros(cost.server_s),
                micros(cost.client_s),
            );
        }
        println!("{goal}");
        Ok(())
    }

    /// Runs a method once on an empty table, and proves that it loaded everything.
    fn measure(&self, method: Method) -> Result<Cost> {
        let rows = method.rows(self.rows);
        let sql = self.prepare(method, rows)?;
        self.query("DROP TABLE IF EXISTS bench.nodes")?;
        let engine = match method {
            Method::Engine(engine) => engine,
            Method::ThenInnodb => "MyISAM",
            _ => "InnoDB",
        };
        self.query(&format!("{TABLE} ENGINE={engine}"))?;
        if self.server.product().family() == Family::MariaDb {
            // The purge left by the previous run must not count for this one.
            self.query("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
        }
        let cost = measure(self.server.pid(), || self.load(method, sql.as_deref()))?;
        self.counted(rows, &method.name())?;
        if let Some(sql) = sql {
            std::fs::remove_file(sql)?;
        }
        Ok(cost)
    }

    /// Proves that the table has all rows.
    pub(super) fn counted(&self, rows: u64, method: &str) -> Result<()> {
        let found = self.query("SELECT COUNT(*) FROM bench.nodes")?;
        if found.trim() != rows.to_string() {
            bail!("{method}: {} rows of {rows}", found.trim());
        }
        Ok(())
    }

    fn load(&self, method: Method, sql: Option<&Path>) -> Result<()> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let load = |local: &str, name: &str| {
            format!("LOAD DATA {local} INFILE '{}' INTO TABLE bench.nodes", file(name))
        };
        match method {
            Method::RemoraPlain => self.import(&file("nodes.tsv"), &[]),
            Method::RemoraZstd => self.import(&file("nodes.tsv.zst"), &[]),
            Method::TwoLocal => self.both(&load("LOCAL", "nodes.1.tsv"), &load("LOCAL", "nodes.2.tsv")),
            Method::TwoServer => self.both(&load("", "nodes.1.tsv"), &load("", "nodes.2.tsv")),
            Method::ImportTool => {
                let mut tool = Command::new("mariadb-import");
                tool.args([
                    "--no-defaults",
                    "--user=root",
                    "--silent",
                    "--local",
                    "--use-threads=2",
                    "bench",
                ]);
                tool.arg(format!("--socket={}", self.server.socket().display()));
                done(tool.arg(file("nodes.1.tsv")).arg(file("nodes.2.tsv")))
            }
            Method::LoadData => self.query(&load("", "nodes.tsv")).map(drop),
            Method::Engine(_) => self.query(&format!("{}; FLUSH TABLES", load("", "nodes.tsv"))).map(drop),
            Method::ThenInnodb => self
                .query(&format!("{}; ALTER TABLE bench.nodes ENGINE=InnoDB", load("", "nodes.tsv")))
                .map(drop),
            Method::Insert { .. } => {
                let sql = File::open(sql.context("no statements")?)?;
                done(self.client()?.arg("bench").stdin(sql).stdout(Stdio::null()))
            }
        }
    }

    pub(super) fn import(&self, file: &str, more: &[&str]) -> Result<()> {
        let mut remora = Command::new(self.remora);
        remora.args([
            "import",
            "--no-defaults",
            "--quiet",
            "--user=root",
            "--into=bench.nodes",
            "--no-header",
        ]);
        done(remora.arg(format!("--socket={}", self.server.socket().display())).args(more).arg(file))
    }

    /// Two clients at the same time, as somebody would start them by hand.
    pub(super) fn both(&self, first: &str, second: &str) -> Result<()> {
        let mut children = Vec::new();
        for sql in [first, second] {
            children.push(self.client()?.args(["-e", sql]).spawn()?);
        }
        for mut child in children {
            if !child.wait()?.success() {
                bail!("a client failed");
            }
        }
        Ok(())
    }

    /// Writes the statements for a method that needs some.
    fn prepare(&self, method: Method, rows: u64) -> Result<Option<PathBuf>> {
        let Method::Insert { rows: each, one_transaction } = method else { return Ok(None) };
        let path = self.folder.join("insert.sql");
        let mut out = BufWriter::new(File::create(&path)?);
        if one_transaction {
            writeln!(out, "BEGIN;")?;
        }
        let mut nodes = Nodes::new();
        let mut line = Vec::new();
        for row in 0..rows {
            out.write_all(if row % each == 0 { b"INSERT INTO nodes VALUES (" } else { b",(" })?;
            line.clear();
            nodes.write_next(&mut line)?;
            for (at, field) in line.trim_ascii_end().split(|byte| *byte == b'\t').enumerate() {
                out.write_all(if at == 0 { b"'" } else { b",'" })?;
                out.write_all(field)?;
                out.write_all(b"'")?;
            }
            out.write_all(if row % each == each - 1 || row == rows - 1 { b");\n" } else { b")" })?;
        }
        if one_transaction {
            writeln!(out, "COMMIT;")?;
        }
        out.flush()?;
        Ok(Some(path))
    }

    fn client(&self) -> Result<Command> {
        let mut client = Command::new(sandbox::client().context("there is no SQL client")?);
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "--local-infile=1"]);
        client.arg(format!("--socket={}", self.server.socket().display()));
        Ok(client)
    }

    pub(super) fn query(&self, sql: &str) -> Result<String> {
        let output = self.client()?.args(["-e", sql]).output()?;
        if !output.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

pub(super) fn done(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("{}: {status}", crate::shown(command));
    }
    Ok(())
}

/// Nodes in the order of their ids, as in OpenStreetMap's exports.
struct Nodes {
    random: Random,
    id: u64,
}

impl Nodes {
    fn new() -> Nodes {
        Nodes { random: Random::new(46_741_126), id: 171_772 }
    }

    fn write_next(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let random = &mut self.random;
        // Most ids are consecutive; deleted nodes leave gaps.
        self.id += if random.below(10) < 7 { 1 } else { 1 + random.below(200) };
        let (lat, lon) = (360_000_000 + random.below(75_000_000), random.below(130_000_000));
        let day = 1 + random.below(28);
        let (month, year) = (1 + random.below(12), 2007 + random.below(8));
        let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
        let uid_bits = 3 + random.below(17);
        let uid = random.below(1 << uid_bits);
        let versions = 1 + random.below(9);
        writeln!(
            out,
            "{}\t{}.{:07}\t{}{}.{:07}\t{}\t{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}\t{}\t{uid}\tuser{}",
            self.id,
            lat / 10_000_000,
            lat % 10_000_000,
            if lon % 3 == 0 { "" } else { "-" },
            lon / 10_000_000,
            lon % 10_000_000,
            1 + random.below(versions),
            600_000 + random.below(24_000_000),
            uid * 7919 % 100_003,
        )?;
        Ok(())
    }
}

/// Writes the file alone.
pub(super) fn write_plain(path: &Path, rows: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut nodes = Nodes::new();
    let mut line = Vec::new();
    for _ in 0..rows {
        line.clear();
        nodes.write_next(&mut line)?;
        file.write_all(&line)?;
    }
    Ok(file.flush()?)
}

/// Writes the file, a compressed copy, and its two halves.
pub(super) fn write_nodes(folder: &Path, rows: u64) -> Result<()> {
    let create =
        |name: &str| File::create(folder.join(name)).map(|file| BufWriter::with_capacity(1 << 20, file));
    let (mut whole, mut first, mut second) =
        (create("nodes.tsv")?, create("nodes.1.tsv")?, create("nodes.2.tsv")?);
    let mut packed = Codec::Zstd.encoder(create("nodes.tsv.zst")?, 3)?;
    let mut nodes = Nodes::new();
    let mut line = Vec::new();
    for row in 0..rows {
        line.clear();
        nodes.write_next(&mut line)?;
        whole.write_all(&line)?;
        packed.write_all(&line)?;
        let half = if row < rows / 2 { &mut first } else { &mut second };
        half.write_all(&line)?;
    }
    for mut file in [whole, first, second, packed.finish()?] {
        file.flush()?;
        file.get_ref().sync_all()?;
    }
    Ok(())
}
