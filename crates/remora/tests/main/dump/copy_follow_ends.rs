//! What ends a copy that is followed, and what is refused beforehand.

use sandbox::Product;

use super::copy::url;
use super::copy_follow::{LOG, Random, assert_same, command, execute, made, once, transact};
use super::{OWN, Pair};
use crate::support::{Ended, of_today, on_products, part_of_today, products, start, tell, until};

/// What ends following: statements on A, what is said, and what else it needs.
const ENDS: [(&[&str], &str); 10] = [
    (
        &["ALTER TABLE d.one ADD note INT", "UPDATE d.one SET note = id"],
        "DDL: ALTER TABLE d.one ADD note INT",
    ),
    (&["TRUNCATE d.two"], "DDL: TRUNCATE d.two"),
    (&["CREATE TABLE d.new (id INT PRIMARY KEY) SELECT 1 AS id"], "DDL: CREATE TABLE"),
    (&["RENAME TABLE d.word TO d.words", "RENAME TABLE d.words TO d.word"], "DDL: RENAME TABLE d.word"),
    (
        &["SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE d.one SET t = 'm'"],
        "the row was not logged whole",
    ),
    (
        &["SET SESSION binlog_format = 'STATEMENT'", "DELETE FROM d.one WHERE id = 3"],
        "a statement was logged instead",
    ),
    (
        &[
            "XA START 'x'",
            "INSERT INTO d.two VALUES ('xa', 1, NULL)",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
        ],
        "XA transaction",
    ),
    // Rows, and in the same transaction a statement that can't be rolled back.
    (
        &[
            "SET SESSION binlog_format = 'MIXED'",
            "BEGIN",
            "INSERT INTO d.two VALUES (LEFT(UUID(), 8), 9, NULL)",
            "CREATE TEMPORARY TABLE d.tt (id INT)",
            "ROLLBACK",
        ],
        "a transaction that is rolled back in part",
    ),
    (&["RESET"], "the log was begun again (RESET MASTER)"),
    (&["PURGE"], "can't be read on"),
];

#[test]
fn what_cannot_be_applied_ends_it_by_name_and_a_new_snapshot_goes_on() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &[]).exits(0);
        let mut random = Random(5);
        for (statements, words) in part_of_today(ENDS.to_vec(), 3) {
            tell(format!("{product}: {statements:?}"));
            let mut source = pair.source();
            (0..20).for_each(|_| transact(&mut source, &mut random));
            match statements {
                ["RESET"] => {
                    let sql = if product == Product::MySql97 {
                        "RESET BINARY LOGS AND GTIDS"
                    } else {
                        "RESET MASTER"
                    };
                    execute(&mut source, &[sql]);
                }
                ["PURGE"] => {
                    execute(&mut source, &["FLUSH BINARY LOGS", "FLUSH BINARY LOGS"]);
                    let last = source.strings("SHOW BINARY LOGS").unwrap().pop().unwrap()[0].clone().unwrap();
                    let sql = format!("PURGE BINARY LOGS TO '{last}'");
                    until("the files are gone", || {
                        execute(&mut source, &[&sql]);
                        source.strings("SHOW BINARY LOGS").unwrap().len() == 1
                    });
                }
                // MySQL 5.6 logs an XA transaction when it is committed, as any other.
                [first, ..] if first.starts_with("XA") && product == Product::MySql56 => continue,
                // MySQL logs nothing of it.
                [first, ..] if first.contains("MIXED") && !pair.is_mariadb() => continue,
                statements => execute(&mut source, statements),
            }
            drop(source);
            let mut source = pair.source();
            (0..20).for_each(|_| transact(&mut source, &mut random));
            once(&pair, &["--resume"]).exits(1).says(&[words, "--resume compares all rows"]);
            once(&pair, &["--resume"]).exits(0).says(&["following had ended at", words]);
            assert_same(&pair);
            (0..20).for_each(|_| transact(&mut source, &mut random));
            once(&pair, &["--resume"]).exits(0);
            assert_same(&pair);
        }
    });
}

#[test]
fn a_server_that_takes_the_place_of_a_is_followed_on() {
    on_products(&of_today(products()), |product| {
        let mut pair = made(product);
        once(&pair, &[]).exits(0);
        // A replica that has all but the last transactions is A after a failover.
        let replica = start(product, &[&OWN[..], &LOG].concat());
        let (from, to) = (url(&pair.from), url(&replica));
        pair.run(&["copy", "--no-defaults", "-u", "root", &from, &to, "d"]).exits(0);
        let mut random = Random(8);
        (0..20).for_each(|_| transact(&mut pair.source(), &mut random));
        once(&pair, &["--resume"]).exits(0);
        pair.from.kill().unwrap();
        pair.from = replica;
        (0..20).for_each(|_| transact(&mut pair.source(), &mut random));
        once(&pair, &["--resume"]).exits(1).says(&["B has a copy that follows", "--failover-from"]);
        let failover = |from| once(&pair, &["--resume", "--failover-from", from]);
        once(&pair, &["--failover-from", &from]).exits(2).says(&["--resume"]);
        failover("mysql://root@nobody").exits(1).says(&["has no copy of root@nobody", "it has copies of"]);
        let other =
            ["copy", "--no-defaults", "-u", "root", &to, &url(&pair.to), "other", "--follow", "apply"];
        let other = [&other[..], &["--once", "--resume", "--failover-from", &from]].concat();
        pair.run(&other).exits(1).says(&["with these tables"]);
        failover(&from).exits(0).says(&["takes the place of", "another server has replaced"]);
        assert_same(&pair);
        (0..20).for_each(|_| transact(&mut pair.source(), &mut random));
        // The option stays in the command line.
        failover(&from).exits(0);
        once(&pair, &["--resume"]).exits(0);
        assert_same(&pair);
        let status =
            pair.run(&["copy", "--no-defaults", "-u", "root", "status", &url(&pair.to)]).exits(0).out;
        assert!(status.contains(&pair.from.socket().display().to_string()), "{status}");
    });
}

