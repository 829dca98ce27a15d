//! A table that a file fills is what the same rows make of it with INSERT.

use std::process::Command;

use physical::Error;
use sandbox::Sandbox;
use server::Session;

use crate::change::{change, change_again};
use crate::support::{
    Copy, connect, definition, execute, file, of_today, on_products_at_once, part_of_today, products, quoted,
    rows, sound, start,
};

/// Tables of every type and of every shape of keys.
const TABLES: &str = include_str!("../tables.sql");

fn names(session: &mut Session) -> Vec<String> {
    let tables = session.strings("SHOW TABLES").unwrap();
    tables.into_iter().flatten().flatten().filter(|name| !name.starts_with("copy of")).collect()
}

fn checksum(session: &mut Session, table: &str) -> Option<String> {
    session.strings(&format!("CHECKSUM TABLE {} EXTENDED", quoted(table))).unwrap().remove(0).remove(1)
}

/// The columns of each index, as they are compared: the name of the index, and its columns.
fn indexes(session: &mut Session, table: &str) -> Vec<(String, Vec<String>)> {
    let found = session
        .strings(&format!(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = 'a-b' AND \
             table_name = {} AND index_type != 'SPATIAL' AND index_type != 'HASH' ORDER BY index_name, seq_in_index",
            session.quote(table)
        ))
        .unwrap();
    let mut indexes: Vec<(String, Vec<String>)> = Vec::new();
    for row in found {
        let [Some(name), Some(column)] = <[_; 2]>::try_from(row).unwrap() else { panic!("{table}") };
        match indexes.last_mut().filter(|last| last.0 == name) {
            Some(last) => last.1.push(column),
            None => indexes.push((name, vec![column])),
        }
    }
    indexes
}

/// Compares two tables in all that a server can tell.
pub(crate) fn same(session: &mut Session, one: &str, other: &str) {
    if definition(session, one).contains(" GENERATED ALWAYS AS ") {
        // The server's sum is another one in each table that has computed columns, whoever filled it.
        let select = |table: &str| format!("SELECT * FROM {}", quoted(table));
        assert!(session.rows(&select(other)).unwrap() == session.rows(&select(one)).unwrap(), "{other}");
    } else {
        assert_eq!(checksum(session, other), checksum(session, one), "{other}");
    }
    sound(session, &quoted(other));
    let sorted = |text: String, name: &str| server::definition::sorted(&text.replace(&quoted(name), "x"));
    let definitions = [definition(session, one), definition(session, other)];
    let [first, second] = definitions;
    assert_eq!(sorted(second.clone(), other), sorted(first.clone(), one));
    assert_eq!(server::definition::counter(&second), server::definition::counter(&first), "{other}");
    for (index, columns) in indexes(session, one) {
        let name = quoted(&index);
        let list: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        // The index alone, in its order; then look-ups by it.
        let scan = |table: &str| {
            let values: Vec<String> =
                list.iter().map(|column| format!("HEX(CAST({column} AS BINARY))")).collect();
            let order: Vec<String> =
                list.iter().map(|column| format!("{column} IS NULL, {column}")).collect();
            format!(
                "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', {0}))) FROM {1} FORCE INDEX ({name}) WHERE {2} IS NULL OR {2} = {2} ORDER BY {3}",
                values.join(", "),
                quoted(table),
                list[0],
                order.join(", ")
            )
        };
        assert_eq!(
            session.strings(&scan(other)).unwrap(),
            session.strings(&scan(one)).unwrap(),
            "{other} {index}"
        );
        let on: Vec<String> = list.iter().map(|column| format!("r.{column} <=> c.{column}")).collect();
        let join = |table: &str| {
            format!(
                "SELECT COUNT(*) FROM (SELECT * FROM {} ORDER BY {} LIMIT 300) r STRAIGHT_JOIN {} c FORCE INDEX ({name}) ON {}",
                quoted(one),
                list.join(", "),
                quoted(table),
                on.join(" AND ")
            )
        };
        let (found, expected) = (session.value(&join(other)).unwrap(), session.value(&join(one)).unwrap());
        assert_eq!(found, expected, "{other} {index}");
    }
}

