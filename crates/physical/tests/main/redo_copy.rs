//! The redo log of a running server, followed.
#![expect(clippy::disallowed_methods, reason = "files of servers that are stopped, or of none")]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};

use disk::RealDisk;
use innodb::redo::{Log, LogCopier, START_OFFSET};
use physical::redo_copy::{CopiedLog, RedoCopier};
use physical::{Error, RedoPosition};
use sandbox::{Places, Product, Sandbox, Settings};
use server::Session;

use crate::support::{catch_up, connect, execute, of_today, products, sound, start};

/// How close the server may come.
const MARGIN: u64 = 1 << 16;

/// Where a copy is put.
#[derive(Clone, Default)]
struct Spool(Arc<Mutex<Vec<u8>>>);

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Spool {
    fn follow(&self, log: &Path) -> RedoCopier {
        RedoCopier::begin(Arc::new(RealDisk), log.to_owned(), Box::new(self.clone())).unwrap()
    }

    /// The file of the copy.
    fn file(&self, spooled: &CopiedLog) -> Vec<u8> {
        let bytes = self.0.lock().unwrap();
        assert_eq!(spooled.bytes, bytes.len() as u64);
        [&spooled.head[..], &bytes].concat()
    }
}

/// The log of a server that was killed.
struct Killed {
    file: Vec<u8>,
    checkpoint: u64,
    capacity: u64,
    /// Where mini-transactions end.
    ends: Vec<u64>,
    /// The log from the checkpoint on, as it is in a copy.
    text: Vec<u8>,
}

static KILLED: LazyLock<Killed> = LazyLock::new(|| {
    let options = ["--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=1"];
    let mut server = start(products()[0], &options);
    let mut session = connect(&server);
    execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a CHAR(200)) ENGINE=InnoDB");
    // It wraps, and ends soon after its beginning, so that the checkpoint is before its end.
    loop {
        execute(&mut session, "INSERT INTO t (a) SELECT REPEAT('x', 200) FROM seq_1_to_200");
        let now = RedoPosition::read(&mut session).unwrap();
        let file = std::fs::read(log(&server)).unwrap();
        let Ok(log) = Log::parse(&file[..START_OFFSET], file.len() as u64) else { continue };
        let (at, _) = LogCopier::new(log).place();
        if at + (now.flushed - log.checkpoint()) > file.len() as u64 + 100_000 {
            break;
        }
    }
    server.kill().unwrap();
    let file = std::fs::read(log(&server)).unwrap();
    let log = Log::parse(&file[..START_OFFSET], file.len() as u64).unwrap();
    let (mut chain, mut text, mut ends) = (LogCopier::new(log), Vec::new(), Vec::new());
    loop {
        let (at, until_end) = chain.place();
        let (at, len) = (usize::try_from(at).unwrap(), usize::try_from(until_end.min(64)).unwrap());
        if chain.take(&file[at..at + len], &mut text).is_err() {
            break;
        }
        if ends.last().unwrap_or(&log.checkpoint()) != &chain.lsn() {
            ends.push(chain.lsn());
        }
    }
    let (checkpoint, capacity) = (log.checkpoint(), log.capacity());
    let place = |lsn: u64| LogCopier::new(log).place().0 + (lsn - checkpoint);
    assert!(place(ends[ends.len() - 1]) > file.len() as u64, "it does not wrap");
    text.truncate(usize::try_from(ends[ends.len() - 1] - checkpoint).unwrap());
    Killed { file, checkpoint, capacity, ends, text }
});

impl Killed {
    fn end(&self) -> u64 {
        self.ends[self.ends.len() - 1]
    }

    /// Where an LSN is in the file.
    fn place(&self, lsn: u64) -> usize {
        let log = Log::parse(&self.file[..START_OFFSET], self.file.len() as u64).unwrap();
        let first = LogCopier::new(log).place().0 - START_OFFSET as u64;
        START_OFFSET + usize::try_from((first + lsn - self.checkpoint) % self.capacity).unwrap()
    }

    /// Puts it into a folder.
    fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ib_logfile0");
        std::fs::write(&path, &self.file).unwrap();
        path
    }
}

fn log(server: &Sandbox) -> PathBuf {
    server.data().join("ib_logfile0")
}

