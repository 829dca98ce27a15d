//! Exact numbers: 128 bits with a decimal point.

use std::cmp::Ordering;

/// The most digits after the decimal point, as for a DECIMAL.
pub(crate) const SCALE_MAX: u8 = 38;

/// `digits / 10^scale`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) digits: i128,
    pub(crate) scale: u8,
}

impl From<i128> for Number {
    fn from(digits: i128) -> Number {
        Number { digits, scale: 0 }
    }
}

impl From<bool> for Number {
    fn from(truth: bool) -> Number {
        Number::from(i128::from(truth))
    }
}

impl Number {
    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The number rounded to a whole one, as operations on bits need it.
    pub(crate) fn rounded(self) -> Option<i128> {
        let unit = 10i128.checked_pow(u32::from(self.scale))?;
        // A half goes away from 0.
        let half = unit / 2 * self.digits.signum();
        Some(self.digits.checked_add(half)? / unit)
    }

    fn at_scale(self, scale: u8) -> Option<i128> {
        self.digits.checked_mul(10i128.checked_pow(u32::from(scale.checked_sub(self.scale)?))?)
    }

    fn aligned(self, other: Number) -> Option<(i128, i128, u8)> {
        let scale = self.scale.max(other.scale);
        Some((self.at_scale(scale)?, other.at_scale(scale)?, scale))
    }

    pub(crate) fn compare(self, other: Number) -> Ordering {
        let scale = self.scale.max(other.scale);
        match (self.at_scale(scale), other.at_scale(scale)) {
            (Some(one), Some(two)) => one.cmp(&two),
            // A number that does not fit is farther from 0 than the other one, so its sign decides.
            (None, _) => self.digits.cmp(&0),
            (_, None) => 0.cmp(&other.digits),
        }
    }

    pub(crate) fn add(self, other: Number) -> Option<Number> {
        let (one, two, scale) = self.aligned(other)?;
        Some(Number { digits: one.checked_add(two)?, scale })
    }

    pub(crate) fn subtract(self, other: Number) -> Option<Number> {
        self.add(other.negated()?)
    }

    pub(crate) fn multiply(self, other: Number) -> Option<Number> {
        let scale = self.scale.checked_add(other.scale).filter(|scale| *scale <= SCALE_MAX)?;
        Some(Number { digits: self.digits.checked_mul(other.digits)?, scale })
    }

    /// The whole part of the quotient.
    pub(crate) fn divide(self, other: Number) -> Option<Number> {
        let (one, two, _) = self.aligned(other)?;
        one.checked_div(two).map(Number::from)
    }

    pub(crate) fn remainder(self, other: Number) -> Option<Number> {
        let (one, two, scale) = self.aligned(other)?;
        one.checked_rem(two).map(|digits| Number { digits, scale })
    }

    pub(crate) fn negated(self) -> Option<Number> {
        Some(Number { digits: self.digits.checked_neg()?, ..self })
    }

    pub(crate) fn power(self, exponent: Number) -> Option<Number> {
        let exponent = u32::try_from(exponent.rounded()?).ok()?;
        if exponent == 0 {
            return Some(Number::from(1));
        }
        let scale = u32::from(self.scale).checked_mul(exponent)?;
        let scale = u8::try_from(scale).ok().filter(|scale| *scale <= SCALE_MAX)?;
        Some(Number { digits: self.digits.checked_pow(exponent)?, scale })
    }

    /// The number in thousandths, rounded up.
    pub(crate) fn thousandths(self) -> Option<i128> {
        let unit = 10i128.checked_pow(u32::from(self.scale))?;
        let thousandths = self.digits.checked_mul(1000)?;
        Some(thousandths.div_euclid(unit) + i128::from(thousandths.rem_euclid(unit) > 0))
    }

    /// The number in decimal, with as many digits after the point as its scale says.
    pub(crate) fn text(self) -> String {
        if let (0, Ok(whole)) = (self.scale, i64::try_from(self.digits)) {
            return whole.to_string();
        }
        let (sign, digits) = (if self.digits < 0 { "-" } else { "" }, self.digits.unsigned_abs());
        let scale = usize::from(self.scale);
        let all = format!("{digits:0width$}", width = scale + 1);
        let (whole, behind) = all.split_at(all.len() - scale);
        if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{behind}") }
    }

    /// The number as the 64 bits that SQL's bit operators work on.
    pub(crate) fn bits(self) -> Option<u64> {
        let whole = self.rounded()?;
        let signed = i64::try_from(whole).ok().map(|value| u64::from_le_bytes(value.to_le_bytes()));
        signed.or_else(|| u64::try_from(whole).ok())
    }
}
