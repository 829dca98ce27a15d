//! The redo log of a running server, read from an earlier LSN on: which pages it has changed.
#![expect(clippy::disallowed_methods, reason = "files that a server holds still")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use disk::RealDisk;
use innodb::redo::ChangedPages;
use physical::redo_copy::RedoCopier;
use physical::{Error, RedoPosition};
use sandbox::Sandbox;
use server::Session;

use crate::support::{catch_up, connect, execute, of_today, products, start};

const PAGE: usize = 16_384;
/// Tables that change, and one that does not.
const TABLES: [&str; 5] = ["plain", "wide", "packed", "bulk", "still"];

fn log(server: &Sandbox) -> PathBuf {
    server.data().join("ib_logfile0")
}

fn since(server: &Sandbox, lsn: u64) -> Result<RedoCopier, Error> {
    RedoCopier::since(Arc::new(RealDisk), log(server), lsn)
}

/// The files of the tables, with all that was committed in them.
fn files(session: &mut Session, server: &Sandbox) -> BTreeMap<&'static str, Vec<u8>> {
    execute(session, &format!("FLUSH TABLES {} FOR EXPORT", TABLES.join(", ")));
    let read = |table| std::fs::read(path(server, table)).unwrap();
    let files = TABLES.map(|table| (table, read(table))).into();
    execute(session, "UNLOCK TABLES");
    files
}

fn path(server: &Sandbox, table: &str) -> PathBuf {
    server.data().join("a@002db").join(format!("{table}.ibd"))
}

fn space(file: &[u8]) -> u32 {
    u32::from_be_bytes(file[34..38].try_into().unwrap())
}

fn pages(touched: &ChangedPages, table: &str, file: &[u8]) -> Option<BTreeSet<u32>> {
    touched.pages(space(file), &format!("./a@002db/{table}.ibd")).map(Iterator::collect)
}

/// Waits until the log need not go back to what was before.
fn pass_checkpoint(session: &mut Session) {
    let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
    // Purging changes rows, too.
    let history = "SELECT variable_value FROM information_schema.global_status \
                   WHERE variable_name = 'innodb_history_list_length'";
    while session.value(history).unwrap().as_deref() != Some("0") {
        pause();
    }
    let now = RedoPosition::read(session).unwrap().current;
    // Not every server makes one when it is told to; all make one when no page is left to write.
    session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").ok();
    execute(session, "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0");
    // The last record is that of a checkpoint.
    while RedoPosition::read(session).unwrap().checkpoint + 16 < now {
        pause();
    }
}

/// Changes rows in every way, as chance has it.
fn change(session: &mut Session, seed: u64) {
    let mut state = seed;
    let mut any = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..60 {
        let table = TABLES[usize::try_from(any(3)).unwrap()];
        let (from, turn) = (any(4000), any(7));
        let range = format!("id BETWEEN {from} AND {}", from + any(300));
        if turn == 0 {
            execute(session, "BEGIN");
        }
        match any(5) {
            0 => execute(session, &format!("DELETE FROM {table} WHERE {range}")),
            1 => execute(
                session,
                &format!("UPDATE {table} SET pad = REPEAT(MD5(pad), 1 + id % 90) WHERE {range}"),
            ),
            2 => execute(session, &format!("UPDATE {table} SET number = number + 1 WHERE {range}")),
            3 => execute(session, &format!("UPDATE {table} SET pad = 'x' WHERE {range}")),
            _ => {
                let rows = format!("SELECT seq, seq, REPEAT('n', 700) FROM seq_{from}_to_{}", from + 200);
                execute(session, &format!("INSERT IGNORE INTO {table} (id, number, pad) {rows}"));
            }
        }
        if turn == 0 {
            execute(session, if any(2) == 0 { "COMMIT" } else { "ROLLBACK" });
        }
    }
    // Into an empty table the server writes pages, not rows.
    execute(session, "SET SESSION unique_checks = 0, SESSION foreign_key_checks = 0");
    execute(session, "INSERT INTO bulk SELECT seq, seq % 99, MD5(seq) FROM seq_1_to_9000");
    execute(session, "SET SESSION unique_checks = 1, SESSION foreign_key_checks = 1");
    execute(session, &format!("ALTER TABLE plain ADD COLUMN c{seed} INT, ALGORITHM=INSTANT"));
    execute(session, &format!("ALTER TABLE wide ADD KEY k{seed} (number), ALGORITHM=INPLACE"));
}

