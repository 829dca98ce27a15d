//! A statement with bad values ends in a queue as it does in InnoDB, whichever of its rows has them.

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

const MODES: [&str; 4] = ["", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"];

/// The type of a column, a value that fits, and one that does not.
const BAD: [(&str, &str, &str); 30] = [
    ("TEXT", "'a'", "REPEAT('x', 70000)"),
    ("TINYBLOB", "'a'", "REPEAT('x', 300)"),
    ("VARCHAR(3)", "'a'", "'abcd'"),
    ("VARCHAR(3)", "'a'", "'abc  '"),
    ("CHAR(3)", "'a'", "'abcd'"),
    ("VARBINARY(3)", "'a'", "'abcd'"),
    ("BINARY(3)", "'a'", "'abcd'"),
    ("VARCHAR(9) CHARACTER SET utf8mb4", "'a'", "X'61FF62'"),
    ("INT", "1", "'x3'"),
    ("INT", "1", "'3x'"),
    ("INT", "1", "1/0"),
    ("INT NOT NULL", "1", "NULL"),
    ("TINYINT UNSIGNED", "1", "-1"),
    ("BIGINT", "1", "'99999999999999999999'"),
    ("DECIMAL(4,2)", "1", "123.456"),
    ("DECIMAL(4,2)", "1", "1.234"),
    ("FLOAT", "1", "1e39"),
    ("DOUBLE", "1", "'1e999'"),
    ("BIT(2)", "1", "9"),
    ("DATE", "'2026-01-01'", "'2026-02-30'"),
    ("DATE NOT NULL", "'2026-01-01'", "'0000-00-00'"),
    ("DATETIME", "'2026-01-01'", "'x'"),
    ("TIMESTAMP NULL", "'2026-01-01'", "'2026-01-01 25:00:00'"),
    ("TIME", "'1:00'", "'900:00:00'"),
    ("YEAR", "2026", "1800"),
    ("ENUM('a', 'b') NOT NULL", "'a'", "'c'"),
    ("SET('a', 'b')", "'a'", "'a,c'"),
    ("INET6", "'::1'", "'x'"),
    ("JSON", "'{}'", "'{'"),
    ("INT CHECK (c < 5)", "1", "9"),
];

/// The databases with the same tables in InnoDB and as queues, and with an InnoDB table that fills a queue.
const KINDS: [(&str, &str); 3] =
    [("innodb", "ENGINE=InnoDB"), ("queued", "ENGINE=QUEUE SYNC=none"), ("filled", "ENGINE=InnoDB")];

/// How a statement has ended.
#[derive(Debug, PartialEq)]
struct End {
    error: Option<String>,
    warnings: Vec<(String, u32, String)>,
    rows: Vec<(i64, Option<String>)>,
}

/// Runs a statement on an empty table `t` of a database and empties it again.
fn end(client: &mut Client, database: &str, statement: &str) -> End {
    client.run(&format!("USE {database}"));
    let same = |text: String| text.replace(database, "any");
    let error = client.query_drop(statement).err().map(|error| same(error.to_string()));
    let warnings: Vec<(String, u32, String)> = client.rows("SHOW WARNINGS");
    let warnings = warnings.into_iter().map(|(level, code, text)| (level, code, same(text))).collect();
    let rows = client.rows("SELECT id, HEX(c) FROM t ORDER BY id");
    client.run("DELETE FROM t");
    End { error, warnings, rows }
}

#[test]
fn bad_values_end_as_in_innodb() {
    let server = Server::start_with(&["--innodb-flush-log-at-trx-commit=0", "--secure-file-priv="]);
    let mut one = server.connect("raw");
    KINDS.iter().for_each(|(database, _)| one.run(&format!("CREATE DATABASE {database}")));
    one.run("CREATE TABLE filled.sink (v INT) ENGINE=QUEUE SYNC=none");
    let file = server.0.data().join("values.txt");
    let mut strict = 0;
    for (column, good, bad) in BAD {
        for (database, engine) in KINDS {
            one.run("SET sql_mode = ''");
            one.run(&format!("CREATE OR REPLACE TABLE {database}.t (id INT NOT NULL, c {column}) {engine}"));
        }
        one.run("CREATE TRIGGER filled.g AFTER INSERT ON filled.t FOR EACH ROW INSERT INTO filled.sink VALUES (NEW.id)");
        for (first, second) in [(bad, good), (good, bad)] {
            one.run("SET sql_mode = ''");
            one.run("CREATE OR REPLACE TABLE raw.t (id INT, c LONGBLOB) ENGINE=Aria");
            one.run(&format!("INSERT INTO raw.t VALUES (1, {first}), (2, {second})"));
            drop(std::fs::remove_file(&file));
            one.run(&format!("SELECT * FROM raw.t INTO OUTFILE '{}'", file.display()));
            let statements = [
                format!("INSERT INTO t VALUES (1, {first}), (2, {second})"),
                format!("INSERT IGNORE INTO t VALUES (1, {first}), (2, {second})"),
                "INSERT INTO t SELECT id, c FROM raw.t".to_owned(),
                format!("LOAD DATA INFILE '{}' INTO TABLE t CHARACTER SET binary", file.display()),
                "INSERT INTO t (id) VALUES (1), (2)".to_owned(),
            ];
            for mode in MODES {
                one.run(&format!("SET sql_mode = '{mode}'"));
                for statement in &statements {
                    let [expected, queued, filled] = KINDS.map(|(name, _)| end(&mut one, name, statement));
                    strict += usize::from(expected.error.is_some() && first == good);
                    assert_eq!(queued, expected, "{mode}: {column}: {statement}");
                    assert_eq!(filled, expected, "{mode}: {column}: {statement}, with a trigger");
                }
            }
        }
    }
    assert!(strict > 100, "InnoDB refuses what is bad in the second row: {strict}");
    let names: i64 = one.value("SELECT COUNT(*) FROM filled.sink").unwrap();
    assert!(names > 100, "the trigger ran: {names}");

    // What makes a table and fills it.
    one.run("SET sql_mode = ''");
    one.run("CREATE OR REPLACE TABLE raw.t (id INT, c LONGBLOB) ENGINE=Aria");
    one.run("INSERT INTO raw.t VALUES (1, 'a'), (2, 'abcd')");
    for mode in MODES {
        one.run(&format!("SET sql_mode = '{mode}'"));
        for statement in [
            "CREATE TABLE n (c VARCHAR(3)) {} SELECT id, c FROM raw.t",
            "CREATE TABLE n {} SELECT * FROM raw.t; ALTER TABLE n MODIFY c VARCHAR(3)",
            "CREATE TABLE n ENGINE=Aria SELECT * FROM raw.t; ALTER TABLE n {}, MODIFY c VARCHAR(3)",
        ] {
            let [expected, queued, _] = KINDS.map(|(database, engine)| {
                one.run(&format!("USE {database}"));
                let texts = statement.replace("{}", engine);
                let done = texts.split("; ").try_for_each(|text| one.query_drop(text));
                let rows = one.query::<(i64, Vec<u8>), _>("SELECT id, c FROM n").unwrap_or_default();
                one.run("DROP TABLE IF EXISTS n");
                (done.err().map(|error| error.to_string()), rows)
            });
            assert_eq!(queued, expected, "{mode}: {statement}");
        }
    }
}

/// ROLLBACK tells of what it leaves as it is, and of nothing else.
#[test]
fn a_rollback_warns_of_what_it_leaves() {
    let server = Server::start();
    let (mut one, _) = server.queue("left");
    one.run("CREATE TABLE i (v INT PRIMARY KEY) ENGINE=InnoDB");
    one.run("INSERT INTO i VALUES (1)");
    one.run("INSERT INTO t VALUES (1), (2), (3), (4), (5)");
    for (statement, leaves) in [
        ("SELECT * FROM t", false),
        ("INSERT INTO i VALUES (2)", false),
        ("INSERT INTO t VALUES (6)", true),
        ("DELETE FROM t WHERE v = 6", true),
        ("SELECT v FROM t WHERE queue_wait('t', 0)", true),
        ("SELECT queue_end()", true),
        ("SELECT queue_ack(@token)", true),
    ] {
        one.run("SET @token = JSON_VALUE(queue_lease_json(60, 1, 't', 0), '$[0].token')");
        one.run("BEGIN");
        one.run(statement);
        one.run("ROLLBACK");
        let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
        let codes: Vec<u32> = warnings.iter().map(|(_, code, _)| *code).collect();
        assert_eq!(codes, if leaves { &[1196][..] } else { &[] }, "{statement}: {warnings:?}");
        one.run("SELECT queue_release(@token)");
    }
    // A statement that fails leaves nothing.
    one.run("CREATE TRIGGER g BEFORE INSERT ON i FOR EACH ROW INSERT INTO t VALUES (NEW.v)");
    for statement in ["INSERT INTO t VALUES (7), (REPEAT('9', 99))", "INSERT INTO i VALUES (7), (1)"] {
        one.run("BEGIN");
        one.error(statement);
        one.run("ROLLBACK");
        // Those of the statement are still there.
        let warnings: Vec<(String, u32, String)> = one.rows("SHOW WARNINGS");
        assert!(warnings.iter().all(|(_, code, _)| *code != 1196), "{statement}: {warnings:?}");
        one.error(statement);
    }
    assert_eq!(one.value("SELECT COUNT(*) FROM t WHERE v = 7"), Some(0));
}
