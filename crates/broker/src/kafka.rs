//! Kafka: records in the partitions of a topic.
//!
//! [`Producer`] sends rows, and [`Consumer`] reads records. Both connect by themselves to the servers that lead
//! the partitions.

mod address;
mod cluster;
mod consumer;
mod link;
mod message;
mod producer;
mod record;
mod scram;
mod wire;

pub use address::Address;
pub use consumer::Consumer;
pub use producer::Producer;
pub use record::Record;

/// Whether a text can be the name of a topic.
pub fn is_topic(text: &str) -> bool {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    (1..=249).contains(&text.len()) && text.chars().all(is_good) && ![".", ".."].contains(&text)
}
