//! Relaying a queue to another server while everything in between is killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{Ability, Product, Sandbox, Settings};
use server::Session;

use crate::support::{
    Ended, Running, connect, copy_program, of_today, places, products, remora, skipped, tell, until,
};

/// The engine that `cargo xtask plugin` built for a server. None for a server that takes none; recorded as
/// skipped if it could not be built, which the first server does not allow.
pub(crate) fn library(test: &str, product: Product) -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap();
    let library = program.ancestors().nth(3).unwrap().join("plugin").join(product.id()).join("ha_queue.so");
    if !product.can(Ability::Queue) {
        return None;
    }
    if library.is_file() {
        return Some(library);
    }
    assert_ne!(product, Product::MariaDb1011, "no {}: cargo xtask plugin builds it", library.display());
    skipped(&format!("{test} on {product}"), "the engine could not be built for it");
    None
}

/// A server with the engine.
pub(crate) fn start() -> Sandbox {
    let library = library("start", Product::MariaDb1011).unwrap();
    let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let options = vec!["--innodb-buffer-pool-size=16M".to_owned()];
    let settings = Settings { plugins: vec![library], options, ..Settings::default() };
    let server = Sandbox::start(&installation, &places(), &settings).unwrap();
    let mut session = connect(server.socket());
    install(&mut session);
    session.execute("CREATE DATABASE shop").unwrap();
    server
}

/// Loads the engine and its functions.
pub(crate) fn install(session: &mut Session) {
    let lines = include_str!("../../../../sql/queue.sql").lines().filter(|line| !line.starts_with("--"));
    lines.for_each(|statement| drop(session.execute(statement).unwrap()));
}

pub(crate) fn url(server: &Sandbox) -> String {
    format!("unix://{}", server.socket().display())
}

pub(crate) fn count(server: &Sandbox, table: &str) -> u64 {
    let mut session = connect(server.socket());
    session.value(&format!("SELECT COUNT(*) FROM {table}")).unwrap().unwrap().parse().unwrap()
}

