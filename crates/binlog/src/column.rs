//! How the values of a column are stored in a row.

use innodb::table::decimal_bytes;

use crate::error::Flaw;
use crate::wire::Wire;

/// How values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An integer of so many bytes.
    Int(u8),
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL: all digits, and those behind the point.
    Decimal(u8, u8),
    /// BIT: so many bits.
    Bit(u16),
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME with so many decimals.
    Time(u8),
    /// DATETIME with so many decimals.
    Datetime(u8),
    /// TIMESTAMP with so many decimals.
    Timestamp(u8),
    /// TIME in the format before MySQL 5.6.
    OldTime,
    /// DATETIME in that format.
    OldDatetime,
    /// TIMESTAMP in that format.
    OldTimestamp,
    /// ENUM in so many bytes.
    Enum(u8),
    /// SET in so many bytes.
    Set(u8),
    /// CHAR, BINARY, UUID, INET4, INET6: at most so many bytes.
    Char(u16),
    /// VARCHAR, VARBINARY: at most so many bytes.
    Varchar(u16),
    /// The same, COMPRESSED.
    PackedVarchar(u16),
    /// BLOB and TEXT of every size, JSON of MariaDB: the bytes of the length.
    Blob(u8),
    /// The same, COMPRESSED.
    PackedBlob(u8),
    /// GEOMETRY: the bytes of the length.
    Geometry(u8),
    /// VECTOR of MySQL: the bytes of the length.
    Vector(u8),
    /// JSON of MySQL: the bytes of the length.
    Json(u8),
    /// A column that is always NULL.
    Null,
}

const TOO_LONG: Flaw = Flaw("invalid column metadata");

impl Type {
    /// Reads the properties of a type with this number.
    pub(crate) fn parse(number: u8, details: &mut Wire<'_>) -> Result<Type, Flaw> {
        Ok(match number {
            1 => Type::Int(1),
            2 => Type::Int(2),
            3 => Type::Int(4),
            4 | 5 => return float(details.u8()?),
            6 => Type::Null,
            7 => Type::OldTimestamp,
            8 => Type::Int(8),
            9 => Type::Int(3),
            10 | 14 => Type::Date,
            11 => Type::OldTime,
            12 => Type::OldDatetime,
            13 => Type::Year,
            15 | 253 => Type::Varchar(details.u16()?),
            16 => {
                let (bits, bytes) = (details.u8()?, details.u8()?);
                bounded(Type::Bit(u16::from(bytes) * 8 + u16::from(bits)), bits < 8 && bytes <= 8)?
            }
            17 => decimals(details.u8()?, Type::Timestamp)?,
            18 => decimals(details.u8()?, Type::Datetime)?,
            19 => decimals(details.u8()?, Type::Time)?,
            140 => length(details.u8()?, Type::PackedBlob)?,
            141 => Type::PackedVarchar(details.u16()?),
            242 => length(details.u8()?, Type::Vector)?,
            245 => length(details.u8()?, Type::Json)?,
            246 => {
                let (precision, scale) = (details.u8()?, details.u8()?);
                let is_valid = (1..=65).contains(&precision) && scale <= precision.min(38);
                bounded(Type::Decimal(precision, scale), is_valid)?
            }
            247 | 248 | 254 => return string(number, details.u8()?, details.u8()?),
            249..=252 => length(details.u8()?, Type::Blob)?,
            255 => length(details.u8()?, Type::Geometry)?,
            _ => return Err(Flaw("unknown column type")),
        })
    }

    /// The bytes of the value that `wire` begins with.
    pub(crate) fn stored_len(self, mut wire: Wire<'_>) -> Result<usize, Flaw> {
        let after = |wire: &mut Wire<'_>, len_bytes: u8| {
            let len = usize::try_from(wire.uint(len_bytes.into())?);
            len.ok().and_then(|len| len.checked_add(len_bytes.into())).ok_or(Flaw("a value is too long"))
        };
        Ok(match self {
            Type::Int(bytes) | Type::Enum(bytes) | Type::Set(bytes) => bytes.into(),
            Type::Float | Type::OldTimestamp => 4,
            Type::Double | Type::OldDatetime => 8,
            Type::Decimal(precision, scale) => decimal_bytes(precision, scale).into(),
            Type::Bit(bits) => usize::from(bits.div_ceil(8)),
            Type::Year => 1,
            Type::Date | Type::OldTime => 3,
            Type::Time(decimals) => 3 + usize::from(decimals.div_ceil(2)),
            Type::Timestamp(decimals) => 4 + usize::from(decimals.div_ceil(2)),
            Type::Datetime(decimals) => 5 + usize::from(decimals.div_ceil(2)),
            Type::Char(max) | Type::Varchar(max) | Type::PackedVarchar(max) => {
                after(&mut wire, if max > 255 { 2 } else { 1 })?
            }
            Type::Blob(bytes)
            | Type::PackedBlob(bytes)
            | Type::Geometry(bytes)
            | Type::Vector(bytes)
            | Type::Json(bytes) => after(&mut wire, bytes)?,
            Type::Null => 0,
        })
    }

    /// Whether the log says if it is signed or unsigned. MariaDB says so of YEAR too.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Type::Int(_) | Type::Float | Type::Double | Type::Decimal(..) | Type::Year)
    }

    /// Whether it has a collation, and no members. In MariaDB's logs GEOMETRY has one too.
    pub(crate) fn is_text(self) -> bool {
        matches!(
            self,
            Type::Char(_) | Type::Varchar(_) | Type::PackedVarchar(_) | Type::Blob(_) | Type::PackedBlob(_)
        )
    }

    pub(crate) fn is_enum(self) -> bool {
        matches!(self, Type::Enum(_))
    }

    pub(crate) fn is_set(self) -> bool {
        matches!(self, Type::Set(_))
    }
}

fn bounded(kind: Type, is_valid: bool) -> Result<Type, Flaw> {
    if is_valid { Ok(kind) } else { Err(TOO_LONG) }
}

fn float(bytes: u8) -> Result<Type, Flaw> {
    match bytes {
        4 => Ok(Type::Float),
        8 => Ok(Type::Double),
        _ => Err(TOO_LONG),
    }
}

fn decimals(number: u8, kind: impl Fn(u8) -> Type) -> Result<Type, Flaw> {
    bounded(kind(number), number <= 6)
}

/// A type whose values begin with a length of so many bytes.
fn length(bytes: u8, kind: impl Fn(u8) -> Type) -> Result<Type, Flaw> {
    bounded(kind(bytes), (1..=4).contains(&bytes))
}

/// CHAR, ENUM and SET share a number; the real one comes first. Two bits of the length of a long CHAR are in
/// that byte too, inverted.
fn string(number: u8, first: u8, second: u8) -> Result<Type, Flaw> {
    let number = if number == 254 { first } else { number };
    match number {
        247 => bounded(Type::Enum(second), matches!(second, 1 | 2)),
        248 => bounded(Type::Set(second), (1..=8).contains(&second)),
        _ if first | 0x30 == 0xFE => {
            Ok(Type::Char(u16::from(second) | u16::from((first & 0x30) ^ 0x30) << 4))
        }
        _ => Err(TOO_LONG),
    }
}
