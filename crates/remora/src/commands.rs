//! The commands: their arguments, and the calls that they make. This file has what several of them need.

pub(crate) mod backup;
pub(crate) mod binlog;
pub(crate) mod blockers;
pub(crate) mod copy;
pub(crate) mod cron;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod extract;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod kill;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod mirror;
pub(crate) mod mount;
pub(crate) mod pack;
pub(crate) mod poke;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod rekey;
pub(crate) mod restore;
pub(crate) mod reverse;
pub(crate) mod routines;
pub(crate) mod sandbox;
pub(crate) mod setup;
pub(crate) mod stat;
pub(crate) mod uncache;
pub(crate) mod undo;
pub(crate) mod url;
pub(crate) mod vars;
pub(crate) mod verify;
pub(crate) mod web;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use failure::usage;
use server::{TableName, Target, unquoted};

use crate::report::Report;
use crate::stop;

/// Cores of this machine that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The table that an argument names: `db.table`, or a table of the database given by `-D`, the address or an
/// option file.
pub(crate) fn table_name(argument: &str, text: &str, target: &Target) -> anyhow::Result<TableName> {
    if let Ok(name) = text.parse::<TableName>() {
        return Ok(name);
    }
    let schema = target.database.clone();
    let schema = schema.filter(|_| !text.is_empty() && !text.contains('.')).ok_or_else(|| {
        usage(format!("{argument} is '{text}': write db.table, or give the database with -D"))
    })?;
    Ok(TableName { schema, table: unquoted(text) })
}

/// A flag that is set when the program must stop. SIGUSR1 prints the progress line.
pub(crate) fn stop_flag(report: &Report) -> anyhow::Result<Arc<AtomicBool>> {
    let report = report.clone();
    stop::flag(move || report.print_line())
}
