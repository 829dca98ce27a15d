//! Integers and decimals: text with a fixed number of digits behind the point.

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) store: Store,
    /// The digits of a DECIMAL; `None` for an integer.
    pub(crate) decimals: Option<u8>,
    /// Digits behind the point.
    pub(crate) scale: u8,
    /// Digits before the point, at least.
    pub(crate) pad: u8,
}

/// How a number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Int32,
    Int64,
    /// As a number of that many bytes, the highest first.
    Fixed(u8),
}

/// So many digits are less than 2^63.
const SHORT_DIGITS: usize = 18;

/// The powers of ten that are less than 2^127.
const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The greatest numbers of so many digits, as far as 64 bits hold them.
const GREATEST: [i64; 39] = {
    let mut greatest = [i64::MAX; 39];
    let (mut at, mut power) = (0, 1_i64);
    while at <= SHORT_DIGITS {
        greatest[at] = power - 1;
        power = power.saturating_mul(10);
        at += 1;
    }
    greatest
};

impl Number {
    /// The most digits that every reader takes.
    pub(crate) const DIGITS_MAX: u8 = 38;

    /// A DECIMAL, stored in as few bytes as it needs, as the format wants it.
    pub(crate) fn decimal(precision: u8, scale: u8, pad: u8) -> Number {
        let store = match precision {
            ..=9 => Store::Int32,
            10..=18 => Store::Int64,
            _ => Store::Fixed(decimal_bytes(precision)),
        };
        Number { store, decimals: Some(precision.max(1)), scale, pad }
    }

    /// Whether a text is negative, and its digits before and behind the point, if it looks like one that
    /// [`Number::print`] gives.
    fn parts(self, text: &[u8]) -> Option<(bool, &[u8], &[u8])> {
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let scale = usize::from(self.scale);
        let (whole, fraction) = match scale {
            0 => (text, &[][..]),
            _ => {
                let (whole, rest) = text.split_at_checked(text.len().checked_sub(scale + 1)?)?;
                (whole, rest.strip_prefix(b".")?)
            }
        };
        let least = usize::from(self.pad.max(1));
        let is_padded = whole.len() == least || whole.len() > least && !whole.starts_with(b"0");
        is_padded.then_some((is_negative, whole, fraction))
    }

    /// The number in a text, without its point, if the text is the one that [`Number::print`] gives it.
    pub(crate) fn parse(self, text: &[u8]) -> Option<i128> {
        let (is_negative, whole, fraction) = self.parts(text)?;
        // Of 38 digits behind the point there is a zero before it.
        let whole = &whole[whole.iter().take_while(|digit| **digit == b'0').count()..];
        // 38 digits are less than 2^127.
        if whole.len() + fraction.len() > usize::from(Number::DIGITS_MAX) {
            return None;
        }
        let magnitude = match whole.len() + fraction.len() {
            ..=SHORT_DIGITS => i128::from(short(whole, fraction)?),
            _ => long(whole, fraction)?,
        };
        if is_negative && magnitude == 0 {
            return None;
        }
        let number = if is_negative { -magnitude } else { magnitude };
        let fits = match (self.store, self.decimals) {
            (_, Some(precision)) => {
                POWERS.get(usize::from(precision)).is_some_and(|limit| magnitude < *limit)
            }
            (Store::Int32, _) => i32::try_from(number).is_ok(),
            (Store::Int64, _) => i64::try_from(number).is_ok(),
            (Store::Fixed(_), None) => false,
        };
        fits.then_some(number)
    }

    /// The same for one that is stored in at most 64 bits. Few have so many digits that 128 are needed on the
    /// way.
    pub(crate) fn parse_short(self, text: &[u8]) -> Option<i64> {
        let (is_negative, whole, fraction) = self.parts(text)?;
        if whole.len() + fraction.len() > SHORT_DIGITS {
            return i64::try_from(self.parse(text)?).ok();
        }
        let magnitude = i64::try_from(short(whole, fraction)?).ok()?;
        let greatest = match (self.store, self.decimals) {
            (_, Some(precision)) => *GREATEST.get(usize::from(precision))?,
            (Store::Int32, _) => i64::from(i32::MAX) + i64::from(is_negative),
            (Store::Int64, _) => i64::MAX,
            (Store::Fixed(_), None) => return None,
        };
        if magnitude > greatest || is_negative && magnitude == 0 {
            return None;
        }
        Some(if is_negative { -magnitude } else { magnitude })
    }

