//! Rows read straight off the wire, compared with the driver's.

use std::io;

use server::{Error, Overrides, RowSink, Session, SslMode};

use crate::support::{open, shared};
use crate::tls::tls;

#[derive(Default)]
struct Collected {
    rows: Vec<Vec<Option<Vec<u8>>>>,
    row: Vec<Option<Vec<u8>>>,
    value: Vec<u8>,
    /// Fails at this row.
    fail_at: Option<usize>,
}

impl RowSink for Collected {
    fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.value.extend_from_slice(bytes);
        Ok(())
    }
    fn end_value(&mut self) {
        self.row.push(Some(std::mem::take(&mut self.value)));
    }
    fn null(&mut self) {
        self.row.push(None);
    }
    fn end_row(&mut self) -> io::Result<()> {
        self.rows.push(std::mem::take(&mut self.row));
        if self.fail_at == Some(self.rows.len()) { Err(io::Error::other("no more room")) } else { Ok(()) }
    }
}

const QUERIES: [&str; 4] = [
    "SELECT 1, NULL, '', REPEAT('x', 300), REPEAT(x'00ff', 40000) UNION ALL SELECT 2, 'a', 'b', 'c', NULL",
    "SELECT REPEAT('y', 20000000), 'end'",
    "SELECT 1 FROM DUAL WHERE 0",
    "SELECT a.help_topic_id, b.name FROM mysql.help_topic a, mysql.help_category b",
];

fn same_rows(session: &mut Session) {
    for sql in QUERIES {
        let mut collected = Collected::default();
        let count = session.stream(sql, &mut collected).unwrap();
        assert_eq!(count, collected.rows.len() as u64);
        assert!(collected.rows == session.rows(sql).unwrap(), "{sql}");
    }
}

#[test]
fn a_stream_has_the_drivers_rows() {
    let mut session = shared().root();
    same_rows(&mut session);
    let error = session.stream("SELECT * FROM mysql.nothing", &mut Collected::default()).unwrap_err();
    assert_eq!(error.code(), Some(1146));
    let error = session.stream("DO 1", &mut Collected::default()).unwrap_err();
    assert!(error.is_connection_lost(), "{error}");
    assert!(session.value("SELECT 1").is_err());
}

#[test]
fn a_stream_through_tls_has_them_too() {
    let required = Overrides { ssl_mode: Some(SslMode::Required), ..tls().0.by_tcp("root") };
    same_rows(&mut open(&required));
}

#[test]
fn a_sink_that_fails_ends_the_connection_and_the_query() {
    let server = shared();
    let mut session = server.root();
    let id = session.connection_id();
    let mut sink = Collected { fail_at: Some(2), ..Collected::default() };
    // More rows than any test would wait for.
    let table = "information_schema.COLLATIONS";
    let sql = format!("SELECT a.COLLATION_NAME FROM {table} a, {table} b, {table} c, {table} d");
    let error = session.stream(&sql, &mut sink);
    assert!(matches!(error, Err(Error::Sink(error)) if error.to_string() == "no more room"));
    assert_eq!(sink.rows.len(), 2);
    let question = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}");
    crate::support::until(&mut server.root(), &question, "0");
}
