//! Compares two sides, each a dump folder or a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use server::catalogue::{Catalogue, Kind, Object, Wanted};
use server::definition::{counter, outline, sorted};
use server::{Release, Target, snapshot};

use crate::context::Context;
use crate::hash::Sum;
use crate::load::{NameFolding, as_known, known};
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::plan::{self, Cut};
use crate::selection::{InBoth, Selection};
use crate::verify::{self, ChunkOf};
use crate::{Error, value_text};

/// One of the two sides of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    /// The folder of a dump.
    Folder(PathBuf),
    /// A server in its current state.
    Server(Box<Target>),
}

/// What differs.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// Tables on both sides whose rows were compared.
    pub tables: usize,
    /// Their rows on the first side.
    pub rows: u64,
    /// A line for each difference.
    pub lines: Vec<String>,
    /// Of tables that a dump has in part: which rows were compared, a line for each.
    pub parts: Vec<String>,
}

/// The contents of one side.
struct Contents {
    title: String,
    release: Release,
    /// Whether the server does not keep the case of names.
    folds: bool,
    /// Whether programs are in the bytes of the client that made them.
    exact_programs: bool,
    objects: Vec<Object>,
    tables: Vec<TableEntry>,
    target: Option<Target>,
    /// The names of character sets and collations that a server knows.
    known: Option<BTreeSet<String>>,
}

impl Contents {
    /// Defines databases in words that the other side knows, as a load into it would.
    fn speak_as(&mut self, other: &Contents) {
        let Some(known) = other.known.as_ref().filter(|_| other.release != self.release) else { return };
        for object in self.objects.iter_mut().filter(|object| object.kind == Kind::Database) {
            object.statements.iter_mut().for_each(|statement| *statement = as_known(statement, known));
        }
    }
}

/// About how many bytes are read as one chunk.
const CHUNK_BYTES: u64 = 64 << 20;

/// Compares definitions and rows. A server is read without a snapshot: compare when nobody writes.
///
/// # Errors
/// Errors of reading either side; a difference is not an error.
pub fn diff(
    context: &Context,
    sides: (&Side, &Side),
    selection: &Selection,
    sessions: usize,
) -> Result<Difference, Error> {
    // Objects that a dump left out are not a difference when a server has them.
    let (one, other) = (Opened::new(context, sides.0)?, Opened::new(context, sides.1)?);
    let (kept, others) = (one.kept(), other.kept());
    let mut a = one.read(context, (selection, &others))?;
    let mut b = other.read(context, (selection, &kept))?;
    a.speak_as(&b);
    b.speak_as(&a);
    let mut found = Difference { lines: definitions(&a, &b), ..Difference::default() };
    // If one side is a dump, its chunks are used for both, so that a difference has a place.
    if a.target.is_some() && b.target.is_none() {
        std::mem::swap(&mut a, &mut b);
    }
    let folded = NameFolding { folds: a.folds != b.folds };
    let theirs: BTreeMap<_, _> = b
        .tables
        .iter()
        .filter(|entry| entry.data)
        .map(|entry| (folded.table(&entry.table.name), entry))
        .collect();
    let mut wanted: Vec<TableEntry> = a.tables.iter().filter(|entry| entry.data).cloned().collect();
    wanted.retain(|entry| {
        let other = theirs.get(&folded.table(&entry.table.name)).copied();
        let line = other.filter(|_| b.target.is_none()).and_then(|other| incomparable(entry, other));
        // A table with other columns is named by its definition.
        let has_same = other.is_some_and(|other| other_columns((&a, entry), (&b, other)).is_none());
        let comparable = has_same && line.is_none();
        found.lines.extend(line);
        comparable
    });
    if let Some(target) = &a.target {
        cut(target, &mut wanted)?;
        let sums = sums(context, target, &wanted, sessions)?;
        fill(&mut wanted, sums);
    }
    let found_sums = match &b.target {
        Some(target) if folded.folds => {
            let mut own = wanted.clone();
            for entry in &mut own {
                let other = theirs.get(&folded.table(&entry.table.name));
                entry.table.name = other.map_or(&entry.table.name, |other| &other.table.name).clone();
            }
            sums(context, target, &own, sessions)?
        }
        Some(target) => sums(context, target, &wanted, sessions)?,
        None => wanted
            .iter()
            .filter_map(|entry| theirs.get(&folded.table(&entry.table.name)))
            .map(|entry| vec![(u32::MAX, entry.sum)])
            .collect(),
    };
    for (entry, sums) in wanted.iter().zip(found_sums) {
        found.tables += 1;
        found.parts.extend(
            entry
                .condition
                .as_ref()
                .map(|sql| format!("table {}: only rows that meet {sql:?} were compared", entry.table.name)),
        );
        found.rows += entry.sum.rows;
        if let Some(line) = verify::difference(entry, &sums) {
            let masked = masked(entry, theirs.get(&folded.table(&entry.table.name)).copied());
            found.lines.push(format!("{line} (in {}, compared with {}){masked}", b.title, a.title));
        }
    }
    Ok(found)
}

