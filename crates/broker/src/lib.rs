//! Message brokers that rows of a queue go to and come from: NATS with JetStream.
//!
//! [`Address`] says where a server is, [`Link`] is a connection to it, and [`Stream`] and [`Consumer`] are
//! what JetStream keeps. Calls block, and have a time limit. [`Error::is_gone`] tells when to connect again.

mod address;
mod jetstream;
mod link;
mod protocol;
mod secure;

pub use address::Address;
pub use jetstream::{Arrival, Consumer, Delivery, Stream, is_name, is_subject, publish};
pub use link::Link;

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
    /// Bytes that are not the protocol of NATS.
    #[error("{server} does not speak the protocol of NATS: {what}")]
    Protocol {
        /// Its host and port.
        server: String,
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
        matches!(self, Error::Io { .. })
    }
}
