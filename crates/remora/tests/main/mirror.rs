//! `remora mirror`, between folders and over a store in this process, and repositories in that store.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

use crate::mount;
use crate::store::Fake;
use crate::support::{Ended, Running, at_store};

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
        Ended::of(&self.command(line).output().unwrap())
    }

    fn command(&self, line: &str) -> Command {
        at_store(self.folder.path(), &self.store.endpoint, line)
    }

    #[track_caller]
    fn restores(&self, repository: &str, key: &str) {
        restores(self.folder.path(), |line| self.run(line), repository, key);
    }
}

/// Fails unless the newest generation of the file `disk` comes back out of a repository.
#[track_caller]
pub(crate) fn restores(folder: &Path, run: impl Fn(&str) -> Ended, repository: &str, key: &str) {
    run(&format!("verify {repository}{key}")).exits(0).says(&["all sound"]);
    std::fs::remove_file(folder.join("new")).ok();
    run(&format!("restore {repository}/disk --to new{key}")).exits(0);
    assert!(std::fs::read(folder.join("new")).unwrap() == std::fs::read(folder.join("disk")).unwrap());
}

#[test]
fn a_name_in_a_store_may_be_called_like_the_folder_of_an_archived_log() {
    let scene = Scene::new(false);
    std::fs::copy(scene.path("disk"), scene.path("log")).unwrap();
    for name in ["disk", "log"] {
        scene.run(&format!("backup file:{name} --to s3://b/p")).exits(0);
    }
    scene.run("verify s3://b/p").exits(0).says(&["disk: ", "log: "]);
    let listed = scene.run("list s3://b/p").exits(0).out;
    assert!(["disk", "log"].iter().all(|name| listed.contains(name)), "{listed}");
    scene.restores("s3://b/p", "");
}

/// Its files have the former names and lengths, and nothing of it would be copied.
#[test]
fn a_repository_that_was_made_anew_is_not_taken_for_mirrored() {
    let scene = Scene::new(false);
    let noise = |seed: u8| -> Vec<u8> {
        let hash = |block: u32| blake3::hash(&[&block.to_le_bytes()[..], &[seed]].concat());
        (0..2_000).flat_map(|block| *hash(block).as_bytes()).collect()
    };
    std::fs::write(scene.path("noise"), noise(1)).unwrap();
    scene.run("backup file:noise --to first --name n").exits(0);
    scene.run("mirror first there").exits(0);
    scene.run("mirror first there").exits(0).says(&["0 files copied"]);
    std::fs::write(scene.path("noise"), noise(2)).unwrap();
    scene.run("backup file:noise --to second --name n").exits(0);
    let len =
        |repository: &str| std::fs::metadata(scene.path(repository).join("n/000001.blk")).unwrap().len();
    assert_eq!(len("first"), len("second"));
    scene.run("mirror second there").exits(4).says(&["differs from"]);
}

