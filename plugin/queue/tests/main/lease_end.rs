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
