//! Where a server stands in its binary log, and a replica in its source's.

use crate::{Error, Flavour, Session};

/// A place in the binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// File of the binary log.
    pub file: String,
    /// Offset in it, in bytes.
    pub offset: u64,
    /// The same as a GTID (MariaDB) or a set of them (MySQL); empty where the server has none.
    pub gtid: String,
}

impl Session {
    /// Where the server's binary log ends now. `None` without a log, or where this account may not see it
    /// (REPLICATION CLIENT, on MariaDB BINLOG MONITOR).
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn position(&mut self) -> Result<Option<Position>, Error> {
        // MySQL 8.4 knows the second name only.
        let row = self.first_row(&["SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"])?;
        let Some(row) = row else { return Ok(None) };
        let cell = |name: &str| row.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let file = cell("File").unwrap_or_default();
        let offset = cell("Position").unwrap_or_default();
        if self.about.flavour == Flavour::MariaDb {
            return self.position_at(file, &offset).map(Some);
        }
        let gtid = cell("Executed_Gtid_Set").unwrap_or_default().replace('\n', "");
        Ok(Some(Position { file, offset: offset.parse().unwrap_or(0), gtid }))
    }

    /// A place in MariaDB's binary log with its GTID.
    pub(crate) fn position_at(&mut self, file: String, offset: &str) -> Result<Position, Error> {
        let quoted = self.quote(&file);
        let gtid = self.value(&format!("SELECT BINLOG_GTID_POS({quoted}, {offset})"))?.unwrap_or_default();
        Ok(Position { file, offset: offset.parse().unwrap_or(0), gtid })
    }

    /// What a replica says of its source and how far it has applied what came from there: the columns of
    /// `SHOW SLAVE STATUS` for its host, file and offset, by name. Empty on another server, or where this
    /// account may not see it.
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn source_position(&mut self) -> Result<Vec<(String, String)>, Error> {
        // In the words of MariaDB and MySQL up to 8.0, then of MySQL since.
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

    /// What a MariaDB replica has applied of its source's transactions, in the form of `gtid_slave_pos`: as
    /// this session's snapshot sees it, so that it fits the rows the same snapshot sees. Empty on another
    /// server, or where this account may not see it.
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
        // The last one of each domain counts; the ones before are not removed yet.
        let mut domains = std::collections::BTreeMap::new();
        for row in rows {
            let cells: Vec<String> = row.into_iter().flatten().collect();
            domains.insert(cells.first().cloned(), cells.join("-"));
        }
        Ok(domains.into_values().collect::<Vec<_>>().join(","))
    }

    /// The first row, with its columns' names, of the first statement that this server knows and this account
    /// may run.
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
