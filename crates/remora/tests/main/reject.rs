//! Rows that a table can't hold, and files that can't be read.

use crate::support::{Place, on_every_server};

/// An empty table whose columns refuse some values.
fn people(place: &Place) {
    place.sql(&[
        "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(5) NOT NULL, age TINYINT UNSIGNED, born DATE)",
    ]);
}

/// Imports rows below the header of `people` and expects the last of them to be refused.
#[track_caller]
fn refused(rows: &str, words: &[&str]) {
    on_every_server(|place| {
        people(place);
        let file = place.file("p.csv", format!("id,name,age,born\n1,ann,30,1990-01-01\n{rows}"));
        place.import(&[&file, "--into", "people"]).exits(1).says(words).says(&["nothing was imported"]);
        place.untouched("people", 0);
        assert!(!place.exists("p.csv.rejects"));
    });
}

#[test]
fn a_number_out_of_range_is_named() {
    refused("2,bob,256,\n", &["p.csv:3: column age, value '256': Out of range value"]);
}

#[test]
fn a_word_for_a_number_is_named() {
    refused("2,bob,17x,\n", &["p.csv:3: column age, value '17x': "]);
}

#[test]
fn an_invalid_date_is_named() {
    refused("2,bob,17,2021-02-30\n", &["p.csv:3: column born, value '2021-02-30': "]);
}

/// MariaDB makes NULL of it, without a warning.
#[test]
fn a_shape_that_is_none_is_named() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, g GEOMETRY)"]);
        let file = place.file("t.csv", "id,g\n1,POINT(1 2)\n2,POINT(1\n3,\\N\n");
        place.import(&[&file, "--into", "t"]).exits(1).says(&["t.csv:3: ", "nothing was imported"]);
        place.untouched("t", 0);
        let file = place.file("t.csv", "id,g\n1,POINT(1 2)\n3,\\N\n");
        place.import(&[&file, "--into", "t"]).exits(0);
        let rows = "SELECT GROUP_CONCAT(id, ' ', COALESCE(ST_AsText(g), 'none') ORDER BY id) FROM t";
        assert_eq!(place.value(rows), "1 POINT(1 2),3 none");
    });
}

#[test]
fn null_for_not_null_is_named() {
    refused("2,\\N,17,1990-01-01\n", &["p.csv:3: column name, value '\\\\N': "]);
}

#[test]
fn a_string_too_long_is_named() {
    refused("2,robert,17,\n", &["p.csv:3: column name, value 'robert': Data t"]);
}

#[test]
fn too_few_and_too_many_fields_are_named() {
    refused("2,bob,17\n", &["p.csv:3: 3 fields where 4 are expected"]);
    refused("2,bob,17,2000-01-01,x\n", &["p.csv:3: 5 fields where 4 are expected"]);
}

#[test]
fn a_likely_cause_of_bad_rows_is_suggested() {
    refused("2,bob,17,\n3,eve,18,\n# the end\n", &["p.csv:5: 1 field where", "--comment '#'"]);
    on_every_server(|place| {
        let names: Vec<String> = (0..1018).map(|at| format!("c{at}")).collect();
        let values = vec!["7"; 1018].join(",");
        let file = place.file("wide.csv", format!("{}\n{values}\n", names.join(",")));
        let import = [file.as_str(), "--into", "t", "--create"];
        place.import(&import).exits(1).says(&["1018 columns", "1017"]);
        // Only lines in front of all rows can be skipped.
        place.sql(&["CREATE TABLE two (a INT, b INT)"]);
        let into = |text: &str| {
            let file = place.file("two.csv", text);
            place
                .import(&[&file, "--into", "two", "--append", "--no-header", "--skip-lines", "0"])
                .exits(1)
                .err
        };
        let (first, third) = (into("x\n1,2\n3,4\n"), into("1,2\n3,4\n5\n"));
        assert!(first.contains("two.csv:1: 1 field where") && first.contains("--skip-lines N"), "{first}");
        assert!(third.contains("two.csv:3: 1 field where") && !third.contains("--skip-lines N"), "{third}");
    });
}

#[test]
fn a_bad_row_in_a_quoted_file_is_named_by_its_first_line() {
    refused("2,\"b\nb\",17,\n3,\"c\n\",300,\n", &["p.csv:5: column age, value '300'"]);
}

#[test]
fn a_duplicate_key_is_named() {
    let told = ["p.csv:4: Duplicate entry '1' for key", "--max-rejects N", "--on-duplicate decides"];
    refused("2,bob,17,\n1,eve,18,\n", &told);
}

#[test]
fn bytes_that_are_no_utf8_are_named() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, name VARCHAR(20))"]);
        let file = place.file("p.csv", b"id,name\n1,ann\n2,b\xffb\n3,c\xe2\xe2\n".as_slice());
        let import = ["--into", "t", "--encoding", "utf-8"];
        place
            .import(&[&[file.as_str()], import.as_slice()].concat())
            .exits(1)
            .says(&["p.csv:3: column name, value 'b"]);
        place.untouched("t", 0);
        place.import(&[&[file.as_str(), "--max-rejects", "2"], import.as_slice()].concat()).exits(3);
        assert_eq!(place.rows("SELECT * FROM t"), ["1|ann"]);
    });
}

