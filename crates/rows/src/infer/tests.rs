//! The types of whole columns.

use super::*;

fn observed(values: &[&str]) -> ColumnStats {
    let mut stats = ColumnStats::new();
    values.iter().for_each(|value| stats.observe((*value != "NULL").then_some(value.as_bytes())));
    stats
}

/// The type of the values, observed together and in any two parts.
fn decided(values: &[&str]) -> String {
    let decided = observed(values).decide();
    for cut in 0..=values.len() {
        let mut merged = observed(&values[..cut]);
        merged.merge(&observed(&values[cut..]));
        assert_eq!(merged.decide(), decided, "{cut}");
    }
    decided.to_string()
}

#[test]
fn integers_get_the_smallest_type_that_holds_them() {
    for (values, expected) in [
        (&["0", "1"][..], "TINYINT UNSIGNED NOT NULL"),
        (&["255"], "TINYINT UNSIGNED NOT NULL"),
        (&["256", "NULL"], "SMALLINT UNSIGNED NULL"),
        (&["-128", "127"], "TINYINT NOT NULL"),
        (&["-129"], "SMALLINT NOT NULL"),
        (&["-1", "128"], "SMALLINT NOT NULL"),
        (&["8388608"], "MEDIUMINT UNSIGNED NOT NULL"),
        (&["-8388609"], "INT NOT NULL"),
        (&["16777216"], "INT UNSIGNED NOT NULL"),
        (&["4294967296"], "BIGINT UNSIGNED NOT NULL"),
        (&["-9223372036854775808"], "BIGINT NOT NULL"),
        (&["-9223372036854775809"], "DECIMAL(19,0) NOT NULL"),
        (&["-1", "18446744073709551615"], "DECIMAL(20,0) NOT NULL"),
        (&["18446744073709551616"], "DECIMAL(20,0) NOT NULL"),
        (&["1", "007"], "VARCHAR(3) NOT NULL"),
    ] {
        assert_eq!(decided(values), expected, "{values:?}");
    }
    assert_eq!(decided(&["9".repeat(65).as_str()]), "DECIMAL(65,0) NOT NULL");
    assert_eq!(decided(&["9".repeat(66).as_str()]), "VARCHAR(66) NOT NULL");
}

#[test]
fn fractions_and_exponents() {
    for (values, expected) in [
        (&["1.5", "100"][..], "DECIMAL(4,1) NOT NULL"),
        (&["0.05", "1.5"], "DECIMAL(3,2) NOT NULL"),
        (&["0.0"], "DECIMAL(1,1) NOT NULL"),
        (&["0", "0."], "DECIMAL(1,0) NOT NULL"),
        (&["-12345678901234567890.5"], "DECIMAL(21,1) NOT NULL"),
        (&["1e5", "2.5", "3"], "DOUBLE NOT NULL"),
        (&["-0.0", "2.5"], "DOUBLE NOT NULL"),
        (&["1e5", "9007199254740993"], "VARCHAR(16) NOT NULL"),
        (&["1e5", "1.23456789012345678"], "VARCHAR(19) NOT NULL"),
        (&["1e5", "9007199254740992"], "DOUBLE NOT NULL"),
        (&["1e5", "-9007199254740993"], "VARCHAR(17) NOT NULL"),
        (&["1e5", "1.2345678901234567"], "DOUBLE NOT NULL"),
        (&["1e5", "18446744073709551616"], "VARCHAR(20) NOT NULL"),
        (&["1.5", "nan"], "VARCHAR(3) NOT NULL"),
        (&["0.000000000000000000000000000001"], "DECIMAL(30,30) NOT NULL"),
        (&["0.0000000000000000000000000000001"], "VARCHAR(33) NOT NULL"),
    ] {
        assert_eq!(decided(values), expected, "{values:?}");
    }
}

