//! Moves rows from a queue to another place.
//!
//! The source says where a row is from, and the destination notes that with the row. So a row that is sent
//! again, because somebody was killed before its end at the source, is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use progress::{Progress, pause};
use server::{Session, TableName, Target};

use crate::column::{Column, columns};
use crate::insert::Inserts;
use crate::publish::{Broker, Messages, Publisher};
use crate::queue_table::{is_paused, must_be_queue};

/// Seconds that the source waits for a row before the relay checks whether to continue.
const WAIT_S: u32 = 1;
/// How long to wait before reconnecting to a server.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether it makes sense to reconnect.
fn is_gone(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<broker::Error>() {
        return error.is_retryable();
    }
    let Some(error) = error.downcast_ref::<server::Error>() else { return false };
    // 1053: the server is shutting down; 1927: the connection was killed.
    let going = matches!(error.code(), Some(1053 | 1927));
    going || error.is_connection_lost() || matches!(error, server::Error::Unreachable { .. })
}

/// Source and destination.
pub struct Route {
    /// The server with the rows.
    pub from: Target,
    /// The queue there.
    pub queue: TableName,
    /// Where they go.
    pub to: To,
    /// Which of them.
    pub rows: Rows,
    /// Set when the run must stop.
    pub stop: Arc<AtomicBool>,
    /// How many rows have moved, for whoever looks while it runs.
    pub moved: Arc<AtomicU64>,
}

/// Where rows go.
pub enum To {
    /// To a queue on this server.
    Queue(Target, TableName),
    /// To a broker.
    Subject(Broker, Messages),
}

/// A place that rows go to, connected.
enum Destination {
    Queue(Inserts),
    Subject(Publisher),
}

impl To {
    fn connect(&self, source: &mut Session, queue: &TableName, columns: Vec<Column>) -> Result<Destination> {
        Ok(match self {
            To::Queue(target, into) => {
                Destination::Queue(Inserts::connect(target, source, [queue, into], columns)?)
            }
            To::Subject(broker, messages) => {
                Destination::Subject(Publisher::connect(broker, messages, columns)?)
            }
        })
    }
}

impl Destination {
    /// The expressions that select what [`Destination::send`] sends.
    fn reads(&self) -> Vec<String> {
        match self {
            Destination::Queue(inserts) => inserts.reads(),
            Destination::Subject(publisher) => publisher.reads(),
        }
    }

    fn send(&mut self, origin: &str, values: &[Option<String>]) -> Result<()> {
        match self {
            Destination::Queue(inserts) => inserts.send(origin, values),
            Destination::Subject(publisher) => publisher.send(origin, values),
        }
    }

    /// Keeps the connection alive while there is nothing to send.
    fn keep(&mut self) -> Result<()> {
        match self {
            Destination::Queue(_) => Ok(()),
            Destination::Subject(publisher) => publisher.keep(),
        }
    }

    /// Looks whether the last rows came twice.
    fn finish(&mut self) -> Result<()> {
        match self {
            Destination::Queue(_) => Ok(()),
            Destination::Subject(publisher) => publisher.finish(),
        }
    }

    /// How many rows came twice: a queue takes none again.
    fn duplicates(&self) -> u64 {
        match self {
            Destination::Queue(_) => 0,
            Destination::Subject(publisher) => publisher.duplicates(),
        }
    }
}

/// What has moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// How many rows.
    pub rows: u64,
    /// Rows that came twice, which the destination could not prevent.
    pub duplicates: u64,
}

/// Which rows move.
#[derive(Default)]
pub struct Rows {
    /// The reader whose rows they are, in a queue with readers.
    pub reader: Option<String>,
    /// A condition of `queue_wait`.
    pub condition: Option<String>,
    /// Only what waits, instead of waiting for more.
    pub once: bool,
    /// At most so many.
    pub limit: Option<u64>,
    /// Only rows with lower numbers.
    pub before: Option<i64>,
}

impl Route {
    /// Moves rows until none is left that was asked for, or the run is stopped.
    ///
    /// # Errors
    /// Errors other than lost connections, which are opened again.
    pub fn run(&self, report: &dyn Progress) -> Result<Summary> {
        // The owned row goes back with a connection that is lost, and is sent again: the destination knows
        // whether it has arrived.
        keep_running(&self.stop, report, || self.connect(), |relay, moved| relay.run(self, moved))
    }

