//! Records of COMPACT and DYNAMIC tables: where each field is.
//!
//! Facts: `rem0rec.cc` of MariaDB's source, `rec_init_offsets_comp_ordinary()`. Before a record's origin are
//! its header and, read backwards, how many fields were added instantly, a bit for each field that may be
//! NULL, and the lengths of variable fields; after the origin are the fields.

use crate::Error;
use crate::index_page::{HEAP, IndexPage, RECORD_HEADER_BYTES, RecordHeader, Status};
use crate::off_page::REFERENCE_BYTES;
use crate::page::{Page, corrupt, u32_at};
use crate::table::{Field, Index, Length, Stored};

/// The most fields of a row.
const FIELDS_MAX: usize = 1023 + 3;
/// Bytes of DB_TRX_ID and DB_ROLL_PTR, and their number.
pub(crate) const SYSTEM_BYTES: usize = 6 + 7;
pub(crate) const SYSTEM_FIELDS: usize = 2;

/// The layout of an index's records.
#[derive(Clone, Debug)]
pub struct Layout {
    fields: Vec<Field>,
    key_fields: usize,
    /// Number of fields in a record that does not give the number itself.
    core_fields: usize,
    /// For each field how many fields before it may be NULL; one entry more than fields.
    nullable_before: Vec<u16>,
    /// For each field the value that it has in records without it. NULL or bytes; none is NULL.
    defaults: Vec<Option<Vec<u8>>>,
    /// Which fields a record has, by the version of the table that it was written for (MySQL).
    versions: Vec<VersionFields>,
}

/// The fields of a record that was written for one version of the table.
#[derive(Clone, Debug)]
struct VersionFields {
    is_there: Vec<bool>,
    null_bytes: usize,
}

/// What a record has.
struct Head<'a> {
    /// The number of fields, from the first.
    fields: usize,
    /// Those of them that it has, if not all.
    is_there: Option<&'a [bool]>,
    null_bytes: usize,
    /// Whether it describes instant changes.
    blob: bool,
}

/// Where a field's bytes are in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPosition {
    /// It is NULL.
    Null,
    /// Not in the record: it has the default that its column was added with (instant ADD COLUMN).
    Default,
    /// The whole value is in the record.
    Inline {
        /// Its first byte in the page.
        at: u16,
        /// Its bytes.
        len: u16,
    },
    /// The value is off-page. The record has a prefix, which may be empty, and then a reference of 20 bytes.
    External {
        /// Its first byte in the page.
        at: u16,
        /// Its bytes.
        len: u16,
    },
}

/// The bytes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// It is NULL.
    Null,
    /// The whole value.
    Whole(&'a [u8]),
    /// The prefix that is in the record, and the reference to the rest.
    External(&'a [u8], &'a [u8; REFERENCE_BYTES]),
}

