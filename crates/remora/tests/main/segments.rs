//! Archives of binary logs that are encrypted, or in a store: killed, damaged, and read by every command.

use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox::Sandbox;
use server::Session;
use tempfile::TempDir;

use crate::extract::{execute, folder, session};
use crate::store::Fake;
use crate::support::{Ended, Running, at_store, mariadbs, start, until};

pub(crate) const TABLE: &str = "CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)";
/// What nobody may find in the repository.
pub(crate) const PLANTED: &str = "planted-row-4711";

/// Where an archive is: the name, and the key of who writes and of who reads.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) put: &'static str,
    pub(crate) full: &'static str,
}

pub(crate) const SEALED: Kind = Kind { name: "repo/db", put: "host.put", full: "full.key" };
pub(crate) const STORE: Kind = Kind { name: "s3://b/p/db", put: "", full: "" };
pub(crate) const SEALED_STORE: Kind = Kind { name: "s3://b/p/db", ..SEALED };
pub(crate) const ALL: [Kind; 3] = [SEALED, STORE, SEALED_STORE];

/// A server with a log, and an archive of it.
pub(crate) struct Play {
    pub(crate) kind: Kind,
    pub(crate) folder: TempDir,
    pub(crate) store: Fake,
    pub(crate) server: Sandbox,
    pub(crate) session: Session,
}

impl Play {
    pub(crate) fn new(kind: Kind, options: &[&str]) -> Play {
        let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--binlog-row-metadata=FULL"];
        let server = start(mariadbs()[0], &[&own[..], options].concat());
        let session = session(&server);
        let play = Play { kind, folder: folder(), store: Fake::start(), server, session };
        play.run("key new full.key", "").exits(0);
        play.run("key put full.key host.put", "").exits(0);
        play
    }

    pub(crate) fn does(&mut self, statements: &[&str]) {
        execute(&mut self.session, statements);
    }

    fn command(&self, line: &str, key: &str) -> Command {
        let mut command = at_store(self.folder.path(), &self.store.endpoint, line);
        if !key.is_empty() {
            command.env("REMORA_KEY", key);
        }
        command
    }

    pub(crate) fn run(&self, line: &str, key: &str) -> Ended {
        Ended::of(&self.command(line, key).output().unwrap())
    }

    pub(crate) fn with_server(&self, line: &str, key: &str) -> Command {
        let socket = self.server.socket().display();
        self.command(&format!("{line} --no-defaults -u root -S {socket}"), key)
    }

    pub(crate) fn once(&self) -> Ended {
        let line = format!("binlog {} --once", self.kind.name);
        Ended::of(&self.with_server(&line, self.kind.put).output().unwrap())
    }

