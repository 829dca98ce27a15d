//! A condition as a tree, and its value for a row.

use crate::collate::{Collate, Pattern};
use crate::number::Number;
use crate::schema::{Schema, Value, Values};

/// Operations on two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    Or,
    Xor,
    And,
    Equal,
    SameOrNull,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BitOr,
    BitAnd,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// What `IS` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IsOperand {
    Null,
    True,
    False,
}

/// A part of a condition.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Null,
    Number(Number),
    Column(usize),
    Binary(Operation, Box<Node>, Box<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Invert(Box<Node>),
    /// `(what, negated, operand)`.
    Is(IsOperand, bool, Box<Node>),
    /// A column and an encoded literal.
    SameText {
        column: usize,
        collation: u32,
        literal: Vec<u8>,
    },
    /// A column and an encoded pattern.
    Like {
        column: usize,
        collation: u32,
        pattern: Pattern,
    },
    /// Two columns of one collation.
    SameColumns {
        one: usize,
        two: usize,
        collation: u32,
    },
    /// A column compared with something that it can't equal: NULL when the column is NULL, else false.
    NeverSame(usize),
}

impl Node {
    /// True, false, or NULL.
    pub(crate) fn truth(&self, row: &Values<'_>, collate: &dyn Collate) -> Option<bool> {
        self.number(row, collate).map(|number| !number.is_zero())
    }

    fn number(&self, row: &Values<'_>, collate: &dyn Collate) -> Option<Number> {
        match self {
            Node::Null => None,
            Node::Number(number) => Some(*number),
            Node::Column(column) => match row.get(*column) {
                Value::Number(number) => Some(number),
                _ => None,
            },
            Node::Binary(operation, one, two) => binary(*operation, one, two, (row, collate)),
            Node::Not(node) => node.truth(row, collate).map(|truth| Number::from(!truth)),
            Node::Negate(node) => node.number(row, collate)?.negated(),
            Node::Invert(node) => Some(Number::from(i128::from(!node.number(row, collate)?.bits()?))),
            Node::Is(IsOperand::Null, contrary, node) => {
                Some(Number::from(node.is_null(row, collate) != *contrary))
            }
            Node::Is(what, contrary, node) => {
                let is = node.truth(row, collate) == Some(*what == IsOperand::True);
                Some(Number::from(is != *contrary))
            }
            Node::SameText { column, collation, literal } => match row.get(*column) {
                Value::Text(text) => Some(Number::from(collate.equal(*collation, text, literal))),
                _ => None,
            },
            Node::Like { column, collation, pattern } => match row.get(*column) {
                Value::Text(text) => Some(Number::from(collate.like(*collation, text, pattern))),
                _ => None,
            },
            Node::SameColumns { one, two, collation } => match (row.get(*one), row.get(*two)) {
                (Value::Text(one), Value::Text(two)) => {
                    Some(Number::from(collate.equal(*collation, one, two)))
                }
                _ => None,
            },
            Node::NeverSame(column) => match row.get(*column) {
                Value::Null => None,
                _ => Some(Number::from(false)),
            },
        }
    }

    fn is_null(&self, row: &Values<'_>, collate: &dyn Collate) -> bool {
        match self {
            Node::Column(column) => matches!(row.get(*column), Value::Null),
            other => other.number(row, collate).is_none(),
        }
    }

    /// This part, replaced by its value if it has no columns.
    pub(crate) fn folded(self, collate: &dyn Collate) -> Node {
        if self.has_columns() {
            return self;
        }
        let schema = Schema::default();
        let value = schema.read(&[]).and_then(|row| self.number(&row, collate));
        value.map_or(Node::Null, Node::Number)
    }

    fn has_columns(&self) -> bool {
        match self {
            Node::Null | Node::Number(_) => false,
            Node::Binary(_, one, two) => one.has_columns() || two.has_columns(),
            Node::Not(node) | Node::Negate(node) | Node::Invert(node) | Node::Is(_, _, node) => {
                node.has_columns()
            }
            Node::Column(_)
            | Node::SameText { .. }
            | Node::Like { .. }
            | Node::SameColumns { .. }
            | Node::NeverSame(_) => true,
        }
    }

    /// How many operations this part has.
    pub(crate) fn size(&self) -> usize {
        match self {
            Node::Binary(_, one, two) => 1 + one.size() + two.size(),
            Node::Not(node) | Node::Negate(node) | Node::Invert(node) | Node::Is(_, _, node) => {
                1 + node.size()
            }
            _ => 0,
        }
    }
}

fn binary(
    operation: Operation,
    one: &Node,
    two: &Node,
    (row, collate): (&Values<'_>, &dyn Collate),
) -> Option<Number> {
    match operation {
        Operation::Or | Operation::And => {
            // One operand may decide alone, even when the other is NULL: true for OR, false for AND.
            let decides = operation == Operation::Or;
            let first = one.truth(row, collate);
            if first == Some(decides) {
                return Some(Number::from(decides));
            }
            let second = two.truth(row, collate);
            if second == Some(decides) {
                return Some(Number::from(decides));
            }
            first.and(second).map(|_| Number::from(!decides))
        }
        Operation::SameOrNull => {
            let (one, two) = (one.number(row, collate), two.number(row, collate));
            Some(Number::from(match (one, two) {
                (Some(one), Some(two)) => one.compare(two).is_eq(),
                (one, two) => one.is_none() && two.is_none(),
            }))
        }
        _ => calculate(operation, one.number(row, collate)?, two.number(row, collate)?),
    }
}

fn calculate(operation: Operation, one: Number, two: Number) -> Option<Number> {
    let bits = |result: fn(u64, u64) -> u64| Some(Number::from(i128::from(result(one.bits()?, two.bits()?))));
    let shift = |result: fn(u64, u32) -> Option<u64>| {
        let by = u32::try_from(two.bits()?).unwrap_or(u32::MAX);
        Some(Number::from(i128::from(result(one.bits()?, by).unwrap_or(0))))
    };
    let order = one.compare(two);
    let truth = match operation {
        // NULL has a meaning for these: `binary` knows it.
        Operation::Or | Operation::And | Operation::SameOrNull => return None,
        Operation::Equal => order.is_eq(),
        Operation::Unequal => order.is_ne(),
        Operation::Less => order.is_lt(),
        Operation::LessOrEqual => order.is_le(),
        Operation::Greater => order.is_gt(),
        Operation::GreaterOrEqual => order.is_ge(),
        Operation::Xor => one.is_zero() != two.is_zero(),
        Operation::BitOr => return bits(|one, two| one | two),
        Operation::BitAnd => return bits(|one, two| one & two),
        Operation::BitXor => return bits(|one, two| one ^ two),
        Operation::ShiftLeft => return shift(u64::checked_shl),
        Operation::ShiftRight => return shift(u64::checked_shr),
        Operation::Add => return one.add(two),
        Operation::Subtract => return one.subtract(two),
        Operation::Multiply => return one.multiply(two),
        Operation::Divide => return one.divide(two),
        Operation::Remainder => return one.remainder(two),
        Operation::Power => return one.power(two),
    };
    Some(Number::from(truth))
}
