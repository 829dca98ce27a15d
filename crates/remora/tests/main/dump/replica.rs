//! Replicas: a dump of one is the start of another, and a copy becomes one.

use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Family, Product, Sandbox, Settings};
use server::Session;

use super::copy::{copy, spawn, statements, url};
use super::copy_follow::{LOG, Random, assert_same, execute, make, next, transact};
use super::{OWN, Pair, StopsWriters, assert_equal, fill};
use crate::support::{
    Ended, connect, mariadbs, of_today, on_products, part_of_today, pause_writer, places, products, start,
    until,
};

const COUNT: &str = "SELECT COUNT(*) FROM d.t";

/// A server that others may replicate.
fn source(product: Product) -> Sandbox {
    let installation = sandbox::find(&places(), product).unwrap();
    let options = [&LOG[..], &["--innodb-flush-log-at-trx-commit=0"]].concat();
    let options = options.into_iter().map(str::to_owned).collect();
    let settings = Settings { options, port: Some(0), ..Settings::default() };
    Sandbox::start(&installation, &places(), &settings).unwrap()
}

fn replicate(session: &mut Session, source: &Sandbox, server_id: u32, from: &str) {
    for sql in [
        format!("SET GLOBAL server_id = {server_id}"),
        format!("SET GLOBAL gtid_slave_pos = '{from}'"),
        format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy', MASTER_PASSWORD = 'x', \
             MASTER_SSL = 0, MASTER_USE_GTID = slave_pos",
            source.port().unwrap()
        ),
        "START SLAVE".to_owned(),
    ] {
        session.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// While rows come in from the source, the dump knows which transactions of the source it holds.
#[test]
fn a_dump_of_a_replica_starts_another_replica() {
    on_products(&of_today(mariadbs()), |product| {
        let source = source(product);
        let pair = Pair::new(product, product, &[]);
        let mut writer = connect(source.socket());
        for sql in [
            "CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'",
            "GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        ] {
            writer.execute(sql).unwrap();
        }
        let (mut replica, mut third) = (pair.source(), pair.target());
        let mut asking = connect(source.socket());
        replicate(&mut replica, &source, 2, "");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    pause_writer();
                    writer.execute("INSERT INTO d.t (v) VALUES (1), (2)").unwrap();
                }
            });
            let _stop = StopsWriters(stop);
            let rows = |session: &mut Session| session.value(COUNT).ok().flatten().unwrap_or_default();
            until("rows come in", || rows(&mut replica).parse::<u32>().unwrap_or(0) > 200);
            pair.dump(&["d", "-o", "d.dump"]).exits(0);
            pair.load(&["d.dump"]).exits(0);
            let manifest = std::fs::read(pair.path("d.dump/manifest.json")).unwrap();
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
            let places = manifest["source"]["replica_of"].as_array().unwrap();
            let place =
                |name: &str| places.iter().find(|pair| pair[0] == name).and_then(|pair| pair[1].as_str());
            assert_eq!(place("Master_Host"), Some("127.0.0.1"));
            replicate(&mut third, &source, 3, place("gtid_slave_pos").unwrap());
            stop.store(true, Ordering::Relaxed);
            // A transaction that is applied twice stops the replication; a missing one leaves a gap.
            until("the third server has all rows", || {
                let status = third.named_row("SHOW SLAVE STATUS").unwrap();
                let error = status.iter().find(|(name, _)| name == "Last_SQL_Error").unwrap();
                assert_eq!(error.1, "");
                rows(&mut third) == rows(&mut asking)
            });
        });
        let sum = "CHECKSUM TABLE d.t EXTENDED";
        assert_eq!(third.strings(sum).unwrap(), asking.strings(sum).unwrap());
    });
}

