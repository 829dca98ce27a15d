//! One connection to a server, and its operations.

mod failure;

use std::fmt;
use std::io;
use std::ops::ControlFlow;

use mysql::prelude::Queryable;
use mysql::{Conn, Value};

use crate::load::{self, LoadReport, Refused, SinkFailed, Source};
use crate::stream::{self, Broken, RowSink};
use crate::{About, Error, Flavour, TableName, definition, text};

/// The most characters in the name of a server-wide lock, and of the hash that ends a longer one.
const LOCK_NAME_MAX: usize = 64;
const LOCK_HASH_LEN: usize = 40;

/// One row of the text protocol: for each column the value that the server printed, `None` for NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// A borrowed row: a value for each column, `None` for NULL.
pub type Cells<'a> = [Option<&'a [u8]>];

/// The result of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows changed.
    pub affected: u64,
    /// First AUTO_INCREMENT value assigned; 0 for none.
    pub last_insert_id: u64,
    /// Warnings raised, at most 65535.
    pub warnings: u16,
    /// The server's message, for example `Rows matched: 1 Changed: 1 Warnings: 0`; often empty.
    pub info: String,
}

/// A warning, note or error of `SHOW WARNINGS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `Note`, `Warning` or `Error`.
    pub level: String,
    /// The server's code.
    pub code: u16,
    /// The server's words.
    pub message: String,
}

/// An open connection. Made by [`crate::Target::connect`]; closed when dropped.
///
/// The character set is utf8mb4 in both directions; what is not UTF-8 passes as [`crate::text`] tells. After
/// an error that [`is_connection_lost`](Error::is_connection_lost) every further call fails at once.
pub struct Session {
    /// The server, as it was when the session began.
    pub about: About,
    conn: Option<Conn>,
    refused: Refused,
    target: String,
    connection_id: u32,
    /// Kept here because the driver forgets its own copy after every error.
    no_backslash_escapes: bool,
    /// Whether the connection uses TLS, which only the driver can read.
    encrypted: bool,
}

