//! Derives the fields of each index, in InnoDB's storage order, from keys and columns.

use super::{Column, Field, Generated, Index, Key, KeyKind, Length, Part, Type};
use crate::Error;

/// A longer fixed length is stored as a variable one, so that the value can be stored off-page.
const FIXED_BYTES_MAX: u32 = 768;
/// Bytes of a rectangle in an R-tree.
const RECTANGLE_BYTES: u16 = 32;

/// The column that InnoDB adds for full-text search.
const DOC_ID: &str = "FTS_DOC_ID";

/// The index of the document id column in a table with a FULLTEXT key; it is added as the last column if the
/// table has none.
pub(super) fn add_doc_id(columns: &mut Vec<Column>, keys: &[Key]) -> Option<usize> {
    keys.iter().find(|key| key.kind == KeyKind::Fulltext)?;
    if let Some(place) = columns.iter().position(|column| column.name == DOC_ID) {
        // A table that has the column may also have its key.
        let own = keys.iter().any(|key| key.name.eq_ignore_ascii_case("FTS_DOC_ID_INDEX"));
        return (!own).then_some(place);
    }
    columns.push(Column {
        name: DOC_ID.to_owned(),
        kind: Type::Int { bytes: 8, unsigned: true, zerofill: 0 },
        nullable: false,
        generated: Generated::No,
        hidden: true,
        auto_increment: false,
    });
    Some(columns.len() - 1)
}

/// All indexes, the clustered one first.
pub(super) fn indexes(columns: &[Column], keys: &[Key], doc_id: Option<usize>) -> Result<Vec<Index>, Error> {
    for key in keys {
        let sound = !key.parts.is_empty() && key.parts.iter().all(|part| part.column < columns.len());
        if !sound {
            let what = "a key without columns, or of a column that there is not".to_owned();
            return Err(Error::Corrupt { what, place: format!("key `{}`", key.name) });
        }
    }
    let primary = keys.iter().position(|key| is_primary(columns, key));
    let clustered = clustered(columns, primary.and_then(|at| keys.get(at)));
    let row_key: Vec<Field> = clustered.fields[..clustered.key_fields].to_vec();
    let mut indexes = vec![clustered];
    if let Some(column) = doc_id {
        let parts = vec![Part { column, prefix: None, descending: false }];
        let key = Key { name: "FTS_DOC_ID_INDEX".to_owned(), kind: KeyKind::Unique, parts };
        indexes.push(secondary(columns, &key, &row_key));
    }
    for (at, key) in keys.iter().enumerate() {
        let elsewhere = matches!(key.kind, KeyKind::Fulltext | KeyKind::Vector);
        if Some(at) != primary && !elsewhere {
            indexes.push(secondary(columns, key, &row_key));
        }
    }
    Ok(indexes)
}

/// Whether the server uses a key as the primary one: the first unique key whose columns all exist, in full
/// length and never NULL. PRIMARY is the first key.
fn is_primary(columns: &[Column], key: &Key) -> bool {
    let whole = |part: &Part| {
        let column = &columns[part.column];
        let covers = match (part.prefix, &column.kind) {
            (Some(bytes), Type::Blob { length_bytes, .. }) => bytes == blob_bytes(*length_bytes),
            (prefix, _) => prefix.is_none(),
        };
        covers && !column.nullable
    };
    match key.kind {
        KeyKind::Primary => true,
        KeyKind::Unique => key.parts.iter().all(whole),
        _ => false,
    }
}

fn clustered(columns: &[Column], key: Option<&Key>) -> Index {
    let system = |bytes| Field {
        column: None,
        nullable: false,
        length: Length::Fixed(bytes),
        prefix: None,
        descending: false,
    };
    let mut fields: Vec<Field> = match key {
        Some(key) => key.parts.iter().map(|part| field(columns, *part)).collect(),
        None => vec![system(6)],
    };
    let key_fields = fields.len();
    fields.extend([system(6), system(7)]);
    for (at, column) in columns.iter().enumerate() {
        let in_key = fields.iter().any(|field| field.column == Some(at) && field.prefix.is_none());
        if !in_key && column.generated != Generated::Virtual {
            fields.push(field(columns, Part { column: at, prefix: None, descending: false }));
        }
    }
    let name = key.map_or("GEN_CLUST_INDEX", |key| &key.name).to_owned();
    Index { name, fields, key_fields, unique_fields: key_fields, spatial: false }
}

