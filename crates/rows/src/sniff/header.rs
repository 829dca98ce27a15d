//! Finds out whether the first record is a header.

use std::collections::BTreeSet;

use super::{Cell, Table, null};
use crate::infer::is_typed;

/// Names that columns have, but not people, places and things.
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

/// Whether the record after the first `skipped` ones is a header.
pub(super) fn follows(table: &Table, skipped: usize, columns: usize) -> bool {
    is_header(table.rows.get(skipped..).unwrap_or_default(), columns, None) == Some(true)
}

/// Compares the first row with the others. `columns` is the usual number of fields, `known` has the columns
/// of the target table. `None` if it may be a header or a row.
pub(super) fn detect(table: &Table, columns: usize, known: Option<&[String]>) -> Option<bool> {
    is_header(&table.rows, columns, known)
}

fn is_header(rows: &[Vec<Cell>], columns: usize, known: Option<&[String]>) -> Option<bool> {
    let Some((first, body)) = rows.split_first() else { return Some(false) };
    let matching = known.map_or(0, |known| matching_columns(first, known));
    if matching > 0 && matching == first.len() {
        return Some(true);
    }
    if is_sequence_over_others(first, body) {
        return Some(true);
    }
    if !first.iter().all(could_be_name) || first.iter().all(|cell| cell.text.is_empty()) {
        return Some(false);
    }
    if matching > 0 && matching * 2 >= first.len() {
        return Some(true);
    }
    let body: Vec<&Vec<Cell>> = body.iter().filter(|row| row.len() == columns).collect();
    let is_over_types = |at: usize| types_differ(&first[at], &column(&body, at));
    if (0..first.len()).any(is_over_types) || is_over_index(first, &column(&body, 0)) {
        return Some(true);
    }
    if !are_distinct(first) {
        return Some(false);
    }
    let are_identifiers = first.iter().all(|cell| is_identifier(&cell.name()));
    let words = first.iter().filter(|cell| is_column_word(&cell.name())).count();
    if body.is_empty() {
        return Some(are_identifiers && words > 0 && first.len() > 1);
    }
    let recurs = |at: usize| column(&body, at).iter().any(|cell| cell.text == first[at].text);
    if (0..first.len()).any(recurs) {
        return Some(false);
    }
    let strange = (0..first.len()).filter(|&at| style_differs(&first[at], &column(&body, at))).count();
    (are_identifiers && words + strange > first.len() / 2).then_some(true)
}

/// Whether some of the names are numbers in equal steps, such as years, while the values below them are not.
fn is_sequence_over_others(first: &[Cell], body: &[Vec<Cell>]) -> bool {
    let number = |cell: &Cell| std::str::from_utf8(&cell.text).ok()?.trim().parse::<i64>().ok();
    let step = |row: &[Cell], at: &[usize]| {
        let numbers: Option<Vec<i64>> = at.iter().map(|&at| row.get(at).and_then(number)).collect();
        let numbers = numbers?;
        let step = numbers.get(1)?.checked_sub(numbers[0])?;
        let even = numbers.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
        (even && step != 0).then_some(step)
    };
    let places: Vec<usize> = (0..first.len()).filter(|&at| number(&first[at]).is_some()).collect();
    let rest: Vec<&Cell> = first.iter().filter(|cell| number(cell).is_none()).collect();
    let are_names =
        rest.iter().all(|cell| could_be_name(cell)) && rest.iter().any(|cell| !cell.text.is_empty());
    let are_years = |row: &[Cell]| {
        places.iter().all(|&at| row.get(at).is_some_and(|cell| matches!(number(cell), Some(1800..=2100))))
    };
    // Any two numbers are in step with each other, and numbers alone are more often a row.
    let enough = if are_years(first) { are_names || first.len() > 2 } else { are_names && places.len() > 2 };
    let Some(own) = step(first, &places).filter(|_| enough) else { return false };
    let is_value =
        |row: &Vec<Cell>| places.iter().any(|&at| row.get(at).is_some_and(|cell| !cell.text.is_empty()));
    let same_kind = |row: &Vec<Cell>| match are_years(first) {
        true => are_years(row),
        false => step(row, &places) == Some(own),
    };
    body.iter().any(is_value) && !body.iter().any(same_kind)
}

/// Whether the header has one name less than there are columns, as in tables with row names from R and NumPy:
/// the first column has no name. Delimiters at the end of each line are another case.
pub(super) fn lacks_the_first(names: &[String], body: &[Vec<Cell>], columns: usize) -> bool {
    let ends_empty = |row: &Vec<Cell>| row.last().is_some_and(|cell| cell.text.is_empty());
    names.len() + 1 == columns
        && !names.is_empty()
        && !body.is_empty()
        && body.iter().all(|row| row.len() == columns)
        && !body.iter().all(ends_empty)
}

/// The cells of one column that are neither empty nor NULL.
fn column<'a>(body: &[&'a Vec<Cell>], at: usize) -> Vec<&'a Cell> {
    body.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.null && !cell.text.is_empty()).collect()
}

/// Whether a cell could be a name: not a number, a date or a word for NULL; but single letters are names,
/// even `t` and `f`.
fn could_be_name(cell: &Cell) -> bool {
    let name = cell.name();
    let letter = name.len() == 1 && name.starts_with(char::is_alphabetic);
    !cell.null && !null::is_word(name.as_bytes()) && (letter || !is_typed(name.as_bytes()))
}

/// Whether no name is missing or repeated.
fn are_distinct(first: &[Cell]) -> bool {
    let names: BTreeSet<String> = first.iter().map(|cell| cell.name().to_lowercase()).collect();
    names.len() == first.len() && !names.contains("")
}

/// How many of the names are the table's.
fn matching_columns(first: &[Cell], known: &[String]) -> usize {
    let known: BTreeSet<String> = known.iter().map(|name| name.to_lowercase()).collect();
    first.iter().filter(|cell| known.contains(&cell.name().to_lowercase())).count()
}

/// Whether every value below the name is a number, a date or the like, and the name is not.
fn types_differ(name: &Cell, values: &[&Cell]) -> bool {
    !name.text.is_empty() && !values.is_empty() && values.iter().all(|cell| is_typed(&cell.text))
}

/// Whether the first column has no name and counts the rows, as in data frames.
fn is_over_index(first: &[Cell], values: &[&Cell]) -> bool {
    let counts = values.first().is_some_and(|cell| matches!(&cell.text[..], b"0" | b"1"));
    first.len() > 1
        && first[0].text.is_empty()
        && are_distinct(&first[1..])
        && counts
        && values.iter().all(|cell| is_typed(&cell.text))
}

/// Whether a name consists of letters, digits and the usual characters between them.
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

/// Whether all values share a feature that the name lacks.
fn style_differs(name: &Cell, values: &[&Cell]) -> bool {
    if values.is_empty() {
        return false;
    }
    let own = features(&name.text);
    let shared = values.iter().map(|cell| features(&cell.text)).reduce(|a, b| a & b).unwrap_or(0);
    shared & !own != 0
}

/// Visible features of a text, as bits: initial capital, capitals only, lower case only, digits, spaces,
/// punctuation.
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
