//! Times and durations as people write them.

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The current time, seconds since the epoch.
pub fn now_s() -> i64 {
    Timestamp::now().as_second()
}

/// `2026-11-21 03:05:02+01:00`, in the zone of this machine: in autumn an hour comes twice.
pub fn shown(seconds: i64) -> String {
    shown_in(TimeZone::system(), seconds)
}

/// The same in another zone.
pub fn shown_in(zone: TimeZone, seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or_default().to_zoned(zone);
    time.strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
}

/// `2026-11-21T02:05:02Z`
pub fn machine(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// `90s`, `15m`, `26h`, `8d`, `2w` in seconds.
pub fn duration_s(text: &str) -> Result<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 =
        number.parse().with_context(|| format!("{text} is not a length of time; write for example 26h"))?;
    let factor = match unit {
        "s" => 1,
        // Somebody who leaves it out may mean days.
        "" if number == 0 => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "" => bail!("{text} has no unit; units are s, m, h, d and w, as in 26h"),
        _ => bail!("{text} is not a length of time; units are s, m, h, d and w, as in 26h"),
    };
    // The clock library can compute a time this far away, but not much further.
    let seconds = number.checked_mul(factor).filter(|seconds| *seconds <= u64::from(u32::MAX));
    seconds.with_context(|| format!("{text} is too long"))
}

/// `500000`, `100k`, `20M`, `1G`: bytes, in powers of 1024.
pub fn bytes(text: &str) -> Result<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 =
        number.parse().with_context(|| format!("{text} is not a number of bytes; write for example 20M"))?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => bail!("{text} is not a number of bytes; units are k, M and G, as in 20M"),
    };
    ensure!(number > 0, "write a number above 0");
    number.checked_mul(1 << shift).with_context(|| format!("{text} is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_a_unit() {
        let read = |text| duration_s(text).ok();
        assert_eq!(
            [read("0"), read("90s"), read("15m"), read("26h")],
            [Some(0), Some(90), Some(900), Some(93_600)]
        );
        assert_eq!([read("8d"), read("2w")], [Some(691_200), Some(1_209_600)]);
        assert_eq!(
            [read(""), read("h"), read("30"), read("1y"), read("-1h"), read("99999999999999999999w")],
            [None; 6]
        );
        assert_eq!([read("9999999999999999999w"), read("4294967296s")], [None; 2]);
    }

    #[test]
    fn bytes_have_a_unit() {
        let read = |text| bytes(text).ok();
        assert_eq!(
            [read("5"), read("5k"), read("20M"), read("1G")],
            [Some(5), Some(5120), Some(20 << 20), Some(1 << 30)]
        );
        assert_eq!([read(""), read("0"), read("1T"), read("99999999999999999G")], [None; 4]);
    }
}
