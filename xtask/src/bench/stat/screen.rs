//! The cost of the screen of `remora top` for a server, by what it shows.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use sandbox::Sandbox;

use super::super::measure::measure;
use super::super::recovery::client;

/// How long a screen is shown. It looks once a second.
const SECONDS: u64 = 30;
/// Sessions that wait for one lock.
const WAITERS: usize = 10;

/// What is shown, the keys for it, and whether sessions wait for a lock meanwhile.
const SHOWN: [(&str, &str, bool); 3] =
    [("overview", "1", false), ("statements", "6", false), ("blocked, ten sessions wait", "2", true)];

/// A row of a table: for each screen, ms of the server's processor in a second, without those of the same
/// second without a screen.
pub(super) fn row(remora: &Path, server: &Sandbox) -> Result<String> {
    let mut cells = Vec::new();
    for (_, keys, are_waiting) in SHOWN {
        let sessions = if are_waiting { Sessions::waiting(server.socket())? } else { Sessions::default() };
        let alone = measure(server.pid(), || {
            std::thread::sleep(Duration::from_secs(SECONDS));
            Ok(())
        })?;
        let watched = measure(server.pid(), || top(remora, server.socket(), keys))?;
        let in_a_second = watched.server_s / watched.wall_s - alone.server_s / alone.wall_s;
        cells.push(format!("{:.2}", in_a_second * 1000.0));
        drop(sessions);
    }
    Ok(cells.join(" | "))
}

/// The names of the columns of a row.
pub(super) fn columns() -> String {
    SHOWN.map(|(name, _, _)| name).join(" | ")
}

/// Shows the screen in a terminal of its own, and presses keys.
fn top(remora: &Path, socket: &Path, keys: &str) -> Result<()> {
    let line = format!(
        "stty rows 50 cols 200; exec {} top 1 {SECONDS} --no-defaults -u root unix://{}",
        remora.display(),
        socket.display()
    );
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("script, of the package bsdutils")?;
    // Its end would end the screen.
    let mut keyboard = terminal.stdin.take().context("no keyboard")?;
    keyboard.write_all(keys.as_bytes())?;
    keyboard.flush()?;
    let status = terminal.wait()?;
    anyhow::ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Sessions that wait for a row lock, and the one that holds it. They end with this.
#[derive(Default)]
struct Sessions(Vec<Child>);

impl Sessions {
    fn waiting(socket: &Path) -> Result<Sessions> {
        let client = |sql: &str| -> Result<Command> {
            let mut client = client(socket)?;
            client.args(["-e", sql]);
            Ok(client)
        };
        let table = "CREATE DATABASE IF NOT EXISTS bench; \
             CREATE TABLE IF NOT EXISTS bench.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; \
             REPLACE INTO bench.t VALUES (1, 1); SET GLOBAL innodb_lock_wait_timeout = 3600";
        crate::run(&mut client(table)?)?;
        let update = "UPDATE bench.t SET v = v + 1 WHERE id = 1";
        let mut sessions = Sessions::default();
        sessions.0.push(client(&format!("BEGIN; {update}; DO SLEEP(3600)"))?.spawn()?);
        std::thread::sleep(Duration::from_secs(1));
        for _ in 0..WAITERS {
            sessions.0.push(client(update)?.stderr(Stdio::null()).spawn()?);
        }
        std::thread::sleep(Duration::from_secs(1));
        Ok(sessions)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for session in &mut self.0 {
            // It may have ended by itself.
            session.kill().ok();
            session.wait().ok();
        }
    }
}
