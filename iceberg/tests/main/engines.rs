//! Engines answer what the server answers.

use std::process::Command;

use serde_json::json;

use crate::support::{Shop, ended, named, snapshots};

/// A column of each type that a dump of Parquet tells apart.
const ORDERS: &str = "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, customer INT UNSIGNED NOT NULL, day DATE, \
     made DATETIME(6), stamp TIMESTAMP NULL, total DECIMAL(10,2), big BIGINT UNSIGNED, wide DECIMAL(30,10), \
     ratio DOUBLE, single FLOAT, flag BIT(1), name VARCHAR(100), raw VARBINARY(20), kind ENUM('a','b'), note TEXT)";

/// Rows whose values ascend with the key, so that files have limits that tell them apart.
fn rows(from: u32, to: u32) -> String {
    format!(
        "INSERT INTO shop.orders SELECT seq, seq % 1000, '2020-01-01' + INTERVAL seq DIV 20 DAY, \
         '2020-01-01' + INTERVAL seq SECOND, '2020-01-01' + INTERVAL seq SECOND, seq / 7, \
         18446744073709551615 - seq, -seq * 1234567890.0123456789, seq / 3, seq / 8, seq % 2, \
         CONCAT('gr\u{f6}\u{df}e ', LPAD(seq, 6, '0')), UNHEX(MD5(seq)), IF(seq % 2, 'a', 'b'), \
         IF(seq % 10 = 0, NULL, REPEAT('x', seq % 80)) FROM shop.seq_{from}_to_{to}"
    )
}

/// What server and engines are asked: sums, and conditions that leave out files by their limits.
pub(crate) const QUESTIONS: [&str; 14] = [
    "SELECT count(*), count(note), sum(id), sum(customer), sum(total), sum(big), sum(wide) FROM {t}",
    "SELECT min(day), max(day), min(made), max(made), min(name), max(name), min(kind) FROM {t}",
    "SELECT customer, count(*), sum(total) FROM {t} WHERE customer < 5 GROUP BY customer ORDER BY customer",
    "SELECT count(*) FROM {t} WHERE id >= 300 AND id <= 700",
    "SELECT count(*) FROM {t} WHERE name = 'gr\u{f6}\u{df}e 000500'",
    "SELECT count(*) FROM {t} WHERE name > 'gr\u{f6}\u{df}e 009900'",
    "SELECT count(*) FROM {t} WHERE total > 1400",
    "SELECT count(*) FROM {t} WHERE big < CAST('18446744073709541715' AS DECIMAL(20,0))",
    "SELECT count(*) FROM {t} WHERE wide < -6000000000000",
    "SELECT count(*) FROM {t} WHERE ratio > 3000 AND ratio < 3100",
    "SELECT count(*) FROM {t} WHERE single < 10",
    "SELECT count(*) FROM {t} WHERE day = DATE '2021-02-03'",
    "SELECT count(*) FROM {t} WHERE made > TIMESTAMP '2020-01-01 02:00:00.000000'",
    "SELECT count(*) FROM {t} WHERE flag = true",
];

/// The statements for so many orders.
pub(crate) fn orders(count: u32) -> [&'static str; 2] {
    [ORDERS, rows(1, count).leak()]
}

/// Asks the server, and lets an engine answer the same.
fn compare(shop: &Shop, engine: &str, tables: &[(&str, &[&str])]) {
    let (mut command, count) = ask_of(shop, engine, tables);
    let ended = ended(&mut command).exits(0);
    assert!(ended.out.contains(&format!("{count} answers, 0 wrong")), "{}", ended.out);
}

/// Asks the server. Returns the command that asks an engine the same, and how many questions there are.
pub(crate) fn ask_of(shop: &Shop, engine: &str, tables: &[(&str, &[&str])]) -> (Command, usize) {
    let mut questions = Vec::new();
    for (table, texts) in tables {
        for text in *texts {
            let name = table.split('.').map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".");
            let answer = shop.sql(&text.replace("{t}", &name));
            let answer: Vec<Vec<&str>> = answer.lines().map(|line| line.split('\t').collect()).collect();
            questions.push(json!({"sql": text, "table": table, "answer": answer}));
        }
    }
    std::fs::write(shop.path("questions.json"), json!(questions).to_string()).unwrap();
    (python(shop, "read.py", &[engine, "."]), questions.len())
}

