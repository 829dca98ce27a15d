//! A queue that is paused, or keys of it: nobody gets a row of it, everything else continues.

use crate::server::Server;

const WAIT: &str = "SELECT v FROM t WHERE queue_wait('t', 0)";

#[test]
fn a_paused_queue_gives_nobody_a_row() {
    let mut server = Server::start();
    let (mut one, mut two) = server.queue("d");
    one.run("INSERT INTO t VALUES (1), (2)");
    assert_eq!(two.column(WAIT), [1]);
    assert_eq!(one.value("SELECT queue_pause('t')"), Some(1));
    assert_eq!(one.value("SELECT queue_pause('d.t')"), Some(0), "it is already");
    let paused = "SELECT paused FROM information_schema.queues WHERE table_schema = 'd'";
    assert_eq!(one.value(paused), Some(1));
    assert_eq!(one.column(WAIT), [0; 0]);
    assert_eq!(one.value("SELECT queue_lease_json(9, 9, 't', 0) = '[]'"), Some(1));
    // Rows come, are seen, and end.
    one.run("INSERT INTO t VALUES (3)");
    assert_eq!(two.value("SELECT queue_end()"), Some(1));
    assert_eq!(two.column("SELECT v FROM t"), [2, 3]);
    one.run("DELETE FROM t WHERE v = 3");
    one.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 5");
    assert_eq!(one.column(WAIT), [0; 0]);
    one.run("RENAME TABLE t TO u");
    one.run("RENAME TABLE u TO t");
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let (mut one, mut two) = (server.connect("d"), server.connect("d"));
    assert_eq!(one.column(WAIT), [0; 0]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| server.connect("d").column("SELECT v FROM t WHERE queue_wait('t', 60)"));
        one.until_waiting(1);
        assert_eq!(two.value("SELECT queue_resume('t')"), Some(1));
        assert_eq!(waits.join().unwrap(), [2]);
    });
    assert_eq!(two.value("SELECT queue_resume('t')"), Some(0));
    assert_eq!(two.value(paused), Some(0));
}

#[test]
fn who_may_not_alter_a_queue_may_not_pause_it() {
    let server = Server::start();
    let (mut one, _) = server.queue("d");
    one.run("CREATE USER worker@localhost");
    one.run("GRANT SELECT, INSERT, DELETE ON d.* TO worker@localhost");
    let mut worker = server.connect_as("worker");
    let error = worker.error("SELECT queue_pause('d.t')");
    assert!(error.contains("no privilege for this on d.t"), "{error}");
    one.run("GRANT ALTER ON d.t TO worker@localhost");
    assert_eq!(worker.value("SELECT queue_pause('d.t')"), Some(1));
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    for (name, why) in [("d.i", "there is no queue d.i"), ("d.none", "there is no queue d.none")] {
        let error = one.error(&format!("SELECT queue_pause('{name}')"));
        assert!(error.contains(why), "{name}: {error}");
    }
    one.run("SET GLOBAL read_only = 1");
    one.run("GRANT SELECT ON d.* TO worker@localhost");
    let error = worker.error("SELECT queue_resume('d.t')");
    assert!(error.contains("read-only"), "{error}");
}

const SEVERAL: &str = "SELECT v FROM t WHERE queue_wait_n(9, 't', 0)";

#[test]
fn a_paused_key_gives_nobody_a_row_and_the_others_go_on() {
    let mut server = Server::start();
    let mut one = server.connect("keys");
    one.run("CREATE TABLE t (v INT, k VARCHAR(20) COLLATE utf8mb4_bin, at INT DEFAULT (UNIX_TIMESTAMP())) ENGINE=QUEUE FIFO=k");
    one.run("INSERT INTO t (v, k) VALUES (1, 'b'), (2, 'c'), (3, NULL)");
    assert_eq!(one.value("SELECT queue_pause('t', 'b')"), Some(1));
    assert_eq!(one.value("SELECT queue_pause('keys.t', 'b')"), Some(0), "it is already");
    let paused =
        "SELECT keys_paused * 10 + behind FROM information_schema.queues WHERE table_schema = 'keys'";
    assert_eq!(one.value(paused), Some(11));
    assert_eq!(one.column(SEVERAL), [2, 3]);
    one.value("SELECT queue_end()");
    // The key keeps its type, if not its name.
    one.run("ALTER TABLE t CHANGE k q VARCHAR(20) COLLATE utf8mb4_bin, FIFO=q");
    for change in ["FIFO=''", "MODIFY q VARBINARY(20)", "FIFO=v"] {
        let error = one.error(&format!("ALTER TABLE t {change}"));
        assert!(error.contains("1 keys of the queue are paused"), "{change}: {error}");
    }
    assert_eq!(one.column(SEVERAL), [0; 0]);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let (mut one, mut two) = (server.connect("keys"), server.connect("keys"));
    assert_eq!(one.column(SEVERAL), [0; 0]);
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| server.connect("keys").column("SELECT v FROM t WHERE queue_wait('t', 60)"));
        one.until_waiting(1);
        assert_eq!(two.value("SELECT queue_resume('t', 'b')"), Some(1));
        assert_eq!(waits.join().unwrap(), [1]);
    });
    assert_eq!(two.value("SELECT queue_resume('t', 'b')"), Some(0));
    two.value("SELECT queue_pause('t', 'x')");
    two.value("SELECT queue_pause('t', 'y')");
    assert_eq!(two.value("SELECT queue_resume('t')"), Some(0), "the queue was not paused");
    assert_eq!(two.value(paused), Some(20));
    assert_eq!(two.value("SELECT queue_resume('t', NULL)"), Some(1), "all keys");
    assert_eq!(two.value(paused), Some(0));
}

