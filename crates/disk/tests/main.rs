//! The contract of every disk, and what a crash may do to an output file.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/contract.rs"]
mod contract;
#[path = "main/crash.rs"]
mod crash;
#[path = "main/direct.rs"]
mod direct;
