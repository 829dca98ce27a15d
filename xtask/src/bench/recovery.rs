//! What an archive costs a server that writes, how late it is, how fast a log is replayed on a backup, and
//! how fast a small part of a large generation is restored. With `--store`, how fast backups go to a store
//! and come back.

mod attached;
mod large;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use sandbox::{Installation, Product, Sandbox, Settings};

use self::large::Large;
use super::block::write_image;
use super::measure::middle;
use crate::{places, release, run, setup};

/// Transactions of one row each that are replayed, if nobody says how many.
const TRANSACTIONS: u32 = 60_000;
/// How often each way is measured, if nobody says it.
const ROUNDS: usize = 5;

const TABLE: &str =
    "CREATE OR REPLACE TABLE bench.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(2000))";
const WORK: &str = "CREATE OR REPLACE PROCEDURE bench.work(n INT) BEGIN \
    FOR i IN 1..n DO INSERT INTO bench.t (a, b) VALUES (i, CONCAT('stamp:', \
    CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS INT), REPEAT(UUID(), 50))); END FOR; END";

struct Bench {
    remora: PathBuf,
    folder: tempfile::TempDir,
    installation: Installation,
    server: Sandbox,
    /// How often each way is measured, and with how many transactions, where somebody has said it.
    rounds: Option<usize>,
    transactions: Option<u32>,
}

/// The measurements by their words for `--only`: those with a server that writes, and those with a large
/// generation.
const WRITING: [&str; 4] = ["archive", "ack", "lag", "replay"];
const LARGE: [&str; 2] = ["table", "mount"];

/// `cargo xtask bench recovery [--server NAME] [--size GiB] [--only WORD,...] [--rounds N]
/// [--transactions N]`, or with `--store s3://BUCKET/PREFIX` alone.
/// The store's address and login are in the variables that remora reads.
pub(crate) fn run_bench(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    if let Some(url) = super::value(arguments, "--store") {
        return store(url);
    }
    let product: Product = super::value(arguments, "--server").unwrap_or("mariadb-10.11").parse()?;
    let gib =
        super::value(arguments, "--size").unwrap_or("16").parse().context("--size is a number of GiB")?;
    let only: Option<Vec<&str>> = super::value(arguments, "--only").map(|words| words.split(',').collect());
    let all = WRITING.iter().chain(&LARGE);
    if let Some(word) = only.iter().flatten().find(|word| !all.clone().any(|known| known == *word)) {
        bail!("--only {word}: it takes words out of {}", all.copied().collect::<Vec<_>>().join(", "));
    }
    let wants = |word: &str| only.as_ref().is_none_or(|only| only.contains(&word));
    if WRITING.into_iter().any(wants) {
        let mut bench = Bench::new(product)?;
        bench.rounds = number(arguments, "--rounds")?;
        bench.transactions = number(arguments, "--transactions")?;
        if wants("archive") {
            bench.archive()?;
        }
        if wants("ack") {
            bench.ack()?;
        }
        if wants("lag") {
            bench.lag()?;
        }
        if wants("replay") {
            bench.replay()?;
        }
    }
    if LARGE.into_iter().any(wants) {
        let large = Large::new(release()?, sandbox::find(&places()?, product)?, gib)?;
        if wants("table") {
            large.table()?;
        }
        if wants("mount") {
            large.mount()?;
        }
    }
    Ok(())
}

impl Bench {
    fn new(product: Product) -> Result<Bench> {
        let installation = sandbox::find(&places()?, product)?;
        // Durability is the same for all, and the disk is not what is measured.
        let options = [
            "--log-bin=binlog",
            "--server-id=7",
            "--binlog-format=ROW",
            "--innodb-flush-log-at-trx-commit=0",
            // What a run writes stays in memory.
            "--innodb-buffer-pool-size=2G",
            "--innodb-log-file-size=2G",
        ];
        let options = options.map(ToOwned::to_owned).to_vec();
        let settings = Settings { options, port: Some(0), ..Settings::default() };
        let server = Sandbox::start(&installation, &places()?, &settings)?;
        let (remora, folder) = (release()?, tempfile::tempdir()?);
        let bench = Bench { remora, folder, installation, server, rounds: None, transactions: None };
        bench.query("CREATE DATABASE bench")?;
        bench.query(WORK)?;
        println!("\n### {product} ({}), transactions of a row of 1.8 kB\n", bench.installation.version);
        Ok(bench)
    }

