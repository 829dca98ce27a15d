//! From rows to the file, on several threads.

use std::path::Path;
use std::sync::atomic::Ordering;

use disk::{RealDisk, Tree as _};
use innodb::page::Page;
use innodb::table::{RowFormat, Table, Type};
use innodb::verify::Expected;
use innodb::write::{
    LeafBuilder, LeafRun, Record, RecordBuilder, Row, Writer, Written, append_number, take_number,
};

use super::collation_weights::{PendingRows, Weigher};
use super::page_writer::PageWriter;
use super::space_requirements::{InputSize, SpaceEstimator};
use super::template_table::TemplateTable;
use super::workspace::Workspace;
use super::{Input, Piece, ReadPiece, Request, RowSink, verify};
use crate::error::io;
use crate::pipeline::{self, Next, joined};
use crate::sort::{Sorted, Sorter};
use crate::{Error, File};

/// Bytes of sorted records that a thread gets at once.
const RANGE_BYTES: usize = 4 << 20;

/// What was written.
pub(super) struct Filled {
    pub(super) rows: u64,
    pub(super) written: Written,
    pub(super) builders: Vec<RecordBuilder>,
    /// The digest of each page of the file (`innodb::verify::digest`); 0 for a free page.
    pub(super) digests: Vec<u64>,
}

/// Leaves of some rows or entries, and where the first and the last of them are in the input.
struct Part {
    run: LeafRun,
    ends: Option<(u64, u64)>,
}

/// Joins the parts of an index.
struct Joiner<'a> {
    writer: Writer,
    pages: PageWriter<'a>,
    last: Option<u64>,
}

impl Joiner<'_> {
    fn join(&mut self, index: usize, part: Part) -> Result<(), Error> {
        let Part { run, ends } = part;
        let pages = &mut self.pages;
        let joined = self.writer.join(index, run, &mut |number, page: &Page| pages.put(number, page));
        match (joined, ends, self.last) {
            (Err(Error::Bytes(source)), Some((place, _)), last) => Err(of_row(source, place, last)),
            (joined, ends, last) => {
                self.last = ends.map(|ends| ends.1).or(last);
                joined
            }
        }
    }
}

/// An error of a row in the input, or of two.
fn of_row(source: innodb::Error, place: u64, last: Option<u64>) -> Error {
    match last.filter(|_| matches!(source, innodb::Error::Duplicate { .. })) {
        // Sorted rows do not come in the order of the input.
        Some(last) => Error::Row { place: place.max(last), earlier: Some(place.min(last)), source },
        None => Error::Row { place, earlier: None, source },
    }
}

/// The memory of a thread.
#[derive(Default)]
struct Worker {
    record: Record,
    key: Vec<u8>,
    /// Rows to sort, or the entries of the other indexes.
    sorters: Vec<Sorter>,
    /// The greatest value of the AUTO_INCREMENT column.
    last: u64,
}

fn torn() -> Error {
    Error::Rejected("a record is not what it was before it was sorted".to_owned())
}

/// What all steps need.
struct Fill<'a> {
    request: &'a Request<'a>,
    template: &'a TemplateTable,
    builders: &'a [RecordBuilder],
    /// Bytes of memory that a sorter has.
    share: usize,
}

