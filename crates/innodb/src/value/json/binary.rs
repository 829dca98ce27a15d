//! Documents in the form in which MySQL stores and logs them.

use super::super::{Fault, shared};
use super::{DEPTH_MAX, Json};
use crate::table::decimal_bytes;

const SHORT: Fault = "it ends too early";
const DAMAGED: Fault = "a JSON document has a length or an offset that leads out of it";

/// The bytes that were not taken yet. Numbers are little-endian.
#[derive(Clone, Copy)]
struct Wire<'a>(&'a [u8]);

impl<'a> Wire<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.take(N)?.try_into().map_err(|_| SHORT)
    }

    fn u8(&mut self) -> Result<u8, Fault> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of two or four bytes.
    fn uint(&mut self, is_large: bool) -> Result<usize, Fault> {
        let number = if is_large { self.u32()? } else { self.u16()?.into() };
        usize::try_from(number).map_err(|_| DAMAGED)
    }
}

/// The types of values in a document.
mod kind {
    pub(super) const SMALL_OBJECT: u8 = 0;
    pub(super) const LARGE_OBJECT: u8 = 1;
    pub(super) const SMALL_ARRAY: u8 = 2;
    pub(super) const LARGE_ARRAY: u8 = 3;
    pub(super) const LITERAL: u8 = 4;
    pub(super) const INT16: u8 = 5;
    pub(super) const UINT16: u8 = 6;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 8;
    pub(super) const INT64: u8 = 9;
    pub(super) const UINT64: u8 = 10;
    pub(super) const DOUBLE: u8 = 11;
    pub(super) const TEXT: u8 = 12;
    pub(super) const OPAQUE: u8 = 15;
}

/// Reads a document.
///
/// # Errors
/// Bytes that are no document.
pub fn document(bytes: &[u8]) -> Result<Json, Fault> {
    // An update that ignored an error may store an empty value, which is null.
    let Some((kind, rest)) = bytes.split_first() else { return Ok(Json::Null) };
    Decoder { left: bytes.len() }.value(*kind, rest, 0)
}

/// Reads values. No part of a document belongs to two values, so all of them together are as long as it at
/// most. Offsets of damaged documents may lead to the same bytes again and again.
struct Decoder {
    left: usize,
}

impl Decoder {
    fn use_up(&mut self, len: usize) -> Result<(), Fault> {
        self.left = self.left.checked_sub(len).ok_or("parts of a JSON document overlap")?;
        Ok(())
    }

    /// The value that these bytes begin with.
    fn value(&mut self, kind: u8, bytes: &[u8], depth: usize) -> Result<Json, Fault> {
        let mut wire = Wire(bytes);
        Ok(match kind {
            kind::SMALL_OBJECT | kind::LARGE_OBJECT => {
                self.object(bytes, kind == kind::LARGE_OBJECT, depth)?
            }
            kind::SMALL_ARRAY | kind::LARGE_ARRAY => self.array(bytes, kind == kind::LARGE_ARRAY, depth)?,
            kind::LITERAL => match wire.u8()? {
                0 => Json::Null,
                1 => Json::Bool(true),
                2 => Json::Bool(false),
                _ => return Err("an unknown literal in a JSON document"),
            },
            kind::INT16 => Json::Int(wire.u16()?.cast_signed().into()),
            kind::UINT16 => Json::Unsigned(wire.u16()?.into()),
            kind::INT32 => Json::Int(wire.u32()?.cast_signed().into()),
            kind::UINT32 => Json::Unsigned(wire.u32()?.into()),
            kind::INT64 => Json::Int(wire.u64()?.cast_signed()),
            kind::UINT64 => Json::Unsigned(wire.u64()?),
            kind::DOUBLE => {
                let number = f64::from_bits(wire.u64()?);
                Json::Double(
                    Some(number)
                        .filter(|it| it.is_finite())
                        .ok_or("a JSON document has no number where one belongs")?,
                )
            }
            kind::TEXT => Json::Text(text(self.sized(&mut wire)?)?),
            kind::OPAQUE => opaque(wire.u8()?, self.sized(&mut wire)?)?,
            _ => return Err("an unknown type in a JSON document"),
        })
    }

