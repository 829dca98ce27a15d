//! A table as it is dumped, with the options for Parquet.

use server::catalogue::{Catalogue, Table};
use server::quote_name;

use super::{DumpRequest, ParquetRequest};
use crate::Error;
use crate::manifest::TableEntry;

impl ParquetRequest {
    /// Checks that some table has each column that is named.
    pub(super) fn check(&self, catalogue: &Catalogue) -> Result<(), Error> {
        self.partition.check("--partition", catalogue)?;
        self.bloom.check("--bloom", catalogue)
    }
}

impl DumpRequest {
    /// A table of the catalogue, without chunks.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a mask or an option for Parquet that does not fit a column.
    pub(super) fn entry(&self, table: &Table) -> Result<TableEntry, Error> {
        let mut entry = self.read.entry(table)?;
        if !entry.data {
            return Ok(entry);
        }
        let refuse = |option: &str, column: &str, why: &str| {
            Error::Mismatch(format!("{option}: column {} of table {}: {why}", quote_name(column), table.name))
        };
        let columns = entry.parquet_columns();
        let find = |name: &str| columns.iter().find(|column| column.name == name);
        const COMPUTED: &str = "it is computed, and in no file";
        for column in self.parquet.partition.of(table) {
            let name = &column.name;
            let why = match find(name) {
                None => COMPUTED,
                Some(_) if columns.len() == 1 => "the table has no other column",
                Some(found) if !found.can_name_folders() => {
                    "a folder is named for a whole number without ZEROFILL, a DATE, a YEAR, an ENUM or a text"
                }
                Some(_) if entry.partition_column.is_some() => "one column of a table names folders",
                Some(_) => {
                    entry.partition_column = Some(name.clone());
                    continue;
                }
            };
            return Err(refuse("--partition", name, why));
        }
        for column in self.parquet.bloom.of(table) {
            let name = &column.name;
            let why = match find(name) {
                None => COMPUTED,
                Some(_) if entry.partition_column.as_ref() == Some(name) => "it is in the names of folders",
                Some(found) if !found.can_have_bloom() => {
                    "a Bloom filter is for numbers, times, texts and bytes"
                }
                Some(_) => {
                    entry.bloom.push(name.clone());
                    continue;
                }
            };
            return Err(refuse("--bloom", name, why));
        }
        Ok(entry)
    }
}
