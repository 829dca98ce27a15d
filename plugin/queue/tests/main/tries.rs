//! Tries of a row: how many, the wait between them, and the queue for rows that have none left.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

/// What a row in the table for rows without tries left shows: `v`, `failed`, `why`.
type Died = (i64, Option<i64>, Option<String>);

fn token(client: &mut Client, table: &str) -> String {
    let sql = format!("SELECT queue_lease_json(30, 1, '{table}', 0)");
    let json: Vec<String> = client.rows(&sql);
    json[0].split("\"token\":\"").nth(1).expect("a row waits").split('"').next().unwrap().to_owned()
}

fn nack(client: &mut Client, table: &str, more: &str) -> Option<i64> {
    let token = token(client, table);
    client.value(&format!("SELECT queue_nack('{token}'{more})"))
}

const NOTED: &str = "failed INT NULL, why VARCHAR(100) NULL) ENGINE=QUEUE FAILED=failed WHY=why";

#[test]
fn policies() {
    let server = Server::start();
    dies_with_its_reason(&server);
    waits_longer(&server);
    ended_connections(&server);
    dead_missing(&server);
    noted_columns(&server);
    refused(&server);
    alter(&server);
    seen(&server);
    nothing_moves_in_a_backup(&server);
}

fn nothing_moves_in_a_backup(server: &Server) {
    let (mut one, mut other) = (server.connect("backup"), server.connect("backup"));
    one.run(&format!("CREATE TABLE dead (v INT, {NOTED}"));
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE TRIES=1 DEAD='dead'");
    one.run("INSERT INTO t VALUES (1)");
    let token = token(&mut one, "t");
    for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        other.run(&format!("BACKUP STAGE {stage}"));
    }
    one.value(&format!("SELECT queue_nack('{token}')"));
    let warning = one.warning();
    assert!(warning.contains("a backup of the server is running"), "{warning}");
    one.run("SET queue_show_owned = ON");
    assert_eq!((one.column("SELECT v FROM t"), one.column("SELECT v FROM dead")), (vec![1], vec![]));
    other.run("BACKUP STAGE END");
    while !one.column("SELECT v FROM t").is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(one.column("SELECT v FROM dead"), [1]);
}

fn dies_with_its_reason(server: &Server) {
    let mut one = server.connect("dies");
    one.run(&format!("CREATE TABLE dead (v INT, body TEXT, {NOTED}"));
    one.run("CREATE TABLE t (v INT, body TEXT) ENGINE=QUEUE TRIES=2 DEAD='dead'");
    one.run("INSERT INTO t VALUES (1, 'x'), (2, 'y')");
    assert_eq!(nack(&mut one, "t", ""), Some(1));
    let again: Vec<String> = one.rows("SELECT queue_lease_json(0.001, 1, 't', 0)");
    assert!(again[0].contains("\"try\":2"), "{}", again[0]);
    // That lease ends by itself.
    while one.column("SELECT v FROM dead").is_empty() {
        std::thread::yield_now();
    }
    let died: Vec<Died> = one.rows("SELECT v, failed, why FROM dead");
    assert_eq!(died, [(1, Some(2), None)]);
    assert_eq!(nack(&mut one, "t", ", 0, 'no such host'"), Some(1));
    let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 1, 't', 0)");
    assert!(json[0].contains(r#""row":{"v":2,"body":"y"},"why":"no such host""#), "{}", json[0]);
    let token = json[0].split('"').nth(3).unwrap().to_owned();
    one.value(&format!("SELECT queue_nack('{token}', NULL, 'still \u{e4}')"));
    let died: Vec<Died> = one.rows("SELECT v, failed, why FROM dead ORDER BY v DESC LIMIT 1");
    assert_eq!(died, [(2, Some(2), Some("still \u{e4}".to_owned()))]);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
    // Back again, as new rows.
    one.run("INSERT INTO t SELECT v, body FROM dead WHERE queue_wait('dead', 0)");
    one.run("DO queue_end()");
    assert_eq!(one.column("SELECT v FROM t"), [1]);
    assert_eq!(one.column("SELECT v FROM dead"), [2]);
}

fn waits_longer(server: &Server) {
    let mut one = server.connect("waits_longer");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE BACKOFF='0.2,3600,7200'");
    one.run("INSERT INTO t VALUES (1)");
    assert_eq!(nack(&mut one, "t", ""), Some(1));
    assert!(one.column("SELECT v FROM t").is_empty());
    // A waiter is woken.
    let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 1, 't', 60)");
    let token = json[0].split('"').nth(3).unwrap().to_owned();
    one.value(&format!("SELECT queue_nack('{token}')"));
    let left = "SELECT TIMESTAMPDIFF(MINUTE, NOW(), until) FROM information_schema.queue_owned \
                WHERE table_schema = 'waits_longer'";
    assert!((10..=12).contains(&one.value(left).unwrap()), "0.2 * 3600 seconds");
}

