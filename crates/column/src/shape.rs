//! Texts that are numbers: how they are written, and how they become an integer and the same bytes again.

use crate::wire::{Cursor, put_bytes};
use crate::{Error, Texts};

/// How a column writes its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `-12`: no leading zeros, no plus.
    Plain,
    /// `007`: always this many digits.
    Padded(u8),
    /// `-3.70`: this many digits after the point.
    Decimal(u8),
    /// `2026-11-22`
    Date,
    /// `2026-11-22 23:59:59.000`: the byte between date and time, and the number of digits after the point.
    Moment(u8, u8),
}

/// A number with this many digits always fits into an i64.
const DIGITS_MAX: usize = 18;
/// Digits after the second.
const FRACTION_MAX: u8 = 6;
/// The longest text of a number, with sign and point.
pub(crate) const PRINTED_MAX: usize = 40;
/// The most bytes around a number that are the same in all rows.
const AROUND_MAX: usize = 64;
/// Texts examined for a guess.
const LOOKED_AT: usize = 256;

impl Shape {
    /// The shape of most of these texts; none when most are not numbers.
    pub(crate) fn guess(texts: Texts<'_>) -> Option<Shape> {
        let step = (texts.len() / LOOKED_AT).max(1);
        let all: Vec<&[u8]> = (0..texts.len()).step_by(step).map(|at| texts.get(at)).collect();
        // Many rows without a number (NULL or empty) must not hide how the others are written.
        let mut sample: Vec<&[u8]> =
            all.iter().copied().filter(|text| text.iter().any(u8::is_ascii_digit)).collect();
        if sample.len() * 10 < all.len() * 4 {
            return None;
        }
        // The first one may be the column's name.
        if texts.len() > 1 && sample.len() > 1 {
            sample.remove(0);
        }
        let (prefix, suffix) = around(&sample);
        let inner: Vec<&[u8]> = sample.iter().filter_map(|text| within(text, &prefix, &suffix)).collect();
        let mut best = (0, Kind::Plain);
        for kind in kinds(&inner) {
            let good = inner.iter().filter(|text| kind.parse(text).is_some()).count();
            if good > best.0 {
                best = (good, kind);
            }
        }
        (best.0 * 10 >= sample.len() * 7).then_some(Shape { prefix, suffix, kind: best.1 })
    }

    /// Parses a text into its number; none when [`Shape::print`] would not return the same bytes.
    pub(crate) fn parse(&self, text: &[u8]) -> Option<i64> {
        if self.prefix.is_empty() && self.suffix.is_empty() {
            return self.kind.parse(text);
        }
        self.kind.parse(within(text, &self.prefix, &self.suffix)?)
    }

    /// Appends the text of a number.
    pub(crate) fn print(&self, value: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        self.kind.print(value, out);
        out.extend_from_slice(&self.suffix);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, first, second) = match self.kind {
            Kind::Plain => (0, 0, 0),
            Kind::Padded(width) => (1, width, 0),
            Kind::Decimal(scale) => (2, scale, 0),
            Kind::Date => (3, 0, 0),
            Kind::Moment(between, digits) => (4, between, digits),
        };
        out.extend([kind, first, second]);
        put_bytes(out, &self.prefix);
        put_bytes(out, &self.suffix);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Shape, Error> {
        let wrong = Err(Error::Corrupt("numbers are written in a way that this version does not know"));
        let kind = match cursor.take(3)? {
            [0, _, _] => Kind::Plain,
            [1, width, _] if usize::from(*width) <= DIGITS_MAX => Kind::Padded(*width),
            [2, scale, _] if usize::from(*scale) <= DIGITS_MAX => Kind::Decimal(*scale),
            [3, _, _] => Kind::Date,
            [4, between, digits] if *digits <= FRACTION_MAX => Kind::Moment(*between, *digits),
            _ => return wrong,
        };
        let (prefix, suffix) = (cursor.bytes()?.to_vec(), cursor.bytes()?.to_vec());
        if prefix.len() > AROUND_MAX || suffix.len() > AROUND_MAX {
            return wrong;
        }
        Ok(Shape { prefix, suffix, kind })
    }
}

