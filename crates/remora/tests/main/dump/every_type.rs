//! Every type with its odd values: no two of them are confused, and each comes back.

use std::collections::BTreeSet;

use sandbox::{Family, Product};
use server::Session;

use super::Pair;
use crate::support::{of_today, on_products, products};

/// A column and the values it can have.
struct Kind {
    /// The type, also used in names.
    name: &'static str,
    column: &'static str,
    /// SQL for values that are all different.
    values: &'static [&'static str],
    /// SQL that tells values apart by means other than ours.
    probe: &'static str,
    /// A type that the column has while it is given its value: after a later ALTER it keeps the extra part of
    /// that value.
    before: &'static str,
}

const fn kind(
    name: &'static str,
    column: &'static str,
    probe: &'static str,
    values: &'static [&'static str],
) -> Kind {
    Kind { name, column, values, probe, before: "" }
}

const NUMBER: &str = "CAST(v AS UNSIGNED)";
const BITS: &str = "CONCAT(v*1e0,' ',ATAN2(v,-1))";

/// What every server knows.
const KINDS: &[Kind] = &[
    kind("int", "INT", "v", &["0", "-1", "2147483647", "NULL"]),
    kind("bigint", "BIGINT UNSIGNED", "v", &["0", "9223372036854775808", "18446744073709551615"]),
    kind("zerofill", "INT(5) ZEROFILL", "v", &["0", "1", "10", "123456"]),
    kind(
        "decimal",
        "DECIMAL(65,30)",
        "v",
        &["0", "0.000000000000000000000000000001", "-0.000000000000000000000000000001"],
    ),
    kind(
        "float",
        "FLOAT",
        BITS,
        &["0", "'-1e-60'", "0.1", "0.10000001", "1e-45", "3.4028234e38", "16777217", "16777218"],
    ),
    kind("float_digits", "FLOAT(10,2)", BITS, &["0", "0.01", "1234567.88", "99999999.99"]),
    kind(
        "double",
        "DOUBLE",
        BITS,
        &["0", "-0e0", "0.3", "0.30000000000000004", "5e-324", "1.7976931348623157e308"],
    ),
    kind("double_digits", "DOUBLE(12,3)", BITS, &["0", "0.001", "-1.5"]),
    kind("bit1", "BIT(1)", "v+0", &["b'0'", "b'1'", "NULL"]),
    kind("bit10", "BIT(10)", "v+0", &["0", "1", "9", "10", "92", "256", "1023"]),
    kind("bit64", "BIT(64)", "v+0", &["0", "0x5c4e", "0xffffffffffffffff"]),
    kind("year", "YEAR", "v+0", &["0", "1901", "1955", "2000", "2055", "2155"]),
    kind("year2", "YEAR(2)", "CONCAT(COALESCE(YEAR(v),''),' ',v)", &["'1900'", "'1955'", "'2000'", "'2055'"]),
    kind(
        "date",
        "DATE",
        "v",
        &["'0000-00-00'", "'2024-00-00'", "'2024-01-00'", "'2024-02-30'", "'9999-12-31'", "'0001-01-01'"],
    ),
    kind(
        "time",
        "TIME(6)",
        "v",
        &[
            "'00:00:00'",
            "'-00:00:00.000001'",
            "'00:00:00.000001'",
            "'838:59:59'",
            "'-838:59:59'",
            "'24:00:00'",
        ],
    ),
    kind(
        "datetime",
        "DATETIME(6)",
        "v",
        &[
            "'0000-00-00 00:00:00'",
            "'2024-00-00 00:00:01'",
            "'9999-12-31 23:59:59.999999'",
            "'2024-03-31 02:30:00'",
        ],
    ),
    kind(
        "timestamp",
        "TIMESTAMP(6) NULL",
        "v",
        &["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'", "NULL"],
    ),
    kind("char", "CHAR(5) CHARACTER SET latin1", "HEX(v)", &["''", "'a'", "'A'", "0x6100", "0xe1", "NULL"]),
    kind(
        "varchar",
        "VARCHAR(10)",
        "HEX(v)",
        &["''", "' '", "'a'", "'a '", "'A'", "'\\\\N'", "'\\n'", "'\\t'", "'NULL'", "NULL"],
    ),
    kind("utf16", "VARCHAR(10) CHARACTER SET utf16", "HEX(v)", &["'a'", "'A'", "'\u{e1}'", "'0'"]),
    kind("varbinary", "VARBINARY(10)", "HEX(v)", &["''", "0x00", "0x0000", "0x61", "0x6100", "0x5c4e"]),
    kind("blob", "BLOB", "HEX(v)", &["''", "0x00", "NULL"]),
    kind("enum", "ENUM('a','b')", NUMBER, &["NULL", "1", "2", "'bogus'"]),
    kind("enum_empty", "ENUM('','a')", NUMBER, &["NULL", "1", "2", "'bogus'"]),
    kind("enum_twice", "ENUM('a','A','b','b')", NUMBER, &["1", "2", "3", "4", "'bogus'"]),
    kind("enum_digits", "ENUM('0','1','2','10')", NUMBER, &["1", "2", "3", "4", "'bogus'"]),
    kind("enum_ucs2", "ENUM('a','b') CHARACTER SET ucs2", NUMBER, &["1", "2", "'bogus'"]),
    kind("enum_accents", "ENUM('\u{e4}','a','o') CHARACTER SET utf8", NUMBER, &["1", "2", "3", "'bogus'"]),
    kind("enum_binary", "ENUM('a','b') CHARACTER SET binary", NUMBER, &["1", "2", "'bogus'"]),
    kind("set", "SET('a','b')", NUMBER, &["0", "1", "2", "3", "NULL"]),
    kind("set_empty", "SET('','a')", NUMBER, &["0", "1", "2", "3"]),
    kind("set_twice", "SET('x','X')", NUMBER, &["0", "1", "2", "3"]),
    kind("set_ucs2", "SET('a','b') CHARACTER SET ucs2", NUMBER, &["0", "1", "3"]),
    kind(
        "geometry",
        "GEOMETRY",
        "HEX(v)",
        &[
            "NULL",
            "ST_GeomFromText('POINT(1 2)')",
            "ST_GeomFromText('POINT(1 2)', 4326)",
            "ST_GeomFromText('POINT(2 1)')",
            "ST_GeomFromText('LINESTRING(1 2,1 2)')",
        ],
    ),
];