fn ended_connections(server: &Server) {
    let mut one = server.connect("ended");
    one.run(&format!("CREATE TABLE dead (v INT, {NOTED}"));
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE TRIES=2 DEAD='ended.dead'");
    one.run("INSERT INTO t VALUES (1)");
    let tries = |one: &mut Client| {
        let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 1, 't', 60)");
        let token = json[0].split('"').nth(3).unwrap().to_owned();
        one.value(&format!("SELECT queue_release('{token}')"));
        json[0].contains("\"try\":2")
    };
    one.value("SELECT queue_wait('t')");
    one.value("SELECT queue_abort()");
    assert!(!tries(&mut one), "an abort is no failed try");
    let mut two = server.connect("ended");
    two.value("SELECT queue_wait('t')");
    drop(two);
    assert!(tries(&mut one));
    let mut two = server.connect("ended");
    two.value("SELECT queue_wait('t')");
    one.run(&format!("KILL {}", two.connection_id()));
    while one.column("SELECT v FROM dead").is_empty() {
        std::thread::yield_now();
    }
    let sql =
        "SELECT tries_cut FROM information_schema.queues WHERE table_schema = 'ended' AND table_name = 't'";
    assert_eq!(one.value(sql), Some(2));
}

fn dead_missing(server: &Server) {
    let mut one = server.connect("missing");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE TRIES=1 DEAD='grave'");
    assert!(one.warning().contains("there is no queue missing.grave"));
    one.run("INSERT INTO t VALUES (1)");
    assert_eq!(nack(&mut one, "t", ""), Some(1));
    let warning = one.warning();
    assert!(
        warning.contains("stay in it and are not delivered") && warning.contains("no queue"),
        "{warning}"
    );
    let kept =
        "SELECT dead FROM information_schema.queues WHERE table_schema = 'missing' AND table_name = 't'";
    assert_eq!(one.value(kept), Some(1));
    assert!(one.column("SELECT v FROM t").is_empty());
    one.run("SET queue_show_owned = ON");
    assert_eq!(one.column("SELECT v FROM t"), [1]);
    one.run("SET queue_show_owned = OFF");
    one.run("CREATE TABLE grave (v INT) ENGINE=QUEUE");
    // It is there before it is gone here.
    while one.value(kept) != Some(0) {
        std::thread::yield_now();
    }
    assert_eq!(one.column("SELECT v FROM grave"), [1]);
}

