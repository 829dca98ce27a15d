//! Parses the text of a condition into a tree, by precedence, and checks the types of what is compared.

mod range;

use std::collections::BTreeSet;

use crate::collate::Collate;
use crate::evaluate::{IsOperand, Node, Operation};
use crate::lexer::{Token, next};
use crate::schema::{Column, FAILED, Kind, Schema, WHY};
use crate::time::{Shape, literal};

/// The deepest nesting of parentheses, signs and operators: a server's thread has 292 KiB of stack.
const DEPTH_MAX: usize = 60;

/// The most operations in a condition: evaluation may recurse as deep, and each row may cost as many.
const OPERATIONS_MAX: usize = 200;

/// The collation of why the last try failed: utf8mb4_general_ci.
const UTF8: u32 = 45;

/// A mistake: its byte offset, and what is wrong.
type SyntaxError = (usize, String);

/// A part of a condition whose type is not settled yet.
#[derive(Clone)]
enum Operand {
    Number(Node),
    /// A string literal and its byte offset.
    Literal(String, usize),
    /// A column of strings.
    Text(usize, u32),
    /// An ENUM column: a string beside a literal, else the index of the member.
    Enum(usize, u32),
    /// A temporal column, which can be compared with a literal.
    Time(usize, Shape),
    /// A column that a condition can only test for NULL.
    Opaque(usize),
}

struct Parser<'text> {
    text: &'text str,
    schema: &'text Schema,
    collate: &'text dyn Collate,
    token: Token,
    /// Where the current token begins and ends.
    start: usize,
    end: usize,
    depth: usize,
    operations: usize,
    used: Inputs,
}

/// The inputs of a condition.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The numbers of the columns that it names.
    pub(crate) columns: BTreeSet<usize>,
    /// Whether it asks for the tries of a row.
    pub(crate) tries: bool,
}

/// Reads a whole condition. Also returns what it asks of a row.
pub(crate) fn parse(
    text: &str,
    schema: &Schema,
    collate: &dyn Collate,
) -> Result<(Node, Inputs), SyntaxError> {
    let (token, start, end) = next(text, 0)?;
    let used = Inputs::default();
    let mut parser = Parser { text, schema, collate, token, start, end, depth: 0, operations: 0, used };
    let (at, part) = (parser.start, parser.expression(0)?);
    let root = parser.number(part, at)?;
    if parser.token != Token::End {
        return Err(parser.unexpected());
    }
    Ok((root.folded(collate), parser.used))
}

/// The binary operators of each level, loosest first. NOT and the comparisons have levels in between.
const NOT_LEVEL: usize = 3;
const COMPARISON_LEVEL: usize = 4;
const LEVELS: usize = 11;

