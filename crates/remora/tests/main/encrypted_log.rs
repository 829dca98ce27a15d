//! Servers that encrypt their binary log: it is archived as they send it, in clear, and everything reads it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use sandbox::{Product, Sandbox, Settings};
use server::binlog_dump::{DumpRequest, Packet};
use server::{Environment, Overrides, Session, Target};
use tempfile::TempDir;

use crate::extract::{execute, folder, mariadb, run, session};
use crate::hot::keys::{self, KEY};
use crate::mount::generation;
use crate::support::{Ended, Running, places, remora};

/// Kinds and flags of events.
const ROTATE: u8 = 4;
const START_ENCRYPTION: u8 = 164;
const ARTIFICIAL: u8 = 0x20;
const IGNORABLE: u8 = 0x80;
/// What is in clear in an archive, and nowhere in the server's files.
const PLANTED: &str = "planted-row-4711";

/// A server that encrypts its log, and a folder with its keys and the archive.
struct Play {
    product: Product,
    plugin: PathBuf,
    folder: TempDir,
    server: Sandbox,
    session: Session,
}

impl Play {
    /// None if there is no plugin with keys.
    fn new(product: Product) -> Option<Play> {
        let plugin = keys::plugin(product)?;
        let folder = folder();
        fs::write(folder.path().join("keys.txt"), format!("1;{KEY}\n2;{KEY}{KEY}\n")).unwrap();
        let own = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--binlog-row-metadata=FULL"];
        let options = own.iter().map(ToString::to_string).chain(["--encrypt-binlog=ON".to_owned()]);
        let options = options.chain(key_options(&folder, "keys.txt")).collect();
        let settings = Settings { options, plugins: vec![plugin.clone()], ..Settings::default() };
        let installation = sandbox::find(&places(), product).unwrap();
        let server = Sandbox::start(&installation, &places(), &settings).unwrap();
        let mut play = Play { product, plugin, folder, session: session(&server), server };
        play.does(&["CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100))"]);
        Some(play)
    }

    fn does(&mut self, statements: &[&str]) {
        execute(&mut self.session, statements);
    }

    fn adds(&mut self, rows: u32) {
        for row in 0..rows {
            self.does(&[&format!("INSERT INTO t (v) VALUES ('{PLANTED} {row}')")]);
        }
    }

    fn again(&mut self) {
        self.server.restart().unwrap();
        self.session = session(&self.server);
    }

    fn archiver(&self, more: &[&str]) -> Command {
        self.archiver_into("repo/data", more)
    }

