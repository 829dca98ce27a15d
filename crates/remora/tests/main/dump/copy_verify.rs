//! Rows of both servers are compared while both are written: what differs is found, and nothing else.

use sandbox::Product;

use super::Pair;
use super::copy_follow::{LOG, Random, assert_same, execute, made, make, next, once, spawn, transact};
use crate::support::{of_today, on_products, part_of_today, pause_writer, products, tell};

/// How often all rows are compared while others write.
const ROUNDS: usize = 4;

/// Two sessions write until it is over.
fn while_others_write(pair: &Pair, work: impl FnOnce()) {
    use std::sync::atomic::{AtomicBool, Ordering};
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in [31, 32] {
            let (mut session, is_over) = (pair.source(), &is_over);
            scope.spawn(move || {
                let mut random = Random(seed);
                while !is_over.load(Ordering::Relaxed) {
                    pause_writer();
                    transact(&mut session, &mut random);
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap();
    });
}

/// A table that nobody writes, and one of which foreign keys change rows, and of which all changes are
/// logged.
fn add_quiet(pair: &Pair) {
    execute(
        &mut pair.source(),
        &[
            "CREATE TABLE d.quiet (k VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO d.quiet VALUES ('one', 1), ('two', 2), ('three', 3)",
        ],
    );
}

#[test]
fn rows_are_compared_while_both_servers_are_written() {
    on_products(&of_today(products()), |product| {
        for to in part_of_today(vec![product, next(product)], 3) {
            tell(format!("{product} to {to}"));
            let pair = Pair::new(product, to, &LOG);
            make(&pair);
            add_quiet(&pair);
            once(&pair, &[]).exits(0);
            let mut running = spawn(&pair, &["--resume", "--verify-every", "0s"]);
            while_others_write(&pair, || {
                (0..ROUNDS).for_each(|_| running.until_says("verified in"));
            });
            running.signal("INT");
            running.end().exits(130);
            // Somebody changes the copy, and its rows are not written again.
            execute(&mut pair.target(), &["UPDATE d.quiet SET v = 4 WHERE k = 'two'"]);
            let running = spawn(&pair, &["--resume", "--verify-every", "0s"]);
            while_others_write(&pair, || {
                let words =
                    ["1 differing row, key \"two\"", "\"two\\t2\" on the source, \"two\\t4\" on the target"];
                running.end().exits(4).says(&words);
            });
            once(&pair, &["--resume"]).exits(0).says(&["following had ended at"]);
            assert_same(&pair);
        }
    });
}

#[test]
fn a_difference_of_any_kind_is_found() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        add_quiet(&pair);
        let before = pair.source().position().unwrap();
        once(&pair, &["--verify-every", "1h"]).exits(0).says(&["verified in", "6 tables with"]);
        if pair.is_mariadb() {
            assert_eq!(pair.source().position().unwrap(), before, "comparing writes to the source's log");
        }
        let strange = [
            (false, "DELETE FROM d.quiet WHERE k = 'one'", "\"one\\t1\" on the source, no row on the target"),
            (
                false,
                "INSERT INTO d.quiet VALUES ('four', 4)",
                "no row on the source, \"four\\t4\" on the target",
            ),
            (true, "INSERT INTO d.quiet VALUES ('five', 5)", "\"five\\t5\" on the source, no row"),
            (true, "UPDATE d.quiet SET v = NULL WHERE k = 'three'", "\"three\\t\\\\N\" on the source"),
        ];
        for (is_unlogged, sql, words) in part_of_today(strange.to_vec(), 3) {
            let mut session = if is_unlogged { pair.source() } else { pair.target() };
            execute(&mut session, &["SET sql_log_bin = 0", sql]);
            once(&pair, &["--resume"]).exits(0);
            let ended = once(&pair, &["--resume", "--verify-every", "1h"]);
            ended.exits(4).says(&["table `d`.`quiet` has 1 differing row", words]);
            once(&pair, &["--resume", "--verify-every", "1h"])
                .exits(0)
                .says(&["following had ended at", "verified in"]);
            assert_same(&pair);
        }
    });
}

#[test]
fn large_tables_are_compared_in_parts() {
    on_products(&of_today(products()), |product| {
        let to = if product == Product::MySql56 { Product::MySql97 } else { product };
        let pair = Pair::new(product, to, &LOG);
        make(&pair);
        let mut source = pair.source();
        execute(&mut source, &["CREATE TABLE d.large (id INT PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB"]);
        // 150 MB: three parts.
        for from in 0..15 {
            let rows: Vec<String> =
                (0..100).map(|n| format!("({}, REPEAT('{n}', 50000))", from * 100 + n)).collect();
            execute(&mut source, &[&format!("INSERT INTO d.large VALUES {}", rows.join(", "))]);
        }
        execute(&mut source, &["ANALYZE TABLE d.large"]);
        once(&pair, &["--verify-every", "1h"]).exits(0);
        execute(&mut pair.target(), &["UPDATE d.large SET v = CONCAT('x', SUBSTR(v, 2)) WHERE id = 1234"]);
        let ended = once(&pair, &["--resume", "--verify-every", "1h"]);
        ended.exits(4).says(&["table `d`.`large` has 1 differing row, key \"1234\""]);
    });
}
