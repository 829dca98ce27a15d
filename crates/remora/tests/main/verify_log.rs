//! `remora verify` of an archived log that is the server's files: files that were cut, and a part each day.

use std::fs;
use std::path::Path;

use crate::binlog::{Play, TABLE};
use crate::extract::{mariadb, run, session};
use crate::segments::{self, STORE};
use crate::support::mariadbs;

/// Where the events of an archived file end, and where its last transaction does.
fn borders(play: &mut Play, file: &str) -> (Vec<u64>, u64) {
    let rows = play.session.strings(&format!("SHOW BINLOG EVENTS IN '{file}'")).unwrap();
    let cell = |row: &[Option<String>], at: usize| row[at].clone().unwrap();
    let ends =
        rows.iter().map(|row| (cell(row, 2), cell(row, 4).parse::<u64>().unwrap())).collect::<Vec<_>>();
    // From 11.4 on an event within a transaction does not say where it ends: the next one where it begins.
    let starts = rows.iter().skip(1).map(|row| cell(row, 1).parse::<u64>().unwrap());
    let borders: Vec<u64> = starts.chain(ends.last().map(|(_, end)| *end)).collect();
    let last = ends.iter().rposition(|(kind, _)| kind == "Xid").unwrap();
    let last = borders[last];
    (borders, last)
}

/// What `remora verify` says of a file of which only so many bytes are there.
fn cut(play: &Play, path: &Path, len: u64) -> String {
    let whole = fs::read(path).unwrap();
    fs::write(path, &whole[..usize::try_from(len).unwrap()]).unwrap();
    let ended = run(play.folder.path(), &["verify", "repo/db"]);
    fs::write(path, whole).unwrap();
    assert!([0, 4].contains(&ended.code), "{}", ended.err);
    assert_eq!(
        ended.code == 4,
        ended.out.contains(path.file_name().unwrap().to_str().unwrap()),
        "{}",
        ended.out
    );
    ended.out
}

/// A file that ends behind an event looks whole. What follows it, and what is noted of it, tells what is
/// missing.
#[test]
fn a_file_that_was_cut_after_an_event_is_reported() {
    for product in mariadb() {
        let mut play = Play::new(product, &["--sync-binlog=1"]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')", "BEGIN", "INSERT INTO t (v) VALUES ('b')"]);
        play.does(&["DELETE FROM t WHERE v = 'a'", "COMMIT", "FLUSH BINARY LOGS"]);
        play.does(&["INSERT INTO t (v) VALUES ('c')"]);
        // This one has no last event.
        play.server.kill().unwrap();
        play.server.restart().unwrap();
        play.session = session(&play.server);
        play.does(&["INSERT INTO t (v) VALUES ('d')", "SET GLOBAL binlog_checksum = NONE"]);
        play.does(&["INSERT INTO t (v) VALUES ('e')"]);
        play.once().exits(0);
        let files = ["binlog.000001", "binlog.000002", "binlog.000003"];
        let borders: Vec<_> = files.iter().map(|file| borders(&mut play, file)).collect();
        // And the timeline is not the newest any more.
        let last = play.session.value("SELECT @@gtid_binlog_pos").unwrap();
        play.does(&["RESET MASTER", "INSERT INTO t (v) VALUES ('z')"]);
        play.once().exits(12);
        let sound =
            |play: &Play| run(play.folder.path(), &["verify", "repo/db"]).exits(0).says(&["all sound"]);
        sound(&play);
        for has_notes in [true, false] {
            for (file, (borders, last)) in files.iter().zip(&borders) {
                let path = play.timeline(1).join(file);
                if !has_notes {
                    fs::remove_file(play.timeline(1).join(format!("{file}.arrived"))).unwrap();
                    sound(&play);
                }
                let len = fs::metadata(&path).unwrap().len();
                for end in borders.iter().filter(|end| **end < len) {
                    let said = cut(&play, &path, *end);
                    // No transaction is missing behind the last one, and only notes know of the rest.
                    assert_eq!(
                        said.is_empty(),
                        !has_notes && end >= last,
                        "{file} to {end} of {len}: {said}"
                    );
                }
            }
        }
        assert!(last.is_some());
        let newest = play.timeline(1).join("binlog.000004");
        let len = fs::metadata(&newest).unwrap().len();
        let said = cut(&play, &newest, 4);
        assert!(said.contains(&format!("it ends at 4, but {len} bytes were archived")), "{said}");
        fs::write(play.timeline(1).join("log.index"), "./binlog.000001\n./binlog.000003\n").unwrap();
        let said = run(play.folder.path(), &["verify", "repo/db"]).exits(4).out;
        assert!(said.contains("binlog.000002 as the next file, but log.index lists binlog.000003"), "{said}");
    }
}

/// How many damaged places are told of an archive all of whose files are damaged.
fn told(verify: impl Fn(&str) -> String) -> [usize; 3] {
    ["1/1", "1/2", "1/4"].map(|share| verify(share).lines().count())
}

#[test]
fn a_sample_has_a_part_of_the_log() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &["--binlog-checksum=CRC32"]);
    play.does(&[TABLE]);
    for _ in 0..4 {
        play.does(&["INSERT INTO t (v) VALUES ('one')", "FLUSH BINARY LOGS"]);
    }
    play.once().exits(0);
    for number in 1..=4 {
        let path = play.timeline(1).join(format!("binlog.{number:06}"));
        let mut bytes = fs::read(&path).unwrap();
        let row = bytes.windows(3).rposition(|bytes| bytes == b"one").unwrap();
        bytes[row] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let verify = |share: &str| run(play.folder.path(), &["verify", "repo/db", "--sample", share]);
    // There are five files, and the last one is sound.
    let found = told(|share| verify(share).out);
    assert!(found[0] == 4 && found[1] == 2 && found[2] == 1, "{found:?}");
    verify("1/2").exits(4).says(&["archived log: 5 files", "of 2 (another one each day)"]);

    let mut play = segments::Play::new(STORE, &[]);
    play.does(&[segments::TABLE, "INSERT INTO app.t (v) VALUES ('x')"]);
    for _ in 0..3 {
        play.once().exits(0);
        play.does(&["FLUSH BINARY LOGS", "INSERT INTO app.t (v) VALUES ('x')"]);
    }
    play.once().exits(0);
    // The first segment has no bytes of the log.
    for (name, mut bytes) in play.stored().into_iter().skip(1).filter(|(name, _)| name.ends_with(".log")) {
        let at = bytes.len() - 40;
        bytes[at] ^= 1;
        play.put(&name, Some(bytes));
    }
    let found = told(|share| play.reads(&format!("verify NAME --sample {share}")).out);
    assert!(found[0] > found[1] && found[1] > found[2], "{found:?}");
}
