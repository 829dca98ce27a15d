//! What Q4M's test cases assert, one function each; all in one server, each in a database of its own.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

type Case = fn(&Server, &str);

const CASES: [(&str, Case); 25] = [
    ("base", base),
    ("rnd_pos", rnd_pos),
    ("wait", wait),
    ("condition", condition),
    ("one_statement", one_statement),
    ("owned_delete", owned_delete),
    ("owner", owner),
    ("wait_in_vain", wait_in_vain),
    ("blob", blob),
    ("blob_condition", blob_condition),
    ("many_readers", many_readers),
    ("many_waiters", many_waiters),
    ("two_tables", two_tables),
    ("relay", relay),
    ("relay_by_origin", relay_by_origin),
    ("classes", classes),
    ("classes_wake", classes_wake),
    ("compaction", compaction),
    ("truncate", truncate),
    ("drop_owned", drop_owned),
    ("drop_waiting", drop_waiting),
    ("alter", alter),
    ("delete", delete),
    ("types", types),
    ("refused", refused),
];

#[test]
fn what_the_original_promises_holds() {
    let server = Server::start();
    for (name, case) in CASES {
        // Shown by the test runner when something below fails.
        println!("case {name}");
        case(&server, name);
    }
}

#[test]
fn a_killed_query_and_a_vanished_client_leave_the_row() {
    let server = Server::start();
    interrupted(&server, "interrupted");
}

fn base(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE SYNC=none");
    (0..1024).for_each(|v| one.run(&format!("INSERT INTO t VALUES ({v})")));
    let mut left: Vec<i64> = (0..1024).collect();
    assert_eq!(one.column("SELECT * FROM t"), left);
    for v in (0..1024).step_by(2).map(|v| v * 7 % 1024) {
        one.run(&format!("DELETE FROM t WHERE v = {v}"));
        left.retain(|there| *there != v);
    }
    assert_eq!(one.column("SELECT * FROM t"), left);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(512));
    one.run("DELETE FROM t");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

fn rnd_pos(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT, w INT) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1, 9), (2, 5), (2, 3), (2, 4), (3, 1)");
    one.run("DELETE FROM t WHERE v = 2 ORDER BY w LIMIT 1");
    assert_eq!(one.column("SELECT w FROM t"), [9, 5, 4, 1]);
    assert_eq!(one.column("SELECT w FROM t ORDER BY w"), [1, 4, 5, 9]);
}

fn wait(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    assert_eq!(one.value("SELECT queue_wait('nonexistent_table', 1)"), None);
    let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
    assert!(warnings[0].2.contains("there is no queue"), "{warnings:?}");
    for v in 0..256 {
        one.run(&format!("INSERT INTO t VALUES ({v})"));
        assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
        assert_eq!(one.column("SELECT * FROM t"), [v]);
    }
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    assert!(one.column("SELECT * FROM t").is_empty());
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

fn condition(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1)");
    assert_eq!(one.value("SELECT queue_wait('t:v!=1', 0)"), Some(0));
    assert_eq!(one.value("SELECT queue_wait('t:v=1', 1)"), Some(1));
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.value("SELECT queue_end()");
    scope(|scope| {
        let waiter = scope.spawn(|| {
            let waited = one.value("SELECT queue_wait('t:v=3', 60)");
            (waited, one.column("SELECT * FROM t"))
        });
        two.until_waiting(1);
        two.run("INSERT INTO t VALUES (2)");
        two.run("INSERT INTO t VALUES (3)");
        assert_eq!(waiter.join().unwrap(), (Some(1), vec![3]));
    });
    // Its owner goes away: the row comes back.
    drop(one);
    assert_eq!(two.value("SELECT queue_wait('t:v=3', 60)"), Some(1));
    assert_eq!(two.column("SELECT * FROM t"), [3]);
    assert_eq!(two.value("SELECT queue_wait('t:v = = 1', 1)"), None);
    let warnings: Vec<(String, u32, String)> = two.rows("SHOW WARNINGS");
    assert!(warnings[0].2.contains("unexpected = at position 5"), "{warnings:?}");
    assert_eq!(two.value("SELECT queue_wait('t:nosuch=1', 1)"), None);
    assert_eq!(two.column("SELECT * FROM t"), [2], "an error leaves no owner");
}