    /// Archives until it is stopped.
    fn follow(&self, more: &str) -> Running {
        let mut command = self.with_server(&format!("binlog {}{more}", self.kind.name), self.kind.put);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    /// Runs a command on the archive, as who reads it.
    pub(crate) fn reads(&self, line: &str) -> Ended {
        self.run(&line.replace("NAME", self.kind.name), self.kind.full)
    }

    /// Lets a lock go whose run was killed.
    fn after_kill(&self) {
        self.store.set(|state| state.now += 1000);
    }

    /// What the archive says of all rows is what the server's own files say.
    #[track_caller]
    pub(crate) fn is_archived(&self) {
        let data = self.server.data();
        let own = self.run(&format!("log {} --rows", data.display()), "").exits(0);
        let archived = self.reads("log NAME --rows").exits(0);
        assert!(archived.out == own.out, "{}--- the server's\n{}", archived.out, own.out);
        self.reads("verify NAME").exits(0).says(&["archived log", "event by event", "all sound"]);
    }

    /// All files with segments: their paths, or keys in the store.
    pub(crate) fn stored(&self) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        if self.kind.name.starts_with("s3:") {
            let state = self.store.state.lock().unwrap();
            let logs = state.files.iter().filter(|(name, _)| name.ends_with(".log"));
            found.extend(logs.map(|(name, bytes)| (name.clone(), bytes.clone())));
        } else {
            for entry in std::fs::read_dir(self.folder.path().join("repo/db/log")).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|end| end == "log") {
                    found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn put(&self, name: &str, bytes: Option<Vec<u8>>) {
        if self.kind.name.starts_with("s3:") {
            self.store.set(|state| match bytes {
                Some(bytes) => drop(state.files.insert(name.to_owned(), bytes)),
                None => drop(state.files.remove(name)),
            });
            return;
        }
        match bytes {
            Some(bytes) => std::fs::write(name, bytes).unwrap(),
            None => std::fs::remove_file(name).unwrap(),
        }
    }
}

/// Archiver and server are killed again and again.
#[test]
fn killed_archivers_and_servers_continue() {
    for kind in ALL {
        let mut play = Play::new(kind, &["--sync-binlog=1"]);
        play.does(&[TABLE]);
        for round in 0..6 {
            let mut running = play.follow(" --sync 0s");
            for row in 0..20 {
                let text = 1 + row * 100 * round;
                play.does(&[&format!("INSERT INTO app.t (v) VALUES (REPEAT('{row}', {text}))")]);
            }
            if round == 2 {
                play.does(&["FLUSH BINARY LOGS"]);
            }
            if round == 3 {
                // Without a first connection it would be a wrong address.
                running.until_says("caught up");
                play.server.kill().unwrap();
                play.server.restart().unwrap();
                play.session = session(&play.server);
                running.must_run();
            }
            std::thread::sleep(Duration::from_millis(60 * round));
            running.kill();
            play.after_kill();
        }
        play.once().exits(0);
        play.is_archived();
    }
}

/// The store dies for the archiver behind each request, whether that was done or not.
#[test]
fn an_archiver_killed_at_any_request_continues() {
    let mut play = Play::new(SEALED_STORE, &[]);
    play.does(&[TABLE]);
    for left in 0..40 {
        play.does(&[&format!("INSERT INTO app.t (v) VALUES ('{left}')")]);
        if left % 7 == 3 {
            play.does(&["FLUSH BINARY LOGS"]);
        }
        play.store.set(|state| state.left = Some(left));
        let ended = play.once();
        assert!(ended.code == 0 || ended.err.contains("403"), "{left}: {}", ended.err);
        play.store.set(|state| state.left = None);
        play.after_kill();
        if left % 4 == 0 {
            play.once().exits(0);
            play.is_archived();
            play.after_kill();
        }
    }
    play.once().exits(0);
    play.is_archived();
}

#[test]
fn a_busy_store_is_tried_again() {
    let mut play = Play::new(STORE, &[]);
    play.does(&[TABLE]);
    let mut running = play.follow(" --sync 0s");
    running.until_says("caught up");
    for number in 0..20 {
        play.store.set(|state| match number % 3 {
            0 => state.answers_lost = 1,
            1 => state.busy = 3,
            _ => state.torn = 1,
        });
        play.does(&[&format!("INSERT INTO app.t (v) VALUES ('{number}')")]);
        std::thread::sleep(Duration::from_millis(100));
    }
    // Longer than one request is tried.
    play.store.set(|state| state.busy = 40);
    play.does(&["INSERT INTO app.t (v) VALUES ('after a long silence')"]);
    running.until_says("trying again");
    play.store.set(|state| state.busy = 0);
    running.until_says("caught up");
    running.signal("TERM");
    running.end().exits(143);
    play.once().exits(0);
    play.is_archived();
    let names: Vec<String> = play.stored().into_iter().map(|(name, _)| name).collect();
    assert!(names.is_sorted(), "{names:?}");
}

/// A COMMIT returns when its segment is in the store, and not before.
#[test]
fn ack_waits_for_the_segment() {
    for kind in [SEALED, STORE] {
        let options = ["--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-timeout=1"];
        let mut play = Play::new(kind, &options);
        play.does(&["SET GLOBAL rpl_semi_sync_master_timeout = 20000"]);
        let mut running = play.follow(" --ack --sync 1h");
        running.until_says("caught up");
        // The server waits for acknowledgements once it has sent something.
        play.does(&[TABLE]);
        let status = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = \
                      'rpl_semi_sync_master_status'";
        until("the server waits for the archive", || {
            play.session.value(status).unwrap().as_deref() == Some("ON")
        });
        for number in 0..5 {
            play.does(&[&format!("INSERT INTO app.t (v) VALUES ('{number}')")]);
        }
        let committed = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        running.kill();
        play.after_kill();
        let shown = play.reads(&format!("log NAME --gtid {committed} --rows")).exits(0).out;
        assert!(shown.contains("'4'"), "{shown}");
        play.does(&["SET GLOBAL rpl_semi_sync_master_enabled = OFF"]);
    }
}

/// What could not be written is never acknowledged.
#[test]
fn a_write_that_the_store_refused_is_not_acknowledged() {
    let options = ["--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-timeout=4000"];
    let mut play = Play::new(STORE, &options);
    play.does(&[
        "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
        TABLE,
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    ]);
    let mut running = play.follow(" --ack");
    running.until_says("caught up");
    play.does(&["INSERT INTO app.t (v) VALUES ('a')"]);
    let acknowledged = |play: &mut Play| {
        let rows = play.session.strings("SHOW STATUS LIKE 'Rpl_semi_sync_master_yes_tx'").unwrap();
        rows[0][1].clone().unwrap().parse::<u64>().unwrap()
    };
    until("the first is acknowledged", || acknowledged(&mut play) == 1);
    play.store.set(|state| state.is_read_only = true);
    play.does(&["INSERT INTO app.t (v) VALUES ('b')"]);
    assert_eq!(acknowledged(&mut play), 1);
    let ended = running.end();
    assert!(ended.code == 1 && ended.err.contains("403"), "{}", ended.err);
    play.store.set(|state| state.is_read_only = false);
    play.does(&["SET GLOBAL rpl_semi_sync_master_enabled = OFF"]);
    play.after_kill();
    play.once().exits(0);
    play.is_archived();
}

#[test]
fn two_archivers_do_not_fork_an_archive() {
    for kind in [SEALED, STORE] {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE]);
        let mut running = play.follow(" --sync 0s");
        running.until_says("caught up");
        play.once().exits(11).says(&["another run archives into it"]);
        play.does(&["INSERT INTO app.t (v) VALUES ('a')"]);
        if kind.name == STORE.name {
            // It is silent for so long that another one takes over. What it would add then is refused.
            play.after_kill();
            let line = format!("binlog {} --once --server-id 99", kind.name);
            Ended::of(&play.with_server(&line, "").output().unwrap()).exits(0);
            play.does(&["INSERT INTO app.t (v) VALUES ('b')"]);
            let ended = running.end();
            assert!(ended.code != 0 && ended.err.contains("another run"), "{}", ended.err);
        } else {
            running.signal("TERM");
            running.end().exits(143);
        }
        play.once().exits(0);
        play.is_archived();
    }
}

