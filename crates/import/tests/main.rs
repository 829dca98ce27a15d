//! Cutting into chunks, whatever a file holds and however it arrives.

use std::io::{self, Read};

use import::Input;
use import::chunk::{Chunker, Cut};
use import::source::{Files, Reading, Stdin};
use progress::Silent;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use rows::{Dialect, Encoding, LineEnd};

/// A stream whose reads return the given numbers of bytes, over and over.
struct Dribble {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()].min(buffer.len()).min(self.bytes.len() - self.at);
        self.turn += 1;
        buffer[..size].copy_from_slice(&self.bytes[self.at..self.at + size]);
        self.at += size;
        Ok(size)
    }
}

/// What is known about a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cutting {
    number: u32,
    line: u64,
    records: u64,
    bytes: Vec<u8>,
}

/// Cuts a text; an error has the message.
fn cut(bytes: &[u8], sizes: &[usize], cut: Cut) -> Result<Vec<Cutting>, String> {
    let reader = Box::new(Dribble { bytes: bytes.to_vec(), at: 0, sizes: sizes.to_vec(), turn: 0 });
    let stdin = Stdin { reader, spool: std::env::temp_dir() };
    let files = Files::new(&disk::RealDisk, &[Input::Stdin], Some(stdin), &Reading::default())
        .map_err(|error| error.to_string())?;
    let mut chunker = Chunker::new(&files, cut, 2, &Silent);
    let mut chunks = Vec::new();
    while let Some(chunk) = chunker.next_chunk().map_err(|error| error.to_string())? {
        let (number, line, records) = (chunk.number, chunk.line, chunk.records);
        chunks.push(Cutting { number, line, records, bytes: chunk.bytes().to_vec() });
    }
    Ok(chunks)
}

fn dialect() -> impl Strategy<Value = Dialect> {
    let line_end = prop_oneof![Just(LineEnd::Lf), Just(LineEnd::CrLf), Just(LineEnd::Cr), Just(LineEnd::Any)];
    let quote = prop_oneof![Just(None), Just(Some(b'"')), Just(Some(b'\''))];
    let escape = prop_oneof![Just(None), Just(Some(b'\\'))];
    let delimiter = prop_oneof![Just(b','), Just(b'\t')];
    (delimiter, quote, escape, line_end).prop_map(|(delimiter, quote, escape, line_end)| Dialect {
        delimiter,
        quote,
        escape,
        line_end,
    })
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just("a"), 2 => Just(","), 2 => Just("\""), 3 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r"),
        1 => Just("\\"), 1 => Just("'"), 1 => Just("\u{20ac}"), 1 => Just("long long long"), 1 => Just("\t"),
        2 => Just("\"q,\nq\""),
    ];
    vec(piece, 0..120).prop_map(|pieces| pieces.concat().into_bytes())
}

fn cutting() -> impl Strategy<Value = Cut> {
    (dialect(), 1_usize..64, 0_u64..3, any::<bool>()).prop_map(
        |(dialect, chunk_bytes, skip_lines, header)| Cut {
            format: rows::Format::Plain,
            dialect,
            encoding: Encoding::Utf8,
            chunk_bytes,
            record_bytes_max: usize::MAX,
            skip_lines,
            header,
        },
    )
}

fn records(dialect: &Dialect, bytes: &[u8]) -> Vec<Vec<u8>> {
    rows::records(dialect, bytes).map(<[u8]>::to_vec).collect()
}

proptest! {
    #[test]
    fn chunks_are_the_file(bytes in text(), how in cutting(), sizes in vec(1_usize..40, 1..5)) {
        let whole = cut(&bytes, &[usize::MAX], how.clone());
        // Where a cut falls, and whether there is one, does not depend on how the bytes arrive.
        prop_assert_eq!(&whole, &cut(&bytes, &sizes, how.clone()));
        let Ok(chunks) = whole else { return Ok(()) };
        let bytes = rows::without_end_marks(&bytes, Some(how.dialect.line_end));
        let all: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
        prop_assert_eq!(bytes.strip_suffix(all.as_slice()).is_some(), true);
        if how.skip_lines == 0 && !how.header {
            prop_assert_eq!(&all, bytes);
        }
        let end = if how.dialect.line_end == LineEnd::Cr { b'\r' } else { b'\n' };
        let mut at = bytes.len() - all.len();
        for (index, chunk) in chunks.iter().enumerate() {
            prop_assert_eq!(chunk.number as usize, index + 1);
            prop_assert_eq!(chunk.line, 1 + bytes[..at].iter().filter(|byte| **byte == end).count() as u64);
            prop_assert_eq!(chunk.records, records(&how.dialect, &chunk.bytes).len() as u64);
            // Only a record longer than a chunk makes a chunk longer than its limit.
            prop_assert_eq!(chunk.bytes.len() > how.chunk_bytes && chunk.records > 1, false);
            at += chunk.bytes.len();
        }
        let parts: Vec<_> = chunks.iter().flat_map(|chunk| records(&how.dialect, &chunk.bytes)).collect();
        prop_assert_eq!(parts, records(&how.dialect, &all));
    }

    #[test]
    fn any_bytes_are_cut_or_refused(
        bytes in vec(any::<u8>(), 0..300),
        how in cutting(),
        encoding in prop_oneof![
            Just(Encoding::Utf8), Just(Encoding::Utf16Le), Just(Encoding::Utf16Be), Just(Encoding::Latin1),
            Just(Encoding::Binary)
        ],
        record_bytes_max in 1_usize..100,
    ) {
        let how = Cut { encoding, record_bytes_max, ..how };
        prop_assert_eq!(cut(&bytes, &[usize::MAX], how.clone()), cut(&bytes, &[1, 3], how));
    }
}
