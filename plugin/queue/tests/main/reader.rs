//! Readers, each of whom is given every row once.

use crate::server::{Client, Server};
use crate::transaction::restarted;

#[test]
fn readers() {
    let mut server = restarted(&[]);
    each_is_given_all(&server);
    waiting(&server);
    named(&server);
    altered(&server);
    refused(&server);
    killed(&mut server);
}

/// What a reader is given at once.
fn given(client: &mut Client, reader: &str, rows: u32) -> Vec<i64> {
    client.column(&format!("SELECT v FROM t WHERE queue_wait_n({rows}, 't@{reader}', 0)"))
}

fn end(client: &mut Client) {
    assert_eq!(client.value("SELECT queue_end()"), Some(1));
}

/// The reader, how many rows wait for it, how many it has, its first row.
fn lag(client: &mut Client, database: &str) -> Vec<(String, u64, u64, u64)> {
    client.rows(&format!(
        "SELECT reader, waiting, owned, next_row_id FROM information_schema.queue_readers WHERE table_schema = '{database}'"
    ))
}

fn shown(lag: &[(&str, u64, u64, u64)]) -> Vec<(String, u64, u64, u64)> {
    lag.iter().map(|(name, waiting, owned, next)| ((*name).to_owned(), *waiting, *owned, *next)).collect()
}

fn each_is_given_all(server: &Server) {
    let mut one = server.connect("readers");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600 READERS='mail, audit'");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    let mut two = server.connect("readers");
    assert_eq!(given(&mut one, "mail", 2), [1, 2]);
    assert_eq!(one.value("SELECT queue_rowid()"), Some(1));
    assert_eq!(given(&mut two, "mail", 9), [3]);
    let mut three = server.connect("readers");
    assert_eq!(lag(&mut three, "readers"), shown(&[("mail", 0, 3, 1), ("audit", 3, 0, 1)]));
    let owned: Vec<(String, i64)> = three
        .rows("SELECT reader, row_id FROM information_schema.queue_owned WHERE table_schema = 'readers'");
    assert_eq!(owned, [1, 2, 3].map(|row| ("mail".to_owned(), row)));
    end(&mut one);
    drop(two);
    while lag(&mut three, "readers") != shown(&[("mail", 1, 0, 3), ("audit", 3, 0, 1)]) {
        three.value("SELECT SLEEP(0.01)");
    }
    assert_eq!(three.column("SELECT v FROM t"), [1, 2, 3], "what one reader has not ended is there");
    assert_eq!(given(&mut one, "audit", 9), [1, 2, 3]);
    end(&mut one);
    assert_eq!(
        three.value("SELECT kept FROM information_schema.queues WHERE table_schema = 'readers'"),
        Some(2)
    );
    assert_eq!(three.column("SELECT v FROM t"), [3]);
    assert_eq!(three.column("SELECT v FROM t WHERE queue_wait('t@mail:v > 2', 'readers.t@audit', 0)"), [3]);
    end(&mut three);
    // To one reader again, or to both.
    assert_eq!(three.value("SELECT queue_replay('t@audit', 2, 3)"), Some(2));
    assert_eq!(three.value("SELECT queue_replay('t', 1, 1)"), Some(1));
    assert_eq!(lag(&mut three, "readers"), shown(&[("mail", 1, 0, 1), ("audit", 3, 0, 1)]));
    let error = three.error("SELECT queue_replay('t@nobody', 2, 3)");
    assert!(error.contains("it has mail, audit"), "{error}");
}

fn waiting(server: &Server) {
    let mut one = server.connect("readers_wait");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600 READERS='a,b'");
    assert_eq!(one.column("SELECT v FROM t"), [0; 0]);
    let takers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|reader| {
            let mut taker = server.connect("readers_wait");
            std::thread::spawn(move || {
                taker.column(&format!("SELECT v FROM t WHERE queue_wait('t@{reader}', 30)"))
            })
        })
        .collect();
    let count = "SELECT waiters FROM information_schema.queues WHERE table_schema = 'readers_wait'";
    while one.value(count) != Some(2) {
        one.value("SELECT SLEEP(0.01)");
    }
    one.run("INSERT INTO t VALUES (7)");
    takers.into_iter().for_each(|taker| assert_eq!(taker.join().unwrap(), [7]));
}

