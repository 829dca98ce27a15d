//! What following costs: applying a binary log beside the server's own SQL thread, the comparison of all
//! rows, and for how long nobody can write when a copy takes over.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandbox::{Family, Product, Sandbox, Settings};

use super::import::done;
use super::measure::{Cost, as_f64, measure, median, middle};
use crate::{places, setup};

/// Rows of the table before anything is measured.
const ROWS: u64 = 340_000;
/// Transactions of a round, and rounds.
const TRANSACTIONS: u64 = 60_000;
const ROUNDS: usize = 3;
/// Cut-overs, and connections that write meanwhile.
const CUT_OVERS: usize = 20;
const CONNECTIONS: usize = 100;
/// Nothing takes that long.
const LIMIT: Duration = Duration::from_secs(600);

/// The tables; a transaction of four statements, as sysbench writes; a writer that writes until the server
/// becomes read-only; and one that tries until it can write.
const MAKE: [&str; 7] = [
    "CREATE DATABASE bench",
    "CREATE TABLE bench.t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY (k)) \
     ENGINE=InnoDB",
    "CREATE TABLE bench.entry (id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6) NOT NULL) ENGINE=InnoDB",
    "CREATE PROCEDURE bench.fill(n INT) SQL SECURITY INVOKER BEGIN DECLARE i INT DEFAULT 0; START TRANSACTION; WHILE i < n \
     DO INSERT INTO bench.t VALUES (i, RAND() * n, SHA2(i, 384), SHA1(i)); SET i = i + 1; END WHILE; COMMIT; END",
    "CREATE PROCEDURE bench.work(n INT, most INT) SQL SECURITY INVOKER BEGIN DECLARE i INT DEFAULT 0; DECLARE a, b, d INT; \
     WHILE i < n DO SET a = FLOOR(RAND() * most), b = FLOOR(RAND() * most), d = FLOOR(RAND() * most); START TRANSACTION; \
     UPDATE bench.t SET k = k + 1 WHERE id = a; UPDATE bench.t SET c = SHA2(RAND(), 384) WHERE id = b; DELETE FROM bench.t \
     WHERE id = d; INSERT INTO bench.t VALUES (d, i, SHA2(i, 384), SHA1(i)); COMMIT; SET i = i + 1; END WHILE; END",
    "CREATE PROCEDURE bench.hammer() SQL SECURITY INVOKER BEGIN WHILE TRUE DO INSERT INTO bench.entry (at) VALUES \
     (SYSDATE(6)); DO SLEEP(0.05); END WHILE; END",
    "CREATE PROCEDURE bench.probe() SQL SECURITY INVOKER BEGIN DECLARE is_closed INT DEFAULT 1; DECLARE CONTINUE HANDLER \
     FOR 1290 SET is_closed = 1; WHILE is_closed DO SET is_closed = 0; INSERT INTO bench.entry (at) VALUES (SYSDATE(6)); IF \
     is_closed THEN DO SLEEP(0.002); END IF; END WHILE; SELECT MAX(at) FROM bench.entry; END",
];

/// `cargo xtask bench follow [--server NAME] [--transactions N] [--cut-overs N] [--connections N]`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    let number = |name: &str, usual: u64| {
        super::value(arguments, name).map_or(Ok(usual), str::parse).with_context(|| name.to_owned())
    };
    let product: Product =
        super::value(arguments, "--server").map_or(Ok(Product::MariaDb1011), str::parse)?;
    if product.family() != Family::MariaDb {
        bail!("the statements of this benchmark are those of MariaDB");
    }
    let bench = Trio::start(product, crate::release()?)?;
    bench.applying(number("--transactions", TRANSACTIONS)?)?;
    let count = |number: u64| usize::try_from(number).context("too many");
    bench.cut_overs(
        count(number("--cut-overs", CUT_OVERS as u64)?)?,
        count(number("--connections", CONNECTIONS as u64)?)?,
    )
}

/// A server, its copy, and its replica.
struct Trio {
    remora: PathBuf,
    folder: tempfile::TempDir,
    source: Sandbox,
    copy: Sandbox,
    replica: Sandbox,
}

impl Trio {
    fn start(product: Product, remora: PathBuf) -> Result<Trio> {
        let installation = sandbox::find(&places()?, product)?;
        let server = |id: u32| {
            let options = [
                "--innodb-buffer-pool-size=1G",
                "--innodb-log-file-size=512M",
                "--max-connections=400",
                "--log-bin=log",
                "--binlog-format=ROW",
                "--read-only=1",
                &format!("--server-id={id}"),
            ];
            let options = options.map(str::to_owned).to_vec();
            let settings = Settings { options, port: Some(0), ..Settings::default() };
            let server = Sandbox::start(&installation, &places()?, &settings)?;
            query(
                &server,
                "CREATE USER app@'%'; GRANT ALL ON bench.* TO app@'%'; CREATE USER copy@'%' IDENTIFIED BY 'x'; GRANT \
                 REPLICATION SLAVE ON *.* TO copy@'%'",
            )?;
            Ok::<_, anyhow::Error>(server)
        };
        println!("{product} ({}), servers with their default durability\n", installation.version);
        let folder = tempfile::tempdir()?;
        Ok(Trio { remora, folder, source: server(1)?, copy: server(2)?, replica: server(3)? })
    }