/// The shapes that these texts could have.
fn kinds(texts: &[&[u8]]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Plain];
    let Some(text) = texts.get(texts.len() / 2) else { return kinds };
    if let Some(point) = text.iter().position(|byte| *byte == b'.')
        && let Ok(scale) = u8::try_from(text.len() - point - 1)
        && (1..=17).contains(&scale)
    {
        kinds.push(Kind::Decimal(scale));
    }
    if text.len() == DATE_LEN {
        kinds.push(Kind::Date);
    }
    if let (Some(between), true) = (text.get(DATE_LEN), text.len() >= MOMENT_LEN) {
        let digits = text.len().saturating_sub(MOMENT_LEN + 1);
        if let Some(digits) = u8::try_from(digits).ok().filter(|digits| *digits <= FRACTION_MAX) {
            kinds.push(Kind::Moment(*between, digits));
        }
    }
    if (2..=DIGITS_MAX).contains(&text.len()) {
        kinds.push(Kind::Padded(u8::try_from(text.len()).unwrap_or(0)));
    }
    kinds
}

/// The bytes that all texts share before and after their digits.
fn around(texts: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let Some(first) = texts.first() else { return (Vec::new(), Vec::new()) };
    let digit = |byte: &u8| byte.is_ascii_digit();
    let mut before = first.iter().position(digit).unwrap_or(0).min(AROUND_MAX);
    let mut after = first.iter().rev().position(digit).unwrap_or(0).min(AROUND_MAX);
    // A minus sign belongs to the number.
    before -= usize::from(before > 0 && first.get(before - 1) == Some(&b'-'));
    let (prefix, suffix) = (&first[..before], &first[first.len() - after..]);
    // Most of them are enough here; the guess itself counts how many fit.
    let share = |fits: &dyn Fn(&&&[u8]) -> bool| texts.iter().filter(fits).count() * 10 >= texts.len() * 7;
    if !share(&|text| text.starts_with(prefix)) {
        before = 0;
    }
    if !share(&|text| text.ends_with(suffix)) {
        after = 0;
    }
    (first[..before].to_vec(), first[first.len() - after..].to_vec())
}

fn within<'t>(text: &'t [u8], prefix: &[u8], suffix: &[u8]) -> Option<&'t [u8]> {
    text.strip_prefix(prefix)?.strip_suffix(suffix)
}

const DATE_LEN: usize = 10;
const MOMENT_LEN: usize = 19;
const DAY_S: i64 = 86_400;

impl Kind {
    fn parse(self, text: &[u8]) -> Option<i64> {
        match self {
            Kind::Plain => plain(text),
            Kind::Padded(width) => (text.len() == usize::from(width)).then(|| digits(text))?,
            Kind::Decimal(scale) => decimal(text, usize::from(scale)),
            Kind::Date => date(text),
            Kind::Moment(between, digits) => moment(text, between, digits),
        }
    }

    fn print(self, value: i64, out: &mut Vec<u8>) {
        match self {
            Kind::Plain => signed(value, 1, out),
            Kind::Padded(width) => signed(value, usize::from(width), out),
            Kind::Decimal(scale) => {
                let scale = usize::from(scale);
                signed(value, scale + 1, out);
                let at = out.len() - scale;
                out.push(0);
                let last = out.len() - 1;
                out.copy_within(at..last, at + 1);
                out[at] = b'.';
            }
            Kind::Date => print_date(value, out),
            Kind::Moment(between, digits) => {
                let unit = 10_i64.pow(u32::from(digits));
                let second = value.div_euclid(unit);
                print_date(second.div_euclid(DAY_S), out);
                let second_of_day = second.rem_euclid(DAY_S);
                out.push(between);
                for (part, sign) in [
                    (second_of_day / 3600, b':'),
                    (second_of_day / 60 % 60, b':'),
                    (second_of_day % 60, b'.'),
                ] {
                    signed(part, 2, out);
                    out.push(sign);
                }
                out.pop();
                if digits > 0 {
                    out.push(b'.');
                    signed(value.rem_euclid(unit), usize::from(digits), out);
                }
            }
        }
    }
}

