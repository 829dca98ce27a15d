//! What Q4M's test cases assert, one function each. All run in one server, each in its own database.

use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::Server;
use crate::{many_clients, relay, table, value};

type Case = fn(&Server, &str);

const CASES: [(&str, Case); 31] = [
    ("base", base),
    ("rnd_pos", rnd_pos),
    ("wait", wait),
    ("condition", condition),
    ("one_statement", one_statement),
    ("owned_delete", owned_delete),
    ("owner", owner),
    ("wait_in_vain", wait_in_vain),
    ("blob", value::blob),
    ("blob_condition", value::blob_condition),
    ("many_readers", many_clients::many_readers),
    ("many_waiters", many_clients::many_waiters),
    ("two_tables", two_tables),
    ("relay", relay::relay),
    ("relay_by_origin", relay::relay_by_origin),
    ("relay_to_altered", relay::relay_to_altered),
    ("relay_large", relay::relay_large),
    ("classes", classes),
    ("classes_wake", classes_wake),
    ("compaction", many_clients::compaction),
    ("truncate", table::truncate),
    ("drop_owned", table::drop_owned),
    ("drop_waiting", table::drop_waiting),
    ("alter", table::alter),
    ("delete", table::delete),
    ("peek", peek),
    ("types", value::types),
    ("refused", value::refused),
    ("comparable", value::comparable),
    ("delete_while_taking", value::delete_while_taking),
    ("counters", value::counters),
];

#[test]
fn the_test_cases_of_q4m_hold() {
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
    let (mut one, _) = server.queue(name);
    assert_eq!(one.value("SELECT queue_wait('nonexistent_table', 1)"), None);
    assert!(one.warning().contains("there is no queue"));
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
    let (mut one, mut two) = server.queue(name);
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
    assert!(two.warning().contains("unexpected = at position 5"));
    assert_eq!(two.value("SELECT queue_wait('t:nosuch=1', 1)"), None);
    assert_eq!(two.column("SELECT * FROM t"), [2], "an error leaves no owner");
}

fn one_statement(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
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
    let (mut one, _) = server.queue(name);
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
    let (mut one, mut two) = server.queue(name);
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
                  AND oldest_age BETWEEN 0 AND 60, written_per_second, removed_per_second FROM information_schema.queues WHERE table_schema = 'owner'";
    assert_eq!(two.rows::<(i64, i64, i64, i64, i64, i64)>(queues), [(1, 1, 3, 1, 1, 1)]);
    two.run(&format!("KILL CONNECTION {id}"));
    assert_eq!(two.value("SELECT queue_wait('t', 60)"), Some(1));
    let first = two.column("SELECT * FROM t");
    assert!(first == [2] || first == [3]);
}

/// Beyond the original: reads everything from a given row on, and takes nothing.
fn peek(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(two.value("SELECT queue_wait('t')"), Some(1));
    let look = |from: i64| format!("SELECT queue_peek('t', {from}), v FROM t WHERE queue_peek('t', {from})");
    assert_eq!(one.rows::<(i64, i64)>(&look(0)), [(4, 1), (4, 2), (4, 3)]);
    assert_eq!(one.rows::<(i64, i64)>(&look(3)), [(4, 3)]);
    assert!(one.rows::<(i64, i64)>(&look(4)).is_empty());
    assert_eq!(one.column("SELECT v FROM t"), [2, 3]);
    assert_eq!(one.value("SELECT queue_peek('t', 99)"), Some(4));
    assert_eq!(one.column("SELECT v FROM t"), [2, 3], "it ends with its statement");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_peek('t', 0)"), [1, 2, 3]);
    assert_eq!(two.column("SELECT v FROM t"), [1]);
    assert!(one.error("SELECT queue_peek('nosuch', 0)").contains("1146"));
    one.run("DELETE FROM t WHERE queue_peek('t', 0)");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(1), "what others own stays");
    assert_eq!(two.column("SELECT v FROM t"), [1]);
}

fn wait_in_vain(server: &Server, name: &str) {
    let (mut one, _) = server.queue(name);
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

fn interrupted(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
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
    // A connection pool gives the connection to another client.
    two.reset().unwrap();
    two.run("USE interrupted");
    assert_eq!(two.value("SELECT @@queue_owner"), Some(0));
    assert_eq!(two.column("SELECT * FROM t"), [1]);
    assert_eq!(server.connect(name).column("SELECT * FROM t"), [1]);
}
