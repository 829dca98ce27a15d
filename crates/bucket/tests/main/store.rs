//! Repositories in a store that misbehaves, and runs that are killed at each request.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use block::backup::{Request, Summary};
use block::{
    BLOCK, EncryptedStore, Error, Repository, RunContext, Scan, Store, backup, prune, rekey, restore, verify,
};
use disk::{Disk, RealDisk};
use progress::Silent;
use seal::{FullKey, Key};
use tempfile::TempDir;

use crate::fake::Fake;
use crate::store_contract::contract;

static NEVER: AtomicBool = AtomicBool::new(false);
/// More blocks than go into one part.
const LONG: usize = 1100;

pub(crate) fn world() -> RunContext<'static> {
    RunContext { stop: &NEVER, progress: &Silent }
}

/// A store, a volume, and what its generations were.
pub(crate) struct Scene {
    pub(crate) fake: Fake,
    folder: TempDir,
    key: Option<Key>,
    /// The volume now.
    pub(crate) volume: Vec<u8>,
    /// The volume in each generation.
    pub(crate) was: Vec<Vec<u8>>,
    /// For how many seconds what is written is retained.
    pub(crate) retain_s: Option<u64>,
}

impl Scene {
    /// Blocks that can't be compressed.
    pub(crate) fn new(blocks: usize, key: Option<Key>) -> Scene {
        let mut seed = 1_u64;
        let mut word = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 32).to_le_bytes()[0]
        };
        let volume = (0..blocks * BLOCK).map(|_| word()).collect();
        let folder = tempfile::tempdir().unwrap();
        Scene { fake: Fake::start(), folder, key, volume, was: Vec::new(), retain_s: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn open(&self) -> Result<Repository, Error> {
        let bucket = self.fake.bucket().below("db");
        let store: Box<dyn Store> =
            Box::new(self.retain_s.map_or_else(|| bucket.clone(), |seconds| bucket.retaining(seconds)));
        Ok(match &self.key {
            Some(key) => Repository::new(Box::new(EncryptedStore::open(store, key)?)),
            None => Repository::new(store),
        })
    }

    /// One more generation of the volume.
    #[expect(clippy::disallowed_methods, reason = "a test's own throw-away file")]
    pub(crate) fn back_up(&self) -> Result<Summary, Error> {
        std::fs::write(self.path("volume"), &self.volume).unwrap();
        let mut scan = Scan::new(RealDisk.open(&self.path("volume")).unwrap());
        let request = Request { jobs: 2, is_frozen: true, ..Request::new("volume") };
        backup(&self.open()?, &mut scan, &request, world())
    }

    /// Changes the volume.
    pub(crate) fn change(&mut self) {
        let at = (self.was.len() + 1) * 3 * BLOCK;
        self.volume[at..at + 2 * BLOCK].reverse();
    }

    /// Changes all of it.
    pub(crate) fn change_all(&mut self) {
        self.volume.iter_mut().for_each(|byte| *byte ^= 0x55);
    }

    /// Another generation, and what it must be.
    pub(crate) fn grow(&mut self) {
        self.change();
        self.back_up().unwrap();
        self.was.push(self.volume.clone());
    }

    pub(crate) fn prune(&self, keep: &[u64]) -> Result<prune::Summary, Error> {
        prune(&self.open()?, &BTreeSet::from_iter(keep.iter().copied()), false, world())
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        let listing = self.open().unwrap().list().unwrap();
        assert!(listing.broken.is_empty(), "{:?}", listing.broken);
        listing.generations.iter().map(|found| found.number).collect()
    }

    fn restored(&self, number: u64) -> Result<Vec<u8>, Error> {
        let target = self.path("restored");
        std::fs::remove_file(&target).ok();
        let request = restore::Request::new(Some(number), 2);
        restore::to_new_file(&self.open()?, &RealDisk, &target, request, world())?;
        Ok(std::fs::read(&target).unwrap())
    }

    /// Fails unless everything is sound, and each generation is what it was.
    #[track_caller]
    pub(crate) fn sound(&self) {
        let found = verify(&self.open().unwrap(), 2, None, world()).unwrap();
        assert!(found.damages.is_empty(), "{:?}", found.damages);
        for number in self.numbers() {
            let was = &self.was[usize::try_from(number).unwrap() - 1];
            assert!(self.restored(number).unwrap() == *was, "generation {number}");
        }
    }
}

