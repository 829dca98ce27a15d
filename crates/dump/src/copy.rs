//! Copies from server to server, without a folder in between: what a dump reads goes straight into what a
//! load writes.
//!
//! Reading is that of a dump ([`crate::reading`]), and writing that of a load ([`crate::load`]): definitions
//! first, rows in transactions with a line of the ledger, read back and compared, then indexes, views and
//! programs. What a stopped run has left on the target is compared with the snapshot of the next run: equal
//! chunks stay, others are replaced, so that the target is one state of the source in the end.

mod copied_table;
mod dry_run;
mod followed;
mod programs;
mod rename;
mod replica_lag;
mod rows;
mod settle;
mod standby;
mod stopped;

use std::collections::BTreeSet;

use codec::Codec;
use server::catalogue::{Catalogue, KnownTables, Table, settled_before};
use server::{Session, TableName, Target};

pub use copied_table::{CopiedTable, CopySide, TablePart};
pub use dry_run::{CopyPlan, plan};
pub use programs::Programs;
pub use rename::Renames;
pub use replica_lag::MaxLag;
pub use standby::standby;

use replica_lag::ReplicaLags;
use rows::ServerRows;

use crate::context::Context;
use crate::load::{self, Ledger, Load, LoadSummary, Origin, VerifiedChunks, WriteRequest};
use crate::manifest::{Manifest, TableEntry};
use crate::reading::table_check::TableCheck;
use crate::reading::{self, ReadRequest};
use crate::selection::Selection;
use crate::{Error, Format, definer};

/// A request for a copy.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// What is copied, and how it is read.
    pub read: ReadRequest,
    /// Databases with other names on the target.
    pub renames: Renames,
    /// Replicas of the target for which chunks wait.
    pub max_lags: Vec<MaxLag>,
    /// Whether the copy is to be followed, and what says why these tables can't be: nothing on the target may
    /// change by itself then, and the target keeps the note of what is a part of the copy.
    pub follow: Option<Refusals>,
    /// How it is written. Each session that reads has one that writes, so both have the same number.
    pub write: WriteRequest,
}

