//! The format is guessed from the beginning of a file: the rest confirms the guess, changes it, or ends the
//! import.

use std::fmt::Write as _;

use crate::support::{Place, on_every_server};

/// Rows of a number and a word, with some replaced.
fn rows(count: usize, delimiter: char, others: &[(usize, &str)]) -> String {
    let mut text = String::new();
    for id in 1..=count {
        let other = others.iter().find(|(at, _)| *at == id);
        writeln!(text, "{id}{delimiter}{}", other.map_or("word", |(_, value)| value)).unwrap();
    }
    text
}

const OUTFILE: [(usize, &str); 3] = [(4000, "\\N"), (4600, "C:\\\\dir"), (4700, "two\\\nlines")];

fn holds_outfile(place: &Place) {
    assert_eq!(
        place.rows("SELECT col_1, col_2 FROM t WHERE col_2 IS NULL OR col_2 <> 'word' ORDER BY col_1"),
        ["4000|NULL", "4600|C:\\dir", "4700|two\nlines"]
    );
    assert_eq!(place.count("t"), 5000);
}

#[test]
fn a_late_escape_changes_the_dialect_of_a_table_that_is_created() {
    on_every_server(|place| {
        let file = place.file("p.tsv", rows(5000, '\t', &OUTFILE));
        place.import(&[&file, "--into", "t", "--create"]).exits(0).says(&[
            "p.tsv:4000",
            "'\\N'",
            "escaped with \\",
        ]);
        holds_outfile(place);
        // The same where the first of them makes a row with the wrong number of fields.
        let file = place.file("q.tsv", rows(5000, '\t', &[(4000, "a\\\tb"), (4700, "two\\\nlines")]));
        place.import(&[&file, "--into", "u", "--create"]).exits(0).says(&["q.tsv:4000"]);
        assert_eq!(
            place.rows("SELECT col_1, col_2 FROM u WHERE col_2 <> 'word' ORDER BY col_1"),
            ["4000|a\tb", "4700|two\nlines"]
        );
    });
}

#[test]
fn a_late_escape_ends_an_import_into_an_existing_table() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (col_1 INT PRIMARY KEY, col_2 VARCHAR(20))"]);
        let file = place.file("p.tsv", rows(5000, '\t', &OUTFILE));
        for way in ["--replace", "--append"] {
            // With more sessions a later line may be met first.
            let import = [file.as_str(), "--into", "t", "--chunk", "4K", "--sessions", "1", way];
            place.import(&import).exits(1).says(&["p.tsv:4000: ", "'\\N'", "--escape"]);
            place.untouched("t", 0);
        }
        let import = [file.as_str(), "--into", "t", "--escape", "\\"];
        place.import(&import).exits(0);
        holds_outfile(place);
        let import = [
            file.as_str(),
            "--into",
            "t",
            "--replace",
            "--escape",
            "none",
            "--line-end",
            "lf",
            "--max-rejects",
            "2",
        ];
        place.import(&import).exits(3);
        assert_eq!(place.value("SELECT col_2 FROM t WHERE col_1 = 4600"), "C:\\\\dir");
    });
}

