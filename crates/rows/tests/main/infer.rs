//! The inferred type holds every value that was observed.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rows::{ColumnKind, ColumnStats, ColumnType, KeyStats};

fn value() -> impl Strategy<Value = Vec<u8>> {
    let pattern = |regex| proptest::string::bytes_regex(regex).unwrap();
    prop_oneof![
        4 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        4 => (-300..300i32).prop_map(|n| n.to_string().into_bytes()),
        2 => pattern("-?[0-9]{1,25}"),
        2 => pattern("-?[0-9]{0,5}\\.[0-9]{0,35}"),
        2 => pattern("-?[0-9]{1,3}(\\.[0-9]{0,20})?[eE][+-]?[0-9]{1,3}"),
        2 => pattern("(19|20|0)[0-9]{2}-(0[1-9]|1[0-3])-([0-2][0-9]|3[01])"),
        2 => pattern("20[0-9]{2}-0[1-9]-[0-2][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{0,7})?Z?"),
        2 => pattern("-?[0-8]?[0-9]{1,2}:[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,6})?"),
        1 => pattern("true|false|TRUE|False|t|f|T|yes"),
        1 => any::<String>().prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..10),
    ]
}

/// Values most of which are of one sort.
fn values() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
    let one_sort = prop_oneof![
        vec((-40000..40000i64).prop_map(|n| n.to_string()), 1..20),
        vec(any::<i64>().prop_map(|n| n.to_string()), 1..20),
        vec(any::<u64>().prop_map(|n| n.to_string()), 1..20),
        vec((any::<i32>(), 0..999u32).prop_map(|(whole, part)| format!("{whole}.{part}")), 1..20),
        vec(any::<f64>().prop_map(|n| format!("{n:e}")), 1..20),
        vec((1..29u8, 1..13u8).prop_map(|(day, month)| format!("2024-{month:02}-{day:02}")), 1..20),
        vec(
            (0..24u8, 0..60u8).prop_map(|(hour, minute)| format!("2024-05-06T{hour:02}:{minute:02}:00Z")),
            1..20
        ),
        vec((0..839u16, 0..60u8).prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}:00")), 1..20),
    ];
    let one_sort = one_sort.prop_map(|values| values.into_iter().map(String::into_bytes).collect::<Vec<_>>());
    let any_sort = vec(value(), 0..3);
    (one_sort, any_sort, any::<bool>(), vec(option::weighted(0.9, Just(())), 23)).prop_map(
        |(one, any, mixed, nulls)| {
            let values = one.into_iter().chain(any.into_iter().filter(move |_| mixed));
            values.zip(nulls).map(|(value, null)| null.map(|()| value)).collect()
        },
    )
}

fn stats(values: &[Option<Vec<u8>>]) -> ColumnStats {
    let mut stats = ColumnStats::new();
    values.iter().for_each(|value| stats.observe(value.as_deref()));
    stats
}

/// Whether a column of this type returns the value with its meaning: an independent, slower reading.
fn holds(column: &ColumnType, value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return match column.kind {
            ColumnKind::Varbinary { bytes } => value.len() <= bytes as usize,
            ColumnKind::Blob | ColumnKind::MediumBlob | ColumnKind::LongBlob => true,
            _ => false,
        };
    };
    match column.kind {
        ColumnKind::Boolean => ["true", "false", "t", "f"].contains(&text.to_lowercase().as_str()),
        ColumnKind::Int { bytes, unsigned } => {
            let bits = u32::from(bytes) * 8;
            let (low, high) =
                if unsigned { (0, 1i128 << bits) } else { (-(1i128 << (bits - 1)), 1i128 << (bits - 1)) };
            text.parse::<i128>().is_ok_and(|n| n >= low && n < high && n.to_string() == text)
        }
        ColumnKind::Decimal { precision, scale } => {
            is_decimal(text, usize::from(precision), usize::from(scale))
        }
        ColumnKind::Double => is_double(text),
        ColumnKind::Date => is_date(text),
        ColumnKind::Time { fraction } => is_time(text, usize::from(fraction)),
        ColumnKind::DateTime { fraction, utc } => {
            let (text, zone) = text.strip_suffix('Z').map_or((text, false), |text| (text, true));
            let (date, time) = text.split_at_checked(10).unwrap_or((text, ""));
            let clock = time.is_empty() && !utc
                || time.starts_with([' ', 'T'])
                    && &time[1..3] < "24"
                    && is_time(&time[1..], usize::from(fraction));
            zone == utc && is_date(date) && clock
        }
        ColumnKind::Varchar { chars } => text.chars().count() <= chars as usize,
        ColumnKind::Varbinary { bytes } => value.len() <= bytes as usize,
        _ => true,
    }
}

