//! `remora log` says of real servers' logs what these themselves say.

use std::path::Path;

use sandbox::{Family, Product, Sandbox};
use serde_json::Value;
use server::Session;

use crate::extract::{data, execute, folder, mariadb, run, session};
use crate::support::{Ended, on_products, products, start, tell};

/// A server with a binary log, and these options.
fn logging(product: Product, options: &[&str]) -> Sandbox {
    let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW"];
    start(product, &[&own[..], options].concat())
}

/// The lines of JSON of one kind.
fn lines(ended: &Ended, kind: &str) -> Vec<Value> {
    let all = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|line| line["message_type"] == kind).collect()
}

fn log(folder: &Path, server: &Sandbox, arguments: &[&str]) -> Ended {
    run(folder, &[&["log", &data(server)][..], arguments].concat())
}

/// What a server says of its log: file, position, kind, end, text.
fn events(session: &mut Session) -> Vec<[String; 5]> {
    let mut all = Vec::new();
    for file in session.strings("SHOW BINARY LOGS").unwrap() {
        let name = file[0].clone().unwrap();
        for event in session.strings(&format!("SHOW BINLOG EVENTS IN '{name}'")).unwrap() {
            let cell = |at: usize| event[at].clone().unwrap_or_default();
            all.push([cell(0), cell(1), cell(2), cell(4), cell(5)]);
        }
    }
    all
}

/// Statements of every form and format, in several files.
const HISTORY: [&str; 34] = [
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50)) ENGINE=InnoDB",
    "CREATE TABLE m (id INT) ENGINE=MyISAM",
    "INSERT INTO t (v) VALUES ('a'), ('b'), ('c')",
    "BEGIN",
    "UPDATE t SET v = 'B' WHERE id = 2",
    "SAVEPOINT here",
    "INSERT INTO t (v) VALUES ('gone')",
    "ROLLBACK TO here",
    "DELETE FROM t WHERE id = 1",
    "COMMIT",
    "FLUSH BINARY LOGS",
    "SET SESSION binlog_format = STATEMENT",
    "SET @v = 'variable'",
    "INSERT INTO t (v) VALUES (@v), (CONCAT(RAND()))",
    "BEGIN",
    "INSERT INTO m VALUES (1)",
    "INSERT INTO t (v) VALUES ('rolled back')",
    "ROLLBACK",
    "SET SESSION binlog_format = MIXED",
    "UPDATE t SET v = UUID() WHERE id = 3",
    "UPDATE t SET v = 'mixed' WHERE id = 3",
    "SET SESSION binlog_format = ROW",
    "BEGIN",
    "INSERT INTO m VALUES (2)",
    "INSERT INTO t (v) VALUES ('rolled back too')",
    "ROLLBACK",
    "CREATE TABLE s SELECT * FROM t",
    "TRUNCATE TABLE m",
    "XA START 'x'",
    "INSERT INTO t (v) VALUES ('xa')",
    "XA END 'x'",
    "XA PREPARE 'x'",
    "XA COMMIT 'x'",
    "DROP TABLE s, m",
];

/// Whatever the options, the groups are those between the server's GTID events, and lie where these say.
#[test]
fn transactions_are_those_of_the_server() {
    for product in mariadb() {
        for options in [
            &["--binlog-checksum=NONE", "--log-bin-compress=1", "--log-bin-compress-min-len=10"][..],
            &["--binlog-checksum=CRC32", "--binlog-row-image=MINIMAL", "--binlog-annotate-row-events=0"],
        ] {
            tell(format!("{product} {options:?}"));
            let folder = folder();
            let server = logging(product, options);
            let mut session = session(&server);
            execute(&mut session, &HISTORY);
            execute(&mut session, &["SET SESSION gtid_domain_id = 5", "INSERT INTO t (v) VALUES ('other')"]);
            let ended = log(folder.path(), &server, &["--json"]).exits(0);
            let shown = |line: &Value| {
                let part = |key: &str| line[key].as_str().unwrap().to_owned();
                (part("file"), line["position"].as_u64().unwrap(), part("gtid"))
            };
            let found: Vec<_> = lines(&ended, "transaction").iter().map(shown).collect();
            let said = events(&mut session).into_iter().filter(|event| event[2] == "Gtid");
            let said: Vec<_> = said
                .map(|[file, at, _, _, text]| {
                    let gtid = text.rsplit("GTID ").next().unwrap().split(' ').next().unwrap().to_owned();
                    (file, at.parse::<u64>().unwrap(), gtid)
                })
                .collect();
            assert!(said.len() > 15);
            assert_eq!(found, said);
            let gtid = &said.last().unwrap().2;
            assert!(gtid.starts_with("5-7-"), "{gtid}");
        }
    }
}

