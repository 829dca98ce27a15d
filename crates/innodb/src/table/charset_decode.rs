//! Converts text from MariaDB's character sets to UTF-8, as the server itself does.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use encoding_rs::Encoding;

use super::collation::Charset;

/// What characters mean, a line for each character set: runs of codes, and the Unicode of the first of them.
/// For a character set with characters of two or three bytes only what differs from the WHATWG's encoding.
const CODES: &str = include_str!("charsets.txt");

/// The meaning of codes: the last one of each run, and its first one with its Unicode.
type Codes = BTreeMap<u32, (u32, u32)>;

impl Charset {
    /// The text that these bytes are, which is what SELECT shows; `None` if they are no text of this
    /// character set.
    #[must_use]
    pub fn text(&self, bytes: &[u8]) -> Option<String> {
        match self.name {
            "utf8mb4" | "utf8mb3" | "binary" => Some(std::str::from_utf8(bytes).ok()?.to_owned()),
            "ascii" => bytes.is_ascii().then(|| bytes.iter().map(|byte| char::from(*byte)).collect()),
            "ucs2" | "utf16" => utf16(bytes, u16::from_be_bytes),
            "utf16le" => utf16(bytes, u16::from_le_bytes),
            "utf32" => {
                let (chars, []) = bytes.as_chunks::<4>() else { return None };
                chars.iter().map(|char| char::from_u32(u32::from_be_bytes(*char))).collect()
            }
            name if self.max > 1 => east_asian(bytes, name),
            name => {
                let codes = codes().get(name)?;
                bytes.iter().map(|byte| code(codes, (*byte).into())).collect()
            }
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, []) = bytes.as_chunks::<2>() else { return None };
    char::decode_utf16(units.iter().map(|bytes| unit(*bytes))).collect::<Result<_, _>>().ok()
}

/// The bytes of a text in a character set that has a line in [`CODES`], or is one of the WHATWG's.
pub(super) fn bytes(text: &str, charset: &Charset) -> Option<Vec<u8>> {
    let numbers = numbers().get(charset.name);
    let encoding = standard(charset.name);
    let mut bytes = Vec::with_capacity(text.len());
    for char in text.chars() {
        match (numbers.and_then(|numbers| numbers.get(&char)), encoding) {
            (Some(number), _) => {
                let big = number.to_be_bytes();
                let zeros = big.iter().take(3).take_while(|byte| **byte == 0).count();
                bytes.extend_from_slice(&big[zeros..]);
            }
            (None, Some(encoding)) => {
                let mut utf8 = [0; 4];
                let (encoded, _, has_failed) = encoding.encode(char.encode_utf8(&mut utf8));
                if has_failed {
                    return None;
                }
                bytes.extend_from_slice(&encoded);
            }
            (None, None) => return None,
        }
    }
    Some(bytes)
}

/// The numbers of characters, the smallest if there are several, for each character set of [`CODES`].
fn numbers() -> &'static BTreeMap<&'static str, BTreeMap<char, u32>> {
    static KNOWN: OnceLock<BTreeMap<&str, BTreeMap<char, u32>>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let inverse = |codes: &Codes| {
            let mut numbers = BTreeMap::new();
            for (last, (first, unicode)) in codes {
                for number in *first..=*last {
                    if let Some(char) = char::from_u32(unicode + (number - first)) {
                        numbers.entry(char).or_insert(number);
                    }
                }
            }
            numbers
        };
        codes().iter().map(|(name, codes)| (*name, inverse(codes))).collect()
    })
}

/// A text whose characters are ASCII, or begin with a byte from 0x80 on.
fn east_asian(bytes: &[u8], name: &str) -> Option<String> {
    let encoding = standard(name)?;
    let differences = codes().get(name);
    let (mut text, mut rest) = (String::with_capacity(bytes.len()), bytes);
    while let Some(first) = rest.first() {
        let (char, behind) = rest.split_at_checked(char_bytes(*first, encoding))?;
        let number = char.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        match differences.and_then(|codes| code(codes, number)) {
            Some(char) => text.push(char),
            None => text.push_str(&encoding.decode_without_bom_handling_and_without_replacement(char)?),
        }
        rest = behind;
    }
    Some(text)
}

/// The WHATWG's encoding that a character set nearly is.
fn standard(name: &str) -> Option<&'static Encoding> {
    Some(match name {
        "big5" => encoding_rs::BIG5,
        "euckr" => encoding_rs::EUC_KR,
        "sjis" | "cp932" => encoding_rs::SHIFT_JIS,
        "ujis" | "eucjpms" => encoding_rs::EUC_JP,
        "gb2312" | "gbk" => encoding_rs::GBK,
        _ => return None,
    })
}

