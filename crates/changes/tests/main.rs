//! Changes out of logs that servers wrote.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::disallowed_methods, reason = "a test lays out its own files")]

#[path = "main/crash.rs"]
mod crash;
#[path = "main/form.rs"]
mod form;
#[path = "main/refuse.rs"]
mod refuse;
#[path = "main/support.rs"]
mod support;