    fn remora(&self, (from, to): (&Sandbox, &Sandbox), further: &[&str]) -> Command {
        let address = |server: &Sandbox| format!("unix://{}", server.socket().display());
        let mut command = Command::new(&self.remora);
        command.args(["copy", "--no-defaults", "--user=root", &address(from), &address(to), "bench"]);
        command.args(further);
        command
    }

    /// Applies the same log by remora and by the server's own threads.
    fn applying(&self, transactions: u64) -> Result<()> {
        for sql in MAKE {
            query(&self.source, sql)?;
        }
        query(&self.source, &format!("CALL bench.fill({ROWS})"))?;
        let servers = (&self.source, &self.copy);
        // Neither writes a log of its own: a replica does not by default.
        let follow = ["--quiet", "--follow", "apply", "--once", "--no-binlog"];
        let copied = self.both(servers, || done(&mut self.remora(servers, &follow)))?;
        let position = query(&self.source, "SHOW MASTER STATUS")?;
        let [file, offset, ..] = position.split_whitespace().collect::<Vec<_>>()[..] else { bail!("no log") };
        done(&mut self.remora((&self.source, &self.replica), &["--quiet", "--no-binlog"]))?;
        query(
            &self.replica,
            &format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy', MASTER_PASSWORD = 'x', \
                 MASTER_SSL = 0, MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {offset}",
                self.source.port().context("no port")?
            ),
        )?;
        let (mut ours, mut theirs, mut written) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            query(&self.source, &format!("CALL bench.work({transactions}, {ROWS})"))?;
            written.push(began.elapsed().as_secs_f64());
            let once = [&follow[..], &["--resume"]].concat();
            ours.push(measure(self.copy.pid(), || done(&mut self.remora(servers, &once)))?);
            theirs.push(self.replicated()?);
            self.assert_same()?;
        }
        let verified = self.both(servers, || {
            done(&mut self.remora(servers, &[&follow[..], &["--resume", "--verify-every", "1h"]].concat()))
        })?;
        table(transactions, (&ours, &theirs), middle(written).context("no rounds")?);
        println!(
            "\nComparing all {ROWS} rows took {:.2} s, {:.2} s of processor on the source and {:.2} s on the target; the copy of \
             them {:.2} s, {:.2} s and {:.2} s.\n",
            verified.0.wall_s,
            verified.0.server_s,
            verified.1.server_s,
            copied.0.wall_s,
            copied.0.server_s,
            copied.1.server_s
        );
        Ok(())
    }

    /// The costs of work on both servers.
    fn both(
        &self,
        (from, to): (&Sandbox, &Sandbox),
        work: impl FnOnce() -> Result<()>,
    ) -> Result<(Cost, Cost)> {
        let mut target = None;
        let source = measure(from.pid(), || {
            target = Some(measure(to.pid(), work)?);
            Ok(())
        })?;
        Ok((source, target.context("nothing was measured")?))
    }

    /// The replica's SQL thread applies what its other thread has fetched before.
    fn replicated(&self) -> Result<Cost> {
        let end = query(&self.source, "SHOW MASTER STATUS")?;
        let [file, offset, ..] = end.split_whitespace().collect::<Vec<_>>()[..] else { bail!("no log") };
        let status = |name: &str| -> Result<String> {
            let mut client = client(self.replica.socket(), "root")?;
            let output = client.args(["--column-names", "-e", "SHOW SLAVE STATUS\\G"]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text
                .lines()
                .find_map(|line| line.trim().strip_prefix(&format!("{name}: ")).map(str::to_owned));
            line.with_context(|| format!("no {name} in {text}"))
        };
        let until = |file_name: &str, offset_name: &str| -> Result<()> {
            let began = Instant::now();
            while status(file_name)? != file || status(offset_name)? != offset {
                if began.elapsed() > LIMIT {
                    bail!("the replica does not reach {file}:{offset}: {}", status("Last_Error")?);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(())
        };
        query(&self.replica, "START SLAVE IO_THREAD")?;
        until("Master_Log_File", "Read_Master_Log_Pos")?;
        let cost = measure(self.replica.pid(), || {
            query(&self.replica, "START SLAVE SQL_THREAD")?;
            until("Relay_Master_Log_File", "Exec_Master_Log_Pos")
        })?;
        query(&self.replica, "STOP SLAVE")?;
        // No client has a part in it: ours only asked how far it is.
        Ok(Cost { client_s: 0.0, ..cost })
    }

    fn assert_same(&self) -> Result<()> {
        let sums =
            [&self.source, &self.copy, &self.replica].map(|server| query(server, "CHECKSUM TABLE bench.t"));
        let [source, copy, replica] = sums;
        let source = source?;
        if source != copy? || source != replica? {
            bail!("the servers differ");
        }
        Ok(())
    }

    /// Moves the database there and back, while many connections write.
    fn cut_overs(&self, count: usize, connections: usize) -> Result<()> {
        let (mut told, mut seen) = (Vec::new(), Vec::new());
        query(&self.source, "SET GLOBAL read_only = 0")?;
        for number in 0..count {
            let servers = match number % 2 {
                0 => (&self.source, &self.copy),
                _ => (&self.copy, &self.source),
            };
            let (refused, gap) = self.cut_over(servers, connections)?;
            told.push(refused);
            seen.push(gap);
        }
        let largest = |numbers: &[f64]| numbers.iter().copied().fold(0.0, f64::max);
        println!(
            "| {count} cut-overs with {connections} connections that write | median s | largest s |\n|---|--:|--:|"
        );
        println!(
            "| writes were refused, as remora says | {:.2} | {:.2} |",
            middle(told.clone()).context("none")?,
            largest(&told)
        );
        println!(
            "| from the last write on the old server to the first on the new one | {:.2} | {:.2} |",
            middle(seen.clone()).context("none")?,
            largest(&seen)
        );
        Ok(())
    }

    /// Moves the database once. Returns for how long writes were refused, by remora and by the rows.
    fn cut_over(&self, servers: (&Sandbox, &Sandbox), connections: usize) -> Result<(f64, f64)> {
        let (from, to) = servers;
        let writers = (0..connections)
            .map(|_| Client::call(from, "hammer", Stdio::null()))
            .collect::<Result<Vec<_>>>()?;
        let writing = format!(
            "SELECT COUNT(*) >= {connections} FROM information_schema.PROCESSLIST WHERE USER = 'app'"
        );
        let began = Instant::now();
        while query(from, &writing)?.trim() != "1" {
            if began.elapsed() > LIMIT {
                bail!("the connections do not write");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let probe = Client::call(to, "probe", Stdio::piped())?;
        let options = ["--follow", "apply", "--resume", "--cut-over", "--within", "20s", "--watch", "0s"];
        let output = self.remora(servers, &options).current_dir(self.folder.path()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = said.lines().find_map(|line| line.strip_prefix("cut over: writes were refused for "));
        let refused = refused.with_context(|| format!("no cut-over: {said}"))?;
        let refused: f64 = refused.split(' ').next().unwrap_or_default().parse()?;
        drop(writers);
        let first = probe.end()?;
        let gap = query(
            from,
            &format!("SELECT TIMESTAMPDIFF(MICROSECOND, MAX(at), '{}') / 1e6 FROM bench.entry", first.trim()),
        )?;
        Ok((refused, gap.trim().parse()?))
    }
}

/// A client that ends with its value.
struct Client(Child);

impl Client {
    fn call(server: &Sandbox, procedure: &str, to: Stdio) -> Result<Client> {
        let mut client = client(server.socket(), "app")?;
        client.args(["-e", &format!("CALL bench.{procedure}()")]);
        Ok(Client(client.stdin(Stdio::null()).stdout(to).stderr(Stdio::null()).spawn()?))
    }

    /// What it says in the end.
    fn end(mut self) -> Result<String> {
        let mut text = String::new();
        let stdout = self.0.stdout.as_mut().context("no output")?;
        std::io::Read::read_to_string(stdout, &mut text)?;
        Ok(text)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn client(socket: &Path, user: &str) -> Result<Command> {
    let mut client = Command::new(sandbox::client().context("there is no SQL client")?);
    // The server takes statements apart: bodies of procedures have semicolons.
    client.args(["--no-defaults", "--batch", "--skip-column-names", "--delimiter=//", "-u", user]);
    client.arg(format!("--socket={}", socket.display()));
    Ok(client)
}

fn query(server: &Sandbox, sql: &str) -> Result<String> {
    let output = client(server.socket(), "root")?.args(["-e", sql]).output()?;
    if !output.status.success() {
        bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Prints what applying costs. `written_s`: how long the source took to write the transactions.
fn table(transactions: u64, (ours, theirs): (&[Cost], &[Cost]), written_s: f64) {
    println!("{transactions} transactions of four rows, written in {written_s:.1} s:\n");
    println!("| method | wall s | server s | client s | transactions a second |\n|---|--:|--:|--:|--:|");
    for (name, costs) in [("remora copy --follow apply", ours), ("the replica's SQL thread", theirs)] {
        let Some(cost) = median(costs.to_vec()) else { continue };
        println!(
            "| {name} | {:.2} | {:.2} | {:.2} | {:.0} |",
            cost.wall_s,
            cost.server_s,
            cost.client_s,
            as_f64(transactions) / cost.wall_s
        );
    }
    let ratios = |of: fn(&Cost) -> f64| {
        middle(ours.iter().zip(theirs).map(|(our, their)| of(our) / their.server_s).collect())
    };
    let (server, both) = (ratios(|cost| cost.server_s), ratios(|cost| cost.server_s + cost.client_s));
    println!(
        "\nProcessor time of this for each second of the SQL thread: {:.2} of the server, {:.2} with remora's own.",
        server.unwrap_or_default(),
        both.unwrap_or_default()
    );
}
