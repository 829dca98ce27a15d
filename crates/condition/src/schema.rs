//! What the core knows about a row: its columns, their types, and where their bytes lie.

use crate::number::{Number, SCALE_MAX};
use crate::time;
use crate::wire::{ByteReader, put_varint};

/// What a column holds, as the server stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of 1, 2, 3, 4 or 8 bytes, little-endian.
    Integer {
        /// Whether it is signed.
        signed: bool,
    },
    /// DECIMAL.
    Decimal {
        /// All digits.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// YEAR.
    Year,
    /// DATE of 3 bytes.
    Date,
    /// TIME with this many fractional digits.
    Time(u8),
    /// DATETIME with this many fractional digits.
    DateTime(u8),
    /// TIMESTAMP with this many fractional digits.
    Timestamp(u8),
    /// A string with this collation.
    Text(u32),
    /// ENUM, stored as the index of a member in 1 or 2 bytes; the members have this collation.
    Enum(u32),
    /// A type that a condition can only test for NULL.
    Opaque,
}

/// Where a column's bytes are in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnLayout {
    /// `(offset, length)`, counted from the end of the NULL bits.
    Fixed(u32, u32),
    /// A value after the fixed part, with its length in front; this many such values are before it.
    Variable(u32),
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Where it is.
    pub layout: ColumnLayout,
    /// The number of its NULL bit, counted from the lowest bit of the first byte; none for NOT NULL.
    pub null_bit: Option<u32>,
    /// The members of an ENUM, in order, in its character set.
    pub members: Vec<Vec<u8>>,
}

/// The layout of a table's rows: the NULL bits; the columns of fixed length; for each other column the length
/// of its value (varint) and the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Bytes of the NULL bits.
    pub null_bytes: u32,
    /// Bytes of all columns of fixed length.
    pub fixed_bytes: u32,
    /// All columns, in order.
    pub columns: Vec<Column>,
}

const VERSION: u8 = 1;

