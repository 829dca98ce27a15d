//! What reads a segmented archive.

use crate::extract::{execute, session};
use crate::segments::{ALL, Kind, PLANTED, Play, SEALED, SEALED_STORE, STORE, TABLE};
use crate::support::Ended;

#[test]
fn every_command_reads_a_segmented_archive() {
    for kind in ALL {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE, &format!("INSERT INTO app.t (v) VALUES ('{PLANTED}')"), "FLUSH BINARY LOGS"]);
        play.once().exits(0).says(&["archived: timeline 1"]);
        play.is_archived();
        play.does(&["UPDATE app.t SET v = 'other'"]);
        play.once().exits(0);
        play.once().exits(0);
        play.is_archived();
        let whole = play.stored().len();
        // Only what is new is written.
        play.once().exits(0);
        assert_eq!(play.stored().len(), whole);
        for (name, bytes) in play.stored() {
            let holds = bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes());
            assert!(!holds || kind.full.is_empty(), "{name} shows a row");
        }
        let gtid = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        let undo = play.reads(&format!("reverse NAME --gtid {gtid} --table app.t")).exits(0).out;
        assert!(undo.contains(PLANTED), "{undo}");
        let listed = play.reads("list NAME").exits(0).out;
        assert!(
            listed.contains("db log, timeline 1") && listed.contains("binlog.000001 to binlog.000002"),
            "{listed}"
        );
        assert!(listed.contains("caught up"), "{listed}");
        play.reads("list NAME --log-older-than 10m").exits(0);
        if !kind.put.is_empty() {
            let with = |line: &str, key| play.run(&line.replace("NAME", kind.name), key);
            with("log NAME", "").exits(2).says(&["is encrypted", "--key FILE"]);
            with("log NAME", "host.put").exits(2).says(&["needs the full key"]);
            with("list NAME", "").exits(2).says(&["is encrypted"]);
            with("verify NAME", "host.put").exits(0).says(&["a put key opens none", "all sound"]);
            let listed = with("list NAME", "host.put").exits(0).out;
            assert!(listed.contains("binlog.000001 to binlog.000002"), "{listed}");
            with("key new another.key", "").exits(0);
            for line in ["log NAME", "verify NAME", "list NAME"] {
                with(line, "another.key").exits(2).says(&["is for the key"]);
            }
            let mut command = play.with_server(&format!("binlog {} --once", kind.name), "");
            Ended::of(&command.output().unwrap()).exits(2).says(&["is encrypted"]);
        }
    }
}

#[test]
fn damage_is_named_by_every_reader() {
    for kind in ALL {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE]);
        for number in 0..4 {
            play.does(&[&format!("INSERT INTO app.t (v) VALUES ('{number}')")]);
            play.once().exits(0);
        }
        let stored = play.stored();
        for (name, bytes) in &stored {
            let mut bad = bytes.clone();
            let at = bytes.len() - 40;
            bad[at] ^= 1;
            for (bytes, has_key) in
                [(Some(bad), true), (Some(bytes[..bytes.len() / 2].to_vec()), true), (None, true)]
            {
                play.put(name, bytes);
                play.reads("verify NAME").exits(4);
                let key = if has_key { kind.put } else { "" };
                play.run(&format!("verify {}", kind.name), key).exits(4);
            }
            play.put(name, Some(bytes.clone()));
        }
        // The last segments are taken away together: what was noted tells.
        let (name, bytes) = stored.last().unwrap();
        play.put(name, None);
        play.reads("log NAME").exits(4).says(&["newest segments are missing"]);
        play.reads("list NAME").exits(4).says(&["newest segments are missing"]);
        play.put(name, Some(bytes.clone()));
        play.is_archived();
        // Two of them swapped.
        let [.., (one, first), (other, second)] = stored.as_slice() else { panic!("{}", stored.len()) };
        play.put(one, Some(second.clone()));
        play.put(other, Some(first.clone()));
        play.reads("log NAME").exits(4);
        play.reads("verify NAME").exits(4);
    }
}