    /// Prints a number.
    pub(crate) fn print(self, number: i128, out: &mut Vec<u8>) {
        let mut buffer = itoa::Buffer::new();
        let digits = match u64::try_from(number.unsigned_abs()) {
            Ok(magnitude) => buffer.format(magnitude),
            Err(_) => buffer.format(number.unsigned_abs()),
        };
        let scale = usize::from(self.scale);
        let before_point = usize::from(self.pad.max(1)).max(digits.len().saturating_sub(scale));
        let zeros = before_point + scale - digits.len();
        let (whole, fraction) = digits.as_bytes().split_at(before_point.saturating_sub(zeros));
        if number < 0 {
            out.push(b'-');
        }
        out.extend(std::iter::repeat_n(b'0', zeros.min(before_point)));
        out.extend_from_slice(whole);
        if scale > 0 {
            out.push(b'.');
            out.extend(std::iter::repeat_n(b'0', zeros.saturating_sub(before_point)));
            out.extend_from_slice(fraction);
        }
    }
}

/// A number of at most so many digits.
fn short(whole: &[u8], fraction: &[u8]) -> Option<u64> {
    append(append(0, whole)?, fraction)
}

/// A number with more digits behind it.
fn append(number: u64, digits: &[u8]) -> Option<u64> {
    let (eights, rest) = digits.as_chunks();
    let number =
        eights.iter().try_fold(number, |number, digits| Some(number * 100_000_000 + eight(*digits)?))?;
    rest.iter().try_fold(number, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}

/// The number of eight digits, which are looked at together: neighbours are joined to pairs, then to fours.
fn eight(digits: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    let text = u64::from_le_bytes(digits);
    // A byte of a digit has 3 in its upper half, also when 6 is added to its lower one.
    if text & HIGH != ZEROS || text.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let values = text - ZEROS;
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours & 0xffff) * 10_000 + (fours >> 32))
}

fn long(whole: &[u8], fraction: &[u8]) -> Option<i128> {
    whole.iter().chain(fraction).try_fold(0_i128, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + i128::from(digit))
    })
}

