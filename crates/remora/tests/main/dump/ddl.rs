//! DDL while a dump is running: prevented, or noticed and named.

use sandbox::{Family, Product};

use super::{Gate, Pair};
use crate::support::{of_today, on_products, products};

/// What is done while table t is being read, the resulting exit code, and the message.
const CHANGES: [(&str, i32, &str); 12] = [
    ("ALTER TABLE d.b ADD COLUMN w INT DEFAULT 5", 0, "`d`.`b` was altered"),
    ("ALTER TABLE d.b CHANGE v w INT", 0, "`d`.`b` was altered"),
    ("ALTER TABLE d.b ENGINE = InnoDB, FORCE, ADD COLUMN w INT", 1, "--resume"),
    (
        "ALTER TABLE d.b ADD COLUMN w INT; INSERT INTO d.b VALUES (3, 3, 3); UPDATE d.b SET v = 9",
        0,
        "`d`.`b` was altered",
    ),
    ("TRUNCATE TABLE d.b", 1, "`d`.`b`"),
    ("DROP TABLE d.b", 1, "`d`.`b`"),
    ("RENAME TABLE d.b TO d.c", 1, "`d`.`b`"),
    ("DROP TABLE d.b; CREATE TABLE d.b (id INT PRIMARY KEY, v INT) DEFAULT CHARSET latin1", 1, "`d`.`b`"),
    ("CREATE TABLE d.new (id INT PRIMARY KEY)", 3, "`d`.`new`: created while"),
    ("CREATE OR REPLACE VIEW d.w AS SELECT v FROM d.b", 3, "`d`.`w`: changed while"),
    ("DROP PROCEDURE d.f", 3, "`d`.`f`: dropped"),
    ("CREATE TRIGGER d.tr BEFORE INSERT ON d.b FOR EACH ROW SET NEW.v = 1", 3, "`d`.`tr`: created while"),
];

/// Runs a test where DDL is noticed. Before MySQL 8, DDL is not noticed and has to wait.
fn on_mariadb_products(test: impl Fn(Product)) {
    let products: Vec<_> =
        of_today(products().into_iter().filter(|product| *product != Product::MySql56).collect());
    on_products(&products, test);
}

#[test]
fn ddl_during_a_dump_is_named() {
    on_mariadb_products(|product| {
        let pair = Pair::new(product, product, &[]);
        for (at, (change, code, words)) in CHANGES.iter().enumerate() {
            let mut gate = Gate::close(&pair);
            gate.run(&[
                "CREATE TABLE d.b (id INT PRIMARY KEY, v INT) DEFAULT CHARSET latin1",
                "INSERT INTO d.b VALUES (1, 1), (2, 2)",
                "CREATE VIEW d.w AS SELECT id FROM d.b",
                "CREATE PROCEDURE d.f() SELECT 1",
            ]);
            let name = format!("change{at}");
            let dump = gate.reached_by(&pair, &name);
            gate.run(&change.split("; ").collect::<Vec<_>>());
            gate.open();
            let ended = dump.end();
            // MySQL reads no table by a snapshot from before its ALTER.
            let lost = product.family() == Family::MySql && change.starts_with("ALTER");
            let (code, words) = if lost { (&1, &"--resume") } else { (code, words) };
            assert_eq!(ended.code, *code, "{change}: {}", ended.err);
            assert!(ended.err.contains(words) && ended.err.contains("`d`.`"), "{change}: {}", ended.err);
            assert_eq!(pair.path(&format!("{name}/manifest.json")).exists(), *code != 1, "{change}");
            if *code == 0 {
                comes_back(&pair, &name);
            }
            gate.run(&["DROP DATABASE d"]);
        }
    });
}

/// The rows from before the change come back, under the definition from after it.
fn comes_back(pair: &Pair, dump: &str) {
    pair.run(&["dump", "--check", dump]).exits(0);
    let mut target = pair.target();
    target.execute("DROP DATABASE IF EXISTS d").unwrap();
    pair.load(&[dump]).exits(0);
    let column = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 'b' AND COLUMN_NAME = 'w'";
    assert_eq!(target.value(column).unwrap().as_deref(), Some("1"), "{dump}");
    let rows = target.rows("SELECT * FROM d.b ORDER BY id").unwrap();
    let first: Vec<_> = rows.iter().map(|row| row[..2].to_vec()).collect();
    let cell = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(first, [[cell("1"), cell("1")], [cell("2"), cell("2")]], "{dump}");
    target.execute("DROP DATABASE d").unwrap();
}