#[test]
fn a_key_is_a_value_of_its_column() {
    let server = Server::start();
    let mut one = server.connect("types");
    for (column, value, other, wrong) in [
        ("INT", "7", "70", "'7x'"),
        ("BIGINT UNSIGNED", "18446744073709551615", "1", "-1"),
        ("DECIMAL(10,2)", "'1.5'", "1", "'x'"),
        ("VARCHAR(3) COLLATE latin1_bin", "'a\u{e9}'", "'a'", "'abcd'"),
        ("CHAR(9) COLLATE utf8mb4_bin", "'a'", "'b'", "'abcdefghij'"),
        ("TEXT COLLATE utf8mb4_bin", "'a'", "'A'", ""),
        ("VARBINARY(20)", "x'00ff27'", "x'00'", "'123456789012345678901'"),
        ("ENUM('red', 'green')", "'green'", "'red'", "'blue'"),
        ("DATETIME(3)", "'2026-01-02 03:04:05.678'", "'2026-01-02 03:04:05'", "'then'"),
        ("TIMESTAMP NULL", "'2026-01-02 03:04:05'", "'2026-01-02 03:04:06'", "'then'"),
        ("UUID", "'12345678-1234-5678-9abc-def012345678'", "'02345678-1234-5678-9abc-def012345678'", "'1'"),
        ("INET6", "'::1'", "'::2'", "'x'"),
    ] {
        one.run(&format!(
            "CREATE OR REPLACE TABLE t (v INT, k {column}, body BLOB) ENGINE=QUEUE RATE='9/9' RATE_KEY=k"
        ));
        one.run(&format!("INSERT INTO t VALUES (1, {value}, 'x'), (2, {other}, 'x')"));
        assert_eq!(one.value(&format!("SELECT queue_pause('t', {value})")), Some(1), "{column}");
        assert_eq!(one.column(SEVERAL), [2], "{column}");
        assert_eq!(one.value(&format!("SELECT queue_resume('t', {value})")), Some(1), "{column}");
        assert_eq!(one.column(SEVERAL), [1], "{column}");
        one.value("SELECT queue_end()");
        if !wrong.is_empty() {
            let error = one.error(&format!("SELECT queue_pause('t', {wrong})"));
            assert!(
                error.contains("1210") && error.contains("column 'k' can't have the value"),
                "{column}: {error}"
            );
        }
    }
    let error = one.error("SELECT queue_pause('t', NULL)");
    assert!(error.contains("a row with NULL has no key"), "{error}");
    one.run("CREATE TABLE plain (v INT) ENGINE=QUEUE");
    let error = one.error("SELECT queue_pause('plain', 1)");
    assert!(error.contains("rows of this queue have no keys"), "{error}");
    one.run("CREATE USER worker@localhost");
    one.run("GRANT SELECT, INSERT, DELETE ON types.* TO worker@localhost");
    let error = server.connect_as("worker").error("SELECT queue_resume('types.t', '::1')");
    assert!(error.contains("no privilege for this on types.t"), "{error}");
}

#[test]
fn a_key_is_not_changed_to_fit_its_column() {
    let server = Server::start();
    let mut one = server.connect("types");
    for (column, fit, changed) in [
        ("INT", vec!["7", "'7.0'", "70e-1", "' 7'"], vec!["7.5", "'7.5'", "75e-1", "0.4", "2147483648"]),
        ("BIGINT UNSIGNED", vec!["18446744073709551615.0"], vec!["18446744073709551616", "-1", "6.999999"]),
        ("YEAR", vec!["2026", "26"], vec!["2026.5", "1900"]),
        ("DECIMAL(10,2)", vec!["1.5", "1.550"], vec!["1.555", "'1.555'", "100000000"]),
        ("CHAR(3) COLLATE utf8mb4_bin", vec!["'abc'", "'1.5'"], vec!["'abcd'"]),
        ("VARCHAR(3) COLLATE utf8mb4_bin", vec!["'ab '"], vec!["'abc '"]),
        ("DATE", vec!["'2026.01.02'", "20260102"], vec!["'2026-01-02 03:04:05'", "'2026-02-30'"]),
        (
            "DATETIME",
            vec!["'2026.01.02 03:04:05'", "'2026-01-02 03:04:05.0'"],
            vec!["'2026-01-02 03:04:05.9'"],
        ),
        (
            "DATETIME(3)",
            vec!["'2026-01-02 03:04:05.6780'", "20260102030405.678"],
            vec!["'2026-01-02 03:04:05.6789'", "20260102030405.6789"],
        ),
        ("TIME", vec!["'03:04:05'", "30405"], vec!["'03:04:05.5'", "30405.5", "'3:70:00'"]),
    ] {
        one.run(&format!("CREATE OR REPLACE TABLE t (v INT, k {column}) ENGINE=QUEUE FIFO=k"));
        for value in fit {
            one.run(&format!("INSERT INTO t VALUES (1, {value})"));
            assert_eq!(one.value(&format!("SELECT queue_pause('t', {value})")), Some(1), "{column} {value}");
            assert_eq!(one.column(SEVERAL), [0; 0], "{column} {value}");
            assert_eq!(one.value(&format!("SELECT queue_resume('t', {value})")), Some(1), "{column} {value}");
            assert_eq!(one.column(SEVERAL), [1], "{column} {value}");
            one.value("SELECT queue_end()");
        }
        for value in changed {
            for function in ["queue_pause", "queue_resume"] {
                let error = one.error(&format!("SELECT {function}('t', {value})"));
                assert!(error.contains("column 'k' can't have the value"), "{column} {value}: {error}");
            }
        }
    }
}
