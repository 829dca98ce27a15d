//! Names of tables, and how to write them in SQL.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Bytes as a hexadecimal literal, which is safe under any sql_mode and character set.
///
/// ```
/// assert_eq!(server::hex_literal(b"a\0"), "x'6100'");
/// // Not '', which is NULL under EMPTY_STRING_IS_NULL.
/// assert_eq!(server::hex_literal(b""), "x''");
/// ```
#[must_use]
pub fn hex_literal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut literal = String::with_capacity(2 * bytes.len() + 3);
    literal.push_str("x'");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            literal.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    literal.push('\'');
    literal
}

/// `name` as a quoted identifier: `` a`b `` becomes `` `a``b` ``.
pub fn quote_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A table with its schema (database). `Display` writes it quoted for SQL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TableName {
    /// Schema, unquoted.
    pub schema: String,
    /// Table, unquoted.
    pub table: String,
}

impl TableName {
    /// The name as a command line has it: in backquotes only where they are needed.
    #[must_use]
    pub fn plain(&self) -> String {
        let plain = format!("{}.{}", self.schema, self.table);
        if plain.parse().is_ok_and(|read: TableName| read == *self) { plain } else { self.to_string() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quote_name(&self.schema), quote_name(&self.table))
    }
}

impl FromStr for TableName {
    type Err = Error;

    /// Reads `db.table` or, for names with dots or backticks, `` `d.b`.`t``x` ``.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadTableName { name: text.to_owned() };
        let (schema, rest) = part(text).ok_or_else(bad)?;
        let (table, rest) = part(rest.strip_prefix('.').ok_or_else(bad)?).ok_or_else(bad)?;
        if rest.is_empty() { Ok(TableName { schema, table }) } else { Err(bad()) }
    }
}

/// A name that may be in backquotes.
#[must_use]
pub fn unquoted(text: &str) -> String {
    match text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(name) => name.replace("``", "`"),
        None => text.to_owned(),
    }
}

/// Splits one identifier off the front. Returns the name without quotes, and the rest.
fn part(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('`') else {
        let end = text.find('.').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        return (!name.is_empty() && !name.contains('`')).then(|| (name.to_owned(), rest));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (before, after) = rest.split_once('`')?;
        name.push_str(before);
        match after.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return (!name.is_empty()).then_some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String)> {
        text.parse::<TableName>().ok().map(|name| (name.schema, name.table))
    }

    #[test]
    fn names_are_read_plain_and_quoted() {
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(parsed("shop.orders"), pair("shop", "orders"));
        assert_eq!(parsed("`d.b`.`t``x`"), pair("d.b", "t`x"));
        assert_eq!(parsed("shop.`a.b`"), pair("shop", "a.b"));
        assert_eq!(parsed("`shop`.orders"), pair("shop", "orders"));
    }

    #[test]
    fn invalid_table_names_are_refused() {
        for text in ["", "orders", ".orders", "shop.", "a.b.c", "`a.b", "`a`b.c", "``.x", "a`.b", "a.`b`c"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn a_quoted_name_doubles_its_backticks() {
        assert_eq!(quote_name("a`b"), "`a``b`");
        let name = TableName { schema: "d.b".into(), table: "t`x".into() };
        assert_eq!(name.to_string(), "`d.b`.`t``x`");
    }
}
