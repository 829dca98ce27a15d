//! If a statement fails, the rows that it published are not there, and the rows that it took go back to their
//! places.

use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

/// The waiting rows as another client sees them. Waits until nobody owns a row, as rows come back when the
/// statement is over.
fn waiting(client: &mut Client) -> Vec<i64> {
    let owned = "SELECT COUNT(*) FROM information_schema.queue_owned WHERE table_schema = DATABASE()";
    while client.value(owned) != Some(0) {}
    client.column("SELECT v FROM t")
}

#[test]
fn a_statement_that_fails_takes_nothing() {
    let server = Server::start();
    let (mut one, mut two) = server.queue("takes");
    two.run("INSERT INTO t VALUES (1), (2)");
    two.run("CREATE TABLE i (v INT PRIMARY KEY)");
    two.run("INSERT INTO i VALUES (1)");
    two.run("CREATE FUNCTION f() RETURNS INT BEGIN RETURN queue_wait('t', 0); END");
    let id = one.value("SELECT CONNECTION_ID()").unwrap();
    scope(|scope| {
        let sleeper = scope.spawn(|| one.error("SELECT v, SLEEP(600) FROM t WHERE queue_wait('t', 1)"));
        let owned = "SELECT COUNT(*) FROM information_schema.queue_owned";
        while two.value(owned) != Some(1) {}
        two.run(&format!("KILL QUERY {id}"));
        assert!(sleeper.join().unwrap().contains("interrupted"));
    });
    assert_eq!(waiting(&mut two), [1, 2], "killed");
    for statement in [
        "SET STATEMENT max_statement_time=0.2 FOR SELECT v, SLEEP(600) FROM t WHERE queue_wait('t', 1)",
        "SELECT v, (SELECT 1 UNION SELECT 2) FROM t WHERE queue_wait('t', 1)",
        "SELECT queue_wait('t', 1), (SELECT 1 UNION SELECT 2)",
        "INSERT INTO i SELECT v FROM t WHERE queue_wait('t', 1)",
        "SELECT f(), (SELECT 1 UNION SELECT 2)",
    ] {
        one.error(statement);
        assert_eq!(waiting(&mut two), [1, 2], "{statement}");
        assert_eq!(one.value("SELECT @@queue_owner"), Some(0), "{statement}");
    }
    let failed = one.exec::<mysql::Row, _, _>(
        "SELECT v, (SELECT 1 UNION SELECT ?) FROM t WHERE queue_wait('t', 1)",
        (2,),
    );
    assert!(failed.unwrap_err().to_string().contains("more than 1 row"));
    assert_eq!(waiting(&mut two), [1, 2], "prepared");
    // A plain retry gets the row that the failed statement would have got.
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 1)"), [1]);
    // A statement that fails keeps what an earlier one took.
    one.error("SELECT (SELECT 1 UNION SELECT 2) FROM t");
    assert_eq!(one.column("SELECT v FROM t"), [1]);
    one.value("SELECT queue_end()");
    assert_eq!(waiting(&mut two), [2]);
}

#[test]
fn within_a_procedure_each_statement_is_a_unit() {
    let server = Server::start();
    let (mut one, mut two) = server.queue("procedure");
    two.run("CREATE TABLE i (v INT PRIMARY KEY)");
    two.run("INSERT INTO i VALUES (1)");
    two.run("INSERT INTO t VALUES (1), (2)");
    // The condition has taken the row, and another statement fails: the procedure still owns the row.
    two.run(
        "CREATE PROCEDURE handled() BEGIN
           DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @failed = 1;
           IF queue_wait('t', 0) THEN INSERT INTO i SELECT v FROM t; END IF;
           SET @seen = (SELECT v FROM t);
           SET @ended = queue_end();
         END",
    );
    one.run("CALL handled()");
    assert_eq!(one.rows::<(i64, i64, i64)>("SELECT @failed, @seen, @ended"), [(1, 1, 1)]);
    assert_eq!(waiting(&mut two), [2]);
    // A statement that takes a row and fails does not keep it, whether the error is handled or not.
    two.run("INSERT INTO i VALUES (2)");
    two.run(
        "CREATE PROCEDURE caught() BEGIN
           DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @failed = 2;
           INSERT INTO i SELECT v FROM t WHERE queue_wait('t', 0);
           SET @owner = @@queue_owner;
         END",
    );
    one.run("CALL caught()");
    assert_eq!(one.rows::<(i64, i64)>("SELECT @failed, @owner"), [(2, 0)]);
    assert_eq!(waiting(&mut two), [2]);
    // A CALL that fails counts as a statement that fails.
    two.run("CREATE PROCEDURE fails() BEGIN DO queue_wait('t', 0); INSERT INTO i VALUES (1); END");
    one.error("CALL fails()");
    assert_eq!(waiting(&mut two), [2]);
}

