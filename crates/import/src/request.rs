//! The user's request.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parquet_rows::foreign::Int96;
use rows::{Habits, Hints, Nulls};
use serde::{Deserialize, Serialize};
use server::TableName;

/// A request for an import.
#[derive(Clone, Debug)]
pub struct Request {
    /// The files, read in this order as if they were one.
    pub inputs: Vec<Input>,
    /// The table they go into.
    pub table: TableName,
    /// What may happen to existing rows of the table.
    pub mode: Mode,
    /// Create the table, with the tightest types that hold every value.
    pub create: bool,
    /// Create the table's database too, if there is none.
    pub create_database: bool,
    /// Primary key of a created table; `None` chooses a first column with unique values, an empty list means
    /// no key.
    pub key: Option<Vec<String>>,
    /// Types for columns of a created table, as SQL; the other columns get what their values need.
    pub types: Vec<(String, String)>,
    /// How values are written, and how much room a created table leaves for other values.
    pub habits: Habits,
    /// Where each field of a record goes; `None` goes by the header, or by position.
    pub columns: Option<Vec<FieldTarget>>,
    /// Computed columns: name and SQL expression over `@field` variables.
    pub set: Vec<(String, String)>,
    /// What is known about the files' form; the rest is sniffed.
    pub hints: Hints,
    /// The texts that mean NULL; `None` for the dialect's own.
    pub nulls: Option<Nulls>,
    /// Whether a later line that repeats the header is left out (`true`) or is a row (`false`); `None` ends
    /// the import.
    pub skip_repeated_header: Option<bool>,
    /// Whether nested columns of files with typed columns become JSON text; otherwise they are refused.
    pub nested_json: bool,
    /// In which zone the times of 96 bits in Parquet files are; without it they are refused.
    pub int96: Option<Int96>,
    /// Whether the names of folders have columns: `day=2026-11-28`.
    pub hive: bool,
    /// The file to read from a zip archive with several.
    pub member: Option<String>,
    /// The maximum number of bad rows before the import fails.
    pub rejects_max: u64,
    /// Sessions that load at the same time; `None` for as many as help.
    pub sessions: Option<usize>,
    /// Target size of a chunk in bytes; `None` to choose by the size of the files.
    pub chunk_bytes: Option<usize>,
    /// Resume an import that was stopped.
    pub resume: bool,
    /// Discard what a stopped import left, and start again.
    pub restart: bool,
    /// What happens to a row whose key already exists.
    pub on_duplicate: OnDuplicate,
    /// The database of the work tables; `None` for the target's.
    pub work_database: Option<String>,
    /// When to build secondary indexes.
    pub indexes: Indexes,
    /// Whether to write the table's file instead of sending rows to the server.
    pub physical: Physical,
    /// Relax server-wide durability settings while loading.
    pub relax_durability: bool,
    /// Keep the import out of the binary log.
    pub no_binlog: bool,
    /// Check foreign keys once at the end instead of row by row.
    pub defer_checks: bool,
    /// Session time zone: the zone of TIMESTAMP values in the file.
    pub time_zone: Option<String>,
    /// Session sql_mode; strictness is always added to it.
    pub sql_mode: Option<String>,
    /// Whether columns may round, truncate and complete values silently, as the server does.
    pub round: bool,
}

impl Request {
    /// What was asked for that decides which row a record becomes: options, and their values in some form.
    pub(crate) fn meaning(&self) -> BTreeMap<String, String> {
        let hints = format!("{:?}", self.hints);
        let given = [
            ("--columns", self.columns.as_ref().map(|columns| format!("{columns:?}"))),
            ("--set", (!self.set.is_empty()).then(|| format!("{:?}", self.set))),
            ("--null", self.nulls.as_ref().map(|nulls| format!("{nulls:?}"))),
            ("--repeated-header", self.skip_repeated_header.map(|skip| skip.to_string())),
            ("--time-zone", self.time_zone.clone()),
            ("--sql-mode", self.sql_mode.clone()),
            ("--nested", self.nested_json.then(|| "json".to_owned())),
            ("--int96", self.int96.map(|zone| format!("{zone:?}"))),
            ("--hive", self.hive.then(|| "yes".to_owned())),
            ("--round", self.round.then(|| "yes".to_owned())),
            (
                "the options about the form of the files",
                (hints != format!("{:?}", Hints::default())).then_some(hints),
            ),
        ];
        given.into_iter().filter_map(|(option, value)| Some((option.to_owned(), value?))).collect()
    }
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
}

/// What may happen to existing rows of the table.
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

/// What happens to a row whose key already exists, in the table or earlier in the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDuplicate {
    /// It counts as a bad row.
    #[default]
    Error,
    /// It is left out, and counted.
    Ignore,
    /// It replaces every row that has one of its keys.
    Replace,
    /// Its values go into the existing row, which keeps its values in columns that the files lack.
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

/// When to build secondary indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexes {
    /// Whichever is faster.
    Auto,
    /// Before the rows are loaded.
    Before,
    /// After all rows are loaded.
    After,
}

/// Whether to write the table's file instead of sending rows to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Physical {
    /// Never.
    #[default]
    Never,
    /// Where the server, the table and the rows allow it.
    Auto,
    /// In any case: what does not allow it is an error.
    Only,
}