    fn archiver_into(&self, name: &str, more: &[&str]) -> Command {
        let mut command = remora(self.folder.path());
        command.args(["binlog", name, "--no-defaults", "-u", "root", "-S"]).arg(self.server.socket());
        command.args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Archives what is there. Another history would end with 12.
    fn archives(&self) {
        Ended::of(&self.archiver(&["--once"]).output().unwrap()).exits(0);
    }

    /// Every file of the archive is what the server sends, and what another reader makes of it.
    fn is_archived(&mut self) {
        let timeline = self.folder.path().join("repo/data/log/000001");
        let names = self.session.strings("SHOW BINARY LOGS").unwrap();
        let names: Vec<String> = names.into_iter().map(|row| row[0].clone().unwrap()).collect();
        let index = fs::read_to_string(timeline.join("log.index")).unwrap();
        assert_eq!(index, names.iter().map(|name| format!("./{name}\n")).collect::<String>());
        for name in &names {
            let archived = unused(fs::read(timeline.join(name)).unwrap());
            let sent = unused(self.sent(name));
            assert!(archived == sent, "{name}: {} bytes, and {} are archived", sent.len(), archived.len());
            let second = 4 + usize::from(u16::from_le_bytes([sent[13], sent[14]]));
            assert_eq!((sent[second + 4], sent[second + 17] & IGNORABLE), (START_ENCRYPTION, IGNORABLE));
            // That of 10.11 reads no newer servers.
            if self.product == Product::MariaDb1011 {
                let copies = self.folder.path().join("copy-");
                let mut reader = Command::new("mariadb-binlog");
                reader.args(["--no-defaults", "--read-from-remote-server", "--raw", "-u", "root", "-S"]);
                reader.arg(self.server.socket()).arg("-r").arg(copies).arg(name);
                assert!(reader.status().unwrap().success());
                let copy = fs::read(self.folder.path().join(format!("copy-{name}"))).unwrap();
                assert!(archived == unused(copy), "{name}");
            }
        }
        assert!(!timeline.with_file_name("000002").exists());
    }

    /// A file as the server sends it to a replica.
    fn sent(&self, name: &str) -> Vec<u8> {
        let overrides = Overrides {
            socket: Some(self.server.socket().to_owned()),
            user: Some("root".to_owned()),
            no_defaults: true,
            ..Overrides::default()
        };
        let target = Target::resolve(&overrides, &Environment::default()).unwrap();
        let (file, heartbeat) = (name.to_owned(), Duration::from_secs(1));
        let from = DumpRequest { file, at: 4, server_id: 99, ends: true, acknowledges: false, heartbeat };
        let mut dump = target.dump(&from).unwrap();
        let mut bytes = b"\xfebin".to_vec();
        let mut is_other = false;
        loop {
            match dump.next(heartbeat).unwrap() {
                // An artificial ROTATE says which file is sent.
                Packet::Event { bytes: event, .. } if event[17] & ARTIFICIAL != 0 => {
                    is_other = event[4] == ROTATE && !event[27..].starts_with(name.as_bytes());
                }
                Packet::Event { bytes: event, .. } if !is_other => bytes.extend(event),
                Packet::Event { .. } | Packet::Nothing => {}
                Packet::End => return bytes,
            }
        }
    }

    /// Restores the end of the archive.
    fn restores(&self, more: &[String]) -> Ended {
        let folder = format!("--server-option=--plugin-dir={}", self.plugin.parent().unwrap().display());
        let own = [
            "restore",
            "repo/data@1",
            "--to",
            "back",
            "--until",
            "end",
            "--server",
            self.product.id(),
            &folder,
        ];
        run(self.folder.path(), &own.into_iter().chain(more.iter().map(String::as_str)).collect::<Vec<_>>())
    }
}

/// The options of a server that has the keys in this file.
fn key_options(folder: &TempDir, file: &str) -> [String; 2] {
    let file = folder.path().join(file);
    [
        "--plugin-load-add=file_key_management".to_owned(),
        format!("--file-key-management-filename={}", file.display()),
    ]
}

/// A file without the bit that says that it is in use.
fn unused(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[21] &= !1;
    bytes
}

/// Whether a file of the server has the planted rows in clear.
fn has_planted(bytes: &[u8]) -> bool {
    bytes.windows(PLANTED.len()).any(|part| part == PLANTED.as_bytes())
}

#[test]
fn an_archive_equals_the_sent_log_after_any_kill() {
    for product in mariadb() {
        let Some(mut play) = Play::new(product) else { continue };
        play.adds(3);
        let mut running = Running::new(play.archiver(&["--sync", "0s"]).spawn().unwrap());
        running.until_says("caught up");
        play.adds(3);
        running.kill();
        play.adds(3);
        // In the middle of a file.
        play.archives();
        play.is_archived();
        play.server.kill().unwrap();
        play.again();
        play.adds(3);
        play.does(&["FLUSH BINARY LOGS"]);
        play.archives();
        play.is_archived();
        play.adds(3);
        play.archives();
        play.is_archived();
        let own = fs::read(play.server.data().join("binlog.000001")).unwrap();
        let archived = fs::read(play.folder.path().join("repo/data/log/000001/binlog.000001")).unwrap();
        assert!(has_planted(&archived) && !has_planted(&own));
        let shown = run(play.folder.path(), &["log", "repo/data", "--rows"]).exits(0).out;
        assert_eq!(shown.matches("+ id=").count(), 15, "{shown}");
        let chosen = ["reverse", "repo/data", "--statement", "insert into t"];
        let reversed = run(play.folder.path(), &chosen).exits(0).out;
        assert_eq!(reversed.matches("DELETE FROM").count(), 15, "{reversed}");
        // Only its own server can read the file.
        let refused = run(play.folder.path(), &["log", play.server.data().to_str().unwrap()]).exits(3);
        refused.says(&["it is encrypted, and only its server has the key"]);
    }
}

/// In segments, which are encrypted with a key of our own. An archive of the server's files shows what must
/// be in them.
#[test]
fn segments_equal_the_servers_files_after_any_kill() {
    for product in mariadb() {
        let Some(mut play) = Play::new(product) else { continue };
        for words in [&["key", "new", "full.key"][..], &["key", "put", "full.key", "host.put"]] {
            run(play.folder.path(), words).exits(0);
        }
        let put = ["--key", "host.put"];
        play.adds(3);
        let mut follow = play.archiver_into("secret/sealed", &[&put[..], &["--sync", "0s"]].concat());
        let mut running = Running::new(follow.spawn().unwrap());
        running.until_says("caught up");
        play.adds(3);
        running.kill();
        play.adds(3);
        let archives = |play: &Play| {
            let mut once = play.archiver_into("secret/sealed", &[&put[..], &["--once"]].concat());
            Ended::of(&once.output().unwrap()).exits(0);
            play.archives();
        };
        archives(&play);
        play.server.kill().unwrap();
        play.again();
        play.does(&["FLUSH BINARY LOGS"]);
        play.adds(3);
        archives(&play);
        let shown =
            |words: &[&str]| run(play.folder.path(), &[&["log", "--rows"], words].concat()).exits(0).out;
        let sealed = shown(&["secret/sealed", "--key", "full.key"]);
        assert_eq!(sealed.matches("+ id=").count(), 12, "{sealed}");
        assert_eq!(sealed, shown(&["repo/data"]));
        run(play.folder.path(), &["verify", "secret/sealed", "--key", "full.key"])
            .exits(0)
            .says(&["event by event"]);
    }
}

/// The log in the backup is encrypted, and the archived one is not: they are compared as the server that
/// recovers the data sends its log, and it needs the keys for that.
#[test]
fn a_backup_with_an_encrypted_log_is_replayed_with_its_keys() {
    for product in mariadb() {
        let Some(mut play) = Play::new(product) else { continue };
        play.adds(3);
        // Stopped or killed: only then the log is needed for the recovery.
        if product == Product::MariaDb1011 {
            play.server.stop().unwrap();
        } else {
            play.server.kill().unwrap();
        }
        generation(play.folder.path(), play.server.data());
        // That makes a transaction too: CREATE DATABASE.
        play.again();
        play.adds(4);
        play.archives();
        fs::write(play.folder.path().join("other.txt"), format!("1;{}\n", KEY.replace('F', "A"))).unwrap();
        let options =
            |file: &str| key_options(&play.folder, file).map(|option| format!("--server-option={option}"));
        for more in [&[][..], &options("other.txt")] {
            let ended = play.restores(more).exits(1);
            ended.says(&["the binary log in the data is encrypted", "--file-key-management-filename=FILE"]);
            assert!(!play.folder.path().join("back").exists());
        }
        play.restores(&options("keys.txt")).exits(0).says(&["5 transactions to"]);
        let installation = sandbox::find(&places(), product).unwrap();
        let settings = Settings { data: Some(play.folder.path().join("back")), ..Settings::default() };
        let back = Sandbox::start(&installation, &places(), &settings).unwrap();
        assert_eq!(session(&back).value("SELECT COUNT(*) FROM t").unwrap().as_deref(), Some("7"));
    }
}
