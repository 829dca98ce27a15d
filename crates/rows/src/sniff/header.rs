//! Whether the first record is a header.

use std::collections::BTreeSet;

use super::{Cell, Table, null};
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
    let matching = known.map_or(0, |known| matching_columns(first, known));
    if matching > 0 && matching == first.len() {
        return true;
    }
    if !first.iter().all(could_be_name) || first.iter().all(|cell| cell.text.is_empty()) {
        return false;
    }
    if matching > 0 && matching * 2 >= first.len() {
        return true;
    }
    let body: Vec<&Vec<Cell>> = body.iter().filter(|row| row.len() == columns).collect();
    let is_over_types = |at: usize| types_differ(&first[at], &column(&body, at));
    if (0..first.len()).any(is_over_types) || is_over_index(first, &column(&body, 0)) {
        return true;
    }
    if !are_distinct(first) {
        return false;
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
    words + strange > first.len() / 2
}

/// The cells of one column that say something.
fn column<'a>(body: &[&'a Vec<Cell>], at: usize) -> Vec<&'a Cell> {
    body.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.null && !cell.text.is_empty()).collect()
}

/// A name is neither a number or a date nor a word for NULL; but single letters are names, also `t` and `f`.
fn could_be_name(cell: &Cell) -> bool {
    let name = cell.name();
    let letter = name.len() == 1 && name.starts_with(char::is_alphabetic);
    !cell.null && !null::is_word(name.as_bytes()) && (letter || !is_typed(name.as_bytes()))
}

/// No name is missing or there twice.
fn are_distinct(first: &[Cell]) -> bool {
    let names: BTreeSet<String> = first.iter().map(|cell| cell.name().to_lowercase()).collect();
    names.len() == first.len() && !names.contains("")
}

/// How many of the names are the table's.
fn matching_columns(first: &[Cell], known: &[String]) -> usize {
    let known: BTreeSet<String> = known.iter().map(|name| name.to_lowercase()).collect();
    first.iter().filter(|cell| known.contains(&cell.name().to_lowercase())).count()
}

/// Every value below the name is a number, a date or the like; the name is there and is none of them.
fn types_differ(name: &Cell, values: &[&Cell]) -> bool {
    !name.text.is_empty() && !values.is_empty() && values.iter().all(|cell| is_typed(&cell.text))
}

/// The first column has no name and counts the rows, as data frames are written.
fn is_over_index(first: &[Cell], values: &[&Cell]) -> bool {
    let counts = values.first().is_some_and(|cell| matches!(&cell.text[..], b"0" | b"1"));
    first.len() > 1
        && first[0].text.is_empty()
        && are_distinct(&first[1..])
        && counts
        && values.iter().all(|cell| is_typed(&cell.text))
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
