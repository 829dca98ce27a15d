//! Reads around the page cache, and what is written through it.

#![expect(clippy::disallowed_methods, reason = "a test makes its files itself")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use disk::{CacheNeutralRead, Disk, RealDisk, page_size};

const LEN: usize = 64 << 10;

/// A file of zeros, open for writing around the cache; none where the file system does not allow that.
fn written_around(path: &Path) -> Option<File> {
    std::fs::write(path, [0; LEN]).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
    let kept_on_disk =
        RealDisk.open(path).unwrap().resident(0, 1).unwrap().is_some_and(|now| !now.only_there);
    opened.ok().filter(|_| kept_on_disk)
}

const SKIPPED: &str = "skipped: the file system of the target folder has no reads around the page cache";

fn cached(path: &Path) -> u64 {
    RealDisk.open(path).unwrap().resident(0, LEN as u64).unwrap().unwrap().pages
}

fn read(source: &dyn disk::Source) -> Vec<u8> {
    let mut bytes = vec![9; LEN];
    assert_eq!(source.read_full_at(0, &mut bytes).unwrap(), LEN);
    bytes
}

#[test]
fn stale_cache_o_direct() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("table.ibd");
    let Some(file) = written_around(&path) else { return println!("{SKIPPED}") };
    let through = RealDisk.open(&path).unwrap();
    let around = RealDisk.open_direct(&path).unwrap();
    assert!(read(&*through) == [0; LEN]);
    let mut memory = vec![7; 3 * 4096];
    let place = memory.as_ptr().align_offset(4096);
    file.write_all_at(&memory[place..place + 4096], 16_384).unwrap();
    assert!(read(&*around)[16_384..][..4096] == [7; 4096]);
    // What is newer in the cache is read as well.
    memory.fill(8);
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&memory[..4096], 16_384).unwrap();
    assert!(read(&*around)[16_384..][..4096] == [8; 4096]);

    through.write_out().unwrap();
    through.forget(0, 0);
    assert_eq!(cached(&path), 0);
    read(&*around);
    assert_eq!(cached(&path), 0, "the read did not go through the cache");
}

#[test]
fn a_direct_read_leaves_the_cache_to_others() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("table.ibd");
    let Some(_file) = written_around(&path) else { return println!("{SKIPPED}") };
    let all = LEN as u64 / page_size();
    for before in [0, all] {
        let (through, around) = (RealDisk.open(&path).unwrap(), RealDisk.open_direct(&path).unwrap());
        if before == 0 {
            through.forget(0, 0);
        } else {
            read(&*through);
        }
        assert_eq!(cached(&path), before);
        assert_eq!(around.absent(0, LEN).unwrap(), [], "there is nothing to drop afterwards");
        let mut visit = CacheNeutralRead::default();
        visit.look(&*around, 0, LEN).unwrap();
        visit.begin(&*around);
        read(&*around);
        visit.end(&*around);
        around.prefetch(0, LEN as u64);
        around.forget(0, 0);
        assert_eq!(cached(&path), before);
    }
}

#[test]
fn threads_read_around_the_cache_at_the_same_time() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("table.ibd");
    let bytes: Vec<u8> = (0..LEN).map(|at| (at % 253).to_le_bytes()[0]).collect();
    std::fs::write(&path, &bytes).unwrap();
    let source = RealDisk.open_direct(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (source, bytes) = (&source, &bytes);
            scope.spawn(move || {
                for at in (thread * 17..LEN).step_by(611) {
                    let mut buffer = [0; 700];
                    let count = source.read_full_at(at as u64, &mut buffer).unwrap();
                    assert!(buffer[..count] == bytes[at..(at + 700).min(LEN)]);
                }
            });
        }
    });
}

/// Files of the kernel can't be read around the cache, and files in memory only by newer kernels.
#[test]
fn where_it_is_not_possible_a_file_is_read_like_any_other() {
    let mut text = String::new();
    RealDisk.open_direct(Path::new("/proc/version")).unwrap().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("Linux"), "{text}");
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return println!("there is no /dev/shm") };
    let path = folder.path().join("table.ibd");
    std::fs::write(&path, [5; LEN]).unwrap();
    assert!(read(&*RealDisk.open_direct(&path).unwrap()) == [5; LEN]);
}

/// Otherwise the sync at its end would have all of it to write. Nobody else makes Linux write it within half
/// a minute.
#[test]
fn a_file_that_is_written_goes_to_the_disk_meanwhile() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("table.ibd");
    let mut sink = RealDisk.create(&path).unwrap();
    (0..32).for_each(|_| sink.write_all(&vec![1; 1 << 20]).unwrap());
    let source = RealDisk.open(&path).unwrap();
    let dirty = || source.resident(0, 24 << 20).unwrap().filter(|now| !now.only_there)?.dirty;
    let waits = |_: &u32| dirty().is_some_and(|pages| pages > 0);
    let looked = (0..200).take_while(waits).inspect(|_| std::thread::sleep(Duration::from_millis(100)));
    assert!(looked.count() < 200, "{:?} pages are not written", dirty());
}
