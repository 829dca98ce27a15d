//! Values in the names of folders, as Hive has them: `day=2026-11-28`.

use crate::column::Column;
use crate::kind::Kind;
use crate::line::{NULL, unescape};
use crate::value::Value;

/// What stands in place of NULL.
pub const PATH_NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// The longest name that file systems take.
const NAME_BYTES: usize = 255;

/// The name of the folder for a value of a column; `None` for NULL.
#[must_use]
pub fn folder_name(column: &str, value: Option<&str>) -> String {
    let mut name = String::new();
    escape(column, &mut name);
    name.push('=');
    match value {
        Some(value) => escape(value, &mut name),
        None => name.push_str(PATH_NULL),
    }
    name
}

/// The column and the value that the name of a folder has; `None` if it has none.
#[must_use]
pub fn parse_folder_name(name: &str) -> Option<(String, Option<String>)> {
    let (column, value) = name.split_once('=')?;
    let value = (value != PATH_NULL).then(|| decode(value));
    (!column.is_empty()).then(|| (decode(column), value))
}

/// Hive's rule: `FileUtils.escapePathName`, which Spark has too.
fn escape(text: &str, out: &mut String) {
    for char in text.chars() {
        match char {
            '\0'..='\u{1f}'
            | '\u{7f}'
            | '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '{'
            | '['
            | ']'
            | '^' => out.push_str(&format!("%{:02X}", u32::from(char))),
            other => out.push(other),
        }
    }
}

/// A name without its escapes. What is no escape, or would not be UTF-8, stays as it is.
fn decode(name: &str) -> String {
    let mut out = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| name.to_owned())
}

impl Column {
    /// Whether a folder can be named for its values: for whole numbers, days and text.
    #[must_use]
    pub fn can_name_folders(&self) -> bool {
        let is_padded = self.column_type.contains("zerofill");
        match self.value_kind() {
            // Readers take a number in a name for one, and drop the zeros before it.
            Kind::Number(number) => number.scale == 0 && !is_padded && self.data_type != "decimal",
            Kind::Date => true,
            Kind::Text { .. } => !matches!(self.data_type.as_str(), "time" | "json" | "decimal" | "set"),
            _ => false,
        }
    }

    /// The value of a text in a line, as the name of a folder can have it; `None` for one that it can't: an
    /// empty text, one that is too long or not valid, and the word for NULL.
    #[must_use]
    pub fn path_value(&self, text: &[u8]) -> Option<String> {
        let (mut unescaped, mut scratch) = (Vec::new(), Vec::new());
        let text = unescape(text, &mut unescaped);
        let kind = self.value_kind();
        let value = match kind.parse(text, &mut scratch)? {
            Value::Bytes(text) => std::str::from_utf8(text).ok()?.to_owned(),
            _ => std::str::from_utf8(text).ok()?.to_owned(),
        };
        let is_usable = !value.is_empty()
            && value != PATH_NULL
            && folder_name(&self.name, Some(&value)).len() <= NAME_BYTES
            && self.plain_text(&value).is_some_and(|back| back == text);
        is_usable.then_some(value)
    }

    /// The text in a line of such a value; `None` if it is none.
    #[must_use]
    pub fn path_text(&self, value: Option<&str>) -> Option<Vec<u8>> {
        let Some(value) = value else { return Some(NULL.to_vec()) };
        let mut line = Vec::new();
        rows::write_load_data(Some(&self.plain_text(value)?), &mut line);
        Some(line)
    }

