//! Whether a column stores a value exactly as written. Servers silently round, truncate and reinterpret some
//! texts: 5.4 becomes 5 in an INT, the fraction of a second goes in a DATETIME, 1 is the first member of an
//! ENUM.

use serde::{Deserialize, Serialize};

/// What a column would change in silence, by its type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exact {
    /// Nothing: of all that it changes the server says so.
    #[default]
    Server,
    /// A fraction.
    Integer,
    /// Digits.
    Real {
        /// Whether it is a FLOAT.
        single: bool,
        /// The digits behind the point, if it has a fixed number of them.
        scale: Option<u8>,
    },
    /// A year of two digits.
    Year,
    /// A year of two digits, and a fraction of a second.
    Date {
        /// Digits of the fraction.
        fraction: u8,
    },
    /// A time without colons, and a fraction of a second.
    Time {
        /// Digits of the fraction.
        fraction: u8,
    },
    /// A number is the number of a member, if none has that name.
    Members {
        /// The members whose names are numbers.
        numbers: Vec<String>,
    },
}

impl Exact {
    /// For a column of this type, as SQL: `int(11) unsigned`, `FLOAT(5,2) NOT NULL`, `enum('a','b')`.
    #[must_use]
    pub fn of(column_type: &str) -> Exact {
        let sql = column_type.trim_start();
        let end = sql.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(sql.len());
        let (word, rest) = sql.split_at(end);
        let inner = rest.trim_start().strip_prefix('(').unwrap_or_default();
        let mut numbers = inner
            .split(')')
            .next()
            .unwrap_or_default()
            .split(',')
            .map_while(|number| number.trim().parse::<u8>().ok());
        let (first, second) = (numbers.next(), numbers.next());
        match word.to_ascii_lowercase().as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "integer" | "bool" | "boolean"
            | "serial" => Exact::Integer,
            "float" | "float4" => {
                // FLOAT(p) with a large p is a DOUBLE.
                let single = second.is_some() || first.is_none_or(|bits| bits <= 24);
                Exact::Real { single, scale: second }
            }
            "double" | "float8" | "real" => Exact::Real { single: false, scale: second },
            "year" if first != Some(2) => Exact::Year,
            "date" => Exact::Date { fraction: 0 },
            "datetime" | "timestamp" => Exact::Date { fraction: first.unwrap_or(0) },
            "time" => Exact::Time { fraction: first.unwrap_or(0) },
            "enum" | "set" => Exact::Members { numbers: numbers_among(inner) },
            _ => Exact::Server,
        }
    }

    /// Whether a text is certainly kept; most are. It may say no to others that are kept.
    #[inline]
    pub(crate) fn is_plain(&self, text: &[u8]) -> bool {
        let is_at = |at: usize, byte: u8| text.get(at) == Some(&byte);
        match self {
            Exact::Server => true,
            Exact::Integer => {
                let digits = text.strip_prefix(b"-").unwrap_or(text);
                !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
            }
            Exact::Real { single, scale: None } => {
                text.len() <= if *single { 6 } else { 15 }
                    && text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
            }
            Exact::Real { .. } => false,
            Exact::Year => text.len() == 4 && text.iter().all(u8::is_ascii_digit),
            Exact::Date { .. } => {
                let has_clock = text.len() == 19 && is_at(13, b':') && is_at(16, b':');
                (text.len() == 10 || has_clock) && is_at(4, b'-') && is_at(7, b'-')
            }
            Exact::Time { .. } => text.len() == 8 && is_at(2, b':') && is_at(5, b':'),
            Exact::Members { .. } => text.first().is_some_and(u8::is_ascii_alphabetic),
        }
    }

    /// What the server would change of a text without saying so. `None` if it keeps the value, or if it says
    /// what is wrong with the text.
    #[must_use]
    pub fn change(&self, text: &[u8]) -> Option<&'static str> {
        let text = text.trim_ascii();
        match self {
            Exact::Server => None,
            Exact::Integer => Number::parse(text)
                .is_some_and(|number| number.has_digits_behind(0))
                .then_some("an integer column can't store decimals; --round rounds them"),
            Exact::Real { single, scale } => {
                let number = Number::parse(text)?;
                if scale.is_some_and(|scale| number.has_digits_behind(scale)) {
                    return Some("the column stores fewer decimals; --round rounds them");
                }
                (!number.is_kept(text, *single)).then_some(match single {
                    true => "a FLOAT can't store all its digits; --round stores the nearest number",
                    false => "a DOUBLE can't store all its digits; --round stores the nearest number",
                })
            }
            Exact::Year => {
                let number = Number::parse(text)?;
                let is_year = number.whole.len() == 4 && number.exponent == 0 && !number.has_digits_behind(0);
                (!is_year).then_some("not a four-digit year; --round lets the server complete it")
            }
            Exact::Date { fraction } => date(text, *fraction),
            Exact::Time { fraction } => time(text, *fraction),
            Exact::Members { numbers } => {
                let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
                let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                let is_known = || numbers.iter().any(|name| name.as_bytes() == text);
                (is_number && !is_known())
                    .then_some("not the name of a member; --round lets the server read it as a member number")
            }
        }
    }
}

