//! Changes of tables, connections and the server while rows are owned and waited for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::Server;

#[test]
fn a_table_changes_under_owners_and_waiters() {
    let server = Server::start();
    alter_while_taking(&server, "altered");
    alter_while_publishing(&server, "published");
    alter_online(&server, "online");
    alter_owned(&server, "kept");
    drop_wakes(&server, "dropped");
    rename(&server, "renamed");
    options(&server, "options");
    quiet_statements(&server, "quiet");
    backup_stages(&server, "stages");
}

/// Rows are taken and ended while the table is copied: the copy brings none back and loses none.
fn alter_while_taking(server: &Server, name: &str) {
    const ROWS: i64 = 4000;
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL, body TEXT) ENGINE=QUEUE SYNC=none");
    for block in 0..ROWS / 500 {
        let values: Vec<String> =
            (block * 500..block * 500 + 500).map(|v| format!("({v}, REPEAT('a', 500))")).collect();
        one.run(&format!("INSERT INTO t VALUES {}", values.join(",")));
    }
    let got = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..2 {
            let mut client = server.connect(name);
            let got = &got;
            scope.spawn(move || {
                while got.lock().unwrap().len() < usize::try_from(ROWS).unwrap() {
                    // 0 means that the table was replaced meanwhile, so try again. NULL would be an error.
                    if client.value("SELECT queue_wait('t', 1)").unwrap() == 1 {
                        let row = client.column("SELECT v FROM t");
                        client.value("SELECT queue_end()");
                        got.lock().unwrap().extend(row);
                    }
                }
            });
        }
        let mut altered = 0;
        while got.lock().unwrap().len() < usize::try_from(ROWS).unwrap() || altered == 0 {
            let change = if altered % 2 == 0 { "ADD COLUMN w INT" } else { "DROP COLUMN w" };
            one.run(&format!("ALTER TABLE t {change}"));
            altered += 1;
        }
    });
    let mut got = got.into_inner().unwrap();
    got.sort_unstable();
    assert_eq!(got, (0..ROWS).collect::<Vec<_>>());
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

/// Rows are published while the table is copied, also while a client owns one: each is there once.
fn alter_while_publishing(server: &Server, name: &str) {
    const PUBLISHERS: i64 = 3;
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL, body TEXT) ENGINE=QUEUE SYNC=none");
    one.run("INSERT INTO t SELECT -seq, REPEAT('a', 500) FROM seq_1_to_4000");
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
    let stop = AtomicBool::new(false);
    let published = Mutex::new((1..=4000).map(|v| -v).collect::<Vec<i64>>());
    scope(|scope| {
        for slot in 0..PUBLISHERS {
            let mut client = server.connect(name);
            let (stop, published) = (&stop, &published);
            scope.spawn(move || {
                let mut v = slot;
                while !stop.load(Ordering::Relaxed) {
                    client.run(&format!("INSERT INTO t (v) VALUES ({v})"));
                    published.lock().unwrap().push(v);
                    v += PUBLISHERS;
                }
            });
        }
        let mut client = server.connect(name);
        let altered = (0..10).try_for_each(|nth| {
            let change = if nth % 2 == 0 { "ADD COLUMN w INT" } else { "DROP COLUMN w" };
            client.query_drop(format!("ALTER TABLE t {change}"))
        });
        stop.store(true, Ordering::Relaxed);
        altered.unwrap();
    });
    assert_eq!(one.column("SELECT v FROM t"), [-1]);
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    let mut published = published.into_inner().unwrap();
    published.sort_unstable();
    assert_eq!(one.column("SELECT v FROM t ORDER BY v"), published);
}

