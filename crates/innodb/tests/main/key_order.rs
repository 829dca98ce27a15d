//! Keys as bytes are in the order of their values.

use std::cmp::Ordering;
use std::sync::LazyLock;

use innodb::key_order::KeyOrder;
use proptest::prelude::*;

use crate::written::table;

/// The order of the key of a table with these columns.
fn order(columns: &str, key: &str) -> Option<KeyOrder> {
    let statement = format!("CREATE TABLE t ({columns}, KEY k ({key})) ENGINE=InnoDB DEFAULT CHARSET=latin1");
    let table = table(&statement);
    KeyOrder::of(&table, &table.indexes()[1])
}

fn key(order: &KeyOrder, values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().enumerate().for_each(|(field, value)| order.append(field, *value, &mut out));
    out
}

/// As the server compares where spaces at the end do not count.
fn padded(a: &[u8], b: &[u8]) -> Ordering {
    let at = |text: &[u8], place: usize| text.get(place).copied().unwrap_or(b' ');
    let places = 0..a.len().max(b.len());
    places.map(|place| at(a, place).cmp(&at(b, place))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b' '), Just(0), Just(b'a'), Just(0xFF), Just(31), Just(33)], 0..22)
}

/// Keys of a text or bytes and a number: the upward one, the downward one, and whether all bytes count alike.
static TEXTS: LazyLock<Vec<(KeyOrder, KeyOrder, bool)>> = LazyLock::new(|| {
    let columns = "v varchar(99) COLLATE latin1_bin, b varbinary(99), n varchar(99) COLLATE latin1_nopad_bin, i tinyint unsigned";
    let both = |(name, plain)| {
        let of = |key: String| order(columns, &key).unwrap();
        (of(format!("{name}, i")), of(format!("{name} DESC, i")), plain)
    };
    [("v", false), ("b", true), ("n", true)].into_iter().map(both).collect()
});

/// Keys of a number of each size.
static FLOATS: LazyLock<[KeyOrder; 2]> =
    LazyLock::new(|| ["v double NOT NULL", "v float NOT NULL"].map(|column| order(column, "v").unwrap()));

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn texts_and_bytes_compare_as_the_server_does(a in bytes(), b in bytes(), c: u8, d: u8, nulls in 0_u8..4) {
        for (order, back, plain) in TEXTS.iter() {
            let one: [Option<&[u8]>; 2] = [(nulls & 1 == 0).then_some(&a), Some(&[c])];
            let other: [Option<&[u8]>; 2] = [(nulls & 2 == 0).then_some(&b), Some(&[d])];
            let first = match (one[0], other[0]) {
                (Some(a), Some(b)) if !plain => padded(a, b),
                (a, b) => a.cmp(&b),
            };
            prop_assert_eq!(key(order, &one).cmp(&key(order, &other)), first.then(c.cmp(&d)));
            prop_assert_eq!(key(back, &one).cmp(&key(back, &other)), first.reverse().then(c.cmp(&d)));
        }
    }

    #[test]
    fn floating_numbers_compare_as_numbers(a: f64, b: f64, c: f32, d: f32) {
        let [double, float] = &*FLOATS;
        for (a, b) in [(a, b), (0.0, -0.0), (-a, a), (1.0, b)] {
            let (one, other) = (key(double, &[Some(&a.to_le_bytes())]), key(double, &[Some(&b.to_le_bytes())]));
            prop_assert_eq!(Some(one.cmp(&other)), a.partial_cmp(&b));
        }
        for (c, d) in [(c, d), (0.0, -0.0), (-c, c)] {
            let (one, other) = (key(float, &[Some(&c.to_le_bytes())]), key(float, &[Some(&d.to_le_bytes())]));
            prop_assert_eq!(Some(one.cmp(&other)), c.partial_cmp(&d));
        }
    }
}

/// Texts whose first eight bytes are the same.
#[test]
fn what_follows_is_compared_to_spaces() {
    let (order, _, _) = &TEXTS[0];
    let texts = ["\x1f", " \x1f", "", " !", "!"].map(|end| format!("aaaaaaaa{end}"));
    let key = |text: &String| key(order, &[Some(text.as_bytes()), Some(&[1])]);
    assert!(texts.windows(2).all(|two| key(&two[0]) < key(&two[1])));
    assert_eq!(key(&"aaaaaaaa  ".to_owned()), key(&texts[2]));
}

#[test]
fn orders_of_collations_are_left_to_the_server() {
    for (kind, is_known) in [
        ("varchar(9) COLLATE latin1_swedish_ci", false),
        ("varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci", false),
        ("varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", true),
        ("char(9) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin", true),
        ("char(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", false),
        ("varchar(9) CHARACTER SET utf16 COLLATE utf16_bin", false),
        ("varchar(9) CHARACTER SET gbk COLLATE gbk_bin", false),
        ("varbinary(9)", true),
        ("binary(9)", true),
        ("inet6", true),
    ] {
        assert_eq!(order(&format!("v {kind}"), "v").is_some(), is_known, "{kind}");
    }
}
