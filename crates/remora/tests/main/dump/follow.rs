//! Loads that begin while the dump is still being made.

use sandbox::Product;

use super::{Gate, Pair, assert_equal};
use crate::support::{Running, of_today, on_products, products, until};

/// Starts a load that follows a dump, and waits until it has some chunks in.
fn following(pair: &Pair, dump: &mut Running, arguments: &[&str]) -> Running {
    let mut load =
        pair.spawn(&pair.to, "load", &[&["d.dump", "--follow", "-j", "2"][..], arguments].concat());
    until("chunks in the ledger", || {
        dump.must_run();
        load.must_run();
        pair.chunks().is_some_and(|count| count >= 3)
    });
    load
}

#[test]
fn a_load_follows_a_dump_and_is_resumed_after_a_kill() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut gate = Gate::close(&pair);
        for sql in [
            "CREATE TABLE d.my (id INT, v INT, KEY (v)) ENGINE=MyISAM",
            "INSERT INTO d.my VALUES (1, 1), (2, 2)",
            "CREATE TABLE d.one (id INT PRIMARY KEY, v INT, KEY (v))",
            "INSERT INTO d.one VALUES (1, 1), (2, 2)",
            "CREATE TABLE d.none (id INT PRIMARY KEY)",
            "CREATE VIEW d.v AS SELECT v FROM d.one",
        ] {
            gate.holder.execute(sql).unwrap();
        }
        let mut dump = gate.dump(&pair, "d.dump", &[]);
        following(&pair, &mut dump, &[]).kill();
        let load = following(&pair, &mut dump, &["--resume"]);
        dump.must_run();
        gate.open();
        dump.end().exits(0);
        load.end().exits(0).says(&["all rows read back and equal"]);
        assert_equal(&pair, "d");
        assert!(!pair.path("d.dump/journal.jsonl").exists() && !pair.path("d.dump/dump.lock").exists());
        // A complete dump is loaded like any other; in a partial dump, tables have other numbers.
        pair.target().execute("DROP DATABASE d").unwrap();
        pair.load(&["d.dump", "--follow"]).exits(0);
        assert_equal(&pair, "d");
    });
}

#[test]
fn a_load_follows_a_part_of_a_dump() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut gate = Gate::close(&pair);
    for table in ["a", "m", "z"] {
        gate.holder.execute(&format!("CREATE TABLE d.{table} (id INT PRIMARY KEY)")).unwrap();
        gate.holder.execute(&format!("INSERT INTO d.{table} VALUES (1), (2)")).unwrap();
    }
    // The load starts first.
    let load = pair.spawn(&pair.to, "load", &["d.dump", "--follow", "--exclude", "d.m", "--exclude", "d.t"]);
    let mut dump = gate.dump(&pair, "d.dump", &[]);
    gate.until_reached(&mut dump);
    gate.open();
    dump.end().exits(0);
    load.end().exits(0);
    let tables =
        "SELECT GROUP_CONCAT(TABLE_NAME ORDER BY 1) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'";
    assert_eq!(pair.target().value(tables).unwrap().as_deref(), Some("a,z"));
    assert_eq!(
        pair.target().value("SELECT COUNT(*) FROM d.a JOIN d.z USING (id)").unwrap().as_deref(),
        Some("2")
    );
}

#[test]
fn a_load_ends_with_the_dump_it_follows() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut gate = Gate::close(&pair);
    for how in ["TERM", "KILL"] {
        let mut dump = gate.dump(&pair, "d.dump", &[]);
        let load = following(&pair, &mut dump, &[]);
        gate.until_reached(&mut dump);
        dump.signal(how);
        if how == "TERM" {
            // The kill is noticed when the server sends the next rows.
            gate.open();
        }
        let word = if how == "KILL" { "it was killed" } else { "stopped by a signal" };
        load.end().exits(1).says(&["not complete", word, "_remora"]);
        drop(dump);
        if how == "TERM" {
            gate.shut();
        }
        std::fs::remove_dir_all(pair.path("d.dump")).unwrap();
        for schema in ["d", "_remora"] {
            pair.target().execute(&format!("DROP DATABASE {schema}")).unwrap();
        }
    }
}
