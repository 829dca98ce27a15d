//! The LSNs of a running server.

use server::Session;

use crate::Error;

/// LSNs in the redo log of a server, all read at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoPosition {
    /// The LSN of the next change: `Innodb_lsn_current`.
    pub current: u64,
    /// Everything before this LSN is in the file: `Innodb_lsn_flushed`.
    pub flushed: u64,
    /// The LSN of the last checkpoint: `Innodb_lsn_last_checkpoint`.
    pub checkpoint: u64,
}

impl RedoPosition {
    /// Asks the server.
    ///
    /// # Errors
    /// Errors of the server; [`Error::Rejected`] if it does not tell them, as before MariaDB 10.5.
    pub fn read(session: &mut Session) -> Result<RedoPosition, Error> {
        let rows = session.strings("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_%'")?;
        let value = |name: &str| {
            let row = rows.iter().find(|row| row.first().is_some_and(|told| told.as_deref() == Some(name)));
            let number = row.and_then(|row| row.get(1)?.as_ref()?.parse().ok());
            number.ok_or_else(|| Error::Rejected(format!("the server does not tell {name}")))
        };
        Ok(RedoPosition {
            current: value("Innodb_lsn_current")?,
            flushed: value("Innodb_lsn_flushed")?,
            checkpoint: value("Innodb_lsn_last_checkpoint")?,
        })
    }
}
