//! Rows as text: how a CSV, TSV or LOAD DATA file is cut into records and fields, what its columns contain,
//! and how a field is written for a server.
//!
//! Bytes in, values out. There is no I/O, no thread, no clock, and no allocation per row or field on the
//! paths that every row takes. It is not a writer of CSV files and not a schema library: the only SQL it
//! produces is one `CREATE TABLE`.
//!
//! The way of a file through this crate: [`sniff_encoding`] and [`Decoder`] convert its bytes to UTF-8, and
//! [`sniff`] finds its [`Dialect`] from a sample. [`Splitter`] cuts blocks at record ends, and [`records`]
//! and [`fields`] split a chunk. [`ColumnStats`] examines every value and chooses the column's type,
//! [`create_table`] prints the table and [`Rewriter`] turns each record into a line for `LOAD DATA`.
//!
//! ```
//! use rows::{ColumnStats, Dialect, Field, Nulls, fields, records};
//!
//! let (dialect, nulls) = (Dialect::CSV, Nulls { empty: true, words: Vec::new() });
//! let mut stats = vec![ColumnStats::new(), ColumnStats::new()];
//! let (mut scratch, mut row) = (Vec::new(), Vec::<Field<'_>>::new());
//! for record in records(&dialect, b"1,\"Smith, Ann\"\n300,\n") {
//!     fields(&dialect, record, &mut row);
//!     for (column, field) in stats.iter_mut().zip(&row) {
//!         let value = (!field.is_null(&nulls)).then(|| field.text(&dialect, &mut scratch));
//!         column.observe(value);
//!     }
//! }
//! assert_eq!(stats[0].decide().to_string(), "SMALLINT UNSIGNED NOT NULL");
//! assert_eq!(stats[1].decide().to_string(), "VARCHAR(10) NULL");
//! ```

mod backslash;
mod byte_marks;
mod contradiction;
mod date_time;
mod dialect;
mod dialect_check;
mod encoding;
mod error;
mod escape;
mod exact_value;
mod field;
mod file_signature;
mod format;
mod infer;
mod json;
mod lenient;
mod record_values;
mod rewrite;
mod schema;
mod sniff;
mod split;
mod unquoted;

pub use contradiction::{Contradiction, ContradictionKind, GuessedOptions};
pub use date_time::DateOrder;
pub use dialect::{Dialect, LineEnd};
pub use dialect_check::DialectCheck;
pub use encoding::{BadBytes, Decoder, Encoding, Legacy, UnknownEncoding};
pub use error::{BadLine, Error, Ragged, UnclosedQuote, Unfit};
pub use escape::{is_plain_load_data, unescape_load_data, write_csv, write_load_data, write_sql_literal};
pub use exact_value::Exact;
pub use field::{Field, Nulls, fields};
pub use file_signature::{foreign, foreign_text};
pub use format::{Format, Json, Translator, Typed, ValueForm};
pub use infer::{ColumnKind, ColumnStats, ColumnType, FewTexts, Habits, KeyStats, WordStats, Written};
pub use json::json_keys;
pub use lenient::Lenient;
pub use record_values::RecordValues;
pub use rewrite::{FieldRule, Rewriter, Value, Values};
pub use schema::{Column, Limits, Schema, column_names, create_table};
pub use sniff::{Findings, Hints, NotUtf8, not_utf8, sniff, sniff_encoding};
pub use split::{Records, Scan, Splitter, records, without_end_marks};