/// Parses a text of digits only.
fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let (mut value, mut wrong) = (0_i64, 0_u8);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        wrong |= u8::from(digit > 9);
        // Other bytes may overflow; the check below refuses them.
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
    }
    (wrong == 0).then_some(value)
}

fn plain(text: &[u8]) -> Option<i64> {
    let (negative, number) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match number {
        [b'0'] if !negative => Some(0),
        [b'0', ..] => None,
        _ => digits(number).map(|value| if negative { -value } else { value }),
    }
}

fn decimal(text: &[u8], scale: usize) -> Option<i64> {
    let (negative, number) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let whole_len = number.len().checked_sub(scale + 1).filter(|len| *len > 0)?;
    if whole_len + scale > DIGITS_MAX || number[whole_len] != b'.' || (whole_len > 1 && number[0] == b'0') {
        return None;
    }
    let whole = digits(&number[..whole_len])?;
    let value = whole * 10_i64.pow(u32::try_from(scale).ok()?) + digits(&number[whole_len + 1..])?;
    match (negative, value) {
        (true, 0) => None,
        (true, _) => Some(-value),
        _ => Some(value),
    }
}

fn two(text: &[u8], at: usize) -> Option<i64> {
    digits(text.get(at..at + 2)?)
}

/// Days since 1970-01-01, for an existing day. After Howard Hinnant's days_from_civil.
fn date(text: &[u8]) -> Option<i64> {
    if text.len() != DATE_LEN || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, two(text, 5)?, two(text, 8)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

fn print_date(days: i64, out: &mut Vec<u8>) {
    // A parsed date is always within these bounds. A forged one may be anything, but must not cause a panic.
    let days = days.clamp(-800_000, 3_000_000) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    signed(year, 4, out);
    out.push(b'-');
    signed(month, 2, out);
    out.push(b'-');
    signed(day_of_year - (153 * shifted + 2) / 5 + 1, 2, out);
}

fn moment(text: &[u8], between: u8, fraction: u8) -> Option<i64> {
    let wanted = MOMENT_LEN + usize::from(fraction) + usize::from(fraction > 0);
    if text.len() != wanted || text[10] != between || text[13] != b':' || text[16] != b':' {
        return None;
    }
    let (hour, minute, second) = (two(text, 11)?, two(text, 14)?, two(text, 17)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let whole = date(&text[..DATE_LEN])? * DAY_S + hour * 3600 + minute * 60 + second;
    if fraction == 0 {
        return Some(whole);
    }
    let part = (text[MOMENT_LEN] == b'.').then(|| digits(&text[MOMENT_LEN + 1..]))??;
    Some(whole * 10_i64.pow(u32::from(fraction)) + part)
}

#[expect(clippy::cast_possible_truncation, reason = "digits")]
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// Appends a number with at least `width` digits.
#[expect(clippy::cast_possible_truncation, reason = "what is left is below a hundred")]
fn signed(value: i64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = [b'0'; PRINTED_MAX];
    let mut rest = value.unsigned_abs();
    let mut at = PRINTED_MAX;
    while rest >= 100 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    at -= 2;
    buffer[at..at + 2].copy_from_slice(&PAIRS[rest as usize]);
    at += usize::from(rest < 10);
    at = at.min(PRINTED_MAX - width);
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    out.extend_from_slice(&buffer[at..]);
}

#[cfg(test)]
mod tests;
