//! Cuts a table into chunks along its key.
//!
//! Whatever the estimates say, the chunks of a table are disjoint and complete: each begins after the key at
//! which the one before it ended, the first has no lower bound and the last has no upper bound.

use server::catalogue::{Column, Partition, Table};
use server::{Flavour, Session, quote_name};

use crate::key_range::{Range, is_literal};
use crate::{Error, select};

/// The most chunks of a table; beyond that, chunks get larger.
const CHUNKS_MAX: u64 = 50_000;

/// How the values of a key column are written as literals.
pub(crate) enum Literal {
    Number,
    Quoted,
    Bytes(String),
}

pub(crate) fn literal_of(column: &Column) -> Option<Literal> {
    match column.data_type.as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => Some(Literal::Number),
        "date" | "datetime" | "timestamp" | "time" | "uuid" | "inet6" | "inet4" => Some(Literal::Quoted),
        "char" | "varchar" => Some(Literal::Bytes(format!("_{} ", column.character_set.as_deref()?))),
        "binary" | "varbinary" => Some(Literal::Bytes(String::new())),
        _ => None,
    }
}

impl Literal {
    pub(crate) fn write(&self, value: &[u8]) -> Option<String> {
        let text = match self {
            Literal::Number => String::from_utf8(value.to_vec()).ok()?,
            Literal::Quoted => format!("'{}'", String::from_utf8(value.to_vec()).ok()?),
            Literal::Bytes(set) if value.is_empty() => format!("{set}''"),
            Literal::Bytes(set) => {
                let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{set}0x{digits}")
            }
        };
        is_literal(&text).then_some(text)
    }
}

/// Marks the beginning of the snapshot, for [`RELEASE_LOCKS`].
pub(crate) const SET_SAVEPOINT: &str = "SAVEPOINT remora";
/// Releases the metadata locks of all tables that were read since, and keeps the snapshot: nobody's DDL waits
/// for the end of the dump.
pub(crate) const RELEASE_LOCKS: &str = "ROLLBACK TO SAVEPOINT remora";

/// How to cut a table.
pub(crate) struct Cut<'a> {
    /// The table.
    pub(crate) table: &'a Table,
    /// The partition, if only one is cut.
    pub(crate) partition: Option<&'a Partition>,
    /// About how many bytes the next chunk should have; called before each.
    pub(crate) chunk_bytes: &'a dyn Fn() -> u64,
}

/// Takes chunks in the order of the key, each with its estimated bytes, or 0 if unknown.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Option<Range>, u64) -> Result<(), Error>;

impl Cut<'_> {
    /// Cuts the table. The session must be in a transaction that has the [`SET_SAVEPOINT`].
    pub(crate) fn run(&self, session: &mut Session, each: Each<'_>) -> Result<(), Error> {
        let table = self.table;
        let part = self.partition;
        let (rows, bytes) = part.map_or((table.rows, table.bytes), |part| (part.rows, part.bytes));
        let literals: Vec<Literal> = table
            .key
            .iter()
            .map_while(|name| literal_of(table.columns.iter().find(|column| column.name == *name)?))
            .collect();
        if literals.is_empty() || bytes < (self.chunk_bytes)().saturating_mul(3) / 2 || rows < 2 {
            return each(None, 0);
        }
        let names: Vec<String> = part.iter().map(|part| part.name.clone()).collect();
        let from = select::from(table, &names);
        let first_type = table.columns.iter().find(|column| Some(&column.name) == table.key.first());
        let integer = first_type.is_some_and(|column| column.data_type.ends_with("int"));
        let walk = Walk { cut: self, size: (rows, bytes), session, from, literals, after: None, each };
        if integer && table.key.len() == 1 { walk.stride() } else { walk.step() }
    }
}

struct Walk<'a> {
    cut: &'a Cut<'a>,
    /// Estimated rows and bytes of the table or partition.
    size: (u64, u64),
    session: &'a mut Session,
    from: String,
    literals: Vec<Literal>,
    after: Option<Vec<String>>,
    each: Each<'a>,
}

