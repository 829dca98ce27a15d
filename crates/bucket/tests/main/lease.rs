//! Locks in a store: who holds them, and what happens to a run that has lost one.

use std::io::{ErrorKind, Write};
use std::sync::Barrier;

use block::{Error, READER_LOCK, RepositoryReader, Store, Upload, WRITER_LOCK};
use disk::Share;

use crate::fake::{Fake, State};
use crate::store::Scene;

/// Longer than a lock is valid without being renewed.
const DEAD: i64 = 121;

fn writing(store: &dyn Store) -> std::io::Result<Option<Box<dyn disk::Guard>>> {
    store.lock(WRITER_LOCK, Share::Exclusive)
}

#[test]
fn only_one_of_many_gets_the_lock() {
    let fake = Fake::start();
    let barrier = Barrier::new(8);
    let got: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let bucket = fake.bucket();
                    barrier.wait();
                    let guard = writing(&bucket).unwrap();
                    barrier.wait();
                    guard.is_some()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(got.iter().filter(|got| **got).count(), 1, "{got:?}");
}

#[test]
fn a_second_run_names_the_lock_holder_and_takes_over_from_a_dead_one() {
    let scene = Scene::new(8, None);
    let mut first = scene.open().unwrap();
    first.hold().unwrap();
    scene.fake.set(|state| state.now = 20);
    let error = scene.back_up().unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error}");
    assert!(error.to_string().contains("this test, which renewed its lock 20 s ago"), "{error}");
    scene.fake.set(|state| state.now = DEAD);
    assert_eq!(scene.back_up().unwrap().generation, 1);

    // One that was given back is free at once, also if that took long.
    drop(first);
    assert_eq!(scene.back_up().unwrap().generation, 2);
    let state = scene.fake.state.lock().unwrap();
    let leases: Vec<_> = state.files.keys().filter(|key| key.contains("lease.")).collect();
    assert_eq!(leases, ["p q/db/lease.writer.000003"], "old ones are removed");
}

/// A file of which a part is sent, or nothing.
fn begun(store: &dyn Store, len: usize) -> Box<dyn Upload + '_> {
    let mut upload = store.create("000001.blk").unwrap();
    upload.write_all(&vec![1; len]).unwrap();
    upload
}

#[test]
fn a_run_that_lost_its_lock_adds_nothing() {
    for len in [5, 40 << 20] {
        let fake = Fake::start();
        let (slow, other) = (fake.bucket(), fake.bucket());
        let held = writing(&slow).unwrap().unwrap();
        let upload = begun(&slow, len);
        assert!(writing(&other).unwrap().is_none());
        fake.set(|state| state.now = DEAD);
        let taken = writing(&other).unwrap().unwrap();
        assert_eq!(fake.state.lock().unwrap().unfinished(), 0, "what the first has begun is ended");
        let error = upload.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
        assert!(error.to_string().contains("another run has taken over"), "{error}");
        let late = begun(&slow, 5).finish().unwrap_err();
        assert_eq!(late.kind(), ErrorKind::ResourceBusy, "{late}");
        assert!(fake.state.lock().unwrap().names("p q/").is_empty());
        drop((held, taken));
        assert!(writing(&slow).unwrap().is_some(), "it can take it again");
    }
}

#[test]
fn a_run_that_loses_its_lock_before_the_last_request_adds_nothing() {
    let fake = Fake::start();
    let slow = fake.bucket();
    let _held = writing(&slow).unwrap().unwrap();
    let upload = begun(&slow, 5);
    // As another run does it.
    let taken = |state: &mut State| {
        let text = "remora lease\nstate held\nseconds 120\nholder x\nid y\n";
        state.files.insert("p q/lease.writer.000002".to_owned(), text.into());
        state.uploads.clear();
    };
    fake.set(|state| state.before_completion = Some(taken));
    let error = upload.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    assert!(fake.state.lock().unwrap().names("p q/").is_empty());
}

#[test]
fn a_lock_whose_answer_is_lost_is_taken() {
    for lost in 1..5 {
        let fake = Fake::start();
        fake.set(|state| state.answers_lost = lost);
        let bucket = fake.bucket();
        assert!(writing(&bucket).unwrap().is_some(), "{lost}");
        assert_eq!(fake.state.lock().unwrap().unfinished(), 0);
    }
}

