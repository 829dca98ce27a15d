//! Comparing two of dump folders and servers.

use std::path::PathBuf;

use server::catalogue::{Catalogue, Kind, Object, Origin};
use server::definition::sorted;
use server::{Target, snapshot};

use crate::hash::Sum;
use crate::manifest::{Chunk, Manifest, TableEntry};
use crate::plan::{self, Cut};
use crate::run::{Selection, World};
use crate::verify::{self, Part};
use crate::{Error, name};

/// One of the two that are compared.
#[derive(Clone, Debug)]
pub enum Side {
    /// The folder of a dump.
    Folder(PathBuf),
    /// A server, as it is now.
    Server(Box<Target>),
}

/// What differs.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// Tables on both sides whose rows were compared.
    pub tables: usize,
    /// Rows of them on the first side.
    pub rows: u64,
    /// A line for each difference.
    pub lines: Vec<String>,
}

/// A side, read.
struct Read {
    title: String,
    version: String,
    objects: Vec<Object>,
    tables: Vec<TableEntry>,
    condition: Option<String>,
    target: Option<Target>,
}

/// About how many bytes are read as one.
const CHUNK_BYTES: u64 = 64 << 20;

/// Compares definitions and rows. A server is read as it is at that moment and not in one snapshot: compare when nobody
/// writes.
///
/// # Errors
/// What reading either side reports; a difference is no error.
pub fn diff(
    world: &World,
    sides: (&Side, &Side),
    selection: &Selection,
    sessions: usize,
) -> Result<Difference, Error> {
    let mut a = read(world, sides.0, selection)?;
    let mut b = read(world, sides.1, selection)?;
    let mut found = Difference { lines: definitions(&a, &b), ..Difference::default() };
    // The dump's chunks serve for both, so that a difference has a place.
    if a.target.is_some() && b.target.is_none() {
        std::mem::swap(&mut a, &mut b);
    }
    let common: Vec<TableEntry> = a
        .tables
        .iter()
        .filter(|entry| {
            entry.data && b.tables.iter().any(|other| other.table.name == entry.table.name && other.data)
        })
        .cloned()
        .collect();
    let condition = a.condition.clone().or_else(|| b.condition.clone());
    let mut wanted = common.clone();
    if let Some(target) = &a.target {
        cut(target, &mut wanted)?;
        let sums = sums(world, target, &wanted, condition.as_deref(), sessions)?;
        fill(&mut wanted, sums);
    }
    let theirs = match &b.target {
        Some(target) => sums(world, target, &wanted, condition.as_deref(), sessions)?,
        None => b
            .tables
            .iter()
            .filter(|entry| wanted.iter().any(|other| other.table.name == entry.table.name))
            .map(|entry| vec![(u32::MAX, entry.sum)])
            .collect(),
    };
    for (entry, sums) in wanted.iter().zip(theirs) {
        found.tables += 1;
        found.rows += entry.sum.rows;
        if let Some(line) = verify::difference(entry, &sums) {
            found.lines.push(format!("{line} (in {}, compared with {})", b.title, a.title));
        }
    }
    Ok(found)
}

fn read(world: &World, side: &Side, selection: &Selection) -> Result<Read, Error> {
    match side {
        Side::Folder(folder) => {
            let mut manifest = Manifest::read(&*world.disk, folder)?;
            crate::load::select(&mut manifest, selection)?;
            manifest
                .states()
                .iter()
                .for_each(|line| world.progress.note(&format!("{}: {line}", folder.display())));
            Ok(Read {
                title: folder.display().to_string(),
                version: manifest.source.server_version,
                objects: manifest.objects,
                tables: manifest.tables,
                condition: manifest.condition,
                target: None,
            })
        }
        Side::Server(target) => {
            let mut session = snapshot::connect(target)?;
            let catalogue = Catalogue::read(&mut session, selection)?;
            let tables = catalogue.tables.into_iter().map(|table| TableEntry {
                place: 0,
                folder: name::folder(&table.name),
                history: table.versioned
                    && table.columns.iter().any(|column| column.origin == Origin::RowTime),
                data: table.holds_rows(),
                earlier: None,
                chunks: Vec::new(),
                sum: Sum::default(),
                table,
            });
            Ok(Read {
                title: target.to_string(),
                version: session.about.version_text.clone(),
                objects: catalogue.objects,
                tables: tables.collect(),
                condition: None,
                target: Some(Target::clone(target)),
            })
        }
    }
}

/// What is on one side only, and what is defined otherwise. Texts are compared where both servers are of one version.
fn definitions(a: &Read, b: &Read) -> Vec<String> {
    let mut lines = Vec::new();
    let exact = a.version == b.version;
    for (one, other) in [(a, b), (b, a)] {
        for object in one.objects.iter().filter(|object| object.kind != Kind::Sequence) {
            let found = other.objects.iter().find(|known| {
                known.kind == object.kind && known.schema == object.schema && known.name == object.name
            });
            match found {
                None => lines.push(format!("{}: only in {}", object.title(), one.title)),
                Some(found) if exact && found != object && std::ptr::eq(one, a) => {
                    lines.push(format!("{}: defined otherwise", object.title()));
                }
                Some(_) => {}
            }
        }
        for entry in &one.tables {
            let name = &entry.table.name;
            match other.tables.iter().find(|known| known.table.name == *name) {
                None => lines.push(format!("table {name}: only in {}", one.title)),
                Some(found)
                    if exact
                        && std::ptr::eq(one, a)
                        && sorted(&found.table.definition) != sorted(&entry.table.definition) =>
                {
                    lines.push(format!("table {name}: defined otherwise"));
                }
                Some(_) => {}
            }
        }
    }
    lines
}

/// Cuts a server's tables into chunks, so that several sessions read the large ones.
fn cut(target: &Target, entries: &mut [TableEntry]) -> Result<(), Error> {
    let mut session = verify::reader(target)?;
    session.execute("START TRANSACTION")?;
    session.execute(plan::MARK)?;
    for entry in entries {
        let mut chunks = Vec::new();
        let cut = Cut { table: &entry.table, partition: None, chunk_bytes: &|| CHUNK_BYTES };
        cut.run(&mut session, &mut |range, _| {
            chunks.push(Chunk {
                number: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
                partition: None,
                range,
                sum: Sum::default(),
                text_bytes: 0,
                file_bytes: 0,
                blake3: String::new(),
            });
            Ok(())
        })?;
        entry.chunks = chunks;
    }
    Ok(())
}

fn sums(
    world: &World,
    target: &Target,
    entries: &[TableEntry],
    condition: Option<&str>,
    sessions: usize,
) -> Result<Vec<Vec<(u32, Sum)>>, Error> {
    world.progress.phase("comparing", Some(entries.iter().map(|entry| entry.table.bytes).sum()));
    let parts: Vec<Part<'_>> = entries
        .iter()
        .flat_map(|entry| entry.chunks.iter().map(move |chunk| Part { entry, chunk, condition }))
        .collect();
    let found = verify::sums(world, target, &parts, sessions)?;
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
