//! Damage loses only the damaged blocks: what is restored, what is lost, and what the next backup repairs.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use block::restore::{Request, Summary};
use block::verify::Sample;
use block::{BLOCK, CHUNK, Error, NUMBER_MAX, restore, verify};
use disk::Disk;
use disk::faults::FaultDisk;

use crate::support::{
    REPO, Random, TARGET, VOLUME, back_up, back_up_bytes, damages, generations, keep, repository, restored,
    sound, world,
};

fn file(number: u64) -> PathBuf {
    Path::new(REPO).join(format!("{number:06}.blk"))
}

fn noise(random: &mut Random, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// Restores what can be restored, and says what is lost.
fn kept_going(disk: &FaultDisk, generation: Option<u64>) -> Result<(Vec<u8>, Summary), Error> {
    disk.remove(Path::new(TARGET)).ok();
    let request = Request { keep_going: true, ..Request::new(generation, 2) };
    let summary = restore::to_new_file(&repository(disk), disk, Path::new(TARGET), request, world())?;
    Ok((disk.bytes(Path::new(TARGET)).unwrap(), summary))
}

fn lost(summary: &Summary) -> Vec<Range<u64>> {
    summary.losses.iter().map(|loss| loss.bytes.clone()).collect()
}

/// A list of one range.
fn vec_of(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

/// Damages the place where a block is stored uncompressed.
fn damage_block(disk: &FaultDisk, number: u64, block: &[u8]) {
    let bytes = disk.bytes(&file(number)).unwrap();
    let at = bytes.windows(64).position(|window| window == &block[100..164]).unwrap();
    disk.corrupt(&file(number), at, 1);
}

/// A full generation of noise, and two generations with one change each.
fn three() -> (FaultDisk, Vec<Vec<u8>>) {
    let disk = FaultDisk::default();
    let mut random = Random(21);
    let mut volume = noise(&mut random, 600);
    let mut states = Vec::new();
    for round in 0..3 {
        volume[(40 + round) * BLOCK..(41 + round) * BLOCK].copy_from_slice(&noise(&mut random, 1));
        back_up_bytes(&disk, &volume);
        states.push(volume.clone());
    }
    (disk, states)
}

#[test]
fn a_damaged_group_costs_its_blocks() {
    let (disk, states) = three();
    damage_block(&disk, 1, &states[0][300 * BLOCK..301 * BLOCK]);
    for (generation, state) in (1..).zip(&states) {
        assert!(matches!(restored(&disk, Some(generation)), Err(Error::Corrupt { .. })));
        assert_eq!(disk.bytes(Path::new(TARGET)), None);
        let (bytes, summary) = kept_going(&disk, Some(generation)).unwrap();
        let lost = lost(&summary);
        assert!(lost.len() == 1 && !summary.is_verified && summary.damages.len() == 1, "{summary:?}");
        assert!(lost[0].end - lost[0].start == 16 * BLOCK as u64 && lost[0].contains(&(300 * BLOCK as u64)));
        let (from, to) = (usize::try_from(lost[0].start).unwrap(), usize::try_from(lost[0].end).unwrap());
        assert!(bytes[..from] == state[..from] && bytes[to..] == state[to..]);
        assert!(bytes[from..to].iter().all(|byte| *byte == 0));
    }
    // In a restore in place, lost blocks keep their contents.
    let target = Path::new("/target/device");
    disk.put(target, &states[2]);
    disk.corrupt(target, 7, 1);
    let request = Request { keep_going: true, delta: true, ..Request::new(Some(3), 2) };
    let volume = disk.volume(target).unwrap();
    let summary = restore::in_place(&repository(&disk), &*volume, "device", request, world()).unwrap();
    assert!(disk.bytes(target).unwrap() == states[2] && summary.losses.len() == 1);
    let found = damages(&disk);
    assert_eq!(found.len(), 1);
    let costs: Vec<(u64, u64)> =
        found[0].costs.iter().map(|cost| (cost.generation, cost.losses[0].bytes.end)).collect();
    let end = lost(&summary)[0].end;
    assert_eq!(costs, [(1, end), (2, end), (3, end)]);
    // It is noted, for whoever asks later.
    let noted = verify::noted(&repository(&disk)).unwrap();
    let of_first = noted.files.clone();
    assert!(of_first.iter().all(|name| name.ends_with("1.blk")) && of_first.len() == 1, "{noted:?}");
    assert_eq!(noted.generations, [1, 2, 3].map(|number| (number, of_first.clone())).into());
}

#[test]
fn the_next_backup_repairs_damaged_blocks_for_all_generations() {
    let (disk, states) = three();
    damage_block(&disk, 1, &states[0][300 * BLOCK..301 * BLOCK]);
    // Nobody knows of it yet.
    assert_eq!(back_up(&disk, false).unwrap().healed, 0);
    assert_eq!(verify::noted(&repository(&disk)).unwrap(), verify::NotedDamage::default());
    assert_eq!(damages(&disk).len(), 1);
    let made = back_up(&disk, false).unwrap();
    assert_eq!((made.healed, made.changed), (16, 16), "{made:?}");
    // The damage is still there, and costs nothing any more.
    let noted = verify::noted(&repository(&disk)).unwrap();
    assert!(noted.files.len() == 1 && noted.generations.is_empty(), "{noted:?}");
    for (generation, state) in (1..).zip(states.iter().chain([&states[2], &states[2]])) {
        assert!(restored(&disk, Some(generation)).unwrap() == *state, "generation {generation}");
    }
    let found = damages(&disk);
    assert!(found.len() == 1 && found[0].costs.is_empty(), "{found:?}");
    assert_eq!(back_up(&disk, false).unwrap().healed, 0, "once is enough");
    // A prune keeps the sound copy for those that need it, and removes the damaged one in the end.
    keep(&disk, &[1, 5, 6]).unwrap();
    for generation in [1, 5, 6] {
        assert!(restored(&disk, Some(generation)).unwrap() == states[if generation == 1 { 0 } else { 2 }]);
    }
    keep(&disk, &[1, 6]).unwrap();
    assert!(restored(&disk, Some(6)).unwrap() == states[2]);
    assert!(restored(&disk, Some(1)).unwrap() == states[0]);
}

#[test]
fn a_damaged_record_costs_its_chunk_until_the_next_backup() {
    let (disk, states) = three();
    let bytes = disk.bytes(&file(1)).unwrap();
    // The record of the second chunk comes after the blocks of the first one.
    let mut records = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"chnk"));
    let second = records.nth(1).unwrap();
    disk.corrupt(&file(1), second + 60, 1);
    let (restored_bytes, summary) = kept_going(&disk, None).unwrap();
    assert_eq!(lost(&summary), vec_of(CHUNK as u64..2 * CHUNK as u64));
    assert!(restored_bytes[..CHUNK] == states[2][..CHUNK]);
    assert!(restored_bytes[2 * CHUNK..] == states[2][2 * CHUNK..]);
    // A prune of its descendants keeps all of it.
    let pruned = keep(&disk, &[2, 3]).unwrap();
    assert_eq!((pruned.damaged, pruned.freed), (vec![2, 3], 0));
    assert_eq!(generations(&disk), [1, 2, 3]);
    // The backup notices that without being told.
    let made = back_up(&disk, false).unwrap();
    assert_eq!((made.healed, made.damages.len()), (256, 1), "{made:?}");
    assert!(restored(&disk, None).unwrap() == states[2]);
    assert_eq!(back_up(&disk, false).unwrap().damages, Vec::<String>::new());
    keep(&disk, &[5]).unwrap();
    assert!(restored(&disk, None).unwrap() == states[2]);
    assert!(damages(&disk).iter().all(|damage| damage.costs.is_empty()));
}

