//! Files that nobody can remove for a time, whatever key he has.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use block::{Store, mirror};
use jiff::Timestamp;

use crate::fake::Fake;
use crate::store::{Scene, key, world};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A store with object lock, in which what is written is retained for so long.
fn scene(retain_s: i64, is_sealed: bool) -> Scene {
    let mut scene = Scene::new(40, is_sealed.then(|| key().0));
    scene.fake.set(|state| (state.has_lock, state.has_versions) = (true, true));
    scene.retain_s = u64::try_from(retain_s).ok();
    scene
}

/// For how long each file is retained from now on, in hours.
fn hours(fake: &Fake) -> BTreeMap<String, i64> {
    let state = fake.state.lock().unwrap();
    let hours = |until: &i64| (until - Timestamp::now().as_second() + HOUR / 2) / HOUR;
    let of = |key: &String| state.retained.get(key).map_or(0, hours);
    state.files.keys().map(|key| (key.clone(), of(key))).collect()
}

#[test]
fn written_files_are_retained_and_locks_are_not() {
    let mut scene = scene(DAY, true);
    scene.grow();
    scene.prune(&[1]).unwrap();
    for (name, hours) in hours(&scene.fake) {
        assert_eq!(hours, if name.contains("/lease.") { 0 } else { 24 }, "{name}");
    }
    let bucket = scene.fake.bucket().retaining(86_400);
    bucket.put("caught-up.note", b"it comes every few seconds").unwrap();
    bucket.put("0000000001.log", b"a piece").unwrap();
    let hours = hours(&scene.fake);
    assert_eq!([hours["p q/caught-up.note"], hours["p q/0000000001.log"]], [0, 24]);
}

/// Three generations, of which the third one refers to what a prune has left of the others.
fn grown(is_sealed: bool) -> Scene {
    let mut scene = scene(HOUR, is_sealed);
    for _ in 0..3 {
        scene.grow();
    }
    scene.prune(&[1, 3]).unwrap();
    scene.prune(&[3]).unwrap();
    scene
}

#[test]
fn a_generation_retains_the_files_that_it_refers_to() {
    for is_sealed in [false, true] {
        let mut scene = grown(is_sealed);
        scene.retain_s = Some(30 * 86_400);
        scene.grow();
        assert_eq!(scene.open().unwrap().retained().unwrap()[&4].map(|until| until > 0), Some(true));
        scene.fake.set(|state| state.steal(DAY));
        scene.retain_s = None;
        assert_eq!(scene.numbers(), [3, 4]);
        scene.sound();
    }
}

#[test]
fn files_that_are_not_retained_can_be_removed() {
    let mut scene = grown(false);
    scene.retain_s = None;
    scene.grow();
    assert_eq!(scene.open().unwrap().retained().unwrap()[&4], None, "nothing keeps its own file");
    scene.fake.set(|state| state.steal(0));
    assert_eq!(scene.numbers(), [3]);
}

#[test]
fn the_earliest_date_counts() {
    let mut scene = scene(DAY, false);
    scene.grow();
    scene.grow();
    let now = Timestamp::now().as_second();
    scene.fake.set(|state| state.retained.extend([("p q/db/000001.blk".to_owned(), now + 60)]));
    let retained = scene.open().unwrap().retained().unwrap();
    assert_eq!(retained, BTreeMap::from([(1, Some(now + 60)), (2, Some(now + 60))]));
    scene.fake.set(|state| state.retained.retain(|key, _| !key.ends_with("000002.blk")));
    let retained = scene.open().unwrap().retained().unwrap();
    assert_eq!(retained, BTreeMap::from([(1, Some(now + 60)), (2, None)]));
}

#[test]
fn a_retention_is_never_shortened() {
    let mut scene = scene(30 * DAY, true);
    scene.grow();
    scene.retain_s = Some(3600);
    scene.grow();
    let hours = hours(&scene.fake);
    assert_eq!(["p q/db/000001.blk", "p q/db/000001.keys"].map(|name| hours[name]), [720, 720]);
    assert_eq!(hours["p q/db/000002.blk"], 1);
}

