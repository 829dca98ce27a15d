//! Every byte of every file, flipped and cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use block::verify::Damage;
use block::{BLOCK, CHUNK, Error};
use disk::faults::FaultDisk;

use crate::support::{REPO, Random, back_up, back_up_bytes, damages, generations, keep, restored, sound};

/// Three generations with few bytes: whole groups, differences, zeros, references.
fn small() -> (FaultDisk, Vec<u8>) {
    let disk = FaultDisk::default();
    let mut volume = vec![0; 40 * BLOCK];
    volume[BLOCK..2 * BLOCK].fill(1);
    volume[5 * BLOCK..7 * BLOCK].fill(2);
    back_up_bytes(&disk, &volume);
    volume[6 * BLOCK + 100] = 9;
    volume[BLOCK..2 * BLOCK].fill(0);
    back_up_bytes(&disk, &volume);
    keep(&disk, &[2]).unwrap();
    volume[6 * BLOCK + 7] = 9;
    volume[30 * BLOCK..31 * BLOCK].fill(3);
    back_up_bytes(&disk, &volume);
    (disk, volume)
}

/// The contents of all generations.
fn contents(disk: &FaultDisk) -> BTreeMap<u64, Vec<u8>> {
    let all = generations(disk).into_iter();
    all.map(|generation| (generation, restored(disk, Some(generation)).unwrap())).collect()
}

/// If a verification says that what it found costs nothing, all generations can be restored.
#[track_caller]
fn costs_what_it_says(disk: &FaultDisk, found: &[Damage], before: &BTreeMap<u64, Vec<u8>>) {
    if found.iter().all(Damage::costs_nothing) {
        for (generation, content) in before {
            let now = restored(disk, Some(*generation));
            assert!(now.is_ok_and(|now| now == *content), "generation {generation}: {found:?}");
        }
    }
}

fn files(disk: &FaultDisk) -> Vec<PathBuf> {
    disk.names().into_iter().filter(|name| name.extension().is_some_and(|end| end == "blk")).collect()
}

#[test]
pub(crate) fn every_flipped_byte_is_found_and_named() {
    let (disk, volume) = small();
    let before = contents(&disk);
    sound(&disk);
    assert!(files(&disk).len() >= 3 && before.len() == 2);
    for file in files(&disk) {
        let good = disk.bytes(&file).unwrap();
        for at in (0..good.len()).filter(|at| sandbox::is_turn(*at, 6)) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            disk.put(&file, &bad);
            let found = damages(&disk);
            let name = file.display().to_string();
            assert!(
                found.iter().any(|damage| damage.place.contains(&name)),
                "byte {at} of {name}: {found:?}"
            );
            // What is restored despite the damage is right. This part is slower, so it looks at every eighth
            // byte only.
            if at % 8 != 0 {
                continue;
            }
            costs_what_it_says(&disk, &found, &before);
            match restored(&disk, None) {
                Ok(bytes) => assert!(bytes == volume, "byte {at} of {name}"),
                Err(Error::Corrupt { .. } | Error::Missing(_)) => {}
                // The version in the header of an encrypted file.
                Err(Error::Store { source, .. }) if source.kind() == ErrorKind::InvalidData => {}
                Err(other) => panic!("byte {at} of {name}: {other}"),
            }
        }
        disk.put(&file, &good);
    }
    sound(&disk);
}

#[test]
pub(crate) fn every_cut_is_found() {
    let (disk, _) = small();
    let before = contents(&disk);
    for file in files(&disk) {
        let good = disk.bytes(&file).unwrap();
        for len in (0..good.len()).filter(|len| sandbox::is_turn(*len, 6)) {
            disk.put(&file, &good[..len]);
            let found = damages(&disk);
            let name = file.display().to_string();
            assert!(found.iter().any(|damage| damage.place.contains(&name)), "{len} of {name}: {found:?}");
            costs_what_it_says(&disk, &found, &before);
        }
        let mut longer = good.clone();
        longer.push(0);
        disk.put(&file, &longer);
        assert_ne!(damages(&disk), [], "a byte too many");
        disk.put(&file, &good);
    }
    sound(&disk);
}

