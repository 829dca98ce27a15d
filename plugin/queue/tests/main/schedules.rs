//! Schedules: the engine puts messages into queues at their times, each time once.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::kill::kills;
use crate::server::{Client, Server};

/// How many schedules are delivered at the same second, so that a kill finds some half done.
const SCHEDULES: usize = 20;

/// `at`: the expression, and its time zone.
fn add(client: &mut Client, name: &str, at: (&str, &str), target: &str, body: &str) {
    let (spec, zone) = at;
    client.run(&format!("CALL mysql.queue_schedule('{name}', '{spec}', '{zone}', '{target}', '{body}')"));
}

/// Waits until a statement has this value.
fn until(client: &mut Client, sql: &str, value: i64) {
    let started = Instant::now();
    while client.value(sql) != Some(value) {
        assert!(started.elapsed() < Duration::from_secs(60), "{sql}: {:?}", client.value(sql));
        client.run("DO SLEEP(0.02)");
    }
}

/// The ticks of each schedule that are in the queue, as seconds since 1970.
fn ticks(client: &mut Client) -> BTreeMap<String, Vec<i64>> {
    let mut ticks: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (name, at) in client.rows("SELECT name, CAST(UNIX_TIMESTAMP(at) AS SIGNED) FROM d.q") {
        ticks.entry(name).or_default().push(at);
    }
    ticks
}

/// Compares what was delivered with what the table says that it was: each second once.
fn compare(client: &mut Client) {
    let mut ticks = ticks(client);
    let rows: Vec<(String, i64, i64)> = client.rows(
        "SELECT name, CAST(CEILING(UNIX_TIMESTAMP(since)) AS SIGNED), CAST(FLOOR(UNIX_TIMESTAMP(COALESCE(last_tick, since))) AS SIGNED) \
         FROM mysql.queue_schedule",
    );
    assert_eq!(rows.len(), SCHEDULES);
    for (name, first, last) in rows {
        let delivered = ticks.remove(&name).unwrap_or_default();
        assert_eq!(delivered, (first..=last).collect::<Vec<i64>>(), "{name}");
    }
    assert_eq!(ticks, BTreeMap::new());
}

#[test]
fn each_tick_is_delivered_once_whenever_the_server_is_killed() {
    // Without a binary log the server has another coordinator of transactions, which starts only with it.
    for log in [&[][..], &["--log-bin=log"]] {
        let mut server = Server::start_with(&[&["--default-time-zone=+00:00"], log].concat());
        server.0.stop().unwrap();
        server.0.restart().unwrap();
        killed_again_and_again(server);
    }
}

