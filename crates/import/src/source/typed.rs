//! Files with typed columns among the others.

use std::sync::Arc;

use parquet_rows::foreign::Table;

use super::{Body, File, Files};
use crate::{Error, foreign};

impl Files<'_> {
    /// Makes the text of files with typed columns alike.
    pub(super) fn make_alike(&mut self) -> Result<(), Error> {
        let Some((first, others)) = self.files.split_first_mut() else { return Ok(()) };
        let known = first.table().cloned();
        for File { name, body } in others {
            let own = match body {
                Body::Typed(_, _, table) => Some(table),
                _ => None,
            };
            if known.is_some() || own.is_some() {
                foreign::same((known.as_ref(), &first.name), (own, name))?;
            }
        }
        Ok(())
    }

    /// The columns of a file, if it has typed columns.
    #[must_use]
    pub fn table(&self, file: usize) -> Option<&Arc<Table>> {
        self.files.get(file)?.table()
    }

    /// Bytes of text of all files, roughly, if their length is known.
    #[must_use]
    pub fn text_bytes(&self) -> Option<u64> {
        let bytes = |file: &File| file.table().map(|table| table.text_bytes()).or_else(|| file.bytes());
        self.files.iter().map(bytes).sum()
    }
}

impl File {
    fn table(&self) -> Option<&Arc<Table>> {
        match &self.body {
            Body::Typed(_, _, table) => Some(table),
            _ => None,
        }
    }
}
