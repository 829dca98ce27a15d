//! Imports that write the table's file.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::support::{Place, of_today, on_every_server, on_mariadb, on_products, products, start, until};

pub(crate) const TABLE: &str = "(id INT UNSIGNED NOT NULL AUTO_INCREMENT, name VARCHAR(60) CHARACTER SET latin1 NOT NULL, \
    price DECIMAL(9,2), born DATE, seen TIMESTAMP(3) NULL, kind ENUM('a','b'), code BINARY(4) NOT NULL DEFAULT 'ab', \
    note TEXT CHARACTER SET utf8mb4, twice INT AS (id * 2) VIRTUAL, gone INT DEFAULT 7, PRIMARY KEY (id), \
    KEY born (born, kind), KEY name (name))";

/// Rows in the order of their key, some with quotes, NULLs and letters beyond ASCII.
pub(crate) fn text(ids: impl Iterator<Item = u32>) -> String {
    let mut text = String::from("id,born,name,price,kind,seen,note\n");
    for id in ids {
        let month = id % 12 + 1;
        let word = match id % 4 {
            0 => format!("Zo\u{eb} {id}"),
            1 => format!("\"O'Brien, Al {id}\""),
            2 => format!("plain {id}"),
            _ => format!("\"\"\"q\"\" {id}\""),
        };
        let note = if id % 50 == 0 { "\u{20ac}".repeat(9000) } else { format!("n{id}") };
        let born = if id % 3 == 0 { String::new() } else { format!("19{:02}-{month:02}-17", id % 100) };
        writeln!(text, "{id},{born},{word},{}.5,b,2021-{month:02}-03 04:05:06.789,{note}", id * 3).unwrap();
    }
    text
}

/// Everything that a server can tell of a table.
fn content(place: &Place, table: &str) -> (String, String) {
    let checked = place.value(&format!("CHECK TABLE {table} EXTENDED"));
    assert!(checked.ends_with("|OK"), "{checked}");
    let rows = place.value(&format!("SELECT * FROM {table} ORDER BY id"));
    let keys = ["PRIMARY", "born", "name"].map(|key| {
        place.value(&format!(
            "SELECT COUNT(*), SUM(id) FROM {table} FORCE INDEX ({key}) WHERE name > '' AND born > 0"
        ))
    });
    let definition = place.value(&format!("SHOW CREATE TABLE {table}"));
    let definition = definition.split_once('(').unwrap().1;
    (rows, format!("{}\n{definition}", keys.join("\n")))
}

pub(crate) fn same(place: &Place, one: &str, other: &str) {
    let ((rows, rest), (others, other_rest)) = (content(place, one), content(place, other));
    assert!(rows == others, "{one} and {other} have other rows");
    assert_eq!(rest, other_rest);
}

#[test]
fn a_written_file_equals_a_table_that_the_server_filled() {
    on_every_server(|place| {
        let file = place.file("rows.csv", text(1..4000));
        if !place.is_mariadb() {
            place.sql(&["CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)"]);
            let ids = place.file("ids.csv", "id\n1\n2\n");
            place
                .import(&[&ids, "--into", "t", "--physical"])
                .exits(1)
                .says(&["can't be written", "MariaDB"]);
            place.untouched("t", 0);
            place.import(&[&ids, "--into", "t", "--physical=auto"]).exits(0).says(&["sent to the server"]);
            assert_eq!(place.count("t"), 2);
            return;
        }
        place.sql(&[&format!("CREATE TABLE sent {TABLE}"), &format!("CREATE TABLE made {TABLE}")]);
        let zone = ["--time-zone", "+00:00"];
        let import = |table: &str, more: &[&str]| {
            place.import(&[&[file.as_str(), "--into", table], zone.as_slice(), more].concat())
        };
        import("sent", &[]).exits(0);
        import("made", &["--physical", "--chunk", "64K"])
            .exits(0)
            .says(&["file was written directly", "mariadb-backup"]);
        assert_eq!(place.leftovers(), [""; 0]);
        same(place, "made", "sent");
        // Numbers go on, and a replaced table gets its new rows in the same way.
        place.sql(&["INSERT INTO made (name) VALUES ('next')"]);
        assert_eq!(place.value("SELECT MAX(id) FROM made"), "4000");
        import("made", &["--physical=auto", "--replace"]).exits(0).says(&["file was written directly"]);
        assert_eq!(place.value("SELECT COUNT(*), MAX(id) FROM made"), "3999|3999");
    });
}

