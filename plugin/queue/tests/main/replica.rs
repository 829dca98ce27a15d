//! A replica makes, changes and drops queues in the threads that apply the log of its source, in which no
//! command of a client ends.

use crate::server::{Client, Server};

/// What ALTER TABLE can say of a queue, and back to what it was.
const OPTIONS: [(&str, &str); 20] = [
    ("SYNC='interval'", "SYNC=DEFAULT"),
    ("TRIES=3", "TRIES=0"),
    ("BACKOFF='1,2,3'", "BACKOFF=''"),
    ("TRIES=3 DEAD='dead'", "TRIES=0 DEAD=''"),
    ("FAILED='n'", "FAILED=''"),
    ("WHY='body'", "WHY=''"),
    ("TOKEN='body'", "TOKEN=''"),
    ("DUE='n'", "DUE=''"),
    ("PRIORITY='n'", "PRIORITY=''"),
    ("PRIORITY='n' AGE=9", "PRIORITY='' AGE=0"),
    ("FIFO='k'", "FIFO=''"),
    ("FIFO='k' CONCURRENCY=3", "FIFO='' CONCURRENCY=DEFAULT"),
    ("DEDUPE='k' DEDUPE_FOR=60", "DEDUPE='' DEDUPE_FOR=DEFAULT"),
    ("RATE='5/60'", "RATE=''"),
    ("RATE='5/60' RATE_KEY='k'", "RATE='' RATE_KEY=''"),
    ("KEEP=60", "KEEP=0"),
    ("KEEP=60 READERS='x,y'", "KEEP=0 READERS=''"),
    ("TRANSACTIONAL=1", "TRANSACTIONAL=0"),
    ("COMMENT='c'", "COMMENT=''"),
    ("ENGINE=InnoDB", "ENGINE=QUEUE"),
];

/// Other statements; after each of them, and after each option, the table is renamed and renamed back.
const STATEMENTS: [&str; 23] = [
    "ALTER TABLE a ADD COLUMN m INT, RENAME TO x",
    "ALTER TABLE x RENAME TO a",
    "ALTER TABLE a DROP COLUMN m",
    "ALTER TABLE a MODIFY id BIGINT",
    "ALTER TABLE a RENAME COLUMN id TO number",
    "ALTER TABLE a CONVERT TO CHARACTER SET latin1",
    "ALTER TABLE a FORCE",
    "ALTER TABLE a ORDER BY number",
    "ALTER TABLE a ALTER COLUMN n SET DEFAULT 5",
    "CREATE TABLE b LIKE a",
    "RENAME TABLE a TO x, b TO a, x TO b",
    "CREATE TABLE c (u INT) ENGINE=QUEUE TRIES=2",
    "CREATE OR REPLACE TABLE c (v INT) ENGINE=QUEUE",
    "CREATE TABLE IF NOT EXISTS c (w INT) ENGINE=QUEUE",
    "CREATE TRIGGER g BEFORE INSERT ON c FOR EACH ROW SET NEW.v = 9",
    "TRUNCATE TABLE c",
    "DROP TRIGGER g",
    "OPTIMIZE TABLE a, b",
    "ANALYZE TABLE a",
    "REPAIR TABLE a",
    "CHECK TABLE a",
    "RENAME TABLE c TO other.c",
    "DROP TABLE other.c, b",
];

/// The tables of both databases, as SHOW CREATE TABLE has them.
fn tables(client: &mut Client) -> Vec<(String, String)> {
    let names: Vec<String> = client.rows(
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN ('d', 'other') \
         ORDER BY 1",
    );
    names
        .iter()
        .flat_map(|name| client.rows::<(String, String)>(&format!("SHOW CREATE TABLE {name}")))
        .collect()
}

