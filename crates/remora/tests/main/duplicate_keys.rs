//! Rows whose keys exist already.

use crate::support::{Place, on_every_server};

/// Rows from one number to another, long enough that a chunk of 4 KB holds forty.
fn rows(from: u32, to: u32) -> String {
    (from..to).map(|id| format!("{id},{id:0>90}\n")).collect()
}

fn numbers(place: &Place) {
    place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(100) NOT NULL)"]);
}

#[test]
fn duplicates_in_one_chunk_are_rejected() {
    on_every_server(|place| {
        numbers(place);
        let file =
            place.file("p.csv", format!("id,name\n{}5,x\n{}900,y\n900,z\n", rows(0, 500), rows(500, 1000)));
        place
            .import(&[&file, "--into", "t", "--chunk", "4M"])
            .exits(1)
            .says(&["Duplicate entry '", "for key"]);
        place.untouched("t", 0);
        place.import(&[&file, "--into", "t", "--chunk", "4M", "--max-rejects", "3"]).exits(3);
        assert_eq!(place.count("t"), 1000);
        assert_eq!(place.read("p.csv.rejects"), "id,name\n5,x\n900,y\n900,z\n");
    });
}

#[test]
fn duplicates_across_chunks_and_sessions_are_rejected_once() {
    on_every_server(|place| {
        numbers(place);
        let file = place.file("p.csv", format!("id,name\n{}{}", rows(0, 1500), rows(1490, 2000)));
        let import = [file.as_str(), "--into", "t", "--chunk", "4K", "--sessions", "4"];
        place.import(&import).exits(1).says(&["Duplicate entry '14"]);
        place.untouched("t", 0);
        place.import(&[&import, ["--max-rejects", "10"].as_slice()].concat()).exits(3).says(&["10 rejected"]);
        assert_eq!(place.value("SELECT COUNT(*), MIN(id), MAX(id) FROM t"), "2000|0|1999");
        let rejects = place.read("p.csv.rejects");
        assert_eq!(rejects.lines().filter(|line| line.starts_with("149")).count(), 10, "{rejects}");
    });
}

#[test]
fn sessions_that_wait_for_each_other_get_through() {
    // Every key twice, the second time in reverse order, so that sessions lock each other's rows.
    on_every_server(|place| {
        numbers(place);
        let mut twice: Vec<String> = rows(0, 1000).lines().map(str::to_owned).collect();
        twice.extend(twice.clone().into_iter().rev());
        let file = place.file("p.csv", format!("id,name\n{}\n", twice.join("\n")));
        let import = ["--into", "t", "--chunk", "8K", "--sessions", "6", "--max-rejects", "1000"];
        place.import(&[&[file.as_str()], import.as_slice()].concat()).exits(3).says(&["1000 rejected"]);
        assert_eq!(place.count("t"), 1000);
        assert_eq!(place.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn duplicates_of_rows_that_are_there_are_rejected() {
    on_every_server(|place| {
        numbers(place);
        place.sql(&["INSERT INTO t VALUES (3, 'old'), (700, 'old')"]);
        let file = place.file("p.csv", format!("id,name\n{}", rows(0, 1000)));
        for more in [vec![], vec!["--by-chunk"]] {
            let import =
                [vec![file.as_str(), "--into", "t", "--append", "--chunk", "4K"], more.clone()].concat();
            if more.is_empty() {
                place.import(&import).exits(1).says(&["p.csv:5: Duplicate entry '3' for key"]);
                place.untouched("t", 2);
            }
            place.import(&[import, vec!["--max-rejects", "2"]].concat()).exits(3).says(&["2 rejected"]);
            assert_eq!(place.value("SELECT COUNT(*), SUM(name = 'old') FROM t"), "1000|2");
            let rejects = place.read("p.csv.rejects");
            assert_eq!(rejects, format!("id,name\n{}{}", rows(3, 4), rows(700, 701)));
            place.sql(&["DELETE FROM t WHERE name <> 'old'"]);
        }
    });
}

#[test]
fn a_stopped_append_by_chunk_is_not_loaded_twice() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT, name VARCHAR(100) NOT NULL, UNIQUE (id))"]);
        place.sql(&["INSERT INTO t VALUES (900, 'old')"]);
        let file = place.file("p.csv", format!("id,name\n{}", rows(0, 1000)));
        let import =
            [file.as_str(), "--into", "t", "--append", "--by-chunk", "--chunk", "4K", "--sessions", "1"];
        let resume = "--resume";
        place.import(&import).exits(1).says(&["p.csv:902: Duplicate entry '900'", resume]);
        let before = place.count("t");
        assert!((2..1000).contains(&before));
        place.import(&import).exits(11).says(&[resume]);
        // Committed rows can't be thrown away: a new start would double them.
        place.import(&[import.as_slice(), &["--restart"]].concat()).exits(1).says(&[resume]);
        assert_eq!(place.count("t"), before);
        place.sql(&["DELETE FROM t WHERE name = 'old'"]);
        place.import(&[import.as_slice(), &[resume]].concat()).exits(0);
        place.untouched("t", 1000);
    });
}

#[test]
fn a_unique_secondary_key_is_a_key_too() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, mail VARCHAR(50), UNIQUE KEY by_mail (mail))"]);
        let file = place.file("p.csv", "id,mail\n1,a@x\n2,b@x\n3,a@x\n4,\n5,\n2,c@x\n");
        for when in ["before", "after"] {
            place
                .import(&[&file, "--into", "t", "--indexes", when])
                .exits(1)
                .says(&["p.csv:4: Duplicate entry 'a@x' for key", "by_mail"]);
            place.untouched("t", 0);
        }
        place.import(&[&file, "--into", "t", "--max-rejects", "2"]).exits(3);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|a@x", "2|b@x", "4|NULL", "5|NULL"]);
        assert_eq!(place.read("p.csv.rejects"), "id,mail\n3,a@x\n2,c@x\n");
    });
}

