//! Index order as bytes: encodes keys so that comparing bytes compares keys.
//!
//! Facts: `cmp_data()` in `rem0cmp.cc` of MariaDB's source, and `strnncollsp` of its binary collations. NULL
//! comes before all values, or after them in descending order.

use crate::table::collation::Collation;
use crate::table::{Index, Table, Type};

/// Bytes of a text between two marks.
const STEP: usize = 8;
/// What a mark says of the rest of a text, compared to spaces without end.
const BELOW_SPACES: u8 = 1;
const JUST_SPACES: u8 = 2;
const ABOVE_SPACES: u8 = 3;

/// How the values of a field are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// As bytes of a fixed length.
    Bytes,
    /// As bytes; a prefix of a value is less than the value.
    Open,
    /// As bytes, as if padded with endless spaces.
    Padded,
    /// As FLOAT.
    Float,
    /// As DOUBLE.
    Double,
}

/// How entries of an index are compared, if that needs no collation weights.
#[derive(Clone, Debug)]
pub struct KeyOrder {
    /// For each field of the key: how it is compared, whether it may be NULL, whether it is descending.
    fields: Vec<(Comparison, bool, bool)>,
}

impl KeyOrder {
    /// The order of an index; `None` if a field has a collation that does not compare bytes, or is a
    /// geometry.
    #[must_use]
    pub fn of(table: &Table, index: &Index) -> Option<KeyOrder> {
        KeyOrder::with(table, index, comparison)
    }

    /// The order of an index whose fields of other collations are given as their weights (WEIGHT_STRING);
    /// `None` if a field has no weights.
    #[must_use]
    pub fn by_weights(table: &Table, index: &Index) -> Option<KeyOrder> {
        KeyOrder::with(table, index, |kind| {
            comparison(kind).or(weight_collation(kind).map(|_| Comparison::Open))
        })
    }

    fn with(
        table: &Table,
        index: &Index,
        comparison: impl Fn(&Type) -> Option<Comparison>,
    ) -> Option<KeyOrder> {
        let fields = index.fields.iter().take(index.key_fields);
        let fields = fields.map(|field| {
            let comparison = match field.column {
                Some(at) => comparison(&table.columns().get(at)?.kind)?,
                // DB_ROW_ID.
                None => Comparison::Bytes,
            };
            Some((comparison, field.nullable, field.descending))
        });
        let fields: Option<Vec<_>> = fields.collect();
        fields.filter(|_| !index.spatial).map(|fields| KeyOrder { fields })
    }

