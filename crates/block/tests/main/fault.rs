//! Sources that can't be read, full disks, and runs that get in each other's way.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use block::backup::Request;
use block::{BLOCK, CHUNK, ChunkRead, ChunkSource, Error, RunContext, Scan, backup, prune, restore};
use disk::faults::FaultDisk;
use disk::{Disk, Stat};
use progress::Silent;

use crate::support::{
    REPO, Random, TARGET, VOLUME, back_up, back_up_bytes, generations, keep, repository, restored, sound,
    world,
};

#[test]
fn a_bad_sector_is_no_backup_and_harms_none() {
    let disk = FaultDisk::default();
    let mut volume = Random(1).volume(600);
    back_up_bytes(&disk, &volume);
    volume[CHUNK + 5] ^= 1;
    disk.put(Path::new(VOLUME), &volume);
    for at in [0, CHUNK + 100, 600 * BLOCK - 1] {
        disk.damage(Path::new(VOLUME), at as u64);
        let error = back_up(&disk, false).unwrap_err();
        assert!(matches!(error, Error::Source { .. }), "{error}");
        assert_eq!(generations(&disk), [1]);
    }
    sound(&disk);
    back_up_bytes(&disk, &volume);
    assert!(restored(&disk, None).unwrap() == volume);
    assert!(!disk.names().iter().any(|name| name.to_string_lossy().contains("partial")), "nothing is left");
}

/// What a source does while it is read.
struct Odd<'a> {
    scan: Scan,
    longer: u64,
    meanwhile: &'a (dyn Fn() + Sync),
    unreliable: bool,
}

impl ChunkSource for Odd<'_> {
    fn stat(&mut self) -> io::Result<Stat> {
        let stat = self.scan.stat()?;
        Ok(Stat { len: stat.len + self.longer, ..stat })
    }
    fn ahead(&self) -> u64 {
        self.scan.ahead()
    }
    fn expect(&mut self, number: u64, bytes: usize, want: block::ChunkRequest) -> io::Result<()> {
        self.scan.expect(number, bytes, want)
    }
    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        (self.meanwhile)();
        self.scan.read(buffer)
    }
    fn finish(&mut self) -> io::Result<()> {
        if self.unreliable { Err(io::Error::other("it overflowed")) } else { Ok(()) }
    }
}

fn scan(disk: &FaultDisk) -> Scan {
    Scan::new(disk.open(Path::new(VOLUME)).unwrap())
}

fn request() -> Request<'static> {
    Request { jobs: 2, ..Request::new("source") }
}

#[test]
fn a_short_read_is_an_error() {
    let disk = FaultDisk::default();
    disk.put(Path::new(VOLUME), &Random(1).volume(10));
    for more in [1, CHUNK as u64] {
        let mut short = Odd { scan: scan(&disk), longer: more, meanwhile: &|| {}, unreliable: false };
        let error = backup(&repository(&disk), &mut short, &request(), world()).unwrap_err().to_string();
        assert!(error.contains("ends before"), "{error}");
    }
    assert_eq!(generations(&disk), Vec::<u64>::new());
}

