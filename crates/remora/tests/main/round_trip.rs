//! Every type of column and every kind of text comes back unchanged.

use crate::support::{Place, on_every_server};

/// A column's type, the expression that shows its value as it stood in the file, and values.
struct Kind {
    column_type: String,
    shown: &'static str,
    values: Vec<Option<String>>,
}

fn kind(column_type: &str, shown: &'static str, values: &[&str]) -> Kind {
    let values = values.iter().map(|value| Some((*value).to_owned())).chain([None]).collect();
    Kind { column_type: column_type.to_owned(), shown, values }
}

fn numbers() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (name, bits) in [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)] {
        let half = 1_i128 << (bits - 1);
        kinds.push(kind(name, "{}", &[&(-half).to_string(), "-1", "0", &(half - 1).to_string()]));
        kinds.push(kind(&format!("{name} UNSIGNED"), "{}", &["0", &(2 * half - 1).to_string()]));
    }
    let nines = |whole: usize, part: usize| format!("{}.{}", "9".repeat(whole), "9".repeat(part));
    let (wide, least) = (nines(35, 30), format!("0.{:0>30}", 1));
    kinds.push(kind("DECIMAL(65,30)", "{}", &[&wide, &format!("-{wide}"), &least]));
    kinds.push(kind("DECIMAL(65,0)", "{}", &[&"9".repeat(65), &format!("-{}", "9".repeat(65))]));
    kinds.push(kind("FLOAT", "{}", &["-3.40282e38", "1.17549e-38", "0.5", "-1"]));
    kinds.push(kind(
        "DOUBLE",
        "{}",
        &["-1.7976931348623157e308", "1.7976931348623157e308", "2.2250738585072014e-308", "0.1", "-0.25"],
    ));
    kinds.push(kind("BIT(1)", "{}+0", &["0", "1"]));
    kinds.push(kind("BIT(64)", "{}+0", &["18446744073709551615", "9223372036854775808", "0"]));
    kinds
}

fn times(mariadb: bool) -> Vec<Kind> {
    let mut kinds = vec![
        kind("DATE", "{}", &["1000-01-01", "9999-12-31", "2024-02-29"]),
        kind("DATETIME", "{}", &["1000-01-01 00:00:00", "9999-12-31 23:59:59"]),
        kind("DATETIME(6)", "{}", &["1000-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999"]),
        kind("TIMESTAMP NULL", "{}", &["1970-01-01 00:00:01", "2038-01-19 03:14:07"]),
        kind("TIMESTAMP(6) NULL", "{}", &["1970-01-01 00:00:01.000001", "2038-01-19 03:14:07.999999"]),
        kind("TIME", "{}", &["-838:59:59", "838:59:59", "00:00:00", "-00:00:01"]),
        kind("TIME(6)", "{}", &["-838:59:58.999999", "838:59:58.999999", "12:00:00.000001"]),
        kind("YEAR", "{}", &["1901", "2155", "0000"]),
    ];
    if mariadb {
        kinds.push(kind("TIME(6)", "{}", &["-838:59:59.999999", "838:59:59.999999"]));
    }
    kinds
}

