//! Files of Parquet, and those of their odd values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codec::Codec;
use progress::count;
use server::catalogue;
use server::quote_name;

use super::{Chunk, Manifest, ODD_FOLDER, TableEntry};
use crate::data_file::DataFile;
use crate::data_file::parquet::ParquetContent;
use crate::value_text;

/// The file name extension of odd values.
const ODD_EXTENSION: &str = "tsv.zst";

impl TableEntry {
    /// The columns of its files of Parquet.
    pub(crate) fn parquet_columns(&self) -> Vec<parquet_rows::Column> {
        let column = |column: &&catalogue::Column| parquet_rows::Column {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            column_type: column.column_type.clone(),
            character_set: column.character_set.clone(),
            is_numbered: value_text::is_numbered(column, self.version),
        };
        self.columns().iter().map(column).collect()
    }
}

impl Manifest {
    /// The path of the values of a chunk that are not in its Parquet file.
    pub(crate) fn odd_path(&self, folder: &Path, table: &TableEntry, chunk: &Chunk) -> PathBuf {
        folder.join(ODD_FOLDER).join(&table.folder).join(format!("{:05}.{ODD_EXTENSION}", chunk.number))
    }

    /// For each column of which values are not in its Parquet files, a line that says so.
    #[must_use]
    pub fn odd(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for entry in &self.tables {
            let mut columns: BTreeMap<&str, u64> = BTreeMap::new();
            for (name, values) in
                entry.chunks.iter().filter_map(|chunk| chunk.odd.as_ref()).flat_map(|odd| &odd.columns)
            {
                *columns.entry(name).or_default() += values;
            }
            lines.extend(columns.into_iter().map(|(name, values)| {
                format!(
                    "column {} of table {}: Parquet can't hold {}; NULL is in its files instead, and load restores \
                     what was there from the folder {ODD_FOLDER}",
                    quote_name(name),
                    entry.table.name,
                    count(values, "value"),
                )
            }));
        }
        lines
    }

    /// What is needed to read a chunk's file.
    pub(super) fn parquet_content(&self, folder: &Path, table: &TableEntry, chunk: &Chunk) -> ParquetContent {
        ParquetContent {
            columns: table.parquet_columns(),
            odd: chunk.odd.as_ref().map(|odd| {
                Box::new(DataFile {
                    path: self.odd_path(folder, table, chunk),
                    offset: None,
                    codec: Codec::Zstd,
                    bytes: odd.file_bytes,
                    blake3: odd.blake3.clone(),
                    text_bytes_max: odd.text_bytes,
                    parquet: None,
                })
            }),
        }
    }
}
