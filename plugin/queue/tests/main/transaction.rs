//! Queues with TRANSACTIONAL=1: what a transaction does in them and in InnoDB happens as a whole, also when
//! the server is killed between the steps of a COMMIT.

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

/// An InnoDB table `i`, a queue `q` with transactions and a queue `t` without.
pub(crate) fn tables(client: &mut Client) {
    client.run("CREATE OR REPLACE TABLE i (v INT PRIMARY KEY) ENGINE=InnoDB");
    client.run("CREATE OR REPLACE TABLE q (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
    client.run("CREATE OR REPLACE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
}

/// How many transactions are open and prepared in `q`, and how many of its rows are in doubt.
fn held(client: &mut Client) -> (i64, i64, i64) {
    let sql = "SELECT transactions, prepared, in_doubt FROM information_schema.queues WHERE table_name = 'q'";
    client.rows(sql).remove(0)
}

/// A server in which the engine takes part in two phases: it was there at the start.
pub(crate) fn restarted(options: &[&str]) -> Server {
    let mut server = Server::start_with(options);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    server
}

#[test]
fn a_transaction_changes_queues_at_commit() {
    let server = restarted(&[]);
    let (mut one, mut two) = (server.connect("x"), server.connect("x"));
    tables(&mut one);
    let table: Vec<(String, String)> = one.rows("SHOW CREATE TABLE q");
    assert!(table[0].1.contains("TRANSACTIONAL=1"), "{}", table[0].1);

    // Rows that it adds.
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (1)");
    one.run("INSERT INTO q VALUES (1), (2)");
    one.run("INSERT INTO q VALUES (3)");
    assert_eq!(two.value("SELECT COUNT(*) FROM q"), Some(0));
    assert_eq!(two.value("SELECT queue_wait('q', 0)"), Some(0));
    two.run("SELECT queue_abort()");
    one.run("ROLLBACK");
    assert_eq!(two.value("SELECT COUNT(*) FROM q"), Some(0));
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (1)");
    one.run("INSERT INTO q VALUES (1), (2)");
    one.run("COMMIT");
    assert_eq!(two.column("SELECT v FROM q"), [1, 2]);
    one.run("INSERT INTO q VALUES (3)");
    assert_eq!(two.column("SELECT v FROM q"), [1, 2, 3], "autocommit");

    // Rows that it takes.
    one.run("BEGIN");
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
    assert_eq!(two.column("SELECT v FROM q"), [2, 3]);
    one.run("INSERT INTO i VALUES (2)");
    one.run("ROLLBACK");
    assert_eq!(two.column("SELECT v FROM q"), [1, 2, 3]);
    assert_eq!(one.column("SELECT v FROM q"), [1, 2, 3], "it owns nothing any more");
    one.run("BEGIN");
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [2]);
    one.run("COMMIT");
    assert_eq!(one.column("SELECT v FROM q"), [3]);
    assert_eq!(one.column("SELECT v FROM i"), [1]);

    // A row that was taken before it begins stays the connection's, until it is ended within.
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [3]);
    one.run("BEGIN");
    one.run("INSERT INTO q VALUES (4)");
    one.run("COMMIT");
    assert_eq!(two.column("SELECT v FROM q"), [4]);
    one.run("BEGIN");
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    one.run("ROLLBACK");
    assert_eq!(two.column("SELECT v FROM q"), [3, 4]);
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [3]);
    assert_eq!(one.value("SELECT queue_end()"), Some(1), "autocommit");
    assert_eq!(two.column("SELECT v FROM q"), [4]);

    // Rows that it deletes.
    one.run("INSERT INTO q VALUES (5), (6)");
    one.run("BEGIN");
    one.run("DELETE FROM q WHERE v <> 5");
    assert_eq!(two.column("SELECT v FROM q"), [5]);
    one.run("ROLLBACK");
    assert_eq!(two.column("SELECT v FROM q"), [4, 5, 6]);
    one.run("DELETE FROM q WHERE v = 5");
    assert_eq!(two.column("SELECT v FROM q"), [4, 6]);
    one.run("DELETE q FROM q JOIN i ON i.v + 3 = q.v");
    assert_eq!(two.column("SELECT v FROM q"), [6]);

    // The queue without transactions goes its own way.
    one.run("BEGIN");
    one.run("INSERT INTO t VALUES (1)");
    one.run("INSERT INTO q VALUES (7)");
    one.run("ROLLBACK");
    assert_eq!((two.column("SELECT v FROM t"), two.column("SELECT v FROM q")), (vec![1], vec![6]));
}

