//! Messages of a broker that become rows of a queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use broker::{Address, Consumer, Delivery, Link, Stream};
use serde_json::value::RawValue;
use server::{Session, TableName, Target, quote_name};

use super::column::{Column, columns};
use super::insert::{insert_from, must_be_destination};
use super::publish::{Messages, column_named};
use super::relay::run_and_tell;
use crate::exit::{Exit, stopped};
use crate::report::Report;

/// How long the broker waits for a message before it is asked whether to continue.
const WAIT: Duration = Duration::from_secs(1);
/// After so many messages the queue is told which numbers will not come again, and forgets them.
const FORGET_EACH: u64 = 1000;

/// Source and destination.
pub(crate) struct Receipt {
    pub(crate) from: Address,
    pub(crate) messages: Messages,
    /// The name under which the broker remembers what has come.
    pub(crate) consumer: String,
    pub(crate) to: Target,
    pub(crate) into: TableName,
    /// Only what waits, instead of waiting for more.
    pub(crate) once: bool,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Receipt {
    pub(crate) fn run_and_tell(&self, report: &Report) -> Result<Exit> {
        let connect = || Receiver::connect(self);
        run_and_tell("received", &self.stop, report, connect, |receiver, rows| receiver.run(self, rows))
    }
}

/// Both connections. The queue notes which message of which stream a row is, in the same record of its log as
/// the row: so each arrives exactly once, however often it is delivered.
struct Receiver {
    link: Link,
    consumer: Consumer,
    /// The stream, as the queue knows senders: 32 hexadecimal digits.
    source: String,
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
            Some(name) => vec![column_named(columns, name)?],
        };
        let mut link = Link::connect(&receipt.from)?;
        let stream = Stream::of(&mut link, &receipt.messages.subject)?;
        let consumer = Consumer::open(&mut link, &stream, &receipt.consumer)?;
        let identity = blake3::hash(format!("nats {} {}", stream.name, stream.created).as_bytes());
        let source: String = identity.to_hex().chars().take(32).collect();
        let (into, is_value) = (receipt.into.clone(), receipt.messages.body.is_some());
        Ok(Receiver { link, consumer, source, session, into, columns, is_value })
    }

    /// Moves messages until it is stopped, or with `once` until there are none.
    fn run(&mut self, receipt: &Receipt, rows: &mut u64) -> Result<Exit> {
        let (mut floor, mut told) = (self.consumer.floor(&mut self.link)?, 0);
        let mut wait = if receipt.once { Duration::ZERO } else { WAIT };
        while !receipt.stop.load(Ordering::Relaxed) {
            // At the end another forwarder may still have a message that comes back.
            let Some(delivery) = self.consumer.next(&mut self.link, wait)? else {
                if receipt.once && self.consumer.is_done(&mut self.link)? {
                    return Ok(Exit::Done);
                }
                wait = WAIT;
                continue;
            };
            let number = delivery.sequence;
            let origin = format!("{}:{number}:{}", self.source, floor.min(number));
            let inserted = self.insert(&delivery, &origin);
            if let Err(error) = inserted {
                self.consumer.give_back(&mut self.link, &delivery)?;
                let message = format!("message {number} of {}", receipt.messages.subject);
                return Err(error.context(message));
            }
            self.consumer.acknowledge(&mut self.link, &delivery)?;
            *rows += 1;
            told += 1;
            if told % FORGET_EACH == 0 {
                floor = self.consumer.floor(&mut self.link)?;
            }
        }
        self.link.flush()?;
        Ok(stopped())
    }

    fn insert(&mut self, delivery: &Delivery, origin: &str) -> Result<()> {
        let (mut names, mut literals) = (Vec::new(), Vec::new());
        if let (true, [column]) = (self.is_value, self.columns.as_slice()) {
            names.push(quote_name(&column.name));
            literals.push(column.bytes(&delivery.body));
        } else {
            let object: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&delivery.body)
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
        insert_from(&mut self.session, origin, &insert)
    }
}
