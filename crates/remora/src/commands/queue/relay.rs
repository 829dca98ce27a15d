//! Moves rows from a queue to another, each exactly once.
//!
//! The source says where a row is from, and the destination notes that in the same record of its log as the
//! row. So a row that is sent again, because somebody was killed before its end at the source, is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use progress::{Progress, count};
use serde_json::json;
use server::{Session, TableName, Target, quote_name};

use super::column::{Column, columns};
use super::rows::{must_be_queue, table_engine};
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};
use crate::stop::pause;

/// Seconds that the source waits for a row before the relay checks whether to continue.
const WAIT_S: u32 = 1;
/// How long to wait before reconnecting to a server.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether it makes sense to reconnect.
fn is_gone(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<server::Error>() else { return false };
    // 1053: the server is shutting down; 1927: the connection was killed.
    let going = matches!(error.code(), Some(1053 | 1927));
    going || error.is_connection_lost() || matches!(error, server::Error::Unreachable { .. })
}

/// Source and destination.
pub(crate) struct Route {
    pub(crate) from: Target,
    pub(crate) to: Target,
    pub(crate) queue: TableName,
    pub(crate) into: TableName,
    pub(crate) rows: Rows,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Which rows move.
#[derive(Default)]
pub(crate) struct Rows {
    /// A condition of `queue_wait`.
    pub(crate) condition: Option<String>,
    /// Only what waits, instead of waiting for more.
    pub(crate) once: bool,
    /// At most so many.
    pub(crate) limit: Option<u64>,
    /// Only rows with lower numbers.
    pub(crate) before: Option<i64>,
}

impl Route {
    /// Moves rows until it is stopped, or until there are none. Returns how many.
    fn run(&self, report: &Report) -> Result<(Exit, u64)> {
        let mut rows = 0;
        let mut relay = Some(self.connect()?);
        let ended = loop {
            let Some(mut link) = relay.take() else { break Exit::Done };
            match link.run(self, &mut rows) {
                Ok(ended) => break ended,
                Err(error) if is_gone(&error) => report.say(&format!("{error:#}; trying again")),
                Err(error) => return Err(error),
            }
            // The owned row went back with the connection and is sent again: the destination knows whether it
            // has arrived.
            relay = match self.reconnect()? {
                Some(link) => Some(link),
                None => break stopped(),
            };
        };
        Ok((ended, rows))
    }

    /// Moves rows and says how many; `done` is what was done with them.
    pub(crate) fn run_and_tell(&self, done: &str, report: &Report) -> Result<Exit> {
        let began = Instant::now();
        let (ended, rows) = self.run(report)?;
        let seconds = began.elapsed().as_secs_f64();
        if report.is_json() {
            report.message(&json!({ "message_type": "summary", "rows": rows, "seconds": seconds }))?;
        } else {
            report.note(&format!("{} {done} in {}", count(rows, "row"), report::clock(seconds)));
        }
        Ok(ended)
    }

    /// Connects, and refuses what cannot be relayed.
    pub(crate) fn connect(&self) -> Result<Relay> {
        let queue = &self.queue;
        if format!("{}{}", queue.schema, queue.table).contains(['.', ':']) {
            bail!("{queue}: queue_wait() does not understand names with a dot or a colon; rename the table");
        }
        let mut source = self.from.connect()?;
        let mut destination = self.to.connect()?;
        for session in [&mut source, &mut destination] {
            session.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        }
        let columns = columns(&mut source, &self.queue)?;
        self.must_be_queues(&mut source, &mut destination)?;
        self.must_be_another(&mut source, &mut destination)?;
        // An INSERT ignores them, and the destination need not have them.
        let columns: Vec<Column> = columns.into_iter().filter(|column| !column.filled).collect();
        let reads: Vec<String> = columns.iter().map(Column::read).collect();
        let names: Vec<String> = columns.iter().map(|column| quote_name(&column.name)).collect();
        let select = format!("SELECT queue_origin(), {} FROM {}", reads.join(", "), self.queue);
        let insert = format!("INSERT INTO {} ({}) VALUES ", self.into, names.join(", "));
        Ok(Relay { source, destination, columns, select, insert })
    }

    /// Only rows of a queue can be owned, and only a queue knows which rows have already arrived.
    fn must_be_queues(&self, source: &mut Session, destination: &mut Session) -> Result<()> {
        let engine = |found: Option<String>| {
            found.map_or_else(
                || "no engine: a view, or a table that cannot be opened".to_owned(),
                |name| format!("ENGINE={name}"),
            )
        };
        let (queue, into) = (&self.queue, &self.into);
        must_be_queue(source, queue)?;
        match table_engine(destination, into)? {
            Some(Some(name)) if name == "QUEUE" => Ok(()),
            Some(other) => bail!(
                "the destination {into} is no queue ({}), and nothing there would know which rows came already: \
                 make it with ENGINE=QUEUE and the columns of {queue}",
                engine(other),
            ),
            None => bail!(
                "the destination {into} is not there, or you have no privilege to see it: make it with \
                 ENGINE=QUEUE and the columns of {queue}"
            ),
        }
    }