#[test]
fn a_connection_that_goes_takes_its_transaction_back() {
    let server = restarted(&[]);
    let mut two = server.connect("x");
    tables(&mut two);
    two.run("INSERT INTO q VALUES (1)");
    for reset in [false, true] {
        let mut one = server.connect("x");
        one.run("BEGIN");
        one.run("INSERT INTO q VALUES (2)");
        one.value("SELECT queue_wait('q', 0)");
        assert_eq!(two.column("SELECT v FROM q"), [0; 0]);
        if reset {
            one.reset().unwrap();
            assert_eq!(one.column("SELECT v FROM q"), [1]);
        }
        drop(one);
        while two.column("SELECT v FROM q").is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(two.column("SELECT v FROM q"), [1]);
    }
}

/// Where a COMMIT with two phases can be stopped, and whether what it commits is there afterwards.
const POINTS: [(&str, bool); 4] =
    [("before_prepare", false), ("after_prepare", false), ("before_commit", true), ("after_commit", true)];

/// The options of a server whose coordinator is its binary log, and of one whose coordinator is tc.log.
pub(crate) const COORDINATORS: [&[&str]; 2] = [&["--log-bin", "--binlog-format=ROW", "--server-id=1"], &[]];

/// A server that dies at this point of a COMMIT.
fn dying(point: &str, options: &[&str]) -> Server {
    let fault = format!("--loose-queue-fault={point}");
    let mut all = vec![fault.as_str()];
    all.extend(options);
    restarted(&all)
}

/// Runs a statement in which the server dies, and starts it again.
fn die(server: &mut Server, mut client: Client, sql: &str) {
    let lost = client.query_drop(sql).expect_err("it lives").to_string();
    assert!(lost.contains("onnection") || lost.contains("disconnected") || lost.contains("pipe"), "{lost}");
    drop(client);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
}

