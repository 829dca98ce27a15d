//! `LOAD DATA LOCAL` sends the stream that we opened, and no file.

use std::io;
use std::sync::mpsc;

use server::{Error, LoadReport, Session, Source};

use crate::support::{all_of, shared, until};

fn table(columns: &str) -> (Session, String) {
    let server = shared();
    let mut session = server.root();
    let name = format!("{}.t", server.schema());
    session.execute(&format!("CREATE TABLE {name} ({columns})")).unwrap();
    (session, name)
}

fn into(table: &str) -> String {
    format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE {table}", Session::STREAM)
}

fn count(table: &str) -> String {
    shared().root().value(&format!("SELECT COUNT(*) FROM {table}")).unwrap().unwrap()
}

fn until_gone(root: &mut Session, session: &Session) {
    let id = session.connection_id();
    until(root, &format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}"), "0");
}

#[test]
fn a_load_reports_the_counts_of_its_rows() {
    let (mut session, table) = table("a INT PRIMARY KEY, b TINYINT");
    let report = session.load(&into(&table), all_of("1\t1\n2\t1000\n1\t3\n3\tx\n")).unwrap();
    assert_eq!(report, LoadReport { records: 4, deleted: 0, skipped: 1, warnings: 3 });
    assert_eq!(session.warnings().unwrap().len(), 3);
    let replace = into(&table).replace("INTO", "REPLACE INTO");
    let report = session.load(&replace, all_of("1\t9\n4\t9\n")).unwrap();
    assert_eq!(report, LoadReport { records: 2, deleted: 1, skipped: 0, warnings: 0 });
    assert_eq!(count(&table), "4");
    let report = session.load(&into(&table), all_of("")).unwrap();
    assert_eq!(report, LoadReport::default());
}

#[test]
fn a_load_counts_in_another_language() {
    let (mut session, table) = table("a INT");
    session.execute("SET lc_messages = 'de_DE'").unwrap();
    let report = session.load(&into(&table), all_of("1\n2\n")).unwrap();
    assert_eq!(report.records, 2);
}

#[test]
fn a_large_stream_arrives_whole() {
    let (mut session, table) = table("a INT PRIMARY KEY, b VARCHAR(200)");
    let source: Source = Box::new(|wire| {
        for n in 0..200_000_u32 {
            writeln!(wire, "{n}\t{}", "x".repeat(n as usize % 100))?;
        }
        wire.flush()
    });
    let report = session.load(&into(&table), source).unwrap();
    assert_eq!((report.records, report.warnings), (200_000, 0));
    let sums = session.strings(&format!("SELECT SUM(a), SUM(LENGTH(b)) FROM {table}")).unwrap();
    assert_eq!(sums, vec![vec![Some("19999900000".to_owned()), Some("9900000".to_owned())]]);
}

/// Neither the packets that a failing source has sent nor those it has not filled yet may leave a trace,
/// whatever their number: the driver ends a broken exchange with a packet of its own.
#[test]
fn a_failing_source_leaves_the_table_as_it_was() {
    for rows in [0_usize, 1, 500, 300_000] {
        let (mut session, table) = table("a INT");
        let source: Source = Box::new(move |wire| {
            wire.write_all("1234567\n".repeat(rows).as_bytes())?;
            Err(io::Error::new(io::ErrorKind::InvalidData, "torn input"))
        });
        let error = session.load(&into(&table), source).unwrap_err();
        let Error::Source(inner) = &error else { panic!("{error}") };
        assert_eq!((inner.kind(), inner.to_string().as_str()), (io::ErrorKind::InvalidData, "torn input"));
        assert!(error.is_connection_lost());
        assert!(matches!(session.execute("DO 1"), Err(Error::LostConnection { .. })));
        let mut root = shared().root();
        until_gone(&mut root, &session);
        assert_eq!(count(&table), "0", "{rows} rows were sent");
    }
}

/// The number of packets sent decides the sequence number of the driver's last packet; every one of the 256
/// must be rejected.
#[test]
fn a_failing_source_leaves_no_row_at_any_packet_number() {
    let (_, table) = table("a VARCHAR(5000)");
    let mut root = shared().root();
    let packet = "x".repeat(4095) + "\n";
    for packets in 0..260 {
        let packet = packet.clone();
        let mut session = shared().root();
        let source: Source = Box::new(move |wire| {
            for _ in 0..packets {
                wire.write_all(packet.as_bytes())?;
            }
            // One byte more sends the previous packet.
            wire.write_all(b"y")?;
            Err(io::Error::other("torn input"))
        });
        assert!(matches!(session.load(&into(&table), source), Err(Error::Source(_))));
        until_gone(&mut root, &session);
        assert_eq!(count(&table), "0", "{packets} packets were sent");
    }
}

