//! Random changes against vectors of bytes.

use std::collections::BTreeMap;
use std::path::Path;

use block::backup::{ChangedRanges, Request, backup};
use block::{BLOCK, CHUNK, Error, Scan, restore};
use disk::Disk;
use disk::faults::FaultDisk;

use crate::support::{
    KEPT, REPO, Random, VOLUME, back_up_bytes, back_up_changed, generations, keep, repository, restored,
    sound, world,
};

const LEN_MAX: usize = 2 * CHUNK + CHUNK / 2;

fn change(random: &mut Random, volume: &mut Vec<u8>) {
    let len = volume.len();
    match random.below(7) {
        0 => {
            let new = random.below(LEN_MAX);
            volume.resize(new, 0);
        }
        1 => {
            let grown = (len + random.below(CHUNK)).min(LEN_MAX);
            volume.resize(grown, u8::try_from(random.below(256)).unwrap());
        }
        2 => {
            let start = random.below(len);
            let end = (start + random.below(3 * CHUNK / 2)).min(len);
            volume[start..end].fill(0);
        }
        3 => {
            let (from, to) = (random.below(len), random.below(len));
            let count = random.below(40 * BLOCK).min(len - from.max(to));
            volume.copy_within(from..from + count, to);
        }
        4 => {
            for _ in 0..random.below(30) {
                let at = random.below(len) / BLOCK * BLOCK;
                let end = (at + BLOCK).min(len);
                let block = random.block();
                volume[at..end].copy_from_slice(&block[..end - at]);
            }
        }
        _ => {
            // A row here and there, as databases write.
            for _ in 0..random.below(60) {
                let at = random.below(len.saturating_sub(100));
                let end = (at + random.below(100)).min(len);
                volume[at..end].fill(u8::try_from(random.below(256)).unwrap());
            }
        }
    }
}

/// Fails unless every generation is what it was, in a new file and over an old one.
fn compare(disk: &FaultDisk, model: &BTreeMap<u64, Vec<u8>>, random: &mut Random) {
    assert_eq!(generations(disk), model.keys().copied().collect::<Vec<_>>());
    let any = random.below(model.len());
    for (number, (generation, expected)) in model.iter().enumerate() {
        assert!(restored(disk, Some(*generation)).unwrap() == *expected, "generation {generation}");
        if number == any {
            over_another(disk, model, *generation, random);
        }
    }
    let newest = model.values().next_back().unwrap();
    assert!(restored(disk, None).unwrap() == *newest);
}

/// Restores over another generation, with and without comparing with what is there.
fn over_another(disk: &FaultDisk, model: &BTreeMap<u64, Vec<u8>>, generation: u64, random: &mut Random) {
    let path = Path::new("/target/over");
    let other = model.values().nth(random.below(model.len())).unwrap();
    for delta in [true, false] {
        disk.put(path, other);
        let request = restore::Request { delta, ..restore::Request::new(Some(generation), 2) };
        let volume = disk.volume(path).unwrap();
        restore::in_place(&repository(disk), &*volume, "over", request, world()).unwrap();
        assert!(disk.bytes(path).unwrap() == model[&generation], "delta: {delta}");
    }
    disk.remove(path).unwrap();
}

/// Sometimes with what a file system tells: where the volume differs from the newest generation, and a little
/// more. The snapshot kept of that generation may be damaged.
fn tracked(
    disk: &FaultDisk,
    random: &mut Random,
    model: &BTreeMap<u64, Vec<u8>>,
    volume: &[u8],
) -> Option<ChangedRanges> {
    let (since, before) = model.iter().next_back().filter(|_| random.below(2) == 0)?;
    let mut kept = before.clone();
    kept.iter_mut().zip(volume).skip(random.below(LEN_MAX)).for_each(|(kept, new)| *kept = *new);
    disk.put(Path::new(KEPT), &kept[..kept.len() - random.below(2 * BLOCK)]);
    let grain = BLOCK / 4;
    let pieces = volume.chunks(grain).zip(before.chunks(grain)).enumerate();
    let differing = pieces.filter(|(at, (now, then))| now != then || at % 97 == 0);
    let range = |(at, _): (usize, _)| (at * grain) as u64..((at + 1) * grain) as u64;
    Some(ChangedRanges { since: *since, ranges: differing.map(range).collect() })
}