#[test]
fn a_target_that_somebody_else_has_changed_is_found() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        execute(&mut pair.source(), &["REPLACE INTO d.one (id, u, t) VALUES (1, 1, 'a'), (2, 2, 'b')"]);
        once(&pair, &[]).exits(0);
        for (strange, own, words) in [
            ("DELETE FROM d.one WHERE id = 1", "UPDATE d.one SET t = 'c' WHERE id < 3", "`id` IN (1)"),
            (
                "INSERT INTO d.one (id, u) VALUES (77, 770)",
                "INSERT INTO d.one (id, u) VALUES (77, 771)",
                "has a row that the source has not",
            ),
            (
                "DELETE FROM d.parent WHERE id = 99",
                "DELETE FROM d.parent WHERE id = 99",
                "0 rows instead of 1",
            ),
        ] {
            if own.contains("99") {
                execute(&mut pair.source(), &["INSERT INTO d.parent VALUES (99, NULL)"]);
                once(&pair, &["--resume"]).exits(0);
                // MySQL 9.7 logs what foreign keys change, so its rows are merged.
                if product == Product::MySql97 {
                    continue;
                }
            }
            execute(&mut pair.target(), &[strange]);
            execute(&mut pair.source(), &[own]);
            once(&pair, &["--resume"]).exits(4).says(&["the target differs from the source", words]);
            once(&pair, &["--resume"]).exits(0);
            assert_same(&pair);
        }
    });
}

#[test]
fn what_cannot_be_followed_is_refused_before_anything_is_copied() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &LOG);
        let mut source = pair.source();
        execute(
            &mut source,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.keyless (a INT)",
                "CREATE TABLE d.my (id INT PRIMARY KEY) ENGINE=MyISAM",
                "CREATE DATABASE other",
                "CREATE TABLE other.p (id INT PRIMARY KEY)",
                "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, FOREIGN KEY along (p) REFERENCES other.p (id) ON DELETE CASCADE)",
                "SET GLOBAL binlog_row_image = 'MINIMAL'",
                "SET GLOBAL binlog_format = 'MIXED'",
            ],
        );
        let words = [
            "binlog_format of the source is MIXED",
            "binlog_row_image of the source is MINIMAL",
            "`d`.`keyless`: it has no primary key",
            "`d`.`my`: its engine can't roll back",
            "which is not copied",
        ];
        once(&pair, &[]).exits(1).says(&words);
        let plan = Ended::of(&command(&pair, &["--dry-run"]).output().unwrap()).exits(1).out;
        assert!(words.iter().all(|words| plan.contains(words)), "{plan}");
        let there = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('d', '_remora')";
        assert_eq!(pair.target().value(there).unwrap().as_deref(), Some("0"));
        execute(
            &mut source,
            &[
                "DROP TABLE d.keyless, d.my, d.c",
                "SET GLOBAL binlog_row_image = 'FULL'",
                "SET GLOBAL binlog_format = 'ROW'",
                "CREATE TABLE d.t (id INT PRIMARY KEY)",
                "CREATE TRIGGER d.twice AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (NEW.id)",
                "CREATE TABLE d.log (id INT PRIMARY KEY)",
            ],
        );
        drop(source);
        // What would change rows a second time is not on B.
        once(&pair, &[]).exits(3).says(&["trigger `d`.`twice`: it would change rows a second time"]);
        execute(&mut pair.source(), &["INSERT INTO d.t VALUES (1)", "CREATE VIEW d.v AS SELECT 1"]);
        once(&pair, &["--resume"]).exits(3).says(&["not on the target: CREATE", "VIEW"]);
        assert_same(&pair);
        once(&pair, &[]).exits(2).says(&["B has such a copy, which follows A"]);
        // Without following, B is of another time than it has noted.
        execute(&mut pair.source(), &["INSERT INTO d.t VALUES (2)"]);
        let (from, to) = (url(&pair.from), url(&pair.to));
        pair.run(&["copy", "--no-defaults", "-u", "root", "--resume", &from, &to, "d"]).exits(0);
        assert_same(&pair);
        assert_eq!(pair.target().value(there).unwrap().as_deref(), Some("1"));
    });
}