/// Says why tables can't be followed, a line for each reason.
pub type Refusals = fn(&mut Session, &[ReadTable<'_>]) -> Result<Vec<String>, server::Error>;

/// What is read of a table.
#[derive(Clone, Debug)]
pub struct ReadTable<'a> {
    /// The table, as the source defines it.
    pub table: &'a Table,
    /// The condition that its rows meet; `None` for all rows.
    pub condition: Option<&'a str>,
    /// Its masked columns.
    pub masked: Vec<&'a str>,
}

/// What was copied.
#[derive(Clone, Debug)]
pub struct CopySummary {
    /// What was written.
    pub load: LoadSummary,
    /// The state of the source that the target has.
    pub source: crate::Source,
    /// What is missing on the target, or changed on the source meanwhile, a line for each.
    pub omitted: Vec<String>,
    /// What a copy that is followed gets when it takes over, a line for each.
    pub postponed: Vec<String>,
    /// The tables as the source defines them, and their names on the target.
    pub tables: Vec<(Table, TableName)>,
}

/// Copies databases and tables from one server into another that does not have them.
///
/// # Errors
/// [`Error::Different`] when rows on the target differ from those of the source; [`Error::Interrupted`] when
/// the copy can be resumed with `resume`; [`Error::Altered`] when DDL interfered; [`Error::Mismatch`] for
/// what the target can't take, before anything is changed.
pub fn copy(context: &Context, servers: Servers<'_>, request: &CopyRequest) -> Result<CopySummary, Error> {
    let (read, write) = (&request.read, &request.write);
    let (from, to) = servers;
    let Prepared {
        mut session,
        mut target,
        lags,
        settled,
        before,
        tables,
        mut manifest,
        ledger,
        mut summary,
        postponed,
    } = Prepared::new(context, servers, request)?;
    load::fit(&mut target, &mut manifest, &write.definer, &mut summary)?;
    ledger.lock(&mut target)?;
    load::check(&mut target, write, &manifest, &ledger)?;
    followed::check(&mut session, &tables, request.follow)?;
    let held = reading::block_ddl(from, &tables, read.block_ddl)?;
    let mut snapshot = reading::begin(context, from, read, &tables)?;
    reading::describe(&mut manifest.source, &mut session, &mut snapshot)?;
    let source = manifest.source.clone();
    definer::tell(context, &summary.rewrites);
    before.own.iter().for_each(|line| context.progress.note(line));
    ledger.create(&mut target)?;
    let kept = match write.resume {
        true => stopped::adopt(context, &mut target, (&ledger, &request.on_target()), &manifest)?,
        false => BTreeSet::new(),
    };
    let check = TableCheck { tables: &tables, settled: settled.as_deref() };
    let rows = ServerRows::new(context, read, check, snapshot, held).waiting_for(lags);
    let origin = Origin::Server(&rows);
    let (follow, verified, warnings) = (None, VerifiedChunks::new(), Vec::new());
    let mut load = Load {
        context,
        target: to,
        request: write,
        manifest,
        ledger,
        summary,
        origin,
        follow,
        kept,
        verified,
        warnings,
    };
    load.run(&mut target)?;
    context.progress.phase("looking for what changed meanwhile", None);
    let known = KnownTables::new(before.tables.iter(), settled.as_deref());
    let after = Catalogue::definitions_since(&mut session, &read.selection, &known)?;
    let mut omitted = missing(&mut session, &before, (&tables, read))?;
    omitted.extend(reading::changes("copy", (&tables, &before), &after));
    let copied = followed::names(&tables, &load.manifest);
    let load = if request.follow.is_some() { load.summary } else { load.close(&mut target)? };
    omitted.extend(load.omitted.iter().cloned());
    Ok(CopySummary { load, source, omitted, postponed, tables: copied })
}

/// Identifies a copy on its target.
///
/// # Errors
/// Those of the source.
pub fn copy_id(from: &Target, request: &CopyRequest) -> Result<String, Error> {
    id(&mut request.read.connect(from)?, &request.read, &request.renames)
}

/// The servers of a copy: source and target.
pub(crate) type Servers<'a> = (&'a Target, &'a Target);

/// What a copy knows before it locks anything on the source and changes anything on the target.
struct Prepared {
    session: Session,
    target: Session,
    lags: ReplicaLags,
    settled: Option<String>,
    before: Catalogue,
    /// The tables, as they are defined on the source.
    tables: Vec<TableEntry>,
    manifest: Manifest,
    ledger: Ledger,
    /// What gets another name, and what is left out because of it.
    summary: LoadSummary,
    /// What a copy that is followed gets later.
    postponed: Vec<String>,
}

impl ReadTable<'_> {
    fn of(entry: &TableEntry) -> ReadTable<'_> {
        ReadTable {
            table: &entry.table,
            condition: entry.condition.as_deref(),
            masked: entry.masks.keys().map(String::as_str).collect(),
        }
    }
}

impl CopyRequest {
    /// Whether all rows are copied, with the values that they have.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let ReadRequest { conditions, masks, .. } = &self.read;
        conditions.is_empty() && masks.is_empty()
    }

    /// Whether that is everything that the source has, under its own names.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        let Selection { include, exclude, .. } = &self.read.selection;
        let is_all = include.is_empty() && exclude.is_empty() && self.renames.is_empty();
        is_all && self.is_whole() && self.read.data && self.read.history
    }

    /// The same copy in the other direction, of which there is something.
    #[must_use]
    pub fn turned(&self) -> CopyRequest {
        let mut turned = self.clone();
        turned.renames = self.renames.reversed();
        turned.write.resume = true;
        turned
    }

    /// What may be on the target.
    fn on_target(&self) -> Selection {
        if self.renames.is_empty() { self.read.selection.clone() } else { Selection::default() }
    }
}

