//! The server is killed under load again and again: what was acknowledged stays.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::{Client, Server};

/// How often the server is killed: a few times, or as often as this variable says.
const KILLS: &str = "REMORA_QUEUE_KILLS";
/// The few times, for each SYNC of the table.
const ROUNDS: [(&str, usize); 3] = [("always", 4), ("interval", 2), ("none", 2)];
const PUBLISHERS: usize = 6;
const TAKERS: usize = 3;
const LESSEES: usize = 3;

/// What clients know.
#[derive(Default)]
struct Known {
    /// INSERTs that returned.
    published: BTreeSet<i64>,
    /// INSERTs that were sent.
    sent: BTreeSet<i64>,
    /// Rows whose end was acknowledged.
    ended: BTreeSet<i64>,
    /// Rows that somebody was ending when the server went.
    ending: BTreeSet<i64>,
    /// The numbers of all leases.
    numbers: BTreeSet<u64>,
    /// Rows ended just before may come back: without SYNC=always an end is written later.
    forgets: bool,
}

/// How often a test kills the server, if that is usually `few` times.
pub(crate) fn kills(few: usize) -> usize {
    std::env::var(KILLS).map_or(few, |kills| kills.parse().unwrap())
}

#[test]
fn kill_9_loses_no_row_and_brings_none_back() {
    let mut server = Server::start();
    for (sync, rounds) in ROUNDS {
        let mut client = server.connect("k");
        client.run(&format!(
            "CREATE OR REPLACE TABLE t (v BIGINT NOT NULL, body TEXT) ENGINE=QUEUE SYNC='{sync}'"
        ));
        drop(client);
        let known = Known { forgets: sync != "always", ..Known::default() };
        let mut known = killed_again_and_again(&mut server, kills(rounds), known);
        known.forgets = false;
        canary(&server, &mut known);
    }
}

fn killed_again_and_again(server: &mut Server, rounds: usize, known: Known) -> Known {
    let known = Mutex::new(known);
    let next = AtomicI64::new(0);
    for round in 0..rounds {
        let goal = known.lock().unwrap().ended.len() + 150 + 100 * (round % 4);
        scope(|scope| {
            // All connect before the server is killed.
            for _ in 0..PUBLISHERS {
                let client = server.connect("k");
                scope.spawn(|| publish(client, &known, &next));
            }
            for _ in 0..TAKERS {
                let client = server.connect("k");
                scope.spawn(|| take(client, &known));
            }
            for _ in 0..LESSEES {
                let client = server.connect("k");
                scope.spawn(|| lease(client, &known));
            }
            while known.lock().unwrap().ended.len() < goal {
                std::thread::yield_now();
            }
            // The sandbox can't kill it, as the clients hold a reference to it.
            let killed = Command::new("kill").args(["-9", &server.0.pid().to_string()]).status();
            assert!(killed.unwrap().success());
        });
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        let mut client = server.connect("k");
        // Leases survive.
        client.run("SET queue_show_owned = ON");
        let there = client.column("SELECT v FROM t");
        check(&there, &mut known.lock().unwrap()).unwrap();
    }
    known.into_inner().unwrap()
}

/// The check detects a server that loses a row, or brings one back.
fn canary(server: &Server, known: &mut Known) {
    let mut client = server.connect("k");
    client.run("SET queue_show_owned = ON");
    let next = known.sent.last().unwrap() + 1;
    client.run(&format!("INSERT INTO t VALUES ({next}, '')"));
    known.sent.insert(next);
    known.published.insert(next);
    check(&client.column("SELECT v FROM t"), known).unwrap();
    client.run(&format!("DELETE FROM t WHERE v = {next}"));
    assert!(check(&client.column("SELECT v FROM t"), known).unwrap_err().contains("is lost"));
    known.ended.insert(next);
    check(&client.column("SELECT v FROM t"), known).unwrap();
    client.run(&format!("INSERT INTO t VALUES ({next}, '')"));
    assert!(check(&client.column("SELECT v FROM t"), known).unwrap_err().contains("came back"));
}

/// Inserts until the server is gone.
fn publish(mut client: Client, known: &Mutex<Known>, next: &AtomicI64) {
    loop {
        let v = next.fetch_add(1, Ordering::Relaxed);
        known.lock().unwrap().sent.insert(v);
        if client.query_drop(format!("INSERT INTO t VALUES ({v}, REPEAT('k', 2000))")).is_err() {
            return;
        }
        known.lock().unwrap().published.insert(v);
    }
}

/// Takes and ends until the server is gone.
fn take(mut client: Client, known: &Mutex<Known>) {
    loop {
        let taken: Result<Vec<i64>, _> = client.query("SELECT v FROM t WHERE queue_wait('t', 60)");
        let Ok(taken) = taken else { return };
        let v = taken[0];
        {
            let mut known = known.lock().unwrap();
            assert!(!known.ended.contains(&v), "{v} came back");
            known.ending.insert(v);
        }
        if client.query_drop("SELECT queue_end()").is_err() {
            return;
        }
        let mut known = known.lock().unwrap();
        known.ending.remove(&v);
        known.ended.insert(v);
    }
}

/// Leases and ends with the token until the server is gone.
fn lease(mut client: Client, known: &Mutex<Known>) {
    let mut last = 0;
    loop {
        let sql = "SELECT queue_token(), v FROM t WHERE queue_lease(600, 1, 't', 60)";
        let leased: Result<Vec<(String, i64)>, _> = client.query(sql);
        let Ok(mut leased) = leased else { return };
        let (token, v) = leased.remove(0);
        let number: u64 = token.split([':', '-']).nth(1).unwrap().parse().unwrap();
        {
            let mut known = known.lock().unwrap();
            assert!(!known.ended.contains(&v), "{v} came back");
            assert!(number > last && known.numbers.insert(number), "{number} came twice");
            known.ending.insert(v);
        }
        last = number;
        let good: Result<Vec<i64>, _> = client.query(format!("SELECT queue_ack('{token}')"));
        let Ok(good) = good else { return };
        assert_eq!(good, [1]);
        let mut known = known.lock().unwrap();
        known.ending.remove(&v);
        known.ended.insert(v);
    }
}

/// Compares the rows that are there with what the clients know.
fn check(there: &[i64], known: &mut Known) -> Result<(), String> {
    let set: BTreeSet<i64> = there.iter().copied().collect();
    if set.len() != there.len() {
        return Err("a row is there twice".to_owned());
    }
    for v in &known.published {
        let gone = known.ended.contains(v) || known.ending.contains(v);
        if !gone && !set.contains(v) {
            return Err(format!("{v} is lost"));
        }
    }
    for v in &set {
        if !known.sent.contains(v) {
            return Err(format!("{v} was never sent"));
        }
        if known.ended.contains(v) && !(known.forgets && known.ended.remove(v)) {
            return Err(format!("{v} came back"));
        }
    }
    // What was being ended is decided by now.
    let ending = std::mem::take(&mut known.ending);
    known.ended.extend(ending.difference(&set));
    Ok(())
}
