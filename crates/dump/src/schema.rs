//! The schema as plain SQL, for people and for other clients. `remora load` uses the manifest.

use std::io::{self, Write};
use std::path::Path;

use disk::{Disk, Output};
use server::catalogue::{Kind, Object, Settings};
use server::quote_name;

use crate::Error;
use crate::manifest::Manifest;

/// The folder of these files.
const FOLDER: &str = "schema";
/// The delimiter around programs, which contain semicolons.
const DELIMITER: &str = ";;;;";

/// Makes the folder. A dump that was stopped before its manifest has left one, perhaps with a file too many.
fn new_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    match disk.create_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.list(folder)?.iter().try_for_each(|name| disk.remove(&folder.join(name)))
        }
        made => made,
    }
}

/// Writes `schema/1-tables.sql`, `2-programs.sql` and `3-accounts.sql`; the data is loaded after the first
/// one.
pub(crate) fn write(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    let folder = folder.join(FOLDER);
    new_folder(disk, &folder).map_err(Error::file(&folder))?;
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        let write = || -> io::Result<()> {
            let mut output = Output::create(disk, &path)?;
            output.write_all(&server::text::bytes(text))?;
            output.finish()
        };
        write().map_err(Error::file(&path))
    };
    let mut tables = String::from(
        "SET NAMES utf8mb4;\nSET autocommit = 1, time_zone = '+00:00', foreign_key_checks = 0, unique_checks = 0, \
         innodb_strict_mode = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n",
    );
    for object in manifest.objects.iter().filter(|object| object.kind <= Kind::Sequence) {
        if object.kind == Kind::Sequence {
            tables.push_str(&format!("USE {};\n", quote_name(&object.schema)));
        }
        object.statements.iter().for_each(|statement| tables.push_str(&format!("{statement};\n")));
    }
    for entry in &manifest.tables {
        tables.push_str(&format!(
            "USE {};\n{};\n",
            quote_name(&entry.table.name.schema),
            entry.table.definition
        ));
    }
    file("1-tables.sql", &tables)?;
    let mut programs = format!("DELIMITER {DELIMITER}\n");
    let (some, accounts): (Vec<_>, Vec<_>) = manifest
        .objects
        .iter()
        .filter(|object| object.kind > Kind::Table)
        .partition(|object| object.kind < Kind::Role);
    some.iter().for_each(|object| program(object, &mut programs));
    file("2-programs.sql", &programs)?;
    let mut text = String::from("SET NAMES utf8mb4;\n");
    let statements = accounts.iter().flat_map(|object| &object.statements);
    statements.for_each(|statement| text.push_str(&format!("{statement};\n")));
    if accounts.is_empty() { Ok(()) } else { file("3-accounts.sql", &text) }
}

fn program(object: &Object, out: &mut String) {
    out.push_str(&format!("SET NAMES utf8mb4{DELIMITER}\nUSE {}{DELIMITER}\n", quote_name(&object.schema)));
    let Settings { sql_mode, time_zone, collation, character_set, .. } = &object.settings;
    // A view has no mode of its own, and must not get that of a program before it.
    let sql_mode = &Some(sql_mode.clone().unwrap_or_default());
    // Programs record the client's character set, and are in its bytes.
    for (name, value) in [
        ("sql_mode", sql_mode),
        ("time_zone", time_zone),
        ("character_set_client", character_set),
        ("collation_connection", collation),
    ] {
        if let Some(value) = value {
            out.push_str(&format!("SET {name} = '{}'{DELIMITER}\n", value.replace('\'', "''")));
        }
    }
    object.statements.iter().for_each(|statement| out.push_str(&format!("{statement}{DELIMITER}\n")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_does_not_get_the_mode_of_the_program_before_it() {
        let object = |kind: Kind, sql_mode: Option<&str>| Object {
            kind,
            schema: "d".to_owned(),
            name: "o".to_owned(),
            table: None,
            statements: vec!["CREATE".to_owned()],
            settings: Settings { sql_mode: sql_mode.map(str::to_owned), ..Settings::default() },
        };
        let mut text = String::new();
        program(&object(Kind::Procedure, Some("ORACLE")), &mut text);
        program(&object(Kind::View, None), &mut text);
        let modes: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("SET sql_mode = ")).collect();
        assert_eq!(modes, ["'ORACLE';;;;", "'';;;;"]);
    }
}
