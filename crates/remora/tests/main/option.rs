//! What can be typed, and what comes of it.

use std::io::Write as _;

use codec::Codec;

use crate::byte;
use crate::support::{self, Ended, Place, on_every_server, remora, until};

#[test]
fn a_server_without_load_data_local_is_served_by_insert() {
    for product in support::products() {
        support::tell(product);
        let server = support::start(product, &["--local-infile=0"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n TINYINT, b BIT(4), born DATE)"]);
        let file =
            place.file("p.csv", "id,n,b,born\n1,5,9,01.02.2003\n2,300,1,\n3,7,,31.12.1999\n1,8,2,\n4,x,0,\n");
        let set =
            ["--into", "t", "--columns", "id,n,b,@born", "--set", "born=STR_TO_DATE(@born, '%d.%m.%Y')"];
        let import = [[file.as_str()].as_slice(), &set].concat();
        place.import(&import).exits(1).says(&["local_infile=OFF", "p.csv:"]);
        place.untouched("t", 0);
        place.import(&[import.as_slice(), &["--max-rejects", "3"]].concat()).exits(3);
        assert_eq!(
            place.rows("SELECT id, n, b+0, born FROM t ORDER BY id"),
            ["1|5|9|2003-02-01", "3|7|NULL|1999-12-31"]
        );
        assert_eq!(place.read("p.csv.rejects"), "id,n,b,born\n2,300,1,\n1,8,2,\n4,x,0,\n");
        let why = place.read("p.csv.rejects.why");
        assert!(
            why.contains("p.csv:3: column n, value '300'") && why.contains("p.csv:5: Duplicate entry '1'"),
            "{why}"
        );

        let values = byte::bytes();
        byte::both_ways(&place, "BLOB", "binary", &values, &values);
        a_note_in_a_later_statement_is_no_other_row(&place);
        a_statement_longer_than_a_packet_is_a_bad_row(&place);
    }
}

fn a_note_in_a_later_statement_is_no_other_row(place: &Place) {
    // Of DECIMAL the server cuts digits with a note only, and rows go in by several statements.
    place.sql(&["CREATE TABLE d (id INT PRIMARY KEY, price DECIMAL(9,2), name VARCHAR(2000))"]);
    let fill = "x".repeat(1000);
    let rows: String =
        (0..2000).map(|id| format!("{id},{},{fill}\n", if id == 1500 { "0.123" } else { "0.12" })).collect();
    let file = place.file("d.csv", format!("id,price,name\n{rows}"));
    let import = [file.as_str(), "--into", "d", "--chunk", "4M", "--max-rejects", "5"];
    place.import(&import).exits(3).says(&["d.csv:1502: column price, value '0.123'"]);
    assert_eq!(place.value("SELECT COUNT(*), SUM(id) FROM d"), format!("1999|{}", 1999 * 1000 - 1500));
}

fn a_statement_longer_than_a_packet_is_a_bad_row(place: &Place) {
    // The quotes of a literal make it longer than the record was.
    place.sql(&["CREATE TABLE l (id INT PRIMARY KEY, v LONGTEXT)"]);
    let packet: usize = place.value("SELECT @@max_allowed_packet").parse().unwrap();
    let file = place.file("l.csv", format!("id,v\n1,a\n2,{}\n3,b\n", "'".repeat(packet / 4 * 3)));
    place.import(&[&file, "--into", "l"]).exits(1).says(&["l.csv:3: ", "max_allowed_packet"]);
    place.untouched("l", 0);
    place.import(&[&file, "--into", "l", "--max-rejects", "1"]).exits(3);
    assert_eq!(place.rows("SELECT id FROM l ORDER BY id"), ["1", "3"]);
}

#[test]
fn every_codec_is_recognised_in_any_mix_of_files() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, v VARCHAR(20))"]);
        let codecs = [Codec::Gzip, Codec::Zstd, Codec::Lz4, Codec::Xz, Codec::Bzip2, Codec::Plain];
        let mut names = Vec::new();
        for (at, codec) in codecs.into_iter().enumerate() {
            let text: String = (0..1000).map(|row| format!("{},v{at}\n", at * 1000 + row)).collect();
            names.push(
                place.file(&format!("part-{at}"), compressed(codec, format!("id,v\n{text}").as_bytes())),
            );
        }
        let import = ["--into", "t", "--replace"];
        let all: Vec<&str> = names.iter().map(String::as_str).chain(import).collect();
        place.import(&all).exits(0).says(&["6000 rows"]);
        assert_eq!(place.value("SELECT COUNT(*), SUM(id), COUNT(DISTINCT v) FROM t"), "6000|17997000|6");
        place.import(&["part-*", "--into", "t", "--replace"]).exits(0);
        assert_eq!(place.value("SELECT COUNT(*), SUM(id), COUNT(DISTINCT v) FROM t"), "6000|17997000|6");
        place.import(&["no-*", "--into", "t", "--replace"]).exits(2).says(&["no-*", "no file matches"]);

        // A file that is cut off is no file.
        let whole = std::fs::read(place.path("part-0")).unwrap();
        let cut = place.file("cut", &whole[..whole.len() - 20]);
        place.import(&[&cut, "--into", "t", "--replace"]).exits(1).says(&["cut: "]);
        place.untouched("t", 6000);

        let other = place.file("other", "id,w\n1,x\n");
        place
            .import(&["part-0", &other, "--into", "t", "--replace"])
            .exits(1)
            .says(&["header of other", "id,w"]);
        place.untouched("t", 6000);
        // The second of two files is named when it is bad.
        let bad = place.file("bad", "id,v\n1,x\nx,y\n");
        place
            .import(&["part-0", &bad, "--into", "t", "--replace", "--max-rejects", "1"])
            .exits(3)
            .says(&["bad:3: column id"]);
        assert_eq!(place.read("bad.rejects"), "id,v\nx,y\n");
    });
}

