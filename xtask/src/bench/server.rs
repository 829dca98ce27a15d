//! Copies of a server that runs, on any file system: `remora backup mysql: --way copy` beside mariadb-backup,
//! while the server is idle and while clients work.

mod load;
mod report;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandbox::{Installation, Product, Sandbox, Settings};
use tempfile::TempDir;

use self::load::{Load, Seen};
use super::measure::{Timed, measure, timed};
use crate::{places, release, setup};

const ROWS: u64 = 2_000_000;
const ROUNDS: usize = 3;
/// How long the clients are alone with the server before each copy.
const ALONE: Duration = Duration::from_secs(5);
/// One row of so many is changed before an increment: one in each hundredth page, with 71 rows in a page.
const CHANGED_STEP: u64 = 7_100;

/// Programs of the comparison and their packages.
const PEERS: [(&str, &str); 4] = [
    ("/usr/bin/time", "time"),
    ("mariadb-backup", "mariadb-backup"),
    ("mbstream", "mariadb-backup"),
    ("zstd", "zstd"),
];

/// The server, and the servers that are started on copies. What recovers a copy gets the same memory.
const OPTIONS: [&str; 5] = [
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M",
    "--innodb-flush-method=O_DIRECT",
    "--innodb-flush-log-at-trx-commit=1",
    "--skip-log-bin",
];

/// A way to copy the server: a shell line for each step, in its own folder.
struct Method {
    name: &'static str,
    full: &'static str,
    increment: &'static str,
    /// Brings the full copy, and then that with the increment, to where a server works on them.
    recover: [&'static str; 2],
    /// Makes the folder `checked` of either, for a server.
    check: [&'static str; 2],
}

static METHODS: [Method; 3] = [
    Method {
        name: "remora backup --way copy",
        full: "$REMORA backup -q mysql:$SOCKET $LOGIN --to repo --name db --way copy",
        increment: "$REMORA backup -q mysql:$SOCKET $LOGIN --to repo --name db --way copy $TRACK",
        recover: [
            "$REMORA verify --json repo/db@1 --boot --work . --server-option=--innodb-buffer-pool-size=1G",
            "$REMORA verify --json repo/db@2 --boot --work . --server-option=--innodb-buffer-pool-size=1G",
        ],
        check: ["$REMORA restore -q repo/db@1 --to checked", "$REMORA restore -q repo/db@2 --to checked"],
    },
    Method {
        name: "mariadb-backup",
        full: "mariadb-backup $LOGIN -S $SOCKET --backup --target-dir=full",
        increment: "mariadb-backup $LOGIN -S $SOCKET --backup --target-dir=more --incremental-basedir=full",
        recover: [
            "mariadb-backup --prepare --use-memory=1G --target-dir=full",
            "mariadb-backup --prepare --use-memory=1G --target-dir=full --incremental-dir=more",
        ],
        check: ["cp -a full checked", "cp -a full checked"],
    },
    Method {
        name: "mariadb-backup \\| zstd -1",
        full: "mariadb-backup $LOGIN -S $SOCKET --backup --stream=xbstream --extra-lsndir=lsn | zstd -1 -q > full.zst",
        increment: "mariadb-backup $LOGIN -S $SOCKET --backup --stream=xbstream --incremental-basedir=lsn | zstd -1 -q > more.zst",
        recover: [
            "mkdir full && zstd -dcq full.zst | mbstream -x -C full && mariadb-backup --prepare --use-memory=1G --target-dir=full",
            "mkdir more && zstd -dcq more.zst | mbstream -x -C more && \
             mariadb-backup --prepare --use-memory=1G --target-dir=full --incremental-dir=more",
        ],
        check: ["cp -a full checked", "cp -a full checked"],
    },
];

/// A step of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Full,
    Increment,
    RecoverFull,
    RecoverIncrement,
}

impl Step {
    const ALL: [Step; 4] = [Step::Full, Step::Increment, Step::RecoverFull, Step::RecoverIncrement];
}

/// What a step cost.
#[derive(Clone, Debug)]
struct Taken {
    timed: Timed,
    wall_s: f64,
    server_s: f64,
    /// How long the file system then took until everything was on the disk.
    sync_s: f64,
    /// By how much the folder grew on the disk.
    bytes: u64,
    /// What the clients saw before and meanwhile.
    seen: Option<[Seen; 2]>,
}

/// Whether clients work meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Load,
}

/// The rounds of a method in a state: the cost of each step, in the order of [`Step::ALL`].
struct Row {
    state: State,
    method: &'static Method,
    rounds: Vec<[Taken; 4]>,
}

