//! Classifies a single value.

use crate::date_time::{self, DateOrder};

/// The narrowest class of a value, with what its column must remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An integer in canonical form.
    Int {
        negative: bool,
        magnitude: u64,
    },
    /// An integer in canonical form whose absolute value is above `u64::MAX`.
    BigInt {
        digits: usize,
    },
    /// Digits with a point. `whole` digits before it (a lone zero counts as none), `scale` after it,
    /// `significant` from the first that is not zero.
    Decimal {
        whole: usize,
        scale: usize,
        significant: usize,
    },
    /// A number that only a DOUBLE can hold.
    Float,
    Date,
    DateTime {
        fraction: usize,
        utc: bool,
    },
    Time {
        fraction: usize,
    },
    Boolean,
    /// A number with a decimal comma; `thousands`: the comma could also be a thousands separator.
    Comma {
        whole: usize,
        scale: usize,
        thousands: bool,
    },
    /// A date with the year at the end, and the orders of day and month in which it is valid.
    LocalDate {
        dmy: bool,
        mdy: bool,
        separator: u8,
        timed: bool,
        fraction: usize,
    },
    Text,
}

/// A double keeps decimal numbers with up to this many significant digits: programs print no more to identify
/// a double exactly.
pub(crate) const DOUBLE_DIGITS_MAX: usize = 17;

/// Classifies a value that is not NULL. The rules are on [`ColumnStats`](super::ColumnStats).
#[inline]
pub(crate) fn classify(bytes: &[u8]) -> Value {
    match bytes.first() {
        Some(b'0'..=b'9') => number_or_time(bytes),
        Some(b'-') => negative(&bytes[1..]),
        Some(b'.') => decimal(bytes, 0),
        Some(b't' | b'T' | b'f' | b'F') if is_boolean(bytes) => Value::Boolean,
        _ => Value::Text,
    }
}

#[inline]
fn number_or_time(bytes: &[u8]) -> Value {
    let (magnitude, digits) = leading_digits(bytes);
    match bytes.get(digits) {
        None => integer(bytes, magnitude, false),
        Some(b'.' | b'e' | b'E') => match decimal(bytes, digits) {
            Value::Text => local_date(bytes, comma(bytes)),
            number => number,
        },
        Some(b'-') if digits == 4 => date_or_datetime(bytes),
        Some(b':') => time(bytes),
        Some(b'/' | b'-') => local_date(bytes, Value::Text),
        Some(b',') => comma(bytes),
        Some(_) => Value::Text,
    }
}

#[inline]
fn negative(bytes: &[u8]) -> Value {
    let (magnitude, digits) = leading_digits(bytes);
    match bytes.get(digits) {
        None if digits == 0 || bytes[0] == b'0' => Value::Text,
        None => integer(bytes, magnitude, true),
        Some(b'.' | b'e' | b'E') => match decimal(bytes, digits) {
            // Only a double has a negative zero.
            Value::Decimal { significant: 0, .. } => Value::Float,
            Value::Text => comma(bytes),
            other => other,
        },
        Some(b',') => comma(bytes),
        // TIME has no negative zero.
        Some(b':') if bytes.iter().any(|byte| matches!(byte, b'1'..=b'9')) => time(bytes),
        Some(_) => Value::Text,
    }
}

/// Reads a number with a decimal comma, without its sign.
fn comma(bytes: &[u8]) -> Value {
    match date_time::comma(bytes) {
        Some((whole, scale, thousands)) => Value::Comma { whole, scale, thousands },
        None => Value::Text,
    }
}

/// A date with the year at the end, or `otherwise`.
fn local_date(bytes: &[u8], otherwise: Value) -> Value {
    let Some(date) = date_time::local(bytes) else { return otherwise };
    let (dmy, mdy) = (date.is(DateOrder::Dmy), date.is(DateOrder::Mdy));
    if !dmy && !mdy {
        return otherwise;
    }
    Value::LocalDate {
        dmy,
        mdy,
        separator: date.separator,
        timed: date.clock.is_some(),
        fraction: date.fraction,
    }
}

/// The value of the digits at the beginning of a slice, and their number. The value is `None` above
/// `u64::MAX`.
#[inline]
fn leading_digits(bytes: &[u8]) -> (Option<u64>, usize) {
    let (mut value, mut count) = (0u64, 0);
    // Nineteen digits always fit.
    for &byte in bytes.iter().take(19) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (Some(value), count);
        }
        value = value * 10 + u64::from(digit);
        count += 1;
    }
    let mut value = Some(value);
    for &byte in &bytes[count..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(digit)));
        count += 1;
    }
    (value, count)
}

