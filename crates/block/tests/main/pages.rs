//! Files with pages that are checked, and that others write meanwhile.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::tree::{self, BadPage, ConcurrentUse, Layout, PageCheck, TreeSource};
use block::{BLOCK, Scan, backup, restore};
use disk::faults::FaultDisk;
use disk::{Disk, RealDisk, Source};

use crate::support::{repository, world};

const FILE: &str = "/data/table.ibd";

/// A page is whole if all its bytes are the same. `then` acts on the file when a bad page was found.
struct Same<Then> {
    then: Then,
    found: AtomicUsize,
    firsts: AtomicUsize,
}

impl<Then> Same<Then> {
    fn new(then: Then) -> Arc<Same<Then>> {
        Arc::new(Same { then, found: AtomicUsize::new(0), firsts: AtomicUsize::new(0) })
    }
}

impl<Then: Fn(usize) + Send + Sync> PageCheck for Same<Then> {
    fn first_bad(
        &self,
        _path: &Path,
        first: &dyn Fn() -> io::Result<Vec<u8>>,
        page_bytes: u32,
        (offset, bytes): (u64, &[u8]),
    ) -> io::Result<Option<BadPage>> {
        assert_eq!(page_bytes, 16_384);
        self.firsts.fetch_add(first()?.len(), Ordering::Relaxed);
        let bad = bytes.chunks_exact(BLOCK).position(|page| page.iter().any(|byte| *byte != page[0]));
        let Some(bad) = bad else { return Ok(None) };
        (self.then)(self.found.fetch_add(1, Ordering::Relaxed) + 1);
        let offset = offset + (bad * BLOCK) as u64;
        Ok(Some(BadPage { number: offset / BLOCK as u64, offset }))
    }
}

fn file() -> Vec<u8> {
    (1..6).flat_map(|page| vec![page; BLOCK]).collect()
}

/// A volume with `file` at its block 1.
fn reader(disk: &FaultDisk, check: Arc<dyn PageCheck>) -> TreeSource {
    let len = file().len() as u64;
    let mut reader = TreeSource::checked(Arc::new(disk.clone()), len + BLOCK as u64, check);
    reader.add_file(BLOCK as u64..BLOCK as u64 + len, FILE.into(), 0, ConcurrentUse::PageWrites(16_384));
    reader
}

fn read(reader: &TreeSource) -> io::Result<Vec<u8>> {
    let mut bytes = vec![9; file().len()];
    let count = reader.read_full_at(BLOCK as u64, &mut bytes)?;
    assert_eq!(count, bytes.len());
    Ok(bytes)
}

fn torn(disk: &FaultDisk) {
    disk.volume(Path::new(FILE)).unwrap().write_at(3 * BLOCK as u64 + 4096, &[77; 512]).unwrap();
}

#[test]
fn torn_once_reread() {
    for heals_after in [1, 9] {
        let disk = FaultDisk::default();
        disk.put(Path::new(FILE), &file());
        torn(&disk);
        let whole = disk.volume(Path::new(FILE)).unwrap();
        let check = Same::new(move |found| {
            if found == heals_after {
                whole.write_at(0, &file()).unwrap();
            }
        });
        let bytes = read(&reader(&disk, check.clone())).unwrap();
        assert!(bytes == file());
        assert_eq!(check.found.load(Ordering::Relaxed), heals_after);
        assert_eq!(check.firsts.load(Ordering::Relaxed), (heals_after + 1) * (64 << 10));
    }
}

