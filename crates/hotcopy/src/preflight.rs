//! Which servers are not copied while they run.

use std::io;
use std::path::{Path, PathBuf};

use host::Machine;
use instance::requirements::KEY_PLUGIN;
use physical::redo_copy::CopiedLog;
use serde_json::{Value, json};
use server::{Flavour, SchemaPrivileges, Session, Version};
use snapshot::server_files::setting;

use crate::HotFeed;

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
    let found = session.strings(&query).map_err(io::Error::other)?;
    if let Some([Some(schema), Some(table), Some(engine)]) = found.first().map(Vec::as_slice) {
        return Err(io::Error::other(format!(
            "{schema}.{table} is of ENGINE={engine}, which can't be copied while the server runs; dump the server with 'remora dump'"
        )));
    }
    Ok(())
}

/// The name that the redo log of a copy gives to the file with this path in the copy.
pub(crate) fn name_in_log(path: &Path) -> String {
    // Those from outside have names without a folder to begin with.
    match path.to_string_lossy() {
        path if path.starts_with('.') => path.into_owned(),
        path => format!("./{path}"),
    }
}

impl HotFeed<'_> {
    /// Recovery does nothing to a tablespace that the log deletes. One that is there nevertheless was
    /// discarded and imported, which the log does not tell. Nor does it tell what IMPORT changes in a file
    /// that was in its place before: only that the dictionary has it. `began`: the LSN before which no page
    /// was read.
    pub fn refuse_imported(&self, log: &CopiedLog, began: u64) -> io::Result<()> {
        // First what another copy alone does not mend.
        if let Some(path) = log.spaces.deleted().iter().find_map(|space| self.spaces.get(space)?.first()) {
            return Err(io::Error::other(format!(
                "{} was put in place by ALTER TABLE ... IMPORT TABLESPACE, and recovery would lose what came after that; copy the server \
                 again after its next checkpoint (SET GLOBAL innodb_log_checkpoint_now=1, where it has that)",
                self.places.real(path).display()
            )));
        }
        let is_imported = |path: &&PathBuf| log.spaces.redefines(&name_in_log(path), began);
        match self.early.keys().find(is_imported) {
            None => Ok(()),
            Some(path) => Err(io::Error::other(format!(
                "{} was changed while it was read, and the redo log does not tell how, as after ALTER TABLE ... IMPORT TABLESPACE; make the \
                 copy again",
                self.places.real(path).display()
            ))),
        }
    }

    /// Recovery finds a tablespace by the names that the log gives to it, and does no harm to another file of
    /// the same number. But if the log has named both, as before and after a RENAME, no server recovers.
    pub fn refuse_doubles(&self, log: &CopiedLog) -> io::Result<()> {
        for (space, paths) in self.spaces.iter().filter(|(_, paths)| paths.len() > 1) {
            let mut named = paths.iter().filter(|path| log.spaces.has_name(&name_in_log(path), *space));
            if let (Some(one), Some(other)) = (named.next(), named.next()) {
                return Err(io::Error::other(format!(
                    "{} and {} are files of tablespace {space}, and no server recovers while the redo log names both, as after RENAME: \
                     move the one that waits for its IMPORT TABLESPACE away, or copy the server again after its next checkpoint \
                     (SET GLOBAL innodb_log_checkpoint_now=1, where it has that)",
                    self.places.real(one).display(),
                    self.places.real(other).display()
                )));
            }
        }
        Ok(())
    }

    /// A first page that is zeros was lost, unless recovery writes it from nothing: then the table is new,
    /// and the server has not written that page yet.
    pub fn refuse_lost(&self, log: &CopiedLog) -> io::Result<()> {
        let is_lost = |path: &&PathBuf| !log.spaces.initializes(&name_in_log(path));
        match self.unwritten.iter().find(is_lost) {
            None => Ok(()),
            Some(path) => Err(io::Error::other(format!(
                "the first page of {} is lost: it is zeros, and the redo log does not have it. Dump that table before the server is \
                 started again, if it still can be read",
                self.places.real(path).display()
            ))),
        }
    }
}
