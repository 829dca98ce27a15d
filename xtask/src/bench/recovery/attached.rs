//! What it costs a server that its log is read while it writes, and how long a transaction is on the server
//! alone.

mod lag;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sandbox::{Sandbox, Settings};

use super::{Bench, query, shown};
use crate::bench::measure::{as_f64, middle, processor_s};
use crate::{cargo, places, run};

/// How often each way is measured, if nobody says it.
const ROUNDS: usize = 3;
/// How long a reader may take to connect, or to catch up.
const PATIENCE: Duration = Duration::from_secs(30);
/// The account of those who come through the network.
const ACCOUNT: &str = "reader";

/// How a server writes: for some seconds.
struct Load {
    what: &'static str,
    settings: &'static str,
    connections: u32,
    transactions: u32,
}

const QUICK: Load = Load {
    what: "COMMIT syncs nothing",
    settings: "SET GLOBAL innodb_flush_log_at_trx_commit = 0, GLOBAL sync_binlog = 0",
    connections: 4,
    transactions: 200_000,
};
const DURABLE: Load = Load {
    what: "COMMIT syncs InnoDB's log and the binary log",
    settings: "SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL sync_binlog = 1",
    connections: 16,
    transactions: 40_000,
};

/// Who reads the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Nobody,
    /// Another time: how much rounds differ by themselves.
    NobodyAgain,
    /// The example `discard`, which reads as seldom as remora and keeps nothing: the least that a reader
    /// costs.
    Discard,
    Remora,
    /// `mariadb-binlog`, which reads at once, and only writes.
    Copier,
}

impl Reader {
    const ALL: [Reader; 5] =
        [Reader::Nobody, Reader::NobodyAgain, Reader::Discard, Reader::Remora, Reader::Copier];

    fn name(self) -> &'static str {
        match self {
            Reader::Nobody => "nobody",
            Reader::NobodyAgain => "nobody, another time",
            Reader::Discard => "a reader that keeps nothing",
            Reader::Remora => "remora binlog",
            Reader::Copier => "mariadb-binlog --raw --stop-never",
        }
    }
}

/// Who makes COMMIT wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    Nobody,
    Remora,
    /// A server that receives and applies nothing. With the value of its `sync_relay_log`.
    Replica(u32),
}

impl Waited {
    /// A replica says by default that it has what may be in memory only.
    const ALL: [Waited; 4] = [Waited::Nobody, Waited::Remora, Waited::Replica(1), Waited::Replica(10_000)];

    fn name(self) -> String {
        match self {
            Waited::Nobody => "for nobody".to_owned(),
            Waited::Remora => "for remora binlog --ack".to_owned(),
            Waited::Replica(sync) => format!("for a replica, sync_relay_log={sync}"),
        }
    }
}

/// What a run costs.
struct Run {
    seconds: f64,
    /// After the last transaction until the reader has it.
    behind_s: f64,
    server_s: f64,
    reader_s: f64,
}

/// A reader, which ends with this.
struct Attached(Child);

impl Drop for Attached {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Bench {
    /// Makes the account of readers.
    fn open_to_readers(&self) -> Result<()> {
        let grants = "REPLICATION SLAVE, BINLOG MONITOR ON *.*";
        self.query(&format!("CREATE OR REPLACE USER {ACCOUNT}@'%'"))?;
        self.query(&format!("GRANT {grants} TO {ACCOUNT}@'%'"))?;
        Ok(())
    }

    fn port(&self) -> Result<String> {
        Ok(self.server.port().context("a server without network")?.to_string())
    }

    fn archiver(&self, words: &[&str]) -> Command {
        let mut command = self.with_server(&["binlog", "repo/db"]);
        command.args(words).stdout(Stdio::null());
        command
    }

    /// The file that the server writes.
    fn newest(&self) -> Result<String> {
        let status = self.query("SHOW MASTER STATUS")?;
        Ok(status.split('\t').next().context("no log")?.to_owned())
    }

