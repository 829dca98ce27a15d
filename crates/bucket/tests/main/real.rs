//! Stores that others wrote: on each change SeaweedFS, before a release also MinIO and moto.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Duration;

use block::{EncryptedStore, Store as _, WRITER_LOCK};
use bucket::{Bucket, BucketDisk, Settings};
use disk::{Disk, Output, Share};
use sandbox::Places;
use store_sandbox::{ACCESS_KEY, Kind, SECRET_KEY, Store};

use crate::store::key;
use crate::store_contract::contract;

/// A store, with nothing in its bucket.
struct Scene {
    store: Store,
    /// The last to be dropped.
    _folder: tempfile::TempDir,
}

impl Scene {
    /// One after the other: each of the stores that a test of this name runs on.
    fn each(test: &str) -> impl Iterator<Item = Scene> {
        let cache = Places::customary(|name| std::env::var_os(name)).unwrap().cache;
        let kinds = Kind::for_test(&format!("bucket::real::{test}"), &Kind::ALL, &cache);
        kinds.into_iter().map(move |kind| {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::start(kind, &cache, folder.path()).unwrap();
            Scene { store, _folder: folder }
        })
    }

    fn bucket(&self) -> Bucket {
        Bucket::new(Settings {
            endpoint: self.store.endpoint(),
            path_style: true,
            region: "us-east-1".into(),
            bucket: "bucket".into(),
            prefix: "p q/".into(),
            access_key: ACCESS_KEY.into(),
            secret_key: SECRET_KEY.into(),
            session_token: None,
            authorities: None,
            holder: "this test".into(),
            retain_s: None,
            wait: Duration::from_millis(100),
        })
    }

    fn disk(&self) -> BucketDisk {
        BucketDisk::new(self.bucket(), Path::new("s3://bucket/p q"))
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("s3://bucket/p q").join(name)
}

fn write(disk: &BucketDisk, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut output = Output::create(disk, &path(name))?;
    output.write_all(bytes)?;
    output.finish()
}

fn read(disk: &BucketDisk, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    disk.open(&path(name)).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_real_store_keeps_the_contract() {
    for scene in Scene::each("a_real_store_keeps_the_contract") {
        contract(&scene.bucket().below("plain/new/repo"));
        let sealed = Box::new(scene.bucket().below("sealed/new/repo"));
        contract(&EncryptedStore::open(sealed, &key().0).unwrap());
    }
}

#[test]
fn only_one_of_many_gets_the_lock_of_a_real_store() {
    for scene in Scene::each("only_one_of_many_gets_the_lock_of_a_real_store") {
        let barrier = Barrier::new(8);
        let attempt = || {
            let bucket = scene.bucket();
            barrier.wait();
            let guard = bucket.lock(WRITER_LOCK, Share::Exclusive).unwrap();
            barrier.wait();
            guard.is_some()
        };
        let got: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(attempt)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(got.iter().filter(|got| **got).count(), 1, "{got:?}");
    }
}

#[test]
fn files_of_a_dump_in_a_real_store_are_whole_or_not_there() {
    for scene in Scene::each("files_of_a_dump_in_a_real_store_are_whole_or_not_there") {
        let disk = scene.disk();
        for len in [0, 7, (16 << 20) + 1, 40 << 20] {
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let name = format!("d/{len}.tsv");
            let mut output = Output::create(&disk, &path(&name)).unwrap();
            output.write_all(&bytes).unwrap();
            assert_eq!(disk.stat(&path(&name)).unwrap_err().kind(), ErrorKind::NotFound);
            output.finish().unwrap();
            assert!(read(&disk, &name) == bytes, "{len}");
            let mut given_up = Output::create(&disk, &path("d/other.tsv")).unwrap();
            given_up.write_all(&bytes).unwrap();
            drop(given_up);
            assert_eq!(disk.open(&path("d/other.tsv")).err().unwrap().kind(), ErrorKind::NotFound);
        }
    }
}

/// Names that stores have to be asked for in another form than they are listed in.
const NAMES: [&str; 5] = ["a b", "a+b", "a%2Fb", "\u{e4}&<\u{20ac}", "a.b"];

#[test]
fn folders_of_a_real_store_are_listed_with_all_names() {
    for scene in Scene::each("folders_of_a_real_store_are_listed_with_all_names") {
        let disk = scene.disk();
        for name in NAMES {
            write(&disk, &format!("d/{name}/1.tsv"), name.as_bytes()).unwrap();
        }
        // More than a store tells in one answer.
        for number in 0..1_010 {
            write(&disk, &format!("many/{number:04}"), b"").unwrap();
        }
        let mut names = disk.list(&path("d")).unwrap();
        names.sort();
        let mut wanted = NAMES.map(std::ffi::OsString::from);
        wanted.sort();
        assert_eq!(names, wanted);
        for name in NAMES {
            assert_eq!(read(&disk, &format!("d/{name}/1.tsv")), name.as_bytes());
        }
        assert_eq!(disk.list(&path("many")).unwrap().len(), 1_010);
    }
}

#[test]
fn a_journal_in_a_real_store_grows_and_a_manifest_is_never_replaced() {
    for scene in Scene::each("a_journal_in_a_real_store_grows_and_a_manifest_is_never_replaced") {
        let (disk, stale) = (scene.disk(), scene.disk());
        write(&disk, "d/journal.jsonl", b"begin\n").unwrap();
        let mut sink = disk.append(&path("d/journal.jsonl"), 6).unwrap();
        for _ in 0..3 {
            sink.write_all(b"step\n").unwrap();
            sink.sync().unwrap();
        }
        drop(sink);
        assert_eq!(read(&disk, "d/journal.jsonl"), b"begin\nstep\nstep\nstep\n");
        disk.rename(&path("d/journal.jsonl"), &path("d/left.jsonl")).unwrap();
        assert_eq!(disk.list(&path("d")).unwrap(), ["left.jsonl"]);
        assert_eq!(read(&disk, "d/left.jsonl").len(), 21);
        disk.remove(&path("d/left.jsonl")).unwrap();
        assert_eq!(disk.list(&path("d")).unwrap_err().kind(), ErrorKind::NotFound);
        write(&disk, "d/manifest.json", b"first").unwrap();
        let refused = write(&stale, "d/manifest.json", b"second").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(read(&disk, "d/manifest.json"), b"first");
    }
}
