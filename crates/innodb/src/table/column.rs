//! Columns and their types.

use super::collation::Collation;

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// They are given by the user.
    No,
    /// They are computed when read, and stored at most in indexes.
    Virtual,
    /// They are computed when written, and stored like others.
    Stored,
    /// The start of a row's validity in a system-versioned table.
    RowStart,
    /// Its end, which is part of every unique key.
    RowEnd,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Where its values come from.
    pub generated: Generated,
    /// Whether it is invisible to all statements, because the server or InnoDB added it.
    pub hidden: bool,
    /// Whether it is AUTO_INCREMENT.
    pub auto_increment: bool,
}

/// The digits and decimals that FLOAT and DOUBLE may be declared with, and other properties of their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    /// Digits, and how many of them are decimals, if declared.
    pub digits: Option<(u8, u8)>,
    /// Whether negative numbers are refused.
    pub unsigned: bool,
    /// Whether a DOUBLE is printed with leading zeros, to the width of its type.
    pub zerofill: bool,
}

/// A type, with everything that determines how its values are stored and printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// TINYINT to BIGINT.
    Int {
        /// Bytes stored: 1, 2, 3, 4, 8.
        bytes: u8,
        /// Whether it is unsigned.
        unsigned: bool,
        /// The width to which leading zeros fill its text; 0 for none.
        zerofill: u8,
    },
    /// FLOAT.
    Float(FloatFormat),
    /// DOUBLE.
    Double(FloatFormat),
    /// DECIMAL.
    Decimal {
        /// Digits, up to 65.
        precision: u8,
        /// How many of them are after the point, up to 38.
        scale: u8,
        /// Whether negative numbers are refused.
        unsigned: bool,
        /// Whether it is printed with all its digits.
        zerofill: bool,
    },
    /// BIT.
    Bit {
        /// Bits, 1 to 64.
        bits: u8,
    },
    /// YEAR.
    Year {
        /// YEAR(2).
        short: bool,
    },
    /// DATE.
    Date,
    /// TIME.
    Time {
        /// Fractional digits, 0 to 6.
        fraction: u8,
    },
    /// DATETIME.
    Datetime {
        /// Fractional digits, 0 to 6.
        fraction: u8,
    },
    /// TIMESTAMP.
    Timestamp {
        /// Fractional digits, 0 to 6.
        fraction: u8,
        /// Whether the server has times from 2038-01-19 03:14:08 to 2106-02-07 06:28:15 (MariaDB 11.5+).
        wide: bool,
    },
    /// CHAR, or BINARY in the binary character set.
    Char {
        /// Characters.
        chars: u16,
        /// Its collation.
        collation: Collation,
    },
    /// VARCHAR, or VARBINARY in the binary character set.
    Varchar {
        /// The most characters.
        chars: u16,
        /// Its collation.
        collation: Collation,
        /// Whether values are compressed individually.
        compressed: bool,
    },
    /// TINYTEXT to LONGTEXT, or BLOBs in the binary character set; JSON too.
    Blob {
        /// Bytes of the length in the server: 1 for TINYTEXT, up to 4 for LONGTEXT.
        length_bytes: u8,
        /// Its collation.
        collation: Collation,
        /// Whether values are compressed individually.
        compressed: bool,
    },
    /// ENUM.
    Enum(Members),
    /// SET.
    Set(Members),
    /// UUID.
    Uuid {
        /// Whether the parts of every value are swapped, as in tables of MariaDB before 10.11.5 and its
        /// contemporaries, and not only those of versions 1 to 5.
        always_swapped: bool,
    },
    /// INET4.
    Inet4,
    /// INET6.
    Inet6,
    /// JSON of MySQL, in its binary form. That of MariaDB is a LONGTEXT.
    Json,
    /// VECTOR.
    Vector {
        /// Numbers in it.
        dimensions: u16,
    },
    /// GEOMETRY and the types derived from it.
    Geometry(GeometryKind),
}

/// What a spatial column may contain, by its number in WKB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GeometryKind {
    /// Any of the others.
    Any = 0,
    /// POINT.
    Point = 1,
    /// LINESTRING.
    Linestring = 2,
    /// POLYGON.
    Polygon = 3,
    /// MULTIPOINT.
    Multipoint = 4,
    /// MULTILINESTRING.
    Multilinestring = 5,
    /// MULTIPOLYGON.
    Multipolygon = 6,
    /// GEOMETRYCOLLECTION.
    Collection = 7,
}

impl GeometryKind {
    /// All of them, each at its number.
    pub const ALL: [GeometryKind; 8] = [
        GeometryKind::Any,
        GeometryKind::Point,
        GeometryKind::Linestring,
        GeometryKind::Polygon,
        GeometryKind::Multipoint,
        GeometryKind::Multilinestring,
        GeometryKind::Multipolygon,
        GeometryKind::Collection,
    ];
}

/// The members of an ENUM or SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    names: Vec<Vec<u8>>,
    collation: Collation,
    numbered: bool,
}

impl Members {
    /// Members with these names, encoded in the collation's character set.
    #[must_use]
    pub fn new(names: Vec<Vec<u8>>, collation: Collation) -> Members {
        let numbered = !apart(&names, collation);
        Members { names, collation, numbered }
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// Their collation.
    #[must_use]
    pub fn collation(&self) -> Collation {
        self.collation
    }

    /// Whether the text of a value is its number, because a name may not be unique: the same rule as in the
    /// files of a dump (docs/formats/dump.md).
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.numbered
    }
}

/// Whether each name certainly stands for one member, and none looks like a number that a dump writes.
fn apart(names: &[Vec<u8>], collation: Collation) -> bool {
    let wide = usize::from(collation.charset().min);
    // The rule looks at one byte for each character of two or four bytes.
    let plain = |name: &Vec<u8>| -> Vec<u8> {
        if wide == 1 {
            return name.to_ascii_lowercase();
        }
        name.chunks(wide).map(|char| ascii(char, collation).to_ascii_lowercase()).collect()
    };
    let mut names: Vec<Vec<u8>> = names.iter().map(plain).collect();
    names.sort();
    let odd = names.iter().any(|name| name.is_empty() || name.starts_with(b"#"));
    // If two neighbours in sorted order surely differ, then so do all names.
    !odd && names.iter().zip(names.iter().skip(1)).all(|(one, other)| surely_differ(one, other))
}

/// A character of two or four bytes as one byte: itself if it is ASCII, 255 otherwise.
fn ascii(char: &[u8], collation: Collation) -> u8 {
    let (low, high) = if collation.charset().name == "utf16le" {
        (char.first(), char.get(1..))
    } else {
        (char.last(), char.get(..char.len() - 1))
    };
    let zero = high.is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
    low.copied().filter(|byte| zero && byte.is_ascii()).unwrap_or(255)
}

/// Whether every collation tells two names apart: their first difference is in ASCII letters or digits, after
/// nothing but ASCII.
fn surely_differ(one: &[u8], other: &[u8]) -> bool {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let plain = one.iter().take(same).all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
    let counts = |name: &[u8]| name.get(same).is_none_or(u8::is_ascii_alphanumeric);
    plain && one.len().max(other.len()) > same && counts(one) && counts(other)
}
