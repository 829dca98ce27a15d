//! The decisions of an import. They are stored in the ledger, so that a stopped import is resumed with the
//! same ones.

use std::collections::BTreeMap;

use rows::{Dialect, DialectCheck, Encoding, Exact, FieldRule, Format, GuessedOptions, Nulls};
use serde::{Deserialize, Serialize};
use server::TableName;

use crate::chunk::Cut;
use crate::request::{FieldTarget, OnDuplicate};

/// How rows are loaded so that no partial import becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LoadStrategy {
    /// Into a staging table that gets the target's name at the end; several sessions, a commit for each
    /// chunk.
    Shadow,
    /// The same with an engine that can't roll back: the loaded rows are useless after a failure.
    ShadowUnsafe,
    /// Directly into the table, in one transaction of one session.
    OneTransaction,
    /// Directly into the table, with a commit for each chunk.
    ByChunk,
}

/// How far the import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// Rows are being loaded.
    Loading,
    /// All rows are in the staging table, which is about to get the target's name.
    Swapping,
    /// All rows are in the table.
    Done,
}

/// The decisions of one import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Version of this record.
    pub version: u32,
    /// How far the import is.
    pub state: State,
    /// How rows get into the table.
    pub strategy: LoadStrategy,
    /// Whether existing rows of the table are replaced.
    pub replace: bool,
    /// Whether the table already exists.
    pub exists: bool,
    /// Names of the files, for messages only: files are recognised by their content.
    pub files: Vec<String>,
    /// Encoding of the files.
    pub encoding: Encoding,
    /// How to convert their text before it is in the dialect.
    #[serde(default)]
    pub format: Format,
    /// Dialect of the files.
    pub dialect: Dialect,
    /// The texts that mean NULL.
    pub nulls: Nulls,
    /// Whether the first record of each file is a header.
    pub header: bool,
    /// The header as it is in the first file, for the rejects file.
    pub heading: Vec<u8>,
    /// Whether lines that repeat the header are left out.
    #[serde(default)]
    pub skip_repeated_header: bool,
    /// Which properties of the form are guesses that loading must confirm.
    #[serde(default)]
    pub guessed: GuessedOptions,
    /// Fields that go into text columns, where a word for NULL may be a value.
    #[serde(default)]
    pub texts: Vec<usize>,
    /// Lines before the header.
    pub skip_lines: u64,
    /// Target size of a chunk.
    pub chunk_bytes: usize,
    /// For each field of a record, where it goes and how it is converted.
    pub fields: Vec<Field>,
    /// Computed columns.
    pub set: Vec<(String, String)>,
    /// Clauses of the indexes to build at the end.
    pub deferred: Vec<String>,
    /// `SHOW CREATE TABLE` of the staging table with all its indexes, to compare with at the end.
    pub definition: String,
    /// The target's definition when the import began, to notice a change before the swap. Empty if unknown.
    #[serde(default)]
    pub before: String,
    /// Whether the import stays out of the binary log.
    #[serde(default)]
    pub no_binlog: bool,
    /// The number of rows, if the staging table was filled by writing its file.
    #[serde(default)]
    pub filled: Option<u64>,
    /// What happens to a row whose key already exists.
    #[serde(default)]
    pub on_duplicate: OnDuplicate,
    /// Session time zone for loading, if the files or the user say which zone their times are in.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Session sql_mode, if the user gave one.
    #[serde(default)]
    pub sql_mode: Option<String>,
    /// [`Request::meaning`](crate::Request) of the run that began it; none if an earlier version did.
    #[serde(default)]
    pub meaning: Option<BTreeMap<String, String>>,
    /// Files whose header has the names of the first file's header in another order.
    #[serde(default)]
    pub orders: BTreeMap<usize, Order>,
}

/// The columns of a file whose header has another order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// For each field of this file, the index of the same field in the first file.
    pub fields: Vec<usize>,
    /// The header as it is in this file.
    pub heading: Vec<u8>,
}

/// A field of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Field {
    /// Where it goes.
    pub target: FieldTarget,
    /// How it is converted.
    pub rule: FieldRule,
    /// What the column would change of a value, which is a bad row then.
    #[serde(default)]
    pub exact: Exact,
}

