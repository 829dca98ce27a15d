//! Rows that were ended, are kept for a time, and are given again.

use crate::server::{Client, Server};
use crate::transaction::restarted;

#[test]
fn keep() {
    let mut server = restarted(&[]);
    kept(&server);
    given_again(&server);
    in_transactions(&server);
    altered(&server);
    refused(&server);
    killed(&mut server);
}

const ALL: &str = "SELECT v FROM t";

fn take(client: &mut Client, rows: u32) {
    client.value(&format!("SELECT queue_wait_n({rows}, 't', 0)"));
    client.value("SELECT queue_end()");
}

/// What is kept, as another connection sees it.
fn kept_in(server: &Server, database: &str) -> Vec<i64> {
    let mut client = server.connect(database);
    client.run("SET queue_show_kept = ON");
    client.column(ALL)
}

fn kept(server: &Server) {
    let mut one = server.connect("kept");
    one.run("CREATE TABLE t (v INT, body TEXT) ENGINE=QUEUE KEEP=3600");
    one.run("INSERT INTO t SELECT seq, REPEAT('x', seq) FROM seq_1_to_9");
    take(&mut one, 3);
    one.run("DELETE FROM t WHERE v = 7");
    assert_eq!(one.column(ALL), [4, 5, 6, 8, 9]);
    assert_eq!(kept_in(server, "kept"), [1, 2, 3, 7], "DELETE is an end");
    let mut two = server.connect("kept");
    two.run("SET queue_show_kept = ON");
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(4));
    assert_eq!(two.column("SELECT LENGTH(body) FROM t ORDER BY v DESC"), [7, 3, 2, 1]);
    two.run("CREATE TABLE archive SELECT * FROM t");
    let error = two.error("DELETE FROM t");
    assert!(error.contains("SET queue_show_kept = OFF first"), "{error}");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [4], "an owner sees its own rows");
    two.value("SELECT queue_abort()");
    two.run("SET queue_show_kept = OFF");
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(5));
    let columns = "SELECT CONCAT_WS(',', waiting, kept, kept_bytes, replayed) FROM information_schema.queues \
                   WHERE table_schema = 'kept' AND table_name = 't'";
    assert_eq!(one.rows::<String>(columns), ["5,4,53,0"]);
    let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
    for (name, value) in [("kept", "4"), ("bytes_kept", "53"), ("replayed", "0")] {
        let line = status[0].2.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        assert_eq!(line.split_whitespace().last(), Some(value), "{line}");
    }
    // A time that is over.
    one.run("CREATE TABLE s (v INT) ENGINE=QUEUE KEEP=1");
    one.run("INSERT INTO s VALUES (1)");
    one.run("DELETE FROM s");
    let left = "SELECT kept FROM information_schema.queues WHERE table_schema = 'kept' AND table_name = 's'";
    assert_eq!(one.value(left), Some(1));
    while one.value(left) == Some(1) {
        one.value("SELECT SLEEP(0.1)");
    }
    one.run("TRUNCATE t");
    assert_eq!(kept_in(server, "kept"), [0; 0]);
}