pub(crate) fn key() -> (Key, FullKey) {
    let new = || FullKey::generate().unwrap();
    (Key::Full(new()), new())
}

#[test]
fn a_bucket_keeps_the_contract() {
    contract(&Fake::start().bucket().below("new/repo"));
    contract(&EncryptedStore::open(Box::new(Fake::start().bucket().below("new/repo")), &key().0).unwrap());
}

#[test]
fn a_repository_lives_in_a_store() {
    for sealed in [false, true] {
        let (old, new) = key();
        let mut scene = Scene::new(LONG, sealed.then_some(old.clone()));
        scene.grow();
        scene.change_all();
        scene.grow();
        scene.grow();
        assert_eq!(scene.numbers(), [1, 2, 3]);
        scene.sound();
        assert!(scene.prune(&[2, 3]).unwrap().freed > 0);
        assert_eq!(scene.numbers(), [2, 3]);
        scene.sound();
        if sealed {
            rekey(&scene.fake.bucket().below("db"), &old, &new).unwrap();
            assert!(matches!(scene.open(), Err(Error::Key(_))));
            scene.key = Some(Key::Full(new));
        }
        scene.grow();
        scene.sound();
        assert_eq!(scene.fake.state.lock().unwrap().unfinished(), 0);
    }
}

#[test]
fn the_beginning_of_a_long_file_can_be_rewritten() {
    let fake = Fake::start();
    let bucket = fake.bucket();
    for name in ["000001.blk", "newest.note"] {
        let mut bytes = vec![7; 40 << 20];
        let mut upload = bucket.create(name).unwrap();
        for part in bytes.chunks(1 << 20) {
            upload.write_all(part).unwrap();
        }
        upload.begin_anew(b"front").unwrap();
        assert!(upload.begin_anew(&vec![0; 17 << 20]).is_err(), "what is sent can't be changed");
        assert!(fake.state.lock().unwrap().files.is_empty(), "nothing is visible before it is whole");
        upload.finish().unwrap();
        bytes[..5].copy_from_slice(b"front");
        assert!(fake.state.lock().unwrap().files.remove(&format!("p q/{name}")).unwrap() == bytes);
    }
    assert_eq!(fake.state.lock().unwrap().unfinished(), 0);
}

#[test]
fn a_numbered_file_is_not_replaced_and_a_note_is() {
    let fake = Fake::start();
    let bucket = fake.bucket();
    let write = |name: &str, bytes: &[u8]| {
        let mut upload = bucket.create(name).unwrap();
        upload.write_all(bytes).unwrap();
        upload.finish()
    };
    for (name, stays) in [("000001.blk", true), ("000001.keys", true), ("000002.catalogue", false)] {
        write(name, b"one").unwrap();
        // A file with the same bytes counts as another one: a run must not continue as if it were its own.
        let second = write(name, b"one").map_err(|error| error.kind());
        assert_eq!(second, if stays { Err(std::io::ErrorKind::AlreadyExists) } else { Ok(()) }, "{name}");
    }
    assert_eq!(fake.state.lock().unwrap().unfinished(), 0, "the refused upload is gone");
}

#[test]
fn answers_lost_and_uploads_torn() {
    for lost in 0..16 {
        let mut scene = Scene::new(40, None);
        scene.grow();
        scene.fake.set(|state| {
            // The first ones are those of the lock.
            (state.answers_lost_after, state.answers_lost) = (lost, 1);
            (state.torn, state.busy, state.reads_cut) = (lost % 3, lost % 2, lost % 3);
        });
        scene.grow();
        assert_eq!(scene.numbers(), [1, 2]);
        scene.fake.set(|state| (state.answers_lost, state.reads_cut, state.busy) = (0, 2, 2));
        scene.sound();
        assert_eq!(scene.fake.state.lock().unwrap().unfinished(), 0, "after {lost}");
    }
}

