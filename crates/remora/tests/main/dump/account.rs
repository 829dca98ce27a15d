//! Accounts that the target has already, and accounts that lack rights.

use sandbox::Product;
use server::Session;

use super::Pair;
use crate::support::{Ended, mariadbs, of_today, on_products, products, remora};

fn run(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

fn grants(session: &mut Session, name: &str) -> Vec<String> {
    let rows = session.strings(&format!("SHOW GRANTS FOR {name}")).unwrap();
    let mut lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
    lines.sort();
    lines
}

/// An existing role or user keeps its rights, and gets no more.
#[test]
fn a_load_gives_no_existing_account_more_rights() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let (mut source, mut target) = (pair.source(), pair.target());
        run(&mut source, &["CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)"]);
        let mut names = vec!["app@localhost"];
        for session in [&mut source, &mut target] {
            run(session, &["CREATE USER app@localhost", "CREATE USER same@localhost"]);
            if pair.is_mariadb() {
                run(session, &["CREATE ROLE reader", "CREATE ROLE alike"]);
            }
        }
        run(
            &mut source,
            &[
                "GRANT ALL ON *.* TO app@localhost",
                "CREATE USER new@localhost",
                "GRANT DROP ON shop.* TO new@localhost",
            ],
        );
        if pair.is_mariadb() {
            run(
                &mut source,
                &[
                    "GRANT ALL ON *.* TO reader",
                    "GRANT reader TO new@localhost",
                    "CREATE ROLE fresh",
                    "GRANT fresh TO same@localhost",
                ],
            );
            names.push("reader");
        }
        let before: Vec<_> = names.iter().map(|name| grants(&mut target, name)).collect();
        pair.dump(&["-o", "all"]).exits(0);
        let ended = pair.load(&["all"]).exits(3).says(&["user `app`@`localhost`: it already exists"]);
        let after: Vec<_> = names.iter().map(|name| grants(&mut target, name)).collect();
        assert_eq!(after, before);
        assert_eq!(
            ended.err.contains("role `reader`: it already exists"),
            pair.is_mariadb(),
            "{}",
            ended.err
        );
        assert!(
            !ended.err.contains("`same`") && !ended.err.contains("alike") && !ended.err.contains("root"),
            "{}",
            ended.err
        );
        for name in ["new@localhost", "same@localhost"] {
            assert_eq!(grants(&mut target, name), grants(&mut source, name));
        }
    });
}

/// An account that may not see replicas still reads one consistent state, and a position that it can't see is
/// not reported as absent.
#[test]
fn an_account_that_sees_no_replicas_needs_no_locks() {
    for product in of_today(mariadbs()) {
        let pair = Pair::new(product, product, &["--log-bin=log", "--server-id=1"]);
        let mut source = pair.source();
        run(
            &mut source,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (id INT PRIMARY KEY)",
                "INSERT INTO d.t VALUES (1)",
                "CREATE USER reader@localhost",
                "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON d.* TO reader@localhost",
            ],
        );
        let dump = |name: &str| {
            let mut command = remora(pair.folder.path());
            command
                .args(["dump", "--no-defaults", "-u", "reader", "d", "-o", name, "-S"])
                .arg(pair.from.socket());
            Ended::of(&command.output().unwrap())
        };
        dump("mine").exits(0).says(&["no lock", "at log.0"]);
        run(
            &mut source,
            &["GRANT LOCK TABLES ON d.* TO reader@localhost", "SET GLOBAL gtid_slave_pos = '0-9-9'"],
        );
        let ended = dump("again").exits(0).says(&["LOCK TABLES", "RELOAD", "BINLOG MONITOR"]);
        assert!(!ended.err.contains("keeps no binary log"), "{}", ended.err);
    }
}

/// All missing rights are reported at once and before the work, and what an account is not shown is not taken
/// for absent.
#[test]
fn all_missing_rights_are_reported_before_the_dump() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        run(
            &mut pair.source(),
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (id INT PRIMARY KEY)",
                "INSERT INTO d.t VALUES (1)",
                "CREATE SQL SECURITY INVOKER VIEW d.v AS SELECT id FROM d.t",
                "CREATE TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW SET NEW.id = NEW.id",
                "CREATE PROCEDURE d.p() SELECT 1",
                "CREATE USER small@localhost",
                "GRANT SELECT, SHOW VIEW, LOCK TABLES ON d.* TO small@localhost",
            ],
        );
        let as_small = |word: &str, socket: &std::path::Path, more: &[&str]| {
            let mut command = remora(pair.folder.path());
            command.args([word, "--no-defaults", "-u", "small", "-S"]).arg(socket).args(more);
            Ended::of(&command.output().unwrap())
        };
        as_small("dump", pair.from.socket(), &["d.*", "-o", "part"])
            .exits(3)
            .says(&["triggers of database `d`", "lacks TRIGGER"]);
        pair.dump(&["d", "-o", "d.dump"]).exits(0);
        let mut target = pair.target();
        run(&mut target, &["CREATE USER small@localhost", "GRANT CREATE, SELECT ON d.* TO small@localhost"]);
        let ended = as_small("load", pair.to.socket(), &["d.dump", "--definer", "me"]).exits(10);
        let ended =
            ended.says(&["`_remora`.*", "CREATE ROUTINE, CREATE VIEW, INSERT, SHOW VIEW, TRIGGER ON `d`.*"]);
        assert_eq!(
            target
                .value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'd'")
                .unwrap()
                .as_deref(),
            Some("0")
        );
        // The rights that it names are enough.
        let (_, statements) = ended.err.split_once("administrator run: ").unwrap();
        let statements: Vec<&str> = statements.lines().next().unwrap().split("; ").collect();
        run(&mut target, &statements);
        as_small("load", pair.to.socket(), &["d.dump", "--definer", "me"]).exits(0);
    });
}

/// Functions in libraries can't be dumped: one line for each library says how to install them. remora's own
/// are no part of a server's data.
#[test]
fn functions_of_libraries_are_named_together() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    run(
        &mut source,
        &["INSERT INTO mysql.func VALUES ('url_pack', 0, 'liburlpack_udf.so', 'function'), \
         ('url_unpack', 0, 'liburlpack_udf.so', 'function')"],
    );
    let own = ["functions url_pack, url_unpack of library liburlpack_udf.so", "sql/urlpack.sql"];
    let ended = pair.dump(&["-o", "own"]).exits(0).says(&own);
    assert!(!ended.err.contains("not in the dump"), "{}", ended.err);
    run(&mut source, &["INSERT INTO mysql.func VALUES ('other', 0, 'libother.so', 'function')"]);
    let other = "not in the dump: functions other of library libother.so: make them";
    pair.dump(&["-o", "all"]).exits(3).says(&own).says(&[other]);
}

/// An object that differs on the target is reported before rows are loaded.
#[test]
fn a_different_database_of_that_name_is_refused_before_the_load() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        run(
            &mut pair.source(),
            &["CREATE DATABASE d CHARACTER SET latin1", "CREATE TABLE d.t (id INT PRIMARY KEY)"],
        );
        pair.dump(&["d", "-o", "d.dump"]).exits(0);
        let mut target = pair.target();
        run(&mut target, &["CREATE DATABASE d CHARACTER SET utf8"]);
        pair.load(&["d.dump"]).exits(1).says(&["database `d` already exists", "latin1", "ALTER DATABASE"]);
        assert!(target.execute("SELECT 1 FROM d.t").is_err());
        run(&mut target, &["ALTER DATABASE d CHARACTER SET latin1"]);
        pair.load(&["d.dump"]).exits(0);
    });
}