fn given_again(server: &Server) {
    let mut one = server.connect("given_again");
    one.run("SET time_zone = '+05:00'");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600");
    one.run("INSERT INTO t SELECT seq FROM seq_1_to_9");
    take(&mut one, 5);
    assert_eq!(one.value("SELECT queue_replay('t', 2, 3)"), Some(2));
    assert_eq!(one.value("SELECT queue_replay('given_again.t', 2, 3)"), Some(0), "they wait");
    assert_eq!(one.column(ALL), [2, 3, 6, 7, 8, 9]);
    assert_eq!(one.value("SELECT queue_replay('t', NOW() + INTERVAL 1 MINUTE, NULL)"), Some(0));
    assert_eq!(one.value("SELECT queue_replay('t', '2000-01-01', '2001-01-01 10:00:00.5')"), Some(0));
    assert_eq!(
        one.value("SELECT queue_replay('t', NOW(6) - INTERVAL 1 MINUTE, NOW() + INTERVAL 2 SECOND)"),
        Some(3)
    );
    assert_eq!(one.column(ALL), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    one.run("DELETE FROM t");
    assert_eq!(one.value("SELECT queue_replay('t', NULL, NULL)"), Some(9));
    assert_eq!(
        one.value("SELECT replayed FROM information_schema.queues WHERE table_schema = 'given_again'"),
        Some(14)
    );
    for (wrong, why) in [
        ("'t', 3, 2", "the start is after the end"),
        ("'t', 1, '2026-01-01'", "two row numbers or two times"),
        ("'t', 'x', NULL", "'x' is neither a row number nor a time"),
        ("'t', '2026-13-01', NULL", "neither"),
        ("'t', '2026-01-01 10:00:00x', NULL", "neither"),
    ] {
        let error = one.error(&format!("SELECT queue_replay({wrong})"));
        assert!(error.contains(why), "{wrong}: {error}");
    }
    one.run("CREATE TABLE plain (v INT) ENGINE=QUEUE");
    let error = one.error("SELECT queue_replay('plain', NULL, NULL)");
    assert!(error.contains("created without KEEP"), "{error}");
    one.run("CREATE USER reader");
    one.run("GRANT SELECT ON given_again.* TO reader");
    let mut reader = server.connect_as("reader");
    let error = reader.error("SELECT queue_replay('given_again.t', NULL, NULL)");
    assert!(error.contains("1142") && error.contains("no privilege"), "{error}");
}

fn in_transactions(server: &Server) {
    let mut one = server.connect("keep_transaction");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600 TRANSACTIONAL=1");
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    one.run("INSERT INTO t VALUES (1), (2)");
    for (end, left) in [("ROLLBACK", vec![]), ("COMMIT", vec![1])] {
        one.run("BEGIN");
        one.run("INSERT INTO i VALUES (1)");
        one.run("INSERT INTO t VALUES (3)");
        one.value("SELECT queue_wait('t', 0)");
        one.value("SELECT queue_end()");
        one.run(end);
        assert_eq!(kept_in(server, "keep_transaction"), left, "{end}");
    }
    assert_eq!(one.column(ALL), [2, 3]);
}

fn altered(server: &Server) {
    let mut one = server.connect("keep_altered");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600");
    one.run("INSERT INTO t SELECT seq FROM seq_1_to_6");
    one.run("DELETE FROM t WHERE v % 2");
    one.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7, KEEP=7200");
    assert_eq!((one.column(ALL), kept_in(server, "keep_altered")), (vec![2, 4, 6], vec![1, 3, 5]));
    let error = one.error("ALTER TABLE t ORDER BY v DESC");
    assert!(error.contains("rows are owned or kept"), "{error}");
    assert_eq!(one.value("SELECT queue_replay('t', 3, 3)"), Some(1));
    one.run("CREATE TABLE copy ENGINE=InnoDB SELECT * FROM t");
    assert_eq!(one.column("SELECT v FROM copy"), [2, 3, 4, 6]);
    one.run("ALTER TABLE t ENGINE=InnoDB");
    assert_eq!(
        one.column("SELECT v FROM t ORDER BY v"),
        [2, 3, 4, 6],
        "what was ended is not in another table"
    );
    one.run("ALTER TABLE t ENGINE=QUEUE KEEP=60");
    one.run("DELETE FROM t WHERE v = 2");
    one.run("ALTER TABLE t KEEP=0");
    assert_eq!((one.column(ALL), kept_in(server, "keep_altered")), (vec![3, 4, 6], vec![]));
    one.run("ALTER TABLE t KEEP=60");
    assert_eq!(kept_in(server, "keep_altered"), [0; 0], "they are gone");
}

fn refused(server: &Server) {
    let mut one = server.connect("keep_refused");
    for keep in ["-1", "315360001"] {
        one.error(&format!("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP={keep}"));
    }
}

fn killed(server: &mut Server) {
    let mut one = server.connect("keep_killed");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600");
    one.run("INSERT INTO t SELECT seq FROM seq_1_to_1000");
    one.run("DELETE FROM t WHERE v % 2");
    assert_eq!(one.value("SELECT queue_replay('t', 1, 100)"), Some(50));
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("keep_killed");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(550));
    assert_eq!(kept_in(server, "keep_killed").len(), 450);
    assert_eq!(one.value("SELECT queue_replay('t', NULL, NULL)"), Some(450));
}
