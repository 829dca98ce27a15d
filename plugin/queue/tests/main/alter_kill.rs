//! The server is killed again and again while a table is altered under relays and consumers: nothing is lost,
//! and nothing comes twice.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::kill::kills;
use crate::server::{Client, Server};

/// A few rows and a few changes must be through within this time.
const STILL: Duration = Duration::from_secs(300);

const RELAYS: i64 = 3;
const TAKERS: usize = 3;

/// Done one after the other, all the time. Rows of `z` are to be gone with its TRUNCATE.
const CHANGES: [&str; 9] = [
    "ALTER TABLE t ADD COLUMN w INT",
    "ALTER TABLE t DROP COLUMN w",
    "OPTIMIZE TABLE t",
    "ALTER TABLE t MODIFY body TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE t ADD COLUMN w INT, RENAME TO u",
    "ALTER TABLE u DROP COLUMN w, RENAME TO t",
    "RENAME TABLE t TO u",
    "RENAME TABLE u TO t",
    "TRUNCATE TABLE z",
];

/// What clients know.
#[derive(Default)]
struct Known {
    published: BTreeSet<i64>,
    ended: BTreeSet<i64>,
    /// Rows that somebody was ending when the server went.
    ending: BTreeSet<i64>,
    /// Rows of `z` that a TRUNCATE removed.
    emptied: BTreeSet<i64>,
}

struct Load<'server> {
    known: &'server Mutex<Known>,
    /// The row that each relay sends, repeated until it is accepted.
    sending: &'server [AtomicI64],
    changes: &'server AtomicI64,
}

#[test]
fn kill_9_within_an_alter_loses_and_duplicates_nothing() {
    let kills = i64::try_from(kills(4)).unwrap();
    let mut server = Server::start();
    let mut client = server.connect("c");
    client.run("CREATE TABLE t (v BIGINT NOT NULL, body TEXT NOT NULL) ENGINE=QUEUE");
    client.run("CREATE TABLE z (v BIGINT NOT NULL) ENGINE=QUEUE");
    drop(client);
    let known = Mutex::new(Known::default());
    let sending: Vec<AtomicI64> = (0..RELAYS).map(|_| AtomicI64::new(1)).collect();
    for kill in 0..kills {
        let changes = AtomicI64::new(0);
        let mut stood_still = false;
        let ended = known.lock().unwrap().ended.len();
        let load = Load { known: &known, sending: &sending, changes: &changes };
        scope(|scope| {
            let load = &load;
            // All connect before the server is killed.
            let connect = || server.connect("c");
            let relays: Vec<_> = (0..RELAYS).map(|slot| (slot, connect())).collect();
            let takers: Vec<_> = (0..TAKERS).map(|_| connect()).collect();
            let changer = connect();
            for (slot, client) in relays {
                scope.spawn(move || load.relay(slot, client));
            }
            for client in takers {
                scope.spawn(move || load.take(client));
            }
            let changing = scope.spawn(move || load.change(changer));
            // A number of rows must have passed; it differs each time, so that the kill comes at another
            // place.
            let goal = 5 + kill % 23;
            let started = Instant::now();
            while changes.load(Ordering::Relaxed) < goal || known.lock().unwrap().ended.len() < ended + 10 {
                // A failure is reported when the other threads have ended too, for want of a server.
                if changing.is_finished() || started.elapsed() > STILL {
                    break;
                }
                std::thread::yield_now();
            }
            stood_still = started.elapsed() > STILL;
            for _ in 0..kill * 7919 % 2003 {
                std::thread::yield_now();
            }
            // The sandbox can't kill it, as the clients hold a reference to it.
            let killed = Command::new("kill").args(["-9", &server.0.pid().to_string()]).status();
            assert!(killed.unwrap().success());
        });
        assert!(!stood_still, "kill {kill}: nothing was done");
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        let mut client = server.connect("c");
        client.run("RENAME TABLE IF EXISTS u TO t");
        check(&mut client, &mut known.lock().unwrap()).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
    }
    // The harness detects a row that is lost, and one that comes again.
    let mut client = server.connect("c");
    let known = &mut known.lock().unwrap();
    client.run("INSERT INTO t (v) VALUES (-1)");
    known.ended.insert(-1);
    assert!(check(&mut client, known).unwrap_err().contains("came back"));
    known.ended.remove(&-1);
    known.published.insert(-1);
    client.run("DELETE FROM t WHERE v = -1");
    assert!(check(&mut client, known).unwrap_err().contains("is lost"));
}