/// The bytes of a page that a record takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first one.
    pub start: usize,
    /// Where its fields begin.
    pub origin: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Layout {
    /// The layout of an index whose records all have all fields.
    #[must_use]
    pub fn new(index: &Index) -> Layout {
        Layout::of(index.fields.clone(), index.key_fields, index.fields.len())
    }

    /// The same when records without a number of fields have only the first `core_fields`.
    pub(crate) fn of(fields: Vec<Field>, key_fields: usize, core_fields: usize) -> Layout {
        let mut nullable_before = vec![0];
        let mut count = 0;
        for field in &fields {
            count += u16::from(field.nullable);
            nullable_before.push(count);
        }
        let (defaults, versions) = (Vec::new(), Vec::new());
        Layout { fields, key_fields, core_fields, nullable_before, defaults, versions }
    }

    /// The layout of the rows of a table of MySQL 8 and later. Records without a version have the first
    /// `core_fields`.
    pub(crate) fn versioned(stored: &Stored, key_fields: usize, core_fields: usize) -> Layout {
        let fields = stored.fields.iter().map(|field| field.field).collect();
        let mut layout = Layout::of(fields, key_fields, core_fields);
        layout.defaults = stored.fields.iter().map(|field| field.default.clone()).collect();
        let last = stored.fields.iter().map(|field| field.added.max(field.dropped.unwrap_or(0))).max();
        // A table of an older server that has added fields has version 0, too.
        layout.versions = (0..=last.unwrap_or(0))
            .map(|version| stored.fields_of(version))
            .map(|is_there| {
                let nullable =
                    is_there.iter().zip(&layout.fields).filter(|(is, field)| **is && field.nullable);
                let null_bytes = nullable.count().div_ceil(8);
                VersionFields { is_there, null_bytes }
            })
            .collect();
        layout
    }

    /// Sets the value of each field in records without it.
    pub(crate) fn set_defaults(&mut self, defaults: Vec<Option<Vec<u8>>>) {
        self.defaults = defaults;
    }

    /// The fields in the order in which they are stored. A field without a column belongs to the system, or
    /// to a dropped column.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// How many of them, from the first, are in the pages above the leaves.
    #[must_use]
    pub fn key_fields(&self) -> usize {
        self.key_fields
    }

    /// Number of fields in a record that does not give the number itself.
    pub(crate) fn core_fields(&self) -> usize {
        self.core_fields
    }

    /// The bytes that say which fields are NULL in a record with all fields, and in all node pointers.
    pub(crate) fn leaf_null_bytes(&self) -> usize {
        self.null_bytes(self.core_fields)
    }

    fn null_bytes(&self, fields: usize) -> usize {
        usize::from(self.nullable_before.get(fields).copied().unwrap_or(0)).div_ceil(8)
    }

    /// Finds the fields of the record at `origin`, whose header is `header`: a place for each field of this
    /// layout, or, in a node pointer, of its key.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is outside of the page's heap.
    pub fn parse(
        &self,
        page: &IndexPage<'_>,
        header: RecordHeader,
        origin: usize,
        places: &mut Vec<FieldPosition>,
    ) -> Result<Extent, Error> {
        places.clear();
        let mut backward =
            BackwardReader { page: page.bytes, at: origin.saturating_sub(RECORD_HEADER_BYTES) };
        let mut end = origin;
        let Head { fields, is_there, null_bytes, blob } = self.head(page, header, origin, &mut backward)?;
        let mut nulls = BackwardReader { page: page.bytes, at: backward.at };
        backward.at = backward.at.saturating_sub(null_bytes);
        let (mut bits, mut bit) = (0, 8);
        for (number, field) in self.fields.iter().enumerate().take(fields) {
            if is_there.is_some_and(|is_there| is_there.get(number) != Some(&true)) {
                places.push(FieldPosition::Default);
                continue;
            }
            if blob && number == self.key_fields + SYSTEM_FIELDS {
                end += REFERENCE_BYTES;
            }
            if field.nullable {
                if bit == 8 {
                    (bits, bit) = (nulls.byte(), 0);
                }
                bit += 1;
                if bits >> (bit - 1) & 1 != 0 {
                    places.push(FieldPosition::Null);
                    continue;
                }
            }
            let (len, is_external) = match field.length {
                Length::Fixed(bytes) => (usize::from(bytes), false),
                Length::Variable { external, .. } => backward.length(external),
            };
            let (at16, len16) = (u16::try_from(end).unwrap_or(u16::MAX), u16::try_from(len).unwrap_or(0));
            end += len;
            if is_external && len < REFERENCE_BYTES {
                return Err(corrupt(
                    page.number,
                    origin,
                    format!("field {number} is too short for where its rest is"),
                ));
            }
            places.push(match is_external {
                false => FieldPosition::Inline { at: at16, len: len16 },
                true => FieldPosition::External { at: at16, len: len16 },
            });
        }
        if header.status() == Some(Status::NodePointer) {
            end += 4;
        } else {
            places.resize(self.fields.len(), FieldPosition::Default);
        }
        if backward.at < HEAP || end > page.heap_top {
            return Err(corrupt(
                page.number,
                origin,
                "a record does not fit into its page; is the definition that of this table?",
            ));
        }
        Ok(Extent { start: backward.at, origin, end })
    }

    /// What a record has. MySQL puts the number of fields, or a version of the table, before the NULL bits,
    /// and says so in the header; MariaDB has a kind of record for it.
    #[inline]
    fn head(
        &self,
        page: &IndexPage<'_>,
        header: RecordHeader,
        origin: usize,
        backward: &mut BackwardReader<'_>,
    ) -> Result<Head<'_>, Error> {
        let some = |fields: usize, of: usize, blob: bool| Head {
            fields,
            is_there: None,
            null_bytes: self.null_bytes(of),
            blob,
        };
        match header.status() {
            Some(Status::Ordinary) if header.versioned => {
                let number = backward.byte();
                let version = self.versions.get(usize::from(number)).ok_or_else(|| {
                    let what = format!("a record is of version {number} of the table, which it did not have");
                    corrupt(page.number, origin, what)
                })?;
                let VersionFields { is_there, null_bytes } = version;
                let (fields, is_there) = (self.fields.len(), Some(is_there.as_slice()));
                Ok(Head { fields, is_there, null_bytes: *null_bytes, blob: false })
            }
            Some(Status::Ordinary) if header.counted => {
                let first = usize::from(backward.byte());
                let fields =
                    if first < 0x80 { first } else { (first & 0x7F) << 8 | usize::from(backward.byte()) };
                self.fits(page, origin, fields)?;
                Ok(some(fields, fields, false))
            }
            Some(Status::Ordinary) => Ok(some(self.core_fields, self.core_fields, false)),
            Some(Status::NodePointer) => Ok(some(self.key_fields, self.core_fields, false)),
            Some(Status::Instant) => {
                let low = backward.byte();
                let more = if low < 0x80 { 0 } else { usize::from(backward.byte()) << 7 };
                let blob = header.is_metadata() && header.deleted;
                let fields = self.core_fields + (usize::from(low & 0x7F) | more) + 1 - usize::from(blob);
                self.fits(page, origin, fields)?;
                Ok(some(fields, fields, blob))
            }
            None => Err(corrupt(page.number, origin, "a record of no known kind")),
        }
    }

    fn fits(&self, page: &IndexPage<'_>, origin: usize, fields: usize) -> Result<(), Error> {
        if fields <= self.fields.len().min(FIELDS_MAX) {
            return Ok(());
        }
        let what = format!(
            "a record has {fields} fields, the definition {}: it is not that of this table",
            self.fields.len()
        );
        Err(corrupt(page.number, origin, what))
    }

    /// The bytes of a field whose place was found in this page.
    #[inline]
    #[must_use]
    pub fn stored<'a>(&'a self, page: &'a Page, field: usize, place: FieldPosition) -> FieldValue<'a> {
        let bytes = |at: u16, len: u16| {
            let from = usize::from(at);
            page.get(from..from + usize::from(len)).unwrap_or_default()
        };
        match place {
            FieldPosition::Null => FieldValue::Null,
            FieldPosition::Inline { at, len } => FieldValue::Whole(bytes(at, len)),
            FieldPosition::External { at, len } => match bytes(at, len).split_last_chunk() {
                Some((local, reference)) => FieldValue::External(local, reference),
                None => FieldValue::Null,
            },
            FieldPosition::Default => self
                .defaults
                .get(field)
                .and_then(Option::as_deref)
                .map_or(FieldValue::Null, FieldValue::Whole),
        }
    }
}