fn forward(from: &Sandbox, to: &Sandbox, rest: &[&str]) -> Command {
    let mut command = remora(&PathBuf::from("/"));
    command.args(["queue", "forward", &url(from), "shop.jobs", &url(to)]).args(rest);
    command.args(["--no-defaults", "-uroot"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_relay_delivers_each_row_once_after_any_kill() {
    const ROWS: u64 = 1200;
    let (mut from, mut to) = (start(), start());
    let table = "CREATE TABLE shop.jobs (v INT NOT NULL, body TEXT) ENGINE=QUEUE";
    connect(from.socket()).execute(table).unwrap();
    connect(to.socket()).execute(table).unwrap();
    let fill = format!("INSERT INTO shop.jobs SELECT seq, REPEAT('j', 500) FROM shop.seq_1_to_{ROWS}");
    connect(from.socket()).execute(&fill).unwrap();
    // The program.
    for part in 1..4 {
        let running = Running::new(forward(&from, &to, &[]).spawn().unwrap());
        until("some rows came", || count(&to, "shop.jobs") >= part * 100);
        drop(running);
    }
    // The destination is killed, then the source; the program continues by itself. It has connected once it
    // brings rows.
    let before = count(&to, "shop.jobs");
    let mut running = Running::new(forward(&from, &to, &[]).spawn().unwrap());
    until("some rows came", || count(&to, "shop.jobs") >= (before + 100).min(ROWS));
    to.kill().unwrap();
    to.restart().unwrap();
    let before = count(&to, "shop.jobs");
    until("it continues", || count(&to, "shop.jobs") >= (before + 100).min(ROWS));
    from.kill().unwrap();
    from.restart().unwrap();
    let before = count(&to, "shop.jobs");
    until("it continues", || count(&to, "shop.jobs") >= (before + 100).min(ROWS));
    running.must_run();
    drop(running);
    until("its row is back", || {
        let owned = "SELECT COUNT(*) FROM information_schema.queue_owned";
        connect(from.socket()).value(owned).unwrap().as_deref() == Some("0")
    });
    Ended::of(&forward(&from, &to, &["--once"]).output().unwrap()).exits(0).says(&["rows forwarded"]);
    assert_eq!(count(&from, "shop.jobs"), 0);
    let once = "SELECT COUNT(*), COUNT(DISTINCT v), MIN(v), MAX(v) FROM shop.jobs";
    let found = connect(to.socket()).strings(once).unwrap();
    let found: Vec<u64> = found[0].iter().map(|text| text.as_ref().unwrap().parse().unwrap()).collect();
    assert_eq!(found, [ROWS, ROWS, 1, ROWS]);
}

#[test]
fn each_reader_of_a_queue_has_its_own_forwarder() {
    let (from, to) = (start(), start());
    let mut session = connect(from.socket());
    session.execute("CREATE TABLE shop.jobs (v INT NOT NULL) ENGINE=QUEUE KEEP=99 READERS='a,b'").unwrap();
    session.execute("INSERT INTO shop.jobs VALUES (1), (2), (3)").unwrap();
    for reader in ["a", "b"] {
        let into = format!("CREATE TABLE shop.{reader} (v INT NOT NULL) ENGINE=QUEUE");
        connect(to.socket()).execute(&into).unwrap();
    }
    let forward = |queue: &str, into: &str| {
        let mut command = remora(&PathBuf::from("/"));
        command.args(["queue", "forward", &url(&from), queue, &url(&to), into, "--once"]);
        Ended::of(&command.args(["--no-defaults", "-uroot"]).output().unwrap())
    };
    forward("shop.jobs", "shop.a").exits(1).says(&["a, b"]);
    forward("shop.jobs@c", "shop.a").exits(1).says(&["a, b"]);
    for reader in ["a", "b"] {
        for rows in ["3 rows forwarded", "0 rows forwarded"] {
            forward(&format!("shop.jobs@{reader}"), &format!("shop.{reader}")).exits(0).says(&[rows]);
        }
        assert_eq!(count(&to, &format!("shop.{reader}")), 3);
    }
    assert_eq!(count(&from, "shop.jobs"), 0);
}

/// Another connection normally doesn't see these rows.
#[test]
fn a_dump_includes_owned_rows() {
    let server = start();
    let mut owner = connect(server.socket());
    owner.execute("CREATE TABLE shop.jobs (v INT NOT NULL) ENGINE=QUEUE").unwrap();
    owner.execute("INSERT INTO shop.jobs VALUES (1), (2), (3)").unwrap();
    assert_eq!(owner.value("SELECT queue_wait('shop.jobs', 0)").unwrap().as_deref(), Some("1"));
    let folder = tempfile::tempdir().unwrap();
    let dump = |arguments: &[&str]| {
        let mut command = remora(folder.path());
        Ended::of(&command.arg("dump").args(arguments).output().unwrap()).exits(0)
    };
    let socket = server.socket().to_str().unwrap();
    dump(&["shop", "-o", "dump", "--no-defaults", "-uroot", "--socket", socket]);
    let list = dump(&["--list", "dump"]).out;
    assert!(list.lines().any(|line| line.contains("jobs") && line.contains(" 3 ")), "{list}");
    assert_eq!(owner.value("SELECT queue_end()").unwrap().as_deref(), Some("1"));
}

/// They show what has happened to a row, and an INSERT ignores them.
#[test]
fn columns_that_a_queue_fills_are_not_dumped() {
    let server = start();
    let mut session = connect(server.socket());
    for sql in [
        "CREATE TABLE shop.jobs (v INT NOT NULL, n INT NULL, w TEXT NULL) ENGINE=QUEUE TRIES=9 failed=n WHY=w",
        "INSERT INTO shop.jobs VALUES (1, 7, 'nobody'), (2, NULL, NULL)",
        "SET @leased = queue_lease_json(30, 1, 'shop.jobs', 0)",
        "SELECT queue_nack(JSON_VALUE(@leased, '$[0].token'), 0, 'no such host')",
    ] {
        session.execute(sql).unwrap();
    }
    let shown = "SELECT GROUP_CONCAT(CONCAT_WS(' ', v, n, w) ORDER BY v) FROM shop.jobs";
    assert_eq!(session.value(shown).unwrap().as_deref(), Some("1 1 no such host,2 0"));
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let line =
            [arguments, &["--no-defaults", "-uroot", "--socket", server.socket().to_str().unwrap()]].concat();
        Ended::of(&remora(folder.path()).args(line).output().unwrap())
    };
    run(&["dump", "shop", "-o", "dump"]).exits(0);
    session.execute("DROP DATABASE shop").unwrap();
    run(&["load", "dump"]).exits(0);
    assert_eq!(session.value(shown).unwrap().as_deref(), Some("1 0,2 0"));
    Ended::of(
        &remora(folder.path()).args(["diff", "dump", &url(&server), "--no-defaults"]).output().unwrap(),
    )
    .exits(0);
}

#[test]
fn a_sandbox_with_plugins_has_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("remora");
    copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &program);
    let urls = std::env::current_exe().unwrap().with_file_name("liburlpack_udf.so");
    std::fs::copy(urls, folder.path().join("liburlpack_udf.so")).unwrap();
    let run = |arguments: &[&str]| Command::new(&program).arg("sandbox").args(arguments).output().unwrap();
    let sql = "CREATE DATABASE IF NOT EXISTS d; CREATE OR REPLACE TABLE d.q (v INT) ENGINE=QUEUE TRANSACTIONAL=1; \
        INSERT INTO d.q VALUES (7); SELECT v FROM d.q WHERE queue_wait('d.q', 0); SELECT queue_end()";
    for product in of_today(products()) {
        tell(product);
        let (data, name) =
            (folder.path().join("server"), format!("queue-{}-{}", product.id(), std::process::id()));
        let arguments = ["--server", product.id(), "--plugins", "--folder", data.to_str().unwrap()];
        let start = || run(&[&["start", &name], &arguments[..]].concat());
        // Without its library, or for a server that takes none, the message says what is missing.
        let started = start();
        let told = String::from_utf8(started.stderr).unwrap();
        assert!(started.status.success() && told.contains("without ENGINE=QUEUE"), "{told}");
        assert!(run(&["stop", &name, "--remove"]).status.success());
        let Some(library) = library("a_sandbox_with_plugins_has_the_engine", product) else { continue };
        let beside = folder.path().join(product.id());
        std::fs::create_dir(&beside).unwrap();
        std::fs::copy(library, beside.join("ha_queue.so")).unwrap();
        let started = start();
        let told = String::from_utf8(started.stderr).unwrap();
        assert!(started.status.success() && !told.contains("without"), "{told}");
        for when in ["after the first start", "started again without the option"] {
            let output = run(&["shell", &name, "--", "-BNe", sql]);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n1\n", "{when}: {output:?}");
            assert!(run(&["stop", &name]).status.success());
            assert!(run(&["start", &name]).status.success());
        }
        assert!(run(&["stop", &name, "--remove"]).status.success());
    }
}

