//! Clients for the message brokers that queues exchange rows with: NATS with JetStream, and [`kafka`].
//!
//! [`Address`] is the URL of a NATS server, [`Link`] a connection to it; [`Stream`] and [`Consumer`] are the
//! JetStream objects. Calls block, with a timeout. After an error for which [`Error::is_retryable`] is true,
//! connect again.

mod address;
mod jetstream;
pub mod kafka;
mod link;
mod protocol;
mod secure;
mod socket;

pub use address::Address;
pub use jetstream::{Consumer, Delivery, PublishAck, Stream, is_name, is_subject, publish};
pub use link::Link;

/// Parses arbitrary bytes as answers of NATS and Kafka servers, for the fuzzer.
#[doc(hidden)]
pub fn read_any(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((_, length))) = protocol::parse(rest) {
        rest = &rest[length..];
    }
    kafka::read_any(bytes);
}

/// Why a broker call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a valid broker URL. The text is not repeated, because it may contain a password.
    #[error("broker URL: {0}")]
    BadUrl(&'static str),
    /// The broker can't be reached, or the connection was lost.
    #[error("{server}: {source}")]
    Io {
        /// Its host and port.
        server: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The broker refused the login or a request.
    #[error("{server}: refused: {why}")]
    Refused {
        /// Its host and port.
        server: String,
        /// The broker's message.
        why: String,
    },
    /// The broker sent bytes that the protocol does not allow.
    #[error("{server}: not the {protocol} protocol: {what}")]
    Protocol {
        /// Its host and port.
        server: String,
        /// NATS or Kafka.
        protocol: &'static str,
        /// What was wrong.
        what: &'static str,
    },
    /// The TLS handshake failed.
    #[error("{server}: TLS: {why}")]
    Tls {
        /// Its host and port.
        server: String,
        /// The reason.
        why: String,
    },
    /// No JetStream stream stores the subject.
    #[error(
        "no JetStream stream stores the subject {0}; create one, for example: nats stream add ORDERS --subjects {0}"
    )]
    NoStream(String),
    /// JetStream refused a request.
    #[error("JetStream: {0}")]
    JetStream(String),
    /// The topic does not exist, or the user may not see it.
    #[error(
        "there is no topic {0} that this user may see; create it, for example: kafka-topics.sh --bootstrap-server HOST:PORT \
         --create --topic {0}"
    )]
    NoTopic(String),
    /// Kafka refused a request, or its records can't be read.
    #[error("Kafka: {what}: {why}")]
    Kafka {
        /// The topic, partition or group.
        what: String,
        /// The error's name, and what to do about it.
        why: String,
        /// Whether a retry may succeed.
        is_transient: bool,
    },
    /// The message exceeds the server's limit.
    #[error("the message has {bytes} bytes; the server accepts at most {limit} (max_payload)")]
    TooLong {
        /// Its length, with headers.
        bytes: usize,
        /// The server's limit.
        limit: usize,
    },
}

impl Error {
    /// Whether connecting again may help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Io { .. } | Error::Kafka { is_transient: true, .. })
    }
}
