//! Columns of every type, and SQL that is refused.

use std::collections::BTreeMap;

use crate::server::{Client, Server};

pub(crate) fn blob(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (v TEXT) ENGINE=QUEUE SYNC=none");
    for round in 1..12usize {
        let text = |nth: usize| format!("{:04}{}", nth, "x".repeat(round * 4000 + nth));
        let values: Vec<String> = (0..20).map(|nth| format!("('{}')", text(nth))).collect();
        one.run(&format!("INSERT INTO t VALUES {}", values.join(", ")));
        let found: Vec<String> = one.rows("SELECT * FROM t");
        assert_eq!(found, (0..20).map(text).collect::<Vec<_>>());
        let ordered: Vec<String> = one.rows("SELECT * FROM t ORDER BY v DESC");
        assert_eq!(ordered, (0..20).rev().map(text).collect::<Vec<_>>());
        one.run("DELETE FROM t LIMIT 20");
    }
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
}

pub(crate) fn blob_condition(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run("CREATE TABLE t (body MEDIUMBLOB, id INT NOT NULL) ENGINE=QUEUE SYNC=none");
    one.run("INSERT INTO t VALUES ('stays', -1)");
    for id in 0..1000 {
        one.run(&format!("INSERT INTO t VALUES (REPEAT('b', 3000), {id})"));
        assert_eq!(one.value("SELECT queue_wait('t:id>=0', 0)"), Some(1));
        assert_eq!(one.value("SELECT queue_rowid()"), Some(id + 2));
        assert_eq!(one.column("SELECT id FROM t"), [id]);
    }
    assert_eq!(one.value("SELECT queue_compact('t')"), Some(1));
    assert_eq!(one.value("SELECT queue_wait('t:id>=-1', 0)"), Some(1));
    assert_eq!(one.value("SELECT queue_rowid()"), Some(1));
    assert_eq!(one.column("SELECT id FROM t"), [-1]);
    let stats: Vec<String> = one.rows("SELECT queue_stats('t')");
    assert!(stats[0].starts_with("rows_written: 1001\nrows_removed: 1000\n"), "{stats:?}");
    assert_eq!(stats[0].lines().count(), 9);
}

/// Every type of column comes back unchanged, NULL too, and can be waited for.
pub(crate) fn types(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let columns = "a TINYINT UNSIGNED, b SMALLINT, c MEDIUMINT UNSIGNED, d BIGINT UNSIGNED, e DECIMAL(20,4), f DOUBLE, \
        g DATE, h TIME(3), i DATETIME(6), j TIMESTAMP(2) NULL, k YEAR, l CHAR(10), m VARCHAR(300) CHARACTER SET utf8mb4, \
        n BLOB, o ENUM('x','y'), p SET('x','y'), q BIT(12), r VARBINARY(20), s JSON, t POINT, u UUID, v INET6";
    let values = "200, -30000, 16000000, 18446744073709551615, -1234567890123456.7891, 1.5, '2026-11-21', '-12:34:56.789', \
        '2026-11-21 23:59:59.123456', '2001-09-09 01:46:40.25', 2026, 'Char', 'Gr\u{fc}\u{df}e', REPEAT('z', 70000), 'y', 'x,y', \
        b'101010101010', x'00ff', '{\"a\": 1}', POINT(1, 2), '123e4567-e89b-12d3-a456-426655440000', '::1'";
    one.run("SET time_zone = '+00:00'");
    one.run("SET NAMES utf8mb4");
    one.run(&format!("CREATE TABLE t ({columns}) ENGINE=QUEUE"));
    one.run(&format!("CREATE TABLE i ({columns}) ENGINE=InnoDB"));
    for table in ["t", "i"] {
        one.run(&format!(
            "INSERT INTO {table} VALUES ({})",
            values.replace("REPEAT('z', 70000)", "REPEAT('z', 60000)")
        ));
        one.run(&format!("INSERT INTO {table} () VALUES ()"));
    }
    for column in "abcdefghijklmnopqrsuv".chars() {
        let different = format!("SELECT COUNT(*) FROM t, i WHERE t.{column} <=> i.{column}");
        assert_eq!(one.value(&different), Some(2), "{column}");
    }
    assert_eq!(one.value("SELECT COUNT(*) FROM t WHERE ST_AsText(t) = 'POINT(1 2)'"), Some(1));
    for condition in [
        "a=200",
        "b=-30000",
        "c=16000000",
        "d=18446744073709551615",
        "e=-1234567890123456.7891",
        "e<-1234567890123456",
        "g=''2026-11-21''",
        "h=''-12:34:56.789''",
        "i=''2026-11-21 23:59:59.123456''",
        "i>20261121000000",
        "j=1000000000.25",
        "k=2026",
        "l=''CHAR''",
        "m=''gr\u{fc}\u{df}E''",
        "n is not null",
        "o is not null",
        "a is not null and b<0",
    ] {
        assert_eq!(one.value(&format!("SELECT queue_wait('t:{condition}', 0)")), Some(1), "{condition}");
        assert_eq!(one.column("SELECT a FROM t"), [200], "{condition}");
        one.value("SELECT queue_abort()");
        assert_eq!(
            one.value(&format!("SELECT queue_wait('t:not ({condition})', 0)")),
            Some(i64::from(condition.contains("null")))
        );
        one.value("SELECT queue_abort()");
    }
    assert_eq!(one.value("SELECT queue_wait('t:a is null and m is null', 0)"), Some(1));
    let nulls: Vec<Option<i64>> = one.rows("SELECT a FROM t");
    assert_eq!(nulls, [None]);
}