#[test]
fn a_statement_that_fails_publishes_nothing() {
    let server = Server::start();
    let (mut one, mut two) = server.queue("publishes");
    two.run("CREATE TABLE i (v INT PRIMARY KEY)");
    two.run("INSERT INTO i VALUES (7)");
    two.run("CREATE TRIGGER g BEFORE INSERT ON i FOR EACH ROW INSERT INTO t VALUES (NEW.v)");
    two.run("CREATE TABLE a (v INT) ENGINE=QUEUE");
    two.run(
        "CREATE TRIGGER h AFTER INSERT ON a FOR EACH ROW
         BEGIN IF NEW.v = 3 THEN SIGNAL SQLSTATE '45000'; END IF; END",
    );
    two.run("CREATE FUNCTION f(n INT) RETURNS INT BEGIN INSERT INTO t VALUES (n), (n + 1); RETURN n; END");
    let some = "(SELECT 1 UNION SELECT 2)";
    for statement in [
        &format!("INSERT INTO t SELECT IF(seq = 3, {some}, seq) FROM seq_1_to_5"),
        &format!("INSERT INTO t VALUES (1), (2), ({some})"),
        &format!("INSERT INTO t VALUES (1) RETURNING {some}"),
        &format!("INSERT INTO t VALUES (1), (2) RETURNING IF(v = 2, {some}, v)"),
        &format!("SELECT f(1), {some}"),
        "INSERT INTO i VALUES (1), (2), (7), (8)",
        "INSERT INTO a VALUES (3)",
        "INSERT INTO a VALUES (1), (2), (3)",
        "INSERT INTO a SELECT seq FROM seq_1_to_5",
        "SET STATEMENT max_statement_time=0.3 FOR INSERT INTO t SELECT seq + SLEEP(0.1) FROM seq_1_to_1000",
    ] {
        one.error(statement);
        for table in ["t", "a"] {
            assert_eq!(two.value(&format!("SELECT COUNT(*) FROM {table}")), Some(0), "{statement}");
        }
    }
    // The same without the error: all rows are there, and are offered when the statement has ended.
    scope(|scope| {
        let mut waiter = server.connect("publishes");
        let waiter = scope.spawn(move || {
            assert_eq!(waiter.value("SELECT queue_wait_n(9, 't:v > 1', 60)"), Some(1));
            waiter.column("SELECT v FROM t")
        });
        two.until_waiting(1);
        one.run("INSERT INTO i VALUES (1), (2), (3)");
        assert_eq!(waiter.join().unwrap(), [2, 3]);
    });
    assert_eq!(waiting(&mut two), [1, 2, 3]);
    one.run("INSERT INTO a VALUES (1), (2)");
    assert_eq!(one.value("SELECT f(10)"), Some(10));
    assert_eq!(one.rows::<i64>("INSERT INTO t VALUES (4) RETURNING v"), [4]);
    assert_eq!(two.column("SELECT v FROM a"), [1, 2]);
    assert_eq!(two.column("SELECT v FROM t"), [1, 2, 3, 10, 11, 4]);
    // Under LOCK TABLES too.
    one.run("LOCK TABLES i WRITE, t WRITE");
    one.error("INSERT INTO i VALUES (21), (22), (7)");
    one.run("INSERT INTO i VALUES (31)");
    one.run("UNLOCK TABLES");
    assert_eq!(two.column("SELECT v FROM t"), [1, 2, 3, 10, 11, 4, 31]);
    // Rows deleted by a statement that fails stay.
    two.run("CREATE TRIGGER k AFTER DELETE ON a FOR EACH ROW BEGIN IF OLD.v = 2 THEN SIGNAL SQLSTATE '45000'; END IF; END");
    one.error("DELETE FROM a");
    assert_eq!(two.column("SELECT v FROM a"), [1, 2]);
    one.error(&format!("DELETE FROM t WHERE v < 4 OR {some} = 1"));
    assert_eq!(two.column("SELECT v FROM t"), [1, 2, 3, 10, 11, 4, 31]);
}