fn one_statement(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    for rows in [1, 2, 5] {
        (0..rows).for_each(|v| two.run(&format!("INSERT INTO t VALUES ({v})")));
        (0..rows).for_each(|v| assert_eq!(one.column("SELECT * FROM t WHERE queue_wait('t')"), [v]));
        assert_eq!(one.value("SELECT queue_end()"), Some(1));
    }
    assert!(one.column("SELECT * FROM t WHERE queue_wait('t', 0)").is_empty());
    one.value("SELECT queue_end()");
    scope(|scope| {
        let waiter = scope.spawn(|| one.column("SELECT * FROM t WHERE queue_wait('t')"));
        two.until_waiting(1);
        two.run("INSERT INTO t VALUES (77)");
        assert_eq!(waiter.join().unwrap(), [77]);
    });
    one.value("SELECT queue_abort()");
    two.run("INSERT INTO t VALUES (78), (79)");
    let prepared = one.prep("SELECT v FROM t WHERE queue_wait(?, ?)").unwrap();
    for v in 77..80 {
        let taken: Vec<i64> = one.exec(&prepared, ("t", 5)).unwrap();
        assert_eq!(taken, [v]);
    }
    one.value("SELECT queue_end()");
    two.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(one.column("SELECT queue_wait_n(2, 't', 0) FROM DUAL"), [1]);
    assert_eq!(one.column("SELECT * FROM t"), [1, 2]);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(2));
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait_n(9, 't')"), [3]);
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
}

fn owned_delete(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    for ending in ["queue_abort", "queue_end"] {
        one.run("INSERT INTO t VALUES (1), (2)");
        assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
        one.run("DELETE FROM t");
        assert!(one.column("SELECT * FROM t").is_empty());
        assert_eq!(one.value(&format!("SELECT {ending}()")), Some(1));
        assert_eq!(one.column("SELECT * FROM t"), [2]);
        assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(1));
        one.run("DELETE FROM t");
    }
}

fn owner(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    assert_eq!(two.column("SELECT * FROM t"), [2, 3]);
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(3), "counted although owned");
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    assert_eq!(one.column("SELECT * FROM t"), [1, 2, 3]);
    assert_eq!(two.column("SELECT * FROM t"), [1, 2, 3]);
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    assert_eq!(two.column("SELECT * FROM t"), [2, 3]);
    // The client is killed while it owns a row.
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    let id = one.value("SELECT CONNECTION_ID()").unwrap();
    let owned = "SELECT row_id, connection_id, TIMESTAMPDIFF(SECOND, since, NOW()) BETWEEN 0 AND 60 \
                 FROM information_schema.queue_owned WHERE table_schema = 'owner' AND table_name = 't'";
    assert_eq!(two.rows::<(i64, i64, i64)>(owned), [(2, id, 1)]);
    let queues = "SELECT waiting, owned, rows_written, TIMESTAMPDIFF(SECOND, oldest, NOW()) BETWEEN 0 AND 60 \
                  FROM information_schema.queues WHERE table_schema = 'owner'";
    assert_eq!(two.rows::<(i64, i64, i64, i64)>(queues), [(1, 1, 3, 1)]);
    two.run(&format!("KILL CONNECTION {id}"));
    assert_eq!(two.value("SELECT queue_wait('t', 60)"), Some(1));
    let first = two.column("SELECT * FROM t");
    assert!(first == [2] || first == [3]);
}

fn wait_in_vain(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(0));
    one.run("INSERT INTO t VALUES (1)");
    assert!(one.column("SELECT * FROM t").is_empty());
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(0));
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    assert!(one.column("SELECT * FROM t").is_empty());
}

