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
        ("AGE=5", "AGE needs PRIORITY"),
        ("CONCURRENCY=5", "CONCURRENCY needs FIFO"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT) ENGINE=QUEUE {options}"));
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