#[test]
fn rows_in_another_order_are_sorted_and_repeated_keys_are_named() {
    on_mariadb(|place| {
        place.sql(&[&format!("CREATE TABLE t {TABLE}")]);
        let ids = || (1..3000_u32).map(|id| id * 1009 % 3001);
        let file = place.file("mixed.csv", text(ids()));
        let import = |file: &str, more: &[&str]| {
            let fixed = ["--into", "t", "--physical", "--chunk", "32K", "--time-zone", "+00:00"];
            place.import(&[&[file], fixed.as_slice(), more].concat())
        };
        import(&file, &[]).exits(0).says(&["not in primary key order (mixed.csv:", "sorted first"]);
        let sent = ["--into", "sent", "--time-zone", "+00:00"];
        place.sql(&["CREATE TABLE sent LIKE t"]);
        place.import(&[[file.as_str()].as_slice(), &sent].concat()).exits(0);
        same(place, "t", "sent");
        place.sql(&["TRUNCATE TABLE t"]);
        for (ids, lines) in [
            // In order until then, in one chunk and in two; and shuffled.
            ((1..100).chain(99..200).collect::<Vec<u32>>(), ("twice.csv:101:", "twice.csv:100")),
            ((1..2900).chain(2899..3000).collect(), ("twice.csv:2901:", "twice.csv:2900")),
            (ids().chain([1009]).collect(), ("twice.csv:3001:", "twice.csv:2")),
        ] {
            let twice = place.file("twice.csv", text(ids.into_iter()));
            let told = import(&twice, &[]).exits(1);
            told.says(&[lines.0, "duplicate entry", "`PRIMARY`", lines.1, "with --physical=auto"]);
            place.untouched("t", 0);
        }
        // A key that is not the primary one.
        place.sql(&["ALTER TABLE t ADD UNIQUE KEY u (price)"]);
        let twice = place.file("twice.csv", text(1..900) + "901,,x,3.5,b,,\n");
        import(&twice, &[]).exits(1).says(&["twice.csv:901:", "'3.50' for the key `u`", "twice.csv:2 has"]);
        place.untouched("t", 0);
    });
}

