//! DDL of A that is executed on B, too: `--ddl same`.

use sandbox::Product;
use server::Session;

use super::Pair;
use super::copy_follow::{LOG, Random, assert_same, execute, made, make, once, spawn, transact};
use crate::support::{of_today, on_products, part_of_today, products, tell, until};

const SAME: [&str; 3] = ["--resume", "--ddl", "same"];

/// Groups of statements on A, each of a kind of DDL.
const STATEMENTS: [&[&str]; 11] = [
    &["ALTER TABLE d.one ADD note INT DEFAULT 5", "UPDATE d.one SET note = id"],
    &["CREATE INDEX i ON d.one (note)", "UPDATE d.one SET note = note + 1"],
    &[
        "CREATE TABLE d.fresh (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(10)) ENGINE=InnoDB",
        "INSERT INTO d.fresh (v) VALUES ('a'), ('b')",
        "ALTER TABLE d.fresh ADD UNIQUE (v), AUTO_INCREMENT = 70",
        "INSERT INTO d.fresh (v) VALUES ('c')",
    ],
    &["TRUNCATE d.two", "INSERT INTO d.two VALUES ('a', 1, 'x')"],
    &[
        "RENAME TABLE d.word TO d.words",
        "INSERT INTO d.words VALUES ('renamed', 1)",
        "RENAME TABLE d.words TO d.word",
        "UPDATE d.word SET n = 2 WHERE w = 'renamed'",
    ],
    &[
        "CREATE TABLE d.gone (id INT PRIMARY KEY) ENGINE=InnoDB",
        "INSERT INTO d.gone VALUES (1)",
        "DROP TABLE d.gone",
    ],
    // What only this session has.
    &[
        "USE d",
        "CREATE TABLE likewise LIKE two",
        "INSERT INTO likewise SELECT * FROM two",
        "SET SESSION sql_mode = ''",
        "ALTER TABLE likewise ADD z DATE NOT NULL DEFAULT '0000-00-00'",
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        "ALTER TABLE \"likewise\" ADD \"quoted\" INT",
        "SET SESSION foreign_key_checks = 0",
        "CREATE TABLE orphan (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES later (id)) ENGINE=InnoDB",
        "CREATE TABLE later (id INT PRIMARY KEY) ENGINE=InnoDB",
    ],
    &["DROP INDEX i ON d.one", "ALTER TABLE d.one DROP note, MODIFY t VARCHAR(60) CHARACTER SET latin1"],
    // A default database that is not copied.
    &["CREATE DATABASE elsewhere", "USE elsewhere", "ALTER TABLE d.fresh COMMENT 'from elsewhere'"],
    // What tables get that say nothing of it.
    &[
        "ALTER DATABASE d CHARACTER SET latin2",
        "CREATE TABLE d.latin (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB",
        "INSERT INTO d.latin VALUES (1, 'x')",
        "USE d",
        "ALTER DATABASE COLLATE utf8mb4_bin",
        "CREATE TABLE d.default_of_d (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB",
    ],
    // Of no interest.
    &["CREATE TABLE IF NOT EXISTS mysql.of_nobody (id INT)", "DROP TABLE mysql.of_nobody"],
];

/// The definitions of all tables of database d.
fn definitions(session: &mut Session) -> Vec<String> {
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' ORDER BY 1";
    let names: Vec<String> = session.strings(sql).unwrap().into_iter().flatten().flatten().collect();
    let definition = |name: String| {
        let row = session.strings(&format!("SHOW CREATE TABLE d.`{name}`")).unwrap().pop().unwrap();
        let text = row[1].clone().unwrap();
        // It says the next number only where a row needed one.
        text.split(' ').filter(|word| !word.starts_with("AUTO_INCREMENT=")).collect::<Vec<_>>().join(" ")
    };
    names.into_iter().map(definition).collect()
}

#[test]
fn ddl_of_a_is_executed_on_b_in_its_place() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &[]).exits(0);
        let mut random = Random(21);
        for statements in STATEMENTS {
            tell(format!("{product}: {statements:?}"));
            let mut source = pair.source();
            (0..10).for_each(|_| transact(&mut source, &mut random));
            execute(&mut source, statements);
            let mut source = pair.source();
            (0..10).for_each(|_| transact(&mut source, &mut random));
            once(&pair, &SAME).exits(0);
            assert_same(&pair);
            assert_eq!(definitions(&mut pair.source()), definitions(&mut pair.target()));
        }
    });
}

