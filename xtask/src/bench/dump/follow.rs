//! What a copy that follows costs: applying beside the server's own SQL thread, comparing all rows, and how
//! long writes are refused while the copy takes over.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};

use super::query;
use crate::bench::measure::{Cost, measure, middle};
use crate::{places, release, setup};

const ROUNDS: usize = 3;
const ROWS: u64 = 340_000;
const TRANSACTIONS: u64 = 20_000;
const CUT_OVERS: usize = 20;
const CONNECTIONS: u32 = 100;
/// Asked when a replica has read or applied everything.
const LOOK: Duration = Duration::from_millis(10);

/// Programs of the comparison and their packages.
const PEERS: [(&str, &str); 1] = [("mariadb-slap", "mariadb-client")];

/// A transaction changes two rows, adds one and deletes one.
const WORK: &str = "CREATE PROCEDURE bench.work(IN transactions INT) BEGIN DECLARE n INT DEFAULT 0; \
    WHILE n < transactions DO START TRANSACTION; \
    UPDATE bench.t SET v = CONCAT(n, REPEAT('x', 60)) WHERE id IN (1 + FLOOR(RAND() * 340000), 1 + FLOOR(RAND() * 340000)); \
    INSERT INTO bench.t (k, v) VALUES (n, REPEAT('y', 60)); \
    DELETE FROM bench.t WHERE id = 1 + FLOOR(RAND() * 340000); COMMIT; SET n = n + 1; END WHILE; END";

/// `cargo xtask bench follow`
pub(crate) fn run() -> Result<()> {
    setup::run_quietly()?;
    setup::install(&PEERS)?;
    let servers = Servers::start()?;
    println!("\n### Applying {TRANSACTIONS} transactions, {ROWS} rows, in each of {ROUNDS} rounds\n");
    servers.applying()?;
    println!("\n### Comparing all rows\n");
    servers.comparing()?;
    println!("\n### {CUT_OVERS} cut-overs with {CONNECTIONS} connections that write\n");
    servers.cut_overs()
}

/// The source, our copy, and a replica of the server's own.
struct Servers {
    source: Sandbox,
    copy: Sandbox,
    replica: Sandbox,
    remora: PathBuf,
}

fn start(id: u32) -> Result<Sandbox> {
    let places = places()?;
    let installation = sandbox::find(&places, Product::MariaDb1011)?;
    let options = [
        "--innodb-buffer-pool-size=1G",
        "--innodb-log-file-size=512M",
        "--log-bin=log",
        "--binlog-format=ROW",
        "--max-connections=300",
        &format!("--server-id={id}"),
    ];
    let options = options.map(str::to_owned).to_vec();
    Ok(Sandbox::start(&installation, &places, &Settings { options, port: Some(0), ..Settings::default() })?)
}

