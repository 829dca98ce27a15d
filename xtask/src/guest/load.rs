//! A client that writes to a server all the time.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

/// Tables of the three engines that matter.
const TABLES: [&str; 3] = ["innodb_rows", "myisam_rows", "aria_rows"];

/// The pause between two rows, because the guest has other work to do too.
const PAUSE: Duration = Duration::from_millis(20);

/// Inserts the same rows into a table of each engine, one after the other, until it is stopped.
pub(crate) struct Load {
    client: Child,
    writer: JoinHandle<()>,
    /// Dropped to end it.
    go_on: Sender<()>,
}

impl Load {
    /// Begins to write.
    pub(crate) fn start(port: u16) -> Result<Load> {
        let mut client = client(port).stdin(Stdio::piped()).spawn().context("mariadb")?;
        let mut input = client.stdin.take().context("no pipe")?;
        let (go_on, ended) = mpsc::channel::<()>();
        let writer = std::thread::spawn(move || {
            let mut id = 0;
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                id += 1;
                let text = format!("row {id} ").repeat(50);
                let lines = TABLES.map(|table| format!("INSERT INTO app.{table} VALUES ({id}, '{text}');\n"));
                // If this fails, the client at the other end is gone, which is reported in the end.
                if input.write_all(lines.concat().as_bytes()).is_err() {
                    return;
                }
            }
        });
        Ok(Load { client, writer, go_on })
    }

    /// Stops it; all rows are in the tables then.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.go_on);
        self.writer.join().map_err(|_| anyhow!("the writer ended early"))?;
        let status = self.client.wait()?;
        ensure!(status.success(), "the client that wrote rows: {status}");
        Ok(())
    }
}

/// Rows of the first table.
pub(crate) fn rows(port: u16) -> Result<u64> {
    let query = format!("SELECT COUNT(*) FROM app.{}", TABLES[0]);
    let told = client(port).args(["--batch", "--skip-column-names", "-e", &query]).output()?;
    Ok(String::from_utf8(told.stdout)?.trim().parse()?)
}

fn client(port: u16) -> Command {
    let mut client = Command::new("mariadb");
    client.env("MYSQL_PWD", "tester");
    client.args(["--no-defaults", "-h", "127.0.0.1", "-u", "tester", "-P", &port.to_string()]);
    client
}