/// More rows than are kept in memory, and the last one fails; also a relayed row in a statement that fails.
#[test]
fn a_large_statement_that_fails_publishes_nothing() {
    let server = Server::start();
    let mut one = server.connect("large");
    one.run("CREATE TABLE t (v MEDIUMTEXT) ENGINE=QUEUE SYNC=none");
    let rows = |last: &str| {
        format!("INSERT INTO t SELECT REPEAT(IF(seq = 80, {last}, 'x'), 1000000) FROM seq_1_to_80")
    };
    one.error(&rows("(SELECT 1 UNION SELECT 2)"));
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
    one.run(&rows("'y'"));
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(80));
    assert_eq!(one.value("SELECT COUNT(*) FROM t WHERE LENGTH(v) = 1000000"), Some(80));
    one.run("TRUNCATE t");
    // A relayed row is sent again, although it failed.
    for last in ["(SELECT 1 UNION SELECT 2)", "'y'", "'y'"] {
        assert_eq!(one.value("SELECT queue_set_srcid(1, 'a', 10)"), Some(1));
        let failed = one.query_drop(format!("INSERT INTO t VALUES ('x'), ({last})")).is_err();
        assert_eq!(failed, last.contains("UNION"));
        one.run("INSERT INTO t VALUES ('z')");
    }
    assert_eq!(one.rows::<String>("SELECT v FROM t"), ["z", "x", "y", "z", "z"]);
}

/// A row that another condition hides is owned all the same, and a warning says so.
#[test]
fn a_row_that_is_taken_but_not_returned_is_reported() {
    let server = Server::start();
    let (mut one, _) = server.queue("hidden");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    for statement in
        ["SELECT v FROM t WHERE queue_wait('t', 0)", "SELECT v FROM t WHERE queue_wait('t', 0) AND v > 1"]
    {
        one.column(statement);
        let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
        assert!(warnings.is_empty(), "{statement}: {warnings:?}");
    }
    assert!(one.column("SELECT v FROM t WHERE v = 1 AND queue_wait('t', 0)").is_empty());
    let warning = one.warning();
    assert!(
        warning.contains("hidden.t are owned") && warning.contains("queue_wait('t:CONDITION')"),
        "{warning}"
    );
    assert_eq!(one.column("SELECT v FROM t"), [3]);
}

/// A dump misses no row when it is told to see owned rows.
#[test]
fn a_dump_can_include_owned_rows() {
    let server = Server::start();
    let (mut one, mut two) = server.queue("dumped");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(1));
    assert_eq!(two.column("SELECT /*!40001 SQL_NO_CACHE */ * FROM t"), [2, 3]);
    two.run("SET queue_show_owned = ON");
    assert_eq!(two.column("SELECT /*!40001 SQL_NO_CACHE */ * FROM t"), [1, 2, 3]);
    two.run("DELETE FROM t WHERE v < 3");
    assert_eq!(two.column("SELECT v FROM t"), [1, 3], "it is for looking");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [3], "an owner sees its own");
    two.value("SELECT queue_abort()");
    two.run("SET GLOBAL queue_show_owned = ON");
    assert_eq!(server.connect("dumped").column("SELECT v FROM t"), [1, 3]);
    assert_eq!(one.column("SELECT v FROM t"), [1]);
}

#[test]
fn statements_that_a_replica_would_repeat_are_not_logged_as_text() {
    let server = Server::start_with(&["--log-bin=log", "--server-id=1"]);
    let (mut one, _) = server.queue("logged");
    one.run("CREATE TABLE i (v INT)");
    one.run("CREATE TABLE q LIKE t");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4)");
    one.run("SET binlog_format = STATEMENT");
    for statement in [
        "INSERT INTO i SELECT v FROM t WHERE queue_wait('t', 0)",
        "CREATE TABLE n SELECT v FROM t WHERE queue_wait('t', 0)",
    ] {
        assert!(one.error(statement).contains("binlog_format=ROW"), "{statement}");
    }
    assert_eq!(one.value("SELECT @@queue_owner"), Some(0));
    // Rows that go into a queue are not logged at all.
    one.run("INSERT INTO q SELECT v FROM t WHERE queue_wait('t', 0)");
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 0)"), [2]);
    one.run("SET binlog_format = MIXED");
    one.run("INSERT INTO i SELECT v FROM t WHERE queue_wait('t', 0)");
    one.value("SELECT queue_end()");
    one.run("FLUSH BINARY LOGS");
    type Event = (String, u64, String, u32, u64, String);
    let events: Vec<Event> = one.rows("SHOW BINLOG EVENTS IN 'log.000001'");
    assert!(events.iter().any(|event| event.2 == "Write_rows_v1"), "{events:?}");
    let as_text = |event: &&Event| event.2 == "Query" && event.5.contains("queue_wait('t'");
    assert_eq!(events.iter().find(as_text), None);
}

