//! Tests of the store, against a small one in this process that can misbehave.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/fake.rs"]
mod fake;
#[path = "main/mirror.rs"]
mod mirror;
