//! `remora binlog` and its connections: they are cut at any byte, servers send logs that can't be archived,
//! and other archivers have the same server_id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use sandbox::{Sandbox, Settings};

use crate::binlog::{Play, TABLE};
use crate::extract::{execute, folder, mariadb, session};
use crate::support::{Ended, Running, mariadbs, on_products, part_of_today, places, remora, start, until};

/// The first byte of the packet that asks for the log.
const DUMP: u8 = 0x12;
/// Fewer bytes than those of the first two events of a log, one of which names the file.
const HEAD_BYTES: usize = 300;
/// How many threads try places: they wait more than they work.
const THREADS: usize = 6;

/// Where a connection is cut, behind so many bytes that the server has sent.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Never,
    /// Of this connection.
    Connection(usize, usize),
    /// Of the log, when it is asked for this time.
    Log(usize, usize),
    /// Of the log, whenever it is asked for.
    Logs(usize),
}

/// What has come through since a cut was set.
#[derive(Default)]
struct Passed {
    connections: usize,
    logs: usize,
    /// The bytes of each connection, and of each log.
    of_connections: BTreeMap<usize, usize>,
    of_logs: BTreeMap<usize, usize>,
}

/// A made-up answer of a server to a command.
pub(crate) type Answer = fn(&[u8]) -> Option<Vec<u8>>;

/// Stands between remora and a server.
pub(crate) struct Wire {
    pub(crate) socket: PathBuf,
    state: Arc<Mutex<(Cut, Passed)>>,
}

/// A connection through it.
struct Pipe {
    state: Arc<Mutex<(Cut, Passed)>>,
    number: usize,
    log: Mutex<Option<usize>>,
}

impl Wire {
    pub(crate) fn open(folder: &Path, server: &Path, answer: Answer) -> Wire {
        let socket = folder.join("wire.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let state = Arc::new(Mutex::new((Cut::Never, Passed::default())));
        let (own, server) = (Arc::clone(&state), server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let number = {
                    let (_, passed) = &mut *own.lock().unwrap();
                    passed.connections += 1;
                    passed.connections - 1
                };
                let pipe = Arc::new(Pipe { state: Arc::clone(&own), number, log: Mutex::new(None) });
                let (back, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let other = Arc::clone(&pipe);
                std::thread::spawn(move || other.down(answers, back));
                std::thread::spawn(move || pipe.up(client, server, answer));
            }
        });
        Wire { socket, state }
    }

    fn cut(&self, cut: Cut) {
        *self.state.lock().unwrap() = (cut, Passed::default());
    }

    /// How many bytes came of each connection, and of each log.
    fn passed(&self) -> (BTreeMap<usize, usize>, BTreeMap<usize, usize>) {
        let (_, passed) = &*self.state.lock().unwrap();
        (passed.of_connections.clone(), passed.of_logs.clone())
    }
}

impl Pipe {
    /// Passes commands on, or answers them.
    fn up(&self, mut client: UnixStream, mut server: UnixStream, answer: Answer) {
        let mut head = [0; 4];
        while client.read_exact(&mut head).is_ok() {
            let mut packet = vec![0; usize::from(head[0]) | usize::from(head[1]) << 8];
            if client.read_exact(&mut packet).is_err() {
                break;
            }
            if head[3] == 0 && packet.first() == Some(&DUMP) {
                let (_, passed) = &mut *self.state.lock().unwrap();
                *self.log.lock().unwrap() = Some(passed.logs);
                passed.logs += 1;
            }
            let answer = if head[3] == 0 { answer(&packet) } else { None };
            let sent = match answer {
                Some(answer) => client.write_all(&answer),
                None => server.write_all(&head).and_then(|()| server.write_all(&packet)),
            };
            if sent.is_err() {
                break;
            }
        }
        server.shutdown(Shutdown::Both).ok();
    }