/// Types of MySQL only.
const KINDS_OF_MYSQL: &[Kind] = &[
    kind(
        "json",
        "JSON",
        "CONCAT(JSON_TYPE(v), ' ', v)",
        &["'{\"a\":1}'", "'{\"a\":1.0}'", "'1'", "'\"1\"'", "'null'", "'true'", "'[]'", "NULL"],
    ),
    kind(
        "vector",
        "VECTOR(2)",
        "HEX(v)",
        &[
            "STRING_TO_VECTOR('[0,0]')",
            "x'0000008000000000'",
            "STRING_TO_VECTOR('[1,2]')",
            "STRING_TO_VECTOR('[1,2.0000002]')",
        ],
    ),
];

/// Types of MariaDB only; a type that this server does not know is left out.
const KINDS_OF_MARIADB: &[Kind] = &[
    kind(
        "empty_geometry",
        "GEOMETRY",
        "HEX(v)",
        &[
            "NULL",
            "ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')",
            "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(0 0))')",
        ],
    ),
    kind(
        "json",
        "JSON",
        "HEX(v)",
        &["'{\"a\":1}'", "'{\"a\": 1}'", "'1'", "'1.0'", "'\"1\"'", "'null'", "NULL"],
    ),
    kind(
        "uuid",
        "UUID",
        "HEX(CAST(v AS BINARY(16)))",
        &["'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426655440000'", "NULL"],
    ),
    kind("inet4", "INET4", "HEX(CAST(v AS BINARY(4)))", &["'0.0.0.0'", "'255.255.255.255'", "'1.2.3.4'"]),
    kind(
        "inet6",
        "INET6",
        "HEX(CAST(v AS BINARY(16)))",
        &["'::'", "'::1'", "'::ffff:1.2.3.4'", "'::1.2.3.4'"],
    ),
    kind(
        "vector",
        "VECTOR(2)",
        "HEX(v)",
        &[
            "Vec_FromText('[0,0]')",
            "x'0000008000000000'",
            "Vec_FromText('[1,2]')",
            "Vec_FromText('[1,2.0000002]')",
        ],
    ),
];

