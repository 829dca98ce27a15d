//! Converts the encodings of files to UTF-8.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use encoding_rs::DecoderResult;

/// UTF-8's byte order mark.
pub(crate) const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// How the characters of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark. ASCII is the same thing.
    Utf8,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// What MySQL and MariaDB call latin1: windows-1252, with its five undefined bytes mapped to the control
    /// characters U+0081, U+008D, U+008F, U+0090 and U+009D.
    Latin1,
    /// Another encoding of the WHATWG's Encoding Standard, such as Shift_JIS, GBK or ISO-8859-2.
    Legacy(Legacy),
    /// Not text: the bytes are values as they are.
    Binary,
}

/// An encoding of the Encoding Standard without a variant of its own here; it is stored by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Legacy(&'static encoding_rs::Encoding);

impl From<Legacy> for String {
    fn from(legacy: Legacy) -> String {
        legacy.0.name().to_owned()
    }
}

impl TryFrom<String> for Legacy {
    type Error = UnknownEncoding;

    fn try_from(name: String) -> Result<Legacy, UnknownEncoding> {
        match encoding_rs::Encoding::for_label(name.as_bytes()).map(Encoding::from_standard) {
            Some(Some(Encoding::Legacy(legacy))) => Ok(legacy),
            _ => Err(UnknownEncoding { name }),
        }
    }
}

impl Encoding {
    /// The encoding that a detector has found; windows-1252 if the result is not an encoding for text.
    pub(crate) fn of_standard(found: &'static encoding_rs::Encoding) -> Encoding {
        Encoding::from_standard(found).unwrap_or(Encoding::Latin1)
    }

    /// The encoding by the standard; none for those that are not used for text.
    fn from_standard(found: &'static encoding_rs::Encoding) -> Option<Encoding> {
        if found == encoding_rs::WINDOWS_1252 {
            return Some(Encoding::Latin1);
        }
        let none = [
            encoding_rs::REPLACEMENT,
            encoding_rs::X_USER_DEFINED,
            encoding_rs::UTF_8,
            encoding_rs::UTF_16LE,
            encoding_rs::UTF_16BE,
        ];
        (!none.contains(&found)).then_some(Encoding::Legacy(Legacy(found)))
    }
}

/// MySQL's names of character sets that the standard lacks, or uses for something else.
const SERVERS_NAMES: [(&str, &str); 14] = [
    ("sjis", "shift_jis"),
    ("cp932", "shift_jis"),
    ("ujis", "euc-jp"),
    ("eucjpms", "euc-jp"),
    ("euckr", "euc-kr"),
    ("latin7", "iso-8859-13"),
    ("koi8r", "koi8-r"),
    ("koi8u", "koi8-u"),
    ("tis620", "tis-620"),
    ("macroman", "macintosh"),
    ("cp949", "euc-kr"),
    ("cp936", "gbk"),
    ("cp950", "big5"),
    ("cp874", "windows-874"),
];

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Legacy(legacy) => legacy.0.name(),
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16Le => "UTF-16LE",
            Encoding::Utf16Be => "UTF-16BE",
            Encoding::Latin1 => "latin1",
            Encoding::Binary => "binary",
        })
    }
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Encoding, UnknownEncoding> {
        match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf8" | "utf-8" | "utf8mb4" | "utf8mb3" | "ascii" | "us-ascii" => Ok(Encoding::Utf8),
            "utf16le" | "utf-16le" => Ok(Encoding::Utf16Le),
            // As a MySQL character set, and by RFC 2781 without a byte order mark, utf16 has the high byte
            // first.
            "utf16be" | "utf-16be" | "utf16" | "utf-16" => Ok(Encoding::Utf16Be),
            "latin1" | "latin-1" | "iso-8859-1" | "windows-1252" | "cp1252" => Ok(Encoding::Latin1),
            "binary" => Ok(Encoding::Binary),
            other => {
                let server = SERVERS_NAMES.iter().find(|(known, _)| *known == other).map(|(_, label)| *label);
                let label = server.unwrap_or(name);
                let found = encoding_rs::Encoding::for_label(label.as_bytes())
                    .or_else(|| encoding_rs::Encoding::for_label(other.as_bytes()));
                let known = found.and_then(Encoding::from_standard);
                known.ok_or_else(|| UnknownEncoding { name: name.to_owned() })
            }
        }
    }
}

