//! An import from beginning to end.

mod earlier;

use std::path::PathBuf;
use std::sync::Arc;

use server::{Session, quote_name, snapshot};

use crate::context::Context;
use crate::durability::{self, RelaxedDurability};
use crate::job::{Job, LoadStrategy, Names, State};
use crate::ledger::{Finished, FinishedChunks, Ledger};
use crate::load::{Load, Loaded};
use crate::plan::{self, Plan};
use crate::request::{Indexes, OnDuplicate, Physical, Request};
use crate::sender::ChunkSender;
use crate::shadow::{self, IndexTiming};
use crate::source::{Files, Reading, Stdin};
use crate::tablespace::{self, FillOutcome, TablespaceFill};
use crate::{Duplicates, Error, Input, Reject, connect, foreign, reject_files, target};
use progress::{Progress, count};

/// How long to wait for the lock of the table: the server may need a moment to notice that the last owner is
/// gone.
const LOCK_WAIT_S: u32 = 2;

/// The most seconds for which purge is held up.
const SNAPSHOT_MAX_S: u32 = 600;

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Rows that are in the table because of it.
    pub rows: u64,
    /// Rejected rows, in the order of the files.
    pub rejects: Vec<Reject>,
    /// The files they were written to.
    pub reject_files: Vec<PathBuf>,
    /// Bytes of text that were read.
    pub bytes: u64,
    /// Rows that an earlier, stopped run had loaded.
    pub resumed_rows: u64,
    /// Rows whose key already existed, and what happened to them.
    pub duplicates: Duplicates,
}

/// What an import would do.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The statement that creates the table, if it will be created.
    pub create: Option<String>,
    /// What was found out about the files, in one line.
    pub findings: String,
}

/// Examines the files and says what an import would do with them. No server is needed when the table will be
/// created.
///
/// # Errors
/// Those of [`import`] that can be known without the server.
pub fn preview(request: &Request, stdin: Option<Stdin>, context: &Context<'_>) -> Result<Preview, Error> {
    let look = || {
        let files = Files::new(context.disk, &request.inputs, stdin, &reading(request, true))?;
        let mut session = if request.create { None } else { Some((context.connect)()?) };
        let plan = plan::make(request, &files, context, session.as_mut().map(|session| (session, None)))?;
        Ok(Preview { create: plan.create.map(|create| create.sql(&request.table)), findings: plan.findings })
    };
    look().map_err(|error| context.stopped(error))
}

/// How the files of a request are read.
fn reading(request: &Request, twice: bool) -> Reading<'_> {
    Reading { twice, member: request.member.as_deref(), typed: foreign::options(request), hive: request.hive }
}

/// Imports files into a table.
///
/// # Errors
/// [`Error::Rejects`] for bad rows, with the target unchanged; temporary errors (see [`Error::is_passing`])
/// leave the loaded rows for `resume`.
pub fn import(request: &Request, stdin: Option<Stdin>, context: &Context<'_>) -> Result<Summary, Error> {
    begin(request, stdin, context).map_err(|error| context.stopped(error))
}

fn begin(request: &Request, stdin: Option<Stdin>, context: &Context<'_>) -> Result<Summary, Error> {
    // A name that is mistyped needs no server.
    for input in &request.inputs {
        if let Input::Path(path) = input {
            let found = context.disk.stat(path);
            found.map_err(|source| Error::Read { name: path.display().to_string(), source })?;
        }
    }
    let names = Names::of(&request.table, request.work_database.as_deref());
    let mut session = (context.connect)()?;
    earlier::restore_settings(&mut session, context.progress)?;
    connect::prepare(&mut session)?;
    if !session.lock(&names.lock(), LOCK_WAIT_S)? {
        return Err(Error::Busy { table: names.table.to_string() });
    }
    let result = locked(request, stdin, context, (&names, &mut session));
    // The next import then need not wait until the server notices the end of this session. If the session is
    // lost, so is the lock.
    session.unlock(&names.lock()).ok();
    result
}

/// The import, while nobody else can import into the table.
fn locked(
    request: &Request,
    stdin: Option<Stdin>,
    context: &Context<'_>,
    (names, session): (&Names, &mut Session),
) -> Result<Summary, Error> {
    let ledger = Ledger::new(&names.ledger);
    if request.relax_durability {
        durability::check(session)?;
    }
    earlier::refuse_other_import(session, names)?;
    let earlier = earlier::earlier(session, request, names, &ledger)?;
    let no_binlog = match &earlier {
        Some((job, _)) if request.no_binlog && !job.no_binlog => {
            return Err(Error::Mismatch(
                "rows of the stopped import are in the binary log already; resume it without --no-binlog, \
                 or begin again with --restart"
                    .to_owned(),
            ));
        }
        Some((job, _)) => job.no_binlog,
        None => request.no_binlog,
    };
    if no_binlog {
        unlogged(session, names, context.progress)?;
    }
    let twice = (request.create || request.physical != Physical::Never) && earlier.is_none();
    let files = Files::new(context.disk, &request.inputs, stdin, &reading(request, twice))?;
    let mut run = Run { request, context, names, ledger: &ledger, files: &files };
    let (job, finished, closed) = match earlier {
        Some(earlier) => run.resume_state(session, earlier).map(|(job, finished)| (job, finished, None))?,
        None => run.begin(session).map(|(job, closed)| (job, FinishedChunks::new(), closed))?,
    };
    run.execute(session, job, (&finished, closed))
}