#[test]
fn forks_and_gaps_begin_a_timeline() {
    for kind in ALL {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE, "INSERT INTO app.t (v) VALUES ('a')"]);
        play.once().exits(0);
        // The same names, and as many bytes.
        play.does(&["DROP TABLE app.t", "RESET MASTER", TABLE, "INSERT INTO app.t (v) VALUES ('b')"]);
        play.once().exits(12).says(&["binlog.000001", "timeline 2 begins with binlog.000001"]);
        play.is_archived();
        play.once().exits(0);
        let before = play.reads("log NAME/log/000001 --rows").exits(0).out;
        assert!(before.contains("'a'") && !before.contains("'b'"), "{before}");
        play.reads("log NAME/log/000007").exits(2).says(&["has no timeline 7"]);
        // Purged before it was archived.
        play.does(&["FLUSH BINARY LOGS", "INSERT INTO app.t (v) VALUES ('c')", "FLUSH BINARY LOGS"]);
        let last = play.session.strings("SHOW MASTER STATUS").unwrap()[0][0].clone().unwrap();
        until("the files are purged", || {
            play.does(&[&format!("PURGE BINARY LOGS TO '{last}'")]);
            play.session.strings("SHOW BINARY LOGS").unwrap().len() == 1
        });
        play.once().exits(12).says(&["timeline 3 begins"]);
        let listed = play.reads("list NAME").exits(0).out;
        assert!(listed.contains("log after a fork") && listed.contains("log after a gap"), "{listed}");
    }
}

/// Whoever may add files can put one in clear there.
#[test]
fn a_file_in_clear_does_not_stop_an_encrypted_archive() {
    for kind in [SEALED, SEALED_STORE] {
        let mut play = Play::new(kind, &[]);
        play.does(&[TABLE]);
        play.once().exits(0);
        let own = play.stored().remove(0).0;
        let planted = own.replace(own.rsplit('/').next().unwrap(), "0000000900.log");
        play.put(&planted, Some([&b"remolog\n"[..], &[7; 200]].concat()));
        play.does(&["INSERT INTO app.t (v) VALUES ('a')"]);
        let told = ["0000000900.log", "not a sealed file"];
        play.once().exits(0).says(&told);
        play.reads("list NAME").exits(4).says(&told);
        let verified = play.reads("verify NAME").exits(4);
        assert!(told.iter().all(|told| verified.out.contains(told)), "{verified:?}");
        assert!(play.reads("log NAME --rows").says(&told).out.contains("'a'"));
        play.put(&planted, None);
        play.is_archived();
    }
}

#[test]
fn an_archive_in_clear_is_not_continued_with_a_key() {
    let mut play = Play::new(SEALED, &[]);
    play.does(&[TABLE]);
    for name in ["plain/db", "s3://b/plain/db"] {
        play.kind = Kind { name, put: "", full: "" };
        play.once().exits(0);
        play.kind.put = "host.put";
        play.once().exits(2).says(&["is not encrypted", "leave out the key"]);
    }
}
