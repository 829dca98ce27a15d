//! Decoding in parts equals decoding the whole, and agrees with the decoders that everyone uses.

use proptest::prelude::*;
use rows::{BadBytes, Decoder, Encoding};

use crate::text::{bytes, cut, cuts};

fn decode(encoding: Encoding, parts: &[&[u8]]) -> (Vec<u8>, Result<(), BadBytes>) {
    let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
    let mut result = decoder_result(&mut decoder, parts, &mut out);
    if result.is_ok() {
        result = decoder.decode(b"", true, &mut out);
    }
    (out, result)
}

fn decoder_result(decoder: &mut Decoder, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), BadBytes> {
    parts.iter().try_for_each(|part| decoder.decode(part, false, out))
}

fn units(bytes: &[u8], encoding: Encoding) -> Vec<u16> {
    let unit = |pair: &[u8; 2]| match encoding {
        Encoding::Utf16Le => u16::from_le_bytes(*pair),
        _ => u16::from_be_bytes(*pair),
    };
    bytes.as_chunks().0.iter().map(unit).collect()
}

/// Bytes with surrogates, alone and in pairs, where they matter.
fn utf16() -> impl Strategy<Value = Vec<u8>> {
    let unit = prop_oneof![
        6 => any::<char>().prop_map(|c| String::from(c).encode_utf16().collect::<Vec<u16>>()),
        1 => (0xd800..=0xdfffu16).prop_map(|unit| vec![unit]),
    ];
    let tail = proptest::option::weighted(0.1, any::<u8>());
    (proptest::collection::vec(unit, 0..40), tail).prop_map(|(units, tail)| {
        units.concat().iter().flat_map(|unit| unit.to_le_bytes()).chain(tail).collect()
    })
}

proptest! {
    #[test]
    fn decoding_in_parts_equals_decoding_the_whole(bytes in prop_oneof![bytes(), utf16()], cuts in cuts(), bom in 0..4usize) {
        let marks: [&[u8]; 4] = [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
        let bytes = [marks[bom], &bytes].concat();
        for encoding in [Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be, Encoding::Latin1, Encoding::Binary] {
            prop_assert_eq!(decode(encoding, &cut(&bytes, &cuts)), decode(encoding, &[&bytes]), "{}", encoding);
        }
    }

    #[test]
    fn utf16_agrees_with_the_standard_library(bytes in utf16(), big: bool) {
        let encoding = if big { Encoding::Utf16Be } else { Encoding::Utf16Le };
        let bytes: Vec<u8> = if big {
            bytes.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect()
        } else {
            bytes
        };
        let units = units(&bytes, encoding);
        let units = units.strip_prefix(&[0xfeff]).unwrap_or(&units);
        let (out, result) = decode(encoding, &[&bytes]);
        let mut expected = String::new();
        let bad = char::decode_utf16(units.iter().copied()).find_map(|c| c.map(|c| expected.push(c)).err());
        prop_assert_eq!(String::from_utf8(out).unwrap(), &expected[..]);
        match result {
            Ok(()) => prop_assert!(bad.is_none() && bytes.len().is_multiple_of(2)),
            Err(error) => {
                let skipped = bytes.len() / 2 - units.len() + expected.encode_utf16().count();
                prop_assert_eq!(error.offset, 2 * skipped as u64);
                let end = (2 * skipped + 2).min(bytes.len());
                prop_assert!(bad.is_none() || error.bytes.starts_with(&bytes[2 * skipped..end]));
            }
        }
    }

    #[test]
    fn single_bytes_agree_with_windows_1252(bytes in bytes()) {
        let (expected, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&bytes);
        let (out, result) = decode(Encoding::Latin1, &[&bytes]);
        prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        prop_assert_eq!(result, Ok(()));
    }
}
