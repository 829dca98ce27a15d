//! What a server can't read, rows without columns, and accounts whose grants fail: the rest is dumped and
//! loaded.

use std::process::Command;

use super::Alone;

/// Tables whose files are damaged or missing, and views in a circle, are all named; everything else is
/// dumped.
#[test]
fn unreadable_tables_are_named_and_the_rest_is_dumped() {
    let alone = Alone::new(&["--myisam-recover-options=OFF", "--aria-recover-options=OFF"]);
    let mut session = alone.session();
    let mut run = |sql: &str| session.execute(sql).map(drop).unwrap_or_else(|error| panic!("{sql}: {error}"));
    [
        "CREATE DATABASE d",
        "CREATE TABLE d.good (id INT PRIMARY KEY)",
        "INSERT INTO d.good VALUES (1), (2)",
        "CREATE TABLE d.myisam (id INT PRIMARY KEY, v TEXT) ENGINE=MyISAM",
        "INSERT INTO d.myisam VALUES (1, 'x')",
        "CREATE TABLE d.rows_lost (id INT PRIMARY KEY, v TEXT) ENGINE=MyISAM",
        "INSERT INTO d.rows_lost SELECT seq, REPEAT('x', 300) FROM d.seq_1_to_500",
        "CREATE TABLE d.discarded (id INT PRIMARY KEY) ENGINE=InnoDB",
        "ALTER TABLE d.discarded DISCARD TABLESPACE",
        "CREATE TABLE d.base (a INT)",
        "CREATE VIEW d.v2 AS SELECT a FROM d.base",
        "CREATE VIEW d.v1 AS SELECT a FROM d.v2",
        "RENAME TABLE d.base TO d.other, d.v1 TO d.base",
        "FLUSH TABLES",
    ]
    .into_iter()
    .for_each(&mut run);
    let data = alone.server.data().join("d");
    std::fs::write(data.join("myisam.MYI"), b"nothing").unwrap();
    std::fs::write(data.join("frm.frm"), b"nothing").unwrap();
    let mut rows = std::fs::read(data.join("rows_lost.MYD")).unwrap();
    let middle = rows.len() / 2;
    rows[middle..middle + 4000].fill(0xff);
    std::fs::write(data.join("rows_lost.MYD"), rows).unwrap();
    for charset in charsets(&alone) {
        // Of every character set, because a literal must mix with each.
        run(&format!(
            "CREATE TABLE d.in_{charset} (e ENUM('a','b'), s SET('a','b'), v VARCHAR(3)) CHARACTER SET {charset}"
        ));
        run(&format!("INSERT INTO d.in_{charset} VALUES ('b','a,b','c')"));
    }
    let ended = alone.run("dump", &["d", "-o", "a"]).exits(3).says(&[
        "table `d`.`myisam`: the server can't read it",
        "table `d`.`frm`: the server can't read it",
        "view `d`.`base`: the server can't read it",
        "view `d`.`v2`: the server can't read it",
        "rows of table `d`.`rows_lost`: the server can't read them",
        "`d`.`discarded`",
    ]);
    assert!(!ended.err.contains("while the dump ran"), "{}", ended.err);
    alone.run("dump", &["--check", "a"]).exits(0);
    std::fs::remove_file(data.join("frm.frm")).unwrap();
    run("DROP DATABASE d");
    alone.run("load", &["a"]).exits(0);
    assert_eq!(alone.value("SELECT COUNT(*) FROM d.good"), "2");
    assert_eq!(alone.value("SELECT COUNT(*) FROM d.rows_lost"), "0");
    assert_eq!(alone.value("SELECT CONCAT(e, s, v) FROM d.in_swe7"), "ba,bc");
}

fn charsets(alone: &Alone) -> Vec<String> {
    let rows =
        alone.session().strings("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS").unwrap();
    rows.into_iter().flatten().flatten().collect()
}