    /// A queue that receives its own rows would never become empty.
    fn must_be_another(&self, source: &mut Session, destination: &mut Session) -> Result<()> {
        // Addresses do not tell whether two servers are the same. A lock that one session holds and the other
        // sees does.
        let lock = source.value("SELECT CONCAT('remora forward ', UUID())")?.unwrap_or_default();
        let lock = source.quote(&lock);
        source.value(&format!("SELECT GET_LOCK({lock}, 0)"))?;
        let owner = destination.value(&format!("SELECT IS_USED_LOCK({lock})"))?;
        source.value(&format!("SELECT RELEASE_LOCK({lock})"))?;
        if owner.is_none() {
            return Ok(());
        }
        let folded = source.value("SELECT @@lower_case_table_names")?.as_deref() != Some("0");
        let name = |table: &TableName| {
            let name = table.to_string();
            if folded { name.to_lowercase() } else { name }
        };
        if name(&self.queue) == name(&self.into) {
            bail!("{} is source and destination: name another queue, or another server", self.queue);
        }
        Ok(())
    }

    /// Connects as soon as both servers are available; none when it was stopped before that.
    fn reconnect(&self) -> Result<Option<Relay>> {
        loop {
            if !pause(AGAIN, &self.stop) {
                return Ok(None);
            }
            match self.connect() {
                Ok(relay) => return Ok(Some(relay)),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Both connections.
pub(crate) struct Relay {
    source: Session,
    destination: Session,
    columns: Vec<Column>,
    select: String,
    insert: String,
}

impl Relay {
    /// Moves rows until it is stopped, or with `once` until there are none.
    fn run(&mut self, route: &Route, rows: &mut u64) -> Result<Exit> {
        let wait =
            format!("queue_wait({}, {})", self.taken(route, ""), if route.rows.once { 0 } else { WAIT_S });
        // Each wait also ends the previous row, which the destination has by then.
        let mut sent = 0;
        loop {
            let stop = route.stop.load(Ordering::Relaxed);
            if stop || route.rows.limit.is_some_and(|limit| *rows + sent >= limit) {
                self.source.execute("SELECT queue_end()")?;
                *rows += sent;
                return Ok(if stop { stopped() } else { Exit::Done });
            }
            let taken = self.source.value(&format!("SELECT {wait}"))?;
            *rows += sent;
            sent = 0;
            match taken.as_deref() {
                Some("1") if self.is_past(route.rows.before)? => {
                    self.source.execute("SELECT queue_abort()")?;
                    return Ok(Exit::Done);
                }
                Some("1") => {
                    self.send()?;
                    sent = 1;
                }
                Some(_) if route.rows.once => {
                    self.source.execute("SELECT queue_end()")?;
                    return Ok(Exit::Done);
                }
                Some(_) => {}
                None => bail!("{}: {}", route.queue, self.why()?),
            }
        }
    }

    /// The argument of `queue_wait` for the rows that move.
    fn taken(&self, route: &Route, more: &str) -> String {
        let name = format!("{}.{}", route.queue.schema, route.queue.table);
        self.source.quote(&match &route.rows.condition {
            Some(condition) => format!("{name}:({condition}){more}"),
            None => name,
        })
    }

    /// Takes nothing, and returns an error if the source does not understand the condition.
    pub(crate) fn check_condition(&mut self, route: &Route) -> Result<()> {
        let none = self.taken(route, " and 0 = 1");
        if route.rows.condition.is_some()
            && self.source.value(&format!("SELECT queue_wait({none}, 0)"))?.is_none()
        {
            bail!("{}: {}", route.queue, self.why()?);
        }
        Ok(())
    }

    /// Whether the owned row came too late to move.
    fn is_past(&mut self, before: Option<i64>) -> Result<bool> {
        let Some(before) = before else { return Ok(false) };
        let number = self.source.value("SELECT queue_rowid()")?.unwrap_or_default();
        Ok(number.parse::<i64>()? >= before)
    }

    fn why(&mut self) -> Result<String> {
        let warnings = self.source.warnings()?;
        Ok(warnings
            .into_iter()
            .next()
            .map_or_else(|| "queue_wait() gave NULL".to_owned(), |warning| warning.message))
    }

    /// Sends the owned row.
    fn send(&mut self) -> Result<()> {
        let row = self
            .source
            .strings(&self.select)?
            .into_iter()
            .next()
            .context("the row that was taken is not there")?;
        let [Some(origin), values @ ..] = row.as_slice() else {
            bail!("the server did not say where the row that was taken is from")
        };
        let armed = format!("SELECT queue_set_origin({})", self.destination.quote(origin));
        if self.destination.value(&armed)?.as_deref() != Some("1") {
            bail!("the destination does not understand {origin}: is its engine of the same version?");
        }
        let literals: Vec<String> =
            self.columns.iter().zip(values).map(|(column, value)| column.literal(value.as_deref())).collect();
        self.destination.execute(&format!("{}({})", self.insert, literals.join(", ")))?;
        Ok(())
    }
}