#[test]
fn a_damaged_trailer_index_or_note_loses_no_block() {
    let (disk, states) = three();
    for number in 1..=3 {
        let len = disk.bytes(&file(number)).unwrap().len();
        // The trailer's magic, the root, an entry of the index, the note.
        for at in [len - 104, len - 1, len - 104 - 20, 92] {
            disk.corrupt(&file(number), at, 1);
            let strict = restored(&disk, Some(number));
            assert!(matches!(strict, Err(Error::Corrupt { .. })), "{strict:?}");
            for (generation, state) in (1..).zip(&states) {
                let (bytes, summary) = kept_going(&disk, Some(generation)).unwrap();
                assert!(
                    bytes == *state && summary.losses.is_empty(),
                    "{number} {at} {generation} {summary:?}"
                );
                // Without its trailer, nothing tells what the newest generation was as a whole.
                assert!(summary.is_verified || (number, generation, at) == (3, 3, len - 104), "{summary:?}");
            }
            disk.corrupt(&file(number), at, 1);
        }
    }
    sound(&disk);
    // What is cut off is lost; what comes before it is not.
    let bytes = disk.bytes(&file(1)).unwrap();
    disk.put(&file(1), &bytes[..bytes.len() / 2]);
    let (found, summary) = kept_going(&disk, Some(2)).unwrap();
    let lost = lost(&summary);
    let from = usize::try_from(lost[0].start).unwrap();
    assert!(lost.len() == 1 && lost[0].end == states[1].len() as u64, "{lost:?}");
    assert!((CHUNK..bytes.len() / 2).contains(&from) && found[..from] == states[1][..from]);
}

