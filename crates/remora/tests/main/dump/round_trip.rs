//! A dump is loaded unchanged: every case on every server, across servers, in every format.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::{Family, Product};
use server::Session;

use super::copy::copy;
use super::{Pair, assert_equal, case, described, run_sql};
use crate::support::{connect, of_today, on_products, part_of_today, products, skipped, start};

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump");
    let mut found: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// Server-wide settings that change the meaning of many tools' statements and results.
const ODD: [&str; 7] = [
    "sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,\
     PAD_CHAR_TO_FULL_LENGTH'",
    "time_zone = '+05:45'",
    "sql_quote_show_create = 0",
    "wait_timeout = 2",
    "lc_messages = 'de_DE'",
    "sql_select_limit = 1",
    "net_write_timeout = 1",
];

fn odd_settings(pair: &Pair, odd: bool) {
    for mut session in [pair.source(), pair.target()] {
        for setting in ODD {
            let name = setting.split(' ').next().unwrap();
            let sql =
                if odd { format!("SET GLOBAL {setting}") } else { format!("SET GLOBAL {name} = DEFAULT") };
            session.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}

/// Dumps every case, loads it into another server of the same version, and compares. A copy is the same.
fn round_trips(pair: &Pair) {
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        let mariadb_only = case.join("servers").exists();
        if mariadb_only && !pair.is_mariadb() {
            continue;
        }
        let arguments = std::fs::read_to_string(case.join("args")).unwrap_or_default();
        let schema = format!("case_{name}");
        run_sql(&pair.from, &schema, &case.join("schema.sql"));
        let mut line = vec![schema.as_str(), "-o", name.as_str(), "-j", "2"];
        line.extend(arguments.split_whitespace());
        let expect = std::fs::read_to_string(case.join("expect")).unwrap_or_else(|_| "0".to_owned());
        let mut expected = expect.lines();
        let code = expected.next().and_then(|code| code.parse().ok()).unwrap();
        // The servers' other settings must not matter.
        odd_settings(pair, true);
        let dumped = pair.dump(&line);
        let loaded = pair.load(&[&name, "-j", "2"]);
        odd_settings(pair, false);
        let expected: Vec<_> = expected.collect();
        dumped.exits(code).says(&expected);
        loaded.exits(0);
        let (mut before, after) =
            (described(&mut pair.source(), &schema, true), described(&mut pair.target(), &schema, true));
        pair.target().execute(&format!("DROP DATABASE `{schema}`")).unwrap();
        odd_settings(pair, true);
        let copied = copy(pair, &[&[line[0], "-j", "2"], &line[5..]].concat());
        odd_settings(pair, false);
        copied.exits(code).says(&expected);
        assert_eq!(described(&mut pair.target(), &schema, true), after, "{name}: copied");
        let lost = std::fs::read_to_string(case.join("lost")).unwrap_or_default();
        lost.lines().for_each(|key| assert!(before.remove(key).is_some(), "{name}: {key}"));
        for (key, value) in &before {
            if after.get(key) != Some(value) {
                wrong.push(format!("{name}: {key}: {value} became {:?}", after.get(key)));
            }
        }
        assert_eq!(before.len(), after.len(), "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_case_comes_back_equal() {
    on_products(&of_today(products()), |product| {
        round_trips(&Pair::new(product, product, &["--log-bin=log", "--server-id=1"]))
    });
}

#[test]
fn plain_cases_cross_between_servers() {
    let all = products();
    for from in &of_today(products()) {
        let mut pair = Pair::new(*from, *from, &[]);
        let cases = ["values", "keys", "texts"].map(|name| {
            run_sql(&pair.from, name, &case(name));
            pair.dump(&[name, "-o", name, "--chunk", "64K"]).exits(0);
            (name, described(&mut pair.source(), name, false))
        });
        let others: Vec<_> = all.iter().filter(|to| *to != from).copied().collect();
        let parts = others.len();
        for to in part_of_today(others, parts) {
            pair.turn_to(to);
            for (name, before) in &cases {
                pair.load(&[name]).exits(0);
                let after = described(&mut pair.target(), name, false);
                for (key, value) in before.iter().filter(|(key, _)| key.starts_with("rows ")) {
                    assert_eq!(after.get(key), Some(value), "{from} to {to}: {name}: {key}");
                }
            }
        }
    }
}

/// A table called like its database, and a view on it, which the sample database of employees has.
#[test]
fn a_table_called_like_its_database_crosses_between_servers() {
    let (some, all) = (of_today(products()), products());
    for (from, to) in
        some.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))).filter(|(from, to)| from != to)
    {
        let pair = Pair::new(from, to, &[]);
        let mut source = pair.source();
        for sql in [
            "CREATE DATABASE shop",
            "CREATE TABLE shop.shop (id INT PRIMARY KEY, shop INT)",
            "CREATE TABLE shop.other (id INT PRIMARY KEY)",
            "CREATE FUNCTION shop.f(x INT) RETURNS INT RETURN x",
            "CREATE VIEW shop.v AS SELECT id, shop.f(shop) AS s FROM shop.shop",
            "CREATE VIEW shop.a AS SELECT shop.id FROM shop.other AS shop JOIN shop.v ON v.id = shop.id",
            "CREATE TRIGGER shop.tr BEFORE INSERT ON shop.shop FOR EACH ROW SET NEW.shop = shop.f(2)",
            "INSERT INTO shop.shop (id) VALUES (1)",
        ] {
            source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        pair.dump(&["shop", "-o", "shop.dump"]).exits(0);
        pair.load(&["shop.dump"]).exits(0);
        let mut target = pair.target();
        assert_eq!(target.value("SELECT s FROM shop.v").unwrap().as_deref(), Some("2"));
        assert_eq!(target.value("SELECT COUNT(*) FROM shop.a").unwrap().as_deref(), Some("0"));
        // Whatever all servers print in the same words is compared between releases too.
        pair.diff("shop.dump", &[]).exits(0);
        target.execute("ALTER TABLE shop.shop ADD KEY more (shop)").unwrap();
        assert!(pair.diff("shop.dump", &[]).exits(4).out.contains("`shop`.`shop`: defined otherwise"));
    }
}

/// Old row versions are loaded with their times, also by another client.
#[test]
fn history_rows_are_loaded_by_other_clients() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        if !pair.is_mariadb() {
            return;
        }
        run_sql(&pair.from, "versioned", &case("versioned"));
        pair.dump(&["versioned", "-o", "v.dump", "--format", "sql", "--compress", "none"]).exits(0);
        by_client(&pair, "v.dump");
        assert_equal(&pair, "versioned");
    });
}

