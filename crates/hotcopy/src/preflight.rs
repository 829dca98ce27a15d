//! Which servers are not copied while they run.

use std::io;
use std::path::Path;

use host::Machine;
use instance::requirements::KEY_PLUGIN;
use serde_json::{Value, json};
use server::{Flavour, SchemaPrivileges, Session, Version};
use snapshot::server_files::setting;

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

/// Settings of which each other value than `OFF` encrypts something.
const ENCRYPTS: [&str; 3] = ["innodb_encrypt_log", "aria_encrypt_tables", "encrypt_binlog"];

/// Fails for a server of which a copy made in this way would not be right.
pub(crate) fn server(session: &mut Session) -> io::Result<()> {
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
    for name in ENCRYPTS {
        if let Some(value) = setting(session, name)?.filter(|value| value != "OFF") {
            return no(format!(
                "a server with {name}={value} can't be copied while it runs: what that encrypts can't be checked without its keys"
            ));
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
        && !SchemaPrivileges::read(session).map_err(io::Error::other)?.has("SELECT", "*")
    {
        return Err(io::Error::other(format!(
            "the server has ENGINE={engine}, whose tables can't be copied while it runs, and the account can't see all \
             tables; GRANT SELECT ON *.* shows them"
        )));
    }
    Ok(())
}

/// Where the keys of encrypted tablespaces are, if there are such tablespaces: that is noted. Fails for keys
/// that a server on a copy could not be given here.
pub(crate) fn keys(session: &mut Session) -> io::Result<Option<Value>> {
    let query = "SELECT name FROM information_schema.innodb_tablespaces_encryption WHERE encryption_scheme <> 0 LIMIT 1";
    let name = session.value(query).map_err(io::Error::other)?;
    let Some(name) = name else { return Ok(None) };
    let query = "SELECT plugin_name FROM information_schema.plugins WHERE plugin_type = 'ENCRYPTION' AND plugin_status = 'ACTIVE'";
    let plugin = session.value(query).map_err(io::Error::other)?.unwrap_or_default();
    if plugin != KEY_PLUGIN {
        return Err(io::Error::other(format!(
            "the tablespace {name} is encrypted with keys of '{plugin}', and only keys of {KEY_PLUGIN} can be given to the server \
             that proves a copy; dump the server with 'remora dump'"
        )));
    }
    let mut text = |name: &str| {
        Ok::<_, io::Error>(setting(session, &format!("{KEY_PLUGIN}_{name}"))?.unwrap_or_default())
    };
    let secret = text("filekey")?;
    // What is no file is the secret itself, which belongs in no note.
    let secret = if secret.is_empty() || secret.starts_with("FILE:") { &secret } else { "given" };
    Ok(Some(json!({"file": text("filename")?, "algorithm": text("encryption_algorithm")?, "secret": secret})))
}

/// Fails if the first page of the system tablespace is only in the log: without it no server recovers.
pub(crate) fn new_system(machine: &Machine, system: &Path) -> io::Result<()> {
    let mut first = [0; 64];
    machine.disk().open_direct(system)?.read_full_at(0, &mut first)?;
    if first == [0; 64] {
        return Err(io::Error::other(format!(
            "the first page of {} has not been written yet, and no server recovers without it; copy the server \
             again after its next checkpoint (SET GLOBAL innodb_log_checkpoint_now=1, where it has that)",
            system.display()
        )));
    }
    Ok(())
}

/// The condition for an engine that is not one of these.
fn is_unknown(session: &Session) -> String {
    format!("engine NOT IN ({})", ENGINES.map(|engine| session.quote(engine)).join(", "))
}

/// Fails if there is a table of an engine that is not known to be copied rightly.
pub(crate) fn engines(session: &mut Session) -> io::Result<()> {
    let query = format!(
        "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE {} AND \
         table_type NOT LIKE 'SYSTEM VIEW' LIMIT 1",
        is_unknown(session)
    );
    let tables = session.strings(&query).map_err(io::Error::other)?;
    if let Some([Some(schema), Some(table), Some(engine)]) = tables.first().map(Vec::as_slice) {
        return Err(io::Error::other(format!(
            "{schema}.{table} is of ENGINE={engine}, which can't be copied while the server runs; dump the server with 'remora dump'"
        )));
    }
    Ok(())
}
