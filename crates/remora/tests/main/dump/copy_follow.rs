//! Copies that are followed: B has what A commits, whoever is killed, or says why not.

use std::process::{Command, Stdio};

use sandbox::Product;
use server::Session;

use super::copy::url;
use super::every_type::kinds_of;
use super::{Pair, assert_equal};
use crate::schema;
use crate::support::{
    Ended, Running, of_today, on_products, part_of_today, products, remora, skipped, tell, until,
};

/// What every server needs that is followed.
pub(super) const LOG: [&str; 3] = ["--log-bin=log", "--server-id=1", "--binlog-format=ROW"];

pub(super) fn command(pair: &Pair, arguments: &[&str]) -> Command {
    let mut command = remora(pair.folder.path());
    let own =
        ["copy", "--no-defaults", "-u", "root", &url(&pair.from), &url(&pair.to), "d", "--follow", "apply"];
    command.args(own).args(arguments);
    command
}

/// Copies or continues, and applies what the log has.
pub(super) fn once(pair: &Pair, arguments: &[&str]) -> Ended {
    Ended::of(&command(pair, &[&["--once"], arguments].concat()).output().unwrap())
}

pub(super) fn spawn(pair: &Pair, arguments: &[&str]) -> Running {
    let mut command = command(pair, arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().unwrap())
}