fn compressed(codec: Codec, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = codec.encoder(&mut out, 3).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap();
    out
}

#[test]
fn standard_input_can_make_a_table() {
    on_every_server(|place| {
        let mut running = place.spawn(&["-", "--into", "t", "--create"]);
        running.stdin().write_all(b"id,born\n1,2000-01-01\n2,2001-01-01\n2,x\n").unwrap();
        running.end().exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY born"), ["1|2000-01-01", "2|2001-01-01", "2|x"]);
        let mut running = place.spawn(&["-", "--into", "t", "--append", "--max-rejects", "1"]);
        running.stdin().write_all(b"id,born\n1,2000-01-01\nx,2001-01-01\n").unwrap();
        running.end().exits(3).says(&["stdin:3: column id, value 'x'", "stdin.rejects"]);
        assert_eq!(place.read("stdin.rejects"), "id,born\nx,2001-01-01\n");
        place.import(&["-", "-", "--into", "t", "--append"]).exits(1).says(&["only once"]);
    });
}

#[test]
fn a_dry_run_prints_the_table_that_would_be_made() {
    on_every_server(|place| {
        let file =
            place.file("p.csv", "id,name,price,born,ok\n1,a\u{e9},1.50,2000-01-01,true\n2,,10.25,,false\n");
        let ended = place.import(&[&file, "--into", "t", "--create", "--dry-run"]).exits(0);
        assert!(
            ended.out.starts_with("CREATE TABLE ") && ended.out.trim_end().ends_with(';'),
            "{}",
            ended.out
        );
        assert_eq!(place.rows("SHOW TABLES"), Vec::<String>::new());
        place.sql(&[ended.out.trim_end().trim_end_matches(';')]);
        let printed = place.rows("SHOW CREATE TABLE t");
        place.sql(&["DROP TABLE t"]);
        place.import(&[&file, "--into", "t", "--create"]).exits(0);
        assert_eq!(place.rows("SHOW CREATE TABLE t"), printed);
        let json = place.import(&["--json", &file, "--into", "u", "--create", "--dry-run"]).exits(0);
        let lines = json_lines(&json);
        assert_eq!(lines.last().unwrap()["message_type"], "preview");
        assert!(lines.last().unwrap()["create"].as_str().unwrap().contains("PRIMARY KEY"));
        // With a table that exists it says what it recognised, and does nothing.
        place.import(&[&file, "--into", "t", "--append", "--dry-run"]).exits(0).says(&["comma-separated"]);
        place.untouched("t", 2);
    });
}

