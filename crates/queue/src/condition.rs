//! Conditions: which rows a taker wants, written as SQL over the columns of the table.
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
//!      | ( "failed" | "why" ) "(" ")"
//! ```
//!
//! Keywords and column names are not case-sensitive. A value is NULL, an exact number, or a string. Strings
//! are compared for equality and with LIKE, by the collation of the column. An ENUM beside a string is a
//! string; beside a number it is its index. A temporal column beside a string is a time; beside a number it
//! is the number that SQL shows for it (20261121235959), but a TIMESTAMP is seconds since 1970, and strings
//! for it are UTC. NULL works as in SQL: a row matches when the condition is neither NULL nor 0. A number
//! that does not fit into 128 bits is NULL, and so is a division by 0. `failed()` is how many tries of the
//! row have failed, and `why()` why the last one did: what the columns of FAILED and WHY show.

mod evaluate;
mod json;
mod lexer;
mod number;
mod parser;
pub(crate) mod row_attributes;
mod schema;
#[cfg(test)]
mod tests;
mod time;

use std::sync::Arc;

use crate::Filter;
use evaluate::Node;
pub use json::quote as quote_json;
use parser::Inputs;
pub use schema::{Column, ColumnLayout, Kind, Schema};

/// The longest condition, in bytes.
const TEXT_MAX: usize = 1 << 16;

/// What the server knows about strings.
pub trait Collate: Send + Sync {
    /// Whether two strings of this collation are equal.
    fn equal(&self, collation: u32, one: &[u8], other: &[u8]) -> bool;

    /// Converts a literal of the condition from UTF-8 to the character set of the collation. `None` when the
    /// character set lacks one of its characters: then no value equals it.
    fn encode(&self, collation: u32, literal: &str) -> Option<Vec<u8>>;

    /// Converts a string of this collation to UTF-8. `None` when it is no string of its character set.
    fn decode(&self, collation: u32, text: &[u8]) -> Option<String>;

    /// Whether a string of this collation is LIKE a pattern.
    fn like(&self, collation: u32, text: &[u8], pattern: &Pattern) -> bool;
}

/// What LIKE compares with.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern, in the character set of the column.
    pub bytes: Vec<u8>,
    /// The escape character: the character after it stands for itself.
    pub escape: char,
    /// Whether values are padded with spaces that do not belong to them, as those of CHAR are.
    pub padded: bool,
}

/// Why a text is not a condition on this table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at position {position} of the condition")]
pub struct ConditionError {
    /// What is wrong.
    pub what: String,
    /// Where: the number of characters before the mistake, plus 1.
    pub position: usize,
}

/// A compiled condition.
pub struct Condition {
    text: Box<str>,
    root: Node,
    used: Inputs,
    schema: Arc<Schema>,
    collate: Arc<dyn Collate>,
}

impl Condition {
    /// Compiles a condition on a table.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn compile(
        text: &str,
        schema: &Arc<Schema>,
        collate: &Arc<dyn Collate>,
    ) -> Result<Condition, ConditionError> {
        let at = |at_byte: usize, what: String| {
            let position = text.get(..at_byte).map_or(0, |before| before.chars().count()) + 1;
            ConditionError { what, position }
        };
        if text.len() > TEXT_MAX {
            return Err(at(TEXT_MAX, format!("more than {TEXT_MAX} bytes")));
        }
        let (root, used) =
            parser::parse(text, schema, &**collate).map_err(|(at_byte, what)| at(at_byte, what))?;
        let (schema, collate) = (schema.clone(), collate.clone());
        Ok(Condition { text: text.into(), root, used, schema, collate })
    }

    /// The names of the columns that it asks for.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.used.columns.iter().filter_map(|number| self.schema.columns.get(*number));
        columns.map(|column| column.name.as_str())
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

    fn asks_tries(&self) -> bool {
        self.used.tries
    }

    fn matches_tried(&self, row: &[u8], failed: u64, why: &str) -> bool {
        let values = self.schema.read(row).map(|values| values.with_tries(failed, why));
        values.is_some_and(|values| self.root.truth(&values, &*self.collate) == Some(true))
    }
}