/// The fewest bytes in which all numbers of that many digits fit, with their sign.
fn decimal_bytes(precision: u8) -> u8 {
    let greatest = 10_i128.checked_pow(precision.into()).map_or(i128::MAX, |power| power - 1);
    let bits = 128 - greatest.leading_zeros() + 1;
    u8::try_from(bits.div_ceil(8)).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: Number, text: &str) -> Option<i128> {
        let parsed = number.parse(text.as_bytes());
        if !matches!(number.store, Store::Fixed(_)) {
            assert_eq!(number.parse_short(text.as_bytes()).map(i128::from), parsed, "{number:?} {text}");
        }
        let parsed = parsed?;
        let mut out = Vec::new();
        number.print(parsed, &mut out);
        assert_eq!(out, text.as_bytes());
        Some(parsed)
    }

    /// What is parsed is not printed to be compared, so each text must be that of its number.
    #[test]
    fn only_the_text_that_a_number_is_printed_as_is_one() {
        let int = |pad| Number { store: Store::Int32, decimals: None, scale: 0, pad };
        let kinds =
            [int(1), int(3), Number::decimal(3, 1, 1), Number::decimal(4, 2, 3), Number::decimal(2, 2, 1)];
        let mut texts = vec![Vec::new()];
        for _ in 0..6 {
            let longer =
                texts.iter().flat_map(|text| b"-.0197x".map(|byte| [text.as_slice(), &[byte]].concat()));
            let longer: Vec<Vec<u8>> = longer.collect();
            for (kind, text) in kinds.iter().flat_map(|kind| longer.iter().map(move |text| (kind, text))) {
                let mut out = Vec::new();
                let parsed = kind.parse(text);
                assert_eq!(kind.parse_short(text).map(i128::from), parsed, "{kind:?} {text:?}");
                parsed.into_iter().for_each(|number| kind.print(number, &mut out));
                assert!(out.is_empty() || out == *text, "{kind:?} {}", String::from_utf8_lossy(text));
            }
            texts = longer;
        }
        for kind in kinds {
            for number in -99..=99 {
                let mut out = Vec::new();
                kind.print(number, &mut out);
                assert_eq!(kind.parse(&out), Some(number), "{kind:?} {}", String::from_utf8_lossy(&out));
            }
        }
    }

    #[test]
    fn eight_digits_are_a_number_and_no_other_bytes_are() {
        let text = *b"90817263";
        assert_eq!(eight(text), Some(90_817_263));
        for (at, byte) in (0..8).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
            let mut text = text;
            text[at] = byte;
            let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            assert_eq!(eight(text), number.filter(|_| byte.is_ascii_digit()), "{at} {byte}");
        }
        assert_eq!(short(b"1234567890", b"12345678"), Some(123_456_789_012_345_678));
        assert_eq!(short(b"", b"999999999999999999"), Some(999_999_999_999_999_999));
    }

    #[test]
    fn integers_go_there_and_back() {
        let int = |store, pad| Number { store, decimals: None, scale: 0, pad };
        for (number, text, expected) in [
            (int(Store::Int32, 1), "0", Some(0)),
            (int(Store::Int32, 1), "-2147483648", Some(-2_147_483_648)),
            (int(Store::Int32, 1), "2147483648", None),
            (int(Store::Int64, 1), "-9223372036854775808", Some(i64::MIN.into())),
            (int(Store::Int64, 1), "9223372036854775808", None),
            (int(Store::Int64, 1), "007", None),
            (int(Store::Int64, 5), "00042", Some(42)),
            (int(Store::Int64, 5), "123456", Some(123_456)),
            (int(Store::Int64, 5), "042", None),
            (int(Store::Int32, 4), "0000", Some(0)),
            (int(Store::Int64, 1), "-0", None),
            (int(Store::Int64, 1), "", None),
            (int(Store::Int64, 1), "-", None),
            (int(Store::Int64, 1), "1x", None),
            (int(Store::Int64, 1), "+1", None),
            (Number::decimal(20, 0, 1), "18446744073709551615", Some(u64::MAX.into())),
            (Number::decimal(20, 0, 20), "00000000000000000007", Some(7)),
        ] {
            assert_eq!(round(number, text), expected, "{number:?} {text}");
        }
    }

    #[test]
    fn decimals_go_there_and_back() {
        let nines = "9".repeat(38);
        for (number, text, expected) in [
            (Number::decimal(10, 2, 1), "12.50", Some(1250)),
            (Number::decimal(10, 2, 1), "-0.05", Some(-5)),
            (Number::decimal(10, 2, 1), "0.00", Some(0)),
            (Number::decimal(10, 2, 1), "12.5", None),
            (Number::decimal(10, 2, 1), "12", None),
            (Number::decimal(10, 2, 1), ".50", None),
            (Number::decimal(10, 2, 1), "-0.00", None),
            (Number::decimal(10, 2, 1), "123456789.00", None),
            (Number::decimal(10, 2, 8), "00000012.50", Some(1250)),
            (Number::decimal(5, 5, 1), "-0.12345", Some(-12_345)),
            (Number::decimal(38, 0, 1), &nines, nines.parse().ok()),
            (Number::decimal(38, 38, 1), &format!("-0.{nines}"), format!("-{nines}").parse().ok()),
            (Number::decimal(38, 38, 1), &format!("0.{}", "0".repeat(38)), Some(0)),
            (
                Number::decimal(38, 30, 1),
                "-99999999.000000000000000000000000000001",
                Some(-99_999_999_000_000_000_000_000_000_000_000_000_001),
            ),
        ] {
            assert_eq!(round(number, text), expected, "{number:?} {text}");
        }
        let bytes: Vec<u8> = [19, 20, 21, 22, 28, 36, 38].into_iter().map(decimal_bytes).collect();
        assert_eq!(bytes, [9, 9, 9, 10, 12, 16, 16]);
    }
}