#[test]
fn a_repository_is_mirrored_to_a_folder_and_a_store_and_back() {
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

        // One more generation, and only that, goes the same way; the copy can also be continued.
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
fn source_and_mirror_have_retentions_of_their_own() {
    for sealed in [false, true] {
        let scene = Scene::new(sealed);
        let key = if sealed { " --key full.key" } else { "" };
        let backup = |text: &str| {
            std::fs::write(scene.path("disk"), text.repeat(20_000)).unwrap();
            scene.run(&format!("backup file:disk --to repo{key}")).exits(0);
        };
        let shown = |repository: &str| {
            let listed = scene.run(&format!("list {repository}{key}")).exits(0).out;
            let number = |line: &str| line.split_whitespace().next()?.strip_prefix("disk@")?.parse().ok();
            listed.lines().filter_map(number).collect::<Vec<u64>>()
        };
        let copy = "s3://b/off";
        scene.run(&format!("mirror repo {copy}")).exits(0);
        assert_eq!(shown(copy), [2, 3]);
        scene.run(&format!("prune repo --keep-last 1{key}")).exits(0);
        backup("more");
        scene.run(&format!("mirror repo {copy}")).exits(0);
        assert_eq!((shown("repo"), shown(copy)), (vec![3, 4], vec![2, 3, 4]));
        // The other side, and then both in one.
        scene.run(&format!("prune {copy} --keep-last 2{key}")).exits(0).says(&["forgotten: 2"]);
        backup("and more");
        scene.run(&format!("prune repo --keep-last 1{key}")).exits(0);
        scene.run(&format!("mirror repo {copy}")).exits(0);
        assert_eq!((shown("repo"), shown(copy)), (vec![5], vec![3, 4, 5]));
        let put = if sealed { " --key put.key" } else { "" };
        scene.run("key put full.key put.key").exits(0);
        scene.run(&format!("mirror repo {copy} --keep-last 2{put}")).exits(0).says(&["forgotten: 3"]);
        assert_eq!(shown(copy), [4, 5]);
        let quiet = scene.run(&format!("mirror repo {copy}")).exits(0);
        assert!(quiet.err.contains("disk: 0 files copied"), "{}", quiet.err);
        scene.restores(copy, key);
        if sealed {
            scene.run(&format!("mirror repo {copy} --keep-last 1")).exits(2).says(&["is encrypted"]);
        }
    }
}

/// A run that continues in clear, or without the old keys, loses the old backups.
#[test]
fn a_lost_key_file_is_reported_and_restored_from_a_mirror() {
    let scene = Scene::new(true);
    scene.run("mirror repo copy").exits(0);
    std::fs::remove_file(scene.path("repo/disk/000001.keys")).unwrap();
    let told = ["000001.keys", "this key file is missing", "remora mirror COPY REPO"];
    for key in ["", " --key full.key"] {
        for line in
            ["backup file:disk --to repo", "backup file:disk --to repo --full", "list repo", "verify repo"]
        {
            let ended = scene.run(&format!("{line}{key}")).exits(4).says(&told);
            assert!(
                !ended.err.contains("leave out the key") && !ended.err.contains("with --full"),
                "{}",
                ended.err
            );
        }
    }
    scene.run("mirror copy repo").exits(0);
    scene.restores("repo", " --key full.key");
}

/// A service manager starts it again at once.
#[test]
fn an_archiver_waits_for_the_lock_of_one_that_was_killed() {
    let scene = Scene::new(false);
    let held = "remora lease\nstate held\nseconds 120\nholder db7, process 12\nid x\n";
    scene.store.set(|state| drop(state.files.insert("p/db/log/lease.writer.000900".to_owned(), held.into())));
    let line = "binlog s3://b/p/db --no-defaults --socket /nowhere/at/all -uroot";
    scene.run(&format!("{line} --once")).exits(11).says(&["another run archives into it"]);
    let begin = || {
        let mut command = scene.command(line);
        Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let mut waiting = begin();
    waiting.until_says("waiting for up to");
    waiting.signal("TERM");
    waiting.end().exits(143);
    let mut waiting = begin();
    waiting.until_says("waiting for up to");
    scene.store.set(|state| state.now = 1000);
    // It has the lock now, and no server.
    waiting.end().exits(10);
}

#[test]
fn repositories_that_cannot_be_mirrored_are_reported() {
    let scene = Scene::new(false);
    scene.run("mirror nothing copy").exits(1).says(&["nothing"]);
    scene.run("mirror s3://b/empty copy").exits(1).says(&["there is no backup in s3://b/empty"]);
    scene.run("mirror repo s3://").exits(2).says(&["s3://BUCKET/PREFIX"]);
    scene.store.set(|state| state.ignores = (true, true));
    scene.run("mirror repo s3://b/x").exits(1).says(&["If-None-Match"]);
    scene.store.set(|state| state.ignores = (false, false));

    // The archive of a log stays behind.
    for name in ["disk", "alone"] {
        let timeline = scene.path("repo").join(name).join("log/000001");
        std::fs::create_dir_all(&timeline).unwrap();
        std::fs::write(timeline.join("timeline.json"), "{}").unwrap();
    }
    scene.run("mirror repo copy").exits(3).says(&[
        "disk: the archive of the binary log is not copied",
        "alone: the archive of the binary log is not copied",
    ]);

    // Another repository of this name.
    scene.run("backup file:full.key --to other --name disk").exits(0);
    scene.run("mirror other copy").exits(4).says(&["disk is not mirrored", "this file differs from"]);
}

#[test]
fn a_store_without_an_archive_is_reported() {
    let scene = Scene::new(false);
    scene.run("mirror repo s3://b/p").exits(0);
    for line in ["restore s3://b/p/disk --to new --until end", "log s3://b/p/disk"] {
        let ended = scene.run(line).says(&["no log is archived in s3://b/p/disk"]);
        assert_ne!(ended.code, 0, "{line}");
    }
    assert!(!scene.path("s3:").exists());
}

#[test]
fn a_repository_lives_in_a_store() {
    for sealed in [false, true] {
        let scene = Scene::new(false);
        let key = if sealed { " --key full.key" } else { "" };
        let repo = "s3://b/some/place";
        for number in 0..3 {
            std::fs::write(scene.path("disk"), format!("planted {number}").repeat(20_000)).unwrap();
            scene.run(&format!("backup file:disk --to {repo}{key}")).exits(0);
        }
        // A second name, and the names together.
        scene.run(&format!("backup file:full.key --to {repo} --name other{key}")).exits(0);
        let listed = scene.run(&format!("list {repo} --older-than 1h{key}")).exits(0).out;
        assert!(["disk@1", "disk@3", "other@1"].iter().all(|found| listed.contains(found)), "{listed}");
        scene.restores(repo, key);
        scene.run(&format!("verify {repo}/disk --sample 1/2{key}")).exits(0);
        scene.run(&format!("restore {repo} --to other{key}")).exits(2).says(&["disk, other"]);
        let key_of = |path: &str| std::fs::read(scene.path(path)).unwrap();
        scene.run(&format!("restore {repo}/other@1 --to other{key}")).exits(0);
        assert_eq!(key_of("other"), key_of("full.key"));
        scene
            .run(&format!("restore {repo}/wrong --to x{key}"))
            .exits(1)
            .says(&["called wrong", "disk, other"]);

        scene.run(&format!("prune {repo}/disk --keep-last 2{key}")).exits(0).says(&["forgotten: 1"]);
        let listed = scene.run(&format!("list {repo}/disk{key}")).exits(0).out;
        assert!(!listed.contains("disk@1") && listed.contains("disk@2"), "{listed}");
        scene.restores(repo, key);
        assert!(!scene.path("s3:").exists(), "no folder is made");
        if sealed {
            scene.run(&format!("backup file:disk --to {repo} --name new")).exits(2).says(&["are encrypted"]);
            scene.run("key new new.key").exits(0);
            scene.run(&format!("rekey {repo} --key full.key --to new.key")).exits(0);
            scene.run(&format!("list {repo}{key}")).exits(2);
            scene.restores(repo, " --key new.key");
        }
        // It is as if it had been mirrored there.
        let key = if sealed { " --key new.key" } else { "" };
        scene.run(&format!("mirror {repo} back")).exits(0);
        scene.restores("back", key);
    }
}

#[test]
fn files_of_a_tree_come_out_of_a_store() {
    let scene = Scene::new(false);
    let top = scene.path("top");
    std::fs::create_dir_all(top.join("sub")).unwrap();
    std::fs::write(top.join("sub/small"), "content").unwrap();
    let mut random = rand(1);
    std::fs::write(top.join("large"), std::iter::from_fn(&mut random).take(40 << 20).collect::<Vec<u8>>())
        .unwrap();
    mount::generation(scene.folder.path(), &top);
    scene.run("mirror repo s3://b/p").exits(0);
    let listed = scene.run("list s3://b/p/data --files").exits(0).out;
    assert!(listed.contains("sub/small") && listed.contains("large"), "{listed}");
    scene.store.set(|state| state.read.clear());
    scene.run("restore s3://b/p/data@1 --path sub --to part").exits(0);
    assert_eq!(std::fs::read(scene.path("part/sub/small")).unwrap(), b"content");
    let fetched =
        |scene: &Scene| scene.store.state.lock().unwrap().read.iter().map(|(.., len)| len).sum::<u64>();
    assert!(fetched(&scene) < 4 << 20, "only what is wanted is fetched: {}", fetched(&scene));
    scene.run("restore s3://b/p/data --to whole").exits(0);
    assert!(std::fs::read(scene.path("whole/large")).unwrap() == std::fs::read(top.join("large")).unwrap());
    if !mount::is_possible() {
        return;
    }
    std::fs::create_dir(scene.path("mnt")).unwrap();
    let mut mounted = Running::new(
        scene.command("mount s3://b/p mnt").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    );
    mounted.until_says("ends it");
    assert_eq!(std::fs::read(scene.path("mnt/data/1/sub/small")).unwrap(), b"content");
    assert!(
        std::fs::read(scene.path("mnt/data/1/large")).unwrap() == std::fs::read(top.join("large")).unwrap()
    );
    mounted.signal("TERM");
    mounted.end().exits(0);
}

/// Bytes that look random.
fn rand(mut state: u64) -> impl FnMut() -> Option<u8> {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 32).to_le_bytes()[0])
    }
}

