//! What a session sets for itself. A server's global variables decide how a new session begins, so each one
//! that a statement of ours depends on is in one of these lists.

use crate::{Error, Flavour, Session};

/// For every session, as the first statement: variables that all servers have, by which they would refuse or
/// cut an answer, give another one, or leave a change uncommitted.
pub(crate) const EVERY: &str = "SET NAMES utf8mb4, autocommit = 1, completion_type = 0, \
    sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615, sql_big_selects = 1, \
    sql_safe_updates = 0, sql_auto_is_null = 0, sql_buffer_result = 0, sql_quote_show_create = 1, sql_notes = 1, \
    max_error_count = 64, group_concat_max_len = 1048576, div_precision_increment = 4, big_tables = 0, \
    old_alter_table = DEFAULT, foreign_key_checks = 1, unique_checks = 1, innodb_lock_wait_timeout = 50";

/// The rest for every session of MariaDB; what is in a comment, from that version on.
const EVERY_MARIADB: &str = "SET SESSION tx_isolation = 'REPEATABLE-READ', tx_read_only = 0 \
    /*M!100201 , check_constraint_checks = 1 */ \
    /*M!100300 , idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, \
        idle_write_transaction_timeout = 0 */ \
    /*M!100304 , system_versioning_asof = DEFAULT */ \
    /*M!100308 , alter_algorithm = DEFAULT */ \
    /*M!100502 , sql_if_exists = 0 */";

/// The rest for every session of MySQL. The statement is the same for all versions, the variables are not.
const EVERY_MYSQL: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE";

/// The second statement for every session.
pub(crate) fn every(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::MariaDb => EVERY_MARIADB,
        Flavour::MySql => EVERY_MYSQL,
    }
}

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
    // `utf8` in the definition of an older server has three bytes.
    "old_mode = 'UTF8_IS_UTF8MB3'",
    // Rows of queues that somebody owns are data like all others.
    "queue_show_owned = ON",
];

/// For sessions that store values and make objects as they were, on top of [`EXACT`].
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

impl Session {
    /// Sets session variables, each given as `name = value`. One that this server does not have, or does not
    /// let this account or a session set, or does not know that value of, stays as it is.
    ///
    /// # Errors
    /// Other errors of the server.
    pub fn set_where_known(&mut self, settings: &[&str]) -> Result<(), Error> {
        /// No such variable; a privilege is missing; it is read-only, or not for a session; no such value.
        const TOLERATED: [u16; 5] = [1193, 1227, 1238, 1229, 1231];
        for setting in settings {
            match self.execute(&format!("SET SESSION {setting}")) {
                Err(error) if error.code().is_some_and(|code| TOLERATED.contains(&code)) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}