/// The bytes of the character that begins with this one.
fn char_bytes(first: u8, encoding: &Encoding) -> usize {
    match first {
        ..0x80 => 1,
        0xA1..=0xDF if encoding == encoding_rs::SHIFT_JIS => 1,
        0x8F if encoding == encoding_rs::EUC_JP => 3,
        _ => 2,
    }
}

/// The character with this code.
fn code(codes: &Codes, code: u32) -> Option<char> {
    let (_, (first, unicode)) = codes.range(code..).next()?;
    char::from_u32(unicode + code.checked_sub(*first)?)
}

fn codes() -> &'static BTreeMap<&'static str, Codes> {
    static KNOWN: OnceLock<BTreeMap<&str, Codes>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let of_line = |line: &'static str| {
            let (name, runs) = line.split_once(' ')?;
            Some((name, runs.split(' ').map(run).collect::<Option<_>>()?))
        };
        CODES.lines().filter_map(of_line).collect()
    })
}

/// `8191-8192:a2`
fn run(text: &str) -> Option<(u32, (u32, u32))> {
    let number = |text| u32::from_str_radix(text, 16).ok();
    let (codes, unicode) = text.split_once(':')?;
    let (first, last) = codes.split_once('-').unwrap_or((codes, codes));
    Some((number(last)?, (number(first)?, number(unicode)?)))
}

#[cfg(test)]
mod tests {
    use super::CODES;
    use crate::table::collation::Collation;

    fn text(charset: &str, bytes: &[u8]) -> Option<String> {
        Collation::of_charset(charset).unwrap().charset().text(bytes)
    }

    #[test]
    fn bytes_are_the_letters_of_their_character_set() {
        for (charset, bytes, expected) in [
            ("latin1", &b"gr\xfcn \x80"[..], "gr\u{fc}n \u{20ac}"),
            ("cp1251", b"\xe6", "\u{436}"),
            ("swe7", b"[a", "\u{c4}a"),
            ("utf16", b"\0a\xd8\x3d\xde\x00", "a\u{1f600}"),
            ("utf16le", b"a\0", "a"),
            ("utf32", b"\0\x01\xf6\0", "\u{1f600}"),
            ("sjis", b"\x82\xa0\xb1\\\x81\x5f", "\u{3042}\u{ff71}\\\\"),
            ("cp932", b"\x81\x5f", "\u{ff3c}"),
            ("gbk", b"a\xc4\xe3", "a\u{4f60}"),
            ("ujis", b"\x8f\xb0\xa1\x8e\xb1", "\u{4e02}\u{ff71}"),
            ("big5", b"\xc6\xe7", "\u{3083}"),
        ] {
            assert_eq!(text(charset, bytes).as_deref(), Some(expected), "{charset}");
        }
        for (charset, bytes) in [
            ("ascii", &b"\x80"[..]),
            ("utf16", b"\xd8\x3d"),
            ("utf16", b"a"),
            ("gbk", b"\xc4"),
            ("cp1250", b"\x81"),
        ] {
            assert_eq!(text(charset, bytes), None, "{charset}");
        }
    }

    #[test]
    fn text_goes_back_to_its_bytes() {
        for charset in crate::table::collation::Charset::all() {
            for byte in 0..=u8::MAX {
                let bytes =
                    vec![0; usize::from(charset.min) - 1].into_iter().chain([byte]).collect::<Vec<_>>();
                let Some(text) = charset.text(&bytes) else { continue };
                let back = charset.bytes(&text).unwrap_or_else(|| panic!("{} {byte}", charset.name));
                assert_eq!(charset.text(&back), Some(text), "{} {byte}", charset.name);
            }
        }
        for (charset, bytes) in [("gbk", b"\xc4\xe3"), ("cp932", b"\x81\x5f"), ("big5", b"\xc6\xe7")] {
            let charset = Collation::of_charset(charset).unwrap().charset();
            assert_eq!(charset.bytes(&charset.text(bytes).unwrap()).as_deref(), Some(&bytes[..]));
            assert_eq!(charset.bytes("\u{1f600}"), None);
        }
    }

    #[test]
    fn all_lines_are_read() {
        assert_eq!(super::codes().len(), CODES.lines().count());
        let of_line = |line: &'static str| line.split(' ').next().and_then(Collation::of_charset).is_some();
        assert!(CODES.lines().all(of_line));
    }
}
