//! A snapshot that has certain files and no others.
//!
//! It has a manifest of the files that are new, and for each manifest of the snapshot before it one that says
//! that its files are gone. The data of both stay where they are.
//! <https://iceberg.apache.org/spec/#snapshots>.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use iceberg::spec::{
    DataFile, FormatVersion, MAIN_BRANCH, ManifestContentType, ManifestFile, ManifestListWriter,
    ManifestWriter, ManifestWriterBuilder, Operation, PartitionSpec, Snapshot, Summary, TableMetadata,
    UNASSIGNED_SEQUENCE_NUMBER,
};
use uuid::Uuid;

use crate::warehouse::{Table, Warehouse, address};

/// What a snapshot says about where its rows are from.
pub(crate) const DUMP: &str = "remora.dump";
const POSITION: &str = "remora.position";

/// Where the rows of a snapshot are from.
pub(crate) struct Origin<'a> {
    /// The dump's id.
    pub(crate) dump: &'a str,
    /// The position in the binary log of their server, if it had one.
    pub(crate) position: Option<String>,
}

/// The manifests of a snapshot that is being made.
struct Manifests<'a> {
    warehouse: &'a Warehouse,
    metadata: &'a TableMetadata,
    id: i64,
}

/// What is counted for a snapshot's summary.
#[derive(Default)]
struct Count {
    files: u64,
    rows: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, file: &DataFile) {
        self.files += 1;
        self.rows += file.record_count();
        self.bytes += file.file_size_in_bytes();
    }
}

/// Whether a table can take files as they are; the error says why not.
pub(crate) fn check(metadata: &TableMetadata) -> Result<()> {
    if metadata.format_version() != FormatVersion::V2 {
        bail!("it is a table of format version {:?}, and only 2 is written", metadata.format_version());
    }
    if !metadata.default_partition_spec().is_unpartitioned() {
        bail!("it was partitioned, and the files of a dump are not: drop its partition fields");
    }
    Ok(())
}

/// Writes the files that a new snapshot consists of, and returns the metadata that have it.
pub(crate) fn replace(
    warehouse: &Warehouse,
    table: &Table,
    metadata: TableMetadata,
    files: Vec<DataFile>,
    origin: &Origin<'_>,
) -> Result<(TableMetadata, i64)> {
    let id = new_id();
    let run = Uuid::new_v4();
    let folder = address(&table.folder.join("metadata"));
    let mut names = (0..).map(|number| format!("{folder}/{run}-m{number}.avro"));
    let mut name = || names.next().unwrap_or_default();
    let (mut added, mut removed) = (Count::default(), Count::default());
    files.iter().for_each(|file| added.add(file));
    let writing = Manifests { warehouse, metadata: &metadata, id };
    let mut manifests = Vec::new();
    if !files.is_empty() {
        manifests.push(writing.of(name(), files)?);
    }
    let parent = metadata.current_snapshot();
    if let Some(parent) = parent {
        warehouse.bring(parent.manifest_list())?;
        let list = warehouse.memory.files().new_input(parent.manifest_list())?;
        let list = warehouse.memory.run(list.read())?;
        let list = iceberg::spec::ManifestList::parse_with_version(&list, metadata.format_version())?;
        for before in list.entries() {
            manifests.extend(writing.without(name(), before, &mut removed)?);
        }
    }
    let location = format!("{folder}/snap-{id}-1-{run}.avro");
    let sequence = metadata.next_sequence_number();
    let parent = parent.map(|parent| parent.snapshot_id());
    let memory = &warehouse.memory;
    let output = memory.files().new_output(&location)?;
    let mut list = ManifestListWriter::v2(memory.run(output.writer())?, id, parent, sequence);
    list.add_manifests(manifests.into_iter())?;
    memory.run(list.close())?;
    warehouse.keep(&location)?;
    let now = jiff::Timestamp::now().as_millisecond();
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(sequence)
        // Two snapshots of one time could not be told apart by it.
        .with_timestamp_ms(now.max(metadata.last_updated_ms() + 1))
        .with_manifest_list(location)
        .with_summary(summary(parent.is_some(), &added, &removed, origin))
        .with_schema_id(metadata.current_schema_id())
        .build();
    let from = table.current.as_ref().map(|(_, location)| location.clone());
    let built = metadata.into_builder(from).set_branch_snapshot(snapshot, MAIN_BRANCH)?.build()?;
    Ok((built.metadata, id))
}

