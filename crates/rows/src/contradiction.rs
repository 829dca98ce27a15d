//! The guesses about a file's dialect, and how the file may contradict them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which properties of a file's form are guesses that the rest of the file may contradict. What the user has
/// given is not a guess, and neither is what the sample has clearly shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuessedOptions {
    /// Whether backslashes are escapes.
    pub escape: bool,
    /// Whether quotes enclose fields, with nothing after a closing quote.
    pub quote: bool,
    /// Whether nothing follows the closing quote of a field with a line end in it.
    #[serde(default)]
    pub quoted_lines: bool,
    /// Which of the two quotes is used: neither was in the sample.
    pub other_quote: bool,
    /// What ends a line.
    pub line_end: bool,
    /// Which words are NULL.
    pub nulls: bool,
    /// Whether there is one header, at the start.
    pub header: bool,
}

impl GuessedOptions {
    /// Whether there is anything to check.
    #[must_use]
    pub fn any(self) -> bool {
        self != GuessedOptions::default()
    }

    /// Withdraws a guess that was weighed once more.
    pub fn confirm(&mut self, kind: ContradictionKind) {
        match kind {
            ContradictionKind::NullEscape | ContradictionKind::Escaped | ContradictionKind::NotEscaped => {
                self.escape = false
            }
            ContradictionKind::TextBehindQuote => self.quote = false,
            ContradictionKind::LinesInQuotes => self.quoted_lines = false,
            ContradictionKind::OtherQuote => self.other_quote = false,
            ContradictionKind::LoneReturn | ContradictionKind::OtherLineEnd => self.line_end = false,
            ContradictionKind::NullWord | ContradictionKind::NoNullWord => self.nulls = false,
            ContradictionKind::HeaderAgain => self.header = false,
        }
    }
}

/// How something contradicts a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContradictionKind {
    /// `\N` is a field, but backslashes are text, or another word is NULL.
    NullEscape,
    /// Only a program that uses escapes would write this.
    Escaped,
    /// No program that uses escapes would write this.
    NotEscaped,
    /// Text follows a closing quote.
    TextBehindQuote,
    /// Text follows the closing quote of a field with a line end in it.
    LinesInQuotes,
    /// A field is enclosed in the quote that was not chosen.
    OtherQuote,
    /// There is a carriage return in an unquoted field.
    LoneReturn,
    /// A line ends in another way.
    OtherLineEnd,
    /// The word NULL is a field, and was read as text.
    NullWord,
    /// A word was read as NULL in a column with other words.
    NoNullWord,
    /// The header occurs again.
    HeaderAgain,
}

impl ContradictionKind {
    /// Whether another look at the sample, with the evidence, may lead to another guess.
    #[must_use]
    pub fn may_be_redetected(self) -> bool {
        !matches!(
            self,
            ContradictionKind::LinesInQuotes | ContradictionKind::LoneReturn | ContradictionKind::HeaderAgain
        )
    }

    /// What was seen, to follow "the field ..., ".
    fn what(self) -> &'static str {
        match self {
            ContradictionKind::NullEscape => {
                "is NULL as LOAD DATA writes it, but earlier rows do not use that format"
            }
            ContradictionKind::Escaped => "contains escapes, but backslashes were read as text",
            ContradictionKind::NotEscaped => {
                "has a backslash that escapes nothing, but backslashes were read as escapes"
            }
            ContradictionKind::TextBehindQuote => "has text after a closing quote",
            ContradictionKind::LinesInQuotes => {
                "has a line end inside quotes and text after them: a quote is missing, or quotes do not enclose \
                 nothing here"
            }
            ContradictionKind::OtherQuote => "is enclosed in a different quote than was detected",
            ContradictionKind::LoneReturn => {
                "contains a carriage return that is neither quoted nor part of a line end"
            }
            ContradictionKind::OtherLineEnd => "is at a different kind of line end than the lines before",
            ContradictionKind::NullWord => {
                "was not read as NULL, because the word did not occur in the sample"
            }
            ContradictionKind::NoNullWord => "is a word in a column where another word was read as NULL",
            ContradictionKind::HeaderAgain => {
                "begins a line that repeats the header: files were joined with their headers"
            }
        }
    }

    /// The option that decides, and what it means.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            ContradictionKind::NullEscape | ContradictionKind::Escaped | ContradictionKind::NotEscaped => {
                "--escape '\\' reads backslashes as LOAD DATA does, --escape none as text"
            }
            ContradictionKind::TextBehindQuote
            | ContradictionKind::LinesInQuotes
            | ContradictionKind::OtherQuote => {
                "--quote sets the quote character, for example --quote '\"' or --quote none"
            }
            ContradictionKind::LoneReturn => {
                "--line-end lf or crlf keeps it as part of the field, --line-end cr ends lines with it"
            }
            ContradictionKind::OtherLineEnd => "--line-end any reads both, --line-end lf or crlf only one",
            ContradictionKind::NullWord | ContradictionKind::NoNullWord => {
                "--null WORD sets the words for NULL (--null '' for empty fields), --no-null means that there are none"
            }
            ContradictionKind::HeaderAgain => {
                "--repeated-header skip skips such lines, --repeated-header row loads them"
            }
        }
    }
}

/// One place that contradicts a guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// What kind of contradiction it is.
    pub kind: ContradictionKind,
    /// The offset of its record in the chunk.
    pub offset: usize,
    /// The field, or its beginning.
    pub field: String,
    /// The record and a few after it, to be weighed with the sample.
    pub evidence: Vec<u8>,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the field '{}' {}; {}", self.field, self.kind.what(), self.kind.remedy())
    }
}
