//! Finds the tables in a folder and their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Disk;
use innodb::table::dictionary::Definition;

use crate::error::{Error, io};
use crate::{File, file_name};

/// A file that only a data folder has.
const SYSTEM_FILE: &str = "ibdata1";
/// Prefixes of files that the server creates beside a table's: during ALTER, and for FULLTEXT keys; MySQL has
/// the latter in small letters.
const NO_TABLES: [&str; 2] = ["#sql", "FTS_"];
const NO_TABLES_MYSQL: &str = "fts_";
/// Digits of a table's number in the name of such a file.
const NUMBER_CHARS: usize = 16;

/// The files of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFiles {
    /// Its database.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its `.frm` file, if it is next to the data.
    pub frm: Option<PathBuf>,
    /// Its data: one file, or one for each partition, sorted by name. Empty for a table of another engine, or
    /// in the system tablespace.
    pub files: Vec<PathBuf>,
    /// Its definition, if it was read already: that of a table in a tablespace of several tables.
    pub own: Option<Arc<Definition>>,
    /// Whether each of them has the file that `FLUSH TABLES ... FOR EXPORT` writes beside it, however old.
    pub exported: bool,
}

/// A data folder, a folder of exported tables, or a single exported file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The data folder of the files, if they are in one.
    pub data: Option<PathBuf>,
    /// The tables, by database and name.
    pub tables: Vec<TableFiles>,
    /// Tablespaces of several tables that can't be read, a line each.
    pub unread: Vec<String>,
}

impl Source {
    /// Finds tables in a data folder, the folder of a database, or a folder of exported files, or takes a
    /// single `.ibd` file. The path must be absolute: the last folder's name is that of the database.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Missing`] when there is no table.
    pub fn find(disk: &dyn Disk, path: &Path) -> Result<Source, Error> {
        let stat = disk.stat(path).map_err(io(path))?;
        if stat.regular {
            return Source::of_file(disk, path);
        }
        let names = names(disk, path)?;
        if names.iter().any(|name| name.ends_with(".ibd")) && !names.iter().any(|name| name == SYSTEM_FILE) {
            let (data, tables) = (data_folder(disk, path), tables(disk, path, &names));
            return Ok(Source { data, tables, unread: Vec::new() });
        }
        let mut found = Vec::new();
        for name in &names {
            let folder = path.join(name);
            // Only folders can be listed.
            if let Ok(names) = self::names(disk, &folder) {
                found.extend(tables(disk, &folder, &names));
            }
        }
        if found.is_empty() {
            return Err(Error::Missing(format!(
                "{}: no tables (.ibd files) are in it or in its folders; name a data folder, a folder of files of FLUSH \
                 TABLES ... FOR EXPORT, or such a file",
                path.display()
            )));
        }
        let data = names.iter().any(|name| name == SYSTEM_FILE).then(|| path.to_owned());
        let mut unread = Vec::new();
        if data.is_some() {
            for name in names.iter().filter(|name| *name == SYSTEM_FILE || name.ends_with(".ibd")) {
                match shared(disk, &path.join(name)) {
                    Ok(tables) => found.extend(tables),
                    Err(error) => unread.push(error.to_string()),
                }
            }
        }
        Ok(Source { data, tables: found, unread })
    }

    fn of_file(disk: &dyn Disk, path: &Path) -> Result<Source, Error> {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(base) = file.strip_suffix(".ibd") else {
            return Err(Error::Missing(format!("{}: a table's file ends with .ibd", path.display())));
        };
        let folder = path.parent().unwrap_or(path);
        let names: Vec<String> =
            names(disk, folder)?.into_iter().filter(|name| name == file || !name.ends_with(".ibd")).collect();
        let base = table_of(base);
        let mut tables = tables(disk, folder, &names);
        tables.retain(|table| table.name == file_name::decode(base));
        // A tablespace of several tables is in the data folder itself.
        if names.iter().any(|name| name == SYSTEM_FILE) {
            let shared = shared(disk, path)?;
            if !shared.is_empty() {
                return Ok(Source { data: Some(folder.to_owned()), tables: shared, unread: Vec::new() });
            }
        }
        Ok(Source { data: data_folder(disk, folder), tables, unread: Vec::new() })
    }
}

/// The tables in a tablespace of several tables; only MySQL 8 and later says which there are.
fn shared(disk: &dyn Disk, path: &Path) -> Result<Vec<TableFiles>, Error> {
    let found = File::open(disk, path)?.definitions()?.unwrap_or_default();
    let table = |own: Definition| TableFiles {
        schema: own.schema().to_owned(),
        name: own.name().to_owned(),
        files: vec![path.to_owned()],
        own: Some(Arc::new(own)),
        ..TableFiles::default()
    };
    Ok(found.into_iter().map(table).collect())
}

/// The data folder above that of a database.
fn data_folder(disk: &dyn Disk, folder: &Path) -> Option<PathBuf> {
    let above = folder.parent()?;
    disk.stat(&above.join(SYSTEM_FILE)).is_ok().then(|| above.to_owned())
}

fn names(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>, Error> {
    let names = disk.list(folder).map_err(io(folder))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// The table that a file belongs to: `t` of `t#P#p0#SP#s1`.
fn table_of(base: &str) -> &str {
    base.find("#P#").or_else(|| base.find("#p#")).map_or(base, |at| &base[..at])
}

/// The tables in the folder of a database.
fn tables(disk: &dyn Disk, folder: &Path, names: &[String]) -> Vec<TableFiles> {
    let schema = schema_of(folder);
    let mut found: BTreeMap<&str, TableFiles> = BTreeMap::new();
    for name in names {
        let Some((base, end)) = name.rsplit_once('.') else { continue };
        if NO_TABLES.iter().any(|start| base.starts_with(start)) || base.contains("#i#") || is_index(base) {
            continue;
        }
        // MySQL describes tables of other engines in `t_NUMBER.sdi`.
        let base = if end == "sdi" { base.rsplit_once('_').map_or(base, |(table, _)| table) } else { base };
        let base = table_of(base);
        let entry =
            || TableFiles { schema: schema.clone(), name: file_name::decode(base), ..TableFiles::default() };
        let path = folder.join(name);
        match end {
            "sdi" => drop(found.entry(base).or_insert_with(entry)),
            "frm" => found.entry(base).or_insert_with(entry).frm = Some(path),
            "ibd" => found.entry(base).or_insert_with(entry).files.push(path),
            // With DATA DIRECTORY the file is elsewhere.
            "isl" => found.entry(base).or_insert_with(entry).files.extend(linked(disk, &path)),
            _ => {}
        }
    }
    let exported = |file: &PathBuf| disk.stat(&file.with_extension("cfg")).is_ok();
    let mut tables: Vec<TableFiles> = found.into_values().collect();
    for table in &mut tables {
        table.exported = !table.files.is_empty() && table.files.iter().all(exported);
    }
    tables
}

/// Whether it is a part of a FULLTEXT key of MySQL: `fts_` and the number of the table.
fn is_index(base: &str) -> bool {
    let number =
        base.strip_prefix(NO_TABLES_MYSQL).and_then(|rest| rest.get(..NUMBER_CHARS + 1)?.strip_suffix('_'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The name of the database: that of its folder.
fn schema_of(folder: &Path) -> String {
    folder.file_name().map(|name| file_name::decode(&name.to_string_lossy())).unwrap_or_default()
}

/// The file that a link file names; in the backup of a running server it is in the data folder.
fn linked(disk: &dyn Disk, link: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut disk.open(link).ok()?, &mut text).ok()?;
    Some(link.parent()?.parent()?.join(text.trim_end()))
}
