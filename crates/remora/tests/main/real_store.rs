//! Repositories in a store that others wrote: SeaweedFS.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use tempfile::TempDir;

use crate::mirror::restores;
use crate::support::{Ended, Running, at_store, free_port, places, skipped, until};

/// Its services, each with a port for HTTP and one for gRPC. The first is what clients use.
const SERVICES: [&str; 5] = ["s3", "master", "volume", "filer", "admin"];

/// Who may do what: `id` everything, `reader` read and list.
const KEYS: &str = r#"{"identities": [
    {"name": "all", "credentials": [{"accessKey": "id", "secretKey": "secret"}], "actions": ["Admin", "Read", "List", "Write"]},
    {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "secret"}], "actions": ["Read", "List"]}]}"#;

/// A store with the bucket `bucket`, and a folder. It ends with its test, also if that is killed.
struct Scene {
    folder: TempDir,
    ports: Vec<u16>,
    /// Its end of input ends the store.
    keeper: Option<Child>,
}

impl Scene {
    fn program() -> PathBuf {
        places().cache.join("store/weed")
    }

    /// Starts one; `None` if the program is not here.
    fn start(test: &str) -> Option<Scene> {
        if !Scene::program().is_file() {
            let why = "no SeaweedFS: cargo xtask setup --all-servers fetches it";
            skipped(&format!("real_store::{test}"), why);
            return None;
        }
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("keys.json"), KEYS).unwrap();
        let ports = (0..SERVICES.len() * 2).map(|_| free_port()).collect();
        let mut scene = Scene { folder, ports, keeper: None };
        scene.run_store();
        Some(scene)
    }

    fn run_store(&mut self) {
        let script = "\"$@\" >> log 2>&1 & daemon=$!; read line; kill -9 $daemon; wait $daemon";
        let mut keeper = Command::new("sh");
        keeper.args(["-c", script, "store"]).arg(Scene::program());
        keeper.args(["mini", "-dir=data", "-bucket=bucket", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        keeper.args(["-webdav=false", "-admin.ui=false", "-s3.iam=false", "-s3.config=keys.json"]);
        keeper.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        for (service, ports) in SERVICES.iter().zip(self.ports.chunks(2)) {
            keeper.arg(format!("-{service}.port={}", ports[0]));
            keeper.arg(format!("-{service}.port.grpc={}", ports[1]));
        }
        keeper.current_dir(self.folder.path()).stdin(Stdio::piped()).stderr(Stdio::null());
        self.keeper = Some(keeper.spawn().unwrap());
        until("the store has its bucket", || self.run("list s3://bucket/none").err.contains("no backup"));
    }

    /// Kills the store and starts it again.
    fn kill(&mut self) {
        let mut keeper = self.keeper.take().unwrap();
        drop(keeper.stdin.take());
        keeper.wait().unwrap();
        self.run_store();
    }

    /// Gives the bucket object lock, by a command of the store's own shell.
    fn enable_lock(&self) {
        let place = |at: usize| format!("127.0.0.1:{}.{}", self.ports[at], self.ports[at + 1]);
        let mut shell = Command::new(Scene::program());
        shell.args(["shell", &format!("-master={}", place(2)), &format!("-filer={}", place(6))]);
        let mut shell =
            shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(b"s3.bucket.lock -name bucket -enable\n").unwrap();
        assert!(shell.wait().unwrap().success());
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
        at_store(self.folder.path(), &format!("http://127.0.0.1:{}", self.ports[0]), line)
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
    let Some(scene) = Scene::start("a_repository_lives_in_a_store_and_goes_from_one_to_another") else {
        return;
    };
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
    let Some(scene) = Scene::start("the_files_of_a_generation_are_retained_and_never_for_less") else {
        return;
    };
    let backup = |more: &str| scene.run(&format!("backup file:disk --to s3://bucket/repo{more}"));
    write_disk(&scene.path("disk"), 7, 20);
    backup(" --retain 1h").exits(1).says(&["no object lock", "--retain"]);
    scene.run("list s3://bucket/repo").exits(0).says(&["no backup"]);
    scene.enable_lock();
    let began = Timestamp::now().as_second();
    backup(" --retain 1h").exits(0);
    write_disk(&scene.path("disk"), 7, 21);
    backup(" --retain 2h").exits(0);
    let two = scene.retained("s3://bucket/repo");
    assert!(two.iter().all(|until| *until >= Some(began + 7200)), "{two:?}");
    backup(" --retain 1h").exits(0);
    let three = scene.retained("s3://bucket/repo");
    assert_eq!((&three[..2], three[2] < two[0]), (&two[..], true), "{three:?}");
    backup("").exits(0);
    assert_eq!(scene.retained("s3://bucket/repo")[3], None);
    let pruned = scene.run("prune s3://bucket/repo --keep-last 1 --retain 1h").exits(0);
    pruned.says(&["retained: ", "the last of them until "]);
    scene.restores("s3://bucket/repo", "");
}

#[test]
fn a_store_key_that_may_only_read_is_enough_to_restore() {
    let Some(scene) = Scene::start("a_store_key_that_may_only_read_is_enough_to_restore") else { return };
    write_disk(&scene.path("disk"), 7, 12);
    scene.run("backup file:disk --to s3://bucket/repo").exits(0);
    let reader =
        |line: &str| Ended::of(&scene.command(line).env("AWS_ACCESS_KEY_ID", "reader").output().unwrap());
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
    let Some(mut scene) = Scene::start("a_store_that_is_killed_during_a_backup_costs_that_run_at_most")
    else {
        return;
    };
    write_disk(&scene.path("disk"), 1, 1);
    scene.run("backup file:disk --to s3://bucket/repo").exits(0);
    write_disk(&scene.path("disk"), 2, 200);
    let mut command = scene.command("backup file:disk --to s3://bucket/repo");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::new(command.spawn().unwrap());
    until("the store has a part of it", || bytes_below(&scene.path("data")) > 50 << 20);
    scene.kill();
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
