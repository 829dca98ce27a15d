//! Days and microseconds since 1970-01-01, from and to the server's text. The calendar is the Gregorian one,
//! also before it was introduced, as in the server and in Parquet.

/// Microseconds of a second, and seconds of a day.
const MICROS: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;
/// Days of 400 years, and from 0000-03-01 to 1970-01-01.
const ERA_DAYS: i64 = 146_097;
const EPOCH_DAYS: i64 = 719_468;

/// The days of `2026-11-28`, which are printed as that text. `None` for what is no day of the years 1 to
/// 9999: zeros, the 30th of February.
pub(crate) fn parse_date(text: &[u8]) -> Option<i64> {
    let [a, b, c, d, b'-', e, f, b'-', g, h] = text else { return None };
    let (year, month, day) = (number(&[*a, *b, *c, *d])?, number(&[*e, *f])?, number(&[*g, *h])?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > month_days(year, month) {
        return None;
    }
    // Years begin in March, so that a leap day is the last one.
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    Some(era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - EPOCH_DAYS)
}

/// The microseconds of `2026-11-28 23:59:59.123` with that many digits behind the point, which are printed as
/// that text.
pub(crate) fn parse_datetime(text: &[u8], fraction: u8) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let [b' ', a, b, b':', c, d, b':', e, f, rest @ ..] = time else { return None };
    let (hour, minute, second) = (number(&[*a, *b])?, number(&[*c, *d])?, number(&[*e, *f])?);
    let micros = match (fraction, rest) {
        (0, []) => 0,
        (1..=6, [b'.', digits @ ..]) if digits.len() == usize::from(fraction) => {
            number(digits)? * 10_i64.pow(6 - u32::from(fraction))
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = parse_date(date)? * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    Some(seconds * MICROS + micros)
}

/// Year, month and day.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(EPOCH_DAYS);
    let (era, of_era) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Prints days of the years 0 to 9999.
pub(crate) fn print_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    digits(year, 4, out);
    out.push(b'-');
    digits(month, 2, out);
    out.push(b'-');
    digits(day, 2, out);
}

/// Prints microseconds with that many digits behind the point.
pub(crate) fn print_datetime(micros: i64, fraction: u8, out: &mut Vec<u8>) {
    let (seconds, micros) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    print_date(days, out);
    for (mark, number) in [(b' ', second / 3600), (b':', second / 60 % 60), (b':', second % 60)] {
        out.push(mark);
        digits(number, 2, out);
    }
    if fraction > 0 {
        out.push(b'.');
        digits(micros / 10_i64.pow(6 - u32::from(fraction.min(6))), fraction, out);
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// A number that is not negative, with that many digits.
fn digits(mut number: i64, count: u8, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + usize::from(count), b'0');
    for place in out[at..].iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_days_go_there_and_back() {
        let mut expected = parse_date(b"0001-01-01").unwrap();
        assert_eq!(
            (expected, parse_date(b"1970-01-01"), parse_date(b"2000-02-29")),
            (-719_162, Some(0), Some(11_016))
        );
        for year in 1..10_000 {
            for month in 1..=12 {
                // The days between them are only added.
                let last = month_days(year, month);
                for (day, days) in [(1, Some(expected)), (last, Some(expected + last - 1)), (last + 1, None)]
                {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    assert_eq!(parse_date(text.as_bytes()), days, "{text}");
                    let mut out = Vec::new();
                    days.into_iter().for_each(|days| print_date(days, &mut out));
                    assert!(days.is_none() || out == text.as_bytes(), "{text}");
                }
                expected += last;
            }
        }
        assert_eq!(expected, 2_932_897);
        for text in
            ["0000-00-00", "0000-01-01", "2026-00-10", "2026-13-10", "2026-10-00", "10000-01-01", "2026-1-01"]
        {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn times_go_there_and_back() {
        for (text, fraction, micros) in [
            ("1970-01-01 00:00:00", 0, 0),
            ("1969-12-31 23:59:59.999999", 6, -1),
            ("2026-11-28 12:34:56.7", 1, 1_795_869_296_700_000),
            ("9999-12-31 23:59:59.999", 3, 253_402_300_799_999_000),
            ("0001-01-01 00:00:00", 0, -62_135_596_800_000_000),
        ] {
            assert_eq!(parse_datetime(text.as_bytes(), fraction), Some(micros), "{text}");
            let mut out = Vec::new();
            print_datetime(micros, fraction, &mut out);
            assert_eq!(out, text.as_bytes());
        }
        for (text, fraction) in [
            ("2026-11-28 24:00:00", 0),
            ("2026-11-28 00:60:00", 0),
            ("2026-11-28 00:00:60", 0),
            ("2026-11-28 00:00:00.1", 0),
            ("2026-11-28 00:00:00.12", 3),
            ("2026-11-28 00:00:00", 3),
            ("2026-11-28T00:00:00", 0),
            ("2026-11-28", 0),
        ] {
            assert_eq!(parse_datetime(text.as_bytes(), fraction), None, "{text}");
        }
    }
}
