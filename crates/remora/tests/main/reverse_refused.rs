//! Changes that are not taken back: they are refused, left out or reported.

use crate::extract::{data, execute, folder, mariadb, run};
use crate::reverse::Play;
use crate::support::{mariadbs, tell};

#[test]
fn statements_without_rows_and_columns_without_names_are_refused() {
    for product in mariadb() {
        let mut play = Play::new(product, &["--binlog-row-metadata=NO_LOG"]);
        execute(
            &mut play.session,
            &["CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(9))", "CREATE TABLE u (id INT)"],
        );
        let before = play.state("t");
        let gtid = play.done(&["INSERT INTO t VALUES (4294967295, 'a')"]);
        play.refused(&["--gtid", &gtid], &["app.t", "names of its columns", "--schema"]);
        let table = play.session.strings("SHOW CREATE TABLE t").unwrap().remove(0)[1].clone().unwrap();
        std::fs::write(play.path().join("t.sql"), format!("USE app;\n{table};\n")).unwrap();
        std::fs::write(play.path().join("other.sql"), "USE app; CREATE TABLE t (id INT);\n").unwrap();
        play.refused(
            &["--gtid", &gtid, "--schema", "other.sql"],
            &["1 columns in its definition and 2 in the log"],
        );
        play.back(&["--gtid", &gtid, "--schema", "t.sql"]);
        assert_eq!(play.state("t"), before);
        let gtid = play.done(&[
            "SET SESSION binlog_format = STATEMENT",
            "BEGIN",
            "INSERT INTO u VALUES (1)",
            "COMMIT",
        ]);
        play.refused(&["--gtid", &gtid], &[&gtid, "INSERT INTO u", "statement instead of rows", "--table"]);
        play.refused(&["--gtid", &gtid, "--table", "app.u"], &["statement instead of rows"]);
        play.refused(&["--gtid", &gtid, "--table", "app.t"], &["nothing to take back"]);
    }
}

/// The verb of a statement is not always its first word.
#[test]
fn statements_after_other_words_and_functions_are_refused() {
    for product in mariadb() {
        let mut play = Play::new(product, &["--log-bin-trust-function-creators=1"]);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY)",
                "CREATE TABLE u (id INT)",
                "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7)",
                "CREATE FUNCTION f(a INT) RETURNS INT BEGIN DELETE FROM t WHERE id = a; RETURN 1; END",
            ],
        );
        let rows = play.done(&["DELETE FROM t WHERE id = 1"]);
        execute(&mut play.session, &["SET SESSION binlog_format = STATEMENT"]);
        for statement in [
            "SET STATEMENT max_statement_time = 100 FOR DELETE FROM t WHERE id = 2",
            "ANALYZE DELETE FROM t WHERE id = 3",
            "ANALYZE FORMAT=JSON DELETE FROM t WHERE id = 4",
            "SELECT f(5)",
            "DO f(6)",
            "INSERT INTO u VALUES (f(7))",
        ] {
            play.session.strings(statement).unwrap();
            let gtid = play.session.value("SELECT @@last_gtid").unwrap().unwrap();
            let place = format!("{gtid} at binlog.000001:");
            play.refused(&["--gtid", &gtid], &[&place, "statement instead of rows"]);
            play.refused(&["--gtid", &gtid, "--table", "app.t"], &[&place, "statement instead of rows"]);
        }
        let other = play.done(&["SET STATEMENT max_statement_time = 100 FOR INSERT INTO u VALUES (1)"]);
        let both = format!("{rows},{other}");
        play.reverse(&["--gtid", &both, "--table", "app.t"]).exits(0).says(&["1 statement", "passed over"]);
        execute(&mut play.session, &["SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE TABLE t"]);
        play.refused(&["--gtid", &rows], &["app.t is another table now", "SET STATEMENT"]);
    }
}

#[test]
fn reverse_trigger_warning() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY)",
                "CREATE TABLE n (n INT)",
                "INSERT INTO n VALUES (0)",
                "CREATE TRIGGER `it's` AFTER DELETE ON t FOR EACH ROW UPDATE n SET n = n - 1",
                "CREATE TRIGGER up AFTER INSERT ON t FOR EACH ROW UPDATE n SET n = n + 1",
            ],
        );
        let gtid = play.done(&["INSERT INTO t VALUES (1), (2)"]);
        play.reverse(&["--gtid", &gtid]).exits(0);
        play.stops("n", &["trigger it's of t"]);
        // A trigger that does not run does not stop it.
        execute(&mut play.session, &["DROP TRIGGER `it's`"]);
        play.run(&[]).exits(0);
        assert_eq!(play.session.value("SELECT n FROM n").unwrap().as_deref(), Some("0"));
        assert!(play.state("t").0.is_empty());
    }
}