fn json_lines(ended: &Ended) -> Vec<serde_json::Value> {
    ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn fields_go_where_they_are_sent() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), total INT, born DATE)"]);
        let file = place.file("p.csv", "9,x,ann,3,4,01.02.2003\n8,y,bob,5,6,\n");
        let columns = "id,-,name,@price,@count,@born";
        let set = ["--set", "total=@price*@count", "--set", "born=STR_TO_DATE(@born, '%d.%m.%Y')"];
        let import =
            [[file.as_str(), "--into", "t", "--no-header", "--columns", columns].as_slice(), &set].concat();
        place.import(&import).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["8|bob|30|NULL", "9|ann|12|2003-02-01"]);
        // By the header, in another order.
        let file = place.file("q.csv", "name,id\ncid,7\n");
        place.import(&[&file, "--into", "t", "--append"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t WHERE id = 7"), ["7|cid|NULL|NULL"]);
        let file = place.file("r.csv", "name,id,age\ndan,6,1\n");
        place.import(&[&file, "--into", "t", "--append"]).exits(1).says(&["age", "--columns 'name,id,-'"]);
        place.import(&[&file, "--into", "t", "--append", "--columns", "name,id,-"]).exits(0);
        place.import(&[&file, "--into", "t", "--append", "--columns", "name,id"]).exits(1).says(&["3"]);
        place
            .import(&[&file, "--into", "t", "--append", "--columns", "name,id,name"])
            .exits(1)
            .says(&["two fields"]);
        place
            .import(&[&file, "--into", "t", "--append", "--columns", "name,id,nope"])
            .exits(1)
            .says(&["nope"]);
        place.import(&[&file, "--into", "t", "--append", "--columns", "name,,id"]).exits(2);
        place.import(&[&file, "--into", "t", "--append", "--set", "x"]).exits(2).says(&["column=expression"]);
        place.untouched("t", 4);
    });
}

#[test]
fn the_key_is_the_one_asked_for() {
    on_every_server(|place| {
        let key = || {
            place.value(&format!(
                "SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics \
                 WHERE table_schema = '{}' AND table_name = 't' AND index_name = 'PRIMARY'",
                place.schema
            ))
        };
        let file = place.file("p.csv", "id,n,word\n1,5,a\n2,5,b\n3,6,a\n");
        let import = [file.as_str(), "--into", "t", "--create", "--replace"];
        place.import(&import).exits(0);
        assert_eq!(key(), "id");
        place.import(&[import.as_slice(), &["--no-key"]].concat()).exits(0);
        assert_eq!(key(), "NULL");
        place.import(&[import.as_slice(), &["--key", "word,n"]].concat()).exits(0);
        assert_eq!(key(), "word,n");
        place.import(&[import.as_slice(), &["--key", "n"]].concat()).exits(1).says(&["Duplicate entry '5'"]);
        assert_eq!(key(), "word,n");
        place.import(&[import.as_slice(), &["--key", "nope"]].concat()).exits(1).says(&["nope"]);
        let file = place.file("p.csv", "id,n\n1,5\n1,6\n");
        place.import(&[&file, "--into", "t", "--create", "--replace"]).exits(0);
        assert_eq!(key(), "NULL");
    });
}

#[test]
fn null_is_what_one_says_it_is() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(10))"]);
        let file = place.file("p.csv", "id,n,v\n1,NA,NA\n2,3,\"NA\"\n3,,\n4,5,\"\"\n");
        let import = [file.as_str(), "--into", "t", "--replace"];
        place.import(&[import.as_slice(), &["--null", "NA", "--null", ""]].concat()).exits(0);
        assert_eq!(
            place.rows("SELECT * FROM t ORDER BY id"),
            ["1|NULL|NULL", "2|3|NA", "3|NULL|NULL", "4|5|"]
        );
        let file = place.file("q.csv", "id,n,v\n1,5,NULL\n2,6,\n3,7,\\N\n");
        place.import(&[&file, "--into", "t", "--replace", "--no-null", "--escape", "none"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|5|NULL", "2|6|", "3|7|\\N"]);
        assert_eq!(place.value("SELECT COUNT(v) FROM t"), "3");
        let file = place.file("q.csv", "id,n,v\n1,5,a\n2,,b\n");
        place.import(&[&file, "--into", "t", "--replace", "--no-null"]).exits(1).says(&["q.csv:3: column n"]);
    });
}