/// Leaves out the driver's connection, whose own `Debug` shows the password.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("target", &self.target)
            .field("connection_id", &self.connection_id)
            .field("version", &self.about.version_text)
            .field("open", &self.conn.is_some())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// The file name to write into a `LOAD DATA LOCAL INFILE` statement given to [`Session::load`].
    pub const STREAM: &'static str = load::STREAM;

    /// Begins a session on a new connection: sets what it relies on, and reads the server's description.
    pub(crate) fn begin(
        conn: Conn,
        refused: Refused,
        target: String,
        encrypted: bool,
    ) -> Result<Session, Error> {
        let mut session = Session {
            about: About::from_rows(&[]),
            connection_id: conn.connection_id(),
            conn: Some(conn),
            refused,
            target,
            no_backslash_escapes: false,
            encrypted,
        };
        // A server may be configured to limit every result, even that of the next query.
        session.set_first()?;
        session.about = About::from_rows(&session.strings(About::STATEMENT)?);
        session.set_next()?;
        Ok(session)
    }

    /// The server's number for this connection, as in `KILL` and the process list.
    pub fn connection_id(&self) -> u32 {
        self.connection_id
    }

    /// Runs a statement and discards its rows. Several statements in one text are run up to the first error,
    /// and the result of the last one is returned.
    ///
    /// Text that stands for bytes which are not UTF-8 ([`crate::text`]) must be one statement without rows.
    pub fn execute(&mut self, sql: &str) -> Result<Done, Error> {
        if text::has_marks(sql) {
            return self.execute_bytes(sql);
        }
        self.run(sql, |conn| {
            walk(conn, sql, &mut |_, _| ControlFlow::Continue(()))?;
            Ok(Done {
                affected: conn.affected_rows(),
                last_insert_id: conn.last_insert_id(),
                warnings: conn.warnings(),
                info: conn.info_str().into_owned(),
            })
        })
    }

    /// Runs a statement with bytes that are not UTF-8. The driver takes only UTF-8: the statement goes past
    /// it, or, where only the driver can encrypt, in digits.
    fn execute_bytes(&mut self, sql: &str) -> Result<Done, Error> {
        let bytes = text::bytes(sql).into_owned();
        if self.encrypted {
            self.execute(&format!("SET @remora_statement = {}", crate::hex_literal(&bytes)))?;
            self.execute("PREPARE remora_statement FROM @remora_statement")?;
            let done = self.execute("EXECUTE remora_statement");
            self.execute("DEALLOCATE PREPARE remora_statement")?;
            return done;
        }
        self.run(sql, |conn| {
            let mut socket = stream::socket(conn)?;
            stream::statement(&mut socket, &bytes).map_err(broken)?;
            Ok(Done::default())
        })
    }

    /// Runs a query and returns all its rows; with several result sets, those of the first.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.run(sql, |conn| {
            let mut rows = Vec::new();
            walk(conn, sql, &mut |set, row| {
                if set == 0 {
                    rows.push(row.into_iter().map(bytes).collect());
                }
                ControlFlow::Continue(())
            })?;
            Ok(rows)
        })
    }

    /// Runs a query and passes on its rows one by one as they arrive. After `Break` no more rows are passed
    /// on; the rest is read and discarded, so that the session stays usable.
    pub fn for_each_row(
        &mut self,
        sql: &str,
        each: &mut dyn FnMut(&Cells<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.run(sql, |conn| {
            let mut spare: Vec<Option<&[u8]>> = Vec::new();
            walk(conn, sql, &mut |set, row| {
                if set > 0 {
                    return ControlFlow::Continue(());
                }
                let mut cells = reuse(std::mem::take(&mut spare));
                cells.extend(row.iter().map(|value| match value {
                    Value::Bytes(bytes) => Some(bytes.as_slice()),
                    _ => None,
                }));
                let flow = each(&cells);
                spare = reuse(cells);
                flow
            })
        })
    }

    /// Runs a query and passes its values on as they arrive; returns the number of rows. This is the cheapest
    /// way to read many rows, and the only one that reads rows of any size in little memory; but on an
    /// encrypted connection it costs as much as [`Session::for_each_row`].
    ///
    /// # Errors
    ///
    /// [`Error::Sink`] when the sink fails; the connection is then closed, and the server stops the query.
    pub fn stream<S: RowSink>(&mut self, sql: &str, sink: &mut S) -> Result<u64, Error> {
        let refused = self.refused.clone();
        let encrypted = self.encrypted;
        self.run(sql, |conn| {
            if encrypted {
                return through_driver(conn, sql, sink);
            }
            stream::query(&mut stream::socket(conn)?, sql, &refused, sink).map_err(broken)
        })
    }

    /// The connection and its target, if nobody else changes its bytes.
    pub(crate) fn into_plain(mut self) -> Option<Conn> {
        if self.encrypted {
            return None;
        }
        self.conn.take()
    }

    /// Runs a query whose values are text; bytes that are not UTF-8 become what [`crate::text`] tells.
    pub fn strings(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        let rows = self.rows(sql)?;
        Ok(rows.into_iter().map(|row| row.into_iter().map(|cell| cell.map(text::text)).collect()).collect())
    }

    /// The first row of a query as pairs of column name and text; empty if there is no row.
    pub fn named_row(&mut self, sql: &str) -> Result<Vec<(String, String)>, Error> {
        Ok(self.named_rows(sql)?.into_iter().next().unwrap_or_default())
    }

    /// The rows of a query as pairs of column name and text; NULL becomes an empty text.
    pub fn named_rows(&mut self, sql: &str) -> Result<Vec<Vec<(String, String)>>, Error> {
        self.run(sql, |conn| {
            let rows: Vec<mysql::Row> = conn.query(sql)?;
            let text = |value| bytes(value).map(text::text);
            let named = |row: mysql::Row| {
                let names: Vec<_> =
                    row.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
                let values = row.unwrap().into_iter().map(|value| text(value).unwrap_or_default());
                names.into_iter().zip(values).collect()
            };
            Ok(rows.into_iter().map(named).collect())
        })
    }

    /// The first column of the first row, as text; `None` if there is no row and for NULL.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, Error> {
        let row = self.strings(sql)?.into_iter().next();
        Ok(row.and_then(|row| row.into_iter().next()).flatten())
    }

    /// A table's definition, as SHOW CREATE TABLE prints it, but with defaults as they are: MariaDB prints
    /// `?` for a letter that utf8mb3 does not have.
    ///
    /// # Errors
    ///
    /// Error 1146 when there is no such table.
    pub fn definition(&mut self, table: &TableName) -> Result<String, Error> {
        let row = self.strings(&format!("SHOW CREATE TABLE {table}"))?.into_iter().next();
        let mut definition = row.and_then(|row| row.into_iter().nth(1)).flatten().unwrap_or_default();
        if self.about.flavour != Flavour::MariaDb {
            return Ok(definition);
        }
        // From the last one on, so that the places of the others stay.
        for doubt in definition::ambiguous_defaults(&definition).into_iter().rev() {
            match self.default_of(table, &definition[doubt.column]) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    definition.replace_range(doubt.value, &definition::default_literal(&value))
                }
                // The table can be described, but not read.
                Err(error) if error.code().is_some() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(definition)
    }

    /// The default of a column of text; `None` if it is none, or the server does not tell.
    fn default_of(&mut self, table: &TableName, column: &str) -> Result<Option<String>, Error> {
        // The first gives nothing for a column that is NOT NULL, the second nothing for a table without rows.
        for from in
            [format!("(SELECT 1 AS one) AS one LEFT JOIN {table} ON FALSE"), format!("{table} LIMIT 1")]
        {
            let rows = self.strings(&format!(
                "SELECT CHARSET(DEFAULT({column})), CONVERT(DEFAULT({column}) USING utf8mb4) FROM {from}"
            ))?;
            match rows.into_iter().next().as_deref() {
                Some([Some(set), _]) if set == "binary" => return Ok(None),
                Some([_, Some(value)]) => return Ok(Some(value.clone())),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Runs one `LOAD DATA LOCAL INFILE 'remora-stream' ...` statement (see [`Session::STREAM`]) and feeds it
    /// from `source`.
    ///
    /// # Errors
    ///
    /// If the source fails, nothing more is sent and the connection is closed; the server then rolls the
    /// statement back (in tables that support it), and the source's error is returned as [`Error::Source`]. A
    /// request for any other file, or a second one, is [`Error::ForeignFile`].
    pub fn load(&mut self, sql: &str, source: Source) -> Result<LoadReport, Error> {
        let handler = self.refused.handler_with(source);
        let info = self.run(sql, |conn| {
            conn.set_local_infile_handler(Some(handler));
            let walked = walk(conn, sql, &mut |_, _| ControlFlow::Continue(()));
            conn.set_local_infile_handler(None);
            walked.map(|()| conn.info_str().into_owned())
        })?;
        LoadReport::parse(&info)
    }

    /// The warnings of the previous statement (`SHOW WARNINGS`; the server keeps `max_error_count` of them).
    pub fn warnings(&mut self) -> Result<Vec<Warning>, Error> {
        let rows = self.strings("SHOW WARNINGS")?;
        rows.into_iter()
            .map(|row| match <[Option<String>; 3]>::try_from(row) {
                Ok([Some(level), Some(code), Some(message)]) => {
                    Ok(Warning { level, code: code.parse().unwrap_or(0), message })
                }
                _ => Err(Error::Protocol { what: "SHOW WARNINGS has three columns, not NULL".into() }),
            })
            .collect()
    }

    /// `text` as a string literal for this session, with quotes. It depends on `NO_BACKSLASH_ESCAPES` in the
    /// session's current `sql_mode`.
    pub fn quote(&self, text: &str) -> String {
        let text = text.replace('\'', "''");
        if self.no_backslash_escapes {
            format!("'{text}'")
        } else {
            format!("'{}'", text.replace('\\', "\\\\"))
        }
    }

    /// Takes the server-wide lock `name` (`GET_LOCK`), waiting up to `wait_s` seconds. `true`: the session
    /// holds it until its end. Names over 64 characters, which servers refuse, are shortened to their first
    /// ones and a hash. Before MySQL 5.7 and MariaDB 10.0.2 a session holds only one lock at a time.
    pub fn lock(&mut self, name: &str, wait_s: u32) -> Result<bool, Error> {
        let name = self.lock_name(name);
        match self.value(&format!("SELECT GET_LOCK({name}, {wait_s})"))?.as_deref() {
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            _ => Err(Error::Protocol { what: "GET_LOCK returned neither 0 nor 1".into() }),
        }
    }

    /// Releases a lock of [`Session::lock`], so that the next session need not wait until the server notices
    /// the end of this one.
    pub fn unlock(&mut self, name: &str) -> Result<(), Error> {
        let name = self.lock_name(name);
        self.value(&format!("SELECT RELEASE_LOCK({name})"))?;
        Ok(())
    }

    /// The connection that holds a lock of [`Session::lock`], if any does.
    pub fn lock_holder(&mut self, name: &str) -> Result<Option<String>, Error> {
        let name = self.lock_name(name);
        self.value(&format!("SELECT IS_USED_LOCK({name})"))
    }

    /// A lock's name as a literal. MySQL 9.6 and later have no SHA1().
    fn lock_name(&self, name: &str) -> String {
        if name.chars().count() <= LOCK_NAME_MAX {
            return self.quote(name);
        }
        let hash = blake3::hash(name.as_bytes()).to_hex();
        let begin: String = name.chars().take(LOCK_NAME_MAX - LOCK_HASH_LEN - 1).collect();
        self.quote(&format!("{begin}-{}", &hash[..LOCK_HASH_LEN]))
    }

    /// The error for a server that accepts no changes, for callers who find out before trying.
    pub fn read_only(&self) -> Error {
        Error::ReadOnly { target: self.target.clone(), code: 0 }
    }

    /// Runs `job` on the connection. The connection is kept only when it is known to be in step with the
    /// server: a panic or a broken exchange closes it.
    fn run<T>(
        &mut self,
        sql: &str,
        job: impl FnOnce(&mut Conn) -> Result<T, mysql::Error>,
    ) -> Result<T, Error> {
        self.check_size(sql)?;
        let Some(mut conn) = self.conn.take() else {
            return Err(self.lost("it was closed after an earlier error", sql));
        };
        let result = job(&mut conn);
        if let Some(name) = self.refused.take() {
            return Err(Error::ForeignFile { name });
        }
        match result {
            Ok(value) => {
                self.no_backslash_escapes = conn.no_backslash_escape();
                self.conn = Some(conn);
                Ok(value)
            }
            Err(mysql::Error::MySqlError(said)) => {
                if !failure::ends_connection(said.code) {
                    self.conn = Some(conn);
                }
                Err(self.explain(said, sql))
            }
            Err(error) => Err(self.broken(error, sql)),
        }
    }
}

/// Runs `sql` and passes on every row with the number of its result set, counting only sets with columns. All
/// results are read to their end whatever `each` returns; the first error counts.
fn walk(
    conn: &mut Conn,
    sql: &str,
    each: &mut dyn FnMut(usize, Vec<Value>) -> ControlFlow<()>,
) -> Result<(), mysql::Error> {
    let mut results = conn.query_iter(sql)?;
    let mut set = 0;
    let mut flow = ControlFlow::Continue(());
    while let Some(rows) = results.iter() {
        let has_columns = !rows.columns().as_ref().is_empty();
        for row in rows {
            let row = row?;
            if flow.is_continue() {
                flow = each(set, row.unwrap());
            }
        }
        set += usize::from(has_columns);
    }
    Ok(())
}

/// What went wrong on the socket, as the driver would say it.
fn broken(broken: Broken) -> mysql::Error {
    match broken {
        Broken::Server(said) => mysql::Error::MySqlError(said),
        Broken::Wire(error) => mysql::Error::IoError(error),
        Broken::Sink(error) => mysql::Error::IoError(io::Error::other(SinkFailed(error))),
    }
}

/// Does the work of [`Session::stream`] when the socket can't be read directly.
fn through_driver<S: RowSink>(conn: &mut Conn, sql: &str, sink: &mut S) -> Result<u64, mysql::Error> {
    let mut rows = 0;
    let mut results = conn.query_iter(sql)?;
    let Some(set) = results.iter() else { return Ok(0) };
    for row in set {
        rows += 1;
        let given = row?.unwrap().into_iter().try_for_each(|value| match value {
            Value::Bytes(bytes) => {
                sink.part(&bytes)?;
                sink.end_value();
                Ok(())
            }
            _ => {
                sink.null();
                Ok(())
            }
        });
        given
            .and_then(|()| sink.end_row())
            .map_err(|error| mysql::Error::IoError(io::Error::other(SinkFailed(error))))?;
    }
    Ok(rows)
}

/// The text protocol has only bytes and NULL.
fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// An empty vector of cells for rows of another lifetime, in the same allocation.
fn reuse<'b>(mut cells: Vec<Option<&[u8]>>) -> Vec<Option<&'b [u8]>> {
    cells.clear();
    cells.into_iter().map(|_| None).collect()
}
