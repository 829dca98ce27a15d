//! The server's error codes that a caller acts on, by name.

/// Codes that say nothing about the statement or its rows: it failed because of a lock, a full disk, a
/// shutdown or a KILL, and may well succeed later. Names are those of the server's `errmsg` files.
const PASSING: [(u16, &str); 18] = [
    (1020, "ER_CHECKREAD"),
    (1021, "ER_DISK_FULL"),
    (1023, "ER_ERROR_ON_CLOSE"),
    (1026, "ER_ERROR_ON_WRITE"),
    (1037, "ER_OUTOFMEMORY"),
    (1038, "ER_OUT_OF_SORTMEMORY"),
    (1040, "ER_CON_COUNT_ERROR"),
    (1041, "ER_OUT_OF_RESOURCES"),
    (1053, "ER_SERVER_SHUTDOWN"),
    (1114, "ER_RECORD_FILE_FULL"),
    (1180, "ER_ERROR_DURING_COMMIT"),
    (LOCK_WAIT_TIMEOUT, "ER_LOCK_WAIT_TIMEOUT"),
    (DEADLOCK, "ER_LOCK_DEADLOCK"),
    (OPTION_PREVENTS, "ER_OPTION_PREVENTS_STATEMENT"),
    (1317, "ER_QUERY_INTERRUPTED"),
    (READ_ONLY_MODE, "ER_READ_ONLY_MODE"),
    (1969, "ER_STATEMENT_TIMEOUT, MariaDB's max_statement_time"),
    (3024, "ER_QUERY_TIMEOUT, MySQL's max_execution_time"),
];

/// ER_LOCK_WAIT_TIMEOUT.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// ER_LOCK_DEADLOCK: two sessions wait for each other, and this one has given way.
pub const DEADLOCK: u16 = 1213;
/// ER_OPTION_PREVENTS_STATEMENT: `--read-only` above all, but also `--secure-file-priv` and others.
const OPTION_PREVENTS: u16 = 1290;
/// ER_READ_ONLY_MODE.
const READ_ONLY_MODE: u16 = 1836;

/// ER_PARSE_ERROR: this server does not know such a statement.
pub(crate) const PARSE: u16 = 1064;
/// ER_SPECIFIC_ACCESS_DENIED_ERROR: a statement needs a privilege that is not one on a table.
pub(crate) const ACCESS_DENIED: u16 = 1227;
/// ER_NOT_SUPPORTED_AUTH_MODE: the account's way to log in is another one.
pub(crate) const NOT_SUPPORTED_AUTH_MODE: u16 = 1251;
/// ER_MUST_CHANGE_PASSWORD: the password has expired.
pub(crate) const MUST_CHANGE_PASSWORD: u16 = 1820;

/// ER_SLAVE_SAME_ID of MariaDB: another client with the same number has asked for the binary log.
pub(crate) const SLAVE_SAME_ID: u16 = 4052;

/// ER_TOO_BIG_ROWSIZE: a row, as declared or as stored, is longer than the engine allows.
pub const TOO_BIG_ROWSIZE: u16 = 1118;
/// ER_DUP_ENTRY: a row whose key already exists.
pub const DUP_ENTRY: u16 = 1062;
/// ER_BINLOG_UNSAFE_STATEMENT: a remark about replication, not about rows.
pub const BINLOG_UNSAFE_STATEMENT: u16 = 1592;

/// Whether an error with this code is temporary; see [`crate::Error::is_passing`].
pub(crate) fn is_passing(code: u16) -> bool {
    PASSING.iter().any(|(passing, _)| *passing == code)
}

/// Whether the same transaction may well succeed if it is repeated at once.
pub(crate) fn is_retryable(code: u16) -> bool {
    matches!(code, LOCK_WAIT_TIMEOUT | DEADLOCK)
}

/// Whether the server refused a change because it is read-only.
pub(crate) fn is_read_only(code: u16, message: &str) -> bool {
    code == READ_ONLY_MODE
        || (code == OPTION_PREVENTS
            && ["--read-only", "--super-read-only", "--read_only"]
                .iter()
                .any(|option| message.contains(option)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_errors_are_distinguished_from_permanent_ones() {
        assert!([1205, 1213, 1290, 1317, 3024].into_iter().all(is_passing));
        assert!(![0, DUP_ENTRY, TOO_BIG_ROWSIZE, 1064, 1142, 1366].into_iter().any(is_passing));
        assert!(is_retryable(1213) && !is_retryable(1317));
    }

    #[test]
    fn one_code_has_several_meanings() {
        let said = |option: &str| {
            format!(
                "The MariaDB server is running with the {option} option so it cannot execute this statement"
            )
        };
        assert!(is_read_only(1290, &said("--read-only")) && is_read_only(1836, ""));
        assert!(!is_read_only(1290, &said("--secure-file-priv")) && !is_read_only(1142, "--read-only"));
    }
}