/// Whichever byte is flipped: everything that is restored and not reported as lost is right, or the restore
/// says that it is not proven.
#[test]
pub(crate) fn a_restore_is_right_or_says_so_whichever_byte_is_flipped() {
    let disk = FaultDisk::default();
    let mut volume = vec![0; 40 * BLOCK];
    volume[BLOCK..2 * BLOCK].fill(1);
    volume[5 * BLOCK..7 * BLOCK].fill(2);
    let mut states = Vec::new();
    for round in 0..3u8 {
        volume[6 * BLOCK + 100 + usize::from(round)] = 9;
        volume[(10 + usize::from(round)) * BLOCK..][..BLOCK].fill(7 + round);
        back_up_bytes(&disk, &volume);
        states.push(volume.clone());
    }
    let (mut whole, mut partly) = (0, 0);
    for number in 1..=3 {
        for at in
            (0..disk.bytes(&file(number)).unwrap().len()).step_by(3).filter(|at| sandbox::is_turn(at / 3, 5))
        {
            disk.corrupt(&file(number), at, 0x10);
            for (generation, state) in (1..).zip(&states) {
                let Ok((bytes, summary)) = kept_going(&disk, Some(generation)) else { continue };
                let is_lost = |at: usize| lost(&summary).iter().any(|range| range.contains(&(at as u64)));
                let right = bytes.len() == state.len()
                    && bytes
                        .chunks(BLOCK)
                        .zip(state.chunks(BLOCK))
                        .enumerate()
                        .all(|(block, (is, was))| is == was || is_lost(block * BLOCK));
                let told = !summary.is_verified
                    && summary.damages.iter().any(|damage| {
                        damage.contains("header, index or trailer")
                            || damage.contains("as a whole")
                            || damage.contains("its parent is another generation")
                    });
                assert!(right || told, "{number} {at} {generation}: {summary:?}");
                assert_eq!(
                    summary.is_verified,
                    summary.is_verified && bytes == *state,
                    "{number} {at} {generation}"
                );
                whole += usize::from(bytes == *state);
                partly += usize::from(!summary.losses.is_empty());
            }
            disk.corrupt(&file(number), at, 0x10);
        }
    }
    assert!(whole > partly && partly > 50, "{whole} {partly}");
    sound(&disk);
}