impl Prepared {
    fn new(
        context: &Context,
        (from, to): Servers<'_>,
        request @ CopyRequest { read, renames, max_lags, write, .. }: &CopyRequest,
    ) -> Result<Prepared, Error> {
        let mut session = read.connect(from)?;
        let mut target = load::connect(to, write)?;
        let lags = ReplicaLags::new(max_lags)?;
        context.progress.phase("reading the catalogue", None);
        let settled = settled_before(&mut session)?;
        let before = read.catalogue(context, &mut session)?;
        if !renames.cover(&before) {
            refuse_itself(&mut session, &mut target)?;
        }
        let mut tables: Vec<TableEntry> =
            before.tables.iter().map(|table| read.entry(table)).collect::<Result<_, Error>>()?;
        tables.iter_mut().enumerate().for_each(|(at, entry)| entry.place = at);
        let (id, source) = (id(&mut session, read, renames)?, reading::server(&session));
        let mut manifest = Manifest::new(id, source, Format::Tsv, Codec::Plain);
        manifest.objects.clone_from(&before.objects);
        manifest.tables.clone_from(&tables);
        let mut summary = LoadSummary::default();
        tables.iter().for_each(|entry| summary.rewrites.extend(entry.masked()));
        renames.apply(&mut manifest, &mut summary)?;
        let postponed = match request.follow {
            Some(_) => followed::leave_out(&mut manifest, read.is_part()),
            None => Vec::new(),
        };
        let ledger = Ledger::of_copy(&manifest.id);
        Ok(Prepared { session, target, lags, settled, before, tables, manifest, ledger, summary, postponed })
    }
}

/// What is known from the start to be missing on the target, a line for each.
fn missing(
    session: &mut Session,
    before: &Catalogue,
    (tables, read): (&[TableEntry], &ReadRequest),
) -> Result<Vec<String>, Error> {
    let mut lines = reading::missing_at_start(before, tables, read);
    lines.extend(reading::hidden_objects(session, before, read)?);
    Ok(lines)
}

/// Refuses to copy databases onto themselves: a lock that is held on one is seen on the other.
fn refuse_itself(source: &mut Session, target: &mut Session) -> Result<(), Error> {
    let name = source.value("SELECT CONCAT('remora.', UUID())")?.unwrap_or_default();
    source.lock(&name, 0)?;
    let is_same = target.lock_holder(&name)?.is_some();
    source.unlock(&name)?;
    if is_same {
        return Err(Error::Mismatch(
            "both addresses lead to the same server; there --rename must give each database another name"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Records that a follower has made or altered tables on the target for a copy, and has removed others. A
/// copy that is resumed takes only recorded tables for its own.
///
/// # Errors
/// Those of the server.
pub fn record_tables(
    session: &mut Session,
    copy_id: &str,
    made: &[Table],
    gone: &[TableName],
) -> Result<(), Error> {
    let ledger = Ledger::of_copy(copy_id);
    if ledger.exists(session)? { ledger.record_tables(session, made, gone) } else { Ok(()) }
}

/// The table on the target that records what a copy has made there.
#[must_use]
pub fn ledger_of_copy(copy_id: &str) -> TableName {
    Ledger::of_copy(copy_id).table().clone()
}

/// Identifies a copy on its target: by the source, and by what is copied. So a stopped copy is resumed by the
/// same command line only.
fn id(source: &mut Session, read: &ReadRequest, renames: &Renames) -> Result<String, Error> {
    let server = source.value("SELECT CONCAT_WS(' ', @@hostname, @@port, @@datadir)")?.unwrap_or_default();
    let what = format!(
        "{server} {:?} {:?} {} {} {} {renames:?}",
        read.selection,
        read.conditions,
        read.data,
        read.history,
        read.masks.identity()
    );
    Ok(blake3::hash(what.as_bytes()).to_hex()[..32].to_owned())
}
