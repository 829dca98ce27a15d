//! Statements, rows, quoting, locks, warnings, and the end of a connection.

use std::ops::ControlFlow;

use server::{About, Error, Flavour, Overrides, Session, Version};

use crate::support::{open, shared, until};

#[test]
fn the_server_is_described() {
    let server = shared();
    let about: About = server.root().about;
    assert_eq!(about.flavour, Flavour::MariaDb);
    assert!(about.version >= Version { major: 10, minor: 0, patch: 0 }, "{}", about.version);
    assert!(about.version_text.starts_with(&about.version.to_string()));
    assert_eq!(about.max_allowed_packet, 64 << 20);
    assert!(about.local_infile);
    assert!(!about.log_bin && !about.read_only && !about.galera);
    assert!(about.sql_mode.contains("STRICT_TRANS_TABLES"));
    assert_eq!(about.socket, server.socket().to_str().unwrap());
    assert_eq!(about.port, server.port);
    assert_eq!(about.innodb_page_size, 16384);
    assert!(about.datadir.starts_with(server.dir.to_str().unwrap()));
    assert!(!about.hostname.is_empty());
    assert_eq!(about.server_id, 1);
    assert_eq!(about.lower_case_table_names, 0);
}

#[test]
fn effects_are_reported() {
    let server = shared();
    let mut session = server.root();
    let db = server.schema();
    session.execute(&format!("CREATE TABLE {db}.t (id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT)")).unwrap();
    let done = session.execute(&format!("INSERT IGNORE INTO {db}.t (a) VALUES (1), (1000), (3)")).unwrap();
    assert_eq!((done.affected, done.last_insert_id, done.warnings), (3, 1, 1));
    assert_eq!(done.info, "Records: 3  Duplicates: 0  Warnings: 1");
    let done = session.execute(&format!("UPDATE {db}.t SET a = 1")).unwrap();
    assert_eq!((done.affected, done.info.as_str()), (2, "Rows matched: 3  Changed: 2  Warnings: 0"));
    assert_eq!(session.execute("SELECT 1/0").unwrap().warnings, 1);
    let warnings = session.warnings().unwrap();
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].level.as_str(), warnings[0].code), ("Warning", 1365));
    assert!(warnings[0].message.contains("Division by 0"));
}

#[test]
fn rows_arrive_as_the_server_wrote_them() {
    let mut session = shared().root();
    let rows = session
        .rows("SELECT 1, NULL, 'x', '', x'00ff', 1.50 UNION ALL SELECT 2, 'a', 'b', 'c', 'd', 3")
        .unwrap();
    let first: Vec<Option<&[u8]>> =
        vec![Some(b"1"), None, Some(b"x"), Some(b""), Some(b"\0\xff"), Some(b"1.50")];
    assert_eq!(rows[0].iter().map(Option::as_deref).collect::<Vec<_>>(), first);
    assert_eq!(rows.len(), 2);
    assert_eq!(session.value("SELECT '\u{1f600}\u{e9}'").unwrap().as_deref(), Some("\u{1f600}\u{e9}"));
    assert_eq!(session.value("SELECT NULL").unwrap(), None);
    assert_eq!(session.value("SELECT 1 FROM DUAL WHERE 0").unwrap(), None);
    assert_eq!(session.value("DO 1").unwrap(), None);
    assert_eq!(session.strings("SELECT x'ff41'").unwrap(), vec![vec![Some("\u{10ffff}A".to_owned())]]);
}

