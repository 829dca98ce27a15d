//! Values and NULL by SQL's rules; columns of every kind; garbage.

mod bounds;
mod limits;
mod stored;

use std::sync::Arc;

use proptest::prelude::{any, prop, proptest};

use crate::number::Number;
use crate::{Collate, Column, ColumnLayout, Condition, Kind, Pattern, Schema};

/// Collation 1 ignores case.
struct Simple;

impl Collate for Simple {
    fn equal(&self, collation: u32, one: &[u8], other: &[u8]) -> bool {
        if collation == 1 { one.eq_ignore_ascii_case(other) } else { one == other }
    }

    fn encode(&self, _: u32, literal: &str) -> Option<Vec<u8>> {
        literal.is_ascii().then(|| literal.as_bytes().to_vec())
    }

    fn decode(&self, _: u32, text: &[u8]) -> Option<String> {
        String::from_utf8(text.to_vec()).ok()
    }

    fn like(&self, collation: u32, text: &[u8], pattern: &Pattern) -> bool {
        let rest = |from: usize| Pattern { bytes: pattern.bytes[from..].to_vec(), ..pattern.clone() };
        match pattern.bytes.as_slice() {
            [] => text.is_empty(),
            [b'%', ..] => (0..=text.len()).any(|at| self.like(collation, &text[at..], &rest(1))),
            [first, literal, ..] if char::from(*first) == pattern.escape => {
                text.first() == Some(literal) && self.like(collation, &text[1..], &rest(2))
            }
            [first, ..] => {
                let same = |byte: &u8| *first == b'_' || self.equal(collation, &[*byte], &[*first]);
                text.first().is_some_and(same) && self.like(collation, &text[1..], &rest(1))
            }
        }
    }
}

fn schema() -> Arc<Schema> {
    let fixed = |name: &str, kind, offset, len, null_bit| {
        let name = name.to_owned();
        Column { name, kind, layout: ColumnLayout::Fixed(offset, len), null_bit, members: Vec::new() }
    };
    let variable = |name: &str, kind, before, null_bit| {
        let name = name.to_owned();
        Column { name, kind, layout: ColumnLayout::Variable(before), null_bit, members: Vec::new() }
    };
    let columns = vec![
        fixed("id", Kind::Integer { signed: true }, 0, 4, Some(0)),
        fixed("small", Kind::Integer { signed: false }, 4, 2, None),
        fixed("price", Kind::Decimal { precision: 11, scale: 2 }, 6, 5, None),
        fixed("day", Kind::Date, 11, 3, None),
        fixed("at", Kind::DateTime(3), 14, 7, None),
        fixed("big", Kind::Integer { signed: false }, 21, 8, None),
        fixed("lap", Kind::Time(0), 29, 3, None),
        variable("other", Kind::Opaque, 0, Some(9)),
        variable("name", Kind::Text(1), 1, Some(1)),
        fixed("seen", Kind::Timestamp(0), 32, 4, None),
        Column {
            members: ["mail", "print", ""].map(|member| member.as_bytes().to_vec()).to_vec(),
            ..fixed("kind", Kind::Enum(1), 36, 1, None)
        },
    ];
    Arc::new(Schema { null_bytes: 2, fixed_bytes: 37, columns })
}

/// id -7, small 65535, price -1234567.89, day 2026-11-21, at 2026-11-21 23:59:58.250, big 2^64 - 1, lap
/// -01:02:03, name "Bob", seen 1000000000.
fn row(nulls: [u8; 2]) -> Vec<u8> {
    let mut row = nulls.to_vec();
    row.extend((-7i32).to_le_bytes());
    row.extend(u16::MAX.to_le_bytes());
    // 001234567 in four bytes, 89 in one. The number is negative, so all bits are inverted, and the first bit
    // once more.
    row.extend([0x80 ^ 0xff, !0x12, !0xd6, !0x87, !89]);
    row.extend(&((2026u32 << 9) | (11 << 5) | 21).to_le_bytes()[..3]);
    let packed = ((2026u64 * 13 + 11) << 5 | 21) << 17 | 23 << 12 | 59 << 6 | 58;
    row.extend(&(packed + 0x80_0000_0000).to_be_bytes()[3..]);
    row.extend(2500u16.to_be_bytes());
    row.extend(u64::MAX.to_le_bytes());
    row.extend(&(0x80_0000u32 - (1 << 12 | 2 << 6 | 3)).to_be_bytes()[1..]);
    row.extend(1_000_000_000u32.to_be_bytes());
    row.push(2);
    row.extend(b"\x02??\x03Bob");
    row
}

