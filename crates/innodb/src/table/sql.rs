//! Parses the text of `SHOW CREATE TABLE`, as MariaDB 10.11 to 11.8 print it. Anything that is not understood
//! is an error that quotes it.

mod column;
mod cursor;
mod key;
mod lexer;
mod partition;

use super::collation::Collation;
use super::{Column, Generated, Key, KeyKind, Part, Partition, RowFormat, Table, Type, Version};
use crate::Error;
use cursor::Cursor;
pub use lexer::{Kind, Token, split};

/// The table that a `CREATE TABLE` statement of a server of this version creates.
///
/// # Errors
/// [`Error::Sql`] for what is not understood; [`Error::Unsupported`] for a table whose files this crate does
/// not read.
pub fn parse(text: &str, version: Version) -> Result<Table, Error> {
    read(text, version, false)
}

/// The same for a table of any engine and however it is stored: its columns and keys.
///
/// # Errors
/// [`Error::Sql`] for what is not understood.
pub fn describe(text: &str, version: Version) -> Result<Table, Error> {
    read(text, version, true)
}

fn read(text: &str, version: Version, is_any: bool) -> Result<Table, Error> {
    let tokens = split(text)?;
    let mut cursor = Cursor::new(&tokens);
    if head(&mut cursor)?.is_none() {
        return Err(cursor.unexpected("CREATE TABLE"));
    }
    let mut draft = Draft { is_any, ..Draft::default() };
    cursor.expect("(")?;
    loop {
        draft.element(&mut cursor)?;
        if cursor.takes(")") {
            break;
        }
        cursor.expect(",")?;
    }
    while cursor.peek().is_some() && !cursor.is(0, ";") && !cursor.is(0, "PARTITION") {
        draft.option(&mut cursor)?;
        cursor.takes(",");
    }
    if cursor.is(0, "PARTITION") {
        draft.partitions = partition::parse(&mut cursor)?;
    }
    cursor.takes(";");
    if cursor.peek().is_some() {
        return Err(cursor.unexpected("the end"));
    }
    draft.finish(version)
}

/// The `CREATE TABLE` of a table in a file with several statements, including `USE`. Without a schema there
/// must be only one table of that name.
///
/// # Errors
/// [`Error::Sql`] when there is none, or more than one, or the file is not SQL.
pub fn find<'a>(text: &'a str, schema: Option<&str>, table: &str) -> Result<&'a str, Error> {
    let tokens = split(text)?;
    let mut current: Option<String> = None;
    let mut found = Vec::new();
    for statement in tokens.split(|token| token.kind == Kind::Sign && token.text == ";") {
        let mut cursor = Cursor::new(statement);
        if cursor.takes("USE") {
            current = Some(cursor.name()?);
            continue;
        }
        let Ok(Some(name)) = head(&mut cursor) else { continue };
        let own = name.schema.as_ref().or(current.as_ref());
        let wanted = schema.is_none_or(|schema| own.is_none_or(|own| own == schema));
        let (Some(first), Some(last)) = (statement.first(), statement.last()) else { continue };
        if wanted && name.table == table {
            found.push((first.start, last.end));
        }
    }
    let fault =
        |what: &str| Error::Sql { line: 1, what: format!("{what} CREATE TABLE `{table}` in this file") };
    match found.as_slice() {
        [(start, end)] => {
            let (found, rest) = (&text[*start..*end], &text[*end..]);
            // PARTITION BY is in a comment, whose end is no word.
            let is_open = found.rfind("/*") > found.rfind("*/");
            let close = rest.find("*/").filter(|at| is_open && rest[..*at].trim().is_empty());
            Ok(&text[*start..close.map_or(*end, |at| end + at + 2)])
        }
        [] => Err(fault("no")),
        _ => Err(fault("more than one")),
    }
}

/// The partitions that `PARTITION BY` creates.
pub(super) fn partitions(text: &str) -> Result<Vec<Partition>, Error> {
    partition::parse(&mut Cursor::new(&split(text)?))
}

/// The name of a table, perhaps with its database.
struct Name {
    schema: Option<String>,
    table: String,
}

/// Reads `CREATE TABLE` and the name; `None` where another statement begins.
fn head(cursor: &mut Cursor<'_>) -> Result<Option<Name>, Error> {
    if !cursor.takes("CREATE") {
        return Ok(None);
    }
    cursor.takes_all(&["OR", "REPLACE"]);
    if !cursor.takes("TABLE") {
        return Ok(None);
    }
    cursor.takes_all(&["IF", "NOT", "EXISTS"]);
    let first = cursor.name()?;
    if cursor.takes(".") {
        return Ok(Some(Name { schema: Some(first), table: cursor.name()? }));
    }
    Ok(Some(Name { schema: None, table: first }))
}

