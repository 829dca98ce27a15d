//! Any bytes are a file: what they are is found without panic, the translated text is the same in pieces of
//! any size, no line is lost, and what speaks against the findings lies inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rows::{Decoder, Field, GuessedOptions, Hints, Nulls, DialectCheck, fields, foreign, records, sniff, sniff_encoding};

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let _ = foreign(bytes);
    let encoding = sniff_encoding(bytes);
    let mut decoder = Decoder::new(encoding);
    let mut text = Vec::new();
    if decoder.decode(bytes, true, &mut text).is_err() {
        return;
    }
    let found = sniff(&text, true, encoding, &Hints::default());
    let strict = match found.format.translator(found.dialect, found.skip_lines) {
        None => text,
        Some(mut whole) => {
            let mut pieces = found.format.translator(found.dialect, found.skip_lines).unwrap();
            let (head, tail) = text.split_at(usize::from(cut).min(text.len()));
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let at_once = whole.translate(&text, true, &mut one);
            let in_two = pieces
                .translate(head, false, &mut other)
                .and_then(|()| pieces.translate(tail, true, &mut other));
            assert_eq!(at_once.is_ok(), in_two.is_ok());
            if at_once.is_err() {
                return;
            }
            assert_eq!(one, other);
            let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(lines(&one), lines(&text) + found.format.lines_added());
            one
        }
    };
    let mut row: Vec<Field<'_>> = Vec::new();
    let mut scratch = Vec::new();
    for record in records(&found.dialect, &strict) {
        fields(&found.dialect, record, &mut row);
        for field in &row {
            let _ = field.text(&found.dialect, &mut scratch);
        }
        let _ = (found.format.reason(&found.dialect, record), found.format.restore(&found.dialect, record));
    }
    let guessed = GuessedOptions { nulls: true, quote: true, escape: true, ..GuessedOptions::default() };
    let dialect_check = DialectCheck::new(found.dialect, Nulls::default(), guessed, None);
    for doubt in dialect_check.look(&strict) {
        assert!(doubt.offset <= strict.len());
    }
});
