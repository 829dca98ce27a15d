//! Tables of every kind, with what depends on them.

use sandbox::Product;

use crate::support::{Ended, Place, on_every_server, on_mariadb};

fn csv(place: &Place, text: &str) -> String {
    place.file("p.csv", text)
}

#[track_caller]
fn import(place: &Place, text: &str, arguments: &[&str]) -> Ended {
    let file = csv(place, text);
    place.import(&[&[file.as_str(), "--into", "t"], arguments].concat())
}

#[test]
fn triggers_fire_once_for_each_row() {
    on_every_server(|place| {
        place.sql(&[
            "CREATE TABLE log (id INT)",
            "CREATE TABLE t (id INT PRIMARY KEY, n TINYINT, twice INT)",
            "CREATE TRIGGER before_t BEFORE INSERT ON t FOR EACH ROW SET NEW.twice = 2 * NEW.n",
            "CREATE TRIGGER after_t AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.id)",
        ]);
        let rows = "id,n\n1,5\n2,300\n3,7\n1,8\n";
        import(place, rows, &["--columns", "id,n"]).exits(1).says(&["p.csv:", "one transaction"]);
        place.untouched("t", 0);
        assert_eq!(place.count("log"), 0);
        import(place, rows, &["--max-rejects", "2"]).exits(3);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|5|10", "3|7|14"]);
        assert_eq!(place.rows("SELECT * FROM log ORDER BY id"), ["1", "3"]);
        import(place, "id,n\n4,4\n", &["--append"]).exits(0);
        import(place, "id,n\n9,9\n", &["--replace"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["9|9|18"]);
        assert_eq!(place.rows("SELECT * FROM log ORDER BY id"), ["1", "3", "4", "9"]);
        assert_eq!(place.rows("SHOW TRIGGERS").len(), 2);
    });
}

#[test]
fn history_is_kept() {
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING"]);
        import(place, "id,n\n1,1\n2,2\n", &[]).exits(0).says(&["one transaction"]);
        import(place, "id,n\n1,5\n", &["--replace"]).exits(0);
        assert_eq!(place.rows("SELECT id, n FROM t"), ["1|5"]);
        assert_eq!(place.rows("SELECT id, n FROM t FOR SYSTEM_TIME ALL ORDER BY n"), ["1|1", "2|2", "1|5"]);
    });
}

#[test]
fn a_row_that_a_trigger_refuses_is_named() {
    on_every_server(|place| {
        place.sql(&[
            "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
            "CREATE TRIGGER guard BEFORE INSERT ON t FOR EACH ROW \
             IF NEW.n > 100 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'more than a hundred'; END IF",
        ]);
        import(place, "id,n\n1,5\n2,300\n3,7\n", &[]).exits(1).says(&["p.csv:3: more than a hundred"]);
        place.untouched("t", 0);
        import(place, "id,n\n1,5\n2,300\n3,7\n", &["--max-rejects", "1"]).exits(3);
        assert_eq!(place.rows("SELECT id FROM t ORDER BY id"), ["1", "3"]);
    });
}

#[test]
fn generated_columns_are_computed() {
    // MySQL 5.6 has none.
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n INT, \
                     v INT AS (n + 1) VIRTUAL, s INT AS (n + 2) STORED, KEY by_v (v))"]);
        import(place, "id,n\n1,5\n2,6\n", &["--indexes", "after"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|5|6|7", "2|6|7|8"]);
        import(place, "3,7\n4,8\n", &["--append", "--no-header"]).exits(0);
        assert_eq!(place.value("SELECT s FROM t WHERE id = 4"), "10");
        import(place, "id,v\n5,1\n", &["--append"]).exits(1).says(&["v", "generated"]);
    });
}

fn family(place: &Place, rule: &str) {
    place.sql(&[
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "INSERT INTO parent VALUES (1), (2)",
        &format!("CREATE TABLE t (id INT PRIMARY KEY, p INT, CONSTRAINT to_parent FOREIGN KEY (p) REFERENCES parent (id) {rule})"),
    ]);
}

#[test]
fn a_row_without_a_parent_is_named() {
    on_every_server(|place| {
        family(place, "");
        let rows = "id,p\n1,1\n2,7\n3,2\n4,\n";
        import(place, rows, &[]).exits(1).says(&["p.csv:3: ", "foreign key constraint"]);
        place.untouched("t", 0);
        import(place, rows, &["--max-rejects", "1"]).exits(3);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|1", "3|2", "4|NULL"]);
        assert_eq!(place.read("p.csv.rejects"), "id,p\n2,7\n");
    });
}

