//! Files of tables, made without a server: rows in the order of keys become all pages of a tablespace.
//!
//! 1. [`RecordBuilder::record`] makes the record of a [`Row`] in an index.
//! 2. [`LeafBuilder`] fills the leaves of an index with records in order. Several can work at once, each on a
//!    part of the rows; each returns [`LeafRun`]s of leaves that have no page number yet.
//! 3. [`Writer::join`] takes the runs of an index in order, numbers their pages, gives them to the caller and
//!    builds the levels above; [`Writer::finish`] ends all trees and gives the pages that describe the file.
//!
//! Apart from runs that wait, only one page of each level of an index is in memory. Pages are filled as the
//! server fills them when it builds an index from sorted rows (`btr0bulk.cc`).

pub(crate) mod inline_record;
mod leaf_builder;
pub(crate) mod page_allocator;
mod page_builder;
pub(crate) mod record;
mod record_builder;
mod row;
mod tree_builder;

use crate::Error;
use crate::page::{Kind, PAGE_BYTES, Page, Sums};
use crate::space::Space;
pub use leaf_builder::{LeafBuilder, LeafRun};
use page_allocator::PageAllocator;
use page_builder::{PageAddress, put, seal};
pub use record::Record;
pub use record_builder::RecordBuilder;
pub use row::{Row, append_number, take_number};
use tree_builder::TreeBuilder;

/// Where an index begins. The server decided that when it made the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The number of the index.
    pub index_id: u64,
    /// The page of its root.
    pub page: u32,
}

/// The properties that the file must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of the tablespace.
    pub space_id: u32,
    /// Its flags, as in the file that the server made.
    pub flags: u32,
    /// Each index, the clustered one first.
    pub roots: Vec<Root>,
}

/// The contents of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The number of entries; in the clustered index these are rows.
    pub records: u64,
    /// The sum of the hashes of all entries, modulo 2^64. In the clustered index a hash is one of the row, as
    /// [`Row::hash`] gives it, and of its record.
    pub sum: u64,
}

impl Content {
    pub(crate) fn add(&mut self, other: Content) {
        self.records += other.records;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The number of pages of the file. Pages that were not given are zeros.
    pub pages: u32,
    /// The contents of each index.
    pub contents: Vec<Content>,
    /// The last value of the AUTO_INCREMENT column; 0 if there is none.
    pub last_auto_increment: u64,
}

/// Takes the pages of a file, each once, in any order.
pub type Put<'a, E> = dyn FnMut(u32, &Page) -> Result<(), E> + 'a;

/// Where pages get their numbers and checksums.
struct Output<'a, E> {
    space_id: u32,
    sums: Sums,
    put: &'a mut Put<'a, E>,
}

impl<E: From<Error>> Output<'_, E> {
    fn give(&mut self, page: &mut Page, number: u32, previous: u32, next: u32) -> Result<(), E> {
        seal(page, PageAddress { space_id: self.space_id, number, previous, next }, self.sums);
        (self.put)(number, page)
    }
}

/// What all trees share.
struct BuildContext<'a, E> {
    allocator: &'a mut PageAllocator,
    output: Output<'a, E>,
}

/// The file of a table as it grows.
#[derive(Debug)]
pub struct Writer {
    plan: Plan,
    sums: Sums,
    allocator: PageAllocator,
    trees: Vec<TreeBuilder>,
}

impl Writer {
    /// Begins a file with these indexes; `builders` are those of [`Plan::roots`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for flags of files that are not written here, for more indexes than are, or
    /// roots that are not where a server has them.
    pub fn new(plan: Plan, builders: &[RecordBuilder]) -> Result<Writer, Error> {
        let mut first = [0; PAGE_BYTES];
        put(&mut first, 24, &Kind::FSP_HDR.0.to_be_bytes());
        put(&mut first, page_allocator::HEADER + 16, &plan.flags.to_be_bytes());
        let sums = if plan.flags & 0x10 != 0 { Sums::Full } else { Sums::Old };
        seal(&mut first, PageAddress::alone(0, 0), sums);
        Space::parse(&first)?;
        if builders.len() != plan.roots.len() {
            return Err(Error::unsupported("there are not as many roots as indexes"));
        }
        let pages: Vec<u32> = plan.roots.iter().map(|root| root.page).collect();
        let allocator = PageAllocator::new(&pages)?;
        let trees = plan.roots.iter().zip(builders).enumerate();
        let trees = trees.map(|(at, (root, builder))| TreeBuilder::new(at, *root, builder)).collect();
        Ok(Writer { plan, sums, allocator, trees })
    }

    /// Takes the next leaves of the index with this place in [`Plan::roots`].
    ///
    /// # Errors
    /// [`Error::Unsorted`] and [`Error::Duplicate`] when its rows do not follow those that came before;
    /// [`Error::Unsupported`] when the file has no more room; those of `put`.
    pub fn join<E: From<Error>>(
        &mut self,
        index: usize,
        run: LeafRun,
        put: &mut dyn FnMut(u32, &Page) -> Result<(), E>,
    ) -> Result<(), E> {
        let output = Output { space_id: self.plan.space_id, sums: self.sums, put };
        match self.trees.get_mut(index) {
            Some(tree) => tree.join(run, &mut BuildContext { allocator: &mut self.allocator, output }),
            None => Err(Error::unsupported("a run of an index that there is not").into()),
        }
    }

    /// Ends all trees and gives the pages that are left. `last_auto_increment` is the last value of that
    /// column, 0 without one.
    ///
    /// # Errors
    /// As those of [`Writer::join`].
    pub fn finish<E: From<Error>>(
        self,
        last_auto_increment: u64,
        put: &mut dyn FnMut(u32, &Page) -> Result<(), E>,
    ) -> Result<Written, E> {
        let Writer { plan, sums, mut allocator, trees } = self;
        let contents = trees.iter().map(TreeBuilder::content).collect();
        let output = Output { space_id: plan.space_id, sums, put };
        let mut context = BuildContext { allocator: &mut allocator, output };
        for (at, tree) in trees.into_iter().enumerate() {
            let last = if at == 0 { last_auto_increment } else { 0 };
            tree.finish(last, &mut context)?;
        }
        let BuildContext { allocator, mut output } = context;
        let pages = allocator.finish(plan.flags, &mut output)?;
        Ok(Written { pages, contents, last_auto_increment })
    }
}
