//! Statements about replication, which have other words on each kind of server. MySQL 8.4 and later know none
//! of those with MASTER and SLAVE, MariaDB and older MySQL none of the others.

use crate::{Error, Session, error_code};

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
        self.known(&LOG_STATUS)
    }

    /// A row for each source of the server. None if it is no replica.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn replica_status(&mut self) -> Result<Vec<Texts>, Error> {
        self.known(&REPLICA_STATUS)
    }

    /// A row for each replica of the server: `Server_id`, `Host`, `Port` and others.
    ///
    /// # Errors
    /// [`Error::Privilege`] and the like.
    pub fn replicas(&mut self) -> Result<Vec<Texts>, Error> {
        self.known(&REPLICAS)
    }

    /// The rows of the first of these statements that the server knows.
    fn known(&mut self, statements: &[&str]) -> Result<Vec<Texts>, Error> {
        let mut rows = Ok(Vec::new());
        for statement in statements {
            rows = self.strings(statement);
            if !matches!(&rows, Err(error) if error.code() == Some(error_code::PARSE)) {
                break;
            }
        }
        rows
    }
}
