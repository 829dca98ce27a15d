//! A queue that is paused: nobody gets a row, everything else continues.

use crate::server::Server;

const WAIT: &str = "SELECT v FROM t WHERE queue_wait('t', 0)";

#[test]
fn a_paused_queue_gives_nobody_a_row() {
    let mut server = Server::start();
    let (mut one, mut two) = server.queue("d");
    one.run("INSERT INTO t VALUES (1), (2)");
    assert_eq!(two.column(WAIT), [1]);
    assert_eq!(one.value("SELECT queue_pause('t')"), Some(1));
    assert_eq!(one.value("SELECT queue_pause('d.t')"), Some(0), "it is already");
    let paused = "SELECT paused FROM information_schema.queues WHERE table_schema = 'd'";
    assert_eq!(one.value(paused), Some(1));
    assert_eq!(one.column(WAIT), [0; 0]);
    assert_eq!(one.value("SELECT queue_lease_json(9, 9, 't', 0) = '[]'"), Some(1));
    // Rows come, are seen, and end.
    one.run("INSERT INTO t VALUES (3)");
    assert_eq!(two.value("SELECT queue_end()"), Some(1));
    assert_eq!(two.column("SELECT v FROM t"), [2, 3]);
    one.run("DELETE FROM t WHERE v = 3");
    one.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 5");
    assert_eq!(one.column(WAIT), [0; 0]);
    one.run("RENAME TABLE t TO u");
    one.run("RENAME TABLE u TO t");
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let (mut one, mut two) = (server.connect("d"), server.connect("d"));
    assert_eq!(one.column(WAIT), [0; 0]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| server.connect("d").column("SELECT v FROM t WHERE queue_wait('t', 60)"));
        one.until_waiting(1);
        assert_eq!(two.value("SELECT queue_resume('t')"), Some(1));
        assert_eq!(waits.join().unwrap(), [2]);
    });
    assert_eq!(two.value("SELECT queue_resume('t')"), Some(0));
    assert_eq!(two.value(paused), Some(0));
}

#[test]
fn who_may_not_alter_a_queue_may_not_pause_it() {
    let server = Server::start();
    let (mut one, _) = server.queue("d");
    one.run("CREATE USER worker@localhost");
    one.run("GRANT SELECT, INSERT, DELETE ON d.* TO worker@localhost");
    let mut worker = server.connect_as("worker");
    let error = worker.error("SELECT queue_pause('d.t')");
    assert!(error.contains("no privilege for this on d.t"), "{error}");
    one.run("GRANT ALTER ON d.t TO worker@localhost");
    assert_eq!(worker.value("SELECT queue_pause('d.t')"), Some(1));
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    for (name, why) in [("d.i", "there is no queue d.i"), ("d.none", "there is no queue d.none")] {
        let error = one.error(&format!("SELECT queue_pause('{name}')"));
        assert!(error.contains(why), "{name}: {error}");
    }
    one.run("SET GLOBAL read_only = 1");
    one.run("GRANT SELECT ON d.* TO worker@localhost");
    let error = worker.error("SELECT queue_resume('d.t')");
    assert!(error.contains("read-only"), "{error}");
}
