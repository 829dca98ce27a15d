//! Many clients that take at once.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread::scope;

use crate::server::{Client, Server};

/// Takes rows until one is negative.
fn take_all(client: &mut Client) -> Vec<i64> {
    let mut got = Vec::new();
    loop {
        let taken = client.column("SELECT v FROM t WHERE queue_wait('t', 60)");
        if taken[0] < 0 {
            client.value("SELECT queue_end()");
            return got;
        }
        got.extend(taken);
    }
}

pub(crate) fn many_readers(server: &Server, name: &str) {
    const READERS: i64 = 12;
    const ROWS: i64 = 1200;
    let (mut one, _) = server.queue(name);
    let got = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..READERS {
            let mut client = server.connect(name);
            let got = &got;
            scope.spawn(move || {
                let mine = take_all(&mut client);
                got.lock().unwrap().extend(mine);
            });
        }
        (0..ROWS).for_each(|v| one.run(&format!("INSERT INTO t VALUES ({v})")));
        (0..READERS).for_each(|_| one.run("INSERT INTO t VALUES (-1)"));
    });
    let got = got.into_inner().unwrap();
    assert_eq!(got.len(), 1200);
    assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), (0..ROWS).collect());
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

/// Fewer rows than clients circulate: each client takes one and puts another in.
pub(crate) fn many_waiters(server: &Server, name: &str) {
    const CLIENTS: i64 = 12;
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE SYNC='interval'");
    (0..CLIENTS / 4).for_each(|v| one.run(&format!("INSERT INTO t VALUES ({})", v * 1000)));
    scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = server.connect(name);
            scope.spawn(move || {
                for _ in 0..30 {
                    let taken = client.column("SELECT v FROM t WHERE queue_wait('t', 60)");
                    client.run(&format!("INSERT INTO t VALUES ({})", taken[0] + 1));
                    client.value("SELECT queue_end()");
                }
            });
        }
    });
    let left = one.column("SELECT * FROM t");
    assert_eq!(left.len(), 3);
    assert_eq!(left.iter().map(|v| v % 1000).sum::<i64>(), CLIENTS * 30);
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(3));
}

/// Consumers and a producer work while segments are rewritten: no row is lost, and none comes twice.
pub(crate) fn compaction(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL, body TEXT) ENGINE=QUEUE SYNC=none");
    let block = |from: i32| {
        let values: Vec<String> = (from..from + 500).map(|v| format!("({v}, REPEAT('c', 4000))")).collect();
        format!("INSERT INTO t VALUES {}", values.join(","))
    };
    (0..20).for_each(|nth| one.run(&block(nth * 500)));
    one.run("DELETE FROM t WHERE v % 10 < 8");
    let got = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..4 {
            let mut client = server.connect(name);
            let got = &got;
            scope.spawn(move || {
                let mine = take_all(&mut client);
                got.lock().unwrap().extend(mine);
            });
        }
        one.value("SELECT queue_compact('t')");
        one.run(&block(10_000));
        one.value("SELECT queue_compact('t')");
        (0..4).for_each(|_| one.run("INSERT INTO t VALUES (-1, '')"));
    });
    let got = got.into_inner().unwrap();
    let wanted: BTreeSet<i64> = (0..10_000).filter(|v| v % 10 >= 8).chain(10_000..10_500).collect();
    assert_eq!((got.len(), got.into_iter().collect::<BTreeSet<_>>()), (wanted.len(), wanted));
}
