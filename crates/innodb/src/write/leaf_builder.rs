//! Builds the leaves of an index, and the pages of off-page values.

use super::Row;
use super::page_builder::{PageBuilder, RESERVED_BYTES, put};
use super::record::{Pointer, Record};
use super::record_builder::RecordBuilder;
use crate::Error;
use crate::index_page::Status;
use crate::off_page::{PART, PART_BYTES_MAX};
use crate::page::{DATA, Kind, NO_PAGE, PAGE_BYTES, Page};

/// The transaction number of secondary leaves. The server puts its own there.
const MAX_TRX_ID: u64 = 1;
/// Stands for the next page of a value until that has a number.
pub(super) const NEXT: u32 = 0;

/// A full leaf without a page number.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) page: Box<Page>,
    /// Its node pointer.
    pub(super) pointer: Pointer,
    /// The places of its references to off-page values, in the order of those values.
    pub(super) references: Vec<(usize, u32)>,
}

/// Leaves in order, and off-page values of these or the next leaves. Their pages have no numbers yet.
#[derive(Debug, Default)]
pub struct LeafRun {
    pub(super) leaves: Vec<Leaf>,
    /// The pages of values. A page that is followed by another page of the same value contains [`NEXT`].
    pub(super) values: Vec<Box<Page>>,
    /// The first record of all, if its filler had none before, and the last key, if there is an order.
    pub(super) first: Option<Record>,
    pub(super) last: Vec<u8>,
    pub(super) records: u64,
    pub(super) sum: u64,
}

impl LeafRun {
    /// The number of pages that wait in it.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.leaves.len() + self.values.len()
    }

    /// The number of records that were added; some may be in a leaf of the next run.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// Fills leaf pages with records in key order.
#[derive(Debug)]
pub struct LeafBuilder<'a> {
    builder: &'a RecordBuilder,
    index_id: u64,
    page_builder: PageBuilder,
    pointer: Pointer,
    references: Vec<(usize, u32)>,
    run: LeafRun,
    last: Vec<u8>,
    is_first: bool,
    record: Record,
}

impl<'a> LeafBuilder<'a> {
    /// Begins with an empty leaf.
    #[must_use]
    pub fn new(builder: &'a RecordBuilder, index_id: u64) -> LeafBuilder<'a> {
        LeafBuilder {
            builder,
            index_id,
            page_builder: PageBuilder::new(reserved(builder)),
            pointer: Pointer::default(),
            references: Vec::new(),
            run: LeafRun::default(),
            last: Vec::new(),
            is_first: true,
            record: Record::default(),
        }
    }

    /// Adds a row; see [`RecordBuilder::record`].
    ///
    /// # Errors
    /// Those of [`RecordBuilder::record`] and [`LeafBuilder::push_record`].
    pub fn push(&mut self, row: &Row, row_id: u64) -> Result<(), Error> {
        let mut record = std::mem::take(&mut self.record);
        let added = self
            .builder
            .record(row, row_id, &mut record)
            .and_then(|()| self.add(&record, Some((row, row_id))));
        self.record = record;
        added
    }

    /// Adds an entry of a secondary index.
    ///
    /// # Errors
    /// [`Error::Duplicate`] and [`Error::Unsorted`] when it does not follow the one before;
    /// [`Error::Unsupported`] for an index that has rows: their values may have to go off-page.
    pub fn push_record(&mut self, record: &Record) -> Result<(), Error> {
        if self.builder.is_clustered() {
            return Err(Error::unsupported("rows are added with their values"));
        }
        self.add(record, None)
    }

    fn add(&mut self, record: &Record, row: Option<(&Row, u64)>) -> Result<(), Error> {
        let len = record.bytes.len();
        if self.builder.order().is_some() {
            if self.is_first {
                self.run.first = Some(record.clone());
            } else {
                self.builder.follows(&self.last, record)?;
            }
            self.last.clear();
            self.last.extend_from_slice(&record.key);
        }
        self.is_first = false;
        if !self.page_builder.takes(len) {
            self.end_leaf();
        }
        if self.page_builder.is_empty() {
            self.pointer = self.builder.pointer(&record.bytes, record.origin);
        }
        let at = self.page_builder.push(&record.bytes, record.origin, Status::Ordinary as u8, false)
            - record.origin;
        for off_page in &record.off_page {
            let value = row
                .and_then(|(row, _)| row.get(off_page.column))
                .and_then(|value| value.get(off_page.from..));
            let value = value.unwrap_or_default();
            let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
            self.references.push((at + off_page.at, length));
            self.value(value);
        }
        self.run.records += 1;
        let hash = row.map_or_else(|| record.hash(), |(row, row_id)| self.builder.hash(row, row_id, record));
        self.run.sum = self.run.sum.wrapping_add(hash);
        Ok(())
    }

    /// Puts a value into pages of its own.
    fn value(&mut self, value: &[u8]) {
        let mut parts = value.chunks(PART_BYTES_MAX).peekable();
        while let Some(part) = parts.next() {
            let mut page = Box::new([0; PAGE_BYTES]);
            let next = if parts.peek().is_some() { NEXT } else { NO_PAGE };
            put(&mut page, 24, &Kind::BLOB.0.to_be_bytes());
            put(&mut page, DATA, &u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
            put(&mut page, DATA + 4, &next.to_be_bytes());
            put(&mut page, PART, part);
            self.run.values.push(page);
        }
    }

    fn end_leaf(&mut self) {
        let mut page = self.page_builder.finish(self.index_id, 0);
        if !self.builder.is_clustered() {
            put(&mut page, DATA + 18, &MAX_TRX_ID.to_be_bytes());
        }
        let pointer = std::mem::take(&mut self.pointer);
        let references = std::mem::take(&mut self.references);
        self.run.leaves.push(Leaf { page, pointer, references });
    }

    /// The number of pages that [`LeafBuilder::take`] would give.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.run.pages()
    }

    /// Gives the pages that are full.
    pub fn take(&mut self) -> LeafRun {
        let mut run = std::mem::take(&mut self.run);
        run.last.clone_from(&self.last);
        run
    }

    /// Gives all pages that are left, the last one as full as it is.
    #[must_use]
    pub fn finish(mut self) -> LeafRun {
        if !self.page_builder.is_empty() {
            self.end_leaf();
        }
        self.take()
    }
}

/// Bytes that stay free in the pages of an index.
pub(super) fn reserved(builder: &RecordBuilder) -> usize {
    if builder.is_clustered() { RESERVED_BYTES } else { 0 }
}
