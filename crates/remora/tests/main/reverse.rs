//! `remora reverse`: its script restores the former contents of real servers' tables.

use std::path::Path;
use std::process::Command;

use sandbox::{Family, Product, Sandbox};
use server::Session;
use tempfile::TempDir;

use crate::extract::{TABLES, data, execute, folder, mariadb, run, session};
use crate::support::{Ended, mariadbs, newest, of_today, on_products, products, start, tell};

/// A server with a log, somebody who changes it, and a folder for scripts.
pub(crate) struct Play {
    pub(crate) folder: TempDir,
    pub(crate) server: Sandbox,
    pub(crate) session: Session,
}

impl Play {
    pub(crate) fn new(product: Product, options: &[&str]) -> Play {
        let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW"];
        let named: &[&str] = match product.family() {
            Family::MariaDb => &["--binlog-row-metadata=FULL"],
            Family::MySql => &[],
        };
        let server = start(product, &[&own[..], named, options].concat());
        let mut session = session(&server);
        execute(&mut session, &["SET NAMES utf8mb4"]);
        Play { folder: folder(), server, session }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs statements, and returns the GTID of their transaction.
    pub(crate) fn done(&mut self, statements: &[&str]) -> String {
        execute(&mut self.session, statements);
        self.session.value("SELECT @@last_gtid").unwrap().unwrap()
    }

    /// The rows of a table in no order, and the server's checksum.
    pub(crate) fn state(&mut self, table: &str) -> (Vec<String>, Option<String>) {
        let rows = self.session.strings(&format!("SELECT * FROM {table}")).unwrap();
        let mut rows: Vec<String> = rows.into_iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        let sum = self.session.strings(&format!("CHECKSUM TABLE {table} EXTENDED")).unwrap();
        (rows, sum[0][1].clone())
    }

    /// Asks for a script.
    pub(crate) fn reverse(&self, arguments: &[&str]) -> Ended {
        std::fs::remove_file(self.path().join("undo.sql")).ok();
        let log = data(&self.server);
        run(self.path(), &[&["reverse", &log, "--to", "undo.sql"][..], arguments].concat())
    }

    fn script(&self) -> String {
        std::fs::read_to_string(self.path().join("undo.sql")).unwrap()
    }

    /// It is refused with these words, and nothing is written.
    pub(crate) fn refused(&self, arguments: &[&str], words: &[&str]) {
        self.reverse(arguments).exits(1).says(words);
        let left: Vec<_> =
            std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().all(|path| !path.to_string_lossy().contains("undo.sql")), "{left:?}");
    }

    /// Runs the script as a user does.
    pub(crate) fn run(&self, options: &[&str]) -> Ended {
        let mut client = Command::new(sandbox::client().unwrap());
        client
            .args(["--no-defaults", "--binary-mode", "-u", "root", "-S"])
            .arg(self.server.socket())
            .args(options);
        let script = std::fs::File::open(self.path().join("undo.sql")).unwrap();
        Ended::of(&client.stdin(script).output().unwrap())
    }

    /// Takes it back.
    pub(crate) fn back(&self, arguments: &[&str]) -> Ended {
        self.reverse(arguments).exits(0).says(&["nothing was executed"]);
        let ended = self.run(&[]).exits(0);
        assert!(ended.out.contains("committed"), "{}", ended.out);
        ended
    }

    /// The script stops with these words, and the table stays as it is, even if the client continues.
    pub(crate) fn stops(&mut self, table: &str, words: &[&str]) {
        let before = self.state(table);
        self.run(&[]).exits(1).says(words);
        assert_eq!(self.state(table), before);
        let ended = self.run(&["--force"]).says(words);
        assert!(!ended.out.contains("committed"), "{}", ended.out);
        assert_eq!(self.state(table), before);
    }
}

