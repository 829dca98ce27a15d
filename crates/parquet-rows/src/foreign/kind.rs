//! What the columns of a file are.

use std::fmt;

use arrow_schema::{DataType, Field, TimeUnit};

use super::Error;

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// Whether the file says that no value is NULL.
    pub required: bool,
}

/// What the values of a column are, and so how they are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but NULL.
    Null,
    /// True or false, written as 1 and 0.
    Boolean,
    /// Whole numbers.
    Integer {
        /// Bytes of a number: 1, 2, 4 or 8.
        bytes: u8,
        /// Whether there are none below zero.
        unsigned: bool,
    },
    /// Decimal numbers.
    Decimal {
        /// Their digits.
        precision: u8,
        /// How many of them are behind the point; before it there are as many zeros more if this is negative.
        scale: i8,
    },
    /// Numbers of 16 or 32 bits with a binary exponent.
    Float,
    /// The same with 64 bits.
    Double,
    /// Days.
    Date,
    /// Times of day.
    Time {
        /// Digits of the fraction of a second: 0, 3, 6 or 9.
        fraction: u8,
    },
    /// Points in time, or date and time of a place that is not told.
    Timestamp {
        /// Digits of the fraction of a second: 0, 3, 6 or 9.
        fraction: u8,
        /// Whether they are in UTC.
        utc: bool,
    },
    /// Text in UTF-8.
    Text,
    /// JSON in UTF-8.
    Json,
    /// Bytes, written as hexadecimal digits.
    Bytes {
        /// How many, if all values have the same number.
        length: Option<u32>,
    },
    /// UUIDs, written as their 36 characters.
    Uuid,
    /// Shapes as well-known binary, written as hexadecimal digits.
    Geometry,
    /// Lists, structures and maps, written as JSON.
    Nested,
    /// One text for all rows, which the file's path has, and which may be of any type.
    InPath,
}

impl Kind {
    /// Whether values are written as hexadecimal digits.
    #[must_use]
    pub fn is_hexadecimal(self) -> bool {
        matches!(self, Kind::Bytes { .. } | Kind::Geometry)
    }

    /// Whether a value is written in JSON as it is, without quotes.
    pub(crate) fn is_number(self) -> bool {
        use Kind::{Decimal, Double, Float, Integer};
        matches!(self, Integer { .. } | Decimal { .. } | Float | Double)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Null => f.write_str("only NULL"),
            Kind::Boolean => f.write_str("BOOLEAN"),
            Kind::Integer { bytes, unsigned } => {
                write!(f, "{}INT{}", if *unsigned { "U" } else { "" }, u32::from(*bytes) * 8)
            }
            Kind::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            Kind::Float => f.write_str("FLOAT"),
            Kind::Double => f.write_str("DOUBLE"),
            Kind::Date => f.write_str("DATE"),
            Kind::Time { fraction } => write!(f, "TIME({fraction})"),
            Kind::Timestamp { fraction, utc } => {
                write!(f, "TIMESTAMP({fraction}) {}", if *utc { "in UTC" } else { "without a time zone" })
            }
            Kind::Text => f.write_str("text"),
            Kind::Json => f.write_str("JSON"),
            Kind::Bytes { length: None } => f.write_str("bytes"),
            Kind::Bytes { length: Some(length) } => write!(f, "{length} bytes"),
            Kind::Uuid => f.write_str("UUID"),
            Kind::Geometry => f.write_str("geometry"),
            Kind::Nested => f.write_str("nested"),
            Kind::InPath => f.write_str("in the path"),
        }
    }
}

fn fraction(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// What the values of an Arrow type are; the reason if there is nothing like them in a table.
pub(crate) fn of(kind: &DataType) -> Result<Kind, String> {
    let integer = |bytes, unsigned| Kind::Integer { bytes, unsigned };
    Ok(match kind {
        DataType::Null => Kind::Null,
        DataType::Boolean => Kind::Boolean,
        DataType::Int8 => integer(1, false),
        DataType::Int16 => integer(2, false),
        DataType::Int32 => integer(4, false),
        DataType::Int64 => integer(8, false),
        DataType::UInt8 => integer(1, true),
        DataType::UInt16 => integer(2, true),
        DataType::UInt32 => integer(4, true),
        DataType::UInt64 => integer(8, true),
        DataType::Float16 | DataType::Float32 => Kind::Float,
        DataType::Float64 => Kind::Double,
        DataType::Date32 | DataType::Date64 => Kind::Date,
        DataType::Time32(unit) | DataType::Time64(unit) => Kind::Time { fraction: fraction(*unit) },
        DataType::Timestamp(unit, zone) => Kind::Timestamp { fraction: fraction(*unit), utc: zone.is_some() },
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Kind::Decimal { precision: *precision, scale: *scale },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kind::Bytes { length: None },
        DataType::FixedSizeBinary(length) => Kind::Bytes { length: u32::try_from(*length).ok() },
        DataType::Dictionary(_, values) => of(values)?,
        DataType::RunEndEncoded(_, values) => of(values.data_type())?,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(_, _)
        | DataType::Struct(_)
        | DataType::Map(_, _) => Kind::Nested,
        DataType::Duration(_) | DataType::Interval(_) => {
            return Err("a length of time has no type in a table; write it as a number first".to_owned());
        }
        other => return Err(format!("values of the type {other} can't be read")),
    })
}

/// The kind of an Arrow field, with what its extension says.
pub(crate) fn of_field(field: &Field) -> Result<Kind, String> {
    let kind = of(field.data_type())?;
    let extension = field.metadata().get("ARROW:extension:name").map_or("", String::as_str);
    Ok(match (extension, kind) {
        ("arrow.uuid", Kind::Bytes { length: Some(16) }) => Kind::Uuid,
        ("arrow.json", Kind::Text) => Kind::Json,
        ("geoarrow.wkb", Kind::Bytes { .. }) => Kind::Geometry,
        _ => kind,
    })
}

/// Refuses nested columns unless they are wanted as JSON.
pub(crate) fn check_nested(column: &Column, wanted: bool) -> Result<(), Error> {
    if column.kind != Kind::Nested || wanted {
        return Ok(());
    }
    Err(Error::column(
        &column.name,
        "its values are lists, structures or maps; --nested json makes JSON text of them, --fields names the columns to \
         read without it",
    ))
}
