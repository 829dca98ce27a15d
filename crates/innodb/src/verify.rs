//! Verifies that a file contains what was meant to be written and nothing else: all of it is read and
//! compared.
//!
//! Each page has one owner, and descriptors and segments agree. Each tree is in order, each node pointer has
//! the first key of its page. The rows are those that were given, and the entries of each other index are
//! exactly those of the rows.

mod digest;
mod pages;

pub use digest::digest;

use std::collections::BTreeSet;

use crate::Error;
use crate::index_page::IndexPage;
use crate::key_order::misplaced;
use crate::page::{self, DATA, Kind, Pages, corrupt, u64_at};
use crate::space::{self, EXTENT_PAGES, ExtentState, Extents, Segment, Space};
use crate::table::Table;
use crate::tree::Scratch;
use crate::write::page_allocator;
use crate::write::{Content, Plan, Record, RecordBuilder, Root, Row, Written};

/// What a file is expected to contain.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The table.
    pub table: &'a Table,
    /// Its indexes, the clustered one first.
    pub builders: &'a [RecordBuilder],
    /// The properties that the file must have.
    pub plan: &'a Plan,
    /// What was written.
    pub written: &'a Written,
}

/// Verifies that a file contains exactly this. Several threads read leaves, each with a clone of `pages`.
///
/// # Errors
/// [`Error::Corrupt`], and those of the pages.
pub fn file<P: Pages<Error: Send> + Clone + Send>(
    expected: Expected<'_>,
    pages: &mut P,
    threads: usize,
) -> Result<(), P::Error> {
    let space = Space::parse(pages.page(0)?)?;
    let pages_told = (space.pages, pages.count());
    if (space.id, space.flags) != (expected.plan.space_id, expected.plan.flags)
        || pages_told != (expected.written.pages, expected.written.pages)
    {
        return Err(corrupt(0, DATA, "the tablespace is not the one that was planned").into());
    }
    let extents = Extents::read(&space, pages)?;
    let mut verifier = Verifier::new(expected, &extents, pages.count());
    verifier.segments = space::segments(&space, pages)?;
    for first in (0..pages.count()).step_by(space::DESCRIBED_PAGES as usize) {
        verifier.own(first, pages)?;
        verifier.own(first + 1, pages)?;
        if page::kind(pages.page(first + 1)?) != Kind::BITMAP {
            return Err(corrupt(first + 1, 24, "no bitmap behind the descriptors").into());
        }
    }
    verifier.own(2, pages)?;
    for at in 0..expected.builders.len() {
        verifier.tree(at, pages, threads)?;
    }
    verifier.end()?;
    for (number, page) in page_allocator::description(&space, &extents, &verifier.segments)? {
        if *pages.page(number)? != *page {
            return Err(corrupt(number, DATA, "it does not describe the pages that there are").into());
        }
    }
    Ok(())
}

struct Verifier<'a> {
    expected: Expected<'a>,
    extents: &'a Extents,
    segments: Vec<Segment>,
    /// A bit for each page that has an owner.
    used: Vec<u64>,
    /// The contents of each index, as the rows have it.
    sums: Vec<Content>,
    /// The field of each column in the clustered index.
    column_fields: Vec<Option<usize>>,
    /// The same, of columns that other indexes have.
    keyed: Vec<Option<usize>>,
    row: Row,
    long: Vec<u8>,
    record: Record,
    scratch: Scratch,
}

/// The pages of one level of a tree, in their order, each with the pointer to it; the root has none.
struct TreeLevel<'a> {
    /// 0 for the leaves.
    level: u16,
    pages: &'a [(u32, Option<Pointer>)],
}

/// The state of the check of one tree.
struct TreeCheck<'a> {
    builder: &'a RecordBuilder,
    root: Root,
    /// The numbers of its segments, of leaves and of other pages, and the pages they have one by one that
    /// were not met yet.
    segments: [(u64, BTreeSet<u32>); 2],
    /// The first key that was met, with the length of the part of it that must be unique.
    first: Option<(Vec<u8>, usize)>,
    /// The last key that was met.
    last: Vec<u8>,
    /// What was found in leaves.
    content: Content,
}

