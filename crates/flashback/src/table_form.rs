//! What is needed of a table to write statements for its rows.

use std::collections::BTreeMap;
use std::rc::Rc;

use binlog::column::Type;
use binlog::event::table::Table;
use binlog::literal::{self, Letters};
use innodb::table::{Generated, KeyKind};
use server::quote_name;
use transactions::{HASH_COLUMN, Known, logged};

/// Tables that are kept. Servers that run for long give ever higher numbers.
const KEPT_MAX: usize = 4096;

/// A column that a statement names.
pub struct Column {
    /// Which of the table, from 0 on.
    pub at: usize,
    /// Quoted.
    pub name: String,
    pub letters: Letters,
    /// Whether it is compared as bytes, because `=` takes different values for equal.
    pub is_loose: bool,
    /// Whether it is in the primary key.
    pub is_key: bool,
}

/// A table whose rows can be put back.
pub struct TableForm {
    /// Quoted.
    pub name: String,
    /// All but generated ones.
    pub columns: Vec<Column>,
    /// Whether it has a primary key, so that a row is found once.
    pub has_key: bool,
}

/// Why a table's rows can't be put back, and what helps.
pub struct Obstacle {
    pub what: String,
    pub help: &'static str,
}

const GIVE_SCHEMA: &str = "give its CREATE TABLE, as it was then, with --schema FILE.sql; or name REPO/NAME with a backup of \
    before, which has it";

impl TableForm {
    pub fn new(table: &Table, known: &Known) -> Result<TableForm, Obstacle> {
        let defined = known.definition(table).map_err(|what| Obstacle { what, help: GIVE_SCHEMA })?;
        if let Some(defined) = &defined {
            let differ = table
                .columns
                .iter()
                .zip(logged(defined))
                .find(|(own, defined)| own.name.as_ref().is_some_and(|name| *name != defined.name));
            if let Some((own, defined)) = differ {
                let own = own.name.as_deref().unwrap_or_default();
                let what = format!("the column {own} is called {} in --schema: it was altered", defined.name);
                return Err(Obstacle { what, help: GIVE_SCHEMA });
            }
        }
        let is_known = |column: &binlog::event::table::Column| {
            column.name.is_some() && (column.is_unsigned.is_some() || !matches!(column.kind, Type::Int(_)))
        };
        if !table.columns.iter().all(is_known) {
            let what =
                "the names of its columns are not in the log (binlog_row_metadata was not FULL)".to_owned();
            return Err(Obstacle { what, help: GIVE_SCHEMA });
        }
        if is_versioned(table, defined.as_deref()) {
            let what = "it is system-versioned: the server itself keeps what was changed".to_owned();
            return Err(Obstacle { what, help: "SELECT ... FOR SYSTEM_TIME AS OF shows it" });
        }
        let key = key(table, defined.as_deref());
        let generated: Vec<bool> = match &defined {
            Some(defined) => logged(defined).map(|column| column.generated != Generated::No).collect(),
            None => vec![false; table.columns.len()],
        };
        let named = table.columns.iter().zip(generated).enumerate();
        let columns = named.filter_map(|(at, (column, is_generated))| {
            let name = column.name.as_ref()?;
            if is_generated || name.starts_with(HASH_COLUMN) {
                return None;
            }
            Some(Column {
                at,
                name: quote_name(name),
                letters: Letters::of(column),
                is_loose: literal::is_loose(column),
                is_key: key.contains(&at),
            })
        });
        let name = format!("{}.{}", quote_name(&table.schema), quote_name(&table.name));
        Ok(TableForm { name, columns: columns.collect(), has_key: !key.is_empty() })
    }
}

/// The columns of the primary key.
fn key(table: &Table, defined: Option<&innodb::table::Table>) -> Vec<usize> {
    if let Some(key) = &table.primary_key {
        return key.iter().map(|(at, _)| *at).collect();
    }
    let Some(defined) = defined else { return Vec::new() };
    let primary = defined.keys().iter().find(|key| key.kind == KeyKind::Primary);
    primary.map_or_else(Vec::new, |key| key.parts.iter().map(|part| part.column).collect())
}

/// Whether the server keeps former rows in the table itself.
fn is_versioned(table: &Table, defined: Option<&innodb::table::Table>) -> bool {
    if let Some(defined) = defined {
        return defined.columns().iter().any(|column| column.generated == Generated::RowEnd);
    }
    // Unless it says otherwise, these are the last columns.
    match table.columns.as_slice() {
        [.., start, end] => [(start, "row_start"), (end, "row_end")]
            .iter()
            .all(|(column, name)| column.name.as_deref() == Some(*name) && column.kind == Type::Timestamp(6)),
        _ => false,
    }
}

/// The forms of tables, each made once.
#[derive(Default)]
pub(crate) struct TableForms {
    /// By number. A table that is described again is another object.
    kept: BTreeMap<u64, (Rc<Table>, Rc<TableForm>)>,
}

impl TableForms {
    pub(crate) fn of(&mut self, table: &Rc<Table>, known: &Known) -> Result<Rc<TableForm>, Obstacle> {
        if let Some((kept, form)) = self.kept.get(&table.id)
            && Rc::ptr_eq(kept, table)
        {
            return Ok(Rc::clone(form));
        }
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        let form = Rc::new(TableForm::new(table, known)?);
        self.kept.insert(table.id, (Rc::clone(table), Rc::clone(&form)));
        Ok(form)
    }
}
