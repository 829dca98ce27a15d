//! What others do while a table is filled, and what a run that was killed leaves beside it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use disk::RealDisk;
use innodb::page::PAGE_BYTES;
use physical::Error;
use progress::{Progress, Silent};
use server::TableName;

use crate::support::{Copy, connect, definition, execute, file, of_today, rows, start};
use crate::write::strays;

#[test]
fn rows_that_others_write_meanwhile_are_kept() {
    for product in of_today() {
        let server = start(product, &[]);
        let (mut session, mut other) = (connect(&server), connect(&server));
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)");
        let definition = definition(&mut session, "t");
        let rows: Vec<_> = (1..9_u32)
            .map(|id| {
                let mut row = innodb::write::Row::default();
                row.push(Some(&(id | 1 << 31).to_be_bytes()));
                row.push(None);
                row
            })
            .collect();
        let mut slow = |row: usize| {
            if row == 4 {
                execute(&mut other, "INSERT INTO t VALUES (7, 7)");
                let error = Copy::new("t", &definition).make(&mut other, &[]).unwrap_err();
                assert!(error.to_string().contains("has rows"), "{error}");
                let twice = Copy::new("T", &definition.replace("`t`", "`T`")).make(&mut other, &[]);
                twice.unwrap();
            }
            Ok(())
        };
        let copy = Copy { piece: 2, ..Copy::new("t", &definition) };
        let error = copy.make_but(&mut session, &rows, &mut slow).unwrap_err();
        assert!(error.to_string().contains("somebody has written"), "{error}");
        assert_eq!(session.value("SELECT GROUP_CONCAT(id) FROM t").unwrap().as_deref(), Some("7"));
        assert_eq!(strays(&server), [""; 0]);
    }
}

/// A session that waits for the rename writes to the new table, which is dropped again.
#[test]
fn rows_that_others_write_during_the_rename_are_kept() {
    for product in of_today() {
        let server = start(product, &[]);
        let (mut session, mut looks) = (connect(&server), connect(&server));
        let (mut first, mut second) = (connect(&server), connect(&server));
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY)");
        let definition = definition(&mut session, "t");
        execute(&mut session, "INSERT INTO t VALUES (1), (2)");
        let good = rows(&mut session, &server, "t");
        execute(&mut session, "TRUNCATE TABLE t");
        // Not committed, so nobody sees it, but the names can't change.
        execute(&mut first, "BEGIN");
        execute(&mut first, "INSERT INTO t VALUES (7)");
        let mut until_waiting = |count: u32| {
            let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
                           WHERE state = 'Waiting for table metadata lock'";
            let waits = (0..2000).any(|_| {
                looks.value("SELECT SLEEP(0.01)").unwrap();
                looks.value(waiting).unwrap() == Some(count.to_string())
            });
            assert!(waits, "{count} never waited");
        };
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                until_waiting(1);
                scope.spawn(|| execute(&mut second, "INSERT INTO t VALUES (8)"));
                until_waiting(2);
                execute(&mut first, "COMMIT");
            });
            Copy::new("t", &definition).make(&mut session, &good).unwrap_err().to_string()
        });
        let kept = error.split("are in ").nth(1).unwrap_or_else(|| panic!("{error}"));
        let kept = kept.split(',').next().unwrap();
        let mut ids = |table: &str| {
            session.value(&format!("SELECT GROUP_CONCAT(id ORDER BY id) FROM {table}")).unwrap().unwrap()
        };
        assert_eq!((ids("t").as_str(), ids(kept).as_str()), ("7", "1,2,8"), "{product}");
        execute(&mut session, "TRUNCATE TABLE t");
        let error = Copy::new("t", &definition).make(&mut session, &good).unwrap_err().to_string();
        assert!(error.contains("_remora_kept_"), "{error}");
        execute(&mut session, &format!("DROP TABLE {kept}"));
        Copy::new("t", &definition).make(&mut session, &good).unwrap();
        assert_eq!(strays(&server), [""; 0]);
    }
}

#[test]
fn after_a_kill_the_next_run_cleans_up_and_succeeds() {
    for product in of_today() {
        let mut server = start(product, &[]);
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY a (a))");
        execute(&mut session, "INSERT INTO t SELECT seq, seq FROM seq_1_to_9000");
        let definition = definition(&mut session, "t");
        let good = rows(&mut session, &server, "t");
        execute(&mut session, "TRUNCATE TABLE t");
        let mut killed = |row: usize| {
            if row == 8000 {
                server.kill().unwrap();
            }
            Ok(())
        };
        Copy::new("t", &definition).make_but(&mut session, &good, &mut killed).unwrap_err();
        server.restart().unwrap();
        let mut session = connect(&server);
        assert_eq!(session.value("SELECT COUNT(*) FROM t").unwrap().as_deref(), Some("0"));
        Copy::new("t", &definition).make(&mut session, &good).unwrap();
        // Changes that come after it survive the next one.
        execute(&mut session, "UPDATE t SET a = a + 100000");
        execute(&mut session, "INSERT INTO t VALUES (100000, 1)");
        server.kill().unwrap();
        server.restart().unwrap();
        let mut session = connect(&server);
        let sum = session.strings("SELECT COUNT(*), SUM(a) FROM t").unwrap().remove(0);
        assert_eq!(sum, [Some("9001".to_owned()), Some("940504501".to_owned())]);
        assert_eq!(strays(&server), [""; 0]);
    }
}

/// Changes a value in a file that the server has imported, with a new checksum, before it is checked.
struct Changing {
    data: PathBuf,
}

