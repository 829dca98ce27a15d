//! The ledger: a table next to the target that records which chunks are loaded. The line of a chunk commits
//! together with the chunk's rows, so that a stopped import knows exactly which rows it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use server::{Session, TableName, hex_literal};

use crate::bisect::BisectResult;
use crate::chunk::Chunk;
use crate::job::Job;
use crate::{Duplicates, Error, Reject};

/// The most bytes of a note in one statement, where they become twice as many digits.
const NOTE_BYTES: usize = 256 << 10;

/// A chunk that is loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finished {
    /// Checksum of its text.
    pub checksum: u32,
    /// Length of its text.
    pub bytes: u64,
    /// Rows that are in the table.
    pub loaded: u64,
    /// Rejected rows.
    pub rejects: Vec<Reject>,
    /// Rows whose key already existed.
    pub duplicates: Duplicates,
}

/// The rest of what is recorded for a chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    rejects: Vec<Reject>,
    #[serde(default)]
    duplicates: Duplicates,
}

/// A note as any version wrote it.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyNote {
    Now(Note),
    /// Version 1 had only rejects.
    First(Vec<Reject>),
}

/// All loaded chunks, by number.
pub(crate) type FinishedChunks = BTreeMap<u32, Finished>;

/// The ledger's table.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    table: TableName,
}

impl Ledger {
    /// The ledger in this table, whether it exists or not.
    pub(crate) fn new(table: &TableName) -> Ledger {
        Ledger { table: table.clone() }
    }

    /// Creates the ledger and writes the job as its first line. The table may be there, without a line.
    pub(crate) fn create(&self, session: &mut Session, job: &Job) -> Result<(), Error> {
        session.execute(&format!(
            "CREATE TABLE IF NOT EXISTS {} (chunk INT UNSIGNED NOT NULL, part INT UNSIGNED NOT NULL, \
             checksum INT UNSIGNED NOT NULL, bytes BIGINT UNSIGNED NOT NULL, loaded BIGINT UNSIGNED NOT NULL, \
             note LONGBLOB NOT NULL, PRIMARY KEY (chunk, part)) \
             ENGINE=InnoDB COMMENT='what a remora import has done; remora removes it when it is over'",
            self.table
        ))?;
        self.write(session, 0, &Finished::default(), &self.encode(job)?)
    }

    /// Writes the job again with its new state, as part of the session's transaction.
    pub(crate) fn update(&self, session: &mut Session, job: &Job) -> Result<(), Error> {
        let note = hex_literal(&self.encode(job)?);
        session.execute(&format!("UPDATE {} SET note = {note} WHERE chunk = 0", self.table))?;
        Ok(())
    }

    /// Records a chunk, as part of the session's transaction.
    pub(crate) fn add(
        &self,
        session: &mut Session,
        chunk: &Chunk,
        result: &BisectResult,
    ) -> Result<(), Error> {
        let finished = Finished {
            checksum: chunk.checksum(),
            bytes: chunk.bytes().len() as u64,
            loaded: result.loaded,
            ..Finished::default()
        };
        let note = match result.rejects.is_empty() && result.duplicates.is_empty() {
            true => Vec::new(),
            false => self.encode(&Note { rejects: result.rejects.clone(), duplicates: result.duplicates })?,
        };
        self.write(session, chunk.number, &finished, &note)
    }

    /// Writes a line, in parts if its note is long: all rows of a chunk may be bad, and no statement may
    /// exceed the server's max_allowed_packet.
    fn write(&self, session: &mut Session, number: u32, chunk: &Finished, note: &[u8]) -> Result<(), Error> {
        let parts = note.chunks(NOTE_BYTES).chain(note.is_empty().then_some(note));
        for (part, note) in parts.enumerate() {
            let Finished { checksum, bytes, loaded, .. } = chunk;
            session.execute(&format!(
                "INSERT INTO {} VALUES ({number}, {part}, {checksum}, {bytes}, {loaded}, {})",
                self.table,
                hex_literal(note)
            ))?;
        }
        Ok(())
    }

    /// Reads the ledger; `None` when there is none, or when whoever made it was killed before the first line:
    /// nothing was done then.
    pub(crate) fn read(&self, session: &mut Session) -> Result<Option<(Job, FinishedChunks)>, Error> {
        let (schema, table) = (session.quote(&self.table.schema), session.quote(&self.table.table));
        let there = session.value(&format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {table}"
        ))?;
        if there.is_none() {
            return Ok(None);
        }
        let mut finished = FinishedChunks::new();
        let mut notes: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        // A locking read, because the server may still be committing a chunk of a run that was just killed.
        for row in session.rows(&format!(
            "SELECT chunk, checksum, bytes, loaded, note FROM {} ORDER BY chunk, part LOCK IN SHARE MODE",
            self.table
        ))? {
            let number = |at: usize| {
                let cell = row.get(at).cloned().flatten().unwrap_or_default();
                String::from_utf8_lossy(&cell)
                    .parse::<u64>()
                    .map_err(|_| self.damaged("a number is no number"))
            };
            let small = |at| u32::try_from(number(at)?).map_err(|_| self.damaged("a number is too large"));
            notes.entry(small(0)?).or_default().extend(row.get(4).cloned().flatten().unwrap_or_default());
            let chunk = Finished {
                checksum: small(1)?,
                bytes: number(2)?,
                loaded: number(3)?,
                ..Finished::default()
            };
            finished.insert(small(0)?, chunk);
        }
        if finished.is_empty() {
            return Ok(None);
        }
        finished.remove(&0);
        let job = notes.remove(&0).map(|note| self.decode::<Job>(&note)).transpose()?;
        for (number, note) in notes.into_iter().filter(|(_, note)| !note.is_empty()) {
            if let Some(chunk) = finished.get_mut(&number) {
                let note = match self.decode(&note)? {
                    AnyNote::Now(note) => note,
                    AnyNote::First(rejects) => Note { rejects, ..Note::default() },
                };
                (chunk.rejects, chunk.duplicates) = (note.rejects, note.duplicates);
            }
        }
        let job = job.ok_or_else(|| self.damaged("it has no first line"))?;
        if !(Job::OLDEST..=Job::VERSION).contains(&job.version) {
            return Err(self.damaged("it was written by another version of remora"));
        }
        Ok(Some((job, finished)))
    }

    /// Removes the ledger.
    pub(crate) fn remove(&self, session: &mut Session) -> Result<(), Error> {
        session.execute(&format!("DROP TABLE IF EXISTS {}", self.table))?;
        Ok(())
    }

    fn encode<T: Serialize>(&self, what: &T) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(what).map_err(|error| self.damaged(&error.to_string()))
    }

    fn decode<T: serde::de::DeserializeOwned>(&self, note: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(note).map_err(|error| self.damaged(&error.to_string()))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Ledger { table: self.table.to_string(), what: what.to_owned() }
    }
}