#[test]
fn a_commit_is_whole_wherever_the_server_is_killed() {
    for coordinator in COORDINATORS {
        for (point, committed) in POINTS {
            let mut server = dying(point, coordinator);
            let mut one = server.connect("x");
            one.run("CREATE TABLE i (v INT PRIMARY KEY) ENGINE=InnoDB");
            one.run("CREATE TABLE q (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
            one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
            one.run("BEGIN");
            // What is there before has no COMMIT in which the server could die.
            one.run("ROLLBACK");
            one.run("XA START 'first'");
            one.run("INSERT INTO q VALUES (1), (2)");
            one.run("XA END 'first'");
            // It dies here unless it has two phases.
            if point == "before_prepare" || point == "after_prepare" {
                die(&mut server, one, "XA PREPARE 'first'");
                one = server.connect("x");
            } else {
                one.run("XA PREPARE 'first'");
                die(&mut server, one, "XA COMMIT 'first'");
                one = server.connect("x");
            }
            let listed = one.rows::<(i64, i64, i64, String)>("XA RECOVER").len();
            assert_eq!(listed, usize::from(point == "after_prepare" || point == "before_commit"), "{point}");
            if listed > 0 {
                one.run("XA COMMIT 'first'");
            }
            let before: &[i64] = if point == "before_prepare" { &[] } else { &[1, 2] };
            assert_eq!(one.column("SELECT v FROM q"), before, "{point}");

            one.run("BEGIN");
            one.run("INSERT INTO i VALUES (3)");
            one.run("INSERT INTO q VALUES (3)");
            one.run("INSERT INTO t VALUES (3)");
            let taken = one.column("SELECT v FROM q WHERE queue_wait('q', 0)");
            assert_eq!(taken, before[..before.len().min(1)]);
            // A table without transactions between phases, which is only read.
            one.run("SELECT COUNT(*) FROM mysql.global_priv");
            die(&mut server, one, "COMMIT");
            let after: Vec<i64> = match committed {
                true => before.iter().copied().skip(1).chain([3]).collect(),
                false => before.to_vec(),
            };
            let added: &[i64] = if committed { &[3] } else { &[] };
            for _ in 0..2 {
                let mut two = server.connect("x");
                assert_eq!(two.column("SELECT v FROM i"), added, "{point} {coordinator:?}");
                assert_eq!(two.column("SELECT v FROM q"), after, "{point} {coordinator:?}");
                assert_eq!(two.column("SELECT v FROM t"), added, "{point} {coordinator:?}");
                drop(two);
                server.0.kill().unwrap();
                server.0.restart().unwrap();
            }
        }
    }
}

#[test]
fn statements_and_savepoints_are_undone_alone() {
    let server = restarted(&[]);
    let (mut one, mut two) = (server.connect("x"), server.connect("x"));
    tables(&mut one);
    one.run("INSERT INTO q VALUES (1), (2), (3)");
    one.run("INSERT INTO i VALUES (9)");

    // A statement that fails.
    one.run("CREATE TRIGGER tr BEFORE INSERT ON i FOR EACH ROW INSERT INTO q VALUES (NEW.v)");
    one.run("BEGIN");
    one.run("INSERT INTO q VALUES (4)");
    assert!(one.error("INSERT INTO i VALUES (7), (8), (9)").contains("Duplicate"));
    one.run("INSERT INTO i VALUES (5)");
    one.run("COMMIT");
    assert_eq!(two.column("SELECT v FROM q"), [1, 2, 3, 4, 5]);
    assert!(one.error("INSERT INTO i VALUES (7), (8), (9)").contains("Duplicate"));
    assert_eq!(two.column("SELECT v FROM q"), [1, 2, 3, 4, 5], "autocommit");
    one.run("INSERT INTO i VALUES (6), (7)");
    assert_eq!(two.column("SELECT v FROM q"), [1, 2, 3, 4, 5, 6, 7], "a trigger's rows, autocommit");
    one.run("DELETE FROM q WHERE v > 3");
    one.run("DROP TRIGGER tr");

    // Savepoints, before and after the queue takes part.
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (20)");
    one.run("SAVEPOINT early");
    one.run("INSERT INTO q VALUES (20)");
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
    one.run("SAVEPOINT late");
    one.run("INSERT INTO q VALUES (21)");
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [2]);
    one.run("ROLLBACK TO late");
    assert_eq!(two.column("SELECT v FROM q"), [2, 3]);
    assert_eq!(one.column("SELECT v FROM q"), [1], "the row that it owned at the savepoint");
    one.run("INSERT INTO q VALUES (22)");
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    assert_eq!(one.column("SELECT v FROM q"), [2, 3]);
    one.run("ROLLBACK TO late");
    one.run("INSERT INTO q VALUES (23)");
    one.run("COMMIT");
    assert_eq!(two.column("SELECT v FROM q"), [2, 3, 20, 23]);
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (30)");
    one.run("SAVEPOINT early");
    one.run("INSERT INTO q VALUES (30)");
    assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [2]);
    one.run("ROLLBACK TO early");
    one.run("INSERT INTO q VALUES (31)");
    one.run("RELEASE SAVEPOINT early");
    one.run("COMMIT");
    assert_eq!(two.column("SELECT v FROM q"), [2, 3, 20, 23, 31]);
}