impl Progress for Changing {
    #[expect(clippy::disallowed_methods, reason = "the server's own file is damaged")]
    fn phase(&self, name: &str, _: Option<u64>) {
        if name != "check" {
            return;
        }
        let files = std::fs::read_dir(&self.data).unwrap().map(|entry| entry.unwrap().path());
        let is_twin = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "ibd")
                && path.to_str().unwrap().contains("_remora_ibd_")
        };
        let path = files.into_iter().find(is_twin).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(5).position(|five| five == b"value").unwrap();
        bytes[at] = b'w';
        let page = &mut bytes[at / PAGE_BYTES * PAGE_BYTES..][..PAGE_BYTES];
        let (rest, sum) = page.split_last_chunk_mut().unwrap();
        *sum = u32::try_from(crc_fast::checksum(Crc32Iscsi, rest)).unwrap().to_be_bytes();
        std::fs::write(&path, bytes).unwrap();
    }
    fn read(&self, _: u64) {}
    fn done(&self, _: u64, _: u64) {}
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}

#[test]
fn a_value_that_the_import_changed_is_noticed() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))");
        execute(&mut session, "INSERT INTO t SELECT seq, CONCAT('value ', seq) FROM seq_1_to_90");
        let definition = definition(&mut session, "t");
        let good = rows(&mut session, &server, "t");
        execute(&mut session, "TRUNCATE TABLE t");
        let changing = Changing { data: server.data().join("a@002db") };
        let copy = Copy { progress: &changing, ..Copy::new("t", &definition) };
        let error = copy.make(&mut session, &good).unwrap_err().to_string();
        assert!(error.contains("`PRIMARY` does not have what was written"), "{product}: {error}");
        assert_eq!(session.value("SELECT COUNT(*) FROM t").unwrap().as_deref(), Some("0"));
        assert_eq!(strays(&server), [""; 0]);
    }
}

/// Counts the bytes that are read from the file that the server has imported.
#[derive(Default)]
struct Counting {
    is_checking: AtomicBool,
    read: AtomicU64,
}

impl Progress for Counting {
    fn phase(&self, name: &str, _: Option<u64>) {
        self.is_checking.store(name == "check", Ordering::Relaxed);
    }
    fn read(&self, bytes: u64) {
        if self.is_checking.load(Ordering::Relaxed) {
            self.read.fetch_add(bytes, Ordering::Relaxed);
        }
    }
    fn done(&self, _: u64, _: u64) {}
    fn note(&self, _: &str) {}
    fn warn(&self, _: &str) {}
}

#[test]
fn pages_that_the_import_left_unchanged_are_not_read_again() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a))");
        execute(&mut session, "INSERT INTO t SELECT seq, 30000 - seq FROM seq_1_to_20000");
        let definition = definition(&mut session, "t");
        let good = rows(&mut session, &server, "t");
        execute(&mut session, "TRUNCATE TABLE t");
        let counting = Counting::default();
        let made =
            Copy { progress: &counting, ..Copy::new("t", &definition) }.make(&mut session, &good).unwrap();
        let read = counting.read.into_inner();
        // The proof of rows would read some of the pages again.
        assert!(0 < read && read <= made.bytes, "{product}: {read} of {}", made.bytes);
    }
}

#[test]
fn files_in_the_folder_of_another_server_stay() {
    for product in of_today() {
        let (server, other) = (start(product, &[]), start(product, &[]));
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY)");
        execute(&mut session, "INSERT INTO t VALUES (1), (2)");
        let rows = rows(&mut session, &server, "t");
        execute(&mut session, "TRUNCATE TABLE t");
        let definition = definition(&mut session, "t");
        let mut files = Vec::new();
        let mut look = |_| {
            files = strays(&server);
            Err(Error::Refused("this was only a look".to_owned()))
        };
        Copy::new("t", &definition).make_but(&mut session, &rows, &mut look).unwrap_err();
        let name = files.into_iter().find(|name| name.ends_with(".ibd")).unwrap();
        // On the other server a run into a table of that name was killed here.
        let mut theirs = connect(&other);
        execute(&mut theirs, "CREATE TABLE x (id INT PRIMARY KEY)");
        let left = other.data().join("a@002db").join(&name);
        std::fs::copy(file(&other, "x"), &left).unwrap();
        // The session seems to be with a server whose data are there.
        let own = std::mem::replace(&mut session.about.datadir, other.data().to_str().unwrap().to_owned());
        let error = Copy::new("t", &definition).make(&mut session, &rows).unwrap_err();
        assert!(error.to_string().contains("is not the data folder of this server"), "{error}");
        let target = TableName { schema: "a-b".to_owned(), table: "t".to_owned() };
        physical::write::remove_leftovers(&mut session, &RealDisk, &target, &Silent).unwrap();
        assert!(left.exists());
        // What is left in the server's own folder goes.
        std::fs::copy(&left, server.data().join("a@002db").join(&name)).unwrap();
        session.about.datadir = own;
        // So do the tables of a trial that was killed.
        let hash = name.trim_start_matches("_remora_ibd_").trim_end_matches(".ibd");
        for start in ["try", "ref"] {
            execute(&mut session, &format!("CREATE TABLE _remora_{start}_{hash} (id INT PRIMARY KEY)"));
        }
        physical::write::remove_leftovers(&mut session, &RealDisk, &target, &Silent).unwrap();
        assert_eq!(strays(&server), [""; 0]);
    }
}