#[test]
fn never_past_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = KILLED.write(folder.path());
    // Behind these there is what the server has yet to write.
    for end in [KILLED.ends[3], KILLED.ends[KILLED.ends.len() / 2], KILLED.end()] {
        let mut file = KILLED.file.clone();
        let mut lsn = end;
        while lsn < KILLED.checkpoint + KILLED.capacity {
            file[KILLED.place(lsn)] = 0xEE;
            lsn += 1;
        }
        std::fs::write(&path, file).unwrap();
        let spool = Spool::default();
        let mut follow = spool.follow(&path);
        // In two steps; the second one begins within a mini-transaction.
        for flushed in [(end + KILLED.checkpoint) / 2, end] {
            follow.step(flushed, &mut || Ok(end)).unwrap();
            assert_eq!(follow.lsn(), flushed);
        }
        assert_eq!(follow.proven(), end);
        let spooled = follow.finish(end).unwrap();
        assert_eq!((spooled.checkpoint, spooled.end), (KILLED.checkpoint, end));
        let text = &KILLED.text[..usize::try_from(end - KILLED.checkpoint).unwrap()];
        assert!(spool.file(&spooled)[START_OFFSET..] == *text);
    }
}

#[test]
fn bit_flip_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = KILLED.write(folder.path());
    let end = KILLED.end();
    for part in 0..40 {
        let lsn = KILLED.checkpoint + (end - 1 - KILLED.checkpoint) * part / 39;
        let mut file = KILLED.file.clone();
        file[KILLED.place(lsn)] ^= 1 << (part % 8);
        std::fs::write(&path, file).unwrap();
        let mut follow = Spool::default().follow(&path);
        let refused = match follow.step(end, &mut || Ok(end)) {
            Ok(()) => follow.finish(end).unwrap_err(),
            Err(error) => {
                assert!(error.is_damage() && error.to_string().contains("damaged"), "{error}");
                error
            }
        };
        assert!(refused.to_string().contains("make the copy again"), "{refused}");
    }
}

#[test]
fn cut_mtr_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = KILLED.write(folder.path());
    let end = KILLED.end();
    let until = |flushed: u64| {
        let mut follow = Spool::default().follow(&path);
        follow.step(flushed, &mut || Ok(end)).unwrap();
        follow
    };
    for missing in 1..7 {
        let refused = until(end - missing).finish(end - missing).unwrap_err();
        assert!(refused.to_string().contains(&format!("must end at LSN {}", end - missing)), "{refused}");
    }
    let earlier = KILLED.ends[KILLED.ends.len() - 2];
    until(end).finish(earlier).unwrap_err();
    until(earlier).finish(end).unwrap_err();
    until(earlier).finish(earlier).unwrap();
}

/// A spool that is full for a moment.
struct Full(bool);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_full = std::mem::take(&mut self.0);
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_an_error_there_is_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = KILLED.write(folder.path());
    let mut follow = RedoCopier::begin(Arc::new(RealDisk), path, Box::new(Full(true))).unwrap();
    let refused = follow.step(KILLED.end(), &mut || Ok(KILLED.end())).unwrap_err();
    assert!(matches!(refused, Error::Output(_)), "{refused}");
    // There is room again.
    follow.step(KILLED.end(), &mut || Ok(KILLED.end())).unwrap();
    let refused = follow.finish(KILLED.end()).unwrap_err();
    assert!(refused.to_string().contains("not copied to the end"), "{refused}");
}

#[test]
fn overrun_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = KILLED.write(folder.path());
    let until = |current: u64| Spool::default().follow(&path).step(KILLED.ends[0], &mut || Ok(current));
    let last = KILLED.checkpoint + KILLED.capacity - MARGIN;
    let refused = until(last).unwrap_err();
    assert!(refused.to_string().contains("innodb_log_file_size"), "{refused}");
    until(last - 1).unwrap();
    // The server is asked after the read: what it writes over then has been read.
    let spool = Spool::default();
    let mut follow = spool.follow(&path);
    let mut asked = 0;
    let mut current = || {
        asked += 1;
        let mut file = KILLED.file.clone();
        file[KILLED.place(KILLED.checkpoint)..][..4].fill(0xEE);
        std::fs::write(&path, file).unwrap();
        Ok(KILLED.end())
    };
    follow.step(KILLED.ends[0], &mut current).unwrap();
    assert_eq!(asked, 1);
    // A share of what is not read, from where it was read to.
    let mut follow = spool.follow(&KILLED.write(folder.path()));
    follow.step(KILLED.end(), &mut || Ok(KILLED.end())).unwrap();
    let behind = follow.behind(KILLED.end() + KILLED.capacity / 2);
    assert!((0.499..0.501).contains(&behind), "{behind}");
}