fn noted_columns(server: &Server) {
    let mut one = server.connect("noted");
    one.run(
        "CREATE TABLE t (f BIGINT NULL, v INT NOT NULL, n INT NULL, body TEXT, k VARCHAR(80) NULL, w TEXT NULL) \
         ENGINE=QUEUE FAILED=f WHY=w TOKEN=K",
    );
    one.run("INSERT INTO t VALUES (7, 1, NULL, 'one', 'k', 'w'), (NULL, 2, 5, NULL, NULL, NULL)");
    type Noted = (Option<i64>, i64, Option<i64>, Option<String>, Option<String>, Option<String>);
    let rows: Vec<Noted> = one.rows("SELECT * FROM t");
    let body = Some("one".to_owned());
    assert_eq!(rows, [(Some(0), 1, None, body, None, None), (Some(0), 2, Some(5), None, None, None)]);
    let leased: Vec<(i64, String)> =
        one.rows("SELECT v, k FROM t WHERE queue_lease(30, 2, 't', 0) ORDER BY v DESC");
    assert_eq!(leased.iter().map(|(v, _)| *v).collect::<Vec<_>>(), [2, 1]);
    assert!(leased.iter().all(|(_, token)| token.starts_with("noted.t:")), "{leased:?}");
    assert_ne!(leased[0].1, leased[1].1, "each row has its own");
    one.run("SET queue_show_owned = ON");
    let tokens: Vec<Option<String>> = one.rows("SELECT k FROM t");
    assert_eq!(tokens, [None, None], "nobody else sees them");
    one.run("SET queue_show_owned = OFF");
    assert_eq!(one.value(&format!("SELECT queue_nack('{}', 0, 'odd')", leased[1].1)), Some(1));
    assert_eq!(one.value(&format!("SELECT queue_ack('{}')", leased[0].1)), Some(1));
    let rows: Vec<(i64, i64, String)> = one.rows("SELECT f, v, w FROM t WHERE queue_wait('t:v = 1')");
    assert_eq!(rows, [(1, 1, "odd".to_owned())]);
    one.value("SELECT queue_abort()");
    let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 1, 't', 0)");
    assert!(json[0].contains(r#""row":{"v":1,"n":null,"body":"one"},"why":"odd"}"#), "{}", json[0]);
    assert_eq!(one.value("SELECT queue_wait('t:f = 1', 0)"), None, "not a part of the row");
}

fn refused(server: &Server) {
    let mut one = server.connect("refused_policy");
    one.run("CREATE TABLE other (w INT) ENGINE=QUEUE");
    one.run("CREATE TABLE one (v INT) ENGINE=QUEUE TRIES=1 DEAD='two'");
    one.run("CREATE TABLE two (v INT) ENGINE=QUEUE TRIES=1 DEAD='three'");
    for cyclic in [
        "CREATE TABLE three (v INT) ENGINE=QUEUE TRIES=1 DEAD='one'",
        "ALTER TABLE other TRIES=1 DEAD='other'",
    ] {
        let error = one.error(cyclic);
        assert!(error.contains("this table"), "{cyclic}: {error}");
    }
    one.run("CREATE TABLE three (v INT) ENGINE=QUEUE");
    assert!(one.error("ALTER TABLE three TRIES=1 DEAD='one'").contains("leads back to this table"));
    one.run("ALTER TABLE one DEAD='three'");
    one.run("CREATE TABLE four (v INT) ENGINE=QUEUE TRIES=1 DEAD='one'");
    one.run("DROP TABLE three");
    assert!(one.error("RENAME TABLE four TO three").contains("DEAD of this table leads"));
    for (options, why) in [
        ("BACKOFF='1,2'", "is not FIRST,FACTOR,MAX"),
        ("DEAD='other'", "DEAD needs TRIES"),
        ("TRIES=3 DEAD='other'", "other columns"),
        ("TRIES=3 DEAD='t'", "is this table"),
        ("FAILED=x", "FAILED='x' is not a column"),
        ("FAILED=s", "can't show FAILED"),
        ("WHY=v", "can't show WHY"),
        ("TOKEN=m", "can't show TOKEN"),
    ] {
        let create = "CREATE TABLE t (v INT NULL, s TEXT NULL, m VARCHAR(9) NOT NULL) ENGINE=QUEUE";
        let error = one.error(&format!("{create} {options}"));
        assert!(error.contains(why), "{options}: {error}");
    }
    one.run("CREATE USER poor");
    one.run("GRANT ALL ON refused_policy.* TO poor");
    one.run("CREATE DATABASE others");
    one.run("CREATE TABLE others.q (v INT) ENGINE=QUEUE");
    let mut poor = server.connect_as("poor");
    poor.run("USE refused_policy");
    let error = poor.error("CREATE TABLE u (v INT) ENGINE=QUEUE TRIES=1 DEAD='others.q'");
    assert!(error.contains("can't be used"), "{error}");
    one.run("CREATE TABLE u (v INT, w TEXT NULL) ENGINE=QUEUE WHY=w");
    let error = one.error("ALTER TABLE u RENAME COLUMN w TO x");
    assert!(error.contains("change the option too"), "{error}");
    one.run("ALTER TABLE u RENAME COLUMN w TO x, WHY=x");
    one.run("CREATE TABLE plain (v INT) ENGINE=QUEUE");
    one.run("INSERT INTO plain VALUES (1)");
    assert_eq!(nack(&mut one, "plain", ", 0, 'why'"), Some(1));
    let warning = one.warning();
    assert!(warning.contains("refused_policy.plain keeps no reasons"), "{warning}");
}

fn alter(server: &Server) {
    let mut one = server.connect("altered_policy");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE TRIES=1");
    one.run("INSERT INTO t VALUES (1), (2)");
    assert_eq!(nack(&mut one, "t", ", 0, 'bad'"), Some(1));
    assert_eq!(one.column("SELECT v FROM t"), [2], "it has no tries left, and stays");
    one.run(&format!("CREATE TABLE dead (v INT, {NOTED}"));
    one.run("ALTER TABLE t DEAD='dead'");
    while one.column("SELECT v FROM dead").is_empty() {
        std::thread::yield_now();
    }
    let died: Vec<Died> = one.rows("SELECT * FROM dead");
    assert_eq!(died, [(1, Some(1), Some("bad".to_owned()))]);
    one.run("ALTER TABLE dead ADD COLUMN w INT FIRST");
    assert_eq!(nack(&mut one, "t", ", 0, 'worse'"), Some(1));
    assert!(one.warning().contains("other columns"));
    one.run("ALTER TABLE t ADD COLUMN w INT FIRST");
    while one.column("SELECT v FROM dead").len() < 2 {
        std::thread::yield_now();
    }
    let died: Vec<Died> = one.rows("SELECT v, failed, why FROM dead ORDER BY v");
    assert_eq!(died[1], (2, Some(1), Some("worse".to_owned())));
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`TRIES`='1' `DEAD`='dead'"), "{}", create[0].1);
}

fn seen(server: &Server) {
    let mut one = server.connect("seen_policy");
    one.run("CREATE TABLE dead (v INT) ENGINE=QUEUE");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE TRIES=1 DEAD='dead'");
    one.run("INSERT INTO t VALUES (1)");
    nack(&mut one, "t", "");
    let counts: Vec<(i64, i64, i64)> = one.rows(
        "SELECT dead, buried, leases_failed FROM information_schema.queues \
         WHERE table_schema = 'seen_policy' AND table_name = 't'",
    );
    assert_eq!(counts, [(0, 1, 1)]);
    let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
    assert!(status[0].2.contains("buried") && status[0].2.contains("dead"), "{}", status[0].2);
}

#[test]
fn a_worker_that_dies_in_a_transaction_has_tried() {
    let mut server = Server::start();
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("x");
    one.run("CREATE TABLE dead (v INT) ENGINE=QUEUE TRANSACTIONAL=1");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE TRANSACTIONAL=1 TRIES=1 DEAD='dead'");
    one.run("INSERT INTO t VALUES (1)");
    one.run("BEGIN");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [1]);
    one.run("ROLLBACK");
    assert_eq!(one.column("SELECT v FROM t"), [1], "that was none");
    let mut two = server.connect("x");
    two.run("BEGIN");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [1]);
    two.reset().unwrap();
    assert_eq!(one.column("SELECT v FROM t"), [1], "neither is that of a pool");
    let mut two = server.connect("x");
    two.run("BEGIN");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [1]);
    drop(two);
    while one.column("SELECT v FROM dead").is_empty() {
        std::thread::yield_now();
    }
    // A server that stops is no failed try.
    one.run("INSERT INTO t VALUES (2)");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [2]);
    server.0.stop().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("x");
    assert_eq!(one.column("SELECT v FROM t"), [2]);
    assert_eq!(one.column("SELECT v FROM dead"), [1]);
}

