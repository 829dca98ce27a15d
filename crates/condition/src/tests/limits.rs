//! The largest conditions, the longest numbers, and words where they do not belong.

use super::{compile, is, row};
use crate::number::Number;

/// How many values a list may have.
fn most(left: &str) -> usize {
    let is_short = |count: &usize| compile(&format!("{left} in ({}1)", "1,".repeat(count - 1))).is_ok();
    (1..=300).take_while(is_short).count()
}

/// Each value is compared, and each time the left side is evaluated again.
#[test]
fn a_condition_has_two_hundred_operations() {
    assert_eq!(most("id"), 200);
    assert_eq!([most("id + 1"), most("-id"), most("id is null")], [99; 3]);
    assert_eq!([most("id + 1 + 1"), most("1 + (id + 1)"), most("- -id")], [66; 3]);
    // A part without columns is calculated once.
    assert_eq!(most("(1 + 1 + 1 + 1 + 1)"), 196);
}

#[test]
fn a_condition_has_sixty_levels() {
    let nested = |count: usize| compile(&format!("{}1{}", "(".repeat(count), ")".repeat(count)));
    assert!(nested(59).is_ok());
    assert!(nested(60).unwrap_err().what.contains("more than 60 levels"));
}

#[test]
fn not_and_between_take_what_binds_tighter() {
    for text in [
        "1 and not 0",
        "not id is null",
        "not id in (1)",
        "not id between 1 and 2",
        "1 xor 0",
        "not (1 xor 1)",
        "id xor 0",
        "(2 xor 1) = 0",
    ] {
        assert!(is(text), "{text}");
    }
    assert!(!is("id between -8 and 5 = 0"), "the comparison is of the answer");
    for (text, why) in [
        ("id between -9 = -9 and 0", "unexpected ="),
        ("id not nosuch", "unexpected nosuch"),
        ("name is true", "name is a string"),
        ("name <=> name", "only be compared"),
        ("day = at", "two times of different types"),
    ] {
        let error = compile(text).unwrap_err();
        assert!(error.what.contains(why), "{text}: {error}");
    }
    assert!(is("day = day") && !is("at < at"));
}

#[test]
fn bits_are_those_of_the_nearest_whole_number() {
    let texts =
        ["2.5 | 0 = 3", "2.4 | 0 = 2", "(-2.5 | 0) = (-3 | 0)", "(-2.4 | 0) = (-2 | 0)", "0.4 | 0 = 0"];
    texts.iter().for_each(|text| assert!(is(text), "{text}"));
    assert!(is("1 << 1.5 = 4"));
}

#[test]
fn numbers_have_up_to_38_digits_behind_the_point() {
    let small = format!("0.{}1", "0".repeat(37));
    assert!(is(&format!("{small} > 0")));
    assert!(compile(&format!("0.0{} > 0", &small[2..])).is_err());
    assert!(is(&format!("pow(0.1, 38) = {small}")) && is("pow(0.1, 39) is null"));
    let half = format!("0.{}1", "0".repeat(18));
    assert!(is(&format!("{half} * {half} = {small}")) && is(&format!("{half} * {half} * 0.1 is null")));
}

/// One of them can't be written with as many digits as the other one has.
#[test]
fn numbers_of_any_lengths_are_compared() {
    let more = format!("1.6{}", "0".repeat(37));
    for text in [
        format!("{more} < 1.8"),
        format!("1.8 > {more}"),
        format!("-{more} > -1.8"),
        format!("-1.8 < -{more}"),
        format!("{more} > -1.8"),
        format!("{more} > 1.5 and {more} = 1.6"),
    ] {
        assert!(is(&text), "{text}");
    }
}

#[test]
fn nothing_has_a_sign_before_a_nought() {
    let text = |digits, scale| Number { digits, scale }.text();
    assert_eq!([text(0, 2), text(-1, 2), text(1, 2), text(0, 0)], ["0.00", "-0.01", "0.01", "0"]);
}

#[test]
fn a_literal_of_a_time_has_one_form() {
    for text in [
        "day = '26-11-21'",
        "day = '2026-11-21-5'",
        "day = '2026-00011-21'",
        "day = '2026-+1-21'",
        "day = '2026--21'",
        "lap = '1:02:03.1234567'",
        "lap = '1:02:03.x'",
        "lap = '1:02:03:04'",
        "lap = '1:02'",
        "at = '2026-11-21 1::3'",
    ] {
        let error = compile(text).expect_err(text);
        assert!(error.what.contains("is no time"), "{text}: {error}");
    }
    assert!(is("lap = '-1:02:03.000000'"));
}

#[test]
fn each_column_has_a_null_bit_of_its_own() {
    let of = |text: &str, nulls| compile(text).unwrap().matches(&row(nulls));
    assert!(of("name is null and id is not null and other is not null", [0b10, 0]));
    assert!(of("id is null and name is not null and other is not null", [0b01, 0]));
    assert!(of("other is null and id is not null and name is not null", [0, 0b10]));
    assert!(of("other is not null", [0, 0b01]));
}