fn is_decimal(text: &str, precision: usize, scale: usize) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let canonical = whole.is_empty() || whole == "0" || !whole.starts_with('0');
    let whole = whole.trim_start_matches('0');
    precision <= 65
        && scale <= 30
        && canonical
        && digits != "."
        && text != "-0"
        && whole.len() + scale <= precision
        && part.len() <= scale
        && whole.chars().chain(part.chars()).all(|c| c.is_ascii_digit())
}

/// A double prints the value's digits again when asked for the same number of digits.
fn is_double(text: &str) -> bool {
    let Ok(number) = text.parse::<f64>() else { return false };
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0');
    let significant = digits.len().clamp(1, 15);
    let again = format!("{:.*e}", significant - 1, number.abs());
    let again: String = again.split('e').next().unwrap_or("").chars().filter(char::is_ascii_digit).collect();
    let same = digits.len() > 15 || again == if digits.is_empty() { "0" } else { digits };
    number.is_finite() && digits.len() <= 17 && same
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let lengths = (year.len(), month.len(), day.len()) == (4, 2, 2);
    let numbers = (year.parse::<u32>(), month.parse::<u32>(), day.parse::<u32>());
    let (Ok(year), Ok(month), Ok(day)) = numbers else { return false };
    let leap = year % 400 == 0 || year % 4 == 0 && year % 100 != 0;
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    lengths
        && year >= 1000
        && day >= 1
        && days.get(month.wrapping_sub(1) as usize).is_some_and(|&days| day <= days)
}

fn is_time(text: &str, fraction: usize) -> bool {
    let (clock, part) = text.split_once('.').unwrap_or((text, ""));
    let parts: Vec<&str> = clock.trim_start_matches('-').split(':').collect();
    let [hour, minute, second] = parts[..] else { return false };
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    (2..=3).contains(&hour.len())
        && minute.len() == 2
        && second.len() == 2
        && number(hour) <= 838
        && number(minute) < 60
        && number(second) < 60
        && part.len() <= fraction
}

proptest! {
    #[test]
    fn the_type_holds_every_value(values in values()) {
        let column = stats(&values).decide();
        for value in &values {
            match value {
                None => prop_assert!(column.nullable),
                Some(value) => prop_assert!(holds(&column, value), "{} {:?}", column, String::from_utf8_lossy(value)),
            }
        }
    }

    #[test]
    fn statistics_of_parts_equal_those_of_the_whole(values in values(), cut in 0..30usize) {
        let (first, second) = values.split_at(cut.min(values.len()));
        let mut merged = stats(first);
        merged.merge(&stats(second));
        prop_assert_eq!(merged.decide(), stats(&values).decide());
        let mut reversed = stats(second);
        reversed.merge(&stats(first));
        prop_assert_eq!(reversed.decide(), merged.decide());
    }

    #[test]
    fn keys_are_unique_and_parts_are_the_whole(
        values in vec(option::weighted(0.98, "[0-9]{1,2}|[ab ]{0,3}"), 0..30),
        sorted in 0..3u8, cut in 0..30usize, limit in prop_oneof![Just(0usize), Just(8), Just(1000)],
    ) {
        let mut values = values;
        match sorted {
            0 => {}
            1 => { values.sort(); values.dedup(); }
            _ => values.sort_by_key(|value| value.as_ref().map(|value| value.parse::<i64>().unwrap_or(-1))),
        }
        let observe = |values: &[Option<String>]| {
            let mut stats = KeyStats::with_limit(limit);
            values.iter().for_each(|value| stats.observe(value.as_ref().map(String::as_bytes)));
            stats
        };
        let whole = observe(&values).unique();
        let distinct: BTreeSet<&str> = values.iter().flatten().map(|value| value.trim_end_matches(' ')).collect();
        let unique = !values.is_empty() && distinct.len() == values.len();
        prop_assert!(!whole || unique);
        prop_assert!(whole || !unique || values.len() > limit);
        let (first, second) = values.split_at(cut.min(values.len()));
        let mut merged = observe(first);
        merged.merge(&observe(second));
        prop_assert_eq!(merged.unique(), whole);
    }
}

#[test]
fn the_check_of_inferred_types_can_fail() {
    let column = |values: &[&str]| {
        stats(&values.iter().map(|v| Some(v.as_bytes().to_vec())).collect::<Vec<_>>()).decide()
    };
    for (values, other) in [
        (&["1"][..], "256"),
        (&["-1"], "128"),
        (&["1.5"], "1.55"),
        (&["1.5"], "x"),
        (&["1e5"], "nan"),
        (&["2024-01-01"], "2024-02-30"),
        (&["10:00:00"], "10:00:60"),
        (&["2024-01-01 10:00:00"], "2024-01-01 24:00:00"),
        (&["2024-01-01 10:00:00Z"], "2024-01-01 10:00:00"),
        (&["true"], "1"),
        (&["abc"], "abcd"),
    ] {
        assert!(holds(&column(values), values[0].as_bytes()), "{values:?}");
        assert!(!holds(&column(values), other.as_bytes()), "{values:?} {other}");
    }
}