#[test]
fn every_point_in_time_is_restored_from_segments() {
    for kind in ALL {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE, "INSERT INTO app.t (v) VALUES ('before')"]);
        let repository = kind.name.strip_suffix("/db").unwrap().to_owned();
        let back_up = |play: &Play, key: &str| {
            let line = format!("backup mysql: --way copy --no-prove --name db --to {repository}");
            Ended::of(&play.with_server(&line, key).output().unwrap()).exits(0);
        };
        back_up(&play, kind.put);
        play.does(&["INSERT INTO app.t (v) VALUES ('one')", "FLUSH BINARY LOGS"]);
        let one = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        play.does(&["INSERT INTO app.t (v) VALUES ('two')", "DELETE FROM app.t"]);
        play.once().exits(0);
        let rows = |moment: &str, to: &str| {
            let line = format!("--json restore NAME --tables app.t --to {to} {moment}");
            let done = play.reads(&line).exits(0).out;
            let summary: serde_json::Value = serde_json::from_str(done.lines().last().unwrap()).unwrap();
            summary["rows"].as_u64()
        };
        assert_eq!(rows(&format!("--until {one}"), "one"), Some(2));
        assert_eq!(rows("--until end", "end"), Some(0));
        play.reads("restore NAME --to whole --until end").exits(0);
        assert!(play.folder.path().join("whole").is_dir());
        if !kind.put.is_empty() {
            let line = format!("restore {} --to back --until end", kind.name);
            play.run(&line, kind.put).exits(2).says(&["needs the full key"]);
        }
        // What no generation needs goes, and the rest still leads to every moment.
        play.does(&["FLUSH BINARY LOGS", "INSERT INTO app.t (v) VALUES ('three')"]);
        back_up(&play, kind.put);
        play.once().exits(0);
        let before = play.stored().len();
        play.run(&format!("prune {repository} --keep-last 1"), kind.put)
            .exits(0)
            .says(&["freed in the archived log"]);
        assert!(play.stored().len() < before);
        play.reads("verify NAME").exits(0);
        play.reads("restore NAME --to later --until end").exits(0);
    }
}

#[test]
fn a_mirror_copies_segments_and_a_new_key_opens_them() {
    let mut play = Play::new(SEALED, &[]);
    play.does(&[TABLE, "INSERT INTO app.t (v) VALUES ('a')"]);
    play.once().exits(0);
    play.run("mirror repo s3://b/off", "").exits(0).says(&["db, archived log"]);
    play.run("mirror s3://b/off back", "").exits(0);
    let own = play.reads("log NAME --rows").exits(0).out;
    for place in ["s3://b/off/db", "back/db"] {
        let copy = play.run(&format!("log {place} --rows"), "full.key").exits(0).out;
        assert!(copy == own && own.contains("'a'"), "{place}: {copy}");
        play.run(&format!("verify {place}"), "full.key").exits(0);
    }
    // The old put key is refused from then on, and what it wrote is read with the new one.
    play.run("key new new.key", "").exits(0);
    play.run("key put new.key new.put", "").exits(0);
    play.run("rekey repo --key full.key --to new.key", "").exits(0);
    play.does(&["INSERT INTO app.t (v) VALUES ('b')"]);
    play.once().exits(2).says(&["is for the key"]);
    play.kind = Kind { name: "repo/db", put: "new.put", full: "new.key" };
    play.once().exits(0);
    play.is_archived();
    play.run("log repo/db", "full.key").exits(2).says(&["is for the key"]);
}

fn back_up(play: &Play) {
    let line = "backup mysql: --way copy --no-prove --name db --to s3://b/p";
    Ended::of(&play.with_server(line, play.kind.put).output().unwrap()).exits(0);
}

