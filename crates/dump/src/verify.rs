//! Reads rows back to compute their sums.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use server::{Session, TableName, Target, snapshot};

use crate::canonical::CanonicalLines;
use crate::hash::Sum;
use crate::manifest::{Chunk, TableEntry};
use crate::table_progress::TableProgress;
use crate::{Context, Error, parallel, select};
use progress::count;

/// A part of a table whose sum is wanted.
pub(crate) struct ChunkOf<'a> {
    pub(crate) entry: &'a TableEntry,
    pub(crate) chunk: &'a Chunk,
    pub(crate) condition: Option<&'a str>,
}

/// The sum of a part's rows. `read` is called with the number of rows, their estimated bytes, and their
/// actual bytes.
pub(crate) fn sum(
    context: &Context,
    session: &mut Session,
    part: &ChunkOf<'_>,
    read: &mut dyn FnMut(u64, u64, u64),
) -> Result<Sum, Error> {
    let estimate = part.chunk.text_bytes.checked_div(part.chunk.sum.rows).unwrap_or(1);
    let sql = select::stored(part.entry, part.chunk, part.condition);
    sum_of_query(context, session, (&part.entry.table.name, &sql), &mut |rows, bytes| {
        context.progress.read(rows * estimate);
        read(rows, rows * estimate, bytes);
    })
}

/// The sum of the rows that a query gives of a table. `read` is called with the number of rows, and their
/// bytes.
pub(crate) fn sum_of_query(
    context: &Context,
    session: &mut Session,
    (table, sql): (&TableName, &str),
    read: &mut dyn FnMut(u64, u64),
) -> Result<Sum, Error> {
    let mut to = |lines: &[u8], rows: u64| {
        if context.is_stopped() {
            return Err(io::Error::other("stopped"));
        }
        read(rows, lines.len() as u64);
        Ok(())
    };
    let mut lines = CanonicalLines::new(&mut to);
    let streamed = session.stream(sql, &mut lines);
    let stopped = |error: server::Error| match error {
        server::Error::Sink(_) => Error::Stopped("the comparison is incomplete"),
        source => Error::Object { object: format!("table {table}"), source: Box::new(source) },
    };
    streamed.map_err(stopped)?;
    let (sum, _) = lines.finish().map_err(|_| Error::Stopped("the comparison is incomplete"))?;
    Ok(sum)
}

/// The sums of many parts, from several sessions, in the order of the parts.
pub(crate) fn sums(
    context: &Context,
    target: &Target,
    parts: &[ChunkOf<'_>],
    sessions: usize,
) -> Result<Vec<Sum>, Error> {
    let found = Mutex::new(vec![Sum::default(); parts.len()]);
    let tables = tables(parts);
    parallel::each(parts, sessions, &|| Ok(snapshot::connect(target)?), &|session, at, part| {
        let (tally, left) = &tables[&part.entry.table.name];
        let sum = sum(context, session, part, &mut |rows, estimate, bytes| {
            context.progress.done(rows, bytes);
            tally.add(&*context.progress, rows, estimate, bytes);
        })?;
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            tally.end(&*context.progress);
        }
        found.lock().unwrap_or_else(PoisonError::into_inner)[at] = sum;
        Ok(())
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The progress of each table, and how many of its parts are left.
fn tables<'a>(parts: &[ChunkOf<'a>]) -> BTreeMap<&'a TableName, (TableProgress, AtomicUsize)> {
    let mut tables = BTreeMap::new();
    for part in parts {
        let name = &part.entry.table.name;
        let bytes = part.entry.text_bytes();
        let table =
            tables.entry(name).or_insert_with(|| (TableProgress::new(name, bytes), AtomicUsize::new(0)));
        *table.1.get_mut() += 1;
    }
    tables
}

/// Compares a table's sums with the expected ones and says what differs; `None` when nothing does. If a chunk
/// has only moved rows to its neighbour, because another collation may sort keys in another order, the table
/// is equal.
pub(crate) fn difference(entry: &TableEntry, found: &[(u32, Sum)]) -> Option<String> {
    let mut total = Sum::default();
    found.iter().for_each(|(_, sum)| total.add(*sum));
    if total == entry.sum {
        return None;
    }
    let wanted =
        |number: u32| entry.chunks.iter().find(|chunk| chunk.number == number).map(|chunk| chunk.sum);
    let bad: Vec<_> = found.iter().filter(|(number, sum)| wanted(*number) != Some(*sum)).collect();
    let mut text = format!("table {}", entry.table.name);
    if total.rows != entry.sum.rows {
        text.push_str(&format!(" has {} instead of {}", count(total.rows, "row"), entry.sum.rows));
    } else {
        text.push_str(" has other values");
    }
    for (number, sum) in bad.iter().take(5) {
        let rows = wanted(*number).map_or(0, |sum| sum.rows);
        let key = entry
            .chunks
            .iter()
            .find(|chunk| chunk.number == *number)
            .and_then(|chunk| chunk.range.as_ref()?.sql(&entry.table.key));
        let place = key.map(|key| format!(" ({key})")).unwrap_or_default();
        text.push_str(&format!(", chunk {number}{place}: {} of {}", sum.rows, count(rows, "row")));
    }
    Some(text)
}
