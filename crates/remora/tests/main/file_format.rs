//! Files of every format are imported as they are meant, or the import says what they are.

use std::io::Write as _;

use crate::support::{Ended, Place, on_every_server, on_one_mariadb, remora};

fn zip(members: &[(&str, &str)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in members {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        archive.start_file(*name, options).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn a_file_in_a_zip_archive_is_read() {
    on_every_server(|place| {
        let rows: String = (1..5000).map(|id| format!("{id},v{id}\n")).collect();
        let text = format!("id,v\n{rows}");
        for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
            let one = zip(&[("data/p.csv", &text), ("__MACOSX/._p.csv", "x")], method);
            let file = place.file("one.zip", &one);
            place.import(&[&file, "--into", "t", "--create", "--replace"]).exits(0);
            assert_eq!(
                place.value("SELECT CONCAT(COUNT(*), ' ', SUM(id), ' ', MAX(v)) FROM t"),
                "4999 12497500 v999"
            );
            // Each byte of it counts.
            let mut bad = one.clone();
            bad[2000] ^= 1;
            let file = place.file("bad.zip", &bad);
            place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["bad.zip"]);
            place.untouched("t", 4999);
        }
        let two =
            zip(&[("p.csv", "id,v\n1,a\n"), ("meta/q.csv", "id,v\n2,b\n")], zip::CompressionMethod::Deflated);
        let file = place.file("two.zip", two);
        place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["--member", "p.csv, meta/q.csv"]);
        place
            .import(&[&file, "--into", "t", "--replace", "--member", "r.csv"])
            .exits(1)
            .says(&["r.csv", "meta/q.csv"]);
        place.import(&[&file, "--into", "t", "--replace", "--member", "q.csv"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t"), ["2|b"]);
        let file = place.file(
            "b.xlsx",
            zip(&[("xl/workbook.xml", "<x/>"), ("xl/a.xml", "")], zip::CompressionMethod::Stored),
        );
        place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["b.xlsx", "Excel"]);
        place.untouched("t", 1);
    });
}

#[test]
fn files_of_other_kinds_are_recognised() {
    on_every_server(|place| {
        for (name, bytes, says) in [
            ("p.parquet", &b"PAR1\x15\x04\x15\x10"[..], "Parquet"),
            ("p.db", b"SQLite format 3\0\x10\0\x01\x01", "sqlite3"),
            ("p.Z", b"\x1f\x9d\x90a\xe4", "zcat"),
            ("p.sql", b"-- MariaDB dump 10.19\nINSERT INTO t VALUES (1);\n", "SQL"),
            ("p.json", b"[{\"id\": 1},\n {\"id\": 2}]\n", "jq"),
            ("q.json", b"{\n  \"id\": 1\n}\n", "jq"),
            ("p.pdf", b"%PDF-1.4\n", "PDF"),
        ] {
            let file = place.file(name, bytes);
            place.import(&[&file, "--into", "t", "--create"]).exits(1).says(&[name, says]);
        }
        assert_eq!(place.rows("SHOW TABLES"), Vec::<String>::new());
    });
}

#[test]
fn text_that_is_not_utf8_is_read_in_the_given_encoding() {
    on_every_server(|place| {
        let create = ["--into", "t", "--create", "--replace"];
        let import = |file: &str, more: &[&str]| place.import(&[&[file], create.as_slice(), more].concat());
        // One bad byte does not change the encoding that is recognised.
        let mut text = "id,v\n1,caf\u{e9}\n2,na\u{ef}ve\n".to_owned().into_bytes();
        text.extend(b"3,caf\xe9\n");
        let file = place.file("bad.csv", &text);
        import(&file, &[]).exits(1).says(&["bad.csv:4: ", "e9", "not UTF-8", "--encoding"]);
        // A late bad byte does not turn a text column into a binary one either.
        let mut late = b"id,v\n".to_vec();
        (0..6000).for_each(|id| writeln!(late, "{id},{}", "caf\u{e9} ".repeat(40)).unwrap());
        late.extend(b"6001,caf\xe9\n");
        let file = place.file("late.csv", &late);
        import(&file, &[]).exits(1).says(&["late.csv:6002: ", "not UTF-8"]);
        for (encoding, bytes, words) in [
            ("shift_jis", &b"\x93\x8c\x8b\x9e"[..], "\u{6771}\u{4eac}"),
            ("cp932", b"\x95\\\x8e\xa6", "\u{8868}\u{793a}"),
            ("gbk", b"\xb1\xb1\xbe\xa9", "\u{5317}\u{4eac}"),
            ("iso-8859-2", b"\xa3\xf3d\xbc", "\u{141}\u{f3}d\u{17a}"),
            ("windows-1251", b"\xcc\xee\xf1\xea\xe2\xe0", "\u{41c}\u{43e}\u{441}\u{43a}\u{432}\u{430}"),
            ("latin1", b"caf\xe9", "caf\u{e9}"),
        ] {
            let file = place.file("e.csv", [b"id,v\n1,", bytes, b"\n2,x\n"].concat());
            import(&file, &[]).exits(1).says(&["e.csv:2: ", "not UTF-8", "--encoding"]);
            import(&file, &["--encoding", encoding]).exits(0);
            let hex: String = words.bytes().map(|byte| format!("{byte:02X}")).collect();
            assert_eq!(
                place.value("SELECT HEX(CONVERT(v USING utf8mb4)) FROM t WHERE id = 1"),
                hex,
                "{encoding}"
            );
        }
        place.import(&[&file, "--into", "t", "--encoding", "klingon"]).exits(2);
    });
}

#[test]
fn lines_of_json_are_rows() {
    on_every_server(|place| {
        let rows: String =
            (1..4000).map(|id| format!("{{\"id\": {id}, \"v\": \"a\\tb\\n\\u00e9{id}\"}}\n")).collect();
        // A key that first occurs late becomes a column too.
        let text = format!("{rows}{{\"v\": null, \"id\": 4000, \"more\": {{\"x\": [1, \"\\\\\"]}}}}\n");
        let file = place.file("p.jsonl", &text);
        place.import(&[&file, "--into", "t", "--create"]).exits(0).says(&["JSON lines (3 columns)"]);
        assert_eq!(
            place.rows("SELECT id, HEX(v), more FROM t WHERE id IN (7, 4000) ORDER BY id"),
            ["7|6109620AC3A937|NULL", "4000|NULL|{\"x\": [1, \"\\\\\"]}"]
        );
        assert_eq!(place.value("SELECT CONCAT(COUNT(*), ' ', SUM(id)) FROM t"), "4000 8002000");
        place.import(&[&file, "--into", "t", "--replace"]).exits(0);
        place.untouched("t", 4000);
        place.import(&[&file, "--into", "u", "--create", "--fields", "more,id"]).exits(0);
        assert_eq!(place.rows("SELECT id FROM u WHERE more IS NOT NULL"), ["4000"]);
        // Lines are counted as they stand in the file, and bad lines are named.
        let file = place.file(
            "b.jsonl",
            "{\"id\": 1, \"v\": \"x\", \"more\": null}\n\n{\"id\": \"y\", \"v\": \"x\", \"more\": 1}\n",
        );
        place
            .import(&[&file, "--into", "t", "--replace"])
            .exits(1)
            .says(&["b.jsonl:3: column id, value 'y'"]);
        let file = place.file("c.jsonl", "{\"id\": 1, \"v\": \"x\"}\n{\"id\": 2, \"v\": \"x\n");
        place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["c.jsonl:2: ", "JSON"]);
        // Bad lines can be rejected unchanged, to be fixed and imported again.
        let file = place.file(
            "d.jsonl",
            "{\"id\": 1, \"v\": \"x\"}\n{\"id\": 2, \"v\": \"x\n{\"id\": \"z\", \"v\": \"\\t\"}\n{\"id\": 4, \"w\": 1}\n",
        );
        place
            .import(&[
                &file,
                "--into",
                "u",
                "--create",
                "--replace",
                "--type",
                "id=INT",
                "--max-rejects",
                "1",
            ])
            .exits(1);
        let set_aside = ["--into", "u", "--create", "--replace", "--type", "id=INT", "--max-rejects", "9"];
        place.import(&[&[file.as_str()], &set_aside[..]].concat()).exits(3).says(&["d.jsonl.rejects"]);
        assert_eq!(place.rows("SELECT id FROM u ORDER BY id"), ["1", "4"]);
        assert_eq!(
            place.read("d.jsonl.rejects"),
            "{\"id\": 2, \"v\": \"x\n{\"id\": \"z\", \"v\": \"\\t\", \"w\": null}\n"
        );
        let why = place.read("d.jsonl.rejects.why");
        assert!(why.contains("d.jsonl:2: this is not a JSON object on one line"), "{why}");
        assert!(why.contains("d.jsonl:3: column id, value 'z'"), "{why}");
        let mut running = place.spawn(&["-", "--into", "u", "--append", "--format", "json"]);
        running.stdin().write_all(b"{\"id\": 5000, \"more\": 7}\n{\"id\": 5001, \"x\": 1}\n").unwrap();
        running.end().exits(1).says(&["x"]);
        place.untouched("t", 4000);
    });
}

