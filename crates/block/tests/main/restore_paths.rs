//! Single files and parts of a tree, read or brought back without the rest.

#![expect(clippy::disallowed_methods, reason = "a test makes its files itself")]

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::tree::{self, Files};
use block::{BLOCK, CHUNK, prune};
use disk::{Disk, RealDisk};

use crate::support::{Random, world};
use crate::tree::{back_up, repository, seen};

/// Every file and folder below a path, with the bytes of files, as a disk shows them.
fn listed(disk: &dyn Disk, path: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    if disk.stat(path).unwrap().regular {
        let mut bytes = Vec::new();
        disk.open(path).unwrap().read_to_end(&mut bytes).unwrap();
        found.insert(path.to_owned(), Some(bytes));
        return;
    }
    found.insert(path.to_owned(), None);
    for name in disk.list(path).unwrap() {
        listed(disk, &path.join(name), found);
    }
}

#[test]
fn files_are_read_without_a_restore() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir_all(top.join("a/deep")).unwrap();
    let mut random = Random(11);
    let mut big = random.volume(3 * CHUNK / BLOCK + 40);
    big.truncate(big.len() - 100);
    std::fs::write(top.join("a/big"), &big).unwrap();
    std::fs::write(top.join("a/deep/small"), b"small").unwrap();
    std::fs::write(top.join("a.b"), random.block()).unwrap();
    std::fs::write(top.join("empty"), "").unwrap();
    std::fs::hard_link(top.join("a/big"), top.join("again")).unwrap();
    back_up(folder.path(), &top, None).unwrap();
    let first = big.clone();
    // Some blocks change a little, others altogether, and the file grows into a second place.
    for block in [3, 17, 300, 301, 700] {
        big[block * BLOCK + 9] ^= 1;
    }
    big[400 * BLOCK..420 * BLOCK].copy_from_slice(&random.volume(20));
    big.extend(random.volume(60));
    std::fs::write(top.join("a/big"), &big).unwrap();
    std::fs::write(top.join("new"), "new").unwrap();
    back_up(folder.path(), &top, None).unwrap();

    let (mut there, mut here) = (BTreeMap::new(), BTreeMap::new());
    let files = Files::open(repository(folder.path()), None, &top).unwrap();
    assert_eq!(files.generation(), 2);
    listed(&RealDisk, &top, &mut there);
    listed(&files, &top, &mut here);
    assert!(there == here, "{:?} and {:?}", there.keys(), here.keys());
    assert_eq!(files.stat(Path::new("/elsewhere")).unwrap_err().kind(), ErrorKind::NotFound);
    let big_file = files.open(&top.join("a/big")).unwrap();
    let read = |source: &dyn disk::Source, at: usize, len: usize| {
        let mut buffer = vec![0; len];
        let count = source.read_full_at(at as u64, &mut buffer).unwrap();
        buffer.truncate(count);
        buffer
    };
    for _ in 0..300 {
        let at = random.below(big.len() + BLOCK);
        let most = if random.below(4) == 0 { 2 * CHUNK } else { 3 * BLOCK };
        let len = random.below(most);
        let expected = &big[at.min(big.len())..(at + len).min(big.len())];
        assert!(read(&*big_file, at, len) == expected, "{len} bytes at {at}");
    }
    let before = Files::open(repository(folder.path()), Some(1), Path::new("then")).unwrap();
    let source = before.open(Path::new("then/again")).unwrap();
    // What is being read is not removed.
    let pruned = prune(&repository(folder.path()), &[1].into(), false, world()).unwrap();
    assert_eq!(pruned.left, 1, "{pruned:?}");
    assert!(read(&*big_file, 0, 2 * big.len()) == big);
    assert!(read(&*source, 0, 2 * big.len()) == first, "another name of the file, as it was then");
}

