//! Definitions to the last byte, under other names, and on servers that spell them otherwise.

use std::collections::BTreeMap;
use std::process::Command;

use sandbox::Product;
use server::Session;
use server::text::text;

use super::{Alone, Pair};

/// What is defined in database d, in the bytes that the server gives.
fn shown(session: &mut Session) -> BTreeMap<&'static str, Vec<Vec<Option<String>>>> {
    const OBJECTS: [&str; 8] = [
        "TABLE d.t",
        "VIEW d.v",
        "VIEW d.`v latin1`",
        "PROCEDURE d.p",
        "PROCEDURE d.gbk",
        "FUNCTION d.f",
        "TRIGGER d.tr",
        "EVENT d.e",
    ];
    session.execute("SET character_set_results = NULL").unwrap();
    let ask = |session: &mut Session, object: &'static str| {
        let mut rows = session.strings(&format!("SHOW CREATE {object}")).unwrap();
        // A trigger's last column says when it was made.
        rows.iter_mut().for_each(|row| row.truncate(7 - usize::from(object.starts_with("TRIGGER"))));
        (object, rows)
    };
    OBJECTS.into_iter().map(|object| ask(session, object)).collect()
}

/// Defaults, literals with introducers, and programs of clients with other character sets have bytes that are
/// not UTF-8, or mean something else in it.
#[test]
fn bytes_in_definitions_are_restored() {
    let alone = Alone::new(&[]);
    let mut session = alone.session();
    let mut run = |statements: &[&[u8]]| {
        for sql in statements {
            session.execute(&text(sql.to_vec())).unwrap_or_else(|error| panic!("{sql:?}: {error}"));
        }
    };
    run(&[
        b"CREATE DATABASE d CHARACTER SET utf8mb4",
        b"CREATE TABLE d.t (id INT PRIMARY KEY, a VARBINARY(5) DEFAULT 0xFE, b VARBINARY(4) DEFAULT 0x00ff80, \
          c BINARY(4) DEFAULT 0x27FE5C0A, n VARCHAR(9) DEFAULT 'what?', e VARCHAR(9) DEFAULT '\xf0\x9f\x98\x80''\\\\', \
          u VARCHAR(3) CHARACTER SET utf16 DEFAULT '\xf0\x9f\x98\x80', l VARCHAR(3) CHARACTER SET latin1 DEFAULT '\xc3\xa9', \
          m VARCHAR(9) NOT NULL DEFAULT '\xf0\x9f\x98\x80') DEFAULT CHARACTER SET utf8mb4",
        b"INSERT INTO d.t (id) VALUES (1), (2)",
        b"CREATE VIEW d.v AS SELECT _binary 0xFF AS a, _utf16 0xD83DDE00 AS b, _latin1 0xE9 AS c",
        b"CREATE FUNCTION d.f() RETURNS BLOB DETERMINISTIC RETURN _binary'\xff' /* \xfe */",
        b"SET NAMES latin1",
        b"USE d",
        b"CREATE VIEW `v latin1` AS SELECT '\xe9' AS `\xe9`, _binary'\xff' AS b",
        b"CREATE PROCEDURE p() SELECT '\xe9', _binary'\xff' AS `\xe9`",
        b"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @a = '\xe9'",
        b"CREATE EVENT e ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01' DO SET @a = _binary'\xe9\xff'",
        b"SET NAMES gbk",
        b"CREATE PROCEDURE gbk() SELECT '\xbf\\', '\xb0\xa1'",
    ]);
    let before = shown(&mut alone.session());
    alone.run("dump", &["d", "-o", "a"]).exits(0);
    alone.sql(&["DROP DATABASE d"]);
    let ended = alone.run("load", &["a"]).exits(0);
    assert!(!ended.err.contains("rewritten"), "{}", ended.err);
    assert_eq!(shown(&mut alone.session()), before);
    assert_eq!(
        alone.value("SELECT HEX(CONCAT(a, b, c, e, m)) FROM d.t LIMIT 1"),
        "FE00FF8027FE5C0AF09F9880275CF09F9880"
    );
    alone.diff("a", &[]).exits(0);

    // The files of statements say the same, to a client that takes no byte of a letter for a backslash.
    alone.sql(&["DROP PROCEDURE d.gbk"]);
    alone.run("dump", &["d", "-o", "b"]).exits(0);
    alone.sql(&["DROP DATABASE d"]);
    for file in ["schema/1-tables.sql", "schema/2-programs.sql"] {
        let ended = Command::new(sandbox::client().unwrap())
            .args(["--no-defaults", "--comments", "-u", "root", "-S"])
            .arg(alone.server.socket())
            .stdin(std::fs::File::open(alone.path("b").join(file)).unwrap())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{file}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    alone.sql(&["INSERT INTO d.t (id) VALUES (1), (2)"]);
    alone.diff("b", &[]).exits(0);

    // A comparison sees each byte.
    alone.sql(&["DROP DATABASE d"]);
    alone.run("load", &["a"]).exits(0);
    let mut session = alone.session();
    for sql in [
        &b"ALTER TABLE d.t ALTER a SET DEFAULT 0xFD"[..],
        b"CREATE OR REPLACE VIEW d.v AS SELECT _binary 0xFD AS a, _utf16 0xD83DDE00 AS b, _latin1 0xE9 AS c",
        b"CREATE OR REPLACE FUNCTION d.f() RETURNS BLOB DETERMINISTIC RETURN _binary'\xfd' /* \xfe */",
    ] {
        session.execute(&text(sql.to_vec())).unwrap();
    }
    let ended = alone.diff("a", &[]).exits(4);
    for title in [
        "table `d`.`t`: defined otherwise",
        "view `d`.`v`: defined otherwise",
        "function `d`.`f`: defined otherwise",
    ] {
        assert!(ended.out.contains(title), "{}", ended.out);
    }
}

/// A table comes back beside itself, without what its database may have only once; and a load asks about
/// nothing but what it loads.
#[test]
fn a_table_is_loaded_under_another_name() {
    let alone = Alone::new(&[]);
    let mut session = alone.session();
    let mut run = |sql: &str| session.execute(sql).map(drop).unwrap_or_else(|error| panic!("{sql}: {error}"));
    [
        "CREATE DATABASE d",
        "CREATE TABLE d.p (id INT PRIMARY KEY)",
        "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, p INT, a VARCHAR(9), CONSTRAINT fk FOREIGN KEY (p) REFERENCES d.p (id) \
         ON DELETE CASCADE, CONSTRAINT ck CHECK (p > 0))",
        "CREATE TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW SET NEW.a = CONCAT(NEW.a, '!')",
        "INSERT INTO d.p VALUES (1)",
        "INSERT INTO d.t (p, a) VALUES (1, 'x'), (NULL, 'y')",
    ]
    .into_iter()
    .for_each(&mut run);
    (0..40).for_each(|at| run(&format!("CREATE TABLE d.other{at} (id INT)")));
    alone.run("dump", &["d.t", "d.p", "-o", "a"]).exits(0);
    alone.run("load", &["a", "--as", "d.t2"]).exits(1).says(&["2 are selected", "--only db.table"]);
    let asked = || -> u64 {
        let sql = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Com_show_create_table'";
        alone.value(sql).parse().unwrap()
    };
    let before = asked();
    let ended = alone.run("load", &["a", "--only", "d.t", "--as", "d.t2"]).exits(3);
    assert!(asked() - before <= 4, "{} definitions were asked for", asked() - before);
    let ended =
        ended.says(&["foreign key `fk` of table `d`.`t2`", "trigger `d`.`tr`: --as loads the table alone"]);
    assert!(ended.err.contains("all rows read back and equal"), "{}", ended.err);
    let sum =
        |table: &str| alone.value(&format!("SELECT GROUP_CONCAT(id, '-', IFNULL(p, 0), a) FROM {table}"));
    assert_eq!((sum("d.t2"), alone.value("SELECT COUNT(*) FROM d.t")), (sum("d.t"), "2".to_owned()));
    let made = alone.session().definition(&"d.t2".parse().unwrap()).unwrap();
    assert!(
        made.contains("CONSTRAINT `ck`")
            && !made.contains("FOREIGN KEY")
            && made.contains("AUTO_INCREMENT=3"),
        "{made}"
    );

    // Into a database that is made as the table's own was; then the name is taken.
    alone.run("load", &["a", "--only", "d.t", "--as", "`new.d`.t"]).exits(3);
    assert_eq!(sum("`new.d`.t"), sum("d.t"));
    alone.run("load", &["a", "--only", "d.t", "--as", "`new.d`.t"]).exits(1).says(&["exists on the target"]);
    assert_eq!(
        alone.value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '_remora'"),
        "0"
    );
}

/// A server that has all names in lower case, and one that stores times as MariaDB 5.3 did. The database with
/// remora's own notes is no difference.
#[test]
fn servers_that_spell_otherwise_are_equal() {
    let product = Product::MariaDb1011;
    let mut pair = Pair::new(product, product, &[]);
    pair.to = crate::support::start(product, &["--lower-case-table-names=1"]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE `UpDB`",
        "SET GLOBAL mysql56_temporal_format = OFF",
        "CREATE TABLE `UpDB`.`Old` (Id INT PRIMARY KEY, T TIME(3) DEFAULT '10:00:00', D DATETIME(6), S TIMESTAMP(2) NULL)",
        "SET GLOBAL mysql56_temporal_format = ON",
        "INSERT INTO `UpDB`.`Old` VALUES (1, '-11:12:13.014', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.67')",
        "CREATE TABLE `UpDB`.`MixT` (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES `Old` (Id))",
        "CREATE VIEW `UpDB`.`ViEw` AS SELECT m.id FROM `UpDB`.`MixT` AS m",
        "CREATE PROCEDURE `UpDB`.`PrOc`() SELECT 'Aa'",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert!(source.definition(&"UpDB.Old".parse().unwrap()).unwrap().contains("mariadb-5.3"));
    pair.dump(&["UpDB", "-o", "a"]).exits(0);
    pair.load(&["a"]).exits(0);
    let mut target = pair.target();
    target.execute("CREATE DATABASE _remora").unwrap();
    target.execute("CREATE TABLE _remora.load_1 (id INT)").unwrap();
    pair.diff("a", &[]).exits(0);
    target.execute("ALTER TABLE updb.mixt ADD k INT").unwrap();
    let ended = pair.diff("a", &[]).exits(4);
    let is_told = ended.out.contains("table `UpDB`.`MixT`: only in ") && ended.out.contains(": column k;");
    assert!(is_told, "{}", ended.out);
}
