//! A volume and a repository on a disk in memory.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::backup::{ChangedRanges, Request, Summary};
use block::{
    BLOCK, EncryptedStore, Error, Folder, Repository, RunContext, Scan, backup, prune, restore, verify,
};
use disk::Disk;
use disk::faults::FaultDisk;
use progress::Silent;
use seal::Key;

pub(crate) const VOLUME: &str = "/volume";
/// The volume's previous contents, if any.
pub(crate) const KEPT: &str = "/kept";
pub(crate) const REPO: &str = "/repo/name";
pub(crate) const TARGET: &str = "/target/restored";

static NEVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn world() -> RunContext<'static> {
    RunContext { stop: &NEVER, progress: &Silent }
}

thread_local! {
    /// The key of the repositories of this test; without one they are not encrypted.
    static KEY: RefCell<Option<Key>> = const { RefCell::new(None) };
}

/// Does something with encrypted repositories.
pub(crate) fn with_key<T>(key: &Key, act: impl FnOnce() -> T) -> T {
    let before = KEY.with(|own| own.replace(Some(key.clone())));
    let done = act();
    KEY.with(|own| own.replace(before));
    done
}

pub(crate) fn store(disk: &FaultDisk) -> Box<Folder> {
    Box::new(Folder::new(Arc::new(disk.clone()), REPO.into()))
}

/// The repository; an error if its disk has stopped, or the key does not open it.
pub(crate) fn opened(disk: &FaultDisk) -> Result<Repository, Error> {
    match KEY.with(|key| key.borrow().clone()) {
        None => Ok(Repository::new(store(disk))),
        Some(key) => EncryptedStore::open(store(disk), &key).map(|sealed| Repository::new(Box::new(sealed))),
    }
}

/// The same; on a disk that has stopped, one that can't be used either.
pub(crate) fn repository(disk: &FaultDisk) -> Repository {
    opened(disk).unwrap_or_else(|error| {
        assert!(disk.is_stopped(), "{error}");
        Repository::new(store(disk))
    })
}

/// One more generation of what `VOLUME` is now.
pub(crate) fn back_up(disk: &FaultDisk, full: bool) -> Result<Summary, Error> {
    back_up_changed(disk, full, None)
}

/// The same, when the places that may have changed are known.
pub(crate) fn back_up_changed(
    disk: &FaultDisk,
    full: bool,
    changed: Option<ChangedRanges>,
) -> Result<Summary, Error> {
    let failed = |source| Error::Source { name: VOLUME.to_owned(), source };
    let mut scan = Scan::new(disk.open(Path::new(VOLUME)).map_err(failed)?);
    let kept = disk.open(Path::new(KEPT)).ok();
    let request = Request { full, changed, before: kept.as_deref(), jobs: 2, ..Request::new(VOLUME) };
    backup(&opened(disk)?, &mut scan, &request, world())
}

pub(crate) fn back_up_bytes(disk: &FaultDisk, bytes: &[u8]) -> Summary {
    disk.put(Path::new(VOLUME), bytes);
    back_up(disk, false).unwrap()
}

/// A generation, restored into a new file.
pub(crate) fn restored(disk: &FaultDisk, generation: Option<u64>) -> Result<Vec<u8>, Error> {
    disk.remove(Path::new(TARGET)).ok();
    let request = restore::Request::new(generation, 2);
    restore::to_new_file(&repository(disk), disk, Path::new(TARGET), request, world())?;
    Ok(disk.bytes(Path::new(TARGET)).unwrap())
}

pub(crate) fn damages(disk: &FaultDisk) -> Vec<verify::Damage> {
    verify(&repository(disk), 2, None, world()).unwrap().damages
}

/// Fails unless every byte of the repository is sound.
#[track_caller]
pub(crate) fn sound(disk: &FaultDisk) {
    assert_eq!(damages(disk), []);
}

pub(crate) fn keep(disk: &FaultDisk, generations: &[u64]) -> Result<prune::Summary, Error> {
    let keep: BTreeSet<u64> = generations.iter().copied().collect();
    prune(&opened(disk)?, &keep, false, world())
}

pub(crate) fn generations(disk: &FaultDisk) -> Vec<u64> {
    repository(disk).list().unwrap().generations.iter().map(|found| found.number).collect()
}

/// Numbers that look random and are the same every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        // xorshift64*, Vigna 2016
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    /// A block that compresses, or one that does not.
    pub(crate) fn block(&mut self) -> Vec<u8> {
        let noise = self.below(4) == 0;
        let seed = self.next();
        let word = |at: usize| {
            let step = if noise { at as u64 } else { at as u64 / 64 };
            (seed ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).to_le_bytes()[3]
        };
        (0..BLOCK).map(word).collect()
    }

    pub(crate) fn volume(&mut self, blocks: usize) -> Vec<u8> {
        (0..blocks).flat_map(|_| if self.below(3) == 0 { vec![0; BLOCK] } else { self.block() }).collect()
    }
}
