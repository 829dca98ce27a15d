//! The formats of data files. Rows arrive as lines of LOAD DATA's default dialect, cut anywhere; a format
//! turns them into its own text, and says how a server reads it back.

use serde::{Deserialize, Serialize};
use server::{TableName, quote_name};

/// A statement ends once it has this many bytes.
const STATEMENT_BYTES: usize = 1 << 20;

/// A format of data files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// LOAD DATA's default dialect: tabs, backslashes, `\N`.
    #[default]
    Tsv,
    /// RFC 4180 with quotes around every value but NULL.
    Csv,
    /// INSERT statements for any client.
    Sql,
    /// Parquet, with types that every reader takes exactly.
    Parquet,
}

/// How a column's values are written in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    /// As they are.
    Number,
    /// As text that the server turns into a number.
    Digits,
    /// As text, because the server would store bytes unchanged.
    Text,
    /// As bytes, whatever their character set.
    Bytes,
}

/// Turns lines into a file's text.
pub(crate) trait Encode: Send {
    /// Takes a piece of the lines, cut anywhere, and appends its encoding.
    fn encode(&mut self, lines: &[u8], out: &mut Vec<u8>);
    /// Appends the end of the file.
    fn finish(&mut self, out: &mut Vec<u8>);
}

impl Format {
    /// All of them, the default one first.
    pub const ALL: [Format; 4] = [Format::Tsv, Format::Csv, Format::Sql, Format::Parquet];

    /// The file name extension, which is also the word on the command line.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::Tsv => "tsv",
            Format::Csv => "csv",
            Format::Sql => "sql",
            Format::Parquet => "parquet",
        }
    }

    /// The encoder for this format; `None` when the lines are the format.
    pub(crate) fn encoder(
        self,
        table: &TableName,
        columns: &[(String, Literal)],
        history: bool,
    ) -> Option<Box<dyn Encode>> {
        match self {
            Format::Tsv | Format::Parquet => None,
            Format::Csv => Some(Box::new(Csv { field: Field::Start })),
            Format::Sql => Some(Box::new(Sql { history, ..Sql::new(table, columns, false) })),
        }
    }

    /// The options for LOAD DATA after `CHARACTER SET binary`; `None` when LOAD DATA can't read it.
    pub(crate) fn load_clause(self) -> Option<&'static str> {
        match self {
            // It is read as lines.
            Format::Tsv | Format::Parquet => {
                Some("FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'")
            }
            Format::Csv => {
                Some("FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'")
            }
            Format::Sql => None,
        }
    }
}

/// INSERT statements in ASCII only, one per line; values are hexadecimal.
pub(crate) fn hexadecimal(table: &TableName, columns: &[(String, Literal)]) -> Box<dyn Encode> {
    Box::new(Sql::new(table, columns, true))
}

/// The position within a field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// At its beginning.
    Start,
    /// After a backslash that is its first byte: an N then makes it NULL.
    FirstBackslash,
    /// In the middle.
    Middle,
    /// After a backslash.
    Backslash,
    /// After `\N`.
    Null,
}

struct Csv {
    field: Field,
}

impl Csv {
    fn value(byte: u8, out: &mut Vec<u8>) {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
}

impl Encode for Csv {
    fn encode(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        for &byte in lines {
            let end = if byte == b'\t' { b',' } else { b'\n' };
            self.field = match (self.field, byte) {
                (Field::Start, b'\t' | b'\n') => {
                    out.extend_from_slice(&[b'"', b'"', end]);
                    Field::Start
                }
                (Field::Start, b'\\') => Field::FirstBackslash,
                (Field::FirstBackslash, b'N') => {
                    out.extend_from_slice(b"NULL");
                    Field::Null
                }
                (Field::Start, _) => {
                    out.push(b'"');
                    Csv::value(byte, out);
                    Field::Middle
                }
                (Field::FirstBackslash, _) => {
                    out.push(b'"');
                    Csv::value(plain(byte), out);
                    Field::Middle
                }
                (Field::Middle, b'\t' | b'\n') => {
                    out.extend_from_slice(&[b'"', end]);
                    Field::Start
                }
                (Field::Middle, b'\\') => Field::Backslash,
                (Field::Middle, _) => {
                    Csv::value(byte, out);
                    Field::Middle
                }
                (Field::Backslash, _) => {
                    Csv::value(plain(byte), out);
                    Field::Middle
                }
                (Field::Null, _) => {
                    out.push(end);
                    Field::Start
                }
            };
        }
    }

    fn finish(&mut self, _: &mut Vec<u8>) {}
}

/// The byte that a backslash and this byte stand for.
fn plain(byte: u8) -> u8 {
    match byte {
        b't' => b'\t',
        b'n' => b'\n',
        b'r' => b'\r',
        b'0' => 0,
        other => other,
    }
}

struct Sql {
    head: Vec<u8>,
    literals: Vec<Literal>,
    field: Field,
    column: usize,
    /// Bytes of the current statement; 0 before its first row.
    statement: usize,
    begun: bool,
    hex: bool,
    /// Whether the times of historical rows are among the values.
    history: bool,
}

impl Sql {
    fn new(table: &TableName, columns: &[(String, Literal)], hex: bool) -> Sql {
        let names: Vec<_> = columns.iter().map(|(name, _)| quote_name(name)).collect();
        Sql {
            head: format!("INSERT INTO {table} ({}) VALUES ", names.join(",")).into_bytes(),
            literals: columns.iter().map(|(_, literal)| *literal).collect(),
            field: Field::Start,
            column: 0,
            statement: 0,
            // A session that takes hexadecimal values is already set up.
            begun: hex,
            hex,
            history: false,
        }
    }