/// Anything that another server does not understand is refused before anything is changed.
#[test]
fn definitions_that_the_target_does_not_understand_are_refused_before_the_load() {
    if !products().contains(&Product::MySql56) {
        skipped(
            "definitions_that_the_target_does_not_understand_are_refused_before_the_load",
            "MySQL 5.6 is not here",
        );
        return;
    }
    let pair = Pair::new(Product::MariaDb1011, Product::MySql56, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.fine (id INT PRIMARY KEY, v INT CHECK (v > 0))",
        "INSERT INTO d.fine VALUES (1, 1)",
        "CREATE TABLE d.hidden (id INT PRIMARY KEY, h INT INVISIBLE DEFAULT 1)",
        "CREATE TABLE d.spans (id INT, s DATE, e DATE, PERIOD FOR p (s, e))",
        "CREATE PROCEDURE d.fine_too(x INT) SELECT x",
        "CREATE FUNCTION d.looks() RETURNS INT RETURN (WITH w AS (SELECT 1 AS a) SELECT a FROM w)",
        "CREATE FUNCTION d.fine_again() RETURNS INT RETURN 1",
        "CREATE VIEW d.fine_view AS SELECT id, d.fine_again() AS f FROM d.fine",
        "CREATE VIEW d.a_fine_view AS SELECT f FROM d.fine_view",
        "CREATE VIEW d.walks AS WITH RECURSIVE w AS (SELECT 1 AS a) SELECT a FROM w",
        "CREATE VIEW d.reads AS SELECT JSON_VALUE('{}', '$.a') AS a, id FROM d.fine",
        "CREATE VIEW d.lacks AS SELECT id FROM d.hidden",
        "CREATE DATABASE other",
        "CREATE FUNCTION other.elsewhere() RETURNS INT RETURN 1",
        "CREATE VIEW d.lacks_too AS SELECT other.elsewhere() AS a",
        "USE d",
        "CREATE TRIGGER fine_trigger BEFORE INSERT ON fine FOR EACH ROW SET NEW.v = 2",
        "CREATE TRIGGER jumps BEFORE UPDATE ON fine FOR EACH ROW FOR i IN 1..2 DO SET NEW.v = i; END FOR",
        "CREATE EVENT fine_event ON SCHEDULE EVERY 1 SECOND DO DELETE FROM fine",
        "CREATE EVENT rings ON SCHEDULE EVERY 1 SECOND DO FOR i IN 1..2 DO SELECT i; END FOR",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    pair.dump(&["d", "-o", "d.dump"]).exits(0);
    let ended = pair.load(&["d.dump"]).exits(1).says(&["does not understand", "--exclude"]);
    for refused in ["hidden", "spans", "looks", "walks", "reads", "jumps", "rings"] {
        assert!(ended.err.contains(&format!("`d`.`{refused}`")), "{refused}: {}", ended.err);
    }
    assert!(!ended.err.contains("fine") && !ended.err.contains("lacks"), "{}", ended.err);
    let made = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '%remora%' OR SCHEMA_NAME = 'd'";
    assert_eq!(pair.target().value(made).unwrap().as_deref(), Some("0"));
    let part = ["d.dump", "--exclude", "d.hidden", "--exclude", "d.spans", "--exclude", "/^d\\.$/"];
    let part = [&part[..], &["--exclude", "d.walks", "--exclude", "d.reads"]].concat();
    // The trigger is left out with its table.
    pair.load(&part).exits(1).says(&["`d`.`jumps`"]);
    source.execute("DROP TRIGGER jumps").unwrap();
    pair.dump(&["d", "-o", "less.dump"]).exits(0);
    let part = [&["less.dump"], &part[1..]].concat();
    // Views on objects that were left out are named.
    pair.load(&part).exits(3).says(&["`d`.`lacks`", "`d`.`lacks_too`"]);
    assert_eq!(pair.target().value("SELECT COUNT(*) FROM d.fine").unwrap().as_deref(), Some("1"));
}

#[test]
fn formats_and_codecs_make_the_same_rows() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    for name in ["values", "texts", "rental"] {
        run_sql(&pair.from, name, &case(name));
    }
    // One dump of all three for each form.
    let names = ["values", "texts", "rental"];
    let today = part_of_today((0..FORMS.len()).collect::<Vec<_>>(), 3);
    let forms = FORMS.into_iter().enumerate();
    for (at, (format, codec)) in forms.filter(|(at, _)| [0, 4].contains(at) || today.contains(at)) {
        let dump = format!("form{at}");
        let form = ["-o", &dump, "--format", format, "--compress", codec, "--chunk", "128K"];
        // Dates of zeros are in no column of Parquet.
        let code = if format == "parquet" { 3 } else { 0 };
        pair.dump(&[&names[..], &form].concat()).exits(code);
        if format == "sql" {
            pair.load(&[&dump]).exits(1).says(&["other clients"]);
            by_client(&pair, &dump);
        } else {
            pair.load(&[&dump]).exits(0);
        }
        names.iter().for_each(|name| assert_equal(&pair, name));
        names
            .iter()
            .for_each(|name| drop(pair.target().execute(&format!("DROP DATABASE `{name}`")).unwrap()));
    }
    // The same without LOAD DATA LOCAL.
    pair.target().execute("SET GLOBAL local_infile = 0").unwrap();
    pair.load(&["form0"]).exits(0).says(&["local_infile"]);
    pair.load(&["form4"]).exits(1).says(&["local_infile"]);
    names.iter().for_each(|name| assert_equal(&pair, name));
}