impl Servers {
    fn start() -> Result<Servers> {
        let (source, copy, replica) = (start(1)?, start(2)?, start(3)?);
        let servers = Servers { source, copy, replica, remora: release()? };
        for server in [&servers.source, &servers.copy] {
            query(
                server,
                "SET sql_log_bin = 0; CREATE USER app@localhost; GRANT ALL ON bench.* TO app@localhost; \
                 CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'x'; GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'",
            )?;
        }
        query(&servers.source, "CREATE DATABASE bench")?;
        query(
            &servers.source,
            &format!(
                "CREATE TABLE bench.t (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, v VARCHAR(100) NOT NULL, KEY (k)); \
                 INSERT INTO bench.t (k, v) SELECT seq, REPEAT(MD5(seq), 2) FROM bench.seq_1_to_{ROWS}"
            ),
        )?;
        query(&servers.source, &format!("DELIMITER //\n{WORK}//\n"))?;
        let master = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl', MASTER_PASSWORD='x', MASTER_LOG_FILE='log.000001', \
             MASTER_LOG_POS=4, MASTER_PORT={}, MASTER_USE_GTID=no",
            servers.source.port().context("the source has no port")?
        );
        query(&servers.replica, &master)?;
        servers.replicate()?;
        servers.remora(false, &["--once"])?;
        Ok(servers)
    }

    fn remora(&self, is_back: bool, arguments: &[&str]) -> Result<String> {
        let address = |server: &Sandbox| format!("unix://{}", server.socket().display());
        let (mut from, mut to) = (address(&self.source), address(&self.copy));
        if is_back {
            std::mem::swap(&mut from, &mut to);
        }
        let own = ["copy", "--no-defaults", "-u", "root", &from, &to, "bench.t", "--follow", "apply"];
        let output = Command::new(&self.remora).args(own).args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(said) } else { bail!("{said}") }
    }

    /// Lets the replica read the whole log of the source.
    fn read(&self) -> Result<()> {
        let end = query(&self.source, "SHOW MASTER STATUS")?;
        let mut end = end.split_whitespace();
        let (file, offset) =
            (end.next().context("no log")?.to_owned(), end.next().context("no log")?.to_owned());
        query(&self.replica, "START SLAVE IO_THREAD")?;
        self.until("Read_Master_Log_Pos", &file, &offset)
    }

    /// Lets the replica apply what it has read.
    fn apply(&self) -> Result<()> {
        query(&self.replica, "START SLAVE SQL_THREAD")?;
        let status = self.status()?;
        let of = |name: &str| status.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let (file, offset) = (of("Master_Log_File"), of("Read_Master_Log_Pos"));
        self.until("Exec_Master_Log_Pos", &file.context("no file")?, &offset.context("no position")?)
    }

    fn replicate(&self) -> Result<()> {
        self.read()?;
        self.apply()?;
        query(&self.replica, "STOP SLAVE").map(drop)
    }

    fn status(&self) -> Result<Vec<(String, String)>> {
        let text = query(&self.replica, "SHOW SLAVE STATUS\\G")?;
        let pairs = text.lines().filter_map(|line| line.trim().split_once(": "));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn until(&self, name: &str, file: &str, offset: &str) -> Result<()> {
        let of_file = if name.starts_with("Read") { "Master_Log_File" } else { "Relay_Master_Log_File" };
        loop {
            let status = self.status()?;
            let is = |name: &str, wanted: &str| {
                status.iter().any(|(known, value)| known == name && value == wanted)
            };
            if is(name, offset) && is(of_file, file) {
                return Ok(());
            }
            if let Some((_, error)) =
                status.iter().find(|(known, value)| known == "Last_Error" && !value.is_empty())
            {
                bail!("{error}");
            }
            std::thread::sleep(LOOK);
        }
    }

    fn applying(&self) -> Result<()> {
        let (mut ours, mut theirs): (Vec<Cost>, Vec<Cost>) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            query(&self.source, &format!("CALL bench.work({TRANSACTIONS})"))?;
            self.read()?;
            let own = || measure(self.copy.pid(), || self.remora(false, &["--once", "--resume"]).map(drop));
            let other = || measure(self.replica.pid(), || self.apply());
            let (own, other) = if round % 2 == 0 {
                let own = own()?;
                (own, other()?)
            } else {
                let other = other()?;
                (own()?, other)
            };
            query(&self.replica, "STOP SLAVE")?;
            // The first round has cold caches.
            if round > 0 {
                ours.push(own);
                theirs.push(other);
            }
            let sums = [&self.source, &self.copy, &self.replica]
                .map(|server| query(server, "CHECKSUM TABLE bench.t"));
            let sums = sums.into_iter().collect::<Result<Vec<_>>>()?;
            if sums.iter().any(|sum| *sum != sums[0]) {
                bail!("the servers differ: {sums:?}");
            }
        }
        println!("| method | wall s | server s | client s |\n|---|--:|--:|--:|");
        for (name, costs) in [("remora copy --follow apply", &ours), ("the server's SQL thread", &theirs)] {
            let of = |of: fn(&Cost) -> f64| middle(costs.iter().map(of).collect()).unwrap_or_default();
            println!(
                "| {name} | {:.2} | {:.2} | {:.2} |",
                of(|c| c.wall_s),
                of(|c| c.server_s),
                of(|c| c.client_s)
            );
        }
        let ratio = |(own, other): (&Cost, &Cost)| (own.server_s + own.client_s) / other.server_s;
        let ratio = middle(ours.iter().zip(&theirs).map(ratio).collect()).unwrap_or_default();
        println!("\nProcessor time of remora with its server, over that of the replica: {ratio:.2}");
        Ok(())
    }

    fn comparing(&self) -> Result<()> {
        let mut costs = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut inner = None;
            let outer = measure(self.source.pid(), || {
                let arguments = ["--once", "--resume", "--verify-every", "1h"];
                inner = Some(measure(self.copy.pid(), || self.remora(false, &arguments).map(drop))?);
                Ok(())
            })?;
            costs.0.push(outer.server_s);
            costs.1.push(inner.map_or(0.0, |cost| cost.server_s));
            costs.2.push(outer.client_s);
        }
        let middle = |numbers| middle(numbers).unwrap_or_default();
        println!(
            "Processor time for {ROWS} rows: {:.2} s of A, {:.2} s of B, {:.2} s of remora",
            middle(costs.0),
            middle(costs.1),
            middle(costs.2)
        );
        Ok(())
    }

    /// Lets the copy take over, and then the source again, while clients write to whichever is open.
    fn cut_overs(&self) -> Result<()> {
        let mut refused = Vec::new();
        for round in 0..CUT_OVERS {
            let is_back = round % 2 == 1;
            let mut clients = slap(if is_back { &self.copy } else { &self.source })?;
            let said =
                self.remora(is_back, &["--resume", "--cut-over", "--watch", "0s", "--within", "10s"])?;
            clients.wait()?;
            let seconds =
                said.split_once("writes were refused for ").and_then(|(_, rest)| rest.split_once(" s;"));
            refused.push(seconds.context("it did not say how long")?.0.parse::<f64>()?);
        }
        refused.sort_by(f64::total_cmp);
        let at = |share: usize| refused[(refused.len() - 1) * share / 100];
        println!("Writes were refused for {:.2} s (median), {:.2} s (the most)", at(50), at(100));
        Ok(())
    }
}

/// Clients that write until they are refused.
fn slap(server: &Sandbox) -> Result<Child> {
    let connections = format!("--concurrency={CONNECTIONS}");
    let statement = format!("UPDATE bench.t SET k = k + 1 WHERE id = 1 + FLOOR(RAND() * {ROWS})");
    let child = Command::new("mariadb-slap")
        .args([
            "--no-defaults",
            "--user=app",
            &connections,
            "--number-of-queries=100000000",
            "--create-schema=bench",
        ])
        .args([
            "--no-drop",
            &format!("--query={statement}"),
            &format!("--socket={}", server.socket().display()),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let began = Instant::now();
    while query(server, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = 'bench'")?.trim()
        != CONNECTIONS.to_string()
    {
        if began.elapsed() > Duration::from_secs(30) {
            bail!("the clients do not connect");
        }
        std::thread::sleep(LOOK);
    }
    Ok(child)
}