/// A server that could copy a table while others write to it must not do so with a queue.
fn alter_online(server: &Server, name: &str) {
    let (mut one, _) = server.queue(name);
    one.run("INSERT INTO t VALUES (1), (1), (2)");
    one.error("ALTER TABLE t ADD COLUMN w INT, LOCK=NONE");
    one.error("ALTER TABLE t ENGINE=InnoDB, LOCK=NONE");
    let online: i64 = one.value("SELECT REGEXP_SUBSTR(VERSION(), '^[0-9]+') >= 11").unwrap();
    if online == 1 {
        assert!(one.error("ALTER TABLE t ENGINE=InnoDB").contains("LOCK=SHARED"));
    }
    assert_eq!(one.column("SELECT v FROM t"), [1, 1, 2]);
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1), "taken from again");
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    one.run("ALTER TABLE t ENGINE=InnoDB, LOCK=SHARED");
    one.error("ALTER TABLE t ENGINE=QUEUE, LOCK=NONE");
    one.run("ALTER TABLE t ENGINE=QUEUE");
    assert_eq!(one.column("SELECT v FROM t"), [1, 1, 2]);
}

/// An owner's operations after its table was altered, and renamed as well, apply to the new table.
fn alter_owned(server: &Server, name: &str) {
    let mut two = server.connect(name);
    for (ending, left) in [("queue_end", vec![2, 3]), ("queue_abort", vec![1, 2, 3]), ("", vec![1, 2, 3])] {
        let mut one = server.connect(name);
        two.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
        two.run("INSERT INTO t VALUES (0), (1), (2), (3)");
        assert_eq!(one.column("SELECT * FROM t WHERE queue_wait('t')"), [0]);
        assert_eq!(one.column("SELECT * FROM t WHERE queue_wait('t')"), [1]);
        assert_eq!(one.value("SELECT queue_rowid()"), Some(2));
        two.run("ALTER TABLE t ADD COLUMN w INT, RENAME TO u");
        two.run("RENAME TABLE u TO x");
        two.run("ALTER TABLE x DROP COLUMN w");
        assert_eq!(one.column("SELECT * FROM x"), [1]);
        assert_eq!(one.value("SELECT queue_rowid()"), Some(1), "numbers start over");
        let owned = "SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_name = 'x'";
        assert_eq!(two.value(owned), Some(1));
        if ending.is_empty() {
            drop(one);
            assert_eq!(two.value("SELECT queue_wait('x:v=1', 60)"), Some(1));
            two.value("SELECT queue_abort()");
        } else {
            assert_eq!(one.value(&format!("SELECT {ending}()")), Some(1));
        }
        assert_eq!(two.column("SELECT * FROM x"), left, "{ending}");
        two.run("DROP TABLE x");
    }
    // The owner changes its table itself.
    two.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    two.run("INSERT INTO t VALUES (1), (2)");
    assert_eq!(two.value("SELECT queue_wait('t')"), Some(1));
    two.run("ALTER TABLE t ADD COLUMN w INT");
    assert_eq!(two.column("SELECT v FROM t"), [1]);
    assert_eq!(two.value("SELECT queue_end()"), Some(1));
    assert_eq!(two.column("SELECT v FROM t"), [2]);
}