#[test]
fn an_empty_store_is_reported() {
    let scene = Scene::new(false);
    scene.run("list s3://b/none").exits(0).says(&["there is no backup"]);
    scene.run("list s3://b/none --older-than 1h").exits(3);
    scene.run("verify s3://b/none").exits(1).says(&["there is no backup in s3://b/none"]);
    scene.run("mount s3://b/none somewhere").exits(1).says(&["there is no backup"]);
}

#[test]
fn a_run_waits_for_a_killed_ones_lock_and_names_the_holder() {
    let scene = Scene::new(false);
    let backup = "backup file:disk --to s3://b/p";
    scene.run(backup).exits(0);
    scene.store.set(|state| {
        // As a run leaves it that was killed.
        let text = "remora lease\nstate held\nseconds 120\nholder db7, process 12\nid x\n";
        state.files.insert("p/disk/lease.writer.000900".to_owned(), text.into());
        state.leave("p/disk/000002.blk");
    });
    scene.run(backup).exits(11).says(&["db7, process 12, which renewed its lock 0 s ago"]);
    scene.run("prune s3://b/p --keep-last 1").exits(11);
    scene.run("mirror repo s3://b/p").exits(11);
    scene.store.set(|state| state.now = 1000);
    scene.run(backup).exits(0).says(&["db7, process 12 has not renewed its lock", "takes over"]);
    assert_eq!(scene.store.state.lock().unwrap().unfinished(), 0);
    scene.restores("s3://b/p", "");
}

