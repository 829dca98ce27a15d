//! The program and the server are killed in the middle; nothing is lost or duplicated.

use std::fmt::Write as _;
use std::io::Write as _;

use sandbox::{Product, Sandbox};

use crate::support::{self, Place, Running, on_every_server, until};

/// A file of `count` rows of about a hundred bytes.
fn text(count: u32) -> String {
    let mut text = String::from("id,name,n\n");
    for id in 0..count {
        writeln!(text, "{id},\"name, {id:0>80}\",{}", id % 97).unwrap();
    }
    text
}

const ROWS: u32 = 30_000;
const TABLE: &str = "(id INT PRIMARY KEY, name VARCHAR(100) NOT NULL, n INT NOT NULL)";

/// What a table holds, whatever the order of its rows on disk.
fn content(place: &Place, table: &str) -> String {
    let sums = "COUNT(*), COUNT(DISTINCT id), SUM(CRC32(CONCAT_WS('/', id, name, n)))";
    place.value(&format!("SELECT {sums} FROM {table}"))
}

/// The same for a straight import of `text(ROWS)`.
fn expected(place: &Place) -> String {
    place.sql(&[&format!("CREATE TABLE straight {TABLE}")]);
    let file = place.file("straight.csv", text(ROWS));
    place.import(&[&file, "--into", "straight"]).exits(0);
    let content = content(place, "straight");
    assert!(content.starts_with("30000|30000|"), "{content}");
    content
}

/// Starts an import of standard input, feeds it two thirds, and waits until chunks are in.
fn halfway(place: &Place, arguments: &[&str], chunks: u64) -> (Running, std::process::ChildStdin) {
    let import = ["-", "--into", "t", "--chunk", "64K", "--sessions", "2"];
    let mut running = place.spawn(&[import.as_slice(), arguments].concat());
    let mut stdin = running.stdin();
    stdin.write_all(&text(ROWS).as_bytes()[..2_000_000]).unwrap();
    if arguments == ["--append"] {
        // In one transaction, all that can be seen is that it has begun.
        place.until_rows("t", 1000);
    } else {
        place.until_chunks(&mut running, chunks);
    }
    (running, stdin)
}

const MODES: [&[&str]; 4] = [&[], &["--replace"], &["--append", "--by-chunk"], &["--append"]];

/// A table for each mode; `--append` finds it empty, so that all modes end alike.
fn prepare(place: &Place, mode: &[&str]) -> u64 {
    place.sql(&["DROP TABLE IF EXISTS t", &format!("CREATE TABLE t {TABLE}")]);
    if mode == ["--replace"] {
        place.sql(&["INSERT INTO t VALUES (-1, 'old', 0), (-2, 'old', 0)"]);
        return 2;
    }
    0
}

#[test]
fn a_killed_import_is_resumed() {
    on_every_server(|place| {
        let straight = expected(place);
        for mode in MODES {
            for chunks in [1, 12] {
                let before = prepare(place, mode);
                let (running, _stdin) = halfway(place, mode, chunks);
                running.kill();
                if !mode.contains(&"--by-chunk") {
                    assert_eq!(place.count("t"), before, "{mode:?}");
                }
                let import = [["straight.csv", "--into", "t"].as_slice(), mode].concat();
                idle(place);
                place.import(&import).exits(11).says(&["--resume", "--restart"]);
                place.import(&[import.as_slice(), &["--resume"]].concat()).exits(0);
                assert_eq!(content(place, "t"), straight, "{mode:?} after {chunks}");
                assert_eq!(place.leftovers(), Vec::<String>::new());
            }
        }
    });
}

/// Waits until the server has noticed that the client is gone.
fn idle(place: &Place) {
    place.until(&format!(
        "SELECT COUNT(*) = 0 FROM information_schema.processlist \
         WHERE db = '{}' AND id <> CONNECTION_ID()",
        place.schema
    ));
}

