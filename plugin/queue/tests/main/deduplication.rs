//! Deduplication: rows are left out because another one with their key was published before.

use crate::server::Server;
use crate::transaction::restarted;

#[test]
fn dedupe() {
    let mut server = restarted(&[]);
    left_out(&server);
    while_one_waits(&server);
    in_transactions(&server);
    moved(&server);
    altered(&server);
    refused(&server);
    killed(&mut server);
}

const ALL: &str = "SELECT v FROM t";
const WAIT: &str = "SELECT v FROM t WHERE queue_wait('t', 0)";

fn left_out(server: &Server) {
    let mut one = server.connect("left_out");
    one.run("CREATE TABLE t (v INT, k VARCHAR(200) COLLATE utf8mb4_bin) ENGINE=QUEUE DEDUPE=k");
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL), (5, NULL), (6, 'A')");
    assert_eq!(one.affected_rows(), 6);
    assert_eq!(
        one.rows::<(String, u32, String)>("SHOW WARNINGS"),
        [(
            "Note".to_owned(),
            1062,
            "Queue: 1 duplicate row was discarded: a row with the same DEDUPE key came before".to_owned()
        )]
    );
    assert_eq!(one.column(ALL), [1, 2, 4, 5, 6]);
    one.run("DELETE FROM t");
    one.run("INSERT INTO t VALUES (7, 'a')");
    assert_eq!(one.column(ALL), [0; 0], "it was there within five minutes");
    let count = "SELECT left_out FROM information_schema.queues WHERE table_schema = 'left_out'";
    assert_eq!(one.value(count), Some(2));
    let status: Vec<(String, String, String)> = one.rows("SHOW ENGINE QUEUE STATUS");
    let line = status[0].2.lines().find(|line| line.starts_with("left_out")).unwrap();
    assert_eq!(line.split_whitespace().last(), Some("2"), "{line}");
    // What a trigger adds is settled with its statement.
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    one.run("CREATE TRIGGER tr AFTER INSERT ON i FOR EACH ROW INSERT INTO t VALUES (new.v, CONCAT('t', new.v DIV 2))");
    one.run("INSERT INTO i VALUES (10), (11), (12)");
    assert!(one.warning().starts_with("Queue: 1 duplicate row was discarded"));
    assert_eq!(one.column(ALL), [10, 12]);
    one.error("INSERT INTO i VALUES (14), ((SELECT 1 UNION SELECT 2))");
    one.run("INSERT INTO t VALUES (15, 't7')");
    assert_eq!(one.column(ALL), [10, 12, 15], "a row that was taken back leaves none out");
    one.run("TRUNCATE t");
    one.run("INSERT INTO t VALUES (16, 'a')");
    assert_eq!(one.column(ALL), [16]);
    // A time that is over.
    one.run("CREATE TABLE s (v INT, k INT) ENGINE=QUEUE DEDUPE=k DEDUPE_FOR=1");
    one.run("INSERT INTO s VALUES (1, 1)");
    one.value("SELECT SLEEP(1.1)");
    one.run("INSERT INTO s VALUES (2, 1)");
    assert_eq!(one.column("SELECT v FROM s"), [1, 2]);
}

fn while_one_waits(server: &Server) {
    let mut one = server.connect("while_one_waits");
    one.run("CREATE TABLE t (v INT, k INT, at INT) ENGINE=QUEUE DEDUPE=k DEDUPE_FOR=0 DUE=at");
    one.run("INSERT INTO t VALUES (1, 1, 0), (2, 1, 0), (3, 2, 2000000000), (4, 2, 0)");
    assert_eq!(one.column(ALL), [1]);
    let mut two = server.connect("while_one_waits");
    assert_eq!(two.column(WAIT), [1]);
    one.run("INSERT INTO t VALUES (5, 1, 0), (6, 1, 0)");
    assert_eq!(one.column(ALL), [5], "1 is being worked on");
    two.value("SELECT queue_end()");
    one.run("DELETE FROM t");
    one.run("INSERT INTO t VALUES (7, 1, 0)");
    assert_eq!(one.column(ALL), [7]);
}

fn in_transactions(server: &Server) {
    let mut one = server.connect("dedupe_transaction");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE DEDUPE=k TRANSACTIONAL=1");
    let mut two = server.connect("dedupe_transaction");
    one.run("BEGIN");
    one.run("INSERT INTO t VALUES (1, 1), (2, 2)");
    two.run("BEGIN");
    two.run("INSERT INTO t VALUES (3, 1), (4, 3)");
    one.run("ROLLBACK");
    two.run("COMMIT");
    assert_eq!(one.column(ALL), [3, 4]);
    // With another engine: decided by its COMMIT, which tells nobody.
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    one.run("BEGIN");
    one.run("INSERT INTO i VALUES (1)");
    one.run("INSERT INTO t VALUES (5, 4), (6, 5)");
    two.run("INSERT INTO t VALUES (7, 4)");
    one.run("COMMIT");
    assert_eq!(one.column(ALL), [3, 4, 7, 6]);
    assert_eq!(one.column("SELECT v FROM i"), [1]);
    // Prepared, and then not committed.
    one.run("XA START 'x'");
    one.run("INSERT INTO t VALUES (8, 6)");
    one.run("XA END 'x'");
    one.run("XA PREPARE 'x'");
    two.run("INSERT INTO t VALUES (9, 6)");
    one.run("XA ROLLBACK 'x'");
    assert_eq!(one.column(ALL), [3, 4, 7, 6, 9]);
}