/// Whether the server still answers.
fn is_there(error: &mysql::Error) -> bool {
    matches!(error, mysql::Error::MySqlError(error) if !matches!(error.code, 1053 | 1927))
}

impl Load<'_> {
    /// Sends each row until it is accepted: a relay that does not know the outcome sends the row again.
    fn relay(&self, slot: i64, mut client: Client) {
        let sending = &self.sending[usize::try_from(slot).unwrap()];
        loop {
            let row = sending.load(Ordering::Relaxed);
            let v = row * RELAYS + slot;
            let sent = client.query_drop(format!("DO queue_set_srcid({slot}, 'a', {row})")).and_then(|()| {
                client.query_drop(format!("INSERT INTO t (v, body) VALUES ({v}, REPEAT('k', 300))"))
            });
            match sent {
                Ok(()) => {
                    self.known.lock().unwrap().published.insert(v);
                    sending.store(row + 1, Ordering::Relaxed);
                }
                // The table is being renamed.
                Err(error) if is_there(&error) => {}
                Err(_) => return,
            }
        }
    }

    fn take(&self, mut client: Client) {
        loop {
            match client.query_first::<Option<i64>, _>("SELECT queue_wait('t', 1)") {
                Ok(Some(Some(1))) => {}
                Ok(_) => continue,
                Err(error) if is_there(&error) => continue,
                Err(_) => return,
            }
            let v = loop {
                match client.query::<i64, _>("SELECT v FROM t") {
                    Ok(rows) => {
                        assert_eq!(rows.len(), 1, "what was taken is there");
                        break rows[0];
                    }
                    Err(error) if is_there(&error) => {}
                    Err(_) => return,
                }
            };
            {
                let mut known = self.known.lock().unwrap();
                assert!(!known.ended.contains(&v), "{v} came back");
                known.ending.insert(v);
            }
            if client.query_drop("DO queue_end()").is_err() {
                return;
            }
            let mut known = self.known.lock().unwrap();
            known.ending.remove(&v);
            known.ended.insert(v);
        }
    }

    fn change(&self, mut client: Client) {
        let shape =
            "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'c' AND column_name = 'w'";
        let Ok(Some(begun)) = client.query_first::<usize, _>(shape) else { return };
        // A crash may have left the table with the column.
        for statement in CHANGES.iter().cycle().skip(begun) {
            let v = self.changes.fetch_add(1, Ordering::Relaxed);
            let empties = statement.starts_with("TRUNCATE");
            if empties && client.query_drop(format!("INSERT INTO z VALUES ({v})")).is_err() {
                return;
            }
            match client.query_drop(statement) {
                Ok(()) if empties => drop(self.known.lock().unwrap().emptied.insert(v)),
                Ok(()) => {}
                Err(error) if is_there(&error) => panic!("{statement}: {error}"),
                Err(_) => return,
            }
        }
    }
}

/// Compares the rows that are there with what the clients know.
fn check(client: &mut Client, known: &mut Known) -> Result<(), String> {
    let there = client.column("SELECT v FROM t");
    let set: BTreeSet<i64> = there.iter().copied().collect();
    if set.len() != there.len() {
        return Err("a row is there twice".to_owned());
    }
    if let Some(v) = known
        .published
        .iter()
        .find(|v| !set.contains(v) && !known.ended.contains(v) && !known.ending.contains(v))
    {
        return Err(format!("{v} is lost"));
    }
    if let Some(v) = set.iter().find(|v| known.ended.contains(v)) {
        return Err(format!("{v} came back"));
    }
    // What was being ended is decided by now.
    let ending = std::mem::take(&mut known.ending);
    known.ended.extend(ending.difference(&set));
    let emptied = client.column("SELECT v FROM z");
    match emptied.iter().find(|v| known.emptied.contains(v)) {
        Some(v) => Err(format!("{v} came back into what was emptied")),
        None => {
            known.emptied.clear();
            Ok(())
        }
    }
}
