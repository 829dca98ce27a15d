//! What people write and read, at the bounds of each form.

use std::path::Path;

use humanize::{date_time, point_in_time, text};
use jiff::Timestamp;
use jiff::tz::TimeZone;

#[test]
fn times_are_those_of_the_clock() {
    let before = Timestamp::now().as_second();
    let now = date_time::now_s();
    assert!((before..=Timestamp::now().as_second()).contains(&now), "{now}");
    assert_eq!(date_time::machine(1_795_226_702), "2026-11-21T02:05:02Z");
    let zone = TimeZone::system();
    assert_eq!(point_in_time::zone(), zone.iana_name().unwrap_or("this machine's time zone"));
}

#[test]
fn the_longest_time_and_what_lacks_a_unit() {
    assert_eq!(date_time::duration_s("4294967295s").unwrap(), u64::from(u32::MAX));
    let said = |text| date_time::duration_s(text).unwrap_err().to_string();
    assert!(said("30").contains("30 has no unit") && said("1y").contains("is not a length of time"));
}

#[test]
fn a_year_of_another_century_is_no_time_of_a_log() {
    assert!(point_in_time::is_like_time("1999-01-02") && !point_in_time::is_like_time("1826-01-02"));
}

#[test]
fn of_a_long_path_both_ends_are_shown() {
    let path = |count: usize| text::path(Path::new(&("a".repeat(count - 121) + "/" + &"z".repeat(120))));
    assert_eq!(path(240).len(), 240);
    let expected = format!("{}...{} (241 characters)", "a".repeat(120), "z".repeat(120));
    assert_eq!(path(241), expected);
}
