//! What an import has decided to do. It is kept in the ledger, so that a stopped import goes on exactly
//! as it began.

use std::collections::BTreeMap;

use rows::{Dialect, Encoding, FieldRule, Format, Guessed, Nulls, Watch};
use serde::{Deserialize, Serialize};
use server::TableName;

use crate::chunk::Cut;
use crate::request::{FieldTarget, OnDuplicate};

/// How rows get into the table without being seen half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// Into a shadow table that takes the name at the end; several sessions, a commit for each chunk.
    Shadow,
    /// The same with an engine that can't roll back: what is in is of no use after a failure.
    ShadowUnsafe,
    /// Straight into the table, in one transaction of one session.
    OneTransaction,
    /// Straight into the table, a commit for each chunk.
    ByChunk,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// Rows are going in.
    Loading,
    /// All rows are in the shadow table, which is about to take the name.
    Swapping,
    /// All rows are in the table.
    Done,
}

/// The decisions of one import.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Version of this record.
    pub version: u32,
    /// How far it is.
    pub state: State,
    /// How rows get in.
    pub way: Way,
    /// Rows that are in the table are replaced.
    pub replace: bool,
    /// The table exists already.
    pub exists: bool,
    /// Names of the files, for messages only: they are known again by their content.
    pub files: Vec<String>,
    /// Encoding of the files.
    pub encoding: Encoding,
    /// What has to be done with their text before it is in the dialect.
    #[serde(default)]
    pub format: Format,
    /// Dialect of the files.
    pub dialect: Dialect,
    /// What stands for NULL.
    pub nulls: Nulls,
    /// The first record of each file is a header.
    pub header: bool,
    /// The header as it stands in the first file, for the rejects file.
    pub heading: Vec<u8>,
    /// Lines that repeat the header are left out.
    #[serde(default)]
    pub skip_repeated_header: bool,
    /// What of the form is a guess that loading has to confirm.
    #[serde(default)]
    pub guessed: Guessed,
    /// Fields that go into columns of text, where a word for NULL may be a value.
    #[serde(default)]
    pub texts: Vec<usize>,
    /// Lines before the header.
    pub skip_lines: u64,
    /// Target size of a chunk.
    pub chunk_bytes: usize,
    /// Each field of a record: where it goes and how it is written.
    pub fields: Vec<Field>,
    /// Computed columns.
    pub set: Vec<(String, String)>,
    /// Clauses of the indexes to build at the end.
    pub deferred: Vec<String>,
    /// `SHOW CREATE TABLE` of the shadow with all its indexes, to prove them equal at the end.
    pub definition: String,
    /// The target's definition when the import began, to see that nobody changed it until the swap. Empty:
    /// not known.
    #[serde(default)]
    pub before: String,
    /// Nothing of the import goes into the binary log.
    #[serde(default)]
    pub no_binlog: bool,
    /// What becomes of a row whose key is there already.
    #[serde(default)]
    pub on_duplicate: OnDuplicate,
    /// Session time zone to load with, where the files say what their times are in.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Files whose header has the same names in another order than the first file's.
    #[serde(default)]
    pub orders: BTreeMap<usize, Order>,
}

/// The columns of a file whose header is in an order of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// For each field of this file, which field of the first file it is.
    pub fields: Vec<usize>,
    /// The header as it stands in this file.
    pub heading: Vec<u8>,
}

/// A field of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Field {
    /// Where it goes.
    pub target: FieldTarget,
    /// How it is written.
    pub rule: FieldRule,
}

impl Job {
    /// The version this program writes.
    pub(crate) const VERSION: u32 = 2;
    /// The oldest version this program reads.
    pub(crate) const OLDEST: u32 = 1;

    /// The fields of a file's records, in its own order.
    pub(crate) fn fields_in(&self, file: usize) -> Vec<Field> {
        match self.orders.get(&file) {
            None => self.fields.clone(),
            Some(order) => order.fields.iter().filter_map(|at| self.fields.get(*at).cloned()).collect(),
        }
    }

    /// The header of a file, as it stands there.
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

    /// The header, if lines that repeat it are left out.
    pub(crate) fn skipped(&self) -> Option<&[u8]> {
        (self.header && self.skip_repeated_header && !self.heading.is_empty()).then_some(&self.heading)
    }

    /// What compares the whole of the files with what their beginning was taken for.
    pub(crate) fn watch(&self) -> Watch {
        let heading = self.header.then_some(self.heading.as_slice());
        Watch::new(self.dialect, self.nulls.clone(), self.guessed, heading).with_texts(self.texts.clone())
    }

    /// The field of a file that goes into a column, or into the variable of that name.
    pub(crate) fn field_of(&self, file: usize, column: &str) -> Option<usize> {
        self.fields_in(file).iter().position(|field| match &field.target {
            FieldTarget::Column(name) | FieldTarget::Variable(name) => name.eq_ignore_ascii_case(column),
            FieldTarget::Skip => false,
        })
    }
}

/// The tables that stand beside the target while an import goes on. Their names are made from the
/// target's, so that one import can be under way for each table and the next run finds what is left.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The target.
    pub table: TableName,
    /// Rows wait here.
    pub shadow: TableName,
    /// The replaced table on its way out.
    pub old: TableName,
    /// The shadow, when somebody wrote to it while it had the target's name for a moment.
    pub kept: TableName,
    /// What is in.
    pub ledger: TableName,
}

impl Names {
    /// The names that go with a target, when they stand in its own database or in another one.
    pub(crate) fn of(table: &TableName, work: Option<&str>) -> Names {
        let apart = work.filter(|work| *work != table.schema);
        let schema = apart.unwrap_or(&table.schema);
        let sum = match apart {
            None => sum(&table.table),
            // There, tables of one name from several databases may meet.
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

    /// The lock that an import into the target holds, wherever its other tables are.
    pub(crate) fn lock(&self) -> String {
        format!("remora._remora_ledger_{:016x}.{}", sum(&self.table.table), self.table.schema)
    }

    /// The names that a ledger of this target can have: in its own database, and in any other.
    pub(crate) fn ledgers(&self) -> [String; 2] {
        [sum(&self.table.table), sum(&self.table.to_string())].map(|sum| format!("_remora_ledger_{sum:016x}"))
    }
}

fn sum(name: &str) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, name.as_bytes())
}