/// A node pointer: its header without the parts that change, and its fields.
type Pointer = (Vec<u8>, Vec<u8>);

impl<'a> Verifier<'a> {
    fn new(expected: Expected<'a>, extents: &'a Extents, pages: u32) -> Verifier<'a> {
        let fields = expected.builders.first().map_or(&[][..], |builder| builder.layout().fields());
        let place = |column: usize| {
            fields.iter().position(|field| field.column == Some(column) && field.prefix.is_none())
        };
        let column_fields: Vec<_> = (0..expected.table.columns().len()).map(place).collect();
        let others = || expected.builders.iter().skip(1).flat_map(|builder| builder.layout().fields());
        let keyed = |(column, place): (usize, &Option<usize>)| {
            place.filter(|_| others().any(|field| field.column == Some(column)))
        };
        Verifier {
            keyed: column_fields.iter().enumerate().map(keyed).collect(),
            column_fields,
            expected,
            extents,
            segments: Vec::new(),
            used: vec![0; pages.div_ceil(64) as usize],
            sums: vec![Content::default(); expected.builders.len()],
            row: Row::default(),
            long: Vec::new(),
            record: Record::default(),
            scratch: Scratch::default(),
        }
    }

    /// Notes that a page was met; it must be the first time.
    fn own<P: Pages>(&mut self, number: u32, pages: &mut P) -> Result<(), P::Error> {
        let Some(word) = self.used.get_mut((number / 64) as usize) else {
            return Err(corrupt(number, 4, "a page behind the end of the file is in use").into());
        };
        if *word >> (number % 64) & 1 != 0 {
            return Err(corrupt(number, 4, "a page is in use twice").into());
        }
        *word |= 1 << (number % 64);
        if page::space_id(pages.page(number)?) != self.expected.plan.space_id {
            return Err(corrupt(number, 34, "a page of another tablespace").into());
        }
        Ok(())
    }

    /// Notes a page of a tree or of its values, which must be in one of the tree's segments.
    fn own_in<P: Pages>(
        &mut self,
        number: u32,
        segment: &mut (u64, BTreeSet<u32>),
        pages: &mut P,
    ) -> Result<(), P::Error> {
        self.own(number, pages)?;
        let extent = self.extents.all().get((number / EXTENT_PAGES) as usize);
        let is_own = match extent.map(|extent| extent.state) {
            Some(ExtentState::Segment(id)) => id == segment.0,
            Some(ExtentState::Fragments) => segment.1.remove(&number),
            _ => false,
        };
        if is_own { Ok(()) } else { Err(corrupt(number, 4, "a page is in no segment of its tree").into()) }
    }

    /// Goes through a tree from level to level.
    fn tree<P: Pages<Error: Send> + Clone + Send>(
        &mut self,
        at: usize,
        pages: &mut P,
        threads: usize,
    ) -> Result<(), P::Error> {
        let (builders, plan) = (self.expected.builders, self.expected.plan);
        let (Some(builder), Some(root)) = (builders.get(at), plan.roots.get(at)) else { return Ok(()) };
        let page = *pages.page(root.page)?;
        let page = IndexPage::parse(&page, root.page)?;
        let last = if builder.is_clustered() { self.expected.written.last_auto_increment } else { 0 };
        if (builder.is_clustered() || page.level > 0) && u64_at(page.bytes, DATA + 18) != last {
            return Err(corrupt(root.page, DATA + 18, "another AUTO_INCREMENT value").into());
        }
        let mut segments = [(0, BTreeSet::new()), (0, BTreeSet::new())];
        for (segment, (space, number, place)) in segments.iter_mut().zip(page.segments()) {
            let id = u64_at(pages.page(number)?, usize::from(place));
            let found = self.segments.iter().find(|segment| segment.id == id);
            let Some(found) = found.filter(|_| id != 0 && space == plan.space_id) else {
                return Err(corrupt(root.page, DATA + 36, "a tree has no segment").into());
            };
            *segment = (id, found.fragments.iter().copied().collect());
        }
        let mut check = TreeCheck {
            builder,
            root: *root,
            segments,
            first: None,
            last: Vec::new(),
            content: Content::default(),
        };
        let mut level = page.level;
        let mut numbers = vec![(root.page, None)];
        while level > 0 {
            let mut below = Vec::new();
            for place in 0..numbers.len() {
                let on = TreeLevel { level, pages: &numbers };
                below.extend(self.page(&mut check, &on, place, pages)?);
            }
            (numbers, level) = (below, level - 1);
        }
        self.leaves(&mut check, &numbers, pages, threads)?;
        if check.segments.iter().any(|segment| !segment.1.is_empty()) {
            return Err(corrupt(root.page, DATA + 36, "a segment has pages that its tree has not").into());
        }
        if self.expected.written.contents.get(at) != Some(&check.content) {
            return Err(corrupt(
                root.page,
                DATA,
                format!("`{}` does not have what was written", builder.name()),
            )
            .into());
        }
        if !builder.is_clustered() && self.sums.get(at) != Some(&check.content) {
            let what = format!("the entries of `{}` are not those of the rows", builder.name());
            return Err(corrupt(root.page, DATA, what).into());
        }
        Ok(())
    }

    /// Verifies all leaves of a tree, several at once.
    fn leaves<P: Pages<Error: Send> + Clone + Send>(
        &mut self,
        check: &mut TreeCheck<'_>,
        numbers: &[(u32, Option<Pointer>)],
        pages: &mut P,
        threads: usize,
    ) -> Result<(), P::Error> {
        let (expected, extents) = (self.expected, self.extents);
        let leaves = &TreeLevel { level: 0, pages: numbers };
        let share = numbers.len().div_ceil(threads.max(1)).max(1);
        let parts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..numbers.len())
                .step_by(share)
                .map(|first| {
                    let mut pages = pages.clone();
                    // No leaf of the tree was read so far.
                    let segments = check.segments.clone();
                    let mut own = TreeCheck { segments, first: None, last: Vec::new(), ..*check };
                    scope.spawn(move || {
                        let mut verifier = Verifier::new(expected, extents, pages.count());
                        for place in (first..numbers.len()).take(share) {
                            verifier.page(&mut own, leaves, place, &mut pages)?;
                        }
                        Ok::<_, P::Error>((verifier.used, verifier.sums, own))
                    })
                })
                .collect();
            let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for part in parts {
            let (used, sums, own) = part?;
            self.join(check, (&used, &sums, own))?;
        }
        Ok(())
    }

    /// Merges the result of a part of the leaves into that of the parts before it.
    fn join(
        &mut self,
        check: &mut TreeCheck<'_>,
        (used, sums, part): (&[u64], &[Content], TreeCheck<'_>),
    ) -> Result<(), Error> {
        for (all, used) in self.used.iter_mut().zip(used) {
            if *all & used != 0 {
                return Err(corrupt(check.root.page, DATA, "a page of its tree is in use twice"));
            }
            *all |= used;
        }
        for (all, sum) in self.sums.iter_mut().zip(sums) {
            all.add(*sum);
        }
        check.content.add(part.content);
        for (left, own) in check.segments.iter_mut().zip(&part.segments) {
            left.1.retain(|number| own.1.contains(number));
        }
        if let Some((first, unique)) = part.first {
            if !check.last.is_empty() && misplaced(&check.last, &first, unique).is_some() {
                return Err(corrupt(check.root.page, DATA, "two of its leaves are not in order"));
            }
            check.last = part.last;
        }
        Ok(())
    }

    /// Verifies that exactly the pages without an owner are marked as free.
    fn end(&self) -> Result<(), Error> {
        for (extent, used) in self.used.iter().enumerate() {
            let free = self.extents.all().get(extent).map_or(u64::MAX, |extent| extent.free);
            if free != !used {
                let page =
                    u32::try_from(extent).unwrap_or(0) * EXTENT_PAGES + (free ^ !used).trailing_zeros();
                return Err(corrupt(page, 4, "a page in use is said to be free, or one that is free in use"));
            }
        }
        Ok(())
    }
}
