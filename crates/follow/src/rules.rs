//! What of a table's rows the target has: those that meet a condition, with masks.

use std::collections::BTreeMap;

use dump::{Conditions, Masks, ReadRequest, ValueMask};
use server::catalogue::Table;

use crate::row_condition::RowCondition;

/// Conditions and masks, as the copy was made with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    conditions: Conditions,
    masks: Masks,
}

/// Those of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableRules {
    /// Which rows the target has; `None` for all.
    pub(crate) condition: Option<RowCondition>,
    /// What is stored instead of the values of columns.
    pub(crate) masks: BTreeMap<String, ValueMask>,
}

impl Rules {
    /// Those of a copy.
    pub(crate) fn of(read: &ReadRequest) -> Rules {
        Rules { conditions: read.conditions.clone(), masks: read.masks.clone() }
    }

    /// Those of a table.
    ///
    /// # Errors
    /// Why its rows can't be followed.
    pub(crate) fn table(&self, table: &Table) -> Result<TableRules, String> {
        let condition = self.conditions.of(&table.name);
        Ok(TableRules {
            condition: condition.map(|text| RowCondition::new(text, table)).transpose()?,
            masks: self.masks.of_values(table).map_err(|error| error.to_string())?,
        })
    }
}
