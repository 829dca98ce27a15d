//! Rows that a statement took but did not return are not ended.

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

/// Two queues `a` and `b`; `a` has the rows 1, 2 and 3.
fn queues(server: &Server, name: &str) -> Client {
    let mut one = server.connect(name);
    one.run("CREATE TABLE a (v INT NOT NULL) ENGINE=QUEUE");
    one.run("CREATE TABLE b (w INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO a VALUES (1), (2), (3)");
    one
}

#[test]
fn rows_that_are_not_returned_are_not_ended() {
    let server = Server::start();
    twice(&server, "twice");
    in_functions(&server, "in_functions");
    explained(&server, "explained");
    warned(&server, "warned");
}

/// A statement takes rows once. When it asks a second time it fails, and the rows are back.
fn twice(server: &Server, name: &str) {
    let mut one = queues(server, name);
    for statement in [
        "SELECT * FROM a, b WHERE queue_wait('a', 0) AND queue_wait('b', 0)",
        "SELECT queue_wait('a', 0), queue_wait('b', 0)",
        "SELECT queue_wait('a', 0), queue_wait('a', 0)",
        "SELECT queue_wait_n(2, 'a', 0), queue_wait_n(2, 'a', 0)",
        "SELECT v FROM a WHERE queue_wait('a', 0) UNION ALL SELECT v FROM a WHERE queue_wait('a', 0)",
        "SELECT v FROM a WHERE queue_wait('a', 0) UNION SELECT w FROM b WHERE queue_wait('b', 0)",
        "WITH x AS (SELECT v FROM a WHERE queue_wait('a', 0)) SELECT x.v, y.v FROM x, x AS y",
        "SET @x = queue_wait('a', 0) + queue_wait('b', 0)",
        "CREATE TABLE c SELECT queue_wait('a', 0), queue_wait('b', 0)",
        "SELECT v FROM a WHERE queue_lease(60, 1, 'a', 0) UNION ALL SELECT v FROM a WHERE queue_lease(60, 1, 'a', 0)",
        "SELECT v FROM a WHERE queue_lease(60, 1, 'a', 0) AND queue_lease(60, 1, 'b', 0)",
        "SELECT v FROM a WHERE queue_lease(60, 1, 'a', 0) AND queue_lease_json(60, 1, 'a', 0) > ''",
    ] {
        let error = one.error(statement);
        assert!(error.contains("has taken rows already"), "{statement}: {error}");
        assert_eq!(one.value("SELECT @@queue_owner"), Some(0), "{statement}");
        assert_eq!(one.column("SELECT v FROM a"), [1, 2, 3], "{statement}");
    }
    // DO drops errors, so it is refused before it takes anything.
    for statement in [
        "DO queue_wait('a', 0), queue_wait('b', 0)",
        "DO queue_wait('a', 0), queue_lease(60, 1, 'a', 0)",
        "EXECUTE IMMEDIATE \"DO queue_wait_n(2, 'a', 0), queue_wait('b', 0)\"",
    ] {
        let error = one.error(statement);
        assert!(error.contains("DO can take rows only once"), "{statement}: {error}");
        assert_eq!(one.column("SELECT v FROM a"), [1, 2, 3], "{statement}");
    }
    one.run("DO queue_wait('a', 0)");
    one.run("EXECUTE IMMEDIATE \"DO queue_wait('a', 0)\"");
    assert_eq!(one.column("SELECT v FROM a"), [2]);
    one.value("SELECT queue_abort()");
    one.run("DELETE FROM a");
    one.run("INSERT INTO a VALUES (1), (2), (3)");
    // A first wait in vain leaves nothing unseen, each statement of a procedure is one of its own, and leases
    // of which each is told are all seen.
    one.run("INSERT INTO b VALUES (7)");
    one.run("DELETE FROM a");
    assert_eq!(one.column("SELECT w FROM b WHERE queue_wait('a', 0) OR queue_wait('b', 0)"), [7]);
    one.value("SELECT queue_end()");
    one.run("INSERT INTO a VALUES (1), (2), (3)");
    one.run(
        "CREATE PROCEDURE p() BEGIN SET @n = 0; WHILE queue_wait('a', 0) DO SET @n = @n + 1; END WHILE; END",
    );
    one.run("CALL p()");
    assert_eq!(one.value("SELECT @n"), Some(3));
    one.value("SELECT queue_end()");
    one.run("INSERT INTO a VALUES (4), (5)");
    let both: Vec<(String, String)> =
        one.rows("SELECT queue_lease_json(60, 1, 'a', 0), queue_lease_json(60, 1, 'a', 0)");
    assert!(both[0].0.contains("\"v\":4") && both[0].1.contains("\"v\":5"), "{both:?}");
}