impl Walk<'_> {
    fn emit(&mut self, upto: Option<Vec<String>>, rows: u64) -> Result<(), Error> {
        // Releases the table, because it may take long until somebody takes the chunk.
        self.session.execute(RELEASE_LOCKS)?;
        let after = std::mem::replace(&mut self.after, upto.clone());
        let (all_rows, all_bytes) = self.size;
        (self.each)(Some(Range { after, upto }), rows.saturating_mul(all_bytes) / all_rows.max(1))
    }

    /// About how many rows the next chunk should have.
    fn chunk_rows(&self) -> u64 {
        let (rows, bytes) = self.size;
        let wanted = rows.saturating_mul((self.cut.chunk_bytes)()) / bytes.max(1);
        wanted.max(rows / CHUNKS_MAX).max(1)
    }

    /// For a key of one integer: uses ranges that the server estimates to contain the rows, so that neither
    /// gaps nor clusters matter.
    fn stride(mut self) -> Result<(), Error> {
        let key = quote_name(self.cut.table.key.first().map_or("", String::as_str));
        let rows = self.session.strings(&format!("SELECT MIN({key}), MAX({key}) FROM {}", self.from))?;
        let bound = |at: usize| {
            let cell = rows.first().and_then(|row| row.get(at)).cloned().flatten();
            cell.and_then(|text| text.parse::<i128>().ok())
        };
        let (Some(mut low), Some(high)) = (bound(0), bound(1)) else { return (self.each)(None, 0) };
        let share = (high - low) / i128::from(self.size.0.max(1));
        let mut width = share.saturating_mul(i128::from(self.chunk_rows())).max(1);
        loop {
            let wanted = self.chunk_rows();
            let (upto, rows) =
                reach((low, high), &mut width, wanted, &mut |low, upto| self.estimate(&key, low, upto))?;
            if upto >= high {
                return self.emit(None, rows);
            }
            self.emit(Some(vec![upto.to_string()]), rows)?;
            low = upto + 1;
        }
    }

    fn estimate(&mut self, key: &str, low: i128, high: i128) -> Result<u64, Error> {
        // MySQL 8 and later do not look into an index that they are forced to use.
        let (flavour, version) = (self.session.about.flavour, self.session.about.version);
        let hint = if flavour == Flavour::MySql && version.major >= 8 { "USE" } else { "FORCE" };
        let rows = self.session.strings(&format!(
            "EXPLAIN SELECT {key} FROM {} {hint} INDEX ({}) WHERE {key} BETWEEN {low} AND {high}",
            self.from,
            quote_name(&self.cut.table.key_name)
        ))?;
        // MySQL since 5.7 has two more columns.
        let row = rows.first().map(Vec::as_slice).unwrap_or_default();
        let at = if row.len() == 12 { 9 } else { 8 };
        Ok(row.get(at).cloned().flatten().and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// For any key: asks for the key that many rows ahead. For this the server only walks along the index.
    fn step(mut self) -> Result<(), Error> {
        let table = self.cut.table;
        let columns: Vec<_> =
            table.key.iter().take(self.literals.len()).map(|name| quote_name(name)).collect();
        let columns = columns.join(",");
        loop {
            let chunk_rows = self.chunk_rows();
            let range = Range { after: self.after.clone(), upto: None };
            let condition = range.sql(&table.key).map(|sql| format!(" WHERE {sql}")).unwrap_or_default();
            let rows = self.session.rows(&format!(
                "SELECT {columns} FROM {} FORCE INDEX ({}){condition} ORDER BY {columns} LIMIT {},1",
                self.from,
                quote_name(&table.key_name),
                chunk_rows - 1,
            ))?;
            let Some(row) = rows.into_iter().next() else { return self.emit(None, 0) };
            let cells = row.iter().zip(&self.literals);
            let bound: Option<Vec<String>> =
                cells.map(|(cell, literal)| literal.write(cell.as_deref()?)).collect();
            match bound {
                // A value has no literal, or the bound did not advance: the rest is one chunk.
                None => return self.emit(None, 0),
                Some(bound) if self.after.as_ref() == Some(&bound) => return self.emit(None, 0),
                Some(bound) => self.emit(Some(bound), chunk_rows)?,
            }
        }
    }
}

/// The last value of a chunk that begins at `low` and should have about `wanted` rows, and how many rows it
/// is estimated to have; half as many, or half as many more, are good enough. `width` is the number of values
/// in the last chunk's range, and is set to this one's.
fn reach(
    (low, high): (i128, i128),
    width: &mut i128,
    wanted: u64,
    estimate: &mut dyn FnMut(i128, i128) -> Result<u64, Error>,
) -> Result<(i128, u64), Error> {
    // Widths that had too few rows and too many rows.
    let (mut few, mut many) = (0, None);
    loop {
        let upto = low.saturating_add(*width - 1).min(high);
        let rows = estimate(low, upto)?;
        let is_narrow = rows < wanted.div_ceil(2) && upto < high;
        if rows > wanted.saturating_mul(3) / 2 {
            many = Some(*width);
        } else if is_narrow {
            few = *width;
        } else {
            return Ok((upto, rows));
        }
        let next = many.map_or_else(|| width.saturating_mul(2), |many| few + (many - few) / 2);
        // There is no width between the two: one value has all these rows by estimate, or a cluster follows a
        // gap.
        if many.is_some() && next == few {
            *width = few.max(1);
            let upto = low.saturating_add(*width - 1).min(high);
            return Ok((upto, estimate(low, upto)?));
        }
        *width = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chunks that keys are cut into: the number of keys in each, and the number of questions to the
    /// server.
    fn cut(keys: &[i128], wanted: u64) -> (Vec<u64>, usize) {
        let count =
            |low: i128, upto: i128| keys.iter().filter(|key| (low..=upto).contains(key)).count() as u64;
        let (mut low, high) = (keys[0], keys[keys.len() - 1]);
        let (mut width, mut asked, mut sizes) = (1, 0, Vec::new());
        loop {
            let mut estimate = |low, upto| {
                asked += 1;
                Ok(count(low, upto))
            };
            let (upto, rows) = reach((low, high), &mut width, wanted, &mut estimate).unwrap();
            assert_eq!(rows, count(low, upto));
            sizes.push(rows);
            if upto >= high {
                assert_eq!(sizes.iter().sum::<u64>(), keys.len() as u64);
                return (sizes, asked);
            }
            low = upto + 1;
        }
    }

    #[test]
    fn integers_are_cut_evenly_whatever_the_gaps() {
        let dense: Vec<i128> = (0..10_000).collect();
        let sparse: Vec<i128> = (0..10_000).map(|at| at * 1_000_000_007 - (1 << 62)).collect();
        let clusters: Vec<i128> = (0..10).flat_map(|at| (0..1000).map(move |key| (at << 59) + key)).collect();
        for keys in [&dense, &sparse, &clusters] {
            let (sizes, asked) = cut(keys, 100);
            assert!(sizes.iter().all(|size| *size <= 150), "{sizes:?}");
            assert!(sizes.len() <= 220 && asked < 20 * sizes.len(), "{} {asked}", sizes.len());
        }
        let (sizes, asked) = cut(&dense, 100);
        assert!(sizes.iter().rev().skip(1).all(|size| *size >= 50) && asked <= sizes.len() + 10, "{sizes:?}");
        // The extreme keys.
        assert_eq!(cut(&[i128::from(i64::MIN), 0, i128::from(u64::MAX)], 1).0, [1, 1, 1]);
        assert_eq!(cut(&[7], 100), (vec![1], 1));
    }
}