#[test]
fn dates_times_and_booleans() {
    for (values, expected) in [
        (&["2024-01-01", "NULL"][..], "DATE NULL"),
        (&["2024-01-01", "2024-01-01 10:00:00"], "DATETIME NOT NULL"),
        (&["2024-01-01T10:00:00.5", "2024-01-01 10:00:00.123"], "DATETIME(3) NOT NULL"),
        (&["2024-01-01T10:00:00Z", "2024-01-01T10:00:00.25Z"], "DATETIME(2) NOT NULL"),
        (&["2024-01-01T10:00:00Z", "2024-01-01T10:00:00"], "VARCHAR(20) NOT NULL"),
        (&["2024-01-01T10:00:00Z", "2024-01-01"], "VARCHAR(20) NOT NULL"),
        (&["10:00:00", "-99:59:59.5"], "TIME(1) NOT NULL"),
        (&["10:00:00", "2024-01-01"], "VARCHAR(10) NOT NULL"),
        (&["true", "False", "t"], "BOOLEAN NOT NULL"),
        (&["true", "1"], "VARCHAR(4) NOT NULL"),
        (&["10x00:00"], "VARCHAR(8) NOT NULL"),
        (&["10:00x00"], "VARCHAR(8) NOT NULL"),
        (&["10:60:00"], "VARCHAR(8) NOT NULL"),
        (&["10:00:60"], "VARCHAR(8) NOT NULL"),
        (&["10:00:0"], "VARCHAR(7) NOT NULL"),
        (&["10:00:000"], "VARCHAR(9) NOT NULL"),
        (&["838:59:59.0", "-838:59:59"], "TIME(1) NOT NULL"),
        (&["838:59:59.1"], "VARCHAR(11) NOT NULL"),
        (&["839:00:00"], "VARCHAR(9) NOT NULL"),
        (&["2024-01-01 24:00:00"], "VARCHAR(19) NOT NULL"),
        (&["2024-01-01 23x59:59"], "VARCHAR(19) NOT NULL"),
        (&["2024-01-01 23:59x59"], "VARCHAR(19) NOT NULL"),
        (&["0000-00-00"], "VARCHAR(10) NOT NULL"),
    ] {
        assert_eq!(decided(values), expected, "{values:?}");
    }
    let mut stats = ColumnStats::new();
    stats.observe(Some(b"2024-01-01T10:00:00Z"));
    assert_eq!(stats.decide().kind, ColumnKind::DateTime { fraction: 0, utc: true });
}

#[test]
fn dates_and_numbers_are_recognised_when_all_values_agree() {
    for (values, expected, written) in [
        (&["31.12.1999", "1.2.2000", "NULL"][..], "DATE NULL", Written::Dates(DateOrder::Dmy)),
        (&["12/31/1999", "1/2/2000 10:00"], "DATETIME NOT NULL", Written::Dates(DateOrder::Mdy)),
        (&["1/2/2000", "3/4/2000"], "VARCHAR(8) NOT NULL", Written::Plainly),
        (&["31/12/1999", "12/31/1999"], "VARCHAR(10) NOT NULL", Written::Plainly),
        (&["31/12/1999", "31.12.1999"], "VARCHAR(10) NOT NULL", Written::Plainly),
        (&["31/12/1999", "31-12-1999"], "VARCHAR(10) NOT NULL", Written::Plainly),
        (&["31-12-1999", "31.12.1999"], "VARCHAR(10) NOT NULL", Written::Plainly),
        (&["31-12-1999", "1-2-2000 10:00"], "DATETIME NOT NULL", Written::Dates(DateOrder::Dmy)),
        (&["31.12.1999 10:5"], "VARCHAR(15) NOT NULL", Written::Plainly),
        (&["31/12/1999", "1999-12-31"], "VARCHAR(10) NOT NULL", Written::Plainly),
        (&["1,5", "-1.234,25", "7"], "DECIMAL(6,2) NOT NULL", Written::DecimalComma),
        (&["1,234", "2,345"], "VARCHAR(5) NOT NULL", Written::Plainly),
        (&["1,234", "2,5"], "DECIMAL(4,3) NOT NULL", Written::DecimalComma),
        (&["1,5", "2.5"], "VARCHAR(3) NOT NULL", Written::Plainly),
        (&["1,5", "x"], "VARCHAR(3) NOT NULL", Written::Plainly),
        (&["2024-01-01T10:00:00Z", "2024-01-01T10:00:00+01:00"], "DATETIME NOT NULL", Written::Plainly),
    ] {
        assert_eq!(
            (decided(values).as_str(), observed(values).decide().written),
            (expected, written),
            "{values:?}"
        );
    }
    let said = Habits { date_order: Some(DateOrder::Mdy), decimal_comma: true, ..Habits::default() };
    let decide = |values: &[&str]| observed(values).decide_by(&said).to_string();
    assert!(observed(&["1/2/2000"]).is_ambiguous_date() && !observed(&["31/2/2000"]).is_ambiguous_date());
    assert!(!observed(&["1/2/2000", "1.2.2000"]).is_ambiguous_date());
    assert!(
        observed(&["1/2/2000", "1/2/2000 10:00"]).is_ambiguous_date()
            && !observed(&["x"]).is_ambiguous_date()
    );
    assert_eq!(decide(&["1/2/2000", "3/4/2000"]), "DATE NOT NULL");
    assert_eq!(decide(&["31/12/1999"]), "VARCHAR(10) NOT NULL");
    assert_eq!(decide(&["1,234"]), "DECIMAL(4,3) NOT NULL");
}