/// How a worker fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    /// Its transaction is rolled back, and it says that the work failed.
    Rollback,
    Deadlock,
    Savepoint,
    /// A pool resets its connection meanwhile.
    Reset,
    /// Its connection ends in the transaction.
    Closed,
    Killed,
    /// The row does not fit into what its client takes.
    TooLarge,
}

/// A row that no worker can do is tried as often as TRIES says, whatever becomes of the workers, and is then
/// in the table of DEAD: none is given for ever.
#[test]
fn a_row_that_fails_every_time_runs_out_of_tries() {
    let server = Server::start_with(&["--log-bin=log", "--server-id=1", "--max-allowed-packet=16M"]);
    let mut one = server.connect("poison");
    one.run("CREATE TABLE i (k INT PRIMARY KEY, v INT) ENGINE=InnoDB");
    one.run("INSERT INTO i SELECT seq, 0 FROM seq_1_to_60");
    one.run("CREATE TABLE dead (v INT, body LONGTEXT) ENGINE=QUEUE TRANSACTIONAL=1");
    let lease = "SELECT queue_lease_json(3600, 1, 't', 0)";
    for (transactional, take, fails) in [
        (1, lease, Fails::Rollback),
        (1, lease, Fails::Deadlock),
        (1, lease, Fails::Savepoint),
        (1, lease, Fails::Reset),
        (1, lease, Fails::Closed),
        (1, lease, Fails::Killed),
        (1, "SELECT * FROM t WHERE queue_wait('t', 0)", Fails::Closed),
        (1, "SELECT * FROM t WHERE queue_wait('t', 0)", Fails::TooLarge),
        (0, "SELECT * FROM t WHERE queue_wait('t', 0)", Fails::TooLarge),
        (0, "SELECT * FROM t WHERE queue_lease(3600, 1, 't', 0)", Fails::TooLarge),
        (0, lease, Fails::TooLarge),
    ] {
        one.run(&format!(
            "CREATE OR REPLACE TABLE t (v INT, body LONGTEXT) ENGINE=QUEUE TRANSACTIONAL={transactional} TRIES=2 \
             DEAD='dead'"
        ));
        let bytes = if fails == Fails::TooLarge { 3_000_000 } else { 1 };
        one.run(&format!("INSERT INTO t VALUES (1, REPEAT('x', {bytes}))"));
        for nth in 1..=2 {
            fail(&server, &mut one, transactional == 1, take, fails);
            let sql = "SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_schema = 'poison'";
            while one.value(sql) != Some(0) {
                std::thread::yield_now();
            }
            let there = one.value("SELECT COUNT(*) FROM t");
            assert_eq!(there, Some(2 - nth), "{fails:?}, {take}: after {nth} tries");
        }
        let died: Vec<i64> = one.column("SELECT v FROM dead WHERE queue_wait('dead', 0)");
        assert_eq!(died, [1], "{fails:?}, {take}");
        one.value("SELECT queue_end()");
    }
}

