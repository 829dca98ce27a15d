//! Builds an index tree from its leaves up. A page gets its number when another page follows it on its level,
//! because then it is not the root.

use std::collections::VecDeque;

use super::leaf_builder::{Leaf, LeafRun, NEXT, reserved};
use super::page_allocator::Kind;
use super::page_builder::{PageBuilder, put};
use super::record::Pointer;
use super::record_builder::RecordBuilder;
use super::{BuildContext, Content, Root};
use crate::Error;
use crate::index_page::Status;
use crate::page::{DATA, NO_PAGE, Page, u32_at};

/// A finished page that waits for the number of the next page.
#[derive(Debug)]
struct PendingPage {
    page: Box<Page>,
    pointer: Pointer,
    /// Its number, once another page follows it, and the number of the page before it.
    number: Option<u32>,
    previous: u32,
}

/// A level of the tree.
#[derive(Debug)]
struct Level {
    pending: Option<PendingPage>,
    /// The page that is being filled; none for leaves, which arrive as pages.
    page_builder: PageBuilder,
    /// The node pointer to that page.
    pointer: Pointer,
    /// Whether it is the first one.
    is_first: bool,
}

/// A growing tree.
#[derive(Debug)]
pub(super) struct TreeBuilder {
    /// Its place among the trees.
    at: usize,
    root: Root,
    builder: RecordBuilder,
    levels: Vec<Level>,
    /// The first pages of values whose references are in leaves to come.
    waiting: VecDeque<u32>,
    last: Option<Vec<u8>>,
    records: u64,
    sum: u64,
}

impl TreeBuilder {
    pub(super) fn new(at: usize, root: Root, builder: &RecordBuilder) -> TreeBuilder {
        TreeBuilder {
            at,
            root,
            builder: builder.clone(),
            levels: Vec::new(),
            waiting: VecDeque::new(),
            last: None,
            records: 0,
            sum: 0,
        }
    }

    pub(super) fn join<E: From<Error>>(
        &mut self,
        run: LeafRun,
        to: &mut BuildContext<'_, E>,
    ) -> Result<(), E> {
        if let (Some(last), Some(first)) = (&self.last, &run.first) {
            self.builder.follows(last, first)?;
        }
        if !run.last.is_empty() {
            self.last = Some(run.last);
        }
        self.records += run.records;
        self.sum = self.sum.wrapping_add(run.sum);
        self.values(run.values, to)?;
        for Leaf { mut page, pointer, references } in run.leaves {
            for (at, length) in references {
                let Some(number) = self.waiting.pop_front() else {
                    return Err(Error::unsupported("runs came in another order than they were made").into());
                };
                let mut reference = [0; 20];
                reference[..4].copy_from_slice(&to.output.space_id.to_be_bytes());
                reference[4..8].copy_from_slice(&number.to_be_bytes());
                reference[8..12].copy_from_slice(&38_u32.to_be_bytes());
                reference[16..].copy_from_slice(&length.to_be_bytes());
                put(&mut page, at, &reference);
            }
            self.add(0, page, pointer, to)?;
        }
        Ok(())
    }

    /// Gives the pages of values numbers, and remembers the first ones.
    fn values<E: From<Error>>(
        &mut self,
        values: Vec<Box<Page>>,
        to: &mut BuildContext<'_, E>,
    ) -> Result<(), E> {
        let mut number = None;
        for mut page in values {
            let own = match number {
                Some(number) => number,
                None => {
                    let first = to.allocator.allocate(self.at, Kind::Leaf)?;
                    self.waiting.push_back(first);
                    first
                }
            };
            number = None;
            if u32_at(&*page, DATA + 4) == NEXT {
                let next = to.allocator.allocate(self.at, Kind::Leaf)?;
                put(&mut page, DATA + 4, &next.to_be_bytes());
                number = Some(next);
            }
            to.output.give(&mut page, own, NO_PAGE, NO_PAGE)?;
        }
        Ok(())
    }

    /// The contents so far.
    pub(super) fn content(&self) -> Content {
        Content { records: self.records, sum: self.sum }
    }

    /// Begins a level if it is the next one.
    fn reach(&mut self, level: usize) {
        if level == self.levels.len() {
            self.levels.push(Level {
                pending: None,
                page_builder: PageBuilder::new(reserved(&self.builder)),
                pointer: Pointer::default(),
                is_first: true,
            });
        }
    }

