//! The server is killed under load in each mode of a table: no row is lost, comes back or is there twice, and
//! rows of InnoDB that were changed in the same transactions agree with it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Mutex;
use std::thread::scope;

use mysql::prelude::Queryable;

use crate::kill::kills;
use crate::server::{Client, Server};
use crate::transaction::{COORDINATORS, restarted};

const PUBLISHERS: i64 = 4;
const TAKERS: usize = 2;
/// How many rows are ended before the server is killed.
const GOAL: usize = 60;

/// What is done with a table, in statements in which {v} is a row, {k} its key and {r} a reader.
struct Mode {
    options: &'static str,
    publish: &'static [&'static str],
    take: &'static [&'static str],
    end: &'static [&'static str],
    readers: &'static [&'static str],
    /// The tables `made` and `done` of InnoDB have what was published and ended.
    is_transactional: bool,
}

const PLAIN: Mode = Mode {
    options: "",
    publish: &["INSERT INTO t VALUES ({v}, {k})"],
    take: &["SELECT v FROM t WHERE queue_wait('t{r}', 60)"],
    end: &["SELECT queue_end()"],
    readers: &[""],
    is_transactional: false,
};

const FIFO: Mode = Mode { options: "FIFO=k", ..PLAIN };

/// Each row is sent twice.
const DEDUPE: Mode = Mode {
    options: "DEDUPE=v DEDUPE_FOR=3600",
    publish: &["INSERT INTO t VALUES ({v}, {k})", "INSERT INTO t VALUES ({v}, {k})"],
    ..PLAIN
};

const READERS: Mode = Mode { options: "KEEP=3600 READERS='a,b'", readers: &["@a", "@b"], ..PLAIN };

const TRANSACTIONAL: Mode = Mode {
    options: "TRANSACTIONAL=1",
    publish: &["BEGIN", "INSERT INTO made VALUES ({v})", "INSERT INTO t VALUES ({v}, {k})", "COMMIT"],
    take: &["BEGIN", "SELECT v FROM t WHERE queue_wait('t', 60)"],
    end: &["INSERT INTO done VALUES ({v})", "COMMIT"],
    is_transactional: true,
    ..PLAIN
};

const TRANSACTIONAL_FIFO: Mode = Mode { options: "TRANSACTIONAL=1 FIFO=k", ..TRANSACTIONAL };

const TRANSACTIONAL_DEDUPE: Mode =
    Mode { options: "TRANSACTIONAL=1 DEDUPE=v DEDUPE_FOR=3600", ..TRANSACTIONAL };

/// A row is leased by one transaction, and ended by its token in another one.
const TRANSACTIONAL_LEASE: Mode = Mode {
    take: &["SELECT v, queue_token() INTO @v, @token FROM t WHERE queue_lease(600, 1, 't', 60)", "SELECT @v"],
    end: &["BEGIN", "INSERT INTO done VALUES ({v})", "SELECT queue_ack(@token)", "COMMIT"],
    ..TRANSACTIONAL
};

/// What clients know.
#[derive(Default)]
struct Known {
    next: i64,
    /// Rows that were sent, and those of which it is known that they are there.
    sent: BTreeSet<i64>,
    published: BTreeSet<i64>,
    /// By reader: rows that somebody was ending when the server went, and those that are ended.
    ending: BTreeMap<&'static str, BTreeSet<i64>>,
    ended: BTreeMap<&'static str, BTreeSet<i64>>,
    /// The last row of each key that somebody has taken.
    last: BTreeMap<i64, i64>,
}

struct Load<'a> {
    mode: &'a Mode,
    /// Rows that were ended just before may come back: without SYNC=always an end is written later.
    forgets: bool,
    known: Mutex<Known>,
}

#[test]
fn no_mode_of_a_table_loses_or_doubles_a_row_when_the_server_is_killed() {
    let transactional = [&TRANSACTIONAL, &TRANSACTIONAL_FIFO, &TRANSACTIONAL_DEDUPE, &TRANSACTIONAL_LEASE];
    for coordinator in COORDINATORS {
        let mut server = restarted(coordinator);
        let others: &[&Mode] = if coordinator.is_empty() { &[] } else { &[&PLAIN, &FIFO, &DEDUPE, &READERS] };
        for mode in transactional.iter().chain(others) {
            for sync in ["always", "none"] {
                let mut client = server.connect("m");
                for table in ["made", "done"] {
                    client.run(&format!("CREATE OR REPLACE TABLE {table} (v BIGINT PRIMARY KEY)"));
                }
                let options = mode.options;
                client.run(&format!(
                    "CREATE OR REPLACE TABLE t (v BIGINT NOT NULL, k BIGINT NOT NULL) ENGINE=QUEUE SYNC='{sync}' {options}"
                ));
                drop(client);
                let forgets = sync != "always" && !mode.is_transactional;
                let load = Load { mode, forgets, known: Mutex::default() };
                for kill in 0..kills(1) {
                    load.until_killed(&mut server);
                    load.check(&mut server.connect("m"))
                        .unwrap_or_else(|why| panic!("{coordinator:?} {options} {sync}, kill {kill}: {why}"));
                }
                load.canary(&mut server.connect("m"));
            }
        }
    }
}

