//! A column as SHOW CREATE TABLE prints it: its type with arguments, and what follows.

use innodb::table::collation::Collation;
use innodb::table::{Column, FloatFormat, Generated, GeometryKind, Length, Type, sql};

use crate::support::VERSION;

/// The column `v` of a latin1 table, or the error.
fn parsed(rest: &str) -> Result<Column, String> {
    let text = format!("CREATE TABLE t (v {rest}, w INT) ENGINE=InnoDB DEFAULT CHARSET=latin1");
    let table = sql::parse(&text, VERSION).map_err(|error| error.to_string())?;
    assert_eq!((table.columns().len(), table.columns()[1].name.as_str()), (2, "w"));
    Ok(table.columns()[0].clone())
}

fn kind(rest: &str) -> Option<Type> {
    parsed(rest).map(|column| column.kind).ok()
}

#[test]
fn numbers_have_usual_arguments_and_bounds() {
    for (name, bytes, width) in
        [("tinyint", 1, 3), ("smallint", 2, 5), ("mediumint", 3, 8), ("int", 4, 10), ("bigint", 8, 20)]
    {
        let int = |unsigned, zerofill| Some(Type::Int { bytes, unsigned, zerofill });
        assert_eq!(kind(&format!("{name}(7)")), int(false, 0));
        assert_eq!(kind(&format!("{name}(7) unsigned")), int(true, 0));
        assert_eq!(kind(&format!("{name} zerofill")), int(true, width));
        assert_eq!(kind(&format!("{name}(255) unsigned zerofill")), int(true, 255));
        assert_eq!(kind(&format!("{name}(256) zerofill")), None);
    }
    let float = |digits, unsigned, zerofill| FloatFormat { digits, unsigned, zerofill };
    for (text, wanted) in [
        ("float", Some(Type::Float(float(None, false, false)))),
        ("double unsigned", Some(Type::Double(float(None, true, false)))),
        ("double zerofill", Some(Type::Double(float(None, true, true)))),
        ("float(255,38)", Some(Type::Float(float(Some((255, 38)), false, false)))),
        ("float(256,2)", None),
        ("float(255,39)", None),
        ("float(5)", None),
        ("double(5,2,1)", None),
    ] {
        assert_eq!(kind(text), wanted, "{text}");
    }
    let decimal =
        |precision, scale, unsigned, zerofill| Some(Type::Decimal { precision, scale, unsigned, zerofill });
    for (text, wanted) in [
        ("decimal", decimal(10, 0, false, false)),
        ("decimal(5)", decimal(5, 0, false, false)),
        ("decimal(65,38) unsigned", decimal(65, 38, true, false)),
        ("decimal(38,38) zerofill", decimal(38, 38, true, true)),
        ("decimal(37,38)", None),
        ("decimal(66,0)", None),
        ("decimal(65,39)", None),
    ] {
        assert_eq!(kind(text), wanted, "{text}");
    }
    for (text, bits) in
        [("bit", Some(1)), ("bit(0)", Some(1)), ("bit(64)", Some(64)), ("bit(65)", None), ("bit(2)", Some(2))]
    {
        assert_eq!(kind(text), bits.map(|bits| Type::Bit { bits }), "{text}");
    }
}

#[test]
fn other_types_have_them_too() {
    let latin1 = Collation::of_charset("latin1").unwrap();
    for (text, wanted) in [
        ("year", Some(Type::Year { short: false })),
        ("year(4)", Some(Type::Year { short: false })),
        ("year(2)", Some(Type::Year { short: true })),
        ("year(5)", None),
        ("date", Some(Type::Date)),
        ("time", Some(Type::Time { fraction: 0 })),
        ("time(6)", Some(Type::Time { fraction: 6 })),
        ("time(7)", None),
        ("datetime(3)", Some(Type::Datetime { fraction: 3 })),
        ("datetime(7)", None),
        ("timestamp(6)", Some(Type::Timestamp { fraction: 6, wide: true })),
        ("timestamp(7)", None),
        ("char", Some(Type::Char { chars: 1, collation: latin1 })),
        ("binary(9)", Some(Type::Char { chars: 9, collation: Collation::BINARY })),
        ("varchar(65535)", Some(Type::Varchar { chars: 65_535, collation: latin1, compressed: false })),
        ("varchar(65536)", None),
        ("varbinary(9)", Some(Type::Varchar { chars: 9, collation: Collation::BINARY, compressed: false })),
        (
            "varchar(9) /*M!100301 COMPRESSED*/",
            Some(Type::Varchar { chars: 9, collation: latin1, compressed: true }),
        ),
        ("inet4", Some(Type::Inet4)),
        ("inet6", Some(Type::Inet6)),
        ("json", Some(Type::Json)),
        ("vector(16383)", Some(Type::Vector { dimensions: 16_383 })),
        ("vector(16384)", None),
        ("uuid", Some(Type::Uuid { always_swapped: false })),
    ] {
        assert_eq!(kind(text), wanted, "{text}");
    }
    for (at, size) in ["tiny", "", "medium", "long"].into_iter().enumerate() {
        let length_bytes = u8::try_from(at + 1).unwrap();
        let blob = |collation, compressed| Some(Type::Blob { length_bytes, collation, compressed });
        assert_eq!(kind(&format!("{size}text")), blob(latin1, false));
        assert_eq!(kind(&format!("{size}blob")), blob(Collation::BINARY, false));
        assert_eq!(kind(&format!("{size}text COMPRESSED=zlib")), blob(latin1, true));
        assert_eq!(kind(&format!("{size}blob COMPRESSED")), blob(Collation::BINARY, true));
    }
    let names =
        "geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection";
    for (name, wanted) in names.split(' ').zip(GeometryKind::ALL) {
        assert_eq!(kind(name), Some(Type::Geometry(wanted)), "{name}");
    }
    let many = |count: usize| vec!["'m'"; count].join(",");
    assert!(kind(&format!("set({})", many(64))).is_some() && kind(&format!("set({})", many(65))).is_none());
    assert!(kind(&format!("enum({})", many(300))).is_some() && kind("enum(1)").is_none());
}

