//! A table's definition, from its `.frm` file or from the text of its CREATE TABLE.

use std::io::Read;

use disk::Disk;
use innodb::table::{Table, Version, frm, sql};

use crate::error::io;
use crate::{Error, TableFiles};

/// The server version that is assumed for a definition in SQL; only UUIDs of servers before late 2023 were
/// stored differently.
const SQL_VERSION: Version = Version(110_800);
/// The beginning of a view's `.frm` file.
const VIEW: &[u8] = b"TYPE=";

impl TableFiles {
    /// The table's definition; none for a view. `statements` is SQL with its CREATE TABLE, which is used
    /// instead of the file beside the data.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] and [`Error::Bytes`] for a definition that is not understood, or of
    /// another engine; [`Error::Missing`].
    pub fn definition(&self, disk: &dyn Disk, statements: Option<&str>) -> Result<Option<Table>, Error> {
        if let Some(text) = statements {
            let statement = sql::find(text, Some(&self.schema), &self.name)?;
            return Ok(Some(sql::parse(statement, SQL_VERSION)?));
        }
        let Some(path) = &self.frm else {
            return Err(Error::Missing(format!(
                "there is no {}.frm beside its data: copy that file, too, or give what SHOW CREATE TABLE says with --schema",
                self.name
            )));
        };
        let mut bytes = Vec::new();
        disk.open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(io(path))?;
        if bytes.starts_with(VIEW) {
            return Ok(None);
        }
        let table = frm::parse(&bytes).map_err(|source| Error::File { path: path.clone(), source })?;
        if self.files.is_empty() {
            return Err(Error::Missing(
                "it has no .ibd file: its rows are in the system tablespace, or lost".to_owned(),
            ));
        }
        Ok(Some(table))
    }
}