/// Values that a column may hold beyond what its type shows, and that no statement can create on another
/// server.
const KEPT: &[Kind] = &[
    Kind { before: "FLOAT", ..kind("float_more", "FLOAT(10,2)", BITS, &["0.121", "0.124", "0.12"]) },
    Kind { before: "DOUBLE", ..kind("double_more", "DOUBLE(12,3)", BITS, &["0.1231", "0.1232", "0.123"]) },
];

/// Types of a server's family: name, column, and values. The server may not know all of them.
pub(super) fn kinds_of(
    product: Product,
) -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    let own = if product.family() == Family::MariaDb { KINDS_OF_MARIADB } else { KINDS_OF_MYSQL };
    KINDS.iter().chain(own).map(|kind| (kind.name, kind.column, kind.values))
}

/// A table of one row for every pair of values: it holds the first value, then the second.
struct Case {
    kind: &'static Kind,
    table: String,
    from: &'static str,
    to: &'static str,
}

impl Case {
    fn all(kinds: impl Iterator<Item = &'static Kind>, prefix: &str) -> Vec<Case> {
        let mut cases = Vec::new();
        for kind in kinds {
            for (at, from) in kind.values.iter().enumerate() {
                for (other, to) in kind.values.iter().enumerate().skip(at + 1) {
                    let table = format!("d.{prefix}{}_{at}_{other}", kind.name);
                    cases.push(Case { kind, table, from, to });
                }
            }
        }
        cases
    }

    fn make(&self, session: &mut Session) {
        let made = session
            .execute(&format!("CREATE TABLE {} (id INT PRIMARY KEY, v {})", self.table, self.kind.column));
        made.unwrap_or_else(|error| panic!("{}: {error}", self.table));
        self.put(session, self.from);
    }

