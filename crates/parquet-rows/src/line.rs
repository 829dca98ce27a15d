//! Lines in LOAD DATA's default dialect, as a dump has them.

/// NULL.
pub(crate) const NULL: &[u8] = b"\\N";

/// A value that is in no column, because its type can't hold it or would print it otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddValue {
    /// Its row in the file, from 0.
    pub row: u64,
    /// Its column, from 0.
    pub column: usize,
    /// Its text in a line, with escapes.
    pub text: Vec<u8>,
}

impl OddValue {
    /// A line of a file of such values, with its newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{}\t{}\t", self.row, self.column).as_bytes());
        out.extend_from_slice(&self.text);
        out.push(b'\n');
    }

    /// The value of such a line, without its newline.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<OddValue> {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
        let (row, column) = (number()?, usize::try_from(number()?).ok()?);
        Some(OddValue { row, column, text: parts.next()?.to_owned() })
    }
}

/// Where the values of a line end, and whether some have escapes. Values are short, so eight bytes are looked
/// at together: a call for each separator would take longer.
pub(crate) fn split(line: &[u8], ends: &mut Vec<usize>) -> bool {
    ends.clear();
    let mut escapes = 0;
    let (eights, rest) = line.as_chunks();
    let padded = std::array::from_fn(|at| rest.get(at).copied().unwrap_or(0));
    for (number, bytes) in eights.iter().chain([&padded]).enumerate() {
        escapes |= places(*bytes, b'\\');
        let mut tabs = places(*bytes, b'\t');
        while tabs != 0 {
            ends.push(number * 8 + tabs.trailing_zeros() as usize / 8);
            tabs &= tabs - 1;
        }
    }
    ends.push(line.len());
    escapes != 0
}

/// The highest bit of each byte that is this one.
fn places(bytes: [u8; 8], byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let other = u64::from_le_bytes(bytes) ^ u64::from_le_bytes([byte; 8]);
    // No sum of a byte reaches the next one.
    !(((other & LOW) + LOW) | other | LOW)
}

/// A value of a line without its escapes; the text itself if it has none.
pub(crate) fn unescape<'a>(text: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let Some(first) = memchr::memchr(b'\\', text) else { return text };
    scratch.clear();
    scratch.reserve_exact(text.len());
    scratch.extend_from_slice(&text[..first]);
    let mut bytes = text[first..].iter();
    while let Some(byte) = bytes.next() {
        scratch.push(match byte {
            b'\\' => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'0') => 0,
                Some(other) => *other,
                None => break,
            },
            other => *other,
        });
    }
    scratch
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_is_split_at_its_tabs(line in prop::collection::vec(
            prop::sample::select(b"\t\t\\\x08\x09\x0a\x5b\x5d\x89\xdc\0\xffa".to_vec()), 0..70,
        )) {
            let mut ends = Vec::new();
            let has_escapes = split(&line, &mut ends);
            prop_assert_eq!(has_escapes, line.contains(&b'\\'));
            let mut expected: Vec<usize> = (0..line.len()).filter(|at| line[*at] == b'\t').collect();
            expected.push(line.len());
            prop_assert_eq!(ends, expected);
        }
    }
}
