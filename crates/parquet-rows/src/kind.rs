//! The kinds of columns: which type of Parquet each has, and how its values go from text and back.

use innodb::table::Type as SqlType;
use innodb::table::collation::Charset;
use innodb::value::{decode_as, encode_as};
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::schema::types::{PrimitiveTypeBuilder, Type};
use std::sync::Arc;

use crate::Error;
use crate::date::{parse_date, parse_datetime, print_date, print_datetime};
use crate::leaf::{Leaf, Values};
use crate::number::{Number, Store};
use crate::value::Value;

/// Values of more bytes are odd: readers take a page into memory as a whole.
pub(crate) const VALUE_BYTES_MAX: usize = 256 << 20;

/// A kind of column.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Number(Number),
    /// One bit.
    Bool,
    /// That many bits, in whole bytes, the highest first.
    Bits(u8),
    Date,
    /// With that many digits of a second.
    Datetime {
        fraction: u8,
        is_utc: bool,
    },
    Float(SqlType),
    Double(SqlType),
    Text {
        charset: Charset,
        /// Whether its texts of ASCII are the same bytes in UTF-8.
        has_ascii: bool,
    },
    Bytes,
    Geometry,
    Vector,
    /// No field at all: the name of the file's folder has the value.
    InPath,
}

impl Kind {
    /// Text in UTF-8.
    pub(crate) fn utf8() -> Kind {
        Kind::text_in(Charset { name: "utf8mb4", min: 1, max: 4 })
    }

    /// The fields of a column in the file: one, or two for a geometry, the second of which has its own name.
    pub(crate) fn fields(&self, name: &str, srid: &str) -> Result<Vec<Type>, Error> {
        let logical = |physical, logical| plain(name, physical).with_logical_type(Some(logical)).build();
        let one = match self {
            Kind::Number(number) => return Ok(vec![number_field(name, *number)?]),
            Kind::Bits(64) => number_field(name, Number::decimal(20, 0, 1))?,
            Kind::Bool => plain(name, PhysicalType::BOOLEAN).build()?,
            Kind::Bits(_) => plain(name, PhysicalType::INT64).build()?,
            Kind::Date => logical(PhysicalType::INT32, LogicalType::Date)?,
            Kind::Datetime { is_utc, .. } => {
                logical(PhysicalType::INT64, LogicalType::timestamp(*is_utc, TimeUnit::MICROS))?
            }
            Kind::Float(_) => plain(name, PhysicalType::FLOAT).build()?,
            Kind::Double(_) => plain(name, PhysicalType::DOUBLE).build()?,
            Kind::Text { .. } => logical(PhysicalType::BYTE_ARRAY, LogicalType::String)?,
            Kind::Bytes => plain(name, PhysicalType::BYTE_ARRAY).build()?,
            Kind::Geometry => {
                let srid = plain(srid, PhysicalType::INT64).build()?;
                return Ok(vec![plain(name, PhysicalType::BYTE_ARRAY).build()?, srid]);
            }
            Kind::InPath => return Ok(Vec::new()),
            Kind::Vector => {
                let element = Type::primitive_type_builder("element", PhysicalType::FLOAT)
                    .with_repetition(Repetition::REQUIRED);
                let list = Type::group_type_builder("list")
                    .with_repetition(Repetition::REPEATED)
                    .with_fields(vec![Arc::new(element.build()?)]);
                Type::group_type_builder(name)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_logical_type(Some(LogicalType::List))
                    .with_fields(vec![Arc::new(list.build()?)])
                    .build()?
            }
        };
        Ok(vec![one])
    }