#[test]
fn the_newest_generation_is_missed_when_its_file_is_gone() {
    let (disk, states) = three();
    disk.remove(&file(3)).unwrap();
    let found = damages(&disk);
    assert!(found.len() == 1 && found[0].what.contains("generation 3"), "{found:?}");
    assert!(matches!(restored(&disk, None), Err(Error::Corrupt { .. })));
    assert!(matches!(restored(&disk, Some(3)), Err(Error::Corrupt { .. })));
    assert!(restored(&disk, Some(2)).unwrap() == states[1]);
    // Its number is not used again.
    let made = back_up(&disk, false).unwrap();
    assert_eq!((made.generation, made.parent, made.damages.len()), (4, 2, 1), "{made:?}");
    assert!(restored(&disk, None).unwrap() == states[2]);
    sound(&disk);
    // A damaged note is reported and rewritten.
    let note = Path::new(REPO).join("newest.note");
    for at in 0..disk.bytes(&note).unwrap().len() {
        disk.corrupt(&note, at, 4);
        assert_eq!(damages(&disk).len(), 1);
        assert!(restored(&disk, None).unwrap() == states[2]);
        disk.corrupt(&note, at, 4);
    }
    disk.corrupt(&note, 9, 1);
    back_up(&disk, false).unwrap();
    sound(&disk);
}

#[test]
fn a_prune_that_can_not_copy_out_of_a_file_leaves_it() {
    let disk = FaultDisk::default();
    let mut random = Random(23);
    let first = noise(&mut random, 300);
    back_up_bytes(&disk, &first);
    let mut volume = noise(&mut random, 300);
    volume[..20 * BLOCK].copy_from_slice(&first[..20 * BLOCK]);
    back_up_bytes(&disk, &volume);
    // Little of the first file is needed, so a prune would copy it; but it is damaged.
    damage_block(&disk, 1, &first[3 * BLOCK..4 * BLOCK]);
    keep(&disk, &[2]).unwrap();
    assert!(disk.bytes(&file(1)).is_some(), "what is sound in it is needed");
    let (bytes, summary) = kept_going(&disk, None).unwrap();
    assert_eq!(lost(&summary), vec_of(0..16 * BLOCK as u64));
    assert!(bytes[16 * BLOCK..] == volume[16 * BLOCK..]);
    damages(&disk);
    assert_eq!(back_up(&disk, false).unwrap().healed, 16);
    keep(&disk, &[3]).unwrap();
    assert!(restored(&disk, None).unwrap() == volume);
    sound(&disk);
}

/// A bad sector below the repository counts as any other damage.
#[test]
fn an_unreadable_sector_loses_no_more_than_a_damaged_one() {
    let (disk, states) = three();
    disk.damage(&file(1), 2_000_000);
    let (bytes, summary) = kept_going(&disk, None).unwrap();
    let lost = lost(&summary);
    assert_eq!(lost.len(), 1);
    assert!(
        bytes[..usize::try_from(lost[0].start).unwrap()]
            == states[2][..usize::try_from(lost[0].start).unwrap()]
    );
    assert!(!damages(&disk).is_empty());
    assert_eq!(back_up(&disk, false).unwrap().healed, 16);
    assert!(restored(&disk, None).unwrap() == states[2]);
    assert!(disk.bytes(Path::new(VOLUME)).is_some());
}

/// Somebody without the right to read a file, or whose store does not answer, learns nothing about it: he
/// must not take it for damaged, build past it, or remove it.
#[test]
fn a_file_without_read_permission_is_not_taken_for_damaged() {
    let (disk, states) = three();
    disk.deny(&file(1));
    let is_denied =
        |error| matches!(error, Error::Store { source, .. } if source.kind() == ErrorKind::PermissionDenied);
    assert!(is_denied(keep(&disk, &[3]).unwrap_err()));
    assert!(is_denied(back_up(&disk, false).unwrap_err()));
    assert!(is_denied(back_up(&disk, true).unwrap_err()));
    assert!(is_denied(verify(&repository(&disk), 2, None, world()).unwrap_err()));
    assert!(is_denied(restored(&disk, None).unwrap_err()));
    assert!(is_denied(kept_going(&disk, None).unwrap_err()));
    let bytes = disk.bytes(&file(1)).unwrap();
    disk.put(&file(1), &bytes);
    sound(&disk);
    assert!(restored(&disk, None).unwrap() == states[2]);
}

