//! A table's definition, from its `.frm` file, from its own tablespace, or from the text of its CREATE TABLE.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use disk::Disk;
use innodb::sdi;
use innodb::table::collation::Collation;
use innodb::table::dictionary::Definition;
use innodb::table::{Table, Version, frm, sql};
use progress::Silent;

use crate::error::io;
use crate::{Error, File, Format, RowReader, Source, TableFiles};

/// The server version that is assumed for a definition in SQL; only UUIDs of servers before late 2023 were
/// stored differently.
const SQL_VERSION: Version = Version(110_800);
/// The column of `mysql.schemata` with the name of a database; the number of its collation follows.
const SCHEMATA_NAME: usize = 2;
/// The beginning of a view's `.frm` file.
const VIEW: &[u8] = b"TYPE=";

impl TableFiles {
    /// The table's definition; none for a view. `statements` is SQL with its CREATE TABLE, which is used
    /// instead of the file beside the data. A tablespace of MySQL 8 or later says more than both.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] and [`Error::Bytes`] for a definition that is not understood, or of
    /// another engine; [`Error::Missing`].
    pub fn definition(&self, disk: &dyn Disk, statements: Option<&str>) -> Result<Option<Table>, Error> {
        if let Some(own) = self.dictionary(disk)? {
            return Ok(Some(own.table()?));
        }
        if let Some(text) = statements {
            let statement = sql::find(text, Some(&self.schema), &self.name)?;
            return Ok(Some(sql::parse(statement, SQL_VERSION)?));
        }
        let Some(path) = &self.frm else {
            if self.files.is_empty() {
                return Err(Error::Missing(
                    "it has only an .sdi file: its engine is another one than InnoDB".to_owned(),
                ));
            }
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

    /// The definition in the table's own tablespace, which MySQL 8 and later writes there.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`]; [`Error::Missing`] if the tablespace has only others.
    pub fn dictionary(&self, disk: &dyn Disk) -> Result<Option<Arc<Definition>>, Error> {
        if let Some(own) = &self.own {
            return Ok(Some(Arc::clone(own)));
        }
        // MySQL 8 has no such files.
        let Some(path) = self.files.first().filter(|_| self.frm.is_none()) else { return Ok(None) };
        let Some(mut all) = File::open(disk, path)?.definitions()? else { return Ok(None) };
        let is_it = |own: &Definition| own.schema() == self.schema && own.name() == self.name;
        match all.iter().position(is_it) {
            Some(at) => Ok(Some(Arc::new(all.swap_remove(at)))),
            // A file that was copied and renamed.
            None if all.len() == 1 => Ok(all.pop().map(Arc::new)),
            None => {
                Err(Error::Missing(format!("{}: a general tablespace without this table", path.display())))
            }
        }
    }
}

impl Source {
    /// The default collations of databases, by name, as far as MySQL's dictionary can be read.
    #[must_use]
    pub fn database_collations(&self, disk: &dyn Disk) -> BTreeMap<String, Collation> {
        let is_it =
            |table: &&TableFiles| (table.schema.as_str(), table.name.as_str()) == ("mysql", "schemata");
        let read = |table: &TableFiles| -> Result<Vec<u8>, Error> {
            let mut rows = Vec::new();
            if let (Some(own), Some(path)) = (table.definition(disk, None)?, table.files.first()) {
                let (table, stop) = (&own, &AtomicBool::new(false));
                let (format, progress) = (Format::Tsv, &Silent);
                let reader = RowReader { table, format, threads: 1, lenient: false, stop, progress };
                reader.write(&File::open(disk, path)?, &mut rows)?;
            }
            Ok(rows)
        };
        let rows = self.tables.iter().find(is_it).and_then(|table| read(table).ok()).unwrap_or_default();
        let database = |line: &str| {
            let mut values = line.split('\t').skip(SCHEMATA_NAME);
            let name = values.next()?.to_owned();
            Some((name, Collation::of_number(values.next()?.parse().ok()?)?))
        };
        String::from_utf8_lossy(&rows).lines().filter_map(database).collect()
    }
}

impl File {
    /// The definitions of the tables in it; none if it is not of MySQL 8 or later.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::File`].
    pub(crate) fn definitions(&self) -> Result<Option<Vec<Definition>>, Error> {
        let mut file = self.clone();
        let texts = sdi::tables(&self.space().clone(), &mut file).map_err(|error| error.of(self.path()))?;
        let Some(texts) = texts else { return Ok(None) };
        let parse =
            |text: &Vec<u8>| Definition::parse(text).map_err(|error| Error::from(error).of(self.path()));
        texts.iter().map(parse).collect::<Result<Vec<_>, _>>().map(Some)
    }
}
