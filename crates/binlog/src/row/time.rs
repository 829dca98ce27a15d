//! DATE, and times in the formats before MySQL 5.6: what has another form than in InnoDB's pages.

use crate::error::Flaw;
use crate::wire::Wire;

/// `2026-11-23`: 3 bytes with day, month and year.
pub(crate) fn date(bytes: &[u8]) -> Result<String, Flaw> {
    let number = Wire(bytes).uint(3)?;
    Ok(format!("{:04}-{:02}-{:02}", number >> 9, number >> 5 & 15, number & 31))
}

/// `2026-11-23 10:00:00`: the digits as one number.
pub(crate) fn old_datetime(bytes: &[u8]) -> Result<String, Flaw> {
    let number = Wire(bytes).u64()?;
    let (date, time) = (number / 1_000_000, number % 1_000_000);
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let (hour, minute, second) = (time / 10_000, time / 100 % 100, time % 100);
    Ok(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"))
}

/// `-12:34:56`: the digits as one number with a sign.
pub(crate) fn old_time(bytes: &[u8]) -> Result<String, Flaw> {
    let number = Wire(bytes).uint(3)?;
    let (sign, number) = if number >= 1 << 23 { ("-", (1 << 24) - number) } else { ("", number) };
    let (hour, minute, second) = (number / 10_000, number / 100 % 100, number % 100);
    Ok(format!("{sign}{hour:02}:{minute:02}:{second:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_signs() {
        assert_eq!(old_time(&[0xC0, 0x1D, 0xFE]).as_deref(), Ok("-12:34:56"));
        assert_eq!(old_datetime(&20_261_123_100_001_u64.to_le_bytes()).as_deref(), Ok("2026-11-23 10:00:01"));
        assert_eq!(date(&[0x77, 0xD5, 0x0F]).as_deref(), Ok("2026-11-23"));
    }
}
