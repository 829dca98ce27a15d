//! Files of Parquet, and those of their odd values.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use codec::Codec;
use progress::count;
use server::catalogue;
use server::quote_name;

use super::{Chunk, Manifest, ODD_FOLDER, TableEntry};
use crate::data_file::DataFile;
use crate::data_file::parquet::{OddFile, ParquetContent, Part};
use crate::value_text;

/// The file name extension of odd values.
const ODD_EXTENSION: &str = "tsv.zst";

impl Chunk {
    /// The files of its odd values.
    pub(crate) fn odd_files(&self) -> impl Iterator<Item = &OddFile> {
        self.odd.iter().chain(self.parts.iter().filter_map(|part| part.odd.as_ref())).map(|odd| &**odd)
    }
}

impl TableEntry {
    /// The columns of its files of Parquet.
    pub(crate) fn parquet_columns(&self) -> Vec<parquet_rows::Column> {
        let column = |column: &&catalogue::Column| parquet_rows::Column {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            column_type: column.column_type.clone(),
            character_set: column.character_set.clone(),
            is_numbered: value_text::is_numbered(column, self.version),
            is_in_path: self.partition_column.as_ref() == Some(&column.name),
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
            for (name, values) in entry.chunks.iter().flat_map(Chunk::odd_files).flat_map(|odd| &odd.columns)
            {
                *columns.entry(name).or_default() += values;
            }
            lines.extend(columns.into_iter().map(|(name, values)| {
                let is_in_path = entry.partition_column.as_deref() == Some(name);
                let (who, instead) = match is_in_path {
                    true => ("the name of a folder", "they are in the folder of NULL instead"),
                    false => ("Parquet", "NULL is in its files instead"),
                };
                format!(
                    "column {} of table {}: {who} can't hold {}; {instead}, and load restores what was there from \
                     the folder {ODD_FOLDER}",
                    quote_name(name),
                    entry.table.name,
                    count(values, "value"),
                )
            }));
        }
        lines
    }

    /// For each partition column of text whose values readers take for other ones, a line that says so.
    #[must_use]
    pub fn mistaken(&self) -> Vec<String> {
        let line = |entry: &TableEntry| {
            let name = entry.partition_column.as_ref()?;
            let column = entry.columns().into_iter().find(|column| column.name == *name)?;
            column.character_set.as_ref()?;
            let parts = entry.chunks.iter().flat_map(|chunk| &chunk.parts);
            let value = mistaken(parts.filter_map(|part| part.value.as_deref()))?;
            Some(format!(
                "column {} of table {}: polars, pyarrow and Spark take the text '{value}' in the name of a folder \
                 for a number, unless they are told that the column is text",
                quote_name(name),
                entry.table.name
            ))
        };
        self.tables.iter().filter_map(line).collect()
    }

    /// The path of a file of a chunk, in the folder for a value.
    pub(crate) fn part_path(
        &self,
        folder: &Path,
        table: &TableEntry,
        chunk: &Chunk,
        value: Option<&str>,
    ) -> PathBuf {
        let name = format!("{:05}.{}", chunk.number, self.data_extension);
        folder.join(&table.folder).join(value_folder(table, value)).join(name)
    }

    /// The path of the values that are not in that file.
    pub(crate) fn part_odd_path(
        &self,
        folder: &Path,
        table: &TableEntry,
        chunk: &Chunk,
        value: Option<&str>,
    ) -> PathBuf {
        let name = format!("{:05}.{ODD_EXTENSION}", chunk.number);
        folder.join(ODD_FOLDER).join(&table.folder).join(value_folder(table, value)).join(name)
    }

    /// The files of a chunk whose rows are in folders.
    pub(super) fn parts(&self, folder: &Path, table: &TableEntry, chunk: &Chunk) -> Vec<DataFile> {
        let columns = table.parquet_columns();
        let in_path = columns.iter().find(|column| column.is_in_path);
        let file = |part: &Part| {
            let value = part.value.as_deref();
            let content = ParquetContent {
                columns: columns.clone(),
                path_text: in_path.and_then(|column| column.path_text(value)).unwrap_or_default(),
                odd: part
                    .odd
                    .as_ref()
                    .map(|odd| Box::new(odd_file(odd, self.part_odd_path(folder, table, chunk, value)))),
            };
            DataFile {
                path: self.part_path(folder, table, chunk, value),
                offset: None,
                codec: Codec::Plain,
                bytes: part.file_bytes,
                blake3: part.blake3.clone(),
                text_bytes_max: part.text_bytes,
                parquet: Some(content),
                parts: None,
            }
        };
        chunk.parts.iter().map(file).collect()
    }

    /// What is needed to read a chunk's file.
    pub(super) fn parquet_content(&self, folder: &Path, table: &TableEntry, chunk: &Chunk) -> ParquetContent {
        let odd = |odd: &OddFile| Box::new(odd_file(odd, self.odd_path(folder, table, chunk)));
        ParquetContent {
            columns: table.parquet_columns(),
            path_text: Vec::new(),
            odd: chunk.odd.as_deref().map(odd),
        }
    }
}

/// Whether a name in a table's folder is that of a folder for a value; no file of data has such a name.
pub(crate) fn is_of_value(name: &OsStr) -> bool {
    name.to_string_lossy().contains('=')
}

/// The first text that a reader takes for another one if it takes all of them for numbers.
fn mistaken<'v>(values: impl Iterator<Item = &'v str>) -> Option<&'v str> {
    let mut first = None;
    for value in values {
        // Not those that are written as words.
        value.parse::<f64>().ok().filter(|_| value.contains(|char: char| char.is_ascii_digit()))?;
        let is_same = value.parse::<i128>().is_ok_and(|number| number.to_string() == value);
        first = first.or((!is_same).then_some(value));
    }
    first
}

fn odd_file(odd: &OddFile, path: PathBuf) -> DataFile {
    DataFile {
        path,
        offset: None,
        codec: Codec::Zstd,
        bytes: odd.file_bytes,
        blake3: odd.blake3.clone(),
        text_bytes_max: odd.text_bytes,
        parquet: None,
        parts: None,
    }
}

fn value_folder(table: &TableEntry, value: Option<&str>) -> String {
    parquet_rows::folder_name(table.partition_column.as_deref().unwrap_or_default(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_mistaken_for_numbers_if_all_of_them_look_like_some() {
        for (values, wanted) in [
            (&["7", "-8"][..], None),
            (&["7", "007", "008"], Some("007")),
            (&["1.50"], Some("1.50")),
            (&["007", "x"], None),
            (&["2026-11-28"], None),
            (&[], None),
        ] {
            assert_eq!(mistaken(values.iter().copied()), wanted, "{values:?}");
        }
    }
}
