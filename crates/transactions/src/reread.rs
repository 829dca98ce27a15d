//! Reads transactions again, for their rows.

use std::rc::Rc;

use anyhow::Result;
use binlog::event::rows::Rows;
use binlog::event::table::Table;
use binlog::event::{Body, Change, Event};
use binlog::row::{self, Row};
use binlog::tables::Tables;

use crate::definitions::Known;
use crate::file::LogFile;
use crate::filter::{Choice, Choices, Filter};
use crate::source::{self, Span};
use crate::transaction::{Place, Transaction};

/// A row that is asked for.
pub struct AskedRow<'a> {
    /// Before and after the change.
    pub row: Row<'a>,
    /// Its table, the same object for all rows until it is described again.
    pub table: &'a Rc<Table>,
    /// What happened to it.
    pub change: Change,
}

/// An event with rows, of which some may be asked for.
pub struct RowsEvent<'a> {
    /// The rows.
    pub rows: &'a Rows<'a>,
    /// Their table.
    pub table: &'a Rc<Table>,
    /// The body of its TABLE_MAP.
    pub described: &'a [u8],
    choice: Choice,
    filter: &'a Filter,
    place: String,
}

impl RowsEvent<'_> {
    /// Takes all rows, and whether they are asked for. `table` is the table, of which more may be known.
    pub fn each(&self, table: &Table, mut take: impl FnMut(&Row<'_>, bool) -> Result<()>) -> Result<()> {
        for row in row::rows(self.rows, table, self.place.as_str())? {
            let row = row?;
            let is_asked = match &self.choice {
                Choice::Columns(columns) => self.filter.has_row(&row, columns)?,
                Choice::Not | Choice::Nameless | Choice::Incomparable(_) => false,
            };
            take(&row, is_asked)?;
        }
        Ok(())
    }

    /// Takes the rows that are asked for, with their numbers in the event.
    pub fn asked(&self, mut take: impl FnMut(usize, &AskedRow<'_>) -> Result<()>) -> Result<()> {
        if !matches!(self.choice, Choice::Columns(_)) {
            return Ok(());
        }
        let (table, change, mut number) = (self.table, self.rows.change, 0);
        self.each(table, |row, is_asked| {
            if is_asked {
                take(number, &AskedRow { row: *row, table, change })?;
            }
            number += 1;
            Ok(())
        })
    }
}

/// Reads transactions again.
pub struct Again<'a> {
    files: &'a [LogFile],
    filter: &'a Filter,
    known: &'a Known,
    choices: Choices<'a>,
    tables: Tables,
}

impl<'a> Again<'a> {
    /// Reads from these files what a filter lets through.
    pub fn new(files: &'a [LogFile], filter: &'a Filter, known: &'a Known) -> Again<'a> {
        Again { files, filter, known, choices: Choices::new(filter), tables: Tables::default() }
    }

    /// The rows of a transaction that are asked for, in the order of the log.
    pub fn rows(
        &mut self,
        whole: &Transaction,
        mut take: impl FnMut(&AskedRow<'_>) -> Result<()>,
    ) -> Result<()> {
        self.events(whole, |event| event.asked(|_, row| take(row)))
    }

    /// The rows between two places in which transactions begin or end, in the order of the log.
    pub fn between(
        &mut self,
        start: Place,
        end: Place,
        mut take: impl FnMut(&AskedRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(file) = self.files.get(start.file) else { return Ok(()) };
        let (_, format) = source::head(file)?;
        let mut rows = |event: &RowsEvent<'_>| event.asked(|_, row| take(row));
        let span = Span { start, end, bytes: source::PIECE_BYTES };
        source::events(&span, &format, self.files, |event, _| self.event(event, &mut rows))
    }

    /// All events with rows.
    pub fn events(
        &mut self,
        whole: &Transaction,
        mut take: impl FnMut(&RowsEvent<'_>) -> Result<()>,
    ) -> Result<()> {
        source::again(whole, self.files, |event, _| self.event(event, &mut take))
    }

    fn event(
        &mut self,
        event: &Event<'_>,
        take: &mut impl FnMut(&RowsEvent<'_>) -> Result<()>,
    ) -> Result<()> {
        // A transaction describes the tables of its rows itself, so nothing of another one is used here.
        if self.tables.take(event, |table| drop(self.known.complete(table)))?.is_some() {
            return Ok(());
        }
        let Body::Rows(rows) = event.parse()? else { return Ok(()) };
        if let Some(table) = self.tables.get(rows.table_id) {
            let choice = self.choices.of(&table);
            let described = self.tables.described(rows.table_id).unwrap_or_default();
            let (table, filter, place) = (&table, self.filter, event.place());
            take(&RowsEvent { rows: &rows, table, described, choice, filter, place })?;
        }
        if rows.ends_statement() {
            self.tables.end_statement();
        }
        Ok(())
    }
}