#[test]
fn ddl_goes_to_a_newer_server_and_all_rows_are_compared_afterwards() {
    let pairs = [(Product::MariaDb1011, Product::MariaDb118), (Product::MySql97, Product::MySql97)];
    for (from, to) in part_of_today(pairs.to_vec(), 2) {
        if ![from, to].iter().all(|product| products().contains(product)) {
            continue;
        }
        let pair = Pair::new(from, to, &LOG);
        make(&pair);
        once(&pair, &[]).exits(0);
        for statements in STATEMENTS {
            execute(&mut pair.source(), statements);
        }
        let verified = ["--verify-every", "1h"];
        once(&pair, &[&SAME[..], &verified].concat())
            .exits(0)
            .says(&["executed on the target: ", "verified in"]);
        assert_same(&pair);
    }
}

#[test]
fn ddl_that_cannot_be_the_same_ends_it_by_name() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &[]).exits(0);
        let cases: [(&[&str], &[&str], &str); 5] = [
            (
                &[],
                &["CREATE TABLE d.new (id INT PRIMARY KEY) ENGINE=InnoDB SELECT 1 AS id"],
                "DDL: CREATE TABLE",
            ),
            (
                &[],
                &["CREATE TABLE d.keyless (id INT) ENGINE=InnoDB"],
                "it has no primary key, so that the rows that change can't be found, so it can't be followed",
            ),
            (
                &["CREATE TABLE d.own (id INT PRIMARY KEY)", "INSERT INTO d.own VALUES (5)"],
                &["DROP TABLE IF EXISTS d.own"],
                "the target has a table `d`.`own` that is not of this copy",
            ),
            (
                &["ALTER TABLE d.one ADD note INT"],
                &["ALTER TABLE d.one ADD note INT"],
                "the target refuses it: ",
            ),
            (
                &[],
                &["CREATE DATABASE IF NOT EXISTS other", "RENAME TABLE d.word TO other.word"],
                "it is about `other`.`word`, too, which is not followed",
            ),
        ];
        for (on_b, on_a, words) in cases {
            tell(format!("{product}: {on_a:?}"));
            execute(&mut pair.target(), on_b);
            execute(&mut pair.source(), on_a);
            once(&pair, &SAME).exits(1).says(&[words]);
            if on_a[0].contains("keyless") {
                execute(&mut pair.source(), &["DROP TABLE d.keyless"]);
            }
            if on_a[0].contains("own") {
                assert_eq!(pair.target().value("SELECT id FROM d.own").unwrap().as_deref(), Some("5"));
                execute(&mut pair.target(), &["DROP TABLE d.own"]);
            }
            once(&pair, &SAME).exits(0).says(&["following had ended at", words]);
            assert_same(&pair);
        }
    });
}

/// What DDL has made and removed on B is known to a copy that is resumed with a new snapshot.
#[test]
fn a_copy_is_resumed_after_ddl_and_takes_no_table_of_others() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &[]).exits(0);
        let statements = [
            "RENAME TABLE d.word TO d.words",
            "CREATE TABLE d.fresh (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO d.fresh VALUES (1)",
            "CREATE TABLE d.gone (id INT PRIMARY KEY) ENGINE=InnoDB",
            "DROP TABLE d.gone",
        ];
        execute(&mut pair.source(), &statements);
        once(&pair, &SAME).exits(0);
        execute(&mut pair.target(), &["CREATE TABLE d.gone (mine INT)", "INSERT INTO d.gone VALUES (5)"]);
        // It ends here, and the next run begins with a new snapshot.
        execute(
            &mut pair.source(),
            &["CREATE TABLE d.both (id INT PRIMARY KEY) ENGINE=InnoDB SELECT 1 AS id"],
        );
        once(&pair, &SAME).exits(1).says(&["DDL: CREATE TABLE"]);
        once(&pair, &SAME).exits(0);
        assert_eq!(pair.target().value("SELECT mine FROM d.gone").unwrap().as_deref(), Some("5"));
        execute(&mut pair.target(), &["DROP TABLE d.gone"]);
        assert_same(&pair);
    });
}

/// Without the variable the first TIMESTAMP of a table is NOT NULL and follows the clock, and no log says how
/// it is set.
#[test]
fn a_timestamp_means_the_same_on_both_sides() {
    let product = Product::MariaDb118;
    if !products().contains(&product) {
        return;
    }
    let pair = made(product);
    once(&pair, &[]).exits(0);
    execute(&mut pair.target(), &["SET GLOBAL explicit_defaults_for_timestamp = 0"]);
    let statements = [
        "CREATE TABLE d.stamped (id INT PRIMARY KEY, ts TIMESTAMP) ENGINE=InnoDB",
        "INSERT INTO d.stamped VALUES (1, NULL)",
    ];
    execute(&mut pair.source(), &statements);
    once(&pair, &SAME).exits(0);
    assert_same(&pair);
    assert_eq!(definitions(&mut pair.source()), definitions(&mut pair.target()));
}

