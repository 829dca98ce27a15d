//! JetStream of NATS with a file that is synced at each message, as `nats bench` uses it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::peer::{Daemon, Peer, Work, free_port, listens, number_before, output};
use super::{BODY, folder};
use crate::{places, setup};

/// The server and its tool, of which only newer ones than Debian's sync each message.
const SERVER: (&str, &str, &str) = ("nats-server", "github.com/nats-io/nats-server/v2", "v2.15.2");
const TOOL: (&str, &str, &str) = ("nats", "github.com/nats-io/natscli/nats", "v0.5.0");

/// Messages for each second of a run, published one at a time, and all others: the tool takes a number, not
/// a time.
const MESSAGES: [u64; 2] = [500, 20_000];

/// The server.
pub(super) struct Nats {
    /// Ended before its folder is removed.
    _daemon: Daemon,
    _folder: TempDir,
    tool: PathBuf,
    port: u16,
    seconds: u64,
}

/// Builds a program of Go, unless it is there.
fn bring(folder: &Path, (program, package, version): (&str, &str, &str)) -> Result<PathBuf> {
    let to = folder.join(format!("{program}-{version}"));
    if !to.is_file() {
        ensure!(setup::is_there("go"), "its programs are built by go, which is not here");
        let mut go = Command::new("go");
        crate::run(go.args(["install", &format!("{package}@{version}")]).env("GOBIN", folder))?;
        std::fs::rename(folder.join(program), &to)?;
    }
    Ok(to)
}

impl Nats {
    pub(super) fn start(seconds: u64) -> Result<Nats> {
        let programs = places()?.cache.join("nats");
        std::fs::create_dir_all(&programs)?;
        let (server, tool) = (bring(&programs, SERVER)?, bring(&programs, TOOL)?);
        let (folder, port) = (folder()?, free_port()?);
        let settings = folder.path().join("settings");
        std::fs::write(
            &settings,
            format!(
                "listen: 127.0.0.1:{port}\njetstream {{ store_dir: {:?}, sync_interval: always }}\n",
                folder.path().join("data")
            ),
        )?;
        let mut command = Command::new(server);
        let mut daemon = Daemon::start(command.arg("-c").arg(settings), &folder.path().join("log"))?;
        daemon.until(|| listens(port))?;
        Ok(Nats { _daemon: daemon, _folder: folder, tool, port, seconds })
    }

    /// What `nats bench js` says.
    fn bench(&self, arguments: &[&str], messages: u64, connections: u32) -> Result<String> {
        let mut tool = Command::new(&self.tool);
        tool.args(["--server", &format!("nats://127.0.0.1:{}", self.port), "bench", "js"]);
        tool.args(arguments).args(["--no-progress", "--size", &BODY.to_string()]);
        tool.args(["--msgs", &messages.to_string(), "--clients", &connections.to_string()]);
        output(&mut tool)
    }
}

impl Peer for Nats {
    fn name(&self) -> String {
        format!("NATS JetStream {}", SERVER.2.trim_start_matches('v'))
    }

    fn rate(&self, work: Work, connections: u32) -> Result<f64> {
        let batch = work.batch.to_string();
        let many = ["pub", "atomic", "bench", "--create", "--purge", "--batch"];
        let [few_messages, messages] = MESSAGES.map(|each| each * self.seconds);
        let printed = if work.takes {
            self.bench(&[&many[..], &["500"]].concat(), messages, 4)?;
            let fetch = ["fetch", "--acks", "explicit", "--doubleack", "--batch", &batch];
            self.bench(&fetch, messages, connections)?
        } else if work.batch > 1 {
            self.bench(&[&many[..], &[&batch]].concat(), messages, connections)?
        } else {
            self.bench(&["pub", "sync", "bench", "--create", "--purge"], few_messages, connections)?
        };
        // `aggregated stats: 1,234 msgs/sec`, after the lines of the connections.
        let (_, printed) = printed.rsplit_once("stats:").with_context(|| format!("no stats in {printed}"))?;
        number_before(printed, "msgs/sec")
    }
}