fn life(seed: u64) {
    let mut random = Random(seed);
    let disk = FaultDisk::default();
    let mut volume = random.volume(300);
    let mut model = BTreeMap::new();
    for round in 0..3 {
        for _ in 0..3 {
            for _ in 0..=random.below(3) {
                change(&mut random, &mut volume);
                volume.resize(volume.len().max(200), 7);
            }
            disk.put(Path::new(VOLUME), &volume);
            let changed = tracked(&disk, &mut random, &model, &volume);
            let made = back_up_changed(&disk, random.below(6) == 0, changed).unwrap();
            model.insert(made.generation, volume.clone());
        }
        if round == 0 {
            compare(&disk, &model, &mut random);
        }
        let newest = *model.keys().next_back().unwrap();
        model.retain(|generation, _| *generation == newest || random.below(2) == 0);
        keep(&disk, &model.keys().copied().collect::<Vec<_>>()).unwrap();
        compare(&disk, &model, &mut random);
        sound(&disk);
    }
}

#[test]
pub(crate) fn random_lives_come_back_whole() {
    (1..=8).for_each(|seed| {
        // Shown when the test fails, so that it can be repeated.
        println!("seed {seed}");
        life(seed);
    });
}

#[test]
fn unchanged_blocks_and_zeros_are_not_stored() {
    let disk = FaultDisk::default();
    let mut volume = Random(5).volume(400);
    let first = back_up_bytes(&disk, &volume);
    assert_eq!((first.generation, first.parent), (1, 0));
    let same = back_up_bytes(&disk, &volume);
    assert_eq!((same.generation, same.parent, same.changed), (2, 1, 0));
    assert!(same.written < 300, "{same:?}");
    volume.resize(100 * CHUNK, 0);
    let grown = back_up_bytes(&disk, &volume);
    assert!(grown.written < 300, "{grown:?}");
    volume[..CHUNK].fill(0);
    let cleared = back_up_bytes(&disk, &volume);
    assert!(cleared.written < 500, "{cleared:?}");
}

