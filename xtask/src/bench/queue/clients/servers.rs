//! The servers: MariaDB with ENGINE=QUEUE, Redis, RabbitMQ and PostgreSQL, each as durable as the others.

use std::process::Command;

use anyhow::{Context, Result};
use sandbox::Sandbox;
use tempfile::TempDir;

use super::super::peer::{Daemon, free_port, listens, output};
use super::super::postgres::Postgres;
use super::super::rabbitmq::RabbitMq;
use super::super::{folder, ours};
use super::contestants::Kind;
use crate::bench::measure;
use crate::{plugin, setup};

/// A server that holds jobs.
pub(super) trait Server {
    /// Where it listens, as programs are told: a socket, its folder, or a port.
    fn address(&self) -> String;

    /// Removes all jobs and tables.
    fn reset(&self) -> Result<()>;

    /// How many statements it has executed.
    fn asked(&self) -> Result<f64>;

    /// A process above all of its own.
    fn pid(&self) -> u32;

    /// Its name and version.
    fn version(&self) -> Result<String>;
}

/// Those that were started.
#[derive(Default)]
pub(super) struct Servers(Vec<(Kind, Box<dyn Server>)>);

impl Servers {
    pub(super) fn start(&mut self, kind: Kind) -> Result<()> {
        if self.of(kind).is_ok() {
            return Ok(());
        }
        let server: Box<dyn Server> = match kind {
            Kind::MariaDb => Box::new(MariaDb::start()?),
            Kind::Redis => Box::new(Redis::start("always")?),
            Kind::LaxRedis => Box::new(Redis::start("everysec")?),
            Kind::RabbitMq => Box::new(RabbitMq::start(0)?),
            Kind::Postgres => Box::new(start_postgres()?),
        };
        self.0.push((kind, server));
        Ok(())
    }

    pub(super) fn of(&self, kind: Kind) -> Result<&dyn Server> {
        let found = self.0.iter().find(|(other, _)| *other == kind);
        Ok(found.with_context(|| format!("there is no {kind:?}"))?.1.as_ref())
    }

    pub(super) fn versions(&self) -> Result<String> {
        let versions: Result<Vec<_>> = self.0.iter().map(|(_, server)| server.version()).collect();
        Ok(versions?.join(", "))
    }
}

/// A word of a line.
fn nth_word(text: &str, at: usize) -> String {
    text.split_whitespace().nth(at).unwrap_or_default().to_owned()
}

struct MariaDb {
    server: Sandbox,
    _folder: TempDir,
}

impl MariaDb {
    fn start() -> Result<MariaDb> {
        setup::run_quietly()?;
        let folder = folder()?;
        // Each worker of Laravel has three connections.
        let options =
            ["--max-connections=300", "--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=1"];
        Ok(MariaDb { server: ours::server(plugin::build()?, &folder, &options)?, _folder: folder })
    }
}

impl Server for MariaDb {
    fn address(&self) -> String {
        self.server.socket().display().to_string()
    }

    fn reset(&self) -> Result<()> {
        ours::query(&self.server, "DROP DATABASE IF EXISTS bench; CREATE DATABASE bench").map(drop)
    }

    fn asked(&self) -> Result<f64> {
        let said = ours::query(
            &self.server,
            "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'",
        )?;
        said.parse().context(said)
    }

    fn pid(&self) -> u32 {
        self.server.pid()
    }

    fn version(&self) -> Result<String> {
        ours::query(&self.server, "SELECT CONCAT('MariaDB ', VERSION())")
    }
}

/// Redis, with its changes in a file.
struct Redis {
    daemon: Daemon,
    _folder: TempDir,
    port: u16,
}