#[test]
fn a_relay_carries_every_type_without_loss() {
    let (from, to) = (start(), start());
    let table = "CREATE TABLE shop.jobs (a TINYINT UNSIGNED, b BIGINT, c DECIMAL(30,10), d FLOAT, e DOUBLE, f DATE, g TIME(6), \
        h DATETIME(6), i TIMESTAMP(3) NULL, j YEAR, k CHAR(10), l VARCHAR(300) CHARACTER SET utf8mb4, m BLOB, n ENUM('x','y'), \
        o SET('x','y'), p BIT(40), q VARBINARY(20), r JSON, s POINT, t UUID, u INET6, v TEXT CHARACTER SET ucs2) ENGINE=QUEUE";
    let run = |session: &mut Session, sql: &str| drop(session.execute(sql).unwrap());
    let (mut source, mut destination) = (connect(from.socket()), connect(to.socket()));
    run(&mut source, table);
    run(&mut destination, table);
    run(
        &mut source,
        "INSERT INTO shop.jobs VALUES (255, -9223372036854775808, -12345678901234567890.0123456789, 0.1, 1/3, '2026-11-21', \
         '-838:59:59', '2026-11-21 23:59:59.999999', '2026-03-29 02:30:00.125', 1901, 'it''s', CONCAT('\\\\', CHAR(0), 0xf09f9982), \
         0x00ff5c27, 'y', 'x,y', b'1111000011110000111100001111000011110000', 0x00, '{\"a\": \"\\\\n\"}', POINT(1, 0.1), \
         '123e4567-e89b-12d3-a456-426655440000', '::1', 'wide')",
    );
    run(&mut source, "INSERT INTO shop.jobs () VALUES ()");
    run(&mut source, "INSERT INTO shop.jobs (a, l, m, r) VALUES (0, '', '', NULL)");
    let sum = |session: &mut Session| session.strings("CHECKSUM TABLE shop.jobs").unwrap()[0][1].clone();
    let before = sum(&mut source);
    Ended::of(&forward(&from, &to, &["--once"]).output().unwrap()).exits(0).says(&["3 rows forwarded"]);
    assert_eq!(sum(&mut destination), before);
    let output = remora(&PathBuf::from("/"))
        .args(["queue", "status", &url(&to), "--no-defaults", "-uroot", "--json"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"name\":\"shop.jobs\"") && text.contains("\"waiting\":3"), "{text}");
    // A table that is no queue, and a server without the engine.
    run(&mut source, "CREATE TABLE shop.plain (v INT) ENGINE=InnoDB");
    let mut command = remora(&PathBuf::from("/"));
    command.args(["queue", "forward", &url(&from), "shop.plain", &url(&to), "--no-defaults", "-uroot"]);
    Ended::of(&command.output().unwrap()).exits(1).says(&["no queue"]);
}

