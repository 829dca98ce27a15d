//! Every byte and every class of character is imported unchanged.

use std::fmt::Write as _;

use crate::support::{Place, on_every_server};

/// Makes a table `e` with the expected values, and a table `t` for the imported ones.
fn expect(place: &Place, column_type: &str, values: &[Vec<u8>]) {
    place.sql(&[
        "DROP TABLE IF EXISTS e",
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE e (id INT PRIMARY KEY, v LONGBLOB NOT NULL)",
        &format!("CREATE TABLE t (id INT PRIMARY KEY, v {column_type} NOT NULL)"),
    ]);
    let mut session = place.session();
    for (id, value) in values.iter().enumerate() {
        let hex = value.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        session.execute(&format!("INSERT INTO e VALUES ({id}, x'{hex}')")).unwrap();
    }
}

#[track_caller]
fn same(place: &Place, count: usize) {
    let differ = "SELECT e.id, HEX(LEFT(e.v, 50)), HEX(LEFT(t.v, 50)) FROM e LEFT JOIN t USING (id) \
                  WHERE t.v IS NULL OR CAST(t.v AS BINARY) <> e.v LIMIT 5";
    assert_eq!(place.rows(differ), Vec::<String>::new());
    assert_eq!(place.count("t"), count as u64);
}

/// A CSV of a number and a value in quotes.
fn quoted(values: &[Vec<u8>]) -> Vec<u8> {
    let mut text = b"id,v\n".to_vec();
    for (id, value) in values.iter().enumerate() {
        text.extend(format!("{id},\"").bytes());
        for byte in value {
            text.extend(if *byte == b'"' { vec![b'"', b'"'] } else { vec![*byte] });
        }
        text.extend(b"\"\n");
    }
    text
}

/// The same as SELECT INTO OUTFILE writes it.
fn escaped(values: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    for (id, value) in values.iter().enumerate() {
        text.extend(format!("{id}\t").bytes());
        for byte in value {
            match byte {
                0 => text.extend(b"\\0"),
                b'\t' | b'\n' | b'\\' => text.extend([b'\\', *byte]),
                byte => text.push(*byte),
            }
        }
        text.push(b'\n');
    }
    text
}

const CSV: [&str; 5] = ["--header", "--delimiter", "comma", "--quote", "\""];
const DUMP: [&str; 7] = ["--no-header", "--delimiter", "tab", "--quote", "none", "--escape", "\\"];

/// Imports values in both dialects and compares.
pub(crate) fn both_ways(
    place: &Place,
    column_type: &str,
    encoding: &str,
    file: &[Vec<u8>],
    expected: &[Vec<u8>],
) {
    expect(place, column_type, expected);
    for (text, dialect) in [(quoted(file), CSV.as_slice()), (escaped(file), DUMP.as_slice())] {
        let name = place.file("v.csv", text);
        let import = [
            name.as_str(),
            "--into",
            "t",
            "--replace",
            "--encoding",
            encoding,
            "--line-end",
            "lf",
            "--no-null",
        ];
        place.import(&[import.as_slice(), dialect].concat()).exits(0);
        same(place, expected.len());
    }
}

/// Each byte alone, between letters, twice, and all of them in a row.
pub(crate) fn bytes() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = vec![Vec::new(), (0..=255).collect(), (0..=255).rev().collect()];
    for byte in 0..=255 {
        values.extend([vec![byte], vec![b'a', byte, b'b'], vec![byte, byte]]);
    }
    values
}

/// The bytes of windows-1252 as MySQL maps them: five have no character and stand for themselves.
fn from_latin1(bytes: &[u8]) -> Vec<u8> {
    const HIGH: [char; 32] = [
        '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
        '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}',
        '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}',
        '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
    ];
    let char = |byte: &u8| match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        byte => char::from(*byte),
    };
    bytes.iter().map(char).collect::<String>().into_bytes()
}

#[test]
fn every_byte_of_latin1_is_its_character() {
    on_every_server(|place| {
        let expected: Vec<_> = bytes().iter().map(|value| from_latin1(value)).collect();
        both_ways(place, "TEXT CHARACTER SET utf8mb4", "latin1", &bytes(), &expected);
    });
}

#[test]
fn every_byte_of_a_blob_stays() {
    on_every_server(|place| {
        let mut values = bytes();
        values.push((0..=255).flat_map(|one: u8| (0..=255).flat_map(move |two: u8| [one, two])).collect());
        both_ways(place, "MEDIUMBLOB", "binary", &values, &values);
    });
}

#[test]
fn characters_of_every_length_stay() {
    let chars = [
        '\0',
        '\u{1}',
        '\u{8}',
        '\u{1a}',
        '\u{7f}',
        '\u{80}',
        '\u{7ff}',
        '\u{800}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{fdd0}',
        '\u{feff}',
        '\u{fffd}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1f41f}',
        '\u{fffff}',
        '\u{10ffff}',
        '\u{2028}',
        '\u{85}',
    ];
    on_every_server(|place| {
        let mut values: Vec<Vec<u8>> = chars.iter().map(|char| format!("{char}").into_bytes()).collect();
        values.extend(chars.iter().map(|char| format!("a{char}{char}\"\n'\\\r\n{char}").into_bytes()));
        both_ways(place, "TEXT CHARACTER SET utf8mb4", "utf-8", &values, &values);
    });
}

#[test]
fn a_character_the_column_has_not_is_a_bad_row() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, v VARCHAR(10) CHARACTER SET latin1)"]);
        let file = place.file("p.csv", "id,v\n1,\u{e9}\n2,\u{65e5}\n3,x\n");
        place.import(&[&file, "--into", "t"]).exits(1).says(&["p.csv:3: column v, value '\u{65e5}'"]);
        place.untouched("t", 0);
        place.sql(&["DROP TABLE t", "CREATE TABLE t (id INT, v VARCHAR(10) CHARACTER SET utf8)"]);
        let file = place.file("p.csv", "id,v\n1,\u{e9}\n2,\u{1f41f}\n3,x\n");
        place.import(&[&file, "--into", "t"]).exits(1).says(&["p.csv:3: column v"]);
        place.untouched("t", 0);
    });
}

#[test]
fn files_of_every_format_are_recognised() {
    on_every_server(|place| {
        let wanted = ["1|a b", "2|c,\"d\"", "3|e\nf", "4|\u{e9}\u{1f41f}"];
        let csv = "id,v\n1,a b\n2,\"c,\"\"d\"\"\"\n3,\"e\nf\"\n4,\u{e9}\u{1f41f}\n";
        let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect()
        };
        let forms: Vec<Vec<u8>> = vec![
            csv.into(),
            format!("\u{feff}{csv}").into(),
            wide(csv, u16::to_le_bytes),
            wide(csv, u16::to_be_bytes),
            csv.replace(',', ";").replace("c;", "c,").into(),
            "id\tv\n1\ta b\n2\tc,\"d\"\n3\te\\\nf\n4\t\u{e9}\u{1f41f}\n".into(),
            "id|v\n1|a b\n2|\"c,\"\"d\"\"\"\n3|\"e\nf\"\n4|\u{e9}\u{1f41f}\n".into(),
        ];
        place.sql(&["CREATE TABLE t (id INT, v VARCHAR(20))"]);
        for (at, form) in forms.iter().enumerate() {
            let file = place.file("p.csv", form);
            place.import(&[&file, "--into", "t", "--replace"]).exits(0);
            assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), wanted, "form {at}");
        }
    });
}