#[test]
fn a_commit_that_only_ends_a_row_has_two_phases() {
    let mut server = dying("after_prepare", COORDINATORS[0]);
    let mut one = server.connect("x");
    tables(&mut one);
    one.run("INSERT INTO q VALUES (1)");
    assert_eq!(one.value("SELECT queue_wait('q', 0)"), Some(1));
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (1)");
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    die(&mut server, one, "COMMIT");
    let mut one = server.connect("x");
    assert_eq!((one.column("SELECT v FROM i"), one.column("SELECT v FROM q")), (vec![], vec![1]));
}

#[test]
fn a_trigger_deletes_with_its_statement() {
    let server = restarted(&[]);
    let mut one = server.connect("x");
    tables(&mut one);
    one.run("INSERT INTO q VALUES (1), (2), (3)");
    one.run("INSERT INTO i VALUES (3)");
    one.run("CREATE TRIGGER tr BEFORE INSERT ON i FOR EACH ROW DELETE FROM q WHERE v = NEW.v");
    assert!(one.error("INSERT INTO i VALUES (1), (3)").contains("Duplicate"));
    assert_eq!(one.column("SELECT v FROM q"), [1, 2, 3]);
    one.run("INSERT INTO i VALUES (1), (2)");
    assert_eq!(one.column("SELECT v FROM q"), [3]);
    // Such a DELETE tells the handler of each row alone.
    one.run("CREATE OR REPLACE TRIGGER tr BEFORE INSERT ON i FOR EACH ROW DELETE q FROM q JOIN t WHERE q.v = NEW.v + 3");
    one.run("INSERT INTO t VALUES (1)");
    one.run("INSERT INTO q VALUES (13), (14)");
    assert!(one.error("INSERT INTO i VALUES (10), (3)").contains("Duplicate"));
    assert_eq!(one.column("SELECT v FROM q"), [3, 13, 14]);
    one.run("INSERT INTO i VALUES (10)");
    // What a later statement would commit goes back with the connection.
    let number = one.connection_id();
    drop(one);
    let mut two = server.connect("x");
    let still = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number}");
    while two.value(&still) != Some(0) {
        std::thread::yield_now();
    }
    assert_eq!(two.column("SELECT v FROM q"), [3, 14]);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the library is moved away, so that the server starts without it"
)]
fn what_the_server_has_forgotten_is_in_doubt_until_somebody_decides() {
    let mut server = dying("before_commit", COORDINATORS[0]);
    let library = server.0.plugin_dir().join("ha_queue.so");
    let aside = library.with_extension("moved");
    for commit in [true, false] {
        let mut one = server.connect("x");
        tables(&mut one);
        one.run("BEGIN");
        one.run("INSERT INTO i VALUES (1)");
        one.run("INSERT INTO q VALUES (1)");
        assert!(one.query_drop("COMMIT").is_err());
        drop(one);
        server.0.kill().unwrap();
        std::fs::rename(&library, &aside).unwrap();
        server.0.restart().unwrap();
        assert_eq!(server.connect("x").column("SELECT v FROM i"), [1], "its binary log has it");
        server.0.stop().unwrap();
        std::fs::rename(&aside, &library).unwrap();
        server.0.restart().unwrap();
        let mut one = server.connect("x");
        assert_eq!(one.column("SELECT v FROM q"), [0; 0]);
        assert_eq!(held(&mut one), (0, 1, 1));
        let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
        let line = status[0].2.lines().find(|line| line.starts_with("in_doubt")).unwrap();
        assert_eq!(line.split_whitespace().last(), Some("1"), "{line}");
        assert!(one.error("DROP TABLE q").contains("error log"));
        let log = std::fs::read_to_string(server.0.error_log()).unwrap();
        let (_, said) = log.rsplit_once("Queue: transaction ").expect("the log names it");
        let name = said.split(' ').next().unwrap();
        let error = one.error("SELECT queue_resolve('00', 'commit')");
        assert!(error.contains("51006") && error.contains("no transaction of this name"), "{error}");
        assert!(one.error(&format!("SELECT queue_resolve('{name}', 'perhaps')")).contains("1210"));
        one.run("CREATE OR REPLACE USER u");
        assert!(
            server
                .connect_as("u")
                .error(&format!("SELECT queue_resolve('{name}', 'commit')"))
                .contains("SUPER")
        );
        let decision = if commit { "commit" } else { "rollback" };
        assert_eq!(one.value(&format!("SELECT queue_resolve('{name}', '{decision}')")), Some(1));
        assert_eq!(one.column("SELECT v FROM q"), if commit { &[1][..] } else { &[] });
        assert_eq!(held(&mut one), (0, 0, 0));
        assert!(one.error(&format!("SELECT queue_resolve('{name}', '{decision}')")).contains("51006"));
        one.run("DROP TABLE q");
    }
}