fn named(server: &Server) {
    let mut one = server.connect("readers_named");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600 READERS='a,b'");
    one.run("CREATE TABLE plain (v INT) ENGINE=QUEUE");
    one.run("CREATE TABLE `pl@in` (v INT) ENGINE=QUEUE");
    one.run("INSERT INTO `pl@in` VALUES (5)");
    for (function, why) in [
        ("queue_wait('t', 0)", "the queue has readers: name one after an @ (a, b)"),
        ("queue_wait('t@c', 0)", "the queue has no reader 'c'; it has a, b"),
        ("queue_wait('plain@a', 0)", "the queue has no reader 'a': it was created without READERS"),
        ("queue_wait('none@a', 0)", "there is no queue readers_named.none@a"),
        ("queue_lease_json(30, 1, 't@a', 0)", "use queue_wait()"),
        ("queue_lease_json(30, 1, 't', 0)", "name one after an @"),
    ] {
        let told = if function.starts_with("queue_wait") {
            assert_eq!(one.value(&format!("SELECT {function}")), None, "{function}");
            one.warning()
        } else {
            one.error(&format!("SELECT {function}"))
        };
        assert!(told.contains(why), "{function}: {told}");
    }
    assert_eq!(one.column("SELECT v FROM `pl@in` WHERE queue_wait('pl@in', 0)"), [5], "a name with an @");
}

fn altered(server: &Server) {
    let mut one = server.connect("readers_altered");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600 READERS='a,b'");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(given(&mut one, "a", 2), [1, 2]);
    let mut two = server.connect("readers_altered");
    let error = two.error("ALTER TABLE t ADD w INT");
    assert!(error.contains("readers own 2 rows"), "{error}");
    end(&mut one);
    assert_eq!(given(&mut one, "b", 1), [1]);
    end(&mut one);
    two.run("ALTER TABLE t ADD w INT, READERS='a,b,late'");
    assert_eq!(lag(&mut two, "readers_altered"), shown(&[("a", 1, 0, 3), ("b", 2, 0, 2), ("late", 3, 0, 1)]));
    two.run("ALTER TABLE t READERS='b'");
    assert_eq!(lag(&mut two, "readers_altered"), shown(&[("b", 2, 0, 2)]));
    two.run("ALTER TABLE t READERS=''");
    assert_eq!(two.column("SELECT v FROM t WHERE queue_wait_n(9, 't', 0)"), [2, 3]);
}

fn refused(server: &Server) {
    let mut one = server.connect("readers_refused");
    for (options, why) in [
        ("READERS='a'", "READERS needs KEEP"),
        ("KEEP=9 READERS='a' TRANSACTIONAL=1", "a transaction removes a row for all"),
        ("KEEP=9 READERS='a' PRIORITY=v", "the order of insertion"),
        ("KEEP=9 READERS='a' FIFO=v", "the order of insertion"),
        ("KEEP=9 READERS='a' TRIES=3", "tries are counted per row"),
        ("KEEP=9 READERS='a' FAILED=f", "show tries and leases"),
        ("KEEP=9 READERS='a,,b'", "'' is not a reader name"),
        ("KEEP=9 READERS='a b'", "'a b' is not a reader name"),
        ("KEEP=9 READERS='a,b,a'", "'a' is there twice"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT, f INT NULL) ENGINE=QUEUE {options}"));
        assert!(error.contains(why), "{options}: {error}");
    }
    let many: Vec<String> = (0..65).map(|nth| format!("r{nth}")).collect();
    let error =
        one.error(&format!("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=9 READERS='{}'", many.join(",")));
    assert!(error.contains("at most 64"), "{error}");
}

fn killed(server: &mut Server) {
    let mut one = server.connect("readers_killed");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE KEEP=3600 READERS='a,b'");
    one.run("INSERT INTO t SELECT seq FROM seq_1_to_1000");
    assert_eq!(given(&mut one, "a", 600).len(), 600);
    end(&mut one);
    assert_eq!(given(&mut one, "b", 100).len(), 100);
    end(&mut one);
    assert_eq!(given(&mut one, "b", 100).len(), 100);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("readers_killed");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(900));
    assert_eq!(lag(&mut one, "readers_killed"), shown(&[("a", 400, 0, 601), ("b", 900, 0, 101)]));
    assert_eq!(given(&mut one, "b", 1), [101]);
}
