//! Values.

use std::borrow::Cow;

use innodb::value::shared;

use crate::column::Type;
use crate::error::Flaw;
use crate::event::table::{BINARY, Column};
use crate::json::{self, Json};
use crate::row::{Content, time};
use crate::wire::{Wire, big, little};

/// A value. Texts are bytes in the character set of their column.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer that is not negative, or whose column is signed.
    Int(i64),
    /// An integer of an unsigned column.
    Unsigned(u64),
    /// An integer that is negative if its column is signed, which the log does not say: both.
    Either(i64, u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL, as text.
    Decimal(String),
    /// BIT: the value, and the number of bits.
    Bit(u64, u16),
    /// DATE, TIME, DATETIME, and TIMESTAMP in UTC, as text.
    Time(String),
    /// YEAR.
    Year(u16),
    /// A member of ENUM by number from 1 on, 0 for none; its name if that is known.
    Enum(u64, Option<&'a [u8]>),
    /// Members of SET as bits; their names if these are known.
    Set(u64, Option<Vec<&'a [u8]>>),
    /// Text or bytes. The collation if that is known; 63 is binary.
    Bytes(Cow<'a, [u8]>, Option<u64>),
    /// JSON of MySQL.
    Json(Json),
    /// Changes of a JSON document of MySQL, of which the log has nothing else: as functions that do them.
    JsonChanges(String),
}

/// The value of a column that is stored in these bytes.
pub(super) fn decode<'a>(
    column: &'a Column,
    bytes: &'a [u8],
    content: Content<'a>,
) -> Result<Value<'a>, Flaw> {
    let mut wire = Wire(bytes);
    Ok(match column.kind {
        Type::Int(_) => integer(bytes, column.is_unsigned),
        Type::Float => Value::Float(f32::from_bits(wire.u32()?)),
        Type::Double => Value::Double(f64::from_bits(wire.u64()?)),
        Type::Decimal(precision, scale) => {
            Value::Decimal(text(|out| shared::decimal(bytes, precision, scale, out))?)
        }
        Type::Bit(bits) => Value::Bit(big(bytes), bits),
        Type::Year => Value::Year(match wire.u8()? {
            0 => 0,
            year => 1900 + u16::from(year),
        }),
        Type::Date => Value::Time(time::date(bytes)?),
        Type::Time(decimals) => Value::Time(text(|out| shared::time(bytes, decimals, out))?),
        Type::Datetime(decimals) => Value::Time(text(|out| shared::datetime(bytes, decimals, out))?),
        Type::OldTime => Value::Time(time::old_time(bytes)?),
        Type::OldDatetime => Value::Time(time::old_datetime(bytes)?),
        Type::Timestamp(decimals) => Value::Time(text(|out| shared::timestamp(bytes, decimals, out))?),
        Type::OldTimestamp => {
            let stored = wire.u32()?.to_be_bytes();
            Value::Time(text(|out| shared::timestamp(&stored, 0, out))?)
        }
        Type::Enum(_) => {
            let number = little(bytes);
            let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let name = at.and_then(|at| column.members.as_ref()?.get(at));
            Value::Enum(number, if number == 0 { Some(b"") } else { name.map(Vec::as_slice) })
        }
        Type::Set(_) => set(little(bytes), column.members.as_deref()),
        Type::Char(max) => Value::Bytes(fixed(sized(wire, max)?, max, column), column.collation),
        Type::Varchar(max) => Value::Bytes(sized(wire, max)?.into(), column.collation),
        Type::PackedVarchar(max) => Value::Bytes(unpacked(sized(wire, max)?, max.into())?, column.collation),
        Type::Blob(len) => Value::Bytes(counted(wire, len)?.into(), column.collation),
        Type::Geometry(len) | Type::Vector(len) => Value::Bytes(counted(wire, len)?.into(), Some(BINARY)),
        Type::PackedBlob(len) => Value::Bytes(unpacked(counted(wire, len)?, u32::MAX)?, column.collation),
        Type::Json(len) => json(counted(wire, len)?, content, len)?,
        Type::Null => Value::Null,
    })
}

/// A JSON document, put together if there are only its changed parts. `len_bytes`: of its length.
fn json(bytes: &[u8], content: Content<'_>, len_bytes: u8) -> Result<Value<'static>, Flaw> {
    let Content::Parts(before) = content else { return Ok(Value::Json(json::document(bytes)?)) };
    let changes = json::changes(bytes)?;
    let Some(before) = before else {
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        return Ok(Value::JsonChanges(changes.join(", ")));
    };
    let mut document = json::document(counted(Wire(before), len_bytes)?)?;
    changes.into_iter().try_for_each(|change| change.apply(&mut document))?;
    Ok(Value::Json(document))
}

fn integer(bytes: &[u8], is_unsigned: Option<bool>) -> Value<'static> {
    let number = little(bytes);
    let unused = 64_usize.saturating_sub(8 * bytes.len());
    let unused = u32::try_from(unused).unwrap_or(0);
    let signed = number.wrapping_shl(unused).cast_signed() >> unused;
    match is_unsigned {
        Some(true) => Value::Unsigned(number),
        None if signed < 0 => Value::Either(signed, number),
        _ => Value::Int(signed),
    }
}

fn set<'a>(bits: u64, members: Option<&'a [Vec<u8>]>) -> Value<'a> {
    let names = members.map(|members| {
        let of =
            |(at, name): (usize, &'a Vec<u8>)| (at < 64 && bits >> at & 1 == 1).then_some(name.as_slice());
        members.iter().enumerate().filter_map(of).collect::<Vec<_>>()
    });
    // A bit without a member has no name.
    let names = names.filter(|names| names.len() == usize::try_from(bits.count_ones()).unwrap_or(0));
    Value::Set(bits, names)
}

/// The bytes behind a length whose own length depends on the greatest possible one.
fn sized(wire: Wire<'_>, max: u16) -> Result<&[u8], Flaw> {
    counted(wire, if max > 255 { 2 } else { 1 })
}

/// The bytes behind a length of so many bytes.
fn counted(mut wire: Wire<'_>, len_bytes: u8) -> Result<&[u8], Flaw> {
    let len = wire.uint(len_bytes.into())?;
    wire.take(usize::try_from(len).unwrap_or(usize::MAX))
}

/// BINARY(n) is written without the zeros at its end.
fn fixed<'a>(bytes: &'a [u8], max: u16, column: &Column) -> Cow<'a, [u8]> {
    let max = usize::from(max);
    if column.collation != Some(BINARY) || bytes.len() >= max {
        return bytes.into();
    }
    let mut whole = bytes.to_vec();
    whole.resize(max, 0);
    whole.into()
}

/// A value of a COMPRESSED column.
fn unpacked(bytes: &[u8], max: u32) -> Result<Cow<'_, [u8]>, Flaw> {
    let mut out = Vec::new();
    shared::compressed(bytes, max, &mut out).map_err(Flaw)?;
    Ok(out.into())
}

/// A text that is always ASCII.
fn text(write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>) -> Result<String, Flaw> {
    let mut out = Vec::new();
    write(&mut out).map_err(Flaw)?;
    String::from_utf8(out).map_err(|_| Flaw("a number or time contains letters"))
}
