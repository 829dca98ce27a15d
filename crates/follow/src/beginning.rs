//! From where a copy is followed.

use dump::CopySummary;
use server::catalogue::Table;
use server::{Position, TableName, Target};

use crate::check::cascading;
use crate::{Error, Followed, Noted, Reached, State, begun};

/// Which file of its log the source wrote before the copy, and when that was begun.
pub struct LogFile {
    name: String,
    begun: u32,
}

impl LogFile {
    /// The one that it writes now. That it is found says that this account may read the log, too.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no log.
    pub fn of(state: &State, from: &Target) -> Result<LogFile, Error> {
        let position = from.connect()?.position()?;
        let Some(Position { file, .. }) = position else {
            return Err(Error::Usage(
                "A has no binary log (log_bin), or this account may not see its position".to_owned(),
            ));
        };
        let begun = begun(state, from, &file)?;
        Ok(LogFile { name: file, begun })
    }

    /// From where to follow a copy.
    ///
    /// # Errors
    /// [`Error::Usage`] if the log was begun again meanwhile.
    pub fn noted(&self, state: &State, from: &Target, summary: &CopySummary) -> Result<Noted, Error> {
        let position = summary.source.position.clone().ok_or_else(|| {
            Error::Usage("the position of the snapshot in A's binary log is not known".to_owned())
        })?;
        let found = begun(state, from, &position.file)?;
        if position.file == self.name && found != self.begun {
            return Err(Error::Usage(
                "A's binary log was begun again while it was copied (RESET MASTER); start again with --resume".to_owned(),
            ));
        }
        let tables = followed(from, &summary.tables)?;
        let reached = Reached { position, begun: found };
        Ok(Noted { source: from.to_string(), reached, stopped: None, tables, cut_over: None })
    }
}

/// What is followed of these tables, which have names on the target.
///
/// # Errors
/// Those of the server.
pub fn followed(from: &Target, tables: &[(Table, TableName)]) -> Result<Vec<Followed>, Error> {
    let cascading = cascading(&mut from.connect()?)?;
    let followed = |(table, target): &(Table, TableName)| Followed {
        table: table.clone(),
        target: target.clone(),
        cascades: cascading.get(&table.name).cloned().unwrap_or_default(),
    };
    Ok(tables.iter().map(followed).collect())
}
