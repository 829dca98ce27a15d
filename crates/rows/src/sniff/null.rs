//! Finds words that mean NULL.

use super::Cell;
use crate::field::AMONG_TYPED;
use crate::infer::is_typed;
use crate::{Dialect, Nulls};

/// These mean NULL whenever they are a whole unquoted field.
const ALWAYS: [&[u8]; 2] = [b"NULL", b"\\N"];

/// Whether a text is one of these words.
pub(super) fn is_word(text: &[u8]) -> bool {
    ALWAYS.contains(&text) || AMONG_TYPED.contains(&text)
}

/// What seems to mean NULL in the rows.
pub(super) fn suggest(rows: &[Vec<Cell>], dialect: &Dialect, columns: usize) -> Nulls {
    let escaped = dialect.escape_byte().is_some();
    if escaped && rows.iter().flatten().any(|cell| cell.null) {
        // A program that writes `\N` for NULL means the word literally.
        return Nulls::default();
    }
    let mut words: Vec<Vec<u8>> = Vec::new();
    for word in ALWAYS {
        let plain = |cell: &Cell| !cell.quoted && !cell.null && cell.text == word;
        if rows.iter().flatten().any(plain) {
            words.push(word.to_vec());
        }
    }
    let typed: Vec<bool> = (0..columns).map(|at| is_typed_column(rows, at)).collect();
    for word in AMONG_TYPED {
        let places = || {
            rows.iter()
                .flat_map(|row| row.iter().enumerate().filter(|(_, cell)| !cell.quoted && cell.text == word))
        };
        let mut places_typed = places().map(|(at, _)| typed.get(at).copied().unwrap_or(false)).peekable();
        if places_typed.peek().is_some() && places_typed.all(|typed| typed) {
            words.push(word.to_vec());
        }
    }
    // A dialect with its own NULL need not write it as an empty field.
    Nulls { empty: !escaped, words }
}

/// Whether the column has numbers, dates or the like, and nothing else except possible NULLs.
fn is_typed_column(rows: &[Vec<Cell>], at: usize) -> bool {
    let mut seen = false;
    for cell in rows.iter().filter_map(|row| row.get(at)) {
        let text = cell.text.as_slice();
        if is_typed(text) {
            seen = true;
        } else if !cell.null && !text.is_empty() && !is_word(text) {
            return false;
        }
    }
    seen
}