    /// Places for the values of a column, one for each of its fields.
    pub(crate) fn leaves(&self) -> Vec<Leaf> {
        let number = |number: Number| match number.store {
            Store::Int32 => Values::Int32(Vec::new()),
            Store::Int64 => Values::Int64(Vec::new()),
            Store::Fixed(bytes) => Values::Fixed(bytes, Vec::new()),
        };
        let values = match self {
            Kind::Number(kind) => number(*kind),
            Kind::Bits(64) => number(Number::decimal(20, 0, 1)),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Date => Values::Int32(Vec::new()),
            Kind::Bits(_) | Kind::Datetime { .. } => Values::Int64(Vec::new()),
            Kind::Float(_) => Values::Float(Vec::new()),
            Kind::Double(_) => Values::Double(Vec::new()),
            Kind::Text { .. } | Kind::Bytes => Values::bytes(),
            Kind::Geometry => {
                return vec![Leaf::new(Values::bytes(), false), Leaf::new(Values::Int64(Vec::new()), false)];
            }
            Kind::Vector => return vec![Leaf::new(Values::Float(Vec::new()), true)],
            Kind::InPath => return Vec::new(),
        };
        vec![Leaf::new(values, false)]
    }

    /// The value of a text, which may use the scratch space; `None` if the type has no such value.
    pub(crate) fn parse<'a>(&self, text: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<Value<'a>> {
        if text.len() > VALUE_BYTES_MAX {
            return None;
        }
        Some(match self {
            Kind::Date | Kind::Number(Number { store: Store::Int32, .. }) => {
                Value::Int32(i32::try_from(self.parse_integer(text)?).ok()?)
            }
            Kind::Datetime { .. } | Kind::Number(Number { store: Store::Int64, .. }) => {
                Value::Int64(self.parse_integer(text)?)
            }
            Kind::Number(number) => Value::Wide(number.parse(text)?),
            Kind::Bool => match text {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return None,
            },
            Kind::Bits(bits) => {
                if text.len() != usize::from(*bits).div_ceil(8) {
                    return None;
                }
                let number = text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                match bits {
                    64 => Value::Wide(number.into()),
                    _ => Value::Int64(i64::try_from(number).ok()?),
                }
            }
            Kind::Float(kind) => Value::Float(f32::from_le_bytes(stored(kind, text, scratch)?)),
            Kind::Double(kind) => Value::Double(f64::from_le_bytes(stored(kind, text, scratch)?)),
            Kind::Text { has_ascii: true, .. } if text.is_ascii() => Value::Bytes(text),
            Kind::Text { charset, .. } if is_utf8(charset) => {
                Value::Bytes(std::str::from_utf8(text).ok()?.as_bytes())
            }
            Kind::Text { charset, .. } => {
                scratch.clear();
                scratch.extend_from_slice(charset.text(text)?.as_bytes());
                Value::Bytes(scratch)
            }
            Kind::Bytes => Value::Bytes(text),
            Kind::Geometry => {
                let (srid, shape) = text.split_first_chunk()?;
                Value::Geometry(u32::from_le_bytes(*srid), shape)
            }
            Kind::Vector if text.len().is_multiple_of(4) => Value::Vector(text),
            Kind::Vector | Kind::InPath => return None,
        })
    }

    /// Whether the file has its values as numbers of 32 or 64 bits, each of which is printed as one text.
    pub(crate) fn is_integer(&self) -> bool {
        self.has_one_text() && !matches!(self, Kind::Number(Number { store: Store::Fixed(_), .. }))
    }

    /// The number of a text of such a kind.
    pub(crate) fn parse_integer(&self, text: &[u8]) -> Option<i64> {
        match self {
            Kind::Number(number) => number.parse_short(text),
            Kind::Date => parse_date(text),
            Kind::Datetime { fraction, .. } => parse_datetime(text, *fraction),
            _ => None,
        }
    }

    /// Whether a text that is parsed is the one that its value is printed as.
    pub(crate) fn has_one_text(&self) -> bool {
        matches!(self, Kind::Number(_) | Kind::Date | Kind::Datetime { .. })
    }

