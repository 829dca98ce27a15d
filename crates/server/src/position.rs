//! A server's position in its binary log, and a replica's position in its source's. The statements have other
//! names on each kind of server. MySQL 8.4 and later know none of those with MASTER and SLAVE, MariaDB and
//! older MySQL none of the others.

use std::fmt;

use crate::{Error, Flavour, Session, error_code};

/// A position in the binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// File of the binary log.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The same as a GTID (MariaDB) or a set of them (MySQL); empty if the server has none.
    pub gtid: String,
}

/// `binlog.000004:4711, 0-1-42`
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { file, offset, gtid } = self;
        write!(f, "{file}:{offset}")?;
        if gtid.is_empty() { Ok(()) } else { write!(f, ", {gtid}") }
    }
}

/// What a replica says of its only source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// Whether it is logged in to the source and receives its log.
    pub receives: bool,
    /// Whether it applies what it has received.
    pub applies: bool,
    /// The last error of either, if there is one.
    pub error: Option<String>,
}

/// A row: a text for each column, `None` for NULL.
type Texts = Vec<Option<String>>;

/// Where the binary log ends.
pub(crate) const LOG_STATUS: [&str; 2] = ["SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"];
/// The sources of a replica: only some servers show all of them.
pub const REPLICA_STATUS: [&str; 3] = ["SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];
/// The replicas that are connected.
const REPLICAS: [&str; 2] = ["SHOW SLAVE HOSTS", "SHOW REPLICAS"];

impl Session {
    /// Where the server's binary log ends, and which databases are logged: the columns `File`, `Position`,
    /// `Binlog_Do_DB`, `Binlog_Ignore_DB`. No row without a log.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn binary_log_status(&mut self) -> Result<Vec<Texts>, Error> {
        self.known(&LOG_STATUS, Session::strings)
    }

    /// A row for each source of the server. None if it is no replica.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn replica_status(&mut self) -> Result<Vec<Texts>, Error> {
        self.known(&REPLICA_STATUS, Session::strings)
    }

    /// A row for each replica of the server: `Server_id`, `Host`, `Port` and others.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn replicas(&mut self) -> Result<Vec<Texts>, Error> {
        self.known(&REPLICAS, Session::strings)
    }

    /// By how many seconds each channel of a replica is behind its source, as the server estimates it; `None`
    /// for a channel that does not run. Empty for a server that is no replica.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn replica_delays(&mut self) -> Result<Vec<Option<u64>>, Error> {
        let rows = self.known(&REPLICA_STATUS, Session::named_rows)?;
        let is_delay = |name: &str| ["Seconds_Behind_Master", "Seconds_Behind_Source"].contains(&name);
        let delay =
            |row: Vec<(String, String)>| row.into_iter().find(|(name, _)| is_delay(name))?.1.parse().ok();
        Ok(rows.into_iter().map(delay).collect())
    }

    /// What a replica does. `None` for a server that is none.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn replica_state(&mut self) -> Result<Option<ReplicaState>, Error> {
        let Some(row) = self.known(&REPLICA_STATUS, Session::named_rows)?.into_iter().next() else {
            return Ok(None);
        };
        let cell =
            |names: &[&str]| row.iter().find(|(name, _)| names.contains(&&**name)).map(|(_, text)| &**text);
        let runs = |names: &[&str]| cell(names) == Some("Yes");
        let error = ["Last_IO_Error", "Last_SQL_Error"].map(|name| cell(&[name]).unwrap_or_default());
        Ok(Some(ReplicaState {
            receives: runs(&["Slave_IO_Running", "Replica_IO_Running"]),
            applies: runs(&["Slave_SQL_Running", "Replica_SQL_Running"]),
            error: error.into_iter().find(|error| !error.is_empty()).map(str::to_owned),
        }))
    }

    /// The rows of the first of these statements that the server knows, in the form in which they are asked
    /// for.
    fn known<R>(
        &mut self,
        statements: &[&str],
        ask: impl Fn(&mut Session, &str) -> Result<Vec<R>, Error>,
    ) -> Result<Vec<R>, Error> {
        let mut rows = Ok(Vec::new());
        for statement in statements {
            rows = ask(self, statement);
            if !matches!(&rows, Err(error) if error.code() == Some(error_code::PARSE)) {
                break;
            }
        }
        rows
    }

    /// Where the server's binary log ends now. `None` without a log, or if this account may not see it
    /// (REPLICATION CLIENT, on MariaDB BINLOG MONITOR).
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn position(&mut self) -> Result<Option<Position>, Error> {
        let Some(found) = self.master_status()? else { return Ok(None) };
        if self.about.flavour != Flavour::MariaDb {
            return Ok(Some(found));
        }
        // BINLOG_GTID_POS reads the file from its beginning, while others may have to wait.
        let gtid = self.value("SELECT @@GLOBAL.gtid_binlog_pos")?.unwrap_or_default();
        if self.master_status()?.as_ref() == Some(&found) {
            return Ok(Some(Position { gtid, ..found }));
        }
        let Position { file, offset, .. } = found;
        self.position_at(file, &offset.to_string()).map(Some)
    }

    /// What the server says of its position, on MariaDB without a GTID.
    fn master_status(&mut self) -> Result<Option<Position>, Error> {
        let row = self.first_row(&LOG_STATUS)?;
        let Some(row) = row else { return Ok(None) };
        let cell = |name: &str| row.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let file = cell("File").unwrap_or_default();
        let offset = cell("Position").and_then(|offset| offset.parse().ok()).unwrap_or(0);
        let gtid = cell("Executed_Gtid_Set").unwrap_or_default().replace('\n', "");
        Ok(Some(Position { file, offset, gtid }))
    }

    /// A position in MariaDB's binary log with its GTID.
    pub(crate) fn position_at(&mut self, file: String, offset: &str) -> Result<Position, Error> {
        let quoted = self.quote(&file);
        let gtid = self.value(&format!("SELECT BINLOG_GTID_POS({quoted}, {offset})"))?.unwrap_or_default();
        Ok(Position { file, offset: offset.parse().unwrap_or(0), gtid })
    }

    /// What a replica says about its source and how far it has applied the source's log: the columns of `SHOW
    /// SLAVE STATUS` for host, file and offset, by name. Empty on a server that is not a replica, or if this
    /// account may not see it.
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn source_position(&mut self) -> Result<Vec<(String, String)>, Error> {
        // The names of MariaDB and of MySQL up to 8.0, then those of later MySQL.
        const NAMES: [&str; 6] = [
            "Master_Host",
            "Relay_Master_Log_File",
            "Exec_Master_Log_Pos",
            "Source_Host",
            "Relay_Source_Log_File",
            "Exec_Source_Log_Pos",
        ];
        let row = self.first_row(&["SHOW SLAVE STATUS", "SHOW REPLICA STATUS"])?.unwrap_or_default();
        Ok(row.into_iter().filter(|(name, _)| NAMES.contains(&name.as_str())).collect())
    }

    /// Which of its source's transactions a MariaDB replica has applied, in the form of `gtid_slave_pos`. It
    /// is read in this session's snapshot, so that it matches the rows in the same snapshot. Empty on another
    /// server, or if this account may not see it.
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn applied(&mut self) -> Result<String, Error> {
        if self.about.flavour != Flavour::MariaDb {
            return Ok(String::new());
        }
        let sql = "SELECT domain_id, server_id, seq_no FROM mysql.gtid_slave_pos ORDER BY domain_id, sub_id";
        let rows = match self.strings(sql) {
            Err(error) if error.code().is_some() => return Ok(String::new()),
            rows => rows?,
        };
        // Only the last one of each domain counts; earlier ones are not removed yet.
        let mut domains = std::collections::BTreeMap::new();
        for row in rows {
            let cells: Vec<String> = row.into_iter().flatten().collect();
            domains.insert(cells.first().cloned(), cells.join("-"));
        }
        Ok(domains.into_values().collect::<Vec<_>>().join(","))
    }

    /// The first row, with column names, of the first statement that this server knows and this account may
    /// run.
    fn first_row(&mut self, statements: &[&str]) -> Result<Option<Vec<(String, String)>>, Error> {
        for statement in statements {
            match self.named_row(statement) {
                Ok(row) => return Ok(Some(row).filter(|row| !row.is_empty())),
                Err(error) if error.code().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