#[track_caller]
pub(super) fn execute(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// All rows of database d, table by table, as text.
fn rows(session: &mut Session) -> Vec<(String, Vec<Vec<Option<String>>>)> {
    execute(session, &["SET SESSION time_zone = '+00:00'"]);
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_TYPE = 'BASE TABLE' \
               ORDER BY TABLE_NAME";
    let tables = session.strings(sql).unwrap();
    let of = |row: Vec<Option<String>>| {
        let table = row.into_iter().flatten().next().unwrap();
        let rows = session.strings(&format!("SELECT * FROM d.`{table}` ORDER BY 1")).unwrap();
        (table, rows)
    };
    tables.into_iter().map(of).collect()
}

#[track_caller]
pub(super) fn assert_same(pair: &Pair) {
    let (source, target) = (rows(&mut pair.source()), rows(&mut pair.target()));
    for (own, other) in source.iter().zip(&target) {
        assert_eq!(own.0, other.0);
        let differing = own.1.iter().zip(&other.1).find(|(own, other)| own != other);
        assert!(own.1 == other.1, "{}: {} and {} rows, {differing:?}", own.0, own.1.len(), other.1.len());
    }
    assert_eq!(source.len(), target.len());
}

/// Numbers that look random, the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Tables with what is odd about keys: a second unique key, case, foreign keys that change other rows.
const TABLES: [&str; 5] = [
    "CREATE TABLE d.one (id INT PRIMARY KEY, u INT, t VARCHAR(40) CHARACTER SET latin1, ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP \
     ON UPDATE CURRENT_TIMESTAMP, UNIQUE KEY (u)) ENGINE=InnoDB",
    "CREATE TABLE d.two (k VARCHAR(20) CHARACTER SET utf8 COLLATE utf8_general_ci, n INT, v BLOB, PRIMARY KEY (k, n)) \
     ENGINE=InnoDB",
    "CREATE TABLE d.parent (id INT PRIMARY KEY, boss INT, FOREIGN KEY (boss) REFERENCES d.parent (id) ON DELETE SET NULL) \
     ENGINE=InnoDB",
    "CREATE TABLE d.child (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES d.parent (id) ON DELETE CASCADE \
     ON UPDATE CASCADE) ENGINE=InnoDB",
    "CREATE TABLE d.word (w VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY, n INT) ENGINE=InnoDB",
];

/// A transaction of a few random statements. What a server refuses is not done.
pub(super) fn transact(session: &mut Session, random: &mut Random) {
    execute(session, &["START TRANSACTION"]);
    for _ in 0..=random.below(4) {
        let (id, other, kind) = (random.below(40), random.below(40), random.below(16));
        let key = ["a", "A", "\u{e4}", "b c", "it's", "\\"][usize::try_from(random.below(6)).unwrap()];
        let key = key.replace('\\', "\\\\").replace('\'', "''");
        let sql = match kind {
            0 => format!("INSERT INTO d.one (id, u, t) VALUES ({id}, {other}, 'x{other}')"),
            1 => format!("UPDATE d.one SET t = CONCAT(t, '\\n{id}') WHERE id BETWEEN {id} AND {id} + 3"),
            2 => format!("UPDATE d.one SET id = {other} WHERE id = {id}"),
            3 => format!("REPLACE INTO d.one (id, u, t) VALUES ({id}, {other}, NULL)"),
            4 => format!("DELETE FROM d.one WHERE id = {id}"),
            // Two rows change their values of a unique key.
            5 => format!("UPDATE d.one SET u = -u - 1 WHERE id IN ({id}, {other})"),
            6 => format!("INSERT INTO d.two VALUES ('{key}', {}, REPEAT('y', {id}))", id % 3),
            7 => format!("UPDATE d.two SET k = '{key}' WHERE n = {} AND k = 'a'", id % 3),
            8 => format!("DELETE FROM d.two WHERE k = '{key}'"),
            9 => format!(
                "INSERT INTO d.parent VALUES ({id}, (SELECT m FROM (SELECT MAX(id) m FROM d.parent) p))"
            ),
            10 => format!(
                "INSERT INTO d.child VALUES ({id}, (SELECT MIN(id) FROM d.parent WHERE id >= {other}))"
            ),
            11 => format!("DELETE FROM d.parent WHERE id = {id}"),
            12 => format!("UPDATE d.parent SET id = {other} WHERE id = {id} AND boss IS NULL"),
            13 => format!("REPLACE INTO d.word VALUES ('{key}', {id})"),
            14 => format!("UPDATE d.word SET w = UPPER(w), n = n + 1 WHERE w = '{key}'"),
            _ => format!(
                "INSERT INTO d.one (id, u, t) VALUES ({id}, {other}, 'y') ON DUPLICATE KEY UPDATE t = 'z{other}'"
            ),
        };
        session.execute(&sql).ok();
    }
    execute(session, &[if random.below(8) == 0 { "ROLLBACK" } else { "COMMIT" }]);
}

/// Rows of 20 MB: they are applied in three parts.
fn large_rows() -> String {
    let rows: Vec<String> = (0..1000).map(|n| format!("('large', {n}, REPEAT('y', 20000))")).collect();
    format!("INSERT INTO d.two VALUES {}", rows.join(", "))
}

pub(super) fn make(pair: &Pair) {
    let mut source = pair.source();
    execute(&mut source, &["CREATE DATABASE d CHARACTER SET utf8"]);
    execute(&mut source, &TABLES);
    let mut random = Random(7);
    (0..60).for_each(|_| transact(&mut source, &mut random));
}

/// Another form of the log: compressed, with GTIDs, without checksums.
fn odd_log(product: Product) -> &'static [&'static str] {
    match product {
        Product::MySql56 => &["--binlog-checksum=NONE"],
        Product::MySql97 => {
            &["--binlog-transaction-compression=ON", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
        }
        _ => &["--log-bin-compress=1", "--log-bin-compress-min-len=10"],
    }
}

/// A server with rows, and an empty one.
pub(super) fn made(product: Product) -> Pair {
    let pair = Pair::new(product, product, &LOG);
    make(&pair);
    pair
}

/// What follows when the target is of another family or version.
pub(super) fn next(product: Product) -> Product {
    let all = products();
    let at = all.iter().position(|one| *one == product).unwrap();
    all[(at + 1) % all.len()]
}

#[test]
fn what_a_commits_is_on_b_of_the_same_and_of_another_family() {
    on_products(&of_today(products()), |product| {
        let cases = vec![(product, &[][..]), (product, odd_log(product)), (next(product), &[])];
        for (to, log) in part_of_today(cases, 3) {
            let pair = Pair::new(product, to, &[&LOG[..], log].concat());
            make(&pair);
            let ended = once(&pair, &["--json"]).exits(0);
            schema::check("copy", &ended.out).unwrap();
            assert_same(&pair);
            let mut source = pair.source();
            // An XA transaction that changes nothing of it is of no interest.
            execute(
                &mut source,
                &[
                    "CREATE DATABASE other",
                    "CREATE TABLE other.t (id INT PRIMARY KEY) ENGINE=InnoDB",
                    "XA START 'it\\'s', x'00ff', 7",
                    "INSERT INTO other.t VALUES (1)",
                    "XA END 'it\\'s', x'00ff', 7",
                    "XA PREPARE 'it\\'s', x'00ff', 7",
                    "XA COMMIT 'it\\'s', x'00ff', 7",
                ],
            );
            let mut random = Random(11);
            for _ in 0..3 {
                (0..200).for_each(|_| transact(&mut source, &mut random));
                once(&pair, &["--resume"]).exits(0).says(&["followed up to", "changes of"]);
                assert_same(&pair);
            }
            // A transaction that is larger than what is held in memory, with rows that change twice.
            execute(
                &mut source,
                &[
                    "START TRANSACTION",
                    &large_rows(),
                    "UPDATE d.two SET v = REPEAT('z', 20000) WHERE k = 'large' AND n % 3 = 0",
                    "DELETE FROM d.two WHERE k = 'large' AND n % 7 = 3",
                    "COMMIT",
                    "FLUSH BINARY LOGS",
                    "INSERT INTO d.two VALUES ('end', 1, NULL)",
                ],
            );
            once(&pair, &["--resume"]).exits(0);
            assert_same(&pair);
        }
    });
}

#[test]
fn a_database_that_is_renamed_is_followed_under_its_new_name() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &["--rename", "d:`e e`"]).exits(0);
        let mut source = pair.source();
        let mut random = Random(3);
        (0..100).for_each(|_| transact(&mut source, &mut random));
        once(&pair, &["--rename", "d:`e e`", "--resume"]).exits(0);
        let all = |session: &mut Session, schema: &str| {
            ["one", "two", "parent", "child", "word"].map(|table| {
                session.strings(&format!("SELECT * FROM `{schema}`.{table} ORDER BY 1")).unwrap()
            })
        };
        let (own, other) = (all(&mut source, "d"), all(&mut pair.target(), "e e"));
        assert!(own == other, "{own:?} {other:?}");
    });
}

