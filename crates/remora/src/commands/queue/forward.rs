//! `remora queue forward`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use progress::{Progress, count};
use serde_json::json;
use server::{Session, TableName, Target, quote_name};

use super::column::{Column, columns};
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::{Exit, stopped};
use crate::report::{self, Report};
use crate::stop::pause;

/// Seconds that the source waits for a row before the relay checks whether to continue.
const WAIT_S: u32 = 1;
/// How long to wait before reconnecting to a server.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server with the rows: mysql://user@host:port or unix:///path
    #[arg(value_name = "FROM")]
    from: String,

    /// The queue there: db.table
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The server that gets the rows
    #[arg(value_name = "TO")]
    to: String,

    /// The queue there, with columns of the same names [default: as on the source]
    #[arg(value_name = "QUEUE")]
    into: Option<String>,

    /// End when nothing waits any more, instead of waiting for more rows
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let from = arguments.server.at(&arguments.from).target(password.clone())?;
    let to = arguments.server.at(&arguments.to).target(password)?;
    let queue = table_name("QUEUE", &arguments.queue, &from)?;
    let into = match &arguments.into {
        Some(into) => table_name("QUEUE", into, &to)?,
        None => queue.clone(),
    };
    if format!("{}{}", queue.schema, queue.table).contains(['.', ':']) {
        bail!("{queue}: queue_wait() does not understand names with a dot or a colon; rename the table");
    }
    let route = Route { from, to, queue, into, once: arguments.once, stop: stop_flag(report)? };
    let began = Instant::now();
    let mut rows = 0;
    let mut relay = Some(route.connect()?);
    let ended = loop {
        let Some(mut link) = relay.take() else { break Exit::Done };
        match link.run(&route, &mut rows) {
            Ok(ended) => break ended,
            Err(error) if is_gone(&error) => report.say(&format!("{error:#}; trying again")),
            Err(error) => return Err(error),
        }
        // The owned row went back with the connection and is sent again: the destination knows whether it has
        // arrived.
        relay = match route.reconnect()? {
            Some(link) => Some(link),
            None => break stopped(),
        };
    };
    let seconds = began.elapsed().as_secs_f64();
    if report.is_json() {
        report.message(&json!({ "message_type": "summary", "rows": rows, "seconds": seconds }))?;
    } else {
        report.note(&format!("{} forwarded in {}", count(rows, "row"), report::clock(seconds)));
    }
    Ok(ended)
}

/// Whether it makes sense to reconnect.
fn is_gone(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<server::Error>() else { return false };
    // 1053: the server is shutting down; 1927: the connection was killed.
    let going = matches!(error.code(), Some(1053 | 1927));
    going || error.is_connection_lost() || matches!(error, server::Error::Unreachable { .. })
}

/// Source and destination.
struct Route {
    from: Target,
    to: Target,
    queue: TableName,
    into: TableName,
    once: bool,
    stop: Arc<AtomicBool>,
}

impl Route {
    fn connect(&self) -> Result<Relay> {
        let mut source = self.from.connect()?;
        let mut destination = self.to.connect()?;
        for session in [&mut source, &mut destination] {
            session.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        }
        let columns = columns(&mut source, &self.queue)?;
        self.must_be_queues(&mut source, &mut destination)?;
        self.must_be_another(&mut source, &mut destination)?;
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
        match table_engine(source, queue)?.flatten() {
            Some(name) if name == "QUEUE" => {}
            other => bail!("{queue} is no queue ({}): only rows of a queue can be forwarded", engine(other)),
        }
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
            bail!(
                "{} is source and destination: name another queue, or another server, as the last argument",
                self.queue
            );
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

/// The engine of a table; the inner `None` is for a view, or for a table that the server can't open.
fn table_engine(session: &mut Session, table: &TableName) -> Result<Option<Option<String>>> {
    let (schema, name) = (session.quote(&table.schema), session.quote(&table.table));
    let found = session.strings(&format!(
        "SELECT engine FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {name}"
    ))?;
    Ok(found.into_iter().next().map(|row| row.into_iter().next().flatten()))
}

/// Both connections.
struct Relay {
    source: Session,
    destination: Session,
    columns: Vec<Column>,
    select: String,
    insert: String,
}

impl Relay {
    /// Moves rows until it is stopped, or with `once` until there are none.
    fn run(&mut self, route: &Route, rows: &mut u64) -> Result<Exit> {
        let name = self.source.quote(&format!("{}.{}", route.queue.schema, route.queue.table));
        // It also consumes the previous row, which the destination has by then.
        let wait = format!("SELECT queue_wait({name}, {})", if route.once { 0 } else { WAIT_S });
        loop {
            match self.source.value(&wait)?.as_deref() {
                Some("1") => {
                    self.send()?;
                    *rows += 1;
                }
                Some(_) if route.once => {
                    self.source.execute("SELECT queue_end()")?;
                    return Ok(Exit::Done);
                }
                Some(_) => {}
                None => bail!("{}: {}", route.queue, self.why()?),
            }
            if route.stop.load(Ordering::Relaxed) {
                self.source.execute("SELECT queue_end()")?;
                return Ok(stopped());
            }
        }
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