#[test]
fn deferred_foreign_key_checks_still_find_orphans() {
    on_every_server(|place| {
        family(place, "");
        place.sql(&["INSERT INTO t VALUES (100, 1)"]);
        let rows = "id,p\n1,1\n2,7\n3,2\n";
        import(place, rows, &["--replace", "--defer-checks"]).exits(1).says(&["to_parent", "7", "parent"]);
        assert_eq!(place.rows("SELECT * FROM t"), ["100|1"]);
        import(place, rows, &["--append", "--defer-checks"]).exits(1).says(&["to_parent"]);
        place.untouched("t", 1);
        // Rows committed by chunk stay; once the parent exists, the key holds.
        import(place, rows, &["--append", "--by-chunk", "--defer-checks"])
            .exits(1)
            .says(&["to_parent", "--resume"]);
        place.sql(&["INSERT INTO parent VALUES (7)"]);
        import(place, rows, &["--append", "--by-chunk", "--defer-checks", "--resume"]).exits(0);
        place.untouched("t", 4);
        import(place, rows, &["--replace", "--defer-checks"]).exits(0);
        place.untouched("t", 3);
    });
}

#[test]
fn a_parent_is_not_replaced_under_its_children() {
    on_every_server(|place| {
        for rule in ["", "ON DELETE CASCADE", "ON DELETE SET NULL"] {
            place.sql(&[
                "SET foreign_key_checks = 0",
                "DROP TABLE IF EXISTS child",
                "DROP TABLE IF EXISTS t",
            ]);
            place.sql(&[
                "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
                &format!(
                    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id) {rule})"
                ),
            ]);
            // An empty table is loaded like any other.
            import(place, "id,n\n1,1\n2,2\n", &[]).exits(0);
            place.sql(&["INSERT INTO child VALUES (1, 1), (2, 2)"]);
            for arguments in [["--replace"].as_slice(), &["--replace", "--defer-checks"]] {
                import(place, "id,n\n1,10\n", arguments).exits(1).says(&["child"]);
                assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|1", "2|2"], "{rule} {arguments:?}");
                assert_eq!(
                    place.rows("SELECT * FROM child ORDER BY id"),
                    ["1|1", "2|2"],
                    "{rule} {arguments:?}"
                );
            }
            import(place, "id,n\n1,10\n2,20\n", &["--replace", "--defer-checks"]).exits(0);
            assert_eq!(place.rows("SELECT * FROM t ORDER BY id"), ["1|10", "2|20"], "{rule}");
            assert_eq!(place.rows("SELECT * FROM child ORDER BY id"), ["1|1", "2|2"], "{rule}");
            import(place, "id,n\n3,3\n", &["--append"]).exits(0);
            place.untouched("t", 3);
        }
    });
}

#[test]
fn check_constraints_are_kept_and_obeyed() {
    // MySQL 5.6 accepts CHECK and ignores it.
    on_mariadb(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n INT, CONSTRAINT small CHECK (n < 10))"]);
        let before = place.rows("SHOW CREATE TABLE t");
        import(place, "id,n\n1,5\n2,50\n3,7\n", &[]).exits(1).says(&["p.csv:3: ", "small"]);
        place.untouched("t", 0);
        import(place, "id,n\n1,5\n2,50\n3,7\n", &["--max-rejects", "1"]).exits(3);
        assert_eq!(place.rows("SELECT id FROM t ORDER BY id"), ["1", "3"]);
        assert_eq!(place.rows("SHOW CREATE TABLE t"), before);
    });
}

#[test]
fn zero_stays_zero_and_null_gets_the_next_number() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT) AUTO_INCREMENT = 50"]);
        import(place, "id,n\n0,1\n7,2\n,3\n", &[]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t ORDER BY n"), ["0|1", "7|2", "50|3"]);
        place.sql(&["INSERT INTO t (n) VALUES (4)"]);
        assert_eq!(place.value("SELECT id FROM t WHERE n = 4"), "51");
        import(place, "n\n5\n", &["--append", "--columns", "n", "--header"]).exits(0);
        assert_eq!(place.value("SELECT id FROM t WHERE n = 5"), "52");
        // A new row never gets the number of a replaced one.
        import(place, "id,n\n1,1\n", &["--replace"]).exits(0);
        place.sql(&["INSERT INTO t (n) VALUES (9)"]);
        assert_eq!(place.value("SELECT id > 52 FROM t WHERE n = 9"), "1");
    });
}

