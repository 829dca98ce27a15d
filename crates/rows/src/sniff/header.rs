//! Whether the first record is a header.

use std::collections::BTreeSet;

use super::{Cell, Table};
use crate::infer::is_typed;

/// Names that columns have and people, places and things do not.
const COLUMN_WORDS: [&str; 34] = [
    "id",
    "key",
    "name",
    "code",
    "type",
    "kind",
    "date",
    "time",
    "year",
    "month",
    "day",
    "timestamp",
    "email",
    "phone",
    "address",
    "street",
    "city",
    "state",
    "country",
    "zip",
    "value",
    "price",
    "amount",
    "quantity",
    "count",
    "total",
    "description",
    "title",
    "status",
    "category",
    "comment",
    "url",
    "first name",
    "last name",
];

/// Compares the first row with the others. `columns` is the usual number of fields, `known` the columns of the
/// table the rows are for.
pub(super) fn detect(table: &Table, columns: usize, known: Option<&[String]>) -> bool {
    let Some((first, body)) = table.rows.split_first() else { return false };
    if !could_be_names(first, body) {
        return false;
    }
    if known.is_some_and(|known| matches_columns(first, known)) {
        return true;
    }
    let body: Vec<&Vec<Cell>> = body.iter().filter(|row| row.len() == columns).collect();
    if (0..first.len()).any(|at| types_differ(&column(&body, at))) {
        return true;
    }
    if !first.iter().all(|cell| is_identifier(&cell.name())) {
        return false;
    }
    let words = first.iter().filter(|cell| is_column_word(&cell.name())).count();
    if body.is_empty() {
        return words > 0 && first.len() > 1;
    }
    let recurs = |at: usize| column(&body, at).iter().any(|cell| cell.text == first[at].text);
    if (0..first.len()).any(recurs) {
        return false;
    }
    let strange = (0..first.len()).filter(|&at| style_differs(&first[at], &column(&body, at))).count();
    words * 2 > first.len() || words + strange > first.len() / 2
}

/// The cells of one column that say something.
fn column<'a>(body: &[&'a Vec<Cell>], at: usize) -> Vec<&'a Cell> {
    body.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.null && !cell.text.is_empty()).collect()
}

/// No name is a number or a date, none is missing and none is there twice.
fn could_be_names(first: &[Cell], body: &[Vec<Cell>]) -> bool {
    let mut seen = BTreeSet::new();
    let last = first.len().saturating_sub(1);
    first.iter().enumerate().all(|(at, cell)| {
        let name = cell.name();
        if name.is_empty() {
            // An index without a name comes first, and a delimiter too many last: then the column is empty.
            let mut below = body.iter().filter_map(|row| row.get(at)).peekable();
            let there = below.peek().is_some();
            let index = at == 0 && last > 0;
            return there && (index || at == last && last > 0 && below.all(|cell| cell.text.is_empty()));
        }
        let letter = name.len() == 1;
        !cell.null
            && (letter && !name.starts_with(|c: char| c.is_ascii_digit()) || !is_typed(name.as_bytes()))
            && seen.insert(name.to_lowercase())
    })
}

/// At least half of the names are the table's.
fn matches_columns(first: &[Cell], known: &[String]) -> bool {
    let known: BTreeSet<String> = known.iter().map(|name| name.to_lowercase()).collect();
    let matching = first.iter().filter(|cell| known.contains(&cell.name().to_lowercase())).count();
    matching > 0 && matching * 2 >= first.len()
}

/// Every value below the name is a number, a date or the like; the name is none of them already.
fn types_differ(values: &[&Cell]) -> bool {
    !values.is_empty() && values.iter().all(|cell| is_typed(&cell.text))
}

/// Words of letters, digits and what people put between them.
fn is_identifier(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " _-./()#%".contains(c);
    name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '#')
        && name.chars().all(allowed)
        && name.split_whitespace().count() <= 5
        && name.chars().count() <= 64
}

fn is_column_word(name: &str) -> bool {
    let name = name.to_lowercase().replace(['_', '-', '.'], " ");
    COLUMN_WORDS.contains(&name.as_str())
        || name.rsplit(' ').next().is_some_and(|word| word != name && COLUMN_WORDS.contains(&word))
        || (name.contains(' ') && name.split(' ').next().is_some_and(|word| COLUMN_WORDS.contains(&word)))
}

/// All values have something in common that the name has not.
fn style_differs(name: &Cell, values: &[&Cell]) -> bool {
    if values.is_empty() {
        return false;
    }
    let own = features(&name.text);
    let shared = values.iter().map(|cell| features(&cell.text)).reduce(|a, b| a & b).unwrap_or(0);
    shared & !own != 0
}

/// What meets the eye in a text, as bits: capital at the start, capitals only, small letters only, digits,
/// spaces, marks.
fn features(text: &[u8]) -> u8 {
    let any = |test: fn(&u8) -> bool| text.iter().any(test);
    let (upper, lower) = (any(u8::is_ascii_uppercase), any(u8::is_ascii_lowercase));
    u8::from(text.first().is_some_and(u8::is_ascii_uppercase))
        | u8::from(upper && !lower) << 1
        | u8::from(lower && !upper) << 2
        | u8::from(any(u8::is_ascii_digit)) << 3
        | u8::from(any(|&byte| byte == b' ')) << 4
        | u8::from(any(|&byte| byte.is_ascii_punctuation() && byte != b'_')) << 5
}