impl Schema {
    /// The schema as bytes, as it is stored in a queue's definition.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, u64::from(self.null_bytes));
        put_varint(&mut out, u64::from(self.fixed_bytes));
        put_varint(&mut out, self.columns.len() as u64);
        for column in &self.columns {
            put_varint(&mut out, column.name.len() as u64);
            out.extend(column.name.as_bytes());
            let (kind, one, two) = match column.kind {
                Kind::Integer { signed } => (0, u64::from(signed), 0),
                Kind::Decimal { precision, scale } => (1, u64::from(precision), u64::from(scale)),
                Kind::Year => (2, 0, 0),
                Kind::Date => (3, 0, 0),
                Kind::Time(digits) => (4, u64::from(digits), 0),
                Kind::DateTime(digits) => (5, u64::from(digits), 0),
                Kind::Timestamp(digits) => (6, u64::from(digits), 0),
                Kind::Text(collation) => (7, u64::from(collation), 0),
                Kind::Opaque => (8, 0, 0),
                Kind::Enum(collation) => (9, u64::from(collation), column.members.len() as u64),
            };
            out.push(kind);
            put_varint(&mut out, one);
            put_varint(&mut out, two);
            let (layout, one, two) = match column.layout {
                ColumnLayout::Fixed(offset, len) => (0, offset, len),
                ColumnLayout::Variable(before) => (1, before, 0),
            };
            out.push(layout);
            put_varint(&mut out, u64::from(one));
            put_varint(&mut out, u64::from(two));
            put_varint(&mut out, column.null_bit.map_or(0, |bit| u64::from(bit) + 1));
            for member in &column.members {
                put_varint(&mut out, member.len() as u64);
                out.extend(member);
            }
        }
        out
    }

    /// Reads a schema from bytes; `None` when there is none, or one that a later version wrote.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Schema> {
        let mut reader = ByteReader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let number = |reader: &mut ByteReader<'_>| u32::try_from(reader.varint()?).ok();
        let (null_bytes, fixed_bytes) = (number(&mut reader)?, number(&mut reader)?);
        let mut columns = Vec::new();
        for _ in 0..reader.varint()? {
            let len = reader.count()?;
            let name = std::str::from_utf8(reader.take(len)?).ok()?.to_owned();
            let kind = reader.u8()?;
            let (one, two) = (number(&mut reader)?, number(&mut reader)?);
            let small = u8::try_from(one);
            let kind = match kind {
                0 => Kind::Integer { signed: one != 0 },
                1 => Kind::Decimal { precision: small.ok()?, scale: u8::try_from(two).ok()? },
                2 => Kind::Year,
                3 => Kind::Date,
                4 => Kind::Time(small.ok()?),
                5 => Kind::DateTime(small.ok()?),
                6 => Kind::Timestamp(small.ok()?),
                7 => Kind::Text(one),
                8 => Kind::Opaque,
                9 => Kind::Enum(one),
                _ => return None,
            };
            let count = if matches!(kind, Kind::Enum(_)) { two } else { 0 };
            let layout = reader.u8()?;
            let (one, two) = (number(&mut reader)?, number(&mut reader)?);
            let layout = match layout {
                0 => ColumnLayout::Fixed(one, two),
                1 => ColumnLayout::Variable(one),
                _ => return None,
            };
            let null_bit = number(&mut reader)?.checked_sub(1);
            let mut members = Vec::new();
            for _ in 0..count {
                let len = reader.count()?;
                members.push(reader.take(len)?.to_vec());
            }
            columns.push(Column { name, kind, layout, null_bit, members });
        }
        reader.is_empty().then_some(Schema { null_bytes, fixed_bytes, columns })
    }

    /// The bytes of a column; `None` when it is NULL or can't be read.
    #[must_use]
    pub fn bytes<'row>(&'row self, row: &'row [u8], column: usize) -> Option<&'row [u8]> {
        self.read(row)?.raw(column)
    }

    /// The value of a column of whole numbers.
    #[must_use]
    pub fn integer(&self, row: &[u8], column: usize) -> Option<i128> {
        match (self.columns.get(column)?.kind, self.read(row)?.get(column)) {
            (Kind::Integer { .. }, Value::Number(number)) => Some(number.digits),
            _ => None,
        }
    }

    /// The time in a column: milliseconds since 1970, rounded up. A DATETIME is UTC, and a number counts
    /// seconds.
    #[must_use]
    pub fn unix_ms(&self, row: &[u8], column: usize) -> Option<i128> {
        let Value::Number(number) = self.read(row)?.get(column) else { return None };
        let seconds = match self.columns.get(column)?.kind {
            Kind::DateTime(_) => time::since_1970(number)?,
            Kind::Integer { .. } | Kind::Timestamp(_) => number,
            _ => return None,
        };
        seconds.thousandths()
    }

    /// Splits a row into its parts; `None` when it is too short.
    pub(crate) fn read<'row>(&'row self, row: &'row [u8]) -> Option<Values<'row>> {
        let (nulls, rest) = row.split_at_checked(usize::try_from(self.null_bytes).ok()?)?;
        let (fixed, variable) = rest.split_at_checked(usize::try_from(self.fixed_bytes).ok()?)?;
        Some(Values { schema: self, nulls, fixed, variable, tries: None })
    }
}

/// Stands for the number of a column: how many tries of the row have failed.
pub(crate) const FAILED: usize = usize::MAX;

/// Stands for the number of a column: why the last one failed; NULL when nobody said.
pub(crate) const WHY: usize = usize::MAX - 1;

/// What a column of a row holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'row> {
    Null,
    Number(Number),
    Text(&'row [u8]),
    /// Not NULL, but of a type that conditions can't use.
    Opaque,
}

/// The values of a row, by column.
pub(crate) struct Values<'row> {
    schema: &'row Schema,
    nulls: &'row [u8],
    fixed: &'row [u8],
    variable: &'row [u8],
    /// How many tries have failed, and why the last one did.
    tries: Option<(u64, &'row str)>,
}