#[test]
fn times_in_utc_and_words_for_truth_are_understood() {
    on_every_server(|place| {
        let file = place.file("p.csv", "at,ok\n2024-01-02T03:04:05Z,true\n2024-01-02T03:04:06.5Z,FALSE\n");
        place.import(&[&file, "--into", "t", "--create", "--no-key"]).exits(0);
        assert_eq!(
            place.rows("SELECT * FROM t ORDER BY at"),
            ["2024-01-02 03:04:05.0|1", "2024-01-02 03:04:06.5|0"]
        );
        place.sql(&["CREATE TABLE u (at DATETIME(1), ok TINYINT)"]);
        place.import(&[&file, "--into", "u"]).exits(0).says(&["UTC", "true and false"]);
        assert_eq!(
            place.rows("SELECT * FROM u ORDER BY at"),
            ["2024-01-02 03:04:05.0|1", "2024-01-02 03:04:06.5|0"]
        );
    });
}

#[test]
fn lines_before_the_header_are_skipped() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, v VARCHAR(10))"]);
        let file = place.file("p.csv", "# a \"comment\n# more, and more\nid,v\n1,a\nx,b\n");
        place
            .import(&[&file, "--into", "t", "--skip-lines", "2"])
            .exits(1)
            .says(&["p.csv:5: column id, value 'x'"]);
        place.import(&[&file, "--into", "t", "--skip-lines", "2", "--max-rejects", "1"]).exits(3);
        assert_eq!(place.rows("SELECT * FROM t"), ["1|a"]);
        assert_eq!(place.read("p.csv.rejects"), "id,v\nx,b\n");
    });
}

#[test]
fn lines_of_json_say_how_it_ends() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY)"]);
        let file = place.file("p.csv", "id\n1\n2\nx\n");
        let last = |arguments: &[&str], code| {
            let ended = place
                .import(&[&[file.as_str(), "--into", "t", "--json", "--header"], arguments].concat())
                .exits(code);
            json_lines(&ended).pop().unwrap()
        };
        let error = last(&[], 1);
        assert_eq!((&error["message_type"], &error["exit_code"]), (&"error".into(), &1.into()));
        let summary = last(&["--max-rejects", "1"], 3);
        assert_eq!(summary["message_type"], "summary");
        assert_eq!((&summary["rows"], &summary["rejects"]), (&2.into(), &1.into()));
        assert_eq!(summary["reject_files"][0], "p.csv.rejects");
        let error = last(&[], 1);
        assert!(error["message"].as_str().unwrap().contains("--append"));
    });
}

#[test]
fn rejects_that_cannot_be_written_are_not_lost() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, v INT)"]);
        let file = place.file("p.csv", "id,v\n1,1\n2,x\n3,3\n");
        for mode in [vec![], vec!["--append"], vec!["--append", "--by-chunk"], vec!["--replace"]] {
            std::fs::create_dir(place.path("p.csv.rejects")).unwrap();
            let import = [vec![file.as_str(), "--into", "t", "--max-rejects", "1"], mode].concat();
            place.import(&import).exits(1).says(&["p.csv.rejects", "--resume"]);
            std::fs::remove_dir(place.path("p.csv.rejects")).unwrap();
            place.import(&[import, vec!["--resume"]].concat()).exits(3);
            assert_eq!(place.read("p.csv.rejects"), "id,v\n2,x\n");
            place.untouched("t", 2);
            std::fs::remove_file(place.path("p.csv.rejects")).unwrap();
            place.sql(&["DELETE FROM t"]);
        }
    });
}