#[test]
fn every_type_is_followed() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &LOG);
        let mut source = pair.source();
        execute(&mut source, &["SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"]);
        execute(&mut source, &["CREATE DATABASE d CHARACTER SET utf8"]);
        let mut made = Vec::new();
        for (name, column, values) in kinds_of(product) {
            let sql = format!("CREATE TABLE d.`{name}` (id INT PRIMARY KEY, v {column}) ENGINE=InnoDB");
            if source.execute(&sql).is_ok() {
                made.push((name, values));
            }
        }
        assert!(made.len() > 25, "{}", made.len());
        once(&pair, &[]).exits(0);
        for (name, values) in &made {
            for (id, value) in values.iter().enumerate() {
                execute(&mut source, &[&format!("INSERT INTO d.`{name}` VALUES ({id}, {value})")]);
            }
        }
        once(&pair, &["--resume"]).exits(0);
        assert_equal(&pair, "d");
        // All rows get the value of another one, and all go.
        for (name, values) in &made {
            for (id, value) in values.iter().rev().enumerate() {
                execute(&mut source, &[&format!("UPDATE d.`{name}` SET v = {value} WHERE id = {id}")]);
            }
        }
        once(&pair, &["--resume"]).exits(0);
        assert_equal(&pair, "d");
    });
}

