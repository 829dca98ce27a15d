//! CHAR, VARCHAR, TEXT and their binary counterparts, and values that are compressed individually.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{DeflateDecoder, ZlibDecoder};
use flate2::write::DeflateEncoder;

use super::Fault;
use crate::table::collation::{Charset, Collation};
use crate::table::{Length, Type};

/// The length from which a server compresses values by default (`column_compression_threshold`).
const COMPRESSED_FROM: usize = 100;
/// Flags in a compressed value's first byte.
const IS_COMPRESSED: u8 = 0x80;
const IS_RAW_DEFLATE: u8 = 0x08;
const LENGTH_BITS: u8 = 0x07;

/// The most bytes of an uncompressed value of a VARCHAR or BLOB.
pub(super) fn plain_max(kind: &Type) -> u32 {
    let Length::Variable { max, .. } = kind.length() else { return 0 };
    max - u32::from(matches!(kind, Type::Varchar { compressed: true, .. }))
}

/// A space and a comma, in the bytes of a character set.
pub(super) fn signs(collation: Collation) -> (&'static [u8], &'static [u8]) {
    let charset = collation.charset();
    match (charset.min, charset.name) {
        (1, _) => (b" ", b","),
        (2, "utf16le") => (b" \0", b",\0"),
        (2, _) => (b"\0 ", b"\0,"),
        _ => (b"\0\0\0 ", b"\0\0\0,"),
    }
}

/// A text without its trailing spaces.
fn trimmed<'a>(text: &'a [u8], space: &[u8]) -> &'a [u8] {
    let mut rest = text;
    while let Some(shorter) = rest.strip_suffix(space) {
        rest = shorter;
    }
    rest
}

pub(super) fn decode_char(stored: &[u8], collation: Collation, out: &mut Vec<u8>) -> Result<(), Fault> {
    let text = if collation == Collation::BINARY { stored } else { trimmed(stored, signs(collation).0) };
    out.extend_from_slice(text);
    Ok(())
}

pub(super) fn encode_char(
    text: &[u8],
    chars: u16,
    collation: Collation,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let charset = collation.charset();
    if collation == Collation::BINARY {
        // Padding bytes could not be distinguished from the value's own.
        if text.len() != usize::from(chars) {
            return Err("not as many bytes as the BINARY has");
        }
        out.extend_from_slice(text);
        return Ok(());
    }
    let (space, _) = signs(collation);
    let text = trimmed(text, space);
    if count(text, charset)? > usize::from(chars) {
        return Err("more characters than the column has");
    }
    let filled = match (charset.min, charset.max) {
        (1, max) if max > 1 => usize::from(chars),
        (_, max) => usize::from(chars) * usize::from(max),
    };
    out.extend_from_slice(text);
    for _ in 0..filled.saturating_sub(text.len()) / space.len() {
        out.extend_from_slice(space);
    }
    Ok(())
}

pub(super) fn encode_varchar(
    text: &[u8],
    chars: u16,
    collation: Collation,
    compressed: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    if count(text, collation.charset())? > usize::from(chars) {
        return Err("more characters than the column has");
    }
    encode_variable(text, compressed, out)
}

pub(super) fn encode_blob(
    text: &[u8],
    max: u32,
    collation: Collation,
    compressed: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    count(text, collation.charset())?;
    if text.len() as u64 > u64::from(max) {
        return Err("more bytes than the column has");
    }
    encode_variable(text, compressed, out)
}

fn encode_variable(text: &[u8], compressed: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    if !compressed || text.is_empty() {
        out.extend_from_slice(text);
        return Ok(());
    }
    let start = out.len();
    if text.len() >= COMPRESSED_FROM {
        let length = text.len().to_be_bytes();
        let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
        let bytes = u8::try_from(length.len()).unwrap_or(LENGTH_BITS);
        out.push(IS_COMPRESSED | IS_RAW_DEFLATE | bytes);
        out.extend_from_slice(length);
        let mut encoder = DeflateEncoder::new(&mut *out, Compression::default());
        encoder.write_all(text).and_then(|()| encoder.finish()).map_err(|_| "it can't be compressed")?;
        if out.len() - start < text.len() {
            return Ok(());
        }
        out.truncate(start);
    }
    out.push(0);
    out.extend_from_slice(text);
    Ok(())
}

pub(super) fn decode_variable(
    stored: &[u8],
    max: u32,
    compressed: bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let Some((first, rest)) = stored.split_first().filter(|_| compressed) else {
        out.extend_from_slice(stored);
        return Ok(());
    };
    if *first == 0 {
        out.extend_from_slice(rest);
        return Ok(());
    }
    const BROKEN: Fault = "a compressed value with a header that is none";
    let (length, body) = rest.split_at_checked(usize::from(first & LENGTH_BITS)).ok_or(BROKEN)?;
    let known = first & !(IS_RAW_DEFLATE | LENGTH_BITS) == IS_COMPRESSED && (1..=4).contains(&length.len());
    let length = super::number(length);
    if !known || length > u64::from(max) {
        return Err(BROKEN);
    }
    let start = out.len() as u64;
    // Room for one more byte shows whether there is more.
    let copied = if first & IS_RAW_DEFLATE > 0 {
        DeflateDecoder::new(body).take(length + 1).read_to_end(out)
    } else {
        ZlibDecoder::new(body).take(length + 1).read_to_end(out)
    };
    if copied.is_err() || out.len() as u64 - start != length {
        return Err("a compressed value that is damaged");
    }
    Ok(())
}

/// How many characters a text has.
fn count(text: &[u8], charset: Charset) -> Result<usize, Fault> {
    const BROKEN: Fault = "not text of the column's character set";
    let ascii = text.is_ascii();
    if ascii && charset.min == 1 {
        return Ok(text.len());
    }
    match charset.name {
        "utf8mb4" | "utf8mb3" => {
            let text = std::str::from_utf8(text).map_err(|_| BROKEN)?;
            let narrow = charset.max == 4 || text.chars().all(|char| char.len_utf8() < 4);
            if narrow { Ok(text.chars().count()) } else { Err(BROKEN) }
        }
        "ascii" | "swe7" => Err(BROKEN),
        "ucs2" | "utf16" | "utf16le" => {
            let (units, []) = text.as_chunks::<2>() else { return Err(BROKEN) };
            let unit = |bytes: &[u8; 2]| match charset.name {
                "utf16le" => u16::from_le_bytes(*bytes),
                _ => u16::from_be_bytes(*bytes),
            };
            let mut chars = 0;
            for char in char::decode_utf16(units.iter().map(unit)) {
                let char = char.map_err(|_| BROKEN)?;
                if charset.max == 2 && char.len_utf16() > 1 {
                    return Err(BROKEN);
                }
                chars += 1;
            }
            Ok(chars)
        }
        "utf32" => {
            let (chars, []) = text.as_chunks::<4>() else { return Err(BROKEN) };
            let valid = chars.iter().all(|char| char::from_u32(u32::from_be_bytes(*char)).is_some());
            if valid { Ok(chars.len()) } else { Err(BROKEN) }
        }
        _ if charset.max == 1 => Ok(text.len()),
        _ => Err("letters beyond ASCII in a character set that is not checked here"),
    }
}
