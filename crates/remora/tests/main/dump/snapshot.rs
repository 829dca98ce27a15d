//! A dump is one state of the data, whatever happens around it.

use sandbox::Product;

use super::{Pair, StopsWriters};
use crate::support::{of_today, on_products, pause_writer, products, until};

/// Every transaction adds the same rows to two tables, so any snapshot has the same number of rows in both.
#[test]
fn a_dump_beside_writers_is_one_state() {
    on_products(&of_today(products()), |product| {
        for options in [&["--log-bin=log", "--server-id=1"][..], &[]] {
            one_state(&Pair::new(product, product, options));
        }
    });
}

fn one_state(pair: &Pair) {
    let mut source = pair.source();
    source.execute("CREATE DATABASE w").unwrap();
    for table in ["a", "b"] {
        source
            .execute(&format!(
                "CREATE TABLE w.{table} (id INT AUTO_INCREMENT PRIMARY KEY, v INT, pad CHAR(200) DEFAULT 'x')"
            ))
            .unwrap();
        // Numbers without gaps: each transaction below must hit a row of both tables.
        source.execute(&format!("INSERT INTO w.{table} (id, v) VALUES (1, 0)")).unwrap();
        for doubling in 0..12 {
            let shift = 1 << doubling;
            source
                .execute(&format!("INSERT INTO w.{table} (id, v) SELECT id + {shift}, 0 FROM w.{table}"))
                .unwrap();
        }
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let written = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            let (stop, written, mut session) = (&stop, &written, pair.source());
            scope.spawn(move || {
                let mut at = writer;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    pause_writer();
                    at = (at.wrapping_mul(1_103_515_245).wrapping_add(12_345)) % 4000;
                    for sql in [
                        "START TRANSACTION".to_owned(),
                        format!("UPDATE w.a SET v = v + 1 WHERE id = {}", at + 1),
                        format!("UPDATE w.b SET v = v + 1 WHERE id = {}", 4000 - at),
                        "COMMIT".to_owned(),
                    ] {
                        // Two writers may deadlock; then neither half is kept.
                        if session.execute(&sql).is_err() {
                            session.execute("ROLLBACK").unwrap();
                            break;
                        }
                    }
                    written.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
        let _stop = StopsWriters(&stop);
        for round in 0..3 {
            let before = written.load(std::sync::atomic::Ordering::Relaxed);
            until("somebody writes", || written.load(std::sync::atomic::Ordering::Relaxed) > before + 50);
            let name = format!("amid{round}");
            let ended =
                pair.dump(&["w", "-o", &name, "-j", "4", "--chunk", "32K", "--lock-wait", "300"]).exits(0);
            let mut target = pair.target();
            target.execute("DROP DATABASE IF EXISTS w").unwrap();
            pair.load(&[&name]).exits(0);
            let sums = target.rows("SELECT (SELECT SUM(v) FROM w.a), (SELECT SUM(v) FROM w.b)").unwrap();
            assert_eq!(sums[0][0], sums[0][1], "{}", ended.err);
        }
    });
}

#[test]
fn a_session_that_blocks_the_lock_is_named() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    source.execute("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=MyISAM").unwrap();
    let mut holder = pair.source();
    holder.execute("LOCK TABLES d.t READ LOCAL").unwrap();
    let mut writer = pair.source();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(writer.execute("LOCK TABLES d.t WRITE")));
        until("a writer waits", || {
            let waits =
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%'";
            source.value(waits).unwrap().as_deref() == Some("1")
        });
        let ended = pair.dump(&["d", "-o", "blocked", "--lock-wait", "1"]);
        // This comes first, so that the writer ends in any case.
        holder.execute("UNLOCK TABLES").unwrap();
        ended.exits(1).says(&["--lock-wait", "blocked by somebody who has locked d.t"]);
    });
    assert!(!pair.path("blocked/manifest.json").exists());
}

/// Only statements are ended, and only when the user asks for it; idle sessions are not affected.
#[test]
fn a_statement_that_blocks_the_lock_is_named_and_killed_only_on_demand() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        source.execute("CREATE DATABASE d").unwrap();
        source.execute("CREATE TABLE d.my (id INT PRIMARY KEY, v INT) ENGINE=MyISAM").unwrap();
        source.execute("INSERT INTO d.my VALUES (1, 0)").unwrap();
        let mut bystander = pair.source();
        bystander.execute("START TRANSACTION").unwrap();
        let mut long = pair.source();
        let id = long.connection_id();
        std::thread::scope(|scope| {
            let running = scope.spawn(move || long.execute("UPDATE d.my SET v = v + SLEEP(600)"));
            until("the statement runs", || {
                let sql = format!(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info LIKE 'UPDATE%' \
                     AND time >= 2"
                );
                source.value(&sql).unwrap().as_deref() == Some("1")
            });
            let named = pair.dump(&["d", "-o", "named", "--lock-wait", "1"]);
            let alive = !running.is_finished();
            let ended = pair.dump(&["d", "-o", "ended", "--lock-wait", "1", "--kill-long-queries"]);
            // Before any assertion, so that nothing waits for it.
            source.execute(&format!("KILL {id}")).ok();
            assert!(running.join().unwrap().is_err());
            named.exits(1).says(&[&format!("blocked by connection {id} of root@localhost"), "UPDATE d.my"]);
            assert!(alive);
            ended.exits(0);
        });
        bystander.execute("COMMIT").unwrap();
    });
}
