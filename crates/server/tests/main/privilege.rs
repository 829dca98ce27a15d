//! A denial names the GRANT that ends it. As proof, root runs what the error says, and it works.

use server::{Error, Overrides, Session};

use crate::support::{Server, open, shared};

/// Runs `statement` as an account without privileges and does what each denial says, until the statement
/// passes. Returns the grants. `{db}` in the statements is a schema of its own, `{user}` the account.
struct Case<'a> {
    setup: &'a str,
    statement: &'a str,
}

fn grants_needed(case: &Case<'_>, login: &dyn Fn(&Server, &str) -> Overrides) -> Result<Vec<String>, String> {
    let server = shared();
    let (db, user) = (server.schema(), server.account());
    let fill = |text: &str| {
        text.replace("{db}", &db).replace("{user}", &user).replace("{dir}", server.dir.to_str().unwrap())
    };
    let mut root = server.root();
    root.execute(&format!("CREATE TABLE {db}.t (a INT PRIMARY KEY, b INT)")).unwrap();
    if !case.setup.is_empty() {
        root.execute(&fill(case.setup)).unwrap();
    }
    let mut grants = Vec::new();
    loop {
        // Global privileges are read at login only.
        let mut session: Session = open(&login(server, &user));
        match session.execute(&fill(case.statement)) {
            Ok(_) => break,
            Err(Error::Privilege { what, grant, code }) => {
                if grants.len() == 4 {
                    return Err(format!("{grants:?} were not enough"));
                }
                assert!(what.contains(&user), "{what}");
                assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
                root.execute(&grant).map_err(|e| format!("{code} {what}: {grant}: {e}"))?;
                grants.push(grant.replace(&db, "{db}").replace(&user, "{user}"));
            }
            Err(error) => return Err(format!("{error:?}, after {grants:?}")),
        }
    }
    Ok(grants)
}

fn by_socket(server: &Server, user: &str) -> Overrides {
    server.as_account(user)
}