/// The same through functions and triggers, and for rows that are read without a function of the queue.
#[test]
fn statements_that_read_a_queue_are_not_logged_as_text() {
    let server = Server::start_with(&["--log-bin=log", "--server-id=1", "--log-bin-trust-function-creators"]);
    let (mut one, _) = server.queue("logged");
    one.run("CREATE TABLE i (v INT)");
    one.run("CREATE TABLE g (v INT)");
    one.run("CREATE TABLE q LIKE t");
    one.run("CREATE TABLE w (v INT)");
    one.run("CREATE TABLE x LIKE t");
    one.run("INSERT INTO t SELECT seq FROM seq_1_to_20");
    one.run("CREATE FUNCTION waits() RETURNS INT RETURN queue_wait('t', 0)");
    one.run(
        "CREATE FUNCTION ends() RETURNS INT BEGIN DECLARE r INT; SELECT queue_end() INTO r; RETURN r; END",
    );
    one.run("CREATE FUNCTION rows_of() RETURNS INT RETURN (SELECT MIN(v) FROM t)");
    one.run(
        "CREATE FUNCTION writes() RETURNS INT BEGIN INSERT INTO w SELECT queue_wait('t', 0); RETURN 1; END",
    );
    one.run("CREATE TRIGGER b BEFORE INSERT ON g FOR EACH ROW SET NEW.v = queue_wait('t', 0)");
    one.run("CREATE TRIGGER c BEFORE INSERT ON x FOR EACH ROW SET NEW.v = NEW.v + waits()");
    one.run("FLUSH BINARY LOGS");
    let changes = [
        "INSERT INTO i SELECT waits()",
        "INSERT INTO i VALUES (ends())",
        "UPDATE i SET v = waits()",
        "SELECT writes()",
        "INSERT INTO g VALUES (7)",
        "INSERT INTO i SELECT v FROM t",
        "INSERT INTO i SELECT rows_of()",
        "UPDATE i SET v = v + 1 WHERE v IN (SELECT v FROM t)",
        "DELETE FROM i WHERE v < (SELECT COUNT(*) FROM t WHERE v > 4)",
    ];
    one.run("INSERT INTO i VALUES (100), (2)");
    one.run("SET binlog_format = STATEMENT");
    for statement in changes {
        assert!(one.error(statement).contains("binlog_format=ROW"), "{statement}");
        assert_eq!(one.value("SELECT @@queue_owner"), Some(0), "{statement}");
    }
    assert_eq!(one.column("SELECT v FROM i"), [100, 2]);
    // Nothing of these is logged.
    assert_eq!(one.value("SELECT waits()"), Some(1));
    assert_eq!(one.value("SELECT ends()"), Some(1));
    assert_eq!(one.value("SELECT rows_of()"), Some(2));
    one.run("DO waits()");
    one.run("INSERT INTO x VALUES (1)");
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    one.run("DELETE FROM t WHERE v = 4");
    one.run("INSERT INTO q SELECT v FROM t WHERE v = 5");
    one.run("SET binlog_format = MIXED");
    for statement in changes {
        one.rows::<mysql::Row>(statement);
        one.run("DO queue_end()");
    }
    one.run("FLUSH BINARY LOGS");
    type Event = (String, u64, String, u32, u64, String);
    let events: Vec<Event> = one.rows("SHOW BINLOG EVENTS IN 'log.000002'");
    let texts: Vec<&str> =
        events.iter().filter(|event| event.2 == "Query").map(|event| event.5.as_str()).collect();
    for statement in changes {
        assert!(!texts.iter().any(|text| text.contains(statement)), "{statement}: {texts:?}");
    }
    let by_rows = |event: &&Event| event.2.contains("_rows") && event.5.contains("STMT_END_F");
    assert!(events.iter().filter(by_rows).count() >= 7, "{events:?}");
}