#[test]
fn a_password_is_not_in_the_process_list() {
    on_every_server(|place| {
        let user = format!("user_{}", place.schema);
        place.sql(&[
            "CREATE TABLE t (id INT, v VARCHAR(100))",
            &format!("CREATE USER {user}@localhost IDENTIFIED BY 'SeCrEt17'"),
            &format!("GRANT ALL ON {}.* TO {user}@localhost", place.schema),
        ]);
        let start = |arguments: &[&str]| {
            let mut command = remora(&place.path(""));
            command.args(["import", "-", "--into"]).arg(format!("{}.t", place.schema)).arg("--no-header");
            command.arg("--no-defaults").args(["--chunk", "4K"]).args(arguments);
            command.stdin(std::process::Stdio::piped());
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            support::Running::new(command.spawn().unwrap())
        };
        let socket = place.socket.to_str().unwrap();
        let url = format!("unix://{user}:SeCrEt17@{socket}");
        for way in [vec!["-S", socket, "-u", &user, "-pSeCrEt17"], vec!["--url", &url]] {
            let mut running = start(&way);
            let mut stdin = running.stdin();
            for id in 0..20_000 {
                writeln!(stdin, "{id},{id:0>90}").unwrap();
            }
            place.until_chunks(&mut running, 3);
            let line = std::fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(line.contains("import") && !line.contains("SeCrEt17"), "{line}");
            drop(stdin);
            running.end().exits(0);
            place.sql(&["TRUNCATE TABLE t"]);
        }
        start(&["-S", socket, "-u", &user, "-pWrOnG"]).end().exits(10).says(&["denied"]);
        start(&["-S", socket, "-u", &user, "-p"]).end().exits(2).says(&["never asked for"]);
    });
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT)"]);
        let file = place.file("p.csv", "1\n");
        place.import(&[&file]).exits(2);
        place.import(&[&file, "--into", "t", "--nope"]).exits(2);
        place.import(&[&file, "--into", "t", "--append", "--replace"]).exits(2);
        place.import(&[&file, "--into", "t", "--delimiter", ""]).exits(2);
        place.import(&["missing.csv", "--into", "t"]).exits(1).says(&["missing.csv"]);
        let mut command = remora(&place.path(""));
        command.args(["import", &file, "--into", "a.t", "--no-defaults", "-S", "/nowhere/socket"]);
        Ended::of(&command.output().unwrap()).exits(10).says(&["/nowhere/socket"]);
    });
}

#[test]
fn all_that_is_missing_is_asked_for_at_once() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)", "INSERT INTO u VALUES (7)"]);
        let schema = place.schema.as_str();
        let file = place.file("p.csv", "1\n");
        let grants = |ended: &Ended| -> Vec<String> {
            let told = ended.err.split("an administrator run: ").nth(1).unwrap_or_default();
            told.trim().split("; ").map(str::to_owned).collect()
        };
        for (table, mode) in
            [("t", vec![]), ("u", vec!["--append"]), ("u", vec!["--replace"]), ("v", vec!["--create"])]
        {
            let account = place.account(&format!("poor{}{}", table, mode.len() + mode.concat().len()));
            let import = [vec![file.as_str(), "--into", table], mode].concat();
            let mut said = Vec::new();
            // Of a table that it may not see it only hears that.
            for _ in 0..2 {
                let ended = place.import_as(&account, &import);
                if ended.code == 0 {
                    break;
                }
                let all = grants(&ended.exits(10));
                assert!(
                    all.iter().all(|grant| grant.starts_with("GRANT ") && !grant.contains("_remora")),
                    "{all:?}"
                );
                place.sql(&all.iter().map(String::as_str).collect::<Vec<_>>());
                said.push(all);
            }
            place
                .import_as(&account, &[import.as_slice(), &["--resume"]].concat())
                .exits(1)
                .says(&["nothing to resume"]);
            assert!(!said.is_empty());
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
        // Rights on the table are enough, with a database for the rest.
        let (account, work) = (place.account("narrow"), format!("{schema}_work"));
        place.sql(&[
            &format!("CREATE DATABASE {work}"),
            &format!("GRANT SELECT, INSERT, CREATE, ALTER, DROP, TRIGGER ON {schema}.u TO {account}"),
            &format!("GRANT ALL ON {work}.* TO {account}"),
        ]);
        let import = [file.as_str(), "--into", "u", "--replace"];
        place.import_as(&account, &import).exits(10).says(&["--work-database"]);
        place.import_as(&account, &[import.as_slice(), &["--work-database", &work]].concat()).exits(0);
        place.untouched("u", 1);
        place.import_as(&account, &[&file, "--into", "u", "--append", "--work-database", &work]).exits(0);
        place.untouched("u", 2);
        assert_eq!(place.rows(&format!("SHOW TABLES FROM {work}")), Vec::<String>::new());
        // A stopped import is found wherever its ledger is.
        let bad = place.file("q.csv", "1\nx\n");
        let by_chunk = [bad.as_str(), "--into", "u", "--append", "--by-chunk", "--no-header"];
        place
            .import(&[by_chunk.as_slice(), &["--work-database", &work]].concat())
            .exits(1)
            .says(&["--resume"]);
        place.import(&by_chunk).exits(1).says(&["--work-database"]);
        place.sql(&[&format!("DROP DATABASE {work}")]);
    });
}

