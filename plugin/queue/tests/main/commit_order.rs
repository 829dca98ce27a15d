//! Commits that the server's coordinator remembers until their queues are synced.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::server::Client;
use crate::transaction::{COORDINATORS, restarted, tables};

/// Some thousand transactions are through, and a checkpoint is written, within this time.
const STILL: Duration = Duration::from_secs(300);

/// Commits a row in both engines.
fn commit(client: &mut Client, v: u64) {
    for sql in
        ["BEGIN", &format!("INSERT INTO i VALUES ({v})"), &format!("INSERT INTO q VALUES ({v})"), "COMMIT"]
    {
        client.run(sql);
    }
}

/// Both engines have that row, and no other one.
#[track_caller]
fn has_the_row(client: &mut Client) {
    assert_eq!((client.column("SELECT v FROM i"), client.column("SELECT v FROM q")), (vec![1], vec![1]));
}

#[test]
fn a_commit_with_two_phases_is_synced_once() {
    let server = restarted(&[]);
    let mut one = server.connect("x");
    tables(&mut one);
    let syncs = |client: &mut Client| {
        let status: Vec<(String, String, String)> = client.rows("SHOW ENGINE QUEUE STATUS");
        let line = status[0].2.lines().find(|line| line.starts_with("sys_sync ")).unwrap().to_owned();
        line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    // The first one begins the file.
    commit(&mut one, 1);
    let before = syncs(&mut one);
    commit(&mut one, 2);
    assert_eq!(syncs(&mut one), before + 1);
}

#[test]
fn the_binary_log_forgets_a_commit_when_it_is_durable() {
    let mut server = restarted(COORDINATORS[0]);
    let mut one = server.connect("x");
    tables(&mut one);
    commit(&mut one, 1);
    // After a crash the server reads the log from the last checkpoint on, which comes when all engines have
    // answered.
    one.run("FLUSH BINARY LOGS");
    let (last, _): (String, u64) = one.rows("SHOW BINARY LOGS").pop().unwrap();
    let is_checkpoint = |(_, _, kind, _, _, of): (String, u64, String, u64, u64, String)| {
        kind == "Binlog_checkpoint" && of == last
    };
    let started = Instant::now();
    while !one.rows(&format!("SHOW BINLOG EVENTS IN '{last}'")).into_iter().any(is_checkpoint) {
        assert!(started.elapsed() < STILL, "the log has no checkpoint");
    }
    drop(one);
    server.0.kill().unwrap();
    server.0.restart().unwrap();
    has_the_row(&mut server.connect("x"));
}

#[test]
fn tc_log_does_not_run_out_of_room() {
    let mut server = restarted(COORDINATORS[1]);
    let mut one = server.connect("x");
    tables(&mut one);
    // The file has room for 3072.
    one.run(
        "CREATE PROCEDURE p() FOR n IN 1..4000 DO
           START TRANSACTION; INSERT INTO i VALUES (n); INSERT INTO q VALUES (n); COMMIT;
         END FOR",
    );
    let call = std::thread::spawn(move || one.query_drop("CALL p()"));
    let started = Instant::now();
    while !call.is_finished() && started.elapsed() < STILL {
        std::thread::yield_now();
    }
    let in_time = call.is_finished();
    server.0.kill().unwrap();
    assert!(in_time, "the coordinator waits for room");
    call.join().unwrap().unwrap();
    server.0.restart().unwrap();
    let mut two = server.connect("x");
    for table in ["i", "q"] {
        assert_eq!(two.value(&format!("SELECT COUNT(*) FROM {table}")), Some(4000), "{table}");
    }
}

#[test]
fn a_copy_of_the_files_needs_no_coordinator_after_the_logs_are_flushed() {
    for coordinator in COORDINATORS {
        let mut server = restarted(coordinator);
        let mut one = server.connect("x");
        tables(&mut one);
        commit(&mut one, 1);
        one.run("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
        drop(one);
        server.0.kill().unwrap();
        for file in std::fs::read_dir(server.0.data()).unwrap().map(|file| file.unwrap().path()) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if name == "tc.log" || name.contains("-bin.") {
                std::fs::remove_file(&file).unwrap();
            }
        }
        server.0.restart().unwrap();
        has_the_row(&mut server.connect("x"));
    }
}