    /// Gives the row a value.
    fn put(&self, session: &mut Session, value: &str) {
        let Case { table, kind, .. } = self;
        let value = format!("REPLACE INTO {table} VALUES (1, {value})");
        let statements = match kind.before {
            "" => vec![value],
            before => vec![
                format!("ALTER TABLE {table} MODIFY v {before}"),
                value,
                format!("ALTER TABLE {table} MODIFY v {}", kind.column),
            ],
        };
        for sql in statements {
            session.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    fn probe(&self, session: &mut Session) -> Option<String> {
        let sql = format!("SELECT {} FROM {}", self.kind.probe, self.table);
        session.value(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

fn session(mut session: Session) -> Session {
    session.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'").unwrap();
    session
}

#[test]
fn no_two_values_are_taken_for_one() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let (mut source, mut target) = (session(pair.source()), session(pair.target()));
        source.execute("CREATE DATABASE d CHARACTER SET utf8").unwrap();
        let known = |kind: &&Kind| {
            let made = source.execute(&format!("CREATE TABLE d.known (v {})", kind.column)).is_ok();
            source.execute("DROP TABLE IF EXISTS d.known").unwrap();
            made
        };
        let own = if pair.is_mariadb() { KINDS_OF_MARIADB } else { KINDS_OF_MYSQL };
        // MySQL 8 and later have no YEAR(2).
        let all = KINDS.iter().filter(|kind| kind.name != "year2" || product != Product::MySql97);
        let more: Vec<&Kind> = own.iter().filter(known).collect();
        let expected = match product {
            Product::MariaDb1011 | Product::MariaDb114 => 5,
            Product::MariaDb118 => KINDS_OF_MARIADB.len(),
            Product::MySql56 => 0,
            _ => KINDS_OF_MYSQL.len(),
        };
        assert_eq!(more.len(), expected);
        let mut cases = Case::all(all.chain(more), "");
        cases.extend(Case::all(KEPT.iter(), "x_"));
        cases.iter().for_each(|case| case.make(&mut source));
        pair.dump(&["d", "-o", "d.dump"]).exits(0);
        assert!(pair.path("d.dump/together").exists());

        pair.load(&["d.dump", "--exclude", "d.x_*"]).exits(0);
        pair.diff("d.dump", &["--exclude", "d.x_*"]).exits(0);
        for case in cases.iter().filter(|case| case.kind.before.is_empty()) {
            assert_eq!(case.probe(&mut target), case.probe(&mut source), "{}", case.table);
        }
        // A value that no statement can bring back is not reported as restored.
        pair.load(&["d.dump", "--only", "d.x_float_more_0_1"])
            .exits(4)
            .says(&["x_float_more_0_1", "other values"]);

        let mut wanted = BTreeSet::new();
        for case in &cases {
            let before = case.probe(&mut source);
            case.put(&mut source, case.to);
            if case.probe(&mut source) == before {
                // Recent versions of MariaDB keep no negative zero.
                assert_eq!((case.kind.name, case.to), ("double", "-0e0"), "{}", case.table);
            } else {
                wanted.insert(case.table.clone());
            }
        }
        let ended = pair.diff_with(&pair.from, "d.dump", &[]).exits(4);
        let name = |line: &str| {
            let name = line.strip_prefix("table ")?.split(" has ").next()?;
            Some(name.replace('`', ""))
        };
        let seen: BTreeSet<String> = ended.out.lines().filter_map(name).collect();
        let missed: Vec<_> = wanted.difference(&seen).collect();
        assert!(missed.is_empty() && wanted.len() > 200, "{missed:?}\n{}", ended.out);
        assert_eq!(seen.len(), wanted.len(), "{}", ended.out);
    });
}

/// Values beyond the members of an ENUM or a SET, as found in another table's data file.
#[test]
fn enum_and_set_values_without_a_name_are_compared() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = session(pair.source());
    let folder = std::path::PathBuf::from(source.about.datadir.clone()).join("d");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('a','b'), s SET('a','b'))",
        "INSERT INTO d.t VALUES (1, 1, 1), (2, 'bogus', 0), (3, 2, 3)",
        "CREATE TABLE d.more (id INT PRIMARY KEY, e ENUM('a','b','c'), s SET('a','b','c'))",
        "INSERT INTO d.more VALUES (1, 1, 1), (2, 3, 4), (3, 2, 3)",
    ] {
        source.execute(sql).unwrap();
    }
    pair.dump(&["d.t", "-o", "named"]).exits(0);
    source.execute("ALTER TABLE d.t DISCARD TABLESPACE").unwrap();
    source.execute("FLUSH TABLES d.more FOR EXPORT").unwrap();
    for end in ["ibd", "cfg"] {
        std::fs::copy(folder.join(format!("more.{end}")), folder.join(format!("t.{end}"))).unwrap();
    }
    source.execute("UNLOCK TABLES").unwrap();
    source.execute("ALTER TABLE d.t IMPORT TABLESPACE").unwrap();
    let odd = "SELECT CAST(e AS UNSIGNED), e, CAST(s AS UNSIGNED), s FROM d.t WHERE id = 2";
    let row: Vec<_> = source.strings(odd).unwrap().remove(0).into_iter().flatten().collect();
    assert_eq!(row, ["3", "", "4", ""]);
    assert!(
        pair.diff_with(&pair.from, "named", &["--only", "d.t"])
            .exits(4)
            .out
            .contains("`d`.`t` has other values")
    );
    pair.dump(&["d.t", "-o", "odd"]).exits(0);
    let text = std::fs::read(pair.path("odd/d.t/00000.tsv.zst")).unwrap();
    let mut lines = String::new();
    let mut decoder = codec::decoder(Box::new(std::io::Cursor::new(text))).unwrap().1;
    std::io::Read::read_to_string(&mut decoder, &mut lines).unwrap();
    assert_eq!(lines, "1\ta\ta\n2\t#3\t#4\n3\tb\ta,b\n");
    // What the server warns about counts only where the rows differ, or are not compared.
    let truncated = ["table `d`.`t`, chunk 0: ", "Data truncated"];
    let ended = pair.load(&["named"]).exits(0);
    assert!(!ended.err.contains("warning"), "{}", ended.err);
    pair.target().execute("DROP DATABASE d").unwrap();
    pair.load(&["named", "--no-verify"]).exits(0).says(&truncated);
    pair.target().execute("DROP DATABASE d").unwrap();
    pair.load(&["odd"]).exits(4).says(&["`d`.`t`", "other values"]).says(&truncated);
}

