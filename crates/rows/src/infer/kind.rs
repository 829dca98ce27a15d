//! The types of columns, and the spellings of their values.

use std::fmt;

use crate::date_time::DateOrder;

/// A type of MySQL and MariaDB, without NULL or NOT NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnKind {
    /// Every value is `true`, `false`, `t` or `f`, which must be rewritten as 1 and 0.
    Boolean,
    /// An integer of 1, 2, 3, 4 or 8 bytes.
    Int {
        /// Storage size.
        bytes: u8,
        /// Whether no value is negative.
        unsigned: bool,
    },
    /// Exact decimal numbers.
    Decimal {
        /// Digits in all, 1 to 65.
        precision: u8,
        /// Digits after the point, 0 to 30.
        scale: u8,
    },
    /// Numbers with exponents.
    Double,
    /// Calendar dates.
    Date,
    /// Times of day or spans of time.
    Time {
        /// Fractional digits of the seconds, 0 to 6.
        fraction: u8,
    },
    /// Dates with a time.
    DateTime {
        /// Fractional digits of the seconds, 0 to 6.
        fraction: u8,
        /// Whether every value ends in `Z` or an offset, which must be removed; the time is then UTC.
        utc: bool,
    },
    /// Text with a limit.
    Varchar {
        /// The limit in characters.
        chars: u32,
    },
    /// Text of up to 65535 bytes.
    Text,
    /// Text of up to 16 MiB.
    MediumText,
    /// Text of up to 4 GiB.
    LongText,
    /// Bytes that are not all UTF-8, with a limit.
    Varbinary {
        /// The limit in bytes.
        bytes: u32,
    },
    /// Such bytes, up to 65535.
    Blob,
    /// Such bytes, up to 16 MiB.
    MediumBlob,
    /// Such bytes, up to 4 GiB.
    LongBlob,
}

impl ColumnKind {
    /// Whether it holds any text of UTF-8.
    pub(crate) fn is_text(self) -> bool {
        matches!(
            self,
            ColumnKind::Varchar { .. } | ColumnKind::Text | ColumnKind::MediumText | ColumnKind::LongText
        )
    }
}

/// How the values of a column are written, if a server does not read them as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// A server reads them as they are.
    #[default]
    Plainly,
    /// With a decimal comma.
    DecimalComma,
    /// With the year at the end.
    Dates(DateOrder),
}

/// What is known about how people wrote the values, and what types to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// What comes first in a date with the year at the end; `None` if the values must show it.
    pub date_order: Option<DateOrder>,
    /// Whether a comma is a decimal comma, even where it could be a thousands separator, and in files that
    /// otherwise have points.
    pub decimal_comma: bool,
    /// Whether the file shows that its numbers have points: then a number with a comma is more likely a list.
    pub points: bool,
    /// Whether an empty field is NULL.
    pub empty_is_null: bool,
    /// Whether types have room for somewhat larger values than those observed.
    pub roomy: bool,
}

impl Habits {
    /// The same, with the tightest types.
    #[must_use]
    pub fn tight(self) -> Habits {
        Habits { roomy: false, ..self }
    }
}

/// The declaration of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The type itself.
    pub kind: ColumnKind,
    /// Whether it has NULLs or may have some.
    pub nullable: bool,
    /// The longest value as text, in characters (bytes, if it is not UTF-8).
    pub max_chars: u64,
    /// The longest value as text, in bytes of UTF-8.
    pub max_bytes: u64,
    /// How its values are written.
    pub written: Written,
}

impl ColumnType {
    /// Whether a column of this type with [unique](super::KeyStats::unique) values can be a primary key: it
    /// has no NULLs, and values are equal only if their text is.
    pub fn suits_key(&self) -> bool {
        let kind =
            matches!(self.kind, ColumnKind::Int { .. } | ColumnKind::Date | ColumnKind::Varchar { .. });
        kind && !self.nullable
    }
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ColumnKind::Boolean => f.write_str("BOOLEAN"),
            ColumnKind::Int { bytes, unsigned } => {
                f.write_str(match bytes {
                    1 => "TINYINT",
                    2 => "SMALLINT",
                    3 => "MEDIUMINT",
                    4 => "INT",
                    _ => "BIGINT",
                })?;
                f.write_str(if unsigned { " UNSIGNED" } else { "" })
            }
            ColumnKind::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            ColumnKind::Double => f.write_str("DOUBLE"),
            ColumnKind::Date => f.write_str("DATE"),
            ColumnKind::Time { fraction: 0 } => f.write_str("TIME"),
            ColumnKind::Time { fraction } => write!(f, "TIME({fraction})"),
            ColumnKind::DateTime { fraction: 0, .. } => f.write_str("DATETIME"),
            ColumnKind::DateTime { fraction, .. } => write!(f, "DATETIME({fraction})"),
            ColumnKind::Varchar { chars } => write!(f, "VARCHAR({chars})"),
            ColumnKind::Text => f.write_str("TEXT"),
            ColumnKind::MediumText => f.write_str("MEDIUMTEXT"),
            ColumnKind::LongText => f.write_str("LONGTEXT"),
            ColumnKind::Varbinary { bytes } => write!(f, "VARBINARY({bytes})"),
            ColumnKind::Blob => f.write_str("BLOB"),
            ColumnKind::MediumBlob => f.write_str("MEDIUMBLOB"),
            ColumnKind::LongBlob => f.write_str("LONGBLOB"),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, if self.nullable { "NULL" } else { "NOT NULL" })
    }
}
