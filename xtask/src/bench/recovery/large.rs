//! How fast a small part of a large generation is restored: one table, or one row.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sandbox::{Installation, Sandbox, Settings};

use super::{query, remora, shown};
use crate::bench::measure::{as_f64, middle};
use crate::{places, run};

/// How often each way is measured.
const ROUNDS: usize = 3;
/// Rows of the table that is wanted, of about 230 bytes.
const ROWS: u32 = 200_000;
/// Rows of the other table that are added at a time, and what they take in its file.
const PART_ROWS: u64 = 65_536;
const PART_BYTES: u64 = PART_ROWS * 1100;
/// How long a mount may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A repository with a generation of a server with so much data.
pub(super) struct Large {
    remora: PathBuf,
    folder: tempfile::TempDir,
    installation: Installation,
}

impl Large {
    /// Fills a server, and copies it.
    pub(super) fn new(remora: PathBuf, installation: Installation, gib: u64) -> Result<Large> {
        let large = Large { remora, folder: tempfile::tempdir()?, installation };
        // Only the copy is wanted.
        let quick =
            ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=1G"];
        let options =
            quick.into_iter().chain(["--innodb-log-file-size=256M"]).map(ToOwned::to_owned).collect();
        let mut server =
            Sandbox::start(&large.installation, &places()?, &Settings { options, ..Settings::default() })?;
        let fill = |sql: &str| query(server.socket(), sql);
        fill("CREATE DATABASE bench")?;
        fill("CREATE TABLE bench.orders (id INT PRIMARY KEY, a VARCHAR(250), KEY (a(20)))")?;
        fill(&format!(
            "INSERT INTO bench.orders SELECT seq, CONCAT(MD5(seq), REPEAT(' order', 30)) FROM bench.seq_1_to_{ROWS}"
        ))?;
        fill("CREATE TABLE bench.other (id INT PRIMARY KEY AUTO_INCREMENT, a VARBINARY(1000))")?;
        for _ in 0..(gib << 30).div_ceil(PART_BYTES) {
            fill(&format!(
                "INSERT INTO bench.other (a) SELECT RANDOM_BYTES(1000) FROM bench.seq_1_to_{PART_ROWS}"
            ))?;
        }
        // As in a server that has run for a while: nothing is left to purge, most pages are in their files.
        fill("SET GLOBAL innodb_fast_shutdown = 0")?;
        server.stop()?;
        server.restart()?;
        let mut copy = large.remora(&["backup", "mysql:", "--way", "copy", "--name", "db", "--to", "repo"]);
        run(copy.args(["--no-defaults", "-u", "root", "-S"]).arg(server.socket()))?;
        println!("\n### A generation of {gib} GiB, {}\n", large.installation.version);
        Ok(large)
    }

    fn remora(&self, words: &[&str]) -> Command {
        remora(&self.remora, self.folder.path(), words)
    }

    /// Restores into a new folder. Returns the seconds, and the bytes that it says were fetched.
    fn restore(&self, more: &[&str]) -> Result<(f64, Option<u64>)> {
        let to = self.folder.path().join("back");
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        let began = Instant::now();
        let mut command = self.remora(&["restore", "repo/db", "--to", "back", "--json"]);
        let output = command.args(more).stderr(Stdio::inherit()).output()?;
        let seconds = began.elapsed().as_secs_f64();
        ensure!(output.status.success(), "remora restore failed");
        let said = String::from_utf8(output.stdout)?;
        let summary: serde_json::Value = serde_json::from_str(said.lines().next_back().unwrap_or_default())?;
        let fetched = summary["bytes_fetched"].as_u64();
        Ok((seconds, fetched))
    }

    /// One table beside all of them.
    pub(super) fn table(&self) -> Result<()> {
        let stored: u64 = fs::read_dir(self.folder.path().join("repo/db"))?
            .filter_map(|entry| entry.ok()?.metadata().ok())
            .map(|found| found.len())
            .sum();
        let (mut times, mut ratios, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            let (whole, _) = self.restore(&[])?;
            let (one, fetched) = self.restore(&["--tables", "bench.orders"])?;
            bytes = fetched.context("all of it was restored: this takes root and /dev/fuse")?;
            times.push([whole, one]);
            ratios.push(one / whole);
        }
        let of = |way: usize| middle(times.iter().map(|both| both[way]).collect()).unwrap_or(f64::NAN);
        let mb = |bytes: u64| as_f64(bytes) / 1e6;
        println!("| restored | wall s | MB fetched | wall / whole | bytes / whole |\n|---|--:|--:|--:|--:|");
        println!("| all of it | {:.2} | {:.1} | 1 | 1 |", of(0), mb(stored));
        println!(
            "| one table of {ROWS} rows, as a dump | {:.2} | {:.1} | {:.4} | {:.4} |",
            of(1),
            mb(bytes),
            middle(ratios.clone()).unwrap_or(f64::NAN),
            mb(bytes) / mb(stored)
        );
        println!("\nall rounds: {}\n", shown(&ratios));
        Ok(())
    }

    /// From the command to the first row.
    pub(super) fn mount(&self) -> Result<()> {
        let folder = self.folder.path().join("mounted");
        fs::create_dir(&folder)?;
        let (mut mounted, mut rows) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let mount =
                self.remora(&["mount", "repo/db", "mounted", "--writable"]).stdout(Stdio::null()).spawn()?;
            let mount = Mounted(mount);
            let data = folder.join("db/1");
            wait(&data, began)?;
            mounted.push(began.elapsed().as_secs_f64());
            let options =
                ["--skip-grant-tables", "--innodb-log-file-size=256M"].map(ToOwned::to_owned).to_vec();
            let settings = Settings { data: Some(data), options, ..Settings::default() };
            let server = Sandbox::start(&self.installation, &places()?, &settings)?;
            let row = query(server.socket(), "SELECT id FROM bench.other WHERE id = 4711")?;
            rows.push(began.elapsed().as_secs_f64());
            ensure!(row.trim() == "4711", "another row: {row}");
            drop(server);
            mount.end()?;
        }
        println!("| from `remora mount` to | s, all rounds |\n|---|---|");
        println!("| its folders | {}|", shown(&mounted));
        println!("| a row that a server on it has read | {}|\n", shown(&rows));
        Ok(())
    }
}

/// Waits until a generation is there.
fn wait(data: &Path, began: Instant) -> Result<()> {
    while !data.join("ibdata1").exists() {
        if began.elapsed() > PATIENCE {
            bail!("nothing was mounted: this takes root and /dev/fuse");
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// A mount, which ends with this.
struct Mounted(Child);

impl Mounted {
    fn end(mut self) -> Result<()> {
        ensure!(Command::new("kill").arg(self.0.id().to_string()).status()?.success(), "the mount has ended");
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