impl<'row> Values<'row> {
    /// The same with what is known of the tries of the row.
    pub(crate) fn with_tries(self, failed: u64, why: &'row str) -> Values<'row> {
        Values { tries: Some((failed, why)), ..self }
    }

    /// The value of a column; a value that can't be read is NULL.
    pub(crate) fn get(&self, column: usize) -> Value<'row> {
        match (column, self.tries) {
            (FAILED, tries) => {
                return Value::Number(Number::from(i128::from(tries.map_or(0, |(failed, _)| failed))));
            }
            (WHY, Some((_, why))) if !why.is_empty() => return Value::Text(why.as_bytes()),
            // No column has the number of WHY, so without a reason it is NULL.
            _ => {}
        }
        let Some((column, bytes)) = self.schema.columns.get(column).zip(self.raw(column)) else {
            return Value::Null;
        };
        let number = match column.kind {
            Kind::Text(_) => return Value::Text(bytes),
            Kind::Opaque => return Value::Opaque,
            Kind::Enum(_) => integer(bytes, false),
            Kind::Integer { signed } => integer(bytes, signed),
            Kind::Decimal { precision, scale } => decimal(bytes, precision, scale),
            Kind::Year => time::year(bytes),
            Kind::Date => time::date(bytes),
            Kind::Time(digits) => time::time(bytes, digits),
            Kind::DateTime(digits) => time::date_time(bytes, digits),
            Kind::Timestamp(digits) => time::timestamp(bytes, digits),
        };
        number.map_or(Value::Null, Value::Number)
    }

    /// The bytes of a column; nothing when it is NULL or can't be read.
    pub(crate) fn raw(&self, column: usize) -> Option<&'row [u8]> {
        let column = self.schema.columns.get(column)?;
        let is_null = |bit: u32| {
            let byte = usize::try_from(bit / 8).ok().and_then(|at| self.nulls.get(at));
            byte.is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
        };
        if column.null_bit.is_some_and(is_null) { None } else { self.bytes(column.layout) }
    }

    fn bytes(&self, layout: ColumnLayout) -> Option<&'row [u8]> {
        match layout {
            ColumnLayout::Fixed(offset, len) => {
                let start = usize::try_from(offset).ok()?;
                self.fixed.get(start..start.checked_add(usize::try_from(len).ok()?)?)
            }
            ColumnLayout::Variable(before) => {
                let mut reader = ByteReader::new(self.variable);
                for _ in 0..before {
                    let len = reader.count()?;
                    reader.take(len)?;
                }
                let len = reader.count()?;
                reader.take(len)
            }
        }
    }
}

fn integer(bytes: &[u8], signed: bool) -> Option<Number> {
    let value = bytes.iter().rev().fold(0i128, |value, byte| value << 8 | i128::from(*byte));
    let bits = 8 * u32::try_from(bytes.len()).ok().filter(|len| *len <= 8)?;
    let negative = signed && bits > 0 && value >> (bits - 1) & 1 == 1;
    Some(Number::from(if negative { value - (1i128 << bits) } else { value }))
}

/// Bytes of a group, by its number of digits.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// The server's packed decimal: groups of nine digits in four bytes, shorter groups at both ends, big-endian.
/// The first bit is inverted, and all bits are inverted when the number is negative.
fn decimal(bytes: &[u8], precision: u8, scale: u8) -> Option<Number> {
    if precision > SCALE_MAX {
        return None;
    }
    let negative = bytes.first()? & 0x80 == 0;
    let (whole, behind) = (usize::from(precision.checked_sub(scale)?), usize::from(scale));
    let mut groups = vec![whole % 9];
    groups.extend(std::iter::repeat_n(9, whole / 9 + behind / 9));
    groups.push(behind % 9);
    let mut rest = bytes;
    let mut digits = 0i128;
    for (nth, group) in groups.into_iter().enumerate() {
        let (taken, left) = rest.split_at_checked(*GROUP_BYTES.get(group)?)?;
        // The sign bit is in the first byte, whichever group that byte belongs to.
        let first = rest.len() == bytes.len();
        let byte = |(at, byte): (usize, &u8)| {
            let byte = if first && at == 0 { byte ^ 0x80 } else { *byte };
            i128::from(if negative { !byte } else { byte })
        };
        let value = taken.iter().enumerate().map(byte).fold(0, |value, byte| value << 8 | byte);
        digits = digits.checked_mul(10i128.pow(u32::try_from(group).ok()?))?.checked_add(value)?;
        rest = left;
        debug_assert!(nth < 16);
    }
    Some(Number { digits: if negative { -digits } else { digits }, scale })
}