#[test]
fn transactions_are_counted_until_they_are_over() {
    let server = restarted(&[]);
    let (mut one, mut two) = (server.connect("x"), server.connect("x"));
    tables(&mut one);
    one.run("INSERT INTO q VALUES (1), (2)");
    assert_eq!(held(&mut two), (0, 0, 0));
    for end in ["ROLLBACK", "COMMIT"] {
        one.run("BEGIN");
        assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
        assert_eq!(held(&mut two), (1, 0, 0), "it has taken a row");
        one.run("INSERT INTO q VALUES (3)");
        assert_eq!(held(&mut two), (1, 0, 0));
        one.run(end);
        assert_eq!(held(&mut two), (0, 0, 0), "{end}");
    }
    one.run("XA START 'x'");
    one.run("INSERT INTO q VALUES (4)");
    assert_eq!(held(&mut two), (1, 0, 0));
    one.run("XA END 'x'");
    one.run("XA PREPARE 'x'");
    assert_eq!(held(&mut two), (0, 1, 0));
    one.run("XA ROLLBACK 'x'");
    assert_eq!(held(&mut two), (0, 0, 0));
    assert_eq!(two.column("SELECT v FROM q"), [2, 3]);
}

#[test]
fn a_transaction_of_xa_waits_for_its_decision() {
    let mut server = restarted(&["--log-bin", "--server-id=1"]);
    let mut one = server.connect("x");
    tables(&mut one);
    for commit in [true, false] {
        one.run("DELETE FROM q");
        one.run("DELETE FROM i");
        one.run("INSERT INTO q VALUES (1), (2)");
        one.run("XA START 'x', 'y', 7");
        one.run("INSERT INTO i VALUES (3)");
        one.run("INSERT INTO q VALUES (3)");
        assert_eq!(one.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
        one.run("XA END 'x', 'y', 7");
        one.run("XA PREPARE 'x', 'y', 7");
        drop(one);
        let mut two = server.connect("x");
        while two.rows::<(i64, i64, i64, String)>("XA RECOVER").is_empty() {
            std::thread::yield_now();
        }
        for statement in ["DROP TABLE q", "TRUNCATE q", "ALTER TABLE q ADD w INT"] {
            // The prepared transaction of this life of the server has its lock on the table.
            two.run("SET lock_wait_timeout=1");
            let error = two.error(statement);
            assert!(error.contains("XA RECOVER") || error.contains("Lock wait"), "{statement}: {error}");
        }
        drop(two);
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        one = server.connect("x");
        for statement in ["DROP TABLE q", "TRUNCATE q", "ALTER TABLE q ADD w INT"] {
            let error = one.error(statement);
            assert!(error.contains("XA RECOVER"), "{statement}: {error}");
        }
        assert_eq!(one.column("SELECT v FROM q"), [2]);
        let listed: Vec<(i64, i64, i64, String)> = one.rows("XA RECOVER");
        assert_eq!(listed, [(7, 1, 1, "xy".to_owned())]);
        one.run(if commit { "XA COMMIT 'x', 'y', 7" } else { "XA ROLLBACK 'x', 'y', 7" });
        assert_eq!(one.column("SELECT v FROM q"), if commit { [2, 3] } else { [1, 2] });
        assert_eq!(one.column("SELECT v FROM i"), if commit { &[3][..] } else { &[] });
        assert!(one.error("XA COMMIT 'x', 'y', 7").contains("XAER_NOTA"));
    }
}

#[test]
fn statements_without_two_phase_commit_are_refused() {
    // Here the engine was installed after the start, and there is no binary log.
    let mut server = Server::start();
    let mut one = server.connect("x");
    let error = one.error("CREATE TABLE q (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
    assert!(error.contains("restart the server"), "{error}");
    drop(one);
    server.0.restart().unwrap();
    let mut one = server.connect("x");
    tables(&mut one);
    one.run("CREATE TABLE a (v INT) ENGINE=Aria TRANSACTIONAL=1");
    one.run("INSERT INTO q VALUES (1)");

    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (1)");
    one.run("INSERT INTO a VALUES (1)");
    one.run("INSERT INTO q VALUES (2)");
    let error = one.error("COMMIT");
    assert!(error.contains("during COMMIT"), "{error}");
    let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
    assert!(warnings.iter().any(|(_, _, text)| text.contains("without XA")), "{warnings:?}");
    assert_eq!((one.column("SELECT v FROM i"), one.column("SELECT v FROM q")), (vec![], vec![1]));

    one.run("START TRANSACTION READ ONLY");
    assert!(one.error("SELECT queue_wait('q', 0)").contains("READ ONLY"));
    assert!(one.error("INSERT INTO q VALUES (2)").contains("READ ONLY"));
    one.run("COMMIT");
    assert_eq!(one.value("SELECT queue_set_srcid(1, 'w', 5)"), Some(1));
    one.run("BEGIN");
    assert!(one.error("INSERT INTO q VALUES (2)").contains("autocommit"));
    one.run("COMMIT");
    one.run("INSERT INTO q VALUES (2)");
    assert_eq!(one.column("SELECT v FROM q"), [1, 2]);

    // The option goes with the table.
    let text = |client: &mut Client| client.rows::<(String, String)>("SHOW CREATE TABLE q")[0].1.clone();
    one.run("ALTER TABLE q ADD w INT");
    assert!(text(&mut one).contains("TRANSACTIONAL=1"));
    one.run("BEGIN");
    one.run("INSERT INTO q VALUES (3, 3)");
    one.run("ROLLBACK");
    assert_eq!(one.column("SELECT v FROM q"), [1, 2]);
    one.run("ALTER TABLE q TRANSACTIONAL=0");
    one.run("BEGIN");
    one.run("INSERT INTO q VALUES (3, 3)");
    one.run("ROLLBACK");
    assert_eq!(one.column("SELECT v FROM q"), [1, 2, 3]);
    one.run("ALTER TABLE q TRANSACTIONAL=1");
    one.run("BEGIN");
    one.run("INSERT INTO q VALUES (4, 4)");
    one.run("ROLLBACK");
    assert_eq!(one.column("SELECT v FROM q"), [1, 2, 3]);
    one.run("CREATE TABLE c (v INT) ENGINE=QUEUE TRANSACTIONAL=1 SELECT v FROM t UNION SELECT 7");
    assert_eq!(one.column("SELECT v FROM c"), [7]);
    one.run("CREATE TABLE d LIKE c");
    one.run("LOCK TABLES d WRITE");
    one.run("INSERT INTO d VALUES (1)");
    one.run("UNLOCK TABLES");
    assert_eq!(server.connect("x").column("SELECT v FROM d"), [1]);
}
