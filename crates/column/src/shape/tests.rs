//! How numbers are written: each text has one number and each number one text, or it is no number.

use super::{FRACTION_MAX, Kind, PRINTED_MAX, Shape};
use crate::wire::Cursor;
use crate::{Span, Texts};

fn printed(kind: Kind, value: i64) -> String {
    let mut out = Vec::new();
    kind.print(value, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_number_has_one_text() {
    for (kind, text, value) in [
        (Kind::Plain, "0", 0),
        (Kind::Plain, "-7", -7),
        (Kind::Plain, "10", 10),
        (Kind::Plain, "999999999999999999", 999_999_999_999_999_999),
        (Kind::Padded(3), "000", 0),
        (Kind::Padded(3), "007", 7),
        (Kind::Padded(3), "999", 999),
        (Kind::Decimal(2), "0.00", 0),
        (Kind::Decimal(2), "0.05", 5),
        (Kind::Decimal(2), "-0.05", -5),
        (Kind::Decimal(2), "-12.50", -1250),
        (Kind::Decimal(17), "9.99999999999999999", 999_999_999_999_999_999),
        (Kind::Date, "0000-01-01", -719_528),
        (Kind::Date, "1969-12-31", -1),
        (Kind::Date, "1970-01-01", 0),
        (Kind::Date, "2000-02-29", 11_016),
        (Kind::Date, "9999-12-31", 2_932_896),
        (Kind::Moment(b' ', 0), "1970-01-02 01:02:03", 90_123),
        (Kind::Moment(b'T', 0), "1969-12-31T23:59:59", -1),
        (Kind::Moment(b' ', 3), "1969-12-31 23:59:59.999", -1),
        (Kind::Moment(b' ', 6), "1970-01-01 00:00:01.000002", 1_000_002),
    ] {
        assert_eq!(kind.parse(text.as_bytes()), Some(value), "{text}");
        assert_eq!(printed(kind, value), text);
    }
}

#[test]
fn other_texts_are_no_numbers() {
    for (kind, texts) in [
        (Kind::Plain, "| -|-0|+1|07|-07|1.|1/|1:|/|--1|1000000000000000000"),
        (Kind::Padded(3), "|07|0007|-07|0.7|00/|00:"),
        (
            Kind::Decimal(2),
            "|.50|-.50|-0.00|00.50|-01.50|1.5|1,50|1.505|12345|1.5x|x.50|-|12345678901234567.50",
        ),
        (
            Kind::Date,
            "|2026-11-2|2026-11-022|2026/11-22|2026-11/22|2026-00-10|2026-13-10|2026-11-00|2026-11-31",
        ),
        (
            Kind::Date,
            "2023-02-29|1900-02-29|2000-02-30|2026-01-32|2026-04-31|2026-06-31|2026-09-31|+026-11-22",
        ),
        (
            Kind::Moment(b' ', 0),
            "2026-11-22 24:00:00|2026-11-22 23:60:00|2026-11-22 23:59:60|2026-11-31 00:00:00",
        ),
        (Kind::Moment(b' ', 0), "2026-11-22T00:00:00|2026-11-22 00.00:00|2026-11-22 00:00.00|2026-11-22"),
        (Kind::Moment(b' ', 0), "2026-11-22 00:00:000|2026-11-22 00:00:00.|2026-11-22 00:00:00.0"),
        (Kind::Moment(b' ', 3), "2026-11-22 00:00:00,000|2026-11-22 00:00:00.00x|2026-11-22 00:00:00.00"),
    ] {
        for text in texts.split('|') {
            assert_eq!(kind.parse(text.as_bytes()), None, "{kind:?}: {text:?}");
        }
    }
}

/// Four hundred years, after which the calendar begins again, counted by hand.
#[test]
fn every_day_follows_the_one_before() {
    let (mut year, mut month, mut day) = (1899, 12, 31);
    for value in -25_568..-25_568 + 146_097 + 365 {
        let text = format!("{year}-{month:02}-{day:02}");
        assert_eq!(Kind::Date.parse(text.as_bytes()), Some(value), "{text}");
        assert_eq!(printed(Kind::Date, value), text);
        let february = if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) { 29 } else { 28 };
        day += 1;
        if day > [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] {
            (day, month) = (1, month + 1);
        }
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
}

#[test]
fn any_value_is_printed_in_the_room_that_there_is() {
    for value in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
        for kind in
            [Kind::Plain, Kind::Padded(18), Kind::Decimal(18), Kind::Date, Kind::Moment(b' ', FRACTION_MAX)]
        {
            assert!(printed(kind, value).len() <= PRINTED_MAX, "{kind:?}");
        }
        assert_eq!(printed(Kind::Plain, value), value.to_string());
    }
}

fn guess(texts: &[&str]) -> Option<Shape> {
    let mut at = 0;
    let spans: Vec<Span> = texts
        .iter()
        .map(|text| {
            at += text.len();
            Span::new(at - text.len(), at)
        })
        .collect();
    Shape::guess(Texts { text: texts.concat().as_bytes(), spans: &spans })
}

#[test]
fn a_shape_is_what_most_texts_have() {
    let shape =
        |prefix: &str, kind, suffix: &str| Some(Shape { prefix: prefix.into(), suffix: suffix.into(), kind });
    for (texts, wanted) in [
        ("id,1,23,-4", shape("", Kind::Plain, "")),
        ("21,22,23", shape("", Kind::Plain, "")),
        ("zip,00701,01033,98000", shape("", Kind::Padded(5), "")),
        ("price,1.50,-20.25,3.00", shape("", Kind::Decimal(2), "")),
        ("1.12345678901234567,2.12345678901234567", shape("", Kind::Decimal(17), "")),
        ("1.123456789012345678,2.123456789012345678", None),
        ("day,2026-11-22,2026-11-23", shape("", Kind::Date, "")),
        ("at,2026-11-22 10:00:00,2026-11-23 11:00:00", shape("", Kind::Moment(b' ', 0), "")),
        ("at,2026-11-22T10:00:00.123456,2026-11-23T11:00:00.000000", shape("", Kind::Moment(b'T', 6), "")),
        ("user1,user2,user33", shape("user", Kind::Plain, "")),
        ("t-5,t-6,t-7", shape("t", Kind::Plain, "")),
        ("(1 km),(2 km),(33 km)", shape("(", Kind::Plain, " km)")),
        ("a1,a2,b3", None),
        ("1,2,NULL,NULL,NULL", shape("", Kind::Plain, "")),
        ("1,2,NULL,NULL,NULL,NULL", None),
        ("x1,1,2,3,4,5,6,7,1-,2-,3-", shape("", Kind::Plain, "")),
        ("x1,1,2,3,4,5,6,1-,2-,3-", None),
        ("one,two", None),
        ("7", shape("", Kind::Plain, "")),
    ] {
        assert_eq!(guess(&texts.split(',').collect::<Vec<_>>()), wanted, "{texts}");
    }
    let longest = "x".repeat(64);
    assert_eq!(guess(&[&format!("{longest}1"), &format!("{longest}2")]), shape(&longest, Kind::Plain, ""));
    assert_eq!(guess(&[&format!("1{longest}"), &format!("2{longest}")]), shape("", Kind::Plain, &longest));
    assert_eq!(guess(&[&format!("y{longest}1"), &format!("y{longest}2")]), None);
}

#[test]
fn a_shape_comes_back_from_its_bytes() {
    let shape = |kind, len| Shape { prefix: vec![b'p'; len], suffix: vec![b's'; len], kind };
    let back = |shape: &Shape| {
        let mut out = Vec::new();
        shape.encode(&mut out);
        Shape::decode(&mut Cursor::new(&out))
    };
    for kind in [Kind::Plain, Kind::Padded(18), Kind::Decimal(18), Kind::Date, Kind::Moment(b'T', 6)] {
        for len in [0, 1, 64] {
            assert_eq!(back(&shape(kind, len)), Ok(shape(kind, len)));
        }
        assert!(back(&shape(kind, 65)).is_err());
        let longer = |prefix: usize, suffix: usize| Shape {
            prefix: vec![b'p'; prefix],
            suffix: vec![b's'; suffix],
            kind,
        };
        assert!(back(&longer(65, 0)).is_err() && back(&longer(0, 65)).is_err());
    }
    for kind in [Kind::Padded(19), Kind::Decimal(19), Kind::Moment(b'T', 7)] {
        assert!(back(&shape(kind, 0)).is_err(), "{kind:?}");
    }
}