    /// Connects, and refuses what cannot be relayed.
    pub fn connect(&self) -> Result<Relay> {
        let queue = &self.queue;
        let mut source = self.from.connect()?;
        source.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        let columns = columns(&mut source, queue)?;
        must_be_queue(&mut source, queue)?;
        // An INSERT ignores columns that the queue fills, and the destination need not have them.
        let columns = columns.into_iter().filter(|column| !column.filled).collect();
        let destination = self.to.connect(&mut source, queue, columns)?;
        let select = format!("SELECT queue_origin(), {} FROM {queue}", destination.reads().join(", "));
        Ok(Relay { source, destination, select })
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What was asked for has moved.
    Done,
    /// The user asked to stop.
    Stopped,
}

/// What a run has done.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// How it ended.
    pub ended: Ended,
    /// What has moved.
    pub moved: Moved,
    /// How long it took.
    pub time: Duration,
}

/// Moves rows with connections that are opened again when they are lost, until it is stopped or there are
/// none.
pub(crate) fn keep_running<L>(
    stop: &AtomicBool,
    report: &dyn Progress,
    connect: impl Fn() -> Result<L>,
    run: impl Fn(&mut L, &mut Moved) -> Result<Ended>,
) -> Result<Summary> {
    let began = Instant::now();
    let mut moved = Moved::default();
    let mut link = Some(connect()?);
    let ended = loop {
        let Some(mut linked) = link.take() else { break Ended::Stopped };
        match run(&mut linked, &mut moved) {
            Ok(ended) => break ended,
            Err(error) if is_gone(&error) => report.warn(&format!("{error:#}; trying again")),
            Err(error) => return Err(error),
        }
        // Before another one is made: what it owns goes back.
        drop(linked);
        link = reconnect(stop, &connect)?;
    };
    Ok(Summary { ended, moved, time: began.elapsed() })
}

/// Connects as soon as both sides are available; none when it was stopped before that.
fn reconnect<L>(stop: &AtomicBool, connect: impl Fn() -> Result<L>) -> Result<Option<L>> {
    loop {
        if !pause(AGAIN, stop) {
            return Ok(None);
        }
        match connect() {
            Ok(link) => return Ok(Some(link)),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Both connections.
pub struct Relay {
    source: Session,
    destination: Destination,
    select: String,
}

impl Relay {
    /// Moves rows until it is stopped, or with `once` until there are none.
    fn run(&mut self, route: &Route, moved: &mut Moved) -> Result<Ended> {
        let ended = self.run_rows(route, &mut moved.rows).and_then(|ended| {
            self.destination.finish()?;
            Ok(ended)
        });
        moved.duplicates += self.destination.duplicates();
        ended
    }

    fn run_rows(&mut self, route: &Route, rows: &mut u64) -> Result<Ended> {
        let wait =
            format!("queue_wait({}, {})", self.taken(route, ""), if route.rows.once { 0 } else { WAIT_S });
        // Each wait also ends the previous row, which the destination has by then.
        let mut sent = 0;
        loop {
            let stop = route.stop.load(Ordering::Relaxed);
            if stop || route.rows.limit.is_some_and(|limit| *rows + sent >= limit) {
                self.source.execute("SELECT queue_end()")?;
                *rows += sent;
                return Ok(if stop { Ended::Stopped } else { Ended::Done });
            }
            let taken = self.source.value(&format!("SELECT {wait}"))?;
            *rows += sent;
            sent = 0;
            route.moved.store(*rows, Ordering::Relaxed);
            match taken.as_deref() {
                Some("1") if self.is_past(route.rows.before)? => {
                    self.source.execute("SELECT queue_abort()")?;
                    return Ok(Ended::Done);
                }
                Some("1") => {
                    self.send()?;
                    sent = 1;
                }
                Some(_) if route.rows.once => {
                    self.source.execute("SELECT queue_end()")?;
                    // Nobody is given its rows: that there is none does not mean that none is left.
                    if is_paused(&mut self.source, &route.queue)? {
                        bail!(
                            "{} is paused, or keys of it are, so rows of it stay: call queue_resume() there first",
                            route.queue
                        );
                    }
                    return Ok(Ended::Done);
                }
                Some(_) => self.destination.keep()?,
                None => bail!("{}: {}", route.queue, self.why()?),
            }
        }
    }

    /// The argument of `queue_wait` for the rows that move.
    fn taken(&self, route: &Route, more: &str) -> String {
        let reader = route.rows.reader.as_ref().map_or_else(String::new, |reader| format!("@{reader}"));
        let name = format!("{}{reader}", route.queue);
        self.source.quote(&match &route.rows.condition {
            Some(condition) => format!("{name}:({condition}){more}"),
            None => name,
        })
    }

    /// Takes nothing, and returns an error if the source does not understand the condition.
    pub fn check_condition(&mut self, route: &Route) -> Result<()> {
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
        self.destination.send(origin, values)
    }
}