#[test]
fn a_run_that_is_killed_about_ddl_leaves_what_the_next_one_understands() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &[]).exits(0);
        let mut random = Random(4);
        let mut step = |ddl: &str, is_executed: bool| {
            tell(format!("{product}: {ddl}, executed: {is_executed}"));
            let mut source = pair.source();
            (0..5).for_each(|_| transact(&mut source, &mut random));
            execute(&mut source, &[ddl]);
            (0..5).for_each(|_| transact(&mut source, &mut random));
            let (mut other, mut look) = (pair.target(), pair.target());
            let tables = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_remora' AND TABLE_NAME LIKE";
            let named = |session: &mut Session, end: &str| {
                session.value(&format!("{tables} 'follow%{end}'")).unwrap().unwrap()
            };
            let notes = named(&mut look, "\\_notes");
            let own = format!("SELECT * FROM _remora.{} FOR UPDATE", named(&mut look, "\\_tables"));
            // What is followed can't be noted, or the table can't be altered.
            let held = if is_executed { own.as_str() } else { "SELECT * FROM d.one LIMIT 1" };
            execute(&mut other, &["START TRANSACTION"]);
            other.strings(held).unwrap();
            let before = definitions(&mut look);
            let running = spawn(&pair, &SAME);
            until("the DDL is noted", || {
                look.value(&format!("SELECT 1 FROM _remora.{notes} WHERE name = 'ddl'")).unwrap().is_some()
            });
            if is_executed {
                until("the DDL is executed", || definitions(&mut look) != before);
            } else {
                until("it waits", || {
                    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%'";
                    look.value(waiting).unwrap().as_deref() != Some("0")
                });
            }
            running.kill();
            execute(&mut other, &["ROLLBACK"]);
            // MySQL 5.6 may do half of it.
            if product == Product::MySql56 {
                once(&pair, &SAME).exits(1).says(&["nobody knows whether it was executed"]);
                once(&pair, &SAME).exits(0).says(&["following had ended at"]);
            } else {
                once(&pair, &SAME).exits(0);
            }
            assert_same(&pair);
            assert_eq!(definitions(&mut pair.source()), definitions(&mut pair.target()));
        };
        step("ALTER TABLE d.one ADD a INT DEFAULT 1", true);
        step("ALTER TABLE d.one ADD b INT DEFAULT 2", false);
        step("ALTER TABLE d.one DROP a", true);
    });
}

#[test]
fn ddl_of_a_killed_run_that_the_server_still_executes_is_waited_for() {
    // It does all of it or nothing.
    let atomic: Vec<Product> =
        products().into_iter().filter(|product| *product != Product::MySql56).collect();
    on_products(&of_today(atomic), |product| {
        let pair = made(product);
        let mut source = pair.source();
        execute(
            &mut source,
            &[
                "CREATE TABLE d.large (id INT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(200)) ENGINE=InnoDB",
                "INSERT INTO d.large (t) VALUES (REPEAT('x', 200))",
            ],
        );
        (0..17).for_each(|_| execute(&mut source, &["INSERT INTO d.large (t) SELECT t FROM d.large"]));
        once(&pair, &[]).exits(0);
        execute(&mut source, &["ALTER TABLE d.large ADD n INT DEFAULT 1, ALGORITHM=COPY"]);
        let mut look = pair.target();
        let running = spawn(&pair, &SAME);
        until("the table is copied", || {
            let copying =
                "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'copy to tmp table%'";
            look.value(copying).unwrap().is_some()
        });
        running.kill();
        once(&pair, &SAME).exits(0);
        assert_eq!(definitions(&mut source), definitions(&mut look));
    });
}

#[test]
fn the_same_ddl_needs_servers_of_one_family() {
    let (Some(mariadb), Some(mysql)) = (
        products().into_iter().find(|product| *product == Product::MariaDb1011),
        products().into_iter().find(|product| *product == Product::MySql97),
    ) else {
        return;
    };
    let pair = Pair::new(mariadb, mysql, &LOG);
    make(&pair);
    once(&pair, &["--ddl", "same"]).exits(2).says(&["--ddl same needs two servers of one family"]);
}