fn moved(server: &Server) {
    let mut one = server.connect("dedupe_moved");
    one.run("CREATE TABLE dead (v INT, k INT) ENGINE=QUEUE DEDUPE=k");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE TRIES=1 DEAD='dead'");
    one.run("INSERT INTO dead VALUES (1, 1)");
    one.run("INSERT INTO t VALUES (2, 1), (3, 1)");
    let json: Vec<String> = one.rows("SELECT queue_lease_json(30, 2, 't', 0)");
    json[0].split('"').filter(|part| part.contains(".t:")).for_each(|token| {
        assert_eq!(one.value(&format!("SELECT queue_nack('{token}')")), Some(1));
    });
    assert_eq!(one.column("SELECT v FROM dead"), [1, 2, 3], "a dead row is never left out");
    // Nor is a relayed one.
    one.value("SELECT queue_set_srcid(1, 'a', 5)");
    one.run("INSERT INTO dead VALUES (4, 1)");
    assert_eq!(one.column("SELECT v FROM dead"), [1, 2, 3, 4]);
}

fn altered(server: &Server) {
    let mut one = server.connect("altered_dedupe");
    one.run("CREATE TABLE t (v INT, k INT) ENGINE=QUEUE");
    one.run("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)");
    one.run("ALTER TABLE t DEDUPE=k");
    assert_eq!(one.column(ALL), [1, 2, 3], "what is there stays");
    one.run("INSERT INTO t VALUES (4, 1), (5, 3)");
    assert_eq!(one.column(ALL), [1, 2, 3, 5]);
    one.run("DELETE FROM t WHERE v = 5");
    one.run("ALTER TABLE t RENAME COLUMN k TO q, DEDUPE=q");
    one.run("INSERT INTO t VALUES (6, 3)");
    assert_eq!(one.column(ALL), [1, 2, 3], "keys of rows that are gone are known in the copy");
    let error = one.error("ALTER TABLE t RENAME COLUMN q TO r");
    assert!(error.contains("change the option too"), "{error}");
    one.run("ALTER TABLE t DEDUPE=''");
    one.run("INSERT INTO t VALUES (7, 1)");
    assert_eq!(one.column(ALL), [1, 2, 3, 7]);
    one.run("ALTER TABLE t DEDUPE=q DEDUPE_FOR=0");
    let create: Vec<(String, String)> = one.rows("SHOW CREATE TABLE t");
    assert!(create[0].1.contains("`DEDUPE`='q' `DEDUPE_FOR`='0'"), "{}", create[0].1);
    one.run("CREATE TABLE i (v INT, q INT) ENGINE=InnoDB");
    one.run("INSERT INTO i VALUES (1, 1), (2, 1)");
    one.run("ALTER TABLE i ENGINE=QUEUE DEDUPE=q");
    assert_eq!(one.column("SELECT v FROM i"), [1, 2]);
}

fn refused(server: &Server) {
    let mut one = server.connect("refused_dedupe");
    for (column, options, why) in [
        ("k VARCHAR(20) COLLATE utf8mb4_general_ci", "DEDUPE=k", "a _bin collation"),
        ("k FLOAT", "DEDUPE=k", "can't be the key of DEDUPE"),
        ("k INT NULL", "DEDUPE=k FAILED=k", "FAILED, WHY or TOKEN"),
        ("k INT", "DEDUPE=q", "DEDUPE='q' is not a column"),
        ("k INT", "DEDUPE_FOR=9", "DEDUPE_FOR needs DEDUPE"),
    ] {
        let error = one.error(&format!("CREATE TABLE t (v INT, {column}) ENGINE=QUEUE {options}"));
        assert!(error.contains(why), "{column} {options}: {error}");
    }
}

fn killed(server: &mut Server) {
    let mut one = server.connect("killed_dedupe");
    for (table, seconds) in [("t", 3600), ("u", 0)] {
        one.run(&format!("CREATE TABLE {table} (v INT, k UUID) ENGINE=QUEUE DEDUPE=k DEDUPE_FOR={seconds}"));
        one.run(&format!("INSERT INTO {table} SELECT seq, LPAD(seq, 32, '0') FROM seq_1_to_1000"));
        one.run(&format!("DELETE FROM {table} WHERE v % 2"));
    }
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    let mut one = server.connect("killed_dedupe");
    for (table, rows) in [("t", 500), ("u", 1000)] {
        one.run(&format!("INSERT INTO {table} SELECT seq, LPAD(seq, 32, '0') FROM seq_1_to_1000"));
        assert_eq!(one.value(&format!("SELECT COUNT(*) FROM {table}")), Some(rows));
    }
}
