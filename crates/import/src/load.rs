//! One reader and several sessions load chunks into the table, each in one transaction with its ledger line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use server::Session;

use crate::bisect::{Bisect, BisectResult};
use crate::chunk::{Chunk, Chunker, Cut};
use crate::contradiction::FileContradiction;
use crate::job::LoadStrategy;
use crate::ledger::{FinishedChunks, Ledger};
use crate::reject::Reject;
use crate::request::OnDuplicate;
use crate::sender::{ChunkSender, SendMethod};
use crate::source::Files;
use crate::{Duplicates, Error};
use progress::Progress;

/// How often a chunk is tried again after a deadlock with another.
const TRIES: u32 = 20;

/// Everything a load needs.
pub(crate) struct Load<'a> {
    /// The files.
    pub files: &'a Files<'a>,
    /// How they are cut.
    pub cut: Cut,
    /// How records are sent.
    pub wire: Arc<ChunkSender>,
    /// Where chunks are recorded.
    pub ledger: &'a Ledger,
    /// Chunks that an earlier run has loaded.
    pub finished: &'a FinishedChunks,
    /// A new session, prepared for loading.
    pub connect: &'a (dyn Fn() -> Result<Session, Error> + Sync),
    /// The first statement of a single transaction.
    pub opening: Option<String>,
    /// Sessions that load at the same time.
    pub sessions: usize,
    /// The most bad rows allowed, including those of earlier runs.
    pub rejects_max: u64,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

/// The result of a load.
pub(crate) struct Loaded {
    /// Rows that are loaded, including those of earlier runs.
    pub rows: u64,
    /// Rejected rows, including those of earlier runs.
    pub rejects: Vec<Reject>,
    /// Bytes of text.
    pub bytes: u64,
    /// Rows whose key already existed, including those of earlier runs.
    pub duplicates: Duplicates,
    /// The session of a single transaction, still open.
    pub open: Option<Session>,
}

/// What the threads share.
struct Shared {
    error: Mutex<Option<Error>>,
    /// Chunks from this number on do not matter any more.
    end: AtomicU32,
    committed: AtomicU64,
    /// Rejects by chunk; those of earlier runs are in the chunks of those runs.
    rejects: Mutex<BTreeMap<u32, Vec<Reject>>>,
    duplicates: Mutex<Duplicates>,
    bytes: AtomicU64,
}