/// MySQL 5.6 has no numbers: a group begins with BEGIN, or is a statement alone.
#[test]
fn transactions_of_mysql_are_found_without_gtids() {
    let mysql: Vec<Product> =
        products().into_iter().filter(|product| product.family() == Family::MySql).collect();
    on_products(&mysql, |product| {
        tell(product);
        let folder = folder();
        let server = logging(product, &[]);
        let mut session = session(&server);
        execute(&mut session, &HISTORY[..10]);
        let ended = log(folder.path(), &server, &["--json"]).exits(0);
        let found: Vec<u64> =
            lines(&ended, "transaction").iter().map(|line| line["position"].as_u64().unwrap()).collect();
        let (mut said, mut is_open) = (Vec::new(), false);
        for [_, at, kind, _, text] in events(&mut session) {
            let begins = text == "BEGIN";
            if kind == "Query" && !is_open && text != "COMMIT" {
                said.push(at.parse::<u64>().unwrap());
            }
            is_open = (is_open || begins) && kind != "Xid" && text != "COMMIT";
        }
        assert_eq!(found, said);
    });
}

/// What `--rows` shows of a row is what SELECT says, for a table with many types.
#[test]
fn values_are_those_of_select() {
    const COLUMNS: [(&str, &str); 16] = [
        ("TINYINT UNSIGNED", "255"),
        ("MEDIUMINT", "-8388608"),
        ("BIGINT", "-9223372036854775808"),
        ("BIGINT UNSIGNED", "18446744073709551615"),
        ("DECIMAL(30,10)", "-12345678901234567890.0123456789"),
        ("DOUBLE", "0.1"),
        ("YEAR", "2155"),
        ("DATE", "'2026-02-28'"),
        ("TIME(3)", "'-838:59:58.999'"),
        ("DATETIME(6)", "'9999-12-31 23:59:59.999999'"),
        ("TIMESTAMP(2) NULL", "'2026-11-23 10:00:00.25'"),
        ("CHAR(10)", "'it''s'"),
        ("VARCHAR(300)", "REPEAT('\u{e4}', 150)"),
        ("TEXT CHARACTER SET latin1", "'gr\u{fc}n'"),
        ("ENUM('a', 'b''c')", "'b''c'"),
        ("SET('x', 'y', 'z')", "'x,z'"),
    ];
    for product in mariadb() {
        let folder = folder();
        let server = logging(product, &["--binlog-row-metadata=FULL"]);
        let mut session = session(&server);
        let defined = COLUMNS.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}"));
        let defined = defined.collect::<Vec<_>>().join(", ");
        let values: Vec<&str> = COLUMNS.iter().map(|(_, value)| *value).collect();
        execute(
            &mut session,
            &[
                "SET time_zone = '+00:00', NAMES utf8mb4",
                &format!("CREATE TABLE t ({defined})"),
                &format!("INSERT INTO t VALUES ({})", values.join(", ")),
            ],
        );
        let select = session.strings("SELECT * FROM t").unwrap().remove(0);
        let ended = log(folder.path(), &server, &["--rows", "--json", "--table", "app.t"]).exits(0);
        let row = lines(&ended, "row").remove(0);
        for (at, expected) in select.into_iter().enumerate() {
            let value = &row["after"][format!("c{at}")];
            let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            assert_eq!(Some(value), expected, "{}", COLUMNS[at].0);
        }
    }
}

