//! The kinds of events.

use std::borrow::Cow;

/// The kind of an event, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u8);

/// What an event does to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// They are new.
    Insert,
    /// They have other values.
    Update,
    /// They are gone.
    Delete,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsKind {
    pub(crate) change: Change,
    /// The second version has room for further data.
    pub(crate) has_extra: bool,
    pub(crate) is_packed: bool,
    /// Of JSON documents there may be only the changed parts.
    pub(crate) is_partial: bool,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $shown:literal;)*) => {
        impl Kind {
            $($(#[$doc])* pub const $name: Kind = Kind($number);)*

            /// Its name, as SHOW BINLOG EVENTS says it.
            #[must_use]
            pub fn name(self) -> Cow<'static, str> {
                match self {
                    $(Kind::$name => $shown.into(),)*
                    Kind(number) => format!("Unknown event {number}").into(),
                }
            }

            /// Whether this crate knows it.
            #[must_use]
            pub fn is_known(self) -> bool {
                matches!(self, $(Kind::$name)|*)
            }
        }
    };
}

kinds! {
    /// A statement.
    QUERY = 2, "Query";
    /// The server was stopped.
    STOP = 3, "Stop";
    /// The next file.
    ROTATE = 4, "Rotate";
    /// A number for the next statement.
    INTVAR = 5, "Intvar";
    /// A further part of a file of LOAD DATA.
    APPEND_BLOCK = 9, "Append_block";
    /// The file of a LOAD DATA is not needed.
    DELETE_FILE = 11, "Delete_file";
    /// The seeds of RAND.
    RAND = 13, "RAND";
    /// A user variable.
    USER_VAR = 14, "User var";
    /// How the events after it are written.
    FORMAT_DESCRIPTION = 15, "Format_desc";
    /// The end of a transaction.
    XID = 16, "Xid";
    /// The first part of a file of LOAD DATA.
    BEGIN_LOAD_QUERY = 17, "Begin_load_query";
    /// LOAD DATA.
    EXECUTE_LOAD_QUERY = 18, "Execute_load_query";
    /// A table.
    TABLE_MAP = 19, "Table_map";
    /// New rows.
    WRITE_ROWS_V1 = 23, "Write_rows_v1";
    /// Changed rows.
    UPDATE_ROWS_V1 = 24, "Update_rows_v1";
    /// Rows that are gone.
    DELETE_ROWS_V1 = 25, "Delete_rows_v1";
    /// Something that is not in the log.
    INCIDENT = 26, "Incident";
    /// Nothing happened.
    HEARTBEAT = 27, "Heartbeat";
    /// The statement whose rows follow, of MySQL.
    ROWS_QUERY = 29, "Rows_query";
    /// New rows.
    WRITE_ROWS = 30, "Write_rows";
    /// Changed rows.
    UPDATE_ROWS = 31, "Update_rows";
    /// Rows that are gone.
    DELETE_ROWS = 32, "Delete_rows";
    /// MySQL's begin of a transaction.
    MYSQL_GTID = 33, "Gtid";
    /// The same, without a number.
    ANONYMOUS_GTID = 34, "Anonymous_Gtid";
    /// MySQL's transactions before this file.
    PREVIOUS_GTIDS = 35, "Previous_gtids";
    /// The end of XA PREPARE.
    XA_PREPARE = 38, "XA_prepare";
    /// Changed rows, of JSON documents perhaps only the changed parts.
    PARTIAL_UPDATE_ROWS = 39, "Update_rows_partial";
    /// The events of a transaction, compressed.
    TRANSACTION_PAYLOAD = 40, "Transaction_payload";
    /// Nothing happened, as MySQL 8.0.26 and later may say it.
    HEARTBEAT_V2 = 41, "Heartbeat_v2";
    /// MySQL's begin of a transaction whose GTID has a tag.
    GTID_TAGGED = 42, "Gtid_tagged_log_event";
    /// The statement whose rows follow.
    ANNOTATE_ROWS = 160, "Annotate_rows";
    /// The oldest file that a recovery needs.
    BINLOG_CHECKPOINT = 161, "Binlog_checkpoint";
    /// MariaDB's begin of a transaction.
    GTID = 162, "Gtid";
    /// MariaDB's transactions before this file.
    GTID_LIST = 163, "Gtid_list";
    /// The rest is encrypted.
    START_ENCRYPTION = 164, "Start_encryption";
    /// A statement, compressed.
    QUERY_COMPRESSED = 165, "Query_compressed";
    /// New rows, compressed.
    WRITE_ROWS_COMPRESSED_V1 = 166, "Write_rows_compressed_v1";
    /// Changed rows, compressed.
    UPDATE_ROWS_COMPRESSED_V1 = 167, "Update_rows_compressed_v1";
    /// Rows that are gone, compressed.
    DELETE_ROWS_COMPRESSED_V1 = 168, "Delete_rows_compressed_v1";
    /// New rows, compressed.
    WRITE_ROWS_COMPRESSED = 169, "Write_rows_compressed";
    /// Changed rows, compressed.
    UPDATE_ROWS_COMPRESSED = 170, "Update_rows_compressed";
    /// Rows that are gone, compressed.
    DELETE_ROWS_COMPRESSED = 171, "Delete_rows_compressed";
}

impl Kind {
    /// How rows are written in it, if it has rows.
    pub(crate) fn rows(self) -> Option<RowsKind> {
        let is_partial = self == Kind::PARTIAL_UPDATE_ROWS;
        let (first, has_extra, is_packed) = match self.0 {
            39 => (38, true, false),
            23..=25 => (23, false, false),
            30..=32 => (30, true, false),
            166..=168 => (166, false, true),
            169..=171 => (169, true, true),
            _ => return None,
        };
        let change = match self.0 - first {
            0 => Change::Insert,
            1 => Change::Update,
            _ => Change::Delete,
        };
        Some(RowsKind { change, has_extra, is_packed, is_partial })
    }
}
