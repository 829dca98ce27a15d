//! Writes one value as text for a server, a statement or a file, and reads it back.
//!
//! The LOAD DATA form is that of the server's manual under "LOAD DATA", "Field and Line Handling", with the
//! defaults for FIELDS and LINES.

use memchr::memchr;

use crate::field::resolve;

/// Bytes examined before they are copied; few enough to stay in the first-level cache.
const RUN_BYTES: usize = 256;
/// How many bytes are compared at once: a vector.
const GROUP_BYTES: usize = 16;

/// The letter that stands for a byte after a backslash in the LOAD DATA form, or zero for bytes that need no
/// escape.
const fn load_data_letter(byte: u8) -> u8 {
    match byte {
        b'\\' => b'\\',
        b'\t' => b't',
        b'\n' => b'n',
        b'\r' => b'r',
        0 => b'0',
        _ => 0,
    }
}

/// Whether there may be something to escape for LOAD DATA, apart from the bytes `except`. To save a
/// comparison some control characters count that need no escape.
#[inline]
pub(crate) fn needs_escape(bytes: &[u8], except: [u8; 2]) -> bool {
    let special = |byte: u8| ((byte <= b'\r') | (byte == b'\\')) & (byte != except[0]) & (byte != except[1]);
    let any = |group: &[u8; GROUP_BYTES]| group.iter().fold(false, |found, &byte| found | special(byte));
    let (groups, rest) = bytes.as_chunks();
    if groups.iter().any(any) {
        return true;
    }
    match bytes.last_chunk() {
        Some(last) => !rest.is_empty() && any(last),
        None => is_suspicious(bytes) && rest.iter().any(|&byte| special(byte)),
    }
}

/// Whether LOAD DATA's default dialect surely has nothing to escape in these bytes.
#[must_use]
#[inline]
pub fn is_plain_load_data(bytes: &[u8]) -> bool {
    !needs_escape(bytes, [b' '; 2])
}

/// Whether one of fewer than 16 bytes may be special, comparing several at once: most values are short and
/// contain nothing special.
#[inline]
fn is_suspicious(bytes: &[u8]) -> bool {
    let (low, high) = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (
            u64::from(u32::from_le_bytes(*first)) | EMPTY_HALF,
            u64::from(u32::from_le_bytes(*last)) | EMPTY_HALF,
        )
    } else {
        return !bytes.is_empty();
    };
    // "Determine if a word has a byte less than n", and equal to n, from Sean Anderson's Bit Twiddling Hacks.
    let less = |word: u64, than: u8| word.wrapping_sub(ONES * u64::from(than)) & !word & (ONES << 7);
    let found = |word: u64| less(word, b'\r' + 1) | less(word ^ (ONES * u64::from(b'\\')), 1);
    found(low) | found(high) != 0
}

/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// Spaces to fill a half-empty word.
const EMPTY_HALF: u64 = 0x2020_2020_0000_0000;

/// Appends one field in LOAD DATA's default dialect: NULL as `\N`; backslash, tab, newline, carriage return
/// and NUL are escaped. The caller writes the delimiter or line end.
#[inline]
pub fn write_load_data(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(value) = value else {
        out.extend_from_slice(b"\\N");
        return;
    };
    if value.len() <= RUN_BYTES && !needs_escape(value, [b' '; 2]) {
        out.extend_from_slice(value);
    } else {
        write_escaped(value, out);
    }
}

#[inline(never)]
fn write_escaped(value: &[u8], out: &mut Vec<u8>) {
    for run in value.chunks(RUN_BYTES) {
        if !needs_escape(run, [b' '; 2]) {
            out.extend_from_slice(run);
            continue;
        }
        let mut from = 0;
        for (at, &byte) in run.iter().enumerate() {
            let letter = load_data_letter(byte);
            if letter != 0 {
                out.extend_from_slice(&run[from..at]);
                out.extend_from_slice(&[b'\\', letter]);
                from = at + 1;
            }
        }
        out.extend_from_slice(&run[from..]);
    }
}