#[test]
fn words_for_null_are_judged_by_the_whole_file() {
    on_every_server(|place| {
        // NA is NULL among numbers, wherever it occurs.
        let file =
            place.file("p.csv", format!("id,n\n{}", rows(5000, ',', &[(4000, "NA")]).replace("word", "17")));
        place.import(&[&file, "--into", "t", "--create"]).exits(0).says(&["NA is NULL"]);
        assert_eq!(place.rows("SELECT id, n FROM t WHERE n IS NULL OR n <> 17"), ["4000|NULL"]);
        assert_eq!(place.value("SELECT SUM(n) FROM t"), (4999 * 17).to_string());
        // Among words, NA is Namibia.
        let numbers = rows(5000, ',', &[(3, "NA"), (4500, "DE")]).replace("word", "17");
        let file = place.file("q.csv", format!("id,c\n{numbers}"));
        place.import(&[&file, "--into", "u", "--create"]).exits(0).says(&["no word is NULL"]);
        assert_eq!(place.rows("SELECT id, c FROM u WHERE c <> '17' ORDER BY id"), ["3|NA", "4500|DE"]);
        place.sql(&["TRUNCATE TABLE u"]);
        place.import(&[&file, "--into", "u"]).exits(1).says(&["q.csv:4501: ", "'DE'", "--null"]);
        place.untouched("u", 0);
        place.import(&[&file, "--into", "u", "--no-null"]).exits(0);
        assert_eq!(place.value("SELECT COUNT(*) FROM u WHERE c = 'NA'"), "1");
        // NULL is NULL everywhere.
        let file = place.file("r.csv", format!("id,c\n{}", rows(5000, ',', &[(4000, "NULL")])));
        place.import(&[&file, "--into", "v", "--create"]).exits(0);
        assert_eq!(place.rows("SELECT id FROM v WHERE c IS NULL"), ["4000"]);
        place.import(&[&file, "--into", "v", "--replace"]).exits(1).says(&["r.csv:4001: ", "NULL", "--null"]);
        place.untouched("v", 5000);
    });
}

#[test]
fn line_ends_and_headers_are_judged_by_the_whole_file() {
    on_every_server(|place| {
        let lines = rows(5000, ',', &[]).replace("word", &"w".repeat(250));
        let mixed = format!("id,v\n{lines}5001,x\r\n");
        let file = place.file("p.csv", &mixed);
        place.import(&[&file, "--into", "t", "--create"]).exits(0);
        assert_eq!(place.value("SELECT HEX(v) FROM t WHERE id = 5001"), "78");
        place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["p.csv:5002: ", "--line-end any"]);
        place.import(&[&file, "--into", "t", "--replace", "--line-end", "any"]).exits(0);
        assert_eq!(place.value("SELECT HEX(v) FROM t WHERE id = 5001"), "78");
        // Half a line end at the end of the file counts as one.
        for text in ["id,v\r\n1,a\r\n2,x\r", "id,v\n1,a\n2,x\r"] {
            let file = place.file("h.csv", text);
            place.import(&[&file, "--into", "h", "--create", "--replace"]).exits(0);
            assert_eq!(place.value("SELECT HEX(v) FROM h WHERE id = 2"), "78", "{text:?}");
            place.import(&[&file, "--into", "h", "--replace"]).exits(0);
            assert_eq!(place.value("SELECT HEX(v) FROM h WHERE id = 2"), "78", "{text:?}");
        }
        // The meaning of a carriage return in the middle of a field can't be guessed.
        let file = place.file("r.csv", format!("id,v\n{lines}5001,a\rb\n"));
        let import = [file.as_str(), "--into", "t", "--create", "--replace"];
        place.import(&import).exits(1).says(&["r.csv:5002: ", "carriage return", "--line-end"]);
        place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["r.csv:5002: ", "--line-end"]);
        place.untouched("t", 5001);
        place.import(&[import.as_slice(), &["--line-end", "lf"]].concat()).exits(0);
        assert_eq!(place.value("SELECT HEX(v) FROM t WHERE id = 5001"), "610D62");
        // Files that were joined with their headers.
        let file = place.file("c.csv", format!("id,v\n{lines}id,v\n5001,x\n"));
        let import = [file.as_str(), "--into", "t", "--create", "--replace"];
        place.import(&import).exits(1).says(&["c.csv:5002: ", "repeats the header", "--repeated-header"]);
        place
            .import(&[&file, "--into", "t", "--replace"])
            .exits(1)
            .says(&["c.csv:5002: ", "--repeated-header"]);
        place.import(&[import.as_slice(), &["--repeated-header", "skip"]].concat()).exits(0);
        assert_eq!(place.value("SELECT CONCAT(COUNT(*), ' ', SUM(id)) FROM t"), "5001 12507501");
        place.import(&[&file, "--into", "t", "--replace", "--repeated-header", "skip"]).exits(0);
        place.untouched("t", 5001);
    });
}
