//! A run is stopped at each sync; what was not synced is gone, kept or torn.

use std::path::Path;

use block::{BLOCK, restore};
use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};

use crate::support::{
    Random, TARGET, VOLUME, back_up, generations, keep, repository, restored, sound, world,
};

/// The volume's contents at a generation.
fn volume(generation: u64) -> Vec<u8> {
    let mut bytes = Random(77).volume(30);
    let mut random = Random(generation + 1);
    for _ in 1..generation {
        let at = random.below(29) * BLOCK;
        bytes[at..at + 50].fill(u8::try_from(generation).unwrap());
        let block = random.block();
        bytes[at..at + BLOCK / 2].copy_from_slice(&block[..BLOCK / 2]);
    }
    bytes
}

fn make(disk: &FaultDisk, generation: u64) -> Result<(), block::Error> {
    disk.put(Path::new(VOLUME), &volume(generation));
    back_up(disk, false).map(drop)
}

/// Does `first` on a calm disk, then `second` on a disk that stops at each of its syncs, and checks the
/// repository after each kind of crash.
fn everywhere(
    first: impl Fn(&FaultDisk),
    second: impl Fn(&FaultDisk) -> bool,
    look: impl Fn(&FaultDisk, bool),
) {
    let calm = FaultDisk::default();
    first(&calm);
    let before = calm.syncs();
    assert!(second(&calm));
    assert!(calm.syncs() > before);
    for stop in before..=calm.syncs() {
        for unsynced in Unsynced::ALL {
            let disk = FaultDisk::stopping_at(stop);
            first(&disk);
            let done = second(&disk);
            // The last sync only notes a generation that may already have been reported as done.
            assert!(done || stop < calm.syncs());
            look(&disk.after_crash(unsynced), done);
        }
    }
}

/// Every generation that is listed is whole and as it was.
fn all_are_right(disk: &FaultDisk) -> Vec<u64> {
    let all = generations(disk);
    for generation in &all {
        assert!(restored(disk, Some(*generation)).unwrap() == volume(*generation), "{generation}");
    }
    if !all.is_empty() {
        sound(disk);
    }
    all
}

#[test]
pub(crate) fn a_backup_is_there_or_not() {
    for earlier in [0, 2] {
        everywhere(
            |disk| (1..=earlier).for_each(|generation| make(disk, generation).unwrap()),
            |disk| make(disk, earlier + 1).is_ok(),
            |disk, done| {
                let all = all_are_right(disk).len() as u64;
                assert!(all == earlier + 1 || (!done && all == earlier), "{all}");
                make(disk, all + 1).unwrap();
                all_are_right(disk);
                assert!(!disk.names().iter().any(|name| name.to_string_lossy().contains("partial")));
            },
        );
    }
}

#[test]
pub(crate) fn kept_generations_survive_a_prune_that_crashes() {
    everywhere(
        |disk| {
            (1..=6).for_each(|generation| make(disk, generation).unwrap());
            // This puts a catalogue and references in place.
            keep(disk, &[2, 3, 4, 5, 6]).unwrap();
        },
        |disk| keep(disk, &[3, 6]).is_ok(),
        |disk, done| {
            let all = all_are_right(disk);
            assert!(all.contains(&3) && all.contains(&6), "{all:?}");
            assert!(!done || all == [3, 6], "{all:?}");
            keep(disk, &[3, 6]).unwrap();
            assert_eq!(all_are_right(disk), [3, 6]);
            make(disk, 7).unwrap();
            assert_eq!(all_are_right(disk), [3, 6, 7]);
        },
    );
}

#[test]
pub(crate) fn a_restored_file_has_its_name_only_when_it_is_whole() {
    let restore = |disk: &FaultDisk| {
        let request = restore::Request::new(None, 2);
        restore::to_new_file(&repository(disk), disk, Path::new(TARGET), request, world()).is_ok()
    };
    everywhere(
        |disk| make(disk, 1).unwrap(),
        restore,
        |disk, done| {
            let found = disk.bytes(Path::new(TARGET));
            assert!(found.as_ref() == Some(&volume(1)) || (!done && found.is_none()));
            disk.remove(Path::new(TARGET)).ok();
            assert!(restore(disk), "a leftover is in the way");
        },
    );
}

#[test]
fn a_restore_in_place_can_be_done_again() {
    let path = Path::new("/target/device");
    let restore = |disk: &FaultDisk| {
        let volume = disk.volume(path).unwrap();
        let request = restore::Request { delta: true, ..restore::Request::new(Some(1), 2) };
        restore::in_place(&repository(disk), &*volume, "device", request, world()).is_ok()
    };
    everywhere(
        |disk| {
            make(disk, 1).unwrap();
            disk.put(path, &volume(4));
        },
        restore,
        |disk, done| {
            assert!(!done || disk.bytes(path).unwrap() == volume(1));
            assert!(restore(disk));
            assert!(disk.bytes(path).unwrap() == volume(1));
        },
    );
}

/// The canary: the harness must reject a store whose files are not synced.
#[test]
fn the_harness_sees_a_file_that_was_not_synced() {
    let careless = std::panic::catch_unwind(|| {
        everywhere(
            |disk| make(disk, 1).unwrap(),
            |disk| {
                // Renames without a sync of the bytes.
                let bytes = disk.bytes(Path::new("/repo/name/000001.blk")).unwrap();
                let name = Path::new("/repo/name/000002.blk");
                let mut sink = disk.create(name).unwrap();
                sink.write_all(&bytes).unwrap();
                disk.sync_folder(Path::new("/repo/name")).is_ok()
            },
            |disk, _| drop(all_are_right(disk)),
        );
    });
    assert!(careless.is_err());
}