/// Setup, statement, and the grants in the order in which they are needed.
const CASES: &[(&str, &str, &[&str])] = &[
    ("", "SELECT a FROM {db}.t", &["SELECT ON `{db}`.`t`"]),
    ("", "INSERT INTO {db}.t VALUES (1, 1)", &["INSERT ON `{db}`.`t`"]),
    ("", "UPDATE {db}.t SET a = 1", &["UPDATE ON `{db}`.`t`"]),
    ("", "UPDATE {db}.t SET a = 1 WHERE b = 2", &["UPDATE ON `{db}`.`t`", "SELECT (`b`) ON `{db}`.`t`"]),
    ("", "DELETE FROM {db}.t", &["DELETE ON `{db}`.`t`"]),
    ("", "REPLACE INTO {db}.t VALUES (1, 1)", &["INSERT, DELETE ON `{db}`.`t`"]),
    ("", "TRUNCATE TABLE {db}.t", &["DROP ON `{db}`.`t`"]),
    ("", "CREATE TABLE {db}.u (a INT)", &["CREATE ON `{db}`.*"]),
    ("", "CREATE TABLE {db}.u LIKE {db}.t", &["CREATE ON `{db}`.*", "SELECT ON `{db}`.`t`"]),
    ("", "DROP TABLE {db}.t", &["DROP ON `{db}`.`t`"]),
    ("", "ALTER TABLE {db}.t ADD c INT", &["ALTER ON `{db}`.`t`"]),
    ("", "CREATE INDEX i ON {db}.t (b)", &["INDEX ON `{db}`.`t`"]),
    ("", "SHOW CREATE TABLE {db}.t", &["SELECT ON `{db}`.`t`"]),
    ("", "SHOW COLUMNS FROM {db}.t", &["SELECT ON `{db}`.`t`"]),
    ("", "CREATE VIEW {db}.v AS SELECT 1", &["CREATE VIEW ON `{db}`.*"]),
    (
        "",
        "CREATE TRIGGER {db}.r BEFORE INSERT ON {db}.t FOR EACH ROW SET NEW.a = 1",
        &["TRIGGER ON `{db}`.`t`"],
    ),
    ("", "DROP TABLE IF EXISTS {db}.none", &["DROP ON `{db}`.*"]),
    ("", "CREATE OR REPLACE TABLE {db}.u (a INT)", &["CREATE, DROP ON `{db}`.*"]),
    ("", "CREATE OR REPLACE VIEW {db}.v AS SELECT 1", &["CREATE VIEW ON `{db}`.*", "DROP ON `{db}`.*"]),
    ("", "RENAME TABLE {db}.t TO {db}.u", &["DROP, ALTER ON `{db}`.`t`", "INSERT, CREATE ON `{db}`.*"]),
    ("", "ALTER TABLE {db}.t RENAME TO {db}.u", &["DROP, ALTER ON `{db}`.`t`", "INSERT, CREATE ON `{db}`.*"]),
    ("", "INSERT INTO {db}.t SELECT * FROM {db}.t", &["INSERT ON `{db}`.`t`", "SELECT ON `{db}`.`t`"]),
    (
        "CREATE VIEW {db}.v AS SELECT 1",
        "SHOW CREATE VIEW {db}.v",
        &["SELECT ON `{db}`.`v`", "SHOW VIEW ON `{db}`.`v`"],
    ),
    ("", "CHECKSUM TABLE {db}.t", &["SELECT ON `{db}`.`t`"]),
    ("", "ANALYZE TABLE {db}.t", &["SELECT, INSERT ON `{db}`.`t`"]),
    ("", "OPTIMIZE TABLE {db}.t", &["SELECT, INSERT ON `{db}`.`t`"]),
    ("", "SHOW INDEX FROM {db}.t", &["SELECT ON `{db}`.`t`"]),
    ("", "DESCRIBE {db}.t", &["SELECT ON `{db}`.`t`"]),
    (
        "",
        "FLUSH TABLES {db}.t FOR EXPORT",
        &["RELOAD ON *.*", "LOCK TABLES ON `{db}`.*", "SELECT ON `{db}`.`t`"],
    ),
    ("", "ALTER TABLE {db}.t DISCARD TABLESPACE", &["ALTER ON `{db}`.`t`"]),
    (
        "CREATE TABLE {db}.c (a INT)",
        "ALTER TABLE {db}.c ADD FOREIGN KEY (a) REFERENCES {db}.t (a)",
        &["ALTER ON `{db}`.`c`", "REFERENCES ON `{db}`.`t`"],
    ),
    ("", "DROP INDEX `PRIMARY` ON {db}.t", &["INDEX ON `{db}`.`t`"]),
    ("CREATE VIEW {db}.v AS SELECT 1", "DROP VIEW {db}.v", &["DROP ON `{db}`.`v`"]),
    ("", "SELECT 1 INTO OUTFILE '{dir}/{db}'", &["FILE ON *.*"]),
    ("", "LOCK TABLES {db}.t READ", &["LOCK TABLES ON `{db}`.*", "SELECT ON `{db}`.`t`"]),
    (
        "GRANT SELECT ON {db}.t TO {user}@localhost",
        "GRANT SELECT ON {db}.t TO root@localhost",
        &["USAGE ON `{db}`.`t` WITH GRANT OPTION"],
    ),
    ("CREATE TABLE {db}.`t``x.y` (a INT)", "SELECT * FROM {db}.`t``x.y`", &["SELECT ON `{db}`.`t``x.y`"]),
    (
        "GRANT SELECT (a) ON {db}.t TO {user}@localhost",
        "SELECT a, b FROM {db}.t",
        &["SELECT (`b`) ON `{db}`.`t`"],
    ),
    (
        "GRANT SELECT ON {db}.t TO {user}@localhost",
        "CREATE TEMPORARY TABLE {db}.u AS SELECT * FROM {db}.t",
        &["CREATE TEMPORARY TABLES ON `{db}`.*"],
    ),
    ("", "USE {db}", &["SELECT ON `{db}`.*"]),
    ("", "SHOW TABLES FROM {db}", &["SELECT ON `{db}`.*"]),
    ("", "CREATE DATABASE {db}x", &["CREATE ON `{db}x`.*"]),
    ("", "DROP DATABASE {db}", &["DROP ON `{db}`.*"]),
    ("", "ALTER DATABASE {db} CHARACTER SET latin1", &["ALTER ON `{db}`.*"]),
    ("", "CREATE PROCEDURE {db}.p() SET @a = 1", &["CREATE ROUTINE ON `{db}`.*"]),
    ("", "CREATE FUNCTION {db}.f() RETURNS INT RETURN 1", &["CREATE ROUTINE ON `{db}`.*"]),
    ("", "CREATE EVENT {db}.e ON SCHEDULE EVERY 1 DAY DO SET @a = 1", &["EVENT ON `{db}`.*"]),
    ("", "SHOW EVENTS FROM {db}", &["EVENT ON `{db}`.*"]),
    ("CREATE PROCEDURE {db}.p() SET @a = 1", "CALL {db}.p()", &["EXECUTE ON PROCEDURE `{db}`.`p`"]),
    (
        "CREATE PROCEDURE {db}.p() SET @a = 1",
        "DROP PROCEDURE {db}.p",
        &["ALTER ROUTINE ON PROCEDURE `{db}`.`p`"],
    ),
    ("CREATE FUNCTION {db}.f() RETURNS INT RETURN 1", "SELECT {db}.f()", &["EXECUTE ON FUNCTION `{db}`.`f`"]),
    (
        "CREATE FUNCTION {db}.f() RETURNS INT RETURN 1",
        "DROP FUNCTION {db}.f",
        &["ALTER ROUTINE ON FUNCTION `{db}`.`f`"],
    ),
    (
        "CREATE EVENT {db}.e ON SCHEDULE EVERY 1 DAY DO SET @a = 1",
        "DROP EVENT {db}.e",
        &["EVENT ON `{db}`.*"],
    ),
    (
        "CREATE EVENT {db}.e ON SCHEDULE EVERY 1 DAY DO SET @a = 1",
        "ALTER EVENT {db}.e DISABLE",
        &["EVENT ON `{db}`.*"],
    ),
    ("", "SHOW CREATE DATABASE {db}", &["SELECT ON `{db}`.*"]),
    (
        "CREATE TRIGGER {db}.r BEFORE INSERT ON {db}.t FOR EACH ROW SET NEW.a = 1",
        "DROP TRIGGER {db}.r",
        &["TRIGGER ON `{db}`.`t`"],
    ),
    ("", "SHOW TABLE STATUS FROM {db}", &["SELECT ON `{db}`.*"]),
    ("", "FLUSH TABLES WITH READ LOCK", &["RELOAD ON *.*"]),
    ("", "BACKUP STAGE START", &["RELOAD ON *.*"]),
    ("", "SET GLOBAL read_only = 0", &["READ_ONLY ADMIN ON *.*"]),
    ("", "SET GLOBAL innodb_io_capacity = 200", &["SUPER ON *.*"]),
    ("", "SET GLOBAL local_infile = 1", &["SUPER ON *.*"]),
    ("", "SELECT * FROM information_schema.innodb_trx", &["PROCESS ON *.*"]),
    ("", "SHOW GRANTS FOR root@localhost", &["SELECT ON `mysql`.*"]),
    ("", "CREATE ROLE {user}r", &["CREATE USER ON *.*"]),
    ("", "PURGE BINARY LOGS TO 'x'", &["BINLOG ADMIN ON *.*"]),
    ("", "SELECT password FROM mysql.user", &["SELECT ON `mysql`.`user`"]),
    (
        "",
        "CREATE DEFINER = root@localhost VIEW {db}.v AS SELECT 1",
        &["CREATE VIEW ON `{db}`.*", "SET USER ON *.*"],
    ),
    ("", "FLUSH TABLES", &["RELOAD ON *.*"]),
    ("", "SHOW ENGINE INNODB STATUS", &["PROCESS ON *.*"]),
    ("", "SET GLOBAL max_error_count = 64", &["SUPER ON *.*"]),
    ("", "SET sql_log_bin = 0", &["BINLOG ADMIN ON *.*"]),
    ("", "SHOW MASTER STATUS", &["BINLOG MONITOR ON *.*"]),
    ("", "SHOW SLAVE STATUS", &["SLAVE MONITOR ON *.*"]),
    ("", "CREATE USER {user}x@localhost", &["CREATE USER ON *.*"]),
];