/// Wrong SQL gets an error or NULL.
pub(crate) fn refused(server: &Server, name: &str) {
    let mut one = server.connect(name);
    assert!(one.error("CREATE TABLE t (v INT PRIMARY KEY) ENGINE=QUEUE").contains("keys"));
    assert!(
        one.error("CREATE TABLE t (v INT AUTO_INCREMENT, KEY (v)) ENGINE=QUEUE").contains("AUTO_INCREMENT")
    );
    one.error("CREATE TEMPORARY TABLE t (v INT) ENGINE=QUEUE");
    one.error("CREATE TABLE t (v INT) ENGINE=QUEUE PARTITION BY HASH (v) PARTITIONS 2");
    one.error("CREATE TABLE t (v INT) ENGINE=QUEUE WITH SYSTEM VERSIONING");
    one.run("CREATE TABLE t (v INT) ENGINE=QUEUE");
    one.error("ALTER TABLE t ADD SYSTEM VERSIONING");
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    one.run("INSERT INTO t VALUES (1), (2)");
    one.error("UPDATE t SET v = 3");
    assert_eq!(one.column("SELECT * FROM t"), [1, 2]);
    for statement in [
        "SELECT queue_wait()",
        "SELECT queue_set_srcid(1)",
        "SELECT queue_rowid(1)",
        "SELECT queue_stats()",
        "SELECT queue_compact()",
        "SELECT queue_wait(v) FROM i2",
        "CREATE TABLE x (v INT) ENGINE=QUEUE SYNC=perhaps",
    ] {
        one.error(statement);
    }
    for statement in [
        "SELECT queue_wait('i', 0)",
        "SELECT queue_wait('', 0)",
        "SELECT queue_wait(NULL, 0)",
        "SELECT queue_wait('t', NULL)",
        "SELECT queue_wait('t:((((', 0)",
        "SELECT queue_wait('nosuchdb.t', 0)",
        "SELECT queue_wait('t:v=''x''', 0)",
        "SELECT queue_compact('i')",
        "SELECT queue_set_srcid(1, 'a', -5)",
    ] {
        assert_eq!(one.value(statement), None, "{statement}");
    }
    one.run("INSERT INTO i VALUES (1), (2), (3)");
    assert!(one.error("SELECT * FROM i WHERE queue_wait(CONCAT('t', v))").contains("constants"));
    assert_eq!(one.column("SELECT queue_wait('t', 0) FROM i"), [1, 1, 1], "once in a statement");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("SHOW ENGINE QUEUE STATUS");
    one.run("SHOW TABLE STATUS LIKE 't'");
    one.run("ANALYZE TABLE t");
    one.run("CHECK TABLE t");
    one.run("FLUSH TABLES");
    assert_eq!(one.column("SELECT * FROM t"), [1]);
    one.run("CREATE USER nobody");
    one.run(&format!("GRANT SELECT ON {name}.i TO nobody"));
    one.run("SET ROLE NONE");
    one.value("SELECT queue_end()");
    assert_eq!(one.column("SELECT * FROM t"), [2]);
}