impl Fill<'_> {
    fn workers(&self, sorters: usize) -> Vec<Worker> {
        let worker = |_| Worker {
            sorters: (0..sorters).map(|_| Sorter::new(self.share, self.request.folder)).collect(),
            ..Worker::default()
        };
        (0..self.request.threads.max(1)).map(worker).collect()
    }

    fn go_on(&self) -> Result<(), Error> {
        if self.request.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Takes the records that the workers' sorters with this number have, in order.
    fn merged(&self, workers: &mut [Worker], number: usize) -> Sorted {
        let taken = workers.iter_mut().filter_map(|worker| {
            let sorter = worker.sorters.get_mut(number)?;
            Some(std::mem::replace(sorter, Sorter::new(0, self.request.folder)))
        });
        let mut sorters: Vec<Sorter> = taken.collect();
        std::thread::scope(|scope| {
            for sorter in &mut sorters {
                scope.spawn(|| sorter.sort());
            }
        });
        Sorted::new(sorters, RANGE_BYTES)
    }

    /// Sorts rows by the primary key.
    fn sort<P: Send>(
        &self,
        next: &mut Next<'_, (u64, P)>,
        rows: &ReadPiece<'_, P>,
        builder: &RecordBuilder,
        weigher: Option<&Weigher<'_>>,
    ) -> Result<Sorted, Error> {
        let work = |worker: &mut Worker, (first, piece): (u64, P)| {
            self.go_on()?;
            let Worker { key, sorters, .. } = worker;
            let Some(sorter) = sorters.first_mut() else { return Err(torn()) };
            if let Some(weigher) = weigher {
                let mut waiting = PendingRows::default();
                rows(&self.template.table, piece, first, &mut |row, place| {
                    weigher.push((row, place), &mut waiting, sorter)
                })?;
                return weigher.flush(&mut waiting, sorter);
            }
            rows(&self.template.table, piece, first, &mut |row, place| {
                builder.key_of(row, key);
                sorter.push(key, |out| {
                    append_number(place, out);
                    row.pack(out);
                })
            })
        };
        let mut workers = pipeline::run(self.workers(1), next, &work, &mut |()| Ok(()))?;
        Ok(self.merged(&mut workers, 0))
    }

    /// Makes the leaves of the clustered index from rows that were sorted by its key.
    fn sorted_rows(
        &self,
        sorted: &Sorted,
        weigher: Option<&Weigher<'_>>,
        joiner: &mut Joiner<'_>,
    ) -> Result<Vec<Worker>, Error> {
        let mut ranges = sorted.ranges();
        let rows = |_: &Table, range: usize, _: u64, take: &mut RowSink<'_>| {
            let mut different = weigher.map(DuplicateCheck::new);
            let (mut merge, mut row, mut rows) = (sorted.merge(range)?, Row::default(), 0);
            while let Some((key, mut packed)) = merge.next()? {
                let place = take_number(&mut packed).filter(|_| row.unpack(packed)).ok_or_else(torn)?;
                if let Some(different) = &mut different {
                    different.check(key, (&row, place))?;
                }
                take(&row, place)?;
                rows += 1;
            }
            self.request.progress.done(rows, 0);
            Ok(())
        };
        self.rows(&mut || Ok(ranges.next().map(|range| (0, range))), &rows, joiner)
    }

    /// Makes the leaves of the clustered index, and sorts the entries of the others.
    fn rows<P: Send>(
        &self,
        next: &mut Next<'_, (u64, P)>,
        rows: &ReadPiece<'_, P>,
        joiner: &mut Joiner<'_>,
    ) -> Result<Vec<Worker>, Error> {
        let (table, plan) = (&self.template.table, &self.template.plan);
        let (Some((builder, others)), Some(root)) = (self.builders.split_first(), plan.roots.first()) else {
            return Err(Error::Rejected("a table without an index".to_owned()));
        };
        let counter = table.columns().iter().position(|column| column.auto_increment);
        let work = |worker: &mut Worker, (first, piece): (u64, P)| {
            self.go_on()?;
            let mut leaves = LeafBuilder::new(builder, root.index_id);
            let (mut row_id, mut ends) = (first, None);
            rows(table, piece, first, &mut |row, place| {
                let (found, wanted) = (row.len(), table.columns().len());
                if found != wanted {
                    return Err(Error::Rejected(format!("a row of {found} values, of {wanted}")));
                }
                if let Some(at) = counter {
                    worker.last = worker.last.max(counted(table, at, row));
                }
                row_id += 1;
                let last = ends.map(|ends: (u64, u64)| ends.1);
                leaves.push(row, row_id).map_err(|source| of_row(source, place, last))?;
                ends = Some((ends.map_or(place, |ends| ends.0), place));
                for (builder, entries) in others.iter().zip(&mut worker.sorters) {
                    let record = &mut worker.record;
                    builder.record(row, row_id, record).map_err(|source| of_row(source, place, None))?;
                    entries.push(&record.key, |out| {
                        for word in [place, record.unique as u64, record.origin as u64] {
                            append_number(word, out);
                        }
                        out.extend_from_slice(&record.bytes);
                    })?;
                }
                Ok(())
            })?;
            Ok(Part { run: leaves.finish(), ends })
        };
        pipeline::run(self.workers(others.len()), next, &work, &mut |part| joiner.join(0, part))
    }

    /// Makes the leaves of another index.
    fn entries(&self, at: usize, sorted: &Sorted, joiner: &mut Joiner<'_>) -> Result<(), Error> {
        let (Some(builder), Some(root)) = (self.builders.get(at), self.template.plan.roots.get(at)) else {
            return Ok(());
        };
        joiner.last = None;
        let work = |worker: &mut Worker, range: usize| {
            self.go_on()?;
            let mut leaves = LeafBuilder::new(builder, root.index_id);
            let mut ends = None;
            let mut merge = sorted.merge(range)?;
            while let Some((key, mut entry)) = merge.next()? {
                let (Some(place), Some(unique), Some(origin)) =
                    (take_number(&mut entry), take_number(&mut entry), take_number(&mut entry))
                else {
                    return Err(torn());
                };
                let record = &mut worker.record;
                record.key.clear();
                record.key.extend_from_slice(key);
                record.bytes.clear();
                record.bytes.extend_from_slice(entry);
                record.unique = usize::try_from(unique).map_err(|_| torn())?;
                record.origin = usize::try_from(origin).map_err(|_| torn())?;
                let last = ends.map(|ends: (u64, u64)| ends.1);
                leaves.push_record(record).map_err(|source| of_row(source, place, last))?;
                ends = Some((ends.map_or(place, |ends| ends.0), place));
            }
            Ok(Part { run: leaves.finish(), ends })
        };
        let mut ranges = sorted.ranges();
        let mut next = || Ok(ranges.next());
        pipeline::run(self.workers(0), &mut next, &work, &mut |part| joiner.join(at, part)).map(drop)
    }
}