#[test]
fn read_only_and_definers_hold_for_taking_too() {
    let server = Server::start();
    let (mut root, _) = server.queue("rights");
    root.run("INSERT INTO t VALUES (1), (2), (3)");
    root.run("CREATE USER some@localhost");
    root.run("CREATE USER consumer@localhost");
    root.run("GRANT SELECT, DELETE ON rights.t TO consumer@localhost");
    root.run("CREATE DEFINER=consumer@localhost VIEW w AS SELECT v FROM t WHERE queue_wait('rights.t', 0)");
    root.run("CREATE DEFINER=consumer@localhost SQL SECURITY INVOKER VIEW x AS SELECT v FROM t WHERE queue_wait('rights.t', 0)");
    root.run("GRANT SELECT ON rights.w TO some@localhost");
    root.run("GRANT SELECT ON rights.x TO some@localhost");
    let mut some = server.connect_as("some");
    assert_eq!(some.column("SELECT v FROM rights.w"), [1]);
    some.error("SELECT v FROM rights.x");
    assert_eq!(some.value("SELECT queue_end()"), Some(1));
    assert_eq!(some.value("SELECT queue_wait('rights.t', 0)"), None);
    assert!(some.warning().contains("no privilege for this on rights.t"));
    assert_eq!(root.value("SELECT queue_wait('nosuch', 0)"), None);
    assert_eq!(root.warning(), "Queue: there is no queue rights.nosuch");
    root.value("SELECT queue_end()");
    let mut consumer = server.connect_as("consumer");
    assert_eq!(consumer.column("SELECT v FROM rights.t WHERE queue_wait('rights.t', 0)"), [2]);
    root.run("SET GLOBAL read_only = ON");
    for statement in
        ["SELECT queue_end()", "SELECT queue_wait('rights.t', 0)", "SELECT queue_compact('rights.t')"]
    {
        assert!(consumer.error(statement).contains("--read-only"), "{statement}");
    }
    assert_eq!(consumer.column("SELECT v FROM rights.t"), [2]);
    assert_eq!(consumer.value("SELECT queue_abort()"), Some(1));
    assert_eq!(
        root.column("SELECT v FROM t WHERE queue_wait('t', 0)"),
        [2],
        "who is allowed to write may take"
    );
    root.run("SET GLOBAL read_only = OFF");
}

/// There are more queues than the server may have files open: its own tables can still be opened.
#[test]
fn many_queues_leave_files_to_the_server() {
    const QUEUES: usize = 400;
    let server =
        Server::start_with(&["--open-files-limit=300", "--max-connections=10", "--table-open-cache=50"]);
    let mut one = server.connect("many");
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.0.pid())).unwrap().count();
    for number in 0..QUEUES {
        one.run(&format!("CREATE TABLE q{number} (v INT) ENGINE=QUEUE SYNC=none"));
        one.run(&format!("INSERT INTO q{number} VALUES ({number})"));
    }
    let limit: i64 = one.value("SELECT @@open_files_limit").unwrap();
    assert!(open() < usize::try_from(limit).unwrap() * 3 / 4, "{} of {limit}", open());
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    one.run("INSERT INTO i VALUES (1)");
    for number in 0..i64::try_from(QUEUES).unwrap() {
        assert_eq!(
            one.column(&format!("SELECT v FROM q{number} WHERE queue_wait('q{number}', 0)")),
            [number]
        );
    }
    assert!(open() < usize::try_from(limit).unwrap() * 3 / 4, "{} of {limit}", open());
    assert_eq!(one.column("SELECT v FROM i"), [1]);
}

#[test]
fn conditions_know_in_between_like_and_enum() {
    let server = Server::start();
    let mut one = server.connect("conditions");
    one.run(
        "CREATE TABLE t (v INT NOT NULL, name VARCHAR(20), wide CHAR(20) CHARACTER SET ucs2, \
         kind ENUM('mail', 'Gr\u{fc}n', 'x,y') CHARACTER SET latin1) ENGINE=QUEUE",
    );
    one.run("INSERT INTO t VALUES (1, 'one', 'eins', 'mail'), (2, 't_o', 'zwei', 'Gr\u{fc}n'), (3, NULL, NULL, NULL)");
    for (condition, rows) in [
        ("v in (2, 9)", vec![2]),
        ("v between 2 and 3", vec![2, 3]),
        ("name like ''o%''", vec![1]),
        ("name like ''%|_o'' escape ''|''", vec![2]),
        ("wide like ''Z_EI''", vec![2]),
        ("wide not like ''z%''", vec![1]),
        ("kind = ''MAIL''", vec![1]),
        ("kind in (''gr\u{fc}n'', ''x,y'')", vec![2]),
        ("kind like ''%\u{fc}%''", vec![2]),
        ("kind is null", vec![3]),
    ] {
        assert_eq!(one.value(&format!("SELECT queue_wait_n(9, 't:{condition}', 0)")), Some(1), "{condition}");
        assert_eq!(one.column("SELECT v FROM t"), rows, "{condition}");
        one.value("SELECT queue_abort()");
    }
}