#[test]
fn partitions_stay() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id) \
                     (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN (100))"]);
        let before = place.rows("SHOW CREATE TABLE t");
        import(place, "id,n\n1,1\n50,2\n500,3\n", &[]).exits(1).says(&["p.csv:4: ", "partition"]);
        place.untouched("t", 0);
        import(place, "id,n\n1,1\n50,2\n", &[]).exits(0);
        assert_eq!(place.rows("SHOW CREATE TABLE t"), before);
        assert_eq!(place.rows("SELECT * FROM t PARTITION (high)"), ["50|2"]);
    });
}

#[test]
fn indexes_built_afterwards_are_unchanged() {
    on_every_server(|place| {
        place.sql(&[
            "CREATE TABLE t (a INT, id BIGINT NOT NULL AUTO_INCREMENT, b VARCHAR(50) COMMENT 'AUTO_INCREMENT', \
             c TEXT, d VARCHAR(20) CHARACTER SET latin1, PRIMARY KEY (a), KEY by_id (id), KEY by_b (b(10), a), \
             UNIQUE KEY u (d), FULLTEXT KEY f (c), KEY `o``dd` (d) COMMENT 'it''s', KEY tree USING BTREE (b), \
             KEY by_c (c(5)))",
        ]);
        if place.is_mariadb() {
            place.sql(&["ALTER TABLE t ADD KEY ignored (b, d) IGNORED, ADD KEY down (a DESC, b)"]);
        }
        let sorted = |place: &Place| {
            let text = place.value("SHOW CREATE TABLE t");
            let mut lines: Vec<_> = text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect();
            lines.iter_mut().for_each(|line| {
                if let Some((head, tail)) = line.clone().split_once(" AUTO_INCREMENT=") {
                    *line =
                        format!("{head}{}", tail.trim_start_matches(|digit: char| digit.is_ascii_digit()));
                }
            });
            lines.sort();
            lines
        };
        let before = sorted(place);
        let ended =
            import(place, "a,id,b,c,d\n1,7,x,some words,d1\n2,8,y,other words,d2\n", &["--indexes", "after"]);
        ended.exits(0).says(&["built after all rows are loaded"]);
        assert_eq!(sorted(place), before);
        assert_eq!(place.rows("SELECT a FROM t WHERE MATCH (c) AGAINST ('other')"), ["2"]);
        assert_eq!(place.rows("SELECT a FROM t FORCE INDEX (by_b) WHERE b = 'y'"), ["2"]);
        place.sql(&["INSERT INTO t (a) VALUES (3)"]);
        assert_eq!(place.value("SELECT id FROM t WHERE a = 3"), "9");
    });
}

#[test]
fn odd_names_are_names() {
    on_every_server(|place| {
        let long = "\u{e9}".repeat(64);
        for (at, name) in
            ["a`b", "a b", "\u{65e5}\u{672c}", "select", &long, "a\"b'c", "1", "$x%_"].iter().enumerate()
        {
            let quoted = format!("`{}`", name.replace('`', "``"));
            place.sql(&[&format!(
                "CREATE TABLE {quoted} (id INT PRIMARY KEY, {quoted} INT, KEY {quoted} ({quoted}))"
            )]);
            let file = place.file("p.csv", format!("id,\"{}\"\n1,{at}\n2,99\n", name.replace('"', "\"\"")));
            let into = format!("{}.{quoted}", place.schema);
            place.import(&[&file, "--into", &into, "--header", "--indexes", "after"]).exits(0);
            assert_eq!(
                place.rows(&format!("SELECT id, {quoted} FROM {quoted} ORDER BY id")),
                [format!("1|{at}"), "2|99".to_owned()]
            );
            let columns = format!("id,@{quoted}");
            let set = format!("{quoted}=@{quoted}+1");
            place
                .import(&[
                    &file,
                    "--into",
                    &into,
                    "--replace",
                    "--header",
                    "--columns",
                    &columns,
                    "--set",
                    &set,
                ])
                .exits(0);
            assert_eq!(place.value(&format!("SELECT SUM({quoted}) FROM {quoted}")), (at + 101).to_string());
            place.sql(&[&format!("DROP TABLE {quoted}")]);
            place.import(&[&file, "--into", &into, "--create", "--header"]).exits(0);
            assert_eq!(place.count(&quoted), 2);
        }
    });
}

