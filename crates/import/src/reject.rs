//! A row that the table can't hold.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Characters of a value shown in a message; the rejects file has the rest.
const SHOWN_CHARS: usize = 80;

/// A bad row: where it is, what is wrong with it, and the row itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// Index into the request's inputs.
    pub file: usize,
    /// The file's name as the user gave it.
    pub name: String,
    /// Line in the file where the record begins, from 1.
    pub line: u64,
    /// The column the server named, if it named one.
    pub column: Option<String>,
    /// The value of that column in the file.
    pub value: Option<String>,
    /// What is wrong, in the server's words or in ours.
    pub reason: String,
    /// The record without its line end.
    pub record: Vec<u8>,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.name, self.line)?;
        if let Some(column) = &self.column {
            write!(f, "column {column}")?;
            if let Some(value) = &self.value {
                write!(f, ", value '{}'", shorten(value))?;
            }
            write!(f, ": ")?;
        }
        f.write_str(&self.reason)
    }
}

/// The beginning of a long value, with a mark that it was cut.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        short.push_str("...");
    }
    short
}

/// The server's message, without the statement that it belongs to.
pub(crate) fn server_words(error: &server::Error) -> String {
    match error {
        server::Error::Sql { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reject_reads_as_a_sentence() {
        let mut reject = Reject {
            file: 0,
            name: "a.csv".into(),
            line: 7,
            column: Some("age".into()),
            value: Some("x".repeat(100)),
            reason: "not a number".into(),
            record: Vec::new(),
        };
        let shown = "x".repeat(80);
        assert_eq!(reject.to_string(), format!("a.csv:7: column age, value '{shown}...': not a number"));
        reject.column = None;
        assert_eq!(reject.to_string(), "a.csv:7: not a number");
    }
}
