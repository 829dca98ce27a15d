//! Verifies single pages: their records, and the values outside of them.

use super::{Pointer, TreeCheck, TreeLevel, Verifier};
use crate::Error;
use crate::index_page::{
    ENDS, HEAP, INFIMUM, IndexPage, RECORD_HEADER_BYTES, RecordHeader, SUPREMUM, Status,
};
use crate::key_order::misplaced;
use crate::leaf::{self, Row as Found};
use crate::off_page::{self, REFERENCE_BYTES, Reference};
use crate::page::{DATA, NO_PAGE, Page, Pages, corrupt, u32_at};
use crate::record::{Extent, FieldValue, child};
use crate::tree::{PagePosition, Scratch};
use crate::write::{RecordBuilder, record};

impl Verifier<'_> {
    /// Verifies the page at a place of its level. Returns the pages below it.
    pub(super) fn page<P: Pages>(
        &mut self,
        check: &mut TreeCheck<'_>,
        on: &TreeLevel<'_>,
        place: usize,
        pages: &mut P,
    ) -> Result<Vec<(u32, Option<Pointer>)>, P::Error> {
        let TreeLevel { level, pages: numbers } = *on;
        let Some((number, pointer)) = numbers.get(place) else { return Ok(Vec::new()) };
        let neighbour = |place: usize| numbers.get(place).map_or(NO_PAGE, |page| page.0);
        let position = PagePosition {
            index_id: check.root.index_id,
            level,
            previous: place.checked_sub(1).map_or(NO_PAGE, neighbour),
            next: neighbour(place + 1),
        };
        let is_inner = level > 0 || *number == check.root.page;
        self.own_in(*number, &mut check.segments[usize::from(is_inner)], pages)?;
        let page = *pages.page(*number)?;
        let page = IndexPage::parse(&page, *number)?;
        position.check(&page)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        page.chain(&mut scratch.origins)?;
        check_freshly_filled(&page, &scratch.origins)?;
        let mut below = Vec::new();
        let proven = if level == 0 {
            self.leaf(check, (&page, &mut scratch), pointer.as_ref(), pages)
        } else {
            inner(check.builder, (&page, &mut scratch), pointer.as_ref(), &mut below).map_err(P::Error::from)
        };
        self.scratch = scratch;
        proven.map(|()| below)
    }

    /// Verifies the entries of a leaf.
    fn leaf<P: Pages>(
        &mut self,
        check: &mut TreeCheck<'_>,
        (page, scratch): (&IndexPage<'_>, &mut Scratch),
        pointer: Option<&Pointer>,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        let builder = check.builder;
        let mut is_first = true;
        if page.records == 0 && pointer.is_some() {
            return Err(corrupt(page.number, DATA, "an empty page below another").into());
        }
        leaf::listed(page, builder.layout(), scratch, |row| -> Result<(), P::Error> {
            let at = row.extent.origin;
            let bytes = &page.bytes[row.extent.start..row.extent.end];
            if std::mem::take(&mut is_first) {
                let own = builder.pointer(bytes, at - row.extent.start);
                check_first_key(pointer, &split(&own.bytes, own.origin), page.number)?;
            }
            if row.deleted {
                return Err(corrupt(page.number, at, "a row is deleted").into());
            }
            check.content.records += 1;
            self.in_order(check, row, page.number)?;
            let hash = if builder.is_clustered() {
                self.row(check, page, row, pages)?
            } else {
                record::hash(bytes, at - row.extent.start)
            };
            check.content.sum = check.content.sum.wrapping_add(hash);
            Ok(())
        })
    }

    /// Verifies that a key comes after the last one.
    fn in_order(&mut self, check: &mut TreeCheck<'_>, row: &Found<'_>, page: u32) -> Result<(), Error> {
        let builder = check.builder;
        let Some(order) = builder.order() else { return Ok(()) };
        let key = &mut self.record.key;
        key.clear();
        let (mut unique, mut has_null) = (0, false);
        for field in 0..builder.layout().key_fields() {
            let value = match row.stored(field) {
                FieldValue::Null => None,
                FieldValue::Whole(value) | FieldValue::External(value, _) => Some(value),
            };
            has_null |= value.is_none();
            order.append(field, value, key);
            if field + 1 == builder.unique_fields() && !has_null {
                unique = key.len();
            }
        }
        if check.first.is_none() {
            check.first = Some((key.clone(), unique));
        } else if misplaced(&check.last, key, unique).is_some() {
            return Err(corrupt(page, row.extent.origin, "an entry does not follow the one before it"));
        }
        std::mem::swap(&mut check.last, key);
        Ok(())
    }

    /// Adds a row to the sums of the other indexes, and returns its hash together with that of its record.
    fn row<P: Pages>(
        &mut self,
        check: &mut TreeCheck<'_>,
        page: &IndexPage<'_>,
        found: &Found<'_>,
        pages: &mut P,
    ) -> Result<u64, P::Error> {
        let builder = check.builder;
        let inline =
            builder.inline_format().and_then(|one| one.hash_in(page.bytes, found.extent, found.places()));
        let inline = inline.transpose().map_err(|()| {
            corrupt(page.number, found.extent.origin, "a row does not look as if it was just inserted")
        })?;
        if let Some(hash) = inline.filter(|_| self.expected.builders.len() == 1) {
            return Ok(hash);
        }
        let fields = builder.layout().fields();
        let mut row = std::mem::take(&mut self.row);
        let mut record = std::mem::take(&mut self.record);
        let mut is_off_page = false;
        row.clear();
        for at in 0..self.column_fields.len() {
            // If the row is known by its hash, the other indexes still need their columns.
            let places = if inline.is_some() { &self.keyed } else { &self.column_fields };
            let field = places.get(at).copied().flatten();
            match field.map_or(FieldValue::Null, |field| found.stored(field)) {
                FieldValue::Null => row.push(None),
                FieldValue::Whole(value) => row.push(Some(value)),
                FieldValue::External(local, reference) => {
                    self.long.clear();
                    self.long.extend_from_slice(local);
                    self.off_page_value(check, reference, pages)?;
                    row.push(Some(&self.long));
                    is_off_page = true;
                }
            }
        }
        let row_id = match (fields.first(), found.stored(0)) {
            (Some(field), FieldValue::Whole(id)) if field.column.is_none() => crate::value::number(id),
            _ => 0,
        };
        let hash = if let Some(hash) = inline {
            hash
        } else if is_off_page {
            // The record as it was before its values had pages.
            builder.record(&row, row_id, &mut record)?;
            if !record.matches_page(page, found.extent) {
                return Err(
                    corrupt(page.number, found.extent.origin, "a row is not as it was written").into()
                );
            }
            record::combined_hash(&row, record.hash())
        } else {
            let start = found.extent.start;
            let own = record::hash(&page.bytes[start..found.extent.end], found.extent.origin - start);
            record::combined_hash(&row, own)
        };
        for (builder, content) in self.expected.builders.iter().zip(&mut self.sums).skip(1) {
            builder.record(&row, row_id, &mut record)?;
            content.records += 1;
            content.sum = content.sum.wrapping_add(record.hash());
        }
        self.record = record;
        self.row = row;
        Ok(hash)
    }

    /// Reads the rest of a value, and finds its pages.
    fn off_page_value<P: Pages>(
        &mut self,
        check: &mut TreeCheck<'_>,
        reference: &[u8; REFERENCE_BYTES],
        pages: &mut P,
    ) -> Result<(), P::Error> {
        let reference = Reference::parse(reference);
        reference.read(self.expected.plan.space_id, pages, &mut self.long)?;
        let mut number = reference.page;
        // It was read to its end, so the chain ends.
        for _ in 0..(reference.len as usize).div_ceil(off_page::PART_BYTES_MAX) {
            self.own_in(number, &mut check.segments[0], pages)?;
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
    builder: &RecordBuilder,
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
        let extent = builder.layout().parse(page, header, origin, &mut scratch.places)?;
        bytes += extent.end - extent.start;
        let own = of_record(page.bytes, extent);
        if place == 0 {
            check_first_key(pointer, &own, page.number)?;
        }
        below.push((child(page.bytes, extent), Some(own)));
    }
    if bytes == page.heap_top - HEAP {
        return Ok(());
    }
    Err(corrupt(page.number, DATA + 2, "its records take more or fewer bytes than the page says"))
}

/// Verifies that a page is freshly filled: it has no free records, and no record is deleted.
fn check_freshly_filled(page: &IndexPage<'_>, origins: &[u16]) -> Result<(), Error> {
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

/// Verifies that a page begins with the key of its node pointer.
fn check_first_key(pointer: Option<&Pointer>, own: &Pointer, page: u32) -> Result<(), Error> {
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
