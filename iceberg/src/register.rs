//! One run: each table of a dump becomes the newest snapshot of a table of Iceberg.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use disk::{Disk, Output};
use dump::{Chunk, Format, Manifest, Pattern, Selection, TableEntry};
use failure::{Completeness, Failure, damage, usage};
use iceberg::spec::{DataFile, FormatVersion, PartitionSpec, SortOrder, TableMetadata, TableMetadataBuilder};
use parquet::file::metadata::ParquetMetaData;
use server::TableName;
use server::catalogue::Wanted;

use crate::arguments::Arguments;
use crate::columns::{self, Column};
use crate::data_file;
use crate::outcome::{Outcome, Report, State};
use crate::snapshot::{self, Origin};
use crate::warehouse::{Table, Warehouse, address, is_in_store};

/// By which names readers find columns in files that have no numbers.
const MAPPING: &str = "schema.name-mapping.default";
/// Whether engines may remove files that no snapshot needs any more.
const REMOVES_FILES: &str = "gc.enabled";
/// Whether Spark reads with a reader that does not know all encodings: the files of a dump have differences,
/// too, which the other reader knows.
const IS_VECTORIZED: &str = "read.parquet.vectorization.enabled";
/// Bytes that are copied at once.
const BUFFER: usize = 1 << 20;

/// A dump that is being registered.
struct Run<'a> {
    warehouse: &'a Warehouse,
    folder: PathBuf,
    manifest: &'a Manifest,
    /// Whether the data are copied into the warehouse.
    copy: bool,
}

/// Registers what was asked for, table by table. Those that can't be are left out, and named.
pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Completeness> {
    let warehouse = Warehouse::open(&arguments.warehouse)?;
    warehouse.disk.check(&arguments.dump)?;
    let manifest = Manifest::read(&warehouse.disk, &arguments.dump)?;
    if manifest.data_format != Format::Parquet {
        return Err(usage(format!(
            "{}: it is not of Parquet; write one with remora dump --format parquet",
            arguments.dump.display()
        )));
    }
    let folder = if is_in_store(&arguments.dump) {
        arguments.dump.clone()
    } else {
        arguments.dump.canonicalize().with_context(|| arguments.dump.display().to_string())?
    };
    if warehouse.is_in_store() && !is_in_store(&folder) && !arguments.copy {
        return Err(usage(
            "the dump is on this machine, where readers of the store don't see it: give --copy",
        ));
    }
    let wanted = selected(&manifest, arguments)?;
    let run = Run { warehouse: &warehouse, folder, manifest: &manifest, copy: arguments.copy };
    let mut complete = Completeness::Complete;
    for entry in &wanted {
        match run.table(entry) {
            Ok(outcome) => report.table(&outcome),
            Err(error) if is_of_one_table(&error) => {
                report.warning(&format!("{} is left out: {}", entry.table.name, failure::text(&error)));
                complete = complete.and_left_out();
            }
            Err(error) => return Err(error.context(entry.table.name.to_string())),
        }
    }
    let odd = manifest.odd();
    let odd = odd
        .iter()
        .filter(|line| wanted.iter().any(|entry| line.contains(&format!(" of table {}:", entry.table.name))));
    for line in odd {
        report.warning(line);
        complete = complete.and_left_out();
    }
    Ok(complete)
}

/// The tables with rows in the dump that the names select.
fn selected<'a>(manifest: &'a Manifest, arguments: &Arguments) -> Result<Vec<&'a TableEntry>> {
    let of = |include: Vec<Pattern>| Selection { include, ..Selection::default() };
    let has = |selection: &Selection, entry: &TableEntry| {
        selection.table(&entry.table.name.schema, &entry.table.name.table)
    };
    let with_rows = || manifest.tables.iter().filter(|entry| entry.data);
    for pattern in &arguments.names {
        let one = of(vec![pattern.clone()]);
        if !with_rows().any(|entry| has(&one, entry)) {
            return Err(usage(format!("{pattern}: the dump has no rows of such a table")));
        }
    }
    let wanted = of(arguments.names.clone());
    Ok(with_rows().filter(|entry| has(&wanted, entry)).collect())
}

