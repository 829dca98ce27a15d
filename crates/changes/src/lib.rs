//! Changes of rows as files, for engines that read them where they are: `remora log --to`.
//!
//! [`publish`] reads binary logs from a position on and writes what they change into files of a folder or an
//! object store, a folder for each table. The log is cut into batches. All files of a batch have the
//! position of its beginning in their names.
//!
//! **Exactly once.** Before the first file of a batch gets its name, the batch's beginning and end are noted
//! in `position::NAME`; when all have theirs, that the next batch begins there. A run that finds an unended
//! batch reads exactly that part of the log again, so the same files come about under the same names.
//!
//! `json` writes JSON lines in the envelope of Debezium, `parquet` Parquet with columns of the kind that
//! Delta's change data feed has. docs/formats/changes.md describes both.

mod batch;
mod cell;
mod format;
mod json;
mod parquet;
mod position;
mod publish;
mod request;
mod sink;
mod statement;
mod writer;

pub use format::Format;
pub use position::LogPosition;
pub use publish::publish;
pub use request::{BATCH_BYTES, Request, Start, Summary};
