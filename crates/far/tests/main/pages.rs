//! Tablespaces on the far side that a server writes meanwhile.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::backup::Request;
use block::tree::{self, BadPage, ConcurrentUse, Layout, PageCheck};
use block::{BLOCK, Folder, Repository, RunContext, backup, restore};
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use disk::{Disk, RealDisk};
use far::InnodbPages;
use progress::Silent;

use crate::support::{Real, TORN, connected_to};

static NEVER: AtomicBool = AtomicBool::new(false);
const WORLD: RunContext<'static> = RunContext { stop: &NEVER, progress: &Silent };

/// A page of tablespace 7 with a full checksum.
fn page(number: u8) -> Vec<u8> {
    let mut page = vec![number; BLOCK];
    page[..38].fill(0);
    (page[7], page[37], page[41]) = (number, 7, 7);
    page[54..58].copy_from_slice(&[0, 0, 0, 0x15]);
    seal(&mut page);
    page
}

fn seal(page: &mut [u8]) {
    let end = page.len() - 4;
    let sum = u32::try_from(crc_fast::checksum(Crc32Iscsi, &page[..end])).unwrap();
    page[end..].copy_from_slice(&sum.to_be_bytes());
}

fn file() -> Vec<u8> {
    (0..6).flat_map(page).collect()
}

fn write(path: &Path, bytes: &[u8]) {
    let mut sink = RealDisk.create(path).unwrap();
    sink.write_all(bytes).unwrap();
}

/// Backs up a folder with a table of these bytes; so many reads are torn. Returns the table, restored.
fn back_up(bytes: &[u8], torn: u64, paged: bool) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("data");
    RealDisk.create_folder(&top).unwrap();
    write(&top.join("t.ibd"), bytes);
    write(&top.join("other"), &[9; 100_000]);
    let layout = Layout::new(tree::list(&RealDisk, &top).unwrap().0, None);
    let machine = Real::default();
    machine.1.store(torn, Ordering::Relaxed);
    let connection = connected_to(&machine);
    let find = |path: &Path| {
        let is_paged = paged && path == Path::new("t.ibd");
        (top.join(path), if is_paged { ConcurrentUse::PageWrites(16_384) } else { ConcurrentUse::Unchanging })
    };
    let mut feed = connection.scan_parts(layout.volume_len(), layout.parts(), &find).unwrap();
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let backed_up = backup(&repository, &mut feed, &Request { jobs: 2, ..Request::new("tree") }, WORLD);
    if let Err(error) = backed_up {
        let mut said = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(deeper) = cause {
            said = format!("{said}: {deeper}");
            cause = deeper.source();
        }
        return Err(said);
    }
    assert!(!paged || machine.1.load(Ordering::Relaxed) == 0, "the file is read around the cache");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let back = folder.path().join("back");
    tree::restore(
        &repository,
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        restore::Request::new(None, 2),
        WORLD,
    )
    .unwrap();
    let mut found = vec![0; bytes.len()];
    RealDisk.open(&back.join("t.ibd")).unwrap().read_full_at(0, &mut found).unwrap();
    Ok(found)
}

#[test]
fn torn_once_reread_there() {
    assert!(back_up(&file(), 1, true).unwrap() == file());
    assert!(back_up(&file(), 0, true).unwrap() == file());
}

#[test]
fn damaged_refused_there() {
    let mut bytes = file();
    bytes[usize::try_from(TORN).unwrap()] ^= 1;
    let said = back_up(&bytes, 0, true).unwrap_err();
    assert!(said.contains("t.ibd: page 3, at byte 49152,") && said.contains("CHECK TABLE"), "{said}");
    assert!(back_up(&bytes, 0, false).unwrap() == bytes, "nobody said that it has pages");
}

#[test]
fn zero_page0_new() {
    let mut bytes = file();
    bytes[..BLOCK].fill(0);
    assert!(back_up(&bytes, 1, true).unwrap() == bytes);
    bytes[2 * BLOCK + 100] ^= 1;
    let said = back_up(&bytes, 0, true).unwrap_err();
    assert!(said.contains("page 2,"), "{said}");
}

#[test]
fn a_first_page_may_be_torn_and_a_file_may_become_another_one() {
    let path = Path::new("t.ibd");
    let intact = InnodbPages::default();
    let check = |first: &[u8], offset: usize, bytes: &[u8]| {
        intact.first_bad(path, &|| Ok(first.to_vec()), 16_384, (offset as u64, bytes)).unwrap()
    };
    let other = BadPage { number: 0, offset: 0 };
    // Its number is another: it may be torn.
    assert_eq!(check(&page(3), BLOCK, &page(1)), Some(other));
    let mut torn = page(0);
    torn[9000] ^= 1;
    assert_eq!(check(&torn, 0, &torn), Some(other));
    assert_eq!(check(&torn, BLOCK, &page(1)), Some(other));
    // As long as the first page is zeros, it is not known what comes.
    assert_eq!(check(&[0; BLOCK], BLOCK, &page(1)), None);
    let mut without = page(1);
    without[..4].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
    without[BLOCK - 8..].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0]);
    assert_eq!(check(&[0; BLOCK], BLOCK, &without), None);
    assert_eq!(check(&page(0), BLOCK, &without), Some(BadPage { number: 1, offset: BLOCK as u64 }));
    assert_eq!(check(&page(0), BLOCK, &page(1)), None);
    // It is known now, and need not be read again.
    let unread = || Err(std::io::ErrorKind::Other.into());
    assert_eq!(intact.first_bad(path, &unread, 16_384, (BLOCK as u64, &page(1))).unwrap(), None);
    assert_eq!(check(&page(0), BLOCK, &page(2)), Some(BadPage { number: 1, offset: BLOCK as u64 }));
    // A table with smaller pages has taken its name.
    let small = |number: u8| {
        let mut page = page(number);
        page.truncate(4096);
        page[57] = 0x13;
        seal(&mut page);
        page
    };
    let all: Vec<u8> = (0..8).flat_map(small).collect();
    assert_eq!(check(&all[..BLOCK], BLOCK, &all[BLOCK..]), None);
    let mut bad = all.clone();
    bad[5 * 4096 + 9] ^= 1;
    assert_eq!(check(&all[..BLOCK], BLOCK, &bad[BLOCK..]), Some(BadPage { number: 5, offset: 5 * 4096 }));
}