/// The page below that a node pointer leads to.
#[must_use]
pub fn child(page: &Page, extent: Extent) -> u32 {
    u32_at(page, extent.end.saturating_sub(4))
}

/// Reads backwards. Before the page are zeros; the caller sees by the end position that it went too far.
struct BackwardReader<'a> {
    page: &'a Page,
    at: usize,
}

impl BackwardReader<'_> {
    #[inline]
    fn byte(&mut self) -> u8 {
        self.at = self.at.saturating_sub(1);
        self.page.get(self.at).copied().unwrap_or(0)
    }

    /// A length, and whether the field's rest is elsewhere. A `long` field has two length bytes from 128 on.
    #[inline]
    fn length(&mut self, long: bool) -> (usize, bool) {
        let first = self.byte();
        if long && first & 0x80 != 0 {
            let len = usize::from(first & 0x3F) << 8 | usize::from(self.byte());
            return (len, first & 0x40 != 0);
        }
        (usize::from(first), false)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::page::{DATA, Kind, PAGE_BYTES};
    use crate::table::{StoredField, StoredTree};

    /// Where the record of these tests begins.
    const ORIGIN: usize = 140;

    fn field(column: Option<usize>, nullable: bool, bytes: u16) -> Field {
        Field { column, nullable, length: Length::Fixed(bytes), prefix: None, descending: false }
    }

    /// A table with a key of one byte and four columns of one byte that may be NULL. MySQL 8.0.12 added the
    /// second and third instantly. A later one dropped the third as version 1 and added the fourth as version
    /// 2.
    fn stored() -> Stored {
        let of = |field, added, dropped, default: Option<u8>| StoredField {
            field,
            added,
            dropped,
            default: default.map(|byte| vec![byte]),
        };
        let fields = vec![
            of(field(Some(0), false, 1), 0, None, None),
            of(field(None, false, 6), 0, None, None),
            of(field(None, false, 7), 0, None, None),
            of(field(Some(1), true, 1), 0, None, None),
            of(field(Some(2), true, 1), 0, None, Some(22)),
            of(field(None, true, 1), 0, Some(1), None),
            of(field(Some(3), true, 1), 2, None, Some(44)),
        ];
        let trees = BTreeMap::from([
            (1, StoredTree { root: 4, instant_columns: Some(2) }),
            (2, StoredTree { root: 4, instant_columns: None }),
        ]);
        Stored { fields, trees }
    }

    /// The values of all fields behind the system's, in a record with these info bits and bytes before its
    /// header.
    fn values(space: u32, info: u8, before: &[u8], fields: &[u8]) -> Result<Vec<Option<u8>>, Error> {
        let stored = stored();
        let layout = Layout::versioned(&stored, 1, stored.core_fields(space));
        let mut bytes = Box::new([0; PAGE_BYTES]);
        bytes[24..26].copy_from_slice(&Kind::INDEX.0.to_be_bytes());
        bytes[DATA..DATA + 2].copy_from_slice(&2_u16.to_be_bytes());
        bytes[DATA + 2..DATA + 4].copy_from_slice(&200_u16.to_be_bytes());
        bytes[DATA + 4..DATA + 6].copy_from_slice(&0x8003_u16.to_be_bytes());
        bytes[DATA + 16..DATA + 18].copy_from_slice(&1_u16.to_be_bytes());
        bytes[ORIGIN - 5] = info;
        let start = ORIGIN - 5 - before.len();
        bytes[start..ORIGIN - 5].copy_from_slice(before);
        bytes[ORIGIN + 14..ORIGIN + 14 + fields.len()].copy_from_slice(fields);
        let page = IndexPage::parse(&bytes, 4)?;
        let mut places = Vec::new();
        let extent = layout.parse(&page, RecordHeader::at(&bytes, ORIGIN), ORIGIN, &mut places)?;
        assert_eq!((extent.start, extent.end), (start, ORIGIN + 14 + fields.len()));
        let value = |(at, place): (usize, &FieldPosition)| match layout.stored(&bytes, at, *place) {
            FieldValue::Whole(bytes) => bytes.first().copied(),
            _ => None,
        };
        Ok(places.iter().enumerate().skip(3).map(value).collect())
    }

    #[test]
    fn records_say_their_number_of_fields_or_their_version() {
        // Before the first change, in a table of MySQL 8.0.12: two columns of the five that followed.
        assert_eq!(values(1, 0, &[0], &[1]).unwrap(), [Some(1), Some(22), None, Some(44)]);
        // It says how many fields there are, in one byte or in two.
        assert_eq!(values(1, 0x80, &[0b10, 5], &[1]).unwrap(), [Some(1), None, None, Some(44)]);
        assert_eq!(values(1, 0x80, &[0, 6], &[1, 2, 3]).unwrap(), [Some(1), Some(2), Some(3), Some(44)]);
        assert_eq!(
            values(1, 0x80, &[0, 6, 0x80], &[1, 2, 3]).unwrap(),
            [Some(1), Some(2), Some(3), Some(44)]
        );
        // It says its version: the third column is gone in 1, the fourth is there from 2 on.
        assert_eq!(values(1, 0x40, &[0, 0], &[1, 2, 3]).unwrap(), [Some(1), Some(2), Some(3), Some(44)]);
        assert_eq!(values(1, 0x40, &[0b10, 1], &[1]).unwrap(), [Some(1), None, None, Some(44)]);
        assert_eq!(values(1, 0x40, &[0b01, 2], &[2, 4]).unwrap(), [None, Some(2), None, Some(4)]);
        // In another tablespace nothing was added by MySQL 8.0.12.
        assert_eq!(values(2, 0, &[0b010], &[1, 3]).unwrap(), [Some(1), None, Some(3), Some(44)]);
    }

    #[test]
    fn versions_and_numbers_that_there_are_not_are_errors() {
        let error = values(1, 0x40, &[0, 3], &[1]).unwrap_err().to_string();
        assert!(error.contains("version 3"), "{error}");
        let error = values(1, 0x80, &[0, 8], &[1]).unwrap_err().to_string();
        assert!(error.contains("8 fields, the definition 7"), "{error}");
    }
}
