//! Sends a sample of the rows to the server, to compare its values with those in the tablespace file.
//!
//! The file is also read back completely, but by the code that wrote it. Only the server can confirm that a
//! text means a value.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use innodb::table::{Generated, Table, Type};
use server::{Session, TableName, quote_name};

use crate::chunk::Chunk;
use crate::sender::ChunkSender;
use crate::{Error, connect};

use super::TablespaceFill;

/// How many records of the first chunk are taken.
const FIRST: u64 = 1000;
/// How many records of each further chunk are taken.
const FURTHER: u64 = 8;
/// The most bytes of records that are taken.
const BYTES_MAX: usize = 16 << 20;

/// How rows of the table are found again.
enum RowLookup {
    /// By these columns, which differ in any two rows.
    Key(Vec<String>),
    /// Only by their place: the first row of the first chunk is the first one of the table. With the indexes
    /// that have another order.
    Place(Vec<String>),
}

/// Which records are taken, and those that have been taken.
pub(super) struct Sample {
    found: RowLookup,
    /// Whether the rows are those from the first one on, without gaps.
    first_only: bool,
    /// The columns to compare.
    columns: Vec<String>,
    /// Which of them are FLOAT or DOUBLE.
    reals: Vec<bool>,
    /// The number that the server gives to the first row.
    counter: Option<u64>,
    taken: Mutex<SampledRecords>,
}

/// Records by file, with their line ends, and how many bytes they have.
#[derive(Default)]
struct SampledRecords {
    files: BTreeMap<usize, (Arc<str>, u64, Vec<u8>)>,
    bytes: usize,
}

impl Sample {
    /// For a table whose rows are numbered from `counter` on, if it numbers them.
    pub(super) fn new(table: &Table, counter: Option<u64>) -> Sample {
        let clustered = table.clustered();
        let key = clustered.fields.iter().take(clustered.unique_fields).map(|field| field.column);
        let key: Option<Vec<String>> = key
            .map(|at| table.columns().get(at?).filter(|column| !column.hidden))
            .map(|column| column.map(|column| column.name.clone()))
            .collect();
        let others = || table.indexes().iter().skip(1).map(|index| index.name.clone()).collect();
        let found = key.map_or_else(|| RowLookup::Place(others()), RowLookup::Key);
        let is_stored = |column: &&innodb::table::Column| {
            !column.hidden && matches!(column.generated, Generated::No | Generated::Stored)
        };
        let columns = || table.columns().iter().filter(is_stored);
        Sample {
            first_only: counter.is_some() || matches!(found, RowLookup::Place(_)),
            found,
            columns: columns().map(|column| column.name.clone()).collect(),
            reals: columns().map(|column| matches!(column.kind, Type::Float(_) | Type::Double(_))).collect(),
            counter,
            taken: Mutex::default(),
        }
    }

    /// Forgets what was taken, because all rows are read again.
    pub(super) fn clear(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = SampledRecords::default();
    }

    /// Which records of a chunk are taken, by their numbers from 0 on.
    pub(super) fn wanted(&self, chunk: &Chunk) -> impl Iterator<Item = u64> + use<> {
        let is_first = chunk.number == 1;
        let (step, end) = match (self.first_only, is_first) {
            (true, true) => (1, FIRST),
            (true, false) => (1, 0),
            (false, _) => (chunk.records.div_ceil(if is_first { FIRST } else { FURTHER }), u64::MAX),
        };
        std::iter::successors(Some(0_u64), move |at| at.checked_add(step.max(1)))
            .take_while(move |at| *at < end)
    }

