//! The proof of single pages: their records, and the values outside of them.

use super::{Branch, Pointer, Proof};
use crate::Error;
use crate::chain::{self, REFERENCE_BYTES, Reference};
use crate::index::{ENDS, HEAP, INFIMUM, IndexPage, RECORD_HEADER_BYTES, RecordHeader, SUPREMUM, Status};
use crate::leaf::{self, Row as Found};
use crate::order::misplaced;
use crate::page::{DATA, NO_PAGE, Page, Pages, corrupt, u32_at};
use crate::record::{Extent, Stored, child};
use crate::tree::{Scratch, Seat};
use crate::write::{Shape, record};

impl Proof<'_> {
    /// Proves a page of a tree; appends the pages below it.
    pub(super) fn page<P: Pages>(
        &mut self,
        branch: &mut Branch<'_>,
        (level, numbers, place): (u16, &[(u32, Option<Pointer>)], usize),
        below: &mut Vec<(u32, Option<Pointer>)>,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        let Some((number, pointer)) = numbers.get(place) else { return Ok(()) };
        let neighbour = |place: usize| numbers.get(place).map_or(NO_PAGE, |page| page.0);
        let seat = Seat {
            index_id: branch.root.index_id,
            level,
            previous: place.checked_sub(1).map_or(NO_PAGE, neighbour),
            next: neighbour(place + 1),
        };
        let is_inner = level > 0 || *number == branch.root.page;
        self.own_in(*number, &mut branch.segments[usize::from(is_inner)], pages)?;
        let page = *pages.page(*number)?;
        let page = IndexPage::parse(&page, *number)?;
        seat.check(&page)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        page.chain(&mut scratch.origins)?;
        plain(&page, &scratch.origins)?;
        let proven = if level == 0 {
            self.leaf(branch, (&page, &mut scratch), pointer.as_ref(), pages)
        } else {
            inner(branch.shape, (&page, &mut scratch), pointer.as_ref(), below).map_err(P::Error::from)
        };
        self.scratch = scratch;
        proven
    }

    /// Proves the entries of a leaf.
    fn leaf<P: Pages>(
        &mut self,
        branch: &mut Branch<'_>,
        (page, scratch): (&IndexPage<'_>, &mut Scratch),
        pointer: Option<&Pointer>,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        let shape = branch.shape;
        let mut is_first = true;
        if page.records == 0 && pointer.is_some() {
            return Err(corrupt(page.number, DATA, "an empty page below another").into());
        }
        leaf::listed(page, shape.layout(), scratch, |row| -> Result<(), P::Error> {
            let at = row.extent.origin;
            let bytes = &page.bytes[row.extent.start..row.extent.end];
            if std::mem::take(&mut is_first) {
                let own = shape.pointer(bytes, at - row.extent.start);
                proves_first(pointer, &split(&own.bytes, own.origin), page.number)?;
            }
            if row.deleted {
                return Err(corrupt(page.number, at, "a row is deleted").into());
            }
            branch.content.records += 1;
            self.in_order(branch, row, page.number)?;
            let hash = if shape.is_clustered() {
                self.row(branch, page, row, pages)?
            } else {
                record::hash(bytes, at - row.extent.start)
            };
            branch.content.sum = branch.content.sum.wrapping_add(hash);
            Ok(())
        })
    }

    /// Proves that a key comes after the last one.
    fn in_order(&mut self, branch: &mut Branch<'_>, row: &Found<'_>, page: u32) -> Result<(), Error> {
        let shape = branch.shape;
        let Some(order) = shape.order() else { return Ok(()) };
        let key = &mut self.record.key;
        key.clear();
        let (mut unique, mut has_null) = (0, false);
        for field in 0..shape.layout().key_fields() {
            let value = match row.stored(field) {
                Stored::Null => None,
                Stored::Whole(value) | Stored::Parted(value, _) => Some(value),
            };
            has_null |= value.is_none();
            order.append(field, value, key);
            if field + 1 == shape.unique_fields() && !has_null {
                unique = key.len();
            }
        }
        if branch.first.is_none() {
            branch.first = Some((key.clone(), unique));
        } else if misplaced(&branch.last, key, unique).is_some() {
            return Err(corrupt(page, row.extent.origin, "an entry does not follow the one before it"));
        }
        std::mem::swap(&mut branch.last, key);
        Ok(())
    }

    /// Adds a row to the sums of the other indexes, and returns its hash together with that of its record.
    fn row<P: Pages>(
        &mut self,
        branch: &mut Branch<'_>,
        page: &IndexPage<'_>,
        found: &Found<'_>,
        pages: &mut P,
    ) -> Result<u64, P::Error> {
        let shape = branch.shape;
        let straight = shape.straight().and_then(|one| one.hash_in(page.bytes, found.extent, found.places()));
        let straight = straight.transpose().map_err(|()| {
            corrupt(page.number, found.extent.origin, "a row does not look as if it was just inserted")
        })?;
        if let Some(hash) = straight.filter(|_| self.claim.shapes.len() == 1) {
            return Ok(hash);
        }
        let fields = shape.layout().fields();
        let mut row = std::mem::take(&mut self.row);
        let mut record = std::mem::take(&mut self.record);
        let mut is_away = false;
        row.clear();
        for at in 0..self.places.len() {
            // If the row is known by its hash, the other indexes still need their columns.
            let places = if straight.is_some() { &self.keyed } else { &self.places };
            let field = places.get(at).copied().flatten();
            match field.map_or(Stored::Null, |field| found.stored(field)) {
                Stored::Null => row.push(None),
                Stored::Whole(value) => row.push(Some(value)),
                Stored::Parted(local, reference) => {
                    self.long.clear();
                    self.long.extend_from_slice(local);
                    self.away(branch, reference, pages)?;
                    row.push(Some(&self.long));
                    is_away = true;
                }
            }
        }
        let row_id = match (fields.first(), found.stored(0)) {
            (Some(field), Stored::Whole(id)) if field.column.is_none() => crate::value::number(id),
            _ => 0,
        };
        let hash = if let Some(hash) = straight {
            hash
        } else if is_away {
            // The record as it was before its values had pages.
            shape.record(&row, row_id, &mut record)?;
            if !record.is_as(page, found.extent) {
                return Err(
                    corrupt(page.number, found.extent.origin, "a row is not as it was written").into()
                );
            }
            record::joint(&row, record.hash())
        } else {
            let start = found.extent.start;
            let own = record::hash(&page.bytes[start..found.extent.end], found.extent.origin - start);
            record::joint(&row, own)
        };
        for (shape, content) in self.claim.shapes.iter().zip(&mut self.sums).skip(1) {
            shape.record(&row, row_id, &mut record)?;
            content.records += 1;
            content.sum = content.sum.wrapping_add(record.hash());
        }
        self.record = record;
        self.row = row;
        Ok(hash)
    }

    /// Reads the rest of a value, and finds its pages.
    fn away<P: Pages>(
        &mut self,
        branch: &mut Branch<'_>,
        reference: &[u8; REFERENCE_BYTES],
        pages: &mut P,
    ) -> Result<(), P::Error> {
        let reference = Reference::parse(reference);
        reference.read(self.claim.plan.space_id, pages, &mut self.long)?;
        let mut number = reference.page;
        // It was read to its end, so the chain ends.
        for _ in 0..(reference.len as usize).div_ceil(chain::PART_BYTES_MAX) {
            self.own_in(number, &mut branch.segments[0], pages)?;
            number = u32_at(pages.page(number)?, DATA + 4);
        }
        if number == NO_PAGE {
            return Ok(());
        }
        Err(corrupt(reference.page, DATA + 4, "the pages of a value go on behind it").into())
    }
}

