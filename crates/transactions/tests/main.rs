//! Walks over logs that servers wrote. The logs and what their servers say of them are in the crate `binlog`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/damage.rs"]
mod damage;
#[path = "main/filter.rs"]
mod filter;
#[path = "main/find.rs"]
mod find;
#[path = "main/support.rs"]
mod support;
#[path = "main/walk.rs"]
mod walk;
