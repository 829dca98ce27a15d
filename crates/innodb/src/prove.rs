//! Proof that a file contains what was meant to be written, and nothing else: all of it is read and compared.
//!
//! Each page has one owner, and descriptors and segments agree. Each tree is in order, each node pointer has
//! the first key of its page. The rows are those that were given, and the entries of each other index are
//! exactly those of the rows.

mod digest;
mod pages;

pub use digest::digest;

use std::collections::BTreeSet;

use crate::Error;
use crate::index::IndexPage;
use crate::order::misplaced;
use crate::page::{self, DATA, Kind, Pages, corrupt, u64_at};
use crate::space::{self, EXTENT_PAGES, Extents, Segment, Space, State};
use crate::table::Table;
use crate::tree::Scratch;
use crate::write::room;
use crate::write::{Content, Plan, Record, Root, Row, Shape, Written};

/// What a file should contain.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The table.
    pub table: &'a Table,
    /// Its indexes, the clustered one first.
    pub shapes: &'a [Shape],
    /// The properties that the file must have.
    pub plan: &'a Plan,
    /// What was written.
    pub written: &'a Written,
}

/// Proves that a file contains exactly this. Several threads read leaves, each with a clone of `pages`.
///
/// # Errors
/// [`Error::Corrupt`], and those of the pages.
pub fn file<P: Pages<Error: Send> + Clone + Send>(
    claim: Claim<'_>,
    pages: &mut P,
    threads: usize,
) -> Result<(), P::Error> {
    let space = Space::parse(pages.page(0)?)?;
    let pages_told = (space.pages, pages.count());
    if (space.id, space.flags) != (claim.plan.space_id, claim.plan.flags)
        || pages_told != (claim.written.pages, claim.written.pages)
    {
        return Err(corrupt(0, DATA, "the tablespace is not the one that was planned").into());
    }
    let extents = Extents::read(&space, pages)?;
    let mut proof = Proof::new(claim, &extents, pages.count());
    proof.segments = space::segments(&space, pages)?;
    for first in (0..pages.count()).step_by(space::DESCRIBED_PAGES as usize) {
        proof.own(first, pages)?;
        proof.own(first + 1, pages)?;
        if page::kind(pages.page(first + 1)?) != Kind::BITMAP {
            return Err(corrupt(first + 1, 24, "no bitmap behind the descriptors").into());
        }
    }
    proof.own(2, pages)?;
    for at in 0..claim.shapes.len() {
        proof.tree(at, pages, threads)?;
    }
    proof.end()?;
    for (number, page) in room::description(&space, &extents, &proof.segments)? {
        if *pages.page(number)? != *page {
            return Err(corrupt(number, DATA, "it does not describe the pages that there are").into());
        }
    }
    Ok(())
}

struct Proof<'a> {
    claim: Claim<'a>,
    extents: &'a Extents,
    segments: Vec<Segment>,
    /// A bit for each page that has an owner.
    used: Vec<u64>,
    /// The contents of each index, as the rows have it.
    sums: Vec<Content>,
    /// The field of each column in the clustered index.
    places: Vec<Option<usize>>,
    /// The same, of columns that other indexes have.
    keyed: Vec<Option<usize>>,
    row: Row,
    long: Vec<u8>,
    record: Record,
    scratch: Scratch,
}

/// A tree that is proven.
struct Branch<'a> {
    shape: &'a Shape,
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