#[test]
fn a_server_that_is_read_only_says_so_before_the_work() {
    for product in support::products() {
        support::tell(product);
        let server = support::start(product, &[]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT)"]);
        let account = place.account("reader");
        place.sql(&[&format!("GRANT ALL ON {}.* TO {account}", place.schema), "SET GLOBAL read_only = 1"]);
        let file = place.file("p.csv", "1\n");
        for import in [vec!["--into", "t"], vec!["--into", "u", "--create"]] {
            let ended = place.import_as(&account, &[vec![file.as_str()], import].concat()).exits(1);
            assert!(ended.err.contains("read-only") && !ended.err.contains("CREATE TABLE"), "{}", ended.err);
        }
        place.sql(&["SET GLOBAL read_only = 0"]);
        place.import_as(&account, &[&file, "--into", "t"]).exits(0);
    }
}

#[test]
fn all_of_an_import_is_in_the_binary_log_or_nothing() {
    for product in support::products() {
        support::tell(product);
        let server = support::start(product, &["--log-bin=log", "--server-id=1", "--binlog-format=ROW"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"]);
        let file = place.file("p.csv", "5\n6\n7\n");
        let position = || place.rows("SHOW MASTER STATUS");
        let before = position();
        for (table, mode) in [
            ("t", ["--replace", "--relax-durability"].as_slice()),
            ("u", &["--create"]),
            ("t", &["--append", "--on-duplicate", "ignore"]),
            ("t", &["--replace", "--restart"]),
        ] {
            let import = [&[file.as_str(), "--into", table, "--no-binlog"], mode].concat();
            place.import(&import).exits(0).says(&["nothing of this import goes into the binary log"]);
            assert_eq!(position(), before, "{mode:?}");
            place.untouched(table, 3);
        }
        place.import(&[&file, "--into", "t", "--replace"]).exits(0);
        assert_ne!(position(), before);
        // A stopped import goes on as it began.
        place.sql(&["ALTER TABLE t ADD n TINYINT"]);
        let bad = place.file("q.csv", "8,1\n9,1\n");
        let stopped = [bad.as_str(), "--into", "t", "--append", "--by-chunk", "--no-header"];
        let folder = place.path("q.csv.rejects");
        std::fs::create_dir(&folder).unwrap();
        place.file("q.csv", "8,1\n9,900\n");
        let before = position();
        let once = [stopped.as_slice(), &["--max-rejects", "1"]].concat();
        place.import(&[once.as_slice(), &["--no-binlog"]].concat()).exits(1).says(&["--resume"]);
        std::fs::remove_dir(&folder).unwrap();
        place.import(&[once.as_slice(), &["--resume"]].concat()).exits(3);
        assert_eq!(position(), before);
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        place.sql(&["DELETE FROM t WHERE id = 8"]);
        place.import(&once).exits(1).says(&["--resume"]);
        place
            .import(&[once.as_slice(), &["--resume", "--no-binlog"]].concat())
            .exits(1)
            .says(&["without --no-binlog"]);
    }
}

#[test]
fn files_that_differ_in_spaces_line_ends_and_order_are_one() {
    on_every_server(|place| {
        let files = [
            place.file("a.csv", "id, name\n1,a\n2,b\n"),
            place.file("b.csv", "id, name\r\n3,c\r\n4,d\r\n"),
            place.file("c.csv", "name,id\ne,5\nf,6\n"),
            place.file("d.csv", "id, name\n"),
        ];
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let expected = ["1|a", "2|b", "3|c", "4|d", "5|e", "6|f"];
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(5))"]);
        for (table, create) in [("t", &[][..]), ("u", &["--create"])] {
            place
                .import(&[files.as_slice(), &["--into", table], create].concat())
                .exits(0)
                .says(&["other order", "\\r\\n"]);
            assert_eq!(place.rows(&format!("SELECT * FROM {table} ORDER BY id")), expected);
        }
        // A bad row goes back in the order of its own file.
        let bad = place.file("e.csv", "name,id\ng,x\n");
        place
            .import(&["a.csv", &bad, "--into", "t", "--replace", "--max-rejects", "1"])
            .exits(3)
            .says(&["e.csv:2: column id, value 'x'"]);
        assert_eq!(place.read("e.csv.rejects"), "name,id\ng,x\n");
        let old = place.file("f.csv", "id, name\r9,z\r");
        place.import(&["a.csv", &old, "--into", "t", "--replace"]).exits(1).says(&["f.csv", "\\r"]);
        let other = place.file("g.csv", "id,id\n9,9\n");
        place.import(&["a.csv", &other, "--into", "t", "--replace"]).exits(1).says(&["header of g.csv"]);
    });
}

#[test]
fn types_are_roomy_tight_or_given() {
    on_every_server(|place| {
        let file = place.file("p.csv", "id,n,price,name\n1,5,1.25,ann\n2,6,2.5,bob\n");
        let types = || {
            place.value(&format!(
                "SELECT GROUP_CONCAT(CONCAT(REPLACE(REPLACE(column_type, '(11)', ''), '(3) unsigned', ' unsigned'), \
                 IF(is_nullable = 'YES', ' null', '')) ORDER BY ordinal_position SEPARATOR '; ') \
                 FROM information_schema.columns WHERE table_schema = '{}' AND table_name = 't'",
                place.schema
            ))
        };
        let import = [file.as_str(), "--into", "t", "--create", "--replace"];
        place.import(&import).exits(0);
        assert_eq!(types(), "int; int null; decimal(7,2) null; varchar(16) null");
        place.import(&[import.as_slice(), &["--tight"]].concat()).exits(0);
        assert_eq!(types(), "tinyint unsigned; tinyint unsigned; decimal(3,2); varchar(3)");
        let given =
            ["--type", "price=DECIMAL(12,4) NOT NULL", "--type", "name=CHAR(9)", "--type", "n=bit(4)"];
        place.import(&[import.as_slice(), &given].concat()).exits(0);
        assert_eq!(types(), "int; bit(4) null; decimal(12,4); char(9) null");
        assert_eq!(
            place.rows("SELECT id, n + 0, price, name FROM t ORDER BY id"),
            ["1|5|1.2500|ann", "2|6|2.5000|bob"]
        );
        place
            .import(&[import.as_slice(), &["--type", "name=INT"]].concat())
            .exits(1)
            .says(&["p.csv:2: column name"]);
        place.import(&[import.as_slice(), &["--type", "nope=INT"]].concat()).exits(1).says(&["nope"]);
        place.import(&[import.as_slice(), &["--type", "name"]].concat()).exits(2).says(&["column=type"]);
        place.import(&[&file, "--into", "t", "--append", "--tight"]).exits(2);
    });
}

#[test]
fn numbers_and_dates_as_people_write_them() {
    on_every_server(|place| {
        let file = place.file(
            "p.csv",
            "id;price;born;sold\n1;1.234,50;31.12.1999;12/31/1999 8:05\n2;2,5;1.2.2000;1/2/2000 10:00\n",
        );
        let expected = ["1|1234.50|1999-12-31|1999-12-31 08:05:00", "2|2.50|2000-02-01|2000-01-02 10:00:00"];
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(9,2), born DATE, sold DATETIME)"]);
        for (table, create) in [("t", &[][..]), ("u", &["--create"])] {
            place.import(&[&[file.as_str(), "--into", table], create].concat()).exits(0).says(&[
                "price: numbers have a decimal comma",
                "born: dates are day, month, year",
                "sold: dates are month",
            ]);
            assert_eq!(place.rows(&format!("SELECT * FROM {table} ORDER BY id")), expected);
        }
        // What contradicts the others is a bad row, and what can't be told stays text.
        let late = format!(
            "id;price;born\n{}9;1.5;1.2.2000\n10;1,5;12/31/1999\n",
            "1;2,5;31.12.1999\n".repeat(11_000)
        );
        let late = place.file("q.csv", late);
        place.sql(&["CREATE TABLE w (id INT, price DOUBLE, born DATE)"]);
        place.import(&[&late, "--into", "w", "--max-rejects", "2"]).exits(3).says(&[
            "q.csv:11002: field 2, value '1.5': not a number with a decimal comma",
            "q.csv:11003: field 3",
        ]);
        let open = place.file("r.csv", "id;n;d\n1;1,234;1/2/1999\n2;2,345;3/4/1999\n");
        let columns = "SELECT GROUP_CONCAT(data_type ORDER BY ordinal_position) FROM information_schema.columns \
                       WHERE table_schema = DATABASE() AND table_name = 'x'";
        let import = [open.as_str(), "--into", "x", "--create", "--replace"];
        place.import(&import).exits(0).says(&["d: these may be dates", "--date-order"]);
        assert_eq!(place.value(columns), "int,varchar,varchar");
        place.import(&[import.as_slice(), &["--date-order", "mdy", "--decimal-comma"]].concat()).exits(0);
        assert_eq!(place.value(columns), "int,decimal,date");
        assert_eq!(place.rows("SELECT * FROM x ORDER BY id"), ["1|1.234|1999-01-02", "2|2.345|1999-03-04"]);
    });
}

