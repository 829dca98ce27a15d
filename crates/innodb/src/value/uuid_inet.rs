//! UUID, INET4, INET6.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Fault, print};

/// For each part of a UUID its offset in the text, its offset when stored swapped, and its length in bytes.
const PARTS: [(usize, usize, usize); 5] = [(0, 12, 4), (4, 10, 2), (6, 8, 2), (8, 6, 2), (10, 0, 6)];
/// Bytes, in the order of the text, before which there is a hyphen.
const HYPHENS: [usize; 4] = [4, 6, 8, 10];
const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

fn sixteen(stored: &[u8]) -> Result<[u8; 16], Fault> {
    stored.try_into().map_err(|_| "not sixteen bytes")
}

pub(super) fn decode_uuid(stored: &[u8], always_swapped: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let stored = sixteen(stored)?;
    let mut uuid = stored;
    if always_swapped || is_swapped(&stored) {
        for (to, from, len) in PARTS {
            uuid[to..to + len].copy_from_slice(&stored[from..from + len]);
        }
    }
    for (at, byte) in uuid.iter().enumerate() {
        if HYPHENS.contains(&at) {
            out.push(b'-');
        }
        for digit in [byte >> 4, byte & 15] {
            out.push(HEXADECIMAL[usize::from(digit)]);
        }
    }
    Ok(())
}

pub(super) fn encode_uuid(text: &[u8], always_swapped: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    const BROKEN: Fault = "not a UUID";
    let mut uuid = [0; 16];
    let mut rest = text;
    for (at, byte) in uuid.iter_mut().enumerate() {
        // Either with all hyphens or with none.
        if text.len() == 36 && HYPHENS.contains(&at) {
            rest = rest.strip_prefix(b"-").ok_or(BROKEN)?;
        }
        let (pair, next) = rest.split_first_chunk::<2>().ok_or(BROKEN)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(pair[0]).ok_or(BROKEN)? << 4 | digit(pair[1]).ok_or(BROKEN)?;
        rest = next;
    }
    if !rest.is_empty() {
        return Err(BROKEN);
    }
    if is_swapped(&uuid) {
        return Err("a UUID that the server refuses: of version 8 or above, and of variant 0");
    }
    let swap = (1..0x60).contains(&uuid[6]) && uuid[8] & 0x80 > 0;
    let mut stored = uuid;
    if always_swapped || swap {
        for (from, to, len) in PARTS {
            stored[to..to + len].copy_from_slice(&uuid[from..from + len]);
        }
    }
    out.extend_from_slice(&stored);
    Ok(())
}

/// Whether stored bytes are of versions 1 to 5, whose parts are swapped.
fn is_swapped(stored: &[u8; 16]) -> bool {
    stored[6] & stored[8].wrapping_neg() & 0x80 > 0
}

pub(super) fn decode_inet4(stored: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let stored = <[u8; 4]>::try_from(stored).map_err(|_| "not four bytes")?;
    print(out, format_args!("{}", Ipv4Addr::from(stored)));
    Ok(())
}

pub(super) fn encode_inet4(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
    out.extend_from_slice(&address.ok_or("not an IPv4 address")?.octets());
    Ok(())
}

pub(super) fn decode_inet6(stored: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let address = Ipv6Addr::from(sixteen(stored)?);
    let words = address.segments();
    // The longest run of zeros, the first of equally long ones, even if it is a single word.
    let (mut start, mut len) = (8, 0);
    for at in 0..8 {
        let run = words[at..].iter().take_while(|word| **word == 0).count();
        if run > len {
            (start, len) = (at, run);
        }
    }
    let inner = start == 0 && (len == 6 || len == 5 && words[5] == 0xffff);
    if inner {
        let middle = if len == 5 { "ffff:" } else { "" };
        let [.., a, b, c, d] = address.octets();
        print(out, format_args!("::{middle}{a}.{b}.{c}.{d}"));
        return Ok(());
    }
    for (at, word) in words.iter().enumerate() {
        if at == start {
            out.extend_from_slice(if at == 0 { b"::" } else { b":" });
        } else if !(start..start + len).contains(&at) {
            print(out, format_args!("{word:x}"));
            if at < 7 {
                out.push(b':');
            }
        }
    }
    Ok(())
}

pub(super) fn encode_inet6(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    out.extend_from_slice(&address.ok_or("not an IPv6 address")?.octets());
    Ok(())
}
