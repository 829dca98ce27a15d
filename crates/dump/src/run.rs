//! A dump from beginning to end.

mod altered;
mod entry;
mod read;
mod read_tables;
mod resume;
mod shared;
mod table_ids;
mod worker;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use codec::Codec;
use disk::Disk;
use parquet_rows::EncodingSet;
use server::Target;
use server::catalogue::{Catalogue, KnownTables, settled_before};

use shared::Job;
use table_ids::TableIds;

use crate::context::Context;
use crate::definer::{self, Definer};
use crate::journal::{self, Journal, Step};
use crate::manifest::{Manifest, TableEntry};
use crate::reading::{self, ReadRequest};
use crate::selection::ColumnNames;
use crate::{Error, Format, manifest, schema};

/// A request for a dump.
#[derive(Clone, Debug)]
pub struct DumpRequest {
    /// What to dump, and how it is read.
    pub read: ReadRequest,
    /// The folder to make.
    pub folder: PathBuf,
    /// Format of the data files.
    pub format: Format,
    /// Their compression, and its level. Parquet has zstd of this level inside, or nothing for 0.
    pub codec: (Codec, u32),
    /// How files of Parquet are written.
    pub parquet: ParquetRequest,
    /// Resume a stopped dump in this folder: its complete tables are kept.
    pub resume: bool,
    /// The definer of views, routines, triggers and events.
    pub definer: Definer,
}

/// How files of Parquet are written.
#[derive(Clone, Debug, Default)]
pub struct ParquetRequest {
    /// What becomes of values that Parquet can't hold.
    pub odd: OddPolicy,
    /// Columns whose values are in the names of folders.
    pub partition: ColumnNames,
    /// Columns with Bloom filters.
    pub bloom: ColumnNames,
    /// Which encodings are tried.
    pub encodings: EncodingSet,
}

/// What becomes of values that a column's type of Parquet can't hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OddPolicy {
    /// They are NULL in the files, and in others beside them, from which a load puts them back.
    #[default]
    Keep,
    /// The dump ends.
    Fail,
}

impl FromStr for OddPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<OddPolicy, String> {
        match text {
            "keep" => Ok(OddPolicy::Keep),
            "fail" => Ok(OddPolicy::Fail),
            _ => Err("keep or fail".to_owned()),
        }
    }
}

/// What was dumped.
#[derive(Clone, Debug)]
pub struct DumpSummary {
    /// The manifest that was written.
    pub manifest: Manifest,
    /// What is missing from the dump or changed while it ran, a line for each.
    pub omitted: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of data files.
    pub file_bytes: u64,
}