/// A key needs no more than docs/manual/store.md says: nothing to remove with, and who reads nothing to write
/// with.
#[test]
fn a_store_key_with_few_rights_is_enough() {
    for kind in [STORE, SEALED_STORE] {
        let mut play = Play::new(kind, &[]);
        play.store.set(|state| state.retains = true);
        play.does(&[TABLE]);
        back_up(&play);
        for row in ["one", "two"] {
            play.does(&[&format!("INSERT INTO app.t (v) VALUES ('{row}')")]);
            play.once().exits(0);
        }
        // Its segments are compacted, and none goes.
        let before = play.stored().len();
        play.does(&["FLUSH BINARY LOGS"]);
        play.once().exits(0);
        assert!(play.stored().len() > before);
        play.is_archived();
        back_up(&play);
        play.run("mirror s3://b/p s3://b/off", "").exits(0);
        let pruned = play.run("prune s3://b/p --keep-last 1", kind.put).exits(0);
        let pruned = pruned.says(&["retained: ", " of the archived log"]);
        assert!(!pruned.err.contains("freed in the archived log"), "{}", pruned.err);
        play.does(&["INSERT INTO app.t (v) VALUES ('three')"]);
        play.once().exits(0);
        play.store.set(|state| state.is_read_only = true);
        play.reads("verify NAME").exits(0);
        play.reads("list NAME").exits(0);
        play.reads("log NAME --rows").exits(0);
        play.reads("reverse NAME --statement three").exits(0);
        play.reads("restore NAME --to back --until end").exits(0);
        play.reads("restore NAME --to dumped --tables app.t").exits(0);
        for line in
            ["binlog s3://b/p/db --once", "backup mysql: --way copy --no-prove --name db --to s3://b/p"]
        {
            let refused = Ended::of(&play.with_server(line, kind.put).output().unwrap()).exits(1);
            refused.says(&["AccessDenied"]);
        }
        // A bucket with versions hides what is removed, and keeps it.
        play.store
            .set(|state| (state.is_read_only, state.retains, state.has_versions) = (false, false, true));
        play.does(&["FLUSH BINARY LOGS"]);
        play.once().exits(0);
        back_up(&play);
        let pruned = play.run("prune s3://b/p --keep-last 1", kind.put).exits(0);
        let pruned = pruned.says(&["retained: ", " of the archived log"]);
        assert!(!pruned.err.contains("freed in the archived log"), "{}", pruned.err);
    }
}

/// What a host leaves that may not remove: locks, and segments that were compacted.
#[test]
fn a_prune_removes_files_that_the_archiver_may_not_remove() {
    for kind in [STORE, SEALED_STORE] {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE]);
        back_up(&play);
        play.store.set(|state| state.retains = true);
        for row in ["one", "two"] {
            play.does(&[&format!("INSERT INTO app.t (v) VALUES ('{row}')")]);
            play.once().exits(0);
            play.reads("log NAME").exits(0);
        }
        play.does(&["FLUSH BINARY LOGS"]);
        play.once().exits(0);
        let locks = |play: &Play| {
            let state = play.store.state.lock().unwrap();
            state.files.keys().filter(|name| name.starts_with("p/db/log/lease.")).count()
        };
        let (stored, before) = (play.stored().len(), locks(&play));
        assert!(before > 4, "{before} locks");
        play.store.set(|state| state.retains = false);
        play.run("prune s3://b/p --keep-last 1 --dry-run", kind.put).exits(0);
        assert_eq!((play.stored().len(), locks(&play)), (stored, before));
        play.run("prune s3://b/p --keep-last 1", kind.put).exits(0).says(&["segments that were compacted"]);
        assert!(play.stored().len() < stored);
        assert_eq!(locks(&play), 2, "one of those that write, and one of those that read");
        play.is_archived();
        // A number that no archive reaches.
        play.put("p/db/log/18446744073709551615.log", Some(b"nothing".to_vec()));
        let found = play.reads("verify NAME").exits(4).out;
        assert!(found.contains("18446744073709551615.log: not the name of a segment"), "{found}");
        play.reads("list NAME").exits(4).says(&["does not belong to the archive"]);
        play.does(&["INSERT INTO app.t (v) VALUES ('three')"]);
        play.once().exits(0).says(&["does not belong to the archive"]);
    }
}

#[test]
fn a_list_says_until_when_a_log_is_retained() {
    let mut play = Play::new(SEALED_STORE, &[]);
    play.store.set(|state| state.has_lock = true);
    play.does(&[TABLE]);
    let line = format!("binlog {} --once --retain 1h", play.kind.name);
    Ended::of(&play.with_server(&line, play.kind.put).output().unwrap()).exits(0);
    let listed = |more: &str| play.reads(&format!("list NAME{more}")).exits(0).out;
    assert!(listed(" --retained").contains("  retained until "));
    assert!(!listed("").contains("retained"));
    let until =
        |listed: &str| serde_json::from_str::<serde_json::Value>(listed).unwrap()["retained_until"].clone();
    assert!(until(&listed(" --retained --json")).is_string());
    // One that is not retained is enough for a thief.
    execute(&mut session(&play.server), &["INSERT INTO app.t (v) VALUES ('one')"]);
    play.once().exits(0);
    assert!(listed(" --retained").contains("  not retained"));
    let shown = listed(" --retained --json");
    assert!(until(&shown).is_null() && shown.contains("retained_until"));
}