#[test]
fn damage_elsewhere_does_not_disturb_a_read() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    let mut random = Random(5);
    // Blocks that can't be compressed are found in the repository as they are.
    let mut noise = || (0..BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect::<Vec<u8>>();
    // Zeros are in no group, so groups do not begin where windows do.
    let one: Vec<Vec<u8>> = (0..40).map(|at| if at < 5 { vec![0; BLOCK] } else { noise() }).collect();
    let other: Vec<Vec<u8>> = (0..40).map(|_| noise()).collect();
    std::fs::write(top.join("one"), one.concat()).unwrap();
    std::fs::write(top.join("other"), other.concat()).unwrap();
    back_up(folder.path(), &top, None).unwrap();
    let file = folder.path().join("repo/000001.blk");
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = &other[20][..64];
    let at = bytes.windows(64).position(|found| found == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let files = Files::open(repository(folder.path()), None, Path::new("t")).unwrap();
    let mut found = Vec::new();
    files.open(Path::new("t/one")).unwrap().read_to_end(&mut found).unwrap();
    assert!(found == one.concat());
    let source = files.open(Path::new("t/other")).unwrap();
    let mut block = vec![0; BLOCK];
    // Sixteen blocks are one group, so its neighbours are lost too, and no others.
    let read = |at: usize, block: &mut Vec<u8>| source.read_full_at((at * BLOCK) as u64, block);
    let sound = (0..40).filter(|at| read(*at, &mut block).is_ok_and(|_| block == other[*at])).count();
    assert_eq!(sound, 24);
    let error = read(20, &mut block).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("000001.blk at byte"), "{error}");
}

#[test]
fn a_part_of_a_tree_comes_back_without_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir_all(top.join("app/deep")).unwrap();
    std::fs::create_dir_all(top.join("other")).unwrap();
    let mut random = Random(7);
    let noise: Vec<u8> = (0..400).flat_map(|_| random.block()).collect();
    std::fs::write(top.join("app/deep/table"), &noise[..5 * BLOCK + 17]).unwrap();
    std::fs::write(top.join("other/large"), &noise).unwrap();
    std::fs::hard_link(top.join("app/deep/table"), top.join("other/second")).unwrap();
    std::fs::hard_link(top.join("app/deep/table"), top.join("other/third")).unwrap();
    std::os::unix::fs::symlink("deep/table", top.join("app/link")).unwrap();
    std::fs::set_permissions(top.join("app"), PermissionsExt::from_mode(0o2750)).unwrap();
    back_up(folder.path(), &top, None).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let part = |name: &str, wanted: &[&str]| {
        let files = Files::open(repository(folder.path()), None, Path::new("")).unwrap();
        let back = folder.path().join(name);
        let is_wanted = |path: &Path| wanted.iter().any(|wanted| path.starts_with(wanted));
        let done = tree::restore_paths(
            &files,
            tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
            is_wanted,
            world(),
        )
        .unwrap();
        (back, done, files.content().library().fetched())
    };
    let (back, done, fetched) = part("app", &["app"]);
    let wanted: BTreeMap<_, _> =
        seen(&top).into_iter().filter(|(path, _)| path == Path::new("") || path.starts_with("app")).collect();
    assert!(seen(&back) == wanted);
    assert_eq!(done.len, 5 * BLOCK as u64 + 17);
    assert!(fetched < 40 * BLOCK as u64, "{fetched} bytes for six blocks of more than 400");
    // Names of a file that is not wanted itself.
    let (back, ..) = part("names", &["other/second", "other/third"]);
    assert_eq!(std::fs::read(back.join("other/second")).unwrap(), &noise[..5 * BLOCK + 17]);
    let inode = |name: &str| std::fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(inode("other/second"), inode("other/third"));
    assert!(!back.join("app").exists() && !back.join("other/large").exists());
    let again = Files::open(repository(folder.path()), None, Path::new("")).unwrap();
    tree::restore_paths(
        &again,
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        |_| true,
        world(),
    )
    .unwrap_err();
}

#[test]
fn damage_elsewhere_does_not_disturb_a_partial_restore() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    let mut random = Random(9);
    for name in ["a", "b"] {
        // More than a group, so that they have none in common.
        let bytes: Vec<u8> = (0..64 * BLOCK).map(|_| random.next().to_le_bytes()[0]).collect();
        std::fs::write(top.join(name), bytes).unwrap();
    }
    let needle = std::fs::read(top.join("b")).unwrap()[40 * BLOCK..40 * BLOCK + 64].to_vec();
    back_up(folder.path(), &top, None).unwrap();
    let file = folder.path().join("repo/000001.blk");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(needle.len()).position(|found| found == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let part = |wanted: &'static str| {
        let files = Files::open(repository(folder.path()), None, Path::new("")).unwrap();
        let back = folder.path().join("back").join(wanted);
        std::fs::create_dir_all(folder.path().join("back")).unwrap();
        let is_wanted = |path: &Path| path == Path::new(wanted);
        (
            tree::restore_paths(
                &files,
                tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
                is_wanted,
                world(),
            ),
            back,
        )
    };
    part("a").0.unwrap();
    let (failed, back) = part("b");
    assert!(failed.unwrap_err().to_string().contains("000001.blk at byte"));
    assert!(!back.exists() && !disk::Output::partial(&back).exists(), "nothing stays");
}