/// Dumps a server into a new folder, or resumes a dump that was stopped.
///
/// # Errors
/// [`Error::Altered`] when DDL interfered, [`Error::Mismatch`] when the folder exists; otherwise errors of
/// the server or the operating system. An unfinished dump stays in the folder, without a manifest.
pub fn dump(context: &Context, target: &Target, request: &DumpRequest) -> Result<DumpSummary, Error> {
    let (disk, folder, read) = (&*context.disk, &request.folder, &request.read);
    let mut session = read.connect(target)?;
    context.progress.phase("reading the catalogue", None);
    let settled = settled_before(&mut session)?;
    let before = read.catalogue(context, &mut session)?;
    request.parquet.check(&before)?;
    // What does not fit is refused before there is a folder.
    let mut tables: Vec<TableEntry> =
        before.tables.iter().map(|table| request.entry(table)).collect::<Result<_, Error>>()?;
    if request.resume {
        // Before locking, which would leave a file.
        resume::check_folder(disk, folder)?;
    } else {
        make_folder(disk, folder)?;
    }
    let lock = journal::lock(disk, folder)?;
    let left = if request.resume { resume::find(disk, folder)? } else { None };
    let earlier = match left {
        Some(left) => {
            left.check(request, &session)?;
            left.keep(context, request, &mut tables)?.earlier
        }
        None => Vec::new(),
    };
    let identities = TableIds::read(&mut session)?;
    let held = reading::block_ddl(target, &tables, read.block_ddl)?;
    let mut snapshot = reading::begin(context, target, read, &tables)?;
    let mut source = reading::server(&session);
    reading::describe(&mut source, &mut session, &mut snapshot)?;
    let id = session.value("SELECT REPLACE(UUID(), '-', '')")?.unwrap_or_default();
    let mut manifest = Manifest::new(id, source, request.format, request.codec.0);
    manifest.condition = read.conditions.all.clone();
    manifest.mask_key = read.masks.fingerprint();
    manifest.selection = Some(read.selection.clone());
    manifest.tables = tables;
    manifest.set_earlier(earlier);
    manifest.objects = before.objects.clone();
    definer::tell(context, &definer::apply(&mut manifest, &request.definer));
    before.own.iter().for_each(|line| context.progress.note(line));
    let journal = Journal::begin(disk, folder, &manifest)?;
    let run = || -> Result<Vec<String>, Error> {
        make_folders(disk, folder, &manifest)?;
        let job = Job { context, request, journal: &journal, settled: settled.as_deref() };
        let damaged = worker::run(job, &mut snapshot, &identities, &mut manifest)?;
        // Whoever waits to alter one of them can continue.
        drop(held);
        context.progress.phase("looking for what changed meanwhile", None);
        let known = KnownTables::new(before.tables.iter(), settled.as_deref());
        let after = Catalogue::definitions_since(&mut session, &read.selection, &known)?;
        let mut omitted = damaged;
        omitted.extend(reading::missing_at_start(&before, &manifest.tables, read));
        omitted.extend(reading::hidden_objects(&mut session, &before, read)?);
        omitted.extend(reading::changes("dump", (&manifest.tables, &before), &after));
        manifest.omitted = omitted.clone();
        schema::write(disk, folder, &manifest)?;
        manifest.write(disk, folder)?;
        Ok(omitted)
    };
    let omitted = run().inspect_err(|error| {
        // A follower then need not wait until the lock is released.
        journal.add(&Step::Failed(error.to_string())).ok();
    })?;
    journal.remove(disk, folder)?;
    drop(lock);
    let chunks = || manifest.tables.iter().flat_map(|table| &table.chunks);
    Ok(DumpSummary {
        rows: chunks().map(|chunk| chunk.sum.rows).sum(),
        text_bytes: chunks().map(|chunk| chunk.text_bytes).sum(),
        file_bytes: chunks().map(|chunk| chunk.file_bytes).sum(),
        omitted,
        manifest,
    })
}

/// Creates a folder for each table with files of its own, and one for tables that share files.
fn make_folders(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    let due = (0..manifest.tables.len()).filter(|at| manifest.tables[*at].is_due()).collect();
    let (small, large) = reading::read_units::split(&manifest.tables, due, manifest.data_format);
    let shared = (!small.is_empty()).then(|| manifest::SMALL_TABLES_FOLDER.to_owned());
    for name in large.into_iter().map(|at| manifest.tables[at].folder.clone()).chain(shared) {
        let path = folder.join(name);
        match disk.create_folder(&path) {
            // It contains files of tables from a stopped dump.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other.map_err(Error::file(&path))?,
        }
    }
    // Files that are durable in them are of no use if a crash loses the folders.
    disk.sync_folder(folder).map_err(Error::file(folder))
}

fn make_folder(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    match disk.create_folder(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let is_empty = disk.list(folder).is_ok_and(|names| names.is_empty());
            let is_stopped = !is_empty
                && resume::check_folder(disk, folder).is_ok()
                && journal::left(disk, folder).is_ok();
            let how = if is_stopped { "continue the stopped dump in it with --resume, or " } else { "" };
            Err(Error::Mismatch(format!("{}: it already exists; {how}give a new folder", folder.display())))
        }
        other => other.map_err(Error::file(folder)),
    }
}
