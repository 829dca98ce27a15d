//! Which server fits data: the one that had them.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use disk::{Disk, Source};
use sandbox::{Family, Product};

use crate::binary_log;
use crate::server_folders::server_folders;

/// The version of the server for which the data were last upgraded, or which wrote the newest log beside
/// them, whichever is newer; or else of the one that made the newest of the system's tables. Empty if nothing
/// tells.
pub fn version(disk: &dyn Disk, data: &Path) -> String {
    let mut note = String::new();
    for name in ["mariadb_upgrade_info", "mysql_upgrade_info"] {
        let read = |mut file: Box<dyn Source>| file.read_to_string(&mut note);
        if disk.open(&data.join(name)).and_then(read).is_ok() {
            break;
        }
    }
    let noted = Some(note.trim_end_matches(['\n', '\0']).to_owned()).filter(|noted| !noted.is_empty());
    let noted = noted.or_else(|| upgrade_history(disk, data));
    // Nobody has to upgrade the system's tables for a newer server, which leaves nothing to an older one.
    let newest =
        noted.into_iter().chain(binary_log::version(disk, data)).max_by_key(|version| series(version));
    newest.or_else(|| version_of_tables(disk, &data.join("mysql"))).unwrap_or_default()
}

/// The version for which MySQL 8.4 or later has made or upgraded the data.
fn upgrade_history(disk: &dyn Disk, data: &Path) -> Option<String> {
    let file = disk.open(&data.join("mysql_upgrade_history")).ok()?;
    let note: serde_json::Value = serde_json::from_reader(file).ok()?;
    let last = note["upgrade_history"].as_array()?.last()?;
    Some(last["version"].as_str()?.to_owned())
}

/// The first two numbers of a version.
fn series(version: &str) -> (u16, u16) {
    let number = |part: &str| part.parse::<u16>().unwrap_or(0);
    let mut parts = version.split('.');
    (parts.next().map_or(0, number), parts.next().map_or(0, number))
}

/// The version of the newest server that has made a table in a folder: it is in the head of the
/// definition (`unireg.h` and `table.cc` of MariaDB's source).
fn version_of_tables(disk: &dyn Disk, folder: &Path) -> Option<String> {
    let is_definition =
        |name: &std::ffi::OsString| Path::new(name).extension().is_some_and(|end| end == "frm");
    let newest = disk.list(folder).ok()?.into_iter().filter(is_definition).filter_map(|name| {
        let mut head = [0; 55];
        let read = disk.open(&folder.join(name)).and_then(|file| file.read_full_at(0, &mut head)).ok()?;
        // A view's definition is a text.
        let is_table = read == head.len() && head.starts_with(&[0xFE, 1]);
        is_table.then(|| u32::from_le_bytes([head[51], head[52], head[53], head[54]]))
    });
    let number = newest.max().filter(|number| *number > 0)?;
    let family = if number < 100_000 { "" } else { "-MariaDB" };
    Some(format!("{}.{}.{}{family}", number / 10_000, number / 100 % 100, number % 100))
}

/// The server that had the data, or else that for which they were last upgraded.
pub(crate) fn of(disk: &dyn Disk, data: &Path, noted: Option<&str>) -> Result<Product> {
    let version = noted.map_or_else(|| version(disk, data), str::to_owned);
    let series = series(&version);
    // MySQL 8 and later have their dictionary in a tablespace.
    let has_dictionary = disk.stat(&data.join("mysql.ibd")).is_ok();
    let family = match series {
        _ if has_dictionary => Family::MySql,
        (5, _) if !version.contains("MariaDB") => Family::MySql,
        _ => Family::MariaDb,
    };
    if version.is_empty() {
        // An older server may refuse or harm the data, a newer one does not.
        let places = server_folders()?;
        let here = Product::ALL
            .into_iter()
            .filter(|product| product.family() == family && sandbox::find(&places, *product).is_ok());
        if let Some(newest) = here.max_by_key(|product| product.series()) {
            return Ok(newest);
        }
    }
    Product::for_data(family, series).with_context(|| {
        format!(
            "the data are of {family} {version}, and there is no server here that takes them; --server chooses one, or the \
             path of a program such as mysqld"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use disk::{Disk, RealDisk};
    use sandbox::Product;

    use super::{of, version};

    #[test]
    fn the_server_that_had_the_data_is_started_and_not_the_one_that_made_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mysql_upgrade_info");
        RealDisk.create(&path).unwrap().write_all(b"10.11.6-MariaDB\0").unwrap();
        assert_eq!(version(&RealDisk, folder.path()), "10.11.6-MariaDB");
        let of_data = |noted| of(&RealDisk, folder.path(), noted).unwrap();
        assert_eq!(of_data(None), Product::MariaDb1011);
        assert_eq!(of_data(Some("11.8.6-MariaDB-0+deb13u1-log")), Product::MariaDb118);
    }

    #[test]
    fn data_of_mysql_say_for_which_server_they_were_upgraded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            // It may be there from before.
            RealDisk.remove(&path).ok();
            RealDisk.create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        write("mysql.ibd", "");
        let upgraded = |old: &str, new: &str| {
            let entries = format!(r#"{{"version":"{old}","initialize":true}},{{"version":"{new}"}}"#);
            write("mysql_upgrade_history", &format!(r#"{{"upgrade_history":[{entries}]}}"#));
            of(&RealDisk, folder.path(), None).map_err(|error| error.to_string())
        };
        assert_eq!(upgraded("8.0.36", "8.4.3"), Ok(Product::MySql97));
        assert_eq!(upgraded("8.4.3", "9.7.4-2"), Ok(Product::MySql97));
        let refused = upgraded("5.7.44", "8.0.36").unwrap_err();
        assert!(refused.contains("MySQL 8.0.36") && refused.contains("--server"), "{refused}");
        assert_eq!(of(&RealDisk, folder.path(), Some("9.0.1")).unwrap(), Product::MySql97);
    }
}
