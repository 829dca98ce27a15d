//! What is different with MySQL 9.7, and servers that the user names by their program.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sandbox::{Product, Sandbox};
use tempfile::TempDir;

use crate::support::{Ended, connect, mysql97, places, remora, start};
use crate::verify_boot::volume;

/// What the server needs to be small and quick.
const SMALL: [&str; 3] =
    ["--performance-schema=off", "--innodb-flush-log-at-trx-commit=0", "--max-connections=20"];

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap()
}

/// A small server that has run these statements.
fn filled(product: Product, options: &[&str], statements: &[&str]) -> Sandbox {
    let own: &[&str] = if product == Product::MySql97 { &SMALL } else { &SMALL[..2] };
    let server = start(product, &[own, options].concat());
    execute(&server, statements);
    server
}

fn execute(server: &Sandbox, statements: &[&str]) {
    let mut session = connect(server.socket());
    for statement in statements {
        session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn value(server: &Sandbox, sql: &str) -> String {
    connect(server.socket()).value(sql).unwrap().unwrap_or_default()
}

fn run(folder: &Path, arguments: &[&str]) -> Ended {
    Ended::of(&remora(folder).args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// Runs it on a server.
fn on(folder: &Path, server: &Sandbox, arguments: &[&str]) -> Ended {
    let socket = server.socket().to_str().unwrap();
    run(folder, &[arguments, &["--no-defaults", "-u", "root", "-S", socket]].concat())
}

/// A program in another place that runs a server.
fn elsewhere(folder: &Path, daemon: &Path) -> PathBuf {
    let program = folder.join(daemon.file_name().unwrap());
    std::fs::write(&program, format!("#!/bin/sh\nexec {} \"$@\"\n", daemon.display())).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_sandbox_keeps_the_program_that_it_was_started_with() {
    let folder = folder();
    let program = elsewhere(folder.path(), &sandbox::find(&places(), Product::MariaDb1011).unwrap().daemon);
    let name = format!("own-test-{}", std::process::id());
    let own = ["sandbox", "start", &name, "--server", "./mariadbd", "--folder", "server"];
    run(folder.path(), &own).exits(0);
    run(folder.path(), &["sandbox", "stop", &name]).exits(0);
    // It is known by its path, and not as a server of ours.
    let again = run(folder.path(), &["--json", "sandbox", "start", &name]).exits(0);
    run(folder.path(), &["sandbox", "stop", &name, "--remove"]).exits(0);
    assert!(again.out.contains(&format!("\"server\":\"{}\"", program.display())), "{}", again.out);
    run(folder.path(), &["sandbox", "start", &name, "--server", "/etc/hostname"])
        .exits(1)
        .says(&["/etc/hostname is not the program of a server"]);
    run(folder.path(), &["sandbox", "start", &name, "--server", "mysqld"])
        .exits(2)
        .says(&["mysql-9.7, or the path of a program"]);
}

#[test]
fn a_backup_is_booted_and_its_tables_are_restored() {
    let Some(installation) = mysql97("a_backup_is_booted_and_its_tables_are_restored") else { return };
    let folder = folder();
    let mut server = filled(
        Product::MySql97,
        &["--log-bin=binlog", "--server-id=1", "--innodb-flush-log-at-trx-commit=1"],
        &[
            "CREATE DATABASE app",
            "CREATE TABLE app.t (id INT PRIMARY KEY, a JSON)",
            "INSERT INTO app.t VALUES (1, '[1]'), (2, NULL)",
        ],
    );
    server.kill().unwrap();
    volume(server.folder(), &folder.path().join("volume"));
    drop(server);
    run(folder.path(), &["backup", "file:volume", "--to", "repo"]).exits(0);
    let boot = ["verify", "repo", "--boot", "--work", "."];
    run(folder.path(), &boot).exits(0).says(&["volume@1 has been booted", "all sound"]);
    let program = elsewhere(folder.path(), &installation.daemon);
    let program = program.to_str().unwrap();
    run(folder.path(), &[&boot[..], &["--server", program]].concat()).exits(0).says(&["all sound"]);
    let tables = ["restore", "repo/volume", "--tables", "app.t", "--to", "dump", "--server", program];
    run(folder.path(), &tables).exits(0).says(&["1 table of volume@1", "2 rows"]);
}

/// The server says a tree if it is asked how it reads, and sizes of yesterday.
#[test]
fn a_table_is_dumped_in_chunks() {
    let Some(_) = mysql97("a_table_is_dumped_in_chunks") else { return };
    let folder = folder();
    let double = "INSERT INTO app.t (a) SELECT a FROM app.t";
    let mut statements = vec![
        "CREATE DATABASE app",
        "CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, a CHAR(250) CHARACTER SET latin1)",
        // The server remembers that it was empty.
        "SELECT table_rows, data_length FROM information_schema.tables WHERE table_name = 't'",
        "INSERT INTO app.t (a) VALUES (REPEAT('x', 250))",
    ];
    statements.extend([double; 15]);
    statements.push("ANALYZE TABLE app.t");
    let server = filled(Product::MySql97, &[], &statements);
    on(folder.path(), &server, &["dump", "-o", "dump", "--chunk", "1M"]).exits(0);
    let listed = run(folder.path(), &["dump", "--list", "dump", "--json"]).exits(0).out;
    let table: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert!(table["chunks"].as_u64().is_some_and(|chunks| chunks >= 4), "{listed}");
}

#[test]
fn a_database_with_a_long_name_is_imported_into() {
    let Some(_) = mysql97("a_database_with_a_long_name_is_imported_into") else { return };
    let folder = folder();
    let name = "a_database_whose_name_has_many_characters";
    let server = filled(
        Product::MySql97,
        &[],
        &[
            &format!("CREATE DATABASE {name}"),
            &format!("CREATE TABLE {name}.t (id INT PRIMARY KEY, CHECK (id > 0))"),
        ],
    );
    std::fs::write(folder.path().join("t.csv"), "id\n1\n2\n").unwrap();
    let into = format!("{name}.t");
    on(folder.path(), &server, &["import", "t.csv", "--into", &into]).exits(0);
    // The constraint that nobody named gets other names with the table.
    std::fs::write(folder.path().join("t.csv"), "id\n3\n").unwrap();
    on(folder.path(), &server, &["import", "t.csv", "--into", &into, "--replace"]).exits(0);
    assert_eq!(value(&server, &format!("SELECT GROUP_CONCAT(id) FROM {into}")), "3");
}

#[test]
fn json_is_loaded_without_local_files() {
    let Some(_) = mysql97("json_is_loaded_without_local_files") else { return };
    let folder = folder();
    let server = filled(
        Product::MySql97,
        &["--local-infile=0"],
        &[
            "CREATE DATABASE app",
            "CREATE TABLE app.t (id INT PRIMARY KEY, a JSON)",
            "INSERT INTO app.t VALUES (1, '{\"a\": \"\\\\\"\u{e4}\\\\n\"}'), (2, NULL), (3, '[]')",
            "CREATE TABLE app.old (a INT) ENGINE=ARCHIVE",
            "INSERT INTO app.old VALUES (1), (2)",
        ],
    );
    on(folder.path(), &server, &["dump", "-o", "dump"]).exits(0);
    let sum = "SELECT GROUP_CONCAT(id, COALESCE(a, '-') ORDER BY id) FROM app.t";
    let before = value(&server, sum);
    execute(&server, &["DROP DATABASE app"]);
    on(folder.path(), &server, &["load", "dump"]).exits(0);
    assert_eq!(value(&server, sum), before);
    assert_eq!(value(&server, "SELECT COUNT(*) FROM app.old"), "2");
}

/// Each table refers to others, so that sessions which make them wait for each other.
#[test]
fn tables_of_one_family_are_made_at_the_same_time() {
    let Some(_) = mysql97("tables_of_one_family_are_made_at_the_same_time") else { return };
    let folder = folder();
    let names: Vec<String> = (0..12).map(|at| format!("app.t{at}")).collect();
    let mut statements = vec!["CREATE DATABASE app".to_owned(), "SET foreign_key_checks = 0".to_owned()];
    for (at, name) in names.iter().enumerate() {
        let keys = (0..12)
            .filter(|other| *other != at)
            .map(|other| format!("FOREIGN KEY (id) REFERENCES t{other} (id)"));
        let keys = keys.collect::<Vec<_>>().join(", ");
        statements.push(format!("CREATE TABLE {name} (id INT PRIMARY KEY, {keys})"));
    }
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let server = filled(Product::MySql97, &[], &statements);
    on(folder.path(), &server, &["dump", "-o", "dump"]).exits(0);
    for _ in 0..3 {
        execute(&server, &["SET foreign_key_checks = 0", "DROP DATABASE app"]);
        on(folder.path(), &server, &["load", "dump", "-j", "4"]).exits(0);
    }
}

/// Routines of MariaDB name a mode that MySQL does not have; definitions of MySQL hide what MariaDB skips.
#[test]
fn families_say_what_the_other_one_lacks() {
    let Some(_) = mysql97("families_say_what_the_other_one_lacks") else { return };
    let folder = folder();
    let mariadb = filled(
        Product::MariaDb1011,
        &["--sql-mode=STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER"],
        &["CREATE DATABASE one", "CREATE FUNCTION one.f() RETURNS INT DETERMINISTIC RETURN 7"],
    );
    let mysql = filled(
        Product::MySql97,
        &[],
        &[
            "CREATE DATABASE two",
            "CREATE TABLE two.t (id INT PRIMARY KEY, a INT, h INT INVISIBLE DEFAULT 1, g POINT SRID 4326, \
             KEY k (a) INVISIBLE, CONSTRAINT c CHECK (a > 0) NOT ENFORCED)",
            "INSERT INTO two.t (id, a, h) VALUES (1, -1, 5)",
        ],
    );
    on(folder.path(), &mariadb, &["dump", "one", "-o", "one"]).exits(0);
    on(folder.path(), &mysql, &["dump", "two", "-o", "two"]).exits(0);
    on(folder.path(), &mysql, &["load", "one"]).exits(0).says(&["sql_mode without NO_AUTO_CREATE_USER"]);
    assert_eq!(value(&mysql, "SELECT one.f()"), "7");
    on(folder.path(), &mariadb, &["load", "two"]).exits(3).says(&[
        "not loaded: table `two`.`t`: the check `c`",
        "SRID 4326 of `g`",
        "`h` is INVISIBLE",
    ]);
    assert_eq!(value(&mariadb, "SELECT CONCAT(id, a, h) FROM two.t"), "1-15");
    let extra =
        "SELECT extra FROM information_schema.columns WHERE table_schema = 'two' AND column_name = 'h'";
    assert_eq!(value(&mariadb, extra), "INVISIBLE");
    // What is in both, in their own words, is no difference.
    let url = format!("unix://root@{}", mariadb.socket().display());
    let compared = run(folder.path(), &["diff", "--no-defaults", "two", &url]).exits(4);
    let differs =
        "`two`.`t`: defined otherwise: - check `c` NOT ENFORCED; - column `g` SRID 4326; + column `g`\n";
    assert!(compared.out.ends_with(differs), "{}", compared.out);
}

#[test]
fn what_a_target_lacks_is_said_before_anything_is_made() {
    let Some(_) = mysql97("what_a_target_lacks_is_said_before_anything_is_made") else { return };
    let folder = folder();
    let server = filled(
        Product::MySql97,
        &[],
        &[
            "CREATE TABLESPACE ts1 ADD DATAFILE 'ts1.ibd'",
            "CREATE DATABASE app",
            "CREATE TABLE app.t (id INT PRIMARY KEY) TABLESPACE ts1",
            "INSERT INTO app.t VALUES (1)",
        ],
    );
    on(folder.path(), &server, &["dump", "app", "-o", "dump"]).exits(0);
    execute(&server, &["DROP DATABASE app", "DROP TABLESPACE ts1"]);
    on(folder.path(), &server, &["load", "dump"])
        .exits(3)
        .says(&["the tablespace ts1; it gets a file of its own"]);
    assert_eq!(value(&server, "SELECT COUNT(*) FROM app.t"), "1");
    execute(
        &server,
        &[
            "DROP DATABASE app",
            "CREATE SPATIAL REFERENCE SYSTEM 40001 NAME 'x' DEFINITION 'PROJCS[\"x\",GEOGCS[\"x\",DATUM[\"x\",SPHEROID[\"x\",6378137,298.257]],PRIMEM[\"x\",0],UNIT[\"x\",0.017453292519943278],AXIS[\"Lat\",NORTH],AXIS[\"Lon\",EAST]],PROJECTION[\"Popular Visualisation Pseudo Mercator\"],PARAMETER[\"x\",0],PARAMETER[\"y\",0],PARAMETER[\"z\",0],PARAMETER[\"w\",0],UNIT[\"m\",1],AXIS[\"E\",EAST],AXIS[\"N\",NORTH]]'",
            "CREATE DATABASE app",
            "CREATE TABLE app.g (g POINT NOT NULL SRID 40001)",
        ],
    );
    on(folder.path(), &server, &["dump", "app", "-o", "spatial"]).exits(0);
    execute(&server, &["DROP DATABASE app", "DROP SPATIAL REFERENCE SYSTEM 40001"]);
    on(folder.path(), &server, &["load", "spatial"])
        .exits(1)
        .says(&["`app`.`g`: the spatial reference system 40001"]);
    assert_eq!(
        value(&server, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'app'"),
        "0"
    );
}

/// Newer MySQL asks an account that does not exist for some way to log in, so that nobody learns whether it
/// does.
#[test]
fn a_refused_login_says_what_to_do() {
    let Some(_) = mysql97("a_refused_login_says_what_to_do") else { return };
    let folder = folder();
    let server = filled(
        Product::MySql97,
        &[],
        &[
            "CREATE USER old@localhost IDENTIFIED WITH sha256_password BY 'x'",
            "CREATE USER tls@localhost IDENTIFIED BY 'x' REQUIRE SSL",
        ],
    );
    let by = |user: &str| {
        let mut command = remora(folder.path());
        command.args(["stat", "--no-defaults", "-px", "-u", user, "0.1", "1", "-S"]).arg(server.socket());
        Ended::of(&command.output().unwrap()).exits(10)
    };
    by("old")
        .says(&["asks for sha256_password", "ALTER USER `old`@'...' IDENTIFIED WITH caching_sha2_password"]);
    by("tls").says(&["requires TLS needs TCP (--host=127.0.0.1)"]);
    // It chooses one of its ways by the name.
    for user in ["nobody", "nobody2", "nobody3", "nobody4"] {
        by(user).says(&["check"]);
    }
}

#[test]
fn what_only_mysql_has_is_dumped_or_named() {
    let Some(_) = mysql97("what_only_mysql_has_is_dumped_or_named") else { return };
    let folder = folder();
    let server = filled(
        Product::MySql97,
        &[],
        &[
            "CREATE DATABASE app",
            "CREATE LIBRARY app.l LANGUAGE JAVASCRIPT AS 'export function f(x) { return x + 1 }'",
            "CREATE FUNCTION app.g(x INT) RETURNS INT DETERMINISTIC LANGUAGE JAVASCRIPT USING (app.l) AS 'return l.f(x)'",
            "CREATE TABLE app.t (id INT PRIMARY KEY, a INT)",
            "INSERT INTO app.t VALUES (1, 1), (2, 3)",
            "ANALYZE TABLE app.t UPDATE HISTOGRAM ON a",
            "CREATE TABLESPACE ts1 ADD DATAFILE 'ts1.ibd'",
            "CREATE RESOURCE GROUP night TYPE = USER",
            "CREATE USER ann IDENTIFIED BY 'one'",
            "ALTER USER ann IDENTIFIED BY 'two' RETAIN CURRENT PASSWORD",
        ],
    );
    on(folder.path(), &server, &["dump", "-o", "dump"]).exits(3).says(&[
        "histogram of `app`.`t`, column a",
        "tablespace ts1: is not dumped",
        "resource group night: is not dumped",
        "second password of `ann`@`%`: is not dumped",
    ]);
    execute(&server, &["DROP DATABASE app"]);
    on(folder.path(), &server, &["load", "dump", "--only", "app"]).exits(0);
    let of = "SELECT library_definition FROM information_schema.libraries WHERE library_name = 'l'";
    assert!(value(&server, of).contains("return x + 1"));
}
