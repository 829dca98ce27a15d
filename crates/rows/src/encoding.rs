//! From the encodings files come in to UTF-8.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use encoding_rs::DecoderResult;

use crate::{BadBytes, UnknownEncoding};

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
    /// No text at all: the bytes are values as they are.
    Binary,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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
            // As a MySQL character set, and by RFC 2781 where no mark says otherwise, utf16 has the high byte first.
            "utf16be" | "utf-16be" | "utf16" | "utf-16" => Ok(Encoding::Utf16Be),
            "latin1" | "latin-1" | "iso-8859-1" | "windows-1252" | "cp1252" => Ok(Encoding::Latin1),
            "binary" => Ok(Encoding::Binary),
            _ => Err(UnknownEncoding { name: name.to_owned() }),
        }
    }
}

/// Turns a stream of bytes into UTF-8, in pieces of any size.
///
/// A byte order mark at the start is dropped. [`Encoding::Utf8`] is otherwise passed on without a look at it:
/// the server checks it anyway, and names the row. [`Encoding::Binary`] is passed on untouched.
pub struct Decoder {
    encoding: Encoding,
    /// For the encodings that need work.
    inner: Option<encoding_rs::Decoder>,
    /// How many bytes of a UTF-8 byte order mark were held back; 3 once that question is settled.
    bom_seen: usize,
    offset: u64,
}

impl Decoder {
    /// A decoder at the start of a file.
    pub fn new(encoding: Encoding) -> Decoder {
        let inner = match encoding {
            Encoding::Utf8 | Encoding::Binary => None,
            Encoding::Utf16Le => Some(encoding_rs::UTF_16LE.new_decoder_with_bom_removal()),
            Encoding::Utf16Be => Some(encoding_rs::UTF_16BE.new_decoder_with_bom_removal()),
            Encoding::Latin1 => Some(encoding_rs::WINDOWS_1252.new_decoder_without_bom_handling()),
        };
        let bom_seen = if encoding == Encoding::Utf8 { 0 } else { UTF8_BOM.len() };
        Decoder { encoding, inner, bom_seen, offset: 0 }
    }

    /// Appends what `input` says to `out`, as UTF-8. An incomplete character at the end is kept for the next
    /// call; `last` says that there is none.
    ///
    /// # Errors
    ///
    /// `input` holds bytes that the encoding does not allow. `out` has everything before them; the decoder is
    /// of no further use.
    pub fn decode(&mut self, input: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), BadBytes> {
        match &mut self.inner {
            None => {
                let rest = self.without_bom(input, last, out);
                out.extend_from_slice(rest);
                self.offset += input.len() as u64;
                Ok(())
            }
            Some(inner) => {
                let result = transcode(inner, input, last, out);
                let start = self.offset;
                self.offset += input.len() as u64;
                result.map_err(|(end, length)| self.bad(start + end as u64, length, (input, end)))
            }
        }
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
                // It was no mark after all: what was held back is data.
                _ => {
                    out.extend_from_slice(&UTF8_BOM[..self.bom_seen]);
                    self.bom_seen = UTF8_BOM.len();
                }
            }
        }
        rest
    }

    /// The bad bytes end at offset `end` of the whole input; the last `at.1` bytes before that are in `at.0`.
    fn bad(&self, end: u64, length: usize, at: (&[u8], usize)) -> BadBytes {
        let (input, end_here) = at;
        let bytes = input[end_here.saturating_sub(length)..end_here].to_vec();
        BadBytes { encoding: self.encoding, offset: end - length as u64, bytes }
    }
}

/// Where bad bytes end in the input of this call, and how many they are. They may begin in an earlier call.
type Malformed = (usize, usize);

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
                return Err((read.saturating_sub(usize::from(behind)), usize::from(length)));
            }
        }
    }
}