#[test]
fn damaged_refused() {
    let disk = FaultDisk::default();
    disk.put(Path::new(FILE), &file());
    torn(&disk);
    let check = Same::new(|_| {});
    let error = read(&reader(&disk, check.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let said = error.to_string();
    for word in [FILE, "page 3,", "byte 49152,", "10 reads", "damaged", "CHECK TABLE"] {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(check.found.load(Ordering::Relaxed), 10);
}

#[test]
fn a_file_that_was_cut_or_is_gone_is_zeros() {
    let disk = FaultDisk::default();
    disk.put(Path::new(FILE), &file());
    let check = Same::new(|_| {});
    let open = reader(&disk, check.clone());
    disk.volume(Path::new(FILE)).unwrap().set_len(2 * BLOCK as u64).unwrap();
    let bytes = read(&open).unwrap();
    assert!(bytes[..2 * BLOCK] == file()[..2 * BLOCK] && bytes[2 * BLOCK..].iter().all(|byte| *byte == 0));
    // The last page has only a part of its bytes: it is torn.
    disk.volume(Path::new(FILE)).unwrap().set_len(2 * BLOCK as u64 - 100).unwrap();
    assert!(read(&open).unwrap_err().to_string().contains("page 1,"));

    disk.remove(Path::new(FILE)).unwrap();
    let gone = reader(&disk, check);
    assert!(read(&gone).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(gone.skip_hole(0).unwrap(), None);
    assert!(gone.absent(0, 3 * BLOCK).unwrap().is_empty());

    disk.put(Path::new(FILE), &[]);
    assert_eq!(reader(&disk, Same::new(|_| {})).skip_hole(0).unwrap(), None);
    // Files that are to stand still must be as long as they were; others may go.
    let of = |care| {
        let mut other = TreeSource::new(Arc::new(disk.clone()), 2 * BLOCK as u64);
        other.add_file(0..2 * BLOCK as u64, FILE.into(), 0, care);
        other
    };
    let still = of(ConcurrentUse::Unchanging);
    assert_eq!(still.skip_hole(0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(still.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let half = [7; BLOCK];
    for content in [None, Some(&half)] {
        match content {
            None => disk.remove(Path::new(FILE)).unwrap(),
            Some(bytes) => disk.put(Path::new(FILE), bytes),
        }
        let passing = of(ConcurrentUse::Removal);
        assert_eq!(passing.skip_hole(0).unwrap(), content.map(|_| 0));
        let mut bytes = [1; 2 * BLOCK];
        assert_eq!(passing.read_at(0, &mut bytes).unwrap(), bytes.len());
        let found = content.map_or([0; BLOCK], |bytes| *bytes);
        assert!(bytes[..BLOCK] == found && bytes[BLOCK..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn undo_truncated() {
    let disk = FaultDisk::default();
    disk.put(Path::new(FILE), &file());
    torn(&disk);
    // It is cut while a torn page of it is read again.
    let cut = disk.volume(Path::new(FILE)).unwrap();
    let check = Same::new(move |_| cut.set_len(2 * BLOCK as u64).unwrap());
    let bytes = read(&reader(&disk, check)).unwrap();
    assert!(bytes[..2 * BLOCK] == file()[..2 * BLOCK] && bytes[2 * BLOCK..].iter().all(|byte| *byte == 0));
}

#[test]
fn pages_that_nobody_can_check_are_refused() {
    let disk = FaultDisk::default();
    disk.put(Path::new(FILE), &file());
    let mut reader = TreeSource::new(Arc::new(disk), BLOCK as u64);
    reader.add_file(0..BLOCK as u64, FILE.into(), 0, ConcurrentUse::PageWrites(16_384));
    assert!(reader.read_at(0, &mut [0; BLOCK]).unwrap_err().to_string().contains("check"));
}

/// Puts a file on the real disk, with nothing of it in the page cache.
fn written(path: &Path, bytes: &[u8]) {
    let mut sink = RealDisk.create(path).unwrap();
    sink.write_all(bytes).unwrap();
    sink.sync().unwrap();
    RealDisk.open(path).unwrap().forget(0, 0);
}

#[test]
fn only_paged_files_are_checked_and_read_around_the_cache() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let top = folder.path().join("data");
    RealDisk.create_folder(&top).unwrap();
    let (table, other) = (top.join("t.ibd"), top.join("t.frm"));
    written(&table, &file());
    let text: Vec<u8> = (0..5 * BLOCK).map(|at| at.to_le_bytes()[0]).collect();
    written(&other, &text);
    let cached = |path: &Path| RealDisk.open(path).unwrap().resident(0, 5 * BLOCK as u64).unwrap().unwrap();
    let layout = Layout::new(tree::list(&RealDisk, &top).unwrap().0, None);
    let paged = BTreeSet::from([PathBuf::from("t.ibd")]);
    let check = Same::new(|_| {});
    let open = || {
        TreeSource::checked(Arc::new(RealDisk), layout.volume_len(), check.clone()).with(
            layout.parts(),
            &|path| {
                let care = if paged.contains(path) {
                    ConcurrentUse::PageWrites(16_384)
                } else {
                    ConcurrentUse::Unchanging
                };
                (top.join(path), care)
            },
        )
    };
    let mut bytes = vec![0; usize::try_from(layout.volume_len()).unwrap()];
    assert_eq!(open().read_full_at(0, &mut bytes).unwrap(), bytes.len());
    for (path, content) in [("t.ibd", file()), ("t.frm", text.clone())] {
        let node = layout.nodes.iter().find(|node| node.path == Path::new(path)).unwrap();
        let at = usize::try_from(node.places().next().unwrap().0.start).unwrap();
        assert!(bytes[at..at + content.len()] == content, "{path}");
    }
    if cached(&table).only_there {
        println!("skipped: the target folder is in memory, so that everything is in the page cache");
    } else {
        assert_eq!(cached(&table).pages, 0);
        assert!(cached(&other).pages > 0);
    }

    let repository =
        block::Repository::new(Box::new(block::Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let request = backup::Request { jobs: 2, ..backup::Request::new("tree") };
    backup(&repository, &mut Scan::new(Box::new(open())), &request, world()).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let back = folder.path().join("back");
    tree::restore(
        &repository,
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        restore::Request::new(None, 2),
        world(),
    )
    .unwrap();
    let mut bytes = vec![0; 5 * BLOCK];
    RealDisk.open(&back.join("t.ibd")).unwrap().read_full_at(0, &mut bytes).unwrap();
    assert!(bytes == file());
}

#[test]
fn a_backup_of_a_damaged_file_says_which_page_it_is() {
    let disk = FaultDisk::default();
    disk.put(Path::new(FILE), &file());
    torn(&disk);
    let mut scan = Scan::new(Box::new(reader(&disk, Same::new(|_| {}))));
    let request = backup::Request { jobs: 2, ..backup::Request::new("tree") };
    let error = backup(&repository(&disk), &mut scan, &request, world()).unwrap_err();
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        said = format!("{said}: {deeper}");
        cause = deeper.source();
    }
    assert!(said.contains(FILE) && said.contains("page 3,"), "{said}");
    assert!(repository(&disk).list().unwrap().generations.is_empty());
}

#[test]
fn blocks_that_are_older_than_their_backup_are_reported() {
    let disk = FaultDisk::default();
    let doubt = |was: &[u8], now: &[u8]| {
        assert_eq!((was.len(), now.len()), (BLOCK, BLOCK));
        was[0] > now[0]
    };
    let back_up = |bytes: &[u8]| {
        disk.put(Path::new(FILE), bytes);
        let mut scan = Scan::new(disk.open(Path::new(FILE)).unwrap());
        let request = backup::Request { jobs: 2, is_suspect: Some(&doubt), ..backup::Request::new("tree") };
        backup(&repository(&disk), &mut scan, &request, world()).unwrap().suspect_blocks
    };
    let mut bytes: Vec<u8> = (0..600).flat_map(|_| [100; BLOCK]).collect();
    assert!(back_up(&bytes).is_empty(), "there is nothing before");
    bytes[7 * BLOCK..8 * BLOCK].fill(101);
    bytes[9 * BLOCK..10 * BLOCK].fill(0);
    bytes[300 * BLOCK] = 99;
    bytes[500 * BLOCK..501 * BLOCK].fill(98);
    assert_eq!(back_up(&bytes), [300, 500], "neither what grew nor what is zeros");
    assert!(back_up(&bytes).is_empty());
    // Block 300 was stored as a difference, so what is compared is older.
    bytes[300 * BLOCK] = 100;
    assert!(back_up(&bytes).is_empty());
}
