//! A table on both servers of a copy, which is compared part by part.

use std::collections::BTreeMap;
use std::io;

use server::catalogue::Table;
use server::{Session, TableName};

use crate::canonical::CanonicalLines;
use crate::hash::Sum;
use crate::manifest::{Chunk, TableEntry};
use crate::plan::{self, Cut};
use crate::{Context, Error, ReadRequest, select, verify};

/// A table on both servers of a copy.
#[derive(Debug)]
pub struct CopiedTable {
    source: TableEntry,
    target: TableEntry,
}

/// A part of a table: a range of its key.
#[derive(Clone, Debug)]
pub struct TablePart {
    chunk: Chunk,
    /// Its bytes, as the source estimates them.
    pub bytes: u64,
}

/// One of the servers of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySide {
    /// The server that is copied.
    Source,
    /// Its copy.
    Target,
}

impl CopiedTable {
    /// `table` is as the source defines it, `target` its name on the target. Sessions that read masked
    /// columns of the source must have been prepared for it ([`crate::Masks::prepare`]).
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a mask that does not fit a column.
    pub fn new(read: &ReadRequest, table: &Table, target: &TableName) -> Result<CopiedTable, Error> {
        let on_target = Table { name: target.clone(), ..table.clone() };
        Ok(CopiedTable { source: read.entry(table)?, target: TableEntry::whole(on_target) })
    }

    /// Cuts the table into parts of about so many bytes. `is_same_order` says that both servers sort texts in
    /// the same order; otherwise a table with text in its key is one part.
    ///
    /// The session begins a transaction and ends it.
    ///
    /// # Errors
    /// Those of the source.
    pub fn parts(
        &self,
        source: &mut Session,
        part_bytes: u64,
        is_same_order: bool,
    ) -> Result<Vec<TablePart>, Error> {
        let table = &self.source.table;
        let part =
            |number, range, bytes| TablePart { chunk: Chunk::planned(number, Vec::new(), range), bytes };
        let mut key = table.columns.iter().filter(|column| table.key.contains(&column.name));
        if !is_same_order && key.any(|column| column.character_set.is_some()) {
            return Ok(vec![self.whole()]);
        }
        source.execute("START TRANSACTION")?;
        source.execute(plan::SET_SAVEPOINT)?;
        let mut parts = Vec::new();
        let cut = Cut { table, partition: None, chunk_bytes: &|| part_bytes };
        cut.run(source, &mut |range, bytes| {
            let bytes = if range.is_none() { table.bytes } else { bytes };
            parts.push(part(u32::try_from(parts.len()).unwrap_or(u32::MAX), range, bytes));
            Ok(())
        })?;
        source.execute("ROLLBACK")?;
        Ok(parts)
    }

    /// All of it as one part.
    #[must_use]
    pub fn whole(&self) -> TablePart {
        TablePart { chunk: Chunk::planned(0, Vec::new(), None), bytes: self.source.table.bytes }
    }

    fn entry(&self, side: CopySide) -> &TableEntry {
        match side {
            CopySide::Source => &self.source,
            CopySide::Target => &self.target,
        }
    }

    /// The query for those rows of a part that meet a condition: what is copied of them, on both sides.
    fn query(&self, side: CopySide, part: &TablePart, condition: Option<&str>) -> String {
        match side {
            CopySide::Source => select::source_rows(&self.source, &part.chunk, condition),
            CopySide::Target => select::stored(&self.target, &part.chunk, condition),
        }
    }

    /// The sum of those rows of a part that meet a condition.
    ///
    /// # Errors
    /// Those of the server; [`Error::Stopped`].
    pub fn sum(
        &self,
        context: &Context,
        (session, side): (&mut Session, CopySide),
        part: &TablePart,
        condition: Option<&str>,
    ) -> Result<Sum, Error> {
        let sql = self.query(side, part, condition);
        verify::sum_of_query(context, session, (&self.entry(side).table.name, &sql), &mut |_, _| {})
    }

    /// Those rows of a part that meet a condition, as lines of text by the text of their key.
    ///
    /// # Errors
    /// Those of the server.
    pub fn rows(
        &self,
        (session, side): (&mut Session, CopySide),
        part: &TablePart,
        condition: Option<&str>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let entry = self.entry(side);
        let mut text = Vec::new();
        let mut to = |block: &[u8], _| {
            text.extend_from_slice(block);
            Ok(())
        };
        let mut lines = CanonicalLines::new(&mut to);
        session.stream(&self.query(side, part, condition), &mut lines)?;
        let broken = |error: io::Error| Error::Server(server::Error::Sink(error));
        lines.finish().map_err(broken)?;
        let is_key: Vec<bool> =
            entry.columns().iter().map(|column| entry.table.key.contains(&column.name)).collect();
        let row = |line: &[u8]| {
            let line = server::text::text(line.to_vec());
            let values = line.split('\t').zip(&is_key).filter(|(_, is_key)| **is_key);
            (values.map(|(value, _)| value).collect::<Vec<_>>().join(", "), line)
        };
        Ok(text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(row).collect())
    }
}