#[test]
fn a_view_is_no_table() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE base (id INT)", "CREATE VIEW t AS SELECT * FROM base"]);
        for more in [vec![], vec!["--append"], vec!["--replace"], vec!["--create", "--replace"]] {
            import(place, "id\n1\n", &more).exits(1).says(&["view"]);
        }
        place.untouched("base", 0);
    });
}

#[test]
fn a_missing_table_is_reported_with_a_hint() {
    on_every_server(|place| {
        import(place, "id\n1\n", &[]).exits(1).says(&["--create"]);
        place.sql(&["CREATE TABLE t (id INT)", "INSERT INTO t VALUES (5)"]);
        import(place, "id\n1\n", &[]).exits(1).says(&["--append", "--replace"]);
        import(place, "id\n1\n", &["--create"]).exits(1).says(&["--replace"]);
        place.untouched("t", 1);
        import(place, "id\nx\n", &["--create", "--replace"]).exits(0);
        assert_eq!(place.rows("SELECT * FROM t"), ["x"]);
    });
}

#[test]
fn an_engine_that_cannot_roll_back_is_loaded_whole_or_not_at_all() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, n TINYINT) ENGINE=MyISAM"]);
        import(place, "id,n\n1,1\n2,300\n", &[]).exits(1).says(&[
            "p.csv:2: ",
            "before line 3",
            "Out of range",
        ]);
        place.untouched("t", 0);
        import(place, "id,n\n1,1\n2,2\n", &[]).exits(0);
        assert_eq!(place.value("SELECT engine FROM information_schema.tables WHERE table_name = 't' AND table_schema = DATABASE()"), "MyISAM");
        import(place, "id,n\n3,3\n", &["--append"]).exits(1).says(&["MyISAM", "--replace"]);
        place.untouched("t", 2);
        import(place, "id,n\n3,3\n", &["--replace"]).exits(0);
        place.untouched("t", 1);
    });
}

#[test]
fn many_short_texts_fit_into_a_row() {
    on_every_server(|place| {
        // MySQL 5.6 takes any number and looks at the rows that come.
        let count = if place.product == Product::MySql97 { 190 } else { 250 };
        let names: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
        let row = vec!["some twenty letters"; count].join(",");
        let file = place.file("p.csv", format!("{}\n{row}\n{row}\n", names.join(",")));
        for tight in [&[][..], &["--tight"]] {
            place
                .import(&[&[file.as_str(), "--into", "t", "--create", "--replace"], tight].concat())
                .exits(0);
            assert_eq!(place.value("SELECT COUNT(*), MIN(c189) FROM t"), "2|some twenty letters");
        }
        if place.product != Product::MySql56 {
            // If more columns are given than any form allows, the message helps.
            let names: Vec<String> = (0..500).map(|at| format!("c{at}")).collect();
            let row = vec!["some twenty letters"; 500].join(",");
            let file = place.file("q.csv", format!("{}\n{row}\n", names.join(",")));
            place.import(&[&file, "--into", "u", "--create"]).exits(1).says(&[
                "500 columns",
                "--columns",
                "--type",
            ]);
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
    });
}

#[test]
fn triggers_that_an_account_cannot_see_are_kept() {
    on_every_server(|place| {
        place.sql(&[
            "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
            "INSERT INTO t VALUES (1, 1)",
            "CREATE TRIGGER twice BEFORE INSERT ON t FOR EACH ROW SET NEW.n = 2 * NEW.n",
        ]);
        let account = place.account("blind");
        place.sql(&[&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER ON {}.* TO {account}",
            place.schema
        )]);
        let file = csv(place, "id,n\n5,5\n");
        let as_account = |arguments: &[&str]| {
            place.import_as(&account, &[&[file.as_str(), "--into", "t"], arguments].concat())
        };
        as_account(&["--replace"]).exits(0).says(&["TRIGGER", "one transaction"]);
        assert_eq!(place.rows("SELECT * FROM t"), ["5|10"]);
        as_account(&["--replace", "--create"]).exits(1).says(&["TRIGGER"]);
        assert_eq!(place.rows("SHOW TRIGGERS").len(), 1);
    });
}