impl Redis {
    fn start(sync: &str) -> Result<Redis> {
        setup::install(&[("redis-server", "redis-server"), ("redis-cli", "redis-tools")])?;
        let (folder, port) = (folder()?, free_port()?);
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", sync]).arg("--dir").arg(folder.path());
        let mut daemon = Daemon::start(&command, &folder.path().join("log"))?;
        daemon.until(|| listens(port))?;
        Ok(Redis { daemon, _folder: folder, port })
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        output(Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words))
    }

    /// A value of INFO.
    fn info(&self, section: &str, name: &str) -> Result<String> {
        let said = self.ask(&["INFO", section])?;
        let value = said.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        value.map(str::to_owned).with_context(|| format!("no {name} in {said}"))
    }
}

impl Server for Redis {
    fn address(&self) -> String {
        self.port.to_string()
    }

    fn reset(&self) -> Result<()> {
        self.ask(&["FLUSHALL"]).map(drop)
    }

    fn asked(&self) -> Result<f64> {
        Ok(self.info("stats", "total_commands_processed")?.parse()?)
    }

    fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    fn version(&self) -> Result<String> {
        Ok(format!("Redis {}", self.info("server", "redis_version")?))
    }
}

impl Server for RabbitMq {
    fn address(&self) -> String {
        self.port().to_string()
    }

    fn reset(&self) -> Result<()> {
        let said = self.control(&["list_queues", "name", "--silent"])?;
        for queue in said.lines().filter(|name| *name == "celery") {
            self.control(&["delete_queue", queue])?;
        }
        Ok(())
    }

    /// It has no statements: these are the packets that its clients have sent.
    fn asked(&self) -> Result<f64> {
        let said = self.control(&["list_connections", "recv_cnt", "--silent"])?;
        said.split_whitespace().map(|word| word.parse::<f64>().with_context(|| said.clone())).sum()
    }

    fn pid(&self) -> u32 {
        RabbitMq::pid(self)
    }

    fn version(&self) -> Result<String> {
        Ok(format!("RabbitMQ {}", RabbitMq::version(self)))
    }
}

/// PostgreSQL, which can count statements.
fn start_postgres() -> Result<Postgres> {
    let server = Postgres::start(0, &["shared_preload_libraries=pg_stat_statements"])?;
    server.query("CREATE EXTENSION pg_stat_statements")?;
    Ok(server)
}

impl Server for Postgres {
    fn address(&self) -> String {
        self.folder().display().to_string()
    }

    fn reset(&self) -> Result<()> {
        // It counts from the first question on, and not while jobs are measured.
        for sql in [
            "DROP DATABASE IF EXISTS bench WITH (FORCE)",
            "CREATE DATABASE bench",
            "ALTER SYSTEM SET pg_stat_statements.track = 'none'",
            "SELECT pg_reload_conf()",
        ] {
            self.query(sql)?;
        }
        Ok(())
    }

    /// With those within functions.
    fn asked(&self) -> Result<f64> {
        for sql in ["ALTER SYSTEM SET pg_stat_statements.track = 'all'", "SELECT pg_reload_conf()"] {
            self.query(sql)?;
        }
        let said = self.query("SELECT COALESCE(SUM(calls), 0) FROM pg_stat_statements")?;
        said.trim().parse().context(said)
    }

    fn pid(&self) -> u32 {
        Postgres::pid(self)
    }

    fn version(&self) -> Result<String> {
        Ok(format!("PostgreSQL {}", Postgres::version(self)))
    }
}

/// Seconds of the processors that a process and all below it have taken.
pub(super) fn processor_s(process: u32) -> Result<f64> {
    let mut family = vec![process];
    let said = output(Command::new("ps").args(["-e", "-o", "pid=,ppid="]))?;
    let pairs: Vec<(u32, u32)> = said
        .lines()
        .map(|line| Ok((nth_word(line, 0).parse()?, nth_word(line, 1).parse()?)))
        .collect::<Result<_>>()?;
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        family.extend(pairs.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        at += 1;
    }
    // One that has ended meanwhile took nothing that matters.
    Ok(family.into_iter().filter_map(|one| measure::processor_s(one).ok()).sum())
}