#[test]
fn rows_that_only_the_server_can_judge_are_sent_if_allowed() {
    on_mariadb(|place| {
        place.sql(&[
            "CREATE TABLE t (id INT PRIMARY KEY, n INT, d DATE)",
            "CREATE TABLE stamps (id INT PRIMARY KEY, at TIMESTAMP NULL)",
            "CREATE TABLE doc (id INT PRIMARY KEY, body TEXT CHARACTER SET ucs2)",
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES parent (id))",
            "CREATE TABLE full (id INT PRIMARY KEY, body TEXT, FULLTEXT KEY f (body))",
            "CREATE TABLE word (id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)",
            "CREATE TABLE held (id INT PRIMARY KEY) ENGINE = Aria",
            "CREATE TABLE pressed (id INT PRIMARY KEY) PAGE_COMPRESSED=1",
            "CREATE TABLE zipped (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED",
            "CREATE TABLE old (id INT PRIMARY KEY) ROW_FORMAT=REDUNDANT",
        ]);
        let good = place.file("good.csv", "id,n,d\n1,2,2020-02-03\n2,,\n");
        let only =
            |file: &str, more: &[&str]| place.import(&[&[file, "--into"], more, &["--physical"]].concat());
        // Each is told in one line, and nothing is changed.
        for (more, why) in [
            (["t", "--append"].as_slice(), "instead of replacing it"),
            (&["t", "--on-duplicate", "ignore"], "which keys exist"),
            (&["t", "--max-rejects", "3"], "can't be skipped"),
            (&["t", "--set", "n=@n+1"], "computes a column"),
            (&["t", "--sql-mode", "ALLOW_INVALID_DATES"], "--sql-mode"),
            (&["stamps", "--columns", "id,-,at", "--time-zone", "+02:00"], "TIMESTAMP"),
            (&["doc", "--columns", "id,-,body"], "character set"),
            (&["full", "--columns", "id,-,body"], "FULLTEXT"),
            (&["child", "--columns", "id,t,-"], "instead of replacing it"),
            (&["held", "--columns", "id,-,-"], "not an InnoDB table"),
            (&["pressed", "--columns", "id,-,-"], "PAGE_COMPRESSED"),
            (&["zipped", "--columns", "id,-,-"], "ROW_FORMAT=COMPRESSED"),
            (&["old", "--columns", "id,-,-"], "ROW_FORMAT=REDUNDANT"),
        ] {
            only(&good, more).exits(1).says(&[
                "the tablespace file can't be written",
                why,
                "--physical=auto",
            ]);
            place.untouched(more[0], 0);
        }
        let auto = |file: &str, more: &[&str]| {
            place.import(&[&[file, "--into"], more, &["--physical=auto"]].concat())
        };
        auto(&good, &["t", "--append"]).exits(0).says(&["the rows are sent to the server"]);
        assert_eq!(place.value("SELECT COUNT(*), SUM(n) FROM t"), "2|2");
        // The server reads this number; the file's writer does not guess.
        place.sql(&["DELETE FROM t"]);
        let odd = place.file("odd.csv", "id,n,d\n1,2,2020-02-03\n2,1e2,2020-02-04\n");
        let told = only(&odd, &["t"]).exits(1);
        assert!(!told.err.contains("--max-rejects"), "it is refused here: {}", told.err);
        told.says(&["odd.csv:3: column n, value '1e2': not a whole number", "with --physical=auto"]);
        place.untouched("t", 0);
        auto(&odd, &["t"]).exits(0).says(&["odd.csv:3: column n", "sent to the server"]);
        assert_eq!(place.value("SELECT COUNT(*), SUM(n) FROM t"), "2|102");
        // Words in an order that is only the server's.
        let words = place.file("words.csv", "id,n\nb,1\nA,2\nc,3\n");
        only(&words, &["word"]).exits(0).says(&["first sorted by its weights", "file was written directly"]);
        assert_eq!(place.value("SELECT GROUP_CONCAT(id ORDER BY id) FROM word"), "A,b,c");
        let words = place.file("words.csv", "id,n\nb,2\nc,1\nB,3\n");
        place.sql(&["DELETE FROM word"]);
        only(&words, &["word"]).exits(1).says(&["words.csv:4: duplicate entry 'B'", "words.csv:2 has"]);
        let words = place.file("words.csv", "id,n\nA,2\nb,1\nc,3\n");
        only(&words, &["word"]).exits(0);
        assert_eq!(place.value("SELECT GROUP_CONCAT(id ORDER BY id) FROM word"), "A,b,c");
    });
}