#[test]
fn another_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let end = KILLED.end();
    let change = |change: &dyn Fn(&Path)| {
        let path = KILLED.write(folder.path());
        let mut follow = Spool::default().follow(&path);
        follow.step(KILLED.ends[0], &mut || Ok(end)).unwrap();
        change(&path);
        // Also if there is nothing to read.
        let refused = follow.step(KILLED.ends[0], &mut || Ok(end)).unwrap_err();
        assert!(matches!(refused, Error::Log { .. }), "{refused}");
        assert!(refused.to_string().contains("replaced its redo log"), "{refused}");
        // It is what a longer step says too, whatever was read.
        let refused = follow.step(end, &mut || Ok(end)).unwrap_err();
        assert!(refused.to_string().contains("replaced its redo log"), "{refused}");
    };
    change(&|path| {
        let new = folder.path().join("ib_logfile101");
        std::fs::write(&new, &KILLED.file).unwrap();
        disk::Disk::rename(&RealDisk, &new, path).unwrap();
    });
    change(&|path| {
        disk::Disk::volume(&RealDisk, path).unwrap().set_len(KILLED.file.len() as u64 - 4096).unwrap();
    });
    // Its length was another only while it was read.
    let path = KILLED.write(folder.path());
    let mut follow = Spool::default().follow(&path);
    let volume = disk::Disk::volume(&RealDisk, &path).unwrap();
    volume.set_len(KILLED.place(KILLED.ends[0]) as u64 - 1).unwrap();
    let mut current = || {
        volume.set_len(KILLED.file.len() as u64).unwrap();
        Ok(end)
    };
    let refused = follow.step(KILLED.ends[0], &mut current).unwrap_err();
    assert!(refused.to_string().contains("shorter"), "{refused}");
}

#[test]
fn resize_refused() {
    for product in of_today() {
        let server = start(product, &["--innodb-log-file-size=8M"]);
        let mut session = connect(&server);
        let mut follow = Spool::default().follow(&log(&server));
        catch_up(&mut follow, &mut session).unwrap();
        execute(&mut session, "SET GLOBAL innodb_log_file_size = 16 << 20");
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB");
        let refused = catch_up(&mut follow, &mut session).unwrap_err();
        assert!(refused.to_string().contains("replaced its redo log"), "{product}: {refused}");
    }
}

#[test]
fn a_server_that_writes_faster_is_refused() {
    for product in of_today() {
        let server = start(product, &["--innodb-log-file-size=4M"]);
        let mut session = connect(&server);
        execute(
            &mut session,
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a CHAR(200)) ENGINE=InnoDB",
        );
        let mut follow = Spool::default().follow(&log(&server));
        catch_up(&mut follow, &mut session).unwrap();
        let from = follow.lsn();
        while RedoPosition::read(&mut session).unwrap().flushed < from + follow.capacity() {
            execute(&mut session, "INSERT INTO t (a) SELECT REPEAT('x', 200) FROM seq_1_to_2000");
            execute(&mut session, "FLUSH ENGINE LOGS");
        }
        let refused = catch_up(&mut follow, &mut session).unwrap_err();
        assert!(refused.to_string().contains("faster than it can be read"), "{product}: {refused}");
    }
}

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, w INT, n INT DEFAULT 0, a VARCHAR(200), \
                     b LONGTEXT, KEY a (a), KEY n (n)) ENGINE=InnoDB";

/// A statement of a writer: `number` says which. None of them writes more than 300 kB of log.
fn change(writer: u32, number: u32) -> String {
    match number % 6 {
        0 => format!(
            "INSERT INTO t (w, a, b) SELECT {writer}, REPEAT(CHAR(97 + seq % 20), seq % 150), SHA2(seq, 512) \
             FROM seq_1_to_300"
        ),
        1 => format!("UPDATE t SET a = REVERSE(a), n = n + 1 WHERE w = {writer} ORDER BY id DESC LIMIT 150"),
        2 => {
            format!(
                "INSERT INTO t (w, a, b) VALUES ({writer}, 'long', REPEAT('{number} ', {}))",
                number % 9000
            )
        }
        3 => format!("DELETE FROM t WHERE w = {writer} AND id % 3 = 0 ORDER BY id LIMIT 100"),
        4 => format!("UPDATE t SET b = REPEAT('{number}', 15000) WHERE w = {writer} ORDER BY id LIMIT 3"),
        _ => format!("UPDATE t SET n = n + 1 WHERE w = {writer} ORDER BY id LIMIT 50"),
    }
}

/// The same, with tables that are made, changed and removed.
fn definition(writer: u32, number: u32) -> String {
    let table = format!("d{writer}");
    match number % 12 {
        3 => {
            format!("CREATE OR REPLACE TABLE {table} ENGINE=InnoDB AS SELECT * FROM t ORDER BY id LIMIT 300")
        }
        5 => format!("ALTER TABLE {table} ADD PRIMARY KEY (id), ADD INDEX a (a)"),
        7 => format!("ALTER TABLE {table} DROP COLUMN n, ALGORITHM=INSTANT"),
        9 => format!("TRUNCATE TABLE {table}"),
        11 => format!("OPTIMIZE TABLE {table}"),
        _ => change(writer, number),
    }
}