    /// Appends the text of a value. Returns whether it is one of this kind.
    pub(crate) fn print(&self, value: Value<'_>, out: &mut Vec<u8>) -> bool {
        match (self, value) {
            (Kind::Number(number), Value::Int32(value)) => number.print(value.into(), out),
            (Kind::Number(number), Value::Int64(value)) => number.print(value.into(), out),
            (Kind::Number(number), Value::Wide(value)) => number.print(value, out),
            (Kind::Bool, Value::Bool(value)) => out.push(value.into()),
            (Kind::Bits(bits), value) => {
                let number = match value {
                    Value::Int64(value) => u64::try_from(value).ok(),
                    Value::Wide(value) => u64::try_from(value).ok(),
                    _ => None,
                };
                let Some(number) = number else { return false };
                let bytes = usize::from(*bits).div_ceil(8);
                out.extend_from_slice(&number.to_be_bytes()[8 - bytes.min(8)..]);
            }
            (Kind::Date, Value::Int32(days)) => print_date(days.into(), out),
            (Kind::Datetime { fraction, .. }, Value::Int64(micros)) => print_datetime(micros, *fraction, out),
            (Kind::Float(kind), Value::Float(value)) => {
                return decode_as(kind, &value.to_le_bytes(), out).is_ok();
            }
            (Kind::Double(kind), Value::Double(value)) => {
                return decode_as(kind, &value.to_le_bytes(), out).is_ok();
            }
            (Kind::Text { charset, .. }, Value::Bytes(text)) if is_utf8(charset) => {
                out.extend_from_slice(text)
            }
            (Kind::Text { charset, .. }, Value::Bytes(text)) => {
                let text = std::str::from_utf8(text).ok().and_then(|text| charset.bytes(text));
                let Some(text) = text else { return false };
                out.extend_from_slice(&text);
            }
            (Kind::Bytes, Value::Bytes(bytes)) | (Kind::Vector, Value::Vector(bytes)) => {
                out.extend_from_slice(bytes);
            }
            (Kind::Geometry, Value::Geometry(srid, shape)) => {
                out.extend_from_slice(&srid.to_le_bytes());
                out.extend_from_slice(shape);
            }
            _ => return false,
        }
        true
    }
}

impl Kind {
    /// Text in a character set.
    pub(crate) fn text_in(charset: Charset) -> Kind {
        // There and back: sjis reads 5C as a backslash, and writes a backslash as 81 5F.
        let is_same = |byte: u8| {
            charset.text(&[byte]).is_some_and(|text| {
                text.as_bytes() == [byte] && charset.bytes(&text).is_some_and(|back| back == [byte])
            })
        };
        Kind::Text { charset, has_ascii: (0..0x80).all(is_same) }
    }
}

fn is_utf8(charset: &Charset) -> bool {
    matches!(charset.name, "utf8mb4" | "utf8mb3")
}

/// A number as the server stores it.
fn stored<const BYTES: usize>(kind: &SqlType, text: &[u8], scratch: &mut Vec<u8>) -> Option<[u8; BYTES]> {
    scratch.clear();
    encode_as(kind, text, scratch).ok()?;
    scratch.first_chunk().copied()
}

fn plain(name: &str, physical: PhysicalType) -> PrimitiveTypeBuilder<'_> {
    Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL)
}

fn number_field(name: &str, number: Number) -> Result<Type, Error> {
    let (physical, length) = match number.store {
        Store::Int32 => (PhysicalType::INT32, None),
        Store::Int64 => (PhysicalType::INT64, None),
        Store::Fixed(bytes) => (PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(i32::from(bytes))),
    };
    let mut field = plain(name, physical);
    if let Some(length) = length {
        field = field.with_length(length);
    }
    if let Some(precision) = number.decimals {
        let (precision, scale) = (i32::from(precision), i32::from(number.scale));
        let logical = LogicalType::decimal(scale, precision);
        field = field.with_logical_type(Some(logical)).with_precision(precision).with_scale(scale);
    }
    Ok(field.build()?)
}
