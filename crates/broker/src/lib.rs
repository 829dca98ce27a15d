//! Message brokers that rows of a queue go to and come from: NATS with JetStream, and [`kafka`].
//!
//! [`Address`] says where a server of NATS is, [`Link`] is a connection to it, and [`Stream`] and
//! [`Consumer`] are what JetStream keeps. Calls block, and have a time limit. [`Error::is_gone`] tells when
//! to connect again.

mod address;
mod jetstream;
pub mod kafka;
mod link;
mod protocol;
mod secure;
mod socket;

pub use address::Address;
pub use jetstream::{Arrival, Consumer, Delivery, Stream, is_name, is_subject, publish};
pub use link::Link;

/// Reads any bytes as what a server of NATS and one of Kafka say: for the fuzzer.
#[doc(hidden)]
pub fn read_any(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((_, length))) = protocol::parse(rest) {
        rest = &rest[length..];
    }
    kafka::read_any(bytes);
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no address of a server. It is not repeated: it may contain a password.
    #[error("the URL of the broker: {0}")]
    BadUrl(&'static str),
    /// The server can't be reached, or the connection was lost.
    #[error("{server}: {source}")]
    Io {
        /// Its host and port.
        server: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The server does not want this client, or what it asks for.
    #[error("{server} says: {why}")]
    Refused {
        /// Its host and port.
        server: String,
        /// Its words.
        why: String,
    },
    /// Bytes that are not the protocol.
    #[error("{server} does not speak the protocol of {protocol}: {what}")]
    Protocol {
        /// Its host and port.
        server: String,
        /// Whose protocol it is.
        protocol: &'static str,
        /// Which bytes.
        what: &'static str,
    },
    /// A secure connection is not possible.
    #[error("{server}: TLS: {why}")]
    Tls {
        /// Its host and port.
        server: String,
        /// Why not.
        why: String,
    },
    /// No stream keeps messages of a subject, or nothing keeps messages at all.
    #[error(
        "no stream of JetStream takes the subject {0}: make one there, such as with: nats stream add ORDERS --subjects {0}"
    )]
    NoStream(String),
    /// JetStream refuses a request.
    #[error("JetStream: {0}")]
    JetStream(String),
    /// The cluster has no such topic, or this user may not know it.
    #[error(
        "there is no topic {0} for this user: make it, such as with: kafka-topics.sh --bootstrap-server HOST:PORT --create \
         --topic {0}"
    )]
    NoTopic(String),
    /// Kafka refuses something, or what it has can't be read.
    #[error("Kafka: {what}: {why}")]
    Kafka {
        /// What it is about.
        what: String,
        /// The name of the error, and what to do.
        why: String,
        /// Whether it may be better some time later.
        passes: bool,
    },
    /// A message is longer than the server takes.
    #[error("the message has {bytes} bytes, and the server takes at most {limit} (max_payload)")]
    TooLong {
        /// Its length, with headers.
        bytes: usize,
        /// The server's limit.
        limit: usize,
    },
}

impl Error {
    /// Whether it makes sense to connect again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Io { .. } | Error::Kafka { passes: true, .. })
    }
}