    /// Passes on what the server says, as far as it may.
    fn down(&self, mut server: UnixStream, mut client: UnixStream) {
        let mut room = [0; 4096];
        while let Ok(got @ 1..) = server.read(&mut room) {
            let may = self.may(got);
            if client.write_all(&room[..may]).is_err() || may < got {
                break;
            }
        }
        for end in [client, server] {
            end.shutdown(Shutdown::Both).ok();
        }
    }

    /// How many of these bytes may pass before the cut.
    fn may(&self, bytes: usize) -> usize {
        let (cut, passed) = &mut *self.state.lock().unwrap();
        let log = *self.log.lock().unwrap();
        let left = |known: &BTreeMap<usize, usize>, of: usize, end: usize| {
            end.saturating_sub(known.get(&of).copied().unwrap_or(0))
        };
        let left = match (*cut, log) {
            (Cut::Connection(of, end), _) if of == self.number => left(&passed.of_connections, of, end),
            (Cut::Log(of, end), Some(log)) if of == log => left(&passed.of_logs, of, end),
            (Cut::Logs(end), Some(log)) => left(&passed.of_logs, log, end),
            _ => bytes,
        };
        let may = bytes.min(left);
        *passed.of_connections.entry(self.number).or_default() += may;
        if let Some(log) = log {
            *passed.of_logs.entry(log).or_default() += may;
        }
        may
    }
}

pub(crate) fn archiver(folder: &Path, socket: &Path, more: &[&str]) -> Running {
    let mut command = remora(folder);
    command.args(["binlog", "repo/db", "--no-defaults", "-S"]).arg(socket);
    command.args(if more.contains(&"-u") { &[][..] } else { &["-u", "root"] }).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().unwrap())
}

/// The files of a timeline and their bytes; that one is in use is no difference.
fn files(timeline: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(timeline) else { return BTreeMap::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let logs = names.filter(|name| name.strip_prefix("binlog.").is_some_and(|it| it.parse::<u32>().is_ok()));
    let read = |name: String| {
        let mut bytes = fs::read(timeline.join(&name)).unwrap();
        if let Some(flags) = bytes.get_mut(21) {
            *flags &= !1;
        }
        (name, bytes)
    };
    logs.map(read).collect()
}

/// An archive that is made over a connection which is cut.
struct Cuts<'a> {
    folder: tempfile::TempDir,
    wire: Wire,
    /// The server's files.
    whole: &'a BTreeMap<String, Vec<u8>>,
}