fn texts(mariadb: bool) -> Vec<Kind> {
    let all = "a, \"b\" 'c' \\ \t end\r\nnext \u{e9}\u{20ac}\u{65e5}\u{1f41f}";
    let long = "\u{1f41f}x\n".repeat(9_000);
    let mut kinds = vec![
        kind("CHAR(5)", "{}", &["abc", "", "\u{1f41f}\u{e9}\u{20ac}ab"]),
        kind("VARCHAR(100)", "{}", &[all, "", " spaces ", "\\N", "NULL", "0"]),
        kind("TINYTEXT", "{}", &[all, "", &"x".repeat(255)]),
        kind("TEXT", "{}", &[all, "", &long]),
        kind("MEDIUMTEXT", "{}", &[all, &long]),
        kind("LONGTEXT", "{}", &[all, "\\", "\\\\", "\"", "\n", "\t"]),
        kind("BINARY(4)", "{}", &["abcd", "\u{1f41f}"]),
        kind("VARBINARY(100)", "{}", &[all, "", " "]),
        kind("TINYBLOB", "{}", &[all, ""]),
        kind("BLOB", "{}", &[all, "", &long]),
        kind("MEDIUMBLOB", "{}", &[all, &long]),
        kind("LONGBLOB", "{}", &[all, &long]),
        kind("ENUM('a','b,c','')", "{}", &["a", "b,c", ""]),
        kind("SET('x','y','z')", "{}", &["x", "x,z", "", "x,y,z"]),
        kind("GEOMETRY", "ST_AsText({})", &["POINT(1 2)", "LINESTRING(0 0,1.5 2.25)"]),
        kind("POLYGON", "ST_AsText({})", &["POLYGON((0 0,10 0,10 10,0 10,0 0))"]),
    ];
    if mariadb {
        kinds.push(kind("JSON", "{}", &["{\"a\": [1, \"\\\"q\\\"\\n\", null]}", "[]", "\"\u{e9}\""]));
        kinds.push(kind(
            "UUID",
            "{}",
            &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-bfff-ffffffffffff"],
        ));
        kinds.push(kind("INET6", "{}", &["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:1.2.3.4"]));
        kinds.push(kind("INET4", "{}", &["0.0.0.0", "255.255.255.255"]));
    }
    kinds
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

#[test]
fn every_type_keeps_its_extreme_values() {
    on_every_server(|place| {
        let kinds = [numbers(), times(place.is_mariadb()), texts(place.is_mariadb())];
        let kinds: Vec<Kind> = kinds.into_iter().flatten().collect();
        let columns: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| format!("c{at} {}", kind.column_type)).collect();
        for table in ["a", "b"] {
            place.sql(&[&format!("CREATE TABLE {table} (id INT PRIMARY KEY, {})", columns.join(", "))]);
        }
        let rows = kinds.iter().map(|kind| kind.values.len()).max().unwrap();
        let value = |kind: &Kind, row: usize| kind.values[row % kind.values.len()].clone();
        let mut csv = String::new();
        for row in 0..rows {
            csv.push_str(&row.to_string());
            for kind in &kinds {
                csv.push(',');
                csv.push_str(&value(kind, row).as_deref().map_or(String::new(), quoted));
            }
            csv.push('\n');
        }
        let file = place.file("a.csv", csv);
        let zone = ["--time-zone", "+00:00", "--no-header"];
        place.import(&[&[file.as_str(), "--into", "a"], zone.as_slice()].concat()).exits(0);
        check(place, "a", &kinds);

        // The server's own export, in its own dialect.
        let shown: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| kind.shown.replace("{}", &format!("c{at}"))).collect();
        let dump = place.path("a.txt");
        let mut session = place.session();
        session.execute("SET time_zone = '+00:00'").unwrap();
        let dumped =
            format!("SELECT id, {} INTO OUTFILE '{}' FROM a ORDER BY id", shown.join(", "), dump.display());
        session.execute(&dumped).unwrap();
        for encoding in ["utf-8", "binary"] {
            let import = ["a.txt", "--into", "b", "--replace", "--encoding", encoding, "--escape", "\\"];
            place.import(&[import.as_slice(), &zone].concat()).exits(0);
            check(place, "b", &kinds);
        }
    });
}

#[track_caller]
fn check(place: &Place, table: &str, kinds: &[Kind]) {
    let mut session = place.session();
    session.execute("SET time_zone = '+00:00'").unwrap();
    for (at, kind) in kinds.iter().enumerate() {
        let shown = kind.shown.replace("{}", &format!("c{at}"));
        let rows = session.strings(&format!("SELECT {shown} FROM {table} ORDER BY id")).unwrap();
        for (row, cells) in rows.iter().enumerate() {
            let wanted = &kind.values[row % kind.values.len()];
            assert_eq!(&cells[0], wanted, "{} in row {row}", kind.column_type);
        }
    }
}

