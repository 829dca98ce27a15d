//! A repository whose files were changed anywhere returns what was backed up, or an error; verifying finds
//! the change.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use block::backup::Request;
use block::{BLOCK, Folder, Repository, RunContext, Scan, backup, restore, tree, verify};
use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use libfuzzer_sys::fuzz_target;
use progress::Silent;

static NEVER: AtomicBool = AtomicBool::new(false);
const WORLD: RunContext<'static> = RunContext { stop: &NEVER, progress: &Silent };

fn repository(disk: &FaultDisk) -> Repository {
    Repository::new(Box::new(Folder::new(Arc::new(disk.clone()), "/repo".into())))
}

/// A full generation and one of changes, small ones among them; what each holds; the files.
static PRISTINE: LazyLock<(FaultDisk, [Vec<u8>; 2], Vec<PathBuf>)> = LazyLock::new(|| {
    let disk = FaultDisk::default();
    let mut volume: Vec<u8> = (0..6 * BLOCK).map(|at| (at / 100) as u8).collect();
    volume[2 * BLOCK..3 * BLOCK].fill(0);
    let mut states = Vec::new();
    for round in 0..2 {
        volume[5 * round] ^= 255;
        disk.put(Path::new("/volume"), &volume);
        let mut scan = Scan::new(disk.open(Path::new("/volume")).unwrap());
        let request = Request::new("volume");
        backup(&repository(&disk), &mut scan, &request, WORLD).unwrap();
        states.push(volume.clone());
    }
    let files = disk.names().into_iter().filter(|name| name.extension().is_some_and(|end| end == "blk"));
    let files = files.collect();
    (disk, [states.remove(0), states.remove(0)], files)
});

fuzz_target!(|data: &[u8]| {
    let (pristine, states, files) = &*PRISTINE;
    let disk = pristine.after_crash(Unsynced::Keep);
    let mut changed = false;
    for change in data.chunks_exact(4) {
        let file = &files[usize::from(change[0]) % files.len()];
        let mut bytes = disk.bytes(file).unwrap();
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % bytes.len();
        bytes[at] ^= change[3];
        changed |= change[3] != 0;
        disk.put(file, &bytes);
    }
    tree::layout_of(&repository(&disk), None).ok();
    let changed = changed && files.iter().any(|file| disk.bytes(file) != pristine.bytes(file));
    for (generation, state) in (1..).zip(states) {
        let request = restore::Request::new(Some(generation), 1);
        let target = Path::new("/restored");
        if restore::to_new_file(&repository(&disk), &disk, target, request, WORLD).is_ok() {
            assert!(disk.bytes(target).as_ref() == Some(state));
            disk.remove(target).unwrap();
        }
    }
    let found = verify(&repository(&disk), 1, None, WORLD);
    assert_eq!(found.is_ok_and(|found| found.damages.is_empty()), !changed);
});
