//! What keys open, and what they do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/keys.rs"]
mod keys;
#[path = "main/block_sealer.rs"]
mod sealer;
#[path = "main/stream.rs"]
mod stream;