fn operator(level: usize, token: &Token) -> Option<Operation> {
    let sign = match token {
        Token::Sign(sign) => (*sign).to_owned(),
        Token::Word(word) => word.to_ascii_lowercase(),
        _ => return None,
    };
    Some(match (level, sign.as_str()) {
        (0, "||" | "or") => Operation::Or,
        (1, "xor") => Operation::Xor,
        (2, "&&" | "and") => Operation::And,
        (COMPARISON_LEVEL, "=") => Operation::Equal,
        (COMPARISON_LEVEL, "<=>") => Operation::SameOrNull,
        (COMPARISON_LEVEL, "!=" | "<>") => Operation::Unequal,
        (COMPARISON_LEVEL, "<") => Operation::Less,
        (COMPARISON_LEVEL, "<=") => Operation::LessOrEqual,
        (COMPARISON_LEVEL, ">") => Operation::Greater,
        (COMPARISON_LEVEL, ">=") => Operation::GreaterOrEqual,
        (5, "|") => Operation::BitOr,
        (6, "&") => Operation::BitAnd,
        (7, "<<") => Operation::ShiftLeft,
        (7, ">>") => Operation::ShiftRight,
        (8, "+") => Operation::Add,
        (8, "-") => Operation::Subtract,
        (9, "*") => Operation::Multiply,
        (9, "div") => Operation::Divide,
        (9, "%" | "mod") => Operation::Remainder,
        (10, "^") => Operation::BitXor,
        _ => return None,
    })
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, SyntaxError> {
        let (token, start, end) = next(self.text, self.end)?;
        (self.start, self.end) = (start, end);
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn unexpected(&self) -> SyntaxError {
        let what = match &self.token {
            Token::End => "something is missing".to_owned(),
            _ => format!("unexpected {}", self.text.get(self.start..self.end).unwrap_or_default()),
        };
        (self.start, what)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(written) if written.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> Result<bool, SyntaxError> {
        let is = self.is_word(word);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), SyntaxError> {
        if self.token != Token::Sign(sign) {
            return Err(self.unexpected());
        }
        self.advance().map(|_| ())
    }

    /// Parses something one level deeper, and refuses what is too deep.
    fn nested<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err((self.start, format!("more than {DEPTH_MAX} levels")));
        }
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn count(&mut self) -> Result<(), SyntaxError> {
        self.operations += 1;
        if self.operations > OPERATIONS_MAX {
            return Err((self.start, format!("more than {OPERATIONS_MAX} operations")));
        }
        Ok(())
    }

    /// Parses operands that are joined by operators of this level or tighter ones.
    fn expression(&mut self, loosest: usize) -> Result<Operand, SyntaxError> {
        self.nested(|parser| parser.joined(loosest))
    }

    fn joined(&mut self, loosest: usize) -> Result<Operand, SyntaxError> {
        let mut at = self.start;
        let mut left = if loosest <= NOT_LEVEL && self.is_word("not") {
            self.count()?;
            self.advance()?;
            let inside_at = self.start;
            // NOT applies once: what follows it is a comparison.
            let inside = self.expression(COMPARISON_LEVEL)?;
            Operand::Number(Node::Not(Box::new(self.number(inside, inside_at)?)))
        } else {
            self.unary()?
        };
        loop {
            if loosest <= COMPARISON_LEVEL && self.take_word("is")? {
                left = self.is(left, at)?;
                continue;
            }
            if loosest <= COMPARISON_LEVEL
                && let Some(range) = self.range()?
            {
                left = self.ranged(range, (left, at))?;
                continue;
            }
            let found = (loosest..LEVELS).find_map(|level| Some((level, operator(level, &self.token)?)));
            let Some((level, operation)) = found else { return Ok(left) };
            self.count()?;
            self.advance()?;
            let right_at = self.start;
            let right = self.expression(level + 1)?;
            let node = if level == COMPARISON_LEVEL {
                self.comparison(operation, (left, at), (right, right_at))?
            } else {
                let (one, two) = (self.number(left, at)?, self.number(right, right_at)?);
                Node::Binary(operation, Box::new(one), Box::new(two)).folded(self.collate)
            };
            left = Operand::Number(node);
            at = right_at;
        }
    }

    fn is(&mut self, left: Operand, at: usize) -> Result<Operand, SyntaxError> {
        self.count()?;
        let contrary = self.take_word("not")?;
        let what = if self.take_word("null")? {
            IsOperand::Null
        } else if self.take_word("true")? {
            IsOperand::True
        } else if self.take_word("false")? {
            IsOperand::False
        } else {
            return Err(self.unexpected());
        };
        let node = match left {
            Operand::Text(column, _) | Operand::Opaque(column) if what == IsOperand::Null => {
                Node::Column(column)
            }
            other => self.number(other, at)?,
        };
        Ok(Operand::Number(Node::Is(what, contrary, Box::new(node))))
    }

    fn unary(&mut self) -> Result<Operand, SyntaxError> {
        let sign = match self.token {
            Token::Sign(sign @ ("-" | "~" | "!")) => sign,
            _ => return self.atom(),
        };
        self.count()?;
        self.advance()?;
        let at = self.start;
        let inside = self.nested(Self::unary)?;
        let inside = Box::new(self.number(inside, at)?);
        let node = match sign {
            "-" => Node::Negate(inside),
            "~" => Node::Invert(inside),
            _ => Node::Not(inside),
        };
        Ok(Operand::Number(node.folded(self.collate)))
    }

    fn atom(&mut self) -> Result<Operand, SyntaxError> {
        let at = self.start;
        match self.token.clone() {
            Token::Number(digits) => {
                self.advance()?;
                Ok(Operand::Number(Node::Number(digits.into())))
            }
            Token::Text(text) => {
                self.advance()?;
                Ok(Operand::Literal(text, at))
            }
            Token::Quoted(name) => {
                self.advance()?;
                self.column(&name, at)
            }
            Token::Sign("(") => {
                self.advance()?;
                let inside = self.expression(0)?;
                self.expect(")")?;
                Ok(inside)
            }
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "null" => self.advance().map(|_| Operand::Number(Node::Null)),
                "true" => self.advance().map(|_| Operand::Number(Node::Number(true.into()))),
                "false" => self.advance().map(|_| Operand::Number(Node::Number(false.into()))),
                "pow" => {
                    self.advance()?;
                    self.power()
                }
                name @ ("failed" | "why") if self.calls() => {
                    let what = if name == "failed" {
                        Operand::Number(Node::Column(FAILED))
                    } else {
                        Operand::Text(WHY, UTF8)
                    };
                    self.advance()?;
                    self.expect("(")?;
                    self.expect(")")?;
                    self.used.tries = true;
                    Ok(what)
                }
                "or" | "xor" | "and" | "not" | "is" | "div" | "mod" | "in" | "between" | "like"
                | "escape" => Err(self.unexpected()),
                _ => {
                    self.advance()?;
                    self.column(&word, at)
                }
            },
            Token::Sign(_) | Token::End => Err(self.unexpected()),
        }
    }

    /// Whether the word that was read is followed by a parenthesis, so that it is no column.
    fn calls(&self) -> bool {
        matches!(next(self.text, self.end), Ok((Token::Sign("("), ..)))
    }

    fn power(&mut self) -> Result<Operand, SyntaxError> {
        self.count()?;
        self.expect("(")?;
        let at = self.start;
        let base = self.expression(0)?;
        let base = self.number(base, at)?;
        self.expect(",")?;
        let at = self.start;
        let exponent = self.expression(0)?;
        let exponent = self.number(exponent, at)?;
        self.expect(")")?;
        let node = Node::Binary(Operation::Power, Box::new(base), Box::new(exponent));
        Ok(Operand::Number(node.folded(self.collate)))
    }

    fn column(&mut self, name: &str, at: usize) -> Result<Operand, SyntaxError> {
        let same = |column: &Column| column.name.to_lowercase() == name.to_lowercase();
        let Some(number) = self.schema.columns.iter().position(same) else {
            return Err((at, format!("there is no column {name}")));
        };
        self.used.columns.insert(number);
        Ok(match self.schema.columns[number].kind {
            Kind::Text(collation) => Operand::Text(number, collation),
            Kind::Date => Operand::Time(number, Shape::Date),
            Kind::Time(_) => Operand::Time(number, Shape::Time),
            Kind::DateTime(_) => Operand::Time(number, Shape::DateTime),
            Kind::Timestamp(_) => Operand::Time(number, Shape::Timestamp),
            Kind::Enum(collation) => Operand::Enum(number, collation),
            Kind::Opaque => Operand::Opaque(number),
            Kind::Integer { .. } | Kind::Decimal { .. } | Kind::Year => Operand::Number(Node::Column(number)),
        })
    }

    /// A part that must be a number.
    fn number(&self, part: Operand, at: usize) -> Result<Node, SyntaxError> {
        let named = |column: usize| self.schema.columns.get(column).map_or("why()", |column| &column.name);
        match part {
            Operand::Number(node) => Ok(node),
            Operand::Time(column, _) | Operand::Enum(column, _) => Ok(Node::Column(column)),
            Operand::Literal(_, at) => Err((at, "a string where a number is needed".to_owned())),
            Operand::Text(column, _) => {
                Err((at, format!("{} is a string: compare it with one by =, !=, IN or LIKE", named(column))))
            }
            Operand::Opaque(column) => {
                Err((at, format!("{} has a type that can only be asked for NULL", named(column))))
            }
        }
    }

    fn comparison(
        &self,
        operation: Operation,
        (left, left_at): (Operand, usize),
        (right, right_at): (Operand, usize),
    ) -> Result<Node, SyntaxError> {
        let same = match (left, right) {
            (Operand::Text(column, collation), Operand::Literal(text, _))
            | (Operand::Literal(text, _), Operand::Text(column, collation)) => {
                match self.collate.encode(collation, &text) {
                    Some(literal) => Node::SameText { column, collation, literal },
                    None => Node::NeverSame(column),
                }
            }
            (Operand::Enum(column, collation), Operand::Literal(text, _))
            | (Operand::Literal(text, _), Operand::Enum(column, collation)) => {
                let literal = self.collate.encode(collation, &text);
                let is = |member: &[u8]| {
                    literal.as_ref().is_some_and(|literal| self.collate.equal(collation, member, literal))
                };
                self.members(column, is)
            }
            (Operand::Text(one, collation), Operand::Text(two, other)) => {
                if collation != other {
                    return Err((right_at, "two strings of different collations".to_owned()));
                }
                Node::SameColumns { one, two, collation }
            }
            (Operand::Time(column, shape), Operand::Literal(text, at)) => {
                let two = self.time(&text, shape, at)?;
                return Ok(Node::Binary(operation, Box::new(Node::Column(column)), Box::new(two)));
            }
            (Operand::Literal(text, at), Operand::Time(column, shape)) => {
                let one = self.time(&text, shape, at)?;
                return Ok(Node::Binary(operation, Box::new(one), Box::new(Node::Column(column))));
            }
            (Operand::Time(_, one), Operand::Time(_, two)) if one != two => {
                return Err((right_at, "two times of different types".to_owned()));
            }
            (left, right) => {
                let (one, two) = (self.number(left, left_at)?, self.number(right, right_at)?);
                return Ok(Node::Binary(operation, Box::new(one), Box::new(two)).folded(self.collate));
            }
        };
        match operation {
            Operation::Equal => Ok(same),
            Operation::Unequal => Ok(Node::Not(Box::new(same))),
            // A literal is never NULL, so a NULL value differs from it.
            Operation::SameOrNull if !matches!(same, Node::SameColumns { .. }) => {
                Ok(Node::Is(IsOperand::True, false, Box::new(same)))
            }
            _ => Err((left_at, "strings can only be compared by =, !=, IN and LIKE".to_owned())),
        }
    }

    fn time(&self, text: &str, shape: Shape, at: usize) -> Result<Node, SyntaxError> {
        let wanted = match shape {
            Shape::Date => "YYYY-MM-DD",
            Shape::Time => "hh:mm:ss",
            Shape::DateTime | Shape::Timestamp => "YYYY-MM-DD hh:mm:ss",
        };
        let number = literal(text, shape);
        number.map(Node::Number).ok_or_else(|| (at, format!("{text:?} is no time; write {wanted}")))
    }
}
