//! Logs with events written by hand: what the servers of the recorded logs did not write.

use std::path::Path;

use failure::Completeness;
use transactions::LogFile;

use crate::support::{Said, all, recorded, walk, write};

/// Bytes of the first event of the log without checksums, and those before it.
const FORMAT_END: usize = 256;
const QUERY: u8 = 2;
const LOAD: u8 = 18;
const INCIDENT: u8 = 26;
const ROWS: u8 = 23;
const XA_PREPARE: u8 = 38;
const GTID: u8 = 162;
const ENCRYPTION: u8 = 164;

/// A log without checksums that has these events: kind and body.
fn log(events: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut log = std::fs::read(recorded("mariadb-10.11-no-sums")).unwrap();
    log.truncate(FORMAT_END);
    for (kind, body) in events {
        log.extend_from_slice(&[0, 0, 0, 0, *kind, 1, 0, 0, 0]);
        log.extend_from_slice(&u32::try_from(body.len() + 19).unwrap().to_le_bytes());
        log.extend_from_slice(&[0; 6]);
        log.extend_from_slice(body);
    }
    log
}

/// The transaction 3-1-7, which another event ends.
fn gtid() -> (u8, Vec<u8>) {
    (GTID, [&[7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0][..], &[0; 6]].concat())
}

/// A statement of connection 9 in the database `app`.
fn query(sql: &str) -> (u8, Vec<u8>) {
    let head = [9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];
    (QUERY, [&head[..], b"app\0", sql.as_bytes()].concat())
}

fn files(folder: &Path, logs: &[Vec<u8>]) -> Vec<LogFile> {
    let file = |(number, bytes): (usize, &Vec<u8>)| {
        let path = folder.join(number.to_string());
        write(&path, bytes);
        LogFile::new(path)
    };
    (1..).zip(logs).map(file).collect()
}

fn said(events: &[(u8, Vec<u8>)]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    walk(&files(folder.path(), &[log(events)]), &all())
}

#[track_caller]
fn only(said: &Said) -> &str {
    let [only] = said.shown.as_slice() else { panic!("{:?} {:?}", said.shown, said.reported) };
    assert!(only.starts_with("3-1-7 "), "{only}");
    only
}

#[test]
fn a_transaction_may_be_rolled_back_after_all() {
    let rolled = said(&[gtid(), query("BEGIN"), query("INSERT INTO t VALUES (1)"), query("ROLLBACK")]);
    assert!(only(&rolled).contains("\n  rolled back\n"));
    let kept = said(&[gtid(), query("BEGIN"), query("INSERT INTO t VALUES (1)"), query("COMMIT")]);
    assert!(
        !only(&kept).contains("rolled back")
            && only(&kept).contains("[app] INSERT INTO t VALUES (1) (thread 9")
    );
}

/// Only without ONE PHASE another transaction says whether it is committed.
#[test]
fn a_distributed_transaction_is_prepared_or_complete() {
    let prepare = |one_phase| {
        let body = [&[one_phase][..], &[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], b"gb"].concat();
        said(&[gtid(), query("XA START 'g','b',1"), (XA_PREPARE, body)])
    };
    assert!(only(&prepare(0)).contains("Prepared((1, [103], [98]))"));
    assert!(!only(&prepare(1)).contains("Prepared"));
}

#[test]
fn a_load_of_a_file_is_a_statement() {
    let (_, query) = query("LOAD DATA INFILE 'x' INTO TABLE t");
    let file = [1, 0, 0, 0, 16, 0, 0, 0, 19, 0, 0, 0, 0];
    let load = [&query[..13], &file, &query[13..]].concat();
    let said = said(&[gtid(), self::query("BEGIN"), (LOAD, load), self::query("COMMIT")]);
    assert!(only(&said).contains("[app] LOAD DATA INFILE 'x' INTO TABLE t (thread 9"), "{}", only(&said));
}

#[test]
fn events_that_are_lost_or_not_known_are_named() {
    for (kind, body) in [(INCIDENT, b"\x01\0\x04lost".to_vec()), (200, b"?".to_vec())] {
        let said = said(&[gtid(), query("BEGIN"), (kind, body), query("COMMIT")]);
        assert!(only(&said).contains("\n  unknown "), "{kind}: {}", only(&said));
    }
}

/// Some servers end a statement with an event of no table.
#[test]
fn an_event_of_no_table_only_ends_a_statement() {
    let rows = |flags, columns: &[u8]| {
        let body = [&[0xff, 0xff, 0xff, 0, 0, 0, flags, 0][..], columns].concat();
        said(&[gtid(), query("BEGIN"), (ROWS, body), query("COMMIT")])
    };
    only(&rows(1, &[0]));
    for (flags, columns) in [(0, &[0][..]), (1, &[1, 1])] {
        let said = rows(flags, columns);
        assert_eq!((said.completeness, said.shown.len()), (Completeness::Damaged, 0), "{flags} {columns:?}");
        assert!(said.reported[0].contains("no table 16777215 was described"), "{:?}", said.reported);
    }
}

#[test]
fn an_encrypted_log_is_left_out_but_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let by_mysql = walk(&files(folder.path(), &[b"\xFDbin\x01\x05\0\0\0".to_vec()]), &all());
    assert_eq!(by_mysql.completeness, Completeness::Partial);
    let [only] = by_mysql.reported.as_slice() else { panic!("{:?}", by_mysql.reported) };
    assert!(only.starts_with("warning: 1: it is encrypted, as MySQL encrypts logs"), "{only}");
    let body = [&[1, 7, 0, 0, 0][..], &[9; 12]].concat();
    let by_mariadb = said(&[(ENCRYPTION, body)]);
    assert_eq!(by_mariadb.completeness, Completeness::Partial);
    let [only] = by_mariadb.reported.as_slice() else { panic!("{:?}", by_mariadb.reported) };
    assert!(only.starts_with("warning: 1: from 292 on it is encrypted"), "{only}");
}

/// CRC-32, as events have it.
fn sum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xEDB8_8320 } else { 0 })
    })
}

/// A replica begins a relay log when it likes.
#[test]
fn a_transaction_goes_on_in_the_next_relay_log() {
    let events = [gtid(), query("BEGIN"), query("INSERT INTO t VALUES (1)"), query("COMMIT")];
    let logs = |flags: u8| {
        [&events[..3], &events[3..]].map(|events| {
            let mut bytes = log(events);
            bytes[4 + 17] |= flags;
            let sum = sum(&bytes[4..FORMAT_END - 4]);
            bytes[FORMAT_END - 4..FORMAT_END].copy_from_slice(&sum.to_le_bytes());
            bytes
        })
    };
    let folder = tempfile::tempdir().unwrap();
    // LOG_EVENT_RELAY_LOG_F.
    let relay = walk(&files(folder.path(), &logs(0x40)), &all());
    assert!(only(&relay).contains("INSERT INTO t VALUES (1)") && relay.reported.is_empty());
    let other = walk(&files(folder.path(), &logs(0)), &all());
    assert_eq!(other.completeness, Completeness::Damaged);
    assert!(!other.shown.concat().contains("INSERT"), "{:?}", other.shown);
}