#[test]
fn a_wrong_delimiter_is_reported() {
    on_every_server(|place| {
        people(place);
        let file = place.file("p.csv", "1,ann,30,1990-01-01\n2,bob,31,1990-01-01\n");
        place
            .import(&[&file, "--into", "people", "--delimiter", "semicolon", "--no-header"])
            .exits(1)
            .says(&["1 column (", "--delimiter"]);
        place.untouched("people", 0);
    });
}

#[test]
fn an_unclosed_quote_is_named_where_it_begins() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, name VARCHAR(20))"]);
        let file = place.file("p.csv", "id,name\n1,\"a\"\n2,\"b\n3,c\n");
        place.import(&[&file, "--into", "t", "--quote", "\""]).exits(1).says(&["p.csv:3: ", "never closed"]);
        place.untouched("t", 0);
    });
}

#[test]
fn files_without_rows_import_no_rows() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, name VARCHAR(20))"]);
        for content in ["", "id,name\n", "id,name", "id,name\n\n\n"] {
            let file = place.file("p.csv", content);
            place.import(&[&file, "--into", "t"]).exits(0).says(&["0 rows"]);
            place.untouched("t", 0);
        }
    });
}

#[test]
fn an_empty_file_makes_no_table() {
    on_every_server(|place| {
        let file = place.file("p.csv", "");
        place.import(&[&file, "--into", "t", "--create"]).exits(1).says(&["p.csv"]);
        assert_eq!(place.leftovers(), Vec::<String>::new());
        let heading = place.file("h.csv", "id,name\n");
        place.import(&[&heading, "--into", "t", "--create"]).exits(0);
        assert_eq!(place.count("t"), 0);
        let told = place.import(&[&file, "--into", "t"]).exits(0).says(&["p.csv is empty"]);
        assert!(!told.err.contains("separated"), "{}", told.err);
    });
}

#[test]
fn a_missing_last_newline_and_blank_lines_at_the_end_are_fine() {
    on_every_server(|place| {
        for (at, end) in ["", "\n", "\n\n", "\r\n\r\n\r\n"].iter().enumerate() {
            place.sql(&[&format!("CREATE TABLE t{at} (id INT, name VARCHAR(20), n INT)")]);
            let line = if end.starts_with('\r') { "\r\n" } else { "\n" };
            let file = place.file("p.csv", format!("id,name,n{line}1,a,5{line}2,b,6{end}"));
            place.import(&[&file, "--into", &format!("t{at}")]).exits(0);
            assert_eq!(place.rows(&format!("SELECT * FROM t{at} ORDER BY id")), ["1|a|5", "2|b|6"]);
        }
    });
}

#[test]
fn good_rows_are_imported_and_bad_ones_rejected() {
    on_every_server(|place| {
        people(place);
        let rows =
            "1,ann,30,1990-01-01\n2,bob,300,\n3,\"c,\nc\",3,2021-02-30\n4,dave,,\n5,e\n6,eve,6,\n6,fay,6,\n";
        let file = place.file("p.csv", format!("id,name,age,born\n{rows}"));
        place
            .import(&[&file, "--into", "people", "--max-rejects", "3"])
            .exits(1)
            .says(&["more than 3 bad rows"]);
        place.untouched("people", 0);
        assert!(!place.exists("p.csv.rejects"));
        let ended = place.import(&[&file, "--into", "people", "--max-rejects", "4"]).exits(3);
        ended.says(&["p.csv:3: column age", "3 rows in", "4 rejected", "p.csv.rejects"]);
        assert_eq!(
            place.rows("SELECT * FROM people ORDER BY id"),
            ["1|ann|30|1990-01-01", "4|dave|NULL|NULL", "6|eve|6|NULL"]
        );
        assert_eq!(place.leftovers(), Vec::<String>::new());
        assert_eq!(
            place.read("p.csv.rejects"),
            "id,name,age,born\n2,bob,300,\n3,\"c,\nc\",3,2021-02-30\n5,e\n6,fay,6,\n"
        );
        let why = place.read("p.csv.rejects.why");
        let lines: Vec<_> = why.lines().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(lines, ["p.csv:3", "p.csv:4", "p.csv:7", "p.csv:9"], "{why}");

        let mended = place.read("p.csv.rejects").replace("300", "30").replace("02-30", "02-28");
        let mended = mended.replace("5,e\n", "5,e,,\n").replace("6,fay", "7,fay");
        let file = place.file("p.csv.rejects", mended);
        place.import(&[&file, "--into", "people", "--append"]).exits(0);
        assert_eq!(place.value("SELECT GROUP_CONCAT(id ORDER BY id) FROM people"), "1,2,3,4,5,6,7");
        assert_eq!(place.value("SELECT name FROM people WHERE id = 3"), "c,\nc");
    });
}

