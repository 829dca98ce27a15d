//! Rows that a relay brings to a broker.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use broker::{Address, Link, Stream, kafka, publish};
use jiff::Timestamp;

use crate::column::Column;

/// Where a broker is.
pub enum Broker {
    /// A server of NATS with JetStream.
    Nats(Address),
    /// A cluster of Kafka.
    Kafka(kafka::Address),
}

impl Broker {
    /// Whether a text names a broker, rightly or not.
    pub fn is_meant(text: &str) -> bool {
        Address::is_meant(text) || kafka::Address::is_meant(text)
    }

    /// Reads a URL. The authorities of TLS are those that SSL_CERT_FILE names, if it is set.
    pub fn parse(url: &str) -> Result<Broker> {
        let trusted = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        Ok(if kafka::Address::is_meant(url) {
            Broker::Kafka(kafka::Address { trusted, ..kafka::Address::parse(url)? })
        } else {
            Broker::Nats(Address { trusted, ..Address::parse(url)? })
        })
    }
}

/// How rows become messages.
pub struct Messages {
    /// Their subject, or with Kafka their topic.
    pub subject: String,
    /// The column that has the text of a message. Without one the row is the message, as an object of JSON.
    pub body: Option<String>,
    /// The column that has the key of a message, for Kafka.
    pub key: Option<String>,
}

/// A connection to a broker. Each message says which row it is, and none is in a stream or topic twice.
pub(crate) struct Publisher {
    way: Way,
    columns: Vec<Column>,
    /// Whether a message is the value of the only column, and not a row.
    is_value: bool,
    key: Option<Column>,
}

enum Way {
    /// The stream drops a message whose id it knows.
    Nats {
        link: Link,
        subject: String,
        /// The id of the last message before this connection, until its row is here. A row that was sent and
        /// not ended comes again, perhaps behind rows that have come back or come first, and the server
        /// forgets ids after minutes.
        last: Option<String>,
    },
    Kafka(Box<kafka::Producer>),
}

impl Publisher {
    /// Connects, and refuses a subject that no stream keeps, and a topic that is not there.
    pub(crate) fn connect(broker: &Broker, messages: &Messages, columns: Vec<Column>) -> Result<Publisher> {
        let key =
            messages.key.as_deref().map(|name| column_named("--key", &columns, name)).transpose()?.cloned();
        let columns = match &messages.body {
            None => columns,
            Some(name) => vec![column_named("--body", &columns, name)?.clone()],
        };
        let way = match broker {
            Broker::Nats(address) => {
                let mut link = Link::connect(address)?;
                let subject = messages.subject.clone();
                let last = Stream::of(&mut link, &subject)?.last_id(&mut link)?;
                Way::Nats { link, subject, last }
            }
            Broker::Kafka(address) => {
                Way::Kafka(Box::new(kafka::Producer::open(address, &messages.subject)?))
            }
        };
        Ok(Publisher { way, columns, is_value: messages.body.is_some(), key })
    }

    /// The key comes last.
    pub(crate) fn reads(&self) -> Vec<String> {
        let read = if self.is_value { Column::read_bytes } else { Column::read_json };
        self.columns.iter().map(read).chain(self.key.iter().map(Column::read_bytes)).collect()
    }

    pub(crate) fn send(&mut self, origin: &str, values: &[Option<String>]) -> Result<()> {
        // Without the lowest row that waits there: that one changes.
        let (id, _) = origin.rsplit_once(':').context("the server did not say where the row is from")?;
        let (values, key) = values.split_at(self.columns.len());
        let body = self.body(values)?;
        match &mut self.way {
            Way::Nats { last, .. } if last.as_deref() == Some(id) => *last = None,
            Way::Nats { link, subject, .. } => {
                publish(link, subject, id, &body).with_context(|| format!("row {id}"))?;
            }
            Way::Kafka(producer) => {
                let key = key.first().and_then(Option::as_deref).map(bytes).transpose()?;
                let time_ms = Timestamp::now().as_millisecond();
                producer.send(id, key.as_deref(), &body, time_ms).with_context(|| format!("row {id}"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn keep(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Nats { link, .. } => Ok(link.keep_alive()?),
            Way::Kafka(_) => Ok(()),
        }
    }

    /// Looks whether the last rows came twice.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Nats { .. } => Ok(()),
            Way::Kafka(producer) => Ok(producer.finish()?),
        }
    }

    /// How many rows came twice.
    pub(crate) fn duplicates(&self) -> u64 {
        match &self.way {
            Way::Nats { .. } => 0,
            Way::Kafka(producer) => producer.duplicates(),
        }
    }

    fn body(&self, values: &[Option<String>]) -> Result<Vec<u8>> {
        if self.is_value {
            return bytes(values.first().and_then(Option::as_deref).unwrap_or_default());
        }
        let pairs = self.columns.iter().zip(values);
        let members: Vec<String> = pairs
            .map(|(column, value)| {
                format!("{}:{}", serde_json::json!(column.name), column.json(value.as_deref()))
            })
            .collect();
        Ok(format!("{{{}}}", members.join(",")).into_bytes())
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes(hex: &str) -> Result<Vec<u8>> {
    let byte = |at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16);
    Ok((0..hex.len()).step_by(2).map(byte).collect::<Result<_, _>>()?)
}

/// The column of this name, which an option gives.
pub(crate) fn column_named<'a>(option: &str, columns: &'a [Column], name: &str) -> Result<&'a Column> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let found = columns.iter().find(|column| column.name.to_lowercase() == name.to_lowercase());
    match found {
        Some(column) => Ok(column),
        None => bail!("{option}: the queue has no column {name}; it has {}", names.join(", ")),
    }
}
