//! On the operating system's files: holes, and the page cache.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use block::backup::Request;
use block::{Folder, Repository, Scan, backup, restore};
use disk::{Disk, RealDisk};

use crate::support::{Random, world};

fn back_up_file(repository: &Repository, path: &Path) {
    let request = Request { jobs: 2, ..Request::new("image") };
    let mut scan = Scan::new(RealDisk.open(path).unwrap());
    backup(repository, &mut scan, &request, world()).unwrap();
}

#[test]
fn a_file_with_a_large_hole_is_quick_and_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("image"), folder.path().join("restored"));
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
    let len = 64 << 30;
    file.set_len(len).unwrap();
    file.write_all(&Random(1).volume(3)).unwrap();
    file.seek(SeekFrom::Start(50 << 30)).unwrap();
    file.write_all(&Random(2).volume(300)).unwrap();
    file.sync_all().unwrap();
    back_up_file(&repository, &path);
    let request = restore::Request::new(None, 2);
    restore::to_new_file(&repository, &RealDisk, &target, request, world()).unwrap();
    let (before, after) = (std::fs::metadata(&path).unwrap(), std::fs::metadata(&target).unwrap());
    assert_eq!(after.len(), len);
    assert!(after.blocks() <= before.blocks() + 64, "{} {}", before.blocks(), after.blocks());
    let restored = RealDisk.open(&target).unwrap();
    let mut part = vec![0; 300 * block::BLOCK];
    assert_eq!(restored.read_at(50 << 30, &mut part).unwrap(), part.len());
    assert!(part == Random(2).volume(300));
}

#[test]
fn a_backup_leaves_the_page_cache_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let len = 24 << 20;
    let mut file = std::fs::OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
    file.write_all(&Random(1).volume(len / block::BLOCK)).unwrap();
    file.sync_all().unwrap();
    let source = RealDisk.open(&path).unwrap();
    source.forget(0, len as u64);
    // A page that somebody else is working with.
    file.seek(SeekFrom::Start(9 << 20)).unwrap();
    file.read_exact(&mut vec![0; 2 << 20]).unwrap();
    let before = source.absent(0, len).unwrap();
    back_up_file(&repository, &path);
    assert_eq!(source.absent(0, len).unwrap(), before);
    // A file system in memory, such as tmpfs, can't drop a file's pages, so there is nothing to check.
    let absent: u64 = before.iter().map(|range| range.end - range.start).sum();
    assert!(absent == 0 || absent > 10 << 20, "{before:?}");
}

/// A terabyte of hole: neither read nor compared.
#[test]
fn a_hole_of_a_terabyte_takes_no_memory_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("image"), folder.path().join("restored"));
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let file = std::fs::OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    back_up_file(&repository, &path);
    let request = restore::Request::new(None, 2);
    let restored = restore::to_new_file(&repository, &RealDisk, &target, request, world()).unwrap();
    assert_eq!((restored.written, std::fs::metadata(&target).unwrap().len()), (0, 1 << 40));
}