    /// Waits until a question has this answer.
    fn wait(&self, sql: &str, answer: &str) -> Result<()> {
        let began = Instant::now();
        while self.query(sql)?.trim() != answer {
            if began.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?} it is not {answer}: {sql}");
            }
        }
        Ok(())
    }

    /// Waits until the reader has everything.
    fn wait_for_reader(&self) -> Result<()> {
        self.wait(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Binlog Dump' \
             AND state LIKE '%has sent all binlog%'",
            "1",
        )
    }

    /// Ends what the server sends, and lets the next run begin with a new file.
    fn clear(&self) -> Result<()> {
        // A server notices late that nobody reads any more.
        let sent = "information_schema.processlist WHERE command = 'Binlog Dump'";
        for id in self.query(&format!("SELECT id FROM {sent}"))?.lines() {
            self.query(&format!("KILL {id}"))?;
        }
        self.wait(&format!("SELECT COUNT(*) FROM {sent}"), "0")?;
        self.query("FLUSH BINARY LOGS")?;
        run(&mut self.archiver(&["--once"]))?;
        let newest = self.newest()?;
        self.query(&format!("PURGE BINARY LOGS TO '{newest}'"))?;
        Ok(())
    }

    /// A run with a reader. Its processor time is that of the process `reader`.
    fn timed(&self, load: &Load, reader: Option<u32>) -> Result<Run> {
        let server = self.server.pid();
        let of_reader = || reader.map_or(Ok(0.0), processor_s);
        let (server_s, reader_s) = (processor_s(server)?, of_reader()?);
        let seconds = self.work(load.connections, load.transactions)?;
        let ended = Instant::now();
        if reader.is_some() {
            self.wait_for_reader()?;
        }
        Ok(Run {
            seconds,
            behind_s: ended.elapsed().as_secs_f64(),
            server_s: processor_s(server)? - server_s,
            reader_s: of_reader()? - reader_s,
        })
    }

    fn read_by(&self, reader: Reader, load: &Load) -> Result<Run> {
        self.clear()?;
        let child = match reader {
            Reader::Nobody | Reader::NobodyAgain => return self.timed(load, None),
            Reader::Discard => self.discard()?.spawn().context("discard")?,
            Reader::Remora => self.archiver(&[]).spawn()?,
            Reader::Copier => self.copier()?.spawn().context("mariadb-binlog")?,
        };
        let attached = Attached(child);
        self.wait_for_reader()?;
        self.timed(load, Some(attached.0.id()))
    }

    fn discard(&self) -> Result<Command> {
        run(cargo().args(["build", "--release", "--quiet", "--package", "server", "--example", "discard"]))?;
        let mut command = Command::new(self.remora.with_file_name("examples/discard"));
        command.arg(self.server.socket()).arg(self.newest()?);
        Ok(command)
    }

    fn copier(&self) -> Result<Command> {
        let copy = self.folder.path().join("copy");
        fs::create_dir_all(&copy)?;
        let mut command = Command::new("mariadb-binlog");
        command.current_dir(copy).args(["--no-defaults", "-u", "root", "-S"]).arg(self.server.socket());
        command.args(["--raw", "--read-from-remote-server", "--stop-never", &self.newest()?]);
        Ok(command)
    }

    /// The quick and the durable one. The number of transactions is for the quick one; the other one runs a
    /// fifth of it.
    fn loads(&self) -> [Load; 2] {
        let of = |load: Load, number: Option<u32>| Load {
            transactions: number.unwrap_or(load.transactions),
            ..load
        };
        [of(QUICK, self.transactions), of(DURABLE, self.transactions.map(|number| number / 5))]
    }

    /// The rate with a reader, and without.
    pub(super) fn archive(&self) -> Result<()> {
        for load in self.loads() {
            self.query(load.settings)?;
            println!(
                "\n{}, {} connections, {} transactions:\n",
                load.what, load.connections, load.transactions
            );
            let mut rounds: [Vec<Run>; 5] = Default::default();
            for _ in 0..self.rounds.unwrap_or(ROUNDS) {
                for (reader, runs) in Reader::ALL.into_iter().zip(&mut rounds) {
                    runs.push(self.read_by(reader, &load)?);
                }
            }
            println!(
                "| read by | transactions/s | with / without | processor s: server | reader | behind s | all rounds |\n\
                 |---|--:|--:|--:|--:|--:|---|"
            );
            for (reader, runs) in Reader::ALL.into_iter().zip(&rounds) {
                let ratios: Vec<f64> = runs
                    .iter()
                    .zip(&rounds[0])
                    .map(|(with, without)| without.seconds / with.seconds)
                    .collect();
                let of = |what: fn(&Run) -> f64| middle(runs.iter().map(what).collect()).unwrap_or(f64::NAN);
                println!(
                    "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {}|",
                    reader.name(),
                    as_f64(load.transactions.into()) / of(|run| run.seconds),
                    middle(ratios.clone()).unwrap_or(f64::NAN),
                    of(|run| run.server_s),
                    of(|run| run.reader_s),
                    of(|run| run.behind_s),
                    shown(&ratios)
                );
            }
        }
        Ok(())
    }

    /// The rate with a COMMIT that waits: for us, and for the server's own replica.
    pub(super) fn ack(&self) -> Result<()> {
        self.open_to_readers()?;
        let replica = self.replica()?;
        for load in self.loads() {
            self.query(load.settings)?;
            println!("\n{}, {} connections:\n", load.what, load.connections);
            let mut rounds: [Vec<f64>; 4] = Default::default();
            for _ in 0..self.rounds.unwrap_or(ROUNDS) {
                for (waited, rates) in Waited::ALL.into_iter().zip(&mut rounds) {
                    rates.push(self.waits_for(waited, &load, &replica)?);
                }
            }
            println!("| COMMIT waits | transactions/s | remora / this | all rounds |\n|---|--:|--:|---|");
            for (waited, rates) in Waited::ALL.into_iter().zip(&rounds) {
                let ratios: Vec<f64> =
                    rounds[1].iter().zip(rates).map(|(ours, other)| ours / other).collect();
                println!(
                    "| {} | {:.0} | {:.2} | {}|",
                    waited.name(),
                    middle(rates.clone()).unwrap_or(f64::NAN),
                    middle(ratios.clone()).unwrap_or(f64::NAN),
                    shown(&ratios)
                );
            }
        }
        Ok(())
    }

    /// A replica of the server that has nothing yet, and applies nothing.
    fn replica(&self) -> Result<Sandbox> {
        let options = ["--server-id=8", "--skip-slave-start", "--rpl-semi-sync-slave-enabled=ON"];
        let options = options.map(ToOwned::to_owned).to_vec();
        Ok(Sandbox::start(&self.installation, &places()?, &Settings { options, ..Settings::default() })?)
    }

    /// Transactions a second.
    fn waits_for(&self, waited: Waited, load: &Load, replica: &Sandbox) -> Result<f64> {
        self.query("SET GLOBAL rpl_semi_sync_master_enabled = OFF")?;
        self.clear()?;
        // Fewer: each waits.
        let transactions = load.transactions / if waited == Waited::Nobody { 1 } else { 10 };
        if waited == Waited::Nobody {
            return Ok(as_f64(transactions.into()) / self.work(load.connections, transactions)?);
        }
        self.query("SET GLOBAL rpl_semi_sync_master_enabled = ON")?;
        let archiver = match waited {
            Waited::Replica(sync) => {
                let port = self.port()?;
                let newest = self.newest()?;
                query(
                    replica.socket(),
                    &format!(
                        "CHANGE MASTER TO master_host='127.0.0.1', master_port={port}, master_user='{ACCOUNT}', \
                         master_log_file='{newest}', master_log_pos=4, master_use_gtid=no"
                    ),
                )?;
                query(replica.socket(), &format!("SET GLOBAL sync_relay_log = {sync}"))?;
                query(replica.socket(), "START SLAVE IO_THREAD")?;
                None
            }
            _ => {
                // Through the network, as the replica.
                let mut archiver = self.remora(&["binlog", "repo/db", "--ack", "--no-defaults"]);
                archiver.args(["-h", "127.0.0.1", "-P", &self.port()?, "-u", ACCOUNT]).stdout(Stdio::null());
                Some(Attached(archiver.spawn()?))
            }
        };
        let status = |name: &str| {
            self.query(&format!(
                "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{name}'"
            ))
        };
        self.wait_for_reader()?;
        let unwaited = status("Rpl_semi_sync_master_no_tx")?;
        let seconds = self.work(load.connections, transactions)?;
        ensure!(status("Rpl_semi_sync_master_no_tx")? == unwaited, "COMMIT did not wait {}", waited.name());
        drop(archiver);
        if let Waited::Replica(_) = waited {
            query(replica.socket(), "STOP SLAVE")?;
        }
        Ok(as_f64(transactions.into()) / seconds)
    }
}
