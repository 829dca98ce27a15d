//! Clients of a server that is backed up: writers, and one that changes definitions. They say how long they
//! waited.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench::measure::as_f64;

/// Writers, and the rows that each of them updates.
const WRITERS: u64 = 4;
const ROWS_EACH: u64 = 25_000;
/// A pause between two definitions.
const PAUSE: Duration = Duration::from_millis(50);
/// How long what began within a window may last beyond its end.
const GRACE: Duration = Duration::from_millis(500);

/// The tables of the writers. Each of their transactions adds one to a row of `w`, and one row to `h`.
pub(super) fn tables() -> String {
    format!(
        "CREATE TABLE bench.w (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(200) NOT NULL);
         INSERT INTO bench.w SELECT seq, 0, REPEAT(MD5(seq), 6) FROM bench.seq_0_to_{};
         CREATE TABLE bench.h (id BIGINT AUTO_INCREMENT PRIMARY KEY, w INT NOT NULL, pad VARCHAR(100) NOT NULL)",
        WRITERS * ROWS_EACH - 1
    )
}

/// 1 if each transaction of the writers is there whole or not at all.
pub(super) const IS_WHOLE: &str = "SELECT (SELECT SUM(n) FROM bench.w) = (SELECT COUNT(*) FROM bench.h)";

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Commit,
    Definition,
}

/// When it began and ended.
struct Event {
    kind: Kind,
    began: Instant,
    ended: Instant,
}

/// What the clients saw in a window of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) commits_per_s: f64,
    pub(super) longest_commit_s: f64,
    pub(super) longest_ddl_s: f64,
}

/// Clients at work.
#[derive(Default)]
pub(super) struct Load {
    over: AtomicBool,
    events: Mutex<Vec<Event>>,
}

/// Does something while the clients work.
pub(super) fn under<T>(socket: &Path, act: impl FnOnce(&Load) -> Result<T>) -> Result<T> {
    let load = Load::default();
    std::thread::scope(|scope| {
        let load = &load;
        let mut clients: Vec<_> =
            (0..WRITERS).map(|number| scope.spawn(move || load.write(socket, number))).collect();
        clients.push(scope.spawn(move || load.define(socket)));
        let done = act(load);
        load.over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        done
    })
}

impl Load {
    /// What the clients see while they are alone with the server.
    pub(super) fn alone(&self, time: Duration) -> Result<Seen> {
        let began = Instant::now();
        std::thread::sleep(time);
        self.seen(began, Instant::now())
    }

    /// What the clients saw between two points in time. What began there counts, however long it lasted.
    pub(super) fn seen(&self, from: Instant, to: Instant) -> Result<Seen> {
        std::thread::sleep(GRACE);
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |kind| events.iter().filter(move |event| event.kind == kind);
        let longest = |kind| {
            let within = of(kind).filter(|event| event.began < to && event.ended > from);
            within.map(|event| (event.ended - event.began).as_secs_f64()).fold(0.0, f64::max)
        };
        let count = of(Kind::Commit).filter(|event| event.ended > from && event.ended <= to).count() as u64;
        if events.last().is_none_or(|event| event.ended < to) {
            bail!("the writers are gone");
        }
        Ok(Seen {
            commits_per_s: as_f64(count) / (to - from).as_secs_f64(),
            longest_commit_s: longest(Kind::Commit),
            longest_ddl_s: longest(Kind::Definition),
        })
    }

    /// Runs statements and notes how long they took.
    fn timed(&self, kind: Kind, client: &mut Client, sql: &str) -> Result<()> {
        let began = Instant::now();
        client.run(sql)?;
        let event = Event { kind, began, ended: Instant::now() };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        Ok(())
    }

    /// Updates a row of its own and adds one, until it is over.
    fn write(&self, socket: &Path, number: u64) -> Result<()> {
        let mut client = Client::start(socket)?;
        let mut at = 0;
        while !self.over.load(Ordering::Relaxed) {
            // A prime: rows that are written one after the other are far apart.
            at = (at + 7919) % ROWS_EACH;
            let id = number * ROWS_EACH + at;
            client.run(&format!(
                "BEGIN; UPDATE bench.w SET n = n + 1 WHERE id = {id}; INSERT INTO bench.h (w, pad) VALUES ({id}, REPEAT('{id} ', 14));"
            ))?;
            self.timed(Kind::Commit, &mut client, "COMMIT;")?;
        }
        client.end()
    }

    /// Creates, alters and drops small tables, until it is over.
    fn define(&self, socket: &Path) -> Result<()> {
        let mut client = Client::start(socket)?;
        while !self.over.load(Ordering::Relaxed) {
            for sql in [
                "CREATE OR REPLACE TABLE bench.d (id INT PRIMARY KEY, pad VARCHAR(100));",
                "ALTER TABLE bench.d ADD KEY (pad);",
                "ALTER TABLE bench.d ADD COLUMN more INT, ALGORITHM=COPY;",
                "DROP TABLE bench.d;",
            ] {
                self.timed(Kind::Definition, &mut client, sql)?;
                std::thread::sleep(PAUSE);
            }
        }
        client.end()
    }
}

/// A session that runs statements as they are sent.
struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(socket: &Path) -> Result<Client> {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-uroot", "--batch", "--skip-column-names", "--unbuffered", "-S"]);
        command.arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        Ok(Client { process, input, output })
    }

    /// Returns when the server has done these statements, which give no rows.
    fn run(&mut self, sql: &str) -> Result<()> {
        self.input.write_all(format!("{sql} SELECT 'done';\n").as_bytes())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line != "done\n" {
            bail!("{sql}: the client has ended, and says why above");
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        drop(self.input);
        self.process.wait()?;
        Ok(())
    }
}
