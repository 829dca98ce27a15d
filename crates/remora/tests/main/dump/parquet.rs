//! `--format parquet`: every value of every type goes into the files or beside them, and comes back.

use sandbox::Product;

use super::every_type::kinds_of;
use super::{Alone, Gate, Pair, assert_equal};
use crate::python::{ENGINES, LIBRARIES};
use crate::support::{of_today, on_products, products, skipped};

/// Settings under which a column takes every value that it can hold.
const SETTINGS: &str = "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00'";

/// Makes a table for each type, with all values that it can have, in a row each.
fn every_value(pair: &Pair) -> u32 {
    let mut source = pair.source();
    source.execute(SETTINGS).unwrap();
    source.execute("CREATE DATABASE d CHARACTER SET utf8").unwrap();
    let mut tables = 0;
    for (name, column, values) in kinds_of(pair.from.product()) {
        let made = source.execute(&format!("CREATE TABLE d.{name} (id INT PRIMARY KEY, v {column})"));
        if made.is_err() {
            continue;
        }
        tables += 1;
        for (id, value) in values.iter().enumerate() {
            let sql = format!("INSERT INTO d.{name} VALUES ({id}, {value})");
            source.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    tables
}

#[test]
fn every_value_of_every_type_comes_back() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        assert!(every_value(&pair) > 20);
        let ended = pair.dump(&["d", "-o", "d.dump", "--format", "parquet"]).exits(3);
        // What nearly every column has is in its file.
        let odd = std::fs::read_dir(pair.path("d.dump/odd")).unwrap().count();
        assert!(odd < 10, "{odd}: {}", ended.err);
        ended.says(&[
            "column `v` of table `d`.`date`: Parquet can't hold 4 values; NULL is in its files instead",
            "folder odd",
        ]);
        pair.run(&["dump", "--check", "d.dump"]).exits(0);
        pair.load(&["d.dump"]).exits(0).says(&["all rows read back and equal"]);
        assert_equal(&pair, "d");
        pair.diff("d.dump", &[]).exits(0);
        // The same by INSERT.
        pair.target().execute("DROP DATABASE d").unwrap();
        pair.target().execute("SET GLOBAL local_infile = 0").unwrap();
        pair.load(&["d.dump"]).exits(0).says(&["local_infile"]);
        assert_equal(&pair, "d");
        pair.dump(&["d", "-o", "none", "--format", "parquet", "--odd", "fail"])
            .exits(1)
            .says(&["that its type of Parquet can't hold", "without --odd fail"]);
    });
}

#[test]
fn damage_of_a_file_or_of_odd_values_is_named() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        SETTINGS,
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, day DATE)",
        "INSERT INTO d.t VALUES (1, '2026-11-28'), (2, '0000-00-00'), (3, NULL)",
    ] {
        source.execute(sql).unwrap();
    }
    pair.dump(&["d", "-o", "d.dump", "--format", "parquet"]).exits(3);
    for name in ["d.dump/d.t/00000.parquet", "d.dump/odd/d.t/00000.tsv.zst"] {
        let path = pair.path(name);
        let whole = std::fs::read(&path).unwrap();
        for at in [whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let checked = pair.run(&["dump", "--check", "d.dump"]).exits(4);
            assert!(checked.out.contains("d.t/00000."), "{}", checked.out);
            pair.load(&["d.dump"]).exits(4).says(&["d.t/00000."]);
            ["d", "_remora"].iter().for_each(|name| {
                pair.target().execute(&format!("DROP DATABASE {name}")).unwrap();
            });
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        pair.load(&["d.dump"]).exits(4).says(&["the manifest says"]);
        std::fs::remove_file(&path).unwrap();
        pair.load(&["d.dump"]).exits(1).says(&["d.t/00000."]);
        std::fs::write(&path, &whole).unwrap();
    }
    std::fs::write(pair.path("d.dump/odd/d.t/00001.tsv.zst"), "").unwrap();
    pair.run(&["dump", "--check", "d.dump"]).exits(0).says(&["00001.tsv.zst"]);
    pair.load(&["d.dump"]).exits(0);
    assert_equal(&pair, "d");
}

#[test]
fn a_killed_dump_keeps_no_odd_values_of_what_is_read_again() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut gate = Gate::close(&pair);
    for sql in [
        SETTINGS,
        "CREATE TABLE d.whole (id INT PRIMARY KEY, day DATE) ENGINE=MyISAM",
        "INSERT INTO d.whole VALUES (1, '0000-00-00')",
    ] {
        gate.holder.execute(sql).unwrap();
    }
    let mut dump = gate.dump(&pair, "d.dump", &["--format", "parquet"]);
    gate.until_reached(&mut dump);
    dump.kill();
    gate.open();
    // As a dump leaves it that is killed after the first odd value.
    let left = pair.path("d.dump/odd/d.t");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("00000.tsv.zst.partial"), "").unwrap();
    let condition = std::fs::read_to_string(pair.path("d.dump/journal.jsonl")).unwrap();
    let condition =
        condition.split("\"condition\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let again = ["d", "-o", "d.dump", "--resume", "--format", "parquet", "--where", condition];
    pair.dump(&again).exits(3).says(&["1 of 2 tables kept", "`d`.`whole`"]);
    assert!(!left.exists());
    let checked = pair.run(&["dump", "--check", "d.dump"]).exits(0);
    assert!(!checked.err.contains("does not list"), "{}", checked.err);
    pair.load(&["d.dump"]).exits(0);
    assert_equal(&pair, "d");
}

