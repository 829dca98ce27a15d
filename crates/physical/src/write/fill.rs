//! From rows to the file.

use std::path::Path;
use std::sync::atomic::Ordering;

use disk::{Disk, Tree, Volume};
use innodb::page::{PAGE_BYTES, Page};
use innodb::prove::{self, Claim};
use innodb::table::{RowFormat, Table, Type};
use innodb::write::{Leaves, Plan, Record, Row, Shape, Writer, Written};

use super::twin::Twin;
use super::{Request, Rows};
use crate::error::io;
use crate::sort::Sorter;
use crate::{Error, File};

/// How many leaves wait for numbers, and how many pages are written at once.
const RUN_PAGES: usize = 64;
/// Rows between two checks whether the run must stop.
const STOP_ROWS: u64 = 4096;

/// What was written.
pub(super) struct Filled {
    pub(super) rows: u64,
    pub(super) written: Written,
}

/// Buffers the pages of a file: consecutive pages are written at once.
struct Pages<'a> {
    path: &'a Path,
    volume: Box<dyn Volume>,
    first: u32,
    bytes: Vec<u8>,
}

impl Pages<'_> {
    fn put(&mut self, number: u32, page: &Page) -> Result<(), Error> {
        let waiting = self.bytes.len() / PAGE_BYTES;
        if waiting == RUN_PAGES || u64::from(number) != u64::from(self.first) + waiting as u64 {
            self.flush()?;
            self.first = number;
        }
        self.bytes.extend_from_slice(page);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let at = u64::from(self.first) * PAGE_BYTES as u64;
        self.volume.write_at(at, &self.bytes).map_err(io(self.path))?;
        self.bytes.clear();
        Ok(())
    }

    fn finish(mut self, pages: u32) -> Result<(), Error> {
        self.flush()?;
        let len = u64::from(pages) * PAGE_BYTES as u64;
        self.volume.set_len(len).and_then(|()| self.volume.sync()).map_err(io(self.path))
    }
}

/// Turns rows into pages.
struct Filler<'a> {
    request: &'a Request<'a>,
    shapes: &'a [Shape],
    writer: Writer,
    pages: Pages<'a>,
    leaves: Leaves<'a>,
    /// The entries of the other indexes.
    entries: Vec<Sorter>,
    record: Record,
    rows: u64,
}

impl Filler<'_> {
    /// Takes the next row in order.
    fn take(&mut self, row: &Row) -> Result<(), Error> {
        self.rows += 1;
        self.leaves.push(row, self.rows)?;
        if self.leaves.ready() >= RUN_PAGES {
            self.writer.join(0, self.leaves.take(), &mut |number, page| self.pages.put(number, page))?;
        }
        for (shape, entries) in self.shapes.iter().skip(1).zip(&mut self.entries) {
            shape.record(row, self.rows, &mut self.record)?;
            let Record { key, unique, bytes, origin, .. } = &self.record;
            entries.push(key, |out| {
                out.extend_from_slice(&(*unique as u64).to_le_bytes());
                out.extend_from_slice(&(*origin as u64).to_le_bytes());
                out.extend_from_slice(bytes);
            })?;
        }
        if self.rows.is_multiple_of(STOP_ROWS) {
            stop(self.request)?;
            self.request.progress.done(STOP_ROWS, 0);
        }
        Ok(())
    }

    fn finish(mut self, plan: &Plan, last: u64) -> Result<Filled, Error> {
        let pages = &mut self.pages;
        let mut put = |number: u32, page: &Page| pages.put(number, page);
        self.writer.join(0, self.leaves.finish(), &mut put)?;
        for (at, entries) in self.entries.into_iter().enumerate().map(|(at, entries)| (at + 1, entries)) {
            let (Some(shape), Some(root)) = (self.shapes.get(at), plan.roots.get(at)) else { continue };
            let mut leaves = Leaves::new(shape, root.index_id);
            let mut sorted = entries.finish()?;
            while let Some((key, entry)) = sorted.next()? {
                let (Some(unique), Some(origin), Some(bytes)) =
                    (word(entry, 0), word(entry, 8), entry.get(16..))
                else {
                    continue;
                };
                self.record.key.clear();
                self.record.key.extend_from_slice(key);
                self.record.bytes.clear();
                self.record.bytes.extend_from_slice(bytes);
                (self.record.unique, self.record.origin) = (unique, origin);
                leaves.push_record(&self.record)?;
                if leaves.ready() >= RUN_PAGES {
                    self.writer.join(at, leaves.take(), &mut put)?;
                    stop(self.request)?;
                }
            }
            self.writer.join(at, leaves.finish(), &mut put)?;
        }
        let written = self.writer.finish(last, &mut put)?;
        self.pages.finish(written.pages)?;
        Ok(Filled { rows: self.rows, written })
    }
}