/// A function or a trigger waits: rows that the calling statement has taken are not ended by that, and
/// neither are those that a function took and may not have read, by the statement that called it.
fn in_functions(server: &Server, name: &str) {
    let mut one = queues(server, name);
    one.run("INSERT INTO b VALUES (7)");
    one.run("CREATE TABLE i (v INT NOT NULL) ENGINE=InnoDB");
    one.run("INSERT INTO i VALUES (1), (2)");
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=InnoDB");
    for function in [
        "take_b() RETURNS INT RETURN queue_wait('b', 0)",
        "lease_a() RETURNS INT RETURN queue_lease(60, 1, 'a', 0)",
        "read_a() RETURNS INT BEGIN DECLARE x INT; SELECT v INTO x FROM a WHERE queue_wait('a', 0); RETURN x; END",
        "read_two() RETURNS INT BEGIN DECLARE x, y INT; SELECT v INTO x FROM a WHERE queue_wait('a', 0); \
         SELECT v INTO y FROM a WHERE queue_wait('a', 0); RETURN 10 * x + y; END",
        "end_a() RETURNS INT BEGIN DECLARE x INT; SELECT v INTO x FROM a WHERE queue_wait('a', 0); \
         SET @n = queue_end(); RETURN x; END",
        "loop_a() RETURNS INT BEGIN DECLARE n INT DEFAULT 0; WHILE queue_wait('a', 0) DO SET n = n + 1; END WHILE; \
         RETURN n; END",
        "scan_a() RETURNS INT BEGIN DECLARE x, n INT DEFAULT 0; DECLARE c CURSOR FOR SELECT v FROM a WHERE queue_wait('a', 0); \
         OPEN c; FETCH c INTO x; SET n = x; CLOSE c; OPEN c; FETCH c INTO x; CLOSE c; RETURN 10 * n + x; END",
    ] {
        one.run(&format!("CREATE FUNCTION {function}"));
    }
    one.run("CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET @taken = queue_wait('b', 0)");
    for statement in [
        "SELECT queue_wait('a', 0), take_b()",
        "SELECT take_b() FROM a WHERE queue_wait('a', 0)",
        "SELECT v FROM a WHERE queue_wait('a', 0) AND take_b()",
        "SELECT read_a(), queue_wait('b', 0)",
        "SELECT take_b() + queue_wait('a', 0)",
        "SELECT v FROM a WHERE queue_lease(60, 1, 'a', 0) AND lease_a()",
        "INSERT INTO t SELECT queue_wait('a', 0)",
    ] {
        let error = one.error(statement);
        let refused = ["has taken rows already", "after the statement has read rows"];
        assert!(refused.iter().any(|refused| error.contains(refused)), "{statement}: {error}");
        assert_eq!(one.value("SELECT @@queue_owner"), Some(0), "{statement}");
        assert_eq!(one.column("SELECT v FROM a"), [1, 2, 3], "{statement}");
        assert_eq!(one.column("SELECT w FROM b"), [7], "{statement}");
    }
    // After rows were read a wait is refused with a warning, as everywhere.
    one.run("INSERT INTO t SELECT v FROM a WHERE queue_wait('a', 0)");
    assert_eq!(one.column("SELECT v FROM a"), [1]);
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    // Each statement of a function has seen its rows, and so has each call; an end between two waits is
    // meant.
    for (statement, result, left) in [
        ("SELECT read_two()", vec![12], vec![3]),
        ("SELECT read_a() FROM i", vec![1, 2], vec![3]),
        ("SELECT loop_a()", vec![3], vec![]),
        ("SELECT scan_a()", vec![12], vec![3]),
        ("SELECT end_a() + 0 * queue_wait('b', 0)", vec![1], vec![2, 3]),
    ] {
        assert_eq!(one.column(statement), result, "{statement}");
        one.value("SELECT queue_end()");
        assert_eq!(one.column("SELECT v FROM a"), left, "{statement}");
        one.run("DELETE FROM a");
        one.run("INSERT INTO a VALUES (1), (2), (3)");
    }
    // The statements of a procedure are each one of its own, whatever the arguments of its CALL took.
    one.run("CREATE PROCEDURE p(n INT) BEGIN SELECT v INTO @x FROM a; SET @y = read_a(); END");
    one.run("CALL p(queue_wait('a', 0))");
    assert_eq!(one.rows::<(i64, i64)>("SELECT @x, @y"), [(1, 2)]);
    one.value("SELECT queue_end()");
}

