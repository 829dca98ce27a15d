//! One pattern: names with wildcards, or a regular expression.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `db` or `db.table`, each with `*` for any characters and `?` for one, in backquotes when a name has a dot;
/// or `/expression/`, which is searched for anywhere in `db.table`.
///
/// An expression matches a database as a whole, with its routines and events, when it is found in the
/// database's name followed by a dot: `/^shop\./` matches all of shop, `/orders/` only tables.
#[derive(Clone, Debug)]
pub struct Pattern(Form);

#[derive(Clone, Debug)]
enum Form {
    Glob { schema: String, table: Option<String> },
    Expression(Regex),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        if let Some(rest) = text.strip_prefix('/') {
            let Some(expression) = rest.strip_suffix('/').filter(|expression| !expression.is_empty()) else {
                return Err(format!(
                    "{text:?} begins with a slash and does not end with one; a regular expression goes between two \
                     slashes, a name with a slash in backquotes"
                ));
            };
            return Regex::new(expression).map(|regex| Pattern(Form::Expression(regex))).map_err(|error| {
                let hint =
                    if expression.contains("(?!") || expression.contains("(?=") || expression.contains("(?<")
                    {
                        "; there is no looking ahead or behind, use --exclude"
                    } else {
                        ""
                    };
                format!("{error}{hint}")
            });
        }
        let bad = || {
            format!("{text:?} is none of db, db.table and /expression/; a name with a dot goes in backquotes")
        };
        let (schema, rest) = part(text).ok_or_else(bad)?;
        let table = match rest.strip_prefix('.') {
            None if rest.is_empty() => None,
            None => return Err(bad()),
            Some(rest) => Some(part(rest).filter(|(_, rest)| rest.is_empty()).ok_or_else(bad)?.0),
        };
        Ok(Pattern(Form::Glob { schema, table }))
    }
}

/// Splits a name off the front. Returns it and the rest.
fn part(text: &str) -> Option<(String, &str)> {
    let (name, rest) = match text.strip_prefix('`') {
        None => text.split_at(text.find('.').unwrap_or(text.len())),
        Some(quoted) => {
            let mut from = 0;
            loop {
                let end = from + quoted.get(from..)?.find('`')?;
                if !quoted[end + 1..].starts_with('`') {
                    break (&quoted[..end], &quoted[end + 1..]);
                }
                from = end + 2;
            }
        }
    };
    (!name.is_empty()).then(|| (name.replace("``", "`"), rest))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Glob { schema, table: None } => f.write_str(&quoted(schema)),
            Form::Glob { schema, table: Some(table) } => write!(f, "{}.{}", quoted(schema), quoted(table)),
            Form::Expression(regex) => write!(f, "/{regex}/"),
        }
    }
}

/// A name as [`part`] reads it.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains(['.', '`', '/']) { format!("`{}`", name.replace('`', "``")).into() } else { name.into() }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Pattern {
    /// The same for names in lower case.
    pub(super) fn folded(&self) -> Pattern {
        Pattern(match &self.0 {
            Form::Glob { schema, table } => Form::Glob {
                schema: schema.to_lowercase(),
                table: table.as_ref().map(|table| table.to_lowercase()),
            },
            // An expression that is valid stays so.
            Form::Expression(regex) => {
                Form::Expression(Regex::new(&format!("(?i){regex}")).unwrap_or_else(|_| regex.clone()))
            }
        })
    }

    /// Whether it names a database and none of its tables.
    pub(crate) fn is_database(&self) -> bool {
        matches!(self.0, Form::Glob { table: None, .. })
    }

    /// Whether it matches this table, view or sequence.
    pub(crate) fn covers(&self, schema: &str, table: &str) -> bool {
        match &self.0 {
            Form::Glob { schema: wanted, table: tables } => {
                matches(wanted, schema) && tables.as_ref().is_none_or(|pattern| matches(pattern, table))
            }
            Form::Expression(regex) => regex.is_match(&format!("{schema}.{table}")),
        }
    }

    /// Whether it matches what belongs to the database as a whole.
    pub(super) fn covers_database(&self, schema: &str) -> bool {
        match &self.0 {
            Form::Glob { schema: wanted, table } => table.is_none() && matches(wanted, schema),
            Form::Expression(regex) => regex.is_match(&format!("{schema}.")),
        }
    }

    /// Whether it may match anything in this database.
    pub(super) fn may_touch(&self, schema: &str) -> bool {
        match &self.0 {
            Form::Glob { schema: wanted, .. } => matches(wanted, schema),
            Form::Expression(_) => true,
        }
    }

    /// Whether it certainly matches everything in this database.
    pub(super) fn is_all_of(&self, schema: &str) -> bool {
        matches!(&self.0, Form::Glob { schema: wanted, table: None } if matches(wanted, schema))
    }
}

/// Whether a text matches a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut to) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while to < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, to));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[to] => {
                at += 1;
                to += 1;
            }
            _ => match star.as_mut() {
                None => return false,
                Some((after, from)) => {
                    *from += 1;
                    (at, to) = (*after, *from);
                }
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_characters() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xbxa", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_reported() {
        for (text, word) in [
            ("`a`b", "backquotes"),
            ("a.b.c", "backquotes"),
            ("/backup/monday", "two slashes"),
            ("//", "two slashes"),
            ("/(/", "unclosed group"),
            ("/^(?!mysql)/", "--exclude"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!("`/a/`".parse::<Pattern>().unwrap().is_all_of("/a/"));
    }
}