#[test]
fn every_type_that_can_be_a_key_is_found_by_it() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &LOG);
        let mut source = pair.source();
        execute(&mut source, &["SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"]);
        execute(&mut source, &["CREATE DATABASE d CHARACTER SET utf8"]);
        let mut made = Vec::new();
        for (name, column, values) in kinds_of(product) {
            // What is not NULL in a key is 0 otherwise.
            let column = column.trim_end_matches(" NULL");
            let sql =
                format!("CREATE TABLE d.`{name}` (v {column} NOT NULL PRIMARY KEY, n INT) ENGINE=InnoDB");
            if source.execute(&sql).is_ok() {
                let insert = |value: &&str| format!("INSERT IGNORE INTO d.`{name}` VALUES ({value}, 1)");
                values.iter().for_each(|value| drop(source.execute(&insert(value))));
                made.push((name, values));
            }
        }
        assert!(made.len() > 20, "{}", made.len());
        once(&pair, &[]).exits(1).says(&["`float_digits`: its key has a FLOAT or DOUBLE with digits"]);
        execute(&mut source, &["DROP TABLE d.float_digits, d.double_digits"]);
        made.retain(|(name, _)| !name.ends_with("_digits") || name.starts_with("enum"));
        once(&pair, &[]).exits(0);
        for (name, values) in &made {
            let last = values.last().unwrap();
            execute(
                &mut source,
                &[&format!("UPDATE d.`{name}` SET n = 2, v = v"), &format!("DELETE FROM d.`{name}` LIMIT 1")],
            );
            source.execute(&format!("INSERT IGNORE INTO d.`{name}` VALUES ({last}, 3)")).ok();
        }
        once(&pair, &["--resume"]).exits(0);
        assert_equal(&pair, "d");
    });
}

/// Whether somebody has the lock of the copy.
fn is_followed(target: &mut Session) -> bool {
    let ledger = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_remora' AND TABLE_NAME LIKE \
                  'copy%'";
    let ledger = target.value(ledger).unwrap().unwrap();
    target.lock_holder(&format!("remora.{ledger}")).unwrap().is_some()
}

#[test]
fn a_kill_of_anybody_loses_and_repeats_nothing() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(
            product,
            product,
            &[&LOG[..], &["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"]].concat(),
        );
        make(&pair);
        once(&pair, &[]).exits(0);
        let mut random = Random(23);
        for round in 0..6 {
            let mut running = spawn(&pair, &["--resume"]);
            until("it follows", || is_followed(&mut pair.target()));
            if round == 0 {
                once(&pair, &["--resume"]).exits(11).says(&["another copy of the same is running"]);
            }
            let mut source = pair.source();
            let before = pair.target().value("SELECT COUNT(*) FROM d.one").unwrap();
            tell(format!("{product} {round}: {before:?}"));
            let some = 40 + random.below(80);
            (0..some).for_each(|_| transact(&mut source, &mut random));
            drop(source);
            match round % 3 {
                0 => running.kill(),
                1 => {
                    pair.to.kill().unwrap();
                    pair.to.restart().unwrap();
                    running.must_run();
                    running.signal("TERM");
                    running.end().exits(143);
                }
                _ => {
                    pair.from.kill().unwrap();
                    pair.from.restart().unwrap();
                    running.must_run();
                    running.signal("INT");
                    running.end().exits(130).says(&["followed up to"]);
                }
            }
            // The server may still work for the one that was killed.
            until("nobody else follows", || {
                let ended = once(&pair, &["--resume"]);
                assert!([0, 11].contains(&ended.code), "{}", ended.err);
                ended.code == 0
            });
            assert_same(&pair);
        }
    });
}

