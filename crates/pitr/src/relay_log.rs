//! How a server is told to apply logs as its relay log.
//!
//! MySQL (5.6 to 9.7, tried) takes archived logs as MariaDB does, with these differences. The positions are
//! in tables of the data. It replaces the last relay log if that has no transaction. Transactions with a GTID
//! need a `gtid_mode`, and it passes over those whose GTID it has already.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use instance::binary_log::Position;
use server::{About, Flavour, Session, Version};

/// Since then statements say replica, and not slave; options do so a little later.
const REPLICA: Version = Version { major: 8, minor: 0, patch: 23 };
const REPLICA_OPTIONS: Version = Version { major: 8, minor: 0, patch: 26 };
/// Since then a server takes transactions with and without GTIDs, and needs no log of its own for that.
const PERMISSIVE: Version = Version { major: 5, minor: 7, patch: 6 };
/// Since then positions are in tables, and the options for their files are gone.
const TABLES: Version = Version { major: 8, minor: 0, patch: 0 };
/// The log that a server must write itself to take GTIDs; not part of the data.
const OWN_LOG: &str = "own-log";

/// Options with which a server of MySQL takes and sends transactions with the GTIDs that they have, or none.
fn gtid_options(version: Version, has_gtids: bool) -> &'static [&'static str] {
    match has_gtids {
        // The log may have what a server with consistent GTIDs refuses.
        _ if version >= PERMISSIVE => &["--gtid-mode=OFF_PERMISSIVE", "--enforce-gtid-consistency=OFF"],
        true => &["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-slave-updates"],
        false => &[],
    }
}

/// The same for a server that recovers data with their own log, by the version that wrote it.
pub(crate) fn recovery_options(version: Option<&str>, has_gtids: bool) -> &'static [&'static str] {
    match version {
        Some(version) if !version.contains("MariaDB") => gtid_options(Version::parse(version), has_gtids),
        _ => &[],
    }
}

/// The words that a server's family and version have for replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    flavour: Flavour,
    version: Version,
}

/// How far a server has applied its relay log.
#[derive(Debug, Default)]
pub(crate) struct Status(BTreeMap<String, String>);

impl Status {
    /// A column, by MySQL's older name and MariaDB's.
    pub(crate) fn text(&self, name: &str) -> &str {
        let newer = || self.0.get(&name.replace("Slave_", "Replica_"));
        self.0.get(name).or_else(newer).map_or("", String::as_str)
    }

    /// The number of the relay log, from 1 on.
    pub(crate) fn file(&self) -> Option<usize> {
        self.text("Relay_Log_File").rsplit('.').next()?.parse().ok()
    }

    /// The offset in it.
    pub(crate) fn at(&self) -> u64 {
        self.text("Relay_Log_Pos").parse().unwrap_or(0)
    }
}

impl Dialect {
    pub(crate) fn of(about: &About) -> Dialect {
        Dialect { flavour: about.flavour, version: about.version }
    }

    pub(crate) fn flavour(self) -> Flavour {
        self.flavour
    }

    fn is_mysql(self) -> bool {
        self.flavour == Flavour::MySql
    }

    fn says_replica(self) -> bool {
        self.is_mysql() && self.version >= REPLICA
    }