#[test]
fn a_moment_stays_the_moment_whatever_the_servers_zone() {
    for product in support::products() {
        support::tell(product);
        let server = support::start(product, &["--default-time-zone=+05:00"]);
        let place = Place::new(&server);
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, told DATETIME)"]);
        let file = place.file(
            "p.csv",
            "id,at,told\n1,2024-01-01T00:30:00+01:00,2024-01-01T00:30:00+01:00\n2,2024-01-01T12:00:00Z,\n",
        );
        place.import(&[&file, "--into", "t"]).exits(0).says(&["stored as UTC", "time zone is UTC"]);
        let moments = "SELECT id, UNIX_TIMESTAMP(at), told FROM t ORDER BY id";
        assert_eq!(place.rows(moments), ["1|1704065400|2023-12-31 23:30:00", "2|1704110400|NULL"]);
        place
            .import(&[&file, "--into", "t", "--replace", "--time-zone", "+02:00"])
            .exits(1)
            .says(&["--time-zone"]);
        place.import(&[&file, "--into", "t", "--replace", "--time-zone", "+00:00"]).exits(0);
        assert_eq!(place.rows(moments).len(), 2);
        place.import(&[&file, "--into", "u", "--create"]).exits(0);
        assert_eq!(
            place.rows("SELECT at FROM u ORDER BY id"),
            ["2023-12-31 23:30:00", "2024-01-01 12:00:00"]
        );
        place.sql(&["ALTER TABLE t MODIFY told TIMESTAMP NULL"]);
        let mixed = place.file("q.csv", "id,at,told\n1,2024-01-01T00:30:00Z,2024-01-01 00:30:00\n");
        place.import(&[&mixed, "--into", "t", "--replace"]).exits(1).says(&["told", "--time-zone +00:00"]);
    }
}