/// Columns of a file; a type must be inferred for each that keeps its values unchanged.
const INFERRED: &[(&str, &[&str])] = &[
    ("tiny", &["-128", "127", "0"]),
    ("tiny_unsigned", &["0", "255", "1"]),
    ("small", &["-32768", "32767", "0"]),
    ("medium", &["-8388608", "8388607", "0"]),
    ("whole", &["-2147483648", "2147483647", "0"]),
    ("whole_unsigned", &["0", "4294967295", "1"]),
    ("big", &["-9223372036854775808", "9223372036854775807", "0"]),
    ("big_unsigned", &["18446744073709551615", "0", "1"]),
    ("bigger", &["18446744073709551616", "-9223372036854775809", "0"]),
    ("digits65", &["99999999999999999999999999999999999999999999999999999999999999999", "0", "1"]),
    ("digits66", &["999999999999999999999999999999999999999999999999999999999999999999", "0", "1"]),
    ("money", &["-1234567.89", "0.01", "100.00"]),
    (
        "fine",
        &[
            "0.000000000000000000000000000001",
            "1.500000000000000000000000000000",
            "-0.300000000000000000000000000000",
        ],
    ),
    ("too_fine", &["0.0000000000000000000000000000001", "1", "2"]),
    ("huge", &["1e400", "1", "2"]),
    ("signed", &["+5", "1", "2"]),
    ("zeros", &["007", "01", "0"]),
    ("minus_zero", &["-0", "1", "2"]),
    ("not_a_number", &["NaN", "inf", "1"]),
    ("hexadecimal", &["0x1F", "1", "2"]),
    ("day", &["1000-01-01", "9999-12-31", "2024-02-29"]),
    ("no_day", &["2023-02-29", "2024-02-29", "2024-01-01"]),
    ("zero_day", &["0000-00-00", "2024-02-29", "2024-01-01"]),
    ("moment", &["1000-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999", "2024-02-29 12:00:00.500000"]),
    ("clock", &["-838:59:59", "838:59:59", "00:00:00"]),
    ("no_clock", &["839:00:00", "01:00:00", "02:00:00"]),
    ("year", &["1901", "2155", "2024"]),
    ("with_null", &["", "5", "6"]),
    ("nothing", &["", "", ""]),
    ("word", &["", "\u{e9}\u{1f41f}", " spaces "]),
    ("quote", &["a,b", "c\"d", "e\nf\r\ng"]),
    ("backslash", &["a\\b", "\\n", "\\"]),
    ("mixed", &["1", "x", "2024-01-01"]),
];

#[test]
fn types_that_are_inferred_hold_every_value() {
    on_every_server(|place| {
        let long: Vec<String> = [300, 20_000, 70_000].map(|count| "\u{20ac}".repeat(count)).to_vec();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let columns = [INFERRED, &[("long", &long)]].concat();
        let mut csv = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",") + "\n";
        for row in 0..3 {
            let quoted = |value: &str| {
                let plain = !value.contains(['"', ',', '\n', '\r']);
                if plain { value.to_owned() } else { quoted(value) }
            };
            let fields: Vec<_> = columns.iter().map(|(_, values)| quoted(values[row])).collect();
            csv.push_str(&(fields.join(",") + "\n"));
        }
        let file = place.file("a.csv", csv);
        place.import(&[&file, "--into", "t", "--create", "--no-key"]).exits(0);
        for (name, values) in &columns {
            let mut found: Vec<String> = place
                .session()
                .strings(&format!("SELECT `{name}` FROM t"))
                .unwrap()
                .into_iter()
                .map(|row| row[0].clone().unwrap_or_default())
                .collect();
            let mut wanted: Vec<String> = values.iter().map(ToString::to_string).collect();
            found.sort();
            wanted.sort();
            let column_type = place.value(&format!(
                "SELECT column_type FROM information_schema.columns \
                 WHERE table_schema = '{}' AND table_name = 't' AND column_name = '{name}'",
                place.schema
            ));
            assert_eq!(found, wanted, "{name} became {column_type}");
        }
    });
}