fn secondary(columns: &[Column], key: &Key, row_key: &[Field]) -> Index {
    let mut fields: Vec<Field> = key.parts.iter().map(|part| field(columns, *part)).collect();
    let spatial = key.kind == KeyKind::Spatial;
    if spatial {
        for field in &mut fields {
            field.length = Length::Fixed(RECTANGLE_BYTES);
            field.prefix = Some(u32::from(RECTANGLE_BYTES));
        }
    }
    let parts = fields.len();
    for field in row_key {
        let in_key = fields[..parts].iter().any(|own| own.column == field.column && own.prefix.is_none());
        if field.column.is_none() || spatial || !in_key {
            fields.push(*field);
        }
    }
    let key_fields = fields.len();
    let unique = matches!(key.kind, KeyKind::Unique | KeyKind::Primary);
    let unique_fields = if unique { parts } else { key_fields };
    Index { name: key.name.clone(), fields, key_fields, unique_fields, spatial }
}

fn field(columns: &[Column], part: Part) -> Field {
    let column = &columns[part.column];
    let length = match (column.kind.length(), part.prefix) {
        (Length::Fixed(bytes), Some(prefix)) => {
            Length::Fixed(u16::try_from(prefix).unwrap_or(u16::MAX).min(bytes))
        }
        (length, _) => length,
    };
    Field {
        column: Some(part.column),
        nullable: column.nullable,
        length,
        prefix: part.prefix,
        descending: part.descending,
    }
}

/// The most bytes of a BLOB with this many length bytes.
fn blob_bytes(length_bytes: u8) -> u32 {
    u32::MAX >> (32 - 8 * u32::from(length_bytes.clamp(1, 4)))
}

/// Bytes of a DECIMAL with so many digits, of which so many are behind the point: nine digits are in four
/// bytes, the remaining ones at both ends in as few as possible.
#[must_use]
pub fn decimal_bytes(precision: u8, scale: u8) -> u8 {
    let part = |digits: u8| digits / 9 * 4 + (digits % 9).div_ceil(2);
    part(precision.saturating_sub(scale)) + part(scale)
}

impl Type {
    /// The length of its values in a record.
    #[must_use]
    pub fn length(&self) -> Length {
        let fixed = |bytes: u32| match u16::try_from(bytes) {
            Ok(bytes) if u32::from(bytes) <= FIXED_BYTES_MAX => Length::Fixed(bytes),
            _ => Length::Variable { max: bytes, external: true },
        };
        let variable = |max: u32, blob: bool| Length::Variable { max, external: blob || max > 255 };
        let fraction = |digits: u8| u32::from(digits.div_ceil(2));
        match self {
            Type::Int { bytes, .. } => fixed(u32::from(*bytes)),
            Type::Float(_) | Type::Inet4 => fixed(4),
            Type::Double(_) => fixed(8),
            Type::Decimal { precision, scale, .. } => fixed(decimal_bytes(*precision, *scale).into()),
            Type::Bit { bits } => fixed(u32::from(bits.div_ceil(8))),
            Type::Year { .. } => fixed(1),
            Type::Date => fixed(3),
            Type::Time { fraction: digits } => fixed(3 + fraction(*digits)),
            Type::Datetime { fraction: digits } => fixed(5 + fraction(*digits)),
            Type::Timestamp { fraction: digits, .. } => fixed(4 + fraction(*digits)),
            Type::Char { chars, collation } => {
                let charset = collation.charset();
                let bytes = u32::from(*chars) * u32::from(charset.max);
                if charset.min == charset.max { fixed(bytes) } else { variable(bytes, false) }
            }
            Type::Varchar { chars, collation, compressed } => {
                let bytes = u32::from(*chars) * u32::from(collation.charset().max);
                variable(bytes + u32::from(*compressed), false)
            }
            Type::Blob { length_bytes, .. } => variable(blob_bytes(*length_bytes), true),
            Type::Enum(members) => fixed(if members.names().len() < 256 { 1 } else { 2 }),
            Type::Set(members) => fixed(match members.names().len().div_ceil(8) {
                bytes @ 0..=4 => u32::try_from(bytes.max(1)).unwrap_or(4),
                _ => 8,
            }),
            Type::Uuid { .. } | Type::Inet6 => fixed(16),
            Type::Vector { dimensions } => variable(4 * u32::from(*dimensions), false),
            Type::Geometry(_) | Type::Json => variable(u32::MAX, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyKind, Part, indexes};
    use crate::table::{Version, sql};

    #[test]
    fn a_key_is_of_columns_that_there_are() {
        let table = sql::parse("CREATE TABLE t (a INT, b INT) ENGINE=InnoDB", Version(110_806)).unwrap();
        let of = |parts: &[usize]| {
            let part = |column: &usize| Part { column: *column, prefix: None, descending: false };
            let parts = parts.iter().map(part).collect();
            let key = Key { name: "k".to_owned(), kind: KeyKind::Plain, parts };
            indexes(table.columns(), &[key], None).map(|indexes| indexes.len())
        };
        assert_eq!(of(&[1, 0]), Ok(2));
        for wrong in [&[][..], &[2], &[0, 2]] {
            assert!(of(wrong).unwrap_err().to_string().contains("key `k`"), "{wrong:?}");
        }
    }
}
