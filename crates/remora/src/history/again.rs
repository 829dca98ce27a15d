//! Reads transactions again, for their rows.

use std::rc::Rc;

use anyhow::Result;
use binlog::event::table::Table;
use binlog::event::{Body, Change, Event};
use binlog::row::{self, Row};
use binlog::tables::Tables;

use super::feed;
use super::file::LogFile;
use super::filter::{Choice, Choices, Filter};
use super::known::Known;
use super::transaction::Transaction;

/// A row that is asked for.
pub(crate) struct AskedRow<'a> {
    /// Before and after the change.
    pub(crate) row: Row<'a>,
    /// Its table, the same object for all rows until it is described anew.
    pub(crate) table: &'a Rc<Table>,
    /// What happened to it.
    pub(crate) change: Change,
}

/// Reads transactions again.
pub(crate) struct Again<'a> {
    files: &'a [LogFile],
    filter: &'a Filter,
    known: &'a Known,
    choices: Choices<'a>,
    tables: Tables,
}

impl<'a> Again<'a> {
    pub(crate) fn new(files: &'a [LogFile], filter: &'a Filter, known: &'a Known) -> Again<'a> {
        Again { files, filter, known, choices: Choices::new(filter), tables: Tables::default() }
    }

    /// The rows of a transaction that are asked for, in the order of the log.
    pub(crate) fn rows(
        &mut self,
        whole: &Transaction,
        mut take: impl FnMut(&AskedRow<'_>) -> Result<()>,
    ) -> Result<()> {
        feed::again(whole, self.files, |event, _| self.event(event, &mut take))
    }

    fn event(&mut self, event: &Event<'_>, take: &mut impl FnMut(&AskedRow<'_>) -> Result<()>) -> Result<()> {
        // A transaction describes the tables of its rows itself, so nothing of another one is used here.
        if self.tables.take(event, |table| drop(self.known.complete(table)))?.is_some() {
            return Ok(());
        }
        let Body::Rows(rows) = event.parse()? else { return Ok(()) };
        if let Some(table) = self.tables.get(rows.table_id)
            && let Choice::Columns(columns) = self.choices.of(&table)
        {
            for row in row::rows(&rows, &table, event.place())? {
                let row = row?;
                if self.filter.has_row(&row, &columns)? {
                    take(&AskedRow { row, table: &table, change: rows.change })?;
                }
            }
        }
        if rows.ends_statement() {
            self.tables.end_statement();
        }
        Ok(())
    }
}
