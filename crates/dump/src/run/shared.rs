//! What the threads of a dump share: the request, and the progress of each table.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parquet_rows::Encodings;
use server::Hold;
use server::definition::with_counter;

use super::{Context, DumpRequest};
use crate::Error;
use crate::chunk_file::folders::FolderNames;
use crate::journal::Journal;
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::parallel::Failure;
use crate::reading::chunk_size::ChunkSize;
use crate::reading::throttle::Throttle;
use crate::table_progress::TableProgress;

/// What to do with the folder of a dump that was stopped.
pub(super) const STOPPED: &str = "the dump is incomplete: remove the folder, or dump into it again with --resume, which keeps its complete tables";

/// What all parts of a dump need.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) context: &'a Context,
    pub(super) request: &'a DumpRequest,
    pub(super) journal: &'a Journal,
    /// The time before which a table must have been created for an ALTER to show in that time.
    pub(super) settled: Option<&'a str>,
}

/// The progress of a table.
#[derive(Default)]
pub(super) struct State {
    pub(super) planned: bool,
    /// Chunks that are planned and not read yet.
    pub(super) open: usize,
    pub(super) chunks: Vec<Chunk>,
    /// The AUTO_INCREMENT counter, if rows have moved it since the catalogue was read.
    pub(super) counter: Option<u64>,
}

/// What the threads share.
pub(super) struct Shared<'a> {
    pub(super) job: Job<'a>,
    pub(super) manifest: &'a Manifest,
    pub(super) throttle: Throttle,
    pub(super) pace: Mutex<ChunkSize>,
    pub(super) states: Vec<Mutex<State>>,
    pub(super) tallies: Vec<TableProgress>,
    /// The encodings of each table's Parquet files.
    pub(super) encodings: Vec<Encodings>,
    /// The folders of each table's files, if it has some.
    pub(super) folders: Vec<FolderNames>,
    /// Tables that are locked until all are read, because no snapshot covers them.
    pub(super) locked: Mutex<(usize, Option<Hold>)>,
    /// Tables that DDL changed, and what was observed.
    pub(super) altered: Mutex<BTreeMap<usize, String>>,
    /// Tables whose rows the server can't read, and what it says.
    pub(super) damaged: Mutex<BTreeMap<usize, String>>,
    pub(super) failure: Failure,
}

impl State {
    /// Stores in the manifest what was found out about a table that was read.
    pub(super) fn store(self, entry: &mut TableEntry) {
        if let Some(counter) = self.counter {
            entry.table.definition = with_counter(&entry.table.definition, counter);
        }
        entry.set_chunks(self.chunks);
    }
}

impl<'a> Shared<'a> {
    pub(super) fn new(job: Job<'a>, manifest: &'a Manifest, locks: Option<Hold>) -> Shared<'a> {
        let request = &job.request.read;
        let due = || manifest.tables.iter().filter(|entry| entry.is_due());
        let unversioned = due().filter(|entry| !entry.table.is_transactional()).count();
        let tally = |entry: &TableEntry| TableProgress::new(&entry.table.name, entry.table.bytes);
        Shared {
            job,
            manifest,
            throttle: Throttle::new(request.limits, request.sessions),
            pace: request.chunk_size(&manifest.tables, job.request.format),
            states: manifest.tables.iter().map(|_| Mutex::default()).collect(),
            tallies: manifest.tables.iter().map(tally).collect(),
            encodings: manifest.tables.iter().map(|_| Encodings::of(job.request.parquet.encodings)).collect(),
            folders: manifest.tables.iter().map(|_| FolderNames::default()).collect(),
            locked: Mutex::new((unversioned, locks)),
            altered: Mutex::default(),
            damaged: Mutex::default(),
            failure: Failure::default(),
        }
    }

    /// Continues without a table that was altered, which is tried again in the end, or that can't be read.
    pub(super) fn survive(&self, at: usize, done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Err(Error::Object { source, .. }) if is_damage(&source) => {
                let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                damaged.entry(at).or_insert(source.to_string());
                Ok(())
            }
            Err(Error::Altered { what, .. }) => {
                let mut altered = self.altered.lock().unwrap_or_else(PoisonError::into_inner);
                altered.entry(at).or_insert(what);
                Ok(())
            }
            done => done,
        }
    }

    /// Whether it is useless to read more of a table.
    pub(super) fn is_out(&self, at: usize) -> bool {
        [&self.altered, &self.damaged]
            .into_iter()
            .any(|tables| tables.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&at))
    }

    pub(super) fn must_end(&self) -> bool {
        self.failure.is_there() || self.job.context.is_stopped()
    }

    pub(super) fn state(&self, table: usize) -> MutexGuard<'_, State> {
        self.states[table].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pace(&self) -> MutexGuard<'_, ChunkSize> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server says that the files of a table are missing or damaged. Numbers below 200 are those of
/// storage engines.
pub(super) fn is_damage(error: &server::Error) -> bool {
    /// Can't open, can't find the file; the engine failed; incorrect information, key file, old key file;
    /// crashed; the index is corrupt, the tablespace is missing or discarded; not in the engine.
    const DAMAGE: [u16; 12] = [1016, 1017, 1030, 1033, 1034, 1035, 1194, 1195, 1712, 1812, 1814, 1932];
    matches!(error, server::Error::Sql { code, .. } if *code < 200 || DAMAGE.contains(code))
}