#[test]
fn what_parquet_does_not_take_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = crate::support::remora(folder.path());
        crate::support::Ended::of(&command.args(arguments).output().unwrap())
    };
    for compress in ["gzip", "lz4", "column", "zstd:0", "zstd:23"] {
        let form = ["dump", "-o", "x", "--format", "parquet", "--compress", compress];
        run(&[&form[..], &["--url", "unix://root@/none"]].concat()).exits(2).says(&["compressed inside"]);
    }
    run(&["dump", "-o", "x", "--odd", "never"]).exits(2).says(&["keep or fail"]);
    let tsv = ["dump", "-o", "x", "--odd", "fail", "--url", "unix://root@/none"];
    run(&tsv).exits(2).says(&["goes with --format parquet"]);
}

/// Values of all types that a reader of Parquet sees, in the first row; those that are beside the file or
/// easily taken for NULL in the second; NULL in the third.
const SEEN: [&str; 5] = [
    "CREATE DATABASE d CHARACTER SET utf8mb4",
    "CREATE TABLE d.values (id INT PRIMARY KEY, small TINYINT UNSIGNED, big BIGINT UNSIGNED, filled INT(5) UNSIGNED ZEROFILL, \
     price DECIMAL(10,2), wide DECIMAL(65,30), `long` DECIMAL(38,10), single FLOAT, `double` DOUBLE, day DATE, time DATETIME(6), \
     stamp TIMESTAMP NULL, span TIME(3), year YEAR, flag BIT(1), bits BIT(9), all_bits BIT(64), text VARCHAR(50), \
     latin VARCHAR(20) CHARACTER SET latin1, chinese VARCHAR(20) CHARACTER SET gbk, choice ENUM('a','b'), choices SET('x','y'), \
     bytes BLOB, padded BINARY(4), json JSON, place GEOMETRY)",
    "INSERT INTO d.values VALUES (1, 255, 18446744073709551615, 42, -12.50, \
     '-99999999999999999999999999999999999.000000000000000000000000000001', '1234567890123456789012345678.0123456789', 0.1, 1e20, \
     '2026-11-28', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', '-838:59:59', 2026, 1, 257, x'ffffffffffffffff', \
     _utf8mb4 x'6772c3bc6e095c20f09f9880', _latin1 x'fc80', _gbk x'c4e3', 'b', 'x,y', x'00ff0a', 'ab', '[1,{\"a\":2}]', \
     ST_GeomFromText('POINT(1 2)', 4326)), \
     (2, 0, 0, 0, 0, 0, 0, 0, 0, '0000-00-00', '0000-00-00 00:00:00', '1970-01-01 00:00:01', 0, 0, 0, 0, 0, '', '', '', 'a', '', '', '', '\"\"', NULL), \
     (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE d.many (id BIGINT PRIMARY KEY, lat DECIMAL(10,7), name VARCHAR(100), at DATETIME)",
    "INSERT INTO d.many SELECT seq, 48 + seq % 1000 / 7000, CONCAT('name ', seq % 500), '2026-01-01' + INTERVAL seq SECOND FROM d.seq_1_to_20000",
];

#[test]
fn other_programs_read_what_was_stored() {
    let Some(python) = LIBRARIES.program("other_programs_read_what_was_stored") else { return };
    what_was_stored_is_read_by(python, "read_parquet.py");
}

/// Spark and ClickHouse.
#[test]
fn engines_read_what_was_stored() {
    if !sandbox::is_everywhere() {
        return skipped("dump::parquet::engines_read_what_was_stored", "it fetches Spark: ci --full");
    }
    let Some(python) = ENGINES.program("engines_read_what_was_stored") else { return };
    what_was_stored_is_read_by(python, "read_parquet_engines.py");
}

fn what_was_stored_is_read_by(python: &std::path::Path, script: &str) {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute(SETTINGS).unwrap();
    for sql in SEEN {
        source
            .execute(&sql.replace("d.values", "d.`values`"))
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    source.strings("ANALYZE TABLE d.many").unwrap();
    let sum = source.value("SELECT SUM(lat) FROM d.many").unwrap().unwrap();
    pair.dump(&["d", "-o", "d.dump", "--format", "parquet", "--chunk", "256K"]).exits(3);
    assert!(std::fs::read_dir(pair.path("d.dump/d.many")).unwrap().count() > 1);
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump").join(script);
    let mut reader = std::process::Command::new(python);
    reader.arg("-B").arg(script).arg(pair.path("d.dump")).arg(sum).env("TZ", "UTC");
    let output = reader.current_dir(pair.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_table_goes_through_python_and_back() {
    let Some(python) = LIBRARIES.program("dump::parquet::a_table_goes_through_python_and_back") else {
        return;
    };
    let server = Alone::new(&[]);
    let mut session = server.session();
    for sql in [
        SETTINGS,
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        "USE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, big BIGINT UNSIGNED, price DECIMAL(10,3), name VARCHAR(20), \
         kind VARCHAR(20))",
        "INSERT INTO d.t SELECT seq, IF(seq = 1, 18446744073709551615, seq), seq + 0.25, \
         IF(seq = 5, NULL, CONCAT('\u{fc}', seq)), CONCAT('k', seq % 3) FROM seq_0_to_1999",
        "CREATE TABLE d.none (id INT PRIMARY KEY)",
        "CREATE TABLE d.odd (id INT PRIMARY KEY, day DATE)",
        "INSERT INTO d.odd VALUES (1, '0000-00-00')",
    ] {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_remora")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut script = std::process::Command::new(python);
    script.env("PATH", path).env("PYTHONPATH", here.join("../../packaging/python"));
    script.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(server.folder.path());
    script.arg(here.join("tests/dump/tables.py")).arg(format!("unix://{}", server.server.socket().display()));
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