fn innochecksum(server: &Sandbox, table: &str) {
    let output = Command::new("innochecksum").arg(file(server, table)).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{table}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn every_written_table_equals_an_inserted_one() {
    on_products_at_once(|product| {
        let mut server = start(product, &[]);
        let mut session = connect(&server);
        TABLES
            .split(";\n")
            .filter(|statement| !statement.is_empty())
            .for_each(|statement| execute(&mut session, statement));
        let tables = names(&mut session);
        assert_eq!(tables.len(), 23);
        let tables = part_of_today(tables, 5);
        for table in &tables {
            let rows = rows(&mut session, &server, table);
            let definition = definition(&mut session, table);
            let copy = format!("copy of {table}");
            let made = Copy::new(&copy, &definition).make(&mut session, &rows);
            let made = made.unwrap_or_else(|error| panic!("{product} {table}: {error}"));
            assert_eq!(made.rows, rows.len() as u64);
            same(&mut session, table, &copy);
        }
        for table in &tables {
            let copy = format!("copy of {table}");
            change(&mut session, table, &copy);
            same(&mut session, table, &copy);
        }
        drop(session);
        server.stop().unwrap();
        server.restart().unwrap();
        let mut session = connect(&server);
        // What only the log has of these changes is recovered from it.
        for table in &tables {
            let copy = format!("copy of {table}");
            same(&mut session, table, &copy);
            change_again(&mut session, table, &copy);
        }
        server.kill().unwrap();
        server.restart().unwrap();
        let mut session = connect(&server);
        for table in &tables {
            same(&mut session, table, &format!("copy of {table}"));
        }
        drop(session);
        server.stop().unwrap();
        for table in &tables {
            innochecksum(&server, &format!("copy of {table}"));
        }
    });
}

/// What is left in the data folder of a database, but of tables that are known.
pub(crate) fn strays(server: &Sandbox) -> Vec<String> {
    let folder = server.data().join("a@002db");
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("_remora") || name.ends_with(".cfg")).collect()
}

#[test]
fn a_row_that_fails_leaves_the_target_and_no_file() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        execute(
            &mut session,
            "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a < 9000), UNIQUE KEY a (a))",
        );
        execute(&mut session, "INSERT INTO t SELECT seq, seq FROM seq_1_to_5000");
        let definition = definition(&mut session, "t");
        let mut rows = rows(&mut session, &server, "t");
        execute(&mut session, "TRUNCATE TABLE t");
        let fails = |session: &mut Session, rows: &[innodb::write::Row], words: &str| {
            let error = Copy::new("t", &definition).make(session, rows).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(session.value("SELECT COUNT(*) FROM t").unwrap().as_deref(), Some("0"));
            assert_eq!(
                session
                    .value("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'a-b'")
                    .unwrap()
                    .as_deref(),
                Some("1")
            );
            assert_eq!(strays(&server), [""; 0]);
        };
        let good = rows.clone();
        rows.swap(70, 80);
        fails(&mut session, &rows, "is out of order");
        rows = good.clone();
        rows[71] = rows[70].clone();
        fails(&mut session, &rows, "duplicate entry '71' for the key `PRIMARY`");
        // The same value in another row of a unique key, and one that breaks a constraint.
        let set = |row: &mut innodb::write::Row, value: i32| {
            let id = row.get(0).unwrap().to_vec();
            row.clear();
            row.push(Some(&id));
            row.push(Some(&(value.cast_unsigned() ^ 1 << 31).to_be_bytes()));
        };
        rows = good.clone();
        set(&mut rows[70], 4000);
        fails(&mut session, &rows, "duplicate entry '4000' for the key `a`");
        rows = good.clone();
        set(&mut rows[70], 9500);
        fails(&mut session, &rows, "1 rows break the constraint");
        let mut broken =
            |row: usize| if row == 4000 { Err(Error::Input("the input is torn".into())) } else { Ok(()) };
        let error = Copy::new("t", &definition).make_but(&mut session, &good, &mut broken).unwrap_err();
        assert_eq!(error.to_string(), "the input is torn");
        assert_eq!(strays(&server), [""; 0]);
        Copy::new("t", &definition).make(&mut session, &good).unwrap();
        assert_eq!(session.value("SELECT SUM(a) FROM t").unwrap().as_deref(), Some("12502500"));
        assert_eq!(strays(&server), [""; 0]);
    }
}