fn blob(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v TEXT) ENGINE=QUEUE SYNC=none");
    for round in 1..12usize {
        let text = |nth: usize| format!("{:04}{}", nth, "x".repeat(round * 4000 + nth));
        let values: Vec<String> = (0..20).map(|nth| format!("('{}')", text(nth))).collect();
        one.run(&format!("INSERT INTO t VALUES {}", values.join(", ")));
        let found: Vec<String> = one.rows("SELECT * FROM t");
        assert_eq!(found, (0..20).map(text).collect::<Vec<_>>());
        let ordered: Vec<String> = one.rows("SELECT * FROM t ORDER BY v DESC");
        assert_eq!(ordered, (0..20).rev().map(text).collect::<Vec<_>>());
        one.run("DELETE FROM t LIMIT 20");
    }
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

fn blob_condition(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (body MEDIUMBLOB, id INT NOT NULL) ENGINE=QUEUE SYNC=none");
    one.run("INSERT INTO t VALUES ('stays', -1)");
    for id in 0..1000 {
        one.run(&format!("INSERT INTO t VALUES (REPEAT('b', 3000), {id})"));
        assert_eq!(one.value("SELECT queue_wait('t:id>=0', 0)"), Some(1));
        assert_eq!(one.value("SELECT queue_rowid()"), Some(id + 2));
        assert_eq!(one.column("SELECT id FROM t"), [id]);
    }
    assert_eq!(one.value("SELECT queue_compact('t')"), Some(1));
    assert_eq!(one.value("SELECT queue_wait('t:id>=-1', 0)"), Some(1));
    assert_eq!(one.value("SELECT queue_rowid()"), Some(1));
    assert_eq!(one.column("SELECT id FROM t"), [-1]);
    let stats: Vec<String> = one.rows("SELECT queue_stats('t')");
    assert!(stats[0].starts_with("rows_written: 1001\nrows_removed: 1000\n"), "{stats:?}");
    assert_eq!(stats[0].lines().count(), 9);
}

/// A relay that knows the source's incarnation: rows that come late are new, and so are those of an emptied source.
fn relay_by_origin(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE s (v INT NOT NULL) ENGINE=QUEUE");
    two.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    assert!(one.error("SELECT queue_origin()").contains("not in owner mode"));
    for wrong in ["", "x", "1:2:3:4", "64:1:0"] {
        assert_eq!(two.value(&format!("SELECT queue_set_origin('{wrong}')")), None);
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

/// Takes rows until one is negative.
fn take_all(client: &mut Client) -> Vec<i64> {
    let mut got = Vec::new();
    loop {
        let taken = client.column("SELECT v FROM t WHERE queue_wait('t', 60)");
        if taken[0] < 0 {
            client.value("SELECT queue_end()");
            return got;
        }
        got.extend(taken);
    }
}

fn many_readers(server: &Server, name: &str) {
    const READERS: i64 = 12;
    const ROWS: i64 = 1200;
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    let got = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..READERS {
            let mut client = server.connect(name);
            let got = &got;
            scope.spawn(move || {
                let mine = take_all(&mut client);
                got.lock().unwrap().extend(mine);
            });
        }
        (0..ROWS).for_each(|v| one.run(&format!("INSERT INTO t VALUES ({v})")));
        (0..READERS).for_each(|_| one.run("INSERT INTO t VALUES (-1)"));
    });
    let got = got.into_inner().unwrap();
    assert_eq!(got.len(), 1200);
    assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), (0..ROWS).collect());
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

/// Fewer rows than clients go round: each takes one and puts another in.
fn many_waiters(server: &Server, name: &str) {
    const CLIENTS: i64 = 12;
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE SYNC='interval'");
    (0..CLIENTS / 4).for_each(|v| one.run(&format!("INSERT INTO t VALUES ({})", v * 1000)));
    scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = server.connect(name);
            scope.spawn(move || {
                for _ in 0..30 {
                    let taken = client.column("SELECT v FROM t WHERE queue_wait('t', 60)");
                    client.run(&format!("INSERT INTO t VALUES ({})", taken[0] + 1));
                    client.value("SELECT queue_end()");
                }
            });
        }
    });
    let left = one.column("SELECT * FROM t");
    assert_eq!(left.len(), 3);
    assert_eq!(left.iter().map(|v| v % 1000).sum::<i64>(), CLIENTS * 30);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(3));
}

