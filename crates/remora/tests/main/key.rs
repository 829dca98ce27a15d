//! `remora key`, `remora rekey`, and `--key` of the commands on repositories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Ended, on_mariadb, remora};

/// A folder with a full key, its put key, and a file to back up.
struct Scene(TempDir);

const PLANTED: &str = "planted-row-4711";
const TABLE: &str = "planted_table";

impl Scene {
    fn new() -> Scene {
        let scene = Scene(tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap());
        scene.run("key new full.key").exits(0).says(&["keep copies of it"]);
        scene.run("key put full.key host.put").exits(0);
        std::fs::write(scene.path("disk"), format!("{PLANTED}{}", "x".repeat(100_000))).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Ended {
        self.with(line, None)
    }

    fn with(&self, line: &str, key: Option<&str>) -> Ended {
        let mut command = remora(self.0.path());
        command.args(line.split(' ')).env_remove("REMORA_KEY");
        key.map(|key| command.env("REMORA_KEY", key));
        Ended::of(&command.output().unwrap())
    }
}

/// All files below a folder, with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn an_encrypted_repository_asks_for_its_key() {
    let scene = Scene::new();
    scene.run("backup file:disk --to repo --key full.key").exits(0);
    for line in [
        "backup file:disk --to repo",
        "restore repo/disk --to new",
        "verify repo",
        "list repo",
        "prune repo --keep-last 1",
        "mount repo mnt",
    ] {
        scene.run(line).exits(2).says(&["is encrypted", "--key FILE", "REMORA_KEY"]);
    }
    scene.run("backup file:disk --to repo --name other").exits(2).says(&["other backups", "--key FILE"]);
    assert!(!scene.path("repo/other").exists(), "something was written in clear");
    scene.run("binlog repo/disk").exits(2).says(&["is encrypted", "--key FILE"]);
    scene.run("key new another.key").exits(0);
    scene.run("list repo --key another.key").exits(2).says(&["is for the key"]);
    let listed = scene.with("list repo", Some("full.key")).exits(0);
    assert!(listed.out.contains("disk@1"), "{listed:?}");
    scene.run("verify repo --key full.key").exits(0).says(&["all sound"]);
    scene.run("restore repo/disk --to new --key full.key").exits(0);
    let line = "restore repo/disk --to back --key full.key --until end";
    scene.run(line).exits(2).says(&["no log is archived in"]);
    assert_eq!(std::fs::read(scene.path("new")).unwrap(), std::fs::read(scene.path("disk")).unwrap());
    // And the other way round.
    scene.run("backup file:disk --to plain").exits(0);
    scene.run("backup file:disk --to plain --key full.key").exits(2).says(&["is not encrypted"]);
}

/// Names with another key, or with none, beside one in clear.
#[test]
fn names_that_the_key_does_not_open_are_left_out_and_named() {
    let scene = Scene::new();
    scene.run("key new other.key").exits(0);
    scene.run("backup file:disk --to repo --name clear").exits(0);
    scene.run("backup file:disk --to repo --name sealed --key full.key").exits(0);
    scene.run("backup file:disk --to elsewhere --name other --key other.key").exits(0);
    std::fs::rename(scene.path("elsewhere/other"), scene.path("repo/other")).unwrap();
    let listed = scene.run("list repo").exits(0).out;
    let is_locked = |line: &str| line.contains("encrypted") && line.contains("1 file ");
    assert!(
        listed.contains("clear@1") && listed.lines().filter(|line| is_locked(line)).count() == 2,
        "{listed}"
    );
    let with_key = scene.run("list repo --key full.key").exits(0).says(&["clear is not encrypted"]);
    let opened = |name: &str| with_key.out.contains(&format!("{name}@1 "));
    assert!(opened("clear") && opened("sealed") && !opened("other"), "{with_key:?}");
    // Their age is asked for, and unknown.
    let names = ["sealed is left out", "other is left out", "--key FILE"];
    scene.run("list repo --older-than 1d").exits(3).says(&names);
    scene.run("list repo --textfile metrics.prom").exits(3).says(&names);
    let metrics = std::fs::read_to_string(scene.path("metrics.prom")).unwrap();
    for (name, is_locked) in [("clear", 0), ("sealed", 1), ("other", 1)] {
        let line = format!("remora_backup_locked{{repository=\"repo\",name=\"{name}\"}} {is_locked}\n");
        assert!(metrics.contains(&line), "{metrics}");
        let newest = format!("remora_backup_newest_timestamp_seconds{{repository=\"repo\",name=\"{name}\"}}");
        assert_eq!(metrics.contains(&newest), is_locked == 0, "{metrics}");
    }
    scene.run("verify repo").exits(3).says(&["clear: 1 generation", "all sound"]).says(&names);
    let told = ["sealed: 1 generation", "clear: 1 generation", "clear is not encrypted", "other is left out"];
    scene.run("verify repo --key full.key").exits(3).says(&told);
    for line in ["prune repo --keep-last 1", "prune repo --keep-last 1 --dry-run"] {
        scene.run(line).exits(3).says(&["clear: "]).says(&names);
    }
    // Damage is worse than what is left out.
    std::fs::write(scene.path("repo/other/000001.keys"), "no keys").unwrap();
    for line in
        ["list repo --key full.key", "verify repo --key full.key", "prune repo --key full.key --keep-last 1"]
    {
        scene.run(line).exits(4).says(&["other is left out"]);
    }
    // A key that opens nothing can't be meant.
    std::fs::remove_dir_all(scene.path("repo/other")).unwrap();
    for (repo, why) in [("repo", "is for the key"), ("repo/clear", "is not encrypted")] {
        for line in ["list", "verify", "prune --keep-last 1"] {
            scene.run(&format!("{line} {repo} --key other.key")).exits(2).says(&[why]);
        }
    }
}

