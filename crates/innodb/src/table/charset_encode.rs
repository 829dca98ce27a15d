//! Converts UTF-8 to other character sets: ENUM and SET members are stored in the character set of their
//! column.

use super::charset_decode;
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
pub(super) fn from_utf8(text: &str, charset: Charset) -> Option<Vec<u8>> {
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
        _ if text.is_ascii() && charset.min == 1 && charset.is_ascii(text.as_bytes()) => {
            Some(text.as_bytes().to_vec())
        }
        _ => None,
    }
}

impl Charset {
    /// The bytes of a text; `None` if it has a character that this character set lacks. If several codes mean
    /// the character, the first one: the bytes that [`Charset::text`] took may be others.
    #[must_use]
    pub fn bytes(&self, text: &str) -> Option<Vec<u8>> {
        match self.name {
            "utf8mb4" | "utf8mb3" | "binary" | "ucs2" | "utf16" | "utf16le" | "utf32" | "latin1" => {
                from_utf8(text, *self)
            }
            "ascii" => text.is_ascii().then(|| text.as_bytes().to_vec()),
            _ => charset_decode::bytes(text, self),
        }
    }
}

/// A letter in what the server calls latin1, which is windows-1252.
#[must_use]
pub fn latin1(char: char) -> Option<u8> {
    match u8::try_from(u32::from(char)) {
        Ok(byte) if !(0x80..0xa0).contains(&byte) => Some(byte),
        _ => {
            let place = LATIN1.iter().position(|own| *own == char)?;
            u8::try_from(0x80 + place).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::from_utf8;
    use crate::table::collation::Collation;

    #[test]
    fn letters_have_the_bytes_of_their_character_set() {
        for (collation, text, bytes) in [
            ("utf8mb4_bin", "a\u{1f600}", Some(&b"a\xf0\x9f\x98\x80"[..])),
            ("binary", "\u{e4}", Some(b"\xc3\xa4")),
            ("utf8mb3_bin", "\u{20ac}", Some(b"\xe2\x82\xac")),
            ("utf8mb3_bin", "\u{1f600}", None),
            ("ucs2_bin", "a\u{20ac}", Some(b"\0a\x20\xac")),
            ("ucs2_bin", "\u{1f600}", None),
            ("utf16_bin", "\u{1f600}", Some(b"\xd8\x3d\xde\x00")),
            ("utf16le_bin", "a\u{20ac}", Some(b"a\0\xac\x20")),
            ("utf32_bin", "\u{1f600}", Some(b"\x00\x01\xf6\x00")),
            ("latin1_bin", "\u{7f}\u{a0}\u{ff}", Some(b"\x7f\xa0\xff")),
            ("latin1_bin", "\u{20ac}\u{81}\u{178}", Some(b"\x80\x81\x9f")),
            ("latin1_bin", "\u{80}", None),
            ("latin1_bin", "\u{9f}", None),
            ("latin1_bin", "\u{100}", None),
            ("swe7_bin", "a", Some(b"a")),
            ("swe7_bin", "a@", None),
            ("swe7_bin", "_\u{7f}", None),
            ("sjis_bin", "a~", Some(b"a~")),
            ("sjis_bin", "a\\", None),
            ("cp932_bin", "a\\", Some(b"a\\")),
            ("cp1251_bin", "a~", Some(b"a~")),
            ("cp1251_bin", "\u{e4}", None),
        ] {
            let charset = Collation::of_name(collation).unwrap().charset();
            assert_eq!(from_utf8(text, charset).as_deref(), bytes, "{collation} {text:?}");
        }
    }
}