/// Appends the child pages of a page above the leaves, each with the node pointer to it.
fn inner(
    shape: &Shape,
    (page, scratch): (&IndexPage<'_>, &mut Scratch),
    pointer: Option<&Pointer>,
    below: &mut Vec<(u32, Option<Pointer>)>,
) -> Result<(), Error> {
    let mut bytes = 0;
    for (place, &origin) in scratch.origins.iter().enumerate() {
        let origin = usize::from(origin);
        let header = RecordHeader::at(page.bytes, origin);
        if header.status() != Some(Status::NodePointer)
            || header.least != (place == 0 && page.previous() == NO_PAGE)
        {
            return Err(corrupt(
                page.number,
                origin,
                "a record above the leaves is not marked as it should be",
            ));
        }
        let extent = shape.layout().parse(page, header, origin, &mut scratch.places)?;
        bytes += extent.end - extent.start;
        let own = of_record(page.bytes, extent);
        if place == 0 {
            proves_first(pointer, &own, page.number)?;
        }
        below.push((child(page.bytes, extent), Some(own)));
    }
    if bytes == page.heap_top - HEAP {
        return Ok(());
    }
    Err(corrupt(page.number, DATA + 2, "its records take more or fewer bytes than the page says"))
}

/// Proves that a page looks freshly filled: it has no free records, and no record is deleted.
fn plain(page: &IndexPage<'_>, origins: &[u16]) -> Result<(), Error> {
    if page.free != 0 || page.garbage != 0 || page.records + 2 != page.heap_records {
        return Err(corrupt(page.number, DATA + 6, "the page has room of records that are gone"));
    }
    let ends = [(INFIMUM - RECORD_HEADER_BYTES, 3), (INFIMUM, 8), (SUPREMUM - 4, 12)];
    if ends
        .iter()
        .any(|&(at, len)| page.bytes[at..at + len] != ENDS[at + RECORD_HEADER_BYTES - INFIMUM..][..len])
    {
        return Err(corrupt(
            page.number,
            INFIMUM,
            "the records at the page's ends are not what they always are",
        ));
    }
    let odd = |origin: usize| {
        // The first record of a level above the leaves is marked as the minimum.
        let marks = if origin == SUPREMUM { 0xF0 } else { 0xE0 };
        page.bytes[origin - RECORD_HEADER_BYTES] & marks != 0
    };
    match origins.iter().copied().map(usize::from).chain([SUPREMUM]).find(|&origin| odd(origin)) {
        Some(origin) => Err(corrupt(page.number, origin, "a record with a mark that no new one has")),
        None => Ok(()),
    }
}

/// Proves that a page begins with the key of its node pointer.
fn proves_first(pointer: Option<&Pointer>, own: &Pointer, page: u32) -> Result<(), Error> {
    if pointer.is_none_or(|pointer| pointer == own) {
        return Ok(());
    }
    Err(corrupt(page, DATA, "the page does not begin with the key that leads to it"))
}

fn of_record(page: &Page, extent: Extent) -> Pointer {
    let part = |from, to| page.get(from..to).unwrap_or_default().to_vec();
    (part(extent.start, extent.origin - RECORD_HEADER_BYTES), part(extent.origin, extent.end - 4))
}

fn split(bytes: &[u8], origin: usize) -> Pointer {
    let part = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
    (part(bytes.get(..origin.saturating_sub(RECORD_HEADER_BYTES))), part(bytes.get(origin..)))
}
