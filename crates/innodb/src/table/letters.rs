//! Converts UTF-8 to other character sets: names of members are stored in that of their column.

use super::collation::Charset;

/// What the bytes 0x80 to 0x9f mean in latin1: Windows' code page 1252, with control characters where that
/// has none.
const LATIN1: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// A text in a character set; `None` when it lacks one of the letters.
pub(super) fn of_utf8(text: &str, charset: Charset) -> Option<Vec<u8>> {
    let units = || text.encode_utf16();
    match charset.name {
        "utf8mb4" | "binary" => Some(text.as_bytes().to_vec()),
        "utf8mb3" if text.chars().all(|char| char.len_utf8() < 4) => Some(text.as_bytes().to_vec()),
        "ucs2" if text.chars().all(|char| char.len_utf16() < 2) => {
            Some(units().flat_map(u16::to_be_bytes).collect())
        }
        "utf16" => Some(units().flat_map(u16::to_be_bytes).collect()),
        "utf16le" => Some(units().flat_map(u16::to_le_bytes).collect()),
        "utf32" => Some(text.chars().flat_map(|char| u32::from(char).to_be_bytes()).collect()),
        "latin1" => text.chars().map(latin1).collect(),
        // It has other letters in place of some ASCII characters.
        "swe7" => None,
        _ if text.is_ascii() && charset.min == 1 => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

fn latin1(char: char) -> Option<u8> {
    match u8::try_from(u32::from(char)) {
        Ok(byte) if !(0x80..0xa0).contains(&byte) => Some(byte),
        _ => {
            let place = LATIN1.iter().position(|own| *own == char)?;
            u8::try_from(0x80 + place).ok()
        }
    }
}
