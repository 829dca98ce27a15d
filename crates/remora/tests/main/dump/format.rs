//! The folder of a dump: earlier formats, many tables in one file, and inspection without a server.

use std::path::Path;

use sandbox::Product;

use super::{Pair, assert_equal, described};
use crate::support::{of_today, on_products, products, until};

/// A dump from before the manifest had a hash, with a value that its text form changes.
#[test]
fn a_dump_of_the_first_format_is_loaded_with_a_note() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump_of_format_1");
    let dump = folder.to_str().unwrap();
    pair.run(&["dump", "--check", dump]).exits(0).says(&["format 1"]);
    pair.load(&[dump]).exits(0).says(&["format 1", "no hash of itself", "all rows read back and equal"]);
    let mut target = pair.target();
    let rows = "SELECT COUNT(*), SUM(f2), (SELECT GROUP_CONCAT(id) FROM old.parts) FROM old.kinds";
    let row: Vec<_> = target.strings(rows).unwrap().remove(0).into_iter().flatten().collect();
    assert_eq!(row, ["3", "3.25", "1,5,20"]);
    pair.diff(dump, &[]).exits(0).says(&["format 1"]);
    target.execute("UPDATE old.parts SET v = 'other' WHERE id = 20").unwrap();
    assert!(pair.diff(dump, &[]).exits(4).out.contains("`old`.`parts` has other values, chunk 1"));
    target.execute("UPDATE old.parts SET v = 'z' WHERE id = 20").unwrap();
    // With a dump of today rows are compared where both have the same texts.
    let socket = pair.to.socket().to_str().unwrap();
    pair.run(&["dump", "--no-defaults", "-u", "root", "-S", socket, "old", "-o", "new"]).exits(0);
    let ended = pair.run(&["diff", "--no-users", dump, "new"]).exits(4);
    assert!(ended.out.contains("`old`.`kinds`: its rows can't be compared"), "{}", ended.out);
    assert!(!ended.out.contains("parts"), "{}", ended.out);
}

/// Makes database d with many small tables, and one that is large.
fn many_tables(pair: &Pair, count: u32) {
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    for at in 0..count {
        source
            .execute(&format!("CREATE TABLE d.t{at} (id INT PRIMARY KEY, v VARCHAR(10), KEY (v))"))
            .unwrap();
        source.execute(&format!("INSERT INTO d.t{at} VALUES (1, 'a'), ({at} + 2, NULL)")).unwrap();
    }
    source.execute("CREATE TABLE d.m (id INT PRIMARY KEY) ENGINE=MyISAM").unwrap();
    source.execute("INSERT INTO d.m VALUES (7)").unwrap();
}

#[test]
fn many_small_tables_share_files() {
    let first = products()[0];
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        many_tables(&pair, 260);
        let packed = if product == first { ["tsv", "zstd"] } else { ["csv", "gzip"] };
        for (dump, form) in [("d0", packed), ("d1", ["tsv", "none"])] {
            pair.dump(&["d", "-o", dump, "--format", form[0], "--compress", form[1]]).exits(0);
            let files = std::fs::read_dir(pair.path(dump).join("together")).unwrap().count();
            assert_eq!(files, 2);
            assert!(!pair.path(dump).join("d.t7").exists() && pair.path(dump).join("d.m").exists());
            pair.run(&["dump", "--check", dump]).exits(0);
            pair.load(&[dump]).exits(0);
            assert_equal(&pair, "d");
            pair.diff(dump, &[]).exits(0);
            pair.target().execute("DROP DATABASE d").unwrap();
        }
        // A part of the dump.
        pair.load(&["d0", "--only", "d.t20?"]).exits(0);
        let count = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'";
        assert_eq!(pair.target().value(count).unwrap().as_deref(), Some("10"));
        pair.diff("d0", &["--only", "d.t20?"]).exits(0);
        pair.target().execute("UPDATE d.t205 SET v = 'b' WHERE id = 1").unwrap();
        assert!(pair.diff("d0", &["--only", "d.t20?"]).exits(4).out.contains("`d`.`t205` has other values"));
        pair.target().execute("DROP DATABASE d").unwrap();
        // A changed byte in the middle of a file affects one table only.
        let file = pair.path("d1/together/00000.tsv");
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let ended = pair.run(&["dump", "--check", "d1"]).exits(4);
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        pair.load(&["d1"]).exits(4).says(&["00000.tsv", "BLAKE3"]);
    });
}

