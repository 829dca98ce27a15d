//! Lists the guesses that the sample has not confirmed.

use super::{Cell, Sample};
use crate::backslash::Backslashes;
use crate::{Dialect, Field, GuessedOptions, fields};

/// What the sample does not show: the rest of the file may still contradict it.
pub(super) fn left_open(sample: Sample<'_>, dialect: &Dialect, body: &[Vec<Cell>]) -> GuessedOptions {
    let malformed = || body.iter().flatten().any(|cell| cell.malformed);
    let null_escape = || dialect.escape_byte().is_some() && body.iter().flatten().any(|cell| cell.null);
    let in_use = || [Some(b'"'), dialect.quote].into_iter().flatten().any(|quote| occurs(sample, quote));
    GuessedOptions {
        escape: !has_text_backslashes(sample, dialect),
        quote: !malformed() && dialect.quote.is_some(),
        quoted_lines: dialect.quote.is_some(),
        other_quote: !in_use(),
        line_end: true,
        // A program that writes `\N` for NULL means other words literally.
        nulls: !null_escape(),
        header: true,
    }
}

fn occurs(sample: Sample<'_>, byte: u8) -> bool {
    sample.parts().any(|part| memchr::memchr(byte, part).is_some())
}

/// Whether the sample shows that backslashes are not escapes, so that more of them are nothing new.
fn has_text_backslashes(sample: Sample<'_>, dialect: &Dialect) -> bool {
    if dialect.escape_byte().is_some() || !occurs(sample, b'\\') {
        return false;
    }
    let mut row: Vec<Field<'_>> = Vec::new();
    sample.records(dialect).any(|record| {
        fields(dialect, record, &mut row);
        row.iter().filter_map(|field| Backslashes::of(field, dialect)).any(Backslashes::are_text)
    })
}
