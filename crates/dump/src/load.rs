//! A load from beginning to end.

mod account;
mod check;
mod conditional;
mod dry_run;
mod follow;
mod ledger;
pub(crate) mod leftover;
mod object;
mod origin;
mod other_name;
mod rewrite;
mod rows;
pub(crate) mod schema_names;
mod send;
mod tablespace;
mod verify_objects;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use server::catalogue::{Kind, Object};
use server::{Session, TableName, Target, settings, snapshot};

use crate::context::Context;
use crate::definer::{self, Definer};
use crate::manifest::{Manifest, TableEntry};
use crate::selection::Selection;
use crate::verify::{self, ChunkOf};
use crate::{Error, hash::Sum};

use follow::RunningDump;

pub(crate) use check::select;
pub(crate) use ledger::{Ledger, Lines};
pub(crate) use object::{drop_statement, enter, leave};
pub(crate) use origin::{
    ChunkText, Files, OnBlock, Origin, Sent, ServerOrigin, Settled, SourceSession, Task,
};
pub(crate) use other_name::retitled_database;
pub(crate) use rewrite::{as_known, known};
pub(crate) use verify_objects::{NameFolding, fold_of, same};

/// How thoroughly to verify a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// All rows are read back and their sums compared with the manifest's.
    #[default]
    Rows,
    /// Only the server's counts are compared, while loading.
    Counts,
}

/// A request for a load.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// The dump.
    pub folder: PathBuf,
    /// Which of its objects to load.
    pub selection: Selection,
    /// Another name for the one table that is loaded, without what must be there only once.
    pub other_name: Option<TableName>,
    /// Begin while the dump is still being made.
    pub follow: bool,
    /// Whether large tables are loaded by writing their files, where that is possible.
    pub physical: bool,
    /// How it is written into the target.
    pub write: WriteRequest,
}

/// How objects and rows are written into a target, wherever they come from.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// Sessions that write at the same time.
    pub sessions: usize,
    /// Resume what was stopped.
    pub resume: bool,
    /// How thoroughly to verify.
    pub verify: Verify,
    /// The definer of views, routines, triggers and events.
    pub definer: Definer,
    /// Keep what is written out of the target's binary log.
    pub no_binlog: bool,
    /// Whether rows are written.
    pub data: bool,
}

/// What was loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadSummary {
    /// Tables.
    pub tables: usize,
    /// Other objects.
    pub objects: usize,
    /// Rows, including those of an earlier run.
    pub rows: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// What was written differently from the dump, a line for each.
    pub rewrites: Vec<String>,
    /// What is missing on the target, a line for each.
    pub omitted: Vec<String>,
}

/// What to do after the load was stopped by a signal.
pub(crate) const AGAIN: &str = "start again with --resume";
/// How long to wait for a lock on the target.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// The most seconds for which purge is held up.
const SNAPSHOT_MAX_S: u32 = 600;

/// The sums of the tables' chunks, by number.
type Sums<'a> = BTreeMap<&'a TableName, BTreeMap<u32, Sum>>;

/// Chunks whose rows were read after loading and were right.
pub(crate) type VerifiedChunks = BTreeSet<(TableName, u32)>;

/// A running load.
pub(crate) struct Load<'a> {
    pub(crate) context: &'a Context,
    pub(crate) target: &'a Target,
    pub(crate) request: &'a WriteRequest,
    pub(crate) manifest: Manifest,
    pub(crate) ledger: Ledger,
    pub(crate) summary: LoadSummary,
    pub(crate) origin: Origin<'a>,
    /// The dump, if it is still being made.
    pub(crate) follow: Option<RunningDump>,
    /// Tables that a stopped run has made and that stay, by their number.
    pub(crate) kept: BTreeSet<usize>,
    /// Chunks that were read back and are right.
    pub(crate) verified: VerifiedChunks,
    /// What the server warned about while it took rows, by table, unless these rows were read back and are
    /// right.
    pub(crate) warnings: Vec<(TableName, String)>,
}

