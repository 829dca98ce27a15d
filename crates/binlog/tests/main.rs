//! Logs that real servers wrote: every event, every group, every cut and every flipped byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/archive.rs"]
mod archive;
#[path = "main/arrival.rs"]
mod arrival;
#[path = "main/beyond.rs"]
mod beyond;
#[path = "main/damage.rs"]
mod damage;
#[path = "main/event.rs"]
mod event;
#[path = "main/mysql.rs"]
mod mysql;
#[path = "main/mysql_json.rs"]
mod mysql_json;
#[path = "main/prune.rs"]
mod prune;
#[path = "main/segments.rs"]
mod segments;
#[path = "main/segments_damage.rs"]
mod segments_damage;
#[path = "main/segments_names.rs"]
mod segments_names;
#[path = "main/support.rs"]
mod support;
#[path = "main/written.rs"]
mod written;
#[path = "main/written_value.rs"]
mod written_value;