/// Writes with several sessions while the log is followed, each statement when `tokens` allows it.
/// Returns how often it was read.
fn load(server: &Sandbox, follow: &mut RedoCopier, until: u64, statement: fn(u32, u32) -> String) -> u32 {
    let mut session = connect(server);
    let mut read = 0;
    let over = AtomicBool::new(false);
    // So many statements may run before the log is read again, so that the reader is never too late.
    let (give, take) = mpsc::sync_channel::<()>(8);
    let take = Mutex::new(take);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (take, over) = (&take, &over);
            let mut session = connect(server);
            scope.spawn(move || {
                for number in 0.. {
                    if over.load(Ordering::Relaxed) || take.lock().unwrap().recv().is_err() {
                        return;
                    }
                    // What the server rolls back is in the log too: deadlocks, and waits on a slow machine.
                    if let Err(error) = session.execute(&statement(writer, number)) {
                        let error = error.to_string();
                        assert!(["1205", "1213", "1467"].iter().any(|code| error.contains(code)), "{error}");
                    }
                }
            });
        }
        while follow.lsn() < until {
            read += 1;
            let flushed = catch_up(follow, &mut session).unwrap().flushed;
            // It is the end of a mini-transaction.
            assert_eq!((follow.proven(), follow.lsn()), (flushed, flushed));
            while give.try_send(()).is_ok() {}
        }
        over.store(true, Ordering::Relaxed);
        drop(give);
    });
    read
}

#[test]
fn flushed_log_ends_with_a_mini_transaction() {
    for product in of_today() {
        let server = start(product, &["--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=2"]);
        execute(&mut connect(&server), TABLE);
        let mut follow = Spool::default().follow(&log(&server));
        let until = follow.checkpoint() + 2 * follow.capacity();
        let read = load(&server, &mut follow, until, definition);
        assert!(read > 20, "{product}: {read}");
    }
}

/// What is in the table.
fn contents(session: &mut Session) -> Vec<Vec<Option<String>>> {
    let sums = "COUNT(*), SUM(id), SUM(n), BIT_XOR(CRC32(CONCAT_WS('#', id, w, n, a, b)))";
    session.strings(&format!("SELECT {sums} FROM t GROUP BY w ORDER BY w")).unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn start_on(product: Product, data: &Path, log_size: u64) -> Sandbox {
    let places = Places::customary(|name| std::env::var_os(name)).unwrap();
    let installation = sandbox::find(&places, product).unwrap();
    let options = vec![format!("--innodb-log-file-size={log_size}")];
    let settings = Settings { data: Some(data.to_owned()), options, ..Settings::default() };
    Sandbox::start(&installation, &places, &settings).unwrap()
}

#[test]
fn small_log_size_boots() {
    for product in of_today() {
        let mut server = start(
            product,
            &["--innodb-log-file-size=8M", "--innodb-undo-tablespaces=3", "--innodb-log-buffer-size=2M"],
        );
        let mut session = connect(&server);
        execute(&mut session, TABLE);
        drop(session);
        server.stop().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        copy(server.data(), &data);
        // A server that begins changes pages too, so the copy of the log begins before.
        let spool = Spool::default();
        let mut follow = spool.follow(&log(&server));
        server.restart().unwrap();
        let mut session = connect(&server);
        let until = follow.checkpoint() + 3 * follow.capacity();
        let read = load(&server, &mut follow, until, change);
        assert!(read > 20, "{product}: {read}");
        // A change that is not committed.
        let mut other = connect(&server);
        execute(&mut other, "BEGIN");
        execute(&mut other, "UPDATE t SET n = n + 1000 WHERE id < 2000");
        execute(&mut session, "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
        let end = catch_up(&mut follow, &mut session).unwrap().flushed;
        let spooled = follow.finish(end).unwrap();
        let expected = contents(&mut session);
        server.kill().unwrap();
        std::fs::write(data.join("ib_logfile0"), spool.file(&spooled)).unwrap();
        let small = folder.path().join("small");
        copy(&data, &small);
        for (data, log_size) in [(data, spooled.log_size()), (small, 4 << 20)] {
            let copy = start_on(product, &data, log_size);
            let said = String::from_utf8(std::fs::read(copy.error_log()).unwrap()).unwrap();
            let is_well = !said.contains("[ERROR]");
            // Servers may complain of a log that is smaller than what they recover, but they recover it.
            let is_small =
                log_size < spooled.log_size() && said.contains("insufficient innodb_log_file_size");
            assert!(said.contains(&format!("End of log at LSN={end}")) && (is_well || is_small), "{said}");
            let mut session = connect(&copy);
            assert_eq!(contents(&mut session), expected, "{product}");
            sound(&mut session, "t");
        }
    }
}