fn stop(request: &Request<'_>) -> Result<(), Error> {
    if request.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u64::from_le_bytes(*bytes)).ok()
}

/// Writes the file of a twin, whose counter was at `next`, and proves it.
pub(super) fn fill<D: Disk + Tree>(
    disk: &D,
    twin: &Twin,
    (format, next): (RowFormat, u64),
    request: &Request<'_>,
    rows: &mut Rows<'_>,
) -> Result<Filled, Error> {
    let table = &twin.table;
    let mut shapes = Vec::new();
    for name in &twin.names {
        let index = table.indexes().iter().find(|index| index.name == *name);
        let index =
            index.ok_or_else(|| Error::Rejected(format!("the server has another index, `{name}`")))?;
        shapes.push(Shape::new(table, index, format)?);
    }
    let writer = Writer::new(twin.plan.clone(), &shapes)?;
    let (Some(shape), Some(root)) = (shapes.first(), twin.plan.roots.first()) else {
        return Err(Error::Rejected("a table without an index".to_owned()));
    };
    let (path, sink) = twin.create(disk, "ibd")?;
    drop(sink);
    let volume = disk.volume(&path).map_err(io(&path))?;
    let is_sorted = request.sorted || shape.order().is_none() || table.clustered().fields[0].column.is_none();
    let share = request.memory / (shapes.len() - 1 + usize::from(!is_sorted)).max(1);
    let mut filler = Filler {
        request,
        shapes: &shapes,
        writer,
        pages: Pages { path: &path, volume, first: 0, bytes: Vec::new() },
        leaves: Leaves::new(shape, root.index_id),
        entries: shapes.iter().skip(1).map(|_| Sorter::new(share, request.folder)).collect(),
        record: Record::default(),
        rows: 0,
    };
    let counter = table.columns().iter().position(|column| column.auto_increment);
    let mut last = next.saturating_sub(1);
    let mut sorter = Sorter::new(share, request.folder);
    let (mut row, mut key, mut seen) = (Row::default(), Vec::new(), 0_u64);
    request.progress.phase("rows to pages", None);
    while rows(table, &mut row)? {
        if row.len() != table.columns().len() {
            return Err(Error::Rejected(format!(
                "a row of {} values, of {}",
                row.len(),
                table.columns().len()
            )));
        }
        if let Some(at) = counter {
            last = last.max(counted(table, at, &row));
        }
        seen += 1;
        if is_sorted {
            filler.take(&row)?;
        } else {
            shape.key_of(&row, &mut key);
            sorter.push(&key, |out| row.pack(out))?;
            if seen.is_multiple_of(STOP_ROWS) {
                stop(request)?;
            }
        }
        row.clear();
    }
    let mut sorted = sorter.finish()?;
    while let Some((_, packed)) = sorted.next()? {
        if !row.unpack(packed) {
            return Err(Error::Rejected("a row is not what it was before it was sorted".to_owned()));
        }
        filler.take(&row)?;
    }
    let filled = filler.finish(&twin.plan, last)?;
    request.progress.phase("proof of the file", None);
    let mut file = File::open(disk, &path)?;
    let claim = Claim { table, shapes: &shapes, plan: &twin.plan, written: &filled.written };
    prove::file(claim, &mut file).map_err(|error| error.of(&path))?;
    Ok(filled)
}

/// The value of the AUTO_INCREMENT column; 0 for a negative one.
fn counted(table: &Table, at: usize, row: &Row) -> u64 {
    let unsigned =
        matches!(table.columns().get(at).map(|column| &column.kind), Some(Type::Int { unsigned: true, .. }));
    let Some((first, rest)) = row.get(at).and_then(|value| value.split_first()) else { return 0 };
    let first = match (unsigned, first & 0x80) {
        (true, _) => *first,
        (false, 0) => return 0,
        (false, _) => first & 0x7F,
    };
    rest.iter().fold(u64::from(first), |number, byte| number << 8 | u64::from(*byte))
}