/// Loads a dump into a server that does not have its tables.
///
/// # Errors
/// [`Error::Different`] when the rows on the server differ from those of the dump; [`Error::Interrupted`]
/// when the load can be resumed with `resume`; [`Error::Mismatch`] for what the target can't take, before
/// anything is changed.
pub fn load(context: &Context, target: &Target, request: &LoadRequest) -> Result<LoadSummary, Error> {
    let (mut manifest, follow) = if request.follow {
        RunningDump::begin(context, &request.folder)?
    } else {
        (Manifest::read(&*context.disk, &request.folder)?, None)
    };
    let all = names(&manifest);
    select(&mut manifest, &request.selection)?;
    let mut summary = LoadSummary::default();
    let chosen: BTreeSet<String> = names(&manifest).into_iter().collect();
    let chosen: Vec<usize> =
        (0..).zip(&all).filter(|(_, name)| chosen.contains(*name)).map(|(at, _)| at).collect();
    let write = &request.write;
    let mut session = connect(target, write)?;
    if let Some(name) = &request.other_name {
        let named = other_name::apply(&mut session, &mut manifest, name)?;
        (summary.rewrites, summary.omitted) = (named.rewrites, named.omitted);
    }
    fit(&mut session, &mut manifest, &write.definer, &mut summary)?;
    let ledger = Ledger::of_dump(&manifest.id, request.other_name.as_ref());
    ledger.lock(&mut session)?;
    manifest.states().iter().chain(&manifest.age()).for_each(|line| context.progress.note(line));
    check::files(context, request, &manifest)?;
    check(&mut session, write, &manifest, &ledger)?;
    definer::tell(context, &summary.rewrites);
    let (folder, physical, is_whole) = (&*request.folder, request.physical, follow.is_none());
    let origin = Origin::Files(Files { folder, physical, is_whole });
    let mut load = Load {
        context,
        target,
        request: write,
        manifest,
        ledger,
        summary,
        origin,
        follow,
        kept: BTreeSet::new(),
        verified: VerifiedChunks::new(),
        warnings: Vec::new(),
    };
    load.ledger.create(&mut session)?;
    if !write.resume {
        load.ledger.want(&mut session, &chosen)?;
    }
    load.run(&mut session)?;
    load.finish(&mut session, &chosen, &all)
}

/// Fits definitions to the target: names that it knows, and the definer that is asked for.
pub(crate) fn fit(
    session: &mut Session,
    manifest: &mut Manifest,
    definer: &Definer,
    summary: &mut LoadSummary,
) -> Result<(), Error> {
    summary.rewrites.extend(rewrite::apply(session, manifest)?);
    conditional::apply(session, manifest, summary);
    summary.rewrites.extend(rewrite::clients(manifest));
    summary.rewrites.extend(definer::apply(manifest, &definer.named(session)?));
    summary.tables = manifest.tables.len();
    Ok(())
}

/// A check of a target, before anything is changed there.
pub(crate) type Check = fn(&mut Session, &WriteRequest, &Manifest, &Ledger) -> Result<(), Error>;

/// All checks: what the target can hold and has, what this account may do there, and what it understands.
pub(crate) const CHECKS: [Check; 3] =
    [check::target, |session, request, manifest, _| check::rights(session, request, manifest), dry_run::run];

/// Refuses what would fail halfway, before anything is changed.
pub(crate) fn check(
    session: &mut Session,
    request: &WriteRequest,
    manifest: &Manifest,
    ledger: &Ledger,
) -> Result<(), Error> {
    CHECKS.iter().try_for_each(|check| check(session, request, manifest, ledger))
}

/// What a dump has: tables, and other objects.
fn names(manifest: &Manifest) -> Vec<String> {
    let tables = manifest.tables.iter().map(|entry| format!("table {}", entry.table.name));
    tables.chain(manifest.objects.iter().map(Object::title)).collect()
}