/// Every format with every compression, at some level.
const FORMS: [(&str, &str); 17] = [
    ("tsv", "none"),
    ("tsv", "lz4"),
    ("tsv", "gzip"),
    ("tsv", "zstd:19"),
    ("csv", "none"),
    ("csv", "lz4"),
    ("csv", "gzip:9"),
    ("csv", "zstd:3"),
    ("sql", "none"),
    ("sql", "lz4"),
    ("sql", "gzip:1"),
    ("sql", "zstd"),
    ("tsv", "column"),
    ("csv", "column:12"),
    ("sql", "column"),
    ("parquet", "none"),
    ("parquet", "zstd:9"),
];

/// Loads a dump in SQL as the manual says.
fn by_client(pair: &Pair, dump: &str) {
    let read = |name: &str| std::fs::read(pair.path(dump).join(name)).unwrap();
    let mut all = read("schema/1-tables.sql");
    for folder in std::fs::read_dir(pair.path(dump)).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.is_dir() && !folder.ends_with("schema") {
            for file in std::fs::read_dir(folder).unwrap() {
                let content = std::fs::File::open(file.unwrap().path()).unwrap();
                codec::decoder(Box::new(content)).unwrap().1.read_to_end(&mut all).unwrap();
            }
        }
    }
    all.extend(read("schema/2-programs.sql"));
    std::fs::write(pair.path("all.sql"), all).unwrap();
    let ended = Command::new(sandbox::client().unwrap())
        .args(["--no-defaults", "-u", "root", "-S"])
        .arg(pair.to.socket())
        .stdin(std::fs::File::open(pair.path("all.sql")).unwrap())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn objects_that_depend_on_other_databases_are_loaded() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE a",
        "CREATE DATABASE b COMMENT 'not the default one'",
        "CREATE TABLE a.parent (id INT PRIMARY KEY)",
        "CREATE SEQUENCE b.s START WITH 5",
        "CREATE TABLE a.child (id BIGINT DEFAULT NEXTVAL(b.s) PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES b.parent (id))",
        "CREATE TABLE b.parent (id INT PRIMARY KEY)",
        "CREATE FUNCTION b.f(x INT) RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM a.parent)",
        "CREATE VIEW a.v AS SELECT b.f(id) AS x FROM b.parent",
        "INSERT INTO b.parent VALUES (1)",
        "INSERT INTO a.child (parent) VALUES (1)",
    ] {
        let made = source.execute(sql);
        // Servers look up other tables and functions as late as they may, some of them earlier.
        if made.is_err() {
            source.execute("SET foreign_key_checks = 0").unwrap();
            source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    pair.dump(&["a", "b", "-o", "both"]).exits(0);
    pair.load(&["both"]).exits(0);
    ["a", "b"].iter().for_each(|schema| assert_equal(&pair, schema));
    // A part that depends on objects that are not there.
    for schema in ["a", "b"] {
        let mut session = pair.target();
        session.execute("SET foreign_key_checks = 0").unwrap();
        session.execute(&format!("DROP DATABASE {schema}")).unwrap();
    }
    pair.load(&["both", "--only", "a.child", "--only", "b.s"]).exits(0);
    assert_eq!(pair.target().value("SELECT COUNT(*) FROM a.child").unwrap().as_deref(), Some("1"));
}

#[test]
fn names_that_differ_only_in_case_are_refused_by_a_server_without_case() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "CREATE TABLE d.T (id INT)"] {
        source.execute(sql).unwrap();
    }
    pair.dump(&["d", "-o", "d.dump"]).exits(0);
    let other = start(Product::MariaDb1011, &["--lower-case-table-names=1"]);
    let socket = other.socket().to_str().unwrap();
    pair.run(&["load", "--no-defaults", "-u", "root", "-S", socket, "d.dump"])
        .exits(1)
        .says(&["only in case"]);
    let made = connect(other.socket())
        .value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('d', '_remora')");
    assert_eq!(made.unwrap().as_deref(), Some("0"));
}