/// Waits until the replica has done what the source has logged.
fn catch_up(source: &mut Client, replica: &mut Client, after: &str) {
    let position: Vec<String> = source.rows("SELECT @@gtid_binlog_pos");
    let waited = replica.value(&format!("SELECT MASTER_GTID_WAIT('{}', 60)", position[0]));
    let status: Vec<mysql::Row> = replica.rows("SHOW SLAVE STATUS");
    let error: String = status[0].get("Last_SQL_Error").unwrap();
    assert_eq!(waited, Some(0), "the replica stopped at: {after}: {error}");
}

#[test]
fn a_replica_changes_queues_in_one_thread() {
    let source = Server::start_source(&["--log-bin=log", "--server-id=1"]);
    let replica = Server::start_with(&["--log-bin=log", "--server-id=2", "--log-slave-updates"]);
    let (mut one, mut two) = (source.connect("d"), replica.connect(""));
    one.run("CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'");
    one.run("GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'");
    one.run("CREATE DATABASE other");
    let begin: Vec<String> = one.rows("SELECT @@gtid_binlog_pos");
    two.run("SET sql_log_bin = 0");
    two.run("CREATE DATABASE d");
    two.run("CREATE DATABASE other");
    two.run(&format!("SET GLOBAL gtid_slave_pos = '{}'", begin[0]));
    two.run(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy', MASTER_PASSWORD = 'x', \
         MASTER_SSL = 0, MASTER_USE_GTID = slave_pos",
        source.0.port().unwrap()
    ));
    for (threads, format) in [(0, "MIXED"), (2, "ROW"), (2, "STATEMENT")] {
        two.run(&format!("SET GLOBAL slave_parallel_threads = {threads}"));
        two.run("START SLAVE");
        one.run(&format!("SET SESSION binlog_format = {format}"));
        for statement in [
            "CREATE TABLE dead (id INT, body TEXT, n INT NULL, k BINARY(8)) ENGINE=QUEUE",
            "CREATE TABLE a (id INT, body TEXT, n INT NULL, k BINARY(8)) ENGINE=QUEUE",
            "ALTER TABLE a TRIES=1",
            "RENAME TABLE a TO x",
            "ALTER TABLE x TRIES=0, RENAME TO a",
        ] {
            one.run(statement);
            catch_up(&mut one, &mut two, statement);
        }
        // Both have a row, which is not replicated.
        one.run("INSERT INTO a (id) VALUES (1)");
        two.run("INSERT INTO d.a (id) VALUES (1)");
        let changes = OPTIONS
            .iter()
            .flat_map(|(there, back)| [there, back])
            .map(|option| format!("ALTER TABLE a {option}"));
        for statement in changes.chain(STATEMENTS.map(str::to_owned)) {
            one.run(&statement);
            if one.value("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd' AND table_name = 'a'") == Some(1) {
                one.run("RENAME TABLE a TO y");
                one.run("RENAME TABLE y TO a");
            }
            catch_up(&mut one, &mut two, &statement);
            assert_eq!(tables(&mut one), tables(&mut two), "{statement}");
            if statement.starts_with("RENAME TABLE a TO x, b") {
                // The empty table has its name now.
                one.run("INSERT INTO a (number) VALUES (1)");
                two.run("INSERT INTO d.a (number) VALUES (1)");
            }
            // What was held back while it was copied is taken from again.
            if two.value("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd' AND table_name = 'a' AND engine = 'QUEUE'") == Some(1) {
                let reader = if statement.contains("READERS='x") { "@x" } else { "" };
                assert_eq!(two.value(&format!("SELECT queue_wait('d.a{reader}', 0)")), Some(1), "{statement}");
                assert_eq!(two.value("SELECT queue_abort()"), Some(1));
            }
        }
        let error = one.error("CREATE TABLE c ENGINE=QUEUE SELECT 1 AS v");
        assert!(error.contains("is not written to the binary log"), "{error}");
        one.run("DROP TABLE a, dead");
        catch_up(&mut one, &mut two, "DROP TABLE");
        two.run("STOP SLAVE");
    }
    one.run("DROP DATABASE d");
    assert!(!source.0.data().join("d").exists());
}