#[test]
fn a_transaction_that_is_applied_in_parts_is_on_b_as_a_whole_or_not_at_all() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        execute(&mut pair.source(), &["REPLACE INTO d.one (id, u, t) VALUES (9999, 9999, 'last')"]);
        once(&pair, &[]).exits(0);
        let before = rows(&mut pair.target());
        let mut holder = pair.target();
        execute(&mut holder, &["START TRANSACTION", "UPDATE d.one SET t = 'held' WHERE id = 9999"]);
        let mut source = pair.source();
        execute(&mut source, &["START TRANSACTION", &large_rows()]);
        execute(&mut source, &["UPDATE d.one SET t = 'end' WHERE id = 9999", "COMMIT"]);
        let mut running = spawn(&pair, &["--resume"]);
        let mut watcher = pair.target();
        execute(&mut watcher, &["SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"]);
        until("a part is there, and the rest waits", || {
            running.must_run();
            let count = "SELECT COUNT(*) FROM d.two WHERE k = 'large'";
            let waits =
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DELETE FROM `d`%'";
            watcher.value(count).unwrap().unwrap().parse::<u32>().unwrap() > 500
                && watcher.value(waits).unwrap().as_deref() == Some("1")
        });
        assert!(rows(&mut pair.target()) == before);
        running.kill();
        execute(&mut holder, &["ROLLBACK"]);
        until("nobody follows", || !is_followed(&mut pair.target()));
        assert!(rows(&mut pair.target()) == before);
        once(&pair, &["--resume"]).exits(0);
        assert_same(&pair);
    });
}

/// `REMORA_HUGE=1`: it takes minutes, and 15 GB of disk in the place of temporary files.
#[test]
fn a_transaction_of_more_than_4_gib_and_what_is_behind_it_are_followed() {
    if std::env::var_os("REMORA_HUGE").is_none() {
        skipped("a transaction of more than 4 GiB", "REMORA_HUGE=1 asks for it");
        return;
    }
    let own = ["--max-allowed-packet=64M", "--sync-binlog=0", "--innodb-doublewrite=0"];
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[&LOG[..], &own].concat());
    let mut source = pair.source();
    execute(
        &mut source,
        &[
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE d.big (id INT PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB",
            "CREATE TABLE d.small (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO d.big SELECT seq, REPEAT(CHAR(seq), 1 << 20) FROM seq_1_to_100",
        ],
    );
    let follow = |arguments: &[&str]| once(&pair, &[&["--no-binlog"], arguments].concat());
    follow(&[]).exits(0);
    // The second transaction gets its place in the same file: the server commits both together.
    execute(
        &mut source,
        &[
            "SET GLOBAL binlog_commit_wait_count = 2",
            "SET GLOBAL binlog_commit_wait_usec = 600000000",
            "BEGIN",
        ],
    );
    // Each logs all rows before and after.
    for _ in 0..=(1_u64 << 32) / (200 << 20) {
        execute(
            &mut source,
            &["UPDATE d.big SET v = CONCAT(SUBSTR(v, 2), LEFT(v, 1), IF(id % 2, 'x', 'y'))"],
        );
    }
    let mut other = pair.source();
    std::thread::scope(|scope| {
        scope.spawn(|| execute(&mut source, &["COMMIT"]));
        until("the first one waits", || {
            let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'";
            other.value(waits).unwrap().as_deref() == Some("1")
        });
        execute(&mut pair.source(), &["INSERT INTO d.small VALUES (1)"]);
    });
    let end = other.position().unwrap().unwrap();
    follow(&["--resume"]).exits(0);
    let (first, offset) = ("log.000001", other.strings("SHOW BINARY LOGS").unwrap()[0][1].clone());
    assert!(
        offset.unwrap().parse::<u64>().unwrap() > 1 << 32,
        "{first} is smaller, and the log ends at {end}"
    );
    assert_same(&pair);
    // It is resumed from a place that no request can name.
    execute(&mut other, &["SET GLOBAL binlog_commit_wait_count = 0", "INSERT INTO d.small VALUES (2)"]);
    follow(&["--resume"]).exits(0);
    assert_same(&pair);
}
