//! Checks everything in a manifest that could do harm.

use codec::Codec;

use std::collections::BTreeSet;

use super::{CODECS, Chunk, FORMAT, Manifest, TableEntry, VERSION};
use crate::hash::Sum;
use crate::value_text::PLAIN_VERSION;
use crate::{Format, folder_name};

/// No codec expands a byte further: a zstd block of four bytes can stand for 128 KiB.
const EXPANSION_MAX: u64 = 32 << 10;
/// Except columns: a block of some thirty bytes can stand for 32 MiB.
const EXPANSION_MAX_COLUMN: u64 = 1 << 20;
/// Bytes that a file may contain beyond that, however small it is.
const EXPANSION_FREE: u64 = 1 << 20;

impl Manifest {
    /// Checks everything that could do harm.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("its format is {:?} and not {FORMAT:?}", self.format));
        }
        if self.version != VERSION && self.version != PLAIN_VERSION {
            return Err(format!(
                "it is of version {}; this remora reads versions {PLAIN_VERSION} and {VERSION}",
                self.version
            ));
        }
        if self.id.is_empty() || !self.id.bytes().all(|byte| byte.is_ascii_hexdigit()) || self.id.len() > 32 {
            return Err("its id is not hexadecimal".to_owned());
        }
        let known = CODECS.iter().any(|codec| {
            Manifest::new(String::new(), self.source.clone(), self.data_format, *codec).data_extension
                == self.data_extension
        });
        if !known {
            return Err(format!("data files ending in {:?} are not known", self.data_extension));
        }
        if self.tables.iter().any(|entry| entry.earlier.is_some_and(|at| at >= self.earlier.len())) {
            return Err("a table is of a state that is not described".to_owned());
        }
        let expansion = match self.data_format {
            // A dictionary has a value once. It is counted while it is read.
            Format::Parquet => u64::MAX,
            _ if self.data_extension.ends_with(Codec::Column.extension()) => EXPANSION_MAX_COLUMN,
            _ => EXPANSION_MAX,
        };
        self.tables.iter().try_for_each(|entry| entry.check(expansion))?;
        if self.data_format != Format::Parquet
            && self.tables.iter().any(|entry| entry.partition_column.is_some())
        {
            return Err("only files of Parquet are in folders by a column's value".to_owned());
        }
        let chunks = self.tables.iter().flat_map(|entry| &entry.chunks);
        let total = chunks.fold(0_u64, |total, chunk| total.saturating_add(chunk.text_bytes));
        if total > 1 << 62 { Err("it is too large to be true".to_owned()) } else { Ok(()) }
    }
}

impl Chunk {
    /// Whether a file of that length can contain what the manifest claims, with at most `expansion` bytes for
    /// each of its own.
    fn check(&self, expansion: u64) -> Result<(), String> {
        let text_max = self.file_bytes.saturating_mul(expansion).saturating_add(EXPANSION_FREE);
        // A row has at least a newline.
        if self.sum.rows > self.text_bytes
            || self.text_bytes > text_max
            || self.file_bytes >= 1 << 48
            || self.within.is_some_and(|within| within.offset >= 1 << 48)
        {
            return Err(format!(
                "{} rows of {} bytes don't fit into a file of {}",
                self.sum.rows, self.text_bytes, self.file_bytes
            ));
        }
        Ok(())
    }
}

impl TableEntry {
    fn check(&self, expansion: u64) -> Result<(), String> {
        let name = &self.table.name;
        if self.folder != folder_name::folder(name) {
            return Err(format!("the folder {:?} is not that of table {name}", self.folder));
        }
        let mut sum = Sum::default();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if chunk.number as usize != number {
                return Err(format!("the chunks of table {name} are not numbered from 0"));
            }
            chunk.check(expansion).map_err(|what| format!("table {name}, chunk {number}: {what}"))?;
            if let Some(range) = &chunk.range {
                range
                    .check(self.table.key.len())
                    .map_err(|what| format!("table {name}, chunk {number}: {what}"))?;
            }
            self.check_parts(chunk).map_err(|what| format!("table {name}, chunk {number}: {what}"))?;
            sum.add(chunk.sum);
        }
        if sum != self.sum {
            return Err(format!("the sums of the chunks of table {name} do not make the table's"));
        }
        Ok(())
    }

    /// Checks that the files of a chunk are for values of the partition column, and make the chunk.
    fn check_parts(&self, chunk: &Chunk) -> Result<(), String> {
        let columns = self.parquet_columns();
        let column = columns.iter().find(|column| column.is_in_path);
        if self.partition_column.is_some() != column.is_some() {
            return Err("its partition column is none of its columns".to_owned());
        }
        let Some(column) = column else {
            return match chunk.parts.is_empty() {
                true => Ok(()),
                false => Err("it has parts, and its table no partition column".to_owned()),
            };
        };
        let mut values = BTreeSet::new();
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        for part in &chunk.parts {
            if column.path_text(part.value.as_deref()).is_none() || !values.insert(&part.value) {
                return Err(format!("{:?} is no value of a folder of its own", part.value));
            }
            rows = rows.saturating_add(part.rows);
            bytes = bytes.saturating_add(part.file_bytes);
        }
        if (rows, bytes) == (chunk.sum.rows, chunk.file_bytes) {
            Ok(())
        } else {
            Err(format!("its parts have {rows} rows and {bytes} bytes"))
        }
    }
}