pub(crate) fn on(server: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = remora(&PathBuf::from("/"));
    command
        .arg("queue")
        .args(arguments)
        .args(["--no-defaults", "-S"])
        .arg(server.socket())
        .env("USER", "root");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Does several things while a tail is stopped, so that it sees only the state after the last of them.
fn held(running: &Running, work: impl FnOnce()) {
    running.signal("STOP");
    work();
    running.signal("CONT");
}

#[test]
fn a_tail_shows_rows_and_takes_none() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT, body VARCHAR(20), b VARBINARY(4)) ENGINE=QUEUE");
    run("INSERT INTO shop.jobs VALUES (1, 'a\tb', x'00ff'), (2, NULL, NULL)");
    run("SELECT queue_wait('shop.jobs')");
    let shown = Ended::of(&on(&server, &["tail", "shop.jobs", "--all", "--once"]).output().unwrap()).exits(0);
    assert_eq!(shown.out, "1\ta\\tb\t00FF\n2\tNULL\tNULL\n");
    let shown =
        Ended::of(&on(&server, &["tail", "shop.jobs", "--all", "--once", "--json"]).output().unwrap());
    let row = r#"{"message_type":"row","queue":"shop.jobs","row":{"v":"2","body":null,"b":null}}"#;
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert!(shown.exits(0).out.lines().any(|line| parsed(line) == parsed(row)));
    let mut running = Running::new(on(&server, &["tail", "shop.jobs"]).spawn().unwrap());
    running.until_says("from row 3 on");
    run("SELECT queue_end()");
    run("INSERT INTO shop.jobs VALUES (3, 'new', NULL)");
    run("INSERT INTO shop.jobs VALUES (4, 'newer', NULL)");
    let counted = connect(server.socket()).value("SELECT COUNT(*) FROM shop.jobs").unwrap();
    assert_eq!(counted.as_deref(), Some("3"));
    let mut lines = String::new();
    while lines.lines().count() < 2 {
        lines.push_str(&running.line());
    }
    assert_eq!(lines, "3\tnew\tNULL\n4\tnewer\tNULL\n");
    running.signal("TERM");
    running.end().exits(143);
    run("CREATE TABLE shop.plain (v INT)");
    let refused = Ended::of(&on(&server, &["tail", "shop.plain"]).output().unwrap());
    refused.exits(1).says(&["there is no queue"]);
    Ended::of(&on(&server, &["tail", "shop.nosuch"]).output().unwrap()).exits(1).says(&["no such table"]);
}

#[test]
fn a_bench_measures_and_leaves_nothing() {
    let server = start();
    let arguments = ["bench", "shop", "--connections", "2", "--seconds", "1", "--sync", "none"];
    let told = Ended::of(&on(&server, &arguments).output().unwrap()).exits(0);
    let words: Vec<&str> = told.out.split_whitespace().collect();
    assert_eq!((words[0], words[3]), ("published", "taken"), "{}", told.out);
    // Each published row was taken.
    assert_eq!(words[1], words[4]);
    assert!(words[1].parse::<u64>().unwrap() > 0);
    let json =
        Ended::of(&on(&server, &["bench", "shop", "--seconds", "1", "--json"]).output().unwrap()).exits(0);
    let summary: serde_json::Value = serde_json::from_str(json.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["published"], summary["taken"]);
    assert!(summary["p50_us"].as_u64().unwrap() <= summary["p99_us"].as_u64().unwrap());
    let left = connect(server.socket()).strings("SHOW TABLES FROM shop").unwrap();
    assert!(left.is_empty(), "{left:?}");
    Ended::of(&on(&server, &["bench", "nosuch"]).output().unwrap()).exits(1).says(&["no scratch table"]);
}

