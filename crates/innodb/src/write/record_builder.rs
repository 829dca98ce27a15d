//! Builds the records of an index from rows.
//!
//! Facts: `rec_convert_dtuple_to_rec_comp()` and `dtuple_convert_big_rec()` of MariaDB's source.

use super::Row;
use super::inline_record::InlineFormat;
use super::page_builder::PageBuilder;
use super::record::{OffPageValue, Pointer, Record, combined_hash};
use crate::index_page::{HEAP, IndexPage, RECORD_HEADER_BYTES, RecordHeader, Status};
use crate::key_order::{self, KeyOrder};
use crate::off_page::REFERENCE_BYTES;
use crate::record::{FieldValue, Layout};
use crate::table::collation::{Charset, Collation};
use crate::table::{Column, Generated, Index, Length, RowFormat, Table, Type};
use crate::{Error, value};

/// A record of this many bytes is too long: two would not fit into a page.
const RECORD_BYTES_MAX: usize = super::page_builder::EMPTY_BYTES / 2;
/// Bytes of an off-page value that COMPACT tables keep in the row.
const COMPACT_BYTES: usize = 768;
/// Values up to this length are never moved off-page.
const LOCAL_BYTES_MAX: usize = 2 * REFERENCE_BYTES;
/// The roll pointer of an inserted row without an earlier version.
const ROLL_PTR: [u8; 7] = [0x80, 0, 0, 0, 0, 0, 0];

/// Where a field's bytes come from.
#[derive(Clone, Copy, Debug)]
enum FieldSource {
    /// A column, with its place in the table.
    Column(usize, ColumnPart),
    /// DB_ROW_ID.
    RowId,
    /// DB_TRX_ID.
    Transaction,
    /// DB_ROLL_PTR.
    Roll,
}

/// How much of a column's value a field contains.
#[derive(Clone, Copy, Debug)]
enum ColumnPart {
    Whole,
    Bytes(usize),
    /// The first characters, this many.
    Chars(usize, Charset),
}

/// Builds the records of one index.
#[derive(Clone, Debug)]
pub struct RecordBuilder {
    layout: Layout,
    order: Option<KeyOrder>,
    sources: Vec<FieldSource>,
    /// The columns of the key's fields, for messages.
    key_columns: Vec<Option<Column>>,
    name: String,
    unique_fields: usize,
    is_clustered: bool,
    inline_format: Option<InlineFormat>,
    /// Bytes of an off-page value that stay in the row.
    kept: usize,
}

impl RecordBuilder {
    /// A builder for an index of the table. `format` is what [`RowFormat::Default`] stands for.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an index whose entries can't be computed from the rows.
    pub fn new(table: &Table, index: &Index, format: RowFormat) -> Result<RecordBuilder, Error> {
        let refused = |what: &str| Error::unsupported(format!("the index `{}`: {what}", index.name));
        if index.spatial {
            return Err(refused("spatial ones are not written"));
        }
        let is_clustered = std::ptr::eq(index, table.clustered());
        let mut sources = Vec::new();
        for (number, field) in index.fields.iter().enumerate() {
            let place = number.checked_sub(index.key_fields).filter(|_| is_clustered);
            let Some(at) = field.column else {
                sources.push(match place {
                    None => FieldSource::RowId,
                    Some(0) => FieldSource::Transaction,
                    Some(_) => FieldSource::Roll,
                });
                continue;
            };
            let Some(column) = table.columns().get(at) else {
                return Err(refused("it has a column that there is not"));
            };
            if column.generated == Generated::Virtual {
                return Err(refused("it has a VIRTUAL column, which is not computed here"));
            }
            let part =
                field.prefix.map_or(Some(ColumnPart::Whole), |bytes| part(&column.kind, bytes as usize));
            let part =
                part.ok_or_else(|| refused("it has a prefix in a character set that is not known here"))?;
            sources.push(FieldSource::Column(at, part));
        }
        let key_columns = index.fields.iter().take(index.unique_fields);
        let key_columns = key_columns.map(|field| table.columns().get(field.column?).cloned()).collect();
        let format = if table.row_format() == RowFormat::Default { format } else { table.row_format() };
        let layout = Layout::new(index);
        Ok(RecordBuilder {
            inline_format: InlineFormat::new(layout.fields(), index.key_fields, layout.leaf_null_bytes()),
            layout,
            order: KeyOrder::of(table, index),
            sources,
            key_columns,
            name: index.name.clone(),
            unique_fields: index.unique_fields,
            is_clustered,
            kept: if format == RowFormat::Compact { COMPACT_BYTES } else { 0 },
        })
    }

