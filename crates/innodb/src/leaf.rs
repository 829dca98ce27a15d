//! The rows of a leaf page, including remains of deleted ones.

use crate::Error;
use crate::index_page::{HEAP, IndexPage, RecordHeader, Status};
use crate::page::{DATA, corrupt};
use crate::record::{Extent, FieldPosition, FieldValue, Layout};
use crate::tree::Scratch;

/// A row in a page.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Whether it is deleted but not purged yet.
    pub deleted: bool,
    /// Where it is.
    pub extent: Extent,
    page: &'a IndexPage<'a>,
    layout: &'a Layout,
    places: &'a [FieldPosition],
}

impl Row<'_> {
    /// Where its fields are.
    pub(crate) fn places(&self) -> &[FieldPosition] {
        self.places
    }

    /// The bytes of a field; NULL for a field that does not exist.
    #[inline]
    #[must_use]
    pub fn stored(&self, field: usize) -> FieldValue<'_> {
        let place = self.places.get(field).copied().unwrap_or(FieldPosition::Null);
        self.layout.stored(self.page.bytes, field, place)
    }
}

/// Passes all rows of a leaf, in the order of keys and including deleted ones, to `row`. Meanwhile it checks
/// the page: its chain, its directory, and that its records have the length that the page says.
///
/// # Errors
/// [`Error::Corrupt`], and errors of `row`. The rows before the error were already passed on.
pub fn rows<E: From<Error>>(
    page: &IndexPage<'_>,
    layout: &Layout,
    scratch: &mut Scratch,
    row: impl FnMut(&Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if page.level != 0 {
        return Err(corrupt(page.number, DATA + 26, "a page above the leaves is among them").into());
    }
    page.chain(&mut scratch.origins)?;
    listed(page, layout, scratch, row)
}

/// The same when the chain was followed and checked: the records are in `scratch`.
#[inline]
pub(crate) fn listed<E: From<Error>>(
    page: &IndexPage<'_>,
    layout: &Layout,
    scratch: &mut Scratch,
    mut row: impl FnMut(&Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut bytes = 0;
    for (place, &origin) in scratch.origins.iter().enumerate() {
        let origin = usize::from(origin);
        let header = RecordHeader::at(page.bytes, origin);
        let extent = layout.parse(page, header, origin, &mut scratch.places)?;
        bytes += extent.end - extent.start;
        if header.is_metadata() && place == 0 {
            continue;
        }
        if header.status() == Some(Status::NodePointer) || header.least {
            return Err(corrupt(page.number, origin, "a record among rows is none").into());
        }
        let places = &scratch.places;
        row(&Row { deleted: header.deleted, extent, page, layout, places })?;
    }
    let expected = page.heap_top - HEAP - page.garbage;
    if bytes != expected {
        let what = format!(
            "by the definition its records take {bytes} bytes, by the page {expected}; is the definition that \
             of this table?"
        );
        return Err(corrupt(page.number, DATA + 2, what).into());
    }
    Ok(())
}

/// Passes what can be recognised in a leaf's list of free records to `row`. Purge fills the fields of freed
/// records with zeros, and these are left out; records that a page split moved away are still complete.
pub fn freed(page: &IndexPage<'_>, layout: &Layout, scratch: &mut Scratch, mut row: impl FnMut(&Row<'_>)) {
    page.free_list(&mut scratch.origins);
    for &origin in &scratch.origins {
        let origin = usize::from(origin);
        let header = RecordHeader::at(page.bytes, origin);
        if header.status() == Some(Status::NodePointer) || header.least {
            continue;
        }
        let Ok(extent) = layout.parse(page, header, origin, &mut scratch.places) else { continue };
        if page.bytes[extent.origin..extent.end].iter().any(|&byte| byte != 0) {
            row(&Row { deleted: header.deleted, extent, page, layout, places: &scratch.places });
        }
    }
}
