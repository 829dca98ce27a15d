//! A panic in the core gives an error to the sessions concerned, and the server stays up.

use std::thread::scope;

use sandbox::Sandbox;

use crate::server::{Server, end_as_in_a_crash};
use crate::transaction::{COORDINATORS, restarted};

#[test]
fn a_panic_ends_the_service_of_one_queue_and_not_the_server() {
    let mut server = Server::start_with(&["--loose-queue-fault=boom"]);
    // The server reads the option when it loads the engine at start.
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let (mut one, mut two) = server.queue("fault");
    one.run("CREATE TABLE b (body VARCHAR(20)) ENGINE=QUEUE");
    one.run("INSERT INTO b VALUES ('kept')");
    one.run("INSERT INTO t VALUES (1)");
    assert_eq!(one.value("SELECT queue_wait('b')"), Some(1));
    let mut three = server.connect("fault");
    scope(|scope| {
        let waiter = scope.spawn(|| three.error("SELECT queue_wait('b:body is null', 3600)"));
        two.until_waiting(1);
        assert!(two.error("INSERT INTO b VALUES ('boom')").contains("report it"));
        assert!(waiter.join().unwrap().contains("out of service"));
    });
    assert!(two.error("INSERT INTO b VALUES ('more')").contains("out of service"));
    assert!(two.error("SELECT * FROM b WHERE queue_wait('b', 0)").contains("out of service"));
    // Other queues continue, also for a session that owns a row of this one.
    assert!(one.error("SELECT queue_end()").contains("out of service"));
    one.run("INSERT INTO t VALUES (2)");
    assert_eq!(two.value("SELECT queue_wait('t', 0)"), Some(1));
    assert_eq!(two.column("SELECT * FROM t"), [1]);
    assert_eq!(two.value("SELECT queue_end()"), Some(1));
    two.run("DROP TABLE t");
    // In a transaction it is the COMMIT that writes.
    two.run("CREATE TABLE c (body VARCHAR(20)) ENGINE=QUEUE TRANSACTIONAL=1");
    two.run("INSERT INTO c VALUES ('kept')");
    two.run("BEGIN");
    two.run("INSERT INTO c VALUES ('boom')");
    assert!(two.error("COMMIT").contains("report it"));
    assert!(two.error("INSERT INTO c VALUES ('more')").contains("out of service"));
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("fault");
    assert_eq!(one.rows::<String>("SELECT * FROM b"), ["kept"]);
    assert_eq!(one.rows::<String>("SELECT * FROM c"), ["kept"]);
    one.run("INSERT INTO b VALUES ('more')");
    assert_eq!(one.rows::<String>("SELECT * FROM b"), ["kept", "more"]);
}

#[test]
fn a_commit_that_fails_inside_is_done_by_the_next_start() {
    for coordinator in COORDINATORS {
        for end in [Sandbox::kill, end_as_in_a_crash] {
            let options = [coordinator, &["--loose-queue-fault=boom"]].concat();
            let mut server = restarted(&options);
            let mut one = server.connect("fault");
            one.run("CREATE TABLE i (v INT PRIMARY KEY) ENGINE=InnoDB");
            one.run("CREATE TABLE c (body VARCHAR(20)) ENGINE=QUEUE TRANSACTIONAL=1");
            one.run("CREATE TABLE d (body VARCHAR(20)) ENGINE=QUEUE TRANSACTIONAL=1");
            one.run("BEGIN");
            one.run("INSERT INTO i VALUES (1)");
            one.run("INSERT INTO c VALUES ('boom')");
            assert!(one.error("COMMIT").contains("report it"));
            // The coordinator may never forget that one, and its room is limited.
            one.run("BEGIN");
            one.run("INSERT INTO i VALUES (2)");
            one.run("INSERT INTO d VALUES ('more')");
            let refused = one.error("COMMIT");
            assert!(refused.contains("restart"), "{refused}");
            one.run("INSERT INTO d VALUES ('alone')");
            drop(one);
            end(&mut server.0).unwrap();
            server.0.restart().unwrap();
            let mut one = server.connect("fault");
            assert_eq!(one.column("SELECT v FROM i"), [1]);
            assert_eq!(one.rows::<String>("SELECT * FROM c"), ["boom"]);
            assert_eq!(one.rows::<String>("SELECT * FROM d"), ["alone"]);
        }
    }
}
