//! Command lines, and what they do.

use std::io::Write as _;

use codec::Codec;

use crate::support::{self, Ended, on_every_server, remora, until};

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
        // With a table that exists, it says what it recognised and does nothing.
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
        // By the header, with the columns in another order.
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
fn the_primary_key_is_the_requested_one() {
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
fn exit_codes_say_what_went_wrong() {
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
                .says(&["a different order", "\\r\\n"]);
            assert_eq!(place.rows(&format!("SELECT * FROM {table} ORDER BY id")), expected);
        }
        // A rejected row keeps the column order of its own file.
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

#[test]
fn a_column_that_a_few_values_make_text_is_told() {
    let place = tempfile::tempdir().unwrap();
    let days: String = (1..100).map(|id| format!("{id},2024-03-{:02}\n", id % 31 + 1)).collect();
    std::fs::write(place.path().join("days.csv"), format!("id,day\n{days}100,2024-02-31\n")).unwrap();
    let import = ["import", "days.csv", "--into", "a.b", "--create", "--dry-run"];
    let run =
        |more: &[&str]| Ended::of(&remora(place.path()).args(import).args(more).output().unwrap()).exits(0);
    run(&[]).says(&[
        "column day is text because of 1 of 100 values, such as \"2024-02-31\"",
        "--type 'day=DATE'",
    ]);
    let typed = run(&["--type", "day=DATE"]);
    assert!(!typed.err.contains("is text because"), "{}", typed.err);
}