#[test]
fn a_copy_waits_for_a_replica_that_falls_behind() {
    on_products(&of_today(mariadbs()), |product| {
        let mut pair = Pair::new(product, product, &[]);
        pair.to = source(product);
        fill(&mut pair.source(), 12);
        let mut target = pair.target();
        target.execute("CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'").unwrap();
        target.execute("GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'").unwrap();
        let third = start(product, &[]);
        let mut replica = connect(third.socket());
        replicate(&mut replica, &pair.to, 3, "");
        let count = "SELECT COUNT(*) FROM mysql.user WHERE User = 'copy'";
        until("the replica has the account", || replica.value(count).unwrap().as_deref() == Some("1"));
        let mut set_delay = |seconds: u32| {
            let change = format!("CHANGE MASTER TO MASTER_DELAY = {seconds}");
            for sql in ["STOP SLAVE", change.as_str(), "START SLAVE"] {
                replica.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        };
        set_delay(3000);
        let limit = format!("{}=1s", url(&third));
        let mut running =
            spawn(&pair, &["d", "--chunk", "32K", "-j", "2", "--max-rate", "4K", "--max-lag", &limit]);
        let mut status = connect(third.socket());
        until("the replica is late", || {
            running.must_run();
            status.replica_delays().unwrap().iter().any(|delay| *delay > Some(3))
        });
        // Without a limit it would have ended by now.
        running.must_run();
        set_delay(0);
        let ended = running.end().exits(0);
        ended.says(&[
            "waiting for replica",
            "s behind its source, and --max-lag allows 1 s",
            "has caught up",
        ]);
        assert_equal(&pair, "d");
    });
}

#[test]
fn a_copy_waits_for_a_replica_that_does_not_run() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &["--server-id=7"]);
        fill(&mut pair.source(), 12);
        let limit = format!("{}=1h", url(&pair.to));
        copy(&pair, &["d", "--max-lag", &limit]).exits(1).says(&["--max-lag", "it is no replica"]);
        let nobody = format!("unix://{}=1h", pair.path("nobody").display());
        copy(&pair, &["d", "--max-lag", &nobody]).exits(10).says(&["--max-lag", "nobody"]);
        copy(&pair, &["d", "--max-lag", &nobody, "--dry-run"]).exits(10);
        copy(&pair, &["d", "--max-lag", "localhost"]).exits(2).says(&["SERVER=TIME"]);
        let (change, looks) = match product {
            Product::MySql97 => (
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_USER = 'x'",
                "Com_show_replica_status",
            ),
            _ => ("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_USER = 'x'", "Com_show_slave_status"),
        };
        pair.target().execute(change).unwrap();
        let before = statements(&pair, looks);
        let mut running = spawn(&pair, &["d", "--max-lag", &limit]);
        // The first look is at the connection, the second one tells.
        until("the third look", || {
            running.must_run();
            statements(&pair, looks) >= before + 3
        });
        running.signal("INT");
        running.end().exits(130).says(&["waiting for replica", "its replication does not run", "--resume"]);
        assert_eq!(pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().as_deref(), Some("0"));
    });
}

/// A server with rows and an account for replicas, and one that is to replicate from it.
fn to_replicate(product: Product, to: Product) -> Pair {
    let pair = Pair {
        from: source(product),
        to: start(to, &[&OWN[..], &["--log-bin=log", "--server-id=2"]].concat()),
        folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(),
    };
    make(&pair);
    execute(
        &mut pair.source(),
        &[
            "CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'",
            "GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'",
            "CREATE TABLE d.seen (id INT PRIMARY KEY AUTO_INCREMENT, one INT) ENGINE=InnoDB",
            "CREATE TRIGGER d.new_one AFTER INSERT ON d.one FOR EACH ROW INSERT INTO d.seen (one) VALUES (NEW.id)",
            "CREATE DEFINER = copy@'127.0.0.1' EVENT d.tick ON SCHEDULE EVERY 1 SECOND DO DELETE FROM d.one",
        ],
    );
    pair
}

/// Copies, and lets the target replicate with an account of this password.
fn replica_of(pair: &Pair, password: &str, arguments: &[&str]) -> Ended {
    let address = format!("mysql://copy:{password}@127.0.0.1:{}", pair.from.port().unwrap());
    copy(pair, &[&["--follow", "replica", "--source", &address], arguments].concat())
}

