//! Numbers as servers print them.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

/// Counters are whole numbers of up to 64 bits, or seconds with six decimals: all of them fit into
/// millionths, with exact differences. (A DOUBLE loses counts from 2^53 on.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(i128);

const MILLION: i128 = 1_000_000;
/// Decimals that are kept.
const DIGITS: usize = 6;
/// Most digits before the point: 2^64 has 20, and some are added up.
const WHOLE_DIGITS_MAX: usize = 21;

impl Number {
    /// Reads `-12.5`; `None` for anything that is not a number, or outside the range of counters. Decimals
    /// after the sixth are cut off.
    #[must_use]
    pub fn parse(text: &str) -> Option<Number> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || whole.len() > WHOLE_DIGITS_MAX || !all_digits(whole) || !all_digits(part) {
            return None;
        }
        let mut value = whole.parse::<i128>().ok()? * MILLION;
        let mut unit = MILLION / 10;
        for digit in part.bytes().take(DIGITS) {
            value += i128::from(digit - b'0') * unit;
            unit /= 10;
        }
        Some(Number(if negative { -value } else { value }))
    }

    /// As a floating-point number, exact up to 2^53.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rates and shares are for people to read")]
    pub fn as_f64(self) -> f64 {
        if self.0 % MILLION == 0 { (self.0 / MILLION) as f64 } else { self.0 as f64 / 1e6 }
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<u64> for Number {
    fn from(whole: u64) -> Number {
        Number(i128::from(whole) * MILLION)
    }
}

impl Sub for Number {
    type Output = Number;
    fn sub(self, other: Number) -> Number {
        Number(self.0 - other.0)
    }
}

impl Add for Number {
    type Output = Number;
    fn add(self, other: Number) -> Number {
        Number(self.0 + other.0)
    }
}

impl Mul<u32> for Number {
    type Output = Number;
    fn mul(self, times: u32) -> Number {
        Number(self.0 * i128::from(times))
    }
}

impl Sum for Number {
    fn sum<I: Iterator<Item = Number>>(numbers: I) -> Number {
        numbers.fold(Number::default(), Add::add)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) = (self.0.unsigned_abs() / 1_000_000, self.0.unsigned_abs() % 1_000_000);
        if part == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{part:06}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_exact_where_a_double_is_not() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!((number("9007199254740993") - number("9007199254740992")).to_string(), "1");
        assert_eq!((number("18446744073709551615") - number("1")).to_string(), "18446744073709551614");
        assert_eq!((number("0.300001") - number("0.1")).to_string(), "0.200001");
        assert_eq!((number("1") - number("3.5")).to_string(), "-2.5");
        assert_eq!((number("1") - number("1")).to_string(), "0");
        assert_eq!(number("-0.5").as_f64().to_bits(), (-0.5f64).to_bits());
        assert_eq!(
            (number("9007199254740993").as_f64(), number("1.25").as_f64()),
            (9007199254740992.0, 1.25)
        );
        assert_eq!((number("1.5") + number("2.25")).to_string(), "3.75");
        assert_eq!((number("1.5") * 3).to_string(), "4.5");
        assert_eq!([number("1.5"), number("2"), number("-4")].into_iter().sum::<Number>(), number("-0.5"));
        assert_eq!(Number::from(7), number("7"));
        let signs = |text| (number(text).is_negative(), number(text).is_zero());
        assert_eq!([signs("-0.1"), signs("0"), signs("0.1")], [(true, false), (false, true), (false, false)]);
    }

    #[test]
    fn text_that_is_no_number_has_no_value() {
        for text in
            ["", "-", "ON", "1e3", "1.2.3", " 1", "+1", "0x10", ".5", "99999999999999999999999", "1,5"]
        {
            assert_eq!(Number::parse(text), None, "{text}");
        }
        assert!(Number::parse(&"9".repeat(21)).is_some() && Number::parse(&"9".repeat(22)).is_none());
        assert_eq!(Number::parse("1.23456789").map(|number| number.to_string()).as_deref(), Some("1.234567"));
    }
}
