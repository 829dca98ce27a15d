//! A mirror and its source, whatever happens to them, in every order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use block::{BLOCK, Error, mirror};
use disk::Disk;
use disk::faults::FaultDisk;
use seal::{FullKey, Key};

use crate::support::{
    REPO, Random, back_up_bytes, damages, generations, keep, repository, restored, store, with_key, world,
};

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Act {
    Backup,
    /// The source or the mirror keeps its newest generation only, or every other one.
    PruneHere(bool),
    PruneThere(bool),
    Mirror,
}

const ACTS: [Act; 6] = [
    Act::Backup,
    Act::PruneHere(true),
    Act::PruneHere(false),
    Act::PruneThere(true),
    Act::PruneThere(false),
    Act::Mirror,
];

/// What generations were.
type Model = BTreeMap<u64, Vec<u8>>;

struct Sides {
    source: FaultDisk,
    copy: FaultDisk,
    random: Random,
    volume: Vec<u8>,
    here: Model,
    there: Model,
    /// Generations that the mirror was told to forget. If the source rewrites one, it comes again.
    forgotten: BTreeSet<u64>,
}

impl Sides {
    fn new() -> Sides {
        let mut random = Random(23);
        let volume = random.volume(5);
        let (here, there, forgotten) = Default::default();
        let (source, copy) = (FaultDisk::default(), FaultDisk::default());
        Sides { source, copy, random, volume, here, there, forgotten }
    }

    fn after(acts: &[Act]) -> Sides {
        let mut sides = Sides::new();
        acts.iter().for_each(|act| sides.act(*act));
        sides
    }

    fn mirror(&self) -> Result<u64, Error> {
        mirror(&*store(&self.source), &*store(&self.copy), false, world()).map(|done| done.copied)
    }

    fn act(&mut self, act: Act) {
        let chosen = |model: &Model, newest_only: bool| -> Vec<u64> {
            let step = if newest_only { usize::MAX } else { 2 };
            model.keys().rev().step_by(step).copied().collect()
        };
        match act {
            Act::Backup => {
                let at = self.random.below(5) * BLOCK;
                let block = self.random.block();
                self.volume[at..at + BLOCK].copy_from_slice(&block);
                let made = back_up_bytes(&self.source, &self.volume);
                self.here.insert(made.generation, self.volume.clone());
            }
            Act::PruneHere(newest_only) => {
                let kept = chosen(&self.here, newest_only);
                keep(&self.source, &kept).unwrap();
                self.here.retain(|number, _| kept.contains(number));
            }
            Act::PruneThere(newest_only) => {
                let listed = generations(&self.copy);
                let kept = chosen(&self.there, newest_only);
                keep(&self.copy, &kept).unwrap();
                self.forgotten.extend(listed.iter().filter(|number| !kept.contains(number)));
                self.there.retain(|number, _| kept.contains(number));
                assert_eq!(generations(&self.copy), self.there.keys().copied().collect::<Vec<_>>());
            }
            Act::Mirror => {
                self.mirror().unwrap();
                let new = self.here.iter().filter(|(number, _)| !self.forgotten.contains(number));
                self.there.extend(new.map(|(number, bytes)| (*number, bytes.clone())));
                assert_eq!(self.mirror().unwrap(), 0, "the next one has nothing to do");
            }
        }
    }

    /// Fails unless the mirror has all that it should have, and everything it shows is right.
    fn check(&self) {
        let shown = generations(&self.copy);
        for number in self.there.keys() {
            assert!(shown.contains(number), "generation {number} is lost: {shown:?}");
        }
        for number in &shown {
            let again = self.forgotten.contains(number).then(|| self.here.get(number)).flatten();
            let expected = self.there.get(number).or(again);
            assert!(Some(&restored(&self.copy, Some(*number)).unwrap()) == expected, "{number}");
        }
        let broken: Vec<_> = repository(&self.copy).list().unwrap().broken;
        assert!(broken.is_empty() && damages(&self.copy).is_empty(), "{broken:?}");
    }
}