pub(super) fn run(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    setup::install(&PEERS)?;
    let rows =
        super::value(arguments, "--rows").map_or(Ok(ROWS), str::parse).context("--rows takes a number")?;
    let rounds = super::value(arguments, "--rounds")
        .map_or(Ok(ROUNDS), str::parse)
        .context("--rounds takes a number")?;
    let only = super::value(arguments, "--only").unwrap_or_default();
    let wanted = |row: &Row| {
        let name = format!("{:?} {}", row.state, row.method.name).to_lowercase();
        only.split(',').all(|word| name.contains(&word.to_lowercase()))
    };
    let each = |state| METHODS.iter().map(move |method| Row { state, method, rounds: Vec::new() });
    let mut table: Vec<Row> = [State::Idle, State::Load].into_iter().flat_map(each).collect();
    table.retain(wanted);
    if table.is_empty() {
        bail!("no method has all of the words of --only");
    }
    let track = if arguments.iter().any(|argument| argument == "--track") { "--track" } else { "" };
    let bench = Bench::start(rows, track)?;
    println!("{}", bench.describe()?);
    for _ in 0..rounds {
        for row in &mut table {
            row.rounds.push(bench.round(row.state, row.method)?);
        }
        // Each round begins with another one: what a run leaves to the server slows the next one.
        table.rotate_left(1);
    }
    table.sort_by_key(|row| {
        (row.state != State::Idle, METHODS.iter().position(|one| one.name == row.method.name))
    });
    report::print(&table);
    Ok(())
}

struct Bench {
    remora: PathBuf,
    installation: Installation,
    folder: TempDir,
    server: Sandbox,
    rows: u64,
    /// An option of the increments of remora.
    track: &'static str,
}