/// A comparison that conditions can't make is an error; it never gives an answer other than SQL's.
pub(crate) fn comparable(server: &Server, name: &str) {
    let mut one = server.connect(name);
    one.run(
        "CREATE TABLE t (small DECIMAL(38,2), large DECIMAL(39,0), da DATE, dt DATETIME, ts TIMESTAMP NULL, dt2 DATETIME, i INT) \
         ENGINE=QUEUE",
    );
    one.run("INSERT INTO t VALUES (5, 5, '2026-01-02', '2026-01-02', '2026-01-02', '2026-01-02', 5)");
    for (condition, taken) in [
        ("small = 5", Some(1)),
        ("large IS NULL", Some(0)),
        ("large IS NOT NULL", Some(1)),
        ("large = 5", None),
        ("dt = dt2", Some(1)),
        ("da = dt", None),
        ("ts < dt", None),
        // As in SQL: ! binds tighter than a comparison, NOT looser.
        ("!i = 1", Some(0)),
        ("!i = 0", Some(1)),
        ("NOT i = 1", Some(1)),
        ("NOT i = 5", Some(0)),
    ] {
        assert_eq!(one.value(&format!("SELECT queue_wait('t:{condition}', 0)")), taken, "{condition}");
        if taken == Some(1) {
            assert_eq!(one.value("SELECT queue_abort()"), Some(1));
        }
    }
}

/// While DELETE reads, nobody is given a row that it may delete; waiters get the rows that it leaves.
pub(crate) fn delete_while_taking(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let mut two = server.connect(name);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    one.value("SELECT GET_LOCK('reading', 0)");
    std::thread::scope(|scope| {
        let deleted = scope.spawn(|| {
            let found = two.column("DELETE FROM t WHERE GET_LOCK('reading', 60) AND v <> 2 RETURNING v");
            assert_eq!(two.value("SELECT RELEASE_ALL_LOCKS() > 0"), Some(1));
            found
        });
        let reading = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
        while one.value(reading) != Some(1) {
            std::thread::yield_now();
        }
        assert_eq!(one.value("SELECT queue_wait('t', 0)"), Some(0));
        let mut three = server.connect(name);
        let waiting = scope.spawn(move || three.column("SELECT v FROM t WHERE queue_wait('t', 60)"));
        one.until_waiting(1);
        one.value("SELECT RELEASE_LOCK('reading')");
        assert_eq!(deleted.join().unwrap(), [1, 3]);
        assert_eq!(waiting.join().unwrap(), [2]);
    });
    assert_eq!(one.column("SELECT v FROM t WHERE queue_wait('t', 60)"), [2], "its owner has gone");
    one.value("SELECT queue_abort()");
    // Under LOCK TABLES the end of the statement counts.
    one.run("LOCK TABLES t WRITE");
    one.run("DELETE FROM t WHERE v = 7");
    assert_eq!(two.value("SELECT queue_wait('t', 0)"), Some(1));
}

/// The counters of SHOW ENGINE QUEUE STATUS include those of dropped tables, and never go down.
pub(crate) fn counters(server: &Server, name: &str) {
    let mut one = server.connect(name);
    let all = |one: &mut Client| -> BTreeMap<String, u64> {
        let (_, _, text): (String, String, String) = one.rows("SHOW ENGINE QUEUE STATUS").remove(0);
        let values = text.lines().filter_map(|line| line.split_once(' '));
        values.map(|(name, value)| (name.to_owned(), value.trim().parse().unwrap())).collect()
    };
    let before = all(&mut one);
    one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
    assert_eq!(one.value("SELECT COUNT(*) FROM t"), Some(0));
    let nothing = "SELECT oldest IS NULL AND oldest_age IS NULL AND written_per_second = 0 FROM information_schema.queues \
                   WHERE table_schema = DATABASE()";
    assert_eq!(one.value(nothing), Some(1));
    one.run("INSERT INTO t VALUES (1), (2), (3)");
    for v in 1..=2 {
        assert_eq!(one.value("SELECT queue_wait('t:v>0', 0)"), Some(1));
        assert_eq!(one.column("SELECT v FROM t"), [v]);
    }
    assert_eq!(one.value("SELECT queue_end()"), Some(1));
    let came = |after: &BTreeMap<String, u64>, name: &str| after[name] - before[name];
    for dropped in [false, true] {
        if dropped {
            one.run("DROP TABLE t");
        }
        let after = all(&mut one);
        let exact = [
            ("append", 3),
            ("remove", 2),
            ("rows_written", 3),
            ("rows_removed", 2),
            ("compile", 2),
            ("compile_cachehit", 1),
            ("wait_immediate", 2),
            ("queue_wait", 2),
            ("queue_end", 1),
        ];
        for (name, times) in exact {
            assert_eq!(came(&after, name), times, "{name}, dropped: {dropped}");
        }
        for name in ["sys_read", "sys_write", "sys_sync", "evaluation"] {
            assert!(came(&after, name) > 0, "{name}, dropped: {dropped}");
        }
        assert!(after.contains_key("read_cachehit"));
    }
}