/// Whether other tables can still be registered after it.
fn is_of_one_table(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_none() && error.downcast_ref::<std::io::Error>().is_none()
}

impl Run<'_> {
    fn table(&self, entry: &TableEntry) -> Result<Outcome> {
        check_name(&entry.table.name)?;
        if let Some(column) = &entry.partition_column {
            bail!(
                "its rows are in folders by column {column}, which is in none of its files, and Iceberg would not \
                 have it; dump the table without --partition"
            );
        }
        let table = self.warehouse.table(&entry.table.name)?;
        let before = table.current.as_ref().and_then(|(metadata, _)| registered(metadata, &self.manifest.id));
        if let Some(snapshot) = before {
            let current = table.current.as_ref().and_then(|(metadata, _)| metadata.current_snapshot_id());
            return Ok(Outcome {
                state: State::Unchanged,
                is_superseded: current != Some(snapshot),
                ..self.outcome(entry, snapshot, Vec::new())
            });
        }
        let footers = self.footers(entry)?;
        let columns = columns_of(&footers)?;
        let (metadata, changes) = self.prepared(&table, &columns)?;
        for folder in ["metadata", "data"].iter().filter(|name| self.copy || **name == "metadata") {
            self.warehouse.disk.make_folder(&table.folder.join(folder))?;
        }
        let mut files: Vec<DataFile> = Vec::new();
        for (chunk, footer) in footers.iter().filter(|(chunk, _)| chunk.sum.rows > 0) {
            let path = self.manifest.path(&self.folder, entry, chunk);
            let path = if self.copy { self.copied(&table, &path, chunk)? } else { path };
            let schema = metadata.current_schema();
            files.push(data_file::entry(address(&path), chunk.file_bytes, footer, schema)?);
        }
        let origin = Origin { dump: &self.manifest.id, position: self.position(entry) };
        let (metadata, id) = snapshot::replace(self.warehouse, &table, metadata, files, &origin)?;
        self.warehouse.commit(&table, &metadata)?;
        Ok(self.outcome(entry, id, changes))
    }

    fn outcome(&self, entry: &TableEntry, snapshot: i64, changes: Vec<String>) -> Outcome {
        Outcome {
            table: entry.table.name.to_string(),
            state: State::Registered,
            rows: entry.sum.rows,
            files: entry.chunks.iter().filter(|chunk| chunk.sum.rows > 0).count(),
            snapshot,
            changes,
            is_superseded: false,
        }
    }

    /// Where in the binary log of their server the rows of a table are from.
    fn position(&self, entry: &TableEntry) -> Option<String> {
        let position = match entry.earlier {
            Some(earlier) => self.manifest.earlier.get(earlier)?.position.as_ref(),
            None => self.manifest.source.position.as_ref(),
        };
        let position = position?;
        Some(format!("{}:{} {}", position.file, position.offset, position.gtid).trim_end().to_owned())
    }

    /// The footers of a table's files, which must have the rows that the manifest says.
    fn footers<'e>(&self, entry: &'e TableEntry) -> Result<Vec<(&'e Chunk, ParquetMetaData)>> {
        let mut footers = Vec::new();
        for chunk in &entry.chunks {
            let path = self.manifest.path(&self.folder, entry, chunk);
            let footer = data_file::footer(&self.warehouse.disk, &path, chunk.file_bytes)?;
            let rows = footer.file_metadata().num_rows();
            if u64::try_from(rows).ok() != Some(chunk.sum.rows) {
                let wanted = progress::count(chunk.sum.rows, "row");
                return Err(damage(format!(
                    "{}: it has {rows}, and the manifest says {wanted}",
                    path.display()
                )));
            }
            footers.push((chunk, footer));
        }
        Ok(footers)
    }

    /// The metadata of a table, new or as it is, with the columns of the files.
    fn prepared(&self, table: &Table, columns: &[Column]) -> Result<(TableMetadata, Vec<String>)> {
        let properties = |metadata: &TableMetadata| -> Result<Vec<(String, String)>> {
            Ok(vec![(MAPPING.to_owned(), columns::mapping(metadata)?)])
        };
        let Some((metadata, location)) = &table.current else {
            let created = TableMetadataBuilder::new(
                columns::schema(columns)?,
                PartitionSpec::unpartition_spec(),
                SortOrder::unsorted_order(),
                address(&table.folder),
                FormatVersion::V2,
                Default::default(),
            )?;
            let created = created.build()?.metadata;
            let mut all = properties(&created)?;
            all.push((IS_VECTORIZED.to_owned(), "false".to_owned()));
            if !self.copy {
                // The files belong to the dump: an engine that expires snapshots must leave them.
                all.push((REMOVES_FILES.to_owned(), "false".to_owned()));
            }
            let built = created.into_builder(None).set_properties(all.into_iter().collect())?.build()?;
            return Ok((built.metadata, Vec::new()));
        };
        snapshot::check(metadata)?;
        let evolved = columns::evolve(metadata, columns)?;
        if evolved.changes.is_empty() && evolved.schema.as_struct() == metadata.current_schema().as_struct() {
            return Ok((metadata.clone(), Vec::new()));
        }
        let builder = metadata.clone().into_builder(Some(location.clone()));
        let built = builder.add_current_schema(evolved.schema)?.build()?.metadata;
        let all = properties(&built)?;
        let built = built.into_builder(None).set_properties(all.into_iter().collect())?.build()?;
        Ok((built.metadata, evolved.changes))
    }

    /// Copies a file into the table's folder, and checks that it is the one that was written.
    fn copied(&self, table: &Table, from: &Path, chunk: &Chunk) -> Result<PathBuf> {
        let disk = &self.warehouse.disk;
        let folder = table.folder.join("data").join(&self.manifest.id);
        disk.make_folder(&folder)?;
        let to = folder.join(from.file_name().context("a file without a name")?);
        let mut source = disk.open(from).with_context(|| from.display().to_string())?;
        let mut output = Output::create(disk, &to).with_context(|| to.display().to_string())?;
        let (mut hash, mut buffer) = (blake3::Hasher::new(), vec![0; BUFFER]);
        loop {
            let read = source.read(&mut buffer).with_context(|| from.display().to_string())?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            hash.update(bytes);
            output.write_all(bytes).with_context(|| to.display().to_string())?;
        }
        if hash.finalize().to_hex().as_str() != chunk.blake3 {
            return Err(damage(format!("{}: its BLAKE3 is not that of the manifest", from.display())));
        }
        output.finish().with_context(|| to.display().to_string())?;
        Ok(to)
    }
}

