//! The server is killed under load, again and again: what was acknowledged stays.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::scope;

use mysql::prelude::Queryable;

use crate::server::Server;

const ROUNDS: usize = 4;
const PUBLISHERS: usize = 3;
const TAKERS: usize = 3;

/// What clients know.
#[derive(Default)]
struct Known {
    /// INSERTs that returned.
    published: BTreeSet<i64>,
    /// INSERTs that were sent.
    sent: BTreeSet<i64>,
    /// Rows whose end returned.
    ended: BTreeSet<i64>,
    /// Rows that somebody was ending when the server went.
    ending: BTreeSet<i64>,
}

#[test]
fn kill_9_loses_no_row_and_brings_none_back() {
    let mut server = Server::start();
    server.connect("k").run("CREATE TABLE t (v BIGINT NOT NULL, body TEXT) ENGINE=QUEUE");
    let known = Mutex::new(Known::default());
    let next = AtomicI64::new(0);
    for round in 0..ROUNDS {
        let goal = known.lock().unwrap().ended.len() + 150 + 100 * round;
        scope(|scope| {
            for _ in 0..PUBLISHERS {
                scope.spawn(|| publish(&server, &known, &next));
            }
            for _ in 0..TAKERS {
                scope.spawn(|| take(&server, &known));
            }
            while known.lock().unwrap().ended.len() < goal {
                std::thread::yield_now();
            }
            // Not by the sandbox: the clients hold it.
            let killed = Command::new("kill").args(["-9", &server.0.pid().to_string()]).status();
            assert!(killed.unwrap().success());
        });
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        check(&server, &known);
    }
}

/// Inserts until the server is gone.
fn publish(server: &Server, known: &Mutex<Known>, next: &AtomicI64) {
    let mut client = server.connect("k");
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
fn take(server: &Server, known: &Mutex<Known>) {
    let mut client = server.connect("k");
    loop {
        let taken: Result<Vec<i64>, _> = client.query("SELECT v FROM t WHERE queue_wait('t', 60)");
        let Ok(taken) = taken else { return };
        let v = taken[0];
        assert!(!known.lock().unwrap().ended.contains(&v), "{v} came back");
        known.lock().unwrap().ending.insert(v);
        if client.query_drop("SELECT queue_end()").is_err() {
            return;
        }
        let mut known = known.lock().unwrap();
        known.ending.remove(&v);
        known.ended.insert(v);
    }
}

fn check(server: &Server, known: &Mutex<Known>) {
    let there = server.connect("k").column("SELECT v FROM t");
    let set: BTreeSet<i64> = there.iter().copied().collect();
    assert_eq!(set.len(), there.len(), "none is there twice");
    let mut known = known.lock().unwrap();
    for v in &known.published {
        let gone = known.ended.contains(v) || known.ending.contains(v);
        assert!(gone || set.contains(v), "{v} is lost");
    }
    for v in &set {
        assert!(known.sent.contains(v), "{v} was never sent");
        assert!(!known.ended.contains(v), "{v} came back");
    }
    // What was being ended is decided now.
    let ending = std::mem::take(&mut known.ending);
    known.ended.extend(ending.difference(&set));
}