/// A row of each type is deleted and comes back; the script that brought it back is taken back itself, which
/// finds each row by its values.
#[test]
fn deleted_rows_of_every_type_come_back() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        let statements: Vec<&str> = TABLES.split(";\n").collect();
        execute(&mut play.session, &statements);
        let list = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'app' \
                    AND TABLE_TYPE = 'BASE TABLE' AND TABLE_ROWS > 0";
        let names = play.session.strings(list).unwrap();
        let names: Vec<String> =
            names.into_iter().map(|row| format!("`{}`", row[0].clone().unwrap())).collect();
        assert!(names.len() > 15, "{names:?}");
        let schema: Vec<String> = names
            .iter()
            .map(|name| {
                play.session.strings(&format!("SHOW CREATE TABLE {name}")).unwrap()[0][1].clone().unwrap()
            })
            .collect();
        std::fs::write(play.path().join("schema.sql"), format!("USE app;\n{};\n", schema.join(";\n")))
            .unwrap();
        for name in &names {
            let before = play.state(name);
            let gtid = play.done(&[&format!("DELETE FROM {name} LIMIT 100")]);
            let less = play.state(name);
            assert!(less.0.len() < before.0.len());
            tell(name);
            play.back(&["--gtid", &gtid, "--schema", "schema.sql"]);
            assert_eq!(play.state(name), before, "{name}");
            let gtid = play.session.value("SELECT @@global.gtid_binlog_pos").unwrap().unwrap();
            play.back(&["--gtid", &gtid, "--schema", "schema.sql"]);
            assert_eq!(play.state(name), less, "{name}");
        }
    }
}

/// A type, and two values of it.
pub(crate) const VALUES: [(&str, &str, &str); 31] = [
    ("TINYINT UNSIGNED", "255", "0"),
    ("SMALLINT", "-32768", "1"),
    ("MEDIUMINT UNSIGNED", "16777215", "NULL"),
    ("BIGINT", "-9223372036854775808", "9223372036854775807"),
    ("BIGINT UNSIGNED", "18446744073709551615", "9223372036854775808"),
    ("DECIMAL(30,10)", "-12345678901234567890.0123456789", "0"),
    ("FLOAT", "0.1", "-3.4e38"),
    ("DOUBLE", "0.1", "1.7976931348623157e308"),
    ("FLOAT", "1.17549e-38", "16777217"),
    ("DOUBLE", "5e-324", "NULL"),
    ("BIT(13)", "4097", "0"),
    ("YEAR", "2155", "0"),
    ("DATE", "'2026-02-28'", "'0000-00-00'"),
    ("TIME(3)", "'-838:59:58.999'", "'00:00:00.001'"),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", "'2026-02-31'"),
    ("TIMESTAMP(2) NULL", "'2026-11-23 10:00:00.25'", "NULL"),
    (
        "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
        "'2026-03-29 02:30:00'",
        "'2001-01-01'",
    ),
    ("CHAR(10)", "'it''s  '", "''"),
    ("VARCHAR(300)", "REPEAT('\u{e4}', 150)", "'trailing  '"),
    ("VARCHAR(300)", "'a'", "'A'"),
    ("VARCHAR(30) CHARACTER SET latin1", "'gr\u{fc}n'", "'\\\\'"),
    ("VARCHAR(30) CHARACTER SET latin1", "x'C3A4'", "x'C3BC27'"),
    ("VARCHAR(30) CHARACTER SET ucs2", "'gr\u{fc}n'", "''"),
    ("TEXT", "'line\\r\\nline\\0\\Z\\t'", "NULL"),
    ("TEXT CHARACTER SET utf16", "'\u{1f600}'", "'b'"),
    ("BINARY(5)", "x'00FF00'", "x'2000'"),
    ("VARBINARY(20)", "x'27220D0A00'", "''"),
    ("MEDIUMBLOB", "REPEAT(x'00', 70000)", "x'FF'"),
    ("ENUM('a', 'b''c') CHARACTER SET latin1", "'b''c'", "'a'"),
    ("SET('x', 'y', 'z')", "'x,z'", "''"),
    ("POINT", "POINT(1, 2)", "NULL"),
];