#[test]
fn a_copy_becomes_a_replica_while_its_source_is_written() {
    on_products(&of_today(products()), |product| {
        let to = match next(product) {
            to if product.family() == Family::MariaDb && to.family() == Family::MariaDb => to,
            _ => product,
        };
        for to in part_of_today(vec![product, to], 2) {
            let pair = to_replicate(product, to);
            let stop = AtomicBool::new(false);
            let log = pair.target().position().unwrap();
            std::thread::scope(|scope| {
                let (mut writer, stop) = (pair.source(), &stop);
                scope.spawn(move || {
                    let mut random = Random(11);
                    while !stop.load(Ordering::Relaxed) {
                        pause_writer();
                        transact(&mut writer, &mut random);
                    }
                });
                let _stop = StopsWriters(stop);
                replica_of(&pair, "x", &["--chunk", "4K"]).exits(0).says(&["B replicates from A since"]);
            });
            let (mut source, mut replica) = (pair.source(), pair.target());
            execute(&mut source, &["CREATE TABLE d.zz (id INT PRIMARY KEY)", "INSERT INTO d.zz VALUES (1)"]);
            until("the replica has the last row", || {
                let state = replica.replica_state().unwrap().unwrap();
                assert_eq!(state.error, None);
                replica.value("SELECT id FROM d.zz").ok().flatten().is_some()
            });
            assert_same(&pair);
            // MySQL logs what is replicated.
            if pair.is_mariadb() {
                assert_eq!(replica.position().unwrap(), log, "the copy is no transaction of the replica");
            }
            let event = "SELECT status, definer FROM information_schema.events WHERE event_schema = 'd'";
            let [status, definer] = &replica.strings(event).unwrap()[0][..] else { panic!("{event}") };
            assert!(status.as_ref().unwrap().contains("SIDE_DISABLED"), "{status:?}");
            assert_eq!(definer.as_deref(), Some("copy@127.0.0.1"));
            replica_of(&pair, "x", &["--resume"]).exits(2).says(&["B is a replica already"]);
        }
    });
}

#[test]
fn what_cannot_replicate_is_told_before_anything_is_copied() {
    let Some(product) = of_today(mariadbs()).pop() else { return };
    let pair = to_replicate(product, product);
    let is_empty = || {
        let mut target = pair.target();
        let schemas = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'd'";
        assert_eq!(target.value(schemas).unwrap().as_deref(), Some("0"));
        assert_eq!(target.replica_state().unwrap(), None);
    };
    replica_of(&pair, "wrong", &[])
        .exits(1)
        .says(&["B can't replicate from A", "Access denied for user 'copy'"]);
    is_empty();
    for (arguments, why) in [
        (&["d"][..], "copies everything as it is"),
        (&["--where", "d.one:id > 3"], "copies everything as it is"),
        (&["--cut-over"], "go with --follow apply"),
    ] {
        replica_of(&pair, "x", arguments).exits(2).says(&[why]);
    }
    copy(&pair, &["--follow", "replica"]).exits(2).says(&["--source mysql://"]);
    let told = copy(&pair, &["--follow", "replica", "--dry-run"]).exits(1).out;
    assert!(told.contains("refused: B reaches A through TCP"), "{told}");
    copy(&pair, &["--source", &url(&pair.from)]).exits(2);
    execute(&mut pair.target(), &["SET GLOBAL server_id = 1", "SET GLOBAL event_scheduler = ON"]);
    let both = ["server_id of A is 1, of B 1", "the event scheduler of B runs"];
    replica_of(&pair, "x", &[]).exits(2).says(&both);
    execute(&mut pair.target(), &["SET GLOBAL server_id = 2", "SET GLOBAL event_scheduler = OFF"]);
    execute(&mut pair.source(), &["SET GLOBAL binlog_format = MIXED"]);
    replica_of(&pair, "x", &[]).exits(2).says(&["binlog_format of the source is MIXED"]);
    is_empty();
}
