//! Repositories in stores that others wrote: on each change SeaweedFS, before a release also MinIO and moto.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::Timestamp;
use store_sandbox::{ACCESS_KEY, Kind, READER, SECRET_KEY, Store};
use tempfile::TempDir;

use crate::mirror::restores;
use crate::support::{Ended, Running, at_store, places, tell, until};

/// A store with the bucket `bucket`, and a folder. It ends with its test, also if that is killed.
struct Scene {
    store: Store,
    folder: TempDir,
}

impl Scene {
    /// One after the other: each of some stores that a test of this name runs on.
    fn each(test: &str, of: &[Kind]) -> impl Iterator<Item = Scene> {
        let kinds = Kind::for_test(&format!("real_store::{test}"), of, &places().cache);
        kinds.into_iter().map(|kind| {
            tell(kind.name());
            let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
            let store = Store::start(kind, &places().cache, &folder.path().join("store")).unwrap();
            Scene { store, folder }
        })
    }

    /// Until when all that each generation needs is retained.
    fn retained(&self, repository: &str) -> Vec<Option<i64>> {
        let listed = self.run(&format!("list {repository} --retained --json")).exits(0).out;
        let all = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let until =
            all.map(|line| line["retained_until"].as_str().map(|it| it.parse::<Timestamp>().unwrap()));
        until.map(|until| until.map(Timestamp::as_second)).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = at_store(self.folder.path(), &self.store.endpoint(), line);
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command
    }

    fn run(&self, line: &str) -> Ended {
        Ended::of(&self.command(line).output().unwrap())
    }

    #[track_caller]
    fn restores(&self, repository: &str, key: &str) {
        restores(self.folder.path(), |line| self.run(line), repository, key);
    }
}

/// A file of which no two blocks are alike.
fn write_disk(path: &Path, seed: u64, mib: u64) {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut state = seed;
    for _ in 0..mib << 17 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.write_all(&state.to_le_bytes()).unwrap();
    }
    out.flush().unwrap();
}

#[test]
fn a_repository_lives_in_a_store_and_goes_from_one_to_another() {
    Scene::each("a_repository_lives_in_a_store_and_goes_from_one_to_another", &Kind::ALL)
        .for_each(|scene| lives(&scene));
}

fn lives(scene: &Scene) {
    scene.run("key new full.key").exits(0);
    for key in ["", " --key full.key"] {
        let repo = format!("s3://bucket/{}/place", key.len());
        for number in 1..4 {
            // Some of it is as before.
            write_disk(&scene.path("disk"), 7, 12 + number);
            scene.run(&format!("backup file:disk --to {repo}{key}")).exits(0);
        }
        scene.restores(&repo, key);
        let listed = scene.run(&format!("list {repo}{key}")).exits(0).out;
        assert!(["disk@1", "disk@2", "disk@3"].iter().all(|one| listed.contains(one)), "{listed}");
        scene.run(&format!("verify {repo}/disk --sample 1/2{key}")).exits(0);
        scene.run(&format!("prune {repo} --keep-last 2{key}")).exits(0).says(&["forgotten: 1"]);
        scene.restores(&repo, key);

        let other = format!("s3://bucket/{}/other", key.len());
        scene.run(&format!("mirror {repo} {other}")).exits(0);
        scene.restores(&other, key);
        write_disk(&scene.path("disk"), 8, 1);
        scene.run(&format!("backup file:disk --to {repo}{key}")).exits(0);
        scene.run(&format!("mirror {repo} {other}")).exits(0);
        scene.restores(&other, key);
        let back = format!("back{}", key.len());
        scene.run(&format!("mirror {other} {back}")).exits(0);
        scene.restores(&back, key);
    }
}

#[test]
fn the_files_of_a_generation_are_retained_and_never_for_less() {
    // moto can't be asked until when a file is retained.
    Scene::each("the_files_of_a_generation_are_retained_and_never_for_less", &[Kind::SeaweedFs, Kind::MinIo])
        .for_each(|scene| retains(&scene));
}

fn retains(scene: &Scene) {
    write_disk(&scene.path("disk"), 7, 20);
    let refused = scene.run("backup file:disk --to s3://bucket/repo --retain 1h").exits(1);
    refused.says(&["no object lock", "--retain"]);
    scene.run("list s3://bucket/repo").exits(0).says(&["no backup"]);
    assert!(scene.store.make_bucket("locked", true).unwrap());
    let backup = |more: &str| scene.run(&format!("backup file:disk --to s3://locked/repo{more}"));
    let began = Timestamp::now().as_second();
    backup(" --retain 1h").exits(0);
    write_disk(&scene.path("disk"), 7, 21);
    backup(" --retain 2h").exits(0);
    let two = scene.retained("s3://locked/repo");
    assert!(two.iter().all(|until| *until >= Some(began + 7200)), "{two:?}");
    backup(" --retain 1h").exits(0);
    let three = scene.retained("s3://locked/repo");
    assert_eq!((&three[..2], three[2] < two[0]), (&two[..], true), "{three:?}");
    backup("").exits(0);
    assert_eq!(scene.retained("s3://locked/repo")[3], None);
    let pruned = scene.run("prune s3://locked/repo --keep-last 1 --retain 1h").exits(0);
    pruned.says(&["retained: ", "the last of them until "]);
    scene.restores("s3://locked/repo", "");
}

#[test]
fn a_store_key_that_may_only_read_is_enough_to_restore() {
    // Only there a file says who may do what.
    Scene::each("a_store_key_that_may_only_read_is_enough_to_restore", &[Kind::SeaweedFs])
        .for_each(|scene| reads(&scene));
}

fn reads(scene: &Scene) {
    write_disk(&scene.path("disk"), 7, 12);
    scene.run("backup file:disk --to s3://bucket/repo").exits(0);
    let reader =
        |line: &str| Ended::of(&scene.command(line).env("AWS_ACCESS_KEY_ID", READER).output().unwrap());
    reader("list s3://bucket/repo").exits(0);
    reader("verify s3://bucket/repo").exits(0).says(&["all sound"]);
    restores(scene.folder.path(), reader, "s3://bucket/repo", "");
    for line in ["backup file:disk --to s3://bucket/repo", "prune s3://bucket/repo --keep-last 1"] {
        reader(line).exits(1).says(&["AccessDenied"]);
    }
    scene.restores("s3://bucket/repo", "");
}

#[test]
fn a_store_that_is_killed_during_a_backup_costs_that_run_at_most() {
    Scene::each(
        "a_store_that_is_killed_during_a_backup_costs_that_run_at_most",
        &[Kind::SeaweedFs, Kind::MinIo],
    )
    .for_each(killed);
}

fn killed(mut scene: Scene) {
    write_disk(&scene.path("disk"), 1, 1);
    scene.run("backup file:disk --to s3://bucket/repo").exits(0);
    write_disk(&scene.path("disk"), 2, 200);
    let mut command = scene.command("backup file:disk --to s3://bucket/repo");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::new(command.spawn().unwrap());
    until("the store has a part of it", || bytes_below(&scene.store.data()) > 50 << 20);
    scene.store.kill().unwrap();
    let ended = running.end();
    // What was answered is on the store's disk, so nothing that was confirmed may be missing.
    if ended.code != 0 {
        scene.run("verify s3://bucket/repo").exits(0).says(&["all sound"]);
        scene.run("backup file:disk --to s3://bucket/repo").exits(0);
    }
    scene.restores("s3://bucket/repo", "");
}

/// How many bytes the files below a folder have.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        // It is gone meanwhile.
        Err(_) => 0,
    });
    bytes.sum()
}