    /// Takes records of a chunk.
    pub(super) fn take(&self, chunk: &Chunk, records: &[Range<usize>], line_end: &[u8]) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records.iter().filter_map(|range| chunk.bytes().get(range.clone())) {
            if taken.bytes.saturating_add(record.len()) > BYTES_MAX {
                return;
            }
            taken.bytes += record.len();
            let (_, count, text) =
                taken.files.entry(chunk.file).or_insert_with(|| (Arc::clone(&chunk.name), 0, Vec::new()));
            *count += 1;
            text.extend_from_slice(record);
            text.extend_from_slice(line_end);
        }
    }

    /// Lets the server read the records as in any other import, and compares what it makes of them with the
    /// rows of the table. Returns what differs.
    pub(super) fn compare(
        &self,
        fill: &TablespaceFill<'_>,
        table: &TableName,
    ) -> Result<Option<String>, Error> {
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        let mut session = connect::for_rows(fill.request, fill.context, fill.job)?;
        // Nobody else sees it, and nothing of it is left if we are killed.
        let own = TableName { schema: table.schema.clone(), table: "_remora_sample".to_owned() };
        session.execute(&format!("CREATE TEMPORARY TABLE {own} LIKE {table}"))?;
        if let Some(counter) = self.counter {
            session.execute("SET SESSION auto_increment_increment = 1, auto_increment_offset = 1")?;
            session.execute(&format!("ALTER TABLE {own} AUTO_INCREMENT = {counter}"))?;
        }
        let stop = Arc::clone(&fill.context.stop);
        let wire = Arc::new(ChunkSender::new(fill.job.clone(), &own, &session.about, stop));
        let mut sent = 0;
        for (file, (name, records, text)) in taken.files {
            let chunk = Arc::new(Chunk::of(file, name, records, &text));
            let outcome = wire.send(&mut session, &chunk, None, wire.first_method())?;
            if outcome.clean != Some(records) {
                let why = outcome.first_warning().unwrap_or_else(|| "not all rows were taken".to_owned());
                return Ok(Some(format!("the server rejects values that are in the file: {why}")));
            }
            sent += records;
        }
        let (there, counts) = match &self.found {
            RowLookup::Key(key) => {
                let row =
                    session.strings(&self.question(key, &own, table))?.into_iter().next().unwrap_or_default();
                let mut counts =
                    row.into_iter().map(|count| count.and_then(|count| count.parse::<u64>().ok()));
                (counts.next().flatten().unwrap_or_default(), counts.collect())
            }
            RowLookup::Place(others) => self.by_place(&mut session, others, &own, table)?,
        };
        if there != sent {
            return Ok(Some(format!("the server finds only {there} of {sent} sampled rows")));
        }
        let differs = |(name, count): (&String, Option<u64>)| {
            count.filter(|count| *count > 0).map(|count| format!("{} in {count}", quote_name(name)))
        };
        let differing: Vec<String> = self.columns.iter().zip(counts).filter_map(differs).collect();
        Ok((!differing.is_empty()).then(|| {
            let columns = differing.join(", ");
            format!("in {sent} sampled rows the server reads values other than those in the file: {columns}")
        }))
    }

    /// Compares the first rows of both tables; returns how many there are, and for each column in how many
    /// the value differs. The rows are compared here: the server reads a table without a key in the order of
    /// its storage, but with whatever it adds to them (ROW_NUMBER() OVER ()) it may sort them otherwise.
    fn by_place(
        &self,
        session: &mut Session,
        others: &[String],
        own: &TableName,
        table: &TableName,
    ) -> Result<(u64, Vec<Option<u64>>), Error> {
        // The text of a FLOAT is rounded, that of a DOUBLE is not.
        let value = |(name, real): (&String, &bool)| match real {
            true => format!("{} + 0e0", quote_name(name)),
            false => format!("CAST({} AS BINARY)", quote_name(name)),
        };
        let values: Vec<String> = self.columns.iter().zip(&self.reals).map(value).collect();
        let others: Vec<String> = others.iter().map(|name| quote_name(name)).collect();
        // The server takes no empty list.
        let hint = match others.as_slice() {
            [] => String::new(),
            others => format!(" IGNORE INDEX ({})", others.join(", ")),
        };
        let mut rows = |table: &TableName| {
            session.rows(&format!("SELECT {} FROM {table}{hint} LIMIT {FIRST}", values.join(", ")))
        };
        let (own, their) = (rows(own)?, rows(table)?);
        let pairs = || own.iter().zip(&their);
        let differing =
            |at: usize| pairs().filter(|(own, their)| own.get(at) != their.get(at)).count() as u64;
        Ok((pairs().count() as u64, (0..values.len()).map(|at| Some(differing(at))).collect()))
    }

    /// Asks how many rows of the sample are in the table, and for each column in how many the value differs.
    fn question(&self, key: &[String], own: &TableName, table: &TableName) -> String {
        let differs = |name: &String| {
            let name = quote_name(name);
            // As bytes too: letters that a collation takes for the same are not. Not only as bytes: the text
            // of a FLOAT is rounded.
            format!(
                ", SUM(NOT (own.{name} <=> their.{name} AND \
                 CAST(own.{name} AS BINARY) <=> CAST(their.{name} AS BINARY)))"
            )
        };
        let sums: String = self.columns.iter().map(differs).collect();
        let equal: Vec<String> = key
            .iter()
            .map(|name| quote_name(name))
            .map(|name| format!("own.{name} = their.{name}"))
            .collect();
        format!("SELECT COUNT(*){sums} FROM {own} own JOIN {table} their ON {}", equal.join(" AND "))
    }
}