impl Load<'_> {
    /// Ends a load whose rows are in: without what an earlier run of it wanted and this one did not, it is
    /// not complete.
    fn finish(
        mut self,
        session: &mut Session,
        chosen: &[usize],
        all: &[String],
    ) -> Result<LoadSummary, Error> {
        let rest = self.ledger.rest(session, chosen)?;
        if !rest.is_empty() {
            let names: Vec<&str> = rest.iter().filter_map(|at| all.get(*at).map(String::as_str)).collect();
            self.summary.omitted.push(format!(
                "the stopped load is incomplete without {}: --resume continues with its original selection",
                names.join(", ")
            ));
            return Ok(self.summary);
        }
        self.close(session)
    }

    /// Removes the ledger of a load that is complete.
    pub(crate) fn close(self, session: &mut Session) -> Result<LoadSummary, Error> {
        match self.ledger.remove(session) {
            // Everything is in and verified, so losing the server now does not make the load a failure.
            Err(error) if error.is_passing() => {
                self.context.progress.warn(&format!(
                    "all is there and verified, but the database _remora may still exist: {error}"
                ));
            }
            removed => removed?,
        }
        Ok(self.summary)
    }

    /// The part that can be stopped and resumed.
    pub(crate) fn run(&mut self, session: &mut Session) -> Result<(), Error> {
        let ran = self.steps(session);
        if ran.is_err() {
            self.warnings.iter().for_each(|(_, text)| self.context.progress.note(text));
        }
        ran.map_err(|error| match error {
            Error::Stopped(_) => Error::Stopped(AGAIN),
            error if error.is_passing() => {
                Error::Interrupted { rows: self.summary.rows, source: Box::new(error) }
            }
            error => error,
        })
    }

    fn steps(&mut self, session: &mut Session) -> Result<(), Error> {
        self.context.progress.phase("creating tables", None);
        self.make(session, |kind| kind <= Kind::Sequence)?;
        self.make_tables()?;
        let _snapshot = self.put_off_purge()?;
        if self.request.data {
            self.fill(session)?;
            self.load_rows(session)?;
            self.build_indexes()?;
            self.set_counters(session)?;
        }
        self.context.progress.phase("creating routines, views, triggers and events", None);
        // A role that is a definer must be there first: the server takes an unknown name for a user.
        self.make(session, |kind| kind == Kind::Role)?;
        self.make(session, |kind| kind > Kind::Table && kind < Kind::Role)?;
        self.make(session, |kind| kind > Kind::Role)?;
        if self.request.data && self.request.verify == Verify::Rows {
            self.verify_rows()?;
        }
        self.verify_objects()
    }

    /// Purge would take processor time from filling tables and from reading them back.
    fn put_off_purge(&self) -> Result<Option<Session>, Error> {
        if !self.request.data {
            return Ok(None);
        }
        Ok(snapshot::put_off_purge(snapshot::connect(self.target)?, SNAPSHOT_MAX_S)?)
    }

    /// Reads back the rows that were not read back right after loading.
    fn verify_rows(&mut self) -> Result<(), Error> {
        let entries: Vec<&TableEntry> = self.manifest.tables.iter().filter(|entry| entry.data).collect();
        let parts = entries.iter().flat_map(|entry| {
            entry.chunks.iter().map(move |chunk| ChunkOf { entry, chunk, condition: None })
        });
        let is_verified =
            |part: &ChunkOf<'_>| self.verified.contains(&(part.entry.table.name.clone(), part.chunk.number));
        let (verified, unverified): (Vec<ChunkOf<'_>>, Vec<ChunkOf<'_>>) = parts.partition(is_verified);
        let mut sums = Sums::new();
        for part in &verified {
            sums.entry(&part.entry.table.name).or_default().insert(part.chunk.number, part.chunk.sum);
        }
        self.read_back(&unverified, &mut sums)?;
        let difference = |entry: &TableEntry, sums: &Sums<'_>| {
            let own = sums.get(&entry.table.name).into_iter().flatten();
            verify::difference(entry, &own.map(|(number, sum)| (*number, *sum)).collect::<Vec<_>>())
        };
        let differing: Vec<&TableEntry> =
            entries.iter().copied().filter(|entry| difference(entry, &sums).is_some()).collect();
        // A chunk may have been right then and differ now: where the target sorts keys in another order, rows
        // that were loaded later may lie within its range.
        let is_doubtful =
            |part: &ChunkOf<'_>| differing.iter().any(|entry| entry.table.name == part.entry.table.name);
        let doubtful: Vec<ChunkOf<'_>> = verified.into_iter().filter(is_doubtful).collect();
        self.read_back(&doubtful, &mut sums)?;
        let different: BTreeMap<TableName, String> = (differing.iter())
            .filter_map(|entry| Some((entry.table.name.clone(), difference(entry, &sums)?)))
            .collect();
        let tables = entries.len();
        self.warnings.retain(|(table, _)| different.contains_key(table));
        if different.is_empty() {
            Ok(())
        } else {
            Err(Error::Different { tables, differences: different.into_values().collect() })
        }
    }

    /// Reads chunks and records their sums.
    fn read_back<'a>(&self, parts: &[ChunkOf<'a>], sums: &mut Sums<'a>) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        let total = parts.iter().map(|part| part.chunk.text_bytes).sum();
        self.context.progress.phase("verifying", Some(total));
        let found = verify::sums(self.context, self.target, parts, self.request.sessions)?;
        for (part, sum) in parts.iter().zip(found) {
            sums.entry(&part.entry.table.name).or_default().insert(part.chunk.number, sum);
        }
        Ok(())
    }
}

/// A session that stores values unchanged.
pub(crate) fn connect(target: &Target, request: &WriteRequest) -> Result<Session, Error> {
    let mut session = snapshot::connect(target)?;
    session.set_where_known(settings::STORE)?;
    session.execute(&format!("SET SESSION lock_wait_timeout = {}", LOCK_WAIT.as_secs()))?;
    if request.no_binlog {
        session.execute("SET SESSION sql_log_bin = 0")?;
    }
    Ok(session)
}