#[test]
fn a_file_that_changes_meanwhile_is_refused_unless_that_is_wanted() {
    let disk = FaultDisk::default();
    disk.put(Path::new(VOLUME), &Random(1).volume(10));
    let write = || disk.volume(Path::new(VOLUME)).unwrap().write_at(0, b"new").unwrap();
    let moving = || Odd { scan: scan(&disk), longer: 0, meanwhile: &write, unreliable: false };
    let error = backup(&repository(&disk), &mut moving(), &request(), world()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert_eq!(generations(&disk), Vec::<u64>::new());
    let live = Request { live: true, ..request() };
    backup(&repository(&disk), &mut moving(), &live, world()).unwrap();
    assert_eq!(generations(&disk), [1]);
}

/// A change is noticed even if somebody sets the file's time back, or writes in a way that no timestamp
/// shows.
#[test]
fn a_file_whose_times_do_not_tell_is_seen_to_change() {
    let volume = Random(1).volume(600);
    let new = || {
        let disk = FaultDisk::default();
        disk.put(Path::new(VOLUME), &volume);
        disk.back_date(Path::new(VOLUME));
        disk
    };
    let disk = new();
    let once = std::sync::Once::new();
    let write = || once.call_once(|| disk.volume(Path::new(VOLUME)).unwrap().write_at(9, b"new").unwrap());
    let mut moving = Odd { scan: scan(&disk), longer: 0, meanwhile: &write, unreliable: false };
    let error = backup(&repository(&disk), &mut moving, &request(), world()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");

    let disk = new();
    let unseen = || (0..3).for_each(|chunk| disk.change_unseen(Path::new(VOLUME), chunk * CHUNK + 5, 1));
    let mut moving = Odd { scan: scan(&disk), longer: 0, meanwhile: &unseen, unreliable: false };
    let error = backup(&repository(&disk), &mut moving, &request(), world()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    // A snapshot is not checked again: nobody can write to it.
    let mut moving = Odd { scan: scan(&disk), longer: 0, meanwhile: &unseen, unreliable: false };
    let still = Request { is_frozen: true, ..request() };
    backup(&repository(&disk), &mut moving, &still, world()).unwrap();
    assert_eq!(generations(&disk), [1]);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    for live in [false, true] {
        let disk = FaultDisk::default();
        disk.put(Path::new(VOLUME), &Random(1).volume(900));
        let cut = || disk.volume(Path::new(VOLUME)).unwrap().set_len(7).unwrap();
        let mut moving = Odd { scan: scan(&disk), longer: 0, meanwhile: &cut, unreliable: false };
        let request = Request { live, ..request() };
        let error = backup(&repository(&disk), &mut moving, &request, world()).unwrap_err();
        assert!(error.to_string().contains("ends before its length"), "{error}");
        assert_eq!(generations(&disk), Vec::<u64>::new());
    }
}

#[test]
fn a_source_that_proves_unreliable_at_the_end_makes_no_backup() {
    let disk = FaultDisk::default();
    let volume = Random(1).volume(600);
    back_up_bytes(&disk, &volume);
    disk.put(Path::new(VOLUME), &Random(2).volume(600));
    let mut odd = Odd { scan: scan(&disk), longer: 0, meanwhile: &|| {}, unreliable: true };
    let error = backup(&repository(&disk), &mut odd, &request(), world()).unwrap_err().to_string();
    assert!(error.contains("it overflowed"), "{error}");
    assert_eq!(generations(&disk), [1]);
    assert!(restored(&disk, None).unwrap() == volume);
}

#[test]
fn a_repository_can_be_held_for_longer_than_a_backup() {
    let disk = FaultDisk::default();
    disk.put(Path::new(VOLUME), &Random(1).volume(10));
    let mut held = repository(&disk);
    held.hold().unwrap();
    assert!(matches!(back_up(&disk, false), Err(Error::Busy(_))));
    assert!(matches!(repository(&disk).hold(), Err(Error::Busy(_))));
    for _ in 0..2 {
        backup(&held, &mut scan(&disk), &request(), world()).unwrap();
        assert!(matches!(back_up(&disk, false), Err(Error::Busy(_))));
    }
    drop(held);
    back_up(&disk, false).unwrap();
    assert_eq!(generations(&disk), [1, 2, 3]);
}

/// The bytes of all files.
fn used(disk: &FaultDisk) -> usize {
    disk.names().iter().map(|name| disk.bytes(name).unwrap().len()).sum()
}

#[test]
fn a_full_disk_is_no_backup_and_harms_none() {
    let disk = FaultDisk::default();
    let mut random = Random(2);
    let noise = |random: &mut Random| -> Vec<u8> {
        (0..300 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect()
    };
    let volume = noise(&mut random);
    back_up_bytes(&disk, &volume);
    let second = noise(&mut random);
    disk.put(Path::new(VOLUME), &second);
    let used = used(&disk);
    for room in [10, 100_000, 3_000_000, 4_915_000] {
        let disk = disk.after_crash(disk::faults::Unsynced::Keep);
        disk.limit((used + room) as u64);
        let error = back_up(&disk, false).unwrap_err();
        assert!(matches!(error, Error::Store { .. }), "{error}");
        disk.limit(u64::MAX);
        assert_eq!(generations(&disk), [1]);
        assert!(restored(&disk, None).unwrap() == volume);
    }
    let crashed = disk.after_crash(disk::faults::Unsynced::Keep);
    crashed.limit((used + 1000) as u64);
    let request = restore::Request::new(None, 2);
    let full = restore::to_new_file(&repository(&crashed), &crashed, Path::new(TARGET), request, world());
    assert!(matches!(full, Err(Error::Target { .. })));
    assert_eq!(crashed.bytes(Path::new(TARGET)), None);
}

#[test]
fn a_full_disk_is_pruned_without_copies() {
    let disk = FaultDisk::default();
    let mut random = Random(3);
    let mut noise = |blocks: usize| -> Vec<u8> {
        (0..blocks * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect()
    };
    let mut volume = noise(300);
    back_up_bytes(&disk, &volume);
    let fresh = noise(200);
    volume.splice(..fresh.len(), fresh);
    back_up_bytes(&disk, &volume);
    let planned = prune(&repository(&disk), &BTreeSet::from([2]), true, world()).unwrap();
    let blocks = planned.written / BLOCK as u64;
    assert!((90..=110).contains(&blocks), "{planned:?}");
    disk.limit((used(&disk) + 10_000) as u64);
    let done = keep(&disk, &[2]).unwrap();
    assert!(done.forgotten == [1] && done.written < 10_000 && done.freed < BLOCK as u64, "{done:?}");
    disk.limit(u64::MAX);
    assert!(restored(&disk, None).unwrap() == volume);
    let done = keep(&disk, &[2]).unwrap();
    assert!(done.freed > 300 * BLOCK as u64, "{done:?}");
    assert!(restored(&disk, None).unwrap() == volume);
    sound(&disk);
}

#[test]
fn a_target_that_is_there_is_not_replaced() {
    let disk = FaultDisk::default();
    back_up_bytes(&disk, &Random(4).volume(3));
    disk.put(Path::new(TARGET), b"precious");
    let request = restore::Request::new(None, 1);
    let refused = restore::to_new_file(&repository(&disk), &disk, Path::new(TARGET), request, world());
    assert!(matches!(refused, Err(Error::Target { .. })));
    assert_eq!(disk.bytes(Path::new(TARGET)).unwrap(), b"precious");
}

#[test]
fn a_repository_has_one_writer_and_many_readers() {
    let disk = FaultDisk::default();
    let mut random = Random(4);
    let mut noise = || -> Vec<u8> { (0..20 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect() };
    let volume = noise();
    back_up_bytes(&disk, &volume);
    let path = Path::new(REPO);
    let writer = disk.lock(&path.join("writer.lock"), disk::Share::Exclusive).unwrap();
    assert!(matches!(back_up(&disk, false), Err(Error::Busy(_))));
    assert!(matches!(keep(&disk, &[1]), Err(Error::Busy(_))));
    assert!(restored(&disk, None).unwrap() == volume, "reading continues");
    drop(writer);
    back_up_bytes(&disk, &noise());
    let reader = disk.lock(&path.join("reader.lock"), disk::Share::Shared).unwrap();
    let pruned = keep(&disk, &[2]).unwrap();
    assert!(pruned.left > 0 && pruned.freed == 0, "what may be read stays: {pruned:?}");
    back_up(&disk, false).unwrap();
    drop(reader);
    let pruned = keep(&disk, &[2, 3]).unwrap();
    assert!(pruned.left == 0 && pruned.freed > 0, "the next prune removes it: {pruned:?}");
    sound(&disk);
}

/// What a run asks of its source shows how far it came.
#[test]
fn an_interrupted_run_is_continued() {
    let disk = FaultDisk::default();
    let mut random = Random(8);
    let mut noise = |blocks: usize| -> Vec<u8> {
        (0..blocks * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect()
    };
    let mut volume = noise(2000);
    let partial = Path::new(REPO).join("000001.blk.partial");
    disk.put(Path::new(VOLUME), &volume);
    disk.damage(Path::new(VOLUME), 1900 * BLOCK as u64);
    back_up(&disk, false).unwrap_err();
    let left = disk.bytes(&partial).unwrap();
    assert!(left.len() > 3 * CHUNK, "{}", left.len());
    // What was stored is then damaged in one place and torn at the end, and the source has changed.
    let mut torn = left[..left.len() - 1000].to_vec();
    torn[CHUNK + 500_000] ^= 1;
    disk.put(&partial, &torn);
    volume[2 * CHUNK + 7] ^= 1;
    let made = back_up_bytes(&disk, &volume);
    // Seven chunks were read; one of them is damaged, one torn, and one has changed.
    assert_eq!(made.reused, 4 * 256, "{made:?}");
    assert!(restored(&disk, None).unwrap() == volume);
    sound(&disk);

    // The same for a backup of changes, and only on the same parent.
    volume[..1500 * BLOCK].copy_from_slice(&noise(1500));
    disk.put(Path::new(VOLUME), &volume);
    disk.damage(Path::new(VOLUME), 1900 * BLOCK as u64);
    back_up(&disk, false).unwrap_err();
    let left = disk.bytes(&Path::new(REPO).join("000002.blk.partial")).unwrap();
    assert!(left.len() > CHUNK);
    disk.put(Path::new(VOLUME), &volume);
    let made = back_up(&disk, true).unwrap();
    assert_eq!((made.parent, made.reused), (0, 0));
    assert!(restored(&disk, None).unwrap() == volume);
    disk.put(&Path::new(REPO).join("000003.blk.partial"), &left);
    assert_eq!(back_up(&disk, false).unwrap().changed, 0);
    sound(&disk);
}

#[test]
fn a_run_that_is_stopped_adds_nothing() {
    let disk = FaultDisk::default();
    disk.put(Path::new(VOLUME), &Random(4).volume(20));
    let stop = AtomicBool::new(true);
    let world = RunContext { stop: &stop, progress: &Silent };
    assert!(matches!(backup(&repository(&disk), &mut scan(&disk), &request(), world), Err(Error::Stopped)));
    assert_eq!(generations(&disk), Vec::<u64>::new());
    back_up(&disk, false).unwrap();
    sound(&disk);
}

#[test]
fn a_missing_generation_is_an_error_and_a_tiny_volume_comes_back() {
    let disk = FaultDisk::default();
    assert!(matches!(restored(&disk, None), Err(Error::Missing(_))));
    back_up_bytes(&disk, b"a volume of no whole block");
    assert!(matches!(restored(&disk, Some(7)), Err(Error::Missing(_))));
    assert_eq!(restored(&disk, None).unwrap(), b"a volume of no whole block");
    back_up_bytes(&disk, b"");
    assert_eq!(restored(&disk, None).unwrap(), b"");
    sound(&disk);
}