/// A change, its reversal (none for the last one), and the expected message.
const CHANGES: [(&str, &str, &str); 10] = [
    ("ALTER TABLE d.t ADD KEY more (v, id)", "ALTER TABLE d.t DROP KEY more", "`d`.`t`: defined otherwise"),
    ("ALTER TABLE d.t ADD n INT", "ALTER TABLE d.t DROP n", "column n; rows not compared"),
    (
        "ALTER TABLE d.t DROP KEY k, CHANGE v other VARCHAR(10), ADD KEY k (other)",
        "ALTER TABLE d.t DROP KEY k, CHANGE other v VARCHAR(10), ADD KEY k (v)",
        "d.dump: column v; only in root@",
    ),
    ("ALTER TABLE d.t DROP KEY k", "ALTER TABLE d.t ADD KEY k (v)", "`d`.`t`: defined otherwise"),
    (
        "ALTER TABLE d.t DEFAULT CHARACTER SET utf8",
        "ALTER TABLE d.t DEFAULT CHARACTER SET latin1",
        "`d`.`t`: defined otherwise",
    ),
    ("ALTER DATABASE d CHARACTER SET utf8", "ALTER DATABASE d CHARACTER SET latin1", "database `d`: defined"),
    (
        "REVOKE SELECT ON d.* FROM app@localhost",
        "GRANT SELECT ON d.* TO app@localhost",
        "grants `app`@`localhost`",
    ),
    (
        "GRANT DELETE ON d.* TO app@localhost",
        "REVOKE DELETE ON d.* FROM app@localhost",
        "grants `app`@`localhost`",
    ),
    (
        "ALTER TABLE d.m AUTO_INCREMENT = 90",
        "ALTER TABLE d.m AUTO_INCREMENT = 70",
        "`d`.`m`: AUTO_INCREMENT is 70",
    ),
    ("ALTER TABLE d.t AUTO_INCREMENT = 90", "", "`d`.`t`: AUTO_INCREMENT is 52 on one side and 90"),
];

/// What is not rows: definitions, counters, databases, accounts.
#[test]
fn every_definition_is_compared() {
    on_products(&of_today(products()), |product| {
        // One server keeps a binary log, and says so in its version; the other does not.
        let pair = Pair::new(product, product, &["--log-bin=log", "--server-id=1"]);
        let plain = Pair::new(product, product, &[]);
        let mut source = pair.source();
        for sql in [
            "CREATE DATABASE d CHARACTER SET latin1",
            "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(10), KEY k (v)) AUTO_INCREMENT = 50",
            "INSERT INTO d.t (v) VALUES ('a'), ('b')",
            "CREATE TABLE d.m (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=MyISAM AUTO_INCREMENT = 70",
            "CREATE VIEW d.w AS SELECT id FROM d.t",
            "CREATE USER app@localhost",
            "GRANT SELECT ON d.* TO app@localhost",
        ] {
            source.execute(sql).unwrap();
        }
        pair.dump(&["-o", "d.dump"]).exits(0);
        let folder = pair.path("d.dump");
        let dump = folder.to_str().unwrap();
        plain.load(&[dump]).exits(0);
        let diff = || {
            let url = format!("unix://{}", plain.to.socket().display());
            plain.run(&["diff", "--no-defaults", "-u", "root", dump, &url])
        };
        diff().exits(0);
        let mut target = plain.target();
        for (change, back, words) in CHANGES {
            target.execute(change).unwrap_or_else(|error| panic!("{change}: {error}"));
            let ended = diff().exits(4);
            assert!(ended.out.contains(words), "{change}: {}", ended.out);
            if !back.is_empty() {
                target.execute(back).unwrap();
                diff().exits(0);
            }
        }
    });
}