/// An unreadable file may become readable again: after another read, or when a network is fixed.
#[test]
fn a_prune_removes_no_file_that_could_not_be_read() {
    let (disk, _) = three();
    back_up(&disk, true).unwrap();
    let len = disk.bytes(&file(1)).unwrap().len();
    disk.damage(&file(1), len as u64 - 1);
    let summary = keep(&disk, &[4]).unwrap();
    assert!(summary.unused.iter().any(|name| name.contains("000001.blk")), "{summary:?}");
    assert!(disk.bytes(&file(1)).is_some());
    // Of this one it is known that its bytes are wrong.
    let bytes = disk.bytes(&file(1)).unwrap();
    disk.put(&file(1), &bytes[..len - 1]);
    keep(&disk, &[4]).unwrap();
    assert!(disk.bytes(&file(1)).is_none());
}

#[test]
fn every_command_reports_a_generation_whose_parent_is_missing() {
    let (disk, states) = three();
    disk.remove(&file(2)).unwrap();
    let told =
        |found: String| assert!(found.contains("000003.blk") && found.contains("generation 2"), "{found}");
    told(format!("{:?}", repository(&disk).list().unwrap().broken));
    told(format!("{:?}", damages(&disk)));
    let made = back_up(&disk, false).unwrap();
    assert_eq!(made.parent, 1);
    told(format!("{:?}", made.damages));
    assert!(restored(&disk, None).unwrap() == states[2]);
}

/// Whoever can add files must not be able to break those of others by a name.
#[test]
fn a_file_with_an_impossible_generation_number_is_refused() {
    let (disk, states) = three();
    let put = |name: &str| {
        let path = Path::new(REPO).join(name);
        disk.put(&path, b"garbage");
        path
    };
    let too_high = [u64::MAX, u64::MAX - 1, NUMBER_MAX + 1];
    let names = too_high.map(|number| [format!("{number}.blk"), format!("{number}.catalogue")]);
    names.iter().flatten().for_each(|name| drop(put(name)));
    sound(&disk);
    assert_eq!(back_up(&disk, false).unwrap().generation, 4);
    keep(&disk, &[2, 4]).unwrap();
    assert_eq!(generations(&disk), [2, 4]);
    // Numbers from 2^52 on are those of mirrors.
    let highest = NUMBER_MAX / 2 - 1;
    let last = put(&format!("{highest}.blk"));
    let error = back_up(&disk, false).unwrap_err().to_string();
    assert!(error.contains(&format!("{highest};")) && error.contains("remove the file"), "{error}");
    // Nor does a prune write a file that nobody would know.
    keep(&disk, &[4]).unwrap_err();
    disk.remove(&last).unwrap();
    assert_eq!(back_up(&disk, false).unwrap().generation, 5);
    assert!(restored(&disk, None).unwrap() == states[2]);
}

#[test]
fn samples_cover_all_blocks_and_check_known_damage_again() {
    let (disk, states) = three();
    let sampled = |part| verify(&repository(&disk), 2, Some(Sample { part, parts: 3 }), world()).unwrap();
    let whole = verify(&repository(&disk), 2, None, world()).unwrap().blocks;
    let parts: Vec<u64> = (0..3).map(|part| sampled(part).blocks).collect();
    assert_eq!(parts.iter().sum::<u64>(), whole);
    assert!(parts.iter().all(|&blocks| 0 < blocks && blocks < whole), "{parts:?} of {whole}");
    damage_block(&disk, 1, &states[0][300 * BLOCK..301 * BLOCK]);
    let found: Vec<usize> = (0..6).map(|part| sampled(part).damages.len()).collect();
    let first = found.iter().position(|&damages| damages > 0).unwrap();
    assert!(0 < first && first < 3, "{found:?}");
    // Once found, it is looked at in every part.
    assert!(found[first..].iter().all(|&damages| damages == 1), "{found:?}");
}