/// A table with rows; the file holds one of them unchanged.
fn stock(place: &Place) {
    place.sql(&[
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(100) NOT NULL, note VARCHAR(20) DEFAULT 'new')",
        "INSERT INTO t VALUES (3, 'old', 'kept'), (700, 'old', 'kept'), (5, 'five', 'kept')",
    ]);
}

const SUMS: &str = "SELECT COUNT(*), SUM(name = 'old'), SUM(note = 'kept'), SUM(name = 'later') FROM t";

#[test]
fn existing_keys_are_treated_as_on_duplicate_says() {
    on_every_server(|place| {
        let text = format!("id,name\n{}5,five\n{}900,later\n", rows(0, 5), rows(6, 1000));
        let file = place.file("p.csv", text);
        for (on, sums, said) in [
            ("ignore", "1000|2|3|0", "997 rows into {}.t, 4 ignored because their key was there, 0 rejected"),
            ("replace", "1000|0|0|1", "1001 rows into {}.t, in place of 4 that had their keys, 0 rejected"),
            (
                "update",
                "1000|0|3|1",
                "1001 rows into {}.t, of which 3 updated the row with their key and 1 found it unchanged, 0 rejected",
            ),
        ] {
            for mode in [&["--append"][..], &["--append", "--by-chunk"]] {
                stock(place);
                let import =
                    [&[file.as_str(), "--into", "t", "--chunk", "4K", "--on-duplicate", on], mode].concat();
                let ended = place.import(&import).exits(0);
                ended.says(&[&said.replace("{}", &place.schema)]);
                assert_eq!(place.value(SUMS), sums, "{on} {mode:?}");
                assert_eq!(place.leftovers(), Vec::<String>::new());
            }
        }
        place
            .import(&[&file, "--into", "t", "--append", "--on-duplicate", "drop"])
            .exits(2)
            .says(&["ignore"]);
    });
}

#[test]
fn bad_rows_among_duplicates_are_still_bad() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n TINYINT)", "INSERT INTO t VALUES (1, 1), (2, 2)"]);
        let file = place.file("p.csv", "id,n\n1,9\n3,300\n4,4\n2,301\n4,5\n5,5\n");
        for on in ["ignore", "replace", "update"] {
            let import = [file.as_str(), "--into", "t", "--append", "--on-duplicate", on];
            place.import(&import).exits(1).says(&["p.csv:3: column n, value '300'"]);
            assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|1", "2|2"]);
            place.import(&[import.as_slice(), &["--max-rejects", "2"]].concat()).exits(3);
            let expected =
                if on == "ignore" { ["1|1", "2|2", "4|4", "5|5"] } else { ["1|9", "2|2", "4|5", "5|5"] };
            assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), expected, "{on}");
            assert_eq!(place.read("p.csv.rejects"), "id,n\n3,300\n2,301\n");
            place.sql(&["DELETE FROM t", "INSERT INTO t VALUES (1, 1), (2, 2)"]);
        }
    });
}

#[test]
fn of_two_rows_with_one_key_the_right_one_is_kept_in_every_mode() {
    on_every_server(|place| {
        numbers(place);
        // Each block of rows is followed by a block with the same keys, in the next chunk or the one after.
        let blocks = (0..50).map(|block| {
            let block = rows(block * 40, block * 40 + 40);
            let later: String =
                block.lines().map(|line| format!("{},later\n", line.split(',').next().unwrap())).collect();
            block + &later
        });
        let file = place.file("p.csv", format!("id,name\n{}", blocks.collect::<String>()));
        for (on, later) in [("ignore", "0"), ("replace", "2000"), ("update", "2000")] {
            let import =
                ["--into", "t", "--replace", "--chunk", "4K", "--sessions", "4", "--on-duplicate", on];
            place.import(&[&[file.as_str()], import.as_slice()].concat()).exits(0);
            let sums = place.value("SELECT COUNT(*), SUM(name = 'later') FROM t");
            assert_eq!(sums, format!("2000|{later}"), "{on}");
        }
        place
            .import(&[&file, "--into", "u", "--create", "--key", "id", "--on-duplicate", "replace"])
            .exits(0);
        assert_eq!(place.value("SELECT COUNT(*), SUM(name = 'later') FROM u"), "2000|2000");
    });
}

#[test]
fn counts_of_duplicates_outlive_a_kill() {
    on_every_server(|place| {
        stock(place);
        let text = format!("id,name\n{}", rows(0, 20_000));
        let import = ["--into", "t", "--append", "--by-chunk", "--chunk", "4K", "--on-duplicate", "update"];
        let mut running = place.spawn(&[&["-"], import.as_slice()].concat());
        let mut stdin = running.stdin();
        std::io::Write::write_all(&mut stdin, &text.as_bytes()[..1_500_000]).unwrap();
        place.until_chunks(&mut running, 30);
        running.kill();
        let file = place.file("p.csv", &text);
        let mut resume = import.to_vec();
        resume[7] = "ignore";
        crate::support::until("the lock is free", || {
            place.import(&[&[file.as_str(), "--resume"], resume.as_slice()].concat()).code == 1
        });
        place
            .import(&[&[file.as_str(), "--resume"], import.as_slice()].concat())
            .exits(0)
            .says(&["20000 rows in", "of which 3 updated the row with their key and 0 found it unchanged"]);
        assert_eq!(place.value(SUMS), "20000|0|3|0");
    });
}
