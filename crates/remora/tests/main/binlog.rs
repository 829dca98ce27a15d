//! `remora binlog`: the archive has the server's bytes, whatever happens to either of them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox::{Family, Product, Sandbox};
use server::Session;
use tempfile::TempDir;

use crate::extract::{data, execute, folder, mariadb, run, session};
use crate::support::{Ended, Running, mariadbs, of_today, on_products, products, remora, start, tell, until};

/// A server with a log, and an archive of it.
pub(crate) struct Play {
    pub(crate) folder: TempDir,
    pub(crate) server: Sandbox,
    pub(crate) session: Session,
}

impl Play {
    pub(crate) fn new(product: Product, options: &[&str]) -> Play {
        let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW"];
        let server = start(product, &[&own[..], options].concat());
        let session = session(&server);
        Play { folder: folder(), server, session }
    }

    pub(crate) fn does(&mut self, statements: &[&str]) {
        execute(&mut self.session, statements);
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let socket = self.server.socket().to_str().unwrap();
        let own = ["binlog", "repo/db", "--no-defaults", "-u", "root", "-S", socket];
        own.iter().chain(more).map(ToString::to_string).collect()
    }

    pub(crate) fn once(&self) -> Ended {
        let arguments = self.arguments(&["--once"]);
        run(self.folder.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Archives until it is stopped.
    pub(crate) fn follow(&self, more: &[&str]) -> Running {
        let mut command = remora(self.folder.path());
        command
            .args(self.arguments(more))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    pub(crate) fn timeline(&self, number: u32) -> PathBuf {
        self.folder.path().join(format!("repo/db/log/{number:06}"))
    }

    /// The server's files, the oldest first.
    fn files(&mut self) -> Vec<String> {
        let rows = self.session.strings("SHOW BINARY LOGS").unwrap();
        rows.into_iter().map(|row| row[0].clone().unwrap()).collect()
    }

    /// Purges all files before this one. The server needs a while until it needs none of them itself.
    pub(crate) fn purge(&mut self, first: &str) {
        until("the files are purged", || {
            self.does(&[&format!("PURGE BINARY LOGS TO '{first}'")]);
            self.files()[0] == first
        });
    }

    /// Every byte of the server's files is archived in a timeline, and no other byte. The mark of a file in
    /// use does not count: a killed server does not always remove it.
    pub(crate) fn is_archived(&mut self, number: u32) {
        for file in self.files() {
            let own = std::fs::read(self.server.data().join(&file)).unwrap();
            let archived = std::fs::read(self.timeline(number).join(&file)).unwrap();
            let unused = |mut bytes: Vec<u8>| {
                bytes[21] &= !1;
                bytes
            };
            let (own, archived) = (unused(own), unused(archived));
            assert!(own == archived, "{file}: {} bytes, and {} are archived", own.len(), archived.len());
        }
    }

    /// How many bytes of the file that is written now are archived.
    fn archived(&mut self, number: u32) -> u64 {
        let file = self.files().pop().unwrap();
        std::fs::metadata(self.timeline(number).join(file)).map_or(0, |found| found.len())
    }

    /// All bytes are there.
    pub(crate) fn until_archived(&mut self, number: u32) {
        let end = Instant::now() + Duration::from_secs(30);
        let row = self.session.binary_log_status().unwrap().remove(0);
        let position: u64 = row[1].clone().unwrap().parse().unwrap();
        while self.archived(number) < position && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.is_archived(number);
    }

    pub(crate) fn description(&self, number: u32) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.timeline(number).join("timeline.json")).unwrap()).unwrap()
    }
}

/// A server of today, for tests in which one is enough.
fn today() -> Product {
    of_today(products())[0]
}

pub(crate) const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)";