/// Appends the value of one field in LOAD DATA's default dialect. A backslash at the very end is data. NULL
/// (`\N`) has no value, so the caller must check for it first; here it becomes an `N`.
pub fn unescape_load_data(bytes: &[u8], out: &mut Vec<u8>) {
    resolve(bytes, None, Some(b'\\'), out);
}

/// Appends a value as an SQL literal, for `INSERT` where LOAD DATA is not available: `NULL`, or a string in
/// single quotes. `no_backslash_escapes` says whether the session has that SQL mode. The bytes must be text
/// in the connection's character set, in which every ASCII byte must be an ASCII character, as in utf8mb4.
pub fn write_sql_literal(value: Option<&[u8]>, no_backslash_escapes: bool, out: &mut Vec<u8>) {
    let Some(value) = value else {
        out.extend_from_slice(b"NULL");
        return;
    };
    out.push(b'\'');
    let mut from = 0;
    for (at, &byte) in value.iter().enumerate() {
        let replacement: &[u8] = match byte {
            b'\'' => b"''",
            b'\\' if !no_backslash_escapes => b"\\\\",
            0 if !no_backslash_escapes => b"\\0",
            _ => continue,
        };
        out.extend_from_slice(&value[from..at]);
        out.extend_from_slice(replacement);
        from = at + 1;
    }
    out.extend_from_slice(&value[from..]);
    out.push(b'\'');
}

/// Appends a value as one field of a CSV file by RFC 4180. NULL becomes nothing, and an empty value a pair of
/// quotes, so that [`Nulls`](crate::Nulls) with `empty` distinguishes them.
pub fn write_csv(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(value) = value else { return };
    let plain = !value.is_empty() && !value.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if plain {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    let mut rest = value;
    while let Some(at) = memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=at]);
        out.push(b'"');
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_data(value: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        write_load_data(value, &mut out);
        out
    }

    #[test]
    fn escapes_what_load_data_would_read_as_something_else() {
        assert_eq!(load_data(None), b"\\N");
        assert_eq!(load_data(Some(b"\\N")), b"\\\\N");
        assert_eq!(load_data(Some(b"a\tb\nc\rd\0e\\f\x08\x1a")), b"a\\tb\\nc\\rd\\0e\\\\f\x08\x1a");
        let mut long = vec![b'x'; 1000];
        long[300] = b'\t';
        let written = load_data(Some(&long));
        assert_eq!((written.len(), &written[300..302]), (1001, &b"\\t"[..]));
    }

    #[test]
    fn no_special_byte_is_overlooked_wherever_it_is() {
        // Several bytes are compared at once, so what is beside the special one matters.
        for filler in *b"xz 0\x7f\x80\xff\x0e" {
            for length in 0..40 {
                for (at, byte) in (0..length).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                    let mut value = vec![filler; length];
                    value[at] = byte;
                    let special = load_data_letter(byte) != 0;
                    assert!(needs_escape(&value, [b' '; 2]) || !special, "{byte} at {at} of {length}");
                    assert_eq!(load_data(Some(&value)).len(), length + usize::from(special));
                }
            }
        }
    }

    #[test]
    fn reads_every_escape_of_load_data() {
        let mut out = Vec::new();
        unescape_load_data(b"\\0\\b\\n\\r\\t\\Z\\\\\\x\\", &mut out);
        assert_eq!(out, b"\0\x08\n\r\t\x1a\\x\\");
    }

    #[test]
    fn sql_literals_follow_the_mode() {
        let literal = |value, mode| {
            let mut out = Vec::new();
            write_sql_literal(value, mode, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(literal(None, false), "NULL");
        assert_eq!(literal(Some(b"it's \\ \0"), false), "'it''s \\\\ \\0'");
        assert_eq!(literal(Some(b"it's \\ \0"), true), "'it''s \\ \0'");
    }

    #[test]
    fn csv_quotes_only_where_it_must() {
        let csv = |value| {
            let mut out = Vec::new();
            write_csv(value, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(csv(None), "");
        assert_eq!(csv(Some(b"")), "\"\"");
        assert_eq!(csv(Some(b"it's fine")), "it's fine");
        assert_eq!(csv(Some(b"a \"b\", c")), "\"a \"\"b\"\", c\"");
    }
}
