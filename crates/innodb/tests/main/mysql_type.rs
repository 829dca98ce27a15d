//! The type of a column, from MySQL's number of it and its other properties.

use innodb::table::collation::Collation;
use innodb::table::{FloatFormat, GeometryKind, Members, Type};
use serde_json::{Value, json};

use crate::mysql_text::changed;

/// The type of a column with this number, length and further properties.
fn kind(number: u32, char_length: u32, more: &[(&str, Value)]) -> Result<Type, String> {
    let own = [("type", json!(number)), ("char_length", json!(char_length))];
    let places: Vec<_> =
        own.iter().chain(more).map(|(name, value)| (format!("/columns/2/{name}"), value)).collect();
    let changes: Vec<_> = places.iter().map(|(place, value)| (place.as_str(), (*value).clone())).collect();
    let table = changed(&changes).table().map_err(|error| error.to_string())?;
    Ok(table.columns()[2].kind.clone())
}

#[test]
fn numbers() {
    for (number, bytes) in [(2, 1), (3, 2), (10, 3), (9, 8), (4, 4)] {
        let plain = Type::Int { bytes, unsigned: false, zerofill: 0 };
        assert_eq!(kind(number, 11, &[]), Ok(plain));
        let filled = [("is_unsigned", json!(true)), ("is_zerofill", json!(true))];
        assert_eq!(kind(number, 11, &filled), Ok(Type::Int { bytes, unsigned: true, zerofill: 11 }));
    }
    let float = FloatFormat { digits: None, unsigned: false, zerofill: false };
    assert_eq!(kind(5, 12, &[]), Ok(Type::Float(float)));
    assert_eq!(kind(6, 22, &[]), Ok(Type::Double(float)));
    let digits = |digits: u32| {
        [
            ("numeric_scale_null", json!(false)),
            ("numeric_precision", json!(digits)),
            ("numeric_scale", json!(2)),
        ]
    };
    let with_digits = FloatFormat { digits: Some((5, 2)), ..float };
    assert_eq!(kind(6, 5, &digits(5)), Ok(Type::Double(with_digits)));
    assert_eq!(kind(6, 5, &digits(0)), Ok(Type::Double(float)), "a dropped column");
    let of_sign = [("is_unsigned", json!(true)), ("is_zerofill", json!(true))];
    let unsigned = FloatFormat { digits: None, unsigned: true, zerofill: true };
    assert_eq!(kind(5, 12, &of_sign), Ok(Type::Float(unsigned)));
    for (bits, wanted) in [(0, None), (1, Some(1)), (64, Some(64)), (65, None)] {
        assert_eq!(kind(17, bits, &[]).ok(), wanted.map(|bits| Type::Bit { bits }), "{bits}");
    }
}

/// The length counts a point, if there are decimals, and a sign.
#[test]
fn decimals_by_their_length() {
    for (chars, scale, unsigned, precision) in [
        (12, 0, false, Some(11)),
        (12, 2, false, Some(10)),
        (12, 2, true, Some(11)),
        (12, 0, true, Some(12)),
        (2, 0, false, Some(1)),
        (1, 0, false, None),
        (66, 0, false, Some(65)),
        (67, 0, false, None),
        (42, 38, false, Some(40)),
        (42, 39, false, None),
        (7, 5, false, Some(5)),
        (7, 6, false, None),
    ] {
        let more = [("numeric_scale", json!(scale)), ("is_unsigned", json!(unsigned))];
        let scale = u8::try_from(scale).unwrap();
        let wanted = precision.map(|precision| Type::Decimal { precision, scale, unsigned, zerofill: false });
        let found = kind(21, chars, &more);
        assert_eq!(found.as_ref().ok(), wanted.as_ref(), "{chars} {scale}");
        assert!(found.is_ok() || found.unwrap_err().contains("its number of digits"));
    }
}

