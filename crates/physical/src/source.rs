//! Finds the tables in a folder and their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use disk::Disk;

use crate::error::{Error, io};
use crate::file_name;

/// A file that only a data folder has.
const SYSTEM_FILE: &str = "ibdata1";
/// Prefixes of files that the server creates beside a table's: during ALTER, and for FULLTEXT and VECTOR
/// keys.
const NO_TABLES: [&str; 2] = ["#sql", "FTS_"];

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
            return Ok(Source { data: data_folder(disk, path), tables: tables(disk, path, &names) });
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
        Ok(Source { data, tables: found })
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
        Ok(Source { data: data_folder(disk, folder), tables })
    }
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
        if NO_TABLES.iter().any(|start| base.starts_with(start)) || base.contains("#i#") {
            continue;
        }
        let base = table_of(base);
        let entry =
            || TableFiles { schema: schema.clone(), name: file_name::decode(base), ..TableFiles::default() };
        let path = folder.join(name);
        match end {
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