    fn query(&self, sql: &str) -> Result<String> {
        query(self.server.socket(), sql)
    }

    fn remora(&self, words: &[&str]) -> Command {
        remora(&self.remora, self.folder.path(), words)
    }

    /// Our program, with the server that is measured.
    fn with_server(&self, words: &[&str]) -> Command {
        let mut command = self.remora(words);
        command.args(["--no-defaults", "-u", "root", "-S"]).arg(self.server.socket());
        command
    }

    /// Transactions from several connections. Returns the seconds.
    fn work(&self, connections: u32, transactions: u32) -> Result<f64> {
        self.query(TABLE)?;
        let sql = format!("CALL bench.work({})", transactions / connections);
        let began = Instant::now();
        let clients: Vec<Child> = (0..connections)
            .map(|_| client(self.server.socket())?.args(["-e", &sql]).spawn().context("a client"))
            .collect::<Result<_>>()?;
        for mut client in clients {
            ensure!(client.wait()?.success(), "a client failed");
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// The same log, by each way, on the same generation.
    fn replay(&self) -> Result<()> {
        self.query(TABLE)?;
        self.query("FLUSH BINARY LOGS")?;
        run(&mut self.with_server(&["backup", "mysql:", "--way", "copy", "--name", "db", "--to", "repo"]))?;
        let status = self.query("SHOW MASTER STATUS")?;
        let (file, at) = status.trim().split_once('\t').context("no position")?;
        let at = at.split('\t').next().unwrap_or_default();
        let transactions = self.transactions.unwrap_or(TRANSACTIONS);
        let sql = format!("CALL bench.work({transactions})");
        self.query(&sql)?;
        let sum = self.query("CHECKSUM TABLE bench.t")?;
        run(&mut self.with_server(&["binlog", "repo/db", "--once"]))?;
        let log = self.log(file)?;
        let mut rounds: [Vec<f64>; 2] = Default::default();
        for _ in 0..self.rounds.unwrap_or(ROUNDS) {
            let plain = self.restore(&[])?;
            let whole = self.restore(&["--until", "end"])?;
            let server = self.start()?;
            ensure!(query(server.socket(), "CHECKSUM TABLE bench.t")? == sum, "our replay differs");
            drop(server);
            self.restore(&[])?;
            let server = self.start()?;
            let began = Instant::now();
            pipe(&log, at, &server)?;
            let piped = began.elapsed().as_secs_f64();
            ensure!(query(server.socket(), "CHECKSUM TABLE bench.t")? == sum, "the peer's replay differs");
            rounds[0].push(whole - plain);
            rounds[1].push(piped);
        }
        let ratios: Vec<f64> = rounds[1].iter().zip(&rounds[0]).map(|(piped, ours)| piped / ours).collect();
        let [ours, piped] = rounds.map(|seconds| middle(seconds).unwrap_or(f64::NAN));
        println!("| replay of {transactions} transactions | s | / ours |\n|---|--:|--:|");
        println!("| remora restore --until end, less remora restore | {ours:.1} | 1 |");
        println!(
            "| mariadb-binlog \\| mariadb | {piped:.1} | {:.1} |",
            middle(ratios.clone()).unwrap_or(f64::NAN)
        );
        println!(
            "\nOurs has all its proofs in it: two starts of a server, bytes compared, every table checked. All rounds: {}",
            shown(&ratios)
        );
        Ok(())
    }

    /// The archived files from this one on.
    fn log(&self, file: &str) -> Result<Vec<PathBuf>> {
        let lines = self.folder.path().join("repo/db/log");
        let line = lines.join("000001");
        let index = fs::read_to_string(line.join("log.index"))?;
        let names = index.lines().map(|name| name.trim_start_matches("./"));
        Ok(names.skip_while(|name| *name != file).map(|name| line.join(name)).collect())
    }

    /// Restores into a new folder. Returns the seconds.
    fn restore(&self, more: &[&str]) -> Result<f64> {
        let to = self.folder.path().join("back");
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        let began = Instant::now();
        run(self.remora(&["restore", "repo/db", "--to", "back"]).args(more))?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// A server on what was restored, as fast as that of the replay.
    fn start(&self) -> Result<Sandbox> {
        let options =
            ["--skip-grant-tables", "--innodb-flush-log-at-trx-commit=0", "--max-allowed-packet=1G"];
        let options = options.map(ToOwned::to_owned).to_vec();
        let data = Some(self.folder.path().join("back"));
        let settings = Settings { data, options, ..Settings::default() };
        Ok(Sandbox::start(&self.installation, &places()?, &settings)?)
    }
}

/// The number behind an option.
fn number<T: FromStr>(arguments: &[String], option: &str) -> Result<Option<T>> {
    let parsed = super::value(arguments, option).map(str::parse).transpose();
    parsed.ok().with_context(|| format!("{option} is a number"))
}

/// The same backups into a folder and into a store, and back.
fn store(url: &str) -> Result<()> {
    let (remora, folder) = (release()?, tempfile::tempdir()?);
    let image = folder.path().join("image");
    write_image(&image)?;
    let timed = |words: &[&str]| {
        let began = Instant::now();
        run(Command::new(&remora).current_dir(folder.path()).args(words).arg("--quiet"))?;
        Ok::<_, anyhow::Error>(began.elapsed().as_secs_f64())
    };
    // Of the folder and of the store; of a backup and of a restore.
    let mut rounds: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..ROUNDS {
        for (to, seconds) in ["repo", url].into_iter().zip(&mut rounds) {
            let repository = format!("{to}/{round}");
            seconds[0].push(timed(&["backup", "file:image", "--to", &repository])?);
            seconds[1].push(timed(&["restore", &repository, "--to", "back"])?);
            ensure!(
                fs::read(folder.path().join("back"))? == fs::read(&image)?,
                "{to}: another file comes back"
            );
            fs::remove_file(folder.path().join("back"))?;
        }
    }
    println!(
        "\n| {} MB | folder s | store s | folder / store |\n|---|--:|--:|--:|",
        fs::metadata(&image)?.len() / 1_000_000
    );
    let [folder, store] = rounds;
    for (name, (local, far)) in ["backup", "restore"].iter().zip(folder.into_iter().zip(store)) {
        let ratios: Vec<f64> = local.iter().zip(&far).map(|(local, far)| local / far).collect();
        let [local, far, ratio] = [local, far, ratios].map(|all| middle(all).unwrap_or(f64::NAN));
        println!("| {name} | {local:.2} | {far:.2} | {ratio:.2} |");
    }
    Ok(())
}

/// The client of the servers.
pub(super) fn client(socket: &Path) -> Result<Command> {
    let mut command = Command::new(sandbox::client().context("no client program")?);
    command.args(["--no-defaults", "-N", "-B", "-u", "root", "-S"]).arg(socket);
    Ok(command)
}

/// Our program, in a folder.
fn remora(program: &Path, folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).args(words).arg("--quiet");
    command
}

/// Asks a server. The client does not divide what it sends: a procedure has statements in it.
fn query(socket: &Path, sql: &str) -> Result<String> {
    let output = client(socket)?.args(["--delimiter=//", "-e", sql]).output()?;
    ensure!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The statements of a log from a position on, through a client.
fn pipe(log: &[PathBuf], at: &str, server: &Sandbox) -> Result<()> {
    let mut reader = Command::new("mariadb-binlog");
    reader.args(["--no-defaults", "--start-position", at]).args(log).stdout(Stdio::piped());
    let mut reader = reader.spawn().context("mariadb-binlog")?;
    let statements = reader.stdout.take().context("no output")?;
    let output = client(server.socket())?.arg("--binary-mode").stdin(statements).output()?;
    ensure!(output.status.success(), "the peer's replay: {}", String::from_utf8_lossy(&output.stderr));
    ensure!(reader.wait()?.success(), "mariadb-binlog failed");
    Ok(())
}

fn shown(numbers: &[f64]) -> String {
    let mut text = String::new();
    for number in numbers {
        write!(text, "{number:.2} ").ok();
    }
    text
}