#[test]
fn a_killed_import_is_restarted() {
    on_every_server(|place| {
        let straight = expected(place);
        for mode in [MODES[0], MODES[1], MODES[3]] {
            prepare(place, mode);
            let (running, _stdin) = halfway(place, mode, 3);
            running.kill();
            idle(place);
            let import = [["straight.csv", "--into", "t", "--restart"].as_slice(), mode].concat();
            place.import(&import).exits(0);
            assert_eq!(content(place, "t"), straight, "{mode:?}");
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
    });
}

#[test]
fn an_import_that_creates_its_table_can_be_resumed() {
    on_every_server(|place| {
        let file = place.file("big.csv", text(200_000));
        let import = [file.as_str(), "--into", "t", "--create", "--chunk", "64K"];
        // While the values are scanned, nothing has been created yet.
        let mut running = place.spawn(&import);
        running.until_says("columns)");
        running.kill();
        idle(place);
        assert_eq!(place.rows("SHOW TABLES LIKE 't'"), Vec::<String>::new());
        let mut running = place.spawn(&[import.as_slice(), &["--restart"]].concat());
        place.until_chunks(&mut running, 2);
        running.kill();
        idle(place);
        assert_eq!(place.rows("SHOW TABLES LIKE 't'"), Vec::<String>::new());
        place.import(&import).exits(11);
        place.import(&[import.as_slice(), &["--resume"]].concat()).exits(0);
        assert_eq!(
            place.value("SELECT COUNT(*), COUNT(DISTINCT id), SUM(id) FROM t"),
            "200000|200000|19999900000"
        );
        assert_eq!(place.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn an_import_killed_before_the_swap_is_resumed() {
    on_every_server(|place| {
        let straight = expected(place);
        for mode in [MODES[0], MODES[1]] {
            prepare(place, mode);
            // A reader in a transaction keeps the table's name in place.
            let mut reader = place.session();
            reader.execute("START TRANSACTION").unwrap();
            reader.rows("SELECT COUNT(*) FROM t").unwrap();
            let import = [["straight.csv", "--into", "t"].as_slice(), mode].concat();
            let running = place.spawn(&import);
            place.until_renaming();
            running.kill();
            let resume = [import.as_slice(), &["--resume"]].concat();
            reader.execute("COMMIT").unwrap();
            // The server may carry out the killed client's last statement, and holds the lock until then.
            let mut ended = place.import(&resume);
            until("the lock is free", || {
                if ended.code == 11 {
                    ended = place.import(&resume);
                }
                ended.code != 11
            });
            ended.exits(0);
            assert_eq!(content(place, "t"), straight, "{mode:?}");
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
    });
}

#[test]
fn a_swap_that_stopped_between_two_renames_is_completed() {
    // Before MariaDB 10.6, a crash can split the RENAME of two tables into two steps.
    on_every_server(|place| {
        let straight = expected(place);
        for change in [false, true] {
            prepare(place, MODES[1]);
            let mut reader = place.session();
            reader.execute("START TRANSACTION").unwrap();
            reader.rows("SELECT COUNT(*) FROM t").unwrap();
            let running = place.spawn(&["straight.csv", "--into", "t", "--replace"]);
            let id = place.until_renaming();
            running.kill();
            place.sql(&[&format!("KILL {id}")]);
            place.until(&format!("SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE id = {id}"));
            drop(reader);
            idle(place);
            let shadow = place.leftovers().into_iter().find(|name| name.contains("load")).unwrap();
            let old = shadow.replace("load", "old");
            place.sql(&[&format!("RENAME TABLE t TO {old}")]);
            if change {
                // As if somebody's ALTER TABLE had come before the rename, which waited for it.
                place.sql(&[&format!("ALTER TABLE {old} ADD note INT")]);
                place
                    .import(&["straight.csv", "--into", "t", "--replace", "--resume"])
                    .exits(1)
                    .says(&["was altered"]);
                assert_eq!(place.rows("SELECT id, note FROM t ORDER BY id"), ["-2|NULL", "-1|NULL"]);
            } else {
                place.import(&["straight.csv", "--into", "t", "--replace", "--resume"]).exits(0);
                assert_eq!(content(place, "t"), straight);
            }
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
    });
}

#[test]
fn a_chunk_that_commits_after_the_kill_is_not_loaded_again() {
    on_every_server(|place| {
        let straight = expected(place);
        prepare(place, MODES[0]);
        let (running, _stdin) = halfway(place, MODES[0], 3);
        running.kill();
        idle(place);
        // As if the server were still working on a chunk that the killed program had sent completely.
        let (ledger, shadow) = (
            place.leftovers().into_iter().find(|name| name.contains("ledger")).unwrap(),
            place.leftovers().into_iter().find(|name| name.contains("load")).unwrap(),
        );
        let line = place
            .value(&format!("SELECT chunk, part, checksum, bytes, loaded FROM {ledger} WHERE chunk = 1"));
        let line = line.replace('|', ", ");
        let rows: u32 = line.rsplit(", ").next().unwrap().parse().unwrap();
        place.sql(&[
            &format!("CREATE TABLE first_rows AS SELECT * FROM {shadow} WHERE id < {rows}"),
            &format!("DELETE FROM {ledger} WHERE chunk = 1"),
            &format!("DELETE FROM {shadow} WHERE id < {rows}"),
        ]);
        let mut late = place.session();
        late.execute("START TRANSACTION").unwrap();
        late.execute(&format!("INSERT INTO {shadow} SELECT * FROM first_rows")).unwrap();
        late.execute(&format!("INSERT INTO {ledger} VALUES ({line}, '')")).unwrap();
        let resumed = place.spawn(&["straight.csv", "--into", "t", "--resume"]);
        place.until(&format!(
            "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE db = '{}' AND info LIKE '%FROM%{ledger}%' \
             AND id <> CONNECTION_ID()",
            place.schema
        ));
        late.execute("COMMIT").unwrap();
        resumed.end().exits(0);
        assert_eq!(content(place, "t"), straight);
    });
}

#[test]
fn a_signal_stops_an_import_and_resume_continues_it() {
    on_every_server(|place| {
        let straight = expected(place);
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            for mode in MODES {
                let before = prepare(place, mode);
                // Its standard input stays open and silent.
                let (running, stdin) = halfway(place, mode, 2);
                running.signal(signal);
                running.end().exits(code).says(&["--resume"]);
                drop(stdin);
                if !mode.contains(&"--by-chunk") {
                    assert_eq!(place.count("t"), before, "{mode:?}");
                }
                let import = [["straight.csv", "--into", "t", "--resume"].as_slice(), mode].concat();
                place.import(&import).exits(0);
                assert_eq!(content(place, "t"), straight, "{mode:?}");
                assert_eq!(place.leftovers(), Vec::<String>::new());
            }
        }
    });
}

#[test]
fn a_signal_stops_an_import_that_spools_standard_input() {
    on_every_server(|place| {
        let mut running = place.spawn(&["-", "--into", "t", "--create"]);
        let mut stdin = running.stdin();
        stdin.write_all(&text(10).into_bytes()).unwrap();
        // The start is over when the import has taken the lock.
        place.until(&format!(
            "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE db = '{}' AND command = 'Sleep'",
            place.schema
        ));
        running.signal("INT");
        running.end().exits(130);
        assert_eq!(place.leftovers(), Vec::<String>::new());
        drop(stdin);
    });
}

/// Private servers for every product.
fn each_own(options: &[&str], test: impl Fn(&mut Sandbox, &Place)) {
    for product in support::of_today(support::products()) {
        support::tell(product);
        let mut server = support::start(product, options);
        let place = Place::new(&server);
        test(&mut server, &place);
    }
}

#[test]
fn a_killed_server_loses_nothing() {
    each_own(&[], |server, place| {
        let straight = expected(place);
        for mode in MODES {
            let before = prepare(place, mode);
            let (running, mut stdin) = halfway(place, mode, 5);
            server.kill().unwrap();
            // Whether all of it can be written depends on when the program notices the lost connection.
            stdin.write_all(&text(ROWS).as_bytes()[2_000_000..]).ok();
            drop(stdin);
            running.end().exits(1).says(&["--resume"]);
            server.restart().unwrap();
            if !mode.contains(&"--by-chunk") {
                assert_eq!(place.count("t"), before, "{mode:?}");
            }
            let import = [["straight.csv", "--into", "t"].as_slice(), mode].concat();
            place.import(&import).exits(11).says(&["--resume"]);
            place.import(&[import.as_slice(), &["--resume"]].concat()).exits(0);
            assert_eq!(content(place, "t"), straight, "{mode:?}");
            assert_eq!(place.leftovers(), Vec::<String>::new());
        }
    });
}

#[test]
fn a_server_that_is_killed_with_relaxed_durability_loses_nothing_either() {
    each_own(&[], |server, place| {
        let straight = expected(place);
        prepare(place, MODES[0]);
        let (running, stdin) = halfway(place, &["--relax-durability"], 5);
        server.kill().unwrap();
        drop(stdin);
        running.end().exits(1);
        server.restart().unwrap();
        place.import(&["straight.csv", "--into", "t", "--resume"]).exits(0);
        assert_eq!(content(place, "t"), straight);
        assert_eq!(place.leftovers(), Vec::<String>::new());
    });
}

#[test]
fn an_import_waits_while_the_disk_is_full() {
    for product in support::of_today(support::products()) {
        support::tell(product);
        full_disk(product);
    }
}

/// The tables lie in one file that may not grow at first, and may later.
fn full_disk(product: Product) {
    let folder = tempfile::Builder::new().prefix("remora-full-").tempdir().unwrap();
    let start = |file: &str| {
        let options = [file, "--innodb-file-per-table=0", "--innodb-buffer-pool-size=64M"];
        let settings = sandbox::Settings {
            folder: Some(folder.path().join("server")),
            options: options.map(str::to_owned).to_vec(),
            ..sandbox::Settings::default()
        };
        let installation = sandbox::find(&support::places(), product).unwrap();
        Sandbox::start(&installation, &support::places(), &settings).unwrap()
    };
    let mut server = start("--innodb-data-file-path=ibdata1:12M:autoextend:max:20M");
    let place = Place::new(&server);
    place.sql(&[&format!("CREATE TABLE t {TABLE}")]);
    let file = place.file("big.csv", text(200_000));
    place.import(&[&file, "--into", "t"]).exits(1).says(&["full", "--resume"]);
    place.import(&[&file, "--into", "t"]).exits(11);
    assert_eq!(place.count("t"), 0);
    server.stop().unwrap();
    drop(server);
    let server = start("--innodb-data-file-path=ibdata1:12M:autoextend");
    assert_eq!(server.socket(), place.socket);
    place.import(&[&file, "--into", "t", "--resume"]).exits(0);
    assert_eq!(
        place.value("SELECT COUNT(*), COUNT(DISTINCT id), SUM(id) FROM t"),
        "200000|200000|19999900000"
    );
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn another_file_can_not_resume_a_stopped_import() {
    on_every_server(|place| {
        let straight = expected(place);
        prepare(place, MODES[0]);
        let (running, _stdin) = halfway(place, MODES[0], 3);
        running.kill();
        idle(place);
        let other = place.file("other.csv", text(ROWS).replace(",12\n", ",13\n"));
        place.import(&[&other, "--into", "t", "--resume"]).exits(1).says(&["other.csv", "--restart"]);
        let short = place.file("short.csv", text(10));
        place.import(&[&short, "--into", "t", "--resume"]).exits(1).says(&["short.csv", "--restart"]);
        place.import(&["missing.csv", "--into", "t", "--resume"]).exits(1).says(&["missing.csv"]);
        assert_eq!(place.count("t"), 0);
        // The right file still does.
        place.import(&["straight.csv", "--into", "t", "--resume"]).exits(0);
        assert_eq!(content(place, "t"), straight);
        place.import(&["straight.csv", "--into", "t", "--resume"]).exits(1).says(&["nothing to resume"]);
    });
}

/// The options that decide how a record becomes a row must be those with which the import began.
#[test]
fn an_import_is_resumed_only_with_its_original_options() {
    on_every_server(|place| {
        place.sql(&["CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, note VARCHAR(99))"]);
        let mut lines = String::new();
        (0..ROWS).for_each(|id| writeln!(lines, "{id}\t2026-11-26 12:00:00\t{id:0>80}").unwrap());
        let import = ["--into", "t", "--chunk", "64K", "--sessions", "2"];
        let begun = ["--time-zone", "+05:00", "--sql-mode", "NO_ZERO_DATE"];
        let mut running = place.spawn(&[&["-"][..], &import, &begun].concat());
        let mut stdin = running.stdin();
        stdin.write_all(&lines.as_bytes()[..2_000_000]).unwrap();
        place.until_chunks(&mut running, 3);
        running.kill();
        drop(stdin);
        idle(place);
        let file = place.file("lines.tsv", lines);
        let resume = |more: &[&str]| place.import(&[&[&*file], &import[..], &["--resume"], more].concat());
        resume(&["--time-zone", "+01:00"]).exits(1).says(&["another value of --time-zone", "--restart"]);
        resume(&["--columns", "id,at,note"]).exits(1).says(&["started without --columns"]);
        resume(&["--quote", "'"]).exits(1).says(&["without the options about the form"]);
        resume(&["--sql-mode", "NO_ZERO_DATE"]).exits(0);
        let times = "SELECT GROUP_CONCAT(DISTINCT UNIX_TIMESTAMP(at)) FROM t";
        assert_eq!((place.value(times), place.count("t")), ("1795676400".to_owned(), u64::from(ROWS)));
        place.sql(&["DROP TABLE t"]);
    });
}
