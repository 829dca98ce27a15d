//! From text to a condition.

use std::collections::BTreeMap;

use innodb::table::sql::{Kind, Token, split};
use innodb::table::{Column, Generated};

use super::operand::{ColumnKind, Literal, Operand};
use super::{Comparison, ConditionColumn, Node, RowCondition};

/// Parentheses and NOT within each other.
const DEPTH_MAX: usize = 100;

/// Reads a condition on a table with these columns.
///
/// # Errors
/// What is not understood.
pub(super) fn parse(text: &str, columns: &[&Column]) -> Result<RowCondition, String> {
    // Servers execute some comments, and keep some backslashes.
    for hard in ["/*", "\\%", "\\_"] {
        if text.contains(hard) {
            return Err(format!("{hard:?} is not expected"));
        }
    }
    let tokens = split(text).map_err(|error| error.to_string())?;
    let mut parser = Parser { text, tokens: &tokens, columns, used: BTreeMap::new(), depth: 0 };
    let root = parser.or()?;
    match parser.tokens {
        [] => Ok(RowCondition { root, columns: parser.used }),
        [token, ..] => Err(format!("{:?} is not expected", parser.source(token))),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// What is left.
    tokens: &'a [Token],
    columns: &'a [&'a Column],
    used: BTreeMap<usize, ConditionColumn>,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// A token as it is written.
    fn source(&self, token: &Token) -> &'a str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    fn next(&mut self) -> Result<&'a Token, String> {
        let (first, rest) = self.tokens.split_first().ok_or("it ends too early")?;
        self.tokens = rest;
        Ok(first)
    }

    /// Takes a word or a sign, if it is next.
    fn takes(&mut self, text: &str) -> bool {
        let is_it = self.tokens.first().is_some_and(|token| {
            matches!(token.kind, Kind::Word | Kind::Sign) && token.text.eq_ignore_ascii_case(text)
        });
        if is_it {
            self.tokens = self.tokens.get(1..).unwrap_or_default();
        }
        is_it
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.takes(text) {
            return Ok(());
        }
        Err(match self.tokens.first() {
            Some(token) => format!("{text} is expected instead of {:?}", self.source(token)),
            None => format!("{text} is expected at its end"),
        })
    }

    fn or(&mut self) -> Result<Node, String> {
        let mut node = self.and()?;
        while self.takes("OR") {
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Ok(node)
    }

    fn and(&mut self) -> Result<Node, String> {
        let mut node = self.not()?;
        while self.takes("AND") {
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it has too many parentheses".to_owned());
        }
        let node = if self.takes("NOT") {
            Node::Not(Box::new(self.not()?))
        } else if self.takes("(") {
            let node = self.or()?;
            self.expect(")")?;
            node
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let column = self.column()?;
        if self.takes("IS") {
            let is_not = self.takes("NOT");
            self.expect("NULL")?;
            return Ok(negated(Node::IsNull(column), is_not));
        }
        let is_not = self.takes("NOT");
        if self.takes("IN") {
            self.expect("(")?;
            let mut node = self.compared(column, Comparison::Equal)?;
            while self.takes(",") {
                node = Node::Or(Box::new(node), Box::new(self.compared(column, Comparison::Equal)?));
            }
            self.expect(")")?;
            return Ok(negated(node, is_not));
        }
        if self.takes("BETWEEN") {
            let least = self.compared(column, Comparison::GreaterOrEqual)?;
            self.expect("AND")?;
            let most = self.compared(column, Comparison::LessOrEqual)?;
            return Ok(negated(Node::And(Box::new(least), Box::new(most)), is_not));
        }
        if is_not {
            return Err("IN or BETWEEN is expected after NOT".to_owned());
        }
        let (comparison, is_not) = self.operator()?;
        Ok(negated(self.compared(column, comparison)?, is_not))
    }

    /// A comparison, and whether it is negated.
    fn operator(&mut self) -> Result<(Comparison, bool), String> {
        let mut signs = String::new();
        while let Some(token) = self.tokens.first() {
            if token.kind != Kind::Sign || !matches!(token.text.as_str(), "=" | "<" | ">" | "!") {
                break;
            }
            signs.push_str(&token.text);
            self.next()?;
        }
        Ok(match signs.as_str() {
            "=" => (Comparison::Equal, false),
            "<>" | "!=" => (Comparison::Equal, true),
            "<" => (Comparison::Less, false),
            "<=" => (Comparison::LessOrEqual, false),
            ">" => (Comparison::Greater, false),
            ">=" => (Comparison::GreaterOrEqual, false),
            _ => {
                let found = self.tokens.first().filter(|_| signs.is_empty()).map(|token| self.source(token));
                let found = found.unwrap_or(&signs);
                return Err(format!(
                    "a comparison such as =, <=, IN or BETWEEN is expected instead of {found:?}"
                ));
            }
        })
    }

    fn column(&mut self) -> Result<usize, String> {
        let token = self.next()?;
        if !matches!(token.kind, Kind::Word | Kind::Name) {
            return Err(format!("a column is expected instead of {:?}", self.source(token)));
        }
        // Their names have no case on any server.
        let name = token.text.to_lowercase();
        let place = self.columns.iter().position(|column| column.name.to_lowercase() == name);
        let place = place.ok_or_else(|| format!("there is no column {:?}", token.text))?;
        let column = self.columns[place];
        if column.generated != Generated::No {
            return Err(format!("column {} is generated, and the binary log may not have it", column.name));
        }
        let kind = ColumnKind::new(&column.kind).map_err(|why| format!("column {}: {why}", column.name))?;
        self.used.insert(place, ConditionColumn { name: column.name.clone(), kind });
        Ok(place)
    }

    /// The comparison of a column with the value that is next.
    fn compared(&mut self, column: usize, comparison: Comparison) -> Result<Node, String> {
        let literal = self.literal()?;
        let used = self.used.get(&column).ok_or("a column is expected")?;
        let failed = |why: String| format!("column {}: {why}", used.name);
        if comparison != Comparison::Equal && !used.kind.is_ordered() {
            return Err(failed("only =, <> and IN compare it exactly".to_owned()));
        }
        let value: Operand = used.kind.of_literal(literal).map_err(failed)?;
        Ok(Node::Compare(column, comparison, value))
    }

    fn literal(&mut self) -> Result<Literal, String> {
        let is_negative = self.takes("-");
        let token = self.next()?;
        let source = self.source(token);
        let unknown = || format!("a value is expected instead of {source:?}");
        match &token.kind {
            Kind::Number => {
                let number: i128 = token.text.parse().map_err(|_| unknown())?;
                Ok(Literal::Number(if is_negative { -number } else { number }))
            }
            _ if is_negative => Err(unknown()),
            Kind::Text => Ok(Literal::Text(token.text.clone())),
            // Bytes: x'00ff'.
            Kind::Word if token.text.eq_ignore_ascii_case("x") => {
                let digits = self.next()?;
                let is_joined = digits.kind == Kind::Text && digits.start == token.end;
                let bytes = is_joined.then(|| hexadecimal(&digits.text)).flatten();
                Ok(Literal::Bytes(bytes.ok_or_else(unknown)?))
            }
            _ => Err(unknown()),
        }
    }
}

fn negated(node: Node, is_not: bool) -> Node {
    if is_not { Node::Not(Box::new(node)) } else { node }
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        u8::try_from(high? << 4 | low?).ok()
    };
    pairs.iter().map(byte).collect()
}