impl Load<'_> {
    /// Loads everything that is not loaded yet.
    pub(crate) fn run(&self) -> Result<Loaded, Error> {
        let earlier = self.finished.iter().filter(|(_, chunk)| !chunk.rejects.is_empty());
        let mut duplicates = Duplicates::default();
        self.finished.values().for_each(|chunk| duplicates.add(&chunk.duplicates));
        let shared = Shared {
            error: Mutex::new(None),
            end: AtomicU32::new(u32::MAX),
            committed: AtomicU64::new(self.finished.values().map(|chunk| chunk.loaded).sum()),
            rejects: Mutex::new(earlier.map(|(number, chunk)| (*number, chunk.rejects.clone())).collect()),
            duplicates: Mutex::new(duplicates),
            bytes: AtomicU64::new(0),
        };
        let (send, chunks) = crossbeam_channel::bounded::<Chunk>(1);
        let open = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.sessions)
                .map(|_| {
                    let (chunks, shared) = (chunks.clone(), &shared);
                    scope.spawn(move || self.work(&chunks, shared).unwrap_or_else(|error| shared.fail(error)))
                })
                .collect();
            drop(chunks);
            if let Err(error) = self.read(&send, &shared) {
                shared.fail(error);
            }
            drop(send);
            workers.into_iter().filter_map(|worker| worker.join().unwrap_or(None)).next()
        });
        let rows = shared.committed.into_inner();
        let rejects: Vec<Reject> = shared
            .rejects
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .into_values()
            .flatten()
            .collect();
        if let Some(error) = shared.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(self.explain(error, rows));
        }
        if shared.end.into_inner() < u32::MAX {
            return Err(self.explain(Error::Rejects { rejects, limit: self.rejects_max }, rows));
        }
        let duplicates = shared.duplicates.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Loaded { rows, rejects, bytes: shared.bytes.into_inner(), duplicates, open })
    }

    fn explain(&self, error: Error, rows: u64) -> Error {
        let rows = if self.wire.job.strategy == LoadStrategy::OneTransaction { 0 } else { rows };
        match error {
            Error::Stopped | Error::Different { .. } => error,
            error if error.is_passing() || self.wire.job.strategy == LoadStrategy::ByChunk => {
                Error::Interrupted { rows, source: Box::new(error) }
            }
            error => error,
        }
    }

    fn read(&self, chunks: &Sender<Chunk>, shared: &Shared) -> Result<(), Error> {
        let mut chunker = Chunker::new(self.files, self.cut.clone(), self.sessions + 2, self.progress);
        let mut seen = 0;
        loop {
            let next = chunker.next_chunk();
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let Some(chunk) = next.map_err(|error| self.unlike(error, seen))? else { break };
            if shared.is_over(chunk.number) {
                return Ok(());
            }
            shared.bytes.fetch_add(chunk.bytes().len() as u64, Ordering::Relaxed);
            if let Some(finished) = self.finished.get(&chunk.number) {
                seen += 1;
                if (finished.bytes, finished.checksum) != (chunk.bytes().len() as u64, chunk.checksum()) {
                    return Err(different(&chunk));
                }
                self.progress.done(finished.loaded, finished.bytes);
                continue;
            }
            if chunks.send(chunk).is_err() {
                return Ok(());
            }
        }
        if seen < self.finished.len() {
            let name = self.files.name(self.files.len().saturating_sub(1)).to_owned();
            return Err(Error::Different { name, what: "it is shorter than before".to_owned() });
        }
        Ok(())
    }

    /// If a file could be cut in an earlier run and can't be cut now, it is a different file.
    fn unlike(&self, error: Error, seen: usize) -> Error {
        match error {
            Error::Encoding { name, line, what } | Error::Record { name, line, what }
                if seen < self.finished.len() =>
            {
                Error::Different { name, what: format!("line {line}: {what}") }
            }
            error => error,
        }
    }

    /// Loads chunks until there are no more. Returns the session if its transaction is still open.
    fn work(&self, chunks: &Receiver<Chunk>, shared: &Shared) -> Result<Option<Session>, Error> {
        let mut session = None;
        for chunk in chunks {
            if shared.is_over(chunk.number) {
                // Chunks arrive in order: other sessions may still work on earlier ones, but none comes here.
                return Ok(None);
            }
            if session.is_none() {
                session = Some(self.begin()?);
            }
            let Some(session) = &mut session else { return Ok(None) };
            if let Some(contradiction) = self
                .wire
                .dialect_check
                .as_ref()
                .and_then(|dialect_check| FileContradiction::of(&chunk, dialect_check))
            {
                return Err(contradiction.error());
            }
            let chunk = Arc::new(chunk);
            let Some(result) = self.load_chunk(session, &chunk, shared)? else {
                session.execute("ROLLBACK")?;
                continue;
            };
            shared.duplicates.lock().unwrap_or_else(PoisonError::into_inner).add(&result.duplicates);
            shared.committed.fetch_add(result.loaded, Ordering::Relaxed);
            self.progress.done(result.loaded, chunk.bytes().len() as u64);
        }
        match self.wire.job.strategy {
            // Without chunks there is still a table to empty and a transaction to end.
            LoadStrategy::OneTransaction if session.is_none() => self.begin().map(Some),
            LoadStrategy::OneTransaction => Ok(session),
            _ => Ok(None),
        }
    }

    fn begin(&self) -> Result<Session, Error> {
        let mut session = (self.connect)()?;
        if self.wire.job.strategy == LoadStrategy::OneTransaction {
            session.execute("START TRANSACTION")?;
            if let Some(opening) = &self.opening {
                session.execute(opening)?;
            }
        }
        Ok(session)
    }

    /// Loads one chunk, writes its ledger line and, except in a single transaction, commits. `None` when
    /// there are too many bad rows by now.
    fn load_chunk(
        &self,
        session: &mut Session,
        chunk: &Arc<Chunk>,
        shared: &Shared,
    ) -> Result<Option<BisectResult>, Error> {
        let mut tries = 0;
        loop {
            if self.wire.job.strategy != LoadStrategy::OneTransaction {
                session.execute("START TRANSACTION")?;
            }
            let result = self.load_within(session, chunk).and_then(|result| {
                if shared.add_rejects(chunk.number, &result.rejects, self.rejects_max) {
                    return Ok(None);
                }
                if self.wire.job.strategy != LoadStrategy::OneTransaction {
                    session.execute("COMMIT")?;
                }
                Ok(Some(result))
            });
            match result {
                Err(Error::Server(error))
                    if error.is_retryable()
                        && tries < TRIES
                        && self.wire.job.strategy != LoadStrategy::OneTransaction =>
                {
                    tries += 1;
                    tracing::debug!(chunk = chunk.number, tries, %error, "the chunk is tried again");
                    session.execute("ROLLBACK")?;
                }
                result => return result,
            }
        }
    }

    fn load_within(&self, session: &mut Session, chunk: &Arc<Chunk>) -> Result<BisectResult, Error> {
        const BACK: &str = "ROLLBACK TO SAVEPOINT remora_chunk";
        // A single transaction must not be rolled back as a whole because of one row.
        session.execute("SAVEPOINT remora_chunk")?;
        let mut method = self.wire.first_method();
        let mut outcome = self.wire.send(session, chunk, None, method)?;
        if outcome.clean.is_none()
            && self.wire.job.on_duplicate != OnDuplicate::Error
            && method == SendMethod::Load
        {
            // The warnings may only be about keys that already exist.
            session.execute(BACK)?;
            method = SendMethod::Insert;
            outcome = self.wire.send(session, chunk, None, method)?;
        }
        let result = match outcome.clean {
            Some(loaded) if outcome.ragged.is_empty() => {
                BisectResult { loaded, rejects: Vec::new(), duplicates: outcome.duplicates }
            }
            _ if self.wire.job.strategy == LoadStrategy::ShadowUnsafe => {
                let reason = outcome
                    .first_warning()
                    .or_else(|| outcome.ragged.first().map(|(_, reason)| reason.clone()));
                return Err(unsafe_reject(chunk, reason));
            }
            _ => {
                session.execute(BACK)?;
                let (result, found) = (BisectResult::default(), Vec::new());
                let rejects_max = self.rejects_max;
                Bisect { wire: &self.wire, session, chunk, method, rejects_max, result, found }.run()?
            }
        };
        self.ledger.add(session, chunk, &result)?;
        Ok(result)
    }
}

