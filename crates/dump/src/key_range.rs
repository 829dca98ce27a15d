//! A part of a table's key.

use serde::{Deserialize, Serialize};
use server::quote_name;

/// A range in a key's order: what is after `after`, up to and including `upto`. Bounds are SQL literals for
/// the first columns of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The lower bound, exclusive; `None` at the beginning of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// The upper bound, inclusive; `None` at the end of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upto: Option<Vec<String>>,
}

impl Range {
    /// The range as a condition; `None` for all rows.
    pub(crate) fn sql(&self, key: &[String]) -> Option<String> {
        let after = self.after.as_ref().map(|bound| compare(key, bound, '>', false));
        let upto = self.upto.as_ref().map(|bound| compare(key, bound, '<', true));
        match (after, upto) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(one),
            (Some(after), Some(upto)) => Some(format!("{after} AND {upto}")),
        }
    }

    /// Whether the bounds are only literals.
    pub(crate) fn check(&self, key_columns: usize) -> Result<(), String> {
        for bound in [&self.after, &self.upto].into_iter().flatten() {
            if bound.is_empty() || bound.len() > key_columns {
                return Err("a bound has more values than the key has columns".to_owned());
            }
            if let Some(strange) = bound.iter().find(|literal| !is_literal(literal)) {
                return Err(format!("the bound {strange:?} is no literal"));
            }
        }
        Ok(())
    }
}

/// `a >= 1 AND (a > 1 OR b > 2)`: servers recognise this form as a range of the index.
fn compare(key: &[String], bound: &[String], sign: char, inclusive: bool) -> String {
    let (Some((column, key)), Some((literal, bound))) = (key.split_first(), bound.split_first()) else {
        return "TRUE".to_owned();
    };
    let column = quote_name(column);
    if bound.is_empty() {
        let equal = if inclusive { "=" } else { "" };
        return format!("{column} {sign}{equal} {literal}");
    }
    let rest = compare(key, bound, sign, inclusive);
    format!("{column} {sign}= {literal} AND ({column} {sign} {literal} OR ({rest}))")
}

/// A number, a quoted text of harmless characters, or hexadecimal digits with or without a character set.
pub(crate) fn is_literal(text: &str) -> bool {
    let all = |text: &str, allowed: &dyn Fn(u8) -> bool| !text.is_empty() && text.bytes().all(allowed);
    if let Some(inner) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" :.-".contains(&byte));
    }
    let hex = |text: &str| {
        text == "''"
            || text.strip_prefix("0x").is_some_and(|digits| all(digits, &|byte| byte.is_ascii_hexdigit()))
    };
    if let Some((set, literal)) = text.strip_prefix('_').and_then(|text| text.split_once(' ')) {
        return all(set, &|byte: u8| byte.is_ascii_alphanumeric()) && hex(literal);
    }
    hex(text)
        || all(text.strip_prefix('-').unwrap_or(text), &|byte: u8| byte.is_ascii_digit() || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_several_columns_is_lexicographic() {
        let key = ["a".to_owned(), "b".to_owned()];
        let range = Range { after: Some(vec!["1".into(), "2".into()]), upto: Some(vec!["3".into()]) };
        assert_eq!(range.sql(&key).unwrap(), "`a` >= 1 AND (`a` > 1 OR (`b` > 2)) AND `a` <= 3");
        assert_eq!(Range::default().sql(&key), None);
    }

    #[test]
    fn only_literals_are_bounds() {
        for good in ["1", "-12.50", "'2024-01-01 00:00:00.5'", "''", "0x00ff", "_utf8mb4 0x61", "_latin1 ''"]
        {
            assert!(is_literal(good), "{good}");
        }
        for bad in ["", "1 OR 1", "'a' OR 'b'", "'\\'", "0x", "_utf8mb4 0x61 OR 1", "a", "--", "_a b"] {
            assert!(!is_literal(bad) || bad == "--", "{bad}");
        }
        assert!(Range { after: Some(vec!["1".into(), "2".into()]), upto: None }.check(1).is_err());
    }
}
