//! How far a target is: a table there, whose line changes in the same transaction as the rows. Others say
//! what is followed, when it was verified, and how far a cut-over is.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use server::catalogue::{OWN_SCHEMA, Table};
use server::{Position, Session, TableName};

use crate::{Error, Followed};

/// How long the server may still need to end a session of a process that was killed.
const LOCK_WAIT_S: u32 = 3;

/// The name of the note about DDL.
const INTENT: &str = "ddl";

/// The state of one copy on its target.
#[derive(Clone, Debug)]
pub struct State {
    id: String,
    position: TableName,
    tables: TableName,
    notes: TableName,
}

/// All rows of both servers were compared and equal, but those that changed meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Tables.
    pub tables: usize,
    /// Rows on the source.
    pub rows: u64,
    /// When, by the target's clock in UTC.
    #[serde(default)]
    pub at: String,
}

/// DDL that is about to be executed on the target, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// Where it is in the source's log.
    pub(crate) place: String,
    /// A hash of what its tables were.
    pub(crate) before: String,
}

/// How far a cut-over is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOver {
    /// Whether the target has taken over. Before that the source can be given back.
    pub is_over: bool,
    /// Variables of the source and their values before.
    pub variables: Vec<(String, String)>,
    /// Statements that take back what was made on the target.
    pub undo: Vec<String>,
    /// Up to where the target has the source's log.
    pub source: Position,
    /// The same place in the target's own log, if it has one.
    pub target: Option<Reached>,
}

/// A place in a server's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Where.
    pub position: Position,
    /// When the source began that file of its log, as the file says: another one may get the same name.
    pub begun: u32,
}