fn two_tables(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE a (v INT NOT NULL) ENGINE=QUEUE");
    one.run("CREATE TABLE b (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO b VALUES (10)");
    assert_eq!(one.value("SELECT queue_wait('a', 'b', 5)"), Some(2));
    assert_eq!(one.column("SELECT * FROM b"), [10]);
    assert!(one.column("SELECT * FROM a").is_empty());
    one.run("INSERT INTO a VALUES (1)");
    one.run("INSERT INTO b VALUES (11)");
    assert_eq!(one.value(&format!("SELECT queue_wait('{name}.a', '{name}.b:v>10', 5)")), Some(1));
    assert_eq!(one.value("SELECT queue_wait('a', 'b', 5)"), Some(2));
    assert_eq!(one.value("SELECT queue_wait('a', 'b', 0)"), Some(0));
    for (table, index) in [("a", 1), ("b", 2)] {
        scope(|scope| {
            let waiter = scope.spawn(|| one.value("SELECT queue_wait('a', 'b', 60)"));
            two.until_waiting(1);
            two.run(&format!("INSERT INTO {table} VALUES (5)"));
            assert_eq!(waiter.join().unwrap(), Some(index));
        });
    }
}

fn relay(server: &Server, name: &str) {
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

fn classes(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (prio INT NOT NULL, v INT NOT NULL, body TEXT) ENGINE=QUEUE SYNC=none");
    for block in 0..20 {
        let values: Vec<String> = (block * 50..block * 50 + 50)
            .map(|v| format!("({}, {v}, REPEAT('p', 2000))", i32::from(v % 3 != 0)))
            .collect();
        one.run(&format!("INSERT INTO t VALUES {}", values.join(",")));
    }
    let mut order = Vec::new();
    while one.value("SELECT queue_wait('t:prio=0', 't:prio=1', 0)") != Some(0) {
        order.extend(one.column("SELECT v FROM t"));
    }
    let wanted: Vec<i64> = (0..1000).filter(|v| v % 3 == 0).chain((0..1000).filter(|v| v % 3 != 0)).collect();
    assert_eq!(order, wanted);
}

fn classes_wake(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (prio INT NOT NULL, v INT NOT NULL) ENGINE=QUEUE");
    scope(|scope| {
        let waiter = scope.spawn(|| {
            let waited = one.value("SELECT queue_wait('t:prio=0', 't:prio=1', 60)");
            let mut got = one.column("SELECT v FROM t");
            while one.value("SELECT queue_wait('t:prio=0', 't:prio=1', 0)") != Some(0) {
                got.extend(one.column("SELECT v FROM t"));
            }
            (waited, got)
        });
        two.until_waiting(1);
        two.run("INSERT INTO t VALUES (1, 1), (0, 2), (1, 3)");
        assert_eq!(waiter.join().unwrap(), (Some(1), vec![2, 1, 3]));
    });
    assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(0));
}

/// Consumers and a producer while segments are rewritten: none is lost, none comes twice.
fn compaction(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL, body TEXT) ENGINE=QUEUE SYNC=none");
    let block = |from: i32| {
        let values: Vec<String> = (from..from + 500).map(|v| format!("({v}, REPEAT('c', 4000))")).collect();
        format!("INSERT INTO t VALUES {}", values.join(","))
    };
    (0..20).for_each(|nth| one.run(&block(nth * 500)));
    one.run("DELETE FROM t WHERE v % 10 < 8");
    let got = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..4 {
            let mut client = server.connect(name);
            let got = &got;
            scope.spawn(move || {
                let mine = take_all(&mut client);
                got.lock().unwrap().extend(mine);
            });
        }
        one.value("SELECT queue_compact('t')");
        one.run(&block(10_000));
        one.value("SELECT queue_compact('t')");
        (0..4).for_each(|_| one.run("INSERT INTO t VALUES (-1, '')"));
    });
    let got = got.into_inner().unwrap();
    let wanted: BTreeSet<i64> = (0..10_000).filter(|v| v % 10 >= 8).chain(10_000..10_500).collect();
    assert_eq!((got.len(), got.into_iter().collect::<BTreeSet<_>>()), (wanted.len(), wanted));
}

