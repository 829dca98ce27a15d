//! The rows of a leaf, those that are left of deleted ones too.

use crate::Error;
use crate::index::{HEAP, IndexPage, RecordHeader, Status};
use crate::page::{DATA, corrupt};
use crate::record::{Extent, Layout, Place, Stored};
use crate::tree::Scratch;

/// A row in a page.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Whether it is deleted, and only not yet purged.
    pub deleted: bool,
    /// Where it is.
    pub extent: Extent,
    page: &'a IndexPage<'a>,
    layout: &'a Layout,
    places: &'a [Place],
}

impl Row<'_> {
    /// The bytes of a field; NULL for one that there is not.
    #[inline]
    #[must_use]
    pub fn stored(&self, field: usize) -> Stored<'_> {
        let place = self.places.get(field).copied().unwrap_or(Place::Null);
        self.layout.stored(self.page.bytes, field, place)
    }
}

/// Gives all rows of a leaf to `row`, in the order of keys, deleted ones too. The page is proven on the way:
/// its chain, its directory, and that its records are as long as the page says.
///
/// # Errors
/// [`Error::Corrupt`], and those of `row`. Rows before the fault were given then.
pub fn rows<E: From<Error>>(
    page: &IndexPage<'_>,
    layout: &Layout,
    scratch: &mut Scratch,
    mut row: impl FnMut(&Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if page.level != 0 {
        return Err(corrupt(page.number, DATA + 26, "a page above the leaves is among them").into());
    }
    page.chain(&mut scratch.origins)?;
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

/// Gives what can be made out on a leaf's list of free records to `row`. Purge fills the fields of what it
/// frees with zeros, which is left out; what a split of the page moved away is still whole.
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