/// What a target notes.
#[derive(Clone, Debug)]
pub struct Noted {
    /// The address of the source.
    pub source: String,
    /// Up to there everything is applied.
    pub reached: Reached,
    /// Why it can't be continued from there.
    pub stopped: Option<String>,
    /// What is followed.
    pub tables: Vec<Followed>,
    /// How far a cut-over is, if one has begun.
    pub cut_over: Option<CutOver>,
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
            notes: own(format!("follow_{id}_notes")),
        }
    }

    /// The states of all copies into a target.
    ///
    /// # Errors
    /// Those of the server.
    pub fn all(session: &mut Session) -> Result<Vec<State>, Error> {
        let rows = session.strings(&format!(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{OWN_SCHEMA}' ORDER BY 1"
        ))?;
        let names = rows.into_iter().flatten().flatten();
        let id = |name: String| Some(name.strip_prefix("follow_")?.strip_suffix("_notes")?.to_owned());
        Ok(names.filter_map(id).map(|id| State::of(&id)).collect())
    }

    /// Keeps others from writing this copy, until the session ends. Returns whether that is so.
    ///
    /// # Errors
    /// Those of the server.
    pub fn lock(&self, session: &mut Session) -> Result<bool, Error> {
        Ok(session.lock(&self.lock_name(), LOCK_WAIT_S)?)
    }

    /// Keeps others from executing DDL for this copy, until the session ends. Returns whether that is so.
    pub(crate) fn lock_ddl(&self, session: &mut Session, wait_s: u32) -> Result<bool, Error> {
        Ok(session.lock(&format!("{}.ddl", self.lock_name()), wait_s)?)
    }

    /// Whether somebody follows now.
    ///
    /// # Errors
    /// Those of the server.
    pub fn is_followed(&self, session: &mut Session) -> Result<bool, Error> {
        Ok(session.lock_holder(&self.lock_name())?.is_some())
    }

    /// What identifies the copy.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The tables that the target has for it: these, and the ledger of its copy.
    pub(crate) fn own_tables(&self) -> [TableName; 4] {
        [self.position.clone(), self.tables.clone(), self.notes.clone(), dump::ledger_of_copy(&self.id)]
    }

    /// The name of the lock that whoever writes this copy holds.
    fn lock_name(&self) -> String {
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
        self.write_tables(session, &noted.tables)?;
        session.execute(&format!(
            "CREATE TABLE {} (name VARCHAR(20) CHARACTER SET ascii NOT NULL PRIMARY KEY, \
             value LONGTEXT CHARACTER SET utf8mb4 NOT NULL) ENGINE=InnoDB COMMENT='what remora copy --follow knows'",
            self.notes
        ))?;
        self.set_note(session, "source", &noted.source)?;
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

    fn write_tables(&self, session: &mut Session, tables: &[Followed]) -> Result<(), Error> {
        for (number, followed) in tables.iter().enumerate() {
            let text = serde_json::to_string(followed)
                .map_err(|error| Error::Refused(format!("{}: {error}", followed.table.name)))?;
            let text = session.quote(&text);
            session.execute(&format!("INSERT INTO {} VALUES ({number}, {text})", self.tables))?;
        }
        Ok(())
    }

    /// Notes DDL that is about to be executed.
    pub(crate) fn intend(&self, session: &mut Session, intent: &Intent) -> Result<(), Error> {
        self.set_note(session, INTENT, intent)
    }

    /// The DDL was not executed.
    pub(crate) fn withdraw_intent(&self, session: &mut Session) -> Result<(), Error> {
        session.execute(&format!("DELETE FROM {} WHERE name = '{INTENT}'", self.notes))?;
        Ok(())
    }

    /// The DDL that was about to be executed, or was.
    pub(crate) fn intent(&self, session: &mut Session) -> Result<Option<Intent>, Error> {
        self.note(session, INTENT)
    }

    /// Records in the ledger of the copy which tables DDL has made or altered, and removed.
    pub(crate) fn record_tables(
        &self,
        session: &mut Session,
        made: &[Table],
        gone: &[TableName],
    ) -> Result<(), Error> {
        Ok(dump::record_tables(session, &self.id, made, gone)?)
    }

    /// Notes what is followed after DDL, and from where.
    pub(crate) fn redefine(
        &self,
        session: &mut Session,
        tables: &[Followed],
        reached: &Reached,
    ) -> Result<(), Error> {
        session.execute("START TRANSACTION")?;
        session.execute(&format!("DELETE FROM {}", self.tables))?;
        self.write_tables(session, tables)?;
        self.advance(session, reached)?;
        session.execute("COMMIT")?;
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
        let source = self.note(session, "source")?.unwrap_or_default();
        let cut_over = self.how(session)?;
        Ok(Some(Noted { source, reached, stopped: stopped.clone(), tables, cut_over }))
    }

    /// Up to where everything is applied, as the session sees it.
    pub(crate) fn position(&self, session: &mut Session) -> Result<Position, Error> {
        let row = session.strings(&format!("SELECT file, position FROM {}", self.position))?;
        match row.into_iter().next().as_deref() {
            Some([Some(file), Some(offset)]) => Ok(Position {
                file: file.clone(),
                offset: offset.parse().unwrap_or_default(),
                gtid: String::new(),
            }),
            _ => Err(Error::Refused(
                "the target does not know how far it is: its state was removed".to_owned(),
            )),
        }
    }

    /// Notes that all rows were compared.
    pub(crate) fn verified(&self, session: &mut Session, verified: &mut Verified) -> Result<(), Error> {
        verified.at = session.value("SELECT UTC_TIMESTAMP()")?.unwrap_or_default();
        self.set_note(session, "verified", verified)
    }

    /// When all rows were compared last.
    ///
    /// # Errors
    /// Those of the server.
    pub fn last_verified(&self, session: &mut Session) -> Result<Option<Verified>, Error> {
        self.note(session, "verified")
    }

    /// How many seconds ago all rows were compared.
    pub(crate) fn verified_s_ago(&self, session: &mut Session) -> Result<Option<u64>, Error> {
        let Some(Verified { at, .. }) = self.last_verified(session)? else { return Ok(None) };
        let at = session.quote(&at);
        let ago = session.value(&format!("SELECT TIMESTAMPDIFF(SECOND, {at}, UTC_TIMESTAMP())"))?;
        Ok(ago.and_then(|ago| ago.parse().ok()))
    }

    /// Notes how far a cut-over is; `None` if there is none.
    pub(crate) fn cut_over(&self, session: &mut Session, how: Option<&CutOver>) -> Result<(), Error> {
        match how {
            Some(how) => self.set_note(session, "cut-over", how),
            None => {
                session.execute(&format!("DELETE FROM {} WHERE name = 'cut-over'", self.notes))?;
                Ok(())
            }
        }
    }

    /// How far a cut-over is, if one has begun.
    pub(crate) fn how(&self, session: &mut Session) -> Result<Option<CutOver>, Error> {
        self.note(session, "cut-over")
    }

    /// Whether the target has taken over. It waits for a session that notes this.
    pub(crate) fn is_over(&self, session: &mut Session) -> Result<bool, Error> {
        session.execute("START TRANSACTION")?;
        session.execute(&format!("SELECT value FROM {} WHERE name = 'cut-over' FOR UPDATE", self.notes))?;
        session.execute("COMMIT")?;
        Ok(self.how(session)?.is_some_and(|how| how.is_over))
    }

    fn set_note(&self, session: &mut Session, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value).map_err(|error| Error::Refused(error.to_string()))?;
        let text = session.quote(&text);
        session.execute(&format!("REPLACE INTO {} VALUES ('{name}', {text})", self.notes))?;
        Ok(())
    }

    fn note<T: DeserializeOwned>(&self, session: &mut Session, name: &str) -> Result<Option<T>, Error> {
        let text = session.value(&format!("SELECT value FROM {} WHERE name = '{name}'", self.notes))?;
        let unreadable = |_| Error::Refused(format!("{}: {name} is not readable", self.notes));
        text.map(|text| serde_json::from_str(&text).map_err(unreadable)).transpose()
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
            let Self { position, tables, notes, .. } = self;
            session.execute(&format!("DROP TABLE IF EXISTS {position}, {tables}, {notes}"))?;
        }
        Ok(())
    }

    pub(crate) fn exists(&self, session: &mut Session) -> Result<bool, Error> {
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
