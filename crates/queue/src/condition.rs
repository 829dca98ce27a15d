//! Conditions: which rows a taker wants, in the words of SQL over the columns of the table.
//!
//! ```text
//! condition = or ; all binary operators of a level group to the left
//! or   = xor { ("||" | "or") xor }          xor = and { "xor" and }
//! and  = not { ("&&" | "and") not }         not = { "not" | "!" } comparison
//! comparison = bits { ("=" | "<=>" | "!=" | "<>" | "<" | "<=" | ">" | ">=") bits
//!            | "is" [ "not" ] ( "null" | "true" | "false" )
//!            | [ "not" ] "in" "(" or { "," or } ")" | [ "not" ] "between" bits "and" bits
//!            | [ "not" ] "like" string [ "escape" string ] }
//! bits = mask { "|" mask }                  mask = shift { "&" shift }
//! shift = sum { ("<<" | ">>") sum }         sum = product { ("+" | "-") product }
//! product = power { ("*" | "div" | "%" | "mod") power }
//! power = unary { "^" unary }               unary = { "-" | "~" } atom
//! atom = number | string | "null" | column | "(" or ")" | "pow" "(" or "," or ")"
//! ```
//!
//! Words are not case-sensitive, columns neither. A value is NULL, an exact number, or a string. Strings are
//! compared for equality and with LIKE, by the collation of the column; so is ENUM, which beside a number is
//! its index; temporal columns with strings that are a time, and as numbers as SQL shows them
//! (20261121235959), but TIMESTAMP as seconds since 1970, and strings for it are UTC. NULL goes as in SQL: a
//! row matches when the condition is neither NULL nor 0. What does not fit into 128 bits is NULL, so is
//! division by 0.

mod evaluate;
mod lexer;
mod number;
mod parser;
mod schema;
#[cfg(test)]
mod tests;
mod time;

use std::sync::Arc;

use crate::Filter;
use evaluate::Node;
pub use schema::{Column, Kind, Place, Schema};

/// Bytes that a condition may have.
const TEXT_MAX: usize = 1 << 16;

/// What the server knows about strings.
pub trait Collate: Send + Sync {
    /// Whether two strings of this collation are equal.
    fn equal(&self, collation: u32, one: &[u8], other: &[u8]) -> bool;

    /// A literal of the condition, which is UTF-8, in the character set of the collation; `None` when it has
    /// no such characters: then nothing is equal to it.
    fn encode(&self, collation: u32, literal: &str) -> Option<Vec<u8>>;

    /// Whether a string of this collation is LIKE a pattern.
    fn like(&self, collation: u32, text: &[u8], pattern: &Pattern) -> bool;
}

/// What LIKE compares with.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// In the character set of the column.
    pub bytes: Vec<u8>,
    /// The character that takes the next one as it is.
    pub escape: char,
    /// Texts have spaces at their ends that are none of theirs: those of CHAR.
    pub padded: bool,
}

/// Why a text is no condition on a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at position {position} of the condition")]
pub struct ConditionError {
    /// What is wrong.
    pub what: String,
    /// Characters before it, plus 1.
    pub position: usize,
}

/// A condition, ready to be asked.
pub struct Condition {
    text: Box<str>,
    root: Node,
    schema: Arc<Schema>,
    collate: Arc<dyn Collate>,
}

impl Condition {
    /// Reads a condition on a table.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn compile(
        text: &str,
        schema: &Arc<Schema>,
        collate: &Arc<dyn Collate>,
    ) -> Result<Condition, ConditionError> {
        let at = |place: usize, what: String| {
            let position = text.get(..place).map_or(0, |before| before.chars().count()) + 1;
            ConditionError { what, position }
        };
        if text.len() > TEXT_MAX {
            return Err(at(TEXT_MAX, format!("more than {TEXT_MAX} bytes")));
        }
        let root = parser::parse(text, schema, &**collate).map_err(|(place, what)| at(place, what))?;
        Ok(Condition { text: text.into(), root, schema: schema.clone(), collate: collate.clone() })
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Condition({:?})", self.text)
    }
}

impl Filter for Condition {
    fn text(&self) -> &str {
        &self.text
    }

    fn matches(&self, row: &[u8]) -> bool {
        let values = self.schema.read(row);
        values.is_some_and(|values| self.root.truth(&values, &*self.collate) == Some(true))
    }
}
