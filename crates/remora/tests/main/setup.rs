//! `remora setup`: what it prints is what it does, and the account that it makes is enough.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::{Product, Sandbox};
use serde_json::Value;
use tempfile::TempDir;

use crate::extract::{run, session};
use crate::support::{Ended, mariadbs, newest, of_today, on_products, remora, skipped, start, tell};

/// A server, and a folder for settings and backups.
struct Scene {
    server: Sandbox,
    folder: TempDir,
}

impl Scene {
    fn new(product: Product) -> Scene {
        tell(product);
        let server = start(product, &["--log-bin=binlog", "--server-id=7"]);
        Scene { server, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setup(&self, more: &[&str]) -> Ended {
        let source = format!("mysql:{}", self.server.socket().display());
        let own = ["setup", &source, "--to", "repo", "--name", "db1", "--etc", "etc", "--json"];
        run(self.folder.path(), &[&own[..], &["--no-defaults", "-u", "root"], more].concat())
    }

    /// Runs a command as the account.
    fn works(&self, words: &[&str], key: Option<&str>) -> Ended {
        let mut command = remora(self.folder.path());
        command.arg(words[0]).args(["--defaults-file", "etc/remora/db1.cnf"]).args(&words[1..]);
        if let Some(key) = key {
            command.env("REMORA_KEY", self.path(key));
        }
        Ended::of(&command.output().unwrap())
    }

    fn accounts(&self) -> String {
        let query = "SELECT COUNT(*) FROM mysql.user WHERE user = 'remora'";
        session(&self.server).value(query).unwrap().unwrap()
    }
}

/// The steps of a run: kind, state, path, text.
fn steps(ended: &Ended) -> Vec<[String; 4]> {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    lines
        .filter(|line| line["message_type"] == "step")
        .map(|line| ["kind", "state", "path", "text"].map(|key| text(&line, key)))
        .collect()
}

/// The lines that say the same in each run.
fn without_passwords(text: &str) -> String {
    let is_secret = |line: &&str| line.starts_with("password=") || line.contains("IDENTIFIED BY");
    text.lines().filter(|line| !is_secret(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_printed_is_done_once_and_is_enough() {
    on_products(
        &[of_today(mariadbs()), newest("what_is_printed_is_done_once_and_is_enough")].concat(),
        |product| {
            let scene = Scene::new(product);
            let keep = ["--keep-daily", "14", "--keep-within", "30d"];
            let more = [&["--encrypt", "--every", "6h", "--copy-to", "copy"], &keep[..]].concat();
            let printed = scene.setup(&more).exits(0);
            assert!(!scene.path("etc").exists() && scene.accounts() == "0", "{}", printed.out);
            assert!(
                printed.out.contains("nothing was written") && printed.out.contains("remora doctor says")
            );
            let printed = steps(&printed);
            assert!(printed.iter().all(|[_, state, ..]| state == "to do"), "{printed:?}");
            let done = scene.setup(&[&more[..], &["--yes"]].concat()).exits(3);
            assert_eq!(scene.accounts(), "1");
            let password = std::fs::read_to_string(scene.path("etc/remora/db1.cnf")).unwrap();
            let password = password.lines().find_map(|line| line.strip_prefix("password=")).unwrap();
            assert!(password.len() > 40 && !done.out.contains(password), "{}", done.out);
            let log = std::fs::read(scene.server.data().join("binlog.000001")).unwrap();
            let has = |words: &str| log.windows(words.len()).any(|window| window == words.as_bytes());
            assert!(has("CREATE USER") && !has(password), "the log has the password");
            for ([kind, _, path, text], [_, state, _, masked]) in printed.iter().zip(steps(&done)) {
                assert_eq!(state == "done", kind != "command", "{kind} {text}");
                assert_eq!(without_passwords(text), without_passwords(&masked));
                if kind == "file" {
                    let written = std::fs::read_to_string(path).unwrap();
                    assert_eq!(without_passwords(text), without_passwords(&written));
                    let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
                    assert_eq!(mode, if path.contains("/etc/remora/") { 0o600 } else { 0o644 }, "{path}");
                }
            }
            // A key that was carried away is not made again.
            std::fs::remove_file(scene.path("etc/remora/db1.full-key")).unwrap();
            let again = scene.setup(&[&more[..], &["--yes"]].concat()).exits(3);
            for [kind, state, _, text] in steps(&again) {
                assert_eq!(state == "there already", kind != "command", "{kind} {text}");
            }
            assert!(!scene.path("etc/remora/db1.full-key").exists());
            backs_up(&scene);
            // Where root writes the backups, root reads them.
            for unit in ["backup", "binlog", "mirror", "prune", "verify"] {
                let changes = format!("etc/systemd/system/remora-{unit}@db1.service.d/root.conf");
                assert_eq!(scene.path(&changes).exists(), !mariadbs().contains(&product), "{unit}");
            }
            let keep = std::fs::read_to_string(scene.path("etc/remora/db1.keep")).unwrap();
            assert_eq!(keep, "KEEP=--keep-daily 14 --keep-within 2592000s\n");
            let owner = if mariadbs().contains(&product) { "remora" } else { "root" };
            for folder in ["repo", "copy"] {
                let folder = scene.path(folder).display().to_string();
                let command = format!("install -d -o {owner} -g {owner} -m 0700 {folder} {folder}/db1");
                assert!(printed.iter().any(|[.., text]| *text == command), "{command} in {printed:?}");
            }
        },
    );
}

/// The account is enough for what the units do.
fn backs_up(scene: &Scene) {
    let key = Some("etc/remora/db1.key");
    let source = format!("mysql:{}", scene.server.socket().display());
    if mariadbs().contains(&scene.server.product()) {
        scene.works(&["backup", &source, "--to", "repo", "--name", "db1", "--way", "copy"], key).exits(0);
        let ended =
            run(scene.folder.path(), &["restore", "repo/db1", "--to", "back", "--key", "etc/remora/db1.key"]);
        ended.exits(2).says(&["put key"]);
        let prune = ["prune", "repo/db1", "--keep-daily", "14", "--key", "etc/remora/db1.key"];
        run(scene.folder.path(), &prune).exits(0);
        // What is encrypted stays so, also where somebody forgets the key.
        let forgotten = &["the other backups in", "are encrypted"];
        scene.works(&["binlog", "repo/db2", "--once"], None).exits(2).says(forgotten);
        assert!(!scene.path("repo/db2").exists());
        let second = ["setup", &source, "--to", "repo", "--name", "db2", "--etc", "etc", "--account", "two"];
        let second = [&second[..], &["--no-defaults", "-u", "root", "--yes"]].concat();
        run(scene.folder.path(), &second).exits(2).says(forgotten);
        assert!(!scene.path("etc/remora/db2.env").exists());
    }
    scene.works(&["lock", "--", "true"], None).exits(0);
    scene.works(&["binlog", "repo/db1", "--once"], key).exits(0);
    scene.works(&["dump", "-o", "all.dump"], None).exits(3).says(&["lacks SELECT"]);
}

/// The command of the unit for backups, as the account of the units: nobody's, with one capability.
#[test]
fn an_account_with_one_capability_backs_up() {
    let name = "an_account_with_one_capability_backs_up";
    if !rustix::process::geteuid().is_root() {
        return skipped(name, "only root can take another account");
    }
    let scene = Scene::new(mariadbs()[0]);
    scene.setup(&["--yes"]).exits(3);
    let nobody = Some(65534);
    let own = |path: &str| std::os::unix::fs::chown(scene.path(path), nobody, nobody).unwrap();
    // systemd gives the option file and makes the repository in the same way.
    for folder in ["repo", "credentials", "tmp"] {
        std::fs::create_dir(scene.path(folder)).unwrap();
        own(folder);
    }
    std::fs::copy(scene.path("etc/remora/db1.cnf"), scene.path("credentials/my.cnf")).unwrap();
    own("credentials/my.cnf");
    let unit = include_str!("../../../../packaging/systemd/remora-backup@.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/remora ")).unwrap();
    let settings = std::fs::read_to_string(scene.path("etc/remora/db1.env")).unwrap();
    let settings: Vec<&str> = settings.lines().filter(|line| line.contains('=')).collect();
    let run = |capability: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
        command.args(
            ["bounding-set", "inh-caps", "ambient-caps"].map(|set| format!("--{set}=-all{capability}")),
        );
        command.arg("env").args(&settings).arg(format!("MYSQL_HOME={}", scene.path("credentials").display()));
        command.arg(format!("TMPDIR={}", scene.path("tmp").display()));
        command.args(["sh", "-c", &format!("exec \"$0\" {line}"), env!("CARGO_BIN_EXE_remora")]);
        Ended::of(&command.output().unwrap())
    };
    run("").exits(1).says(&["Permission denied"]);
    run(",+dac_read_search").exits(0).says(&["db1@1 (full)"]);
}

#[test]
fn nothing_is_overwritten() {
    let scene = Scene::new(mariadbs()[0]);
    std::fs::create_dir_all(scene.path("etc/remora")).unwrap();
    std::fs::write(scene.path("etc/remora/db1.env"), "REPO=/elsewhere\n").unwrap();
    let refused = scene.setup(&["--yes"]).exits(2);
    assert!(
        refused.out.contains("db1.env exists with other content; nothing was written"),
        "{}",
        refused.out
    );
    assert!(scene.accounts() == "0" && !scene.path("etc/remora/db1.cnf").exists());
    std::fs::remove_file(scene.path("etc/remora/db1.env")).unwrap();
    session(&scene.server).execute("CREATE USER remora@localhost").unwrap();
    let refused = scene.setup(&["--yes"]).exits(2);
    assert!(refused.out.contains("give another --account, or drop it first"), "{}", refused.out);
    assert!(!scene.path("etc/remora/db1.cnf").exists());
    scene.setup(&["--yes", "--account", "other"]).exits(3);
    // What was taken from the account comes back.
    session(&scene.server).execute("REVOKE RELOAD ON *.* FROM other@localhost").unwrap();
    let again = steps(&scene.setup(&["--yes", "--account", "other"]).exits(3));
    let sql: Vec<&[String; 4]> = again.iter().filter(|[kind, ..]| kind == "sql").collect();
    assert_eq!(sql[0][1..], ["done", "", "GRANT RELOAD ON *.* TO `other`@`localhost`;\n"].map(str::to_owned));
    // Backups that were made by hand have a key that setup has not made.
    std::fs::write(scene.path("data"), "x").unwrap();
    let by_hand = |words: &[&str]| run(scene.folder.path(), words).exits(0);
    by_hand(&["key", "new", "my.key"]);
    by_hand(&["backup", "file:data", "--to", "repo", "--name", "db1", "--key", "my.key"]);
    let encrypted = ["--yes", "--account", "other", "--encrypt"];
    let refused = scene.setup(&encrypted).exits(2);
    assert!(
        refused.out.contains("encrypted already") && refused.out.contains("remora key put"),
        "{}",
        refused.out
    );
    by_hand(&["key", "new", "wrong.key"]);
    by_hand(&["key", "put", "wrong.key", "etc/remora/db1.key"]);
    let refused = scene.setup(&encrypted);
    assert!(refused.code != 0 && refused.out.contains("db1.key"), "{} {}", refused.code, refused.out);
    std::fs::remove_file(scene.path("etc/remora/db1.key")).unwrap();
    by_hand(&["key", "put", "my.key", "etc/remora/db1.key"]);
    scene.setup(&["--account", "other", "--encrypt"]).exits(0);
    let ended = run(scene.folder.path(), &["setup", "mysql:ssh://root@db1", "--to", "repo"]);
    ended.exits(2).says(&["is no server of this machine"]);
    let ended = run(scene.folder.path(), &["setup", "mysql:", "--to", "repo", "--name", "a b"]);
    ended.exits(2).says(&["can't be the name of a unit"]);
}

/// systemd takes the units, and finds them closed.
#[test]
fn the_units_are_sound_and_expose_little() {
    let analyze = |words: &[&str], files: &[PathBuf]| {
        Command::new("systemd-analyze").args(words).args(files).env("SYSTEMD_COLORS", "0").output()
    };
    if analyze(&["--version"], &[]).is_err() {
        return skipped("the_units_are_sound_and_expose_little", "there is no systemd-analyze");
    }
    let folder = tempfile::tempdir().unwrap();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let (mut services, mut all) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(units).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains('@') {
            let text = std::fs::read_to_string(&path).unwrap().replace("/usr/bin/remora", "/bin/true");
            std::fs::write(folder.path().join(&name), &text).unwrap();
            let instance = folder.path().join(name.replace('@', "@db1"));
            std::fs::write(&instance, text).unwrap();
            if name.ends_with(".service") {
                services.push(instance.clone());
            }
            all.push(instance);
        }
    }
    assert_eq!((services.len(), all.len()), (5, 7));
    let verified = Ended::of(&analyze(&["verify", "--man=no"], &all).unwrap()).exits(0);
    assert_eq!((verified.out, verified.err), (String::new(), String::new()));
    for service in services {
        let words = ["security", "--offline=true", "--no-pager", "--threshold=20"];
        Ended::of(&analyze(&words, &[service]).unwrap()).exits(0);
    }
}
