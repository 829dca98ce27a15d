//! Rows that come from another queue, each exactly once.

use crate::server::{Client, Server};

/// A relay that knows the source's incarnation: rows that arrive late are new, and so are those of an emptied
/// source.
pub(crate) fn relay_by_origin(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE s (v INT NOT NULL) ENGINE=QUEUE");
    two.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    assert!(one.error("SELECT queue_origin()").contains("not in owner mode"));
    for wrong in ["", "x", "1:2:3:4", "64:1:0"] {
        let error = two.error(&format!("SELECT queue_set_origin('{wrong}')"));
        assert!(error.contains("51005"), "{error}");
    }
    let mut relay = |condition: &str, finish: bool| {
        assert_eq!(one.value(&format!("SELECT queue_wait('s{condition}', 0)")), Some(1));
        let origin: Vec<String> = one.rows("SELECT queue_origin()");
        assert_eq!(two.value(&format!("SELECT queue_set_origin('{}')", origin[0])), Some(1));
        two.run(&format!("INSERT INTO t VALUES ({})", one.column("SELECT * FROM s")[0]));
        one.value(if finish { "SELECT queue_end()" } else { "SELECT queue_abort()" });
    };
    let mut source = server.connect(name);
    source.run("INSERT INTO s VALUES (1), (2), (3)");
    // The third goes first; the relay dies before it ends the second, and sends it again.
    relay(":v=3", true);
    relay(":v=2", false);
    relay(":v=2", true);
    relay("", true);
    assert_eq!(source.column("SELECT * FROM t"), [3, 2, 1]);
    source.run("TRUNCATE s");
    source.run("INSERT INTO s VALUES (4)");
    relay("", false);
    relay("", true);
    assert_eq!(source.column("SELECT * FROM t"), [3, 2, 1, 4]);
}

/// Relayed rows stay known when their table is altered, even when nothing is left in it.
pub(crate) fn relay_to_altered(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE s (v INT NOT NULL) ENGINE=QUEUE");
    two.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO s VALUES (1)");
    assert_eq!(one.value("SELECT queue_wait('s', 0)"), Some(1));
    let origin: Vec<String> = one.rows("SELECT queue_origin()");
    let send = |two: &mut Client| {
        assert_eq!(two.value(&format!("SELECT queue_set_origin('{}')", origin[0])), Some(1));
        two.run("INSERT INTO t (v) VALUES (1)");
        assert_eq!(two.value("SELECT queue_set_srcid(1, 'a', 9)"), Some(1));
        two.run("INSERT INTO t (v) VALUES (2)");
    };
    send(&mut two);
    for alter in ["ALTER TABLE t ADD x INT", "ALTER TABLE t ENGINE=QUEUE", "ALTER TABLE t DROP x, RENAME u"] {
        two.run(alter);
        two.run("RENAME TABLE IF EXISTS u TO t");
        send(&mut two);
        assert_eq!(two.column("SELECT v FROM t"), [1, 2], "{alter}");
    }
    two.run("DELETE FROM t WHERE v > 0");
    two.run("ALTER TABLE t ADD y INT");
    send(&mut two);
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(0));
}

/// A relayed INSERT is accepted as a whole or not at all, however large.
pub(crate) fn relay_large(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v MEDIUMTEXT) ENGINE=QUEUE SYNC=none");
    for _ in 0..2 {
        assert_eq!(one.value("SELECT queue_set_srcid(1, 'a', 10)"), Some(1));
        one.run("INSERT INTO t SELECT REPEAT('x', 1000000) FROM seq_1_to_80");
        assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(80));
    }
}

pub(crate) fn relay(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE s (v INT NOT NULL) ENGINE=QUEUE");
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    assert!(one.error("SELECT queue_rowid()").contains("not in owner mode"));
    assert!(one.error("SELECT queue_abort()").contains("not in owner mode"));
    let mut send = |slot: i32, mode: &str, row: i32, v: i32| {
        let armed = one.value(&format!("SELECT queue_set_srcid({slot}, '{mode}', {row})"));
        if armed.is_some() {
            one.run(&format!("INSERT INTO t VALUES ({v})"));
        }
        armed
    };
    assert_eq!(send(0, "a", 1, 1), Some(1));
    assert_eq!(send(0, "a", 1, 2), Some(1), "a duplicate is left out, and no error");
    assert_eq!(send(1, "a", 1, 3), Some(1));
    assert_eq!(send(0, "w", 1, 4), Some(1));
    assert_eq!(send(0, "a", 1, 5), Some(1));
    assert_eq!(send(0, "a", 2, 6), Some(1));
    assert_eq!(send(-1, "a", 2, 7), None);
    assert_eq!(send(64, "a", 2, 8), None);
    assert_eq!(send(3, "x", 2, 9), None);
    assert_eq!(one.column("SELECT * FROM t"), [1, 3, 4, 6]);
    one.run("INSERT INTO s VALUES (1)");
    assert_eq!(one.value("SELECT queue_wait('s')"), Some(1));
    assert_eq!(one.value("SELECT queue_rowid()"), Some(1));
    one.run("INSERT INTO t VALUES (99)");
    assert_eq!(server.connect(name).column("SELECT * FROM t"), [1, 3, 4, 6, 99], "seen by others at once");
    assert_eq!(one.value("SELECT queue_wait('s', 0)"), Some(0));
    assert_eq!(one.value("SELECT queue_rowid()"), None);
}