/// What shows how a statement runs calls no function of the queue.
fn explained(server: &Server, name: &str) {
    let mut one = queues(server, name);
    let token: Vec<String> = one.rows("SELECT JSON_VALUE(queue_lease_json(600, 1, 'a', 0), '$[0].token')");
    assert_eq!(one.column("SELECT v FROM a WHERE queue_wait('a', 0)"), [2]);
    let both: Vec<(i64, i64)> = vec![(1, 1)];
    let owned = "SELECT (SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_schema = 'explained' AND until IS NULL),
                        (SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_schema = 'explained' AND until IS NOT NULL)";
    assert_eq!(one.rows::<(i64, i64)>(owned), both);
    for how in ["EXPLAIN", "EXPLAIN EXTENDED", "EXPLAIN FORMAT=JSON", "ANALYZE", "ANALYZE FORMAT=JSON"] {
        for statement in [
            "SELECT v FROM a WHERE queue_wait('a', 0)".to_owned(),
            "SELECT v FROM (SELECT v FROM a WHERE queue_wait('a', 0) LIMIT 1) AS x".to_owned(),
            "SELECT (SELECT v FROM a WHERE queue_wait_n(3, 'a', 0))".to_owned(),
            "SELECT v FROM a WHERE queue_lease(60, 3, 'a', 0)".to_owned(),
            "INSERT INTO b SELECT v FROM a WHERE queue_wait('a', 0)".to_owned(),
            "SELECT queue_lease_json(60, 3, 'a', 0) FROM a LIMIT 1".to_owned(),
            "SELECT queue_end() FROM a LIMIT 1".to_owned(),
            "SELECT queue_abort() FROM a LIMIT 1".to_owned(),
            format!("SELECT queue_ack('{}') FROM a LIMIT 1", token[0]),
        ] {
            // In an INSERT the warning is an error, as all are in strict mode.
            drop(one.query::<mysql::Row, _>(format!("{how} {statement}")));
            assert_eq!(one.rows::<(i64, i64)>(owned), both, "{how} {statement}");
        }
    }
    one.rows::<mysql::Row>("ANALYZE SELECT queue_wait('a', 0) FROM a");
    assert!(one.warning().contains("do not call queue_wait()"));
    assert_eq!(one.value("SELECT queue_abort()"), Some(1));
    assert_eq!(one.column("SELECT v FROM a"), [2, 3]);
    assert!(one.column("SELECT w FROM b").is_empty());
}

