//! Where it happens: a server with the table, its files, a store, and the peers.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Product, Sandbox, Settings};
use store_sandbox::{ACCESS_KEY, Kind, SECRET_KEY, Store};
use tempfile::TempDir;

use super::method::{Group, Method};
use crate::bench::import::{TABLE, done};
use crate::bench::measure::{as_f64, measure, timed};
use crate::bench::pack::nodes;
use crate::{places, setup, target};

const OPTIONS: [&str; 4] = [
    "--innodb-buffer-pool-size=4G",
    "--innodb-log-file-size=2G",
    "--default-time-zone=+00:00",
    "--skip-log-bin",
];

/// What the peers are, and how they are asked.
const PEERS: &str = include_str!("peers.py");
const PACKAGES: [&str; 5] =
    ["pyarrow", "duckdb==1.5.5", "duckdb-extension-mysql-scanner==1.5.5", "connectorx", "pyspark==3.5.*"];
const DRIVER: &str = "org.mariadb.jdbc:mariadb-java-client:3.5.11";

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) wall_s: f64,
    pub(super) server_s: f64,
    pub(super) client_s: f64,
    pub(super) memory_mb: f64,
    /// Of what it wrote onto the disk.
    pub(super) bytes: Option<u64>,
}

impl Taken {
    /// Of the server and the client.
    pub(super) fn processor_s(&self) -> f64 {
        self.server_s + self.client_s
    }
}

pub(super) struct Stand {
    remora: PathBuf,
    pub(super) rows: u64,
    text_bytes: u64,
    store: Store,
    server: Sandbox,
    /// Packages of the peers, kept for the next time.
    peers: PathBuf,
    number: Cell<u32>,
    /// The last to be dropped.
    folder: TempDir,
}

impl Stand {
    pub(super) fn start(remora: &Path, rows: u64) -> Result<Stand> {
        let places = places()?;
        setup::bring_store(&places.cache)?;
        let peers = target().join("bench-columns");
        bring(&peers)?;
        let folder = tempfile::Builder::new().prefix("remora-columns-").tempdir_in("/var/tmp")?;
        let settings = Settings {
            folder: Some(folder.path().join("server")),
            options: OPTIONS.map(str::to_owned).to_vec(),
            port: Some(0),
            ..Settings::default()
        };
        let server = Sandbox::start(&sandbox::find(&places, Product::MariaDb1011)?, &places, &settings)?;
        let store = Store::start(Kind::SeaweedFs, &places.cache, &folder.path().join("store"))?;
        let remora = std::path::absolute(remora)?;
        let mut stand =
            Stand { remora, rows, text_bytes: 0, store, server, peers, number: Cell::new(0), folder };
        stand.fill()?;
        Ok(stand)
    }

    /// Makes the table, its files, and its rows as text and as Parquet.
    fn fill(&mut self) -> Result<()> {
        let text = self.path("nodes.tsv");
        nodes::write(&text, self.rows)?;
        self.text_bytes = std::fs::metadata(&text)?.len();
        self.sql(&format!(
            "CREATE DATABASE bench; {TABLE}; LOAD DATA INFILE '{}' INTO TABLE bench.nodes CHARACTER SET binary;
             CREATE USER peer@'%'; GRANT ALL ON *.* TO peer@'%'; SET GLOBAL innodb_max_purge_lag_wait = 0;
             SELECT COUNT(*) FROM bench.nodes",
            text.display()
        ))?;
        std::fs::create_dir_all(self.path("files/bench"))?;
        let copy = format!("cp '{}'/bench/nodes.* files/bench/", self.server.data().display());
        self.sql(&format!("FLUSH TABLES bench.nodes FOR EXPORT;\n\\! {copy}\nUNLOCK TABLES"))?;
        self.shell("$REMORA dump -q $LOGIN bench.nodes -o dump --format parquet && mkdir out")
    }

    pub(super) fn text_mb(&self) -> f64 {
        as_f64(self.text_bytes) / 1e6
    }

    /// So many bytes as percent of the text.
    pub(super) fn percent(&self, bytes: u64) -> f64 {
        as_f64(bytes) * 100.0 / as_f64(self.text_bytes)
    }

    /// What is measured, and with which versions.
    pub(super) fn describe(&self) -> Result<String> {
        let output = self.command("bash")?.args(["-c", "$PEER versions"]).output()?;
        Ok(format!(
            "\n{}, {} rows, {} bytes of text; {}, {DRIVER}",
            self.sql("SELECT VERSION()")?.trim(),
            self.rows,
            self.text_bytes,
            String::from_utf8_lossy(&output.stdout).trim(),
        ))
    }

