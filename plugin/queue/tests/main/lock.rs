//! A transaction that has used a queue by functions and DDL on it wait for each other, as with InnoDB.

use std::thread::{ScopedJoinHandle, scope};

use crate::server::{Client, Server};
use crate::transaction::{COORDINATORS, restarted};

/// Waits until this DDL waits for a lock on a table's definition.
fn until_locked(client: &mut Client, ddl: &ScopedJoinHandle<'_, ()>, of: &str) {
    let sql =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'";
    while client.value(sql) != Some(1) {
        assert!(!ddl.is_finished(), "it did not wait: {of}");
    }
}

#[test]
fn ddl_and_transactions_wait_for_each_other() {
    let server = restarted(COORDINATORS[0]);
    each_waits_for_the_other(&server, "other");
    a_wait_keeps_nobody_out(&server, "idle");
    workers_go_on_while_it_is_altered(&server, "workers");
}

fn tables(server: &Server, name: &str) -> (Client, Client) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE q (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
    one.run("CREATE TABLE i (v INT NOT NULL) ENGINE=InnoDB");
    (one, server.connect(name))
}

fn each_waits_for_the_other(server: &Server, name: &str) {
    let (mut one, mut two) = tables(server, name);
    let mut three = server.connect(name);
    for ddl in
        ["ALTER TABLE q FORCE", "ALTER TABLE q TRIES=9", "RENAME TABLE q TO r", "TRUNCATE q", "DROP TABLE q"]
    {
        for used in [
            "SELECT queue_wait('q', 0)",
            "SELECT v FROM q WHERE queue_wait('q', 0)",
            "SELECT queue_end()",
            "SELECT queue_wait('other.nosuch', 0)",
            "SELECT queue_ack(@token)",
        ] {
            one.run("CREATE OR REPLACE TABLE q (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
            one.run("TRUNCATE i");
            one.run("INSERT INTO q VALUES (1), (2)");
            if used.contains("token") {
                one.run("SET @token = JSON_VALUE(queue_lease_json(600, 1, 'q', 0), '$[0].token')");
            } else if used.contains("queue_end") || used.contains("nosuch") {
                assert_eq!(one.value("SELECT queue_wait('q', 0)"), Some(1));
            }
            one.run("BEGIN");
            one.run(used);
            scope(|scope| {
                let waits = scope.spawn(|| two.run(ddl));
                until_locked(&mut three, &waits, &format!("{ddl}, {used}"));
                one.run("INSERT INTO i VALUES (1)");
                one.run("COMMIT");
                waits.join().unwrap();
            });
            assert_eq!(one.column("SELECT v FROM i"), [1], "{ddl}, {used}");
            if ddl.contains("ALTER") {
                assert_eq!(one.column("SELECT v FROM q"), [2], "{ddl}, {used}");
            }
            one.run("DROP TABLE IF EXISTS r");
        }
    }
}

/// Nobody waits for a wait that has no row yet, and autocommit holds nothing.
fn a_wait_keeps_nobody_out(server: &Server, name: &str) {
    let (mut one, mut two) = tables(server, name);
    one.run("BEGIN");
    scope(|scope| {
        let waiter = scope.spawn(|| one.value("SELECT queue_wait('q', 60)"));
        two.until_waiting(1);
        two.run("ALTER TABLE q FORCE");
        assert_eq!(waiter.join().unwrap(), Some(0), "the table was replaced");
    });
    one.run("COMMIT");
    two.run("INSERT INTO q VALUES (1), (2)");
    assert_eq!(one.value("SELECT queue_wait('q', 0)"), Some(1));
    two.run("ALTER TABLE q FORCE");
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    two.run("ALTER TABLE q FORCE");
    // A lock that nobody gives up ends the function with the server's error, and the row is back.
    two.run("LOCK TABLES q WRITE");
    one.run("SET lock_wait_timeout = 0");
    one.run("BEGIN");
    let error = one.error("SELECT queue_wait('q', 0)");
    assert!(error.contains("Lock wait timeout"), "{error}");
    one.run("COMMIT");
    two.run("UNLOCK TABLES");
    assert_eq!(two.column("SELECT v FROM q"), [2]);
}

/// Workers take and end rows in transactions with InnoDB while the table is altered again and again: nothing
/// is refused and nothing is done twice.
fn workers_go_on_while_it_is_altered(server: &Server, name: &str) {
    const ROWS: i64 = 120;
    let (mut one, _) = tables(server, name);
    one.run(&format!("INSERT INTO q SELECT seq FROM seq_1_to_{ROWS}"));
    scope(|scope| {
        let workers = [0, 1, 2].map(|way| {
            let mut client = server.connect(name);
            scope.spawn(move || while work(&mut client, way) {})
        });
        let mut altered = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            let change = if altered % 2 == 0 { "ADD COLUMN w INT" } else { "DROP COLUMN w" };
            one.run(&format!("ALTER TABLE q {change}"));
            altered += 1;
        }
    });
    assert_eq!(one.column("SELECT v FROM i ORDER BY v"), (1..=ROWS).collect::<Vec<_>>());
    assert_eq!(one.value("SELECT COUNT(*) FROM q"), Some(0));
}

/// Does one row in one of three ways; false when there is none any more.
fn work(client: &mut Client, way: i32) -> bool {
    if way == 0 {
        client.run("SET @got = queue_lease_json(60, 1, 'q', 0)");
    } else if way == 1 {
        client.value("SELECT queue_wait('q', 0)");
        client.run("SELECT MAX(v) INTO @got FROM q");
    }
    client.run("BEGIN");
    if way == 2 {
        client.value("SELECT queue_wait('q', 0)");
    }
    let insert = match way {
        0 => "INSERT INTO i SELECT JSON_VALUE(@got, '$[0].row.v') FROM DUAL WHERE @got <> '[]'",
        1 => "INSERT INTO i SELECT @got FROM DUAL WHERE @got",
        _ => "INSERT INTO i SELECT v FROM q",
    };
    client.run(insert);
    match way {
        0 => client.run("SELECT queue_ack(JSON_VALUE(@got, '$[0].token'))"),
        _ => client.run("SELECT queue_end()"),
    }
    client.run("COMMIT");
    client.value("SELECT COUNT(*) > 0 FROM q") == Some(1)
}
