//! How much is fetched, and in how many requests.

use block::Store;
use disk::Source;

use crate::fake::Fake;

const LEN: usize = 48 << 20;

fn store() -> (Fake, Vec<u8>) {
    let bytes: Vec<u8> = (0..LEN).map(|at| (at / 11 % 253).to_le_bytes()[0]).collect();
    let fake = Fake::start();
    fake.set(|state| drop(state.files.insert("p q/long".to_owned(), bytes.clone())));
    (fake, bytes)
}

fn fetched(fake: &Fake) -> (usize, u64) {
    let read = std::mem::take(&mut fake.state.lock().unwrap().read);
    (read.len(), read.iter().map(|(.., len)| len).sum())
}

#[track_caller]
fn same(source: &dyn Source, bytes: &[u8], at: usize, len: usize) {
    let mut buffer = vec![0; len];
    assert_eq!(source.read_full_at(at as u64, &mut buffer).unwrap(), len.min(bytes.len() - at));
    assert!(buffer[..len.min(bytes.len() - at)] == bytes[at..bytes.len().min(at + len)], "at {at}");
}

#[test]
fn a_sequential_read_takes_few_requests() {
    let (fake, bytes) = store();
    let bucket = fake.bucket();
    let source = bucket.open("long").unwrap();
    for at in (0..LEN).step_by(50_000) {
        same(&*source, &bytes, at, 50_000);
    }
    drop(source);
    let (requests, len) = fetched(&fake);
    assert!(requests < 20, "{requests}");
    assert_eq!(len, LEN as u64);
}

#[test]
fn threads_that_share_a_file_fetch_it_once() {
    let (fake, bytes) = store();
    let bucket = fake.bucket();
    let source = bucket.open("long").unwrap();
    let next = std::sync::Mutex::new((0..LEN).step_by(1 << 20));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(at) = { next.lock().unwrap().next() } {
                    (0..16).for_each(|part| same(&*source, &bytes, at + (part << 16), 1 << 16));
                }
            });
        }
    });
    let (requests, len) = fetched(&fake);
    assert!(requests < 60, "{requests}");
    assert_eq!(len, LEN as u64);
}

#[test]
fn random_reads_fetch_little() {
    let (fake, bytes) = store();
    let bucket = fake.bucket();
    let source = bucket.open("long").unwrap();
    for at in [40 << 20, 3 << 20, 30 << 20, 9 << 20] {
        same(&*source, &bytes, at, 20_000);
        same(&*source, &bytes, at + 20_000, 20_000);
    }
    same(&*source, &bytes, 11 << 20, 1 << 20);
    same(&*source, &bytes, LEN - 10, 30);
    assert_eq!(fetched(&fake), (7, (6 << 17) + (1 << 20)));
}

#[test]
fn no_more_than_a_bound_is_kept() {
    let (fake, bytes) = store();
    let bucket = fake.bucket();
    let files: Vec<_> = (0..2).map(|_| bucket.open("long").unwrap()).collect();
    for file in &files {
        (0..LEN).step_by(1 << 20).for_each(|at| same(&**file, &bytes, at, 1 << 20));
    }
    fetched(&fake);
    // 64 MiB are kept: all of the second file, and the end of the first.
    same(&*files[1], &bytes, 0, 1 << 20);
    same(&*files[0], &bytes, LEN - (1 << 20), 1 << 20);
    assert_eq!(fetched(&fake).0, 0);
    same(&*files[0], &bytes, 1 << 20, 1 << 20);
    assert_eq!(fetched(&fake), (1, 1 << 20));
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again() {
    let (fake, bytes) = store();
    let bucket = fake.bucket();
    fake.set(|state| state.reads_cut = 1);
    let source = bucket.open("long").unwrap();
    fake.set(|state| state.reads_cut = 2);
    same(&*source, &bytes, 0, 9 << 20);
}