#[test]
fn the_archive_equals_the_servers_files() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let options: &[&str] = match product.family() {
            Family::MariaDb => {
                &["--log-bin-compress=1", "--log-bin-compress-min-len=10", "--max-allowed-packet=64M"]
            }
            Family::MySql => &[
                "--binlog-rows-query-log-events=1",
                "--max-allowed-packet=64M",
                "--loose-innodb-log-file-size=512M",
                "--loose-innodb-redo-log-capacity=1G",
            ],
        };
        let mut play = Play::new(product, options);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a'), (REPEAT('b', 500))", "FLUSH BINARY LOGS"]);
        if product.family() == Family::MariaDb {
            play.does(&["SET GLOBAL log_bin_compress = OFF"]);
        }
        // An event of several packets.
        play.does(&[
            "SET SESSION binlog_format = ROW",
            "INSERT INTO t (v) VALUES (REPEAT('c', 40000000))",
            "UPDATE t SET v = 'd' WHERE id = 3",
            "SET SESSION binlog_format = STATEMENT",
            "INSERT INTO t (v) VALUES (CONCAT(RAND()))",
        ]);
        play.once().exits(0).says(&["archived: timeline 1", "binlog.000002:"]);
        play.is_archived(1);
        // There is nothing more to do, and then there is.
        play.once().exits(0);
        play.is_archived(1);
        play.does(&["DELETE FROM t WHERE id = 1", "FLUSH BINARY LOGS", "DELETE FROM t"]);
        play.once().exits(0).says(&["binlog.000002 is whole", "binlog.000003:"]);
        play.is_archived(1);
        let server = run(play.folder.path(), &["log", &data(&play.server)]).exits(0).out;
        let archive = run(play.folder.path(), &["log", "repo/db"]).exits(0).out;
        assert!(archive == server, "{archive}--- the server's\n{server}");
    });
}

#[test]
fn logs_without_checksums_and_images_are_archived_too() {
    for product in mariadb() {
        let mut play = Play::new(product, &["--binlog-checksum=NONE", "--binlog-annotate-row-events=0"]);
        play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')", "FLUSH BINARY LOGS", "DELETE FROM t"]);
        play.once().exits(0);
        play.is_archived(1);
        // From now on the server writes checksums.
        play.does(&["SET GLOBAL binlog_checksum = CRC32", "INSERT INTO t (v) VALUES ('b')"]);
        play.once().exits(0);
        play.is_archived(1);
    }
}