/// The table of all types, with these values of its rows.
fn defined() -> String {
    let columns = VALUES.iter().enumerate().map(|(at, (kind, ..))| format!("c{at} {kind}"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("CREATE TABLE v (id INT PRIMARY KEY, {columns})")
}

/// Every value is set back to every other, on all servers; MySQL 5.6 needs the schema, and has no numbers.
#[test]
fn changed_values_are_set_back_whatever_their_type() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut play = Play::new(product, &["--default-time-zone=+05:00"]);
        execute(
            &mut play.session,
            &["SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+02:00'", &defined()],
        );
        let first: Vec<&str> = VALUES.iter().map(|(_, first, _)| *first).collect();
        let second: Vec<&str> = VALUES.iter().map(|(_, _, second)| *second).collect();
        execute(
            &mut play.session,
            &[
                &format!("INSERT INTO v VALUES (1, {})", first.join(", ")),
                &format!("INSERT INTO v VALUES (2, {})", second.join(", ")),
                "FLUSH BINARY LOGS",
            ],
        );
        let before = play.state("v");
        let table = play.session.strings("SHOW CREATE TABLE v").unwrap().remove(0)[1].clone().unwrap();
        std::fs::write(play.path().join("v.sql"), format!("USE app;\n{table};\n")).unwrap();
        let to = |values: &[&str]| {
            values
                .iter()
                .enumerate()
                .map(|(at, value)| format!("c{at} = {value}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        execute(
            &mut play.session,
            &[
                "BEGIN",
                &format!("UPDATE v SET {} WHERE id = 1", to(&second)),
                &format!("UPDATE v SET {} WHERE id = 2", to(&first)),
                "UPDATE v SET id = 3 WHERE id = 1",
                "DELETE FROM v WHERE id = 2",
                "COMMIT",
            ],
        );
        assert_ne!(play.state("v"), before);
        let log = play.server.data().join("binlog.000002");
        let log = log.to_str().unwrap();
        let schema: &[&str] = if product.family() == Family::MySql { &["--schema", "v.sql"] } else { &[] };
        let ask = [&["reverse", log, "--since", "-1h", "--to", "undo.sql"][..], schema].concat();
        run(play.path(), &ask).exits(0).says(&["4 rows of 1 transaction", "undo.sql"]);
        play.run(&[]).exits(0);
        assert_eq!(play.state("v"), before);
    });
}

#[test]
fn reverse_no_key_floats_duplicates() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE t (f FLOAT, d DOUBLE, s VARCHAR(9) CHARACTER SET latin1)",
                "INSERT INTO t VALUES (0.1, 0.1, 'a'), (0.1, 0.1, 'a'), (0.1, 0.1, 'A'), (-0.0, -0.0, 'a '), (NULL, NULL, NULL)",
            ],
        );
        let before = play.state("t");
        let gtid = play.done(&["INSERT INTO t VALUES (0.1, 0.1, 'a'), (NULL, NULL, NULL), (0.0, 0.0, 'a')"]);
        play.back(&["--gtid", &gtid]);
        assert_eq!(play.state("t"), before);
        let gtid = play.done(&["UPDATE t SET s = 'b' WHERE s = 'a'"]);
        play.back(&["--gtid", &gtid]);
        assert_eq!(play.state("t"), before);
        assert!(play.script().contains("has no primary key"), "{}", play.script());
    }
}

