//! What `stat` shows of a replica and its source.

use std::path::Path;

use sandbox::{Product, Sandbox, Settings};
use serde_json::Value;
use server::{Flavour, Session};

use super::{lines, run};
use crate::support::{Ended, connect, of_today, on_products, places, products, remora, start, tell, until};
use crate::web::{Window, server_page};

/// A statement about replication in the words that this server knows.
fn in_words_of(session: &Session, sql: &str) -> String {
    if session.about.flavour == Flavour::MariaDb || session.about.version.major < 8 {
        return sql.to_owned();
    }
    let sql = sql.replace("CHANGE MASTER", "CHANGE REPLICATION SOURCE");
    sql.replace("MASTER_", "SOURCE_").replace("SLAVE", "REPLICA")
}

fn replicate(session: &mut Session, sql: &str) {
    let sql = in_words_of(session, sql);
    session.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

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
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &["--server-id=7"]);
        assert_eq!(replication(&server), (0.0.into(), 0.0.into(), Value::Null));
        let mut session = connect(server.socket());
        replicate(&mut session, "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'");
        assert_eq!(replication(&server), (1.0.into(), 1.0.into(), Value::Null));
    });
}

#[test]
fn a_replica_shows_how_far_it_is_behind_and_its_source_how_many_read_from_it() {
    on_products(&of_today(products()), |product| {
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
        let change = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='r', MASTER_SSL=0"
        );
        // Accounts of newer MySQL send their password encrypted.
        let key = if product == Product::MySql97 { ", GET_MASTER_PUBLIC_KEY=1" } else { "" };
        replicate(&mut here, &(change + key));
        replicate(&mut here, "START SLAVE");
        until("it is up to date", || replication(&replica) == (1.0.into(), 0.0.into(), 0.0.into()));
        let readers = if here.about.flavour == Flavour::MariaDb { 1.0.into() } else { Value::Null };
        assert_eq!(view(&source)["replicas"], readers);
        replicate(&mut here, "STOP SLAVE");
        replicate(&mut here, "CHANGE MASTER TO MASTER_DELAY=3600");
        replicate(&mut here, "START SLAVE");
        there.execute("CREATE DATABASE d").unwrap();
        let delay = || replication(&replica).2.as_f64().unwrap_or_default();
        until("it is behind", || delay() >= 2.0);
        let own = here.named_row(&in_words_of(&here, "SHOW SLAVE STATUS")).unwrap();
        let own = own.iter().find(|(name, _)| name.starts_with("Seconds_Behind_")).unwrap();
        let own: f64 = own.1.parse().unwrap();
        assert!((own..own + 10.0).contains(&delay()), "{own} {}", delay());
        assert_eq!(replication(&replica).1, 0.0);
        replicate(&mut here, "STOP SLAVE SQL_THREAD");
        assert_eq!(replication(&replica), (1.0.into(), 1.0.into(), Value::Null));
        // The source writes a row that the replica has.
        replicate(&mut here, "STOP SLAVE");
        replicate(&mut here, "CHANGE MASTER TO MASTER_DELAY=0");
        replicate(&mut here, "START SLAVE");
        there.execute("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=InnoDB").unwrap();
        let is_there =
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd' AND table_name = 't'";
        until("the table is there", || here.value(is_there).unwrap().as_deref() == Some("1"));
        until("it is up to date", || replication(&replica) == (1.0.into(), 0.0.into(), 0.0.into()));
        here.execute("INSERT INTO d.t VALUES (1)").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("r.stat").display().to_string();
        run(&replica, &["0.1", "1", "-q", "--record", &recording]).exits(0);
        there.execute("INSERT INTO d.t VALUES (1)").unwrap();
        until("it is stopped", || replication(&replica).1 == 1.0);
        is_told_everywhere(&replica, &recording);
        let mut screen = crate::top::top(replica.socket(), (80, 24));
        screen.shows(&["replication from 127.0.0.1", "is stopped: the thread that applies does not", "1062"]);
        screen.press("3");
        screen.shows(&["STOPPED", "delay      unknown", "Duplicate entry '1'"]);
        let in_browser = |options: &[&str], words: &[&str]| {
            Window::of(&replica, options).until(&server_page(&replica), words)
        };
        let stopped = "state bad\">STOPPED";
        in_browser(&["--show-statements"], &[stopped, "<div>delay: unknown", "Duplicate entry &#39;1&#39;"]);
        // The error quotes a value of the application.
        let hidden = in_browser(&[], &[stopped, "error 1062: its text is not shown"]);
        assert!(!hidden.contains("Duplicate entry"), "{hidden}");
    });
}

/// An error that stopped replication is in all that `stat` shows.
fn is_told_everywhere(replica: &Sandbox, recording: &str) {
    let has = |text: &str| {
        assert!(text.contains("is stopped: the thread that applies does not run; error 1062: "), "{text}");
        assert!(text.contains("Duplicate entry '1'"), "{text}");
    };
    let table = run(replica, &["0.1", "1"]).exits(0).out;
    has(&table);
    assert!(table.trim_end().ends_with("STOP"), "{table}");
    has(&run(replica, &["0.1", "1", "--top", "3"]).exits(0).out);
    has(&run(replica, &["0.1", "1", "--csv"]).exits(0).err);
    let json = lines(&run(replica, &["0.1", "1", "--json"]).exits(0).out);
    has(json.iter().find(|line| line["message_type"] == "event").unwrap()["event"].as_str().unwrap());
    assert_eq!(json.last().unwrap()["replicas"][0]["errno"], 1062);
    run(replica, &["0.1", "2", "-q", "--record", recording]).exits(0);
    has(&run(replica, &["--replay", recording]).exits(0).out);
    let page = format!("{recording}.html");
    let made = remora(Path::new("/")).args(["stat", "report", recording, "-o", &page]).output().unwrap();
    Ended::of(&made).exits(0);
    let page = std::fs::read_to_string(page).unwrap();
    has(&page);
    assert!(page.contains("seconds behind the source (unknown at times)"), "{page}");
}