impl Field {
    /// A field whose values the server judges.
    pub(crate) fn new(target: FieldTarget, rule: FieldRule) -> Field {
        Field { target, rule, exact: Exact::Server }
    }
}

impl Job {
    /// The version that this program writes.
    pub(crate) const VERSION: u32 = 2;
    /// The oldest version that this program reads.
    pub(crate) const OLDEST: u32 = 1;

    /// The fields of a file's records, in its own order.
    pub(crate) fn fields_in(&self, file: usize) -> Vec<Field> {
        match self.orders.get(&file) {
            None => self.fields.clone(),
            Some(order) => order.fields.iter().filter_map(|at| self.fields.get(*at).cloned()).collect(),
        }
    }

    /// The header of a file, as it is in that file.
    pub(crate) fn heading_in(&self, file: usize) -> &[u8] {
        self.orders.get(&file).map_or(&self.heading, |order| &order.heading)
    }

    /// How its files are cut into chunks.
    pub(crate) fn cut(&self, record_bytes_max: usize) -> Cut {
        Cut {
            format: self.format.clone(),
            dialect: self.dialect,
            encoding: self.encoding,
            chunk_bytes: self.chunk_bytes,
            record_bytes_max,
            skip_lines: self.skip_lines,
            header: self.header,
        }
    }

    /// The header, if repetitions of it are left out.
    pub(crate) fn skipped(&self) -> Option<&[u8]> {
        (self.header && self.skip_repeated_header && !self.heading.is_empty()).then_some(&self.heading)
    }

    /// Checks the entire files against the guesses from their beginning.
    pub(crate) fn dialect_check(&self) -> DialectCheck {
        let heading = self.header.then_some(self.heading.as_slice());
        DialectCheck::new(self.dialect, self.nulls.clone(), self.guessed, heading)
            .with_texts(self.texts.clone())
    }

    /// The field of a file that goes into a column or into the variable of that name.
    pub(crate) fn field_of(&self, file: usize, column: &str) -> Option<usize> {
        self.fields_in(file).iter().position(|field| match &field.target {
            FieldTarget::Column(name) | FieldTarget::Variable(name) => name.eq_ignore_ascii_case(column),
            FieldTarget::Skip => false,
        })
    }

    /// The column or variable that a field of a file goes into.
    pub(crate) fn column_of(&self, file: usize, field: usize) -> Option<String> {
        match &self.fields_in(file).get(field)?.target {
            FieldTarget::Column(name) | FieldTarget::Variable(name) => Some(name.clone()),
            FieldTarget::Skip => None,
        }
    }
}

/// The work tables of an import. Their names are derived from the target's, so that a table has at most one
/// import, and the next run finds what is left.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The target.
    pub table: TableName,
    /// The table in which rows wait.
    pub shadow: TableName,
    /// The replaced table, until it is dropped.
    pub old: TableName,
    /// The staging table, if somebody wrote to it in the short time in which it had the target's name.
    pub kept: TableName,
    /// The ledger.
    pub ledger: TableName,
}

impl Names {
    /// The names for a target, in its own database or in another one.
    pub(crate) fn of(table: &TableName, work: Option<&str>) -> Names {
        let apart = work.filter(|work| *work != table.schema);
        let schema = apart.unwrap_or(&table.schema);
        let sum = match apart {
            None => sum(&table.table),
            // In that database tables of one name from several databases may meet.
            Some(_) => sum(&table.to_string()),
        };
        let beside =
            |what: &str| TableName { schema: schema.to_owned(), table: format!("_remora_{what}_{sum:016x}") };
        Names {
            table: table.clone(),
            shadow: beside("load"),
            old: beside("old"),
            kept: beside("kept"),
            ledger: beside("ledger"),
        }
    }

    /// The lock that an import into the target holds, in whatever database its other tables are.
    pub(crate) fn lock(&self) -> String {
        format!("remora._remora_ledger_{:016x}.{}", sum(&self.table.table), self.table.schema)
    }

    /// The names that a ledger for this target can have: in the target's database, and in any other.
    pub(crate) fn ledgers(&self) -> [String; 2] {
        [sum(&self.table.table), sum(&self.table.to_string())].map(|sum| format!("_remora_ledger_{sum:016x}"))
    }
}

fn sum(name: &str) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, name.as_bytes())
}