#[test]
fn a_source_that_hides_a_broken_wire_is_found_out() {
    let (mut session, table) = table("a INT");
    let id = session.connection_id();
    let (started, wait_started) = mpsc::channel();
    let (go_on, wait_go_on) = mpsc::channel::<()>();
    let source: Source = Box::new(move |wire| {
        wire.write_all(&b"1\n".repeat(10_000))?;
        started.send(()).unwrap();
        wait_go_on.recv().unwrap();
        while wire.write_all(&b"1\n".repeat(10_000)).is_ok() {}
        Ok(())
    });
    let killer = std::thread::spawn(move || {
        wait_started.recv().unwrap();
        shared().root().execute(&format!("KILL {id}")).unwrap();
        go_on.send(()).unwrap();
    });
    let error = session.load(&into(&table), source).unwrap_err();
    killer.join().unwrap();
    assert!(matches!(error, Error::LostConnection { .. }), "{error:?}");
    assert_eq!(count(&table), "0");
}

#[test]
fn the_server_gets_no_other_files() {
    let (_, table) = table("a TEXT");
    let etc = format!("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE {table}");
    for attempt in ["execute", "rows", "for_each_row", "load", "second"] {
        let mut session = shared().root();
        let error = match attempt {
            "execute" => session.execute(&etc).unwrap_err(),
            "rows" => session.rows(&etc).unwrap_err(),
            "for_each_row" => {
                session.for_each_row(&etc, &mut |_| std::ops::ControlFlow::Continue(())).unwrap_err()
            }
            "load" => session.load(&etc, all_of("x\n")).unwrap_err(),
            // After a load, the handler must be the refusing one again.
            _ => {
                session.load(&into(&table), all_of("")).unwrap();
                session.execute(&etc).unwrap_err()
            }
        };
        assert!(
            matches!(&error, Error::ForeignFile { name } if name == "/etc/passwd"),
            "{attempt}: {error:?}"
        );
        assert!(matches!(session.execute("DO 1"), Err(Error::LostConnection { .. })), "{attempt}");
    }
    assert_eq!(count(&table), "0");
}

#[test]
fn our_stream_is_served_once_and_only_during_a_load() {
    let (mut session, table) = table("a TEXT");
    let error = session.execute(&into(&table)).unwrap_err();
    assert!(matches!(&error, Error::ForeignFile { name } if name == Session::STREAM), "{error:?}");
    let mut session = shared().root();
    let twice = format!("{}; {}", into(&table), into(&table));
    let error = session.load(&twice, all_of("x\n")).unwrap_err();
    assert!(matches!(&error, Error::ForeignFile { name } if name == Session::STREAM), "{error:?}");
    assert_eq!(count(&table), "1");
}

#[test]
fn a_statement_that_is_no_load_is_an_error() {
    let (mut session, table) = table("a INT");
    let error = session.load(&format!("INSERT INTO {table} VALUES (1), (2)"), all_of("")).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    let error = session.load(&into("nowhere.t"), all_of("3\n")).unwrap_err();
    assert_eq!(error.code(), Some(1146), "{error}");
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
    // A stream that its own load did not request is not served later.
    let error = session.execute(&into(&table)).unwrap_err();
    assert!(matches!(&error, Error::ForeignFile { name } if name == Session::STREAM), "{error:?}");
    assert_eq!(count(&table), "2");
}

#[test]
fn a_server_error_at_the_end_of_a_load_is_its_error() {
    let (mut session, table) = table("a INT, CONSTRAINT small CHECK (a < 10)");
    session.execute(&format!("CREATE UNIQUE INDEX i ON {table} (a)")).unwrap();
    let triggered = format!(
        "CREATE TRIGGER {table}r BEFORE INSERT ON {table} FOR EACH ROW IF NEW.a = 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'five'; END IF"
    );
    session.execute(&triggered).unwrap();
    let rows = "1\n2\n5\n".to_owned() + &"6\n".repeat(100_000);
    let error = session.load(&into(&table), all_of(rows)).unwrap_err();
    assert_eq!(error.code(), Some(1644), "{error}");
    assert_eq!(count(&table), "0");
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}
