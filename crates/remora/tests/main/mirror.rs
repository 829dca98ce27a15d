//! `remora mirror`, between folders and over a store in this process.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::store::Fake;
use crate::support::{Ended, remora};

/// A folder with three generations of a file, of which the first is pruned, and a store.
struct Scene {
    folder: TempDir,
    store: Fake,
}

impl Scene {
    fn new(key: bool) -> Scene {
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let scene = Scene { folder, store: Fake::start() };
        scene.run("key new full.key").exits(0);
        let key = if key { " --key full.key" } else { "" };
        for number in 0..3 {
            std::fs::write(scene.path("disk"), format!("planted {number}").repeat(20_000)).unwrap();
            scene.run(&format!("backup file:disk --to repo{key}")).exits(0);
        }
        scene.run(&format!("prune repo --keep-last 2{key}")).exits(0);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, line: &str) -> Ended {
        let mut command = remora(self.folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.args(line.split(' ')).env_remove("REMORA_KEY");
        command.env("AWS_ENDPOINT_URL", &self.store.endpoint);
        command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
        Ended::of(&command.output().unwrap())
    }

    /// Fails unless the newest generation comes back out of a repository.
    #[track_caller]
    fn restores(&self, repository: &str, key: &str) {
        self.run(&format!("verify {repository}{key}")).exits(0).says(&["all sound"]);
        std::fs::remove_file(self.path("new")).ok();
        self.run(&format!("restore {repository}/disk --to new{key}")).exits(0);
        assert!(std::fs::read(self.path("new")).unwrap() == std::fs::read(self.path("disk")).unwrap());
    }
}

#[test]
fn to_another_folder_and_to_a_store_and_back() {
    for sealed in [false, true] {
        let scene = Scene::new(sealed);
        let key = if sealed { " --key full.key" } else { "" };
        // No key: files are copied as they are.
        scene.run("mirror repo copy").exits(0).says(&["disk: ", "copied"]);
        scene.restores("copy", key);
        scene.run("mirror copy s3://b/off/site").exits(0);
        assert!(!scene.store.state.lock().unwrap().files.is_empty());
        scene.run("mirror s3://b/off/site/ back").exits(0);
        scene.restores("back", key);

        // One more generation, and only that, goes the same way; the copy can also be gone on with.
        std::fs::write(scene.path("disk"), "another").unwrap();
        scene.run(&format!("backup file:disk --to repo{key}")).exits(0);
        let ended = scene.run("--json mirror repo s3://b/off/site").exits(0);
        let copied = ended.out.lines().find(|line| line.contains("mirrored")).unwrap();
        assert!(copied.contains("\"files_copied\":2"), "a generation and the note: {copied}");
        scene.run("mirror s3://b/off/site back").exits(0);
        scene.restores("back", key);
        scene.run(&format!("backup file:disk --to back{key}")).exits(0);
    }
}

#[test]
fn what_cannot_be_mirrored_is_told() {
    let scene = Scene::new(false);
    scene.run("mirror nothing copy").exits(2).says(&["nothing"]);
    scene.run("mirror s3://b/empty copy").exits(1).says(&["there is no backup in s3://b/empty"]);
    scene.run("mirror repo s3://").exits(2).says(&["s3://BUCKET/PREFIX"]);
    scene.store.set(|state| state.ignores = (true, true));
    scene.run("mirror repo s3://b/x").exits(1).says(&["If-None-Match"]);
    scene.store.set(|state| state.ignores = (false, false));

    // The archive of a log stays behind.
    std::fs::create_dir(scene.path("repo/disk/log")).unwrap();
    std::fs::create_dir_all(scene.path("repo/alone/log")).unwrap();
    scene.run("mirror repo copy").exits(3).says(&[
        "disk: the archive of the binary log is not copied",
        "alone: the archive of the binary log is not copied",
    ]);

    // Another repository of this name.
    scene.run("backup file:full.key --to other --name disk").exits(0);
    scene.run("mirror other copy").exits(4).says(&["disk is not mirrored", "another file"]);
}

#[test]
fn other_commands_refuse_a_store() {
    let scene = Scene::new(false);
    for line in [
        "backup file:disk --to s3://b/p",
        "restore s3://b/p/disk --to new",
        "verify s3://b/p",
        "list s3://b/p",
        "prune s3://b/p --keep-last 1",
        "rekey s3://b/p --key full.key --to full.key",
        "binlog s3://b/p/disk",
    ] {
        let ended = scene.run(line).says(&["remora mirror"]);
        assert_ne!(ended.code, 0, "{line}");
        assert!(!scene.path("s3:").exists(), "{line} has made a folder");
    }
}
