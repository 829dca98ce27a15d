//! What is known of a server and of its backups. Whether that is good is judged elsewhere.

use std::collections::BTreeMap;

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The server.
    pub server: Server,
    /// What the account may do.
    pub rights: Rights,
    /// Tables that need care.
    pub tables: Tables,
    /// Whether it can be copied for a backup, or why not. `None`: no source was named.
    pub copy: Option<Result<String, String>>,
    /// The repository, if one was named.
    pub repository: Option<Repository>,
    /// The time, in seconds since 1970.
    pub now_s: i64,
}

/// The server's own settings.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// `MariaDB 10.11.19`
    pub shown: String,
    /// Its variables. What it does not know is not among them.
    pub settings: BTreeMap<String, String>,
    /// Why no server of this version can be started on this machine, and the command that brings one.
    pub no_private: Option<(String, Option<String>)>,
    /// Databases that its log leaves out, as its settings say it.
    pub filters: Vec<String>,
    /// Whether it gets changes from another server. `None`: this account may not see it.
    pub is_replica: Option<bool>,
    /// How many receive its binary log. `None`: this account may not see it.
    pub receivers: Option<u64>,
    /// Names of time zones that it knows. `None`: this account may not see them.
    pub zones: Option<u64>,
}

/// What the account may do.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// What it lacks.
    pub lacks: Vec<&'static str>,
    /// The statement that grants it.
    pub grant: String,
}

/// Tables that need care.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// How many the account sees.
    pub seen: u64,
    /// Those without a primary key: some, and how many there are.
    pub without_key: (Vec<String>, u64),
    /// Those without transactions, as `db.table (MyISAM)`.
    pub without_transactions: (Vec<String>, u64),
    /// Bytes of all tables and indexes.
    pub bytes: u64,
}

/// The backups of the server.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// `/backup/db1`
    pub shown: String,
    /// What makes a backup into it.
    pub command: String,
    /// Why it can't be read, if it can't.
    pub error: Option<String>,
    /// Whether it is in the file system of the data. `None`: that is not known.
    pub is_beside_data: Option<bool>,
    /// Bytes that are free there, if that is known.
    pub free: Option<u64>,
    /// The newest generation, if there is one.
    pub newest: Option<Newest>,
    /// What is damaged or missing, as far as it is seen without reading all of it.
    pub broken: Vec<String>,
    /// What `remora verify` has noted as damaged, and what that costs.
    pub noted: Option<String>,
    /// Whether the backups are encrypted.
    pub encryption: Encryption,
    /// The archived log beside them.
    pub archive: Archive,
}

/// The newest generation.
#[derive(Clone, Debug, Default)]
pub struct Newest {
    /// Its number.
    pub number: u64,
    /// When it was taken, in seconds since 1970.
    pub taken_s: i64,
    /// The bytes of its file.
    pub bytes: u64,
    /// Whether it can't be restored whole: what it needs is missing, or noted as damaged.
    pub is_damaged: bool,
    /// Whether a server was started on it.
    pub proof: Proof,
}

/// What a server that was started on a backup has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// None was started on it, nor on one of the generations before.
    #[default]
    Never,
    /// Not on this one, but on the one with this number.
    Earlier(u64),
    /// It started.
    Sound,
    /// It found something wrong.
    Unsound,
}

/// What protects the backups from who reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Nothing.
    #[default]
    None,
    /// They are encrypted, and no key was given.
    Unopened,
    /// They are encrypted. This file has the put key, which adds backups and reads none.
    PutKey(String),
    /// They are encrypted. The file with the full key, and whether it is on the disk of the repository.
    FullKey(String, bool),
}

/// The archive of the server's binary log.
#[derive(Clone, Debug, Default)]
pub enum Archive {
    /// There is none.
    #[default]
    None,
    /// It is there. When it last had everything.
    There(Option<i64>),
}