impl Bench {
    fn start(rows: u64, track: &'static str) -> Result<Bench> {
        let remora = release()?;
        let folder = tempfile::Builder::new().prefix("remora-bench-").tempdir()?;
        let installation = sandbox::find(&places()?, Product::MariaDb1011)?;
        let settings = Settings {
            folder: Some(folder.path().join("server")),
            options: OPTIONS.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let server = Sandbox::start(&installation, &places()?, &settings)?;
        let bench = Bench { remora, installation, folder, server, rows, track };
        bench.query(&fill(rows))?;
        bench.query(&load::tables())?;
        bench.query("SET GLOBAL innodb_max_purge_lag_wait = 0; SET GLOBAL innodb_log_checkpoint_now = 1")?;
        Ok(bench)
    }

    /// What is measured, and with which versions.
    fn describe(&self) -> Result<String> {
        let version = |line: &str| -> Result<String> {
            let output = self.command("bash", self.folder.path()).args(["-c", line]).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        Ok(format!(
            "\n{} {}, {} rows, {:.0} MB in its data folder, on {}; {}; {}; {}\n",
            self.server.product(),
            self.installation.version,
            self.rows,
            report::megabytes(allocated(self.server.data())?),
            version("findmnt -no FSTYPE -T .")?,
            version("$REMORA --version")?,
            version("mariadb-backup --version 2>&1 | sed 's/.*based on/mariadb-backup of/'")?,
            version("zstd --version | grep -o 'v[0-9.]*' | sed 's/^/zstd /'")?,
        ))
    }

    /// Runs all steps of a method, and proves that what it made is right.
    fn round(&self, state: State, method: &Method) -> Result<[Taken; 4]> {
        let place = tempfile::tempdir_in(self.folder.path())?;
        let mut wanted = Vec::new();
        let mut copies = |load: Option<&Load>| -> Result<[Taken; 2]> {
            wanted.push(self.sums(self.server.socket())?);
            let full = self.taken(&place, method.full, load)?;
            self.change()?;
            wanted.push(self.sums(self.server.socket())?);
            Ok([full, self.taken(&place, method.increment, load)?])
        };
        let [full, increment] = match state {
            State::Idle => copies(None)?,
            State::Load => load::under(self.server.socket(), |load| copies(Some(load)))?,
        };
        let mut recovered = Vec::new();
        for ((recover, check), wanted) in method.recover.iter().zip(method.check).zip(&wanted) {
            recovered.push(self.taken(&place, recover, None)?);
            self.check(&place, check, wanted).with_context(|| format!("{}: after {recover}", method.name))?;
        }
        let [recover_full, recover_increment] =
            <[Taken; 2]>::try_from(recovered).ok().context("two steps")?;
        println!(
            "{}, {state:?}: full {:.2} s, increment {:.2} s, recovered in {:.2} s and {:.2} s",
            method.name, full.wall_s, increment.wall_s, recover_full.wall_s, recover_increment.wall_s
        );
        Ok([full, increment, recover_full, recover_increment])
    }

    fn taken(&self, place: &TempDir, line: &str, load: Option<&Load>) -> Result<Taken> {
        let folder = place.path();
        sync(folder)?;
        let alone = load.map(|load| load.alone(ALONE)).transpose()?;
        let (before, report) = (allocated(folder)?, self.folder.path().join("time"));
        let began = Instant::now();
        let mut found = None;
        let cost = measure(self.server.pid(), || {
            found = Some(timed(self.command("/usr/bin/time", folder), line, &report)?);
            Ok(())
        })?;
        let ended = Instant::now();
        sync(folder)?;
        let sync_s = ended.elapsed().as_secs_f64();
        let meanwhile = load.map(|load| load.seen(began, ended)).transpose()?;
        Ok(Taken {
            timed: found.context("not measured")?,
            wall_s: cost.wall_s,
            server_s: cost.server_s,
            sync_s,
            bytes: allocated(folder)?.saturating_sub(before),
            seen: alone.zip(meanwhile).map(<[Seen; 2]>::from),
        })
    }

    /// Changes a row in one page of a hundred, and has the server write these pages.
    fn change(&self) -> Result<()> {
        self.query(&format!(
            "UPDATE bench.t JOIN bench.seq_1_to_{}_step_{CHANGED_STEP} ON id = seq SET a = a + 1;
             SET GLOBAL innodb_log_checkpoint_now = 1",
            self.rows
        ))
        .map(drop)
    }

    /// The rows of the large table by the primary key and by the other one, and a sum that each change adds
    /// to.
    fn sums(&self, socket: &Path) -> Result<String> {
        self.ask(
            socket,
            "SELECT COUNT(*), SUM(a) FROM bench.t FORCE INDEX (PRIMARY); SELECT COUNT(*), SUM(k) FROM bench.t FORCE INDEX (k)",
        )
    }

    /// Starts a server on a copy, which must have all rows, and whole transactions only.
    fn check(&self, place: &TempDir, line: &str, wanted: &str) -> Result<()> {
        timed(self.command("/usr/bin/time", place.path()), line, &place.path().join("time"))?;
        let data = place.path().join("checked");
        let options = OPTIONS.map(str::to_owned).to_vec();
        let settings = Settings { data: Some(data.clone()), options, ..Settings::default() };
        let server = Sandbox::start(&self.installation, &places()?, &settings)?;
        let found = self.sums(server.socket())?;
        if found != wanted {
            bail!("a copy has {found:?} instead of {wanted:?}");
        }
        if self.ask(server.socket(), load::IS_WHOLE)?.trim() == "0" {
            bail!("a copy has a part of a transaction");
        }
        drop(server);
        std::fs::remove_dir_all(&data)?;
        Ok(())
    }

    fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env("REMORA", &self.remora).env("SOCKET", self.server.socket());
        command.env("LOGIN", "--no-defaults -uroot").env("TRACK", self.track).stdin(Stdio::null());
        command
    }

    fn query(&self, sql: &str) -> Result<String> {
        self.ask(self.server.socket(), sql)
    }

    fn ask(&self, socket: &Path, sql: &str) -> Result<String> {
        let mut client = self.command("mariadb", self.folder.path());
        client.args(["--no-defaults", "-uroot", "--batch", "--skip-column-names", "-S"]).arg(socket);
        let output = client.args(["-e", sql]).output()?;
        if !output.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The large table: numbers, names and sentences of words, and a hash, which nothing compresses.
fn fill(rows: u64) -> String {
    let words = "'the','order','of','customer','was','sent','to','street','number','invoice','paid','open','north',\
                 'garden','blue','large','small','return','within','days','please','call','before','delivery','left',\
                 'at','door','market','window','summer','silver','paper'";
    let word = |nth: u32| format!("ELT(1 + (CRC32(seq * {nth} + {nth}) >> 8) % 32, {words})");
    let sentence = (3..17).map(word).collect::<Vec<_>>().join(", ");
    format!(
        "CREATE DATABASE bench; USE bench;
         CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, k INT NOT NULL, made DATETIME NOT NULL,
                         name VARCHAR(40) NOT NULL, text VARCHAR(200) NOT NULL, hash CHAR(32) CHARACTER SET ascii NOT NULL,
                         KEY k (k));
         INSERT INTO t SELECT seq, seq % 1000, CRC32(seq) % 1000000, '2026-01-01' + INTERVAL seq SECOND,
                CONCAT({}, ' ', seq), CONCAT_WS(' ', {sentence}), MD5(seq) FROM seq_1_to_{rows}",
        word(2)
    )
}

/// The bytes that the files below a folder take on the disk.
fn allocated(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            // The server drops tables meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                sum += metadata.blocks() * 512;
            }
        }
    }
    Ok(sum)
}

/// Waits until the file system of a folder has written everything.
fn sync(folder: &Path) -> Result<()> {
    let status = Command::new("sync").arg("-f").arg(folder).status()?;
    if !status.success() {
        bail!("sync: {status}");
    }
    Ok(())
}