fn compile(text: &str) -> Result<Condition, crate::Error> {
    let collate: Arc<dyn Collate> = Arc::new(Simple);
    Condition::compile(text, &schema(), &collate)
}

fn is(text: &str) -> bool {
    compile(text).unwrap_or_else(|error| panic!("{text}: {error}")).matches(&row([0, 0]))
}

#[test]
fn every_kind_of_column_has_its_value() {
    for text in [
        "id = -7",
        "ID < 0",
        "`id`=-7",
        "small = 65535",
        "small > 65534.5",
        "price = -1234567.89",
        "price < -1234567.88",
        "day = 20261121",
        "day = '2026-11-21'",
        "day > '2026-11-20'",
        "at = '2026-11-21 23:59:58.25'",
        "at = 20261121235958.250",
        "at > '2026-11-21'",
        "big = 18446744073709551615",
        "big > 0",
        "lap = '-1:02:03'",
        "lap = -10203",
        "name = 'bob'",
        "'BOB' = name",
        "name <> 'bo'",
        "name is not null",
        "other is not null",
        "name != '\u{e9}'",
        "seen = 1000000000",
        "seen = '2001-09-09 01:46:40'",
        "name <=> 'bob'",
        "name in ('x', 'bob')",
        "name not in ('x', 'y')",
        "name like 'b%'",
        "name like '_O_' and name not like '_'",
        "name like 'b!%' escape '!' or name like 'bo_'",
        "id in (1, 2 + 3, -7)",
        "id between -8 and -6 and small not between 1 and 2",
        "id not between -6 and 0",
        "day between '2026-11-01' and '2026-11-30'",
        "day in ('2026-11-20', '2026-11-21')",
        "kind = 'PRINT'",
        "kind != 'mail' and kind <> 'nosuch'",
        "kind in ('mail', 'print')",
        "kind like 'p%'",
        "kind = 2 and kind > 1 and kind <=> 'print'",
        "kind not in ('', 'mail')",
        "name = name",
    ] {
        assert!(is(text), "{text}");
        assert!(!is(&format!("not ({text})")), "not {text}");
    }
}