fn drop_wakes(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    for statement in ["DROP TABLE t", "ALTER TABLE t ADD COLUMN w INT"] {
        one.run("CREATE OR REPLACE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
        one.run("CREATE OR REPLACE TABLE u (v INT NOT NULL) ENGINE=QUEUE");
        scope(|scope| {
            let waiter = scope.spawn(|| {
                let waited = one.value("SELECT queue_wait('u', 't', 3600)");
                (waited, one.warning())
            });
            two.until_waiting(1);
            two.run(statement);
            let (waited, warning) = waiter.join().unwrap();
            assert_eq!(waited, Some(0), "{statement}");
            assert!(warning.contains("was dropped"), "{warning}");
        });
        assert_eq!(one.value("SELECT @@queue_owner"), Some(1), "as after any wait in vain");
        one.value("SELECT queue_end()");
    }
    two.run(&format!("DROP DATABASE {name}"));
    assert!(!server.0.data().join(name).exists(), "no file is left");
}

fn rename(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    one.run("INSERT INTO t VALUES (1), (2)");
    assert_eq!(one.value("SELECT queue_wait('t')"), Some(1));
    two.run("RENAME TABLE t TO `u-\u{fc}`");
    assert_eq!(one.column("SELECT * FROM `u-\u{fc}`"), [1]);
    assert_eq!(two.column("SELECT * FROM `u-\u{fc}`"), [2]);
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    assert_eq!(one.value("SELECT queue_wait('u-\u{fc}', 0)"), Some(1));
    assert_eq!(one.column("SELECT * FROM `u-\u{fc}`"), [2]);
    one.value("SELECT queue_end()");
    scope(|scope| {
        let waiter = scope.spawn(|| one.value("SELECT queue_wait('u-\u{fc}', 60)"));
        two.until_waiting(1);
        two.run("RENAME TABLE `u-\u{fc}` TO t");
        two.run("INSERT INTO t VALUES (3)");
        assert_eq!(waiter.join().unwrap(), Some(1));
    });
    assert_eq!(one.column("SELECT * FROM t"), [3]);
}

fn options(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE SYNC='interval'");
    one.run("INSERT INTO t VALUES (1), (2)");
    one.run("ALTER TABLE t SYNC=none");
    let shown: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    // MariaDB 11.8 shows it without quotes.
    assert!(shown[0].1.replace('\'', "").contains("`SYNC`=none"), "{shown:?}");
    // A condition uses the current names of columns.
    one.run("ALTER TABLE t RENAME COLUMN v TO w");
    assert_eq!(one.value("SELECT queue_wait('t:w = 2', 0)"), Some(1));
    assert_eq!(one.value("SELECT queue_wait('t:v = 1', 0)"), None);
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("ALTER TABLE t SYNC=DEFAULT");
    one.run("ALTER TABLE t ENGINE=InnoDB, LOCK=SHARED");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("ALTER TABLE t ENGINE=QUEUE");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
}

/// Statements that must not be blocked by a waiter.
fn quiet_statements(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    scope(|scope| {
        let waiter = scope.spawn(|| one.value("SELECT queue_wait('t', 60)"));
        two.until_waiting(1);
        for statement in [
            "FLUSH TABLES",
            "FLUSH TABLES t",
            "ANALYZE TABLE t",
            "CHECK TABLE t",
            "REPAIR TABLE t",
            "OPTIMIZE TABLE t",
            "TRUNCATE t",
            "SHOW ENGINE QUEUE STATUS",
            "SHOW TABLE STATUS",
            "SELECT * FROM information_schema.tables WHERE table_name = 't'",
            "CREATE OR REPLACE VIEW w AS SELECT * FROM t WHERE queue_wait('t', 0)",
            "EXPLAIN SELECT * FROM t WHERE queue_wait('t', 0)",
        ] {
            two.run(statement);
            assert_eq!(two.waiting(), 1, "after {statement}");
        }
        let repaired: Vec<(String, String, String, String)> = two.rows("REPAIR TABLE t");
        assert!(repaired[0].3.contains("doesn't support repair"), "{repaired:?}");
        assert_eq!(two.value("SELECT COUNT(*) FROM t"), Some(0));
        two.run("INSERT INTO t VALUES (1), (2)");
        assert_eq!(waiter.join().unwrap(), Some(1));
    });
    assert_eq!(two.column("SELECT v FROM w"), [2], "through a view");
}

/// No operation on a queue waits for a backup, except those that the server itself blocks.
fn backup_stages(server: &Server, name: &str) {
    let (mut one, mut two) = server.queue(name);
    one.run("INSERT INTO t VALUES (1), (2)");
    for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        two.run(&format!("BACKUP STAGE {stage}"));
        assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
        assert_eq!(one.column("SELECT * FROM t"), [1]);
        assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    }
    two.run("BACKUP STAGE END");
    two.run("FLUSH TABLES WITH READ LOCK");
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    two.run("UNLOCK TABLES");
    assert_eq!(one.column("SELECT * FROM t"), [2]);
}

