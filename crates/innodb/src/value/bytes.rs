//! Values that are bytes to a client too: BIT, VECTOR, spatial types.

use super::Fault;
use crate::table::GeometryKind;

/// Bytes of the SRID before a spatial value.
const SRID_BYTES: usize = 4;

pub(super) fn decode_plain(stored: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    out.extend_from_slice(stored);
    Ok(())
}

pub(super) fn decode_bit(stored: &[u8], bits: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    if !bits.is_multiple_of(8) && stored.first().is_some_and(|first| first >> (bits % 8) > 0) {
        return Err("more bits than the column has");
    }
    decode_plain(stored, out)
}

pub(super) fn encode_bit(text: &[u8], bits: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    let bytes = usize::from(bits.div_ceil(8));
    let zeros = text.iter().take_while(|byte| **byte == 0).count();
    let significant = &text[zeros..];
    let missing = bytes.checked_sub(significant.len()).ok_or("more bits than the column has")?;
    let start = out.len();
    out.extend(std::iter::repeat_n(0, missing));
    decode_bit(significant, if missing > 0 { 8 } else { bits }, out)?;
    debug_assert_eq!(out.len() - start, bytes);
    Ok(())
}

pub(super) fn encode_vector(text: &[u8], dimensions: u16, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (numbers, rest) = text.as_chunks::<4>();
    if numbers.len() != usize::from(dimensions) || !rest.is_empty() {
        return Err("not as many numbers of four bytes as the VECTOR has dimensions");
    }
    if !numbers.iter().all(|number| f32::from_le_bytes(*number).is_finite()) {
        return Err("infinity, or not a number, in a VECTOR");
    }
    decode_plain(text, out)
}

pub(super) fn encode_geometry(text: &[u8], shape: GeometryKind, out: &mut Vec<u8>) -> Result<(), Fault> {
    let body = text.get(SRID_BYTES..).unwrap_or_default();
    let (found, rest) = geometry(body, 0)?;
    if !rest.is_empty() {
        return Err("bytes behind a geometry");
    }
    if shape != GeometryKind::Any && shape != found {
        return Err("another kind of geometry than the column's");
    }
    decode_plain(text, out)
}

/// How deeply collections may be nested.
const DEPTH_MAX: u8 = 8;

/// The type of the geometry (WKB, little-endian) at the beginning of bytes, and the bytes after it.
fn geometry(body: &[u8], depth: u8) -> Result<(GeometryKind, &[u8]), Fault> {
    const BROKEN: Fault = "not an SRID and a geometry in WKB";
    let (head, rest) = body.split_at_checked(5).ok_or(BROKEN)?;
    let kind = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let shape = usize::try_from(kind).ok().and_then(|kind| GeometryKind::ALL.get(kind).copied());
    let shape = shape.filter(|shape| *shape != GeometryKind::Any && head[0] == 1).ok_or(BROKEN)?;
    let rest = match shape {
        GeometryKind::Any => None,
        GeometryKind::Point => rest.get(16..),
        GeometryKind::Linestring => points(rest),
        GeometryKind::Polygon => many(rest, |rest| points(rest).ok_or(BROKEN))?,
        GeometryKind::Multipoint
        | GeometryKind::Multilinestring
        | GeometryKind::Multipolygon
        | GeometryKind::Collection => {
            let inner = match shape {
                GeometryKind::Multipoint => GeometryKind::Point,
                GeometryKind::Multilinestring => GeometryKind::Linestring,
                GeometryKind::Multipolygon => GeometryKind::Polygon,
                _ => GeometryKind::Any,
            };
            if depth == DEPTH_MAX {
                return Err("geometries in each other deeper than is checked here");
            }
            many(rest, |rest| {
                let (found, rest) = geometry(rest, depth + 1)?;
                if inner == GeometryKind::Any || inner == found { Ok(rest) } else { Err(BROKEN) }
            })?
        }
    };
    Ok((shape, rest.ok_or(BROKEN)?))
}

/// The bytes after a number and as many points.
fn points(body: &[u8]) -> Option<&[u8]> {
    let (count, rest) = count(body)?;
    rest.get(usize::try_from(count).ok()?.checked_mul(16)?..)
}

/// The bytes after a number and as many elements.
fn many<'a>(
    body: &'a [u8],
    mut skip: impl FnMut(&'a [u8]) -> Result<&'a [u8], Fault>,
) -> Result<Option<&'a [u8]>, Fault> {
    let Some((count, mut rest)) = count(body) else { return Ok(None) };
    for _ in 0..count {
        rest = skip(rest)?;
    }
    Ok(Some(rest))
}

fn count(body: &[u8]) -> Option<(u32, &[u8])> {
    let (count, rest) = body.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*count), rest))
}
