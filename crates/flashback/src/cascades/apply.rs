//! A session of the private server that applies events of a log, and takes that back.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binlog::event::rows::Rows;
use binlog::statement;
use server::Session;

/// The session.
pub(crate) struct Apply {
    session: Session,
}

impl Apply {
    /// Prepares a session. `format` is the body of the first event of a log of that server.
    pub(crate) fn new(mut session: Session, format: &[u8]) -> Result<Apply> {
        session.execute("SET SESSION sql_log_bin = 0")?;
        let mut apply = Apply { session };
        apply.run(&statement::format(format)).context("the private server takes no events")?;
        Ok(apply)
    }

    fn run(&mut self, events: &[u8]) -> Result<()> {
        self.session.execute(&format!("BINLOG '{}'", STANDARD.encode(events)))?;
        Ok(())
    }

    pub(crate) fn begin(&mut self) -> Result<()> {
        self.session.execute("BEGIN")?;
        Ok(())
    }

    /// Applies rows of a table, and the cascades of foreign keys.
    pub(crate) fn rows(&mut self, described: &[u8], rows: &Rows<'_>) -> Result<()> {
        self.run(&statement::rows(described, rows))
    }

    /// Takes everything back.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.session.execute("ROLLBACK")?;
        Ok(())
    }

    /// The server's number for the session.
    pub(crate) fn id(&self) -> u32 {
        self.session.connection_id()
    }
}