fn python(shop: &Shop, script: &str, arguments: &[&str]) -> Command {
    let python = named("REMORA_ENGINES_PYTHON").expect("cargo xtask iceberg names a Python with the engines");
    let script = format!("{}/tests/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg("-B").arg(script).args(arguments).current_dir(shop.folder.path());
    command.env("TZ", "UTC").env("SPARK_LOCAL_IP", "127.0.0.1");
    command
}

/// A shop that was registered, changed, and registered again, with odd names and without rows.
fn changed_shop() -> Shop {
    let shop = Shop::open(&[
        ORDERS,
        &rows(1, 10000),
        "CREATE TABLE shop.none (id INT PRIMARY KEY)",
        "CREATE TABLE shop.`a b` (id INT PRIMARY KEY, n INT, gone INT)",
        "INSERT INTO shop.`a b` VALUES (1, 10, 0)",
    ]);
    shop.dump("monday");
    shop.register("monday", &[]).exits(0);
    shop.sql("DELETE FROM shop.orders WHERE id % 3 = 0; UPDATE shop.orders SET note = NULL WHERE id % 5 = 0");
    shop.sql("ALTER TABLE shop.`a b` MODIFY n BIGINT, ADD COLUMN text VARCHAR(9), DROP COLUMN gone");
    shop.sql("INSERT INTO shop.`a b` VALUES (2, 10000000000, 'new')");
    shop.dump("tuesday");
    shop.register("tuesday", &[]).exits(0);
    shop
}

const FEW: [&str; 1] = ["SELECT count(*), sum(id) FROM {t}"];
const CHANGED: [&str; 1] = ["SELECT id, n, text FROM {t} ORDER BY id"];
const ALL: [(&str, &[&str]); 3] = [("shop.orders", &QUESTIONS), ("shop.none", &FEW), ("shop.a b", &CHANGED)];

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs DuckDB"]
fn duckdb_answers_as_the_server() {
    compare(&changed_shop(), "duckdb", &ALL);
}

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs PyIceberg"]
fn pyiceberg_answers_as_the_server() {
    compare(&changed_shop(), "pyiceberg", &ALL);
}

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs chdb"]
fn clickhouse_answers_as_the_server() {
    compare(&changed_shop(), "clickhouse", &[("shop.orders", &QUESTIONS)]);
}

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs Trino"]
fn trino_answers_as_the_server() {
    compare(&changed_shop(), "trino", &ALL);
}

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs Spark"]
fn spark_answers_as_the_server() {
    compare(&changed_shop(), "spark", &ALL);
}

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs Spark"]
fn spark_merges_changes_and_the_next_dump_replaces_them() {
    let shop = Shop::open(&[ORDERS, &rows(1, 5000)]);
    shop.dump("monday");
    shop.register("monday", &[]).exits(0);
    shop.sql(&rows(6001, 6500));
    for sql in [
        "DELETE FROM shop.orders WHERE id % 7 = 0",
        "UPDATE shop.orders SET total = total + 1, note = 'changed' WHERE id % 11 = 0",
        "UPDATE shop.orders SET id = id + 100000 WHERE id < 10",
    ] {
        shop.sql(sql);
    }
    let data = shop.server.data().to_str().unwrap().to_owned();
    let log = [
        "log",
        &data,
        "--table",
        "shop.orders",
        "--format",
        "parquet",
        "--after",
        "monday",
        "--to",
        "changes",
    ];
    assert_eq!(shop.remora(&log).code, 0);
    ended(&mut python(&shop, "merge.py", &["."])).exits(0).says("2 snapshots");
    compare(&shop, "spark", &[("shop.orders", &QUESTIONS)]);

    // The dump that was registered is not put above what was merged into it.
    shop.register("monday", &[]).exits(0).says("there are later ones");
    shop.sql("DELETE FROM shop.orders WHERE id % 2 = 0");
    shop.dump("tuesday");
    shop.register("tuesday", &[]).exits(0);
    compare(&shop, "spark", &[("shop.orders", &QUESTIONS)]);
    compare(&shop, "pyiceberg", &[("shop.orders", &QUESTIONS)]);
    // What was is still there: the table as of the first snapshot, whose rows are those of the first dump.
    let first = snapshots(&shop.metadata("shop.orders"))[0]["snapshot-id"].clone();
    let asked = json!([{
        "sql": format!("SELECT count(*), sum(id) FROM {{t}} VERSION AS OF {first}"),
        "table": "shop.orders", "answer": [["5000", "12502500"]],
    }]);
    std::fs::write(shop.path("questions.json"), asked.to_string()).unwrap();
    ended(&mut python(&shop, "read.py", &["spark", "."])).exits(0);
}