#[test]
fn a_relay_goes_from_a_queue_to_another_queue_alone() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE");
    run("INSERT INTO shop.jobs VALUES (1), (2)");
    run("CREATE TABLE shop.plain (v INT) ENGINE=InnoDB");
    run("CREATE TABLE shop.other LIKE shop.jobs");
    let ended = |into: &str| Ended::of(&forward(&server, &server, &[into, "--once"]).output().unwrap());
    ended("shop.plain").exits(1).says(&["`shop`.`plain`", "ENGINE=InnoDB", "make it with ENGINE=QUEUE"]);
    ended("shop.nosuch").exits(1).says(&["is not there", "ENGINE=QUEUE"]);
    ended("shop.jobs").exits(1).says(&["source and destination"]);
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.lacks (w INT) ENGINE=QUEUE");
    ended("shop.lacks").exits(1).says(&["`shop`.`lacks` has no column v", "ADD `v` int"]);
    assert_eq!((count(&server, "shop.jobs"), count(&server, "shop.plain")), (2, 0));
    // What nobody is given is not gone.
    session.value("SELECT queue_pause('shop.jobs')").unwrap();
    ended("shop.other").exits(1).says(&["`shop`.`jobs` is paused, or keys of it are, so rows of it stay"]);
    session.value("SELECT queue_resume('shop.jobs')").unwrap();
    session.execute("ALTER TABLE shop.jobs FIFO=v").unwrap();
    session.value("SELECT queue_pause('shop.jobs', 2)").unwrap();
    ended("shop.other").exits(1).says(&["`shop`.`jobs` is paused, or keys of it are"]);
    assert_eq!((count(&server, "shop.jobs"), count(&server, "shop.other")), (1, 1));
    session.value("SELECT queue_resume('shop.jobs', 2)").unwrap();
    ended("shop.other").exits(0).says(&["1 row forwarded"]);
    assert_eq!((count(&server, "shop.jobs"), count(&server, "shop.other")), (0, 2));
}

#[test]
fn a_tail_misses_only_rows_that_ended_between_two_reads() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE");
    run("INSERT INTO shop.jobs VALUES (1), (2), (3)");
    let all = ["tail", "shop.jobs", "--all", "--once"];
    for left in ["2\n3\n", "3\n", ""] {
        run("SELECT queue_wait('shop.jobs')");
        run("SELECT queue_end()");
        let shown = Ended::of(&on(&server, &all).output().unwrap()).exits(0);
        assert_eq!((shown.out.as_str(), shown.err.as_str()), (left, ""));
    }
    let mut running = Running::new(on(&server, &["tail", "shop.jobs", "--all"]).spawn().unwrap());
    running.until_says("from row 1 on");
    run("INSERT INTO shop.jobs VALUES (4)");
    assert_eq!(running.line().trim(), "4");
    held(&running, || {
        run("INSERT INTO shop.jobs VALUES (5), (6)");
        run("DELETE FROM shop.jobs");
    });
    running.until_says("2 rows were ended before they could be shown");
    running.signal("TERM");
    running.end().exits(143);
}

#[test]
fn a_tail_shows_columns_that_were_added_while_it_ran() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE");
    let mut running = Running::new(on(&server, &["tail", "shop.jobs"]).spawn().unwrap());
    running.until_says("from row 1 on");
    run("INSERT INTO shop.jobs VALUES (1)");
    assert_eq!(running.line().trim_end(), "1");
    held(&running, || {
        run("ALTER TABLE shop.jobs ADD w VARCHAR(9)");
        run("INSERT INTO shop.jobs VALUES (2, 'two')");
    });
    assert_eq!(running.line().trim_end(), "2\ttwo");
    running.until_says("has the columns v, w now");
    held(&running, || {
        run("ALTER TABLE shop.jobs DROP v");
        run("INSERT INTO shop.jobs VALUES ('three')");
    });
    assert_eq!(running.line().trim_end(), "three");
    running.signal("TERM");
    running.end().exits(143);
}

#[test]
fn a_table_without_a_database_is_taken_from_the_given_one() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE");
    run("CREATE TABLE shop.later LIKE shop.jobs");
    run("INSERT INTO shop.jobs VALUES (7)");
    let tail = |rest: &[&str]| {
        let arguments = [&["tail", "--all", "--once"], rest].concat();
        Ended::of(&on(&server, &arguments).output().unwrap())
    };
    assert_eq!(tail(&["jobs", "-D", "shop"]).exits(0).out, "7\n");
    tail(&["jobs"]).exits(2).says(&["write db.table, or give the database with -D"]);
    let mut relay = remora(&PathBuf::from("/"));
    relay.args(["queue", "forward", &url(&server), "jobs", &url(&server), "later", "--once", "-D", "shop"]);
    Ended::of(&relay.args(["--no-defaults", "-uroot"]).output().unwrap()).exits(0).says(&["1 row forwarded"]);
    assert_eq!((count(&server, "shop.jobs"), count(&server, "shop.later")), (0, 1));
}
