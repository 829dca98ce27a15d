//! Walks over logs that servers wrote. The logs and what their servers say of them are in the crate `binlog`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/archive.rs"]
mod archive;
#[path = "main/damage.rs"]
mod damage;
#[path = "main/definitions.rs"]
mod definitions;
#[path = "main/filter.rs"]
mod filter;
#[path = "main/find.rs"]
mod find;
#[path = "main/support.rs"]
mod support;
#[path = "main/walk.rs"]
mod walk;
#[path = "main/written.rs"]
mod written;