#[test]
fn files_that_are_being_read_are_not_removed() {
    let mut scene = Scene::new(40, None);
    for _ in 0..3 {
        scene.change();
        scene.back_up().unwrap();
    }
    let read = RepositoryReader::open(scene.open().unwrap()).unwrap();
    let done = scene.prune(&[3]).unwrap();
    assert!(done.left > 0 && done.freed == 0, "{done:?}");
    drop(read);
    assert!(scene.prune(&[3]).unwrap().freed > 0);

    // A dead reader hinders for two minutes.
    scene.change();
    scene.back_up().unwrap();
    let dead = RepositoryReader::open(scene.open().unwrap()).unwrap();
    assert!(scene.prune(&[4]).unwrap().left > 0);
    scene.fake.set(|state| state.now += DEAD);
    assert!(scene.prune(&[4]).unwrap().freed > 0);
    let readers = |state: &State| state.files.keys().filter(|key| key.contains(".with-")).count();
    assert_eq!(readers(&scene.fake.state.lock().unwrap()), 0, "what it has left is removed");
    drop(dead);
}

#[test]
fn a_store_that_ignores_the_condition_is_refused() {
    for (ignores, what) in [((true, true), "in a PUT"), ((false, true), "multipart upload")] {
        let scene = Scene::new(8, None);
        scene.fake.set(|state| state.ignores = ignores);
        let error = scene.back_up().unwrap_err().to_string();
        assert!(error.contains("If-None-Match") && error.contains(what), "{error}");
        assert!(scene.fake.state.lock().unwrap().names("p q/db/").is_empty());
    }
}

/// A short file is uploaded with one request, which nobody can abort. So a run that was taken for dead learns
/// it only afterwards.
#[test]
fn a_short_file_counts_only_for_the_holder_of_the_lock() {
    let fake = Fake::start();
    let (one, other) = (fake.bucket().below("db"), fake.bucket().below("db"));
    let name = "0000000001.log";
    let held = one.lock(WRITER_LOCK, Share::Exclusive).unwrap().unwrap();
    one.put(name, b"first").unwrap();
    assert_eq!(one.put(name, b"second").unwrap_err().kind(), ErrorKind::AlreadyExists);
    // The answer is lost, and the next try finds the file that the first one has written.
    fake.set(|state| state.answers_lost = 1);
    one.put("0000000002.log", b"once").unwrap();
    // A note takes the place of its former state.
    one.put("caught-up.note", b"1").unwrap();
    one.put("caught-up.note", b"2").unwrap();
    fake.set(|state| {
        assert_eq!(state.files["p q/db/0000000001.log"], b"first");
        assert_eq!(state.files["p q/db/0000000002.log"], b"once");
        assert_eq!(state.files["p q/db/caught-up.note"], b"2");
        assert_eq!(state.unfinished(), 0);
        state.now += 1000;
    });
    let taken = other.lock(WRITER_LOCK, Share::Exclusive).unwrap().unwrap();
    let error = one.put("0000000003.log", b"too late").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    other.put("0000000004.log", b"its successor").unwrap();
    drop((held, taken));
}

/// The text of a lock that is held.
fn held(seconds: &str) -> Vec<u8> {
    format!("remora lease\nstate held\nseconds {seconds}\nholder x\nid y\n").into()
}

#[test]
fn a_number_that_no_lock_reaches_is_none() {
    let fake = Fake::start();
    let put = |name: &str| {
        let key = format!("p q/{name}");
        fake.set(|state| drop(state.files.insert(key, held("120"))));
    };
    put("lease.writer.18446744073709551615");
    put("lease.writer.9007199254740993");
    let (slow, other) = (fake.bucket(), fake.bucket());
    let first = writing(&slow).unwrap().unwrap();
    assert!(writing(&other).unwrap().is_none());
    slow.put("000001.blk", b"mine").unwrap();
    fake.set(|state| state.now = DEAD);
    let second = writing(&other).unwrap().unwrap();
    assert_eq!(slow.put("000002.blk", b"late").unwrap_err().kind(), ErrorKind::ResourceBusy);
    drop((first, second));
    // The highest of all is one, and none can follow it.
    put("lease.writer.9007199254740992");
    fake.set(|state| state.now += 2 * DEAD);
    let error = writing(&other).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("lock numbers are exhausted") && error.contains("lease.writer.9007199254740992"),
        "{error}"
    );
}

#[test]
fn a_dead_run_blocks_others_only_until_its_lock_expires() {
    let fake = Fake::start();
    let bucket = fake.bucket();
    for (lock, name) in [(WRITER_LOCK, "lease.writer.000007"), (READER_LOCK, "lease.reader.with-y")] {
        fake.set(|state| {
            state.now = 100;
            state.files.insert(format!("p q/{name}"), held("9223372036854775807"));
        });
        assert!(bucket.lock(lock, Share::Exclusive).unwrap().is_none(), "{name}");
        fake.set(|state| state.now = DEAD);
        assert!(bucket.lock(lock, Share::Exclusive).unwrap().is_some(), "{name}");
    }
}