#[test]
fn every_denial_is_ended_by_its_grant() {
    let mut wrong = Vec::new();
    for (setup, statement, expected) in CASES {
        let expected: Vec<String> = expected
            .iter()
            .map(|what| match what.strip_suffix(" WITH GRANT OPTION") {
                Some(what) => format!("GRANT {what} TO `{{user}}`@`localhost` WITH GRANT OPTION"),
                None => format!("GRANT {what} TO `{{user}}`@`localhost`"),
            })
            .collect();
        let grants = grants_needed(&Case { setup, statement }, &by_socket);
        if grants.as_ref() != Ok(&expected) {
            wrong.push(format!("{statement}: {grants:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The account that counts is the one that the server matched, not the one that logged in.
#[test]
fn the_grant_names_the_account_with_its_host_pattern() {
    let server = shared();
    let db = server.schema();
    let mut root = server.root();
    root.execute(&format!("CREATE TABLE {db}.t (a INT)")).unwrap();
    root.execute("CREATE USER `o'b@c`@'127.0.0.%' IDENTIFIED BY 'pw'").unwrap();
    let login = Overrides { password: Some("pw".into()), ..server.by_tcp("o'b@c") };
    let mut session = open(&login);
    let sql = format!("SELECT * FROM {db}.t");
    let Err(Error::Privilege { what, grant, code: 1142 }) = session.execute(&sql) else { panic!() };
    assert_eq!(grant, format!("GRANT SELECT ON `{db}`.`t` TO `o'b@c`@`127.0.0.%`"));
    assert_eq!(what, format!("o'b@c@127.0.0.% lacks SELECT on `{db}`.`t`"));
    root.execute(&grant).unwrap();
    session.execute(&sql).unwrap();
}

#[test]
fn a_table_of_the_current_schema_is_named_in_full() {
    let server = shared();
    let (db, user) = (server.schema(), server.account());
    let mut root = server.root();
    root.execute(&format!("CREATE TABLE {db}.t (a INT); GRANT INSERT ON {db}.* TO {user}@localhost"))
        .unwrap();
    let mut session = open(&Overrides { database: Some(db.clone()), ..server.as_account(&user) });
    let Err(Error::Privilege { grant, .. }) = session.execute("SELECT * FROM t") else { panic!() };
    root.execute(&grant).unwrap();
    session.execute("SELECT * FROM t").unwrap();
}
