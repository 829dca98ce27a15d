//! Who waits for whom: locks of a running server as one graph of connections, and how the connection that
//! blocks others is ended.
//!
//! [`Picture::read`] asks each source of the server once. What it says becomes edges in pure functions:
//! `row` for InnoDB's rows, `metadata` for everything with a metadata lock, `table` for engines that lock
//! tables. [`tree`] puts them in order, [`kill`] ends connections, [`explain`] asks for the plan of what one
//! of them runs, and [`last_deadlock`] takes InnoDB's report apart.
//!
//! It prints nothing and decides nothing for the user.

mod connection;
mod deadlock;
pub mod explain;
mod graph;
pub mod kill;
mod metadata;
mod picture;
mod row;
mod table;
pub mod text;
mod transaction;
mod view;

pub use connection::{Connection, Role, is_lock_wait, one as connection, statement_kind};
pub use deadlock::{Deadlock, DeadlockLock, Participant, last_deadlock};
pub use graph::{Lock, LockKind, Node, Party, Wait, tree};
pub use picture::{Gap, Picture};
pub use transaction::Transaction;
