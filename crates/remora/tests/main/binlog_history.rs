//! An archive of a binary log whose server has a fork or a gap.

use sandbox::Product;

use crate::binlog::{Play, TABLE};
use crate::extract::{mariadb, run, session};

#[test]
fn reset_master_connected_begins_a_timeline_and_overwrites_nothing() {
    mariadb().for_each(|product| reset_master(product, true));
}

#[test]
fn reset_master_away_begins_a_timeline_and_overwrites_nothing() {
    mariadb().for_each(|product| reset_master(product, false));
}

fn reset_master(product: Product, is_connected: bool) {
    let mut play = Play::new(product, &[]);
    play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')"]);
    play.once().exits(0);
    let before = std::fs::read(play.timeline(1).join("binlog.000001")).unwrap();
    let running = is_connected.then(|| {
        let mut running = play.follow(&[]);
        running.until_says("caught up");
        running
    });
    // The same names, and as many bytes.
    play.does(&["DROP TABLE t", "RESET MASTER", TABLE, "INSERT INTO t (v) VALUES ('b')"]);
    match running {
        None => drop(play.once().exits(12).says(&["binlog.000001", "timeline 2 begins with binlog.000001"])),
        Some(mut running) => {
            running.until_says("timeline 2 begins");
            play.until_archived(2);
            running.signal("INT");
            running.end().exits(130);
        }
    }
    play.is_archived(2);
    let archived = std::fs::read(play.timeline(1).join("binlog.000001")).unwrap();
    assert!(archived.starts_with(&before));
    assert_eq!(play.description(2)["reason"], "fork");
    // A fork that was reported is not reported again.
    play.once().exits(0);
    let shown = run(play.folder.path(), &["log", "repo/db", "--rows"]).exits(0).out;
    assert!(shown.contains("'b'") && !shown.contains("'a'"), "{shown}");
}

/// CRC-32 as zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// The first event has the time at which the file was begun. Here only that differs, and no transaction.
#[test]
fn a_file_with_another_creation_time_begins_a_timeline() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('same')"]);
        play.once().exits(0);
        let path = play.timeline(1).join("binlog.000001");
        let mut bytes = std::fs::read(&path).unwrap();
        let end = 4 + usize::from(u16::from_le_bytes([bytes[13], bytes[14]]));
        bytes[4] ^= 1;
        let in_use = std::mem::take(&mut bytes[21]);
        let sum = crc32(&bytes[4..end - 4]);
        bytes[end - 4..end].copy_from_slice(&sum.to_le_bytes());
        bytes[21] = in_use;
        std::fs::write(&path, &bytes).unwrap();
        play.once().exits(12).says(&["the server started binlog.000001 again"]);
        play.is_archived(2);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_last_transaction_with_other_bytes_begins_a_timeline() {
    for product in mariadb() {
        let mut play = Play::new(product, &["--binlog-checksum=NONE"]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('unlike')"]);
        play.once().exits(0);
        let path = play.timeline(1).join("binlog.000001");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(6).rposition(|word| word == b"unlike").unwrap();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        play.does(&["INSERT INTO t (v) VALUES ('more')"]);
        play.once().exits(12).says(&["binlog.000001 differs from what is archived, at"]);
        play.is_archived(2);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

/// An older state of the server is restored: its log begins as the archived one, and continues differently.
/// Or it has less, as after a loss of power.
#[test]
fn a_server_restored_to_an_older_state_begins_a_timeline() {
    for product in mariadb() {
        for more in [0, 1] {
            let mut play = Play::new(product, &[]);
            play.does(&[
                TABLE,
                "INSERT INTO t (v) VALUES ('a')",
                "FLUSH BINARY LOGS",
                "INSERT INTO t (v) VALUES ('b')",
            ]);
            let file = play.server.data().join("binlog.000002");
            let older = std::fs::read(&file).unwrap();
            play.does(&["INSERT INTO t (v) VALUES ('c')", "INSERT INTO t (v) VALUES ('d')"]);
            play.once().exits(0);
            play.server.stop().unwrap();
            std::fs::write(&file, &older).unwrap();
            play.server.restart().unwrap();
            play.session = session(&play.server);
            for _ in 0..more {
                play.does(&["INSERT INTO t (id, v) VALUES (103, 'C')"]);
            }
            play.once().exits(12).says(&["timeline 2 begins with binlog.000001"]);
            play.is_archived(2);
            let shown =
                run(play.folder.path(), &["log", play.timeline(1).to_str().unwrap(), "--rows"]).exits(0).out;
            assert!(shown.contains("'d'"), "{shown}");
        }
    }
}

#[test]
fn files_purged_before_they_were_archived_begin_a_timeline() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')", "FLUSH BINARY LOGS"]);
        play.once().exits(0);
        // All that is purged is archived, up to the name of the next file, before which a run was killed: the
        // timeline continues.
        std::fs::remove_file(play.timeline(1).join("binlog.000002")).unwrap();
        std::fs::write(play.timeline(1).join("log.index"), "./binlog.000001\n").unwrap();
        play.purge("binlog.000002");
        play.does(&["INSERT INTO t (v) VALUES ('b')"]);
        play.once().exits(0);
        assert!(!play.timeline(2).exists());
        let shown = run(play.folder.path(), &["log", "repo/db", "--rows"]).exits(0).out;
        assert!(shown.contains("'a'") && shown.contains("'b'"), "{shown}");
        // And here it is not.
        play.does(&["INSERT INTO t (v) VALUES ('c')", "FLUSH BINARY LOGS"]);
        play.does(&["INSERT INTO t (v) VALUES ('lost')", "FLUSH BINARY LOGS"]);
        play.purge("binlog.000004");
        play.does(&["INSERT INTO t (v) VALUES ('e')"]);
        let ended = play.once().exits(12);
        ended.says(&["no binlog.000002 any more, its oldest file is binlog.000004", "not archived"]);
        play.is_archived(2);
        assert_eq!(play.description(2)["reason"], "gap");
        assert_eq!(play.description(2)["before"][0], "binlog.000002");
        play.once().exits(0);
    }
}

/// Only the numbers say that it continues where the archive ends, and they are those of a fork.
#[test]
fn a_fork_with_as_many_transactions_begins_a_timeline() {
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('old')"]);
        play.once().exits(0);
        let archived = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        play.does(&["RESET MASTER"]);
        for number in 1.. {
            play.does(&[&format!("INSERT INTO t (v) VALUES ('{number}')")]);
            let now = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
            if now == archived {
                break;
            }
            assert!(number < 100, "{now} does not become {archived}");
        }
        play.does(&["FLUSH BINARY LOGS", "INSERT INTO t (v) VALUES ('z')"]);
        play.purge("binlog.000002");
        play.once().exits(12).says(&["no binlog.000001 any more", "timeline 2 begins with binlog.000002"]);
        play.is_archived(2);
    }
}

