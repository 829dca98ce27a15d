//! Loads that write the tables' files.

use std::path::Path;

use server::Session;

use super::{Pair, assert_equal, seal};
use crate::support::{of_today, on_products, products, until};

/// Tables of which some are large, with values that need escapes, off-page values and several keys.
fn make(pair: &Pair) {
    let mut source = pair.source();
    for statement in [
        "CREATE DATABASE far",
        "CREATE TABLE far.plain (id INT UNSIGNED NOT NULL AUTO_INCREMENT, a INT, word VARCHAR(80) CHARACTER SET latin1, \
         note TEXT CHARACTER SET utf8mb4, bits BIT(9), price DECIMAL(12,4), at TIMESTAMP(2) NULL, PRIMARY KEY (id), \
         KEY a (a), UNIQUE KEY word (word, id)) ENGINE=InnoDB DEFAULT CHARSET=latin1",
        "CREATE TABLE far.nokey (a INT, b VARBINARY(200)) ENGINE=InnoDB",
        "CREATE TABLE far.small (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE far.child (id INT PRIMARY KEY, p INT, b VARCHAR(200), \
         FOREIGN KEY (p) REFERENCES far.small (id)) ENGINE=InnoDB",
        "INSERT INTO far.small VALUES (1), (2)",
        "INSERT INTO far.plain (a, word, note, bits, price, at) VALUES (NULL, 'a\\tb\\\\c\\nd\u{e9}', \
         REPEAT('\u{20ac}', 9000), b'101', -7.5, '2020-02-03 04:05:06.78'), (5, '\\\\N', NULL, NULL, NULL, NULL)",
        "INSERT INTO far.nokey VALUES (1, REPEAT('x', 180)), (NULL, NULL)",
    ] {
        source.execute(statement).unwrap();
    }
    for _ in 0..16 {
        for statement in [
            "INSERT INTO far.plain (a, word, price) SELECT id, CONCAT('w', id, '-', REPEAT('y', 60)), id / 7 FROM far.plain",
            "INSERT INTO far.nokey SELECT a + 1, b FROM far.nokey",
        ] {
            source.execute(statement).unwrap();
        }
    }
    for statement in [
        "INSERT INTO far.child SELECT id, 1, REPEAT('z', 190) FROM far.plain WHERE id < 90000",
        "DELETE FROM far.plain WHERE id % 1000 = 7 AND id > 100000",
        "ANALYZE TABLE far.plain, far.nokey, far.child",
    ] {
        source.rows(statement).unwrap();
    }
    pair.dump(&["far", "-o", "far.dump", "--chunk", "4M"]).exits(0);
}

/// Servers that import files, with the tables and their dump.
fn on_mariadb(test: impl Fn(Pair)) {
    on_products(&of_today(products()), |product| {
        if product.family() == sandbox::Family::MariaDb {
            let pair = Pair::new(product, product, &[]);
            make(&pair);
            test(pair);
        }
    });
}

/// The lengths of the files that a load has begun in the folder of a database.
fn begun(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("_remora_ibd_"));
    ours.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).collect()
}

#[test]
fn large_tables_are_loaded_by_their_files_several_at_once() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        make(&pair);
        let folder = pair.to.data().join("far");
        let mut running = pair.spawn(&pair.to, "load", &["far.dump", "--physical", "--sessions", "3"]);
        let is_written = product.family() == sandbox::Family::MariaDb;
        until("pages in two files", || {
            !is_written || {
                running.must_run();
                begun(&folder).into_iter().filter(|len| *len > 1 << 20).count() == 2
            }
        });
        let loaded = running.end().exits(0);
        if !is_written {
            assert!(
                loaded.err.contains("all rows are sent to the server: files are written for MariaDB"),
                "{}",
                loaded.err
            );
        } else {
            let told = |table: &str| {
                loaded.err.contains(&format!("the rows of `far`.`{table}` are sent to the server"))
            };
            assert!(told("child") && !told("plain") && !told("nokey"), "{}", loaded.err);
        }
        assert_equal(&pair, "far");
        assert_eq!(begun(&folder), Vec::<u64>::new());
    });
}

#[test]
fn a_killed_physical_load_is_resumed_with_and_without_files() {
    on_mariadb(|pair| {
        for more in [["--physical"].as_slice(), &[]] {
            let mut target = pair.target();
            target.execute("DROP DATABASE IF EXISTS far").unwrap();
            let folder = pair.to.data().join("far");
            let mut running = pair.spawn(&pair.to, "load", &["far.dump", "--physical"]);
            until("pages in a file", || {
                running.must_run();
                begun(&folder).into_iter().any(|len| len > 4 << 20)
            });
            running.kill();
            pair.load(&["far.dump"]).exits(1).says(&["--resume"]);
            pair.load(&[["far.dump", "--resume"].as_slice(), more].concat()).exits(0);
            assert_equal(&pair, "far");
            assert_eq!(begun(&folder), Vec::<u64>::new());
        }
    });
}