#[test]
fn types_may_have_room() {
    let roomy = Habits { roomy: true, ..Habits::default() };
    for (values, expected) in [
        (&["1", "200"][..], "INT NULL"),
        (&["1073741824"], "BIGINT NULL"),
        (&["18446744073709551615"], "BIGINT UNSIGNED NULL"),
        (&["1.25"], "DECIMAL(7,2) NULL"),
        (&["123456789"], "INT NULL"),
        (&["some words"], "VARCHAR(32) NULL"),
        (&["2024-01-01"], "DATE NULL"),
        (&["true"], "BOOLEAN NULL"),
        (&["NULL"], "VARCHAR(1) NULL"),
    ] {
        assert_eq!(observed(values).decide_by(&roomy).to_string(), expected, "{values:?}");
    }
    let long = |byte: u8, length| {
        let mut stats = ColumnStats::new();
        stats.observe(Some(&vec![byte; length]));
        stats.decide_by(&roomy).kind
    };
    let text = [20_000, 32_767, 32_768, 8_388_607, 8_388_608].map(|length| long(b'x', length));
    let texts = [ColumnKind::Text, ColumnKind::MediumText, ColumnKind::LongText];
    assert_eq!(text, [texts[0], texts[0], texts[1], texts[1], texts[2]]);
    let blob = [65_534, 8_388_607, 8_388_608].map(|length| long(0xff, length));
    assert_eq!(blob, [ColumnKind::MediumBlob, ColumnKind::MediumBlob, ColumnKind::LongBlob]);
}

#[test]
fn text_is_measured_in_characters_and_long_text_in_bytes() {
    assert_eq!(decided(&["na\u{ef}ve", "x"]), "VARCHAR(5) NOT NULL");
    assert_eq!(decided(&[""]), "VARCHAR(1) NOT NULL");
    assert_eq!(decided(&["x".repeat(16383).as_str()]), "VARCHAR(16383) NOT NULL");
    assert_eq!(decided(&["x".repeat(16384).as_str()]), "TEXT NOT NULL");
    assert_eq!(decided(&["\u{ef}".repeat(32768).as_str()]), "MEDIUMTEXT NOT NULL");
    assert_eq!(decided(&["x".repeat(1 << 24).as_str()]), "LONGTEXT NOT NULL");
}

#[test]
fn bytes_that_are_no_text_are_binary() {
    let mut stats = ColumnStats::new();
    stats.observe(Some(b"caf\xe9"));
    assert_eq!(stats.decide().to_string(), "VARBINARY(4) NOT NULL");
    stats.observe(Some(&[0xff; 65_533]));
    assert_eq!(stats.decide().to_string(), "BLOB NOT NULL");
    stats.observe(Some(&[0xff; 65_536]));
    assert_eq!(stats.decide().to_string(), "MEDIUMBLOB NOT NULL");
}

