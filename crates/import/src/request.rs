//! What the user asked for.

use std::path::PathBuf;

use rows::{Habits, Hints, Nulls};
use serde::{Deserialize, Serialize};
use server::TableName;

/// One import, as asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The files, read in this order as if they were one.
    pub inputs: Vec<Input>,
    /// The table they go into.
    pub table: TableName,
    /// What may happen to rows that are in the table already.
    pub mode: Mode,
    /// Make the table, with the tightest types that hold every value.
    pub create: bool,
    /// Primary key of a table that is made; `None` takes a first column that is unique, an empty list none.
    pub key: Option<Vec<String>>,
    /// Types of columns of a table that is made, as SQL; the other columns get what their values need.
    pub types: Vec<(String, String)>,
    /// How values are written, and how much room a table that is made gets for others.
    pub habits: Habits,
    /// Where each field of a record goes; `None` goes by the header, or by position.
    pub columns: Option<Vec<FieldTarget>>,
    /// Computed columns: name and SQL expression over `@field` variables.
    pub set: Vec<(String, String)>,
    /// What is known of the files' form; the rest is sniffed.
    pub hints: Hints,
    /// What stands for NULL; `None` as the dialect has it.
    pub nulls: Option<Nulls>,
    /// A line further on that repeats the header is left out (`true`) or a row (`false`); `None` ends the
    /// import.
    pub skip_repeated_header: Option<bool>,
    /// The file to read of a zip archive with several.
    pub member: Option<String>,
    /// Bad rows to set aside before giving up.
    pub rejects_max: u64,
    /// Sessions that load at the same time; `None` as many as help.
    pub sessions: Option<usize>,
    /// Target size of a chunk in bytes; `None` by the size of the files.
    pub chunk_bytes: Option<usize>,
    /// Go on with an import that was stopped.
    pub resume: bool,
    /// Throw away what a stopped import left, and begin anew.
    pub restart: bool,
    /// What becomes of a row whose key is there already.
    pub on_duplicate: OnDuplicate,
    /// Database of the tables that stand beside the target; `None` is the target's own.
    pub work_database: Option<String>,
    /// When secondary indexes are built.
    pub indexes: Indexes,
    /// Relax server-wide durability settings while loading.
    pub relax_durability: bool,
    /// Keep the import out of the binary log.
    pub no_binlog: bool,
    /// Check foreign keys once at the end instead of row by row.
    pub defer_checks: bool,
    /// Session time zone: what TIMESTAMP values in the file are in.
    pub time_zone: Option<String>,
    /// Session sql_mode; strictness is added to it in any case.
    pub sql_mode: Option<String>,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
}

/// What may happen to rows that are in the table already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// There must be none: the table is new or empty.
    New,
    /// They are replaced, all at once.
    Replace,
    /// They stay.
    Append {
        /// Commit chunk by chunk from several sessions, instead of all or nothing from one.
        by_chunk: bool,
    },
}

/// What becomes of a row whose key is there already, from the table or from earlier in the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDuplicate {
    /// It is a bad row.
    #[default]
    Error,
    /// It is left out, and counted.
    Ignore,
    /// It takes the place of every row that has one of its keys.
    Replace,
    /// Its values go into the row that is there; columns that the files don't have stay.
    Update,
}

impl OnDuplicate {
    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            OnDuplicate::Error => "error",
            OnDuplicate::Ignore => "ignore",
            OnDuplicate::Replace => "replace",
            OnDuplicate::Update => "update",
        }
    }
}

/// Where a field of a record goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldTarget {
    /// Into the column of this name.
    Column(String),
    /// Into a variable `@name`, for `--set`.
    Variable(String),
    /// Nowhere.
    Skip,
}

/// When secondary indexes are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexes {
    /// As is faster.
    Auto,
    /// They are there while rows come in.
    Before,
    /// They are built when all rows are in.
    After,
}
