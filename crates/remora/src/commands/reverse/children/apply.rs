//! A session of the private server that applies events of a log, and takes that back.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binlog::statement;
use server::Session;

use crate::history::RowsEvent;

/// The session.
pub(super) struct Apply {
    session: Session,
}

impl Apply {
    /// Prepares a session. `format` is the body of the first event of a log of that server.
    pub(super) fn new(mut session: Session, format: &[u8]) -> Result<Apply> {
        session.execute("SET SESSION sql_log_bin = 0")?;
        let mut apply = Apply { session };
        apply.run(&statement::format(format)).context("the private server takes no events")?;
        Ok(apply)
    }

    fn run(&mut self, events: &[u8]) -> Result<()> {
        self.session.execute(&format!("BINLOG '{}'", STANDARD.encode(events)))?;
        Ok(())
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        self.session.execute("BEGIN")?;
        Ok(())
    }

    /// Applies rows, and what foreign keys do along.
    pub(super) fn event(&mut self, event: &RowsEvent<'_>) -> Result<()> {
        self.run(&statement::rows(event.described, event.rows)).with_context(|| {
            format!("the private server can't apply rows of {}.{}", event.table.schema, event.table.name)
        })
    }

    /// Takes everything back.
    pub(super) fn end(&mut self) -> Result<()> {
        self.session.execute("ROLLBACK")?;
        Ok(())
    }

    /// The server's number for the session.
    pub(super) fn id(&self) -> u32 {
        self.session.connection_id()
    }
}