/// Later changes come first, so that rows which follow each other are found.
#[test]
fn changes_of_one_row_are_taken_back_in_reverse_order() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, v INT, twice INT AS (v * 2) STORED, thrice INT AS (v * 3) VIRTUAL)",
                "INSERT INTO t (id, u, v) VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
            ],
        );
        let table = play.session.strings("SHOW CREATE TABLE t").unwrap().remove(0)[1].clone().unwrap();
        std::fs::write(play.path().join("t.sql"), format!("USE app;\n{table};\n")).unwrap();
        let before = play.state("t");
        let first = play.done(&["UPDATE t SET v = 10 WHERE id = 1"]);
        let last = play.done(&[
            "BEGIN",
            "UPDATE t SET v = 20 WHERE id = 1",
            "UPDATE t SET id = 9 WHERE id = 1",
            "UPDATE t SET u = 99 WHERE id = 2",
            "UPDATE t SET u = 2 WHERE id = 3",
            "UPDATE t SET u = 3 WHERE id = 2",
            "DELETE FROM t WHERE id = 9",
            "INSERT INTO t (id, u, v) VALUES (1, 1, 5)",
            "COMMIT",
        ]);
        // Whether a column is generated is not in the log, and a server refuses its value.
        play.back(&["--gtid", &format!("{first}-{last}"), "--schema", "t.sql"]);
        assert_eq!(play.state("t"), before);
        let script = play.script();
        assert!(script.find(&last).unwrap() < script.rfind(&first).unwrap(), "{script}");
    }
}

#[test]
fn a_row_that_was_changed_since_stops_the_script() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))",
                "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            ],
        );
        let before = play.state("t");
        let gtid = play.done(&["UPDATE t SET v = 'x'"]);
        play.reverse(&["--gtid", &gtid]).exits(0);
        execute(&mut play.session, &["UPDATE t SET v = 'X' WHERE id = 2"]);
        play.stops("t", &["remora changed nothing", "statement 2"]);
        execute(&mut play.session, &["DELETE FROM t WHERE id = 2"]);
        play.stops("t", &["remora changed nothing"]);
        execute(&mut play.session, &["INSERT INTO t VALUES (2, 'x')"]);
        play.run(&[]).exits(0);
        assert_eq!(play.state("t"), before);
        let gtid = play.done(&["DELETE FROM t"]);
        play.reverse(&["--gtid", &gtid]).exits(0);
        execute(&mut play.session, &["INSERT INTO t VALUES (2, 'new')"]);
        play.stops("t", &["Duplicate entry '2'"]);
    }
}

#[test]
fn reverse_minimal_image() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(&mut play.session, &["CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT, b BLOB)"]);
        execute(&mut play.session, &["INSERT INTO t VALUES (1, 2, 3, 'x')"]);
        execute(&mut play.session, &["SET SESSION binlog_row_image = MINIMAL"]);
        for change in ["UPDATE t SET v = 4", "DELETE FROM t"] {
            let gtid = play.done(&[change]);
            play.refused(
                &["--gtid", &gtid],
                &["app.t", &gtid, "binlog_row_image was not FULL", "remora restore"],
            );
        }
        execute(
            &mut play.session,
            &["INSERT INTO t VALUES (1, 2, 3, 'x')", "SET SESSION binlog_row_image = NOBLOB"],
        );
        let gtid = play.done(&["UPDATE t SET v = 4"]);
        play.refused(&["--gtid", &gtid], &["`b`", "binlog_row_image was not FULL"]);
    }
}

#[test]
fn reverse_after_alter_and_truncate() {
    for product in mariadb() {
        for (change, word) in [
            ("ALTER TABLE t ADD n INT", "ALTER TABLE t ADD"),
            ("TRUNCATE t", "TRUNCATE"),
            ("RENAME TABLE t TO u", "RENAME"),
            ("DROP TABLE t", "DROP TABLE"),
            ("DROP DATABASE app", "DROP DATABASE"),
        ] {
            let mut play = Play::new(product, &[]);
            execute(
                &mut play.session,
                &["CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 2)"],
            );
            let gtid = play.done(&["UPDATE t SET v = 3"]);
            play.reverse(&["--gtid", &gtid]).exits(0);
            execute(&mut play.session, &["SET SESSION binlog_format = STATEMENT", change]);
            play.refused(
                &["--gtid", &gtid],
                &["app.t is another table now", word, "--despite-ddl", "remora restore"],
            );
            play.reverse(&["--gtid", &gtid, "--despite-ddl"]).exits(0).says(&[word]);
            // What emptied or removed the table is no row that could be put back.
            let ddl = play.done(&["SELECT 1"]);
            play.refused(&["--gtid", &ddl], &["statement instead of rows", word]);
        }
    }
}