/// Killed in the middle of shared files, a dump can be resumed, and so can a load.
#[test]
fn a_dump_with_shared_files_is_resumed() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    many_tables(&pair, 600);
    let journal = || std::fs::read_to_string(pair.path("d.dump/journal.jsonl")).unwrap_or_default();
    let mut dump = pair.spawn(&pair.from, "dump", &["d", "-o", "d.dump", "-j", "1", "--max-rate", "4K"]);
    until("one file is whole", || {
        dump.must_run();
        journal().matches("{\"table\":").count() > 240
    });
    dump.kill();
    pair.dump(&["d", "-o", "d.dump", "-j", "1", "--resume"])
        .exits(0)
        .says(&["of 601 tables kept", "earlier state"]);
    let ended = pair.run(&["dump", "--check", "d.dump"]).exits(0);
    assert!(!ended.err.contains("does not list"), "{}", ended.err);
    let mut load = pair.spawn(&pair.to, "load", &["d.dump", "-j", "1"]);
    until("some are in", || load.has_ended() || pair.chunks().is_some_and(|count| count > 20));
    load.kill();
    let resume: &[&str] = if pair.chunks().is_some() { &["--resume"] } else { &[] };
    if pair.chunks().is_some() {
        pair.load(&[&["d.dump"], resume].concat()).exits(0);
    }
    assert_equal(&pair, "d");
}

#[test]
fn a_dump_is_listed_and_checked_without_a_server() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO d.t VALUES (1, 'one'), (2, 'two')",
        "CREATE TABLE d.u (id INT)",
        "INSERT INTO d.u VALUES (1), (2), (3)",
        "CREATE VIEW d.w AS SELECT id FROM d.t",
    ] {
        source.execute(sql).unwrap();
    }
    pair.dump(&["d", "-o", "d.dump", "--where", "d.t:id = 2", "--where", "d.u*:id > 1"]).exits(0);
    let ended = pair.run(&["dump", "--list", "d.dump"]).exits(0).says(&["2 tables"]);
    for words in
        ["table `d`.`t`: 1 row,", "where id = 2", "table `d`.`u`: 2 rows", "view `d`.`w`", "database `d`"]
    {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    pair.run(&["dump", "--check", "d.dump"]).exits(0).says(&["0 damaged"]);
    pair.load(&["d.dump"]).exits(0);
    pair.diff_with(&pair.from, "d.dump", &[]).exits(0);
    assert_eq!(described(&mut pair.target(), "d", false).len(), 6);
    // Both files are named, and so is a file that belongs to nothing.
    std::fs::write(pair.path("d.dump/d.t/00000.tsv.zst"), "no").unwrap();
    std::fs::remove_file(pair.path("d.dump/d.u/00000.tsv.zst")).unwrap();
    std::fs::write(pair.path("d.dump/d.u/00009.tsv.zst"), "more").unwrap();
    let ended = pair.run(&["dump", "--check", "d.dump"]).exits(4).says(&["00009.tsv.zst"]);
    assert!(ended.out.contains("d.t/00000") && ended.out.contains("d.u/00000"), "{}", ended.out);
    pair.run(&["dump", "--check", "nothing"]).exits(1).says(&["there is no such folder"]);
    pair.run(&["dump", "--list", "d.dump", "--check", "d.dump"]).exits(2);
    // A bad condition is reported before anything is done.
    let ended =
        pair.dump(&["d", "-o", "bad", "--where", "d.t:nothing = 1"]).exits(1).says(&["nothing", "--where"]);
    assert!(!ended.err.contains("DDL") && !pair.path("bad").exists(), "{}", ended.err);
    pair.dump(&["d", "-o", "bad", "--where", "d.x:id = 1"]).exits(1).says(&["d.x", "no such table"]);
    pair.dump(&["d", "-o", "bad", "--where", "id = 1", "--where", "id = 2"]).exits(2).says(&["AND"]);
}