#[test]
fn columns_without_values_are_nullable_text() {
    assert_eq!(decided(&["NULL", "NULL"]), "VARCHAR(1) NULL");
    assert_eq!(decided(&[]), "VARCHAR(255) NULL");
}

#[test]
fn only_types_with_one_spelling_suit_a_key() {
    let suits = |values: &[&str]| observed(values).decide().suits_key();
    assert!(suits(&["1"]) && suits(&["2024-01-01"]) && suits(&["a"]));
    assert!(!suits(&["1", "NULL"]) && !suits(&["1.50"]) && !suits(&["10:00:00.5"]));
}

#[test]
fn the_whole_file_decides_what_commas_and_empty_texts_mean() {
    let decide = |values: &[&str], habits: Habits| observed(values).decide_by(&habits).to_string();
    let points = Habits { points: true, ..Habits::default() };
    assert_eq!(decide(&["4,6", "20,22"], Habits::default()), "DECIMAL(4,2) NOT NULL");
    assert_eq!(decide(&["4,6", "20,22"], points), "VARCHAR(5) NOT NULL");
    assert_eq!(decide(&["4,6"], Habits { decimal_comma: true, ..points }), "DECIMAL(2,1) NOT NULL");
    assert!(observed(&["4,6", "20,22"]).is_ambiguous_comma(&points));
    assert!(
        !observed(&["4,6"]).is_ambiguous_comma(&Habits::default())
            && !observed(&["x"]).is_ambiguous_comma(&points)
    );
    assert!(observed(&["0.5", "7"]).has_points() && observed(&["1.5e3", "0.25"]).has_points());
    // These may be thousands.
    assert!(
        !observed(&["1.234"]).has_points()
            && !observed(&["5"]).has_points()
            && !observed(&["0.5", "x"]).has_points()
    );

    let empty = Habits { empty_is_null: true, ..Habits::default() };
    for (values, expected) in [
        (&["5", "", "7"][..], "TINYINT UNSIGNED NULL"),
        (&["2024-01-01", ""], "DATE NULL"),
        (&["31.12.1999", ""], "DATE NULL"),
        (&["a", ""], "VARCHAR(1) NOT NULL"),
        (&["", ""], "VARCHAR(1) NOT NULL"),
        (&["5", "2024-01-01", ""], "VARCHAR(10) NOT NULL"),
        // Here an empty text is not NULL, because something else is.
        (&["5", "", "NULL"], "VARCHAR(1) NULL"),
    ] {
        assert_eq!(decide(values, empty), expected, "{values:?}");
        for cut in 0..values.len() {
            let mut merged = observed(&values[..cut]);
            merged.merge(&observed(&values[cut..]));
            assert_eq!(merged.decide_by(&empty).to_string(), expected, "{values:?}");
        }
    }
    assert_eq!(decide(&["5", ""], Habits::default()), "VARCHAR(1) NOT NULL");
}

#[test]
fn a_few_texts_among_other_values_are_told() {
    let days = |count: usize| vec!["2024-01-31"; count];
    let few = |values: &[&str]| observed(values).few_texts(&Habits::default());
    for at in [0, 30, 60] {
        let mut values = days(60);
        values.insert(at, "2024-02-31");
        let found = few(&values).unwrap();
        assert_eq!((found.texts, found.values, &*found.first), (1, 61, &b"2024-02-31"[..]), "{at}");
        assert_eq!(found.others.to_string(), "DATE");
        for cut in 0..values.len() {
            let mut merged = observed(&values[..cut]);
            merged.merge(&observed(&values[cut..]));
            assert_eq!(merged.few_texts(&Habits::default()).as_ref(), Some(&found), "{at} {cut}");
        }
    }
    let long = "n/a, as far as anybody knows who has been asked for it so far".repeat(2);
    let found = few(&[&vec!["17"; 100][..], &[&long, "?"]].concat()).unwrap();
    assert_eq!((found.texts, found.first.len()), (2, FewTexts::BYTES_MAX));
    for values in [&["a", "b"][..], &["1", "x"], &days(60), &["1", "2024-01-31"], &["NULL", "x"]] {
        assert_eq!(few(values), None, "{values:?}");
    }
}