/// A table whose columns are all computed has rows, and one may have rows that a CHECK of a later time
/// refuses: whichever way they go.
#[test]
fn rows_without_columns_are_counted_in_every_way() {
    let alone = Alone::new(&[]);
    alone.sql(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.computed (a INT AS (1) VIRTUAL, b INT AS (2) PERSISTENT)",
        "INSERT INTO d.computed VALUES (), (), ()",
        "CREATE TABLE d.checked (id INT PRIMARY KEY, v INT)",
        "INSERT INTO d.checked VALUES (1, -1), (2, 1)",
        "SET check_constraint_checks = 0",
        "ALTER TABLE d.checked ADD CONSTRAINT c CHECK (v > 0)",
    ]);
    let counts = || {
        let counts = alone
            .value("SELECT CONCAT((SELECT COUNT(*) FROM d.computed), '-', (SELECT COUNT(*) FROM d.checked))");
        assert_eq!(counts, "3-2");
    };
    alone.run("dump", &["d", "-o", "a"]).exits(0);
    for local_infile in [1, 0] {
        alone.sql(&["DROP DATABASE d", &format!("SET GLOBAL local_infile = {local_infile}")]);
        alone.run("load", &["a"]).exits(0);
        counts();
    }
    alone.run("dump", &["d", "-o", "s", "--format", "sql", "--compress", "none"]).exits(0);
    alone.sql(&["DROP DATABASE d", "SET GLOBAL autocommit = 0"]);
    for file in ["schema/1-tables.sql", "d.computed/00000.sql", "d.checked/00000.sql"] {
        let ended = Command::new(sandbox::client().unwrap())
            .args(["--no-defaults", "-u", "root", "-S"])
            .arg(alone.server.socket())
            .stdin(std::fs::File::open(alone.path("s").join(file)).unwrap())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{file}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    counts();
    alone.diff("a", &[]).exits(0);
}

/// Each grant is made by itself; roles are created before the programs that they define; and a resumed load
/// creates its programs again.
#[test]
fn a_failed_grant_does_not_prevent_the_others() {
    let alone = Alone::new(&[]);
    alone.sql(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.t1 (id INT)",
        "CREATE TABLE d.t2 (id INT)",
        "CREATE TABLE d.t3 (id INT)",
        // Its digits can't be loaded again, so that a load of it ends with a difference.
        "CREATE TABLE d.digits (f FLOAT)",
        "INSERT INTO d.digits VALUES (0.121)",
        "ALTER TABLE d.digits MODIFY f FLOAT(10,2)",
        "SET sql_mode = 'ORACLE'",
        "CREATE PACKAGE d.pkg AS PROCEDURE p; END",
        "SET sql_mode = ''",
        "CREATE USER u@localhost",
        "CREATE ROLE r",
        "GRANT ALL ON d.* TO r",
        "GRANT SELECT ON d.t1 TO u@localhost",
        "GRANT SELECT ON d.t2 TO u@localhost",
        "GRANT SELECT ON d.t3 TO u@localhost",
        "GRANT r TO u@localhost",
        "SET sql_mode = 'ORACLE'",
        "GRANT EXECUTE ON PACKAGE d.pkg TO u@localhost",
        "SET sql_mode = ''",
        "DROP TABLE d.t2",
        "SET ROLE r",
        "CREATE DEFINER=CURRENT_ROLE PROCEDURE d.p() SELECT 1",
        "CREATE DEFINER=CURRENT_ROLE VIEW d.v AS SELECT 1",
    ]);
    let lines = || {
        let mut rows: Vec<_> = alone.session().strings("SHOW GRANTS FOR u@localhost").unwrap();
        rows.retain(|row| !row.iter().flatten().any(|line| line.contains("`t2`")));
        rows.sort();
        rows
    };
    let shown = || alone.session().strings("SHOW CREATE PROCEDURE d.p").unwrap();
    let (grants, procedure) = (lines(), shown());
    assert!(format!("{procedure:?}").contains("DEFINER=`r` PROCEDURE"), "{procedure:?}");
    assert!(format!("{grants:?}").contains("PACKAGE"), "{grants:?}");
    alone.run("dump", &["-o", "a"]).exits(0);
    alone.run("dump", &["d", "-o", "alone"]).exits(0);
    alone.sql(&["DROP DATABASE d", "DROP USER u@localhost", "DROP ROLE r"]);
    alone.run("load", &["alone"]).exits(1).says(&["has the role `r` as its definer", "CREATE ROLE `r`"]);

    alone
        .run("load", &["a", "--exclude", "d.digits"])
        .exits(3)
        .says(&["grants `u`@`localhost`: GRANT SELECT ON `d`.`t2`"]);
    assert_eq!((lines(), shown()), (grants.clone(), procedure.clone()));
    alone.sql(&["DROP DATABASE d", "DROP USER u@localhost", "DROP ROLE r"]);
    alone.run("load", &["a"]).exits(4);
    alone.sql(&["SET sql_mode = ''", "CREATE OR REPLACE PROCEDURE d.p() SELECT 2"]);
    alone.run("load", &["a", "--resume"]).exits(4);
    assert_eq!((lines(), shown()), (grants, procedure));
}