#[test]
fn foreign_keys_that_change_more_stop_the_script_or_are_reported() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE p (id INT PRIMARY KEY)",
                "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT own FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
            ],
        );
        let gtid = play.done(&["INSERT INTO p VALUES (1)"]);
        execute(&mut play.session, &["INSERT INTO c VALUES (5, 1)"]);
        play.reverse(&["--gtid", &gtid]).exits(0);
        play.stops("c", &["foreign key own of c"]);
        let gtid = play.done(&["DELETE FROM p"]);
        let ended = play.back(&["--gtid", &gtid]);
        assert!(ended.out.contains("c: rows that foreign key own changed by cascade"), "{}", ended.out);
        assert_eq!(play.state("p").0.len(), 1);
        execute(
            &mut play.session,
            &[
                "CREATE TABLE n (id INT PRIMARY KEY, p INT, CONSTRAINT null_it FOREIGN KEY (p) REFERENCES p (id) ON UPDATE SET NULL)",
                "UPDATE p SET id = 2",
                "INSERT INTO n VALUES (1, 2)",
            ],
        );
        let gtid = play.done(&["DELETE FROM n", "UPDATE p SET id = 3"]);
        execute(&mut play.session, &["INSERT INTO n VALUES (1, 3)"]);
        play.reverse(&["--gtid", &gtid]).exits(0);
        play.stops("n", &["foreign key null_it of n"]);
    }
}

/// Columns and values that a server makes or allows, and refuses when they are written.
#[test]
fn values_that_a_server_would_refuse_are_left_out_or_reported() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &[
                "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
                "CREATE TABLE h (t TEXT, UNIQUE (t) USING HASH)",
                "CREATE TABLE z (id INT PRIMARY KEY AUTO_INCREMENT)",
                "CREATE TABLE e (id INT PRIMARY KEY, e ENUM('a'))",
                "INSERT INTO h VALUES ('long')",
                "INSERT INTO z VALUES (0), (1)",
                "INSERT INTO e VALUES (1, 'wrong')",
            ],
        );
        for name in ["h", "z"] {
            let before = play.state(name);
            let gtid = play.done(&[&format!("DELETE FROM {name}")]);
            play.back(&["--gtid", &gtid]);
            assert_eq!(play.state(name), before);
        }
        let gtid = play.done(&["DELETE FROM e"]);
        play.refused(&["--gtid", &gtid], &["app.e", "no member of the ENUM", "remora log --rows"]);
    }
}

/// Somebody altered the table without the log, or its statement is in a file that was not given.
#[test]
fn rows_with_other_columns_later_are_refused() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &["CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)"],
        );
        let gtid = play.done(&["DELETE FROM t"]);
        execute(
            &mut play.session,
            &[
                "SET sql_log_bin = 0",
                "ALTER TABLE t MODIFY v BIGINT",
                "SET sql_log_bin = 1",
                "INSERT INTO t VALUES (2, 2)",
            ],
        );
        play.refused(&["--gtid", &gtid], &["app.t", "later rows in the log have other columns"]);
    }
}

#[test]
fn a_transaction_that_was_rolled_back_in_part_is_refused() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(
            &mut play.session,
            &["CREATE TABLE t (id INT PRIMARY KEY)", "SET SESSION binlog_format = MIXED"],
        );
        // Rows, and in the same transaction a statement that can't be rolled back.
        let rolled_back =
            ["BEGIN", "INSERT INTO t VALUES (1 + 0 * LENGTH(UUID()))", "CREATE TEMPORARY TABLE tt (id INT)"];
        let before = play.session.value("SELECT @@global.gtid_binlog_pos").unwrap();
        execute(&mut play.session, &rolled_back);
        play.session.execute("ROLLBACK").unwrap();
        let after = play.session.value("SELECT @@global.gtid_binlog_pos").unwrap().unwrap();
        assert_ne!(before.as_deref(), Some(&*after));
        let shown = run(play.path(), &["log", &data(&play.server), "--json"]).exits(0).out;
        let undone: Vec<serde_json::Value> = shown
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &serde_json::Value| line["rolled_back"] == true)
            .collect();
        for line in &undone {
            play.refused(&["--gtid", line["gtid"].as_str().unwrap()], &["rolled back", "remora log --rows"]);
        }
        tell(format!("{} rolled back", undone.len()));
        assert!(!undone.is_empty(), "{shown}");
    }
}

#[test]
fn a_table_without_transactions_stops_the_script() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        execute(&mut play.session, &["CREATE TABLE t (id INT PRIMARY KEY) ENGINE=Aria"]);
        let gtid = play.done(&["INSERT INTO t VALUES (1)"]);
        play.reverse(&["--gtid", &gtid]).exits(0);
        play.run(&[]).exits(1).says(&["t is Aria, without transactions"]);
        assert_eq!(play.state("t").0.len(), 1);
    }
}

#[test]
fn an_incomplete_log_is_refused() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &[]);
    execute(&mut play.session, &["CREATE TABLE t (id INT PRIMARY KEY)"]);
    let gtid = play.done(&["INSERT INTO t VALUES (1)"]);
    execute(&mut play.session, &["INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS"]);
    let log = std::fs::read(play.server.data().join("binlog.000001")).unwrap();
    let folder = folder();
    let mut damaged = log.clone();
    let at = damaged.len() - 60;
    damaged[at] ^= 1;
    std::fs::write(folder.path().join("log.000001"), &damaged).unwrap();
    let ask = |name| run(folder.path(), &["reverse", name, "--gtid", &gtid, "--to", "undo.sql"]);
    ask("log.000001").exits(4).says(&["nothing is written"]);
    std::fs::write(folder.path().join("log.000001"), &log).unwrap();
    std::fs::write(folder.path().join("log.index"), "./log.000001\n./log.000002\n").unwrap();
    ask("log.index").exits(1).says(&["log.000002", "nothing is written"]);
    assert!(!folder.path().join("undo.sql").exists());
    std::fs::write(folder.path().join("log.index"), "./log.000001\n").unwrap();
    ask("log.index").exits(0);
}