    /// What a statement calls a server that applies a log.
    fn role(self) -> &'static str {
        if self.says_replica() { "REPLICA" } else { "SLAVE" }
    }

    /// The options of a server that applies what is in the folder `work`. `has_gtids`: its transactions have
    /// those of MySQL.
    pub(crate) fn options(self, work: &Path, has_gtids: bool) -> Result<Vec<String>> {
        let work = work.to_str().context("the folder's name is not UTF-8")?;
        let mut all = vec![
            format!("--relay-log={work}/relay"),
            format!("--relay-log-index={work}/relay.index"),
            "--relay-log-purge=0".to_owned(),
            "--max-allowed-packet=1G".to_owned(),
            // A replay that is killed begins again.
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
        ];
        let is_new = self.is_mysql() && self.version >= REPLICA_OPTIONS;
        let role = if is_new { "replica" } else { "slave" };
        all.push(format!("--{role}-load-tmpdir={work}"));
        all.push(format!("--{role}-max-allowed-packet=1G"));
        if !self.is_mysql() || self.version < TABLES {
            all.push(format!("--relay-log-info-file={work}/relay-log.info"));
            all.push(format!("--master-info-file={work}/master.info"));
        }
        if !self.is_mysql() {
            all.push("--slave-parallel-threads=0".to_owned());
            all.push("--slave-ddl-exec-mode=STRICT".to_owned());
            // A session may have had it, and the log does not say it.
            all.push("--system-versioning-alter-history=KEEP".to_owned());
            return Ok(all);
        }
        all.push(format!("--{role}-parallel-workers=0"));
        all.extend(gtid_options(self.version, has_gtids).iter().map(ToString::to_string));
        if self.version < PERMISSIVE && has_gtids {
            all.push(format!("--log-bin={work}/{OWN_LOG}"));
            // It takes rows as rows and statements as statements.
            all.push("--binlog-format=MIXED".to_owned());
        }
        Ok(all)
    }

    /// Forgets which servers the data were a replica of.
    pub(crate) fn forget_sources(self, session: &mut Session) -> Result<()> {
        if self.is_mysql() {
            session.execute(&format!("RESET {} ALL", self.role()))?;
        }
        Ok(())
    }

    /// Says that the relay log begins in `file`, which is that place in the archived log.
    pub(crate) fn aim(self, session: &mut Session, file: &str, (name, at): &Position) -> Result<()> {
        let (of, word) =
            if self.says_replica() { ("REPLICATION SOURCE", "SOURCE") } else { ("MASTER", "MASTER") };
        let gtid =
            if self.is_mysql() { format!("{word}_AUTO_POSITION=0") } else { format!("{word}_USE_GTID=no") };
        let name = session.quote(name);
        session.execute(&format!(
            "CHANGE {of} TO {word}_HOST='none', {word}_USER='none', RELAY_LOG_FILE='{file}', RELAY_LOG_POS={at}, \
             {word}_LOG_FILE={name}, {word}_LOG_POS={at}, {gtid}"
        ))?;
        Ok(())
    }

    /// Starts to apply up to a place in the relay log.
    pub(crate) fn start(self, session: &mut Session, file: &str, at: u64) -> Result<()> {
        session.execute(&format!(
            "START {} SQL_THREAD UNTIL RELAY_LOG_FILE='{file}', RELAY_LOG_POS={at}",
            self.role()
        ))?;
        Ok(())
    }

    /// Ends that.
    pub(crate) fn stop(self, session: &mut Session) -> Result<()> {
        session.execute(&format!("STOP {} SQL_THREAD", self.role()))?;
        Ok(())
    }

    /// How far it is.
    pub(crate) fn status(self, session: &mut Session) -> Result<Status> {
        Ok(Status(session.named_row(&format!("SHOW {} STATUS", self.role()))?.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_gets_options_that_it_knows() {
        let options = |flavour, version: &str, has_gtids| {
            let dialect = Dialect { flavour, version: Version::parse(version) };
            dialect.options(Path::new("/w"), has_gtids).unwrap().join(" ")
        };
        let mariadb = options(Flavour::MariaDb, "10.11.19", false);
        assert!(mariadb.contains("--slave-parallel-threads=0") && mariadb.contains("--master-info-file=/w/"));
        for (version, has, lacks) in [
            ("5.6.24", "--slave-parallel-workers=0", "gtid"),
            ("5.7.44", "--gtid-mode=OFF_PERMISSIVE", "replica"),
            ("8.0.25", "--slave-load-tmpdir=/w", "info-file"),
            ("8.0.26", "--replica-load-tmpdir=/w", "slave"),
            ("9.7.4", "--replica-parallel-workers=0", "log-bin"),
        ] {
            let options = options(Flavour::MySql, version, false);
            assert!(options.contains(has) && !options.contains(lacks), "{version}: {options}");
        }
        let own = options(Flavour::MySql, "5.6.24", true);
        assert!(own.contains("--log-bin=/w/own-log") && own.contains("--gtid-mode=ON"), "{own}");
        assert_eq!(recovery_options(Some("10.11.19-MariaDB-log"), true).len(), 0);
        assert_eq!(recovery_options(Some("9.7.4-2"), false).len(), 2);
        assert_eq!(recovery_options(None, true).len(), 0);
    }
}