#[test]
fn rows_stream_and_can_be_cut_short() {
    let mut session = shared().root();
    let sql = "SELECT seq, IF(seq % 2, 'odd', NULL) FROM mysql.seq_1_to_100000";
    let (mut sum, mut nulls) = (0_u64, 0);
    session
        .for_each_row(sql, &mut |row| {
            sum += std::str::from_utf8(row[0].unwrap()).unwrap().parse::<u64>().unwrap();
            nulls += u32::from(row[1].is_none());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((sum, nulls), (5_000_050_000, 50_000));
    let mut seen = 0;
    session
        .for_each_row(sql, &mut |_| {
            seen += 1;
            if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, 10);
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}

#[test]
fn an_error_after_some_rows_is_an_error() {
    let mut session = shared().root();
    let db = shared().schema();
    session.execute(&format!("CREATE TABLE {db}.t (a INT); INSERT INTO {db}.t VALUES (1), (2)")).unwrap();
    let sql = format!("SELECT (SELECT seq FROM mysql.seq_1_to_2 WHERE seq <= t.a) FROM {db}.t");
    let error = session.rows(&sql).unwrap_err();
    assert_eq!(error.code(), Some(1242), "{error}");
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}

#[test]
fn of_several_statements_the_first_error_counts() {
    let server = shared();
    let mut session = server.root();
    let db = server.schema();
    let sql = format!(
        "CREATE TABLE {db}.a (x INT); SELECT 1; CREATE TABLE {db}.a (x INT); CREATE TABLE {db}.b (x INT)"
    );
    assert_eq!(session.execute(&sql).unwrap_err().code(), Some(1050));
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
    let exists =
        format!("SELECT GROUP_CONCAT(table_name) FROM information_schema.tables WHERE table_schema = '{db}'");
    assert_eq!(session.value(&exists).unwrap().as_deref(), Some("a"));
    assert_eq!(session.rows("DO 1; SELECT 1; SELECT 2").unwrap(), vec![vec![Some(b"1".to_vec())]]);
}

#[test]
fn quoting_holds_in_every_mode() {
    let mut session = shared().root();
    let nasty = "a'b\\c\"d`e\0f\ng\u{e9}\u{1f600}\\'%_";
    for mode in ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"] {
        session.execute(&format!("SET sql_mode = '{mode}'")).unwrap();
        // The driver forgets the SQL mode after an error; a quote after an error must still be right.
        session.execute("no such statement").unwrap_err();
        let literal = session.quote(nasty);
        assert_eq!(session.value(&format!("SELECT {literal}")).unwrap().as_deref(), Some(nasty), "{mode}");
    }
}

#[test]
fn a_server_with_other_defaults_is_understood() {
    let server = crate::support::Server::start(&[
        "--sql-mode=NO_BACKSLASH_ESCAPES".into(),
        "--skip-character-set-client-handshake".into(),
        "--character-set-server=latin1".into(),
    ]);
    let mut session = server.root();
    let literal = session.quote("\\\u{1f600}");
    let seen = session.strings(&format!("SELECT {literal}, CHAR_LENGTH({literal})")).unwrap();
    assert_eq!(seen, vec![vec![Some("\\\u{1f600}".to_owned()), Some("2".to_owned())]]);
}

#[test]
fn a_lock_is_held_by_one_session() {
    let server = shared();
    let (mut a, mut b) = (server.root(), server.root());
    let long = "l'ong\\".repeat(60);
    for name in ["short", long.as_str()] {
        assert!(a.lock(name, 0).unwrap());
        assert!(!b.lock(name, 0).unwrap());
    }
    assert!(b.lock(&format!("{long}!"), 0).unwrap(), "another long name is another lock");
    drop(a);
    assert!(b.lock("short", 30).unwrap());
    assert!(b.lock(&long, 30).unwrap());
}

/// Waits until the connection `id` sleeps inside its statement.
fn wait_for_sleep(root: &mut Session, id: u32) {
    let sleeping = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND state = 'User sleep'"
    );
    until(root, &sleeping, "1");
}

fn kill(session: &Session) {
    shared().root().execute(&format!("KILL {}", session.connection_id())).unwrap();
}

#[test]
fn a_killed_connection_is_lost_for_good() {
    let mut session = shared().root();
    kill(&session);
    let error = session.execute("SELECT 1").unwrap_err();
    assert!(matches!(error, Error::LostConnection { .. }), "{error}");
    assert!(error.is_connection_lost() && !error.is_retryable());
    let error = session.execute("SELECT 2").unwrap_err();
    assert!(matches!(error, Error::LostConnection { .. }), "{error}");
}

#[test]
fn a_connection_killed_under_a_statement_is_lost() {
    let server = shared();
    for kill in ["KILL", "KILL SOFT"] {
        let mut session = server.root();
        let id = session.connection_id();
        let waiting = std::thread::spawn(move || session.execute("SELECT SLEEP(600)").unwrap_err());
        let mut root = server.root();
        wait_for_sleep(&mut root, id);
        root.execute(&format!("{kill} {id}")).unwrap();
        let error = waiting.join().unwrap();
        assert!(error.is_connection_lost(), "{error}");
        assert!(error.to_string().contains("SELECT SLEEP(600)"), "{error}");
    }
}

/// Some servers send an error as a goodbye before they hang up.
#[test]
fn a_goodbye_is_a_lost_connection() {
    for code in [1053, 1153, 1927, 4031] {
        let mut session = shared().root();
        let said = format!("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'goodbye'");
        let error = session.execute(&said).unwrap_err();
        match &error {
            Error::LostConnection { why, .. } => assert_eq!(why, "goodbye"),
            Error::PacketTooLarge { .. } => assert_eq!(code, 1153),
            other => panic!("{other:?}"),
        }
        assert!(matches!(session.execute("DO 1"), Err(Error::LostConnection { .. })), "{code}");
    }
}

#[test]
fn a_connection_closed_for_idleness_is_lost() {
    let mut session = shared().root();
    session.execute("SET wait_timeout = 1").unwrap();
    let id = session.connection_id();
    let there = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    until(&mut shared().root(), &there, "0");
    let error = session.execute("SELECT 1").unwrap_err();
    assert!(matches!(error, Error::LostConnection { .. }), "{error:?}");
}

#[test]
fn a_killed_query_leaves_the_connection() {
    let server = shared();
    let mut session = server.root();
    let id = session.connection_id();
    let waiting = std::thread::spawn(move || {
        let error = session.execute("SELECT SLEEP(600) FROM mysql.seq_1_to_2").unwrap_err();
        (session, error)
    });
    let mut root = server.root();
    wait_for_sleep(&mut root, id);
    root.execute(&format!("KILL QUERY {id}")).unwrap();
    let (mut session, error) = waiting.join().unwrap();
    assert_eq!(error.code(), Some(1317), "{error}");
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}

#[test]
fn a_deadlock_is_retryable() {
    let server = shared();
    let db = server.schema();
    let (mut a, mut b) = (server.root(), server.root());
    a.execute(&format!(
        "CREATE TABLE {db}.t (a INT PRIMARY KEY, b INT); INSERT INTO {db}.t VALUES (1, 0), (2, 0)"
    ))
    .unwrap();
    for session in [&mut a, &mut b] {
        session.execute("SET innodb_lock_wait_timeout = 50; BEGIN").unwrap();
    }
    a.execute(&format!("UPDATE {db}.t SET b = 1 WHERE a = 1")).unwrap();
    b.execute(&format!("UPDATE {db}.t SET b = 1 WHERE a = 2")).unwrap();
    let statement = format!("UPDATE {db}.t SET b = 2 WHERE a = 2");
    let first = std::thread::spawn(move || a.execute(&statement));
    let second = b.execute(&format!("UPDATE {db}.t SET b = 2 WHERE a = 1"));
    let errors: Vec<Error> = [first.join().unwrap(), second].into_iter().filter_map(Result::err).collect();
    // A server that is very busy may end both: the other one may wait for too long.
    assert!(errors.iter().any(|error| error.code() == Some(1213)), "{errors:?}");
    assert!(errors.iter().all(|error| error.is_retryable() && !error.is_connection_lost()), "{errors:?}");
}

#[test]
fn errors_show_the_statement_without_its_secrets() {
    let server = shared();
    let mut session = server.root();
    let error = session.execute("SELECT  nothing\n FROM nowhere.t").unwrap_err();
    assert!(error.to_string().contains("SELECT nothing FROM nowhere.t"), "{error}");
    for sql in [
        "CREATE USER IF root@localhost IDENTIFIED BY 's3cret'",
        "CREATE USER root@localhost IDENTIFIED BY 's3cret'",
        "SET PASSWORD FOR nobody@nowhere = PASSWORD('s3cret')",
        "SET PASSWORD FOR root@localhost = 's3cret'",
        "CREATE USER u@localhost IDENTIFIED VIA 's3cret'",
        "CHANGE MASTER TO MASTER_PASSWORD = 's3cret', MASTER_PORT = 's3cret'",
    ] {
        let error = session.execute(sql).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        assert!(error.to_string().contains("'***'"), "{error}");
    }
}

#[test]
fn the_schema_of_the_target_is_used() {
    let server = shared();
    let db = server.schema();
    let with = Overrides { database: Some(db.clone()), ..server.by_socket("root") };
    assert_eq!(open(&with).value("SELECT DATABASE()").unwrap(), Some(db));
}

#[test]
fn a_panic_in_a_callback_does_not_leave_a_session_out_of_step() {
    let mut session = shared().root();
    let walk = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.for_each_row("SELECT seq FROM mysql.seq_1_to_1000", &mut |_| panic!("on purpose"))
    }));
    assert!(walk.is_err());
    assert!(matches!(session.value("SELECT 7"), Err(Error::LostConnection { .. })));
}