/// Waits until the time at which the tables were made is one that shows later DDL: the server knows it in
/// whole seconds.
pub(super) fn until_settled(pair: &Pair) {
    let settled = "SELECT MAX(CREATE_TIME) < NOW() - INTERVAL 3 SECOND FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'";
    let mut source = pair.source();
    crate::support::until("tables are some seconds old", || {
        source.value(settled).unwrap().as_deref() == Some("1")
    });
}

/// Of tables that are some seconds old, only the time of creation is compared. It shows every ALTER, also
/// those that leave the rows as they are.
#[test]
fn ddl_on_older_tables_is_named() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut gate = Gate::close(&pair);
    let tables = ["added", "renamed", "commented", "indexed", "same"];
    for table in tables {
        gate.run(&[
            &format!("CREATE TABLE d.{table} (id INT PRIMARY KEY, v INT, n INT AUTO_INCREMENT, KEY (n))"),
            &format!("INSERT INTO d.{table} VALUES (1, 1, 1), (2, 2, 2)"),
        ]);
    }
    // It is read first.
    gate.run(&[
        "CREATE TABLE d.large LIKE d.t",
        "INSERT INTO d.large SELECT -id, v FROM d.t",
        "INSERT INTO d.large SELECT id - 10000, v FROM d.large",
        "ANALYZE TABLE d.large",
    ]);
    until_settled(&pair);
    let dump = gate.reached_by(&pair, "d.dump");
    gate.run(&[
        "ALTER TABLE d.added ADD COLUMN w INT DEFAULT 5",
        "ALTER TABLE d.renamed CHANGE v w INT",
        "ALTER TABLE d.commented COMMENT = 'new'",
        "ALTER TABLE d.indexed ADD KEY (v)",
        "INSERT INTO d.same VALUES (3, 3, 100)",
        "ALTER TABLE d.large COMMENT = 'new'",
    ]);
    gate.open();
    let ended = dump.end().exits(3);
    for table in &tables[..4] {
        assert!(ended.err.contains(&format!("`d`.`{table}` was altered")), "{table}: {}", ended.err);
    }
    assert!(!ended.err.contains("`d`.`same`"), "{}", ended.err);
    assert!(ended.err.contains("table `d`.`large`: altered after it was read"), "{}", ended.err);
    pair.load(&["d.dump"]).exits(0);
    let mut target = pair.target();
    let of = |table: &str| target.definition(&format!("d.{table}").parse().unwrap()).unwrap();
    let made = tables.map(of);
    assert!(made[0].contains("`w`") && made[1].contains("`w`") && made[2].contains("'new'"), "{made:?}");
    assert!(made[3].contains("KEY `v`"), "{made:?}");
    // The counter continues after the rows of the snapshot.
    assert!(made[4].contains("AUTO_INCREMENT=3"), "{made:?}");
}

/// While chunks of a table wait to be read, nobody holds a lock on it.
#[test]
fn ddl_does_not_wait_for_the_end_of_a_dump() {
    on_mariadb_products(|product| {
        let pair = Pair::new(product, product, &[]);
        let mut gate = Gate::close(&pair);
        let dump = gate.reached_by(&pair, "d.dump");
        let mut ddl = pair.source();
        std::thread::scope(|scope| {
            let altered = scope.spawn(move || {
                ddl.execute("SET SESSION lock_wait_timeout = 200").unwrap();
                ddl.execute("ALTER TABLE d.t ADD COLUMN w INT").map(drop)
            });
            // The session that plans chunks may wait behind it.
            let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                         WHERE INFO LIKE 'ALTER %' AND STATE LIKE 'Waiting for table metadata%'";
            crate::support::until("the ALTER waits for the chunk", || {
                gate.holder.value(waits).unwrap().as_deref() == Some("1")
            });
            gate.open();
            altered.join().unwrap().unwrap();
        });
        if product.family() == Family::MySql {
            // It reads no table by a snapshot from before its ALTER.
            dump.end().exits(1).says(&["`d`.`t` was changed by DDL", "--resume"]);
            return;
        }
        dump.end().exits(0).says(&["`d`.`t` was altered", "read again"]);
        pair.load(&["d.dump"]).exits(0);
        assert_eq!(
            pair.target().value("SELECT COUNT(*) FROM d.t WHERE w IS NULL").unwrap().as_deref(),
            Some("4096")
        );
    });
}