/// Two domains have transactions, and what the server has purged was archived, but for some of one of them.
#[test]
fn a_gap_in_one_of_several_domains_begins_a_timeline() {
    let insert = |domain: u32| {
        format!("SET STATEMENT gtid_domain_id = {domain} FOR INSERT INTO t (v) VALUES ('{domain}')")
    };
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        play.does(&[TABLE, &insert(0), &insert(1), &insert(1), "FLUSH BINARY LOGS"]);
        play.once().exits(0);
        let forget = |play: &Play, file: &str, index: &str| {
            std::fs::remove_file(play.timeline(1).join(file)).unwrap();
            std::fs::write(play.timeline(1).join("log.index"), index).unwrap();
        };
        // Both have in the server's oldest file what they have at the archive's end: the timeline continues.
        forget(&play, "binlog.000002", "./binlog.000001\n");
        play.purge("binlog.000002");
        play.does(&[&insert(1), "FLUSH BINARY LOGS", &insert(0), "FLUSH BINARY LOGS"]);
        play.once().exits(0);
        assert!(!play.timeline(2).exists());
        let verify = |play: &Play| run(play.folder.path(), &["verify", "repo/db"]);
        verify(&play).exits(0);
        // A file in the midst of the timeline, which is in no list any more.
        let kept = ["binlog.000002", "log.index"].map(|name| {
            let path = play.timeline(1).join(name);
            (std::fs::read(&path).unwrap(), path)
        });
        forget(&play, "binlog.000002", "./binlog.000001\n./binlog.000003\n./binlog.000004\n");
        let told = verify(&play).exits(4).out;
        let said =
            "binlog.000001: it names binlog.000002 as the next file, but log.index lists binlog.000003";
        assert!(told.contains(said), "{told}");
        kept.iter().for_each(|(bytes, path)| std::fs::write(path, bytes).unwrap());
        verify(&play).exits(0);
        // One domain lacks two.
        play.does(&[&insert(1), "FLUSH BINARY LOGS", &insert(1), "FLUSH BINARY LOGS"]);
        play.purge("binlog.000006");
        let ended =
            play.once().exits(12).says(&["no binlog.000004 any more, its oldest file is binlog.000006"]);
        assert!(ended.err.contains("is not archived, 1-7-5 behind 1-7-3;"), "{}", ended.err);
        assert_eq!(play.description(2)["reason"], "gap");
        play.is_archived(2);
        verify(&play).exits(0);
    }
}

/// The server's log is a fork in which one of two domains has less.
#[test]
fn a_fork_with_less_in_one_domain_begins_a_timeline() {
    let insert = |domain: u32| {
        format!("SET STATEMENT gtid_domain_id = {domain} FOR INSERT INTO t (v) VALUES ('{domain}')")
    };
    for product in mariadb() {
        let mut play = Play::new(product, &[]);
        play.does(&[TABLE, &insert(1), &insert(1)]);
        play.once().exits(0);
        let domain_0 = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        let domain_0 = domain_0.split(',').find(|it| it.starts_with("0-")).unwrap().to_owned();
        play.does(&["FLUSH BINARY LOGS"]);
        play.once().exits(0);
        std::fs::remove_file(play.timeline(1).join("binlog.000002")).unwrap();
        std::fs::write(play.timeline(1).join("log.index"), "./binlog.000001\n").unwrap();
        play.does(&["RESET MASTER", &insert(1)]);
        loop {
            play.does(&[&insert(0)]);
            if play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap().contains(&domain_0) {
                break;
            }
        }
        play.does(&["FLUSH BINARY LOGS"]);
        play.purge("binlog.000002");
        play.once().exits(12).says(&["its oldest file is binlog.000002, with 1-7-1 as the last one"]);
        assert_eq!(play.description(2)["reason"], "fork");
        play.is_archived(2);
    }
}