/// Converts a stream of bytes to UTF-8, in pieces of any size.
///
/// A byte order mark at the start is dropped. [`Encoding::Utf8`] is otherwise passed on unchecked: the server
/// checks it anyway, and names the row. [`Encoding::Binary`] is passed on unchanged.
pub struct Decoder {
    encoding: Encoding,
    /// For encodings that need conversion.
    inner: Option<encoding_rs::Decoder>,
    /// How many bytes of a possible UTF-8 byte order mark were held back; 3 once that is decided.
    bom_seen: usize,
    /// How many bytes came in earlier calls, and the last of them, for a message.
    offset: u64,
    tail: Vec<u8>,
}

/// How far back bad bytes can begin: half a UTF-16 pair, and the bytes after it that show that it is alone.
const LOOK_BACK_BYTES: usize = 8;

impl Decoder {
    /// A decoder at the start of a file.
    pub fn new(encoding: Encoding) -> Decoder {
        let inner = match encoding {
            Encoding::Utf8 | Encoding::Binary => None,
            Encoding::Utf16Le => Some(encoding_rs::UTF_16LE.new_decoder_with_bom_removal()),
            Encoding::Utf16Be => Some(encoding_rs::UTF_16BE.new_decoder_with_bom_removal()),
            Encoding::Latin1 => Some(encoding_rs::WINDOWS_1252.new_decoder_without_bom_handling()),
            Encoding::Legacy(Legacy(other)) => Some(other.new_decoder_without_bom_handling()),
        };
        let bom_seen = if encoding == Encoding::Utf8 { 0 } else { UTF8_BOM.len() };
        Decoder { encoding, inner, bom_seen, offset: 0, tail: Vec::new() }
    }

    /// Appends `input`, converted to UTF-8, to `out`. An incomplete character at the end is kept for the next
    /// call; with `last` there must be none.
    ///
    /// # Errors
    ///
    /// `input` contains bytes that are invalid in the encoding. `out` has everything before them; the decoder
    /// can't be used any more.
    pub fn decode(&mut self, input: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), BadBytes> {
        let Some(inner) = &mut self.inner else {
            let rest = self.without_bom(input, last, out);
            out.extend_from_slice(rest);
            return Ok(());
        };
        if let Err(bad) = transcode(inner, input, last, out) {
            self.tail.extend_from_slice(&input[..bad.read]);
            let end = self.tail.len().saturating_sub(bad.behind);
            let bytes = self.tail[end.saturating_sub(bad.length)..end].to_vec();
            let offset = (self.offset + bad.read as u64).saturating_sub((bad.behind + bad.length) as u64);
            return Err(BadBytes { encoding: self.encoding, offset, bytes });
        }
        self.offset += input.len() as u64;
        self.tail.extend_from_slice(&input[input.len().saturating_sub(LOOK_BACK_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(LOOK_BACK_BYTES));
        Ok(())
    }

    fn without_bom<'a>(&mut self, input: &'a [u8], last: bool, out: &mut Vec<u8>) -> &'a [u8] {
        let mut rest = input;
        while self.bom_seen < UTF8_BOM.len() {
            match rest.split_first() {
                Some((&byte, behind)) if byte == UTF8_BOM[self.bom_seen] => {
                    self.bom_seen += 1;
                    rest = behind;
                }
                None if !last => break,
                // It was not a byte order mark after all, so what was held back is data.
                _ => {
                    out.extend_from_slice(&UTF8_BOM[..self.bom_seen]);
                    self.bom_seen = UTF8_BOM.len();
                }
            }
        }
        rest
    }
}

/// Bad bytes: there are `length` of them, followed by `behind` good ones that were already read. `read` bytes
/// of this call's input were read in all, so the bad ones may begin, and even end, in an earlier call.
struct Malformed {
    read: usize,
    length: usize,
    behind: usize,
}

fn transcode(
    decoder: &mut encoding_rs::Decoder,
    input: &[u8],
    last: bool,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let mut read = 0;
    loop {
        let written = out.len();
        let room = decoder.max_utf8_buffer_length_without_replacement(input.len() - read);
        out.resize(written.saturating_add(room.unwrap_or(usize::MAX)), 0);
        let (result, taken, given) =
            decoder.decode_to_utf8_without_replacement(&input[read..], &mut out[written..], last);
        read += taken;
        out.truncate(written + given);
        match result {
            DecoderResult::InputEmpty => return Ok(()),
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(length, behind) => {
                let (length, behind) = (usize::from(length), usize::from(behind));
                return Err(Malformed { read, length, behind });
            }
        }
    }
}

/// Bytes that are invalid in the encoding of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset}: the bytes {} are not {encoding}; name the encoding the file really has", hex(.bytes))]
pub struct BadBytes {
    /// The encoding that was expected.
    pub encoding: Encoding,
    /// Where the first of them is, in bytes from the start of the input.
    pub offset: u64,
    /// The bytes themselves, one to four.
    pub bytes: Vec<u8>,
}