/// A side before the selection of what to compare is known.
enum Opened<'a> {
    Folder(&'a Path, Box<Manifest>),
    Server(&'a Target),
}

impl<'a> Opened<'a> {
    fn new(context: &Context, side: &'a Side) -> Result<Opened<'a>, Error> {
        Ok(match side {
            Side::Folder(folder) => Opened::Folder(folder, Box::new(Manifest::read(&*context.disk, folder)?)),
            Side::Server(target) => Opened::Server(target),
        })
    }

    /// The objects that a dump was restricted to; all objects when that is unknown, and for a server.
    fn kept(&self) -> Selection {
        match self {
            Opened::Folder(_, manifest) => manifest.selection.clone().unwrap_or_default(),
            Opened::Server(_) => Selection::default(),
        }
    }

    /// Reads what both selections include.
    fn read(self, context: &Context, wanted: (&Selection, &Selection)) -> Result<Contents, Error> {
        match self {
            Opened::Folder(folder, manifest) => {
                read_dump(context, folder, *manifest, &InBoth(wanted.0, wanted.1))
            }
            Opened::Server(target) => read_server(context, target, wanted),
        }
    }
}

fn read_dump(
    context: &Context,
    folder: &Path,
    mut manifest: Manifest,
    wanted: &dyn Wanted,
) -> Result<Contents, Error> {
    crate::load::select(&mut manifest, wanted)?;
    manifest
        .states()
        .iter()
        .chain(&manifest.age())
        .for_each(|line| context.progress.note(&format!("{}: {line}", folder.display())));
    Ok(Contents {
        title: folder.display().to_string(),
        release: manifest.source.release(),
        folds: manifest.source.lower_case_table_names != 0,
        exact_programs: manifest.exact_programs,
        objects: manifest.objects,
        tables: manifest.tables,
        target: None,
        known: None,
    })
}

fn read_server(
    context: &Context,
    target: &Target,
    (one, other): (&Selection, &Selection),
) -> Result<Contents, Error> {
    let mut session = snapshot::connect(target)?;
    context.progress.phase("reading the catalogue", None);
    let mut told = |done, total| context.progress.step(done, total, "table");
    let catalogue = match session.about.lower_case_table_names {
        1 => Catalogue::read(&mut session, &InBoth(&one.folded(), &other.folded()), &mut told)?,
        _ => Catalogue::read(&mut session, &InBoth(one, other), &mut told)?,
    };
    let unread = catalogue.omitted.iter().filter(|line| line.contains(": the server can't read it"));
    unread.for_each(|line| context.progress.warn(&format!("not compared: {line}")));
    let tables = catalogue.tables.into_iter().map(TableEntry::whole);
    Ok(Contents {
        title: target.to_string(),
        known: Some(known(&mut session)?),
        release: session.about.release(),
        folds: session.about.lower_case_table_names != 0,
        exact_programs: true,
        objects: catalogue.objects,
        tables: tables.collect(),
        target: Some(target.clone()),
    })
}

impl Contents {
    /// Whether the statements of an object are as the server has them.
    fn is_exact(&self, object: &Object) -> bool {
        let client = object.settings.character_set.as_deref().unwrap_or("utf8");
        self.exact_programs
            || client.starts_with("utf8")
            || object.statements.iter().all(|statement| statement.is_ascii())
    }
}

/// Objects that exist on one side only or are defined differently. Servers of the same release are compared
/// exactly, others by the parts that all servers print in the same words.
fn definitions(a: &Contents, b: &Contents) -> Vec<String> {
    let mut lines = Vec::new();
    let exact = a.release == b.release;
    let folded = NameFolding { folds: a.folds != b.folds };
    for (one, other) in [(a, b), (b, a)] {
        let objects: BTreeMap<_, _> = other.objects.iter().map(|known| (folded.key(known), known)).collect();
        for object in &one.objects {
            match objects.get(&folded.key(object)) {
                None => lines.push(format!("{}: only in {}", object.title(), one.title)),
                Some(found) if std::ptr::eq(one, a) => {
                    let exact = exact && a.is_exact(object) && b.is_exact(found);
                    if !folded.same(object, found, exact) {
                        lines.push(format!("{}: defined otherwise", object.title()));
                    }
                }
                Some(_) => {}
            }
        }
        let tables: BTreeMap<_, _> =
            other.tables.iter().map(|known| (folded.table(&known.table.name), known)).collect();
        for entry in &one.tables {
            let name = &entry.table.name;
            match tables.get(&folded.table(name)) {
                None => lines.push(format!("table {name}: only in {}", one.title)),
                Some(found) if std::ptr::eq(one, a) => {
                    let what = other_columns((one, entry), (other, found))
                        .or_else(|| tables_differ((entry, found), folded, exact));
                    lines.extend(what.map(|what| format!("table {name}: {what}")));
                }
                Some(_) => {}
            }
        }
    }
    lines
}

/// Which columns a table has on one side only. Its rows can't be compared then.
fn other_columns(one: (&Contents, &TableEntry), other: (&Contents, &TableEntry)) -> Option<String> {
    let only = |(side, entry): (&Contents, &TableEntry), other: &TableEntry| {
        let is_known =
            |name: &str| other.table.columns.iter().any(|known| known.name.eq_ignore_ascii_case(name));
        let names = entry.table.columns.iter().map(|column| column.name.as_str());
        let names: Vec<&str> = names.filter(|name| !is_known(name)).collect();
        let what = if names.len() == 1 { "column" } else { "columns" };
        (!names.is_empty()).then(|| format!("only in {}: {what} {}", side.title, names.join(", ")))
    };
    let lines: Vec<String> = [only(one, other.1), only(other, one.1)].into_iter().flatten().collect();
    (!lines.is_empty()).then(|| format!("{}; rows not compared", lines.join("; ")))
}

/// How many lines of a definition that one side lacks are shown.
const SHOWN_MAX: usize = 3;

/// How the definitions of a table differ: lines that only the first has, with a minus, and lines that only
/// the other has, with a plus.
fn tables_differ(
    (one, other): (&TableEntry, &TableEntry),
    folded: NameFolding,
    exact: bool,
) -> Option<String> {
    let (definition, found) = (&*folded.text(&one.table.definition), &*folded.text(&other.table.definition));
    let tell = if exact { sorted } else { outline };
    let (told, found_told) = (tell(definition), tell(found));
    if told != found_told {
        let only = |sign, lines: &[String], others: &[String]| {
            let lines = lines.iter().filter(|line| !others.contains(line));
            let lines = lines.map(|line| format!("{sign} {}", line.trim().trim_end_matches(',')));
            lines.take(SHOWN_MAX).collect::<Vec<_>>()
        };
        let lines = [only('-', &told, &found_told), only('+', &found_told, &told)].concat();
        return Some(format!("defined otherwise: {}", lines.join("; ")));
    }
    // The same numbers stand for different names.
    for column in one.columns().into_iter().filter(|column| value_text::is_numbered(column, one.version)) {
        let known = other.table.columns.iter().find(|known| known.name == column.name);
        if known.is_some_and(|known| known.column_type != column.column_type) {
            return Some(format!("column {} has other members", column.name));
        }
    }
    let (counter, found) = (counter(definition).unwrap_or(1), counter(found).unwrap_or(1));
    (counter != found).then(|| format!("AUTO_INCREMENT is {counter} on one side and {found} on the other"))
}

/// Which columns of two tables a dump has masked, as the end of a line.
fn masked(one: &TableEntry, other: Option<&TableEntry>) -> String {
    let columns = one.masks.keys().chain(other.into_iter().flat_map(|other| other.masks.keys()));
    let columns: BTreeSet<&str> = columns.map(String::as_str).collect();
    match columns.into_iter().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        columns => format!("; masked in the dump: {columns}"),
    }
}

/// Tables whose rows two dumps convert to different texts, so that their sums can't be compared.
fn incomparable(one: &TableEntry, other: &TableEntry) -> Option<String> {
    let mut columns = one.columns().into_iter();
    let column = columns.find(|column| value_text::differs(column, one.version, other.version))?;
    Some(format!(
        "table {}: its rows can't be compared, as the dumps are of formats {} and {}, which tell column {} ({}) in other \
         texts; compare each with a server",
        one.table.name, one.version, other.version, column.name, column.column_type
    ))
}

/// Cuts a server's tables into chunks, so that several sessions read the large ones.
fn cut(target: &Target, entries: &mut [TableEntry]) -> Result<(), Error> {
    let mut session = snapshot::connect(target)?;
    session.execute("START TRANSACTION")?;
    session.execute(plan::SET_SAVEPOINT)?;
    for entry in entries {
        let mut chunks = Vec::new();
        let cut = Cut { table: &entry.table, partition: None, chunk_bytes: &|| CHUNK_BYTES };
        cut.run(&mut session, &mut |range, _| {
            chunks.push(Chunk::planned(u32::try_from(chunks.len()).unwrap_or(u32::MAX), Vec::new(), range));
            Ok(())
        })?;
        entry.chunks = chunks;
    }
    Ok(())
}

fn sums(
    context: &Context,
    target: &Target,
    entries: &[TableEntry],
    sessions: usize,
) -> Result<Vec<Vec<(u32, Sum)>>, Error> {
    context.progress.phase("comparing", Some(entries.iter().map(|entry| entry.table.bytes).sum()));
    let parts: Vec<ChunkOf<'_>> = entries
        .iter()
        .flat_map(|entry| {
            let condition = entry.condition.as_deref();
            entry.chunks.iter().map(move |chunk| ChunkOf { entry, chunk, condition })
        })
        .collect();
    let found = verify::sums(context, target, &parts, sessions)?;
    let mut found = parts.iter().map(|part| part.chunk.number).zip(found);
    Ok(entries.iter().map(|entry| found.by_ref().take(entry.chunks.len()).collect()).collect())
}

fn fill(entries: &mut [TableEntry], sums: Vec<Vec<(u32, Sum)>>) {
    for (entry, sums) in entries.iter_mut().zip(sums) {
        for (chunk, (_, sum)) in entry.chunks.iter_mut().zip(&sums) {
            chunk.sum = *sum;
            entry.sum.add(*sum);
        }
    }
}
