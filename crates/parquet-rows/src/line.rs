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
