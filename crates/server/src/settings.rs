//! What a session sets for itself. A server's global variables decide how a new session begins, so each one
//! that a statement of ours depends on is in one of these lists.

use crate::{Error, Flavour, Session, error_code};

/// For every session, first: variables by which any server would refuse or cut an answer, give another one,
/// or leave a change uncommitted.
const EVERY: &[&str] = &[
    "autocommit = 1",
    "completion_type = 0",
    "sql_select_limit = 18446744073709551615",
    "max_join_size = 18446744073709551615",
    "sql_big_selects = 1",
    "sql_safe_updates = 0",
    "sql_auto_is_null = 0",
    "sql_buffer_result = 0",
    "sql_quote_show_create = 1",
    "sql_notes = 1",
    "group_concat_max_len = 1048576",
    "div_precision_increment = 4",
    "big_tables = 0",
    // MySQL 8 and later make a DECIMAL of it, which is no size.
    "sort_buffer_size = CAST(GREATEST(@@sort_buffer_size, 262144) AS UNSIGNED)",
    "foreign_key_checks = 1",
    "unique_checks = 1",
    "innodb_lock_wait_timeout = 50",
];

/// The same, where the account may: MySQL 8 and later allow it to administrators only.
const EVERY_IF_ALLOWED: &str = "max_error_count = 64";

/// The rest for every session of MariaDB.
const EVERY_MARIADB: &[&str] = &[
    "tx_isolation = 'REPEATABLE-READ'",
    "tx_read_only = 0",
    "check_constraint_checks = 1",
    "idle_transaction_timeout = 0",
    "idle_readonly_transaction_timeout = 0",
    "idle_write_transaction_timeout = 0",
    "system_versioning_asof = DEFAULT",
    "alter_algorithm = DEFAULT",
    "sql_if_exists = 0",
];

/// The rest for every session of MySQL.
const EVERY_MYSQL: &[&str] = &[
    // Rows with columns, and not a tree in one cell.
    "explain_format = 'TRADITIONAL'",
    // Numbers of rows and sizes as they are, and not as they were a day ago.
    "information_schema_stats_expiry = 0",
];

/// The same. The statement is the same for all versions, the variables are not.
const ISOLATION_MYSQL: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE";

/// For sessions that read values and definitions as they are: times in UTC, text in the bytes of its column
/// or of the client that gave it, no limits of time.
pub(crate) const EXACT: &[&str] = &[
    // Definitions come without the folders of tables from a server that takes none.
    "sql_mode = IF(@@GLOBAL.sql_mode LIKE '%NO_DIR_IN_CREATE%', 'NO_DIR_IN_CREATE', '')",
    "time_zone = '+00:00'",
    "character_set_results = NULL",
    "net_write_timeout = 31536000",
    "net_read_timeout = 31536000",
    "wait_timeout = 31536000",
    "max_statement_time = 0",
    "max_execution_time = 0",
    // Even reading a table takes a lock, which somebody's DDL may hold for ever.
    "lock_wait_timeout = 60",
    // Rows are put in the order of a column's first bytes, of this number.
    "max_sort_length = 1024",
    // `utf8` in the definition of an older server has three bytes.
    "old_mode = 'UTF8_IS_UTF8MB3'",
    // Rows of queues that somebody owns are data like all others.
    "queue_show_owned = ON",
];

/// For sessions that store values and make objects as they were, on top of `EXACT`.
pub const STORE: &[&str] = &[
    "sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
    "foreign_key_checks = 0",
    "check_constraint_checks = 0",
    "system_versioning_insert_history = 1",
    "innodb_strict_mode = 0",
    // A table then gets nothing that its definition does not say.
    "innodb_compression_default = 0",
    "innodb_default_encryption_key_id = 1",
    "explicit_defaults_for_timestamp = 1",
    "enforce_storage_engine = NULL",
    // A counter then continues right after the largest number, and not at the next one that is this server's
    // turn.
    "auto_increment_increment = 1",
    "auto_increment_offset = 1",
    // Every collation is stated.
    "character_set_collations = ''",
];

/// No such variable; a privilege is missing; it is read-only, or not for a session; no such value.
const TOLERATED: [u16; 5] = [1193, 1227, 1238, 1229, 1231];

impl Session {
    /// Sets what every session relies on, before anything else is asked.
    pub(crate) fn set_first(&mut self) -> Result<(), Error> {
        let every = format!("SET NAMES utf8mb4, {}", EVERY.join(", "));
        let set = match self.execute(&format!("{every}, {EVERY_IF_ALLOWED}")) {
            Err(error) if error.code() == Some(error_code::ACCESS_DENIED) => self.execute(&every),
            set => set,
        };
        match set {
            // A server of another time lacks one of them.
            Err(error) if error.code().is_some_and(|code| TOLERATED.contains(&code)) => {
                self.execute("SET NAMES utf8mb4")?;
                self.set_where_known(EVERY)
            }
            set => set.map(drop),
        }
    }

    /// Sets the rest, when the server is known.
    pub(crate) fn set_next(&mut self) -> Result<(), Error> {
        let rest = match self.about.flavour {
            Flavour::MariaDb => EVERY_MARIADB,
            Flavour::MySql => {
                self.execute(ISOLATION_MYSQL)?;
                EVERY_MYSQL
            }
        };
        match self.execute(&format!("SET SESSION {}", rest.join(", "))) {
            Err(error) if error.code().is_some_and(|code| TOLERATED.contains(&code)) => {
                self.set_where_known(rest)
            }
            set => set.map(drop),
        }
    }

    /// Sets session variables, each given as `name = value`. One that this server does not have, or does not
    /// let this account or a session set, or does not know that value of, stays as it is.
    ///
    /// # Errors
    /// Other errors of the server.
    pub fn set_where_known(&mut self, settings: &[&str]) -> Result<(), Error> {
        for setting in settings {
            match self.execute(&format!("SET SESSION {setting}")) {
                Err(error) if error.code().is_some_and(|code| TOLERATED.contains(&code)) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}