/// Runs statements of a mode; none if the server is gone.
fn run(client: &mut Client, statements: &[&str], (v, k, r): (i64, i64, &str)) -> Option<()> {
    for statement in statements {
        let sql = statement.replace("{v}", &v.to_string()).replace("{k}", &k.to_string()).replace("{r}", r);
        client.query_drop(sql).ok()?;
    }
    Some(())
}

impl Load<'_> {
    fn until_killed(&self, server: &mut Server) {
        let ended = |known: &Known| known.ended.values().map(BTreeSet::len).sum::<usize>();
        let goal = ended(&self.known.lock().unwrap()) + GOAL;
        scope(|scope| {
            for k in 0..PUBLISHERS {
                let client = server.connect("m");
                scope.spawn(move || self.publish(client, k));
            }
            for reader in self.mode.readers {
                for _ in 0..TAKERS {
                    let client = server.connect("m");
                    scope.spawn(move || self.take(client, reader));
                }
            }
            while ended(&self.known.lock().unwrap()) < goal {
                std::thread::yield_now();
            }
            // The sandbox can't kill it, as the clients hold a reference to it.
            let killed = Command::new("kill").args(["-9", &server.0.pid().to_string()]).status();
            assert!(killed.unwrap().success());
        });
        server.0.kill().unwrap();
        server.0.restart().unwrap();
    }

    /// Publishes the rows of a key, one after the other.
    fn publish(&self, mut client: Client, k: i64) -> Option<()> {
        loop {
            let v = {
                let mut known = self.known.lock().unwrap();
                known.next += 1;
                let v = known.next * PUBLISHERS + k;
                known.sent.insert(v);
                v
            };
            run(&mut client, self.mode.publish, (v, k, ""))?;
            self.known.lock().unwrap().published.insert(v);
        }
    }

    fn take(&self, mut client: Client, reader: &'static str) -> Option<()> {
        let (last, before) = self.mode.take.split_last().unwrap();
        loop {
            run(&mut client, before, (0, 0, reader))?;
            let v: i64 = client.query_first(last.replace("{r}", reader)).ok()??;
            {
                let known = &mut *self.known.lock().unwrap();
                assert!(!known.ended.entry(reader).or_default().contains(&v), "{v} came back");
                known.ending.entry(reader).or_default().insert(v);
                let before = known.last.insert(v % PUBLISHERS, v);
                let in_order = before.is_none_or(|before| before < v);
                assert!(in_order || !self.mode.options.contains("FIFO"), "{v} comes after {before:?}");
            }
            run(&mut client, self.mode.end, (v, 0, reader))?;
            let known = &mut *self.known.lock().unwrap();
            known.ending.entry(reader).or_default().remove(&v);
            known.ended.entry(reader).or_default().insert(v);
        }
    }

    /// The check detects a server that loses a row.
    fn canary(&self, client: &mut Client) {
        let v = 1;
        run(client, self.mode.publish, (v, 0, "")).unwrap();
        self.known.lock().unwrap().sent.insert(v);
        self.known.lock().unwrap().published.insert(v);
        self.check(client).unwrap();
        client.run(&format!("DELETE FROM t WHERE v = {v}"));
        assert!(self.check(client).unwrap_err().contains("is lost"));
    }

    /// Compares what is there with what the clients know.
    fn check(&self, client: &mut Client) -> Result<(), String> {
        let known = &mut *self.known.lock().unwrap();
        if self.mode.options == DEDUPE.options {
            // Who does not know whether a row is there sends it again.
            for v in known.sent.difference(&known.published) {
                run(client, self.mode.publish, (*v, v % PUBLISHERS, "")).expect("it is there");
            }
            known.published = known.sent.clone();
        }
        client.run("SET queue_show_owned = ON");
        for reader in self.mode.readers {
            let there = if reader.is_empty() {
                client.column("SELECT v FROM t")
            } else {
                client.column(&format!("SELECT v FROM t WHERE queue_wait_n(100000, 't{reader}', 0)"))
            };
            client.run("SELECT queue_abort()");
            let set: BTreeSet<i64> = there.iter().copied().collect();
            if set.len() != there.len() {
                return Err(format!("a row is there twice for {reader:?}"));
            }
            let ended = known.ended.entry(reader).or_default();
            let ending = known.ending.remove(reader).unwrap_or_default();
            if let Some(v) = set.iter().find(|v| !known.sent.contains(v)) {
                return Err(format!("{v} was never sent"));
            }
            if let Some(v) = set.iter().find(|v| ended.contains(v)).filter(|_| !self.forgets) {
                return Err(format!("{v} came back"));
            }
            ended.retain(|v| !set.contains(v));
            // What was being ended is decided by now.
            ended.extend(ending.difference(&set));
            if let Some(v) = known.published.iter().find(|v| !ended.contains(v) && !set.contains(v)) {
                return Err(format!("{v} is lost"));
            }
            known.last.clear();
            for v in &*ended {
                let last = known.last.entry(v % PUBLISHERS).or_default();
                *last = (*last).max(*v);
            }
            if self.mode.is_transactional {
                let made: BTreeSet<i64> = client.column("SELECT v FROM made").into_iter().collect();
                let done: BTreeSet<i64> = client.column("SELECT v FROM done").into_iter().collect();
                if made != set.union(&done).copied().collect() || !set.is_disjoint(&done) || done != *ended {
                    return Err(format!("made {made:?}, done {done:?}, ended {ended:?}, there {set:?}"));
                }
            }
        }
        Ok(())
    }
}