#[test]
fn ranges_know_null_and_say_what_is_wrong() {
    let null = |text: &str| compile(text).unwrap().matches(&row([1, 0]));
    for text in
        ["id in (1)", "id not in (1)", "not id in (1)", "id between 1 and 2", "id not between 1 and 2"]
    {
        assert!(!null(text), "{text} of NULL");
    }
    assert!(is("id in (null, -7)") && !is("id not in (1, null)") && !is("id in (null)"));
    assert!(is("name like 'B\\\\_b' or name = 'Bob'") && !is("name like 'B\\\\_b'"));
    for (text, why) in [
        ("name between 'a' and 'c'", "only be compared by =, !=, IN and LIKE"),
        ("id like '7'", "only strings"),
        ("kind < 'mail'", "only be compared"),
        ("id in ()", "unexpected )"),
        ("id in (1", "missing"),
        ("id between 1", "missing"),
        ("id not 5", "unexpected 5"),
        ("name like name", "LIKE needs a string"),
        ("name like 'x' escape 'ab'", "one character"),
        ("in (1)", "unexpected in"),
    ] {
        let error = compile(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let long = format!("id in ({})", (0..300).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    assert!(compile(&long).unwrap_err().to_string().contains("operations"));
    let wide = format!("id + 1 in ({})", (0..190).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    assert!(compile(&wide).unwrap_err().to_string().contains("operations"));
}

#[test]
fn operators_bind_and_calculate_as_in_sql() {
    for text in [
        "1 or 0 and 0",
        "1 xor 1 or 1",
        "not 0 and 1",
        "not 1 = 2",
        "2 + 3 * 4 = 14",
        "7 div 2 = 3",
        "-7 div 2 = -3",
        "-7 % 3 = -1",
        "7 mod 4 = 3",
        "5.5 % 2 = 1.5",
        "1 | 2 = 3",
        "6 & 3 = 2",
        "1 << 3 = 8",
        "16 >> 2 = 4",
        "1 << 64 = 0",
        "5 ^ 1 = 4",
        "2 * 3 ^ 1 = 4",
        "~0 = 18446744073709551615",
        "pow(2, 10) = 1024",
        "pow(1.5, 2) = 2.25",
        "0x10 = 16",
        "010 = 8",
        "10 - 2 - 3 = 5",
        "2 < 3 = 1",
        "1 && 1 || 0",
        "!0",
        "- -3 = 3",
        "0.1 + 0.2 = 0.3",
        "-9223372036854775808 div -1 = 9223372036854775808",
        ".5 * 2 = 1",
        "3 between_is_no_word is null is false",
    ] {
        if text.contains("between") {
            assert!(compile(text).is_err());
        } else {
            assert!(is(text), "{text}");
        }
    }
}

#[test]
fn null_goes_by_the_rules_of_sql() {
    let null = |text: &str| {
        let is_null = compile(&format!("({text}) is null")).unwrap();
        assert!(is_null.matches(&row([0b11, 0])), "{text} is null");
        let plain = compile(text).unwrap();
        assert!(!plain.matches(&row([0b11, 0])), "{text}: no match");
        assert!(!compile(&format!("not ({text})")).unwrap().matches(&row([0b11, 0])), "not {text}: no match");
    };
    for text in [
        "null",
        "id",
        "id = 1",
        "id + 1",
        "-id",
        "~id",
        "id and 1",
        "1 and id",
        "id or 0",
        "0 or id",
        "id xor 1",
        "name = 'x'",
        "name != 'x'",
        "name != '\u{e9}'",
        "1 div 0",
        "1 % 0",
        "id < 3",
        "170141183460469231731687303715884105727 + 1",
        "pow(10, 99)",
        "not id",
    ] {
        null(text);
    }
    let matches = |text: &str| compile(text).unwrap().matches(&row([0b11, 0b10]));
    for text in [
        "id or 1",
        "1 or id",
        "(id and 0) = 0",
        "(0 and id) = 0",
        "id is null",
        "name is null",
        "other is null",
        "id <=> null",
        "null <=> null",
        "not (id <=> 1)",
        "id is not true",
        "id is not false",
        "not (id is true)",
        "not (name <=> 'x')",
    ] {
        assert!(matches(text), "{text}");
    }
}

#[test]
fn garbage_is_told_with_its_position() {
    for (text, position, what) in [
        ("", 1, "missing"),
        ("id =", 5, "missing"),
        ("id = = 1", 6, "unexpected ="),
        ("nosuch = 1", 1, "no column nosuch"),
        ("id = 1 1", 8, "unexpected 1"),
        ("(id = 1", 8, "missing"),
        ("id = 1)", 7, "unexpected )"),
        ("id ? 1", 4, "unexpected '?'"),
        ("'x", 1, "without an end"),
        ("`id = 1", 1, "without an end"),
        ("id = 'x'", 6, "a number is needed"),
        ("name = 1", 1, "is a string"),
        ("name < 'x'", 1, "only be compared"),
        ("name + 1", 1, "is a string"),
        ("other = 1", 1, "asked for NULL"),
        ("day = 'noon'", 7, "no time"),
        ("at = '2026-13-01'", 6, "no time"),
        ("12abc = 1", 1, "no number"),
        ("id is 3", 7, "unexpected 3"),
        ("not not 1", 5, "unexpected not"),
        ("pow(1)", 6, "unexpected )"),
        ("name", 1, "is a string"),
        ("\u{e9}\u{e9} = ?", 1, "no column"),
        ("id = 99999999999999999999999999999999999999999", 6, "no number"),
        ("1 = 08", 5, "no number"),
        ("id == 1", 5, "unexpected ="),
    ] {
        let error = compile(text).expect_err(text);
        assert!(error.what.contains(what) && error.position == position, "{text}: {error}");
    }
}

#[test]
fn a_condition_can_be_neither_deep_nor_endless() {
    assert!(compile(&format!("{}1{}", "(".repeat(50), ")".repeat(50))).is_ok());
    for text in [
        format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        "-".repeat(20_000) + "1",
        "~".repeat(5000) + "1",
        "1+".repeat(5000) + "1",
        "pow(".repeat(3000),
        "1".repeat(70_000),
    ] {
        compile(&text).unwrap_err();
    }
}

#[test]
fn a_row_that_is_too_short_does_not_match() {
    let condition = compile("id = id or 1").unwrap();
    let row = row([0, 0]);
    (0..38).for_each(|len| assert!(!condition.matches(&row[..len]), "{len}"));
}

#[test]
fn a_column_is_read_by_its_number() {
    let (schema, null) = (schema(), row([1, 0]));
    let row = row([0, 0]);
    assert_eq!(schema.bytes(&row, 8), Some(&b"Bob"[..]));
    assert_eq!(schema.bytes(&null, 0), None);
    assert_eq!(schema.integer(&row, 0), Some(-7));
    assert_eq!(schema.integer(&null, 0), None);
    assert_eq!(schema.integer(&row, 3), None, "a date");
    assert_eq!(schema.integer(&row, 99), None, "no column");
    assert_eq!(schema.unix_ms(&row, 4), Some(1_795_305_598_250));
    assert_eq!(schema.unix_ms(&row, 9), Some(1_000_000_000_000));
    assert_eq!(schema.unix_ms(&row, 0), Some(-7000));
    assert_eq!(schema.unix_ms(&row, 6), None, "a time of no day");
}

#[test]
fn a_fraction_of_a_millisecond_counts_as_a_whole_one() {
    let thousandths = |digits| Number { digits, scale: 4 }.thousandths();
    assert_eq!([10_000, 10_001, 10_009, -1].map(thousandths), [Some(1000), Some(1001), Some(1001), Some(0)]);
    assert_eq!(Number::from(i128::MAX).thousandths(), None);
}

proptest! {
    #[test]
    fn a_schema_comes_back_and_any_bytes_are_one_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let schema = schema();
        assert_eq!(Schema::decode(&schema.encode()).as_ref(), Some(&*schema));
        let decoded = Schema::decode(&bytes);
        assert!(decoded.is_none_or(|schema| Schema::decode(&schema.encode()) == Some(schema)));
    }

    #[test]
    fn any_text_is_a_condition_or_an_error_and_any_row_is_answered(
        pieces in prop::collection::vec(0usize..40, 0..24), row in prop::collection::vec(any::<u8>(), 0..80)
    ) {
        const PIECES: [&str; 40] = [
            "id", "small", "price", "day", "at", "big", "lap", "name", "other", "seen", "1", "0", "2.5", "-", "~", "(", ")", "and",
            "or", "xor", "not", "=", "<=>", "<", ">=", "is", "null", "true", "+", "*", "div", "%", "<<", "^", "|", "pow(", ",",
            "'2026-01-01'", "18446744073709551615", "'",
        ];
        let text: Vec<&str> = pieces.iter().map(|piece| PIECES[*piece]).collect();
        if let Ok(condition) = compile(&text.join(" ")) {
            condition.matches(&row);
        }
    }
}

fn json(schema: &Schema, row: &[u8]) -> String {
    let mut out = String::new();
    schema.json(row, false, &Simple, &mut out);
    out
}

#[test]
fn a_row_is_an_object_in_ascii() {
    let schema = schema();
    assert_eq!(schema.not_json(), Some("other"));
    assert_eq!(
        json(&schema, &row([0, 0])),
        r#"{"id":-7,"small":65535,"price":-1234567.89,"day":"2026-11-21","at":"2026-11-21 23:59:58.250","#
            .to_owned()
            + r#""big":18446744073709551615,"lap":"-01:02:03","other":null,"name":"Bob","#
            + r#""seen":"2001-09-09 01:46:40","kind":"print"}"#
    );
    assert!(json(&schema, &row([1, 0])).starts_with(r#"{"id":null,"small""#));
    let nothing = schema.columns.iter().map(|column| format!("\"{}\":null", column.name));
    assert_eq!(json(&schema, b""), format!("{{{}}}", nothing.collect::<Vec<_>>().join(",")));
}

#[test]
fn text_is_escaped_padding_goes_and_bytes_are_base64() {
    let column = |name: &str, collation, layout| Column {
        name: name.to_owned(),
        kind: Kind::Text(collation),
        layout,
        null_bit: None,
        members: Vec::new(),
    };
    let columns = vec![
        column("c", 1, ColumnLayout::Fixed(0, 4)),
        column("a\"", 1, ColumnLayout::Variable(0)),
        column("b", 63, ColumnLayout::Variable(1)),
    ];
    let schema = Schema { null_bytes: 0, fixed_bytes: 4, columns };
    assert_eq!(schema.not_json(), None);
    let shown = |text: &str, bytes: &[u8]| {
        let mut row = b"x   ".to_vec();
        for value in [text.as_bytes(), bytes] {
            row.push(u8::try_from(value.len()).unwrap());
            row.extend(value);
        }
        json(&schema, &row)
    };
    assert_eq!(shown("a\\\"\n\t ", b""), r#"{"c":"x","a\"":"a\\\"\n\u0009 ","b":""}"#);
    assert_eq!(shown("\u{e9}\u{1f600}", b"f"), r#"{"c":"x","a\"":"\u00e9\ud83d\ude00","b":"Zg=="}"#);
    assert!(shown("", b"fo").ends_with(r#""b":"Zm8="}"#));
    assert!(shown("", b"foobar").ends_with(r#""b":"Zm9vYmFy"}"#));
}

#[test]
fn a_timestamp_is_shown_as_its_literal_is_read() {
    let schema = schema();
    let collate: Arc<dyn Collate> = Arc::new(Simple);
    for (seconds, expected) in [
        (1u32, "1970-01-01 00:00:01"),
        (36_633_600, "1971-03-01 00:00:00"),
        (68_169_599, "1972-02-28 23:59:59"),
        (951_782_400, "2000-02-29 00:00:00"),
        (951_868_799, "2000-02-29 23:59:59"),
        (951_868_800, "2000-03-01 00:00:00"),
        (1_709_251_199, "2024-02-29 23:59:59"),
        (u32::MAX, "2106-02-07 06:28:15"),
    ] {
        let mut row = row([0, 0]);
        row[34..38].copy_from_slice(&seconds.to_be_bytes());
        let shown = json(&schema, &row);
        let at = shown.split(r#""seen":""#).nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(at, expected);
        let condition = Condition::compile(&format!("seen = '{at}'"), &schema, &collate).unwrap();
        assert!(condition.matches(&row), "{seconds}: {at}");
    }
    let mut zero = row([0, 0]);
    zero[34..38].fill(0);
    assert!(json(&schema, &zero).contains(r#""seen":"0000-00-00 00:00:00""#));
}

#[test]
fn tries_are_asked_for_by_functions() {
    let schema = schema();
    let collate: Arc<dyn Collate> = Arc::new(Simple);
    let row = vec![0; 64];
    let compiled = |text: &str| Condition::compile(text, &schema, &collate);
    for (text, failed, why, expected) in [
        ("failed() > 2", 3, "", true),
        ("FAILED ( ) > 2", 2, "", false),
        ("why() = 'full'", 1, "full", true),
        ("why() like '%host%' and failed() in (1, 2)", 1, "no such host", true),
        ("why() like '%host%'", 1, "full", false),
        ("why() is null", 0, "", true),
        ("why() is not null", 0, "", false),
        ("why() != 'full'", 0, "", false),
    ] {
        let condition = compiled(text).unwrap();
        assert!(condition.asks_tries(), "{text}");
        assert_eq!(condition.matches_tried(&row, failed, why), expected, "{text} {failed} {why}");
    }
    assert!(!compiled("id = 1").unwrap().asks_tries());
    assert_eq!(compiled("id = 1 or 2 > id").unwrap().columns().collect::<Vec<_>>(), ["id"]);
    for (text, why) in [
        ("why() > 'a'", "strings can only be compared"),
        ("why() + 1", "why() is a string"),
        ("failed(1)", "unexpected 1"),
        ("failed", "there is no column failed"),
    ] {
        let error = compiled(text).unwrap_err();
        assert!(error.what.contains(why), "{text}: {error}");
    }
}
