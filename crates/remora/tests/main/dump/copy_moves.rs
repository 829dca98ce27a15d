//! A database is moved from server to server and back, while an application writes, and the servers, remora
//! and the network fail at any point. What was acknowledged to the application is there, once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandbox::Sandbox;
use server::{Environment, Overrides, Session, Target};

use super::Pair;
use super::copy_follow::{LOG, Random, execute, make, next};
use crate::support::{connect, of_today, on_products, part_of_today, products, remora, tell, until};

/// Attempts to move with failures; none fails from then on.
const FAILING: usize = 4;
/// The most attempts: the last ones have only to take back what was begun.
const TRIES: usize = 12;
/// Nothing takes that long.
const LIMIT: Duration = Duration::from_secs(120);

/// Stands between remora and a server. Connections through it are slow, end at any byte, or can't be made.
struct Network {
    path: PathBuf,
    line: Arc<Line>,
}

#[derive(Default)]
struct Line {
    /// So many bytes pass before all connections end; none end if it is 0 or less.
    until_cut: AtomicI64,
    /// Counts the cuts. A connection that is older than one ends.
    cuts: AtomicU64,
    delay_ms: AtomicU64,
    is_down: AtomicBool,
    is_over: AtomicBool,
}

impl Line {
    fn cut(&self) {
        self.until_cut.store(0, Ordering::SeqCst);
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }

    fn heal(&self) {
        self.is_down.store(false, Ordering::SeqCst);
        self.delay_ms.store(0, Ordering::SeqCst);
        self.until_cut.store(0, Ordering::SeqCst);
    }

    /// Passes on what one side says to the other.
    fn pass(&self, mut from: UnixStream, mut to: UnixStream) {
        let age = self.cuts.load(Ordering::SeqCst);
        let mut buffer = [0; 4096];
        from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while !self.is_over.load(Ordering::SeqCst) && self.cuts.load(Ordering::SeqCst) == age {
            let mut count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => break,
            };
            std::thread::sleep(Duration::from_millis(self.delay_ms.load(Ordering::SeqCst)));
            let size = i64::try_from(count).unwrap();
            let left = self.until_cut.load(Ordering::SeqCst);
            let is_last = left > 0 && self.until_cut.fetch_sub(size, Ordering::SeqCst) <= size;
            if is_last {
                count = usize::try_from(left.min(size)).unwrap();
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            if is_last {
                self.cut();
            }
        }
        for side in [from, to] {
            side.shutdown(std::net::Shutdown::Both).ok();
        }
    }
}

impl Network {
    fn new(path: PathBuf, server: &Path) -> Network {
        let listener = UnixListener::bind(&path).unwrap();
        let (line, server) = (Arc::new(Line::default()), server.to_owned());
        let own = Arc::clone(&line);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if own.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(client) = client else { continue };
                if own.is_down.load(Ordering::SeqCst) {
                    continue;
                }
                // The server may be away.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let own = Arc::clone(&own);
                    std::thread::spawn(move || own.pass(from, to));
                }
            }
        });
        Network { path, line }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.line.is_over.store(true, Ordering::SeqCst);
        // The listener waits for somebody.
        UnixStream::connect(&self.path).ok();
    }
}

/// What the application has written.
#[derive(Default)]
struct Written {
    /// Their COMMIT was answered.
    acknowledged: BTreeSet<u64>,
    /// Nobody knows.
    unknown: BTreeSet<u64>,
}

/// The application: it writes to the server to which it was led, with an account that can't write to a
/// read-only one.
struct Application {
    sockets: [PathBuf; 2],
    /// Which of them.
    active: AtomicUsize,
    next: AtomicU64,
    written: Mutex<Written>,
    is_over: AtomicBool,
}

impl Application {
    fn session(&self) -> Option<Session> {
        let socket = self.sockets[self.active.load(Ordering::SeqCst)].clone();
        let overrides = Overrides {
            socket: Some(socket),
            user: Some("app".to_owned()),
            no_defaults: true,
            ..Overrides::default()
        };
        Target::resolve(&overrides, &Environment::default()).unwrap().connect().ok()
    }