#[test]
fn a_counter_may_be_at_its_end() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        for (kind, last) in [
            ("TINYINT", "127"),
            ("SMALLINT UNSIGNED", "65534"),
            ("BIGINT", "9223372036854775807"),
            ("BIGINT UNSIGNED", "18446744073709551614"),
        ] {
            execute(&mut session, &format!("CREATE TABLE t (id {kind} AUTO_INCREMENT PRIMARY KEY)"));
            execute(&mut session, &format!("INSERT INTO t VALUES (5), ({last})"));
            let rows = rows(&mut session, &server, "t");
            let definition = definition(&mut session, "t");
            let copy = Copy::new("copy of t", &definition);
            let empty = definition.replace(&definition[definition.find(" AUTO_INCREMENT=").unwrap()..], "");
            for definition in [&definition, &empty] {
                let made = Copy { definition, ..copy }.make(&mut session, &rows);
                made.unwrap_or_else(|error| panic!("{product} {kind}: {error}"));
                same(&mut session, "t", "copy of t");
                execute(&mut session, "DROP TABLE `copy of t`");
            }
            execute(&mut session, "DROP TABLE t");
        }
    }
}

#[test]
fn rows_in_any_order_are_sorted_in_little_memory() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        execute(
            &mut session,
            "CREATE TABLE t (a INT UNSIGNED AUTO_INCREMENT, b VARBINARY(32), c BLOB, PRIMARY KEY (a), KEY b (b))",
        );
        execute(
            &mut session,
            "INSERT INTO t SELECT seq, MD5(seq), IF(seq % 1000, NULL, REPEAT('c', 20000)) FROM seq_1_to_30000",
        );
        let definition = definition(&mut session, "t");
        let mut rows = rows(&mut session, &server, "t");
        rows.sort_by_key(innodb::write::Row::hash);
        let copy = Copy { sorted: false, memory: 200_000, ..Copy::new("copy of t", &definition) };
        copy.make(&mut session, &rows).unwrap();
        same(&mut session, "t", "copy of t");
        let again = [&rows[..], &rows[500..501]].concat();
        let id = u32::from_be_bytes(rows[500].get(0).unwrap().try_into().unwrap());
        let error = Copy { target: "other", ..copy }.make(&mut session, &again).unwrap_err();
        let words = format!("duplicate entry '{id}' for the key `PRIMARY`");
        assert!(error.to_string().contains(&words), "{error}");
        let Error::Row { place, earlier, .. } = error else { panic!("{error}") };
        assert_eq!((place, earlier), (30000, Some(500)));
    }
}

