//! `remora queue forward`

use std::sync::Arc;

use anyhow::{Result, bail};
use broker::{is_name, is_subject, kafka};
use clap::Args;
use relay::{Broker, Messages, Receipt, Route, Rows, To};
use server::TableName;

use super::forwarded;
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::Exit;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server with the rows: mysql://user@host:port or unix:///path. Or a broker with messages:
    /// nats://host or kafka://host,host, with user:password@ before the host if it asks for them; tls://host
    /// and kafka+tls://host encrypt
    #[arg(value_name = "FROM")]
    from: String,

    /// The queue there: db.table, or db.table@reader. On NATS a subject that a stream of JetStream keeps, on
    /// Kafka a topic
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The server or the broker that gets them
    #[arg(value_name = "TO")]
    to: String,

    /// The queue there, with columns of the same names [default: as on the source], or the subject or
    /// topic
    #[arg(value_name = "QUEUE")]
    into: Option<String>,

    /// End when nothing can be taken now, instead of waiting for more. Rows that are due later or that wait
    /// for their rate stay
    #[arg(long)]
    once: bool,

    /// The column that has the text of a message [default: a message is an object of JSON with a member for
    /// each column]
    #[arg(long, value_name = "COLUMN")]
    body: Option<String>,

    /// The column whose value is the key of a message of Kafka, which decides its partition [default: no
    /// keys, and all messages go to the first partition]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,

    /// The name under which a broker remembers what has come: a consumer of NATS, a group of Kafka.
    /// Forwarders from NATS with one name share the messages; those with other names get them all [default:
    /// remora_DB_TABLE]
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let (from, to) = (Broker::is_meant(&arguments.from), Broker::is_meant(&arguments.to));
    if !from && arguments.consumer.is_some() {
        bail!("--consumer is for messages that come from a broker");
    }
    if arguments.key.is_some() && !kafka::Address::is_meant(&arguments.to) {
        bail!("--key is for messages that go to Kafka");
    }
    match (from, to) {
        (true, true) => bail!("one of the two must be a server with a queue: mysql://host or unix:///path"),
        (true, false) => receive(arguments, password, report),
        (false, _) => send(arguments, password, report),
    }
}

fn receive(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let to = arguments.server.at(&arguments.to).target(password)?;
    let Some(into) = &arguments.into else {
        bail!("the queue that gets the messages: remora queue forward FROM SUBJECT TO db.table")
    };
    let into = table_name("QUEUE", into, &to)?;
    let from = Broker::parse(&arguments.from)?;
    let messages = messages(arguments, &from, &arguments.queue, true)?;
    let consumer = consumer(arguments, &from, &into)?;
    let (once, stop) = (arguments.once, stop_flag(report)?);
    let receipt = Receipt { from, messages, consumer, to, into, once, stop };
    forwarded::tell("received", receipt.run(report)?, report)
}

fn send(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = |url: &str| arguments.server.at(url).target(password.clone());
    let from = target(&arguments.from)?;
    // A name in backquotes may have an @.
    let named = arguments.queue.rsplit_once('@').filter(|(_, reader)| !reader.contains('`'));
    let (queue, reader) =
        named.map_or((arguments.queue.as_str(), None), |(queue, reader)| (queue, Some(reader.to_owned())));
    let queue = table_name("QUEUE", queue, &from)?;
    let rows = Rows { reader, once: arguments.once, ..Rows::default() };
    let to = if Broker::is_meant(&arguments.to) {
        let broker = Broker::parse(&arguments.to)?;
        let Some(subject) = &arguments.into else {
            let (what, url) = match broker {
                Broker::Nats(_) => ("SUBJECT", "nats"),
                Broker::Kafka(_) => ("TOPIC", "kafka"),
            };
            bail!("where the messages go: remora queue forward FROM db.table {url}://host {what}")
        };
        let messages = messages(arguments, &broker, subject, false)?;
        To::Subject(broker, messages)
    } else if arguments.body.is_some() {
        bail!("--body is for messages of a broker")
    } else {
        let to = target(&arguments.to)?;
        let into = match &arguments.into {
            Some(into) => table_name("QUEUE", into, &to)?,
            None => queue.clone(),
        };
        To::Queue(to, into)
    };
    let route = Route { from, queue, to, rows, stop: stop_flag(report)?, moved: Arc::default() };
    forwarded::tell("forwarded", route.run(report)?, report)
}

fn messages(arguments: &Arguments, broker: &Broker, subject: &str, wildcards: bool) -> Result<Messages> {
    match broker {
        Broker::Nats(_) if !is_subject(subject, wildcards) => {
            bail!("{subject:?} is no subject: words with dots between them, such as orders.new")
        }
        Broker::Kafka(_) if !kafka::is_topic(subject) => {
            bail!("{subject:?} is no topic: letters, digits, and . _ -")
        }
        _ => {}
    }
    Ok(Messages { subject: subject.to_owned(), body: arguments.body.clone(), key: arguments.key.clone() })
}

fn consumer(arguments: &Arguments, broker: &Broker, into: &TableName) -> Result<String> {
    match (&arguments.consumer, broker) {
        (Some(name), Broker::Nats(_)) if !is_name(name) => {
            bail!("--consumer {name:?}: a name without spaces and without . * > / \\")
        }
        (Some(name), Broker::Kafka(_)) if !kafka::is_topic(name) => {
            bail!("--consumer {name:?}: a name of letters, digits, and . _ -")
        }
        (Some(name), _) => Ok(name.clone()),
        (None, _) => {
            let name = format!("remora_{}_{}", into.schema, into.table);
            let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
            Ok(name.chars().map(plain).collect())
        }
    }
}