fn holds(place: &Place, text: &str, options: &[&str], expected: &[&str]) {
    let file = place.file("p.txt", text);
    place.import(&[&[file.as_str(), "--into", "t", "--create", "--replace"], options].concat()).exits(0);
    assert_eq!(place.rows("SELECT * FROM t ORDER BY 1"), expected, "{text:?} {options:?}");
    // The same into the table, which exists now.
    place.import(&[&[file.as_str(), "--into", "t", "--replace"], options].concat()).exits(0);
    assert_eq!(place.rows("SELECT * FROM t ORDER BY 1"), expected, "{text:?} {options:?}");
}

#[test]
fn text_with_spaces_and_comments_is_read_as_the_options_say() {
    on_every_server(|place| {
        holds(place, "id||v\n1||a|b\n2||\"c||d\"\n", &["--delimiter", "||"], &["1|a|b", "2|c||d"]);
        holds(place, "sep=;\nid;v\n1;a,b\n2;c\n", &[], &["1|a,b", "2|c"]);
        holds(
            place,
            "id, name, city\n1, \"Smith, John\", Rome\n2, \"Doe, Jane\", Oslo\n",
            &["--trim"],
            &["1|Smith, John|Rome", "2|Doe, Jane|Oslo"],
        );
        holds(place, "1, \"Smith, John\"\n2, \"Doe, Jane\"\n", &[], &["1|Smith, John", "2|Doe, Jane"]);
        holds(place, "# by \"hand\nid,v\n1,a\n2,b\n", &[], &["1|a", "2|b"]);
        holds(place, "id,v\n#1,x\n1,a\n2,b # c\n", &["--comment", "#"], &["1|a", "2|b # c"]);
        holds(place, "id,v,w\n1,a,x\n2\n3,b\n", &["--pad"], &["1|a|x", "2|NULL|NULL", "3|b|NULL"]);
        holds(place, "  1   2.5\n 13  14.5\n  5   6.5\n", &[], &["1|2.5", "5|6.5", "13|14.5"]);
        holds(place, "Report\n\nid,v,w\n1,a,x\n2,b,y\n3,c,z\n", &[], &["1|a|x", "2|b|y", "3|c|z"]);
        holds(place, "id:name:home\n0:root:/root\n1:bin:/bin\n", &[], &["0|root|/root", "1|bin|/bin"]);
        // Rejected rows are written exactly as they were in the file.
        let file = place.file("q.txt", "id||v\n1||a\nx||\"b||c\"\n");
        place.sql(&["CREATE TABLE q (id INT, v VARCHAR(9))"]);
        place
            .import(&[&file, "--into", "q", "--delimiter", "||", "--max-rejects", "1"])
            .exits(3)
            .says(&["q.txt:3: column id"]);
        assert_eq!(place.read("q.txt.rejects"), "id||v\nx||\"b||c\"\n");
    });
}

