//! Decides whether two texts are the same value.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Variable;

/// A number in an option file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number, multiplied by its suffix.
    Whole(i128),
    /// A number with a decimal point.
    Real(f64),
}

/// Reads a number with the suffixes of option files: K, M, G, and MariaDB's T, P, E.
#[must_use]
pub fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    let digits = text.strip_suffix(|c: char| c.is_ascii_alphabetic()).unwrap_or(text);
    if let Ok(whole) = digits.parse::<i128>() {
        return Some(Number::Whole(whole.checked_mul(unit(text[digits.len()..].chars().next())?)?));
    }
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let real: f64 = text.parse().ok().filter(|_| is_plain && text.contains('.'))?;
    let whole = real.fract() == 0.0 && real.abs() < 9e15;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    Some(if whole { Number::Whole(real as i128) } else { Number::Real(real) })
}

/// The factor for a letter after a number; 1 if there is none.
pub(crate) fn unit(letter: Option<char>) -> Option<i128> {
    let Some(letter) = letter else { return Some(1) };
    let at = ['K', 'M', 'G', 'T', 'P', 'E'].iter().position(|known| letter.eq_ignore_ascii_case(known))?;
    Some(1 << (10 * (at + 1)))
}

/// `Some(true)` for ON and its synonyms.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_uppercase().as_str() {
        "ON" | "TRUE" | "1" | "YES" => Some(true),
        "OFF" | "FALSE" | "0" | "NO" => Some(false),
        _ => None,
    }
}

/// Whether two texts are the same value of a variable: `1` and `ON` of a switch, `64M` and `67108864`, words
/// of a set in another order, a folder with and without its trailing slash, NULL and the empty text.
#[must_use]
pub fn are_equal(variable: &Variable, a: &str, b: &str) -> bool {
    let (a, b) = (&charset(present(a)), &charset(present(b)));
    if a == b {
        return true;
    }
    let kind = variable.kind.as_deref().unwrap_or_default();
    if let (Some(a), Some(b)) = (switch(a), switch(b)) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return a == b;
    }
    match kind {
        "ENUM" | "BOOLEAN" => a.eq_ignore_ascii_case(b),
        "SET" | "FLAGSET" => words(a) == words(b),
        _ if a.contains('/') || b.contains('/') => a.trim_end_matches('/') == b.trim_end_matches('/'),
        _ if kind.is_empty() => {
            a.eq_ignore_ascii_case(b) || are_words(a) && are_words(b) && words(a) == words(b)
        }
        _ => false,
    }
}

/// Whether a text looks like the words of a set, as in `sql_mode` and `optimizer_switch`.
fn are_words(text: &str) -> bool {
    text.contains(',') && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_=,".contains(&byte))
}

/// Whether two texts are the same values of an option that may be given several times, in any order.
pub(crate) fn are_equal_lists(a: &str, b: &str) -> bool {
    let items = |text: &'_ str| -> BTreeSet<String> {
        present(text).split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
    };
    items(a) == items(b)
}

/// Texts that mean an empty value become empty.
fn present(text: &str) -> &str {
    if text.eq_ignore_ascii_case("NULL") { "" } else { text.trim() }
}

/// utf8 is the old name of utf8mb3, which newer servers print.
fn charset(text: &str) -> Cow<'_, str> {
    match text.strip_prefix("utf8") {
        Some("") => Cow::Borrowed("utf8mb3"),
        Some(rest) if rest.starts_with('_') => Cow::Owned(format!("utf8mb3{rest}")),
        _ => Cow::Borrowed(text),
    }
}

/// The words of a list, sorted.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(',').map(|word| word.trim().to_ascii_lowercase());
    words.filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> Variable {
        Variable { kind: Some(kind.to_owned()).filter(|kind| !kind.is_empty()), ..Variable::default() }
    }

    #[test]
    fn numbers_have_suffixes() {
        for (text, value) in
            [("64M", 67_108_864), ("1g", 1 << 30), ("0", 0), ("-1", -1), ("10.000000", 10), ("2T", 2 << 40)]
        {
            assert_eq!(number(text), Some(Number::Whole(value)), "{text}");
        }
        for (letter, at) in [("K", 1), ("M", 2), ("G", 3), ("T", 4), ("P", 5), ("E", 6)] {
            assert_eq!(number(&format!("3{letter}")), Some(Number::Whole(3 << (10 * at))), "{letter}");
        }
        assert_eq!(number("0.5"), Some(Number::Real(0.5)));
        assert_eq!(number("9000000000000000.0"), Some(Number::Real(9e15)));
        assert_eq!([number("-2.0"), number("+1.5e3")], [-2, 1500].map(|whole| Some(Number::Whole(whole))));
        for text in ["", "5x", "1.5G", "abc", "inf", "nan", "1e5", "M", "10.11.2"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_list_is_the_same_in_any_order_and_its_names_have_case() {
        assert!(are_equal_lists("a, b", "b,a") && are_equal_lists("", "NULL"));
        assert!(!are_equal_lists("a", "a,b") && !are_equal_lists("a", "A"));
    }

    #[test]
    fn one_value_has_many_spellings() {
        for (kind, a, b) in [
            ("BOOLEAN", "1", "ON"),
            ("", "TRUE", "ON"),
            ("ENUM", "ON", "1"),
            ("BIGINT UNSIGNED", "64M", "67108864"),
            ("DOUBLE", "10.000000", "10"),
            ("SET", "B,A", "a,b"),
            ("VARCHAR", "/var/lib/mysql", "/var/lib/mysql/"),
            ("VARCHAR", "data", "data/"),
            ("VARCHAR", "NULL", ""),
            ("", "row", "ROW"),
            ("ENUM", "utf8", "utf8mb3"),
            ("VARCHAR", "utf8_bin", "utf8mb3_bin"),
            ("VARCHAR", " a", "a"),
            ("BOOLEAN", "Maybe", "MAYBE"),
            ("FLAGSET", "x,y", "Y, x,"),
            ("", "off", "0"),
            ("", "0", "no"),
            ("", "ANSI_QUOTES,NO_ZERO_DATE", "NO_ZERO_DATE,ansi_quotes"),
            ("", "mrr=off,index_merge=on", "index_merge=on,mrr=off"),
        ] {
            assert!(are_equal(&of(kind), a, b), "{kind} {a} {b}");
        }
        for (kind, a, b) in [
            ("BOOLEAN", "1", "OFF"),
            ("BIGINT UNSIGNED", "64M", "64K"),
            ("VARCHAR", "/Data", "/data"),
            ("VARCHAR", "app", "App"),
            ("SET", "A", "A,B"),
            ("", "1", "2"),
            ("ENUM", "utf8", "utf8mb4"),
            ("ENUM", "utf8x", "utf8mb3x"),
            ("VARCHAR", "/a", "b"),
            ("VARCHAR", "a", "/b"),
            ("INT", "0", "OFF2"),
            ("", "yes", "2"),
            ("", "a=1, b=2", "b=2, a=1"),
            ("", "ANSI_QUOTES,NO_ZERO_DATE", "ANSI_QUOTES"),
            ("VARCHAR", "a,b", "b,a"),
        ] {
            assert!(!are_equal(&of(kind), a, b), "{kind} {a} {b}");
        }
    }
}
