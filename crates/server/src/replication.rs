//! Statements about replication, which have other words on each kind of server. MySQL 8.4 and later know none
//! of those with MASTER and SLAVE, MariaDB and older MySQL none of the others.

/// Where the binary log ends.
pub(crate) const LOG_STATUS: [&str; 2] = ["SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"];
/// The sources of a replica: only some servers show all of them.
pub const REPLICA_STATUS: [&str; 3] = ["SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];
/// The replicas that are connected.
pub(crate) const REPLICAS: [&str; 2] = ["SHOW SLAVE HOSTS", "SHOW REPLICAS"];