impl Shared {
    /// Keeps the first error, because later ones follow from it.
    fn fail(&self, error: Error) -> Option<Session> {
        self.end.store(0, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        None
    }

    /// Whether this chunk does not matter any more.
    fn is_over(&self, chunk: u32) -> bool {
        chunk >= self.end.load(Ordering::Relaxed)
    }

    /// Records a chunk's rejects; true when there are too many now. From then on only the chunks
    /// before the one that exceeds the limit, in the order of the files, are still loaded: the first bad rows
    /// must be listed, whichever session finds some first.
    fn add_rejects(&self, chunk: u32, rejects: &[Reject], rejects_max: u64) -> bool {
        let mut all = self.rejects.lock().unwrap_or_else(PoisonError::into_inner);
        // An earlier try may have found others.
        all.remove(&chunk);
        if rejects.is_empty() {
            return false;
        }
        all.insert(chunk, rejects.to_vec());
        let mut count = 0;
        let over = all.iter().find(|(_, rejects)| {
            count += rejects.len() as u64;
            count > rejects_max
        });
        let Some((&end, _)) = over else { return false };
        all.retain(|number, _| *number <= end);
        self.end.fetch_min(end, Ordering::Relaxed);
        true
    }
}

fn different(chunk: &Chunk) -> Error {
    Error::Different {
        name: chunk.name.to_string(),
        what: format!("the text has changed from line {} on", chunk.line),
    }
}

/// If the engine can't roll back there is no second try, so the position of the chunk is all that can be
/// told.
fn unsafe_reject(chunk: &Chunk, reason: Option<String>) -> Error {
    let last = chunk.line_at(chunk.bytes().len()).saturating_sub(1).max(chunk.line);
    let reject = Reject {
        file: chunk.file,
        name: chunk.name.to_string(),
        line: chunk.line,
        column: None,
        value: None,
        reason: format!(
            "at or before line {last}: {}; the table's engine can't roll back, so the row can't be identified",
            reason.unwrap_or_else(|| "the server did not accept every row".to_owned())
        ),
        record: Vec::new(),
    };
    Error::Rejects { rejects: vec![reject], limit: 0 }
}
