//! A tree from its root to its leaves, with the pages of every level in the order of keys.
//!
//! Facts: `btr0btr.cc` of MariaDB's source. The pages of a level are linked in both directions.

use crate::Error;
use crate::index_page::{IndexPage, RecordHeader, Status};
use crate::page::{DATA, NO_PAGE, Pages, corrupt};
use crate::record::{FieldPosition, Layout, child};
pub use crate::table::CLUSTERED_ROOT;

/// The most levels of a tree, more than any has.
const LEVELS_MAX: u16 = 50;

/// The position of a page in its index tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePosition {
    /// The tree.
    pub index_id: u64,
    /// Its level.
    pub level: u16,
    /// The page before it on the level.
    pub previous: u32,
    /// The page after it.
    pub next: u32,
}

impl PagePosition {
    /// Checks that a page is what its parent and its neighbours say.
    ///
    /// # Errors
    /// [`Error::Corrupt`]
    pub fn check(&self, page: &IndexPage<'_>) -> Result<(), Error> {
        let bad = |at: usize, what: String| Err(corrupt(page.number, at, what));
        if page.index_id != self.index_id {
            let what = format!("a page of tree {} is in tree {}", page.index_id, self.index_id);
            return bad(DATA + 28, what);
        }
        if page.level != self.level {
            return bad(DATA + 26, format!("a page of level {} is on level {}", page.level, self.level));
        }
        if (page.previous(), page.next()) != (self.previous, self.next) {
            return bad(8, "its neighbours are not those that the level above has".to_owned());
        }
        Ok(())
    }
}

/// Buffers that are reused for each page.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The offsets of records.
    pub origins: Vec<u16>,
    /// The places of one record's fields.
    pub places: Vec<FieldPosition>,
}

/// A tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its number.
    pub index_id: u64,
    /// The pages of the lowest level above the leaves, in the order of keys; none if the root is a leaf.
    pub parents: Vec<u32>,
    /// Its root.
    pub root: u32,
}

impl Tree {
    /// Descends from the root to the level above the leaves.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and errors of the pages.
    pub fn read<P: Pages>(root: u32, layout: &Layout, pages: &mut P) -> Result<Tree, P::Error> {
        let page = IndexPage::parse(pages.page(root)?, root)?;
        let (index_id, mut level) = (page.index_id, page.level);
        if !page.is_alone() || level > LEVELS_MAX {
            return Err(corrupt(root, 8, "a page that is no root is where the root should be").into());
        }
        if level == 0 {
            return Ok(Tree { index_id, parents: Vec::new(), root });
        }
        let mut scratch = Scratch::default();
        let mut numbers = vec![root];
        while level > 1 {
            let mut below = Vec::new();
            for (place, &number) in numbers.iter().enumerate() {
                let position = position(index_id, level, &numbers, place);
                let page = IndexPage::parse(pages.page(number)?, number)?;
                position.check(&page)?;
                children(&page, layout, &mut scratch, &mut below)?;
            }
            (numbers, level) = (below, level - 1);
        }
        Ok(Tree { index_id, parents: numbers, root })
    }

    /// The leaves below one of the [`Tree::parents`], in the order of keys.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and errors of the pages.
    pub fn leaves<P: Pages>(
        &self,
        parent: usize,
        layout: &Layout,
        pages: &mut P,
    ) -> Result<Vec<u32>, P::Error> {
        let mut found = Vec::new();
        let Some(&number) = self.parents.get(parent) else { return Ok(found) };
        let page = IndexPage::parse(pages.page(number)?, number)?;
        position(self.index_id, 1, &self.parents, parent).check(&page)?;
        children(&page, layout, &mut Scratch::default(), &mut found)?;
        Ok(found)
    }
}

fn position(index_id: u64, level: u16, numbers: &[u32], place: usize) -> PagePosition {
    let at = |place: Option<usize>| place.and_then(|place| numbers.get(place)).copied().unwrap_or(NO_PAGE);
    PagePosition { index_id, level, previous: at(place.checked_sub(1)), next: at(place.checked_add(1)) }
}

/// Appends the children of a page above the leaves.
fn children(
    page: &IndexPage<'_>,
    layout: &Layout,
    scratch: &mut Scratch,
    out: &mut Vec<u32>,
) -> Result<(), Error> {
    page.chain(&mut scratch.origins)?;
    if scratch.origins.is_empty() {
        return Err(corrupt(page.number, DATA, "a page above the leaves leads nowhere"));
    }
    let leftmost = page.previous() == NO_PAGE;
    for (place, &origin) in scratch.origins.iter().enumerate() {
        let origin = usize::from(origin);
        let header = RecordHeader::at(page.bytes, origin);
        if header.status() != Some(Status::NodePointer) || header.least != (leftmost && place == 0) {
            return Err(corrupt(
                page.number,
                origin,
                "a record above the leaves is not marked as it should be",
            ));
        }
        let extent = layout.parse(page, header, origin, &mut scratch.places)?;
        out.push(child(page.bytes, extent));
    }
    Ok(())
}
