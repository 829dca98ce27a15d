//! `remora log` shows of real servers' logs what the servers themselves show.

use std::path::Path;

use sandbox::{Family, Product, Sandbox, Settings};
use serde_json::Value;
use server::Session;

use crate::extract::{data, execute, folder, mariadb, run, session};
use crate::support::{Ended, connect, mariadbs, of_today, on_products, places, products, start, tell, until};

/// A server with a binary log, and these options.
pub(crate) fn logging(product: Product, options: &[&str]) -> Sandbox {
    let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW"];
    start(product, &[&own[..], options].concat())
}

/// The lines of JSON of one kind.
fn lines(ended: &Ended, kind: &str) -> Vec<Value> {
    let all = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|line| line["message_type"] == kind).collect()
}

pub(crate) fn log(folder: &Path, server: &Sandbox, arguments: &[&str]) -> Ended {
    run(folder, &[&["log", &data(server)][..], arguments].concat())
}

/// What a server shows of its log: file, position, kind, end, text.
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

/// MySQL 5.6 has no numbers by default: a group begins with BEGIN, or is a statement alone.
#[test]
fn transactions_of_mysql_begin_where_the_server_says() {
    let mysql: Vec<Product> =
        of_today(products().into_iter().filter(|product| product.family() == Family::MySql).collect());
    on_products(&mysql, |product| {
        tell(product);
        let folder = folder();
        let server = logging(product, &[]);
        let mut session = session(&server);
        execute(&mut session, &HISTORY[..10]);
        let ended = log(folder.path(), &server, &["--json"]).exits(0);
        let found: Vec<u64> =
            lines(&ended, "transaction").iter().map(|line| line["position"].as_u64().unwrap()).collect();
        let (mut said, mut is_open, mut is_said) = (Vec::new(), false, false);
        for [_, at, kind, _, text] in events(&mut session) {
            let begins = text == "BEGIN";
            // MySQL 5.7 and later begin with an event for the number, if there is one or not.
            let is_number = kind.ends_with("Gtid");
            if is_number || kind == "Query" && !is_open && text != "COMMIT" && !is_said {
                said.push(at.parse::<u64>().unwrap());
            }
            is_said = is_number;
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
fn filters_find_the_matching_transactions() {
    let product = mariadbs()[0];
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
    let nameless = log(folder.path(), &server, &["--where", "v=B"]).exits(3).says(&["app.t", "--schema"]);
    assert_eq!(nameless.out, "");
    assert_eq!(shown(&["--until", "-1h"]), Vec::<String>::new());
    assert_eq!(shown(&["--since", "-1h", "--table", "app.u"]).len(), 1);
    let rows = log(folder.path(), &server, &["--rows", "--where", "@2=B"]).exits(0).out;
    assert!(rows.contains("    ~ @1=2 @2='b' -> 'B'\n") && !rows.contains("@1=1"), "{rows}");
    let stat = log(folder.path(), &server, &["--stat"]).exits(0).out;
    assert!(stat.starts_with("transactions "), "{stat}");
    assert!(stat.lines().any(|line| line.split_whitespace().eq(["3", "1", "1", "2", "app.t"])), "{stat}");
    let all = log(folder.path(), &server, &["--json"]).exits(0);
    let gtids: Vec<String> =
        lines(&all, "transaction").iter().map(|line| line["gtid"].as_str().unwrap().to_owned()).collect();
    let range = format!("{}-{}", gtids[1], gtids[2]);
    assert_eq!(shown(&["--gtid", &range]).len(), 2);
    assert_eq!(shown(&["--gtid", &gtids[3]]).len(), 1);
    log(folder.path(), &server, &["--gtid", "0-1"]).exits(2).says(&["0-1-42"]);
    let absent = format!("{},0-1-99999", gtids[3]);
    let ended = log(folder.path(), &server, &["--gtid", &absent]).exits(3);
    assert_eq!(ended.out.lines().count(), 1);
    ended.says(&["there is no transaction 0-1-99999 in this log"]);
    log(folder.path(), &server, &["--where", "nix=1", "--schema", "t.sql"])
        .exits(3)
        .says(&["no table of these transactions has the columns that --where names"]);
}

#[test]
fn damage_and_cut_files_are_reported_with_their_position() {
    let product = mariadbs()[0];
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
    look("foreign", b"no log").exits(2).says(&["not a binary log"]);
    run(folder.path(), &["log", "."]).exits(1).says(&["there is no binary log here"]);
}

/// Where a server says that the rest is encrypted, a reader ends: what follows looks like damage.
#[test]
fn an_encrypted_log_says_how_to_read_it() {
    let product = mariadbs()[0];
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

/// The names of columns are in this log.
const NAMED: &str = "--binlog-row-metadata=FULL";

#[test]
fn only_matching_rows_are_shown() {
    for product in mariadb() {
        let folder = folder();
        let server = logging(product, &[NAMED]);
        execute(
            &mut session(&server),
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))",
                "CREATE TABLE u (id INT, v VARCHAR(9))",
                "BEGIN",
                "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
                "INSERT INTO u VALUES (1, 'a')",
                "UPDATE t SET v = 'b' WHERE id = 1",
                "DELETE FROM t WHERE id = 2",
                "COMMIT",
                "INSERT INTO t VALUES (3, 'z')",
            ],
        );
        let rows = |arguments: &[&str]| {
            let ended = log(folder.path(), &server, &[&["--rows"], arguments].concat()).exits(0);
            let rows = ended.out.lines().filter(|line| line.starts_with("    ")).map(str::trim);
            rows.map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let [first, second, changed, gone] =
            ["+ id=1 v='a'", "+ id=2 v=NULL", "~ id=1 v='a' -> 'b'", "- id=2 v=NULL"];
        let later = "+ id=3 v='z'";
        assert_eq!(rows(&[]), [first, second, first, changed, gone, later]);
        assert_eq!(rows(&["--table", "app.t"]), [first, second, changed, gone, later]);
        assert_eq!(rows(&["--table", "app.t", "--where", "ID=2"]), [second, gone]);
        assert_eq!(rows(&["--table", "app.u", "--table", "*.t", "--where", "v=b"]), [changed]);
        assert_eq!(rows(&["--where", "v=null"]), [second, gone]);
        // Both hold in the row, but in no image of it.
        assert_eq!(rows(&["--where", "v=a", "--where", "v=b"]), Vec::<String>::new());
        let ended = log(folder.path(), &server, &["--rows", "--json", "--where", "v=b"]).exits(0);
        let row = lines(&ended, "row").remove(0);
        assert_eq!(row["before"], serde_json::json!({"id": 1, "v": "a"}));
        assert_eq!(row["after"], serde_json::json!({"id": 1, "v": "b"}));
        assert_eq!([&row["schema"], &row["table"], &row["change"]], ["app", "t", "update"]);
    }
}

#[test]
fn values_that_are_not_logged_are_shown_as_question_marks() {
    let product = mariadbs()[0];
    let folder = folder();
    let server = logging(product, &[NAMED, "--binlog-row-image=MINIMAL"]);
    execute(
        &mut session(&server),
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)",
            "INSERT INTO t VALUES (1, 2, 3)",
            "UPDATE t SET v = 4",
            "DELETE FROM t",
        ],
    );
    let rows = log(folder.path(), &server, &["--rows"]).exits(0).out;
    assert!(rows.contains("    ~ id=1 v=? -> 4\n") && rows.contains("    - id=1\n"), "{rows}");
}

#[test]
fn statements_are_found_by_their_text_and_have_no_tables() {
    let product = mariadbs()[0];
    let folder = folder();
    let server = logging(product, &["--local-infile=1", "--binlog-format=STATEMENT"]);
    std::fs::write(folder.path().join("v.tsv"), "7\n").unwrap();
    let mut session = session(&server);
    execute(&mut session, &["CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)"]);
    let load = format!("LOAD DATA INFILE '{}/v.tsv' INTO TABLE t", folder.path().display());
    execute(&mut session, &[&load, "ALTER TABLE t ADD v INT"]);
    let shown = |arguments: &[&str]| {
        let ended = log(folder.path(), &server, arguments).exits(0);
        ended.out.lines().map(|line| line.split("   ").last().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--statement", "alter table T add"]), ["ALTER TABLE t ADD v INT"]);
    assert_eq!(shown(&["--statement", "load data"]).len(), 1);
    assert_eq!(shown(&["--statement", "create table"]).len(), 2);
    let ended = log(folder.path(), &server, &["--table", "app.t"]).exits(0);
    ended.says(&["statements left out", "--statement searches them", "0 transactions"]);
}

/// A transaction may go on in the next relay log: there its rows are read from the beginning of the file.
#[test]
fn a_transaction_in_two_relay_logs_is_one() {
    let product = mariadbs()[0];
    let folder = folder();
    let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", NAMED].map(str::to_owned).to_vec();
    let settings = Settings { options: own, port: Some(0), ..Settings::default() };
    let source = Sandbox::start(&sandbox::find(&places(), product).unwrap(), &places(), &settings).unwrap();
    let options = ["--server-id=8", "--relay-log=relay", "--max-relay-log-size=4096", "--relay-log-purge=0"];
    let replica = start(product, &options);
    let mut session = session(&source);
    let filler = "x".repeat(200);
    let many = (0..100).map(|id| format!("({id}, '{filler}')")).collect::<Vec<_>>().join(", ");
    execute(
        &mut session,
        &[
            "CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'",
            "GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'",
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(250))",
            "BEGIN",
            &format!("INSERT INTO t VALUES {many}"),
            "UPDATE t SET id = id + 1000 WHERE id = 99",
            "COMMIT",
        ],
    );
    let mut copy = connect(replica.socket());
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy', MASTER_PASSWORD = 'x', \
         MASTER_SSL = 0, MASTER_USE_GTID = slave_pos",
        source.port().unwrap()
    );
    execute(&mut copy, &[&change, "START SLAVE"]);
    until("the rows are there", || {
        copy.value("SELECT COUNT(*) FROM app.t").is_ok_and(|rows| rows.as_deref() == Some("100"))
    });
    execute(&mut copy, &["STOP SLAVE"]);
    let index = replica.data().join("relay.index");
    let index = index.to_str().unwrap();
    let ended = run(folder.path(), &["log", index, "--table", "app.t", "--rows", "--json"]).exits(0);
    let transaction = lines(&ended, "transaction").remove(0);
    assert_ne!(transaction["file"], transaction["end_file"], "{transaction}");
    let rows = lines(&ended, "row");
    assert_eq!(rows.len(), 101);
    assert_eq!([&rows[98]["after"]["id"], &rows[100]["after"]["id"]], [98, 1099]);
}

#[test]
fn the_exit_code_says_that_something_was_left_out() {
    let product = mariadbs()[0];
    let folder = folder();
    let mut server = logging(product, &[]);
    let mut session = session(&server);
    execute(&mut session, &HISTORY[..11]);
    let events = events(&mut session);
    drop(session);
    server.stop().unwrap();
    let path = folder.path();
    for name in ["binlog.000001", "binlog.000002"] {
        std::fs::copy(server.data().join(name), path.join(name)).unwrap();
    }
    let whole = run(path, &["log", "binlog.000001", "binlog.000002"]).exits(0);
    // The index says where the files were; they are beside it now.
    std::fs::write(path.join("binlog.index"), "/gone/binlog.000001\n./binlog.000002\n").unwrap();
    assert_eq!(run(path, &["log", "."]).exits(0).out, whole.out);
    std::fs::write(path.join("binlog.index"), "./binlog.000001\n./binlog.000009\n").unwrap();
    let ended = run(path, &["log", "."]).exits(3).says(&["./binlog.000009, which is not there"]);
    assert_eq!(ended.out, whole.out);
    std::fs::write(path.join("other.index"), "").unwrap();
    run(path, &["log", "."]).exits(2).says(&["name one", "binlog.index", "other.index"]);
    run(path, &["log", "absent"]).exits(1).says(&["absent"]);
    run(path, &["log", "binlog.000001", "--where", "v"]).exits(2).says(&["COLUMN=VALUE"]);
    run(path, &["log", "binlog.000001", "--since", "yesterday"]).exits(2).says(&["-10m"]);
    let contrary = ["log", "binlog.000001", "--since", "-1h", "--until", "-2h"];
    run(path, &contrary).exits(2).says(&["--since is not before --until"]);
    // It was closed, and ends behind an event and within a transaction.
    let [_, at, ..] = events.iter().find(|event| event[2] == "Delete_rows_v1").unwrap();
    let bytes = std::fs::read(path.join("binlog.000001")).unwrap();
    std::fs::write(path.join("half"), &bytes[..at.parse::<usize>().unwrap()]).unwrap();
    let ended = run(path, &["log", "half"]).exits(4).says(&["is not there; it is not shown"]);
    assert!(whole.out.starts_with(&ended.out) && ended.out.lines().count() == 4, "{}", ended.out);
}