impl<'a> Cuts<'a> {
    fn new(server: &Path, whole: &'a BTreeMap<String, Vec<u8>>) -> Cuts<'a> {
        let folder = folder();
        let wire = Wire::open(folder.path(), server, |_| None);
        Cuts { folder, wire, whole }
    }

    fn once(&self, cut: Cut) -> Ended {
        self.wire.cut(cut);
        archiver(self.folder.path(), &self.wire.socket, &["--once"]).end()
    }

    fn archived(&self) -> BTreeMap<String, Vec<u8>> {
        files(&self.folder.path().join("repo/db/log/000001"))
    }

    /// Puts the archive back to what these files are.
    fn put(&self, state: &BTreeMap<String, Vec<u8>>) {
        let timeline = self.folder.path().join("repo/db/log/000001");
        fs::remove_dir_all(self.folder.path().join("repo")).ok();
        if state.is_empty() {
            return;
        }
        fs::create_dir_all(&timeline).unwrap();
        let about = r#"{"version":2,"reason":"first","began_s":0,"server_id":7,"server":"","first":"binlog.000001","before":null,"detail":""}"#;
        fs::write(timeline.join("timeline.json"), about).unwrap();
        let index: String = state.keys().map(|name| format!("./{name}\n")).collect();
        fs::write(timeline.join("log.index"), index).unwrap();
        for (name, bytes) in state {
            fs::write(timeline.join(name), bytes).unwrap();
        }
    }

    /// A run that is cut says so, and has archived nothing but the server's bytes. Returns them.
    fn is_cut(&self, cut: Cut) -> BTreeMap<String, Vec<u8>> {
        let ended = self.once(cut);
        assert!([1, 10].contains(&ended.code), "{cut:?}: {} {}", ended.code, ended.err);
        let archived = self.archived();
        for (name, bytes) in &archived {
            assert!(self.whole[name].starts_with(bytes), "{cut:?}: {name}");
        }
        assert!(!self.folder.path().join("repo/db/log/000002").exists(), "{cut:?}");
        archived
    }

    /// The next run archives all of it.
    fn goes_on(&self, what: &dyn std::fmt::Debug) {
        let ended = self.once(Cut::Never);
        assert_eq!(ended.code, 0, "{what:?}: {}", ended.err);
        assert!(self.archived() == *self.whole, "{what:?}");
        assert!(!self.folder.path().join("repo/db/log/000002").exists(), "{what:?}");
    }
}

/// A log is cut behind each of its bytes, and the archive is in each of the states that this leaves while
/// another connection is cut.
#[test]
fn resume_each_byte_of_a_log() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &["--binlog-annotate-row-events=0"]);
    play.does(&[TABLE, "RESET MASTER", "INSERT INTO t (v) VALUES ('a')", "FLUSH BINARY LOGS"]);
    play.does(&["INSERT INTO t (v) VALUES ('b')"]);
    play.once().exits(0);
    play.is_archived(1);
    let (socket, whole) = (play.server.socket().to_owned(), files(&play.timeline(1)));
    let first = Cuts::new(&socket, &whole);
    first.goes_on(&"first");
    let (connections, logs) = first.wire.passed();
    let states = Mutex::new(BTreeSet::from([BTreeMap::new()]));
    at_once(part_of_today((0..logs[&0]).collect(), 5), |bytes: Vec<usize>| {
        let cuts = Cuts::new(&socket, &whole);
        for end in bytes {
            cuts.put(&BTreeMap::new());
            let state = cuts.is_cut(Cut::Log(0, end));
            if states.lock().unwrap().insert(state) {
                cuts.goes_on(&end);
            }
        }
    });
    let states = states.into_inner().unwrap();
    assert!(states.len() > 10, "{}", states.len());
    let ends = (0..connections[&1] - logs[&0]).step_by(17).flat_map(|end| [(0, end), (1, end)]);
    at_once(ends.collect(), |ends: Vec<(usize, usize)>| {
        let cuts = Cuts::new(&socket, &whole);
        ends.into_iter().for_each(|(of, end)| drop(cuts.is_cut(Cut::Connection(of, end))));
        cuts.goes_on(&"logged in");
    });
    at_once(states.into_iter().collect(), |states: Vec<BTreeMap<String, Vec<u8>>>| {
        let cuts = Cuts::new(&socket, &whole);
        for state in states {
            cuts.put(&state);
            cuts.goes_on(&state.keys());
            let (_, logs) = cuts.wire.passed();
            let has_head = logs.len() > 1;
            for (of, len) in logs {
                // Of the first event, which is compared first, nothing is needed but itself.
                let len = if has_head && of == 0 { len.min(HEAD_BYTES) } else { len };
                for end in (0..len).step_by(if sandbox::is_everywhere() { 97 } else { 389 }) {
                    cuts.put(&state);
                    cuts.is_cut(Cut::Log(of, end));
                    if end % 5 == 0 {
                        cuts.goes_on(&(of, end));
                    }
                }
            }
        }
    });
}

/// Shares work out.
fn at_once<T: Send + Clone>(all: Vec<T>, work: impl Fn(Vec<T>) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let part: Vec<T> = all.iter().skip(number).step_by(THREADS).cloned().collect();
            let work = &work;
            scope.spawn(move || work(part));
        }
    });
}