#[test]
fn a_table_whose_file_was_begun_is_emptied_even_when_no_more_files_are_written() {
    let product =
        products().into_iter().find(|product| product.family() == sandbox::Family::MariaDb).unwrap();
    let pair = Pair::new(product, product, &["--log-bin", "--server-id=1"]);
    make(&pair);
    let folder = pair.to.data().join("far");
    let mut running = pair.spawn(&pair.to, "load", &["far.dump", "--physical", "--no-binlog"]);
    until("pages in a file", || {
        running.must_run();
        begun(&folder).into_iter().any(|len| len > 4 << 20)
    });
    running.kill();
    let mut target = pair.target();
    target.execute("SET SESSION sql_log_bin = 0").unwrap();
    let ledger = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_remora'";
    let ledger = target.value(ledger).unwrap().unwrap();
    let place = target.value(&format!("SELECT MAX(`table`) FROM _remora.{ledger} WHERE chunk = -2")).unwrap();
    let table = ["child", "nokey", "plain", "small"][place.unwrap().parse::<usize>().unwrap()];
    // What others write is not the dump's, and is theirs to remove.
    let count = format!("SELECT COUNT(*) FROM far.{table}");
    target.execute(&format!("INSERT INTO far.{table} (a) VALUES (-1)")).unwrap();
    for more in [["--physical", "--no-binlog"].as_slice(), &[]] {
        let ended = pair.load(&[["far.dump", "--resume"].as_slice(), more].concat()).exits(1);
        ended.says(&[&format!("`far`.`{table}` has 1 row,"), "--exclude", "--resume"]);
        assert_eq!(target.value(&count).unwrap().as_deref(), Some("1"));
    }
    target.execute(&format!("DELETE FROM far.{table}")).unwrap();
    // As if the file had been put in place, and the ledger not told.
    let rows = pair.source().value(&count).unwrap().unwrap();
    target.execute(&format!("INSERT INTO far.{table} (a) SELECT -seq FROM far.seq_1_to_{rows}")).unwrap();
    let loaded = pair.load(&["far.dump", "--resume", "--physical"]).exits(0);
    loaded.says(&["all rows are sent to the server", "binary log"]);
    assert_equal(&pair, "far");
}

#[test]
fn rows_that_others_write_during_a_physical_load_are_not_mixed_in() {
    on_mariadb(|pair| {
        let folder = pair.to.data().join("far");
        let load = ["far.dump", "--physical", "--only", "far.plain"];
        let mut running = pair.spawn(&pair.to, "load", &load);
        until("pages in a file", || {
            running.must_run();
            begun(&folder).into_iter().any(|len| len > 4 << 20)
        });
        let mut target = pair.target();
        target.execute("INSERT INTO far.plain (a) VALUES (-1)").unwrap();
        let ended = running.end().exits(1).says(&["somebody has written to `far`.`plain` meanwhile"]);
        assert!(!ended.err.contains("sent to the server"), "{}", ended.err);
        let resume = [load.as_slice(), &["--resume"]].concat();
        pair.load(&resume).exits(1).says(&["`far`.`plain` has 1 row,"]);
        assert_eq!(target.value("SELECT GROUP_CONCAT(a) FROM far.plain").unwrap().as_deref(), Some("-1"));
        assert_eq!(begun(&folder), Vec::<u64>::new());
        target.execute("TRUNCATE TABLE far.plain").unwrap();
        pair.load(&resume).exits(0);
    });
}

/// How many rows the server has sent.
fn sent(session: &mut Session) -> u64 {
    let found = session.strings("SHOW GLOBAL STATUS LIKE 'Rows_sent'").unwrap();
    found[0][1].as_ref().unwrap().parse().unwrap()
}

#[test]
fn of_rows_verified_in_the_file_the_server_sends_only_a_part() {
    on_mariadb(|pair| {
        let mut target = pair.target();
        let rows =
            pair.source().value("SELECT COUNT(*) FROM far.plain").unwrap().unwrap().parse::<u64>().unwrap();
        for (more, parts) in [(["--physical"].as_slice(), (20, 2)), (&[], (1, 1))] {
            target.execute("DROP DATABASE IF EXISTS far").unwrap();
            let before = sent(&mut target);
            let ended = pair.load(&[["far.dump", "--only", "far.plain"].as_slice(), more].concat()).exits(0);
            assert_eq!(ended.err.contains("mariadb-backup"), !more.is_empty(), "{}", ended.err);
            let sent = sent(&mut target) - before;
            assert!((rows / parts.0..rows / parts.1 + 5000).contains(&sent), "{sent} of {rows}, {more:?}");
        }
    });
}

#[test]
fn a_row_in_the_file_that_is_not_the_dumps_is_noticed() {
    on_mariadb(|pair| {
        pair.dump(&["far", "-o", "plain.dump", "--chunk", "4M", "--compress", "none"]).exits(0);
        // Not in the chunk that is read back through the server, which is the median one.
        let file = pair.path("plain.dump/far.plain/00000.tsv");
        let mut text = std::fs::read(&file).unwrap();
        let old = blake3::hash(&text).to_hex();
        let at = text.windows(4).position(|part| part == b"w1-y").unwrap();
        text[at + 1] = b'9';
        std::fs::write(&file, &text).unwrap();
        let path = pair.path("plain.dump/manifest.json");
        let manifest = std::fs::read_to_string(&path).unwrap();
        assert!(manifest.contains(old.as_str()));
        let manifest = manifest.replace(old.as_str(), &blake3::hash(&text).to_hex());
        std::fs::write(&path, seal(&manifest)).unwrap();
        let ended = pair.load(&["plain.dump", "--physical", "--only", "far.plain"]).exits(4);
        let ended = ended.says(&["table `far`.`plain` has other values, chunk 0"]);
        assert!(!ended.err.contains("sent to the server"), "{}", ended.err);
    });
}

#[test]
fn a_damaged_file_of_a_dump_leaves_no_row() {
    on_mariadb(|pair| {
        // In the last file of a table, so that all of its other rows were read before.
        let folder = pair.path("far.dump/far.plain");
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let file = files.pop().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let ended = pair.load(&["far.dump", "--physical", "--only", "far.plain"]);
        assert!([1, 4].contains(&ended.code), "{}", ended.err);
        ended.says(&["far.plain"]);
        assert_eq!(pair.target().value("SELECT COUNT(*) FROM far.plain").unwrap().as_deref(), Some("0"));
        assert_eq!(begun(&pair.to.data().join("far")), Vec::<u64>::new());
    });
}