/// Keeps the main session out of the binary log, as the others will be, and reports what that means.
fn unlogged(session: &mut Session, names: &Names, progress: &dyn Progress) -> Result<(), Error> {
    if session.about.galera {
        return Err(Error::Mismatch(
            "--no-binlog on a Galera cluster would leave the other nodes without the rows; leave it out"
                .to_owned(),
        ));
    }
    connect::log(session, false)?;
    if session.about.log_bin {
        progress.warn(&format!(
            "--no-binlog: nothing of this import is written to the binary log. Replicas keep {0} as it is there, or stay \
             without it; a later statement on rows that they don't have stops them. Import the same files on each",
            names.table
        ));
    }
    Ok(())
}

/// Totals of a completed load.
struct LoadTotals {
    rows: u64,
    rejects: Vec<Reject>,
    bytes: u64,
    duplicates: Duplicates,
}

/// A running import.
struct Run<'a> {
    request: &'a Request,
    context: &'a Context<'a>,
    names: &'a Names,
    ledger: &'a Ledger,
    files: &'a Files<'a>,
}

impl Run<'_> {
    /// Decides what to do and creates the work tables. If the table's file is written, all rows
    /// are in then.
    fn begin(&mut self, session: &mut Session) -> Result<(Job, Option<LoadTotals>), Error> {
        let door = Some((&mut *session, Some(self.names)));
        let plan = self.at_rest(plan::make(self.request, self.files, self.context, door))?;
        if let Some(schema) = &plan.schema {
            session.execute(&format!("CREATE DATABASE IF NOT EXISTS {}", quote_name(schema)))?;
        }
        // A staging table without a ledger is left from a run that died in between.
        shadow::discard(session, self.names)?;
        tablespace::sweep(session, self.names, self.context)?;
        let result = self.prepare(session, plan);
        if result.is_err() {
            // The first error is the one to report; the next run removes what is left.
            shadow::discard(session, self.names).ok();
        }
        result
    }

    fn prepare(&self, session: &mut Session, plan: Plan) -> Result<(Job, Option<LoadTotals>), Error> {
        let Plan { mut job, table, create, .. } = plan;
        let make = |session: &mut Session, job: &mut Job, indexes| {
            let straight = matches!(job.strategy, LoadStrategy::OneTransaction | LoadStrategy::ByChunk);
            if let Some(create) = &create {
                let made = session.execute(&create.sql(&self.names.shadow));
                made.map_err(|error| create.explain(error))?;
            } else if let (Some(table), false) = (&table, straight) {
                let timing = IndexTiming { asked: indexes, bytes: self.files.text_bytes() };
                let made = shadow::like(session, self.names, table, timing, self.context.progress)?;
                job.deferred = made.deferred;
                job.definition = made.definition;
            }
            Ok::<_, Error>(())
        };
        let mut closed = None;
        if self.request.physical != Physical::Never {
            make(session, &mut job, Indexes::Before)?;
            closed = self.fill(session, &mut job)?;
        }
        if closed.is_none() {
            shadow::discard(session, self.names)?;
            make(session, &mut job, self.request.indexes)?;
        }
        self.ledger.create(session, &job)?;
        Ok((job, closed))
    }

    /// Fills the staging table by writing its file, if that is possible.
    fn fill(&self, session: &mut Session, job: &mut Job) -> Result<Option<LoadTotals>, Error> {
        let fill = TablespaceFill { request: self.request, context: self.context, files: self.files, job };
        let filled = self.at_rest(fill.run(session, &self.names.shadow))?;
        match filled {
            FillOutcome::Whole { rows, bytes } => {
                self.files.unchanged()?;
                (job.state, job.filled) = (State::Swapping, Some(rows));
                Ok(Some(LoadTotals { rows, rejects: Vec::new(), bytes, duplicates: Duplicates::default() }))
            }
            FillOutcome::Refused(why) if self.request.physical == Physical::Auto => {
                self.context.progress.note(&format!("the rows are sent to the server: {why}"));
                Ok(None)
            }
            FillOutcome::Refused(why) => Err(Error::Target(format!(
                "the tablespace file can't be written: {why}; --physical=auto sends the rows to the server instead"
            ))),
        }
    }

    /// Resumes an import that was stopped.
    fn resume_state(
        &mut self,
        session: &mut Session,
        (job, finished): (Job, FinishedChunks),
    ) -> Result<(Job, FinishedChunks), Error> {
        if job.strategy != LoadStrategy::ShadowUnsafe || job.state != State::Loading {
            let rows: u64 = finished.values().map(|chunk| chunk.loaded).sum();
            self.context.progress.note(&format!("continuing after {} already loaded", count(rows, "row")));
            return Ok((job, finished));
        }
        self.context.progress.note("the table's engine can't roll back, so loading starts over");
        session.execute(&format!("TRUNCATE TABLE {}", self.names.shadow))?;
        self.ledger.remove(session)?;
        self.ledger.create(session, &job)?;
        Ok((job, FinishedChunks::new()))
    }

    /// Loads, swaps, tidies up. On failure, leaves everything as it was or ready to resume.
    fn execute(
        &mut self,
        session: &mut Session,
        job: Job,
        (finished, closed): (&FinishedChunks, Option<LoadTotals>),
    ) -> Result<Summary, Error> {
        let relaxed = match self.request.relax_durability && job.state == State::Loading {
            true => RelaxedDurability::apply(
                (self.context.connect)()?,
                &self.request.table.schema,
                self.context.progress,
            )?,
            false => None,
        };
        let result = self.load_and_swap(session, job.clone(), (finished, closed));
        let restored = relaxed.map_or(Ok(()), RelaxedDurability::restore);
        match result {
            Ok(summary) => {
                restored?;
                self.ledger.remove(session)?;
                Ok(summary)
            }
            Err(error) => {
                let tidied = match error.is_passing() {
                    true => Ok(()),
                    false => shadow::discard(session, self.names).and_then(|()| self.ledger.remove(session)),
                };
                if let Err(left) = tidied {
                    self.context.progress.warn(&format!("the work tables were not removed: {left}"));
                }
                Err(error)
            }
        }
    }

    fn load_and_swap(
        &mut self,
        session: &mut Session,
        mut job: Job,
        (finished, mut loaded): (&FinishedChunks, Option<LoadTotals>),
    ) -> Result<Summary, Error> {
        if job.state == State::Loading {
            let done = self.at_rest(self.load(session, &job, finished))?;
            let rows = done.rows;
            let closed = self.files.unchanged().and_then(|()| self.close(session, &mut job, done));
            loaded = Some(closed.map_err(|error| match job.strategy {
                LoadStrategy::ByChunk => Error::Interrupted { rows, source: Box::new(error) },
                _ => error,
            })?);
        }
        let closed = loaded.unwrap_or_else(|| {
            let rejects = finished.values().flat_map(|chunk| chunk.rejects.iter().cloned()).collect();
            let sum = |field: fn(&Finished) -> u64| finished.values().map(field).sum();
            let mut duplicates = Duplicates::default();
            finished.values().for_each(|chunk| duplicates.add(&chunk.duplicates));
            let rows = job.filled.unwrap_or(0) + sum(|chunk| chunk.loaded);
            LoadTotals { rows, rejects, bytes: sum(|chunk| chunk.bytes), duplicates }
        });
        let LoadTotals { rows, mut rejects, bytes, duplicates } = closed;
        rejects.sort_by_key(|reject| (reject.file, reject.line));
        let reject_files = self
            .write_rejects(&job, &rejects)
            .map_err(|error| Error::Interrupted { rows, source: Box::new(error) })?;
        if job.state == State::Swapping {
            shadow::swap(session, self.names, &job, rows.saturating_sub(duplicates.in_place_of_others()))?;
        }
        let resumed_rows = finished.values().map(|chunk| chunk.loaded).sum();
        Ok(Summary { rows, rejects, reject_files, bytes, resumed_rows, duplicates })
    }

    /// If somebody is writing to a file, that is the error to report first.
    fn at_rest<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Err(error) if !error.is_passing() => self.files.unchanged().and(Err(error)),
            result => result,
        }
    }

    fn load(&self, session: &Session, job: &Job, finished: &FinishedChunks) -> Result<Loaded, Error> {
        let progress = self.context.progress;
        progress.phase("loading", self.files.bytes());
        let straight = matches!(job.strategy, LoadStrategy::OneTransaction | LoadStrategy::ByChunk);
        let table = if straight { &self.names.table } else { &self.names.shadow };
        if !session.about.local_infile {
            progress
                .warn("the server has local_infile=OFF: rows go in by INSERT, which is several times slower");
        }
        let packet = usize::try_from(session.about.max_allowed_packet).unwrap_or(usize::MAX);
        let stop = Arc::clone(&self.context.stop);
        let _snapshot = self.put_off_purge(job)?;
        let connect = || connect::for_rows(self.request, self.context, job);
        let all = finished.is_empty();
        let opening = (job.replace && all).then(|| format!("DELETE FROM {table}"));
        // Of two rows with one key, the later one must not depend on which session is faster.
        let in_order = job.on_duplicate != OnDuplicate::Error;
        let one = matches!(job.strategy, LoadStrategy::OneTransaction | LoadStrategy::ShadowUnsafe);
        let load = Load {
            files: self.files,
            cut: job.cut(packet),
            wire: Arc::new(ChunkSender::new(job.clone(), table, &session.about, Arc::clone(&stop))),
            ledger: self.ledger,
            finished,
            connect: &connect,
            opening,
            sessions: if one || in_order { 1 } else { self.sessions(job) },
            rejects_max: self.request.rejects_max,
            stop,
            progress,
        };
        load.run()
    }

    /// Keeps the server from purging while rows are loaded into the staging table. After one LOAD DATA of the
    /// whole file purge would begin at the end; this has the same effect.
    fn put_off_purge(&self, job: &Job) -> Result<Option<Session>, Error> {
        if job.strategy != LoadStrategy::Shadow {
            return Ok(None);
        }
        Ok(snapshot::put_off_purge((self.context.connect)()?, SNAPSHOT_MAX_S)?)
    }

    /// The number of sessions that help: at most as many as the files have chunks.
    fn sessions(&self, job: &Job) -> usize {
        // One more than the number of cores: while a session waits for its commit, another works.
        let wanted = self.request.sessions.unwrap_or(self.context.cores.clamp(1, 8) + 1);
        let chunks = self.files.text_bytes().map_or(u64::MAX, |bytes| bytes.div_ceil(job.chunk_bytes as u64));
        wanted.min(usize::try_from(chunks).unwrap_or(usize::MAX)).max(1)
    }

    /// Ends the loading: builds deferred indexes, makes deferred checks, records that all rows are loaded.
    fn close(&self, session: &mut Session, job: &mut Job, loaded: Loaded) -> Result<LoadTotals, Error> {
        let Loaded { rows, rejects, bytes, duplicates, open } = loaded;
        match open {
            Some(mut transaction) => {
                self.check_foreign_keys(&mut transaction)?;
                job.state = State::Done;
                self.ledger.update(&mut transaction, job)?;
                transaction.execute("COMMIT")?;
            }
            None if job.strategy == LoadStrategy::ByChunk => {
                self.check_foreign_keys(session)?;
                job.state = State::Done;
                self.ledger.update(session, job)?;
            }
            None => {
                if !job.deferred.is_empty() {
                    self.context.progress.phase("building indexes", None);
                }
                shadow::build_indexes(session, self.names, job)?;
                job.state = State::Swapping;
                self.ledger.update(session, job)?;
            }
        }
        Ok(LoadTotals { rows, rejects, bytes, duplicates })
    }

    /// One anti-join for each foreign key that was not checked row by row: the table's own keys, and those of
    /// other tables that reference rows which were replaced.
    fn check_foreign_keys(&self, session: &mut Session) -> Result<(), Error> {
        if !self.request.defer_checks {
            return Ok(());
        }
        let table = &self.request.table;
        let Some(described) = target::describe(session, table)? else { return Ok(()) };
        let mut keys = described.foreign_keys;
        keys.extend(target::keys_to(session, table)?.into_iter().filter(|key| key.child != *table));
        for key in &keys {
            self.context.progress.phase(&format!("checking foreign key {}", key.name), None);
            let orphan = session.value(&key.orphan())?;
            if let Some(orphan) = orphan {
                return Err(Error::Target(format!(
                    "foreign key {} of {} is violated: no row of {} for {orphan}; \
                     without --defer-checks a line is named",
                    key.name, key.child, key.parent
                )));
            }
        }
        Ok(())
    }

    /// Writes the rejects of each file next to it: the rows unchanged, and the reasons.
    fn write_rejects(&self, job: &Job, rejects: &[Reject]) -> Result<Vec<PathBuf>, Error> {
        let mut written = Vec::new();
        for (at, input) in self.request.inputs.iter().enumerate() {
            let of_file: Vec<_> = rejects.iter().filter(|reject| reject.file == at).collect();
            if of_file.is_empty() {
                continue;
            }
            let base = match input {
                Input::Path(path) => path.clone(),
                Input::Stdin => self.context.folder.join("stdin"),
            };
            written.push(reject_files::write(self.context.disk, &base, (job, at), &of_file)?);
        }
        Ok(written)
    }
}