    /// Writes rows, one with each transaction, until it is over.
    fn write(&self) {
        let mut session = None;
        let mut of = usize::MAX;
        while !self.is_over.load(Ordering::SeqCst) {
            let active = self.active.load(Ordering::SeqCst);
            if of != active {
                (session, of) = (None, active);
            }
            let Some(open) = session.get_or_insert_with(|| self.session()) else {
                session = None;
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let id = self.next.fetch_add(1, Ordering::SeqCst);
            let done = [
                "START TRANSACTION".to_owned(),
                format!("INSERT INTO d.entry VALUES ({id})"),
                format!("UPDATE d.total SET n = n + 1 WHERE id = {}", id % 3),
            ]
            .iter()
            .try_for_each(|sql| open.execute(sql).map(drop));
            if done.is_ok() {
                let mut written = self.written.lock().unwrap();
                written.unknown.insert(id);
                drop(written);
                if open.execute("COMMIT").is_ok() {
                    let mut written = self.written.lock().unwrap();
                    written.unknown.remove(&id);
                    written.acknowledged.insert(id);
                    drop(written);
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
            }
            session = None;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All that was acknowledged is there once, and nothing that was not written.
    #[track_caller]
    fn assert_there(&self, session: &mut Session) -> usize {
        let written = self.written.lock().unwrap();
        let rows = session.strings("SELECT id FROM d.entry").unwrap();
        let there: BTreeSet<u64> =
            rows.into_iter().flatten().flatten().map(|id| id.parse().unwrap()).collect();
        let missing: Vec<_> = written.acknowledged.difference(&there).collect();
        let strange: Vec<_> =
            there.difference(&written.acknowledged).filter(|id| !written.unknown.contains(id)).collect();
        assert!(missing.is_empty() && strange.is_empty(), "missing: {missing:?}, strange: {strange:?}");
        let sum = session.value("SELECT CAST(SUM(n) AS CHAR) FROM d.total").unwrap().unwrap();
        assert_eq!(sum, there.len().to_string(), "a transaction was applied in part, or twice");
        there.len()
    }
}

/// What fails.
#[derive(Debug)]
enum Failure {
    Server(usize),
    Remora,
    Cut(usize, i64),
    Down(usize),
    Slow(usize),
}

/// Two servers, and what is between them and remora.
struct World {
    pair: Pair,
    networks: [Network; 2],
    application: Arc<Application>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.application.is_over.store(true, Ordering::SeqCst);
    }
}

/// A run of remora whose messages go into a file.
struct Run {
    child: Child,
    messages: PathBuf,
}

impl Run {
    fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. Returns its exit code, 137 if it was killed, and what it said.
    fn end(mut self) -> (i32, String) {
        let began = Instant::now();
        while !self.is_over() {
            assert!(began.elapsed() < LIMIT, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.child.wait().unwrap().code().unwrap_or(137), self.said())
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.messages).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl World {
    fn new(pair: Pair) -> World {
        let path = |name: &str| pair.path(name);
        let sockets = [pair.from.socket().to_owned(), pair.to.socket().to_owned()];
        let networks = [Network::new(path("0.sock"), &sockets[0]), Network::new(path("1.sock"), &sockets[1])];
        let application = Arc::new(Application {
            sockets,
            active: AtomicUsize::default(),
            next: AtomicU64::new(1),
            written: Mutex::default(),
            is_over: AtomicBool::default(),
        });
        World { pair, networks, application }
    }

    /// The application writes from now on.
    fn write(&self) -> Vec<JoinHandle<()>> {
        self.application.is_over.store(false, Ordering::SeqCst);
        let writer = |_| {
            let application = Arc::clone(&self.application);
            std::thread::spawn(move || application.write())
        };
        (0..3).map(writer).collect()
    }

    /// Waits until something more was acknowledged.
    fn until_written(&self) {
        let count = || self.application.written.lock().unwrap().acknowledged.len();
        let before = count();
        until("the application writes", || count() > before + 10);
    }

    fn server(&mut self, at: usize) -> &mut Sandbox {
        if at == 0 { &mut self.pair.from } else { &mut self.pair.to }
    }

    /// Moves the database to the other server. The application is led there by the hook.
    fn run(&self, from: usize, arguments: &[&str]) -> Run {
        let mut command = remora(self.pair.folder.path());
        let messages = self.pair.path("messages");
        let address = |at: usize| format!("unix://{}", self.networks[at].path.display());
        let (a, b) = (address(from), address(1 - from));
        let hook = format!("echo {} > {}", 1 - from, self.led().display());
        command.args(["copy", "--no-defaults", "-u", "root", &a, &b, "d", "--follow", "apply", "--cut-over"]);
        command.args(["--within", "10s", "--watch", "0s", "--hook", &hook]).args(arguments);
        let said = File::create(&messages).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Run { child: command.spawn().unwrap(), messages }
    }

    /// The file in which the hook writes where the application is.
    fn led(&self) -> PathBuf {
        self.pair.path("led")
    }

    /// Leads the application to a server, and lets it write there: each begins read-only.
    fn lead(&self, to: usize) {
        execute(&mut connect(&self.application.sockets[to]), &["SET GLOBAL read_only = 0"]);
        std::fs::write(self.led(), to.to_string()).unwrap();
        self.application.active.store(to, Ordering::SeqCst);
    }

    /// Follows the hook.
    fn look(&self) {
        if let Ok(text) = std::fs::read_to_string(self.led())
            && let Ok(to) = text.trim().parse()
        {
            self.application.active.store(to, Ordering::SeqCst);
        }
    }

    /// Lets something fail, and work again.
    fn fail(&mut self, failure: &Failure, run: &mut Run) {
        match *failure {
            Failure::Remora => run.child.kill().unwrap(),
            Failure::Server(at) => {
                self.server(at).kill().unwrap();
                self.server(at).restart().unwrap();
            }
            Failure::Cut(at, bytes) => self.networks[at].line.until_cut.store(bytes, Ordering::SeqCst),
            Failure::Down(at) => {
                self.networks[at].line.is_down.store(true, Ordering::SeqCst);
                self.networks[at].line.cut();
                std::thread::sleep(Duration::from_millis(300));
            }
            Failure::Slow(at) => {
                self.networks[at].line.delay_ms.store(20, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        if !matches!(failure, Failure::Cut(..)) {
            self.networks.iter().for_each(|network| network.line.heal());
        }
    }

    /// Waits while remora works, and follows the hook.
    fn wait(&self, run: &mut Run, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !run.is_over() {
            self.look();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Moves the database, whatever fails. Returns how often remora was started.
    fn travel(&mut self, from: usize, is_first: bool, random: &mut Random) -> usize {
        let mut was_made = !is_first;
        for number in 1..=TRIES {
            let mut run = self.run(from, if was_made { &["--resume"] } else { &[] });
            let mut failures = Vec::new();
            if number <= FAILING {
                for _ in 0..=random.below(2) {
                    self.wait(&mut run, Duration::from_millis(random.below(2500)));
                    let at = usize::try_from(random.below(2)).unwrap();
                    let failure = match random.below(7) {
                        0 | 1 => Failure::Server(at),
                        2 => Failure::Remora,
                        3 => Failure::Down(at),
                        4 => Failure::Slow(at),
                        _ => Failure::Cut(at, i64::try_from(1 + random.below(60_000)).unwrap()),
                    };
                    self.fail(&failure, &mut run);
                    failures.push(failure);
                    if run.is_over() {
                        break;
                    }
                }
            }
            self.wait(&mut run, LIMIT);
            let (code, said) = run.end();
            self.networks.iter().for_each(|network| network.line.heal());
            let last = said.lines().last().unwrap_or_default();
            tell(format!("try {number} from {from} with {failures:?}: {code} {last}"));
            // Nothing may differ, and nothing is damaged: only servers and lines were away.
            assert!([0, 1, 2, 10, 11, 137].contains(&code), "{code}: {said}");
            if code == 0 || said.contains("has taken over already") {
                self.lead(1 - from);
                return number;
            }
            // Whoever was killed may have led the application away; the next run says what has become of it.
            if code == 1 && said.contains("the source is as it was")
                || said.contains("lead the application to A")
            {
                self.lead(from);
            }
            was_made = !said.contains("no stopped copy");
            // The servers may still work for the one that was killed.
            std::thread::sleep(Duration::from_millis(300));
        }
        panic!("it was not moved");
    }
}

/// How many moves: `REMORA_MOVES`, or a few.
fn moves() -> u64 {
    let few = if sandbox::is_everywhere() { 4 } else { 2 };
    std::env::var("REMORA_MOVES").map_or(few, |text| text.parse().unwrap())
}

#[test]
fn a_database_travels_and_no_acknowledged_row_is_lost_or_doubled_whatever_fails() {
    on_products(&of_today(products()), |product| {
        for to in part_of_today(vec![product, next(product)], 3) {
            tell(format!("{product} and {to}"));
            let durable = ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--read-only=1"];
            let pair = Pair::new(product, to, &[&LOG[..], &durable].concat());
            make(&pair);
            execute(
                &mut pair.source(),
                &[
                    "CREATE TABLE d.entry (id BIGINT PRIMARY KEY) ENGINE=InnoDB",
                    "CREATE TABLE d.total (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB",
                    "INSERT INTO d.total VALUES (0, 0), (1, 0), (2, 0)",
                ],
            );
            for mut session in [pair.source(), pair.target()] {
                execute(
                    &mut session,
                    &["CREATE USER app@localhost", "GRANT SELECT, INSERT, UPDATE ON d.* TO app@localhost"],
                );
            }
            let mut world = World::new(pair);
            let seed = std::env::var("REMORA_MOVES_SEED").map_or(3, |text| text.parse().unwrap());
            let mut random = Random(seed);
            for number in 0..moves() {
                let from = usize::try_from(number % 2).unwrap();
                world.lead(from);
                let writers = world.write();
                let tries = world.travel(from, number == 0, &mut random);
                world.until_written();
                world.application.is_over.store(true, Ordering::SeqCst);
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                let mut new = connect(&world.application.sockets[1 - from]);
                let rows = world.application.assert_there(&mut new);
                tell(format!("move {number}: {tries} tries, {rows} rows"));
            }
        }
    });
}