/// The names in `'a','1','b''c')` that are numbers.
fn numbers_among(list: &str) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let (mut inside, mut letters) = (false, list.chars().peekable());
    while let Some(letter) = letters.next() {
        match (letter, inside) {
            ('\'', true) if letters.peek() == Some(&'\'') => name.extend(letters.next()),
            ('\'', true) => {
                names.push(std::mem::take(&mut name));
                inside = false;
            }
            ('\'', false) => inside = true,
            (')', false) => break,
            (letter, true) => name.push(letter),
            (_, false) => {}
        }
    }
    names.retain(|name| name.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit()));
    names
}

/// A decimal number in a text.
struct Number<'a> {
    whole: &'a [u8],
    part: &'a [u8],
    exponent: i64,
}

impl<'a> Number<'a> {
    /// `None` if the whole text is not a number.
    fn parse(text: &'a [u8]) -> Option<Number<'a>> {
        let digits =
            |text: &'a [u8]| text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
        let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (part, rest) = match rest.strip_prefix(b".") {
            Some(rest) => digits(rest),
            None => (&rest[..0], rest),
        };
        let exponent = match rest.split_first() {
            None => 0,
            Some((b'e' | b'E', exponent)) => {
                let text = std::str::from_utf8(exponent).ok()?;
                let negative = text.starts_with('-');
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                let value = digits.parse().unwrap_or(i64::from(i32::MAX));
                if negative { -value } else { value }
            }
            Some(_) => return None,
        };
        (whole.len() + part.len() > 0).then_some(Number { whole, part, exponent })
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> + Clone {
        self.whole.iter().chain(self.part).copied()
    }

    /// Where the point is, counted in digits.
    fn point(&self) -> i64 {
        i64::try_from(self.whole.len()).unwrap_or(i64::MAX).saturating_add(self.exponent)
    }

    /// Whether more than so many digits are behind the point, not counting zeros at the end.
    fn has_digits_behind(&self, scale: u8) -> bool {
        let end = self.point().saturating_add(i64::from(scale));
        (0_i64..).zip(self.digits()).any(|(at, digit)| digit != b'0' && at >= end)
    }

    /// Whether the stored value, written with as many digits as the text has, is the text.
    fn is_kept(&self, text: &[u8], single: bool) -> bool {
        let zeros = self.digits().take_while(|digit| *digit == b'0').count();
        let last = self.digits().rev().take_while(|digit| *digit == b'0').count();
        let Some(count) = (self.whole.len() + self.part.len()).checked_sub(zeros + last).filter(|n| *n > 0)
        else {
            return true;
        };
        let Some(value) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()) else {
            return true;
        };
        #[expect(clippy::cast_possible_truncation, reason = "so does the server")]
        let (value, normal) = match (single, value as f32) {
            (true, short) => (f64::from(short), short.is_normal()),
            (false, _) => (value, value.is_normal()),
        };
        // The server says what is out of range.
        if value.is_infinite() || normal && count <= if single { 6 } else { 15 } {
            return true;
        }
        let stored = format!("{:.*e}", count - 1, value.abs());
        let Some((mantissa, exponent)) = stored.split_once('e') else { return true };
        let zeros = i64::try_from(zeros).unwrap_or(i64::MAX);
        mantissa
            .bytes()
            .filter(|byte| *byte != b'.')
            .eq(self.digits().skip(usize::try_from(zeros).unwrap_or(0)).take(count))
            && exponent.parse() == Ok(self.point().saturating_sub(zeros).saturating_sub(1))
    }
}

/// What is lost of the fraction of a second, which begins behind the point.
fn fraction(behind: &[u8], digits: u8) -> Option<&'static str> {
    let mut lost = behind.iter().take_while(|byte| byte.is_ascii_digit()).skip(usize::from(digits));
    lost.any(|digit| *digit != b'0')
        .then_some("the column stores fewer fractional digits of a second; --round rounds or truncates it")
}

fn date(text: &[u8], digits: u8) -> Option<&'static str> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_full = match text.get(count) {
        // YYYYMMDD or YYYYMMDDHHMMSS.
        None | Some(b'.') if !matches!(count, 4) => matches!(count, 8 | 14),
        None => false,
        Some(b'T') => count == 8,
        Some(_) => count == 4,
    };
    if count > 0 && !is_full {
        return Some("no date that begins with a four-digit year; --round lets the server complete it");
    }
    let point = text.iter().rposition(|byte| *byte == b'.')?;
    let (before, behind) = (&text[..point], &text[point + 1..]);
    // A point may also stand between the parts of a date.
    let has_seconds = matches!(before, [.., b':', _, _] | [.., b':', _]) || count >= 8;
    if has_seconds { fraction(behind, digits) } else { None }
}

