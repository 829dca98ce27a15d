//! A change of a row, and where it comes from.

use binlog::event::Change;
use binlog::row::Value;

use crate::position::LogPosition;

/// Where a change comes from.
pub(crate) struct Source<'a> {
    /// What the log is called.
    pub(crate) name: &'a str,
    pub(crate) schema: &'a str,
    pub(crate) table: &'a str,
    /// When its transaction ended, in seconds since 1970.
    pub(crate) time: i64,
    pub(crate) server_id: u32,
    pub(crate) thread_id: Option<u32>,
    pub(crate) gtid: Option<String>,
    /// Where its transaction begins.
    pub(crate) position: LogPosition,
    pub(crate) is_mariadb: bool,
}

/// A change of a row.
pub(crate) struct Changed<'a> {
    pub(crate) change: Change,
    /// Its values before; `None` if it was not there.
    pub(crate) before: Option<Vec<Value<'a>>>,
    /// Its values after; `None` if it is not there any more.
    pub(crate) after: Option<Vec<Value<'a>>>,
    /// Its number in the transaction, from 0.
    pub(crate) row: u64,
}