/// Of every character set whose ASCII is written here the server is asked what it makes of it.
#[test]
fn ascii_is_what_the_server_stores() {
    on_mariadb(|place| {
        let sets = place.rows("SELECT character_set_name FROM information_schema.character_sets");
        let mut session = place.session();
        let mut stored = |set: &str, byte: u8| {
            let text = format!("CONVERT(UNHEX('{byte:02X}') USING utf8mb4)");
            session.value(&format!("SELECT HEX(CONVERT({text} USING {set}))")).unwrap().unwrap()
        };
        // Those like UTF-16 are left to the server as a whole.
        let sets: Vec<String> = sets.into_iter().filter(|set| stored(set, b'a') == "61").collect();
        assert!(sets.len() > 30, "{sets:?}");
        let columns: Vec<String> =
            sets.iter().map(|set| format!("c_{set} VARCHAR(9) CHARACTER SET {set}")).collect();
        place.sql(&[&format!("CREATE TABLE t (id INT PRIMARY KEY, {})", columns.join(", "))]);
        let mut text = format!("id,c_{}\n", sets.join(",c_"));
        let mut others = Vec::new();
        for byte in 0x20..=0x7f_u8 {
            write!(text, "{byte}").unwrap();
            for set in &sets {
                let is_same = stored(set, byte) == format!("{byte:02X}");
                if !is_same {
                    others.push((set, byte));
                }
                let letter = if byte == b'"' { "\"\"".to_owned() } else { char::from(byte).to_string() };
                write!(text, ",\"{}\"", if is_same { &letter } else { "" }).unwrap();
            }
            text.push('\n');
        }
        assert_eq!(others.iter().filter(|other| *other.0 == "swe7").count(), 11, "{others:?}");
        assert_eq!(others.iter().filter(|other| *other.0 != "swe7").count(), 1, "{others:?}");
        let plain = ["--into", "t", "--escape", "none", "--quote", "\"", "--delimiter", ",", "--header"];
        let file = place.file("all.csv", text);
        place.import(&[&[file.as_str()], &plain[..], &["--physical"]].concat()).exits(0);
        for set in &sets {
            let wrong = place.value(&format!(
                "SELECT COUNT(*) FROM t WHERE c_{set} <> '' AND HEX(c_{set}) <> HEX(CHAR(id))"
            ));
            assert_eq!(wrong, "0", "{set}");
        }
        let count = place.value("SELECT COUNT(*), SUM(HEX(c_sjis) = '7E'), SUM(HEX(c_ascii) = '5C') FROM t");
        assert_eq!(count, "96|1|1");
        for (set, byte) in others {
            place.sql(&[&format!(
                "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET {set})"
            )]);
            let file = place.file("one.csv", format!("id,a\n1,\"x{}\"\n", char::from(byte)));
            let ended = place.import(&[&[file.as_str()], &plain[..], &["--physical"]].concat());
            assert_eq!(ended.code, 1, "{set} {byte:02x}");
            ended.says(&["only the server can convert"]);
        }
    });
}

#[test]
fn a_new_table_and_a_stream_are_written_too() {
    on_mariadb(|place| {
        let rows = text(1..2000);
        let import =
            ["-", "--into", "t", "--create", "--physical", "--chunk", "64K", "--time-zone", "+00:00"];
        let mut running = place.spawn(&import);
        running.stdin().write_all(rows.as_bytes()).unwrap();
        running.end().exits(0).says(&["file was written directly"]);
        assert_eq!(place.value("SELECT COUNT(*), SUM(id), MIN(price) FROM t"), "1999|1999000|3.5");
        place.sql(&["CREATE TABLE numbered (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, word VARCHAR(9)) AUTO_INCREMENT = 70"]);
        let words = place.file("words.csv", "a\nb\n\nc\n");
        place
            .import(&[
                &words,
                "--into",
                "numbered",
                "--columns",
                "word",
                "--no-header",
                "--physical",
                "--null",
                "",
            ])
            .exits(0);
        assert_eq!(
            place.value("SELECT GROUP_CONCAT(CONCAT(id, IFNULL(word, '-')) ORDER BY id) FROM numbered"),
            "70a,71b,72-,73c"
        );
        place.sql(&["INSERT INTO numbered (word) VALUES ('d')"]);
        assert_eq!(place.value("SELECT MAX(id) FROM numbered"), "74");
    });
}

