//! What is read at once: a part of a large table, several partitions, or many small tables.

use server::Session;
use server::catalogue::Partition;

use crate::key_range::Range;
use crate::manifest::TableEntry;
use crate::plan::Cut;
use crate::{Error, Format, plan};

/// With at least this many small tables they share files; with fewer, a file for each is easier to find.
const SMALL_TABLES_MIN: usize = 200;
/// A table with at most this many bytes is small. An empty InnoDB table has 16 KiB.
const SMALL_BYTES: u64 = 128 << 10;
/// This many small tables share a file. When one of them is altered, or it is stopped, all are read
/// again.
const SMALL_TABLES_MAX: usize = 250;
/// The most bytes of names of partitions in one query. What a query costs the server grows with all
/// partitions of the table, whichever are read, so that few queries with many of them are best.
const NAMES_BYTES_MAX: usize = 256 << 10;

/// Groups of small tables that share a file, if the format allows that, and all other tables, in the given
/// order.
pub(crate) fn split(
    tables: &[TableEntry],
    order: Vec<usize>,
    format: Format,
) -> (Vec<Vec<usize>>, Vec<usize>) {
    let is_small = |at: &usize| {
        let table = &tables[*at].table;
        table.bytes <= SMALL_BYTES && table.partitions.is_empty() && table.is_transactional()
    };
    let (small, large): (Vec<usize>, Vec<usize>) = order.iter().partition(|at| is_small(at));
    // A file of Parquet is of one table.
    if small.len() < SMALL_TABLES_MIN || format == Format::Parquet {
        return (Vec::new(), order);
    }
    (small.chunks(SMALL_TABLES_MAX).map(<[usize]>::to_vec).collect(), large)
}

/// Takes the partitions of a chunk, none for the whole table, its range, and its estimated bytes.
pub(crate) type OnUnit<'a> = &'a mut dyn FnMut(Vec<String>, Option<Range>, u64) -> Result<(), Error>;

/// Cuts a table into chunks. The session must be in a transaction that has the [`plan::SET_SAVEPOINT`].
pub(crate) fn plan(
    entry: &TableEntry,
    session: &mut Session,
    chunk_bytes: &dyn Fn() -> u64,
    hand_on: OnUnit<'_>,
) -> Result<(), Error> {
    let table = &entry.table;
    if entry.moves_rows() {
        session.execute(plan::RELEASE_LOCKS)?;
        return hand_on(Vec::new(), None, table.bytes);
    }
    if table.versioned || table.partitions.is_empty() {
        let cut = Cut { table, partition: None, chunk_bytes };
        return cut.run(session, &mut |range, bytes| hand_on(Vec::new(), range, bytes));
    }
    let mut rest = table.partitions.as_slice();
    while let Some(count) = group(rest, chunk_bytes()) {
        let (some, after) = rest.split_at(count);
        let is_whole = some.len() == table.partitions.len();
        let names = || some.iter().filter(|_| !is_whole).map(|part| part.name.clone()).collect();
        match some {
            [one] => {
                let cut = Cut { table, partition: Some(one), chunk_bytes };
                cut.run(session, &mut |range, bytes| hand_on(names(), range, bytes))?;
            }
            _ => {
                session.execute(plan::RELEASE_LOCKS)?;
                hand_on(names(), None, some.iter().map(|part| part.bytes).sum())?;
            }
        }
        rest = after;
    }
    Ok(())
}

/// How many of the first partitions make a chunk of about that size; `None` when none are left.
fn group(partitions: &[Partition], chunk_bytes: u64) -> Option<usize> {
    let (mut bytes, mut names_bytes) = (0_u64, 0);
    let fits = |part: &&Partition| {
        bytes = bytes.saturating_add(part.bytes);
        // With the quotes and a comma.
        names_bytes += part.name.len() + 3;
        bytes <= chunk_bytes && names_bytes <= NAMES_BYTES_MAX
    };
    let count = partitions.iter().take_while(fits).count();
    (!partitions.is_empty()).then_some(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_partitions_are_read_together_and_large_ones_alone() {
        let parts = |sizes: &[u64]| -> Vec<Partition> {
            sizes.iter().map(|bytes| Partition { name: bytes.to_string(), rows: 1, bytes: *bytes }).collect()
        };
        assert_eq!(group(&parts(&[16, 16, 16, 80]), 100), Some(3));
        assert_eq!(group(&parts(&[500, 16]), 100), Some(1));
        assert_eq!(group(&parts(&[16, 500]), 100), Some(1));
        assert_eq!(group(&parts(&[0; 2000]), 100), Some(2000));
        let long = Partition { name: "p".repeat(61), rows: 1, bytes: 0 };
        assert_eq!(group(&vec![long; 8192], 100), Some(NAMES_BYTES_MAX / 64));
        assert_eq!(group(&[], 100), None);
    }
}
