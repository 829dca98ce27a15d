//! How long rows waited and were worked on.

use crate::server::{Client, Server};
use crate::transaction::restarted;

#[test]
fn times() {
    let mut server = restarted(&[]);
    classes(&server);
    what_counts(&server);
    everywhere(&server);
    restart(&mut server);
}

/// How many spans of a kind a table has, all of them and those of 100 ms and more.
fn spans(client: &mut Client, kind: &str, table: &str) -> (i64, i64) {
    let sql = format!(
        "SELECT SUM(count), SUM(IF(below_ms IS NULL OR below_ms > 100, count, 0)) FROM information_schema.queue_times \
         WHERE kind = '{kind}' AND table_schema = DATABASE() AND table_name = '{table}'"
    );
    client.rows(&sql).remove(0)
}

fn classes(server: &Server) {
    let (mut one, _) = server.queue("classes");
    one.run("INSERT INTO t VALUES (1)");
    let sql = "SELECT below_ms FROM information_schema.queue_times WHERE table_schema = 'classes' AND kind = 'waited'";
    let ends: Vec<Option<u64>> = one.rows(sql);
    let wanted = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000].map(Some);
    assert_eq!(ends, [&wanted[..], &[None]].concat());
    let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
    for word in ["waited_1ms ", "waited_10s ", "waited_10min ", "waited_1d ", "worked_1h ", "worked_longer "]
    {
        assert!(status[0].2.contains(word), "{word}: {}", status[0].2);
    }
    let unprivileged = "CREATE USER nobody; GRANT SELECT ON classes.* TO nobody";
    unprivileged.split("; ").for_each(|sql| one.run(sql));
    let mut nobody = server.connect_as("nobody");
    assert_eq!(nobody.value("SELECT COUNT(*) FROM information_schema.queue_times"), Some(0));
}

fn what_counts(server: &Server) {
    let (mut one, mut two) = server.queue("counts");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4), (5)");
    one.run("DO SLEEP(0.15)");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(2, 't', 0)"), [1, 2]);
    assert_eq!((spans(&mut two, "waited", "t"), spans(&mut two, "worked", "t")), ((2, 2), (0, 0)));
    one.run("DO SLEEP(0.15)");
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    assert_eq!(spans(&mut two, "worked", "t"), (0, 0), "what is given back is not done");
    one.value("SELECT queue_wait('t')");
    one.run("DO SLEEP(0.15)");
    one.value("SELECT queue_end()");
    assert_eq!((spans(&mut two, "waited", "t"), spans(&mut two, "worked", "t")), ((3, 3), (1, 1)));
    two.run("DELETE FROM t WHERE v = 2");
    assert_eq!(spans(&mut two, "worked", "t"), (1, 1), "nobody has worked on it");
    let token: Vec<String> = two.rows("SELECT queue_token() FROM t WHERE queue_lease(30, 1, 't', 0)");
    two.run("DO SLEEP(0.15)");
    two.value(&format!("SELECT queue_ack('{}')", token[0]));
    assert_eq!((spans(&mut two, "waited", "t"), spans(&mut two, "worked", "t")), ((4, 4), (2, 2)));
    // A session that waits already has the row at once.
    two.run("DELETE FROM t");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| two.value("SELECT queue_wait('t')"));
        one.until_waiting(1);
        one.run("INSERT INTO t VALUES (9)");
        assert_eq!(waits.join().unwrap(), Some(1));
    });
    assert_eq!(spans(&mut one, "waited", "t"), (5, 4));
}

/// Readers, transactions, and every way to sync.
fn everywhere(server: &Server) {
    let mut one = server.connect("everywhere");
    for (table, options) in [("r", "KEEP=60 READERS='a, b'"), ("x", "TRANSACTIONAL=1"), ("n", "SYNC=none")] {
        one.run(&format!("CREATE TABLE {table} (v INT) ENGINE=QUEUE {options}"));
        one.run(&format!("INSERT INTO {table} VALUES (1), (2)"));
    }
    one.run("DO SLEEP(0.15)");
    let mut take = |target: &str| {
        one.run("BEGIN");
        one.value(&format!("SELECT queue_wait('{target}', 0)"));
        one.run("DO SLEEP(0.15)");
        one.value("SELECT queue_end()");
        one.run("COMMIT");
    };
    ["r@a", "r@b", "x", "n"].into_iter().for_each(&mut take);
    for (table, times) in [("r", 2), ("x", 1), ("n", 1)] {
        assert_eq!(spans(&mut one, "waited", table), (times, times), "{table}");
        assert_eq!(spans(&mut one, "worked", table), (times, times), "{table}");
    }
    // One that is prepared keeps what it was given.
    one.run("XA BEGIN 'x'");
    one.value("SELECT queue_wait('x', 0)");
    one.run("DO SLEEP(0.15)");
    one.value("SELECT queue_end()");
    for step in ["END", "PREPARE", "COMMIT"] {
        one.run(&format!("XA {step} 'x'"));
    }
    assert_eq!(spans(&mut one, "worked", "x"), (2, 2));
}

fn restart(server: &mut Server) {
    let (mut one, _) = server.queue("restart");
    one.run("INSERT INTO t VALUES (1)");
    server.0.stop().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("restart");
    one.run("INSERT INTO t VALUES (2)");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(2, 't', 0)"), [1, 2]);
    assert_eq!(spans(&mut one, "waited", "t").0, 1, "when the first one came is not known");
    one.value("SELECT queue_end()");
    assert_eq!(spans(&mut one, "worked", "t").0, 2);
}