fn killed_again_and_again(mut server: Server) {
    let mut client = server.connect("d");
    client.run("CREATE TABLE q (name VARCHAR(20), at DATETIME(6)) ENGINE=QUEUE TRANSACTIONAL=1");
    for of in 0..SCHEDULES {
        let name = format!("of {of}");
        let body = format!(r#"{{"name": "{name}", "at": "{{tick}}"}}"#);
        add(&mut client, &name, ("* * * * * *", "UTC"), "d.q", &body);
    }
    client.run("UPDATE mysql.queue_schedule SET missed = 'all'");
    let mut before = 0;
    for round in 0..kills(3) {
        let delivered = "SELECT COUNT(*) FROM d.q";
        let started = Instant::now();
        while client.value(delivered) <= Some(before) {
            assert!(started.elapsed() < Duration::from_secs(60), "nothing is delivered in round {round}");
        }
        // All are due at the same time, so that now some of them are being delivered.
        client.run(&format!("DO SLEEP({})", [0.0, 0.003, 0.006, 0.009, 0.012][round % 5]));
        let killed = Command::new("kill").args(["-9", &server.0.pid().to_string()]).status();
        assert!(killed.unwrap().success());
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        client = server.connect("d");
        // Nothing is due later than the ticks of the table say, and the connection stands in no other's way.
        client.run("LOCK TABLES mysql.queue_schedule READ, d.q READ");
        compare(&mut client);
        client.run("UNLOCK TABLES");
        before = client.value(delivered).unwrap();
    }
    server.0.stop().unwrap();
}

#[test]
fn what_is_wrong_with_a_schedule_is_told() {
    let server = Server::start_with(&["--log-bin=log"]);
    let mut client = server.connect("d");
    client.run("CREATE TABLE q (v INT, body TEXT CHARACTER SET utf8mb4) ENGINE=QUEUE TRANSACTIONAL=1");
    client.run("CREATE TABLE plain (v INT) ENGINE=QUEUE");
    client.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    for (spec, zone, why) in [
        ("61 * * * *", "UTC", "'61 * * * *' is not a cron expression: Number out of bounds"),
        ("0 0 30 2 *", "UTC", "'0 0 30 2 *' does not come within ten years"),
        ("@daily", "Mars/Base", "'Mars/Base' is not a time zone"),
    ] {
        let told =
            client.error(&format!("CALL mysql.queue_schedule('a', '{spec}', '{zone}', 'd.q', '{{}}')"));
        assert!(told.contains("1210") && told.contains(why), "{told}");
        let told = client.error(&format!("SELECT queue_next_tick('{spec}', '{zone}')"));
        assert!(told.contains(why), "{told}");
    }
    let told = client.error("CALL mysql.queue_schedule('a', '@daily', 'UTC', 'd.q', '{')");
    assert!(told.contains("CONSTRAINT"), "{told}");
    assert_eq!(client.value("SELECT COUNT(*) FROM mysql.queue_schedule"), Some(0));

    let every = "@every 1s";
    for (name, target, body) in [
        ("none", "d.none", r#"{"v": 1}"#),
        ("plain", "d.plain", r#"{"v": 1}"#),
        ("innodb", "d.i", r#"{"v": 1}"#),
        ("column", "d.q", r#"{"w": 1}"#),
        ("value", "d.q", r#"{"v": "x"}"#),
        ("list", "d.q", "[1]"),
        ("name", "q", r#"{"v": 1}"#),
        ("right", "`d`.q", r#"{"v": 12, "body": {"a": ["\\u00e9 \\\\ \\"", 1.50]}}"#),
    ] {
        add(&mut client, name, (every, "Europe/Berlin"), target, body);
    }
    // What was missed before it was enabled again is not made up for.
    client.run(
        "INSERT INTO mysql.queue_schedule (name, spec, target, body, missed, last_tick) \
         VALUES ('later', '@every 1h', 'd.q', '{\"v\": 1}', 'all', UTC_TIMESTAMP(6) - INTERVAL 3 HOUR)",
    );
    let later =
        "SELECT COUNT(*) FROM mysql.queue_schedule WHERE next_tick > UTC_TIMESTAMP() + INTERVAL 59 MINUTE";
    until(&mut client, later, 1);
    // By hand, past the procedure.
    client.run("INSERT INTO mysql.queue_schedule (name, spec, target, body) VALUES ('spec', '* * *', 'd.q', '{\"v\": 1}')");
    until(&mut client, "SELECT COUNT(*) FROM mysql.queue_schedule WHERE error IS NOT NULL", 8);
    let told: BTreeMap<String, String> = client
        .rows("SELECT name, error FROM mysql.queue_schedule WHERE error IS NOT NULL")
        .into_iter()
        .collect();
    for (name, why) in [
        ("none", "there is no table d.none"),
        ("plain", "d.plain takes no part in transactions; ALTER TABLE d.plain TRANSACTIONAL=1"),
        ("innodb", "d.i is not a queue; its engine is INNODB"),
        ("column", "Unknown column 'w'"),
        ("value", "Incorrect integer value: 'x'"),
        ("list", "the message is not a JSON object with a value for each column"),
        ("name", "'q' is not the name of a queue; write it as 'database.table'"),
        ("spec", "'* * *' is not a cron expression"),
    ] {
        assert!(told[name].starts_with(why), "{name}: {}", told[name]);
    }
    until(&mut client, "SELECT COUNT(*) > 1 FROM d.q", 1);
    let rows: Vec<(i64, String)> = client.rows("SELECT DISTINCT v, body FROM d.q");
    assert_eq!(rows, [(12, r#"{"a": ["\u00e9 \\ \"", 1.50]}"#.to_owned())]);
    client.run("CREATE TABLE none (v INT) ENGINE=QUEUE TRANSACTIONAL=1");
    client.run("ALTER TABLE plain TRANSACTIONAL=1");
    until(&mut client, "SELECT COUNT(*) FROM mysql.queue_schedule WHERE error IS NOT NULL", 6);
    until(&mut client, "SELECT COUNT(*) > 0 FROM d.none", 1);

    // Nothing comes once it is disabled, and the engine can be unloaded while its thread is at work.
    client.run("UPDATE mysql.queue_schedule SET enabled = 0");
    client.run("DROP DATABASE d");
    client.run("UNINSTALL SONAME 'ha_queue'");
}

#[test]
fn a_time_is_after_the_one_that_is_given() {
    let server = Server::start();
    let mut client = server.connect("d");
    let next: Vec<Option<String>> =
        client.rows("SELECT queue_next_tick('30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00:00')");
    assert_eq!(next, [Some("2026-03-29 01:00:00".to_owned())]);
    let next: Vec<Option<String>> =
        client.rows("SELECT queue_next_tick('@every 90s', '+02:00', '1969-12-31 23:59:59.5')");
    assert_eq!(next, [Some("1970-01-01 00:01:29.500000".to_owned())]);
    let next: Vec<Option<String>> = client.rows("SELECT queue_next_tick('@daily', NULL)");
    assert_eq!(next, [None]);
    let next: Vec<Option<String>> = client.rows(
        "SELECT queue_next_tick(spec, 'UTC', '2026-01-01') FROM (SELECT '@daily' spec UNION ALL SELECT '@monthly') x",
    );
    assert_eq!(next, [Some("2026-01-02 00:00:00".to_owned()), Some("2026-02-01 00:00:00".to_owned())]);
    for wrong in ["'x'", "'2026-02-30'", "'2026-00-10'", "''"] {
        let told = client.error(&format!("SELECT queue_next_tick('@daily', 'UTC', {wrong})"));
        assert!(told.contains("is not a time such as"), "{wrong}: {told}");
    }
}

#[test]
fn a_replica_goes_on_where_its_source_was() {
    let options = ["--log-bin=log", "--default-time-zone=+00:00"];
    let source = Server::start_source(&[&options[..], &["--server-id=1"]].concat());
    let replica = Server::start_with(&[&options[..], &["--server-id=2", "--read-only"]].concat());
    let (mut one, mut two) = (source.connect("d"), replica.connect(""));
    one.run("CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'");
    one.run("GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'");
    one.run("CREATE TABLE q (name VARCHAR(20), at DATETIME(6)) ENGINE=QUEUE TRANSACTIONAL=1");
    add(&mut one, "a", ("* * * * * *", "UTC"), "d.q", r#"{"name": "a", "at": "{tick}"}"#);
    one.run("UPDATE mysql.queue_schedule SET missed = 'all'");
    two.run(&format!(
        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {}, master_user = 'copy', master_password = 'x', \
         master_use_gtid = slave_pos",
        source.0.port().unwrap()
    ));
    two.run("START SLAVE");
    until(&mut two, "SELECT COUNT(*) FROM mysql.queue_schedule WHERE last_tick IS NOT NULL", 1);
    // Its own queue is empty: it is read-only, so it has delivered nothing itself.
    assert_eq!(two.value("SELECT COUNT(*) FROM d.q"), Some(0));
    one.run("SET GLOBAL read_only = 1");
    // It has noticed: a tick was left out.
    until(&mut one, "SELECT last_tick < UTC_TIMESTAMP() - INTERVAL 2 SECOND FROM mysql.queue_schedule", 1);
    let (before, position) = (ticks(&mut one), one.rows::<String>("SELECT @@gtid_binlog_pos"));
    assert_eq!(two.value(&format!("SELECT MASTER_GTID_WAIT('{}', 60)", position[0])), Some(0));
    two.run("STOP SLAVE");
    two.run("SET GLOBAL read_only = 0");
    until(&mut two, "SELECT COUNT(*) > 1 FROM d.q", 1);
    // Both together have each second once.
    let after = ticks(&mut two);
    let all: Vec<i64> = before["a"].iter().chain(&after["a"]).copied().collect();
    let span: Vec<i64> = (all[0]..).take(all.len()).collect();
    assert_eq!(all, span);
    assert_eq!(ticks(&mut one), before);
}

#[test]
fn a_tick_is_left_out_while_the_message_before_waits_or_somebody_has_it() {
    for log in [&[][..], &["--log-bin=log"]] {
        let mut server = Server::start_with(log);
        server.0.stop().unwrap();
        server.0.restart().unwrap();
        let mut client = server.connect("Over lap");
        client.run("CREATE TABLE q (v INT, at INT NULL) ENGINE=QUEUE TRANSACTIONAL=1 DUE=at TRIES=9 BACKOFF='60,1,0'");
        add(&mut client, "a", ("@every 1s", "UTC"), "`Over lap`.q", r#"{"v": 1}"#);
        client.run("UPDATE mysql.queue_schedule SET overlap = 'skip'");
        let (there, ticks) = (
            "SELECT COUNT(*) FROM q",
            "SELECT TIMESTAMPDIFF(SECOND, since, last_tick) FROM mysql.queue_schedule",
        );
        let two_ticks_later = |client: &mut Client, what: &str| {
            let before = client.value(ticks).unwrap_or_default();
            let more = format!("SELECT ({ticks}) >= {before} + 2");
            until(client, &more, 1);
            assert_eq!(client.value(there), Some(1), "{what}");
            until(
                client,
                "SELECT COUNT(*) FROM mysql.queue_schedule WHERE error LIKE 'the last tick was left out%'",
                1,
            );
        };
        until(&mut client, there, 1);
        until(&mut client, "SELECT COUNT(*) FROM mysql.queue_schedule WHERE last_row LIKE '%:1'", 1);
        two_ticks_later(&mut client, "it waits");
        server.0.stop().unwrap();
        server.0.restart().unwrap();
        client = server.connect("Over lap");
        two_ticks_later(&mut client, "after a restart");
        let mut owner = server.connect("Over lap");
        assert_eq!(owner.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
        two_ticks_later(&mut client, "somebody has it");
        owner.value("SELECT queue_abort()");
        client.value("SELECT queue_nack(JSON_VALUE(queue_lease_json(60, 1, 'q', 0), '$[0].token'))");
        two_ticks_later(&mut client, "it waits for its next try");
        // It is gone: the next tick comes, and is told from the one before.
        client.run("SET queue_show_owned = ON");
        client.run("DELETE FROM q");
        client.run("TRUNCATE q");
        until(&mut client, there, 1);
        until(
            &mut client,
            "SELECT COUNT(*) FROM mysql.queue_schedule WHERE error IS NULL AND last_row LIKE '%:1'",
            1,
        );
        assert_eq!(owner.column("SELECT v FROM q WHERE queue_wait('q', 0)"), [1]);
        owner.value("SELECT queue_end()");
        until(&mut client, "SELECT COUNT(*) FROM mysql.queue_schedule WHERE last_row LIKE '%:2'", 1);
        // Without it ticks pile up.
        client.run("UPDATE mysql.queue_schedule SET overlap = 'allow'");
        until(&mut client, there, 3);
        server.0.stop().unwrap();
    }
}