#[test]
fn a_run_that_loses_its_lock_at_the_end_makes_no_backup() {
    let scene = Scene::new(false);
    scene.run("backup file:disk --to s3://b/p").exits(0);
    scene.store.set(|state| {
        // As another run does it.
        state.before_completion = Some(|state| {
            let text = "remora lease\nstate held\nseconds 120\nholder db7, process 12\nid x\n";
            // The first upload is that of the proof.
            if state.uploads.values().all(|upload| upload.key.contains("lease.")) {
                return;
            }
            state.files.insert("p/disk/lease.writer.000900".to_owned(), text.into());
            state.uploads.clear();
        });
        state.keeps_acting = true;
    });
    scene
        .run("backup file:disk --to s3://b/p")
        .exits(11)
        .says(&["another run has taken over s3://b/p/disk/"]);
    let state = scene.store.state.lock().unwrap();
    assert!(!state.names("p/disk/").contains(&"000002.blk"));
}

#[test]
fn operations_that_a_store_cannot_do_are_reported() {
    let scene = Scene::new(false);
    scene.run("backup file:disk --to s3://").exits(2).says(&["s3://BUCKET/PREFIX"]);
    scene.store.set(|state| state.ignores = (true, true));
    scene.run("backup file:disk --to s3://b/x").exits(1).says(&["If-None-Match"]);
    assert!(scene.store.state.lock().unwrap().names("x/disk/").is_empty());
    scene.store.set(|state| state.ignores = (false, false));
    scene.run("backup file:disk --to s3://b/x").exits(0);
    scene.store.set(|state| state.retains = true);
    std::fs::write(scene.path("disk"), "other".repeat(20_000)).unwrap();
    scene.run("backup file:disk --to s3://b/x --full").exits(0);
    scene.run("prune s3://b/x --keep-last 1").exits(0).says(&["retained: "]);
}

