//! Tables that are filled by files, on real servers.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/change.rs"]
mod change;
#[path = "main/changed_pages.rs"]
mod changed_pages;
#[path = "main/concurrent.rs"]
mod concurrent;
#[path = "main/file_name.rs"]
mod file_name;
#[path = "main/page_check.rs"]
mod page_check;
#[path = "main/random.rs"]
mod random;
#[path = "main/redo.rs"]
mod redo;
#[path = "main/redo_copy.rs"]
mod redo_copy;
#[path = "main/support.rs"]
mod support;
#[path = "main/write.rs"]
mod write;