/// While the server has a table open in some ways, it does not know when the table was created. That is no
/// DDL.
#[test]
fn tables_without_a_creation_time_are_dumped() {
    on_mariadb_products(|product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        // A UNIQUE of a whole TEXT is a hash on MariaDB.
        let unique = if product.family() == Family::MariaDb { "(v)" } else { "(v(20))" };
        for round in 0..3 {
            source.execute("CREATE DATABASE d").unwrap();
            for at in 0..36 {
                for sql in [
                    format!(
                        "CREATE TABLE d.t{at} (id INT PRIMARY KEY, v TEXT, w INT AS (id + 1), UNIQUE {unique}, KEY (w))"
                    ),
                    format!("INSERT INTO d.t{at} (id, v) VALUES (1, 'a'), (2, 'b'), (3, 'c')"),
                    format!("UPDATE d.t{at} SET v = CONCAT(v, 'x'), id = id + 10"),
                    format!("DELETE FROM d.t{at} WHERE id = 12"),
                ] {
                    source.execute(&sql).unwrap();
                }
            }
            pair.dump(&["d", "-o", &format!("d{round}")]).exits(0);
            source.execute("DROP DATABASE d").unwrap();
        }
    });
}

/// DDL waits for the dump if the user asks for that.
#[test]
fn ddl_is_blocked_on_demand() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut gate = Gate::close(&pair);
        gate.run(&["CREATE TABLE d.b (id INT PRIMARY KEY)", "INSERT INTO d.b VALUES (1)"]);
        let mut dump = gate.dump(&pair, "d.dump", &["--block-ddl"]);
        gate.until_reached(&mut dump);
        let mut ddl = pair.source();
        ddl.execute("SET SESSION lock_wait_timeout = 1").unwrap();
        for sql in
            ["ALTER TABLE d.b ADD COLUMN v INT", "TRUNCATE TABLE d.b", "ALTER TABLE d.t ADD COLUMN w INT"]
        {
            assert_eq!(ddl.execute(sql).unwrap_err().code(), Some(1205), "{sql}");
        }
        gate.open();
        dump.end().exits(0);
        ddl.execute("ALTER TABLE d.b ADD COLUMN v INT").unwrap();
    });
}

/// A partition can be exchanged with a table only between two snapshots.
#[test]
fn partitions_can_not_be_exchanged_during_a_dump() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut gate = Gate::close(&pair);
        gate.run(&[
            "CREATE TABLE d.p (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
            "INSERT INTO d.p VALUES (1), (2), (3), (4)",
            "CREATE TABLE d.x (id INT PRIMARY KEY)",
            "INSERT INTO d.x VALUES (6)",
        ]);
        let dump = gate.reached_by(&pair, "d.dump");
        let mut ddl = pair.source();
        ddl.execute("SET SESSION lock_wait_timeout = 1").unwrap();
        if product == Product::MySql56 {
            assert_eq!(ddl.execute("TRUNCATE TABLE d.x").unwrap_err().code(), Some(1205));
        }
        for sql in [
            "ALTER TABLE d.p EXCHANGE PARTITION p0 WITH TABLE d.x",
            "ALTER TABLE d.p TRUNCATE PARTITION p1",
            "ALTER TABLE d.p ADD COLUMN v INT",
        ] {
            assert_eq!(ddl.execute(sql).unwrap_err().code(), Some(1205), "{sql}");
        }
        gate.open();
        dump.end().exits(0);
        // Nobody holds the table any more.
        ddl.execute("ALTER TABLE d.p EXCHANGE PARTITION p0 WITH TABLE d.x").unwrap();
        pair.load(&["d.dump"]).exits(0);
        let sums = "SELECT (SELECT SUM(id) FROM d.p), (SELECT SUM(id) FROM d.x)";
        assert_eq!(pair.target().strings(sums).unwrap()[0], [Some("10".into()), Some("6".into())]);
    });
}