#[test]
fn rejects_are_written_in_every_mode() {
    on_every_server(|place| {
        place.sql(&[
            "CREATE TABLE t (id INT PRIMARY KEY, n TINYINT)",
            "INSERT INTO t VALUES (1, 1), (100, 100)",
        ]);
        let file = place.file("p.csv", "id,n\n1,2\n2,200\n3,3\n");
        place.import(&[&file, "--into", "t", "--append"]).exits(1);
        place.untouched("t", 2);
        place
            .import(&[&file, "--into", "t", "--append", "--max-rejects", "9"])
            .exits(3)
            .says(&["2 rejected"]);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|1", "3|3", "100|100"]);
        place.sql(&["DELETE FROM t WHERE id = 3"]);
        place.import(&[&file, "--into", "t", "--append", "--by-chunk", "--max-rejects", "9"]).exits(3);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|1", "3|3", "100|100"]);
        place.import(&[&file, "--into", "t", "--replace"]).exits(1);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|1", "3|3", "100|100"]);
        place
            .import(&[&file, "--into", "t", "--replace", "--max-rejects", "9"])
            .exits(3)
            .says(&["1 rejected"]);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|2", "3|3"]);
        assert_eq!(place.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn ragged_rows_of_a_table_that_is_made_are_named() {
    on_every_server(|place| {
        let file = place.file("p.csv", "id,name\n1,a\n2\n3,c\n4,d,e\n");
        place
            .import(&[&file, "--into", "t", "--create"])
            .exits(1)
            .says(&["p.csv:3: 1 field where 2 are expected"]);
        assert_eq!(place.rows("SHOW TABLES"), Vec::<String>::new());
        place.import(&[&file, "--into", "t", "--create", "--max-rejects", "2"]).exits(3);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|a", "3|c"]);
        assert_eq!(place.read("p.csv.rejects"), "id,name\n2\n4,d,e\n");
    });
}

#[test]
fn every_bad_row_is_reported_once() {
    on_every_server(|place| {
        people(place);
        let file = place.file("p.csv", "id,name,age,born\n1,a,300,\n2,b,301,\n3,c,302,\n");
        let ended = place.import(&[&file, "--into", "people"]).exits(1);
        for line in ["p.csv:2: ", "p.csv:3: ", "p.csv:4: "] {
            assert_eq!(ended.err.matches(line).count(), 1, "{}", ended.err);
        }
        let ended = place.import(&["--json", &file, "--into", "people", "--max-rejects", "1"]).exits(1);
        assert_eq!(ended.out.matches("\"message_type\":\"reject\"").count(), 3, "{}", ended.out);
    });
}

#[test]
fn a_file_of_only_bad_rows_is_rejected() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(5))"]);
        // All in one chunk, and more than fits into one statement of MySQL 5.6.
        let rows: String = (0..900).map(|id| format!("{id},{id:0>4000}\n")).collect();
        let file = place.file("p.csv", format!("id,name\n{rows}901,ok\n"));
        let import = [file.as_str(), "--into", "t", "--chunk", "8M", "--max-rejects", "1000"];
        place.import(&import).exits(3).says(&["900 rejected", "1 row in"]);
        assert_eq!(place.read("p.csv.rejects"), format!("id,name\n{rows}"));
        place.untouched("t", 1);
    });
}

#[test]
fn the_first_bad_row_is_named_whichever_session_is_first() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n TINYINT, name VARCHAR(100))"]);
        // Later chunks are worse: the many bad rows of a late chunk are found at once, the first bad row only
        // after a search. The row that comes twice is in the same chunk as the first: of two in different
        // chunks the one that is loaded later is bad.
        let rows: String = (0..4000)
            .map(|id| match id {
                1500 => format!("{id},1\n"),
                1501 => "1499,1,twice\n".to_owned(),
                _ => format!("{id},{},{id:0>90}\n", if id > 1502 { 300 } else { 1 }),
            })
            .collect();
        let file = place.file("p.csv", format!("id,n,name\n{rows}"));
        for _ in 0..5 {
            let import = [file.as_str(), "--into", "t", "--chunk", "4K", "--sessions", "6"];
            let ended = place.import(&import).exits(1);
            let first = ended.err.lines().find(|line| line.contains("p.csv:")).unwrap().to_owned();
            assert!(first.ends_with("p.csv:1502: 2 fields where 3 are expected"), "{}", ended.err);
            let ended = place.import(&[import.as_slice(), &["--max-rejects", "2"]].concat()).exits(1);
            let lines: Vec<&str> = ended.err.lines().filter(|line| line.contains("p.csv:")).collect();
            assert!(lines[0].contains("p.csv:1502: ") && lines[1].contains("p.csv:1503: "), "{}", ended.err);
            assert!(lines[2].contains("p.csv:1505: column n, value '300'"), "{}", ended.err);
        }
        place.untouched("t", 0);
    });
}