#[test]
fn keys_are_created_once_and_distinguished() {
    let scene = Scene::new();
    let full = std::fs::read_to_string(scene.path("full.key")).unwrap();
    scene.run("key new full.key").exits(2).says(&["only copy"]);
    assert_eq!(std::fs::read_to_string(scene.path("full.key")).unwrap(), full);
    scene.run("key put host.put other.put").exits(2).says(&["made from a full key"]);
    let listed = scene.run("key list full.key host.put").exits(0).out;
    let ids: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1] && listed.contains("reads everything"), "{listed}");
    std::fs::write(scene.path("bad"), b"\xff\xfe").unwrap();
    scene.run("key list bad").exits(2).says(&["bad, line 1: not a remora key"]);
    std::fs::write(scene.path("bad"), full.replace("secret ", "secret 0")).unwrap();
    scene.run("key list bad").exits(2).says(&["bad, line 4: not 'secret'"]);
    let rights =
        std::os::unix::fs::PermissionsExt::mode(&scene.path("full.key").metadata().unwrap().permissions());
    assert_eq!(rights & 0o777, 0o600);
}

#[test]
fn a_put_key_reads_nothing() {
    on_mariadb(|place| {
        place.sql(&[
            &format!("CREATE TABLE {TABLE} (a VARCHAR(50)) ENGINE=MyISAM"),
            &format!("INSERT INTO {TABLE} VALUES ('{PLANTED}')"),
        ]);
        let scene = Scene::new();
        let back_up = |more: &str| {
            let source = format!("mysql:{}", place.socket.display());
            let line = format!("backup {source} --to repo --name db --no-prove --way copy -u root {more}");
            scene.run(&line).exits(0);
        };
        back_up("--key host.put");
        place.sql(&[&format!("INSERT INTO {TABLE} VALUES ('{PLANTED} again')")]);
        back_up("--key host.put");
        for (path, bytes) in files(&scene.path("repo")) {
            for text in [PLANTED, TABLE, "binlog.0", "ibdata1", "\"host\"", "remoblk"] {
                assert!(!holds(&bytes, text), "{text} is in {}", path.display());
            }
        }
        let listed = scene.run("list repo --key host.put").exits(0).out;
        assert!(listed.contains("db@2") && listed.contains("changes to 1"), "{listed}");
        scene.run("verify repo --key host.put").exits(0).says(&["all sound", "put key"]);
        scene.run("restore repo/db --to new --key host.put").exits(2).says(&["needs the full key"]);
        for line in [
            "list repo/db --files",
            "mount repo mnt",
            "restore repo/db --to new --tables a.b",
            "extract repo/db -o new",
        ] {
            scene.run(&format!("{line} --key host.put")).exits(2).says(&["needs the full key"]);
        }
        assert!(!scene.path("new").exists());
        scene.run("prune repo --keep-last 1 --key host.put").exits(0);
        scene.run("restore repo/db --to new --key full.key").exits(0);
        let data = scene.path("new").join(&place.schema).join(format!("{TABLE}.MYD"));
        assert!(holds(&std::fs::read(data).unwrap(), &format!("{PLANTED} again")));
    });
}

#[test]
fn a_new_key_opens_old_backups() {
    let scene = Scene::new();
    scene.run("backup file:disk --to repo --key host.put").exits(0);
    let before = files(&scene.path("repo"));
    scene.run("key new new.key").exits(0);
    scene.run("rekey repo --key host.put --to new.key").exits(2).says(&["needs the full key"]);
    scene.run("rekey repo --key new.key --to new.key").exits(2).says(&["is for the key"]);
    scene.run("rekey repo --key full.key --to host.put").exits(2).says(&["--to needs a full key"]);
    scene.run("rekey repo --key full.key --to new.key").exits(0).says(&["opens with the key"]);
    let after = files(&scene.path("repo"));
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "data were written again");
    scene.run("rekey repo --key full.key --to new.key").exits(0).says(&["already"]);
    for old in ["full.key", "host.put"] {
        scene.run(&format!("list repo --key {old}")).exits(2).says(&["is for the key"]);
        scene.run(&format!("backup file:disk --to repo --key {old}")).exits(2).says(&["is for the key"]);
    }
    scene.run("key put new.key new.put").exits(0);
    std::fs::write(scene.path("disk"), "y".repeat(50_000)).unwrap();
    scene.run("backup file:disk --to repo --key new.put").exits(0);
    for (generation, byte) in [(1, b'x'), (2, b'y')] {
        scene.run(&format!("restore repo/disk@{generation} --to out{generation} --key new.key")).exits(0);
        let restored = std::fs::read(scene.path(&format!("out{generation}"))).unwrap();
        assert_eq!(restored.last(), Some(&byte));
    }
}
