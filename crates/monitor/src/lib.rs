//! Several servers sampled at the same time, what is asked of them in an incident, and recordings.
//! What is shown in the same words everywhere is here, too: numbers in few characters, times, statements,
//! how a source is followed.
//!
//! What a sample is, and what is made of it, is in `status`.

pub mod fleet;
pub mod incident;
pub mod machine;
pub mod number;
pub mod recording;
pub mod replication;
pub mod statement;
pub mod time;