/// A run whose connections all break gets everything, and does not wait longer and longer.
#[test]
fn resume_each_byte_by_itself() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &[]);
    play.does(&[TABLE]);
    for row in 0..30 {
        play.does(&[&format!("INSERT INTO t (v) VALUES ('{row}')")]);
    }
    let wire = Wire::open(play.folder.path(), play.server.socket(), |_| None);
    let mut running = archiver(play.folder.path(), &wire.socket, &["--sync", "0s"]);
    running.until_says("caught up");
    // What is sent again is some 600 bytes.
    wire.cut(Cut::Logs(1500));
    for row in 0..30 {
        play.does(&[&format!("INSERT INTO t (v) VALUES ('further {row}')")]);
    }
    let began = std::time::Instant::now();
    play.until_archived(1);
    let (_, logs) = wire.passed();
    assert!(logs.len() > 6, "{logs:?}");
    let took = began.elapsed().as_secs();
    assert!(took < 20, "{took} s");
    wire.cut(Cut::Never);
    running.must_run();
    running.signal("TERM");
    running.end().exits(143);
    assert!(!play.timeline(2).exists());
}

/// A server that was killed while it wrote an event can't read its file to the end. That is no fork.
#[test]
fn a_log_with_an_unreadable_end_begins_no_timeline() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &[]);
    play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')"]);
    play.once().exits(0);
    play.server.kill().unwrap();
    let path = play.server.data().join("binlog.000001");
    let own = fs::read(&path).unwrap();
    // The first event again, and not all of it.
    fs::write(&path, [&own[..], &own[4..104]].concat()).unwrap();
    play.server.restart().unwrap();
    play.once().exits(1).says(&["can't read its binlog.000001 behind", "PURGE BINARY LOGS TO", "error 1236"]);
    let mut running = play.follow(&[]);
    for _ in 0..2 {
        running.until_says("trying again");
    }
    running.signal("TERM");
    running.end().exits(143);
    assert!(!play.timeline(2).exists());
}

/// The first archiver ends and says why, so that the two don't end each other for ever. A known replica is
/// left alone.
#[test]
fn two_archivers_with_one_server_id() {
    on_products(&mariadb().collect::<Vec<_>>(), |product| {
        let mut play = Play::new(product, &[]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')"]);
        let mut first = play.follow(&["--server-id", "77"]);
        first.until_says("caught up");
        let other = folder();
        let mut second = archiver(other.path(), play.server.socket(), &["--server-id", "77"]);
        second.until_says("caught up");
        let words = ["another replica or archiver has connected with server_id 77", "--server-id"];
        let ended = first.end().exits(10).says(&words);
        // What it says at its beginning does not count.
        let is_usual = |line: &&str| line.contains("archived") || line.contains("remora doctor");
        assert_eq!(ended.err.lines().filter(|line| !is_usual(line)).count(), 1, "{}", ended.err);
        second.must_run();
        // With another number both get everything.
        let mut first = play.follow(&["--server-id", "78"]);
        first.until_says("caught up");
        play.does(&["INSERT INTO t (v) VALUES ('b')"]);
        play.until_archived(1);
        until("the other archive has it, too", || {
            files(&other.path().join("repo/db/log/000001")) == files(&play.timeline(1))
        });
        drop((first, second));
    });
}

/// A replica connects again, so that each would end the other.
#[test]
fn an_archiver_and_a_replica_with_one_server_id() {
    let product = mariadbs()[0];
    let options = ["--log-bin=binlog", "--server-id=7"].map(ToString::to_string).to_vec();
    let settings = Settings { options, port: Some(0), ..Settings::default() };
    let installation = sandbox::find(&places(), product).unwrap();
    let server = Sandbox::start(&installation, &places(), &settings).unwrap();
    let mut play = Play { folder: folder(), session: session(&server), server };
    play.does(&["CREATE USER copy", "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO copy"]);
    let replica = start(product, &["--server-id=77", "--report-host=db2", "--report-port=3307"]);
    let mut copy = session(&replica);
    let port = play.server.port().unwrap();
    execute(
        &mut copy,
        &[
            &format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'copy', MASTER_SSL = 0, \
                 MASTER_CONNECT_RETRY = 1"
            ),
            "START SLAVE",
        ],
    );
    let mut hosts = session(&play.server);
    until("the replica is known", || hosts.strings("SHOW SLAVE HOSTS").unwrap().len() == 1);
    let ask = |number: &str| {
        archiver(play.folder.path(), play.server.socket(), &["--once", "--server-id", number]).end()
    };
    ask("77").exits(10).says(&["the replica db2:3307 has server_id 77", "--server-id"]);
    ask("78").exits(0);
    // An account that may not ask learns it when the server ends the connection.
    let more = ["--server-id", "77", "-u", "copy"];
    let ended = archiver(play.folder.path(), play.server.socket(), &more).end().exits(10);
    ended.says(&["another replica or archiver has connected with server_id 77"]);
    until("the replica is back", || hosts.strings("SHOW SLAVE HOSTS").unwrap().len() == 1);
}