#[test]
fn a_connection_ends_in_many_ways() {
    let server = Server::start();
    let name = "ends";
    let (mut one, mut two) = server.queue(name);
    two.run("INSERT INTO t VALUES (1)");
    // A pool resets the connection and keeps it idle: the row comes back although nobody uses the connection.
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
    one.reset().unwrap();
    assert_eq!(two.value("SELECT queue_wait('t', 60)"), Some(1));
    assert_eq!(two.value("SELECT queue_abort()"), Some(1));
    one.run(&format!("USE {name}"));
    assert_eq!(one.value("SELECT @@queue_owner"), Some(0));
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
    one.change_user(mysql::ChangeUserOpts::new().with_user(Some("root".to_owned()))).unwrap();
    assert_eq!(two.value("SELECT queue_wait('t', 60)"), Some(1));
    assert_eq!(two.value("SELECT queue_abort()"), Some(1));
    // A waiting client that is gone is given nothing.
    one.run(&format!("USE {name}"));
    two.run("DELETE FROM t");
    let id = one.value("SELECT CONNECTION_ID()").unwrap();
    scope(|scope| {
        let waiter = scope.spawn(|| one.error("SELECT queue_wait('t', 3600)"));
        two.until_waiting(1);
        two.run(&format!("KILL CONNECTION {id}"));
        waiter.join().unwrap();
    });
    two.run("INSERT INTO t VALUES (5)");
    assert_eq!(two.value("SELECT queue_wait('t', 60)"), Some(1));
}

/// Functions in every place where SQL allows one.
#[test]
fn a_function_is_evaluated_once_in_a_statement() {
    let server = Server::start();
    let name = "places";
    let (mut one, _) = server.queue(name);
    one.run("CREATE TABLE i (v INT NOT NULL) ENGINE=InnoDB");
    one.run("INSERT INTO i VALUES (1), (2), (3)");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12)");
    for (nth, statement) in [
        "SELECT v FROM t WHERE queue_wait('t') AND v > 0",
        "SELECT v FROM t WHERE queue_wait('t') LIMIT 1",
        "SELECT MAX(v) FROM t WHERE queue_wait('t')",
        "SELECT v FROM (SELECT v FROM t WHERE queue_wait('t')) AS x",
        "WITH x AS (SELECT v FROM t WHERE queue_wait('t')) SELECT v FROM x",
        "SELECT t.v FROM t STRAIGHT_JOIN i WHERE queue_wait('t') AND i.v = 2",
        "SELECT v FROM t WHERE queue_wait('t') > 0 AND v > 0 ORDER BY v DESC",
        "SELECT (SELECT v FROM t WHERE queue_wait('t'))",
    ]
    .into_iter()
    .enumerate()
    {
        let v = i64::try_from(nth).unwrap() + 1;
        assert_eq!(one.column(statement), [v], "{statement}");
    }
    assert_eq!(one.column("SELECT queue_wait('t', 0) FROM i"), [1, 1, 1]);
    assert_eq!(one.column("SELECT v FROM t"), [9]);
    one.run("CREATE TABLE c (v INT)");
    one.run("INSERT INTO c SELECT v FROM t WHERE queue_wait('t')");
    assert_eq!(one.column("SELECT v FROM c"), [10]);
    // In a loop, each iteration is a statement.
    one.run(
        "CREATE PROCEDURE p() BEGIN
           WHILE queue_wait('t', 0) DO INSERT INTO c SELECT v FROM t; END WHILE;
           SET @ended = queue_end();
         END",
    );
    one.run("CALL p()");
    assert_eq!(one.column("SELECT v FROM c ORDER BY v"), [10, 11, 12]);
    assert_eq!(one.value("SELECT @ended"), Some(1));
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    // If rows were read before the wait, the statement would show rows other than those it took.
    assert!(one.column("SELECT v FROM t WHERE queue_wait('t') OR v < 0").is_empty());
    let rows: Vec<(i64, Option<i64>)> = one.rows("SELECT v, queue_wait('t', 0) FROM t");
    assert_eq!(rows, [(1, None), (2, None), (3, None)]);
    assert_eq!(one.value("SELECT @@queue_owner"), Some(0));
    assert!(one.error("DELETE FROM t WHERE queue_wait(v)").contains("constants"));
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(3));
}

