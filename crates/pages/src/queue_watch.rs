//! What is known of the queues of a server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use progress::Silent;
use server::catalogue::filled_column;
use server::{Error, Session, TableName, quote_name};

use queue_admin::overview::open;
use queue_admin::sources::sources;
use queue_admin::watch::{Sample, Watch};

/// How often it is looked why rows have failed, and which queues have dead letters.
const REASONS: Duration = Duration::from_secs(60);
/// Rows of a queue whose reasons are counted, and reasons that are shown.
const ROWS_MAX: usize = 1000;
const REASONS_MAX: usize = 20;
/// Unknown table: the server has no such engine.
const NO_TABLE: u16 = 1109;

/// What is known of the queues of a server.
#[derive(Default)]
pub(crate) enum Queues {
    /// It was not asked yet.
    #[default]
    Unasked,
    /// It has no such engine.
    NoEngine,
    /// They can't be seen, and why.
    Unseen(String),
    /// They are these.
    Here(Known),
}

/// The queues of a server.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) samples: Vec<Sample>,
    pub(crate) failures: Vec<Failures>,
    /// Those that get the dead letters of others, by the names that the samples have.
    pub(crate) dead_letters: BTreeMap<String, TableName>,
}

/// Reasons, and how many of the first rows have each; or why they can't be read.
type Reasons = Result<Vec<(String, u64)>, String>;

/// Why rows of a queue have failed.
pub(crate) struct Failures {
    /// The queue, `db.table`.
    pub(crate) queue: String,
    /// The reasons.
    pub(crate) reasons: Reasons,
}

/// Asks a server for its queues, again and again.
#[derive(Default)]
pub(crate) struct QueueWatch {
    watch: Watch,
    /// Whether queues were opened that nobody has used since the server's start.
    is_open: bool,
    has_no_engine: bool,
    failed: Option<Failed>,
}

/// What is read seldom.
struct Failed {
    then: Instant,
    /// The reasons of each queue that knows them.
    reasons: BTreeMap<String, Reasons>,
    dead_letters: BTreeMap<String, TableName>,
}

impl QueueWatch {
    /// What is known now. Another session may have found another server behind the address.
    pub(crate) fn look(&mut self, session: &mut Session, is_new: bool) -> Queues {
        if is_new {
            *self = QueueWatch::default();
        }
        if self.has_no_engine {
            return Queues::NoEngine;
        }
        match self.known(session) {
            Ok(known) => Queues::Here(known),
            Err(error) if is_missing(&error) => {
                self.has_no_engine = true;
                Queues::NoEngine
            }
            Err(error) => Queues::Unseen(failure::text(&error)),
        }
    }

    fn samples(&mut self, session: &mut Session) -> Result<Vec<Sample>> {
        let samples = self.watch.look(session)?;
        if self.is_open {
            return Ok(samples);
        }
        open(session, |_, _| true, &Silent)?;
        self.is_open = true;
        self.watch.look(session)
    }

    fn known(&mut self, session: &mut Session) -> Result<Known> {
        let samples = self.samples(session)?;
        let failed = match self.failed.take() {
            Some(failed) if failed.then.elapsed() < REASONS => failed,
            _ => failed(session, &samples)?,
        };
        let Failed { reasons, dead_letters, .. } = self.failed.insert(failed);
        let failure = |(queue, reasons): (&String, &Reasons)| Failures {
            queue: queue.clone(),
            reasons: reasons.clone(),
        };
        let failures = reasons.iter().map(failure).collect();
        Ok(Known { samples, failures, dead_letters: dead_letters.clone() })
    }
}

/// Which queues have dead letters, and why rows have failed in those that know it.
fn failed(session: &mut Session, samples: &[Sample]) -> Result<Failed> {
    let names = samples.iter().map(|sample| sample.line.name.clone());
    let reasons =
        names.filter_map(|name| Some((name.clone(), reasons(session, &name).transpose()?))).collect();
    let named = |name: TableName| (format!("{}.{}", name.schema, name.table), name);
    let dead_letters = sources(session)?.into_keys().map(named).collect();
    Ok(Failed { then: Instant::now(), reasons, dead_letters })
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Sql { code: NO_TABLE, .. }))
}

/// Why the first rows of a queue have failed; none if it does not know that.
fn reasons(session: &mut Session, queue: &str) -> Result<Option<Vec<(String, u64)>>, String> {
    let Ok(table) = queue.parse::<TableName>() else { return Ok(None) };
    let definition = session.definition(&table).map_err(|error| error.to_string())?;
    let Some(column) = filled_column(&definition, "why") else { return Ok(None) };
    let why = quote_name(&column);
    let rows = session.strings(&format!(
        "SELECT {why}, COUNT(*) FROM (SELECT {why} FROM {table} LIMIT {ROWS_MAX}) first_rows \
         WHERE {why} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {REASONS_MAX}"
    ));
    let pair = |row: Vec<Option<String>>| match <[Option<String>; 2]>::try_from(row) {
        Ok([Some(why), Some(count)]) => Some((why, count.parse().ok()?)),
        _ => None,
    };
    Ok(Some(rows.map_err(|error| error.to_string())?.into_iter().filter_map(pair).collect()))
}