#[test]
fn keys_of_a_collation_are_sorted_by_the_servers_weights() {
    // Words that differ in letters, accents, case, and in what is behind them.
    const WORDS: &str = "SELECT seq % 7, CONCAT(ELT(seq % 9 + 1, 'a', 'B', 'c', 'D', '\u{e4}', '\u{df}', 'Ss', '\u{c9}t\u{e9}', ''), \
                         ELT(seq % 5 + 1, '', '\\t', '!', '\u{d8}', 'z'), IF(seq % 20, seq, '')), seq FROM seq_1_to_1000";
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        let keys = [
            "w VARCHAR(30) COLLATE utf8mb4_general_ci, PRIMARY KEY (w)",
            "w VARCHAR(200) COLLATE utf8mb4_unicode_ci, PRIMARY KEY (a, w)",
            "w CHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, PRIMARY KEY (w, a)",
            "w VARCHAR(30) COLLATE utf8mb4_unicode_520_nopad_ci, PRIMARY KEY (w)",
            "w TEXT CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci, PRIMARY KEY (w (20))",
            "w VARCHAR(30) CHARACTER SET utf16 COLLATE utf16_bin, PRIMARY KEY (w)",
            "w VARCHAR(30) COLLATE utf8mb4_uca1400_as_cs, PRIMARY KEY (a DESC, w)",
        ];
        for key in keys {
            execute(&mut session, &format!("CREATE TABLE t (a INT NOT NULL, b INT, {key})"));
            execute(&mut session, &format!("INSERT IGNORE INTO t (a, w, b) {WORDS}"));
            let definition = definition(&mut session, "t");
            let mut rows = rows(&mut session, &server, "t");
            assert!(rows.len() > 600, "{key}");
            rows.sort_by_key(innodb::write::Row::hash);
            let copy = Copy { memory: 100_000, ..Copy::new("copy of t", &definition) };
            let error = copy.make(&mut session, &rows).unwrap_err();
            assert!(matches!(error, Error::Unsorted(_)), "{key}: {error}");
            let copy = Copy { sorted: false, ..copy };
            copy.make(&mut session, &rows).unwrap_or_else(|error| panic!("{product} {key}: {error}"));
            same(&mut session, "t", "copy of t");
            let again = [&rows[..], &rows[500..501]].concat();
            let error = Copy { target: "other", ..copy }.make(&mut session, &again).unwrap_err();
            assert!(error.to_string().contains("duplicate entry"), "{key}: {error}");
            let Error::Row { place, earlier, .. } = error else { panic!("{error}") };
            assert_eq!((place, earlier), (rows.len() as u64, Some(500)), "{key}");
            assert_eq!(strays(&server), [""; 0]);
            execute(&mut session, "DROP TABLE t, `copy of t`");
        }
    }
}

#[test]
fn tables_that_can_t_be_written_as_files_are_refused_before_any_change() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE parent (id INT PRIMARY KEY)");
        for (columns, words) in [
            (
                "id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES parent (id)",
                "foreign keys",
            ),
            ("id INT PRIMARY KEY, t TEXT, FULLTEXT (t)", "FULLTEXT"),
            (
                "id INT, a DATE, b DATE, PERIOD FOR p (a, b), PRIMARY KEY (id, p WITHOUT OVERLAPS)",
                "WITHOUT OVERLAPS",
            ),
            (
                "id INT PRIMARY KEY, n INT, a DATE, b DATE, PERIOD FOR p (a, b), UNIQUE (n, p WITHOUT OVERLAPS)",
                "WITHOUT OVERLAPS",
            ),
            ("id INT PRIMARY KEY, s INT AS (id + 1) STORED", "`s` is computed"),
            ("g GEOMETRY NOT NULL, PRIMARY KEY (g (10))", "the order of its primary key"),
            ("id INT PRIMARY KEY) WITH SYSTEM VERSIONING COMMENT='' /* ", "system-versioned"),
            ("id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2 /* ", "partitioned"),
            ("id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED /* ", "ROW_FORMAT=COMPRESSED"),
            ("id INT PRIMARY KEY) ENGINE=Aria /* ", "engine"),
            ("a VARCHAR(9) CHARACTER SET latin1, i INT AUTO_INCREMENT, KEY (i, a)", "AUTO_INCREMENT"),
        ] {
            let end = if columns.ends_with("/* ") { "*/" } else { ")" };
            execute(&mut session, &format!("CREATE TABLE t ({columns} {end}"));
            let definition = definition(&mut session, "t");
            let error =
                Copy { sorted: false, ..Copy::new("t", &definition) }.make(&mut session, &[]).unwrap_err();
            assert!(
                matches!(error, Error::Refused(_)) && error.to_string().contains(words),
                "{columns}: {error}"
            );
            assert_eq!(strays(&server), [""; 0]);
            execute(&mut session, "DROP TABLE t");
        }
    }
}