/// Refuses names that engines would read as something else in an address.
fn check_name(name: &TableName) -> Result<()> {
    for part in [&name.schema, &name.table] {
        let bad = part.chars().find(|letter| "/\\?#%:".contains(*letter) || letter.is_control());
        if let Some(bad) = bad {
            bail!("its name has {bad:?}, which readers of Iceberg take for a part of an address");
        }
        if part.starts_with('.') {
            bail!("its name begins with a dot, and readers of Iceberg ignore such folders");
        }
    }
    Ok(())
}

/// The snapshot of a dump, if the table's present state goes back to it.
fn registered(metadata: &TableMetadata, dump: &str) -> Option<i64> {
    let mut next = metadata.current_snapshot();
    while let Some(snapshot) = next {
        if snapshot.summary().additional_properties.get(snapshot::DUMP).is_some_and(|id| id == dump) {
            return Some(snapshot.snapshot_id());
        }
        next = snapshot.parent_snapshot_id().and_then(|parent| metadata.snapshot_by_id(parent));
    }
    None
}

/// The columns of a table's files, which are the same in all.
fn columns_of(footers: &[(&Chunk, ParquetMetaData)]) -> Result<Vec<Column>> {
    let of = |footer: &ParquetMetaData| columns::of_file(footer.file_metadata().schema());
    let [(_, first), others @ ..] = footers else { bail!("the dump has no file of it") };
    let first = of(first)?;
    for (chunk, footer) in others {
        if of(footer)? != first {
            return Err(damage(format!("file {} has other columns than the first one", chunk.number)));
        }
    }
    Ok(first)
}
