//! Compares this tree's program with an earlier one: both do the same work alternately, in one run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};

use super::block::{change_pages, write_image};
use super::import::{TABLE, done, write_nodes};
use super::measure::{Cost, measure, middle};
use crate::{places, release, setup};

const ROWS: u64 = 1_000_000;
const ROUNDS: usize = 7;
/// Rows of the table with columns of many types.
const MIXED_ROWS: u64 = 300_000;
const MIXED: &str = "CREATE TABLE bench.mixed (id INT PRIMARY KEY, kind ENUM('new','old','gone','') NOT NULL, \
                     flags SET('a','b','c','d') NOT NULL, price DECIMAL(10,2), ratio DOUBLE, text VARCHAR(200) \
                     CHARACTER SET utf8mb4, day DATE, at DATETIME(3), bits BIT(9), raw VARBINARY(40), KEY (kind))";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Import,
    Create,
    DumpNodes,
    DumpMixed,
    Load,
    Backup,
    Increment,
    Restore,
}

impl Step {
    const ALL: [Step; 8] = [
        Step::Import,
        Step::Create,
        Step::DumpNodes,
        Step::DumpMixed,
        Step::Load,
        Step::Backup,
        Step::Increment,
        Step::Restore,
    ];

    fn name(self) -> &'static str {
        match self {
            Step::Import => "import into a table",
            Step::Create => "import --create",
            Step::DumpNodes => "dump, narrow rows",
            Step::DumpMixed => "dump, ENUM, SET and others",
            Step::Load => "load, every row read back",
            Step::Backup => "backup, full",
            Step::Increment => "backup, one page in a hundred changed",
            Step::Restore => "restore",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Step::Import => &["import", "nodes.tsv", "--into=bench.nodes", "--no-header"],
            Step::Create => &["import", "nodes.tsv", "--into=bench.made", "--no-header", "--create"],
            Step::DumpNodes => &["dump", "bench.kept", "-o", "dump", "-j", "2"],
            Step::DumpMixed => &["dump", "bench.mixed", "-o", "dump", "-j", "2"],
            Step::Load => &["load", "nodes.dump"],
            Step::Backup | Step::Increment => &["backup", "file:image", "--to", "repo"],
            Step::Restore => &["restore", "repo", "--to", "restored"],
        }
    }

    fn is_block(self) -> bool {
        matches!(self, Step::Backup | Step::Increment | Step::Restore)
    }
}

/// `cargo xtask bench before PROGRAM [--rows N] [--only WORD]`
pub(super) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    let earlier = arguments.first().context("cargo xtask bench before PROGRAM [--rows N] [--only WORD]")?;
    let value = |name: &str| super::value(arguments, name);
    let rows = value("--rows").map_or(Ok(ROWS), str::parse).context("--rows takes a number")?;
    let programs = [Path::new(earlier).canonicalize()?, release()?];
    let bench = Bench::start(rows)?;
    println!("| work | wall | server's processor | program's processor |\n|---|--:|--:|--:|");
    let only = value("--only").unwrap_or_default();
    for step in Step::ALL.into_iter().filter(|step| step.name().contains(only)) {
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..=ROUNDS {
            for turn in 0..2 {
                // Each round begins with the other program: work that a run leaves behind slows the next one.
                let nth = (round + turn) % 2;
                let (Some(program), Some(costs)) = (programs.get(nth), costs.get_mut(nth)) else { continue };
                let cost = bench.measure(step, program)?;
                // The first round starts with cold caches.
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        let ratio = |part: fn(&Cost) -> f64| {
            let [before, after] = &costs;
            let ratios = after.iter().zip(before).filter(|(_, before)| part(before) > 0.05);
            let ratio = middle(ratios.map(|(after, before)| part(after) / part(before)).collect());
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"))
        };
        let (wall, server, client) =
            (ratio(|cost| cost.wall_s), ratio(|cost| cost.server_s), ratio(|cost| cost.client_s));
        println!("| {} | {wall} | {server} | {client} |", step.name());
    }
    println!("\nThis tree to the earlier program; each number is the median of {ROUNDS} rounds.");
    Ok(())
}

struct Bench {
    server: Sandbox,
    folder: PathBuf,
}

impl Bench {
    fn start(rows: u64) -> Result<Bench> {
        let places = places()?;
        let installation = sandbox::find(&places, Product::MariaDb1011)?;
        let options =
            ["--innodb-buffer-pool-size=4G", "--innodb-log-file-size=2G", "--max-allowed-packet=64M"];
        let settings = Settings { options: options.map(str::to_owned).to_vec(), ..Settings::default() };
        let server = Sandbox::start(&installation, &places, &settings)?;
        let folder = server.folder().join("bench");
        std::fs::create_dir_all(&folder)?;
        let bench = Bench { server, folder };
        write_nodes(&bench.folder, rows)?;
        write_image(&bench.folder.join("first"))?;
        bench.query(&format!(
            "CREATE DATABASE bench; {TABLE}; CREATE TABLE bench.kept LIKE bench.nodes; {MIXED}"
        ))?;
        bench.query(&format!(
            "USE bench; LOAD DATA INFILE '{}' INTO TABLE bench.kept; INSERT INTO bench.mixed SELECT seq, 1 + seq % 4, seq % 16, \
             seq / 7, SQRT(seq), CONCAT(MD5(seq), '\u{e4}\u{f6}'), '2020-01-01' + INTERVAL seq % 3000 DAY, '2020-01-01' + \
             INTERVAL seq SECOND, seq % 512, UNHEX(SHA1(seq)) FROM seq_1_to_{MIXED_ROWS}",
            bench.folder.join("nodes.tsv").display()
        ))?;
        Ok(bench)
    }

    fn measure(&self, step: Step, program: &Path) -> Result<Cost> {
        let path = |name: &str| self.folder.join(name);
        if step.is_block() {
            std::fs::copy(path("first"), path("image"))?;
            if path("restored").exists() {
                std::fs::remove_file(path("restored"))?;
            }
            if path("repo").exists() {
                std::fs::remove_dir_all(path("repo"))?;
            }
            if step != Step::Backup {
                self.run(Step::Backup, program)?;
            }
            if step == Step::Increment {
                change_pages(&path("image"))?;
            }
        } else {
            self.query("DROP TABLE IF EXISTS bench.made; TRUNCATE bench.nodes")?;
            for folder in ["dump", "nodes.dump"].map(path) {
                if folder.exists() {
                    std::fs::remove_dir_all(folder)?;
                }
            }
            if step == Step::Load {
                self.run(Step::DumpNodes, program)?;
                std::fs::rename(path("dump"), path("nodes.dump"))?;
                self.query("DROP TABLE bench.kept")?;
            }
            // The purge left by the previous run must not count for this one.
            self.query("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
        }
        measure(self.server.pid(), || self.run(step, program))
    }

    fn run(&self, step: Step, program: &Path) -> Result<()> {
        let mut command = Command::new(program);
        command.args(step.arguments()).arg("--quiet").current_dir(&self.folder);
        if !step.is_block() {
            let socket = format!("--socket={}", self.server.socket().display());
            command.args(["--no-defaults", "--user=root", &socket]);
        }
        done(&mut command)
    }

    fn query(&self, sql: &str) -> Result<()> {
        let mut client = Command::new(sandbox::client().context("there is no SQL client")?);
        client.args(["--no-defaults", "--user=root", "-e", sql]);
        client.arg(format!("--socket={}", self.server.socket().display()));
        let output = client.output()?;
        if !output.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}
