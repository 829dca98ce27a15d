//! Tables that are emptied, dropped, altered, or deleted from while rows are owned and waited for.

use std::thread::scope;

use crate::server::Server;

pub(crate) fn truncate(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    for ending in ["queue_end", "queue_abort"] {
        one.run("INSERT INTO t VALUES (1), (2)");
        assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
        two.run("TRUNCATE t");
        assert!(one.column("SELECT * FROM t").is_empty());
        two.run("INSERT INTO t VALUES (3)");
        assert!(one.column("SELECT * FROM t").is_empty());
        assert_eq!(two.column("SELECT * FROM t"), [3]);
        one.value(&format!("SELECT {ending}()"));
        assert_eq!(one.column("SELECT * FROM t"), [3]);
        one.run("TRUNCATE TABLE t");
        assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
    }
}

pub(crate) fn drop_owned(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    one.run("INSERT INTO t VALUES (1)");
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    two.run("DROP TABLE t");
    assert!(one.error("SELECT * FROM t").contains("doesn't exist"));
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("RENAME TABLE t TO u");
    one.run("INSERT INTO u VALUES (4)");
    assert_eq!(one.value("SELECT queue_wait('u')"), Some(1));
    two.run("RENAME TABLE u TO w");
    assert_eq!(one.column("SELECT * FROM w"), [4]);
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    assert_eq!(two.column("SELECT * FROM w"), [4]);
    two.run(&format!("DROP DATABASE {name}"));
}

pub(crate) fn drop_waiting(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    scope(|scope| {
        let waiter = scope.spawn(|| one.value("SELECT queue_wait('t', 2)"));
        two.until_waiting(1);
        two.run("DROP TABLE t");
        assert!(two.error("SELECT * FROM t").contains("doesn't exist"));
        assert_eq!(waiter.join().unwrap(), Some(0));
    });
}

pub(crate) fn alter(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    // The owner's row has the new shape too, and the owner keeps it.
    two.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7");
    assert_eq!(one.rows::<(i64, i64)>("SELECT * FROM t"), [(1, 7)]);
    assert_eq!(two.rows::<(i64, i64)>("SELECT * FROM t"), [(2, 7), (3, 7)]);
    two.run("ALTER TABLE t DROP COLUMN w");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    assert_eq!(two.column("SELECT * FROM t"), [2, 3]);
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(3));
    // A copy in another order can't keep the row's place.
    assert!(two.error("ALTER TABLE t ADD COLUMN w INT, ORDER BY v DESC").contains("in another order"));
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    assert_eq!(one.column("SELECT * FROM t"), [1, 2, 3]);
    two.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7, ORDER BY v DESC");
    assert_eq!(one.column("SELECT v FROM t"), [3, 2, 1]);
    two.run("ALTER TABLE t MODIFY w INT NOT NULL DEFAULT 8, ORDER BY v");
    assert_eq!(one.value("SELECT queue_wait('t:w=7 and v=2')"), Some(1));
    assert_eq!(one.column("SELECT v FROM t"), [2]);
    one.value("SELECT queue_end()");
    one.run("ALTER TABLE t DROP COLUMN w");
    assert_eq!(one.column("SELECT * FROM t"), [1, 3]);
}

pub(crate) fn delete(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    two.run("DELETE FROM t");
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(1));
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("DELETE FROM t");
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(0));
    one.value("SELECT queue_end()");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}