#[test]
fn an_import_that_sends_rows_is_not_resumed_by_a_file() {
    on_mariadb(|place| {
        place.sql(&[&format!("CREATE TABLE t {TABLE}")]);
        let rows = text(1..9000);
        let file = place.file("rows.csv", &rows);
        let fixed = ["--into", "t", "--chunk", "64K", "--time-zone", "+00:00"];
        let run = |more: [&str; 2]| place.import(&[&[file.as_str()], &fixed[..], &more[..]].concat());
        let mut running = place.spawn(&[&["-"], &fixed[..]].concat());
        let mut stdin = running.stdin();
        stdin.write_all(&rows.as_bytes()[..rows.len() / 2]).unwrap();
        place.until_chunks(&mut running, 2);
        running.kill();
        run(["--resume", "--physical"]).exits(1).says(&["resume it without --physical"]);
        run(["--resume", "--physical=auto"]).exits(0).says(&["continuing after"]);
        assert_eq!(place.count("t"), 8999);
    });
}

#[test]
fn with_a_binary_log_the_option_no_binlog_is_required() {
    on_products(&of_today(products()), |product| {
        if product.family() != sandbox::Family::MariaDb {
            return;
        }
        let server = start(product, &["--log-bin", "--server-id=1"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY)"]);
        let file = place.file("ids.csv", "id\n1\n2\n");
        let import = [file.as_str(), "--into", "t", "--physical"];
        place.import(&import).exits(1).says(&["binary log", "--no-binlog"]);
        place.untouched("t", 0);
        let position = || place.rows("SHOW MASTER STATUS");
        let before = position();
        place.import(&[&import[..], &["--no-binlog"]].concat()).exits(0);
        assert_eq!((place.count("t"), position()), (2, before));
    });
}

#[test]
fn an_account_learns_which_privilege_it_lacks() {
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY)"]);
        let file = place.file("ids.csv", "id\n1\n2\n");
        let account = place.account("small");
        place.sql(&[&format!("GRANT ALL ON {}.* TO {account}", place.schema)]);
        let import = |more: &str| place.import_as(&account, &[&file, "--into", "t", more]);
        import("--physical").exits(10).says(&["GRANT RELOAD"]);
        place.untouched("t", 0);
        import("--physical=auto").exits(0).says(&["the rows are sent to the server", "RELOAD"]);
        assert_eq!(place.count("t"), 2);
    });
}

#[test]
fn the_next_run_removes_all_that_a_killed_one_left() {
    on_mariadb(|place| {
        place.sql(&[&format!("CREATE TABLE t {TABLE}")]);
        let file = place.file("rows.csv", text(1..150_000));
        let import = [file.as_str(), "--into", "t", "--chunk", "64K", "--time-zone", "+00:00"];
        let folder = std::path::PathBuf::from(place.value("SELECT @@datadir")).join(&place.schema);
        let half_way = || {
            let mut running = place.spawn(&[import.as_slice(), &["--physical"]].concat());
            until("pages in the file", || {
                assert!(!running.has_ended());
                files(&folder).iter().any(|(name, len)| name.ends_with(".ibd") && *len > 1 << 20)
            });
            running
        };
        for physical in [["--physical"].as_slice(), &[]] {
            half_way().kill();
            assert_eq!(place.count("t"), 0);
            // The next run may or may not write a file.
            let working = "info LIKE '%remora%' AND info NOT LIKE '%processlist%'";
            place.until(&format!("SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE {working}"));
            place.import(&[import.as_slice(), physical].concat()).exits(0);
            assert_eq!(place.count("t"), 149_999);
            assert_eq!((place.leftovers(), files(&folder)), (Vec::new(), Vec::new()));
            place.sql(&["TRUNCATE TABLE t"]);
        }
        let running = half_way();
        running.signal("INT");
        running.end().exits(130).says(&["stopped by a signal; nothing was imported"]);
        assert_eq!(files(&folder), []);
        place.untouched("t", 0);
    });
}

/// The files beside a table in the server's data folder, with their lengths.
pub(crate) fn files(folder: &std::path::Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let files = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().map_or(0, |it| it.len())));
    files.filter(|(name, _)| name.starts_with("_remora") || name.ends_with(".cfg")).collect()
}
