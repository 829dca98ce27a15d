//! What `stat` shows of a replica and its source.

use sandbox::{Sandbox, Settings};
use serde_json::Value;
use server::Flavour;

use super::{lines, run};
use crate::support::{connect, on_products, places, products, start, tell, until};

/// The view of a server.
fn view(server: &Sandbox) -> Value {
    let shown = run(server, &["0.1", "1", "--view", "replication", "--json"]).exits(0);
    lines(&shown.out).pop().unwrap()["replication"].clone()
}

/// Sources, those with a stopped thread, and the delay.
fn replication(server: &Sandbox) -> (Value, Value, Value) {
    let view = view(server);
    (view["sources"].clone(), view["stopped"].clone(), view["delay_s"].clone())
}

#[test]
fn a_replica_whose_delay_is_unknown_is_not_shown_as_up_to_date() {
    on_products(&products(), |product| {
        tell(product);
        let server = start(product, &["--server-id=7"]);
        assert_eq!(replication(&server), (0.0.into(), 0.0.into(), Value::Null));
        let mut session = connect(server.socket());
        session.execute("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'").unwrap();
        assert_eq!(replication(&server), (1.0.into(), 1.0.into(), Value::Null));
    });
}

#[test]
fn a_replica_shows_how_far_it_is_behind_and_its_source_how_many_read_from_it() {
    on_products(&products(), |product| {
        tell(product);
        let options = vec!["--log-bin=log".to_owned(), "--server-id=1".to_owned()];
        let settings = Settings { options, port: Some(0), ..Settings::default() };
        let installation = sandbox::find(&places(), product).unwrap();
        let source = Sandbox::start(&installation, &places(), &settings).unwrap();
        let replica = start(product, &["--server-id=2"]);
        let (mut there, mut here) = (connect(source.socket()), connect(replica.socket()));
        for host in ["localhost", "127.0.0.1"] {
            there.execute(&format!("CREATE USER r@'{host}'")).unwrap();
            there.execute(&format!("GRANT REPLICATION SLAVE ON *.* TO r@'{host}'")).unwrap();
        }
        let port = source.port().unwrap();
        here.execute(&format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='r', MASTER_SSL=0"
        ))
        .unwrap();
        here.execute("START SLAVE").unwrap();
        until("it is up to date", || replication(&replica) == (1.0.into(), 0.0.into(), 0.0.into()));
        let readers = if here.about.flavour == Flavour::MariaDb { 1.0.into() } else { Value::Null };
        assert_eq!(view(&source)["replicas"], readers);
        here.execute("STOP SLAVE").unwrap();
        here.execute("CHANGE MASTER TO MASTER_DELAY=3600").unwrap();
        here.execute("START SLAVE").unwrap();
        there.execute("CREATE DATABASE d").unwrap();
        let delay = || replication(&replica).2.as_f64().unwrap_or_default();
        until("it is behind", || delay() >= 2.0);
        let own = here.named_row("SHOW SLAVE STATUS").unwrap();
        let own = own.iter().find(|(name, _)| name == "Seconds_Behind_Master").unwrap();
        let own: f64 = own.1.parse().unwrap();
        assert!((own..own + 10.0).contains(&delay()), "{own} {}", delay());
        assert_eq!(replication(&replica).1, 0.0);
        here.execute("STOP SLAVE SQL_THREAD").unwrap();
        assert_eq!(replication(&replica), (1.0.into(), 1.0.into(), Value::Null));
    });
}