    /// Begins a row or a value.
    fn open(&mut self, out: &mut Vec<u8>) {
        if self.column > 0 {
            return;
        }
        if self.statement == 0 {
            if !self.begun {
                out.extend_from_slice(SQL_SETTINGS.as_bytes());
                if self.history {
                    out.extend_from_slice(SQL_HISTORY.as_bytes());
                }
                self.begun = true;
            }
            out.extend_from_slice(&self.head);
        } else {
            out.push(b',');
        }
        out.push(b'(');
    }

    fn literal(&self) -> Literal {
        self.literals.get(self.column).copied().unwrap_or(Literal::Bytes)
    }

    fn quote(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match (self.literal(), self.hex) {
            (Literal::Number, _) => &b""[..],
            (Literal::Digits, _) => b"'",
            (Literal::Text, true) => b"_utf8mb4 x'",
            (Literal::Text, false) => b"_utf8mb4'",
            (Literal::Bytes, true) => b"x'",
            (Literal::Bytes, false) => b"_binary'",
        });
    }

    /// Appends a byte of a value as it is in the line; `escaped` says whether it came after a backslash.
    fn byte(&self, byte: u8, escaped: bool, out: &mut Vec<u8>) {
        if self.hex && matches!(self.literal(), Literal::Text | Literal::Bytes) {
            let byte = if escaped { plain(byte) } else { byte };
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            return;
        }
        match (byte, escaped) {
            (_, true) => out.extend_from_slice(&[b'\\', byte]),
            (b'\'', false) => out.extend_from_slice(b"''"),
            (_, false) => out.push(byte),
        }
    }

    fn close(&mut self, end: u8, quoted: bool, out: &mut Vec<u8>) {
        if quoted && self.literal() != Literal::Number {
            out.push(b'\'');
        }
        if end == b'\t' {
            out.push(b',');
            self.column += 1;
            return;
        }
        out.push(b')');
        self.column = 0;
        self.statement += 1;
    }
}

/// The beginning of a file of INSERT statements: the settings that keep values unchanged.
const SQL_SETTINGS: &str = "SET NAMES binary, autocommit = 1, time_zone = '+00:00', foreign_key_checks = 0, \
     unique_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES' \
     /*M!100201 , check_constraint_checks = 0 */;\n";

/// Without this setting the server assigns the times of historical rows itself.
const SQL_HISTORY: &str = "SET system_versioning_insert_history = 1;\n";

impl Encode for Sql {
    fn encode(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        for &byte in lines {
            let before = out.len();
            match (self.field, byte) {
                (Field::Start, b'\\') => {
                    self.open(out);
                    self.field = Field::FirstBackslash;
                }
                (Field::Start, _) => {
                    self.open(out);
                    self.quote(out);
                    self.field = Field::Middle;
                    self.middle(byte, out);
                }
                (Field::FirstBackslash, b'N') => {
                    // If all columns are computed, none is named, and a line has this for all of them.
                    if !self.literals.is_empty() {
                        out.extend_from_slice(b"NULL");
                    }
                    self.field = Field::Null;
                }
                (Field::FirstBackslash, _) => {
                    self.quote(out);
                    self.byte(byte, true, out);
                    self.field = Field::Middle;
                }
                (Field::Middle, _) => self.middle(byte, out),
                (Field::Backslash, _) => {
                    self.byte(byte, true, out);
                    self.field = Field::Middle;
                }
                (Field::Null, _) => {
                    self.close(byte, false, out);
                    self.field = Field::Start;
                }
            }
            if self.statement > 0 {
                self.statement += out.len() - before;
                if self.statement > STATEMENT_BYTES && self.column == 0 && self.field == Field::Start {
                    out.extend_from_slice(b";\n");
                    self.statement = 0;
                }
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.statement > 0 {
            out.extend_from_slice(b";\n");
        }
    }
}

impl Sql {
    fn middle(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\t' | b'\n' => {
                self.close(byte, true, out);
                self.field = Field::Start;
            }
            b'\\' => self.field = Field::Backslash,
            _ => self.byte(byte, false, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[u8] = b"1\t\\N\ta'b\"c\\\\\n2\t\t\\\\N\\t\\n\\0\n";

    fn made(format: Format, step: usize) -> String {
        let table = TableName { schema: "d".into(), table: "t".into() };
        let columns = [
            ("n".to_owned(), Literal::Number),
            ("x".to_owned(), Literal::Bytes),
            ("s".to_owned(), Literal::Bytes),
        ];
        let mut encoder = format.encoder(&table, &columns, false).unwrap();
        let mut out = Vec::new();
        LINES.chunks(step).for_each(|piece| encoder.encode(piece, &mut out));
        encoder.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_values_and_not_null() {
        let expected = "\"1\",NULL,\"a'b\"\"c\\\"\n\"2\",\"\",\"\\N\t\n\0\"\n";
        for step in 1..LINES.len() {
            assert_eq!(made(Format::Csv, step), expected, "{step}");
        }
    }

    #[test]
    fn sql_is_one_statement_on_one_line() {
        let expected = format!(
            "{SQL_SETTINGS}INSERT INTO `d`.`t` (`n`,`x`,`s`) VALUES \
             (1,NULL,_binary'a''b\"c\\\\'),(2,_binary'',_binary'\\\\N\\t\\n\\0');\n"
        );
        for step in 1..LINES.len() {
            assert_eq!(made(Format::Sql, step), expected, "{step}");
        }
    }
}