fn time(text: &[u8], digits: u8) -> Option<&'static str> {
    let text = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let point = text.iter().rposition(|byte| *byte == b'.');
    let is_bare = text.get(count).is_none_or(|byte| *byte == b'.');
    if is_bare && !matches!(count, 0 | 6 | 7) && text.iter().any(|byte| matches!(byte, b'1'..=b'9')) {
        return Some("a time without colons; --round lets the server read it as HHMMSS");
    }
    let point = point?;
    if !is_bare && text[..point].iter().filter(|byte| **byte == b':').count() == 1 {
        return fraction(&text[point + 1..], 0);
    }
    fraction(&text[point + 1..], digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_their_sql() {
        let real = |single, scale| Exact::Real { single, scale };
        for (sql, exact) in [
            ("int(11) unsigned zerofill", Exact::Integer),
            ("BIGINT NOT NULL", Exact::Integer),
            ("BOOL", Exact::Integer),
            ("float", real(true, None)),
            ("FLOAT(5,2)", real(true, Some(2))),
            ("float(30)", real(false, None)),
            ("double(6, 1) NOT NULL", real(false, Some(1))),
            ("double precision", real(false, None)),
            ("year(4)", Exact::Year),
            ("year(2)", Exact::Server),
            ("date", Exact::Date { fraction: 0 }),
            ("datetime(3)", Exact::Date { fraction: 3 }),
            ("timestamp NULL", Exact::Date { fraction: 0 }),
            ("time(6)", Exact::Time { fraction: 6 }),
            ("enum('a','01','b,2','-1')", Exact::Members { numbers: vec!["01".into(), "-1".into()] }),
            ("decimal(5,2)", Exact::Server),
            ("varchar(5)", Exact::Server),
        ] {
            assert_eq!(Exact::of(sql), exact, "{sql}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of types and texts")]
    fn values_that_a_column_does_not_keep_are_reported() {
        for (sql, kept, changed) in [
            (
                "int",
                &["5", "-5", "+5", " 5 ", "5.0", "5.", "1e2", "1.5e1", "050", "", "x", "5.4x", "1e999"][..],
                &[
                    "5.4",
                    "0.4",
                    "-.5",
                    "1e-1",
                    "15e-1",
                    "1.55e1",
                    " 5.4 ",
                    "9007199254740993.1",
                    "1e-999999999999",
                ][..],
            ),
            (
                "float",
                &[
                    "0.1",
                    "123456",
                    "3.1415927",
                    "0.10000000149011612",
                    "16777216",
                    "1e10",
                    "0",
                    "-0.0",
                    "1e39",
                ],
                &["16777217", "3.14159265", "123456789", "1e-50", "13.4049541"],
            ),
            (
                "double",
                &[
                    "0.1",
                    "0.10000000000000001",
                    "9007199254740992",
                    "1.7976931348623157e308",
                    "1e400",
                    "5e-324",
                    "0.1000000000000000055511151231257827",
                    "3.140000000000000000000",
                ],
                &["9007199254740993", "3.1415926535897932384626", "0.12345678901234567", "1e-400"],
            ),
            ("float(5,2)", &["1.25", "1.250", "1e-2", "7"], &["1.255", "1e-3"]),
            ("double(6,1)", &["1.5", "12"], &["1.55", "-0.05"]),
            (
                "year",
                &["1970", "0000", "x", "2024.0"],
                &["70", "0", "5", "00", "197", "02024", "2024.5", "5.0", "+70", "1e-1", "2.024e3"],
            ),
            (
                "date",
                &["2024-01-31", "2024.01.31", "20240131", "0000-00-00", "2024-1-1", "x"],
                &["24-01-31", "240131", "70-1-1", "2024"],
            ),
            (
                "datetime",
                &[
                    "2024-01-31 10:00:00",
                    "2024-01-31",
                    "2024-01-31 10:00:00.000",
                    "20240131101112",
                    "20240131T101112",
                    "2024-01-31T10:00:00.0",
                ],
                &[
                    "2024-01-31 10:00:00.5",
                    "2024-01-31 10:00:00.0000001",
                    "20240131101112.5",
                    "240131101112",
                    "24-1-31 10:00:00",
                ],
            ),
            (
                "datetime(3)",
                &["2024-01-31 10:00:00.123", "2024-1-31 1:0:0.12"],
                &["2024-01-31 10:00:00.1234"],
            ),
            (
                "time",
                &["10:00:00", "10:00", "-1 10:00:00", "101112", "0", "000", "10:00:00.0"],
                &["1234", "5", "+5", "10:00:00.5", "-5", "10:00.5", "12345678"],
            ),
            ("time(2)", &["10:00:00.25", "101112.25"], &["10:00:00.255"]),
            ("enum('a','7')", &["a", "7", "zz", " 7", ""], &["1", "0", "2", "+7", " 1"]),
            ("set('a','b')", &["a", "a,b", "a,1"], &["3", "0"]),
            ("decimal(5,2)", &["1.005"], &[]),
        ] {
            let exact = Exact::of(sql);
            for text in kept {
                assert_eq!(exact.change(text.as_bytes()), None, "{sql} {text:?}");
            }
            for text in changed {
                assert!(exact.change(text.as_bytes()).is_some(), "{sql} {text:?}");
                assert!(!exact.is_plain(text.as_bytes()), "{sql} {text:?} at a quick look");
            }
        }
    }
}