/// A number that no other snapshot of the table has.
fn new_id() -> i64 {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    i64::from_ne_bytes((high ^ low).to_ne_bytes()) & i64::MAX
}

impl Manifests<'_> {
    /// A manifest of new files.
    fn of(&self, location: String, files: Vec<DataFile>) -> Result<ManifestFile> {
        let mut writer = self.begin(&location, self.metadata.default_partition_spec())?.build_v2_data();
        for file in files {
            writer.add_file(file, UNASSIGNED_SEQUENCE_NUMBER)?;
        }
        self.keep(&location, writer)
    }

    /// The manifest that takes the files of an earlier one away; `None` if none are left in it.
    fn without(
        &self,
        location: String,
        before: &ManifestFile,
        removed: &mut Count,
    ) -> Result<Option<ManifestFile>> {
        let memory = &self.warehouse.memory;
        self.warehouse.bring(&before.manifest_path)?;
        let read = memory.run(before.load_manifest(memory.files()))?;
        let alive: Vec<_> = read.entries().iter().filter(|entry| entry.is_alive()).collect();
        if alive.is_empty() {
            return Ok(None);
        }
        let spec = self.metadata.partition_spec_by_id(before.partition_spec_id);
        let spec =
            spec.with_context(|| format!("there is no partition spec {}", before.partition_spec_id))?;
        let is_data = before.content == ManifestContentType::Data;
        let writer = self.begin(&location, spec)?;
        let mut writer = if is_data { writer.build_v2_data() } else { writer.build_v2_deletes() };
        for entry in alive {
            if is_data {
                removed.add(entry.data_file());
            }
            let sequence = entry.sequence_number().unwrap_or(before.sequence_number);
            writer.add_delete_file(entry.data_file().clone(), sequence, entry.file_sequence_number)?;
        }
        self.keep(&location, writer).map(Some)
    }

    fn begin(&self, location: &str, spec: &Arc<PartitionSpec>) -> Result<ManifestWriterBuilder> {
        let output = self.warehouse.memory.files().new_output(location)?;
        let schema = self.metadata.current_schema().clone();
        Ok(ManifestWriterBuilder::new(output, Some(self.id), schema, (**spec).clone()))
    }

    fn keep(&self, location: &str, writer: ManifestWriter) -> Result<ManifestFile> {
        let written = self.warehouse.memory.run(writer.write_manifest_file())?;
        self.warehouse.keep(location)?;
        Ok(written)
    }
}

fn summary(is_replaced: bool, added: &Count, removed: &Count, origin: &Origin<'_>) -> Summary {
    let mut texts = vec![
        (DUMP.to_owned(), origin.dump.to_owned()),
        ("engine-name".to_owned(), "remora-iceberg".to_owned()),
    ];
    texts.extend(origin.position.clone().map(|position| (POSITION.to_owned(), position)));
    let numbers = [
        ("added-data-files", added.files),
        ("added-records", added.rows),
        ("added-files-size", added.bytes),
        ("deleted-data-files", removed.files),
        ("deleted-records", removed.rows),
        ("removed-files-size", removed.bytes),
        ("total-data-files", added.files),
        ("total-records", added.rows),
        ("total-files-size", added.bytes),
        ("total-delete-files", 0),
        ("total-position-deletes", 0),
        ("total-equality-deletes", 0),
    ];
    texts.extend(numbers.map(|(name, number)| (name.to_owned(), number.to_string())));
    Summary {
        operation: if is_replaced { Operation::Overwrite } else { Operation::Append },
        additional_properties: texts.into_iter().collect(),
    }
}