#[test]
fn a_whole_server_comes_back() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        let roles = product != Product::MySql56;
        let mut statements = vec![
            "CREATE DATABASE shop CHARACTER SET latin1",
            "CREATE TABLE shop.t (id INT PRIMARY KEY)",
            "INSERT INTO shop.t VALUES (1)",
            "CREATE USER app@localhost IDENTIFIED BY 'secret \\' word'",
            "GRANT SELECT, INSERT (id) ON shop.t TO app@localhost WITH GRANT OPTION",
            "CREATE USER 'odd name'@'10.%'",
            "GRANT PROCESS ON *.* TO 'odd name'@'10.%'",
        ];
        if roles {
            statements.extend([
                "CREATE ROLE reader",
                "CREATE ROLE writer",
                "GRANT SELECT ON shop.* TO reader",
                "GRANT reader TO writer",
                "GRANT INSERT ON shop.* TO writer",
                "GRANT writer TO app@localhost",
                match product.family() {
                    Family::MariaDb => "SET DEFAULT ROLE writer FOR app@localhost",
                    Family::MySql => "SET DEFAULT ROLE writer TO app@localhost",
                },
            ]);
        }
        statements
            .iter()
            .for_each(|sql| drop(source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))));
        pair.dump(&["-o", "all"]).exits(0);
        let ended = pair.load(&["all"]);
        assert!(ended.code == 0, "{}", ended.err);
        let mut names = vec!["app@localhost", "'odd name'@'10.%'", "root@localhost"];
        names.extend(if roles { &["reader", "writer"][..] } else { &[] });
        for name in names {
            let sql = format!("SHOW GRANTS FOR {name}");
            let sorted = |mut session: Session| {
                let mut rows = session.strings(&sql).unwrap();
                rows.sort();
                rows
            };
            assert_eq!(sorted(pair.target()), sorted(pair.source()), "{name}");
        }
    });
}