/// What was read so far.
#[derive(Default)]
struct Draft {
    columns: Vec<column::Draft>,
    keys: Vec<key::Draft>,
    periods: Vec<key::Period>,
    collation: Option<Collation>,
    row_format: Option<RowFormat>,
    versioned: bool,
    partitions: Vec<Partition>,
    /// Whether it does not matter how it is stored.
    is_any: bool,
}

impl Draft {
    /// A column, a key or a constraint.
    fn element(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if let Some(key) = key::Draft::parse(cursor)? {
            self.keys.push(key);
        } else if cursor.takes("CONSTRAINT") || cursor.is(0, "CHECK") || cursor.is(0, "FOREIGN") {
            if !cursor.is(0, "CHECK") && !cursor.is(0, "FOREIGN") {
                cursor.name()?;
            }
            constraint(cursor)?;
        } else if cursor.takes_all(&["PERIOD", "FOR"]) {
            let name = cursor.name()?;
            cursor.expect("(")?;
            let start = cursor.name()?;
            cursor.expect(",")?;
            let end = cursor.name()?;
            cursor.expect(")")?;
            self.periods.push(key::Period { name, start, end });
        } else {
            self.columns.push(column::Draft::parse(cursor)?);
        }
        Ok(())
    }

    /// One of the table's options.
    fn option(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.takes_all(&["WITH", "SYSTEM", "VERSIONING"]) {
            self.versioned = true;
            return Ok(());
        }
        let default = cursor.takes("DEFAULT");
        if cursor.takes_all(&["CHARACTER", "SET"]) || cursor.takes("CHARSET") {
            cursor.takes("=");
            let name = cursor.name()?;
            let own = Collation::of_charset(&name);
            self.collation =
                Some(own.ok_or_else(|| cursor.unexpected(&format!("another charset than {name}")))?);
            return Ok(());
        }
        if cursor.takes("COLLATE") {
            cursor.takes("=");
            let name = cursor.name()?;
            let own = Collation::of_name(&name);
            self.collation =
                Some(own.ok_or_else(|| cursor.unexpected(&format!("another collation than {name}")))?);
            return Ok(());
        }
        if default {
            return Err(cursor.unexpected("CHARSET or COLLATE"));
        }
        let named = cursor.peek().is_some_and(|token| matches!(token.kind, Kind::Name | Kind::Word));
        if !named {
            return Err(cursor.unexpected("an option of a table"));
        }
        let mut name = cursor.name()?.to_ascii_uppercase();
        if cursor.takes("DIRECTORY") {
            name.push_str(" DIRECTORY");
        }
        cursor.takes("=");
        let value = cursor.peek().filter(|token| token.kind != Kind::Sign);
        let Some(Token { text, .. }) = value else { return Err(cursor.unexpected("a value")) };
        self.named_option(&name, text, cursor)?;
        cursor.skip();
        Ok(())
    }

    fn named_option(&mut self, name: &str, value: &str, cursor: &Cursor<'_>) -> Result<(), Error> {
        const SILENT: [&str; 21] = [
            "AUTO_INCREMENT",
            "MIN_ROWS",
            "MAX_ROWS",
            "AVG_ROW_LENGTH",
            "PACK_KEYS",
            "STATS_PERSISTENT",
            "STATS_AUTO_RECALC",
            "STATS_SAMPLE_PAGES",
            "CHECKSUM",
            "TABLE_CHECKSUM",
            "DELAY_KEY_WRITE",
            "PAGE_CHECKSUM",
            "TRANSACTIONAL",
            "SEQUENCE",
            "COMMENT",
            "CONNECTION",
            "DATA DIRECTORY",
            "INDEX DIRECTORY",
            "PAGE_COMPRESSION_LEVEL",
            "ENCRYPTION_KEY_ID",
            "INSERT_METHOD",
        ];
        match name {
            "ENGINE" | "ROW_FORMAT" | "KEY_BLOCK_SIZE" | "PAGE_COMPRESSED" | "ENCRYPTED" if self.is_any => {}
            "ENGINE" if value.eq_ignore_ascii_case("InnoDB") => {}
            "ENGINE" => {
                return Err(Error::unsupported(format!("the table's engine is {value}, not InnoDB")));
            }
            "ROW_FORMAT" => self.row_format = Some(row_format(&value.to_ascii_uppercase())?),
            "KEY_BLOCK_SIZE" if value != "0" => row_format("COMPRESSED").map(|_| ())?,
            "PAGE_COMPRESSED" | "ENCRYPTED" => storage_option(name, value)?,
            "KEY_BLOCK_SIZE" => {}
            _ if SILENT.contains(&name) => {}
            _ => return Err(cursor.unexpected(&format!("another option than {name}, which is not known,"))),
        }
        Ok(())
    }

