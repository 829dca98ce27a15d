//! `remora queue forward`

use std::path::PathBuf;

use anyhow::{Result, bail};
use broker::{Address, is_name, is_subject};
use clap::Args;
use server::TableName;

use super::publish::Messages;
use super::receive::Receipt;
use super::relay::{Route, Rows, To};
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::Exit;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server with the rows: mysql://user@host:port or unix:///path. Or a broker with messages:
    /// nats://host, with user:password@ before the host if it asks for them; tls://host encrypts
    #[arg(value_name = "FROM")]
    from: String,

    /// The queue there: db.table, or db.table@reader. On a broker a subject that a stream of JetStream keeps
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The server or the broker that gets them
    #[arg(value_name = "TO")]
    to: String,

    /// The queue there, with columns of the same names [default: as on the source], or the subject
    #[arg(value_name = "QUEUE")]
    into: Option<String>,

    /// End when nothing waits any more, instead of waiting for more rows
    #[arg(long)]
    once: bool,

    /// The column that has the text of a message [default: a message is an object of JSON with a member for
    /// each column]
    #[arg(long, value_name = "COLUMN")]
    body: Option<String>,

    /// The name under which a broker remembers what has come. Forwarders with one name share the messages;
    /// those with other names get them all [default: remora_DB_TABLE]
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let (from, to) = (Address::is_meant(&arguments.from), Address::is_meant(&arguments.to));
    let target = |url: &str| arguments.server.at(url).target(password.clone());
    if !from && arguments.consumer.is_some() {
        bail!("--consumer is for messages that come from a broker");
    }
    match (from, to) {
        (true, true) => bail!("one of both must be a server with a queue: mysql://host or unix:///path"),
        (true, false) => {
            let to = target(&arguments.to)?;
            let Some(into) = &arguments.into else {
                bail!("the queue that gets the messages: remora queue forward FROM SUBJECT TO db.table")
            };
            let into = table_name("QUEUE", into, &to)?;
            let receipt = Receipt {
                from: broker(&arguments.from)?,
                messages: messages(arguments, &arguments.queue, true)?,
                consumer: consumer(arguments, &into)?,
                to,
                into,
                once: arguments.once,
                stop: stop_flag(report)?,
            };
            receipt.run_and_tell(report)
        }
        (false, _) => {
            let from = target(&arguments.from)?;
            // A name in backquotes may have an @.
            let named = arguments.queue.rsplit_once('@').filter(|(_, reader)| !reader.contains('`'));
            let (queue, reader) = named
                .map_or((arguments.queue.as_str(), None), |(queue, reader)| (queue, Some(reader.to_owned())));
            let queue = table_name("QUEUE", queue, &from)?;
            let rows = Rows { reader, once: arguments.once, ..Rows::default() };
            let to = if to {
                let Some(subject) = &arguments.into else {
                    bail!(
                        "the subject of the messages: remora queue forward FROM db.table nats://host SUBJECT"
                    )
                };
                To::Subject(broker(&arguments.to)?, messages(arguments, subject, false)?)
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
            Route { from, queue, to, rows, stop: stop_flag(report)? }.run_and_tell("forwarded", report)
        }
    }
}

fn broker(url: &str) -> Result<Address> {
    let trusted = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    Ok(Address { trusted, ..Address::parse(url)? })
}

fn messages(arguments: &Arguments, subject: &str, wildcards: bool) -> Result<Messages> {
    if !is_subject(subject, wildcards) {
        bail!("{subject:?} is no subject: words with dots between them, such as orders.new");
    }
    Ok(Messages { subject: subject.to_owned(), body: arguments.body.clone() })
}

fn consumer(arguments: &Arguments, into: &TableName) -> Result<String> {
    match &arguments.consumer {
        Some(name) if is_name(name) => Ok(name.clone()),
        Some(name) => bail!("--consumer {name:?}: a name without spaces and without . * > / \\"),
        None => {
            let name = format!("remora_{}_{}", into.schema, into.table);
            Ok(name.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '_' }).collect())
        }
    }
}