#[test]
fn every_page_that_differs_was_changed_by_the_log() {
    for product in of_today() {
        let server = start(product, &["--innodb-log-file-size=48M", "--innodb-flush-log-at-trx-commit=1"]);
        let mut session = connect(&server);
        for table in TABLES {
            let more = if table == "packed" { "ROW_FORMAT=COMPACT" } else { "ROW_FORMAT=DYNAMIC" };
            execute(
                &mut session,
                &format!(
                    "CREATE TABLE {table} (id INT PRIMARY KEY, number INT, pad TEXT, KEY (pad(20))) {more}"
                ),
            );
            let rows = "SELECT seq, seq % 100, REPEAT(MD5(seq), 1 + seq % 5) FROM seq_1_to_3000";
            if table != "bulk" {
                execute(&mut session, &format!("INSERT INTO {table} {rows}"));
            }
        }
        for seed in 0..4 {
            execute(&mut session, "DELETE FROM bulk");
            pass_checkpoint(&mut session);
            let begins = RedoCopier::begin(Arc::new(RealDisk), log(&server), Box::new(std::io::sink()));
            let from = begins.unwrap().checkpoint();
            let before = files(&mut session, &server);
            // What is in the log before that is in these files.
            change(&mut session, seed);
            let after = files(&mut session, &server);
            let mut follow = since(&server, from).unwrap();
            catch_up(&mut follow, &mut session).unwrap();
            let touched = follow.changed_pages().unwrap();
            for (table, now) in &after {
                let was = &before[table];
                let told = pages(touched, table, now).unwrap();
                for (number, page) in (0..).zip(now.chunks_exact(PAGE)) {
                    let was = was.get(number as usize * PAGE..(number as usize + 1) * PAGE);
                    let is_told = told.contains(&number);
                    assert!(
                        was.is_none() || was == Some(page) || is_told,
                        "{product} {seed}: {table} {number}"
                    );
                }
                let all = now.len() / PAGE;
                assert!(told.len() < all, "{product} {seed}: {} of {all} pages of {table}", told.len());
                assert_eq!(*table == "still", told.is_empty(), "{product} {seed} {table}: {told:?}");
            }
        }
    }
}

#[test]
fn a_replaced_file_counts_as_unknown() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        for table in ["renamed", "emptied", "altered", "dropped", "discarded", "same"] {
            execute(&mut session, &format!("CREATE TABLE {table} (id INT PRIMARY KEY) SELECT 1 AS id"));
        }
        pass_checkpoint(&mut session);
        let from = RedoPosition::read(&mut session).unwrap().checkpoint;
        let renamed = std::fs::read(path(&server, "renamed")).unwrap();
        for sql in [
            "RENAME TABLE renamed TO new_name",
            "TRUNCATE TABLE emptied",
            "ALTER TABLE altered FORCE",
            "DROP TABLE dropped",
            "ALTER TABLE discarded DISCARD TABLESPACE",
            "CREATE TABLE made (id INT PRIMARY KEY)",
            "UPDATE same SET id = 2",
        ] {
            execute(&mut session, sql);
        }
        let mut follow = since(&server, from).unwrap();
        catch_up(&mut follow, &mut session).unwrap();
        let touched = follow.changed_pages().unwrap();
        let space_of_renamed = space(&renamed);
        let is_known =
            |space: u32, name: &str| touched.pages(space, &format!("./a@002db/{name}.ibd")).is_some();
        // By the number that it had, or by its name alone.
        for space in [space_of_renamed, 100_000] {
            assert!(!is_known(space, "renamed") && !is_known(space, "new_name"), "{product}: {space}");
        }
        for name in ["emptied", "altered", "dropped", "discarded", "made"] {
            assert!(!is_known(100_000, name), "{product}: {name}");
        }
        assert!(!is_known(space_of_renamed, "other"), "{product}");
        assert!(is_known(100_000, "same"), "{product}");
    }
}

#[test]
fn a_log_that_does_not_go_back_so_far_says_so() {
    let server = start(products()[0], &["--innodb-log-file-size=4M"]);
    let mut session = connect(&server);
    execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a CHAR(200))");
    let from = RedoPosition::read(&mut session).unwrap().checkpoint;
    for before in [0, from - 1_000_000_000.min(from)] {
        let refused = since(&server, before).err().unwrap();
        assert!(matches!(refused, Error::Log { .. }), "{refused}");
    }
    let now = RedoPosition::read(&mut session).unwrap().current;
    let mark = since(&server, from).unwrap().mark(now).unwrap();
    for _ in 0..30 {
        assert_eq!(since(&server, from).unwrap().mark(now).unwrap(), mark, "it stays what it is");
        assert_ne!(since(&server, from).unwrap().mark(now - 1).unwrap(), mark);
        execute(&mut session, "INSERT INTO t (a) SELECT REPEAT('x', 200) FROM seq_1_to_200");
    }
    // The server has come round.
    for _ in 0..60 {
        execute(&mut session, "INSERT INTO t (a) SELECT REPEAT('x', 200) FROM seq_1_to_1000");
    }
    let mut follow = since(&server, from).unwrap();
    assert!(follow.behind(RedoPosition::read(&mut session).unwrap().current) > 1.0);
    let refused = catch_up(&mut follow, &mut session).err().unwrap();
    assert!(matches!(refused, Error::Log { .. }), "{refused}");
    assert_ne!(since(&server, from).unwrap().mark(now).unwrap(), mark, "it is overwritten");
}

#[test]
fn a_recreated_log_is_recognised() {
    let server = start(products()[0], &["--innodb-log-file-size=4M"]);
    let mut session = connect(&server);
    let from = RedoPosition::read(&mut session).unwrap().checkpoint;
    execute(&mut session, "CREATE TABLE t (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_2000");
    execute(&mut session, "SET GLOBAL innodb_log_checkpoint_now = 1");
    let opened = since(&server, from).unwrap();
    execute(&mut session, "SET GLOBAL innodb_log_file_size = 32 << 20");
    assert!(since(&server, from).err().unwrap().to_string().contains("begins after"));
    let mut opened = opened;
    let refused = catch_up(&mut opened, &mut session).err().unwrap();
    assert!(matches!(refused, Error::Log { .. }), "{refused}");
}