/// A worker takes the row, works in a transaction, and fails.
fn fail(server: &Server, one: &mut Client, transactional: bool, take: &str, fails: Fails) {
    if fails == Fails::TooLarge {
        let mut worker = server.connect_for_small("poison", 1 << 20);
        if transactional {
            worker.run("BEGIN");
        }
        assert!(worker.query::<mysql::Row, _>(take).is_err(), "{take}");
        return;
    }
    let mut worker = server.connect("poison");
    worker.run("BEGIN");
    let taken: Vec<mysql::Row> = worker.rows(take);
    let token = taken[0].get::<String, _>(0).filter(|json| json.starts_with('['));
    let token = token.map(|json| json.split('"').nth(3).unwrap().to_owned());
    worker.run("UPDATE i SET v = v + 1 WHERE k = 1");
    let ended = token
        .as_ref()
        .map_or("SELECT queue_end()".to_owned(), |token| format!("SELECT queue_ack('{token}')"));
    if fails == Fails::Savepoint {
        worker.run("SAVEPOINT s");
    }
    assert_eq!(worker.value(&ended), Some(1), "{ended}");
    match fails {
        Fails::Rollback => worker.run("ROLLBACK"),
        Fails::Deadlock => deadlock(server, one, &mut worker),
        Fails::Savepoint => worker.run("ROLLBACK TO s"),
        Fails::Reset => {
            worker.reset().unwrap();
            worker.run("USE poison");
        }
        Fails::Killed => return one.run(&format!("KILL {}", worker.connection_id())),
        Fails::Closed | Fails::TooLarge => return,
    }
    let token = token.unwrap();
    assert_eq!(worker.value(&format!("SELECT queue_nack('{token}')")), Some(1), "{fails:?}: nack counts");
    worker.run("ROLLBACK");
}