/// Each order of so many acts, after two generations that are mirrored.
fn orders(acts: usize) -> impl Iterator<Item = Vec<Act>> {
    (0..ACTS.len().pow(u32::try_from(acts).unwrap())).map(move |word| {
        let letters = (0..acts).scan(word, |rest, _| {
            let act = ACTS[*rest % ACTS.len()];
            *rest /= ACTS.len();
            Some(act)
        });
        let begin = [Act::Backup, Act::Backup, Act::Mirror, Act::Backup];
        begin.into_iter().chain(letters).chain([Act::Mirror]).collect()
    })
}

#[test]
fn source_and_mirror_each_keep_their_own_generations() {
    for acts in orders(3) {
        // Shown when the test fails.
        println!("{acts:?}");
        Sides::after(&acts).check();
    }
}

#[test]
fn source_and_mirror_each_keep_their_own_generations_without_the_key() {
    with_key(&Key::Full(FullKey::generate().unwrap()), || {
        orders(2).for_each(|acts| Sides::after(&acts).check());
    });
}

/// The source has pruned twice, and the mirror has what it had before.
fn grown() -> Sides {
    use Act::{Backup, Mirror, PruneHere};
    Sides::after(&[Backup, Backup, Mirror, PruneHere(true), Backup, Backup, Mirror, PruneHere(false), Mirror])
}

#[test]
fn files_that_a_mirror_lost_are_reported_and_copied_again_if_possible() {
    let names: Vec<_> = grown().copy.names().into_iter().filter(|name| name.starts_with(REPO)).collect();
    for name in names.iter().filter(|name| name.extension().is_some_and(|end| end == "blk")) {
        let sides = grown();
        sides.copy.remove(name).unwrap();
        let is_missed = |sides: &Sides| {
            let broken = repository(&sides.copy).list().unwrap().broken;
            !(broken.is_empty() && damages(&sides.copy).is_empty())
        };
        let number = name.file_stem().unwrap().to_str().unwrap();
        let is_needed = is_missed(&sides);
        let has_all = sides.there.keys().all(|number| {
            restored(&sides.copy, Some(*number)).is_ok_and(|bytes| bytes == sides.there[number])
        });
        assert!(is_needed || has_all, "nobody says that {number} is missing");
        sides.mirror().unwrap();
        if sides.source.bytes(name).is_some() {
            sides.check();
        } else {
            assert_eq!(is_missed(&sides), is_needed, "{number}");
        }
    }
}

#[test]
fn a_lost_mirror_note_is_rewritten_from_the_files() {
    let note = Path::new(REPO).join("mirror.note");
    for damage in [true, false] {
        let sides = grown();
        if damage {
            sides.copy.corrupt(&note, 20, 1);
            let error = repository(&sides.copy).list().unwrap_err().to_string();
            assert!(error.contains("the next 'remora mirror' rewrites it"), "{error}");
        } else {
            // So it was before there was such a note: a mirror showed what its source had not forgotten.
            sides.copy.remove(&note).unwrap();
        }
        sides.mirror().unwrap();
        sides.check();
    }
}

#[test]
fn backups_on_source_and_mirror_are_reported() {
    let mut sides = grown();
    back_up_bytes(&sides.copy, &vec![7; BLOCK]);
    sides.act(Act::Backup);
    let error = sides.mirror().unwrap_err().to_string();
    assert!(error.contains("backups were made on both sides") && error.contains("remove nothing"), "{error}");
}

#[test]
fn a_mirror_that_is_continued_can_forget_all_old_generations() {
    let sides = grown();
    let size = |sides: &Sides| sides.copy.names().iter().filter(|name| name.starts_with(REPO)).count();
    let shared = keep(&sides.copy, &[*sides.there.keys().next_back().unwrap()]).unwrap().at_source;
    assert!(shared > 0, "what the source still has would come again");
    let before = size(&sides);
    let made = back_up_bytes(&sides.copy, &[9; 3 * BLOCK]);
    keep(&sides.copy, &[made.generation]).unwrap();
    assert!(size(&sides) < before, "{} of {before}", size(&sides));
    assert!(restored(&sides.copy, None).unwrap() == [9; 3 * BLOCK]);
}