#[test]
fn times_by_their_length() {
    assert_eq!(kind(15, 10, &[]), Ok(Type::Date));
    assert_eq!(kind(14, 4, &[]), Ok(Type::Year { short: false }));
    let time = |fraction| Type::Time { fraction };
    let datetime = |fraction| Type::Datetime { fraction };
    let timestamp = |fraction| Type::Timestamp { fraction, wide: false };
    for fraction in 1..=6 {
        let more = 1 + u32::from(fraction);
        assert_eq!(kind(20, 10 + more, &[]), Ok(time(fraction)));
        assert_eq!(kind(19, 19 + more, &[]), Ok(datetime(fraction)));
        assert_eq!(kind(18, 19 + more, &[]), Ok(timestamp(fraction)));
    }
    assert_eq!([kind(20, 10, &[]), kind(19, 19, &[])], [Ok(time(0)), Ok(datetime(0))]);
    assert_eq!(kind(18, 19, &[]), Ok(timestamp(0)));
    for (number, chars) in [(20, 11), (20, 18), (19, 20), (18, 27)] {
        assert!(kind(number, chars, &[]).unwrap_err().contains("its length"), "{number} {chars}");
    }
    for number in [1, 8, 11, 12, 13] {
        assert!(kind(number, 10, &[]).unwrap_err().contains("rebuild the table"), "{number}");
    }
}

#[test]
fn texts_and_bytes() {
    let utf8mb4 = Collation::of_number(255).unwrap();
    // Their length is in bytes.
    assert_eq!(kind(29, 36, &[]), Ok(Type::Char { chars: 9, collation: utf8mb4 }));
    assert_eq!(kind(16, 36, &[]), Ok(Type::Varchar { chars: 9, collation: utf8mb4, compressed: false }));
    let latin1 = [("collation_id", json!(8))];
    let collation = Collation::of_number(8).unwrap();
    assert_eq!(kind(29, 36, &latin1), Ok(Type::Char { chars: 36, collation }));
    assert!(kind(16, 36, &[("collation_id", json!(999))]).unwrap_err().contains("collation 999"));
    assert!(kind(16, 4 * 65_536, &[]).unwrap_err().contains("its length"));
    for (number, length_bytes) in [(24, 1), (27, 2), (25, 3), (26, 4)] {
        let blob = Type::Blob { length_bytes, collation: utf8mb4, compressed: false };
        assert_eq!(kind(number, 9, &[]), Ok(blob));
    }
    let vector = Type::Blob { length_bytes: 4, collation: Collation::BINARY, compressed: false };
    assert_eq!([kind(32, 9, &[]), kind(31, 9, &[])], [Ok(vector), Ok(Type::Json)]);
}

#[test]
fn members_and_shapes() {
    let latin1 = Collation::of_number(8).unwrap();
    // In base64: a, bc
    let of = |number: u32, members: &[&str]| {
        let members: Vec<Value> = members.iter().map(|member| json!({"name": member})).collect();
        kind(number, 1, &[("elements", json!(members)), ("collation_id", json!(8))])
    };
    let members = Members::new(vec![b"a".to_vec(), b"bc".to_vec()], latin1);
    assert_eq!(of(22, &["YQ==", "Ym\nM="]), Ok(Type::Enum(members.clone())));
    assert_eq!(of(23, &["YQ==", "YmM="]), Ok(Type::Set(members)));
    assert!(of(23, &["YQ=="; 64]).is_ok() && of(22, &["YQ=="; 65]).is_ok());
    for (number, members) in [(22, &[][..]), (23, &[]), (23, &["YQ=="; 65])] {
        assert!(of(number, members).unwrap_err().contains("its number of members"));
    }
    assert!(of(22, &["?"]).unwrap_err().contains("a member"));
    let shape = |options: &str| kind(30, 0, &[("options", json!(options))]);
    assert_eq!(shape(""), Ok(Type::Geometry(GeometryKind::ALL[0])));
    assert_eq!(shape("geom_type=3;"), Ok(Type::Geometry(GeometryKind::ALL[3])));
    assert!(shape("geom_type=8;").unwrap_err().contains("its kind of geometry"));
    assert!(kind(33, 1, &[]).unwrap_err().contains("the type 33"));
}