#[test]
fn only_selected_changes_are_taken_back_and_the_others_are_reported() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &[]);
    execute(
        &mut play.session,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE u (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1, 1), (2, 2)",
        ],
    );
    let before = play.state("t");
    let gtid = play.done(&["BEGIN", "INSERT INTO u VALUES (7)", "DELETE FROM t", "COMMIT"]);
    let ended = play.reverse(&["--gtid", &gtid, "--table", "app.t", "--where", "id=2"]).exits(0);
    ended.says(&["app.u too", "1 row of 1 transaction"]);
    play.run(&[]).exits(0);
    assert_eq!(play.state("t").0, before.0[1..]);
    assert_eq!(play.state("u").0.len(), 1);
    // Nothing is overwritten, and a wrong command line is told.
    let log = data(&play.server);
    let script = play.script();
    run(play.path(), &["reverse", &log, "--gtid", &gtid, "--to", "undo.sql"])
        .exits(1)
        .says(&["undo.sql exists"]);
    assert_eq!(play.script(), script);
    run(play.path(), &["reverse", &log, "--table", "app.t"]).exits(2).says(&["--gtid", "--since"]);
    let ended = run(play.path(), &["reverse", &log, "--gtid", &gtid, "--json"]).exits(2);
    assert!(ended.out.contains("standard output is for the data"), "{}", ended.out);
    play.refused(&["--gtid", "9-9-9"], &["there is no transaction 9-9-9 in this log"]);
    play.refused(&["--gtid", &gtid, "--where", "wrong=1"], &["--where"]);
    let ended = run(play.path(), &["reverse", &log, "--gtid", &gtid, "--table", "app.t"]).exits(0);
    assert!(
        ended.out.starts_with("-- Takes back") && ended.out.contains("START TRANSACTION"),
        "{}",
        ended.out
    );
    let ended = play.reverse(&["--gtid", &gtid, "--json"]).exits(0);
    let line: serde_json::Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!((&line["message_type"], &line["tables"][0]["insert"]), (&"summary".into(), &2.into()));
}

#[test]
fn a_prepared_transaction_is_taken_back_only_if_it_was_committed() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(&mut play.session, &["CREATE TABLE t (id INT PRIMARY KEY)"]);
        let prepare = ["XA START 'x'", "INSERT INTO t VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"];
        let gtid = play.done(&prepare);
        play.refused(&["--gtid", &gtid], &["XA PREPARE", "whether it was committed"]);
        execute(&mut play.session, &["XA COMMIT 'x'"]);
        play.back(&["--gtid", &gtid]);
        assert!(play.state("t").0.is_empty());
        let gtid = play.done(&prepare);
        execute(&mut play.session, &["XA ROLLBACK 'x'"]);
        play.refused(&["--gtid", &gtid], &["rolled back later"]);
    }
}

/// MySQL names the transaction that ends in the statement only.
#[test]
fn what_mysql_rolled_back_after_preparing_it_is_not_taken_back() {
    let products = newest("what_mysql_rolled_back_after_preparing_it_is_not_taken_back");
    on_products(&products, |product| {
        let mut play = Play::new(product, &["--binlog-row-metadata=FULL"]);
        let prepare = ["XA START 'x'", "INSERT INTO t VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"];
        let asked = ["--since", "-1h", "--table", "app.t"];
        let reset = "RESET BINARY LOGS AND GTIDS";
        execute(&mut play.session, &["CREATE TABLE t (id INT PRIMARY KEY)", reset]);
        execute(&mut play.session, &prepare);
        play.refused(&asked, &["XA PREPARE", "whether it was committed"]);
        execute(&mut play.session, &["XA ROLLBACK 'x'"]);
        play.refused(&asked, &["rolled back later"]);
        execute(&mut play.session, &[reset]);
        execute(&mut play.session, &prepare);
        execute(&mut play.session, &["XA COMMIT 'x'"]);
        play.back(&asked);
        assert!(play.state("t").0.is_empty());
    });
}