    /// Appends a page to a level.
    fn add<E: From<Error>>(
        &mut self,
        level: usize,
        page: Box<Page>,
        pointer: Pointer,
        to: &mut BuildContext<'_, E>,
    ) -> Result<(), E> {
        let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
        self.reach(level);
        let Some(pending) = self.levels[level].pending.take() else {
            self.levels[level].pending = Some(PendingPage { page, pointer, number: None, previous: NO_PAGE });
            return Ok(());
        };
        let PendingPage { page: mut before, pointer: leads, number: own, previous } = pending;
        let own = match own {
            Some(own) => own,
            None => {
                let own = to.allocator.allocate(self.at, kind)?;
                self.point(level + 1, &leads, own, to)?;
                own
            }
        };
        let number = to.allocator.allocate(self.at, kind)?;
        to.output.give(&mut before, own, previous, number)?;
        self.point(level + 1, &pointer, number, to)?;
        self.levels[level].pending = Some(PendingPage { page, pointer, number: Some(number), previous: own });
        Ok(())
    }

    /// Adds the node pointer of a page to the level above it.
    fn point<E: From<Error>>(
        &mut self,
        level: usize,
        pointer: &Pointer,
        child: u32,
        to: &mut BuildContext<'_, E>,
    ) -> Result<(), E> {
        self.reach(level);
        if !self.levels[level].page_builder.takes(pointer.bytes.len() + 4) {
            self.end_page(level, to)?;
        }
        let here = &mut self.levels[level];
        let is_least = here.is_first && here.page_builder.is_empty();
        if here.page_builder.is_empty() {
            here.pointer = pointer.clone();
        }
        let mut record = pointer.bytes.clone();
        record.extend_from_slice(&child.to_be_bytes());
        here.page_builder.push(&record, pointer.origin, Status::NodePointer as u8, is_least);
        Ok(())
    }

    /// Ends the page of a level that is being filled.
    fn end_page<E: From<Error>>(&mut self, level: usize, to: &mut BuildContext<'_, E>) -> Result<(), E> {
        let here = &mut self.levels[level];
        let page = here.page_builder.finish(self.root.index_id, u16::try_from(level).unwrap_or(u16::MAX));
        let pointer = std::mem::take(&mut here.pointer);
        here.is_first = false;
        self.add(level, page, pointer, to)
    }

    /// Ends the last page of each level; the only page of the highest one is the root. `last` is the greatest
    /// value of the AUTO_INCREMENT column.
    pub(super) fn finish<E: From<Error>>(mut self, last: u64, to: &mut BuildContext<'_, E>) -> Result<(), E> {
        if !self.waiting.is_empty() {
            return Err(Error::unsupported("values are left whose rows never came").into());
        }
        let mut level = 0;
        loop {
            // Leaves are no pages that are filled here.
            if self.levels.get(level).is_some_and(|level| !level.page_builder.is_empty()) {
                self.end_page(level, to)?;
            }
            let pending = self.levels.get_mut(level).and_then(|level| level.pending.take());
            match pending {
                Some(PendingPage { mut page, number: Some(number), previous, .. }) => {
                    to.output.give(&mut page, number, previous, NO_PAGE)?;
                }
                Some(PendingPage { page, .. }) => return self.give_root(page, last, to),
                None => {
                    let mut page = PageBuilder::new(0).finish(self.root.index_id, 0);
                    if !self.builder.is_clustered() {
                        put(&mut page, DATA + 18, &1_u64.to_be_bytes());
                    }
                    return self.give_root(page, last, to);
                }
            }
            level += 1;
        }
    }

    fn give_root<E: From<Error>>(
        &self,
        mut page: Box<Page>,
        last: u64,
        to: &mut BuildContext<'_, E>,
    ) -> Result<(), E> {
        for (at, kind) in [(DATA + 36, Kind::Leaf), (DATA + 46, Kind::Inner)] {
            put(&mut page, at, &to.output.space_id.to_be_bytes());
            put(&mut page, at + 4, &to.allocator.segment_place(self.at, kind));
        }
        if last > 0 {
            put(&mut page, DATA + 18, &last.to_be_bytes());
        }
        to.output.give(&mut page, self.root.page, NO_PAGE, NO_PAGE)
    }
}
