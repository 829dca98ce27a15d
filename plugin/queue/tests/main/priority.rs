//! Priorities: rows say before which others they are given.

use crate::server::Server;

#[test]
fn priority() {
    let mut server = Server::start();
    in_order(&server);
    with_others(&server);
    altered(&server);
    refused(&server);
    killed(&mut server);
}

fn in_order(server: &Server) {
    let mut one = server.connect("in_order");
    one.run("CREATE TABLE t (v INT, p TINYINT) ENGINE=QUEUE PRIORITY=p");
    one.run("INSERT INTO t VALUES (1, 5), (2, NULL), (3, -2), (4, 0), (5, 5)");
    assert_eq!(
        one.column("SELECT v FROM t"),
        [1, 2, 3, 4, 5],
        "who does not take sees them as they were inserted"
    );
    let wait = "SELECT v FROM t WHERE queue_wait('t', 0)";
    assert_eq!(one.column(wait), [3]);
    one.value("SELECT queue_abort()");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(4, 't', 0)"), [3, 2, 4, 1]);
    let mut two = server.connect("in_order");
    assert_eq!(two.column(wait), [5]);
    drop(two);
    one.value("SELECT queue_abort()");
    // The server may notice a little later that somebody has gone.
    for v in [3, 2, 4, 1, 5] {
        assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 60)"), [v]);
    }
    // One who waits is given the first of several.
    one.value("SELECT queue_end()");
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| server.connect("in_order").column("SELECT v FROM t WHERE queue_wait('t', 60)"));
        one.until_waiting(1);
        one.run("INSERT INTO t VALUES (6, 2), (7, 1), (8, 3)");
        assert_eq!(waits.join().unwrap(), [7]);
    });
}

fn with_others(server: &Server) {
    let mut one = server.connect("with_others");
    one.run("CREATE TABLE t (p INT, at INT, v INT, f INT NULL) ENGINE=QUEUE PRIORITY=p DUE=at FAILED=f BACKOFF='0,1,0'");
    one.run("INSERT INTO t (p, at, v) VALUES (9, 0, 1), (1, 2000000000, 2), (5, NULL, 3), (5, 0, 4)");
    let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 2, 't', 0)");
    let places = [json[0].find(r#""v":3"#), json[0].find(r#""v":4"#), json[0].find(r#""v":1"#)];
    assert!(places[0] < places[1] && places[0].is_some() && places[2].is_none(), "{}", json[0]);
    let token = json[0].split('"').nth(3).unwrap().to_owned();
    assert_eq!(one.value(&format!("SELECT queue_nack('{token}')")), Some(1));
    let again: Vec<(i64, i64)> = one.rows("SELECT v, f FROM t WHERE queue_wait('t:p > 1', 0)");
    assert_eq!(again, [(3, 1)], "the row that failed is in its place again");
}

fn altered(server: &Server) {
    let mut one = server.connect("altered_priority");
    one.run("CREATE TABLE t (v INT, p INT) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1, 3), (2, 2), (3, 1)");
    let wait = "SELECT v FROM t WHERE queue_wait_n(9, 't', 0)";
    let mut order = |alter: &str, expected: [i64; 3]| {
        one.run(alter);
        assert_eq!(one.column(wait), expected, "{alter}");
        one.value("SELECT queue_abort()");
    };
    order("ALTER TABLE t PRIORITY=p", [3, 2, 1]);
    order("ALTER TABLE t RENAME COLUMN p TO q, PRIORITY=q", [3, 2, 1]);
    order("ALTER TABLE t PRIORITY=v", [1, 2, 3]);
    order("ALTER TABLE t PRIORITY=''", [1, 2, 3]);
    order("ALTER TABLE t PRIORITY=q", [3, 2, 1]);
    let error = one.error("ALTER TABLE t RENAME COLUMN q TO r");
    assert!(error.contains("change the option too"), "{error}");
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`PRIORITY`='q'"), "{}", create[0].1);
}

fn refused(server: &Server) {
    let mut one = server.connect("refused_priority");
    for (column, options, why) in [
        ("p VARCHAR(20)", "PRIORITY=p", "can't be used for PRIORITY"),
        ("p DECIMAL(5,2)", "PRIORITY=p", "can't be used for PRIORITY"),
        ("p TIMESTAMP", "PRIORITY=p", "can't be used for PRIORITY"),
        ("p INT NULL", "PRIORITY=p FAILED=p", "FAILED, WHY or TOKEN"),
        ("p INT", "PRIORITY=q", "PRIORITY='q' is not a column"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT, {column}) ENGINE=QUEUE {options}"));
        assert!(error.contains(why), "{column} {options}: {error}");
    }
}

fn killed(server: &mut Server) {
    let mut one = server.connect("killed_priority");
    one.run("CREATE TABLE t (v INT, p BIGINT UNSIGNED) ENGINE=QUEUE PRIORITY=p");
    one.run("INSERT INTO t SELECT seq, 1000 - seq FROM seq_1_to_1000");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [1000]);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("killed_priority");
    let expected: Vec<i64> = (1..=1000).rev().collect();
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(2000, 't', 0)"), expected);
}