/// InnoDB ends the worker's transaction: the other one has changed more.
fn deadlock(server: &Server, one: &mut Client, worker: &mut Client) {
    let mut other = server.connect("poison");
    other.run("BEGIN");
    other.run("UPDATE i SET v = v + 1 WHERE k > 1");
    scope(|scope| {
        let waits = scope.spawn(|| other.run("UPDATE i SET v = v + 1 WHERE k = 1"));
        let sql = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                   WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'";
        while one.value(sql) != Some(1) {
            std::thread::yield_now();
        }
        assert!(worker.error("UPDATE i SET v = v + 1 WHERE k = 2").contains("1213"));
        waits.join().unwrap();
    });
    other.run("ROLLBACK");
}

/// Rows that all fail, while the server is killed again and again: each is in one of the two tables.
#[test]
fn tries_dead_exactly_once() {
    let mut server = Server::start();
    let mut one = server.connect("k");
    one.run("CREATE TABLE dead (v BIGINT) ENGINE=QUEUE");
    one.run("CREATE TABLE t (v BIGINT) ENGINE=QUEUE TRIES=2 BACKOFF='0.001,1,0' DEAD='dead'");
    let published = Mutex::new(BTreeSet::new());
    for round in 0..6i64 {
        let goal = one.value("SELECT COUNT(*) FROM dead").unwrap() + 100;
        scope(|scope| {
            for worker in 0..3 {
                let (server, published) = (&server, &published);
                scope.spawn(move || {
                    let mut client = server.connect("k");
                    for nth in 0.. {
                        let v = (round * 3 + worker) * 1_000_000 + nth;
                        if client.query_drop(format!("INSERT INTO t VALUES ({v})")).is_err() {
                            return;
                        }
                        published.lock().unwrap().insert(v);
                    }
                });
                scope.spawn(move || {
                    let mut client = server.connect("k");
                    let lease = "SELECT queue_token() FROM t WHERE queue_lease(30, 1, 't', 60)";
                    while let Ok(tokens) = client.query::<String, _>(lease) {
                        let nack = format!("SELECT queue_nack('{}')", tokens[0]);
                        if client.query_drop(nack).is_err() {
                            return;
                        }
                    }
                });
            }
            while one.value("SELECT COUNT(*) FROM dead") < Some(goal) {
                std::thread::yield_now();
            }
            let killed = Command::new("kill").args(["-9", &server.0.pid().to_string()]).status();
            assert!(killed.unwrap().success());
        });
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        one = server.connect("k");
        one.run("SET queue_show_owned = ON");
        // What was on its way arrives when the queue is used.
        one.column("SELECT v FROM t LIMIT 1");
        let settled = "SELECT dead FROM information_schema.queues WHERE table_name = 't'";
        while one.value(settled) != Some(0) {
            std::thread::yield_now();
        }
        let mut there = one.column("SELECT v FROM dead");
        there.extend(one.column("SELECT v FROM t"));
        let set: BTreeSet<i64> = there.iter().copied().collect();
        assert_eq!(set.len(), there.len(), "a row is there twice");
        let lost = published.lock().unwrap().difference(&set).next().copied();
        assert_eq!(lost, None, "after round {round}");
    }
}
