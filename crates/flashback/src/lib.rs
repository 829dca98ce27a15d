//! SQL that takes back what transactions of a binary log changed, as MariaDB's `--flashback` does for whole
//! logs.
//!
//! [`Undo`] takes transactions from a walk over the log and turns each row that is asked for around: a
//! deleted row is inserted again. It writes them to a [`Spool`], which is read from its end. [`script`] makes
//! the transaction of it that checks itself. [`Cascades`] finds rows that foreign keys changed, which no log
//! has: a private server replays the log on a backup. Nothing here executes SQL on a server of the user.

mod backup_definitions;
mod cascades;
pub mod script;
mod spool;
mod statement;
mod table_form;
mod undo;
mod undo_record;

pub use backup_definitions::FromBackups;
pub use cascades::{Cascades, Origin, Query};
pub use spool::Spool;
pub use undo::{Sums, Undo};
pub use undo_record::Records;
