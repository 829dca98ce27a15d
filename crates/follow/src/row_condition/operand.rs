//! Values of a condition, and of rows, as they are compared.

use std::cmp::Ordering;

use binlog::row::Value;
use innodb::table::Type;
use innodb::table::collation::Collation;

/// A value that is compared with another one of its column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operand {
    /// An integer, or the number of a member of ENUM.
    Number(i128),
    /// `2026-11-30 12:00:00.000000`.
    Time(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A text, without the spaces at its end if they do not count.
    Text(String),
}

impl Operand {
    pub(super) fn compare(&self, other: &Operand) -> Ordering {
        self.cmp(other)
    }
}

/// A literal of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Number(i128),
    Text(String),
    /// `x'00ff'`.
    Bytes(Vec<u8>),
}

impl Literal {
    fn text(&self) -> Option<&str> {
        match self {
            Literal::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// How values of a column are compared.
#[derive(Clone, Debug)]
pub(super) enum ColumnKind {
    Number,
    Date,
    /// DATETIME and TIMESTAMP, with so many fractional digits.
    Time(u8),
    Bytes,
    /// The names of the members.
    Enum(Vec<String>),
    Text(Collation),
}

impl ColumnKind {
    /// That of a type.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn new(kind: &Type) -> Result<ColumnKind, String> {
        Ok(match kind {
            Type::Int { .. } => ColumnKind::Number,
            Type::Date => ColumnKind::Date,
            Type::Datetime { fraction } | Type::Timestamp { fraction, .. } => ColumnKind::Time(*fraction),
            Type::Enum(members) if members.is_numbered() => {
                return Err("several of its members may be equal".to_owned());
            }
            Type::Enum(members) => {
                let charset = members.collation().charset();
                let names = members.names().iter().map(|name| charset.text(name));
                ColumnKind::Enum(names.collect::<Option<_>>().ok_or("its members are not understood")?)
            }
            Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
                let name = collation.name();
                if *collation == Collation::BINARY {
                    ColumnKind::Bytes
                } else if name.ends_with("_bin") {
                    ColumnKind::Text(*collation)
                } else {
                    return Err(format!(
                        "its collation is {name}, and only those that end in _bin compare exactly"
                    ));
                }
            }
            _ => {
                return Err(
                    "it is no integer, date, ENUM, bytes, or text with a collation that ends in _bin"
                        .to_owned(),
                );
            }
        })
    }

    /// Whether values have an order.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self, ColumnKind::Number | ColumnKind::Date | ColumnKind::Time(_) | ColumnKind::Bytes)
    }

    /// A literal that is compared with the column.
    ///
    /// # Errors
    /// Why it can't be.
    pub(super) fn of_literal(&self, literal: Literal) -> Result<Operand, String> {
        Ok(match (self, literal) {
            (ColumnKind::Number, Literal::Number(number)) => Operand::Number(number),
            (ColumnKind::Number, _) => return Err("it is compared with an integer without quotes".to_owned()),
            (ColumnKind::Date, literal) => {
                let time = literal.text().filter(|text| text.len() == 10).and_then(time);
                Operand::Time(time.ok_or("it is compared with a date such as '2026-11-30'")?)
            }
            (ColumnKind::Time(digits), literal) => {
                let has_digits = |text: &&str| {
                    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
                    fraction.trim_end_matches('0').len() <= usize::from(*digits)
                };
                let time = literal.text().filter(has_digits).and_then(time);
                Operand::Time(time.ok_or_else(|| {
                    format!("it is compared with a time such as '2026-11-30 12:00:00', with {digits} decimals at most")
                })?)
            }
            (ColumnKind::Bytes, Literal::Text(text)) => Operand::Bytes(text.into_bytes()),
            (ColumnKind::Bytes, Literal::Bytes(bytes)) => Operand::Bytes(bytes),
            (ColumnKind::Enum(members), Literal::Text(text)) => {
                let at = members.iter().position(|member| *member == text);
                let at = at.ok_or_else(|| format!("it has no member {text:?}"))?;
                Operand::Number(i128::try_from(at + 1).unwrap_or(i128::MAX))
            }
            (ColumnKind::Text(collation), Literal::Text(text)) => {
                if collation.charset().bytes(&text).is_none() {
                    return Err(format!("its character set has no {text:?}"));
                }
                Operand::Text(self.padded(text))
            }
            _ => return Err("it is compared with a text in quotes".to_owned()),
        })
    }

    /// The value of a row; `None` for NULL.
    ///
    /// # Errors
    /// Why it is not understood.
    pub(super) fn of_row(&self, value: &Value<'_>) -> Result<Option<Operand>, &'static str> {
        Ok(Some(match (self, value) {
            (_, Value::Null) => return Ok(None),
            (ColumnKind::Number, Value::Int(number)) => Operand::Number((*number).into()),
            (ColumnKind::Number, Value::Unsigned(number)) => Operand::Number((*number).into()),
            (ColumnKind::Enum(_), Value::Enum(number, _)) => Operand::Number((*number).into()),
            (ColumnKind::Date | ColumnKind::Time(_), Value::Time(text)) => Operand::Time(whole(text)),
            (ColumnKind::Bytes, Value::Bytes(bytes, _)) => Operand::Bytes(bytes.to_vec()),
            (ColumnKind::Text(collation), Value::Bytes(bytes, _)) => {
                let text = collation.charset().text(bytes).ok_or("it is no text of its character set")?;
                Operand::Text(self.padded(text))
            }
            _ => return Err("the log has it with another type than the definition"),
        }))
    }

    /// A text as it is compared: spaces at its end count with few collations only.
    fn padded(&self, mut text: String) -> String {
        let ColumnKind::Text(collation) = self else { return text };
        let name = collation.name();
        if !name.contains("nopad") && !name.contains("_0900_") {
            text.truncate(text.trim_end_matches(' ').len());
        }
        text
    }
}

/// A date or time with all its parts, so that texts have the order of times.
fn whole(text: &str) -> String {
    const ZEROS: &str = "0000-00-00 00:00:00.000000";
    format!("{text}{}", ZEROS.get(text.len()..).unwrap_or_default())
}

/// The time that a literal stands for: a date that exists, with a time or without.
fn time(text: &str) -> Option<String> {
    const SHAPE: &[u8] = b"0000-00-00 00:00:00.000000";
    let has_shape = text.bytes().zip(SHAPE).all(|(byte, wanted)| match wanted {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *wanted,
    });
    if !has_shape || !matches!(text.len(), 10 | 19 | 21..=26) {
        return None;
    }
    let whole = whole(text);
    let part = |at: std::ops::Range<usize>| whole.get(at)?.parse::<u32>().ok();
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        _ => return None,
    };
    let is_time = part(11..13)? < 24 && part(14..16)? < 60 && part(17..19)? < 60;
    ((1..=days).contains(&day) && is_time).then_some(whole)
}