/// A run that is killed: no generation counts of which a part can be taken away.
#[test]
fn a_kill_leaves_no_generation_that_is_not_retained() {
    for left in (1..).filter(|left| sandbox::is_turn(usize::try_from(*left).unwrap(), 5)) {
        let mut scene = grown(false);
        scene.retain_s = Some(30 * 86_400);
        scene.change();
        scene.fake.set(|state| state.left = Some(left));
        let done = scene.back_up();
        let is_over = scene.fake.state.lock().unwrap().left > Some(0);
        scene.fake.set(|state| (state.left, state.now) = (None, 1000));
        scene.retain_s = None;
        let numbers = scene.numbers();
        assert!(done.is_err() || numbers == [3, 4], "{left}");
        if numbers == [3, 4] {
            scene.was.push(scene.volume.clone());
            scene.fake.set(|state| state.steal(DAY));
            scene.sound();
        }
        if is_over {
            return;
        }
    }
}

#[test]
fn a_bucket_without_object_lock_is_refused_before_anything_is_sent() {
    let mut scene = scene(DAY, true);
    scene.retain_s = None;
    scene.grow();
    let before = |fake: &Fake| fake.state.lock().unwrap().files.clone();
    let had = before(&scene.fake);
    scene.fake.set(|state| state.has_lock = false);
    scene.retain_s = Some(60);
    let error = scene.back_up().unwrap_err().to_string();
    assert!(error.contains("no object lock") && error.contains("--retain"), "{error}");
    assert_eq!(before(&scene.fake), had);
}

#[test]
fn a_missing_right_is_named() {
    let scene = grown(false);
    scene.fake.set(|state| state.may_not_retain = true);
    let error = scene.back_up().unwrap_err().to_string();
    assert!(error.contains("s3:PutObjectRetention"), "{error}");
    let error = scene.open().unwrap().retained().unwrap_err().to_string();
    assert!(error.contains("s3:GetObjectRetention"), "{error}");
    assert_eq!(scene.numbers(), [3]);
}

/// It must not be taken for a store in which nothing is retained.
#[test]
fn a_store_that_does_not_say_until_when_a_file_is_retained_is_named() {
    let scene = grown(false);
    scene.fake.set(|state| state.ignores_retention = true);
    let bucket = scene.fake.bucket().below("db");
    for (name, len) in [("000004.blk", 10), ("000005.blk", 11 << 20)] {
        scene.fake.set(|state| drop(state.files.insert(format!("p q/db/{name}"), vec![b'x'; len])));
        let error = bucket.retained_until(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("does not say until when"), "{error}");
    }
}

#[test]
fn prune_says_until_when_files_are_retained() {
    let mut scene = scene(DAY, false);
    scene.grow();
    scene.change_all();
    scene.grow();
    let done = scene.prune(&[2]).unwrap();
    let hours = done.retained_until_s.map(|until| (until - Timestamp::now().as_second() + HOUR / 2) / HOUR);
    assert_eq!((done.retained.len(), hours), (1, Some(24)));
}

#[test]
fn a_mirror_retains_existing_files_before_it_adds_others() {
    for left in 1.. {
        let mut scene = scene(HOUR, false);
        scene.grow();
        let (from, to) = (scene.fake.bucket().below("db"), scene.fake.bucket().below("copy"));
        mirror(&from, &to.retaining(3600), false, world()).unwrap();
        scene.grow();
        scene.fake.set(|state| state.left = Some(left));
        let done = mirror(&from, &to.retaining(30 * 86_400), false, world());
        let hours = hours(&scene.fake);
        let is_new = hours.contains_key("p q/copy/000002.blk");
        assert!(!is_new || hours["p q/copy/000001.blk"] == 720, "after {left} requests");
        if done.is_ok() {
            let short = hours.iter().find(|(name, hours)| name.contains("/copy/0") && **hours < 720);
            assert_eq!(short, None);
            return;
        }
    }
}
