//! Which databases and tables.

use std::str::FromStr;

use server::catalogue::{Catalogue, Wanted};

use crate::Error;

/// What is to be dumped, loaded or compared.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Databases and tables; empty for all.
    pub include: Vec<Pattern>,
    /// Those to leave out of these.
    pub exclude: Vec<Pattern>,
    /// Leave roles, users and grants out.
    pub no_accounts: bool,
}

/// `db` or `db.table`, each with `*` for any characters and `?` for one; in backquotes where a name has a dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    schema: String,
    table: Option<String>,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let bad = || format!("{text:?} is neither db nor db.table; a name with a dot goes in backquotes");
        let (schema, rest) = part(text).ok_or_else(bad)?;
        let table = match rest.strip_prefix('.') {
            None if rest.is_empty() => None,
            None => return Err(bad()),
            Some(rest) => Some(part(rest).filter(|(_, rest)| rest.is_empty()).ok_or_else(bad)?.0),
        };
        Ok(Pattern { schema, table })
    }
}

/// A name off the front, and what follows it.
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

impl Pattern {
    fn covers(&self, schema: &str, table: &str) -> bool {
        matches(&self.schema, schema) && self.table.as_ref().is_none_or(|pattern| matches(pattern, table))
    }
}

/// Whether a text is what a pattern stands for.
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

impl Wanted for Selection {
    fn schema(&self, schema: &str) -> bool {
        let included =
            self.include.is_empty() || self.include.iter().any(|pattern| matches(&pattern.schema, schema));
        included
            && !self.exclude.iter().any(|pattern| pattern.table.is_none() && matches(&pattern.schema, schema))
    }

    fn table(&self, schema: &str, table: &str) -> bool {
        let included =
            self.include.is_empty() || self.include.iter().any(|pattern| pattern.covers(schema, table));
        included && !self.exclude.iter().any(|pattern| pattern.covers(schema, table))
    }

    fn programs(&self, schema: &str) -> bool {
        let whole = |pattern: &Pattern| pattern.table.is_none() && matches(&pattern.schema, schema);
        self.schema(schema) && (self.include.is_empty() || self.include.iter().any(whole))
    }

    fn accounts(&self) -> bool {
        self.include.is_empty() && !self.no_accounts
    }
}

impl Selection {
    /// A pattern that stands for nothing is a mistake.
    pub(crate) fn check(&self, catalogue: &Catalogue) -> Result<(), Error> {
        for pattern in &self.include {
            let found = match &pattern.table {
                None => catalogue.objects.iter().any(|object| matches(&pattern.schema, &object.schema)),
                Some(_) => {
                    catalogue.tables.iter().any(|table| pattern.covers(&table.name.schema, &table.name.table))
                        || catalogue.objects.iter().any(|object| pattern.covers(&object.schema, &object.name))
                }
            };
            if !found {
                let table = pattern.table.as_ref().map(|table| format!(".{table}")).unwrap_or_default();
                return Err(Error::Mismatch(format!(
                    "{}{table}: there is no such database or table",
                    pattern.schema
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
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
        let selection = Selection {
            include: vec!["shop".parse().unwrap(), "web.hit*".parse().unwrap()],
            exclude: vec!["*.tmp_*".parse().unwrap(), "`a.b`".parse().unwrap()],
            no_accounts: false,
        };
        assert!(selection.table("shop", "orders") && selection.table("web", "hits"));
        assert!(!selection.table("shop", "tmp_1") && !selection.table("web", "pages"));
        assert!(selection.programs("shop") && !selection.programs("web") && !selection.accounts());
        assert!("`a`b".parse::<Pattern>().is_err() && "a.b.c".parse::<Pattern>().is_err());
    }
}