    /// Where the fields are in its records.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The order of its entries, unless it is that of a collation.
    #[must_use]
    pub fn order(&self) -> Option<&KeyOrder> {
        self.order.as_ref()
    }

    /// The name of the index.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the index has the rows.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.is_clustered
    }

    /// The number of fields that are unique together.
    #[must_use]
    pub fn unique_fields(&self) -> usize {
        self.unique_fields
    }

    /// Makes the record of a row. `row_id` is the hidden key of rows without a primary key.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the row's values do not fit their columns; [`Error::Unsupported`] for a
    /// record that is too long for a page.
    pub fn record(&self, row: &Row, row_id: u64, record: &mut Record) -> Result<(), Error> {
        let row_id = row_id.to_be_bytes();
        record.unique = self.key(row, &row_id, &mut record.key);
        let Record { bytes, inline, .. } = &mut *record;
        let origin =
            self.inline_format.as_ref().and_then(|format| format.record(row, &row_id, inline, bytes));
        record.is_inline = origin.is_some() && record.bytes.len() < RECORD_BYTES_MAX;
        if let Some(origin) = origin.filter(|_| record.is_inline) {
            record.origin = origin;
            record.off_page.clear();
            return Ok(());
        }
        self.measure(row, &row_id, record)?;
        let Record { bytes, origin, off_page, lens, .. } = record;
        let head = RECORD_HEADER_BYTES + self.layout.leaf_null_bytes();
        let lengths = self.length_bytes(lens, off_page);
        *origin = head + lengths;
        bytes.clear();
        bytes.resize(*origin, 0);
        let mut down = *origin - head;
        let (mut nullable, mut next_off_page) = (0, 0);
        for (number, field) in self.layout.fields().iter().enumerate() {
            let len = lens.get(number).copied().flatten();
            if field.nullable {
                let at = *origin - RECORD_HEADER_BYTES - 1 - nullable / 8;
                bytes[at] |= u8::from(len.is_none()) << (nullable % 8);
                nullable += 1;
            }
            let (Some(len), Some(value)) = (len, self.value(number, row, &row_id)) else { continue };
            let is_off_page = off_page.get(next_off_page).is_some_and(|off_page| off_page.field == number);
            if let Length::Variable { external, .. } = field.length {
                // The length of a field in a record has 14 bits.
                let [high, low] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
                down -= 1;
                if external && (len > 127 || is_off_page) {
                    bytes[down] = 0x80 | u8::from(is_off_page) << 6 | high;
                    down -= 1;
                }
                bytes[down] = low;
            }
            if is_off_page {
                bytes.extend_from_slice(&value[..self.kept]);
                off_page[next_off_page].at = bytes.len();
                bytes.extend_from_slice(&[0; REFERENCE_BYTES]);
                next_off_page += 1;
            } else {
                bytes.extend_from_slice(value);
            }
        }
        Ok(())
    }

    /// A number that changes with the row and with its record in this index, which has the rows.
    #[inline]
    pub(super) fn hash(&self, row: &Row, row_id: u64, record: &Record) -> u64 {
        match &self.inline_format {
            Some(format) if record.is_inline => {
                let before = record.bytes.get(..record.origin - RECORD_HEADER_BYTES).unwrap_or_default();
                format.hash(row, &row_id.to_be_bytes(), &record.inline, before)
            }
            _ => combined_hash(row, record.hash()),
        }
    }

    /// How inline records are made and hashed.
    pub(crate) fn inline_format(&self) -> Option<&InlineFormat> {
        self.inline_format.as_ref()
    }

    /// Checks that a record comes after the record with the key `last`.
    pub(super) fn follows(&self, last: &[u8], record: &Record) -> Result<(), Error> {
        let Some(is_same) = key_order::misplaced(last, &record.key, record.unique) else { return Ok(()) };
        let (index, entry) = (self.name.clone(), self.text(record));
        Err(if is_same { Error::Duplicate { index, entry } } else { Error::Unsorted { index, entry } })
    }

    /// The error for a row whose key another row has.
    #[must_use]
    pub fn duplicate(&self, row: &Row) -> Error {
        let mut record = Record::default();
        match self.record(row, 0, &mut record) {
            Ok(()) => Error::Duplicate { index: self.name.clone(), entry: self.text(&record) },
            Err(error) => error,
        }
    }

    /// The values of a record's key, for a message.
    fn text(&self, record: &Record) -> String {
        let mut page_builder = PageBuilder::new(0);
        page_builder.push(&record.bytes, record.origin, Status::Ordinary as u8, false);
        let bytes = page_builder.finish(0, 0);
        let Ok(page) = IndexPage::parse(&bytes, 0) else { return String::new() };
        let at = HEAP + record.origin;
        let mut places = Vec::new();
        if self.layout.parse(&page, RecordHeader::at(&bytes, at), at, &mut places).is_err() {
            return String::new();
        }
        let values = self.key_columns.iter().zip(places).enumerate().map(|(field, (column, place))| {
            let mut text = Vec::new();
            match (column, self.layout.stored(&bytes, field, place)) {
                (Some(column), FieldValue::Whole(stored))
                    if value::decode(column, stored, &mut text).is_ok() =>
                {
                    format!("'{}'", value::shown(&text))
                }
                (None, FieldValue::Whole(stored)) => value::number(stored).to_string(),
                (_, FieldValue::Null) => "NULL".to_owned(),
                _ => "?".to_owned(),
            }
        });
        values.collect::<Vec<_>>().join(", ")
    }

    /// The node pointer to the page whose first record this is, without the page's number.
    pub(crate) fn pointer(&self, record: &[u8], origin: usize) -> Pointer {
        let head = RECORD_HEADER_BYTES + self.layout.leaf_null_bytes();
        let byte = |at: usize| record.get(at).copied().unwrap_or(0);
        let (mut start, mut end, mut nullable) = (origin - head, origin, 0);
        for field in self.layout.fields().iter().take(self.layout.key_fields()) {
            if field.nullable {
                let bits = byte(origin - RECORD_HEADER_BYTES - 1 - nullable / 8);
                nullable += 1;
                if bits >> ((nullable - 1) % 8) & 1 != 0 {
                    continue;
                }
            }
            end += match field.length {
                Length::Fixed(bytes) => usize::from(bytes),
                Length::Variable { external, .. } => {
                    start -= 1;
                    let first = byte(start);
                    if external && first & 0x80 != 0 {
                        start -= 1;
                        usize::from(first & 0x3F) << 8 | usize::from(byte(start))
                    } else {
                        usize::from(first)
                    }
                }
            };
        }
        let mut bytes = record.get(start..end).unwrap_or_default().to_vec();
        let origin = origin - start;
        if self.is_clustered {
            // Key fields are never NULL, and there are no other fields.
            bytes[origin - head..origin].fill(0);
        }
        Pointer { bytes, origin }
    }

    /// The key of a row's record, in the form of [`KeyOrder`]; empty without one.
    pub fn key_of(&self, row: &Row, key: &mut Vec<u8>) {
        self.key(row, &[0; 8], key);
    }

    /// The value that a row has in a field of the key, as it is stored; `None` is NULL.
    #[must_use]
    pub fn key_value<'a>(&self, field: usize, row: &'a Row) -> Option<&'a [u8]> {
        self.value(field, row, &[0; 8])
    }

    /// The key in the form of [`KeyOrder`]; returns the length of the prefix that must be unique.
    fn key(&self, row: &Row, row_id: &[u8; 8], key: &mut Vec<u8>) -> usize {
        key.clear();
        let Some(order) = &self.order else { return 0 };
        let (mut unique, mut has_null) = (0, false);
        for field in 0..self.layout.key_fields() {
            let value = self.value(field, row, row_id);
            has_null |= value.is_none();
            order.append(field, value, key);
            if field + 1 == self.unique_fields && !has_null {
                unique = key.len();
            }
        }
        unique
    }

    /// Determines the length of each field in the record, and which values must go off-page.
    fn measure(&self, row: &Row, row_id: &[u8; 8], record: &mut Record) -> Result<(), Error> {
        record.lens.clear();
        record.off_page.clear();
        let mut data = 0;
        for (number, field) in self.layout.fields().iter().enumerate() {
            let len = self.value(number, row, row_id).map(<[u8]>::len);
            let fits = match (len, field.length) {
                (None, _) => field.nullable,
                (Some(len), Length::Fixed(bytes)) => len == usize::from(bytes),
                (Some(len), Length::Variable { max, .. }) => len as u64 <= u64::from(max),
            };
            if !fits {
                let what = match len {
                    None => "NULL in a field that can't be NULL".to_owned(),
                    Some(len) => format!("{len} bytes in a field that can't have as many"),
                };
                return Err(Error::Corrupt { what, place: format!("index `{}`, field {number}", self.name) });
            }
            data += len.unwrap_or(0);
            record.lens.push(len);
        }
        let head = RECORD_HEADER_BYTES + self.layout.leaf_null_bytes();
        loop {
            let size = head + self.length_bytes(&record.lens, &record.off_page) + data;
            if size < RECORD_BYTES_MAX {
                break;
            }
            let Some(field) = self.longest(record).filter(|_| self.is_clustered) else {
                return Err(Error::unsupported(format!(
                    "a row is too long: its record in the index `{}` has {size} bytes, and can have {}",
                    self.name,
                    RECORD_BYTES_MAX - 1
                )));
            };
            let FieldSource::Column(column, _) = self.sources[field] else { break };
            let local = self.kept + REFERENCE_BYTES;
            data -= record.lens[field].unwrap_or(0) - local;
            record.lens[field] = Some(local);
            record.off_page.push(OffPageValue { field, column, from: self.kept, at: 0 });
        }
        record.off_page.sort_by_key(|off_page| off_page.field);
        Ok(())
    }

    /// The longest value that may go off-page.
    fn longest(&self, record: &Record) -> Option<usize> {
        let local = self.kept + REFERENCE_BYTES;
        let mut longest = (0, None);
        for field in self.layout.key_fields()..record.lens.len() {
            let external =
                matches!(self.layout.fields().get(field)?.length, Length::Variable { external: true, .. });
            let len = record.lens[field].unwrap_or(0);
            let stays = !external || len <= local.max(LOCAL_BYTES_MAX);
            if !stays
                && len - local > longest.0
                && record.off_page.iter().all(|off_page| off_page.field != field)
            {
                longest = (len - local, Some(field));
            }
        }
        longest.1
    }

    /// Bytes that the lengths of fields take.
    fn length_bytes(&self, lens: &[Option<usize>], off_page: &[OffPageValue]) -> usize {
        let fields = self.layout.fields().iter().zip(lens).enumerate();
        let bytes = fields.map(|(number, (field, len))| match (field.length, len) {
            (Length::Variable { external, .. }, Some(len)) => {
                let is_off_page = off_page.iter().any(|off_page| off_page.field == number);
                1 + usize::from(external && (*len > 127 || is_off_page))
            }
            _ => 0,
        });
        bytes.sum()
    }

    /// The bytes of a field.
    #[inline]
    fn value<'a>(&self, field: usize, row: &'a Row, row_id: &'a [u8; 8]) -> Option<&'a [u8]> {
        match *self.sources.get(field)? {
            FieldSource::Column(at, part) => {
                let value = row.get(at)?;
                Some(match part {
                    ColumnPart::Whole => value,
                    ColumnPart::Bytes(bytes) => value.get(..bytes).unwrap_or(value),
                    ColumnPart::Chars(chars, charset) => {
                        value.get(..start(value, chars, charset)?).unwrap_or(value)
                    }
                })
            }
            FieldSource::RowId => row_id.get(2..),
            FieldSource::Transaction => Some(&[0; 6]),
            FieldSource::Roll => Some(&ROLL_PTR),
        }
    }
}

/// How a prefix of this many bytes is cut; `None` if the characters can't be told apart.
fn part(kind: &Type, bytes: usize) -> Option<ColumnPart> {
    let charset = match kind {
        Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
            collation.charset()
        }
        _ => Collation::BINARY.charset(),
    };
    if charset.min == charset.max {
        return Some(ColumnPart::Bytes(bytes));
    }
    let known = ["utf8mb3", "utf8mb4", "utf16", "utf16le"].contains(&charset.name);
    known.then(|| ColumnPart::Chars(bytes / usize::from(charset.max), charset))
}

/// Where the character with this number begins.
fn start(text: &[u8], chars: usize, charset: Charset) -> Option<usize> {
    // The first bytes of characters in UTF-8; in UTF-16 both halves of a pair count for one.
    let is_inner = |at: usize| match charset.name {
        "utf16" => at % 2 == 1 || text.get(at).is_some_and(|byte| byte & 0xFC == 0xDC),
        "utf16le" => at % 2 == 1 || text.get(at + 1).is_some_and(|byte| byte & 0xFC == 0xDC),
        _ => text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80),
    };
    Some((0..text.len()).filter(|&at| !is_inner(at)).nth(chars).unwrap_or(text.len()))
}
