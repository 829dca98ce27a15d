//! Messages that come from a broker, one after the other.

use std::time::Duration;

use anyhow::Result;
use broker::{Consumer, Delivery, Link, Stream, kafka};

use crate::publish::{Broker, Messages};

/// After so many messages of NATS the queue is told which numbers will not come again, and forgets them.
const FORGET_EACH: u64 = 1000;

/// A message, which is to be acknowledged before the next one.
pub(crate) struct Incoming {
    /// Which message it is, as the queue knows rows.
    pub origin: String,
    /// The same for people.
    pub shown: String,
    /// What it says. None for the message of Kafka that says that a key is gone.
    pub body: Option<Vec<u8>>,
    token: Token,
}

enum Token {
    Nats(Delivery),
    Kafka(kafka::Record),
}

/// Where messages come from.
pub(crate) enum MessageSource {
    Nats(Box<Nats>),
    Kafka(Box<kafka::Consumer>),
}

pub(crate) struct Nats {
    link: Link,
    consumer: Consumer,
    /// The stream, as the queue knows senders: 32 hexadecimal digits.
    source: String,
    /// The lowest number that may still come, and how many messages came since it was asked for.
    floor: u64,
    told: u64,
}

impl MessageSource {
    /// Connects. The broker remembers under this name what has come.
    pub(crate) fn connect(broker: &Broker, messages: &Messages, consumer: &str) -> Result<MessageSource> {
        match broker {
            Broker::Nats(address) => {
                let mut link = Link::connect(address)?;
                let stream = Stream::of(&mut link, &messages.subject)?;
                let consumer = Consumer::open(&mut link, &stream, consumer)?;
                let source = source(&format!("nats {} {}", stream.name, stream.created));
                let floor = consumer.floor(&mut link)?;
                Ok(MessageSource::Nats(Box::new(Nats { link, consumer, source, floor, told: 0 })))
            }
            Broker::Kafka(address) => {
                let consumer = kafka::Consumer::open(address, &messages.subject, consumer)?;
                Ok(MessageSource::Kafka(Box::new(consumer)))
            }
        }
    }

    /// The next message; none if there is none in that time.
    pub(crate) fn next(&mut self, wait: Duration, messages: &Messages) -> Result<Option<Incoming>> {
        let subject = &messages.subject;
        match self {
            MessageSource::Nats(nats) => {
                let Some(mut delivery) = nats.consumer.next(&mut nats.link, wait)? else { return Ok(None) };
                let number = delivery.sequence;
                let origin = format!("{}:{number}:{}", nats.source, nats.floor.min(number));
                let shown = format!("message {number} of {subject}");
                let body = Some(std::mem::take(&mut delivery.body));
                Ok(Some(Incoming { origin, shown, body, token: Token::Nats(delivery) }))
            }
            MessageSource::Kafka(consumer) => {
                let Some(mut record) = consumer.next(wait)? else { return Ok(None) };
                let topic = u128::from_be_bytes(consumer.topic());
                let source = source(&format!("kafka {topic:032x} {}", record.partition));
                // Rows count from 1.
                let (number, floor) = (record.offset + 1, consumer.floor(&record) + 1);
                let origin = format!("{source}:{number}:{}", floor.min(number));
                let shown =
                    format!("message {} of partition {} of {subject}", record.offset, record.partition);
                let body = record.body.take();
                Ok(Some(Incoming { origin, shown, body, token: Token::Kafka(record) }))
            }
        }
    }

    /// Whether no message waits, and none was delivered that is not acknowledged.
    pub(crate) fn is_done(&mut self) -> Result<bool> {
        match self {
            MessageSource::Nats(nats) => Ok(nats.consumer.is_done(&mut nats.link)?),
            MessageSource::Kafka(consumer) => Ok(consumer.is_done()),
        }
    }

    /// Says that a message need not come again.
    pub(crate) fn acknowledge(&mut self, incoming: &Incoming) -> Result<()> {
        match (self, &incoming.token) {
            (MessageSource::Nats(nats), Token::Nats(delivery)) => {
                nats.consumer.acknowledge(&mut nats.link, delivery)?;
                nats.told += 1;
                if nats.told % FORGET_EACH == 0 {
                    nats.floor = nats.consumer.floor(&mut nats.link)?;
                }
            }
            (MessageSource::Kafka(consumer), Token::Kafka(record)) => consumer.acknowledge(record)?,
            _ => {}
        }
        Ok(())
    }

    /// Gives a message back that could not become a row.
    pub(crate) fn give_back(&mut self, incoming: &Incoming) -> Result<()> {
        match (self, &incoming.token) {
            (MessageSource::Nats(nats), Token::Nats(delivery)) => {
                nats.consumer.give_back(&mut nats.link, delivery)?;
            }
            // It waits there. Those before it are done.
            (MessageSource::Kafka(consumer), _) => consumer.commit()?,
            _ => {}
        }
        Ok(())
    }

    /// Makes sure that the broker knows what was acknowledged.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self {
            MessageSource::Nats(nats) => Ok(nats.link.flush()?),
            MessageSource::Kafka(consumer) => Ok(consumer.commit()?),
        }
    }
}

/// A sender as the queue knows it: 32 hexadecimal digits.
fn source(name: &str) -> String {
    blake3::hash(name.as_bytes()).to_hex().chars().take(32).collect()
}