/// The smallest files of kinds that were once read wrongly, or refused.
#[test]
fn files_of_odd_formats_are_read_exactly_or_refused() {
    on_one_mariadb(|place, _| {
        let both = ["1|a", "2|b"];
        for (text, expected) in [
            // What old programs put behind the last row.
            ("id,c\r\n1,a\r\n2,b\r\n\x1a", &both[..]),
            ("id,c\r1,a\r2,b\r\n", &both),
            ("id,c\r1,a\r2,b\n", &both),
            ("My report\nid,c\n1,a\n2,b\n", &both),
            ("# made today\n{\"id\":1,\"c\":\"a\"}\n{\"id\":2,\"c\":\"b\"}\n", &both),
            ("[\"id\",\"c\"]\n[1,\"a\"]\n[2,\"b\"]\n", &both),
            ("[1,\"a\"]\n[2,\"b\"]\n", &both),
            ("\"id\",\"n\"\n\"1\",\"5\"\n\"2\",\"\"\n", &["1|5", "2|NULL"]),
            ("id,ratio,refs\n1,0.5,\"4,6\"\n2,1.25,\"20,22\"\n", &["1|0.50|4,6", "2|1.25|20,22"]),
        ] {
            holds(place, text, &[], expected);
        }
        let mut zeros = codec::Codec::Gzip.encoder(Vec::new(), 3).unwrap();
        zeros.write_all(b"id,c\n1,a\n2,b\n").unwrap();
        let file = place.file("p.csv.gz", [zeros.finish().unwrap(), vec![0; 5000]].concat());
        place.import(&[&file, "--into", "t", "--create", "--replace"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY 1"), both);
        let quote = "id;name;brand\n1;A1;x\n2;A2;x\n3;\"B;x\n4;A4;x\n5;\"D\";x\n6; \"E\";x\n7;A7;x\n";
        let half = "{\"id\":1,\"c\":\"x\"}\n{\"id\":2,\"c\":\"abc\\ud83ddef\"}\n";
        place.sql(&[
            "CREATE TABLE u (id INT, name VARCHAR(40), brand VARCHAR(9))",
            "CREATE TABLE v (id INT, c TEXT)",
        ]);
        for (name, text, table, told) in [
            ("q.csv", quote, "u", ["q.csv:4: ", "--quote"]),
            ("h.jsonl", half, "v", ["h.jsonl:2: ", "the text of the key c is damaged"]),
        ] {
            let file = place.file(name, text);
            place.import(&[&file, "--into", table]).exits(1).says(&told);
            place.untouched(table, 0);
            place.import(&[&file, "--into", "w", "--create"]).exits(1).says(&told);
        }
        // What speaks against two guesses is told at once.
        let rows = |from: u32, to: u32| (from..to).map(|id| format!("{id}\tword {id}\n")).collect::<String>();
        let text = format!(
            "{}90000\t\"open\n90001\tx\n90002\t\"y\" z\n90003\t\\N\n{}",
            rows(1, 80_000),
            rows(80_001, 80_100)
        );
        let file = place.file("o.tsv", text);
        let told = ["--quote none --escape '\\'", "'\\N' is NULL"];
        place.import(&[&file, "--into", "v"]).exits(1).says(&told);
        place.import(&[&file, "--into", "v", "--quote", "none", "--escape", "\\"]).exits(0);
        assert_eq!(place.rows("SELECT c FROM v WHERE id IN (90000, 90003) ORDER BY id"), ["\"open", "NULL"]);
    });
}

#[test]
fn files_that_are_committed_by_chunk_are_checked_first() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))"]);
        let rows: String = (1..5000).map(|id| format!("{id}\tword\n")).collect();
        let file = place.file("p.tsv", format!("{rows}5000\t\\N\n"));
        let import = [file.as_str(), "--into", "t", "--append", "--by-chunk", "--chunk", "4K"];
        place.import(&import).exits(1).says(&["p.tsv:5000: ", "--escape"]);
        place.untouched("t", 0);
        place.import(&[import.as_slice(), &["--escape", "\\"]].concat()).exits(0);
        assert_eq!(place.rows("SELECT id FROM t WHERE v IS NULL"), ["5000"]);
    });
}

#[test]
fn tables_in_columns_are_read() {
    on_every_server(|place| {
        let rows: String = (1..3000).map(|id| format!("{id}\tname {}\n", id % 7)).collect();
        let file = place.file("p.tsv", format!("id\tname\n{rows}"));
        let mut command = remora(&place.path(""));
        Ended::of(&command.args(["pack", "--to", "column", &file]).output().unwrap()).exits(0);
        place.import(&["p.tsv.rcol", "--into", "t", "--create"]).exits(0);
        assert_eq!(
            place.value("SELECT CONCAT(COUNT(*), ' ', SUM(id), ' ', MAX(name)) FROM t"),
            "2999 4498500 name 6"
        );
        let mut packed = std::fs::read(place.path("p.tsv.rcol")).unwrap();
        let middle = packed.len() / 2;
        packed[middle] ^= 1;
        let file = place.file("q.tsv.rcol", packed.as_slice());
        place.import(&[&file, "--into", "t", "--replace"]).exits(1).says(&["q.tsv.rcol"]);
        place.untouched("t", 2999);
    });
}