#[test]
fn a_changed_row_costs_a_row_not_a_page() {
    let disk = FaultDisk::default();
    let mut random = Random(9);
    // Noise does not compress, so only a difference can be small.
    let mut volume: Vec<u8> = (0..40 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    back_up_bytes(&disk, &volume);
    let mut before = volume.clone();
    for round in 0..3u8 {
        for page in [3, 17, 39] {
            let at = page * BLOCK + 5000 + 100 * usize::from(round);
            volume[at..at + 100].fill(round);
        }
        let made = back_up_bytes(&disk, &volume);
        assert_eq!(made.changed, 3);
        assert!(made.written < 3 * 1500, "{made:?}");
        assert!(restored(&disk, Some(made.generation - 1)).unwrap() == before);
        before.clone_from(&volume);
    }
    sound(&disk);
}

#[test]
fn a_prune_keeps_needed_blocks_by_reference_and_removes_the_others() {
    let disk = FaultDisk::default();
    let mut random = Random(11);
    let mut volume: Vec<u8> = (0..200 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    back_up_bytes(&disk, &volume);
    let size = |disk: &FaultDisk| -> usize {
        disk.names()
            .iter()
            .filter(|name| name.starts_with("/repo"))
            .map(|n| disk.bytes(n).unwrap().len())
            .sum()
    };
    let full = size(&disk);
    let block = random.block();
    volume[..BLOCK].copy_from_slice(&block);
    back_up_bytes(&disk, &volume);
    let pruned = keep(&disk, &[2]).unwrap();
    assert_eq!((pruned.forgotten, pruned.rewritten), (vec![1], vec![2]));
    assert!(pruned.written < full as u64 / 50, "by reference: {} of {full}", pruned.written);
    assert!(restored(&disk, None).unwrap() == volume);

    let new: Vec<u8> = (0..200 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let kept = volume[..40 * BLOCK].to_vec();
    volume.copy_from_slice(&new);
    volume[..40 * BLOCK].copy_from_slice(&kept);
    let third = back_up_bytes(&disk, &volume);
    keep(&disk, &[third.generation]).unwrap();
    assert!(size(&disk) < full * 5 / 4, "the first full is gone: {} of {full}", size(&disk));
    assert!(restored(&disk, None).unwrap() == volume);
    sound(&disk);
}

/// Somebody writes to the volume after its changes were listed.
#[test]
fn a_block_that_moved_does_not_prove_a_change_list_wrong() {
    let disk = FaultDisk::default();
    let mut volume = Random(19).volume(3 * CHUNK / BLOCK);
    back_up_bytes(&disk, &volume);
    // Each chunk is a sample, because there are so few.
    volume.iter_mut().step_by(CHUNK).for_each(|byte| *byte = 77);
    volume[2 * CHUNK..3 * CHUNK].fill(0);
    disk.put(Path::new(VOLUME), &volume);
    let has_moved = |block: &[u8]| block.iter().all(|byte| *byte == 0) || block[0] == 77;
    let try_with = |moves: &(dyn Fn(&[u8]) -> bool + Sync)| {
        let mut scan = Scan::new(disk.open(Path::new(VOLUME)).unwrap());
        let changed = Some(ChangedRanges { since: 1, ranges: Vec::new() });
        let request = Request { changed, is_newer: Some(moves), ..Request::new(VOLUME) };
        backup(&repository(&disk), &mut scan, &request, world())
    };
    let refused = try_with(&|block| has_moved(block) && block[0] == 77);
    assert!(matches!(refused, Err(Error::Untracked { .. })), "{refused:?}");
    try_with(&has_moved).unwrap();
    assert!(restored(&disk, None).unwrap() == volume);
}

/// In a volume of many chunks, most are not read.
#[test]
fn only_blocks_that_may_have_changed_are_read() {
    let disk = FaultDisk::default();
    let mut random = Random(13);
    let mut volume = vec![0; 40 * CHUNK + 5];
    for chunk in (0..40).filter(|chunk| chunk % 3 != 0) {
        let block = random.block();
        volume[chunk * CHUNK..chunk * CHUNK + BLOCK].copy_from_slice(&block);
    }
    back_up_bytes(&disk, &volume);
    let mut ranges = Vec::new();
    for _ in 0..9 {
        let at = random.below(volume.len() - BLOCK);
        let block = random.block();
        volume[at..at + BLOCK].copy_from_slice(&block);
        ranges.push(at as u64..(at + BLOCK) as u64);
    }
    // A whole chunk has become zeros.
    volume[CHUNK..2 * CHUNK].fill(0);
    ranges.push(CHUNK as u64..2 * CHUNK as u64);
    disk.put(Path::new(VOLUME), &volume);
    back_up_changed(&disk, false, Some(ChangedRanges { since: 1, ranges })).unwrap();
    assert!(restored(&disk, None).unwrap() == volume);
    // A change outside the ranges is not seen, except at the end of the volume: so only the ranges were read.
    volume.iter_mut().step_by(8 * CHUNK).for_each(|byte| *byte ^= 1);
    disk.put(Path::new(VOLUME), &volume);
    let told = ChangedRanges { since: 2, ranges: Vec::new() };
    let made = back_up_changed(&disk, false, Some(told.clone())).map(|made| made.changed);
    assert!(matches!(made, Ok(1) | Err(Error::Untracked { .. })), "{made:?}");
    // But not for ever: each backup takes another sample, until all are wrong.
    volume.iter_mut().step_by(CHUNK).for_each(|byte| *byte ^= 2);
    disk.put(Path::new(VOLUME), &volume);
    let newest = *generations(&disk).last().unwrap();
    let made = back_up_changed(&disk, false, Some(ChangedRanges { since: newest, ..told.clone() }));
    assert!(matches!(made, Err(Error::Untracked { at, .. }) if at % CHUNK as u64 == 0), "{made:?}");
    // Ranges since another generation mean nothing.
    back_up_changed(&disk, false, Some(ChangedRanges { since: newest - 1, ..told })).unwrap();
    assert!(restored(&disk, None).unwrap() == volume);
}

#[test]
fn the_old_contents_of_a_block_are_read_from_the_kept_snapshot() {
    let disk = FaultDisk::default();
    let mut volume = Random(17).volume(60);
    back_up_bytes(&disk, &volume);
    disk.put(Path::new(KEPT), &volume);
    let changed =
        |since| Some(ChangedRanges { since, ranges: std::iter::once(0..60 * BLOCK as u64).collect() });
    volume.iter_mut().step_by(7 * BLOCK).for_each(|byte| *byte ^= 1);
    disk.put(Path::new(VOLUME), &volume);
    // The blocks of the previous generation can't be unpacked, and need not be.
    let first = Path::new(REPO).join("000001.blk");
    let sound_bytes = disk.bytes(&first).unwrap();
    let mut damaged = sound_bytes.clone();
    damaged[sound_bytes.len() / 2] ^= 1;
    disk.put(&first, &damaged);
    let made = back_up_changed(&disk, false, changed(1)).unwrap();
    assert!(made.written < made.changed * 1000, "differences: {made:?}");
    // A block stored as a difference needs its base. The base can't be read, so the block is stored whole,
    // and that is reported.
    disk.put(Path::new(KEPT), &volume);
    volume.iter_mut().step_by(7 * BLOCK).for_each(|byte| *byte ^= 2);
    disk.put(Path::new(VOLUME), &volume);
    let made = back_up_changed(&disk, false, changed(2)).unwrap();
    assert_eq!((made.damages.len(), made.healed), (1, 16), "{made:?}");
    assert!(restored(&disk, None).unwrap() == volume);
    disk.put(&first, &sound_bytes);
    back_up_changed(&disk, false, changed(3)).unwrap();
    assert!(restored(&disk, None).unwrap() == volume);
    sound(&disk);
}
