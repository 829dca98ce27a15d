//! What keys open, and what they do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/keys.rs"]
mod keys;
#[path = "main/vault.rs"]
mod sealer;
#[path = "main/stream.rs"]
mod stream;