    /// Bytes after their length, of which each byte has 7 bits, the lowest first.
    fn sized<'a>(&mut self, wire: &mut Wire<'a>) -> Result<&'a [u8], Fault> {
        let mut len = 0;
        for shift in (0..35).step_by(7) {
            let byte = wire.u8()?;
            len |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                self.use_up(len)?;
                return wire.take(len);
            }
        }
        Err(DAMAGED)
    }

    fn array(&mut self, bytes: &[u8], is_large: bool, depth: usize) -> Result<Json, Fault> {
        let whole = Container::new(bytes, is_large, depth)?;
        let items =
            (0..whole.count).map(|at| self.entry(&whole, whole.head + at * whole.entry_bytes(), depth));
        Ok(Json::Array(items.collect::<Result<_, _>>()?))
    }

    fn object(&mut self, bytes: &[u8], is_large: bool, depth: usize) -> Result<Json, Fault> {
        let whole = Container::new(bytes, is_large, depth)?;
        let key_bytes = whole.width + 2;
        let mut members = Vec::new();
        for at in 0..whole.count {
            let mut key = whole.from(whole.head + at * key_bytes)?;
            let (offset, len) = (whole.offset(&mut key)?, usize::from(key.u16()?));
            self.use_up(key_bytes + len)?;
            let name = text(whole.from(offset)?.take(len)?)?;
            let entry = whole.head + whole.count * key_bytes + at * whole.entry_bytes();
            members.push((name, self.entry(&whole, entry, depth)?));
        }
        Ok(Json::Object(members))
    }

    /// The value of an entry: in it, if it is short, or elsewhere.
    fn entry(&mut self, whole: &Container<'_>, at: usize, depth: usize) -> Result<Json, Fault> {
        self.use_up(whole.entry_bytes())?;
        let mut entry = whole.from(at)?;
        let kind = entry.u8()?;
        let is_inside = match kind {
            kind::LITERAL | kind::INT16 | kind::UINT16 => true,
            kind::INT32 | kind::UINT32 => whole.width == 4,
            _ => false,
        };
        if is_inside {
            return self.value(kind, entry.take(whole.width)?, depth);
        }
        let offset = whole.offset(&mut entry)?;
        self.value(kind, whole.from(offset)?.0, depth + 1)
    }
}

/// An array or object.
struct Container<'a> {
    bytes: &'a [u8],
    /// The bytes of counts and offsets.
    width: usize,
    /// Where the entries begin.
    head: usize,
    count: usize,
}

impl<'a> Container<'a> {
    fn new(bytes: &'a [u8], is_large: bool, depth: usize) -> Result<Container<'a>, Fault> {
        if depth >= DEPTH_MAX {
            return Err("a JSON document is nested too deeply");
        }
        let width = if is_large { 4 } else { 2 };
        let mut this = Container { bytes, width, head: 2 * width, count: 0 };
        let mut wire = Wire(bytes);
        this.count = this.offset(&mut wire)?;
        let len = this.offset(&mut wire)?;
        this.bytes = bytes.get(..len).ok_or(DAMAGED)?;
        Ok(this)
    }

    /// The bytes of the entry of a value.
    fn entry_bytes(&self) -> usize {
        1 + self.width
    }

    fn offset(&self, wire: &mut Wire<'_>) -> Result<usize, Fault> {
        wire.uint(self.width == 4)
    }

    fn from(&self, at: usize) -> Result<Wire<'a>, Fault> {
        self.bytes.get(at..).map(Wire).ok_or(DAMAGED)
    }
}

fn text(bytes: &[u8]) -> Result<String, Fault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text in a JSON document is not UTF-8")
}

/// A value of a type that JSON does not have.
fn opaque(kind: u8, bytes: &[u8]) -> Result<Json, Fault> {
    Ok(match kind {
        7 | 12 => Json::Time(datetime(bytes)?),
        10 => Json::Time(datetime(bytes)?.get(..10).unwrap_or_default().to_owned()),
        11 => Json::Time(time(bytes)?),
        246 => {
            let mut wire = Wire(bytes);
            let (precision, scale) = (wire.u8()?, wire.u8()?);
            if !(1..=65).contains(&precision) || scale > precision.min(38) {
                return Err("a DECIMAL in a JSON document has too many digits");
            }
            let mut out = Vec::new();
            shared::decimal(wire.take(decimal_bytes(precision, scale).into())?, precision, scale, &mut out)?;
            Json::Decimal(text(&out)?)
        }
        // VARCHAR: as a text of JSON.
        253 => Json::Text(text(bytes)?),
        _ => Json::Bytes(kind, bytes.to_vec()),
    })
}

/// `2026-11-23 10:00:00.000000`: a number with the fraction in its lowest 24 bits.
fn datetime(bytes: &[u8]) -> Result<String, Fault> {
    let number = Wire(bytes).u64()?.cast_signed().unsigned_abs();
    let days = number >> 41;
    let (year, month, day) = ((days >> 5) / 13, (days >> 5) % 13, days & 31);
    Ok(format!("{year:04}-{month:02}-{day:02} {}", clock(number, number >> 36 & 31)))
}

/// `-12:34:56.000000`
fn time(bytes: &[u8]) -> Result<String, Fault> {
    let number = Wire(bytes).u64()?.cast_signed();
    let sign = if number < 0 { "-" } else { "" };
    let number = number.unsigned_abs();
    Ok(format!("{sign}{}", clock(number, number >> 36 & 1023)))
}

fn clock(number: u64, hour: u64) -> String {
    let (minute, second, fraction) = (number >> 30 & 63, number >> 24 & 63, number & 0xFF_FFFF);
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:06}")
}