impl<'a> Proof<'a> {
    fn new(claim: Claim<'a>, extents: &'a Extents, pages: u32) -> Proof<'a> {
        let fields = claim.shapes.first().map_or(&[][..], |shape| shape.layout().fields());
        let place = |column: usize| {
            fields.iter().position(|field| field.column == Some(column) && field.prefix.is_none())
        };
        let places: Vec<_> = (0..claim.table.columns().len()).map(place).collect();
        let others = || claim.shapes.iter().skip(1).flat_map(|shape| shape.layout().fields());
        let keyed = |(column, place): (usize, &Option<usize>)| {
            place.filter(|_| others().any(|field| field.column == Some(column)))
        };
        Proof {
            keyed: places.iter().enumerate().map(keyed).collect(),
            places,
            claim,
            extents,
            segments: Vec::new(),
            used: vec![0; pages.div_ceil(64) as usize],
            sums: vec![Content::default(); claim.shapes.len()],
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
        if page::space_id(pages.page(number)?) != self.claim.plan.space_id {
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
            Some(State::Segment(id)) => id == segment.0,
            Some(State::Fragments) => segment.1.remove(&number),
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
        let (shapes, plan) = (self.claim.shapes, self.claim.plan);
        let (Some(shape), Some(root)) = (shapes.get(at), plan.roots.get(at)) else { return Ok(()) };
        let page = *pages.page(root.page)?;
        let page = IndexPage::parse(&page, root.page)?;
        let last = if shape.is_clustered() { self.claim.written.last_auto_increment } else { 0 };
        if (shape.is_clustered() || page.level > 0) && u64_at(page.bytes, DATA + 18) != last {
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
        let mut branch = Branch {
            shape,
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
                self.page(&mut branch, (level, &numbers, place), &mut below, pages)?;
            }
            (numbers, level) = (below, level - 1);
        }
        self.leaves(&mut branch, &numbers, pages, threads)?;
        if branch.segments.iter().any(|segment| !segment.1.is_empty()) {
            return Err(corrupt(root.page, DATA + 36, "a segment has pages that its tree has not").into());
        }
        if self.claim.written.contents.get(at) != Some(&branch.content) {
            return Err(
                corrupt(root.page, DATA, format!("`{}` has not what was written", shape.name())).into()
            );
        }
        if !shape.is_clustered() && self.sums.get(at) != Some(&branch.content) {
            let what = format!("the entries of `{}` are not those of the rows", shape.name());
            return Err(corrupt(root.page, DATA, what).into());
        }
        Ok(())
    }

    /// Proves all leaves of a tree, several at once.
    fn leaves<P: Pages<Error: Send> + Clone + Send>(
        &mut self,
        branch: &mut Branch<'_>,
        numbers: &[(u32, Option<Pointer>)],
        pages: &mut P,
        threads: usize,
    ) -> Result<(), P::Error> {
        let (claim, extents) = (self.claim, self.extents);
        let share = numbers.len().div_ceil(threads.max(1)).max(1);
        let parts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..numbers.len())
                .step_by(share)
                .map(|first| {
                    let mut pages = pages.clone();
                    let mut own = Branch {
                        segments: branch.segments.clone(),
                        first: None,
                        last: Vec::new(),
                        content: Content::default(),
                        ..*branch
                    };
                    scope.spawn(move || {
                        let mut proof = Proof::new(claim, extents, pages.count());
                        for place in (first..numbers.len()).take(share) {
                            proof.page(&mut own, (0, numbers, place), &mut Vec::new(), &mut pages)?;
                        }
                        Ok::<_, P::Error>((proof.used, proof.sums, own))
                    })
                })
                .collect();
            let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for part in parts {
            let (used, sums, own) = part?;
            self.join(branch, (&used, &sums, own))?;
        }
        Ok(())
    }

    /// Joins what a part of the leaves has shown to what the parts before it have.
    fn join(
        &mut self,
        branch: &mut Branch<'_>,
        (used, sums, part): (&[u64], &[Content], Branch<'_>),
    ) -> Result<(), Error> {
        for (all, used) in self.used.iter_mut().zip(used) {
            if *all & used != 0 {
                return Err(corrupt(branch.root.page, DATA, "a page of its tree is in use twice"));
            }
            *all |= used;
        }
        for (all, sum) in self.sums.iter_mut().zip(sums) {
            all.add(*sum);
        }
        branch.content.add(part.content);
        for (left, own) in branch.segments.iter_mut().zip(&part.segments) {
            left.1.retain(|number| own.1.contains(number));
        }
        if let Some((first, unique)) = part.first {
            if !branch.last.is_empty() && misplaced(&branch.last, &first, unique).is_some() {
                return Err(corrupt(branch.root.page, DATA, "two of its leaves are not in order"));
            }
            branch.last = part.last;
        }
        Ok(())
    }

    /// Proves that exactly the pages without an owner are free.
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