/// Kills a run after each number of requests. Afterwards the repository is sound, and the next run continues.
fn killed_at_each_request(begin: fn() -> Scene, act: fn(&Scene) -> Result<(), Error>, after: &[&[u64]]) {
    for left in (1..).filter(|left| sandbox::is_turn(usize::try_from(*left).unwrap(), 5)) {
        let mut scene = begin();
        scene.change();
        scene.fake.set(|state| state.left = Some(left));
        let done = act(&scene);
        let had = scene.fake.state.lock().unwrap().left;
        scene.fake.set(|state| (state.left, state.now) = (None, 1000));
        scene.was.push(scene.volume.clone());
        let numbers = scene.numbers();
        assert!(after.contains(&&*numbers), "{numbers:?} after {left} requests");
        assert!(done.is_err() || numbers == *after[after.len() - 1], "{left}");
        if !numbers.is_empty() {
            scene.sound();
        }
        if numbers.len() < scene.was.len() {
            scene.was.pop();
        }
        // What is left of it is no hindrance, and is removed.
        act(&scene).unwrap_or_else(|error| panic!("after {left} requests: {error}"));
        scene.was.push(scene.volume.clone());
        scene.sound();
        assert_eq!(scene.fake.state.lock().unwrap().unfinished(), 0, "after {left} requests");
        if had > Some(0) {
            return;
        }
    }
}

#[test]
fn a_backup_is_killed_at_each_request() {
    let begin = || {
        let mut scene = Scene::new(40, None);
        scene.grow();
        scene
    };
    killed_at_each_request(begin, |scene| scene.back_up().map(drop), &[&[1], &[1, 2]]);
}

#[test]
fn a_backup_with_several_parts_is_killed_at_each_request() {
    killed_at_each_request(|| Scene::new(LONG, None), |scene| scene.back_up().map(drop), &[&[], &[1]]);
}

#[test]
fn a_prune_is_killed_at_each_request() {
    let begin = || {
        let mut scene = Scene::new(40, None);
        for _ in 0..3 {
            scene.grow();
        }
        scene
    };
    killed_at_each_request(begin, |scene| scene.prune(&[2, 3]).map(drop), &[&[1, 2, 3], &[2, 3]]);
}

/// Three generations, of which the second one has nothing of the first.
fn three_generations() -> Scene {
    let mut scene = Scene::new(40, None);
    scene.grow();
    scene.change_all();
    scene.grow();
    scene.grow();
    scene
}

#[test]
fn lock_retained() {
    let scene = three_generations();
    scene.fake.set(|state| state.retains = true);
    let done = scene.prune(&[3]).unwrap();
    assert!(done.retained.iter().any(|name| name.ends_with("000001.blk")), "{done:?}");
    assert_eq!((done.freed, done.forgotten), (0, vec![1, 2]));
    assert_eq!(scene.numbers(), [3]);
    scene.sound();
    scene.fake.set(|state| state.retains = false);
    assert!(scene.prune(&[3]).unwrap().freed > 0, "the next one may remove them");
    scene.sound();
}

#[test]
fn files_that_a_bucket_keeps_as_earlier_versions_are_not_freed() {
    let scene = three_generations();
    scene.fake.set(|state| state.has_versions = true);
    let done = scene.prune(&[3]).unwrap();
    assert!(done.retained.iter().any(|name| name.ends_with("000001.blk")), "{done:?}");
    assert_eq!((done.freed, done.forgotten), (0, vec![1, 2]));
    assert_eq!(scene.numbers(), [3]);
    scene.sound();
    assert_eq!(scene.prune(&[3]).unwrap().retained, Vec::<String>::new(), "they are out of sight");
}

#[test]
fn a_store_that_does_not_answer_is_no_damage() {
    let mut scene = Scene::new(200, None);
    scene.grow();
    let repository = scene.open().unwrap();
    // Its file is read in several pieces, and the store is away for all tries of one of them.
    let mut failed = 0;
    for left in 0..10 {
        for act in 0..4 {
            scene.fake.set(|state| state.unreadable = Some((".blk".to_owned(), left, 6)));
            let error = match act {
                0 => repository.list().map(drop),
                1 => verify(&repository, 1, None, world()).map(|found| assert!(found.damages.is_empty())),
                2 => scene.restored(1).map(drop),
                _ if left == 0 => scene.back_up().map(drop),
                _ => continue,
            };
            let Err(error) = error else { continue };
            assert!(!error.is_damage() && error.to_string().contains("503"), "{error}");
            failed += 1;
        }
    }
    assert!(failed > 8, "{failed}");
    scene.fake.set(|state| state.unreadable = None);
    scene.grow();
    assert_eq!(scene.numbers(), [1, 2]);
    scene.sound();
}

#[test]
fn a_read_only_key_is_enough_to_restore() {
    let mut scene = Scene::new(40, None);
    scene.grow();
    scene.fake.set(|state| state.is_read_only = true);
    scene.sound();
    let error = scene.back_up().unwrap_err().to_string();
    assert!(error.contains("AccessDenied"), "{error}");
}
