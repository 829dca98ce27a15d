//! How far a target is: a table there, whose line changes in the same transaction as the rows.

use server::catalogue::OWN_SCHEMA;
use server::{Position, Session, TableName};

use crate::{Error, Followed};

/// The state of one copy on its target.
#[derive(Clone, Debug)]
pub struct State {
    id: String,
    position: TableName,
    tables: TableName,
}

/// A place in the source's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Where.
    pub position: Position,
    /// When the source began that file of its log, as the file says: another one may get the same name.
    pub begun: u32,
}

/// What a target notes.
#[derive(Clone, Debug)]
pub struct Noted {
    /// Up to there everything is applied.
    pub reached: Reached,
    /// Why it can't be continued from there.
    pub stopped: Option<String>,
    /// What is followed.
    pub tables: Vec<Followed>,
}

impl State {
    /// The state of the copy with this identifier.
    #[must_use]
    pub fn of(id: &str) -> State {
        let own = |table: String| TableName { schema: OWN_SCHEMA.to_owned(), table };
        State {
            id: id.to_owned(),
            position: own(format!("follow_{id}")),
            tables: own(format!("follow_{id}_tables")),
        }
    }

    /// The name of the lock that whoever writes this copy holds.
    pub(crate) fn lock_name(&self) -> String {
        format!("remora.copy_{}", self.id)
    }

    /// The number by which the source tells us from its replicas: always the same, and hardly another's.
    pub(crate) fn server_id(&self) -> u32 {
        let [a, b, c, d, ..] = *blake3::hash(self.position.table.as_bytes()).as_bytes();
        // People count from 1 on.
        u32::from_le_bytes([a, b, c, d]) | 0x8000_0000
    }

    /// Writes it. The database for it exists.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn create(&self, session: &mut Session, noted: &Noted) -> Result<(), Error> {
        self.remove(session)?;
        session.execute(&format!(
            "CREATE TABLE {} (number INT UNSIGNED NOT NULL PRIMARY KEY, description LONGTEXT CHARACTER SET utf8mb4 \
             NOT NULL) ENGINE=InnoDB COMMENT='tables that remora copy --follow changes'",
            self.tables
        ))?;
        for (number, followed) in noted.tables.iter().enumerate() {
            let text = serde_json::to_string(followed)
                .map_err(|error| Error::Refused(format!("{}: {error}", followed.table.name)))?;
            let text = session.quote(&text);
            session.execute(&format!("INSERT INTO {} VALUES ({number}, {text})", self.tables))?;
        }
        // The line in this one is written last: then all is there.
        session.execute(&format!(
            "CREATE TABLE {} (id TINYINT NOT NULL PRIMARY KEY, file VARCHAR(512) CHARACTER SET utf8mb4 NOT NULL, \
             position BIGINT UNSIGNED NOT NULL, gtid LONGTEXT CHARACTER SET utf8mb4 NOT NULL, file_begun BIGINT NOT NULL, \
             stopped LONGTEXT CHARACTER SET utf8mb4) ENGINE=InnoDB COMMENT='how far remora copy --follow is'",
            self.position
        ))?;
        let (file, gtid) =
            (session.quote(&noted.reached.position.file), session.quote(&noted.reached.position.gtid));
        session.execute(&format!(
            "INSERT INTO {} VALUES (1, {file}, {}, {gtid}, {}, NULL)",
            self.position, noted.reached.position.offset, noted.reached.begun
        ))?;
        Ok(())
    }

    /// What is noted, if anything is.
    ///
    /// # Errors
    /// Those of the server.
    pub fn read(&self, session: &mut Session) -> Result<Option<Noted>, Error> {
        if !self.exists(session)? {
            return Ok(None);
        }
        let sql = format!("SELECT file, position, gtid, file_begun, stopped FROM {}", self.position);
        let Some(row) = session.strings(&sql)?.into_iter().next() else { return Ok(None) };
        let [Some(file), Some(offset), Some(gtid), Some(begun), stopped] = row.as_slice() else {
            return Ok(None);
        };
        let unreadable = |what: &str| Error::Refused(format!("{}: {what} is not readable", self.position));
        let position = Position {
            file: file.clone(),
            offset: offset.parse().map_err(|_| unreadable("position"))?,
            gtid: gtid.clone(),
        };
        let begun = begun.parse().map_err(|_| unreadable("file_begun"))?;
        let rows = session.strings(&format!("SELECT description FROM {} ORDER BY number", self.tables))?;
        let followed = |row: Vec<Option<String>>| {
            let text = row.into_iter().flatten().next().unwrap_or_default();
            serde_json::from_str(&text).map_err(|_| unreadable("a table"))
        };
        let tables = rows.into_iter().map(followed).collect::<Result<_, Error>>()?;
        let reached = Reached { position, begun };
        Ok(Some(Noted { reached, stopped: stopped.clone(), tables }))
    }

    /// Notes a position, as part of the session's transaction.
    pub(crate) fn advance(&self, session: &mut Session, reached: &Reached) -> Result<(), server::Error> {
        let Reached { position, begun } = reached;
        let (file, gtid) = (session.quote(&position.file), session.quote(&position.gtid));
        let done = session.execute(&format!(
            "UPDATE {} SET file = {file}, position = {}, gtid = {gtid}, file_begun = {begun}, id = LAST_INSERT_ID(id)",
            self.position, position.offset
        ))?;
        // Without the line the position would be lost, and rows be applied twice.
        if done.last_insert_id == 1 {
            return Ok(());
        }
        Err(server::Error::Protocol { what: format!("{} has no line any more", self.position) })
    }

    /// Notes why it can't be continued.
    pub(crate) fn stop(&self, session: &mut Session, why: &str) -> Result<(), server::Error> {
        let why = session.quote(why);
        session.execute(&format!("UPDATE {} SET stopped = {why}", self.position)).map(drop)
    }

    /// Removes it, if it is there.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) fn remove(&self, session: &mut Session) -> Result<(), Error> {
        if self.exists(session)? || self.is_there(session, &self.tables)? {
            session.execute(&format!("DROP TABLE IF EXISTS {}, {}", self.position, self.tables))?;
        }
        Ok(())
    }

    fn exists(&self, session: &mut Session) -> Result<bool, Error> {
        self.is_there(session, &self.position)
    }

    fn is_there(&self, session: &mut Session, name: &TableName) -> Result<bool, Error> {
        let found = session.value(&format!(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{}'",
            name.schema, name.table
        ))?;
        Ok(found.is_some())
    }
}
