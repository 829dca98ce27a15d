//! Instant ALTER TABLE: columns that were added, dropped or moved instantly, as the metadata record of the
//! clustered index describes them.
//!
//! A definition of MySQL says all of that itself.
//!
//! Facts: `btr_cur_instant_init_low()` and `dict_table_t::deserialise_columns()` of MariaDB's source.

use crate::Error;
use crate::index_page::{IndexPage, RecordHeader, Status};
use crate::off_page::Reference;
use crate::page::{DATA, NO_PAGE, Page, Pages, corrupt, u16_at, u32_at};
use crate::record::{FieldPosition, FieldValue, Layout, SYSTEM_BYTES, SYSTEM_FIELDS, child};
use crate::table::{Field, Generated, Length, Table};
use crate::tree::Scratch;

/// The most bytes of a list of fields: their number, and two for each.
const FIELDS_BYTES_MAX: u32 = 4 + 2 * 1023;
/// A field of a dropped column.
const DROPPED: u16 = 0x8000;
/// It could not be NULL.
const NOT_NULL: u16 = 0x4000;
/// The column, or the length of a dropped column's fields.
const NUMBER: u16 = 0x03FF;

/// The layout of a table's rows in its file; the root of the clustered index is page `root`.
///
/// # Errors
/// [`Error::Corrupt`] when the file's instant changes contradict the definition; errors of the pages.
pub fn layout<P: Pages>(table: &Table, root: u32, space_id: u32, pages: &mut P) -> Result<Layout, P::Error> {
    let index = table.clustered();
    let page = IndexPage::parse(pages.page(root)?, root)?;
    if let Some(stored) = table.stored() {
        let core = stored.core_fields(space_id);
        if !(index.key_fields + SYSTEM_FIELDS..=stored.fields.len()).contains(&core) {
            return Err(corrupt(root, DATA, "the table's definition contradicts itself").into());
        }
        return Ok(Layout::versioned(stored, index.key_fields, core));
    }
    let Some(core) = page.instant_fields().map(usize::from) else { return Ok(Layout::new(index)) };
    let first_user = index.key_fields + SYSTEM_FIELDS;
    if core < first_user {
        return Err(
            corrupt(root, DATA + 12, format!("rows of {core} fields, fewer than their key has")).into()
        );
    }
    let leaf = leftmost(table, root, pages)?;
    let page = *pages.page(leaf)?;
    let page = IndexPage::parse(&page, leaf)?;
    let mut scratch = Scratch::default();
    let first = first_record(&page, &mut scratch)?;
    let Some((origin, header)) = first.filter(|(_, header)| header.is_metadata()) else {
        // The server was killed before the change was complete.
        return Ok(Layout::new(index));
    };
    let mut fields = index.fields.clone();
    if header.deleted {
        let fixed: usize = fields[..index.key_fields]
            .iter()
            .map(|field| match field.length {
                Length::Fixed(bytes) => usize::from(bytes),
                // Such fields are empty in this record.
                Length::Variable { .. } => 0,
            })
            .sum();
        let map = map(&page, origin + fixed + SYSTEM_BYTES, space_id, pages)?;
        fields = mapped(table, &map, leaf, origin)?;
    }
    if core > fields.len() {
        let what = format!(
            "rows of {core} fields, but the definition has {}: is it that of this table?",
            fields.len()
        );
        return Err(corrupt(root, DATA + 12, what).into());
    }
    let mut layout = Layout::of(fields, index.key_fields, core);
    layout.parse(&page, header, origin, &mut scratch.places)?;
    let defaults = defaults(&layout, page.bytes, &scratch.places, space_id, pages)?;
    layout.set_defaults(defaults);
    Ok(layout)
}