#[inline]
fn integer(digits: &[u8], magnitude: Option<u64>, negative: bool) -> Value {
    if digits[0] == b'0' && digits.len() > 1 {
        return Value::Text;
    }
    match magnitude {
        Some(magnitude) => Value::Int { negative, magnitude },
        None => Value::BigInt { digits: digits.len() },
    }
}

/// Reads a number without its sign whose first `digits` bytes are digits and which is not an integer.
fn decimal(bytes: &[u8], digits: usize) -> Value {
    if digits > 1 && bytes[0] == b'0' {
        return Value::Text;
    }
    let behind_point = match bytes.get(digits) {
        Some(b'.') => digits + 1,
        _ => digits,
    };
    let scale = bytes[behind_point..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits + scale == 0 {
        return Value::Text;
    }
    let (whole, part) = (&bytes[..digits], &bytes[behind_point..behind_point + scale]);
    let significant = whole.iter().chain(part).skip_while(|&&byte| byte == b'0').count();
    match bytes.get(behind_point + scale) {
        None => {
            let whole = if whole == b"0" { 0 } else { digits };
            Value::Decimal { whole, scale, significant }
        }
        Some(b'e' | b'E') if significant <= DOUBLE_DIGITS_MAX => float(bytes, significant),
        Some(_) => Value::Text,
    }
}

/// Reads a number with an exponent: it must be well-formed, and neither overflow nor underflow.
fn float(bytes: &[u8], significant: usize) -> Value {
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
    match parsed {
        Some(value) if value.is_finite() && ((value == 0.0) == (significant == 0)) => Value::Float,
        _ => Value::Text,
    }
}

fn is_boolean(bytes: &[u8]) -> bool {
    matches!(bytes, b"t" | b"f")
        || bytes.eq_ignore_ascii_case(b"true")
        || bytes.eq_ignore_ascii_case(b"false")
}

/// The number that two digits make.
#[inline]
fn two_digits(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
        }
        _ => None,
    }
}

/// Reads bytes that begin with four digits and a dash.
fn date_or_datetime(bytes: &[u8]) -> Value {
    let Some((day, behind)) = bytes.split_at_checked(10) else { return Value::Text };
    if !is_date(day) {
        return Value::Text;
    }
    let time = match behind {
        [] => return Value::Date,
        [b' ' | b'T', time @ ..] => time,
        _ => return Value::Text,
    };
    let (time, utc) = match date_time::offset(time) {
        // A time that is outside the calendar in UTC is not valid.
        Some((minutes, _)) if minutes != 0 && date_time::write_utc(bytes, &mut Vec::new()).is_none() => {
            return Value::Text;
        }
        Some((_, length)) => (&time[..time.len() - length], true),
        None => (time, false),
    };
    let Some((clock, fraction)) = time.split_at_checked(8) else { return Value::Text };
    let hour = two_digits(&clock[..2]);
    match (hour, minutes_and_seconds(&clock[2..]), fraction_digits(fraction)) {
        (Some(0..=23), true, Some(fraction)) => Value::DateTime { fraction, utc },
        _ => Value::Text,
    }
}

/// Whether ten bytes, of which the first five are four digits and a dash, are a date.
fn is_date(bytes: &[u8]) -> bool {
    let parts = (
        two_digits(&bytes[..2]),
        two_digits(&bytes[2..4]),
        two_digits(&bytes[5..7]),
        two_digits(&bytes[8..]),
    );
    let (Some(century), Some(rest), Some(month), Some(day)) = parts else { return false };
    bytes[7] == b'-' && date_time::is_day(century * 100 + rest, month, day)
}

/// `:MM:SS`.
fn minutes_and_seconds(bytes: &[u8]) -> bool {
    bytes.len() == 6
        && bytes[0] == b':'
        && bytes[3] == b':'
        && matches!(two_digits(&bytes[1..3]), Some(0..=59))
        && matches!(two_digits(&bytes[4..]), Some(0..=59))
}

/// The number of digits in a fraction of a second: none for no bytes, else one to six after a point.
fn fraction_digits(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [] => Some(0),
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
            Some(digits.len())
        }
        _ => None,
    }
}