fn truncate(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
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

fn drop_owned(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
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

fn drop_waiting(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    scope(|scope| {
        let waiter = scope.spawn(|| one.value("SELECT queue_wait('t', 2)"));
        two.until_waiting(1);
        two.run("DROP TABLE t");
        assert!(two.error("SELECT * FROM t").contains("doesn't exist"));
        assert_eq!(waiter.join().unwrap(), Some(0));
    });
}

fn alter(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    // The copy would lose the owned row.
    assert!(two.error("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7").contains("rows are owned"));
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    two.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7");
    assert_eq!(one.column("SELECT w FROM t"), [7, 7, 7]);
    assert_eq!(one.value("SELECT queue_wait('t:w=7 and v=2')"), Some(1));
    assert_eq!(one.column("SELECT v FROM t"), [2]);
    one.value("SELECT queue_end()");
    one.run("ALTER TABLE t DROP COLUMN w");
    assert_eq!(one.column("SELECT * FROM t"), [1, 3]);
}

fn delete(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
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

/// Every type of column comes back as it went in, NULL too, and can be waited for.
fn types(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let columns = "a TINYINT UNSIGNED, b SMALLINT, c MEDIUMINT UNSIGNED, d BIGINT UNSIGNED, e DECIMAL(20,4), f DOUBLE, \
        g DATE, h TIME(3), i DATETIME(6), j TIMESTAMP(2) NULL, k YEAR, l CHAR(10), m VARCHAR(300) CHARACTER SET utf8mb4, \
        n BLOB, o ENUM('x','y'), p SET('x','y'), q BIT(12), r VARBINARY(20), s JSON, t POINT, u UUID, v INET6";
    let values = "200, -30000, 16000000, 18446744073709551615, -1234567890123456.7891, 1.5, '2026-11-21', '-12:34:56.789', \
        '2026-11-21 23:59:59.123456', '2001-09-09 01:46:40.25', 2026, 'Char', 'Gr\u{fc}\u{df}e', REPEAT('z', 70000), 'y', 'x,y', \
        b'101010101010', x'00ff', '{\"a\": 1}', POINT(1, 2), '123e4567-e89b-12d3-a456-426655440000', '::1'";
    one.run("SET time_zone = '+00:00'");
    one.run("SET NAMES utf8mb4");
    one.run(&format!("CREATE TABLE t ({columns}) ENGINE=QUEUE"));
    one.run(&format!("CREATE TABLE i ({columns}) ENGINE=InnoDB"));
    for table in ["t", "i"] {
        one.run(&format!(
            "INSERT INTO {table} VALUES ({})",
            values.replace("REPEAT('z', 70000)", "REPEAT('z', 60000)")
        ));
        one.run(&format!("INSERT INTO {table} () VALUES ()"));
    }
    for column in "abcdefghijklmnopqrsuv".chars() {
        let different = format!("SELECT COUNT(*) FROM t, i WHERE t.{column} <=> i.{column}");
        assert_eq!(one.value(&different), Some(2), "{column}");
    }
    assert_eq!(one.value("SELECT COUNT(*) FROM t WHERE ST_AsText(t) = 'POINT(1 2)'"), Some(1));
    for condition in [
        "a=200",
        "b=-30000",
        "c=16000000",
        "d=18446744073709551615",
        "e=-1234567890123456.7891",
        "e<-1234567890123456",
        "g=''2026-11-21''",
        "h=''-12:34:56.789''",
        "i=''2026-11-21 23:59:59.123456''",
        "i>20261121000000",
        "j=1000000000.25",
        "k=2026",
        "l=''CHAR''",
        "m=''gr\u{fc}\u{df}E''",
        "n is not null",
        "o is not null",
        "a is not null and b<0",
    ] {
        assert_eq!(one.value(&format!("SELECT queue_wait('t:{condition}', 0)")), Some(1), "{condition}");
        assert_eq!(one.column("SELECT a FROM t"), [200], "{condition}");
        one.value("SELECT queue_abort()");
        assert_eq!(
            one.value(&format!("SELECT queue_wait('t:not ({condition})', 0)")),
            Some(i64::from(condition.contains("null")))
        );
        one.value("SELECT queue_abort()");
    }
    assert_eq!(one.value("SELECT queue_wait('t:a is null and m is null', 0)"), Some(1));
    let nulls: Vec<Option<i64>> = one.rows("SELECT a FROM t");
    assert_eq!(nulls, [None]);
}

/// Wrong SQL gets an error or NULL.
fn refused(server: &Server, name: &str) {
    let mut one = server.connect(name);
    assert!(one.error("CREATE TABLE t (v INT PRIMARY KEY) ENGINE=QUEUE").contains("keys"));
    assert!(
        one.error("CREATE TABLE t (v INT AUTO_INCREMENT, KEY (v)) ENGINE=QUEUE").contains("AUTO_INCREMENT")
    );
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE");
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    one.run("INSERT INTO t VALUES (1), (2)");
    one.error("UPDATE t SET v = 3");
    assert_eq!(one.column("SELECT * FROM t"), [1, 2]);
    for statement in [
        "SELECT queue_wait()",
        "SELECT queue_set_srcid(1)",
        "SELECT queue_rowid(1)",
        "SELECT queue_stats()",
        "SELECT queue_compact()",
        "SELECT queue_wait(v) FROM i2",
        "CREATE TABLE x (v INT) ENGINE=QUEUE SYNC=perhaps",
    ] {
        one.error(statement);
    }
    for statement in [
        "SELECT queue_wait('i', 0)",
        "SELECT queue_wait('', 0)",
        "SELECT queue_wait(NULL, 0)",
        "SELECT queue_wait('t', NULL)",
        "SELECT queue_wait('t:((((', 0)",
        "SELECT queue_wait('nosuchdb.t', 0)",
        "SELECT queue_wait('t:v=''x''', 0)",
        "SELECT queue_compact('i')",
    ] {
        assert_eq!(one.value(statement), None, "{statement}");
    }
    one.run("INSERT INTO i VALUES (1), (2), (3)");
    assert!(one.error("SELECT * FROM i WHERE queue_wait(CONCAT('t', v))").contains("constants"));
    assert_eq!(one.column("SELECT queue_wait('t', 0) FROM i"), [1, 1, 1], "once in a statement");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("SHOW ENGINE QUEUE STATUS");
    one.run("SHOW TABLE STATUS LIKE 't'");
    one.run("ANALYZE TABLE t");
    one.run("CHECK TABLE t");
    one.run("FLUSH TABLES");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("CREATE USER nobody");
    one.run(&format!("GRANT SELECT ON {name}.i TO nobody"));
    one.run("SET ROLE NONE");
    one.value("SELECT queue_end()");
    assert_eq!(one.column("SELECT * FROM t"), [2]);
}

fn interrupted(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    let id = one.value("SELECT CONNECTION_ID()").unwrap();
    scope(|scope| {
        let waiter = scope.spawn(|| one.error("SELECT queue_wait('t', 600)"));
        two.until_waiting(1);
        two.run(&format!("KILL QUERY {id}"));
        assert!(waiter.join().unwrap().contains("interrupted"));
    });
    assert!(
        one.error("SET STATEMENT max_statement_time=0.2 FOR SELECT queue_wait('t', 600)")
            .contains("max_statement_time")
    );
    two.run("INSERT INTO t VALUES (1)");
    assert_eq!(one.column("SELECT * FROM t"), [1], "who was interrupted owns nothing");
    one.value("SELECT queue_wait('t')");
    drop(one);
    assert_eq!(two.value("SELECT queue_wait('t', 60)"), Some(1));
    assert_eq!(two.column("SELECT * FROM t"), [1]);
    assert_eq!(two.value("SELECT @@queue_owner"), Some(1));
    // A pool gives the connection to somebody else.
    two.reset().unwrap();
    two.run("USE interrupted");
    assert_eq!(two.value("SELECT @@queue_owner"), Some(0));
    assert_eq!(two.column("SELECT * FROM t"), [1]);
    assert_eq!(server.connect(name).column("SELECT * FROM t"), [1]);
}
