//! A dump of a replica is the start of another replica.

use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Product, Sandbox, Settings};
use server::Session;

use super::{Pair, StopsWriters};
use crate::support::{connect, mariadbs, of_today, on_products, pause_writer, places, until};

const COUNT: &str = "SELECT COUNT(*) FROM d.t";

/// A server that others may replicate.
fn source(product: Product) -> Sandbox {
    let installation = sandbox::find(&places(), product).unwrap();
    let options = ["--log-bin=log", "--server-id=1", "--innodb-flush-log-at-trx-commit=0"];
    let options = options.map(str::to_owned).to_vec();
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
