//! Splits SQL into words, names, texts, numbers and signs.

use crate::Error;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word, as it is written.
    Word,
    /// A name in backquotes.
    Name,
    /// A text in quotes.
    Text,
    /// A number without a sign.
    Number,
    /// Any other character.
    Sign,
    /// The comment that the server prints after a temporal type in an old format.
    OldTime,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its text, without quotes and escapes.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
    /// The byte at which it begins.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
}

/// How the server marks DATETIME, TIME and TIMESTAMP in the format before MariaDB 10.1.
const OLD_TIME: &str = "mariadb-5.3";

/// Splits a text. Comments that the server executes are part of it, other comments are not.
///
/// # Errors
/// [`Error::Sql`] for quotes or comments without an end.
pub fn split(text: &str) -> Result<Vec<Token>, Error> {
    let mut lexer = Lexer { rest: text, text, line: 1, in_comment: false };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    rest: &'a str,
    line: usize,
    /// Whether this is inside a comment that the server executes.
    in_comment: bool,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Option<Token>, Error> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.take(blanks);
            let Some(first) = self.rest.chars().next() else {
                return Ok(None);
            };
            let start = self.text.len() - self.rest.len();
            let line = self.line;
            let token = |lexer: &Lexer<'_>, kind, text: String| {
                let end = lexer.text.len() - lexer.rest.len();
                Ok(Some(Token { kind, text, line, start, end }))
            };
            if self.in_comment && self.rest.starts_with("*/") {
                self.in_comment = false;
                self.take(2);
            } else if let Some(body) = self.rest.strip_prefix("/*") {
                if let Some(marker) = self.comment(body)? {
                    return token(self, marker, String::new());
                }
            } else if self.rest.starts_with("-- ") || self.rest.starts_with("--\n") || first == '#' {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end);
            } else if first == '`' {
                let text = self.name()?;
                return token(self, Kind::Name, text);
            } else if first == '\'' || first == '"' {
                let text = self.quoted(first)?;
                return token(self, Kind::Text, text);
            } else if first.is_ascii_digit() {
                let text = self.number();
                return token(self, Kind::Number, text);
            } else if is_letter(first) {
                let end = self.rest.find(|char| !is_letter(char)).unwrap_or(self.rest.len());
                let text = self.take(end).to_owned();
                return token(self, Kind::Word, text);
            } else {
                let text = self.take(first.len_utf8()).to_owned();
                return token(self, Kind::Sign, text);
            }
        }
    }

    /// Enters a comment that the server executes, or skips another one; returns the marker of an old format
    /// in it.
    fn comment(&mut self, body: &str) -> Result<Option<Kind>, Error> {
        let run = body.strip_prefix('!').or_else(|| body.strip_prefix("M!"));
        if let Some(inner) = run {
            if self.in_comment {
                return Err(self.error("a comment within a comment"));
            }
            let digits = inner.len() - inner.trim_start_matches(|char: char| char.is_ascii_digit()).len();
            self.take(self.rest.len() - inner.len() + digits);
            self.in_comment = true;
            return Ok(None);
        }
        let Some(end) = body.find("*/") else { return Err(self.error("a comment without end")) };
        let marked = body[..end].trim() == OLD_TIME;
        self.take(end + 4);
        Ok(marked.then_some(Kind::OldTime))
    }

    fn name(&mut self) -> Result<String, Error> {
        let mut name = String::new();
        self.take(1);
        loop {
            let Some(end) = self.rest.find('`') else { return Err(self.error("a name without end")) };
            name.push_str(self.take(end));
            self.take(1);
            if !self.rest.starts_with('`') {
                return Ok(name);
            }
            name.push('`');
            self.take(1);
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Error> {
        let mut text = String::new();
        self.take(1);
        loop {
            let end = self.rest.find([quote, '\\']);
            let Some(end) = end else { return Err(self.error("a text without end")) };
            text.push_str(self.take(end));
            let mut chars = self.rest.chars();
            let (first, second) = (chars.next(), chars.next());
            let read = match (first, second) {
                (Some('\\'), Some(char)) => {
                    text.push(unescaped(char));
                    1 + char.len_utf8()
                }
                (Some('\\'), None) => return Err(self.error("a text without end")),
                (_, Some(second)) if second == quote => {
                    text.push(quote);
                    2
                }
                _ => {
                    self.take(1);
                    return Ok(text);
                }
            };
            self.take(read);
        }
    }

    fn number(&mut self) -> String {
        let mut end = 0;
        let bytes = self.rest.as_bytes();
        while let Some(byte) = bytes.get(end) {
            let exponent = matches!(bytes.get(end.wrapping_sub(1)), Some(b'e' | b'E'));
            let more =
                byte.is_ascii_alphanumeric() || *byte == b'.' || exponent && matches!(byte, b'-' | b'+');
            if !more {
                break;
            }
            end += 1;
        }
        self.take(end).to_owned()
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        taken
    }

    fn error(&self, what: &str) -> Error {
        Error::Sql { line: self.line, what: what.to_owned() }
    }
}

fn is_letter(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '$' | '@') || !char.is_ascii()
}

/// What a character after a backslash stands for.
fn unescaped(char: char) -> char {
    match char {
        '0' => '\0',
        'b' => '\u{8}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'Z' => '\u{1a}',
        other => other,
    }
}
