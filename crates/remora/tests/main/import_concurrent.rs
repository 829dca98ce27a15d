//! What others do to the table, the files and the server while an import is running.

use std::io::Write as _;

use crate::support::{self, Ended, Place, Running, on_every_server, remora, until};

/// Enough rows for many chunks.
fn rows(from: u32, to: u32) -> String {
    (from..to).map(|id| format!("{id},{id:0>90}\n")).collect()
}

fn numbers(place: &Place, table: &str) {
    place.sql(&[&format!("CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(100) NOT NULL)")]);
}

/// An import of standard input into a table: some chunks are in, and the end is not yet written.
fn halfway(place: &Place, table: &str, arguments: &[&str]) -> (Running, std::process::ChildStdin) {
    let import = ["-", "--into", table, "--chunk", "64K", "--no-header", "--sessions", "2"];
    let mut running = place.spawn(&[import.as_slice(), arguments].concat());
    let mut stdin = running.stdin();
    stdin.write_all(rows(0, 20_000).as_bytes()).unwrap();
    place.until_chunks(&mut running, 3);
    (running, stdin)
}

#[test]
fn readers_see_the_old_table_or_the_new_one() {
    on_every_server(|place| {
        numbers(place, "t");
        place.sql(&["INSERT INTO t VALUES (1, 'old'), (2, 'old'), (3, 'old')"]);
        let file = place.file("p.csv", rows(0, 50_000));
        let mut running = place.spawn(&[&file, "--into", "t", "--replace", "--no-header"]);
        let mut session = place.session();
        let mut seen = std::collections::BTreeSet::new();
        while !running.has_ended() {
            seen.insert(session.value("SELECT COUNT(*) FROM t").unwrap().unwrap());
        }
        running.end().exits(0);
        seen.insert(session.value("SELECT COUNT(*) FROM t").unwrap().unwrap());
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["3", "50000"]);
        assert_eq!(place.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn a_row_put_into_the_empty_table_meanwhile_is_not_lost() {
    on_every_server(|place| {
        numbers(place, "t");
        let (running, stdin) = halfway(place, "t", &[]);
        place.sql(&["INSERT INTO t VALUES (-1, 'theirs')"]);
        drop(stdin);
        running.end().exits(1).says(&["has rows now", "--append"]);
        assert_eq!(place.rows("SELECT * FROM t"), ["-1|theirs"]);
        assert_eq!(place.leftovers(), Vec::<String>::new());
        // The same if it commits only while the names change.
        place.sql(&["DELETE FROM t"]);
        let (running, stdin) = halfway(place, "t", &[]);
        let mut theirs = place.session();
        theirs.execute("START TRANSACTION").unwrap();
        theirs.execute("INSERT INTO t VALUES (-2, 'theirs')").unwrap();
        drop(stdin);
        place.until_renaming();
        theirs.execute("COMMIT").unwrap();
        running.end().exits(1).says(&["has rows now"]);
        assert_eq!(place.rows("SELECT * FROM t"), ["-2|theirs"]);
        assert_eq!(place.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn a_file_that_changes_while_it_is_read_is_not_imported() {
    on_every_server(|place| {
        numbers(place, "t");
        place.sql(&["INSERT INTO t VALUES (-1, 'old')"]);
        for mode in [["--replace", "--chunk"], ["--append", "--chunk"]] {
            for append in [true, false] {
                let name = place.file("p.csv", rows(0, 100_000));
                let import =
                    [[name.as_str(), "--into", "t", "--no-header"], [mode[0], mode[1], "64K", "--quiet"]];
                let mut running = place.spawn(&import.concat());
                if mode[0] == "--replace" {
                    place.until_chunks(&mut running, 1);
                } else {
                    place.until_rows("t", 500);
                }
                let mut file =
                    std::fs::OpenOptions::new().append(append).write(true).open(place.path("p.csv")).unwrap();
                file.write_all(b"0").unwrap();
                drop(file);
                running.end().exits(1).says(&["p.csv", "changed while it was read"]);
                assert_eq!(place.rows("SELECT * FROM t"), ["-1|old"]);
                assert_eq!(place.leftovers(), Vec::<String>::new());
            }
        }
    });
}

#[test]
fn two_imports_into_one_table_do_not_mix() {
    on_every_server(|place| {
        for table in ["t", "u"] {
            numbers(place, table);
        }
        let (running, stdin) = halfway(place, "t", &[]);
        let file = place.file("p.csv", rows(0, 1000));
        for more in [vec![], vec!["--append"], vec!["--resume"], vec!["--restart"], vec!["--replace"]] {
            place
                .import(&[vec![file.as_str(), "--into", "t"], more].concat())
                .exits(11)
                .says(&["is running"]);
        }
        place.import(&[&file, "--into", "u", "--no-header"]).exits(0);
        assert_eq!(place.count("u"), 1000);
        drop(stdin);
        running.end().exits(0);
        place.untouched("t", 20_000);
    });
}

#[test]
fn changes_to_the_table_during_an_import_are_not_undone() {
    on_every_server(|place| {
        for (change, said) in [
            ("ALTER TABLE t ADD note VARCHAR(20) DEFAULT 'theirs'", "was altered (now: `note`"),
            (
                "CREATE TRIGGER guard BEFORE INSERT ON t FOR EACH ROW SET NEW.name = 'x'",
                "got triggers (guard)",
            ),
            ("CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES t (id))", "foreign key"),
            ("DROP TABLE t", "was dropped"),
        ] {
            place.sql(&["DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS t"]);
            numbers(place, "t");
            place.sql(&["INSERT INTO t VALUES (1, 'old')"]);
            let (running, stdin) = halfway(place, "t", &["--replace"]);
            place.sql(&[change]);
            let dropped = change.starts_with("DROP");
            let after = if dropped { Vec::new() } else { place.rows("SHOW CREATE TABLE t") };
            drop(stdin);
            running.end().exits(1).says(&[said]);
            assert_eq!(place.leftovers(), Vec::<String>::new(), "{change}");
            assert_eq!(place.rows("SHOW TABLES LIKE 't'").is_empty(), dropped);
            if !dropped {
                assert_eq!(place.rows("SHOW CREATE TABLE t"), after);
                place.untouched("t", 1);
            }
        }
    });
}

#[test]
fn an_import_waits_briefly_for_the_one_before() {
    on_every_server(|place| {
        numbers(place, "t");
        let (running, stdin) = halfway(place, "t", &[]);
        let ledger = place.leftovers().into_iter().find(|name| name.contains("ledger")).unwrap();
        drop(stdin);
        running.end().exits(0);
        let lock = format!("remora.{ledger}.{}", place.schema);
        // The import released the lock before it ended.
        assert_eq!(place.value(&format!("SELECT IS_USED_LOCK('{lock}')")), "NULL");
        let mut other = place.session();
        assert!(other.lock(&lock, 0).unwrap());
        let file = place.file("p.csv", rows(0, 10));
        let mut next = place.spawn(&[&file, "--into", "t", "--replace", "--no-header"]);
        place.until(&format!(
            "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE db = '{}' AND state = 'User lock'",
            place.schema
        ));
        next.must_run();
        other.unlock(&lock).unwrap();
        next.end().exits(0);
        place.untouched("t", 10);
    });
}

fn settings(place: &Place) -> String {
    place.value("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog")
}

#[test]
fn relaxed_settings_are_put_back() {
    for product in support::of_today(support::products()) {
        support::tell(product);
        let server = support::start(product, &["--sync-binlog=1"]);
        let place = Place::new(&server);
        for table in ["t", "u"] {
            numbers(&place, table);
        }
        assert_eq!(settings(&place), "1|1");
        let (running, stdin) = halfway(&place, "t", &["--relax-durability"]);
        assert_eq!(settings(&place), "0|0");
        // Another import leaves alone what this one needs.
        let file = place.file("p.csv", rows(0, 1000));
        place.import(&[&file, "--into", "u", "--no-header"]).exits(0);
        assert_eq!(settings(&place), "0|0");
        let undo = |place: &Place| {
            let mut command = remora(&place.path(""));
            command.args(["undo", "--no-defaults", "-u", "root", "-S"]).arg(&place.socket);
            Ended::of(&command.output().unwrap())
        };
        undo(&place).exits(11).says(&["an import is running", "connection"]);
        assert_eq!(settings(&place), "0|0");
        drop(stdin);
        running.end().exits(0).says(&["back to 1 afterwards"]);
        assert_eq!(settings(&place), "1|1");
        assert_eq!(place.leftovers(), Vec::<String>::new());

        for put_back in ["undo", "import"] {
            let (running, _stdin) = halfway(&place, "t", &["--relax-durability", "--replace"]);
            running.kill();
            assert_eq!(settings(&place), "0|0");
            // The server notices that the killed client is gone, and releases its lock.
            if put_back == "undo" {
                until("undo", || undo(&place).exits(0).err.contains("is 1 again"));
            } else {
                until("an import", || {
                    place
                        .import(&[&file, "--into", "u", "--no-header", "--replace"])
                        .err
                        .contains("is 1 again")
                });
            }
            assert_eq!(settings(&place), "1|1");
            until("the lock is free", || {
                place.import(&[&file, "--into", "t", "--no-header", "--restart", "--replace"]).code == 0
            });
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
        undo(&place).exits(0).says(&["nothing to put back"]);
    }
}