/// A way to the store with TLS, under a certificate of an authority of its own.
fn with_tls(folder: &Path, store: &Fake) -> String {
    let openssl = |line: &str| {
        let done = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    for name in ["ca", "other"] {
        openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ));
    }
    openssl(
        "req -newkey rsa:2048 -nodes -subj /CN=store -keyout store.key -out store.csr -addext subjectAltName=IP:127.0.0.1",
    );
    openssl("x509 -req -in store.csr -CA ca.pem -CAkey ca.key -days 30 -copy_extensions copy -out store.pem");
    let certificate = CertificateDer::from_pem_file(folder.join("store.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("store.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let inner = store.endpoint.strip_prefix("http://").unwrap().to_owned();
    std::thread::spawn(move || {
        for outer in listener.incoming().flatten() {
            let tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let inner = TcpStream::connect(&inner).unwrap();
            std::thread::spawn(move || forward(rustls::StreamOwned::new(tls, outer), inner));
        }
    });
    endpoint
}

/// Brings bytes from one side to the other, as they come, until one of them ends.
fn forward(
    mut outer: rustls::StreamOwned<rustls::ServerConnection, TcpStream>,
    mut inner: TcpStream,
) -> Option<()> {
    let wait = Some(std::time::Duration::from_millis(5));
    outer.sock.set_read_timeout(wait).ok()?;
    inner.set_read_timeout(wait).ok()?;
    let mut bytes = vec![0; 1 << 16];
    let mut pass = |from: &mut dyn Read, to: &mut dyn Write| match from.read(&mut bytes) {
        Ok(0) => None,
        Ok(len) => to.write_all(&bytes[..len]).and_then(|()| to.flush()).ok(),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(()),
        Err(_) => None,
    };
    loop {
        pass(&mut outer, &mut inner)?;
        pass(&mut inner, &mut outer)?;
    }
}

#[test]
fn a_store_may_have_a_certificate_of_its_own() {
    let scene = Scene::new(false);
    let endpoint = with_tls(scene.folder.path(), &scene.store);
    let run = |line: &str, variables: &[(&str, &str)]| {
        let mut command = scene.command(line);
        command.env("AWS_ENDPOINT_URL", &endpoint).env_remove("SSL_CERT_FILE");
        command.envs(variables.iter().copied());
        Ended::of(&command.output().unwrap())
    };
    run("mirror repo s3://b/p", &[("AWS_CA_BUNDLE", "ca.pem")]).exits(0).says(&["disk: ", "copied"]);
    run("verify s3://b/p", &[("SSL_CERT_FILE", "ca.pem")]).exits(0).says(&["all sound"]);
    // The first of them counts.
    run("verify s3://b/p", &[("AWS_CA_BUNDLE", "ca.pem"), ("SSL_CERT_FILE", "other.pem")]).exits(0);
    for wrong in [&[][..], &[("AWS_CA_BUNDLE", "other.pem")]] {
        let ended = run("list s3://b/p", wrong);
        assert!(ended.code == 1 && ended.err.contains("certificate"), "{}", ended.err);
    }
    run("list s3://b/p", &[("AWS_CA_BUNDLE", "none.pem")]).exits(2).says(&["AWS_CA_BUNDLE none.pem"]);
    run("list s3://b/p", &[("AWS_CA_BUNDLE", "full.key")]).exits(2).says(&["there is no certificate in it"]);
    run("list s3://b/p", &[("AWS_CA_BUNDLE", "ca.key")]).exits(2).says(&["it contains a private key"]);
}
