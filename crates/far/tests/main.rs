//! The far side in a thread, with a disk in memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/backup.rs"]
mod backup;
#[path = "main/file.rs"]
mod file;
#[path = "main/frame.rs"]
mod frame;
#[path = "main/pages.rs"]
mod pages;
#[path = "main/support.rs"]
mod support;
#[path = "main/tree.rs"]
mod tree;