#[test]
fn a_target_that_can_t_change_its_place_is_refused() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY)");
        let definition = definition(&mut session, "t");
        let fails = |session: &mut Session, words: &str| {
            let error = Copy::new("t", &definition).make(session, &[]).unwrap_err();
            assert!(
                matches!(error, Error::Refused(_) | Error::Taken(_)) && error.to_string().contains(words),
                "{words}: {error}"
            );
        };
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = format!("{definition} DATA DIRECTORY='{}'", folder.path().display());
        for (definition, words) in
            [(elsewhere, "elsewhere"), (definition.replace("int(11)", "bigint(20)"), "another definition")]
        {
            let error = Copy::new("t", &definition).make(&mut session, &[]).unwrap_err();
            assert!(matches!(error, Error::Refused(_)) && error.to_string().contains(words), "{error}");
        }
        for (before, words, after) in [
            ("INSERT INTO t VALUES (1)", "has rows", "TRUNCATE TABLE t"),
            ("CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @x = 1", "has triggers", "DROP TRIGGER x"),
            (
                "CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES t (id))",
                "foreign keys of other tables",
                "DROP TABLE child",
            ),
            (
                "SET GLOBAL innodb_file_per_table = 0",
                "innodb_file_per_table",
                "SET GLOBAL innodb_file_per_table = 1",
            ),
            (
                "SET GLOBAL innodb_compression_default = 1",
                "innodb_compression_default",
                "SET GLOBAL innodb_compression_default = 0",
            ),
            (
                "SET GLOBAL innodb_default_row_format = redundant",
                "innodb_default_row_format",
                "SET GLOBAL innodb_default_row_format = dynamic",
            ),
        ] {
            execute(&mut session, before);
            fails(&mut session, words);
            execute(&mut session, after);
        }
        Copy::new("t", &definition).make(&mut session, &[]).unwrap();
    }
}

#[test]
fn rows_are_counted_where_no_other_session_can_be_had() {
    let server = start(products()[0], &[]);
    let mut session = connect(&server);
    execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_3000");
    let definition = definition(&mut session, "t");
    let rows = rows(&mut session, &server, "t");
    let copy = Copy { alone: true, ..Copy::new("copy of t", &definition) };
    assert_eq!(copy.make(&mut session, &rows).unwrap().rows, 3000);
}

#[test]
fn the_binary_log_misses_rows_only_where_it_may() {
    for product in of_today() {
        let server = start(product, &["--log-bin", "--server-id=1"]);
        let mut session = connect(&server);
        execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)");
        execute(&mut session, "INSERT INTO t VALUES (1, 2)");
        let definition = definition(&mut session, "t");
        let rows = rows(&mut session, &server, "t");
        let copy = Copy::new("copy of t", &definition);
        let error = copy.make(&mut session, &rows).unwrap_err();
        assert!(error.to_string().contains("binary log"), "{error}");
        let position = |session: &mut Session| session.named_row("SHOW MASTER STATUS").unwrap()[1].1.clone();
        let before = position(&mut session);
        for logs in ["1", "0"] {
            execute(&mut session, &format!("SET sql_log_bin = {logs}"));
            Copy { unlogged: true, ..copy }.make(&mut session, &rows).unwrap();
            assert_eq!(position(&mut session), before, "nothing of it is logged");
            assert_eq!(session.value("SELECT @@sql_log_bin").unwrap().as_deref(), Some(logs));
            execute(&mut session, "SET sql_log_bin = 0");
            execute(&mut session, "DROP TABLE `copy of t`");
        }
    }
}
