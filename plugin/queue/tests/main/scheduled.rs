//! Delayed rows, which say from when on they may be given.

use crate::server::{Client, Server};

#[test]
fn due() {
    let mut server = Server::start();
    woken(&server);
    kinds(&server);
    seen_and_cancelled(&server);
    refused(&server);
    altered(&server);
    killed(&mut server);
}

fn woken(server: &Server) {
    let mut one = server.connect("woken");
    one.run("CREATE TABLE t (v INT, at TIMESTAMP(3) NULL) ENGINE=QUEUE DUE=at");
    one.run(
        "INSERT INTO t VALUES (1, NOW(3) + INTERVAL 1 HOUR), (2, NOW(3) + INTERVAL 0.4 SECOND), \
         (3, NOW(3) + INTERVAL 0.2 SECOND), (4, NULL)",
    );
    let mut take = |v: i64| {
        let taken: Vec<(i64, bool)> =
            one.rows("SELECT v, COALESCE(at <= SYSDATE(3), TRUE) FROM t WHERE queue_wait('t')");
        assert_eq!(taken, [(v, true)]);
    };
    take(4);
    take(3);
    take(2);
    one.value("SELECT queue_end()");
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(0), "it is due in an hour");
}

fn kinds(server: &Server) {
    let mut one = server.connect("kinds");
    one.run("SET time_zone = '+05:00'");
    one.run("CREATE TABLE n (v INT, at BIGINT UNSIGNED) ENGINE=QUEUE DUE=AT");
    one.run("INSERT INTO n VALUES (1, UNIX_TIMESTAMP()), (2, UNIX_TIMESTAMP() + 900), (3, 0), (4, ~0)");
    assert_eq!(one.column("SELECT v FROM n"), [1, 3]);
    one.run("CREATE TABLE d (v INT, at DATETIME(6)) ENGINE=QUEUE DUE=at");
    let warning = one.warning();
    assert!(warning.contains("no time zone and is read as UTC"), "{warning}");
    one.run(
        "INSERT INTO d VALUES (1, UTC_TIMESTAMP()), (2, UTC_TIMESTAMP() + INTERVAL 15 MINUTE), \
         (3, NOW()), (4, '1969-12-31'), (5, NULL)",
    );
    assert_eq!(one.column("SELECT v FROM d"), [1, 4, 5], "the time of the connection is 5 hours later");
    one.run("CREATE TABLE s (v INT, due INT DEFAULT (v * 1000000000)) ENGINE=QUEUE DUE=due");
    one.run("INSERT INTO s (v) VALUES (2), (1)");
    assert_eq!(one.column("SELECT v FROM s"), [1]);
}

fn seen_and_cancelled(server: &Server) {
    let mut one = server.connect("seen_due");
    one.run("CREATE TABLE t (v INT, at INT) ENGINE=QUEUE DUE=at");
    one.run("INSERT INTO t VALUES (1, 2000000000), (2, 2000000000), (3, 0), (4, 0)");
    let counts =
        "SELECT waiting, owned, due_later FROM information_schema.queues WHERE table_schema = 'seen_due'";
    assert_eq!(one.rows::<(i64, i64, i64)>(counts), [(2, 2, 2)]);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(4));
    let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
    let delayed = status[0].2.lines().find(|line| line.starts_with("delayed")).unwrap();
    assert_ne!(delayed.split_whitespace().last(), Some("0"), "{delayed}");
    one.run("DELETE FROM t WHERE v = 1");
    let mut two = server.connect("seen_due");
    two.value("SELECT queue_wait('t')");
    one.run("SET queue_show_owned = ON");
    assert_eq!(one.column("SELECT v FROM t"), [1, 2, 3, 4], "it did not see the row");
    assert_eq!(
        one.value("SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_schema = 'seen_due'"),
        Some(1)
    );
    one.run("DELETE FROM t WHERE v IN (1, 3, 4)");
    assert_eq!(one.affected_rows(), 2, "3 belongs to somebody");
    assert_eq!(one.column("SELECT v FROM t"), [2, 3]);
    two.value("SELECT queue_end()");
    assert_eq!(one.rows::<(i64, i64, i64)>(counts), [(0, 1, 1)]);
}

fn refused(server: &Server) {
    let mut one = server.connect("refused_due");
    for (column, options, why) in [
        ("at VARCHAR(20)", "DUE=at", "can't be used for DUE"),
        ("at DOUBLE", "DUE=at", "can't be used for DUE"),
        ("at DATE", "DUE=at", "can't be used for DUE"),
        ("at INT NULL", "DUE=at FAILED=at", "FAILED, WHY or TOKEN"),
        ("at INT", "DUE=moment", "DUE='moment' is not a column"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT, {column}) ENGINE=QUEUE {options}"));
        assert!(error.contains(why), "{column} {options}: {error}");
    }
}

fn altered(server: &Server) {
    let mut one = server.connect("altered_due");
    // A column that is not stored comes before it.
    one.run("CREATE TABLE t (f INT NULL, v INT, at INT) ENGINE=QUEUE DUE=at FAILED=f");
    one.run("INSERT INTO t (v, at) VALUES (1, 2000000000), (2, 0)");
    let error = one.error("ALTER TABLE t RENAME COLUMN at TO moment");
    assert!(error.contains("change the option too"), "{error}");
    one.run("ALTER TABLE t RENAME COLUMN at TO moment, DUE=moment");
    assert_eq!(one.column("SELECT v FROM t"), [2]);
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`DUE`='moment'"), "{}", create[0].1);
    // Whoever owns a row keeps it, also if it is due later in the new shape.
    one.run("ALTER TABLE t DUE=''");
    assert_eq!(one.column("SELECT v FROM t"), [1, 2]);
    let mut owner = server.connect("altered_due");
    owner.value("SELECT queue_wait('t')");
    one.run("ALTER TABLE t DUE=moment");
    assert_eq!(owner.column("SELECT v FROM t"), [1]);
    let owned = "SELECT owned, due_later FROM information_schema.queues WHERE table_schema = 'altered_due'";
    assert_eq!(one.rows::<(i64, i64)>(owned), [(1, 0)]);
    owner.value("SELECT queue_end()");
    assert_eq!(one.column("SELECT v FROM t"), [2]);
    one.run("RENAME TABLE t TO u");
    assert_eq!(one.column("SELECT v FROM u"), [2]);
}

fn killed(server: &mut Server) {
    let fill = |one: &mut Client| {
        one.run("CREATE TABLE t (v INT, at TIMESTAMP(2) NULL) ENGINE=QUEUE DUE=at");
        one.run(
            "INSERT INTO t VALUES (3, NULL), (1, NOW(2) + INTERVAL 1 HOUR), (2, NOW(2) + INTERVAL 1 SECOND)",
        );
    };
    let mut one = server.connect("killed_due");
    fill(&mut one);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("killed_due");
    let waits = "SELECT v FROM t WHERE queue_wait('t')";
    assert_eq!((one.column(waits), one.column(waits)), (vec![3], vec![2]));
    one.value("SELECT queue_end()");
    let later = "SELECT due_later FROM information_schema.queues WHERE table_schema = 'killed_due'";
    assert_eq!((one.value(later), one.column("SELECT v FROM t")), (Some(1), vec![]));
}
