//! A quorum queue of RabbitMQ, with a client that has as little overhead as possible: there is no package of
//! its own load generator.

use std::process::Command;

use anyhow::{Result, bail};
use tempfile::TempDir;

use super::folder;
use super::peer::{Daemon, Peer, Work, free_port, listens, output};
use crate::{root, setup};

/// Where Debian has the server's programs that need no account of their own.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// Messages that wait for each second in which they are taken, one at a time and many. When most of them are
/// taken, the run ends earlier.
const QUEUED: [u64; 2] = [40_000, 150_000];

/// Longer than any run, in seconds.
const LONG: u64 = 3600;

/// The server.
pub(super) struct RabbitMq {
    /// Ended before its folder is removed.
    daemon: Daemon,
    folder: TempDir,
    port: u16,
    names: u16,
    version: String,
    seconds: u64,
}

impl RabbitMq {
    pub(super) fn start(seconds: u64) -> Result<RabbitMq> {
        let server = format!("{PROGRAMS}/rabbitmq-server");
        setup::install(&[(&server, "rabbitmq-server"), ("/usr/include/amqp.h", "librabbitmq-dev")])?;
        let (folder, port, names) = (folder()?, free_port()?, free_port()?);
        output(
            Command::new("cc")
                .args(["-O2", "-Wall", "-o"])
                .arg(folder.path().join("client"))
                .arg(root().join("xtask/src/bench/queue/rabbitmq_client.c"))
                .args(["-lrabbitmq", "-lpthread"]),
        )?;
        let here = |name: &str| folder.path().join(name);
        std::fs::write(
            here("settings.conf"),
            format!("listeners.tcp.1 = 127.0.0.1:{port}\ndisk_free_limit.absolute = 1GB\n"),
        )?;
        // With the server of names in its group of processes, which would outlive it otherwise.
        let mut command = Command::new("sh");
        command.args(["-c", "epmd & exec \"$0\"", &server]);
        node(&mut command, &folder, names);
        command
            .env("RABBITMQ_MNESIA_BASE", here("data"))
            .env("RABBITMQ_LOG_BASE", here("logs"))
            .env("RABBITMQ_CONFIG_FILE", here("settings.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", here("plugins"))
            .env("RABBITMQ_DIST_PORT", free_port()?.to_string())
            // A server that is idle must not take time from the others.
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none +sbwtdcpu none +sbwtdio none");
        let mut daemon = Daemon::start(&command, &here("log"))?;
        daemon.until(|| listens(port))?;
        let mut new = RabbitMq { daemon, folder, port, names, version: String::new(), seconds };
        new.version = new.control(&["version"])?.trim().to_owned();
        Ok(new)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// What `rabbitmqctl` says.
    pub(super) fn control(&self, arguments: &[&str]) -> Result<String> {
        let mut control = Command::new(format!("{PROGRAMS}/rabbitmqctl"));
        node(&mut control, &self.folder, self.names);
        output(control.args(arguments))
    }

    /// Messages per second, as the client counts them.
    fn client(&self, mode: &str, connections: u32, batch: u64, (seconds, most): (u64, u64)) -> Result<f64> {
        let mut client = Command::new(self.folder.path().join("client"));
        client.args([&self.port.to_string(), mode, &connections.to_string()]);
        client.args([seconds, batch, most].map(|number| number.to_string()));
        let printed = output(&mut client)?;
        let mut numbers = printed.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(messages)), Some(Ok(seconds))) = (numbers.next(), numbers.next()) else {
            bail!("the client said {printed}")
        };
        Ok(messages / seconds)
    }
}

/// Which node a command is about.
fn node(command: &mut Command, folder: &TempDir, names: u16) {
    command
        .env("HOME", folder.path())
        .env("ERL_EPMD_PORT", names.to_string())
        .env("RABBITMQ_NODENAME", "bench@localhost");
}

impl Peer for RabbitMq {
    fn name(&self) -> String {
        format!("quorum queue of RabbitMQ {}", self.version)
    }

    fn rate(&self, work: Work, connections: u32) -> Result<f64> {
        let rate = if work.takes {
            let rows = QUEUED[usize::from(work.batch > 1)] * self.seconds;
            self.client("publish", 1, 1000, (LONG, rows))?;
            // Each connection still gets what it waits for then.
            let most = rows - 2 * work.batch * u64::from(connections);
            self.client("take", connections, work.batch, (self.seconds, most))?
        } else {
            self.client("publish", connections, work.batch, (self.seconds, u64::from(u32::MAX)))?
        };
        self.control(&["delete_queue", "bench"])?;
        Ok(rate)
    }
}
