//! Definitions, values and files: what real servers wrote, and every type's limits.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/any_rows.rs"]
mod any_rows;
#[path = "main/definition.rs"]
mod definition;
#[path = "main/digest.rs"]
mod digest;
#[path = "main/export.rs"]
mod export;
#[path = "main/file.rs"]
mod file;
#[path = "main/index_page.rs"]
mod index_page;
#[path = "main/instant.rs"]
mod instant;
#[path = "main/json.rs"]
mod json;
#[path = "main/key_order.rs"]
mod key_order;
#[path = "main/mysql.rs"]
mod mysql;
#[path = "main/mysql_text.rs"]
mod mysql_text;
#[path = "main/mysql_type.rs"]
mod mysql_type;
#[path = "main/off_page.rs"]
mod off_page;
#[path = "main/page_check.rs"]
mod page_check;
#[path = "main/property.rs"]
mod property;
#[path = "main/redo.rs"]
mod redo;
#[path = "main/space.rs"]
mod space;
#[path = "main/sql_column.rs"]
mod sql_column;
#[path = "main/sql_text.rs"]
mod sql_text;
#[path = "main/support.rs"]
mod support;
#[path = "main/transaction.rs"]
mod transaction;
#[path = "main/value.rs"]
mod value;
#[path = "main/written.rs"]
mod written;
#[path = "main/written_bounds.rs"]
mod written_bounds;
#[path = "main/written_damage.rs"]
mod written_damage;