#[test]
fn taking_rows_needs_the_privileges_select_and_delete() {
    let server = Server::start();
    let name = "rights";
    let mut root = server.connect(name);
    root.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    root.run("CREATE TABLE u (v INT NOT NULL) ENGINE=QUEUE");
    root.run("INSERT INTO t VALUES (1), (2), (3)");
    root.run("CREATE USER some@localhost");
    let statement = format!("SELECT queue_wait('{name}.t', 0)");
    for (grant, taken) in [
        (String::new(), None),
        (format!("GRANT SELECT ON {name}.t TO some@localhost"), None),
        (format!("GRANT SELECT, DELETE ON {name}.u TO some@localhost"), None),
        (format!("GRANT DELETE ON {name}.t TO some@localhost"), Some(1)),
        (format!("REVOKE ALL ON {name}.t FROM some@localhost"), None),
        (format!("GRANT SELECT, DELETE ON {name}.* TO some@localhost"), Some(1)),
        (format!("REVOKE DELETE ON {name}.* FROM some@localhost"), None),
        ("GRANT SELECT, DELETE ON *.* TO some@localhost".to_owned(), Some(1)),
    ] {
        if !grant.is_empty() {
            root.run(&grant);
        }
        let mut some = server.connect_as("some");
        assert_eq!(some.value(&statement), taken, "after {grant}");
        if taken.is_some() {
            some.value("SELECT queue_abort()");
        } else {
            assert!(some.warning().contains("no privilege"));
        }
        let queues: i64 = some.value("SELECT COUNT(*) FROM information_schema.queues").unwrap();
        assert_eq!(queues, 0, "PROCESS is needed");
    }
}

/// Rows of a queue are not in the binary log; rows that pass through triggers need row format.
#[test]
fn queues_are_not_replicated() {
    let server = Server::start_with(&["--log-bin=log", "--server-id=1"]);
    let mut one = server.connect("logged");
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("CREATE TABLE i (v INT NOT NULL) ENGINE=InnoDB");
    one.run("INSERT INTO t VALUES (1)");
    one.run("INSERT INTO i VALUES (2)");
    one.run("CREATE TRIGGER g AFTER INSERT ON i FOR EACH ROW INSERT INTO t VALUES (NEW.v)");
    one.run("SET SESSION binlog_format = STATEMENT");
    one.error("INSERT INTO i VALUES (3)");
    one.run("SET SESSION binlog_format = ROW");
    one.run("INSERT INTO i VALUES (4)");
    assert_eq!(one.column("SELECT * FROM i"), [2, 4]);
    let queued: BTreeSet<i64> = one.column("SELECT * FROM t").into_iter().collect();
    assert!(queued.contains(&1) && queued.contains(&4));
    one.run("FLUSH BINARY LOGS");
    type Event = (String, u64, String, u32, u64, String);
    let events: Vec<Event> = one.rows("SHOW BINLOG EVENTS IN 'log.000001'");
    let said = |text: &str| events.iter().any(|event| event.5.contains(text));
    assert!(said("INSERT INTO i VALUES (2)"), "{events:?}");
    assert!(said("CREATE TABLE t"));
    assert!(!said("INSERT INTO t") || said("CREATE DEFINER"), "only the trigger's text");
    assert!(!said("INSERT INTO t VALUES (1)"));
    assert!(!events.iter().any(|event| event.5.contains("logged.t)")), "{events:?}");
}
