//! ENUM: the number of a member, from 1; SET: a bit for each member. Big-endian.

use super::{Fault, digits, number, print, put};
use crate::table::Members;

/// The byte before the number that a dump writes for a value without a name.
const NUMBER_SIGN: u8 = b'#';

pub(super) fn decode_enum(stored: &[u8], members: &Members, out: &mut Vec<u8>) -> Result<(), Fault> {
    let value = number(stored);
    let Some(place) = usize::try_from(value).ok().and_then(|value| value.checked_sub(1)) else {
        if members.is_numbered() {
            out.push(b'0');
        }
        return Ok(());
    };
    match members.names().get(place) {
        Some(name) if !members.is_numbered() => out.extend_from_slice(name),
        Some(_) => print(out, format_args!("{value}")),
        None => beyond(value, members, out),
    }
    Ok(())
}

pub(super) fn decode_set(stored: &[u8], members: &Members, out: &mut Vec<u8>) -> Result<(), Fault> {
    let value = number(stored);
    if value & !all(members) > 0 {
        beyond(value, members, out);
        return Ok(());
    }
    if members.is_numbered() {
        print(out, format_args!("{value}"));
        return Ok(());
    }
    let names = members.names().iter().enumerate().filter(|(place, _)| value >> place & 1 > 0);
    for (at, (_, name)) in names.enumerate() {
        if at > 0 {
            out.extend_from_slice(comma(members));
        }
        out.extend_from_slice(name);
    }
    Ok(())
}

pub(super) fn encode_enum(text: &[u8], members: &Members, out: &mut Vec<u8>) -> Result<(), Fault> {
    let count = members.names().len();
    let place = if members.is_numbered() {
        digits(text).filter(|value| *value > 0 && *value <= count as u64)
    } else {
        members.names().iter().position(|name| name == text).map(|place| place as u64 + 1)
    };
    put(place.ok_or("not a member of the ENUM")?, if count < 256 { 1 } else { 2 }, out);
    Ok(())
}

pub(super) fn encode_set(text: &[u8], members: &Members, out: &mut Vec<u8>) -> Result<(), Fault> {
    const NONE: Fault = "not members of the SET";
    let value = if members.is_numbered() {
        digits(text).filter(|value| value & !all(members) == 0).ok_or(NONE)?
    } else if text.is_empty() {
        0
    } else {
        let mut value = 0;
        for name in split(text, comma(members)) {
            let place = members.names().iter().position(|member| member == name).ok_or(NONE)?;
            value |= 1 << place;
        }
        value
    };
    let bytes = match members.names().len().div_ceil(8) {
        bytes @ 0..=4 => bytes.max(1),
        _ => 8,
    };
    put(value, bytes, out);
    Ok(())
}

/// A value that has no name here but may be in another table's file.
fn beyond(value: u64, members: &Members, out: &mut Vec<u8>) {
    if !members.is_numbered() {
        out.push(NUMBER_SIGN);
    }
    print(out, format_args!("{value}"));
}

/// The bits with members.
fn all(members: &Members) -> u64 {
    u64::MAX >> (64 - members.names().len().clamp(1, 64))
}

/// A comma in the character set of the members.
fn comma(members: &Members) -> &'static [u8] {
    super::text::signs(members.collation()).1
}

/// The parts of a text between commas; each comma has as many bytes as the shortest character.
fn split<'a>(text: &'a [u8], comma: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let now = rest?;
        let end = now.chunks(comma.len()).position(|char| char == comma);
        let (part, next) = match end {
            Some(at) => (&now[..at * comma.len()], Some(&now[(at + 1) * comma.len()..])),
            None => (now, None),
        };
        rest = next;
        Some(part)
    })
}