#[test]
fn filters_find_what_they_are_asked_for() {
    let product = mariadb().next().unwrap();
    let folder = folder();
    let server = logging(product, &[]);
    let mut session = session(&server);
    execute(&mut session, &HISTORY[..10]);
    execute(
        &mut session,
        &["CREATE TABLE u (id INT, n INT UNSIGNED)", "INSERT INTO u VALUES (1, 4294967295)"],
    );
    let table = session.strings("SHOW CREATE TABLE t").unwrap().remove(0)[1].clone().unwrap();
    std::fs::write(folder.path().join("t.sql"), format!("USE app;\n{table};\n")).unwrap();
    let shown = |arguments: &[&str]| {
        let ended = log(folder.path(), &server, arguments).exits(0);
        let lines = ended.out.lines().map(|line| line.splitn(4, "  ").skip(2).collect::<String>());
        lines.map(|line| line.split("   ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--table", "*.u"]), ["app.uinsert 1"]);
    assert_eq!(shown(&["--statement", "delete FROM T"]), ["app.tupdate 1, delete 1"]);
    // Without names of columns, by number; with them, by name. The image before counts too.
    assert_eq!(shown(&["--where", "@2=b"]), ["app.tinsert 1", "app.tupdate 1"]);
    assert_eq!(shown(&["--where", "v=B", "--where", "id=2", "--schema", "t.sql"]), ["app.tupdate 1"]);
    assert_eq!(shown(&["--where", "@2=4294967295"]), ["app.uinsert 1"]);
    let nameless = log(folder.path(), &server, &["--where", "v=B"]).exits(0).says(&["app.t", "--schema"]);
    assert_eq!(nameless.out, "");
    assert_eq!(shown(&["--until", "-1h"]), Vec::<String>::new());
    assert_eq!(shown(&["--since", "-1h", "--table", "app.u"]).len(), 1);
    let rows = log(folder.path(), &server, &["--rows", "--where", "@2=B"]).exits(0).out;
    assert!(rows.contains("    ~ @1=2 @2='b' -> 'B'\n") && !rows.contains("@1=1"), "{rows}");
    let stat = log(folder.path(), &server, &["--stat"]).exits(0).out;
    assert!(stat.lines().any(|line| line.split_whitespace().eq(["3", "1", "1", "2", "app.t"])), "{stat}");
    let all = log(folder.path(), &server, &["--json"]).exits(0);
    let gtids: Vec<String> =
        lines(&all, "transaction").iter().map(|line| line["gtid"].as_str().unwrap().to_owned()).collect();
    let range = format!("{}-{}", gtids[1], gtids[2]);
    assert_eq!(shown(&["--gtid", &range]).len(), 2);
    assert_eq!(shown(&["--gtid", &gtids[3]]).len(), 1);
    log(folder.path(), &server, &["--gtid", "0-1"]).exits(2).says(&["0-1-42"]);
}

#[test]
fn damage_is_told_with_its_place_and_a_cut_file_too() {
    let product = mariadb().next().unwrap();
    let folder = folder();
    let mut server = logging(product, &[]);
    let mut session = session(&server);
    execute(&mut session, &HISTORY[..10]);
    let events = events(&mut session);
    drop(session);
    let copy = std::fs::read(server.data().join("binlog.000001")).unwrap();
    server.stop().unwrap();
    let whole = std::fs::read(server.data().join("binlog.000001")).unwrap();
    let look = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        run(folder.path(), &["log", name])
    };
    let transactions = look("whole", &whole).exits(0).out;
    // A server that runs writes the file still: its last event may be half there.
    let half = &copy[..copy.len() - 3];
    let torn = look("torn", half).exits(0).says(&["is writing it, or was killed", "not there yet"]);
    assert!(transactions.starts_with(&torn.out) && torn.out.len() < transactions.len());
    look("cut", &whole[..whole.len() - 3])
        .exits(4)
        .says(&["cut: it ends within the event at", "the file was cut"]);
    let [_, at, ..] = events.iter().find(|event| event[2] == "Update_rows_v1").unwrap();
    let mut damaged = whole.clone();
    damaged[at.parse::<usize>().unwrap() + 25] ^= 1;
    let place = format!("damaged: wrong checksum (Update_rows_v1 at {at})");
    let ended = look("damaged", &damaged).exits(4).says(&[&place]);
    assert!(transactions.starts_with(&ended.out) && !ended.out.is_empty());
    look("foreign", b"no log").exits(2).says(&["it is no binary log"]);
    run(folder.path(), &["log", "."]).exits(1).says(&["there is no binary log here"]);
}

/// Where a server says that the rest is encrypted, a reader ends: what follows looks like damage.
#[test]
fn an_encrypted_log_says_how_to_read_it() {
    let product = mariadb().next().unwrap();
    let folder = folder();
    let server = logging(product, &["--binlog-checksum=NONE"]);
    execute(&mut session(&server), &HISTORY[..3]);
    let mut copy = std::fs::read(server.data().join("binlog.000001")).unwrap();
    let whole = copy.len();
    // The scheme, the version of the key, a nonce; then what nobody can read.
    copy.extend_from_slice(&[0, 0, 0, 0, 164, 7, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]);
    copy.extend_from_slice(&[7; 12 + 100]);
    std::fs::write(folder.path().join("log"), &copy).unwrap();
    let at = format!("from {} on it is encrypted", whole + 36);
    let ended = run(folder.path(), &["log", "log"]).exits(3).says(&[&at, "--read-from-remote-server"]);
    assert_eq!(ended.out.lines().count(), 4);
}