    fn finish(self, version: Version) -> Result<Table, Error> {
        let mut columns = Vec::new();
        for draft in self.columns {
            columns.push(draft.finish(self.collation, version)?);
        }
        if self.versioned && !columns.iter().any(|column| column.generated == Generated::RowEnd) {
            let kind = Type::Timestamp { fraction: 6, wide: version.has_wide_timestamps() };
            columns.push(hidden("row_start", kind.clone(), false, Generated::RowStart));
            columns.push(hidden("row_end", kind, false, Generated::RowEnd));
        }
        let mut keys = Vec::new();
        for draft in &self.keys {
            keys.push(draft.finish(&columns, &self.periods)?);
        }
        end_keys(&columns, &mut keys);
        hash_keys(&mut columns, &mut keys);
        Table::new(columns, keys, self.row_format.unwrap_or(RowFormat::Default), self.partitions)
    }
}

/// Skips CHECK or FOREIGN KEY.
fn constraint(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    if cursor.takes("CHECK") {
        return cursor.skip_parenthesis();
    }
    cursor.expect("FOREIGN")?;
    cursor.expect("KEY")?;
    if !cursor.is(0, "(") {
        cursor.name()?;
    }
    cursor.skip_parenthesis()?;
    cursor.expect("REFERENCES")?;
    cursor.name()?;
    if cursor.takes(".") {
        cursor.name()?;
    }
    cursor.skip_parenthesis()?;
    while cursor.takes("ON") {
        if !cursor.takes("DELETE") {
            cursor.expect("UPDATE")?;
        }
        if !cursor.takes_all(&["SET", "NULL"])
            && !cursor.takes_all(&["SET", "DEFAULT"])
            && !cursor.takes_all(&["NO", "ACTION"])
            && !cursor.takes("CASCADE")
        {
            cursor.expect("RESTRICT")?;
        }
    }
    Ok(())
}

/// A row format that this crate reads.
pub(super) fn row_format(name: &str) -> Result<RowFormat, Error> {
    match name {
        "DEFAULT" => Ok(RowFormat::Default),
        "DYNAMIC" => Ok(RowFormat::Dynamic),
        "COMPACT" => Ok(RowFormat::Compact),
        _ => Err(Error::unsupported(format!(
            "the table has ROW_FORMAT={name}; only DYNAMIC and COMPACT are read and written here"
        ))),
    }
}

/// Refuses a table whose pages are compressed or encrypted.
pub(super) fn storage_option(name: &str, value: &str) -> Result<(), Error> {
    let (name, value) = (name.to_ascii_uppercase(), value.to_ascii_uppercase());
    let plain = match name.as_str() {
        "PAGE_COMPRESSED" => matches!(value.as_str(), "0" | "OFF" | "NO"),
        // With the default it may still be encrypted; then its pages say so.
        "ENCRYPTED" => matches!(value.as_str(), "NO" | "DEFAULT"),
        _ => true,
    };
    if plain { Ok(()) } else { Err(Error::unsupported(format!("the table has {name}={value}"))) }
}

fn hidden(name: &str, kind: Type, nullable: bool, generated: Generated) -> Column {
    Column { name: name.to_owned(), kind, nullable, generated, hidden: true, auto_increment: false }
}

/// Adds the end of a row's validity to unique keys, as the server does.
fn end_keys(columns: &[Column], keys: &mut [Key]) {
    let Some(end) = columns.iter().position(|column| column.generated == Generated::RowEnd) else { return };
    for key in keys {
        let unique = matches!(key.kind, KeyKind::Primary | KeyKind::Unique | KeyKind::UniqueHash);
        if unique && !key.parts.iter().any(|part| part.column == end) {
            key.parts.push(Part { column: end, prefix: None, descending: false });
        }
    }
}

/// Adds a hash column to each key that is unique by a hash, as the server does.
fn hash_keys(columns: &mut Vec<Column>, keys: &mut [Key]) {
    let hashed = keys.iter_mut().filter(|key| key.kind == KeyKind::UniqueHash);
    for (at, key) in hashed.enumerate() {
        let nullable = key.parts.iter().any(|part| columns[part.column].nullable);
        key.parts = vec![Part { column: columns.len(), prefix: None, descending: false }];
        let kind = Type::Int { bytes: 8, unsigned: true, zerofill: 0 };
        let name = format!("DB_ROW_HASH_{}", at + 1);
        columns.push(hidden(&name, kind, nullable, Generated::Virtual));
    }
}