    /// Appends a field of the key, as it is stored; `None` is NULL.
    #[inline]
    pub fn append(&self, field: usize, value: Option<&[u8]>, out: &mut Vec<u8>) {
        let Some(&(comparison, nullable, descending)) = self.fields.get(field) else { return };
        let start = out.len();
        if nullable {
            out.push(u8::from(value.is_some()));
        }
        if let Some(value) = value {
            match comparison {
                Comparison::Bytes => out.extend_from_slice(value),
                Comparison::Open => open(value, out),
                Comparison::Padded => padded(value, out),
                Comparison::Float => {
                    let bits = value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                    // There are two zeros, and they are equal.
                    let bits = if bits == 1 << 31 { 0 } else { bits };
                    let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
                    out.extend_from_slice(&(bits ^ flip).to_be_bytes());
                }
                Comparison::Double => {
                    let bits = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    let bits = if bits == 1 << 63 { 0 } else { bits };
                    let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
                    out.extend_from_slice(&(bits ^ flip).to_be_bytes());
                }
            }
        }
        if descending {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }
}

/// Whether a key that follows `last` is out of order. If it is: whether that is a duplicate, because the
/// first `unique` bytes are the same.
#[inline]
pub(crate) fn misplaced(last: &[u8], key: &[u8], unique: usize) -> Option<bool> {
    let is_after = last < key;
    // If all of it must be unique, a key that is greater is another one.
    if is_after && (unique == 0 || unique == key.len()) {
        return None;
    }
    let is_same = unique > 0 && last.get(..unique) == key.get(..unique);
    (is_same || !is_after).then_some(is_same)
}

/// The collation by whose weights values are compared; `None` for those that are compared as they are stored,
/// or that have no weights.
#[must_use]
pub fn weight_collation(kind: &Type) -> Option<Collation> {
    match kind {
        Type::Char { collation, .. }
        | Type::Varchar { collation, compressed: false, .. }
        | Type::Blob { collation, compressed: false, .. } => comparison(kind).is_none().then_some(*collation),
        _ => None,
    }
}

fn comparison(kind: &Type) -> Option<Comparison> {
    match kind {
        Type::Int { .. }
        | Type::Decimal { .. }
        | Type::Bit { .. }
        | Type::Year { .. }
        | Type::Date
        | Type::Time { .. }
        | Type::Datetime { .. }
        | Type::Timestamp { .. }
        | Type::Enum(_)
        | Type::Set(_)
        | Type::Uuid { .. }
        | Type::Inet4
        | Type::Inet6 => Some(Comparison::Bytes),
        Type::Float(_) => Some(Comparison::Float),
        Type::Double(_) => Some(Comparison::Double),
        Type::Char { collation: Collation::BINARY, .. } => Some(Comparison::Bytes),
        Type::Char { collation, .. } => {
            text(*collation).filter(|comparison| *comparison == Comparison::Padded)
        }
        Type::Varchar { collation, compressed: false, .. }
        | Type::Blob { collation, compressed: false, .. } => text(*collation),
        Type::Varchar { .. } | Type::Blob { .. } | Type::Vector { .. } | Type::Geometry(_) | Type::Json => {
            None
        }
    }
}

fn text(collation: Collation) -> Option<Comparison> {
    if collation == Collation::BINARY {
        return Some(Comparison::Open);
    }
    let charset = collation.charset();
    // In UTF-8 the order of bytes is that of characters; in UTF-16 it is not.
    let plain = charset.max == 1 || ["utf8mb3", "utf8mb4"].contains(&charset.name);
    let name = collation.name();
    match name.strip_prefix(charset.name)? {
        "_bin" if plain => Some(Comparison::Padded),
        "_nopad_bin" if plain => Some(Comparison::Open),
        _ => None,
    }
}

/// Escapes zeros with a second byte, so that the end, two zeros, sorts before everything else.
fn open(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        out.push(byte);
        if byte == 0 {
            out.push(u8::MAX);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Steps padded with spaces, each followed by a mark that says how the rest compares to spaces.
fn padded(value: &[u8], out: &mut Vec<u8>) {
    let end = value.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    let mut rest = value.get(..end).unwrap_or(value);
    loop {
        let (step, behind) = rest.split_at(rest.len().min(STEP));
        out.extend_from_slice(step);
        out.extend(std::iter::repeat_n(b' ', STEP - step.len()));
        // Spaces at the end are gone: there is a byte that is none, or nothing.
        let mark = match behind.iter().find(|&&byte| byte != b' ') {
            Some(byte) if *byte < b' ' => BELOW_SPACES,
            Some(_) => ABOVE_SPACES,
            None => JUST_SPACES,
        };
        out.push(mark);
        if mark == JUST_SPACES {
            return;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::misplaced;

    /// Two keys, how many bytes must be unique, and for a key out of order whether it is a duplicate.
    #[test]
    fn a_key_follows_the_last_one_or_is_out_of_order() {
        for (last, key, unique, wanted) in [
            (b"ab", b"ac", 0, None),
            (b"ab", b"ab", 0, Some(false)),
            (b"ac", b"ab", 0, Some(false)),
            (b"ab", b"ac", 2, None),
            (b"ab", b"ab", 2, Some(true)),
            (b"ac", b"ab", 2, Some(false)),
            (b"ab", b"ba", 1, None),
            (b"ab", b"ac", 1, Some(true)),
            (b"ac", b"ab", 1, Some(true)),
            (b"ba", b"ab", 1, Some(false)),
        ] {
            assert_eq!(misplaced(last, key, unique), wanted, "{last:?} {key:?} {unique}");
        }
    }
}
