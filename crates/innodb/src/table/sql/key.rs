//! A key, as `SHOW CREATE TABLE` prints it.

use super::cursor::Cursor;
use super::lexer::Kind;
use crate::Error;
use crate::table::{Column, Key, KeyKind, Part, Type};

/// A key whose columns are still given by name.
pub(super) struct Draft {
    name: String,
    kind: KeyKind,
    parts: Vec<DraftPart>,
    line: usize,
}

struct DraftPart {
    column: String,
    /// Characters, or bytes of a binary column.
    prefix: Option<u32>,
    descending: bool,
    /// Whether it is a period and not a column.
    period: bool,
}

/// PERIOD FOR: its name, its start, its end.
pub(super) struct Period {
    pub(super) name: String,
    pub(super) start: String,
    pub(super) end: String,
}

impl Draft {
    /// Reads a key up to the comma or parenthesis after it; `None` when there is no key here.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Option<Draft>, Error> {
        const KINDS: [(&str, KeyKind); 5] = [
            ("PRIMARY", KeyKind::Primary),
            ("UNIQUE", KeyKind::Unique),
            ("FULLTEXT", KeyKind::Fulltext),
            ("SPATIAL", KeyKind::Spatial),
            ("VECTOR", KeyKind::Vector),
        ];
        let line = cursor.peek().map_or(1, |token| token.line);
        let kind = KINDS.iter().find(|(word, _)| cursor.is(0, word) && cursor.is(1, "KEY"));
        let kind = match kind {
            Some((_, kind)) => {
                cursor.skip();
                *kind
            }
            None => KeyKind::Plain,
        };
        if !cursor.takes("KEY") {
            return Ok(None);
        }
        let name = if kind == KeyKind::Primary { "PRIMARY".to_owned() } else { cursor.name()? };
        let mut key = Draft { name, kind, parts: Vec::new(), line };
        cursor.expect("(")?;
        loop {
            key.parts.push(DraftPart::parse(cursor)?);
            if cursor.takes(")") {
                break;
            }
            cursor.expect(",")?;
        }
        while !cursor.is(0, ",") && !cursor.is(0, ")") {
            key.option(cursor)?;
        }
        Ok(Some(key))
    }

    fn option(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.takes("USING") {
            let method = cursor.word()?;
            if method.eq_ignore_ascii_case("HASH") && self.kind == KeyKind::Unique {
                self.kind = KeyKind::UniqueHash;
            }
        } else if cursor.takes("COMMENT") {
            cursor.text()?;
        } else if cursor.takes_all(&["WITH", "PARSER"]) {
            cursor.name()?;
        } else if cursor.takes("KEY_BLOCK_SIZE") {
            cursor.expect("=")?;
            cursor.number::<u32>()?;
        } else if cursor.peek().is_some_and(|token| token.kind == Kind::Name) && cursor.is(1, "=") {
            // An option of an engine.
            cursor.skip();
            cursor.skip();
            if cursor.peek().is_some_and(|token| token.kind != Kind::Sign) {
                cursor.skip();
            }
        } else if !cursor.takes("IGNORED") && !cursor.takes_all(&["NOT", "IGNORED"]) {
            return Err(cursor.unexpected("more of a key, ',' or ')'"));
        }
        Ok(())
    }

    /// The key, with the indexes of its columns.
    pub(super) fn finish(&self, columns: &[Column], periods: &[Period]) -> Result<Key, Error> {
        let mut parts = Vec::new();
        for part in &self.parts {
            if part.period {
                let period = periods.iter().find(|period| period.name.eq_ignore_ascii_case(&part.column));
                let period = period.ok_or_else(|| self.error("a period that there is not", &part.column))?;
                for name in [&period.end, &period.start] {
                    let column = self.place(columns, name)?;
                    parts.push(Part { column, prefix: None, descending: false });
                }
                continue;
            }
            let column = self.place(columns, &part.column)?;
            let prefix = part.prefix.map(|chars| chars.saturating_mul(char_bytes(&columns[column].kind)));
            parts.push(Part { column, prefix, descending: part.descending });
        }
        Ok(Key { name: self.name.clone(), kind: self.kind, parts })
    }

    fn place(&self, columns: &[Column], name: &str) -> Result<usize, Error> {
        // The server compares names without regard to case, and prints them as in the columns.
        let place = columns.iter().position(|column| column.name == name);
        let place = place.or_else(|| columns.iter().position(|own| own.name.eq_ignore_ascii_case(name)));
        place.ok_or_else(|| self.error("a column that there is not", name))
    }

    fn error(&self, what: &str, name: &str) -> Error {
        Error::Sql { line: self.line, what: format!("key `{}` is of {what}: `{name}`", self.name) }
    }
}

impl DraftPart {
    fn parse(cursor: &mut Cursor<'_>) -> Result<DraftPart, Error> {
        let column = cursor.name()?;
        let mut part = DraftPart { column, prefix: None, descending: false, period: false };
        if cursor.takes("(") {
            part.prefix = Some(cursor.number()?);
            cursor.expect(")")?;
        }
        if cursor.takes("DESC") {
            part.descending = true;
        } else if cursor.takes_all(&["WITHOUT", "OVERLAPS"]) {
            part.period = true;
        } else {
            cursor.takes("ASC");
        }
        Ok(part)
    }
}

/// Bytes that a key part's length counts for each character.
fn char_bytes(kind: &Type) -> u32 {
    match kind {
        Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
            u32::from(collation.charset().max)
        }
        _ => 1,
    }
}
