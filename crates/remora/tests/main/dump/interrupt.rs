//! Dumps and loads that are interrupted, and what becomes of them.

use std::collections::BTreeMap;

use server::Session;

use super::{Pair, assert_equal, case, run_sql};
use crate::support::{Running, of_today, on_products, products, until};

/// The source's tables with keys of every type.
pub(super) fn many_chunks_of(pair: &Pair, schema: &str) {
    run_sql(&pair.from, schema, &case("keys"));
}

/// A dump of many small chunks of one table and of several tables.
fn many_chunks(pair: &Pair) -> &'static str {
    many_chunks_of(pair, "keys");
    pair.dump(&["keys", "-o", "keys.dump", "--chunk", "32K"]).exits(0);
    "keys.dump"
}

/// Starts a load and stops its process with SIGSTOP when some chunks are in. A load that was over before this
/// test's turn came is taken out of the target, and another one is started.
fn halfway(pair: &Pair, dump: &str, chunks: u64) -> Running {
    for _ in 0..20 {
        let mut running = pair.spawn(&pair.to, "load", &[dump, "-j", "2"]);
        until("chunks in the ledger", || {
            running.has_ended() || pair.chunks().is_some_and(|count| count >= chunks)
        });
        if !running.has_ended() {
            running.signal("STOP");
        }
        if !running.has_ended() {
            return running;
        }
        running.end().exits(0);
        let schemas = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA \
                       WHERE SCHEMA_NAME NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')";
        let mut target = pair.target();
        for row in target.strings(schemas).unwrap() {
            target.execute(&format!("DROP DATABASE `{}`", row[0].as_ref().unwrap())).unwrap();
        }
    }
    panic!("each load was over before it could be stopped");
}

/// Every server-wide setting, except those that change by themselves.
fn settings(session: &mut Session) -> BTreeMap<Option<String>, Option<String>> {
    let rows = session.strings("SHOW GLOBAL VARIABLES WHERE Variable_name NOT LIKE 'gtid%'").unwrap();
    rows.into_iter().map(|mut row| (row.remove(0), row.remove(0))).collect()
}

#[test]
fn a_killed_load_is_resumed() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let before = (settings(&mut pair.source()), settings(&mut pair.target()));
        let dump = many_chunks(&pair);
        halfway(&pair, dump, 3).kill();
        // No setting is changed, so none has to be restored.
        assert_eq!((settings(&mut pair.source()), settings(&mut pair.target())), before);
        pair.load(&[dump]).exits(1).says(&["--resume"]);
        pair.load(&[dump, "--resume"]).exits(0);
        assert_equal(&pair, "keys");
        let left = pair
            .target()
            .value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '_remora'");
        assert_eq!(left.unwrap().as_deref(), Some("0"));
    });
}

#[test]
fn a_load_is_resumed_after_its_server_was_killed_or_restarted() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        let dump = many_chunks(&pair);
        let running = halfway(&pair, dump, 3);
        pair.to.kill().unwrap();
        running.signal("CONT");
        running.end().exits(1).says(&["--resume"]);
        pair.to.restart().unwrap();
        // The server is stopped once more, in an orderly way.
        let chunks = pair.chunks().unwrap_or(0);
        let running = pair.spawn(&pair.to, "load", &[dump, "--resume", "-j", "2"]);
        until("more chunks", || pair.chunks().is_none_or(|now| now > chunks));
        pair.to.stop().unwrap();
        let ended = running.end();
        pair.to.restart().unwrap();
        if ended.code != 0 {
            ended.exits(1).says(&["--resume"]);
            pair.load(&[dump, "--resume"]).exits(0);
        }
        assert_equal(&pair, "keys");
    });
}

#[test]
fn a_load_that_loses_its_server_after_the_rows_says_how_to_resume() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        let mut source = pair.source();
        source.execute("CREATE DATABASE late").unwrap();
        source.execute("CREATE TABLE late.t (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=InnoDB").unwrap();
        source.execute("INSERT INTO late.t VALUES (1, 1)").unwrap();
        for _ in 0..19 {
            let sql = "INSERT INTO late.t SELECT id + (SELECT MAX(id) FROM late.t), a FROM late.t";
            source.execute(sql).unwrap();
        }
        source.strings("ANALYZE TABLE late.t").unwrap();
        pair.dump(&["late", "-o", "late.dump", "--chunk", "32K"]).exits(0);
        let running = halfway(&pair, "late.dump", 3);
        // A session that has read from the table prevents the building of its index.
        let mut reader = pair.target();
        reader.execute("START TRANSACTION").unwrap();
        reader.strings("SELECT id FROM late.t LIMIT 1").unwrap();
        running.signal("CONT");
        let mut session = pair.target();
        let waiting = "SELECT COUNT(*) > 0 FROM information_schema.PROCESSLIST \
                       WHERE STATE = 'Waiting for table metadata lock'";
        until("an index that is waited for", || session.value(waiting).unwrap().as_deref() == Some("1"));
        pair.to.kill().unwrap();
        running.end().exits(1).says(&["start again with --resume", "524288 rows"]);
        pair.to.restart().unwrap();
        pair.load(&["late.dump", "--resume"]).exits(0);
        assert_equal(&pair, "late");
    });
}

/// It is given only some of the tables at first.
#[test]
fn a_load_that_is_resumed_in_part_stays_incomplete() {
    let pair = Pair::new(products()[0], products()[0], &[]);
    many_chunks(&pair);
    let mut source = pair.source();
    source.execute("CREATE DATABASE other").unwrap();
    source.execute("CREATE TABLE other.t (id INT PRIMARY KEY)").unwrap();
    source.execute("INSERT INTO other.t VALUES (1), (2)").unwrap();
    source.execute("CREATE VIEW other.v AS SELECT 1 AS one").unwrap();
    pair.dump(&["keys", "other", "-o", "both.dump", "--chunk", "64K"]).exits(0);
    halfway(&pair, "both.dump", 3).kill();
    let rest = pair.load(&["both.dump", "--resume", "--only", "other.t"]).exits(3);
    rest.says(&["is incomplete without table `keys`.", "view `other`.`v`", "--resume continues"]);
    let rest = pair.load(&["both.dump", "--resume", "--only", "keys"]).exits(3);
    rest.says(&["is incomplete without view `other`.`v`: --resume"]);
    pair.load(&["both.dump", "--resume"]).exits(0);
    assert_equal(&pair, "keys");
    assert_equal(&pair, "other");
    pair.load(&["both.dump", "--resume"]).exits(1).says(&["no stopped load of this dump"]);
}