#[test]
fn a_server_for_which_an_empty_string_is_null_keeps_them_apart() {
    for product in support::products().into_iter().filter(|product| product.id() != "mysql-5.6") {
        support::tell(product);
        for local_infile in ["--local-infile=1", "--local-infile=0"] {
            let server = support::start(product, &["--sql-mode=EMPTY_STRING_IS_NULL", local_infile]);
            let place = Place::new(&server);
            place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"]);
            let file = place.file("p.csv", "id,v\n1,\"\"\n2,\n3,x\n");
            place.import(&[&file, "--into", "t"]).exits(0);
            assert_eq!(place.rows("SELECT id, v IS NULL FROM t ORDER BY id"), ["1|0", "2|1", "3|0"]);
        }
    }
}

#[test]
fn sigusr1_prints_the_progress_line() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, v VARCHAR(100))"]);
        let mut running = place.spawn(&["-", "--into", "t", "--no-header", "--chunk", "4K"]);
        let mut stdin = running.stdin();
        for id in 0..20_000 {
            writeln!(stdin, "{id},{id:0>90}").unwrap();
        }
        place.until_chunks(&mut running, 3);
        running.signal("USR1");
        running.until_says("rows/s");
        drop(stdin);
        until("the end", || running.has_ended());
        assert_eq!(place.count("t"), 20_000);
    });
}

#[test]
fn short_h_alone_says_that_it_is_the_host() {
    let place = tempfile::tempdir().unwrap();
    for arguments in [&["-h"][..], &["prune", "-h"], &["import", "-h"], &["list", "-h"]] {
        let output = remora(place.path()).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("-h is --host"), "{arguments:?}: {said}");
        assert!(said.contains("-? or --help"), "{arguments:?}: {said}");
    }
}