/// A piece of the input: how many rows are before it, what it is, and its length.
type Numbered<P> = (u64, (P, u64));

/// Adds to each piece the number of rows before it.
fn numbered<'a, P>(
    next: &'a mut Next<'_, Piece<P>>,
) -> impl FnMut() -> Result<Option<Numbered<P>>, Error> + 'a {
    let mut before = 0;
    move || {
        Ok(next()?.map(|Piece { input, rows, bytes }| {
            before += rows;
            (before - rows, (input, bytes))
        }))
    }
}

/// The builders of the indexes, in the order in which the server has them.
fn builders(template: &TemplateTable, format: RowFormat) -> Result<Vec<RecordBuilder>, Error> {
    let mut builders = Vec::new();
    for name in &template.names {
        let index = template.table.indexes().iter().find(|index| index.name == *name);
        let index =
            index.ok_or_else(|| Error::Rejected(format!("the server has another index, `{name}`")))?;
        builders.push(RecordBuilder::new(&template.table, index, format)?);
    }
    Ok(builders)
}

/// What the definition of a table says of all its rows.
#[derive(Clone, Copy)]
pub(super) struct TableOptions {
    pub(super) format: RowFormat,
    /// AUTO_INCREMENT.
    pub(super) counter: u64,
}

/// Writes the file of a template and verifies it.
pub(super) fn fill<P: Send>(
    workspace: &mut Workspace<'_>,
    template: &TemplateTable,
    options: TableOptions,
    request: &Request<'_>,
    input: &mut Input<'_, P>,
) -> Result<Filled, Error> {
    let (disk, TableOptions { format, counter }) = (workspace.disk, options);
    let table = &template.table;
    let builders = builders(template, format)?;
    let writer = Writer::new(template.plan.clone(), &builders)?;
    let Some(builder) = builders.first() else {
        return Err(Error::Rejected("a table without an index".to_owned()));
    };
    let weigher = Weigher::of(workspace.session, table, builder);
    let is_sorted = request.sorted
        || builder.order().is_none() && weigher.is_none()
        || table.clustered().fields.first().is_none_or(|field| field.column.is_none());
    let (path, sink) = template.create(disk, "ibd")?;
    drop(sink);
    let folder = path.parent().unwrap_or(&path);
    let free = Box::new(|| disk.free(folder));
    let pages = PageWriter::new(&path, disk.volume(&path).map_err(io(&path))?, free);
    let mut joiner = Joiner { writer, pages, last: None };
    let sorters = request.threads.max(1) * (builders.len() - 1 + usize::from(!is_sorted));
    // What is sorted is on this machine.
    let room = |at: &Path| if at == folder { disk.free(at) } else { RealDisk.free(at) };
    let size = InputSize { folder, bytes: input.bytes, sorts_rows: !is_sorted };
    let estimator = SpaceEstimator::new(disk, &room, request, &builders, &size);
    let given_rows = input.rows;
    let rows = |table: &Table, piece: (P, u64), first: u64, take: &mut RowSink<'_>| {
        estimator.rows(given_rows, table, (piece, first), take)
    };
    let mut next = numbered(&mut *input.next);
    let fill = Fill { request, template, builders: &builders, share: request.memory / sorters.max(1) };
    let mut given = None;
    let mut workers = if is_sorted {
        request.progress.phase("rows to pages", request.bytes);
        fill.rows(&mut next, &rows, &mut joiner)?
    } else {
        request.progress.phase("sorting", request.bytes);
        let sorted = fill.sort(&mut next, &rows, builder, weigher.as_ref())?;
        request.progress.phase("rows to pages", None);
        given = Some(sorted.records());
        fill.sorted_rows(&sorted, weigher.as_ref(), &mut joiner)?
    };
    let last = workers.iter().map(|worker| worker.last).max().unwrap_or(0).max(counter.saturating_sub(1));
    for at in 1..builders.len() {
        request.progress.phase("entries of keys to pages", None);
        fill.entries(at, &fill.merged(&mut workers, at - 1), &mut joiner)?;
    }
    let Joiner { writer, mut pages, .. } = joiner;
    let written = writer.finish(last, &mut |number, page: &Page| pages.put(number, page))?;
    let sync = pages.finish(written.pages)?;
    let file = File::open(disk, &path)?;
    request.progress.phase("verifying the file", Some(file.len()));
    let expected = Expected { table, builders: &builders, plan: &template.plan, written: &written };
    let (synced, digests) = std::thread::scope(|scope| {
        let synced = scope.spawn(sync);
        let digests = verify::written(expected, file, request);
        (joined(synced), digests)
    });
    synced?;
    let digests = digests?;
    let rows = written.contents.first().map_or(0, |content| content.records);
    // The verified file has what was written. Whether that is all that was given is checked here.
    if let Some(given) = given.filter(|given| *given != rows) {
        return Err(Error::Rejected(format!("of {given} rows there are {rows} after they were sorted")));
    }
    Ok(Filled { rows, written, builders, digests })
}

/// Checks that no two rows have the same key for the server. Those with the same weights are in one range.
struct DuplicateCheck<'a, 'b> {
    weigher: &'a Weigher<'b>,
    /// The last key, its row, and where that is in the input.
    last: Option<(Vec<u8>, Row, u64)>,
}

impl<'a, 'b> DuplicateCheck<'a, 'b> {
    fn new(weigher: &'a Weigher<'b>) -> DuplicateCheck<'a, 'b> {
        DuplicateCheck { weigher, last: None }
    }

    fn check(&mut self, key: &[u8], (row, place): (&Row, u64)) -> Result<(), Error> {
        if let Some((last, earlier, first)) = &self.last
            && last == key
            && self.weigher.are_equal(earlier, row)?
        {
            return Err(of_row(self.weigher.builder.duplicate(row), place, Some(*first)));
        }
        self.last = Some((key.to_vec(), row.clone(), place));
        Ok(())
    }
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