/// The first leaf. It is not known yet how many bytes of NULL bits the records above the leaves have: it is
/// the number with which the first record leads to a first page of the level below.
fn leftmost<P: Pages>(table: &Table, root: u32, pages: &mut P) -> Result<u32, P::Error> {
    let index = table.clustered();
    let mut number = root;
    let mut scratch = Scratch::default();
    loop {
        let bytes = *pages.page(number)?;
        let page = IndexPage::parse(&bytes, number)?;
        if page.level == 0 {
            return Ok(number);
        }
        let first = first_record(&page, &mut scratch)?;
        let Some((origin, header)) = first.filter(|(_, header)| header.status() == Some(Status::NodePointer))
        else {
            return Err(corrupt(number, DATA, "a page above the leaves leads nowhere").into());
        };
        let (mut found, mut fault) = (None, None);
        // The bits of eight fields take a byte.
        for count in (0..=index.fields.len().next_multiple_of(8)).step_by(8) {
            let key = index.fields[..index.key_fields].iter().copied();
            let fields: Vec<_> = key.chain(nullable(count)).collect();
            let count = fields.len();
            let layout = Layout::of(fields, index.key_fields, count);
            let Ok(extent) = layout.parse(&page, header, origin, &mut scratch.places) else { continue };
            let below = child(page.bytes, extent);
            if below >= pages.count() {
                continue;
            }
            match pages.page(below) {
                Ok(bytes) if is_first(bytes, below, &page) => {
                    found = Some(below);
                    break;
                }
                Ok(_) => {}
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        number = found.ok_or_else(|| {
            let what = "the first record does not lead to the first page below";
            fault.unwrap_or_else(|| corrupt(number, origin, what).into())
        })?;
    }
}

/// Where the first record of a page is, if there is one, and its header. The chain of records is checked.
fn first_record(page: &IndexPage<'_>, scratch: &mut Scratch) -> Result<Option<(usize, RecordHeader)>, Error> {
    page.chain(&mut scratch.origins)?;
    let origin = scratch.origins.first().map(|&origin| usize::from(origin));
    Ok(origin.map(|origin| (origin, RecordHeader::at(page.bytes, origin))))
}

fn is_first(bytes: &Page, number: u32, above: &IndexPage<'_>) -> bool {
    IndexPage::parse(bytes, number).is_ok_and(|page| {
        page.previous() == NO_PAGE
            && page.index_id == above.index_id
            && above.level.checked_sub(1) == Some(page.level)
    })
}

/// This many fields that may be NULL and have no bytes.
fn nullable(count: usize) -> impl Iterator<Item = Field> {
    let field =
        Field { column: None, nullable: true, length: Length::Fixed(0), prefix: None, descending: false };
    std::iter::repeat_n(field, count)
}

/// The list of all fields after the key, to which the first record leads.
fn map<P: Pages>(
    page: &IndexPage<'_>,
    at: usize,
    space_id: u32,
    pages: &mut P,
) -> Result<Vec<u16>, P::Error> {
    let bad = |what: &str| P::Error::from(corrupt(page.number, at, what));
    let reference = page.bytes.get(at..).and_then(|rest| rest.first_chunk());
    let reference = Reference::parse(reference.ok_or_else(|| bad("the list of fields is behind the page"))?);
    if reference.len > FIELDS_BYTES_MAX {
        return Err(bad("the list of fields is too long"));
    }
    let mut bytes = Vec::new();
    reference.read(space_id, pages, &mut bytes)?;
    let (pairs, rest) = bytes.get(4..).unwrap_or_default().as_chunks();
    if bytes.len() < 4 || u32_at(&bytes, 0) as usize != pairs.len() || !rest.is_empty() {
        return Err(bad("the list of fields is not as long as it says"));
    }
    Ok(pairs.iter().map(|pair: &[u8; 2]| u16_at(pair, 0)).collect())
}

/// All fields in the order of the file.
fn mapped(table: &Table, map: &[u16], page: u32, at: usize) -> Result<Vec<Field>, Error> {
    let index = table.clustered();
    let stored: Vec<usize> = (0..table.columns().len())
        .filter(|&column| table.columns()[column].generated != Generated::Virtual)
        .collect();
    let (key, user) = index.fields.split_at(index.key_fields + SYSTEM_FIELDS);
    let mut fields = key.to_vec();
    for &entry in map {
        let number = entry & NUMBER;
        if entry & DROPPED != 0 {
            let length = match number {
                0 => Length::Variable { max: 255, external: false },
                1 => Length::Variable { max: 65_535, external: true },
                bytes => Length::Fixed(bytes - 1),
            };
            let nullable = entry & NOT_NULL == 0;
            fields.push(Field { column: None, nullable, length, prefix: None, descending: false });
            continue;
        }
        let column = stored.get(usize::from(number));
        let field = user.iter().find(|field| field.column.is_some() && field.column.as_ref() == column);
        let Some(field) = field else {
            let what = format!(
                "the file has a column {number} that the definition has not: is it that of this table?"
            );
            return Err(corrupt(page, at, what));
        };
        fields.push(*field);
    }
    if user.iter().any(|field| !fields.iter().skip(key.len()).any(|known| known.column == field.column)) {
        return Err(corrupt(
            page,
            at,
            "the definition has a column that the file has not: is it that of this table?",
        ));
    }
    Ok(fields)
}

/// The values of fields that a record leaves out at its end.
fn defaults<P: Pages>(
    layout: &Layout,
    page: &Page,
    places: &[FieldPosition],
    space_id: u32,
    pages: &mut P,
) -> Result<Vec<Option<Vec<u8>>>, P::Error> {
    // Every record has the fields before them.
    let mut defaults = vec![None; layout.core_fields()];
    for (field, &place) in places.iter().enumerate().skip(layout.core_fields()) {
        defaults.push(match layout.stored(page, field, place) {
            FieldValue::Null => None,
            FieldValue::Whole(bytes) => Some(bytes.to_vec()),
            FieldValue::External(local, reference) => {
                let mut bytes = local.to_vec();
                Reference::parse(reference).read(space_id, pages, &mut bytes)?;
                Some(bytes)
            }
        });
    }
    Ok(defaults)
}

#[cfg(test)]
mod tests {
    use super::{DROPPED, NOT_NULL, mapped};
    use crate::table::{Length, Version, sql};

    /// `dict_table_t::deserialise_columns()`
    #[test]
    fn fields_of_dropped_columns_have_lengths() {
        let text =
            "CREATE TABLE t (a INT NOT NULL, b INT, PRIMARY KEY (a)) ENGINE=InnoDB DEFAULT CHARSET=latin1";
        let table = sql::parse(text, Version(110_806)).unwrap();
        for (entry, length, nullable) in [
            (DROPPED, Length::Variable { max: 255, external: false }, true),
            (DROPPED | 1, Length::Variable { max: 65_535, external: true }, true),
            (DROPPED | 2, Length::Fixed(1), true),
            (DROPPED | NOT_NULL | 5, Length::Fixed(4), false),
        ] {
            // The second column of the table is behind it.
            let fields = mapped(&table, &[entry, 1], 3, 0).unwrap();
            let plain = &table.clustered().fields;
            assert_eq!((&fields[..3], fields[4]), (&plain[..3], plain[3]));
            assert_eq!((fields[3].column, fields[3].length, fields[3].nullable), (None, length, nullable));
        }
        for (map, what) in [(&[DROPPED][..], "has a column that the file has not"), (&[1, 2], "a column 2")] {
            let error = mapped(&table, map, 3, 0).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