/// Packets of an answer, numbered.
pub(crate) fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        all.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes()[..3]);
        all.push(u8::try_from(number + 1).unwrap());
        all.extend_from_slice(payload);
    }
    all
}

/// A column of a text.
pub(crate) fn column(name: &str) -> Vec<u8> {
    let mut column = b"\x03def\0\0\0".to_vec();
    column.push(u8::try_from(name.len()).unwrap());
    column.extend_from_slice(name.as_bytes());
    column.extend_from_slice(b"\0\x0c\x21\0\0\x01\0\0\xfd\0\0\0\0\0");
    column
}

/// An event without a position and without a checksum.
fn event(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut event = vec![0];
    event.extend_from_slice(&1_700_000_000_u32.to_le_bytes());
    event.push(kind);
    event.extend_from_slice(&7_u32.to_le_bytes());
    event.extend_from_slice(&u32::try_from(19 + body.len()).unwrap().to_le_bytes());
    event.extend_from_slice(&[0; 6]);
    event.extend_from_slice(body);
    event
}

/// The answer of a MariaDB 12.3 that writes its log into InnoDB.
fn names_of_innodb(command: &[u8]) -> Option<Vec<u8>> {
    let end = b"\xfe\0\0\x02\0";
    (command == b"\x03SHOW BINARY LOGS").then(|| {
        let row = b"\x11binlog-000000.ibb\x0a1073741824";
        packets(&[b"\x02", &column("Log_name"), &column("File_size"), end, row, end])
    })
}

/// A stream as it sends it: no file, no positions.
fn stream_of_innodb(command: &[u8]) -> Option<Vec<u8>> {
    (command.first() == Some(&DUMP)).then(|| {
        // Number, domain, flags: one statement follows.
        let gtid = event(162, b"\x01\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0");
        let query = event(2, b"\x01\0\0\0\0\0\0\0\x03\0\0\0\0app\0CREATE TABLE t (a INT)");
        packets(&[&gtid, &query])
    })
}

#[test]
fn a_binary_log_in_innodb_is_refused() {
    let product = mariadbs()[0];
    let play = Play::new(product, &["--binlog-checksum=NONE"]);
    let refused = |answer: Answer, words: &[&str]| {
        let folder = folder();
        let wire = Wire::open(folder.path(), play.server.socket(), answer);
        for more in [&[][..], &["--once"]] {
            archiver(folder.path(), &wire.socket, more).end().exits(1).says(words);
        }
        assert_eq!(files(&folder.path().join("repo/db/log/000001")), BTreeMap::new());
    };
    refused(
        names_of_innodb,
        &["the server writes its binary log into InnoDB (binlog_storage_engine=innodb)"],
    );
    refused(stream_of_innodb, &["without saying which file it is of"]);
}
