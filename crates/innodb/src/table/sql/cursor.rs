//! Reads tokens one by one.

use super::lexer::{Kind, Token};
use crate::Error;

/// A position in a list of tokens.
pub(super) struct Cursor<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: &'a [Token]) -> Cursor<'a> {
        Cursor { tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Whether the next token is this word (in upper case) or sign; if so, skips it.
    pub(super) fn takes(&mut self, what: &str) -> bool {
        let found = self.is(0, what);
        self.at += usize::from(found);
        found
    }

    /// Whether the next tokens are these words or signs; if so, skips them.
    pub(super) fn takes_all(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(at, word)| self.is(at, word));
        self.at += if found { words.len() } else { 0 };
        found
    }

    /// Whether the token this far ahead is this word or sign.
    pub(super) fn is(&self, ahead: usize, what: &str) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|token| match token.kind {
            Kind::Word => token.text.eq_ignore_ascii_case(what),
            Kind::Sign => token.text == what,
            _ => false,
        })
    }

    /// Skips a word or sign that must be there.
    pub(super) fn expect(&mut self, what: &str) -> Result<(), Error> {
        if self.takes(what) { Ok(()) } else { Err(self.unexpected(&format!("'{what}'"))) }
    }

    /// A name, quoted or not.
    pub(super) fn name(&mut self) -> Result<String, Error> {
        self.one(&[Kind::Name, Kind::Word], "a name")
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        self.one(&[Kind::Text], "a text in quotes")
    }

    pub(super) fn word(&mut self) -> Result<String, Error> {
        self.one(&[Kind::Word], "a word")
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, Error> {
        let place = self.at;
        let text = self.one(&[Kind::Number], "a number")?;
        text.parse().map_err(|_| {
            self.at = place;
            self.unexpected("a smaller number")
        })
    }

    fn one(&mut self, kinds: &[Kind], what: &str) -> Result<String, Error> {
        let token = self.peek().filter(|token| kinds.contains(&token.kind));
        let Some(token) = token else { return Err(self.unexpected(what)) };
        self.skip();
        Ok(token.text.clone())
    }

    /// Skips a parenthesis, its contents, and the closing one.
    pub(super) fn skip_parenthesis(&mut self) -> Result<(), Error> {
        self.expect("(")?;
        let mut depth = 1_usize;
        while depth > 0 {
            if self.takes("(") {
                depth += 1;
            } else if self.takes(")") {
                depth -= 1;
            } else if self.peek().is_some() {
                self.skip();
            } else {
                return Err(self.unexpected("')'"));
            }
        }
        Ok(())
    }

    /// The error for a next token that is not understood here.
    pub(super) fn unexpected(&self, expected: &str) -> Error {
        let line = self.peek().or(self.tokens.last()).map_or(1, |token| token.line);
        let found = match self.peek() {
            Some(token) => format!("'{}'", token.text.chars().take(80).collect::<String>()),
            None => "the end".to_owned(),
        };
        Error::Sql { line, what: format!("{found} where {expected} was expected") }
    }
}