/// Reads `HH:MM:SS` or `HHH:MM:SS` with a fraction, without a sign, up to 838:59:59, the limit of the type
/// TIME.
fn time(bytes: &[u8]) -> Value {
    let hours = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let in_range = match hours {
        2 => true,
        3 => bytes[0] != b'0' && &bytes[..3] <= b"838",
        _ => false,
    };
    let Some((clock, fraction)) = bytes[hours..].split_at_checked(6) else { return Value::Text };
    let Some(digits) = fraction_digits(fraction) else { return Value::Text };
    let over =
        &bytes[..hours] == b"838" && clock == b":59:59" && fraction.iter().any(|b| matches!(b, b'1'..=b'9'));
    if in_range && minutes_and_seconds(clock) && !over {
        Value::Time { fraction: digits }
    } else {
        Value::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical_or_text() {
        let int = |negative, magnitude| Value::Int { negative, magnitude };
        assert_eq!(classify(b"0"), int(false, 0));
        assert_eq!(classify(b"-128"), int(true, 128));
        assert_eq!(classify(b"18446744073709551615"), int(false, u64::MAX));
        assert_eq!(classify(b"18446744073709551616"), Value::BigInt { digits: 20 });
        for text in
            ["007", "+7", "-0", "-", "", "-01", " 1", "1 ", "1,000,000", "0x10", "00000000000000000000001"]
        {
            assert_eq!(classify(text.as_bytes()), Value::Text, "{text}");
        }
    }

    #[test]
    fn decimals_keep_every_digit() {
        let decimal = |whole, scale, significant| Value::Decimal { whole, scale, significant };
        assert_eq!(classify(b"12.50"), decimal(2, 2, 4));
        assert_eq!(classify(b"0.05"), decimal(0, 2, 1));
        assert_eq!(classify(b".5"), decimal(0, 1, 1));
        assert_eq!(classify(b"-.5"), decimal(0, 1, 1));
        assert_eq!(classify(b"1."), decimal(1, 0, 1));
        assert_eq!(classify(b"-0.0"), Value::Float);
        for text in [".", "-.", "00.5", "1.2.3", "1.5x", "+1.5", "1.-5", "127.0.0.1"] {
            assert_eq!(classify(text.as_bytes()), Value::Text, "{text}");
        }
    }

    #[test]
    fn exponents_are_doubles_only_if_a_double_holds_them() {
        for text in ["1e5", "-1.5E-7", "1.e3", ".5e+2", "0e0", "-0e0", "1.7976931348623157e308"] {
            assert_eq!(classify(text.as_bytes()), Value::Float, "{text}");
        }
        for text in
            ["1e400", "1e-400", "1.23456789012345678e3", "1e", "e5", "1e5x", "01e5", "nan", "inf", "1e5.5"]
        {
            assert_eq!(classify(text.as_bytes()), Value::Text, "{text}");
        }
    }

    #[test]
    fn dates_are_on_the_calendar() {
        assert_eq!(classify(b"2024-02-29"), Value::Date);
        assert_eq!(classify(b"2024-02-29 23:59:59"), Value::DateTime { fraction: 0, utc: false });
        assert_eq!(classify(b"2024-02-29T00:00:00.123Z"), Value::DateTime { fraction: 3, utc: true });
        assert_eq!(classify(b"2024-02-29 00:00:00.5+05:30"), Value::DateTime { fraction: 1, utc: true });
        for text in [
            "2023-02-29",
            "1900-02-29",
            "0000-00-00",
            "0999-01-01",
            "2024-13-01",
            "2024-1-1",
            "2024-01-01 ",
            "2024-01-01 24:00:00",
            "2024-01-01 10:00",
            "2024-01-01 10:00:60",
            "2024-01-01 10:00:00.",
            "2024-01-01 10:00:00.1234567",
            "2024-01-01T10:00:00+1",
            "2024-01-01T10:00:00+16:00",
            "2024-01-01T10:00+01:00",
            "9999-12-31T23:00:00-02:00",
            "2024-01-01Z",
            "2024-01-0",
            "2024-",
        ] {
            assert_eq!(classify(text.as_bytes()), Value::Text, "{text}");
        }
    }

    #[test]
    fn times_are_within_the_type() {
        assert_eq!(classify(b"00:00:00"), Value::Time { fraction: 0 });
        assert_eq!(classify(b"-838:59:59.0"), Value::Time { fraction: 1 });
        for text in [
            "838:59:59.1",
            "839:00:00",
            "1:00:00",
            "012:00:00",
            "-00:00:00",
            "10:00",
            "10:60:00",
            "10:00:00Z",
        ] {
            assert_eq!(classify(text.as_bytes()), Value::Text, "{text}");
        }
    }

    #[test]
    fn booleans_are_words() {
        for text in ["true", "FALSE", "True", "t", "f"] {
            assert_eq!(classify(text.as_bytes()), Value::Boolean, "{text}");
        }
        for text in ["T", "F", "yes", "truer", "fal"] {
            assert_eq!(classify(text.as_bytes()), Value::Text, "{text}");
        }
    }
}