#[test]
fn a_long_char_is_stored_as_a_varchar() {
    for (chars, wanted) in [(192, Length::Fixed(768)), (193, Length::Variable { max: 772, external: true })] {
        assert_eq!(kind(&format!("char({chars}) CHARACTER SET utf32")).unwrap().length(), wanted);
    }
}

#[test]
fn a_backslash_makes_another_character() {
    let names = |text: &str| match kind(text) {
        Some(Type::Enum(members)) => members.names().to_vec(),
        other => panic!("{text}: {other:?}"),
    };
    let escaped = names(r"enum('\0','\b','\n','\r','\t','\Z','\\','\'','\%')");
    let wanted = ["\0", "\u{8}", "\n", "\r", "\t", "\u{1a}", "\\", "'", "%"];
    assert_eq!(escaped, wanted.map(|name| name.as_bytes().to_vec()));
}

#[test]
fn a_collation_is_that_of_the_column_before_its_character_set_and_the_table() {
    let collation = |rest: &str| match kind(&format!("char(9) {rest}")) {
        Some(Type::Char { collation, .. }) => collation.name(),
        other => panic!("{other:?}"),
    };
    assert_eq!(collation(""), "latin1_swedish_ci");
    assert_eq!(collation("CHARACTER SET latin2"), "latin2_general_ci");
    assert_eq!(collation("CHARSET latin2"), "latin2_general_ci");
    assert_eq!(collation("COLLATE latin2_bin"), "latin2_bin");
    assert_eq!(collation("CHARACTER SET latin2 COLLATE latin2_bin"), "latin2_bin");
    let none = sql::parse("CREATE TABLE t (v char(9)) ENGINE=InnoDB", VERSION).unwrap_err().to_string();
    assert!(none.contains("no character set, neither here nor of the table"), "{none}");
}

#[test]
fn attributes_are_known_and_most_change_nothing() {
    let plain = parsed("int").unwrap();
    assert!(plain.nullable && !plain.auto_increment && !plain.hidden);
    for rest in [
        "NULL",
        "DEFAULT NULL",
        "DEFAULT 'it''s, )'",
        "DEFAULT -1.5e3",
        "DEFAULT +1",
        "DEFAULT (1 + (2))",
        "DEFAULT now(3)",
        "DEFAULT app.f(1, ')')",
        "DEFAULT _latin1'x'",
        "DEFAULT current_timestamp() ON UPDATE current_timestamp()",
        "CHECK (`v` > (1))",
        "COMMENT 'a, b'",
        "REF_SYSTEM_ID=4326",
        "INVISIBLE",
        "WITH SYSTEM VERSIONING",
        "WITHOUT SYSTEM VERSIONING",
    ] {
        assert_eq!(parsed(&format!("int {rest}")), Ok(plain.clone()), "{rest}");
    }
    assert!(parsed("int AUTO_INCREMENT").unwrap().auto_increment);
    assert!(!parsed("int NOT NULL").unwrap().nullable);
    for (rest, generated, nullable) in [
        ("GENERATED ALWAYS AS ROW START", Generated::RowStart, false),
        ("GENERATED ALWAYS AS ROW END", Generated::RowEnd, false),
        ("GENERATED ALWAYS AS (1 + (2)) VIRTUAL", Generated::Virtual, true),
        ("GENERATED ALWAYS AS (1) STORED", Generated::Stored, true),
        ("AS (1) PERSISTENT", Generated::Stored, true),
    ] {
        let column = parsed(&format!("int {rest}")).unwrap();
        assert_eq!((column.generated, column.nullable), (generated, nullable), "{rest}");
    }
    for (rest, what) in [
        ("GENERATED ALWAYS AS ROW SIDEWAYS", "START or END"),
        ("AS (1) SOMEHOW", "VIRTUAL or STORED"),
        ("DEFAULT ,", "a default"),
        ("SPARSE", "more of a column"),
    ] {
        let error = parsed(&format!("int {rest}")).unwrap_err();
        assert!(error.contains(what), "{rest}: {error}");
    }
}
