//! Conditions: which rows a consumer wants, written as SQL over the columns of the table. A row is bytes, and
//! a [`Schema`] says where its columns are. Bytes in, an answer or JSON out.
//!
//! ```
//! use std::sync::Arc;
//!
//! use condition::{Collate, Column, ColumnLayout, Condition, Kind, Pattern, Schema};
//!
//! /// Strings are equal when their bytes are.
//! struct Binary;
//!
//! impl Collate for Binary {
//!     fn equal(&self, _: u32, one: &[u8], other: &[u8]) -> bool {
//!         one == other
//!     }
//! #   fn encode(&self, _: u32, literal: &str) -> Option<Vec<u8>> {
//! #       Some(literal.as_bytes().to_vec())
//! #   }
//! #   fn decode(&self, _: u32, text: &[u8]) -> Option<String> {
//! #       String::from_utf8(text.to_vec()).ok()
//! #   }
//! #   fn like(&self, _: u32, text: &[u8], pattern: &Pattern) -> bool {
//! #       text == pattern.bytes
//! #   }
//!     // and so on
//! }
//!
//! let priority = Column {
//!     name: "priority".to_owned(),
//!     kind: Kind::Integer { signed: true },
//!     layout: ColumnLayout::Fixed(0, 4),
//!     null_bit: None,
//!     members: Vec::new(),
//! };
//! let schema = Arc::new(Schema { null_bytes: 0, fixed_bytes: 4, columns: vec![priority] });
//! let collate: Arc<dyn Collate> = Arc::new(Binary);
//! let urgent = Condition::compile("priority > 3", &schema, &collate)?;
//! assert!(urgent.matches(&5i32.to_le_bytes()));
//! assert!(!urgent.matches(&1i32.to_le_bytes()));
//! # Ok::<(), condition::Error>(())
//! ```
//!
//! The grammar:
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

// From the lowest floor up: each module uses only those listed before it.
mod number;
mod time;
pub mod wire;

mod schema;

mod collate;

mod evaluate;
mod json;
mod lexer;

mod parser;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use collate::{Collate, Pattern};
use evaluate::Node;
pub use json::quote as quote_json;
use parser::Inputs;
use schema::Values;
pub use schema::{Column, ColumnLayout, Kind, Schema};

/// The longest condition, in bytes.
const TEXT_MAX: usize = 1 << 16;

/// Why a text is not a condition on this table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at position {position} of the condition")]
pub struct Error {
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
    pub fn compile(text: &str, schema: &Arc<Schema>, collate: &Arc<dyn Collate>) -> Result<Condition, Error> {
        let at = |at_byte: usize, what: String| {
            let position = text.get(..at_byte).map_or(0, |before| before.chars().count()) + 1;
            Error { what, position }
        };
        if text.len() > TEXT_MAX {
            return Err(at(TEXT_MAX, format!("more than {TEXT_MAX} bytes")));
        }
        let (root, used) =
            parser::parse(text, schema, &**collate).map_err(|(at_byte, what)| at(at_byte, what))?;
        let (schema, collate) = (schema.clone(), collate.clone());
        Ok(Condition { text: text.into(), root, used, schema, collate })
    }

    /// The text that it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of the columns that it asks for.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.used.columns.iter().filter_map(|number| self.schema.columns.get(*number));
        columns.map(|column| column.name.as_str())
    }

    /// Whether it asks for the tries of a row.
    #[must_use]
    pub fn asks_tries(&self) -> bool {
        self.used.tries
    }

    /// Whether a row of which no try has failed matches.
    pub fn matches(&self, row: &[u8]) -> bool {
        self.schema.read(row).is_some_and(|values| self.is_true(&values))
    }

    /// Whether a row matches of which so many tries have failed; `why` the last one did, which may be empty.
    pub fn matches_tried(&self, row: &[u8], failed: u64, why: &str) -> bool {
        self.schema.read(row).is_some_and(|values| self.is_true(&values.with_tries(failed, why)))
    }

    fn is_true(&self, values: &Values<'_>) -> bool {
        self.root.truth(values, &*self.collate) == Some(true)
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Condition({:?})", self.text)
    }
}
