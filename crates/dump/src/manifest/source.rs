//! The state of a server that is in a dump.

use serde::{Deserialize, Serialize};
use server::snapshot::SnapshotMethod;
use server::{Flavour, Position, Release, Version};

/// The server that a dump was made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Source {
    /// `mariadb` or `mysql`.
    pub flavour: String,
    /// As the server shows it.
    pub server_version: String,
    /// Its host name.
    pub host: String,
    /// Its `server_id`.
    pub server_id: u64,
    /// Its `lower_case_table_names`.
    pub lower_case_table_names: u8,
    /// How all sessions got the same snapshot; `None` before there is one.
    pub snapshot: Option<SnapshotMethod>,
    /// The position of that state in the server's binary log.
    pub position: Option<Position>,
    /// For a replica, its position in the binary log of its source: columns of SHOW SLAVE STATUS, read soon
    /// after that state; on MariaDB `gtid_slave_pos` of exactly that state, from which another replica can
    /// start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replica_of: Vec<(String, String)>,
}

impl Source {
    /// A MariaDB server of which only the files are known: its host is empty then, and its number 0.
    #[must_use]
    pub fn of_files(server_version: String) -> Source {
        Source {
            flavour: "mariadb".to_owned(),
            server_version,
            host: String::new(),
            server_id: 0,
            lower_case_table_names: 0,
            snapshot: Some(SnapshotMethod::Stopped),
            position: None,
            replica_of: Vec::new(),
        }
    }

    /// The family.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        if self.flavour == "mariadb" { Flavour::MariaDb } else { Flavour::MySql }
    }

    /// The version as numbers.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::parse(&self.server_version)
    }

    /// The release; servers of one release print definitions in the same words.
    #[must_use]
    pub fn release(&self) -> Release {
        Release::of(self.flavour(), self.version())
    }
}

/// A state of the server before the one in [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierState {
    /// How all sessions got the same snapshot.
    pub snapshot: Option<SnapshotMethod>,
    /// Its position in the server's binary log.
    pub position: Option<Position>,
}