#[test]
fn a_damaged_catalogue_is_refused() {
    let (disk, _) = small();
    let name =
        disk.names().into_iter().find(|name| name.extension().is_some_and(|e| e == "catalogue")).unwrap();
    let mut bytes = disk.bytes(&name).unwrap();
    for at in 0..bytes.len() {
        bytes[at] ^= 1;
        disk.put(&name, &bytes);
        assert!(matches!(restored(&disk, None), Err(Error::Corrupt { .. })), "byte {at}");
        bytes[at] ^= 1;
    }
}

#[test]
pub(crate) fn a_missing_file_is_found() {
    let (disk, volume) = small();
    let before = contents(&disk);
    for file in files(&disk) {
        let good = disk.bytes(&file).unwrap();
        disk::Disk::remove(&disk, &file).unwrap();
        let found = damages(&disk);
        assert_ne!(found, [], "{}", file.display());
        costs_what_it_says(&disk, &found, &before);
        assert!(restored(&disk, None).map_or(true, |bytes| bytes == volume), "{}", file.display());
        disk.put(&file, &good);
    }
}

#[test]
fn a_damage_names_the_block_of_the_volume() {
    let disk = FaultDisk::default();
    let mut random = Random(3);
    let volume: Vec<u8> = (0..600 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    back_up_bytes(&disk, &volume);
    let name = Path::new(REPO).join("000001.blk");
    let mut bytes = disk.bytes(&name).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    disk.put(&name, &bytes);
    let found = damages(&disk);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].costs.len(), found[0].costs[0].generation), (1, 1), "{found:?}");
    let block: u64 =
        found[0].what.split("block ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((280..320).contains(&block), "{found:?}");
    let error = restored(&disk, None).unwrap_err().to_string();
    assert!(error.contains("000001.blk at byte"), "{error}");
}

#[test]
fn a_backup_continues_an_intact_generation_or_asks_for_a_full_one() {
    let (disk, volume) = small();
    let last = files(&disk).pop().unwrap();
    disk.corrupt(&last, 3, 1);
    assert!(matches!(restored(&disk, None), Err(Error::Corrupt { .. })), "the damaged one is the newest");
    // The newest is damaged: an older one serves as well, and the damage is reported.
    let made = back_up(&disk, false).unwrap();
    assert_eq!((made.generation, made.parent, made.damages.len()), (5, 2, 1), "{made:?}");
    assert!(restored(&disk, Some(5)).unwrap() == volume);
    assert!(restored(&disk, None).unwrap() == volume, "no older file can be the newest generation");
    let others = files(&disk).into_iter().filter(|file| *file != last);
    others.for_each(|file| disk.corrupt(&file, 3, 1));
    let error = back_up(&disk, false).unwrap_err().to_string();
    assert!(error.contains("--full"), "{error}");
    let made = back_up(&disk, true).unwrap();
    assert_eq!((made.parent, made.damages.len()), (0, files(&disk).len() - 1));
    // Whatever may be of use in damaged files is kept, until no older generation remains.
    let pruned = keep(&disk, &[made.generation]).unwrap();
    assert_eq!(pruned.unused, Vec::<String>::new(), "{pruned:?}");
    assert!(restored(&disk, None).unwrap() == volume);
    sound(&disk);
}

/// A group of a generation that was removed, which a later one needs.
#[test]
fn a_damaged_place_is_told_once_with_all_that_it_costs() {
    let disk = FaultDisk::default();
    let chunk = CHUNK / BLOCK;
    let one = Random(5).volume(chunk);
    let mut volume = [one.clone(), Random(6).volume(chunk), one.clone()].concat();
    back_up_bytes(&disk, &volume);
    volume[CHUNK..2 * CHUNK].copy_from_slice(&one);
    back_up_bytes(&disk, &volume);
    keep(&disk, &[2]).unwrap();
    let file = Path::new(REPO).join("000001.blk");
    let good = disk.bytes(&file).unwrap();
    let mut costly = 0;
    for at in (100..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        disk.put(&file, &bad);
        let found = damages(&disk);
        let places: BTreeSet<&str> = found.iter().map(|damage| damage.place.as_str()).collect();
        assert_eq!(places.len(), found.len(), "byte {at}: {found:?}");
        let costs: Vec<_> = found.iter().flat_map(|damage| &damage.costs).collect();
        assert_eq!(restored(&disk, Some(2)).is_err(), !costs.is_empty(), "byte {at}: {found:?}");
        assert!(costs.iter().all(|cost| cost.generation == 2), "byte {at}: {costs:?}");
        costly += costs.len();
    }
    assert!(costly > 10, "{costly}");
}