    /// Runs a method once.
    pub(super) fn run(&self, method: &Method) -> Result<Taken> {
        self.shell("rm -rf out && mkdir out")?;
        if method.group == Group::In {
            self.sql("DROP TABLE IF EXISTS bench.copy; CREATE TABLE bench.copy LIKE bench.nodes")?;
        }
        self.sql("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
        done(Command::new("sync").arg("-f").arg(self.folder.path()))?;
        self.number.set(self.number.get() + 1);
        let report = self.path("time");
        let mut found = None;
        let cost = measure(self.server.pid(), || {
            found = Some(timed(self.command("/usr/bin/time")?, method.line, &report)?);
            Ok(())
        })?;
        let timed = found.context("not measured")?;
        let bytes = if method.group == Group::Out || method.group == Group::Peer {
            let names = method.files.unwrap_or("out/dump/bench.nodes/*");
            let sum = self.answer(&format!("cat {names} | wc -c"))?;
            Some(sum.trim().parse()?)
        } else {
            None
        };
        Ok(Taken {
            wall_s: timed.wall_s,
            server_s: cost.server_s,
            client_s: timed.processor_s,
            memory_mb: timed.memory_mb,
            bytes,
        })
    }

    /// Compares what a method has made with the table. Returns what others must know of it.
    pub(super) fn compare(&self, method: &Method) -> Result<String> {
        if method.group == Group::In {
            let sums = self.sql("CHECKSUM TABLE bench.nodes, bench.copy")?;
            let sums: Vec<&str> = sums.lines().filter_map(|line| line.split('\t').nth(1)).collect();
            let [first, second] = sums[..] else { bail!("{}: no sums", method.name) };
            if first != second {
                bail!("{}: other rows than the table", method.name);
            }
            return Ok(String::new());
        }
        let Some(files) = method.files else {
            let place = if method.group == Group::Store { "s3://bucket/dump-$NUMBER" } else { "out/dump" };
            self.shell(&format!("$REMORA dump -q --check {place}"))?;
            return Ok(String::new());
        };
        let note = self.answer(&format!("$PEER compare $TEXT '{files}'"))?;
        if method.group.is_ours() && !note.trim().is_empty() {
            bail!("{}: {note}", method.name);
        }
        Ok(note.trim().to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sql(&self, statements: &str) -> Result<String> {
        let mut client = self.command("mariadb")?;
        client.args(["--no-defaults", "-uroot", "--batch", "--skip-column-names", "-S"]);
        // As lines: the client knows commands of its own there.
        let stdin = tempfile::tempfile()?;
        std::io::Write::write_all(&mut &stdin, statements.as_bytes())?;
        std::io::Seek::rewind(&mut &stdin)?;
        output(client.arg(self.server.socket()).stdin(stdin), statements)
    }

    fn shell(&self, line: &str) -> Result<()> {
        self.answer(line).map(drop)
    }

    fn answer(&self, line: &str) -> Result<String> {
        output(self.command("bash")?.args(["-o", "pipefail", "-c", line]), line)
    }

    /// A program in the folder, with what the shell lines use.
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(program);
        let port = self.server.port().context("the server has no port")?;
        let socket = self.server.socket().display();
        let python = self.peers.join("peers/bin/python");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("REMORA", &self.remora).env("LOGIN", format!("--no-defaults -uroot -S {socket}"));
        command.env("SOCKET", self.server.socket()).env("PORT", port.to_string());
        command.env("FILES", "files/bench").env("SCHEMA", "dump/schema/1-tables.sql");
        command.env("TEXT", "nodes.tsv").env("PARQUET", "dump/bench.nodes");
        command.env("PEER", format!("{} {}", python.display(), self.peers.join("peers.py").display()));
        command.env("DRIVER", self.peers.join("driver.jar")).env("NUMBER", self.number.get().to_string());
        command.env("AWS_ENDPOINT_URL", self.store.endpoint()).env("TZ", "UTC");
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        Ok(command)
    }
}

fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The peers, in a Python environment that is created once, and a driver for Java.
fn bring(folder: &Path) -> Result<()> {
    let (environment, complete) = (folder.join("peers"), folder.join("complete"));
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("peers.py"), PEERS)?;
    if complete.is_file() {
        return Ok(());
    }
    println!("pip downloads 600 MB and mvn 1 MB, unless they have them");
    done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    done(
        Command::new(environment.join("bin/python")).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES),
    )?;
    let mut copy = Command::new("mvn");
    copy.args(["-q", "-B", "-Dstyle.color=never", "dependency:copy", "-Dmdep.stripVersion=true"]);
    done(copy.arg(format!("-Dartifact={DRIVER}")).arg(format!("-DoutputDirectory={}", folder.display())))?;
    std::fs::rename(folder.join("mariadb-java-client.jar"), folder.join("driver.jar"))?;
    Ok(std::fs::write(complete, "")?)
}