/// The name of an unknown encoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown encoding {name:?}; use utf-8, utf-16le, utf-16be, latin1, binary, or a name of the Encoding Standard such as shift_jis, gbk, windows-1251 or iso-8859-2"
)]
pub struct UnknownEncoding {
    /// The name as it was given.
    pub name: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(encoding: Encoding, parts: &[&[u8]]) -> Result<Vec<u8>, BadBytes> {
        let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            decoder.decode(part, at + 1 == parts.len(), &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn byte_order_marks_are_dropped_at_the_start_only() {
        assert_eq!(decoded(Encoding::Utf8, &[b"\xef", b"\xbb\xbfa\xef\xbb\xbf"]).unwrap(), b"a\xef\xbb\xbf");
        assert_eq!(decoded(Encoding::Utf8, &[b"\xef\xbb", b"x"]).unwrap(), b"\xef\xbbx");
        assert_eq!(decoded(Encoding::Utf8, &[b"\xef\xbb", b""]).unwrap(), b"\xef\xbb");
        assert_eq!(decoded(Encoding::Utf16Le, &[b"\xff", b"\xfea\0"]).unwrap(), b"a");
        assert_eq!(decoded(Encoding::Utf16Be, &[b"\xfe\xff\0a"]).unwrap(), b"a");
        assert_eq!(decoded(Encoding::Binary, &[b"\xef\xbb\xbf\xff"]).unwrap(), b"\xef\xbb\xbf\xff");
    }

    #[test]
    fn an_encoding_is_stored_by_its_name() {
        let stored = |label: &str| Legacy::try_from(label.to_owned()).map(String::from).ok();
        assert_eq!(stored("sjis").as_deref(), Some("Shift_JIS"));
        for label in ["latin1", "utf-8", "x", "iso-8859-2\0"] {
            assert_eq!(stored(label), None, "{label}");
        }
    }

    #[test]
    fn latin1_is_the_server_s() {
        let text = decoded(Encoding::Latin1, &[b"\x80 caf\xe9 \x81"]).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "\u{20ac} caf\u{e9} \u{81}");
    }

    #[test]
    fn bad_bytes_are_named_with_their_place() {
        let bad =
            |offset, bytes: &[u8]| BadBytes { encoding: Encoding::Utf16Le, offset, bytes: bytes.to_vec() };
        let lone: &[u8] = b"a\0\x3d\xd8b\0";
        assert_eq!(decoded(Encoding::Utf16Le, &[lone]), Err(bad(2, b"\x3d\xd8")));
        assert_eq!(decoded(Encoding::Utf16Le, &[b"a\0\x3d", b"\xd8b", b"\0"]), Err(bad(2, b"\x3d\xd8")));
        assert_eq!(decoded(Encoding::Utf16Le, &[b"a\0b"]), Err(bad(2, b"b")));
        let message = bad(2, b"\x3d\xd8").to_string();
        assert_eq!(
            message,
            "offset 2: the bytes 3d d8 are not UTF-16LE; name the encoding the file really has"
        );
    }

    #[test]
    fn names_are_those_people_use() {
        for (name, encoding) in [
            ("UTF-8", Encoding::Utf8),
            ("utf8mb4", Encoding::Utf8),
            ("CP1252", Encoding::Latin1),
            ("Shift_JIS", Encoding::Legacy(Legacy(encoding_rs::SHIFT_JIS))),
            ("cp932", Encoding::Legacy(Legacy(encoding_rs::SHIFT_JIS))),
            ("gbk", Encoding::Legacy(Legacy(encoding_rs::GBK))),
            ("latin2", Encoding::Legacy(Legacy(encoding_rs::ISO_8859_2))),
            ("iso-8859-2", Encoding::Legacy(Legacy(encoding_rs::ISO_8859_2))),
            ("EUC_JP", Encoding::Legacy(Legacy(encoding_rs::EUC_JP))),
            ("binary", Encoding::Binary),
        ] {
            assert_eq!(name.parse(), Ok(encoding));
        }
        for name in ["klingon", "replacement", "x-user-defined", "iso-2022-cn"] {
            assert!(name.parse::<Encoding>().is_err(), "{name}");
        }
        for (_, label) in SERVERS_NAMES {
            assert!(matches!(label.parse(), Ok(Encoding::Legacy(_))), "{label}");
        }
        for encoding in
            [Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be, Encoding::Latin1, Encoding::Binary]
        {
            assert_eq!(encoding.to_string().parse(), Ok(encoding));
        }
    }
}
