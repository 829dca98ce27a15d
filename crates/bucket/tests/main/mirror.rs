use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::mirror::{MirrorSide, NewFile, ReadPart, Summary};
use block::{Error, Folder, RunContext, mirror};
use bucket::Bucket;
use disk::{Guard, RealDisk};
use progress::Silent;
use tempfile::TempDir;

use crate::fake::Fake;

static NEVER: AtomicBool = AtomicBool::new(false);
/// More than one part.
const LONG: usize = (16 << 20) + 5;

fn world() -> RunContext<'static> {
    RunContext { stop: &NEVER, progress: &Silent }
}

fn folder(path: &Path) -> Folder {
    Folder::new(Arc::new(RealDisk), path.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a test's own throw-away file")]
fn put(source: &TempDir, name: &str, bytes: &[u8]) {
    std::fs::write(source.path().join(name), bytes).unwrap();
}

/// Files with the names of a repository; a mirror does not look into them.
fn source() -> TempDir {
    let source = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| put(&source, name, bytes);
    write("000001.blk", b"first");
    write("000002.blk", &(0..LONG).map(|at| (at / 7 % 251).to_le_bytes()[0]).collect::<Vec<u8>>());
    write("000010.blk", b"");
    write("000001.keys", b"keys");
    write("000010.catalogue", b"catalogue");
    write("newest.note", b"newest");
    write("damage.note", b"of this place");
    write("000011.blk.partial", b"half");
    source
}

fn to_store(source: &TempDir, bucket: &Bucket) -> Result<Summary, Error> {
    mirror(&folder(source.path()), &bucket.below("db"), false, world())
}

/// The files of the source that a mirror copies, at the other end.
#[track_caller]
fn complete(fake: &Fake, source: &TempDir) {
    let state = fake.state.lock().unwrap();
    let mut names = state.names("p q/db/");
    // What the mirror knows of them is its own.
    names.retain(|name| *name != "mirror.note");
    let all = ["000001.blk", "000001.keys", "000002.blk", "000010.blk", "000010.catalogue", "newest.note"];
    assert_eq!(names, all);
    for name in names {
        let file = &state.files[&format!("p q/db/{name}")];
        assert!(*file == std::fs::read(source.path().join(name)).unwrap(), "{name}");
    }
    assert_eq!(state.unfinished(), 0, "no parts are left");
}

#[test]
fn there_and_back() {
    let (fake, source) = (Fake::start(), source());
    let bucket = fake.bucket();
    assert_eq!(to_store(&source, &bucket).unwrap().copied, 6);
    complete(&fake, &source);
    let again = to_store(&source, &bucket).unwrap();
    // The list of generations that the mirror's own note refers to stays as it is.
    assert_eq!((again.copied, again.there), (0, 5));

    let back = tempfile::tempdir().unwrap();
    let target = folder(&back.path().join("db"));
    assert_eq!(mirror(&bucket.below("db"), &target, false, world()).unwrap().copied, 6);
    for (name, len) in target.list().unwrap().into_iter().filter(|(name, _)| name != "mirror.note") {
        let bytes = std::fs::read(source.path().join(&name)).unwrap();
        assert!(target.read(&name, 0, bytes.len()).unwrap() == bytes && len == bytes.len() as u64, "{name}");
    }
}

#[test]
fn keys_and_referenced_files_are_copied_first() {
    let (fake, source) = (Fake::start(), source());
    let names = |fake: &Fake| {
        let written = std::mem::take(&mut fake.state.lock().unwrap().written);
        let mut names: Vec<String> =
            written.iter().map(|line| line.rsplit_once('/').unwrap().1.into()).collect();
        names.dedup();
        names
    };
    to_store(&source, &fake.bucket()).unwrap();
    let first = ["000001.keys", "000010.catalogue", "000001.blk", "000002.blk", "000010.blk", "newest.note"];
    assert_eq!(names(&fake), [&first[..], &["mirror.note"]].concat());

    for (name, bytes) in [("000012.blk", "12"), ("000100.blk", "100"), ("000100.catalogue", "c")] {
        put(&source, name, bytes.as_bytes());
    }
    put(&source, "newest.note", b"newer");
    to_store(&source, &fake.bucket()).unwrap();
    assert_eq!(names(&fake), ["000012.blk", "000100.blk", "000100.catalogue", "newest.note", "mirror.note"]);
    assert_eq!(fake.state.lock().unwrap().files["p q/db/newest.note"], b"newer");
}

#[test]
fn store_ignores_condition() {
    for (ignores, what) in [((true, true), "in a PUT"), ((false, true), "multipart upload")] {
        let fake = Fake::start();
        fake.set(|state| state.ignores = ignores);
        for _ in 0..2 {
            let error = to_store(&source(), &fake.bucket()).unwrap_err().to_string();
            assert!(error.contains("If-None-Match") && error.contains(what), "{error}");
        }
    }
}

#[test]
fn put_answer_lost() {
    for lost in 1..6 {
        let (fake, source) = (Fake::start(), source());
        fake.set(|state| state.answers_lost = lost);
        to_store(&source, &fake.bucket()).unwrap();
        complete(&fake, &source);
    }
}

#[test]
fn the_answer_to_the_last_request_of_an_upload_is_lost() {
    // Two files are written before the long one, which begins with a POST and has two parts.
    for before in 0..12 {
        let (fake, source) = (Fake::start(), source());
        let bucket = fake.bucket();
        for name in ["000001.keys", "000010.catalogue", "000001.blk"].iter().take(before % 4) {
            let bytes = std::fs::read(source.path().join(name)).unwrap();
            fake.set(|state| drop(state.files.insert(format!("p q/db/{name}"), bytes)));
        }
        fake.set(|state| state.answers_lost = u32::try_from(before % 5).unwrap());
        to_store(&source, &bucket).unwrap();
        complete(&fake, &source);
    }
}

#[test]
fn upload_torn() {
    let (fake, source) = (Fake::start(), source());
    fake.set(|state| (state.torn, state.busy, state.reads_cut) = (3, 2, 2));
    to_store(&source, &fake.bucket()).unwrap();
    complete(&fake, &source);
}

#[test]
fn a_failed_upload_leaves_nothing_and_the_next_run_continues() {
    let (fake, source) = (Fake::start(), source());
    fake.set(|state| state.parts_max = Some(2));
    let error = to_store(&source, &fake.bucket()).unwrap_err().to_string();
    assert!(error.contains("s3://b/p q/db/000002.blk") && error.contains("403 AccessDenied"), "{error}");
    {
        let state = fake.state.lock().unwrap();
        assert_eq!(state.unfinished(), 0, "its parts are gone");
        assert!(!state.files.contains_key("p q/db/000002.blk"));
        assert!(!state.files.contains_key("p q/db/newest.note"), "nothing that comes later is there");
    }
    fake.set(|state| state.parts_max = None);
    assert_eq!(to_store(&source, &fake.bucket()).unwrap().copied, 3);
    complete(&fake, &source);
}

#[test]
fn parts_that_a_killed_run_left_are_removed() {
    let (fake, source) = (Fake::start(), source());
    // As if it was killed: it can neither go on nor remove its parts.
    fake.set(|state| state.leave("p q/db/000002.blk"));
    assert_eq!(fake.state.lock().unwrap().unfinished(), 1);
    to_store(&source, &fake.bucket()).unwrap();
    complete(&fake, &source);
}

#[test]
fn list_stale() {
    let (fake, source) = (Fake::start(), source());
    to_store(&source, &fake.bucket()).unwrap();
    fake.set(|state| state.unlisted = vec!["p q/db/000001.blk".into(), "p q/db/000002.blk".into()]);
    to_store(&source, &fake.bucket()).unwrap();
    complete(&fake, &source);

    // The same when another file has the name.
    fake.set(|state| drop(state.files.insert("p q/db/000001.blk".into(), b"other".into())));
    let error = to_store(&source, &fake.bucket()).unwrap_err().to_string();
    assert!(error.contains("000001.blk") && error.contains("another run"), "{error}");
    assert_eq!(fake.state.lock().unwrap().files["p q/db/000001.blk"], b"other", "it is not replaced");
}

#[test]
fn another_repository_is_not_mixed_in() {
    let (fake, source) = (Fake::start(), source());
    fake.set(|state| drop(state.files.insert("p q/db/000010.blk".into(), b"x".into())));
    let error = to_store(&source, &fake.bucket()).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert_eq!(fake.state.lock().unwrap().names("p q/db/").len(), 1, "nothing is copied");

    // One of the same length is found when contents are compared.
    fake.set(|state| state.files.clear());
    to_store(&source, &fake.bucket()).unwrap();
    fake.set(|state| drop(state.files.insert("p q/db/000001.blk".into(), b"other".into())));
    to_store(&source, &fake.bucket()).unwrap();
    let compared = mirror(&folder(source.path()), &fake.bucket().below("db"), true, world());
    assert!(matches!(compared, Err(Error::Corrupt { .. })));
}

#[test]
fn a_copy_that_differs_is_reported() {
    let (fake, source) = (Fake::start(), source());
    fake.set(|state| state.flips = true);
    assert!(matches!(to_store(&source, &fake.bucket()), Err(Error::Corrupt { .. })));
}

#[test]
fn a_mirror_does_not_wait_for_another_run() {
    let source = source();
    let target = tempfile::tempdir().unwrap();
    let target = folder(target.path());
    let held = target.hold(true).unwrap();
    assert!(matches!(mirror(&folder(source.path()), &target, false, world()), Err(Error::Busy(_))));
    drop(held);
    mirror(&folder(source.path()), &target, false, world()).unwrap();
}

#[test]
fn a_mirror_stops_when_asked_to() {
    let (source, target) = (source(), tempfile::tempdir().unwrap());
    let (stop, target) = (AtomicBool::new(true), folder(target.path()));
    let world = RunContext { stop: &stop, progress: &Silent };
    assert!(matches!(mirror(&folder(source.path()), &target, false, world), Err(Error::Stopped)));
    assert!(target.list().unwrap().is_empty());
}

/// A folder to which a backup is added when the first generation is read.
struct GrowingSource<'a>(&'a TempDir, Folder);

impl MirrorSide for GrowingSource<'_> {
    fn list(&self) -> io::Result<BTreeMap<String, u64>> {
        self.1.list()
    }

    fn read(&self, name: &str, at: u64, len: usize) -> io::Result<Vec<u8>> {
        if name == "000001.blk" {
            put(self.0, "000011.blk", b"new");
            put(self.0, "newest.note", b"of the new one");
        }
        self.1.read(name, at, len)
    }

    fn add(&self, file: &NewFile<'_>, piece: &mut ReadPart<'_>) -> io::Result<()> {
        self.1.add(file, piece)
    }

    fn hold(&self, writes: bool) -> io::Result<Option<Box<dyn Guard>>> {
        self.1.hold(writes)
    }

    fn shown(&self, name: &str) -> String {
        MirrorSide::shown(&self.1, name)
    }
}

#[test]
fn a_note_is_not_copied_before_the_files_that_it_lists() {
    let (source, target) = (source(), tempfile::tempdir().unwrap());
    let target = folder(target.path());
    let growing = GrowingSource(&source, folder(source.path()));
    mirror(&growing, &target, false, world()).unwrap();
    assert_eq!(target.read("newest.note", 0, 6).unwrap(), b"newest");
    assert!(!target.list().unwrap().contains_key("000011.blk"));
    mirror(&growing, &target, false, world()).unwrap();
    assert_eq!(target.read("newest.note", 0, 14).unwrap(), b"of the new one");
    assert!(target.list().unwrap().contains_key("000011.blk"));
}