/// A statement that takes more rows than it shows says so.
fn warned(server: &Server, name: &str) {
    let mut one = queues(server, name);
    one.run("CREATE TABLE i (v INT NOT NULL) ENGINE=InnoDB");
    one.run("INSERT INTO i VALUES (1), (2)");
    one.run("CREATE TABLE c (v INT)");
    for (statement, told) in [
        ("SELECT v FROM a WHERE queue_wait('a', 0)", None),
        ("SELECT v FROM a WHERE queue_wait('a', 0) LIMIT 1", None),
        ("SELECT v FROM a WHERE queue_wait_n(3, 'a', 0)", None),
        ("SELECT v FROM a WHERE queue_wait_n(3, 'a', 0) ORDER BY v DESC", None),
        ("SELECT COUNT(*) FROM a WHERE queue_wait_n(3, 'a', 0)", None),
        ("SELECT MAX(v) FROM a WHERE queue_wait_n(3, 'a', 0) GROUP BY v % 2", None),
        ("SELECT v INTO @x FROM a WHERE queue_wait('a', 0)", None),
        ("INSERT INTO c SELECT v FROM a WHERE queue_wait_n(3, 'a', 0)", None),
        ("SELECT v FROM i UNION ALL SELECT v FROM a WHERE queue_wait_n(3, 'a', 0)", None),
        ("SELECT queue_wait_n(3, 'a', 0)", None),
        ("SELECT v FROM a WHERE queue_wait_n(3, 'a', 0) LIMIT 1", Some((3, 1))),
        ("SELECT v FROM a WHERE queue_wait_n(3, 'a', 0) ORDER BY v DESC LIMIT 2", Some((3, 2))),
        ("SELECT v FROM a WHERE queue_wait_n(3, 'a', 0) AND v <> 2", Some((3, 2))),
        ("SELECT v FROM (SELECT v FROM a WHERE queue_wait_n(3, 'a', 0)) AS x LIMIT 1", Some((3, 1))),
        ("(SELECT v FROM a WHERE queue_wait_n(3, 'a', 0)) UNION ALL (SELECT v FROM i) LIMIT 2", Some((3, 2))),
        ("SELECT a.v FROM a STRAIGHT_JOIN i USING (v) WHERE queue_wait_n(3, 'a', 0)", Some((3, 2))),
        ("SELECT EXISTS (SELECT v FROM a WHERE queue_wait_n(3, 'a', 0))", Some((3, 1))),
        ("SELECT w FROM b WHERE queue_wait('a', 0)", Some((1, 0))),
        ("INSERT INTO c SELECT v FROM a WHERE queue_wait_n(3, 'a', 0) LIMIT 1", Some((3, 1))),
        ("SELECT v INTO @x FROM a WHERE queue_wait_n(3, 'a', 0) LIMIT 1", Some((3, 1))),
        ("SELECT v FROM a WHERE queue_lease(60, 3, 'a', 0) LIMIT 1", Some((3, 1))),
        ("SELECT v FROM a WHERE queue_lease(60, 3, 'a', 0)", None),
    ] {
        for lock in [false, true] {
            if lock {
                one.run("LOCK TABLES a WRITE, b WRITE, i WRITE, c WRITE");
            }
            // A statement with a result that is read to its end; its answer has the number of warnings.
            one.rows::<mysql::Row>(statement);
            let counted = one.warnings();
            let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
            let said = told.map(|(took, shows)| {
                format!("took {took} row{} of {name}.a and shows {shows};", if took == 1 { "" } else { "s" })
            });
            assert_eq!(warnings.len(), usize::from(told.is_some()), "{statement}: {warnings:?}");
            if !lock && statement.starts_with("SELECT v FROM a") {
                assert_eq!(usize::from(counted), warnings.len(), "{statement}");
            }
            assert!(said.iter().all(|said| warnings[0].2.contains(said)), "{statement}: {warnings:?}");
            if lock {
                one.run("UNLOCK TABLES");
            }
            let tokens = "SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_schema = 'warned' AND until IS NOT NULL";
            if one.value("SELECT @@queue_owner") == Some(1) {
                assert_eq!(one.value("SELECT queue_abort()"), Some(1));
            }
            if one.value(tokens) != Some(0) {
                one.run("TRUNCATE a");
                one.run("INSERT INTO a VALUES (1), (2), (3)");
            }
            assert_eq!(one.column("SELECT v FROM a"), [1, 2, 3], "{statement}");
        }
    }
}
