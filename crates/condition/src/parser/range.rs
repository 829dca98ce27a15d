//! IN, BETWEEN and LIKE.

use super::{COMPARISON_LEVEL, Node, Operand, Operation, Parser, SyntaxError, Token};
use crate::collate::Pattern;
use crate::schema::ColumnLayout;

/// Comparisons with several values, or with a pattern.
#[derive(Clone, Copy)]
pub(super) enum Range {
    In,
    Between,
    Like,
}

impl Parser<'_> {
    /// Reads the keyword of such a comparison, if one follows, and whether NOT precedes it.
    pub(super) fn range(&mut self) -> Result<Option<(Range, bool)>, SyntaxError> {
        let contrary = self.is_word("not");
        let word = |word: &str| match word.to_ascii_lowercase().as_str() {
            "in" => Some(Range::In),
            "between" => Some(Range::Between),
            "like" => Some(Range::Like),
            _ => None,
        };
        if !contrary && !matches!(&self.token, Token::Word(written) if word(written).is_some()) {
            return Ok(None);
        }
        if contrary {
            self.advance()?;
        }
        match &self.token {
            Token::Word(written) if word(written).is_some() => {
                let range = word(written);
                self.advance()?;
                Ok(range.map(|range| (range, contrary)))
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn ranged(
        &mut self,
        (range, contrary): (Range, bool),
        left: (Operand, usize),
    ) -> Result<Operand, SyntaxError> {
        let node = match range {
            Range::In => {
                self.expect("(")?;
                let mut any = self.one_of(&left)?;
                while self.token == Token::Sign(",") {
                    self.advance()?;
                    let next = self.one_of(&left)?;
                    any = Node::Binary(Operation::Or, Box::new(any), Box::new(next));
                }
                self.expect(")")?;
                any
            }
            Range::Between => {
                let at = self.start;
                let low = (self.expression(COMPARISON_LEVEL + 1)?, at);
                if !self.take_word("and")? {
                    return Err(self.unexpected());
                }
                let at = self.start;
                let high = (self.expression(COMPARISON_LEVEL + 1)?, at);
                self.count_copy(&left.0)?;
                let low = self.comparison(Operation::GreaterOrEqual, left.clone(), low)?;
                let high = self.comparison(Operation::LessOrEqual, left, high)?;
                Node::Binary(Operation::And, Box::new(low), Box::new(high))
            }
            Range::Like => self.like(left)?,
        };
        let node = if contrary { Node::Not(Box::new(node)) } else { node };
        Ok(Operand::Number(node.folded(self.collate)))
    }

    /// Compares the left side with the value that follows.
    fn one_of(&mut self, left: &(Operand, usize)) -> Result<Node, SyntaxError> {
        self.count_copy(&left.0)?;
        let at = self.start;
        let value = (self.expression(0)?, at);
        self.comparison(Operation::Equal, left.clone(), value)
    }

    /// Counts the operations of a part once more, because it is evaluated once more.
    fn count_copy(&mut self, part: &Operand) -> Result<(), SyntaxError> {
        if let Operand::Number(node) = part {
            self.operations += node.size();
        }
        self.count()
    }

    fn like(&mut self, (left, left_at): (Operand, usize)) -> Result<Node, SyntaxError> {
        self.count()?;
        let pattern = self.literal("LIKE needs a string behind it")?;
        let mut escape = '\\';
        if self.take_word("escape")? {
            let at = self.start;
            let written = self.literal("ESCAPE needs a string of one character")?;
            let mut chars = written.chars();
            escape = match (chars.next(), chars.next()) {
                (Some(one), None) => one,
                _ => return Err((at, "ESCAPE needs a string of one character".to_owned())),
            };
        }
        match left {
            Operand::Text(column, collation) => {
                let layout = self.schema.columns.get(column).map(|column| column.layout);
                let padded = matches!(layout, Some(ColumnLayout::Fixed(..)));
                Ok(match self.collate.encode(collation, &pattern) {
                    Some(bytes) => {
                        Node::Like { column, collation, pattern: Pattern { bytes, escape, padded } }
                    }
                    None => Node::NeverSame(column),
                })
            }
            Operand::Enum(column, collation) => {
                let bytes = self.collate.encode(collation, &pattern);
                let pattern = bytes.map(|bytes| Pattern { bytes, escape, padded: false });
                Ok(self.members(column, |member| {
                    pattern.as_ref().is_some_and(|pattern| self.collate.like(collation, member, pattern))
                }))
            }
            _ => Err((left_at, "only strings can be asked by LIKE".to_owned())),
        }
    }

    pub(super) fn literal(&mut self, otherwise: &str) -> Result<String, SyntaxError> {
        let at = self.start;
        match self.advance()? {
            Token::Text(text) => Ok(text),
            _ => Err((at, otherwise.to_owned())),
        }
    }

    /// A test whether an ENUM is one of the wanted members. Number 0 is the empty string that is no member.
    pub(super) fn members(&self, column: usize, wanted: impl Fn(&[u8]) -> bool) -> Node {
        let members = &self.schema.columns[column].members;
        let all = std::iter::once(&[][..]).chain(members.iter().map(Vec::as_slice));
        let numbers = (0i128..).zip(all).filter(|(_, member)| wanted(member)).map(|(number, _)| number);
        let is = |number: i128| {
            let (one, two) = (Box::new(Node::Column(column)), Box::new(Node::Number(number.into())));
            Node::Binary(Operation::Equal, one, two)
        };
        let any =
            numbers.map(is).reduce(|one, two| Node::Binary(Operation::Or, Box::new(one), Box::new(two)));
        any.unwrap_or(Node::NeverSame(column))
    }
}
