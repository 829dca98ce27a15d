//! How many rows are given within a time, and priorities that age.

use crate::server::Server;

const WAIT: &str = "SELECT v FROM t WHERE queue_wait('t', 0)";

#[test]
fn a_rate_is_kept_by_all_who_take() {
    let server = Server::start();
    let mut one = server.connect("rate");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE RATE='3/3600'");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4), (5)");
    let mut two = server.connect("rate");
    assert_eq!(two.column(WAIT), [1]);
    let leased: Vec<String> = one.rows("SELECT queue_lease_json(3600, 9, 't', 0)");
    assert_eq!(leased[0].matches("token").count(), 2, "{}", leased[0]);
    assert_eq!(one.column(WAIT), [0; 0]);
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`RATE`='3/3600'"), "{}", create[0].1);
    // Who waits is given a row as soon as one may be given, though nothing else happens.
    one.run("ALTER TABLE t RATE='1/1'");
    assert_eq!(two.column(WAIT), [4]);
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t', 60)"), [5]);
}

#[test]
fn a_rate_is_kept_for_each_key() {
    let server = Server::start();
    let mut one = server.connect("rate_key");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE RATE='2/2' RATE_KEY=k");
    one.run("INSERT INTO t VALUES (1, 7), (2, 7), (3, 7), (4, 8), (5, NULL), (6, NULL), (7, NULL)");
    let behind = "SELECT behind FROM information_schema.queues WHERE table_schema = 'rate_key'";
    assert_eq!(one.value(behind), Some(1));
    let mut two = server.connect("rate_key");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [1, 2, 4, 5, 6, 7]);
    assert_eq!(one.column(WAIT), [0; 0]);
    // Who waits is given the row as soon as its key may be given one, though nothing else happens.
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 60)"), [3]);
    two.run("INSERT INTO t VALUES (8, 7), (9, 7)");
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`RATE`='2/2' `RATE_KEY`='k'"), "{}", create[0].1);
    one.run("ALTER TABLE t RATE='' RATE_KEY=''");
    let mut three = server.connect("rate_key");
    assert_eq!(three.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [8, 9]);
}

#[test]
fn a_row_that_waited_long_comes_before_one_that_is_more_urgent() {
    let server = Server::start();
    let mut one = server.connect("age");
    one.run("CREATE TABLE t (v INT, p INT) ENGINE=QUEUE PRIORITY=p AGE=1");
    one.run("INSERT INTO t VALUES (1, 1)");
    one.run("DO SLEEP(2.1)");
    one.run("INSERT INTO t VALUES (2, 0), (3, -5)");
    let in_order = "SELECT v FROM t WHERE queue_wait_n(9, 't', 0)";
    assert_eq!(one.column(in_order), [3, 1, 2]);
    one.value("SELECT queue_abort()");
    one.run("ALTER TABLE t AGE=0");
    assert_eq!(one.column(in_order), [3, 2, 1]);
}

#[test]
fn limits_that_are_none_are_refused() {
    let server = Server::start();
    let mut one = server.connect("refused_limits");
    for (options, why) in [
        ("RATE='5'", "RATE: '5' is not ROWS/SECONDS"),
        ("RATE='0/5'", "is not ROWS/SECONDS"),
        ("RATE='5/90000'", "is not ROWS/SECONDS"),
        ("KEEP=9 READERS='x' RATE='5/5'", "READERS can't be combined with RATE"),
        ("KEEP=9 READERS='x' RATE='5/5' RATE_KEY='v'", "READERS can't be combined with RATE"),
        ("RATE_KEY='v'", "RATE_KEY needs RATE"),
        ("RATE='5/5' RATE_KEY='q'", "RATE_KEY='q' is not a column"),
        ("RATE='5/5' RATE_KEY='x'", "can't be the key of RATE_KEY"),
        ("RATE='5/5' RATE_KEY='v' FIFO='y'", "RATE_KEY must be the column of FIFO"),
        ("AGE=5", "AGE needs PRIORITY"),
        ("CONCURRENCY=5", "CONCURRENCY needs FIFO"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT, x FLOAT, y INT) ENGINE=QUEUE {options}"));
        assert!(error.contains(why), "{options}: {error}");
    }
    // The server itself reads a number as far as there are digits.
    for (options, value) in [("KEEP='1d'", "1d"), ("TRIES='3 times'", "3 times"), ("DEDUPE_FOR=''", "")] {
        let error = one.error(&format!("CREATE TABLE t (v INT) ENGINE=QUEUE {options}"));
        assert!(error.contains(&format!("Incorrect value '{value}' for option")), "{options}: {error}");
    }
    one.run("CREATE TABLE whole (v INT) ENGINE=QUEUE KEEP='86400'");
    assert!(one.error("ALTER TABLE whole KEEP='2d'").contains("Incorrect value '2d'"));
    one.run("SET sql_mode = 'STRICT_TRANS_TABLES'");
    for options in ["CONCURRENCY=0", "CONCURRENCY=1001", "AGE=-1"] {
        one.error(&format!("CREATE TABLE t (v INT, p INT) ENGINE=QUEUE FIFO=v PRIORITY=p {options}"));
    }
}
