//! A Kafka client: an idempotent producer and a consumer of one topic.
//!
//! [`Producer`] sends rows, [`Consumer`] reads records. Both connect to the partition leaders by themselves.

mod address;
mod cluster;
mod consumer;
mod link;
mod message;
mod producer;
mod record;
mod scram;
mod snappy;
mod wire;

pub use address::Address;
pub use consumer::Consumer;
pub use producer::Producer;
pub use record::Record;

/// Whether the text is a valid topic name.
pub fn is_topic(text: &str) -> bool {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    (1..=249).contains(&text.len()) && text.chars().all(is_good) && ![".", ".."].contains(&text)
}

/// Parses arbitrary bytes as each kind of answer, and as a batch with a valid checksum.
pub(crate) fn read_any(bytes: &[u8]) {
    drop(message::Metadata::read(bytes));
    drop(message::versions(bytes));
    message::sender(bytes);
    drop(message::produced(bytes));
    drop(message::offsets(bytes));
    message::coordinator(bytes);
    drop(message::committed(bytes));
    drop(message::commit_errors(bytes));
    drop(message::mechanisms(bytes));
    drop(message::authenticated(bytes));
    for part in message::fetched(bytes).into_iter().flat_map(|(_, parts)| parts) {
        part.batches(0).read().ok();
    }
    let batch = record::sealed(0, bytes);
    let aborted = vec![(0, 0)];
    record::Batches { partition: 0, from: 0, bytes: &batch, aborted }.read().ok();
}
