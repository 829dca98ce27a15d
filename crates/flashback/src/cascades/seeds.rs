//! The rows from which foreign keys are followed.

use binlog::event::Change;
use binlog::event::rows::Rows;
use binlog::event::table::Table;
use binlog::row::Row;
use server::TableName;

use super::foreign_keys::{ForeignKey, Graph};
use super::tracking::Cause;
use crate::statement;
use crate::table_form::{Obstacle, TableForm};

/// From which rows of an event foreign keys are followed.
pub(super) struct Seeds {
    /// By what foreign keys act on the rows; none if they do not.
    pub(super) cause: Option<Cause>,
    /// The columns that foreign keys which act on updates refer to, from 0 on.
    referred: Vec<usize>,
}

impl Seeds {
    pub(super) fn new(graph: &Graph, (name, table): (&TableName, &Table), rows: &Rows<'_>) -> Seeds {
        let keys: Vec<&ForeignKey> = graph.to(name).collect();
        let cause = match rows.change {
            Change::Delete if keys.iter().any(|key| key.acts_on_delete()) => Some(Cause::Delete),
            Change::Update if keys.iter().any(|key| key.acts_on_update()) => Some(Cause::Update),
            _ => None,
        };
        let names = keys.iter().filter(|key| key.acts_on_update()).flat_map(|key| &key.columns);
        let place = |wanted: &String| {
            table.columns.iter().position(|column| column.name.as_ref().is_some_and(|name| name == wanted))
        };
        let referred = names.filter_map(|(_, column)| place(column)).collect();
        Seeds { cause, referred }
    }

    /// The values of a row before the change, if it is one of them.
    pub(super) fn of(
        &self,
        row: &Row<'_>,
        (form, table): (&TableForm, &Table),
    ) -> Result<Option<String>, Obstacle> {
        let (Some(cause), Some(before)) = (self.cause, row.before) else { return Ok(None) };
        let is_other = |at: &usize| {
            let after = row.after.and_then(|after| after.cell(*at));
            after.is_some_and(|after| before.cell(*at).is_none_or(|before| before.bytes != after.bytes))
        };
        if cause == Cause::Update && !self.referred.iter().any(is_other) {
            return Ok(None);
        }
        statement::values(form, table, &before).map(Some)
    }
}
