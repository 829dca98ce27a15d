//! Which servers are not copied while they run.

use std::io;
use std::path::Path;

use server::{Flavour, Rights, Session, Version};

use crate::host::Machine;
use crate::volume::belongs::{self, setting};

/// The first version with the redo log that can be followed.
const FIRST: Version = Version { major: 10, minor: 8, patch: 0 };
/// Engines whose tables are copied rightly, or have nothing in the data folder.
const ENGINES: [&str; 13] = [
    "InnoDB",
    "Aria",
    "MyISAM",
    "MRG_MyISAM",
    "CSV",
    "ARCHIVE",
    "MEMORY",
    "BLACKHOLE",
    "SEQUENCE",
    "FEDERATED",
    "SPIDER",
    "PERFORMANCE_SCHEMA",
    "QUEUE",
];

/// Settings with folders of files that are expected at the top of the data folder.
const FOLDERS: [&str; 4] =
    ["innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory", "aria_log_dir_path"];

/// Fails for a server of which a copy made in this way would not be right.
pub(super) fn server(session: &mut Session, machine: &Machine, data: &Path) -> io::Result<()> {
    let about = &session.about;
    let no = |why: String| Err(io::Error::other(format!("{why}; dump the server with 'remora dump'")));
    if about.flavour != Flavour::MariaDb || about.version < FIRST {
        return no(format!(
            "only MariaDB 10.8 and later can be copied while it runs, not {}",
            about.version_text
        ));
    }
    if about.galera {
        return no("a member of a Galera cluster can't be copied while it runs".to_owned());
    }
    for (name, wanted) in [("innodb_page_size", "16384"), ("innodb_encrypt_log", "OFF")] {
        let value = setting(session, name)?.unwrap_or_default();
        if value != wanted {
            return no(format!("a server with {name}={value} can't be copied while it runs"));
        }
    }
    engines(session)?;
    // If it can't see all tables, it can't see what engines they are of.
    let query = format!(
        "SELECT engine FROM information_schema.engines WHERE support IN ('YES', 'DEFAULT') AND {}",
        is_unknown(session)
    );
    let others = session.strings(&query).map_err(io::Error::other)?;
    if let Some(Some(engine)) = others.first().and_then(|row| row.first())
        && !Rights::read(session).map_err(io::Error::other)?.has("SELECT", "*")
    {
        return Err(io::Error::other(format!(
            "the server has ENGINE={engine}, whose tables can't be copied while it runs, and the account can't see all \
             tables; GRANT SELECT ON *.* shows them"
        )));
    }
    let mut folders = Vec::new();
    for name in FOLDERS {
        folders.push(data.join(setting(session, name)?.unwrap_or_default()));
    }
    for (name, folder) in FOLDERS.iter().zip(belongs::resolve(machine, &folders)?) {
        if folder != data {
            return Err(io::Error::other(format!(
                "{name} is {}, and only files at the top of the data folder can be copied while the server runs",
                folder.display()
            )));
        }
    }
    Ok(())
}

/// The condition for an engine that is not one of these.
fn is_unknown(session: &Session) -> String {
    format!("engine NOT IN ({})", ENGINES.map(|engine| session.quote(engine)).join(", "))
}

/// Fails if there is a table of an engine that is not known to be copied rightly.
pub(super) fn engines(session: &mut Session) -> io::Result<()> {
    let query = format!(
        "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE {} AND \
         table_type NOT LIKE 'SYSTEM VIEW' LIMIT 1",
        is_unknown(session)
    );
    let found = session.strings(&query).map_err(io::Error::other)?;
    if let Some([Some(schema), Some(table), Some(engine)]) = found.first().map(Vec::as_slice) {
        return Err(io::Error::other(format!(
            "{schema}.{table} is of ENGINE={engine}, which can't be copied while the server runs; dump the server with 'remora dump'"
        )));
    }
    Ok(())
}