    /// The text of a value before it is escaped.
    fn plain_text(&self, value: &str) -> Option<Vec<u8>> {
        match self.value_kind() {
            kind @ Kind::Text { .. } => {
                let mut text = Vec::new();
                kind.print(Value::Bytes(value.as_bytes()), &mut text).then_some(text)
            }
            kind => kind.parse(value.as_bytes(), &mut Vec::new()).map(|_| value.as_bytes().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(data_type: &str, column_type: &str, character_set: Option<&str>) -> Column {
        Column {
            name: "k".to_owned(),
            data_type: data_type.to_owned(),
            column_type: column_type.to_owned(),
            character_set: character_set.map(str::to_owned),
            is_numbered: false,
            is_in_path: true,
        }
    }

    #[test]
    fn names_are_those_of_hive_and_come_back() {
        assert_eq!(folder_name("day", Some("2026-11-28")), "day=2026-11-28");
        assert_eq!(folder_name("a=b", Some("x/y:%\u{1}")), "a%3Db=x%2Fy%3A%25%01");
        assert_eq!(folder_name("k", None), "k=__HIVE_DEFAULT_PARTITION__");
        let all: String = (0..0x250).filter_map(char::from_u32).collect();
        let back = parse_folder_name(&folder_name(&all, Some(&all))).unwrap();
        assert_eq!(back, (all.clone(), Some(all)));
        assert_eq!(parse_folder_name("k=__HIVE_DEFAULT_PARTITION__"), Some(("k".to_owned(), None)));
        assert_eq!(parse_folder_name("k=100%"), Some(("k".to_owned(), Some("100%".to_owned()))));
        assert_eq!(parse_folder_name("k=%ff"), Some(("k".to_owned(), Some("%ff".to_owned()))));
        assert_eq!(parse_folder_name("k="), Some(("k".to_owned(), Some(String::new()))));
        assert!(parse_folder_name("shop.orders").is_none() && parse_folder_name("=x").is_none());
    }

    #[test]
    fn a_value_in_a_name_gives_the_same_text_of_a_line() {
        let latin = column("varchar", "varchar(20)", Some("latin1"));
        assert_eq!(latin.path_value(b"gr\xfcn\\t").as_deref(), Some("gr\u{fc}n\t"));
        assert_eq!(latin.path_text(Some("gr\u{fc}n\t")).unwrap(), b"gr\xfcn\\t");
        let text = column("varchar", "varchar(300)", Some("utf8mb4"));
        for value in ["", "__HIVE_DEFAULT_PARTITION__", &"x".repeat(254)] {
            assert_eq!(text.path_value(value.as_bytes()), None, "{value}");
        }
        assert_eq!(text.path_value(&[b'x'; 253]).map(|value| value.len()), Some(253));
        assert_eq!(text.path_value(b"\xff"), None);
        assert_eq!(text.path_text(None).unwrap(), b"\\N");
        let day = column("date", "date", None);
        assert_eq!(day.path_value(b"2026-11-28").as_deref(), Some("2026-11-28"));
        assert_eq!(day.path_value(b"0000-00-00"), None);
        assert_eq!(day.path_text(Some("2026-11-31")), None);
        let number = column("int", "int(11)", None);
        assert_eq!(number.path_value(b"-7").as_deref(), Some("-7"));
        assert_eq!(number.path_text(Some("007")), None);
    }

    #[test]
    fn whole_numbers_days_and_text_name_folders() {
        for (data_type, column_type, set, can) in [
            ("int", "int(11)", None, true),
            ("bigint", "bigint(20) unsigned", None, true),
            ("int", "int(5) unsigned zerofill", None, false),
            ("year", "year(4)", None, true),
            ("date", "date", None, true),
            ("varchar", "varchar(9)", Some("latin1"), true),
            ("enum", "enum('a')", Some("utf8mb4"), true),
            ("uuid", "uuid", None, true),
            ("varbinary", "varbinary(9)", None, false),
            ("decimal", "decimal(10,0)", None, false),
            ("decimal", "decimal(60,0)", None, false),
            ("datetime", "datetime", None, false),
            ("double", "double", None, false),
            ("json", "json", Some("utf8mb4"), false),
            ("bit", "bit(1)", None, false),
        ] {
            assert_eq!(column(data_type, column_type, set).can_name_folders(), can, "{column_type}");
        }
    }
}