/// The files of an archive have no hashes. Their events have checksums.
#[test]
fn verify_reads_the_archived_files() {
    let mut play = Play::new(today(), &["--binlog-checksum=CRC32"]);
    play.does(&[
        TABLE,
        "INSERT INTO t (v) VALUES ('one')",
        "FLUSH BINARY LOGS",
        "INSERT INTO t (v) VALUES ('two')",
    ]);
    let arguments = play.arguments(&["--once"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(play.folder.path(), &arguments).exits(0);
    let first = play.timeline(1).join(play.files().swap_remove(0));
    let verify = |what: &str| run(play.folder.path(), &["verify", what]);
    for what in ["repo/db", "repo"] {
        verify(what).exits(0).says(&["archived log: 2 files", "event by event"]);
    }
    let sound = std::fs::read(&first).unwrap();
    let mut damaged = sound.clone();
    let row = sound.windows(3).rposition(|bytes| bytes == b"one").unwrap();
    damaged[row] ^= 1;
    std::fs::write(&first, &damaged).unwrap();
    let name = first.file_name().unwrap().to_str().unwrap();
    for what in ["repo/db", "repo"] {
        let told = verify(what).exits(4).says(&["1 damaged place"]).out;
        assert!(told.contains(name) && told.contains("checksum"), "{told}");
    }
    let ended = run(play.folder.path(), &["verify", "repo/db", "--json"]).exits(4);
    let lines: Vec<serde_json::Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let log = lines.iter().find(|line| line["message_type"] == "log").unwrap();
    assert_eq!((log["files"].as_u64(), log["damages"].as_u64()), (Some(2), Some(1)), "{log}");
    std::fs::write(&first, &sound[..sound.len() - 5]).unwrap();
    let told = verify("repo/db").exits(4).out;
    assert!(told.contains(name) && told.contains("ends within the event"), "{told}");
    std::fs::remove_file(&first).unwrap();
    let told = verify("repo/db").exits(4).out;
    assert!(told.contains(name) && told.contains("missing"), "{told}");
    std::fs::write(&first, &sound).unwrap();
    verify("repo/db").exits(0);
}

/// Archiver and server are killed again and again.
#[test]
fn killed_archivers_and_servers_continue() {
    for product in of_today(products()) {
        let newest = product == Product::MySql97;
        let own: &[&str] = match newest {
            true => &["--binlog-transaction-compression=ON", "--binlog-row-value-options=PARTIAL_JSON"],
            false => &[],
        };
        let mut play = Play::new(product, &[&["--sync-binlog=1"], own].concat());
        play.does(&[TABLE]);
        if newest {
            play.does(&[
                "CREATE TABLE j (id INT PRIMARY KEY, doc JSON)",
                "INSERT INTO j VALUES (1, '{\"a\": 0}')",
            ]);
        }
        for round in 0..8 {
            let mut running = play.follow(&["--sync", "0s"]);
            for row in 0..20 {
                play.does(&[&format!(
                    "INSERT INTO t (v) VALUES (REPEAT('{row}', {}))",
                    1 + row * 100 * round
                )]);
            }
            if newest {
                // Transactions with a tag in their number, and changes of a part of a document.
                play.does(&[
                    "SET SESSION gtid_next = 'AUTOMATIC:night'",
                    &format!("UPDATE j SET doc = JSON_SET(doc, '$.a', {round})"),
                ]);
            }
            if round == 3 {
                play.does(&["FLUSH BINARY LOGS"]);
            }
            if round == 5 {
                // Without a first connection it would be a wrong address.
                running.until_says("caught up");
                play.server.kill().unwrap();
                play.server.restart().unwrap();
                play.session = session(&play.server);
                running.must_run();
                play.until_archived(1);
            }
            std::thread::sleep(Duration::from_millis(30 * round));
            running.kill();
        }
        // A part of a transaction is at the end, as after a loss of power.
        let file = play.files().pop().unwrap();
        let path = play.timeline(1).join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 7);
        bytes.extend([0; 100]);
        std::fs::write(&path, bytes).unwrap();
        play.once().exits(0).says(&["what follows is fetched again"]);
        play.is_archived(1);
        assert!(!play.timeline(2).exists());
        let server = run(play.folder.path(), &["log", &data(&play.server), "--rows"]).exits(0).out;
        let archive = run(play.folder.path(), &["log", "repo/db", "--rows"]).exits(0).out;
        assert!(archive == server, "{archive}--- the server's\n{server}");
        assert!(!newest || archive.contains(":night:"), "{archive}");
    }
}

#[test]
fn an_archiver_follows_a_server_until_it_is_stopped() {
    let mut play = Play::new(today(), &[]);
    play.does(&[TABLE]);
    let mut running = play.follow(&[]);
    running.until_says("caught up: timeline 1");
    play.does(&["INSERT INTO t (v) VALUES ('a')", "FLUSH BINARY LOGS", "INSERT INTO t (v) VALUES ('b')"]);
    play.until_archived(1);
    // Nobody else writes to the archive, and the server knows us.
    play.once().exits(11).says(&["another run archives into it"]);
    let hosts = play.session.replicas().unwrap();
    assert_eq!(hosts[0][1].as_deref(), Some("remora"), "{hosts:?}");
    running.signal("TERM");
    running.end().exits(143).says(&["archived: timeline 1, binlog.000002:"]);
    play.is_archived(1);
}

/// A server sends each transaction by itself to whoever reads at once.
#[test]
fn many_transactions_are_read_together() {
    const TRANSACTIONS: u32 = 4000;
    let mut play = Play::new(today(), &[]);
    play.does(&[TABLE]);
    let mut running = play.follow(&[]);
    running.until_says("caught up");
    let pid = running.pid();
    let reads = || -> u32 {
        let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        counts.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
    };
    let before = reads();
    for _ in 0..TRANSACTIONS {
        play.does(&["INSERT INTO t (v) VALUES ('x')"]);
    }
    play.until_archived(1);
    assert!(reads() - before < TRANSACTIONS / 4, "{}", reads() - before);
    running.kill();
}

#[test]
fn semi_sync_ack_commit_waits_for_the_archive() {
    let newest = products().into_iter().filter(|product| *product == Product::MySql97);
    for product in mariadb().chain(newest) {
        // MySQL has it in a plugin, and calls it a source.
        let newest = product == Product::MySql97;
        let own = |text: &str| if newest { text.replace("master", "source") } else { text.to_owned() };
        let load = if newest { "--plugin-load-add=semisync_source.so" } else { "--sync-binlog=1" };
        let (enabled, timeout) =
            (own("--rpl-semi-sync-master-enabled=1"), own("--rpl-semi-sync-master-timeout=1"));
        let mut play = Play::new(product, &[load, &enabled, &timeout, "--sync-binlog=1"]);
        play.does(&[&own("SET GLOBAL rpl_semi_sync_master_timeout = 20000")]);
        let mut running = play.follow(&["--ack"]);
        running.until_says("waits for us for 20000 ms");
        running.until_says("caught up");
        let status = |play: &mut Play, name: &str| {
            let show = own(&format!("SHOW STATUS LIKE 'Rpl_semi_sync_master_{name}'"));
            let row = play.session.strings(&show).unwrap();
            row[0][1].clone().unwrap()
        };
        let before = status(&mut play, "no_tx");
        play.does(&[TABLE]);
        for row in 0..10 {
            play.does(&[&format!("INSERT INTO t (v) VALUES ('{row}')")]);
            // It is there when COMMIT returns, and not some time later.
            play.is_archived(1);
        }
        assert_eq!((status(&mut play, "no_tx"), status(&mut play, "status")), (before, "ON".to_owned()));
        // While it sleeps, nobody's COMMIT returns.
        running.signal("STOP");
        let socket = play.server.socket().to_owned();
        let commit = std::thread::spawn(move || {
            let mut other = crate::support::connect(&socket);
            execute(&mut other, &["INSERT INTO app.t (v) VALUES ('late')"]);
        });
        until("COMMIT waits", || {
            let list = play.session.strings("SELECT STATE FROM information_schema.PROCESSLIST").unwrap();
            list.iter().any(|row| row[0].as_deref().is_some_and(|state| state.contains("semi-sync ACK")))
        });
        assert!(!commit.is_finished());
        running.signal("CONT");
        commit.join().unwrap();
        play.is_archived(1);
        // A COMMIT whose wait timed out is reported.
        let before = status(&mut play, "no_tx");
        play.does(&[&own("SET GLOBAL rpl_semi_sync_master_timeout = 1")]);
        running.signal("STOP");
        play.does(&["INSERT INTO t (v) VALUES ('alone')"]);
        running.signal("CONT");
        assert_ne!(status(&mut play, "no_tx"), before);
        running.until_says("1 commit did not wait for us");
        running.kill();
        play.does(&[&own("SET GLOBAL rpl_semi_sync_master_enabled = OFF")]);
        let refused = play.arguments(&["--ack"]);
        let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
        run(play.folder.path(), &refused).exits(1).says(&[&own("rpl_semi_sync_master_enabled = ON")]);
    }
}

/// An archive has only what the log has. What the log lacks is reported.
#[test]
fn databases_that_the_server_does_not_log_are_reported() {
    for product in mariadb() {
        let options = ["--binlog-ignore-db=secret", "--binlog-ignore-db=other"];
        let mut play = Play::new(product, &options);
        let filter = "does not log every database (binlog_ignore_db=secret,other)";
        let replica = "the server is a replica and does not log what it gets";
        let lines = |play: &Play| {
            let arguments = play.arguments(&["--once"]);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run(play.folder.path(), &arguments).exits(0)
        };
        let ended = lines(&play).says(&[filter]);
        assert!(!ended.err.contains("replica"), "{}", ended.err);
        play.does(&["CHANGE MASTER TO MASTER_HOST = '127.0.0.1'"]);
        lines(&play).says(&[filter, replica, "log_slave_updates=ON"]);
        // With an account that may not ask, this is reported only if something was applied.
        play.does(&[
            "CREATE USER few@localhost",
            "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO few@localhost",
        ]);
        let few = |play: &Play| {
            let socket = play.server.socket().to_str().unwrap();
            let command = ["binlog", "repo/few", "--once", "--no-defaults", "-u", "few", "-S", socket];
            run(play.folder.path(), &command).exits(0)
        };
        let ended = few(&play).says(&[filter]);
        assert!(!ended.err.contains("replica"), "{}", ended.err);
        play.does(&["SET GLOBAL gtid_slave_pos = '0-9-1'"]);
        few(&play).says(&["seems to be a replica", "log_slave_updates=ON"]);
    }
}

#[test]
fn a_server_that_cannot_be_archived_is_reported() {
    let product = mariadbs()[0];
    let folder = folder();
    let plain = start(product, &[]);
    let ask = |server: &Sandbox, account: &str| {
        let socket = server.socket().to_str().unwrap();
        run(folder.path(), &["binlog", "repo/db", "--once", "--no-defaults", "-u", account, "-S", socket])
    };
    let nobody = ["binlog", "repo/typo", "--once", "--no-defaults", "-S", "nobody.sock"];
    run(folder.path(), &nobody).exits(10);
    assert!(!folder.path().join("repo").exists(), "nothing is made for a server that is not there");
    ask(&plain, "root").exits(1).says(&["log_bin is off"]);
    let mut play = Play::new(product, &[]);
    play.does(&["CREATE USER few@localhost", "GRANT BINLOG MONITOR ON *.* TO few@localhost"]);
    ask(&play.server, "few").exits(10).says(&["GRANT REPLICATION SLAVE"]);
    play.does(&["REVOKE BINLOG MONITOR ON *.* FROM few@localhost"]);
    ask(&play.server, "few").exits(10).says(&["GRANT REPLICATION SLAVE, BINLOG MONITOR ON"]);
    assert!(Path::new(&folder.path().join("repo/db/log")).exists());
}

#[test]
fn an_archive_outlives_an_orderly_restart_of_the_server() {
    let mut play = Play::new(today(), &[]);
    play.does(&[TABLE, "INSERT INTO t (v) VALUES ('a')"]);
    let mut running = play.follow(&[]);
    running.until_says("caught up: timeline 1");
    play.server.stop().unwrap();
    running.until_says("trying again");
    play.server.restart().unwrap();
    play.session = session(&play.server);
    play.does(&["INSERT INTO t (v) VALUES ('b')"]);
    play.until_archived(1);
    running.must_run();
    running.signal("TERM");
    running.end().exits(143);
    assert!(!play.timeline(2).exists());
}

/// A server that shuts down ends its log as one does that has sent everything.
#[test]
fn an_archive_of_a_server_that_shuts_down_is_complete_or_the_run_fails() {
    let options = ["--max-allowed-packet=64M", "--loose-innodb-log-file-size=512M"];
    let mut play = Play::new(today(), &options);
    play.does(&[TABLE]);
    for _ in 0..8 {
        play.does(&["INSERT INTO t (v) VALUES (REPEAT('a', 30000000))"]);
    }
    let running = play.follow(&["--once"]);
    until("something is archived", || play.archived(1) > 1 << 20);
    play.server.stop().unwrap();
    let ended = running.end();
    play.server.restart().unwrap();
    play.session = session(&play.server);
    let len = std::fs::metadata(play.server.data().join("binlog.000001")).unwrap().len();
    let archived = std::fs::metadata(play.timeline(1).join("binlog.000001")).unwrap().len();
    assert!(ended.code != 0 || archived > 240_000_000, "{archived} of {len}: {}", ended.err);
    play.once().exits(0);
    play.is_archived(1);
}

#[test]
fn a_repository_can_not_be_given_as_a_name() {
    let play = Play::new(mariadbs()[0], &[]);
    std::fs::write(play.folder.path().join("disk.img"), "image").unwrap();
    run(play.folder.path(), &["backup", "file:disk.img", "--to", "repo"]).exits(0);
    let arguments: Vec<String> = play.arguments(&["--once"]);
    let arguments: Vec<&str> =
        arguments.iter().map(|word| if word == "repo/db" { "repo" } else { word }).collect();
    run(play.folder.path(), &arguments).exits(2).says(&["repo holds backups of disk.img", "repo/disk.img"]);
    assert!(!play.folder.path().join("repo/log").exists());
    play.once().exits(0);
    // An image has no log; each server that writes one is to have an archive.
    let watch = || run(play.folder.path(), &["list", "repo", "--log-older-than", "1h"]);
    watch().exits(0);
    let socket = play.server.socket().to_str().unwrap();
    let backup = ["backup", "mysql:", "--way", "copy", "--name", "other", "--to", "repo", "--no-defaults"];
    run(play.folder.path(), &[&backup[..], &["-uroot", "-S", socket]].concat()).exits(0);
    watch().exits(3).says(&["other: no log is archived, and its server writes one"]);
}
