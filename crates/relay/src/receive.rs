//! Messages of a broker that become rows of a queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use progress::Progress;
use serde_json::value::RawValue;
use server::{Session, TableName, Target, quote_name};

use crate::column::{Column, columns};
use crate::forward::{Ended, Moved, Summary, keep_running};
use crate::insert::{insert_from, must_be_destination};
use crate::message_source::{Incoming, MessageSource};
use crate::publish::{Broker, Messages, column_named};

/// How long the broker waits for a message before it is asked whether to continue.
const WAIT: Duration = Duration::from_secs(1);

/// Source and destination.
pub struct Receipt {
    /// Where the messages are.
    pub from: Broker,
    /// Which messages, and how they become rows.
    pub messages: Messages,
    /// The name under which the broker remembers what has come.
    pub consumer: String,
    /// The server that gets them.
    pub to: Target,
    /// The queue there.
    pub into: TableName,
    /// Only what waits, instead of waiting for more.
    pub once: bool,
    /// Set when the run must stop.
    pub stop: Arc<AtomicBool>,
}

impl Receipt {
    /// Takes messages until none is left that was asked for, or the run is stopped.
    ///
    /// # Errors
    /// Errors other than lost connections, which are opened again.
    pub fn run(&self, report: &dyn Progress) -> Result<Summary> {
        let connect = || Receiver::connect(self);
        keep_running(&self.stop, report, connect, |receiver, moved| receiver.run(self, moved))
    }
}

/// Both connections. The queue notes which message of which stream a row is, in the same record of its log as
/// the row: so each arrives exactly once, however often it is delivered.
struct Receiver {
    feed: MessageSource,
    session: Session,
    into: TableName,
    columns: Vec<Column>,
    is_value: bool,
}

impl Receiver {
    fn connect(receipt: &Receipt) -> Result<Receiver> {
        let mut session = receipt.to.connect()?;
        // What does not fit is an error.
        session.execute("SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")?;
        let like =
            "columns that are named as the members of the messages' objects, or with --body one column";
        must_be_destination(&mut session, &receipt.into, like)?;
        let columns = columns(&mut session, &receipt.into)?;
        let columns: Vec<Column> = columns.into_iter().filter(|column| !column.filled).collect();
        let columns = match &receipt.messages.body {
            None => columns,
            Some(name) => vec![column_named("--body", &columns, name)?.clone()],
        };
        let feed = MessageSource::connect(&receipt.from, &receipt.messages, &receipt.consumer)?;
        let (into, is_value) = (receipt.into.clone(), receipt.messages.body.is_some());
        Ok(Receiver { feed, session, into, columns, is_value })
    }

    /// Moves messages until it is stopped, or with `once` until there are none.
    fn run(&mut self, receipt: &Receipt, moved: &mut Moved) -> Result<Ended> {
        let mut wait = if receipt.once { Duration::ZERO } else { WAIT };
        while !receipt.stop.load(Ordering::Relaxed) {
            // At the end another forwarder may still have a message that comes back.
            let Some(incoming) = self.feed.next(wait, &receipt.messages)? else {
                if receipt.once && self.feed.is_done()? {
                    return Ok(Ended::Done);
                }
                wait = WAIT;
                continue;
            };
            let inserted = self.insert(&incoming);
            if let Err(error) = inserted {
                self.feed.give_back(&incoming)?;
                return Err(error.context(incoming.shown));
            }
            self.feed.acknowledge(&incoming)?;
            moved.rows += 1;
        }
        self.feed.finish()?;
        Ok(Ended::Stopped)
    }

    fn insert(&mut self, incoming: &Incoming) -> Result<()> {
        let (mut names, mut literals) = (Vec::new(), Vec::new());
        if let (true, [column]) = (self.is_value, self.columns.as_slice()) {
            names.push(quote_name(&column.name));
            literals.push(incoming.body.as_deref().map_or("NULL".to_owned(), |body| column.bytes(body)));
        } else {
            let body = incoming.body.as_deref().context("it only says that its key is gone (a tombstone)")?;
            let object: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body)
                .context("it is no object of JSON; --body COLUMN takes messages as they are")?;
            for (name, value) in &object {
                let folded = name.to_lowercase();
                let Some(column) = self.columns.iter().find(|column| column.name.to_lowercase() == folded)
                else {
                    bail!("it has a member {name:?}, and {} has no such column: add one", self.into);
                };
                names.push(quote_name(&column.name));
                literals.push(column.literal_of_json(value, &self.session)?);
            }
        }
        let (names, literals) = (names.join(", "), literals.join(", "));
        let insert = format!("INSERT INTO {} ({names}) VALUES ({literals})", self.into);
        insert_from(&mut self.session, &incoming.origin, &insert)
    }
}
