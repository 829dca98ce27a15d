//! Texts and dialects for the tests.

use proptest::prelude::*;
use proptest::sample::select;
use rows::{Dialect, LineEnd};

/// Dialects as files have them.
pub(crate) fn dialect() -> impl Strategy<Value = Dialect> {
    let line_end = select(vec![LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr, LineEnd::Any]);
    let quote = select(vec![None, Some(b'"'), Some(b'\'')]);
    let escape = select(vec![None, Some(b'\\')]);
    (select(vec![b',', b'\t']), quote, escape, line_end)
        .prop_map(|(delimiter, quote, escape, line_end)| Dialect { delimiter, quote, escape, line_end })
}

/// Dialects that nobody would use.
pub(crate) fn strange_dialect() -> impl Strategy<Value = Dialect> {
    let byte = || select(b",\"\\\n\ra\0\xff".to_vec());
    let line_end = select(vec![LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr, LineEnd::Any]);
    (byte(), proptest::option::of(byte()), proptest::option::of(byte()), line_end)
        .prop_map(|(delimiter, quote, escape, line_end)| Dialect { delimiter, quote, escape, line_end })
}

/// Bytes most of which have a meaning, with runs long enough to cross the blocks that are examined together.
pub(crate) fn text() -> impl Strategy<Value = Vec<u8>> {
    let mark = select(b",\t\"'\\\n\r;N0nx ".to_vec()).prop_map(|byte| vec![byte]);
    let pair =
        select(vec![&b"\r\n"[..], b"\"\"", b"\"\n", b",\"", b"\",", b"\\\"", b"\\\r\n", b"\\\n", b"\\N"])
            .prop_map(<[u8]>::to_vec);
    let run = (0..90usize, select(b"abc,\n\xc3".to_vec())).prop_map(|(length, byte)| vec![byte; length]);
    proptest::collection::vec(prop_oneof![6 => mark, 4 => pair, 1 => run], 0..120)
        .prop_map(|parts| parts.concat())
}

/// Any bytes at all.
pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![text(), proptest::collection::vec(any::<u8>(), 0..200)]
}

/// The same bytes in pieces.
pub(crate) fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Places to cut at, for [`cut`].
pub(crate) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..2000usize, 0..8)
}
