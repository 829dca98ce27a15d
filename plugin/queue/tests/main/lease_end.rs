//! Leases over restarts and kills of the server, and leases that a transaction ends.

use crate::lease::{ack, lease, token};
use crate::server::Server;

#[test]
fn leases_survive_restarts_and_kills() {
    let mut server = Server::start();
    let mut one = server.connect("x");
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4)");
    let json = lease(&mut one, "3600, 2, 't', 0");
    one.value(&format!("SELECT queue_nack('{}', 3600)", token(&json, 1)));
    // Written with this row.
    one.run("INSERT INTO t VALUES (5)");
    let (kept, number) = (token(&json, 0), |token: &str| -> u64 {
        token.rsplit(':').next().unwrap().split('-').next().unwrap().parse().unwrap()
    });
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("x");
    assert_eq!(one.column("SELECT v FROM t"), [3, 4, 5]);
    let later = lease(&mut one, "3600, 1, 't', 0");
    assert!(number(&token(&later, 0)) > number(&token(&json, 1)));
    assert_eq!(ack(&mut one, &kept), Some(1));
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("x");
    let there: i64 = one.value("SELECT COUNT(*) FROM t").unwrap();
    assert_eq!(there, 4);
}

#[test]
fn a_lease_that_is_ended_in_a_transaction_is_decided_by_it() {
    let mut server = Server::start();
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let (mut one, mut two) = (server.connect("x"), server.connect("x"));
    one.run("CREATE TABLE i (v INT PRIMARY KEY) ENGINE=InnoDB");
    one.run("CREATE TABLE q (v INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
    one.run("INSERT INTO q VALUES (1), (2), (3)");
    let json = lease(&mut two, "3600, 3, 'q', 0");
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (1)");
    assert_eq!(ack(&mut one, &token(&json, 0)), Some(1));
    assert_eq!(two.value("SELECT COUNT(*) FROM q"), Some(3));
    one.run("COMMIT");
    assert_eq!(two.value("SELECT COUNT(*) FROM q"), Some(2));
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (2)");
    one.run("SAVEPOINT s");
    assert_eq!(ack(&mut one, &token(&json, 1)), Some(1));
    one.run("ROLLBACK TO s");
    assert_eq!(ack(&mut one, &token(&json, 1)), Some(1), "the lease continues, and the token is good");
    assert_eq!(ack(&mut one, &token(&json, 2)), Some(1));
    one.run("ROLLBACK");
    assert!(two.column("SELECT v FROM q").is_empty());
    assert_eq!(two.column("SELECT v FROM i"), [1]);
    assert_eq!(
        two.value(&format!("SELECT queue_ack('{}', '{}')", token(&json, 1), token(&json, 2))),
        Some(2)
    );
    one.run("INSERT INTO q VALUES (2), (3)");
    // With autocommit the statement is the transaction.
    let json = lease(&mut two, "3600, 1, 'q', 0");
    assert_eq!(ack(&mut one, &token(&json, 0)), Some(1));
    assert_eq!(two.value("SELECT COUNT(*) FROM q"), Some(1));
    one.run("START TRANSACTION READ ONLY");
    let json = lease(&mut two, "3600, 1, 'q', 0");
    assert!(one.error(&format!("SELECT queue_ack('{}')", token(&json, 0))).contains("READ ONLY"));
    one.run("ROLLBACK");
}

/// Tokens that a program keeps in a table are used by one statement.
#[test]
fn functions_take_the_tokens_of_rows() {
    let server = Server::start();
    let mut one = server.connect("x");
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE TRIES=9");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4)");
    one.run("CREATE TABLE mine (n INT PRIMARY KEY, token VARCHAR(100)) ENGINE=InnoDB");
    let json = lease(&mut one, "3600, 4, 't', 0");
    for nth in 0..4 {
        one.run(&format!("INSERT INTO mine VALUES ({nth}, '{}')", token(&json, nth)));
    }
    one.run(
        "INSERT INTO mine VALUES (4, NULL), (5, 'x.t:1-0000000000000000'), (6, 'x.t:2-0000000000000000')",
    );
    let extended = one.column("SELECT queue_extend(token, 60) FROM mine ORDER BY n");
    assert_eq!(extended, [1, 1, 1, 1, 0, 0, 0]);
    let stale: Vec<String> = one.rows("SELECT queue_stale()");
    assert_eq!(stale, ["x.t:1-0000000000000000,x.t:2-0000000000000000"], "of all rows");
    // The server evaluates a row twice: to sort, and to show.
    let nacked = "SELECT queue_nack(token, 0, 'why') k FROM mine WHERE n < 2 GROUP BY n ORDER BY k, n";
    assert_eq!(one.column(nacked), [1, 1]);
    let again = lease(&mut one, "3600, 1, 't', 0");
    assert!(again.contains("\"try\":2") && again.contains("\"v\":1"), "{again}");
    assert_eq!(one.value("SELECT SUM(queue_ack(token)) FROM mine WHERE n IN (2, 3)"), Some(2));
    assert_eq!(one.value("SELECT SUM(queue_ack(token)) FROM mine WHERE n IN (2, 3)"), Some(0));
    one.run("CREATE TABLE s (v INT NOT NULL, t TEXT NULL) ENGINE=QUEUE TOKEN=t");
    one.run("INSERT INTO s (v) VALUES (1), (2)");
    let error = one.error("SELECT queue_ack(t) FROM s WHERE queue_lease(30, 2, 's', 0)");
    assert!(error.contains("ERROR 51002 "), "{error}");
    assert_eq!(one.column("SELECT v FROM s"), [1, 2], "a statement that fails leases nothing");
}

/// One round trip for each message: the statement that ends it leases the next one.
#[test]
fn a_statement_ends_a_row_and_leases_the_next() {
    let server = Server::start();
    let mut one = server.connect("x");
    one.run("CREATE TABLE t (v INT NOT NULL, k INT NOT NULL) ENGINE=QUEUE FIFO=k");
    one.run("INSERT INTO t VALUES (1, 7), (2, 7)");
    let first = token(&lease(&mut one, "3600, 1, 't', 0"), 0);
    let sql = |token: &str| format!("SELECT queue_ack('{token}'), queue_lease_json(3600, 1, 't', 0)");
    // The second one has the same key: it can be given because the first one has ended.
    let next: Vec<(i64, String)> = one.rows(&sql(&first));
    assert!(next[0].0 == 1 && next[0].1.contains("\"v\":2"), "{next:?}");
    let none: Vec<(i64, String)> = one.rows(&sql(&token(&next[0].1, 0)));
    assert_eq!(none, [(1, "[]".to_owned())]);
}
