//! Message groups: rows of the same key are given in order and one at a time.

use crate::server::Server;
use crate::transaction::restarted;

#[test]
fn fifo() {
    let mut server = restarted(&[]);
    in_line(&server);
    keys(&server);
    tries(&server);
    transactions(&server);
    altered(&server);
    several_at_once(&server);
    refused(&server);
    killed(&mut server);
}

const WAIT: &str = "SELECT v FROM t WHERE queue_wait('t', 0)";

fn in_line(server: &Server) {
    let mut one = server.connect("in_line");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE FIFO=k");
    one.run("INSERT INTO t VALUES (1, 7), (2, 7), (3, 8), (4, 7), (5, NULL), (6, NULL)");
    let behind =
        "SELECT waiting, owned, behind FROM information_schema.queues WHERE table_schema = 'in_line'";
    assert_eq!(one.rows::<(i64, i64, i64)>(behind), [(6, 0, 2)]);
    assert_eq!(one.column("SELECT v FROM t"), [1, 2, 3, 4, 5, 6], "all that wait are seen");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [1, 3, 5, 6]);
    let keys = "SELECT keys_busy FROM information_schema.queues WHERE table_schema = 'in_line'";
    assert_eq!(one.value(keys), Some(2));
    let mut two = server.connect("in_line");
    assert_eq!(two.column(WAIT), [0; 0]);
    assert_eq!(
        two.column("SELECT v FROM t WHERE queue_wait('t:v = 4', 0)"),
        [0; 0],
        "a condition changes nothing"
    );
    let status: Vec<(String, String, String)> = two.rows("SHOW ENGINE QUEUE STATUS");
    for name in ["behind", "keys_busy"] {
        let line = status[0].2.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line.split_whitespace().last(), Some("2"), "{line}");
    }
    one.value("SELECT queue_abort()");
    assert_eq!(two.column(WAIT), [1]);
    // Somebody waits for the next one of the key.
    two.run("DELETE FROM t WHERE v = 1");
    one.run("DELETE FROM t WHERE v IN (3, 5, 6)");
    assert_eq!(two.column(WAIT), [2]);
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| server.connect("in_line").column("SELECT v FROM t WHERE queue_wait('t', 60)"));
        one.until_waiting(1);
        two.value("SELECT queue_end()");
        assert_eq!(waits.join().unwrap(), [4]);
    });
}

fn keys(server: &Server) {
    let mut one = server.connect("fifo_keys");
    for (kind, values) in [
        ("VARBINARY(9)", "(1, 'a'), (2, 'A'), (3, 'a'), (4, 'a '), (5, '')"),
        ("VARCHAR(9) COLLATE utf8mb4_bin", "(1, x'c3bc'), (2, x'c39c'), (3, x'c3bc'), (4, 'u'), (5, '')"),
        ("TEXT COLLATE latin1_bin", "(1, 'x'), (2, 'X'), (3, 'x'), (4, 'x '), (5, 'y')"),
        ("CHAR(9) COLLATE latin1_bin", "(1, 'x'), (2, 'X'), (3, 'x '), (4, 'y'), (5, 'z')"),
        ("ENUM('a', 'b', 'c', 'd')", "(1, 'a'), (2, 'b'), (3, 1), (4, 'c'), (5, 'd')"),
        ("DECIMAL(30, 5)", "(1, -0.5), (2, 1), (3, -0.50000), (4, 0.5), (5, 0)"),
        ("INET6", "(1, '::1'), (2, '::2'), (3, '0:0::1'), (4, '::3'), (5, '::4')"),
        (
            "UUID",
            "(1, REPEAT(1, 32)), (2, REPEAT(2, 32)), (3, REPEAT(1, 32)), (4, REPEAT(3, 32)), (5, REPEAT(4, 32))",
        ),
        (
            "TIMESTAMP(3) NULL",
            "(1, FROM_UNIXTIME(5)), (2, FROM_UNIXTIME(6)), (3, FROM_UNIXTIME(5.0)), (4, NULL), (5, NULL)",
        ),
    ] {
        one.run(&format!("CREATE TABLE t (v INT, k {kind}, body TEXT DEFAULT 'x') ENGINE=QUEUE FIFO=K"));
        one.run(&format!("INSERT INTO t (v, k) VALUES {values}"));
        assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [1, 2, 4, 5], "{kind}");
        assert_eq!(one.column(WAIT), [3], "{kind}");
        one.value("SELECT queue_end()");
        one.run("DROP TABLE t");
    }
}

fn tries(server: &Server) {
    let mut one = server.connect("fifo_tries");
    one.run("CREATE TABLE dead (v INT, k INT) ENGINE=QUEUE");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE FIFO=k TRIES=2 BACKOFF='0,1,0' DEAD='dead'");
    one.run("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)");
    let lease = |one: &mut crate::server::Client| {
        let json: Vec<Option<String>> = one.rows("SELECT queue_lease_json(30, 1, 't:k = 1', 0)");
        let json = json[0].clone().unwrap();
        let v = json.split("\"v\":").nth(1).unwrap().split(',').next().unwrap().parse::<i64>().unwrap();
        (v, json.split('"').nth(3).unwrap().to_owned())
    };
    let (v, token) = lease(&mut one);
    assert_eq!(v, 1);
    assert_eq!(one.value(&format!("SELECT queue_nack('{token}', 3600)")), Some(1));
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [3], "its key waits with it");
    one.value("SELECT queue_abort()");
    one.run("ALTER TABLE t BACKOFF='0,1,0' TRIES=1");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [3], "also in the copy");
    one.value("SELECT queue_abort()");
    one.run("DELETE FROM t");
    one.run("INSERT INTO t VALUES (4, 5), (5, 5)");
    let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 1, 't:k = 5', 0)");
    let token = json[0].split('"').nth(3).unwrap().to_owned();
    assert_eq!(one.value(&format!("SELECT queue_nack('{token}')")), Some(1));
    assert_eq!((one.column("SELECT v FROM dead"), one.column(WAIT)), (vec![4], vec![5]));
}

