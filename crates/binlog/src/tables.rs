//! The tables of the rows in a log, by the numbers in TABLE_MAP events.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::Corrupt;
use crate::event::table::Table;
use crate::event::{Event, Kind};

/// More tables than a statement changes. Beyond that, tables are forgotten when a statement ends.
const TABLES_MAX: usize = 4096;

/// The tables that were described since the log began.
#[derive(Debug, Default)]
pub struct Tables {
    /// By number: the bytes of the description, and the table.
    known: BTreeMap<u64, (Vec<u8>, Rc<Table>)>,
}

impl Tables {
    /// Takes a TABLE_MAP event. If it says the same as before, the table stays the same object. `complete`
    /// may add what is known of a new table from elsewhere.
    ///
    /// # Errors
    /// [`Corrupt`] for an event that describes no table.
    pub fn take(
        &mut self,
        event: &Event<'_>,
        complete: impl FnOnce(&mut Table),
    ) -> Result<Option<Rc<Table>>, Corrupt> {
        if event.header.kind != Kind::TABLE_MAP {
            return Ok(None);
        }
        let id = event.table_id()?;
        if let Some((bytes, table)) = self.known.get(&id)
            && bytes == event.body
        {
            return Ok(Some(Rc::clone(table)));
        }
        let mut table = event.table()?;
        complete(&mut table);
        let table = Rc::new(table);
        self.known.insert(id, (event.body.to_vec(), Rc::clone(&table)));
        Ok(Some(table))
    }

    /// The table with this number.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Rc<Table>> {
        self.known.get(&id).map(|(_, table)| Rc::clone(table))
    }

    /// The body of the TABLE_MAP with this number.
    #[must_use]
    pub fn described(&self, id: u64) -> Option<&[u8]> {
        self.known.get(&id).map(|(bytes, _)| bytes.as_slice())
    }

    /// A statement has ended: the next one assigns the numbers again.
    pub fn end_statement(&mut self) {
        if self.known.len() > TABLES_MAX {
            self.known.clear();
        }
    }

    /// Another server, or a restart, assigns its own numbers.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}