fn transactions(server: &Server) {
    let mut one = server.connect("fifo_transaction");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE FIFO=k TRANSACTIONAL=1");
    one.run("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)");
    one.run("BEGIN");
    assert_eq!((one.column(WAIT), one.column(WAIT), one.column(WAIT)), (vec![1], vec![3], vec![]));
    let mut two = server.connect("fifo_transaction");
    assert_eq!(two.column(WAIT), [0; 0]);
    one.run("ROLLBACK");
    assert_eq!(two.column(WAIT), [1]);
    two.value("SELECT queue_abort()");
    one.run("BEGIN");
    assert_eq!(one.column(WAIT), [1]);
    one.run("COMMIT");
    assert_eq!(two.column(WAIT), [2]);
    two.value("SELECT queue_end()");
    // An XA transaction that is prepared holds the key of the row that it adds.
    one.run("XA START 'x'");
    one.run("INSERT INTO t VALUES (4, 9)");
    one.run("XA END 'x'");
    one.run("XA PREPARE 'x'");
    two.run("INSERT INTO t VALUES (5, 9)");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t:k = 9', 0)"), [0; 0]);
    one.run("XA COMMIT 'x'");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t:k = 9', 0)"), [4]);
}

fn altered(server: &Server) {
    let mut one = server.connect("altered_fifo");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)");
    let mut given = |alter: &str, expected: &[i64]| {
        one.run(alter);
        assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), expected, "{alter}");
        one.value("SELECT queue_abort()");
    };
    given("ALTER TABLE t FIFO=k", &[1, 3]);
    given("ALTER TABLE t RENAME COLUMN k TO q, FIFO=q", &[1, 3]);
    given("ALTER TABLE t FIFO=v", &[1, 2, 3]);
    given("ALTER TABLE t FIFO=''", &[1, 2, 3]);
    given("ALTER TABLE t FIFO=q PRIORITY=v", &[1, 3]);
    let error = one.error("ALTER TABLE t RENAME COLUMN q TO r");
    assert!(error.contains("change the option too"), "{error}");
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`FIFO`='q'"), "{}", create[0].1);
    let mut owner = server.connect("altered_fifo");
    assert_eq!(owner.column(WAIT), [1]);
    one.run("ALTER TABLE t PRIORITY=''");
    assert_eq!(one.column(WAIT), [3], "whoever has a row of a key keeps it, and the key waits");
    owner.value("SELECT queue_end()");
    assert_eq!(one.column(WAIT), [2]);
}

/// CONCURRENCY: how many rows of a key may be owned at once.
fn several_at_once(server: &Server) {
    let mut one = server.connect("several_at_once");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE FIFO=k CONCURRENCY=2");
    one.run("INSERT INTO t VALUES (1, 7), (2, 7), (3, 7), (4, 7), (5, 8)");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [1, 2, 5]);
    let mut two = server.connect("several_at_once");
    assert_eq!(two.column(WAIT), [0; 0]);
    one.run("DELETE FROM t WHERE v = 1");
    assert_eq!(two.column(WAIT), [3]);
    // Two others are owned already: with one at a time nobody gets the fourth before both have ended.
    two.run("ALTER TABLE t CONCURRENCY=1");
    let mut three = server.connect("several_at_once");
    assert_eq!(three.column(WAIT), [0; 0]);
    one.value("SELECT queue_end()");
    assert_eq!(three.column(WAIT), [0; 0]);
    three.run("ALTER TABLE t CONCURRENCY=1000");
    assert_eq!(three.column(WAIT), [4]);
    let create: Vec<(String, String)> = three.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`CONCURRENCY`='1000'"), "{}", create[0].1);
}

fn refused(server: &Server) {
    let mut one = server.connect("refused_fifo");
    for (column, options, why) in [
        ("k VARCHAR(20) COLLATE utf8mb4_general_ci", "FIFO=k", "a _bin collation"),
        ("k DOUBLE", "FIFO=k", "can't be the key of FIFO"),
        ("k SET('a', 'b')", "FIFO=k", "can't be the key of FIFO"),
        ("k BIT(9)", "FIFO=k", "can't be the key of FIFO"),
        ("k POINT", "FIFO=k", "can't be the key of FIFO"),
        ("k VARBINARY(300) COMPRESSED", "FIFO=k", "can't be the key of FIFO"),
        ("k INT NULL", "FIFO=k FAILED=k", "FAILED, WHY or TOKEN"),
        ("k INT", "FIFO=q", "FIFO='q' is not a column"),
        ("k INT", "CONCURRENCY=2", "CONCURRENCY needs FIFO"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT, {column}) ENGINE=QUEUE {options}"));
        assert!(error.contains(why), "{column} {options}: {error}");
    }
}

fn killed(server: &mut Server) {
    let mut one = server.connect("killed_fifo");
    one.run("CREATE TABLE t (v INT, k VARCHAR(10) COLLATE ascii_bin) ENGINE=QUEUE FIFO=k");
    one.run("INSERT INTO t SELECT seq, CONCAT('k', seq % 10) FROM seq_1_to_1000");
    let expected: Vec<i64> = (1..=10).collect();
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(2000, 't', 0)"), expected);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("killed_fifo");
    for round in 0..100 {
        let expected: Vec<i64> = (round * 10 + 1..=round * 10 + 10).collect();
        assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(2000, 't', 0)"), expected);
    }
    one.value("SELECT queue_end()");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}
